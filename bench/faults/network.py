"""A separate network: a namespace for the volume, and a link that can be cut or made to lose packets. Needs root."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

CLIENT_ADDRESS = "198.18.77.1"
SERVER_ADDRESS = "198.18.77.2"
"""Addresses from the network that RFC 2544 reserves for benchmarks."""
_LOSSY = "tbf rate 40mbit burst 16kb limit 20kb"
"""A shaper whose queue is so short that it drops packets of every burst."""


@dataclass(frozen=True)
class Link:
    """The link between the client and the namespace of the volume."""

    name: str

    @property
    def prefix(self) -> tuple[str, ...]:
        """Comes before a command that is to run in the namespace."""
        return ("ip", "netns", "exec", self.name)

    def cut(self) -> None:
        """Nothing passes any more, in either direction."""
        run_command(f"ip -n {self.name} link set {self.name}-s down")

    def mend(self) -> None:
        """Ends a cut."""
        run_command(f"ip -n {self.name} link set {self.name}-s up")

    def lose_packets(self) -> None:
        """Drops packets in both directions from now on."""
        run_command(f"tc qdisc add dev {self.name}-c root {_LOSSY}")
        run_command(f"ip netns exec {self.name} tc qdisc add dev {self.name}-s root {_LOSSY}")

    def dropped(self) -> int:
        """Packets that were dropped on their way to the volume."""
        shown = run_command(f"tc -s qdisc show dev {self.name}-c")
        return sum(map(int, re.findall(r"dropped (\d+)", shown)))


def is_possible() -> bool:
    """True if this process may make namespaces."""
    return os.geteuid() == 0


@contextmanager
def link() -> Iterator[Link]:
    """A link that exists while the context lasts."""
    made = Link(f"iof{os.getpid() % 100_000}")
    run_command(f"ip netns add {made.name}")
    try:
        run_command(f"ip link add {made.name}-c type veth peer name {made.name}-s netns {made.name}")
        run_command(f"ip addr add {CLIENT_ADDRESS}/30 dev {made.name}-c")
        run_command(f"ip link set {made.name}-c up")
        run_command(f"ip -n {made.name} addr add {SERVER_ADDRESS}/30 dev {made.name}-s")
        run_command(f"ip -n {made.name} link set {made.name}-s up")
        yield made
    finally:
        subprocess.run(["ip", "netns", "del", made.name], check=False)


def run_command(command: str) -> str:
    """Runs a command; gives its output. Raises ``CalledProcessError``."""
    return subprocess.run(command.split(), check=True, capture_output=True, text=True).stdout

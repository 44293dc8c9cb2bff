"""A network of its own: a namespace for the volume, and a link that can be cut or made to lose packets. Needs root."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

CLIENT_ADDRESS = "198.18.77.1"
SERVER_ADDRESS = "198.18.77.2"
"""Of the network that RFC 2544 keeps for benchmarks."""
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
        _run(f"ip -n {self.name} link set {self.name}-s down")

    def mend(self) -> None:
        """Ends a cut."""
        _run(f"ip -n {self.name} link set {self.name}-s up")

    def lose_packets(self) -> None:
        """Drops packets in both directions from now on."""
        _run(f"tc qdisc add dev {self.name}-c root {_LOSSY}")
        _run(f"ip netns exec {self.name} tc qdisc add dev {self.name}-s root {_LOSSY}")

    def dropped(self) -> int:
        """Packets that were dropped on their way to the volume."""
        shown = _run(f"tc -s qdisc show dev {self.name}-c")
        return sum(map(int, re.findall(r"dropped (\d+)", shown)))


def is_possible() -> bool:
    """True if this process may make namespaces."""
    return os.geteuid() == 0


@contextmanager
def link() -> Iterator[Link]:
    """A link that exists while the context lasts."""
    made = Link(f"iof{os.getpid() % 100_000}")
    _run(f"ip netns add {made.name}")
    try:
        _run(f"ip link add {made.name}-c type veth peer name {made.name}-s netns {made.name}")
        _run(f"ip addr add {CLIENT_ADDRESS}/30 dev {made.name}-c")
        _run(f"ip link set {made.name}-c up")
        _run(f"ip -n {made.name} addr add {SERVER_ADDRESS}/30 dev {made.name}-s")
        _run(f"ip -n {made.name} link set {made.name}-s up")
        yield made
    finally:
        subprocess.run(["ip", "netns", "del", made.name], check=False)


def _run(command: str) -> str:
    return subprocess.run(command.split(), check=True, capture_output=True, text=True).stdout

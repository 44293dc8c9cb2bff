"""A separate network: a namespace for the volume, and a link that can be cut or made to lose packets. Needs root."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import IPv4Address

_NETWORK = int(IPv4Address("198.18.0.0"))
"""Addresses that RFC 2544 reserves for benchmarks; each link has four of them."""
_LINKS = 1 << 14
_LOSSY = "tbf rate 40mbit burst 16kb limit 20kb"
"""A shaper whose queue is so short that it drops packets of every burst."""


@dataclass(frozen=True)
class Link:
    """The link between the client and the namespace of the volume."""

    number: int

    @property
    def name(self) -> str:
        """The namespace of the volume; the two ends of the link begin with it."""
        return f"iof{self.number}"

    @property
    def client_address(self) -> str:
        """Address of the client's end."""
        return str(IPv4Address(_NETWORK + 4 * self.number + 1))

    @property
    def server_address(self) -> str:
        """Address of the volume's end."""
        return str(IPv4Address(_NETWORK + 4 * self.number + 2))

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
    made = _taken()
    try:
        run_command(f"ip link add {made.name}-c type veth peer name {made.name}-s netns {made.name}")
        run_command(f"ip addr add {made.client_address}/30 dev {made.name}-c")
        run_command(f"ip link set {made.name}-c up")
        run_command(f"ip -n {made.name} addr add {made.server_address}/30 dev {made.name}-s")
        run_command(f"ip -n {made.name} link set {made.name}-s up")
        yield made
    finally:
        subprocess.run(["ip", "netns", "del", made.name], check=False)


def _taken() -> Link:
    """Takes a number that no other program of this machine has: a namespace can be added once."""
    for number in range(os.getpid() % _LINKS, os.getpid() % _LINKS + 1000):
        made = Link(number % _LINKS)
        added = subprocess.run(["ip", "netns", "add", made.name], check=False, capture_output=True, text=True)
        if added.returncode == 0:
            return made
        if "File exists" not in added.stderr:
            raise RuntimeError(f"ip netns add {made.name}: {added.stderr.strip()}")
    raise RuntimeError("a thousand links are taken")


def run_command(command: str) -> str:
    """Runs a command; gives its output. Raises ``CalledProcessError``."""
    return subprocess.run(command.split(), check=True, capture_output=True, text=True).stdout

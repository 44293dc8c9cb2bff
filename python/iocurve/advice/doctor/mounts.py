"""The mounts of a machine: from ``mountinfo``, ``mountstats`` and the table of TCP connections.

Formats: proc(5); Documentation/filesystems/proc.rst; ``nfs_show_stats`` (fs/nfs/super.c), ``rpc_clnt_show_stats``
(net/sunrpc/stats.c) and ``xs_tcp_print_stats`` (net/sunrpc/xprtsock.c) of the Linux kernel.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator

import msgspec
from msgspec.structs import asdict, replace

from iocurve.advice.doctor.host import HostFiles
from iocurve.machine.mounts import MOUNTINFO, Mount, mounts_in, options_of, unescaped
from iocurve.machine.processes import ESTABLISHED, NFS_PORT, tcp_sockets

NETWORK_FILE_SYSTEMS = ("nfs", "nfs4")


class Operation(msgspec.Struct, frozen=True):
    """Counters of one NFS operation since the mount; ``statvers=1.1`` has no errors."""

    operations: int
    transmissions: int
    """Requests sent: more than operations where some were sent again."""
    timeouts: int
    bytes_sent: int
    bytes_received: int
    queue_ms: int
    """Time before the request was sent."""
    rtt_ms: int
    """Time from sending to the reply."""
    execute_ms: int
    """Time from the request of the file system to the end, with both of them."""


class Transport(msgspec.Struct, frozen=True):
    """One connection of a mount as the RPC client sees it, open or idle."""

    source_port: int
    sends: int
    in_flight_total: int
    """Sum over all sends of the requests in flight."""
    backlog_total: int
    """Sum over all sends of the requests that waited for a slot."""
    slots_max: int
    """Most slots in use at once."""
    counters: tuple[int, ...]
    """All counters: equal in two mounts that share the connection."""


class ClientMount(Mount, frozen=True):
    """An NFS mount with its counters."""

    operations: dict[str, Operation] = msgspec.field(default_factory=dict)
    bytes: tuple[int, ...] = ()
    """Bytes: normal read, normal write, direct read, direct write, read from the server, written to the server, …"""
    transports: tuple[Transport, ...] = ()
    open_connections: int | None = None
    """Open TCP connections of this machine to the server's address and port; None if the table is not there."""

    @property
    def server(self) -> str:
        """The server as it was mounted: a name or an address."""
        return self.source.rpartition(":/")[0].strip("[]")

    @property
    def address(self) -> str:
        """The server's address."""
        return self.options.get("addr", self.server)

    @property
    def port(self) -> int:
        """TCP port of the server."""
        return int(self.options.get("port", 0)) or NFS_PORT

    @property
    def version(self) -> str:
        """``3``, ``4.1``."""
        return self.options.get("vers", "3" if self.kind == "nfs" else "4")

    @property
    def nconnect(self) -> int:
        """Connections that the options state; 1 without the option."""
        return int(self.options.get("nconnect", 1))

    @property
    def is_private(self) -> bool | None:
        """True if the server's address is a private one; None if there is no address."""
        try:
            return ipaddress.ip_address(self.address).is_private and not _is_documentation(self.address)
        except ValueError:
            return None

    @property
    def is_tunnelled(self) -> bool:
        """True if the server's address is this machine's own: a program here passes on what is sent there."""
        try:
            return ipaddress.ip_address(self.address).is_loopback
        except ValueError:
            return self.address == "localhost"

    def number_option(self, name: str) -> int | None:
        """The value of an option that is a number."""
        value = self.options.get(name, "")
        return int(value) if value.isdigit() else None


def mounts(host: HostFiles) -> list[Mount]:
    """All mounts in the order of mountinfo; those hidden by a later mount at the same point are left out."""
    stats = dict(nfs_statistics(host.text("proc/self/mountstats")))
    connections = _connections(host)
    found: list[Mount] = []
    for mount in mounts_in(host.text(MOUNTINFO)):
        if mount.kind in NETWORK_FILE_SYSTEMS:
            operations, moved, transports = stats.get(mount.point, ({}, (), ()))
            mount = ClientMount(**asdict(mount), operations=operations, bytes=moved, transports=transports)
            if connections is not None:
                mount = replace(mount, open_connections=connections.count((mount.address, mount.port)))
        found.append(mount)
    return found


Statistics = tuple[dict[str, Operation], tuple[int, ...], tuple[Transport, ...]]


def nfs_statistics(text: str) -> Iterator[tuple[str, Statistics]]:
    """The counters of each NFS mount in mountstats, by mount point."""
    for part in re.split(r"^(?=device )", text, flags=re.MULTILINE):
        head = re.match(r"device .* mounted on (\S+) with fstype nfs4? ", part)
        if head:
            moved = re.search(r"^\s*bytes:\s+([\d ]+)$", part, re.MULTILINE)
            operations = {
                match[1]: Operation(*map(int, match[2].split()[:8]))
                for match in re.finditer(r"^\s*(\w+): ((?:\d+ ){7}\d+(?: \d+)*)\s*$", part, re.MULTILINE)
            }
            transports = tuple(
                _transport([int(word) for word in match[1].split()])
                for match in re.finditer(r"^\s*xprt:\s+tcp ([\d -]+?)\s*$", part, re.MULTILINE)
            )
            sums = tuple(map(int, moved[1].split())) if moved else ()
            yield unescaped(head[1]), (operations, sums, transports)


def fstab_options(host: HostFiles) -> dict[str, dict[str, str]]:
    """Options of the NFS mounts that /etc/fstab asks for, by mount point."""
    lines = (line.split() for line in host.text("etc/fstab").splitlines() if not line.lstrip().startswith("#"))
    return {
        unescaped(words[1]): options_of(words[3])
        for words in lines
        if len(words) >= 4 and words[2] in NETWORK_FILE_SYSTEMS
    }


def _connections(host: HostFiles) -> list[tuple[str, int]] | None:
    """The remote ends of all open connections; None if there is no table."""
    tables = [text for text in (host.text("proc/net/tcp"), host.text("proc/net/tcp6")) if text]
    if not tables:
        return None
    sockets = [one for text in tables for one in tcp_sockets(text, ESTABLISHED)]
    return [remote for _, remote, _ in sockets if remote is not None]


def _transport(words: list[int]) -> Transport:
    """The words after ``xprt: tcp``; kernels before 2.6.37 have no slots."""
    padded = [*words, *[0] * (13 - len(words))]
    return Transport(
        source_port=padded[0],
        sends=padded[5],
        in_flight_total=padded[8],
        backlog_total=padded[9],
        slots_max=padded[10],
        counters=tuple(words),
    )


def _is_documentation(address: str) -> bool:
    """Addresses of documentation stand for public ones in bundles; Python counts them among the private ones."""
    networks = ("203.0.113.0/24", "198.51.100.0/24", "192.0.2.0/24", "2001:db8::/32")
    return any(ipaddress.ip_address(address) in ipaddress.ip_network(network) for network in networks)

"""The mounts of a machine: from ``mountinfo``, ``mountstats`` and the table of TCP connections.

Formats: proc(5); Documentation/filesystems/proc.rst; ``nfs_show_stats`` (fs/nfs/super.c), ``rpc_clnt_show_stats``
(net/sunrpc/stats.c) and ``xs_tcp_print_stats`` (net/sunrpc/xprtsock.c) of the Linux kernel.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from iocurve.advice.doctor.host import Host

NFS_PORT = 2049
ESTABLISHED = "01"
"""State of an open connection in /proc/net/tcp."""
NETWORK_FILE_SYSTEMS = ("nfs", "nfs4")


@dataclass(frozen=True)
class Operation:
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


@dataclass(frozen=True)
class Transport:
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


@dataclass(frozen=True)
class Mount:
    """One line of mountinfo."""

    number: str
    """``MAJOR:MINOR``."""
    source: str
    point: str
    kind: str
    options: dict[str, str]

    @property
    def is_nfs(self) -> bool:
        """True for NFS of any version."""
        return self.kind in NETWORK_FILE_SYSTEMS


@dataclass(frozen=True)
class NfsMount(Mount):
    """An NFS mount with its counters."""

    operations: dict[str, Operation] = field(default_factory=dict)
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

    def number_option(self, name: str) -> int | None:
        """The value of an option that is a number."""
        value = self.options.get(name, "")
        return int(value) if value.isdigit() else None


def mounts(host: Host) -> list[Mount]:
    """All mounts in the order of mountinfo; those hidden by a later mount at the same point are left out."""
    stats = dict(nfs_statistics(host.text("proc/self/mountstats")))
    connections = _connections(host)
    found: dict[str, Mount] = {}
    for line in host.text("proc/self/mountinfo").splitlines():
        mount = _mount(line)
        if mount is None:
            continue
        if mount.is_nfs:
            operations, moved, transports = stats.get(mount.point, ({}, (), ()))
            mount = NfsMount(**vars(mount), operations=operations, bytes=moved, transports=transports)
            if connections is not None:
                number = connections.count((mount.address, mount.port))
                mount = NfsMount(**(vars(mount) | {"open_connections": number}))
        found[mount.point] = mount
    return list(found.values())


def mount_of(path: str, known: list[Mount]) -> Mount | None:
    """The mount that a path is on."""
    inside = [mount for mount in known if path == mount.point or path.startswith(mount.point.rstrip("/") + "/")]
    return max(inside, key=lambda mount: len(mount.point), default=None)


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


def fstab_options(host: Host) -> dict[str, dict[str, str]]:
    """Options of the NFS mounts that /etc/fstab asks for, by mount point."""
    lines = (line.split() for line in host.text("etc/fstab").splitlines() if not line.lstrip().startswith("#"))
    return {
        unescaped(words[1]): options_of(words[3])
        for words in lines
        if len(words) >= 4 and words[2] in NETWORK_FILE_SYSTEMS
    }


def options_of(text: str) -> dict[str, str]:
    """``rw,vers=3`` as names and values."""
    pairs = (option.partition("=") for option in text.split(",") if option)
    return {name: value for name, _, value in pairs}


def unescaped(text: str) -> str:
    r"""Tables of mounts write space, tab, newline and backslash as octal (``\040``)."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)


def tcp_address(text: str) -> tuple[str, int] | None:
    """``0202000A:36E1`` of /proc/net/tcp: words of four bytes in the machine's order, here little-endian."""
    address, _, port = text.partition(":")
    try:
        raw = b"".join(bytes.fromhex(address[place : place + 8])[::-1] for place in range(0, len(address), 8))
        found = ipaddress.ip_address(raw)
        mapped = getattr(found, "ipv4_mapped", None)
        return str(mapped or found), int(port, 16)
    except ValueError:
        return None


def _connections(host: Host) -> list[tuple[str, int]] | None:
    """The remote ends of all open connections; None if there is no table."""
    tables = [text for text in (host.text("proc/net/tcp"), host.text("proc/net/tcp6")) if text]
    if not tables:
        return None
    rows = [line.split() for text in tables for line in text.splitlines()[1:]]
    ends = [tcp_address(row[2]) for row in rows if len(row) > 3 and row[3] == ESTABLISHED]
    return [end for end in ends if end is not None]


def _mount(line: str) -> Mount | None:
    before, _, after = line.partition(" - ")
    fields, rest = before.split(), after.split(maxsplit=2)
    if len(fields) < 6 or len(rest) < 3:
        return None
    return Mount(
        number=fields[2],
        source=unescaped(rest[1]),
        point=unescaped(fields[4]),
        kind=rest[0],
        options=options_of(rest[2]) | options_of(fields[5]),
    )


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

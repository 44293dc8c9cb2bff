"""Finds the processes of this machine that serve a target: those that listen on its port, or the kernel's NFS server.

Sources: ``/proc/net/tcp`` and ``/proc/PID/fd`` (proc(5)); the threads of the kernel's server are named ``nfsd``.
"""

from __future__ import annotations

import ipaddress
import os
import socket
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from iocurve.machine.files import text_of
from iocurve.machine.processes import open_files, process_directories

NFS_PORT = 2049
ESTABLISHED, LISTENING = "01", "0A"
"""States of a socket in ``/proc/net/tcp``."""

Servers = frozenset[int] | None
"""The processes of this machine that serve the targets of a load, without this process, whose CPU time is that of the
load. None if a target is on this machine and no process could be found: it may belong to another user."""
NONE: frozenset[int] = frozenset()
End = tuple[str, int]
"""Address and port of an end of a connection."""


def servers_of(endpoints: Iterable[tuple[str, int | None]], root: Path = Path("/")) -> Servers:
    """The processes that serve endpoints (host and TCP port; None is the port of NFS), where these are local."""
    ports = {port or NFS_PORT for host, port in set(endpoints) if is_local(host)}
    found = {port: _pids_of(port, root / "proc") for port in ports}
    pids = frozenset(pid for of_port in found.values() for pid in of_port)
    return pids - {os.getpid()} if all(found.values()) else None


def is_local(host: str) -> bool:
    """True if an address, or the first address of a name, is one of this machine."""
    own, other = addresses_towards(host) or ("", "no address")
    return own == other or other.startswith("127.")


def addresses_towards(host: str) -> tuple[str, str] | None:
    """This machine's address for packets to a host, and the first address of the host; None without a route."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, NFS_PORT, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            # Connecting a datagram socket sends nothing; it chooses the local address of the route.
            probe.connect(address)
            return str(probe.getsockname()[0]), str(address[0])
    except OSError:
        return None


def _pids_of(port: int, proc: Path) -> set[int]:
    """The processes that hold a listening socket of the port; of a socket without one, the kernel's NFS threads."""
    sockets = [one for name in ("tcp", "tcp6") for one in tcp_sockets(text_of(proc / "net" / name), LISTENING)]
    inodes = {f"socket:[{inode}]" for local, _, inode in sockets if local and local[1] == port}
    if not inodes:
        return set()
    processes = list(process_directories(proc))
    holders = {int(process.name) for process in processes if any(link in inodes for link in _links(process))}
    return holders or {int(process.name) for process in processes if _is_kernel_server(process)}


def _links(process: Path) -> Iterator[str]:
    """The files that a process holds open."""
    for entry in open_files(process):
        with suppress(OSError):
            yield str(entry.readlink())


def _is_kernel_server(process: Path) -> bool:
    return text_of(process / "comm").strip() == "nfsd" and not text_of(process / "cmdline")


def tcp_sockets(table: str, state: str) -> Iterator[tuple[End | None, End | None, str | None]]:
    """The sockets of a state in the text of ``/proc/net/tcp`` or ``tcp6``: local end, remote end, inode."""
    for words in (line.split() for line in table.splitlines()[1:]):
        if words[3:4] == [state]:
            yield tcp_address(words[1]), tcp_address(words[2]), words[9] if len(words) > 9 else None


def tcp_address(text: str) -> End | None:
    """``0202000A:36E1`` of /proc/net/tcp: words of four bytes in the machine's order, here little-endian."""
    address, _, port = text.partition(":")
    try:
        raw = b"".join(bytes.fromhex(address[place : place + 8])[::-1] for place in range(0, len(address), 8))
        found = ipaddress.ip_address(raw)
        mapped = getattr(found, "ipv4_mapped", None)
        return str(mapped or found), int(port, 16)
    except ValueError:
        return None

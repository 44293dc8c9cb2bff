"""Finds the processes of this machine that serve a target: those that listen on its port, or the kernel's NFS server.

Sources: ``/proc/net/tcp`` and ``/proc/PID/fd`` (proc(5)); the threads of the kernel's server are named ``nfsd``.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable, Iterator
from pathlib import Path

NFS_PORT = 2049
LISTENING = "0A"
"""State of a socket in ``/proc/net/tcp``."""


Servers = frozenset[int] | None
"""The processes of this machine that serve the targets of a load, without this process, whose CPU time is that of the
load. None if a target is on this machine and no process could be found: it may belong to another user."""
NONE: frozenset[int] = frozenset()


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
    inodes = {f"socket:[{inode}]" for name in ("tcp", "tcp6") for inode in _listening(proc / "net" / name, port)}
    if not inodes:
        return set()
    processes = [entry for entry in proc.iterdir() if entry.name.isdecimal()]
    holders = {int(process.name) for process in processes if any(link in inodes for link in _links(process / "fd"))}
    return holders or {int(process.name) for process in processes if _is_kernel_server(process)}


def _listening(table: Path, port: int) -> Iterator[str]:
    """The inodes of the sockets that listen on a port."""
    for words in (line.split() for line in _text(table).splitlines()[1:]):
        if len(words) > 9 and words[3] == LISTENING and int(words[1].rpartition(":")[2], 16) == port:
            yield words[9]


def _links(directory: Path) -> Iterator[str]:
    """The files that a process holds open; none of a process of another user, or of one that has ended."""
    try:
        for entry in directory.iterdir():
            yield str(entry.readlink())
    except OSError:
        return


def _is_kernel_server(process: Path) -> bool:
    return _text(process / "comm").strip() == "nfsd" and not _text(process / "cmdline")


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""

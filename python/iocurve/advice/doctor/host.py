"""The files of a machine that doctor reads: a live machine, a directory with its files, or a saved bundle; its mounts.

On Azure its instance metadata service describes the virtual machine:
https://learn.microsoft.com/azure/virtual-machines/instance-metadata-service

Mounts are those of ``mountinfo``, ``mountstats`` and the table of TCP connections. Formats: proc(5);
Documentation/filesystems/proc.rst; ``nfs_show_stats`` (fs/nfs/super.c), ``rpc_clnt_show_stats``
(net/sunrpc/stats.c) and ``xs_tcp_print_stats`` (net/sunrpc/xprtsock.c) of the Linux kernel.
"""

from __future__ import annotations

import ipaddress
import itertools
import json
import re
import urllib.error
import urllib.request
from collections.abc import Iterator
from functools import partial
from http.client import HTTPException
from pathlib import Path
from typing import Literal

import msgspec
from msgspec.structs import asdict, replace

from iocurve.foundation.errors import ResultError
from iocurve.foundation.structs import Struct, refusal
from iocurve.machine.mounts import MOUNTINFO, Mount, mounts_in, options_of, unescaped
from iocurve.machine.processes import ALL, ESTABLISHED, NFS_PORT, STAT, tcp_sockets, ticks

FORMAT: Literal["iocurve-host-1"] = "iocurve-host-1"
READ_BYTES = 64 << 10
TEXT_BYTES_MAX = 4 << 20
"""Longer files are cut: no file that doctor reads is as long."""


class Bundle(Struct):
    """The files of a machine as doctor read them, with names and addresses replaced."""

    format: Literal["iocurve-host-1"] = FORMAT
    about: str = ""
    """The origin of the files, for people."""
    subject: str | None = None
    """The mount or device that doctor examined."""
    texts: dict[str, str]
    """Contents by path, without the leading slash."""
    directories: dict[str, tuple[str, ...]]
    """Names in each directory that was listed."""
    instance: Instance | None = None
    """The virtual machine, where its cloud told."""

    def pretty(self) -> bytes:
        """JSON with a line for each file, for people and for comparisons."""
        return msgspec.json.format(msgspec.json.encode(self), indent=1) + b"\n"

    @classmethod
    def load(cls, path: Path) -> Bundle:
        """Reads a bundle. Raises ``ResultError``."""
        try:
            return cls.from_json(path.read_bytes())
        except OSError as error:
            raise ResultError(f"{path}: {error.strerror}") from None
        except ValueError as error:
            raise ResultError(f"{path} is not a bundle (iocurve doctor --bundle FILE): {refusal(error)}") from None


class HostFiles(msgspec.Struct):
    """Reads files below a root, and keeps what it read. Paths have no leading slash.

    Without a root only what is kept exists.
    """

    root: Path | None = Path("/")
    texts: dict[str, str] = msgspec.field(default_factory=dict)
    directories: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    instance: Instance | None = None

    @classmethod
    def of_bundle(cls, bundle: Bundle) -> HostFiles:
        """The machine of a bundle."""
        return cls(None, dict(bundle.texts), dict(bundle.directories), bundle.instance)

    @property
    def is_live(self) -> bool:
        """True for the machine that this process runs on."""
        return self.root == Path("/")

    def text(self, path: str) -> str:
        """The content of a file; empty if it is not there or cannot be read."""
        if path not in self.texts and self.root is not None:
            try:
                # Linux refuses to read 4 MiB or more of /proc/sys at once (ENOMEM, proc_sys_call_handler).
                with (self.root / path).open("rb", buffering=0) as file:
                    parts = itertools.islice(iter(partial(file.read, READ_BYTES), b""), TEXT_BYTES_MAX // READ_BYTES)
                    self.texts[path] = b"".join(filter(None, parts)).decode("utf-8", errors="replace")
            except OSError:
                return ""
        return self.texts.get(path, "")

    def word(self, path: str) -> str:
        """The content of a file of one line, stripped."""
        return self.text(path).strip()

    def number(self, path: str) -> int | None:
        """The number that a file holds; None if it is not there or holds none."""
        word = self.word(path)
        return int(word) if word.lstrip("-").isdigit() and word.isascii() else None

    def names(self, directory: str) -> tuple[str, ...]:
        """The names in a directory, sorted; none if it is not there."""
        if directory not in self.directories and self.root is not None:
            try:
                self.directories[directory] = tuple(sorted(path.name for path in (self.root / directory).iterdir()))
            except OSError:
                return ()
        return self.directories.get(directory, ())

    @property
    def kernel(self) -> tuple[int, int]:
        """Version of the kernel; (0, 0) if it is not known."""
        parts = self.word("proc/sys/kernel/osrelease").split(".")[:2]
        numbers = [int(digits) for part in parts if (digits := part[: _digits(part)])]
        return (numbers[0], numbers[1]) if len(numbers) == 2 else (0, 0)

    @property
    def cpus(self) -> int:
        """Number of processors; 0 if it is not known."""
        return sum(name != ALL for name in ticks(self.text(STAT)))


def _digits(text: str) -> int:
    return next((place for place, letter in enumerate(text) if not letter.isdigit()), len(text))


URL = "http://169.254.169.254/metadata/instance/compute?api-version=2021-02-01"
TIMEOUT_S = 1.0
"""The service is on the same host: it replies within milliseconds, or there is none."""


class DataDisk(Struct):
    """A data disk of a virtual machine."""

    lun: int
    caching: str
    """None, ReadOnly or ReadWrite."""
    size_gib: int


class Instance(Struct):
    """The size and the disks of a virtual machine; no name, no subscription."""

    vm_size: str
    location: str = ""
    os_disk_caching: str = ""
    data_disks: tuple[DataDisk, ...] = ()


def parse_instance(text: str | bytes) -> Instance | None:
    """Reads the service's reply; None if it is not one."""
    try:
        said = json.loads(text)
        storage = said.get("storageProfile") or {}
        return Instance(
            vm_size=str(said["vmSize"]),
            location=str(said.get("location", "")),
            os_disk_caching=str((storage.get("osDisk") or {}).get("caching", "")),
            data_disks=tuple(
                DataDisk(lun=int(one["lun"]), caching=str(one["caching"]), size_gib=int(one["diskSizeGB"] or 0))
                for one in storage.get("dataDisks", ())
            ),
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def azure_instance(url: str = URL, timeout_s: float = TIMEOUT_S) -> Instance | None:
    """Asks the metadata service; None if there is none. Takes at most about ``timeout_s``."""
    request = urllib.request.Request(url, headers={"Metadata": "true"})
    # The service must be asked directly: a proxy would reply for its own machine.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=timeout_s) as reply:
            return parse_instance(reply.read(1 << 20))
    except (OSError, HTTPException):
        return None


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
        source_port=padded[0], sends=padded[5], backlog_total=padded[9], slots_max=padded[10], counters=tuple(words)
    )


def _is_documentation(address: str) -> bool:
    """Addresses of documentation stand for public ones in bundles; Python counts them among the private ones."""
    networks = ("203.0.113.0/24", "198.51.100.0/24", "192.0.2.0/24", "2001:db8::/32")
    return any(ipaddress.ip_address(address) in ipaddress.ip_network(network) for network in networks)

"""Processes and processors of this machine: identity, CPU time, storage traffic, ports that they serve.

The kernel's counters: ``/proc/PID/stat`` and ``/proc/PID/io`` (proc(5)), and ``/proc/PID/task/TID/schedstat``, whose
first two numbers are the nanoseconds that a thread ran and the nanoseconds that it was ready and waited for a processor
(Documentation/scheduler/sched-stats.rst). Servers are found by ``/proc/net/tcp`` and ``/proc/PID/fd`` (proc(5)); the
threads of the kernel's NFS server are named ``nfsd``.
"""

from __future__ import annotations

import ipaddress
import os
import re
import socket
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from iocurve.machine.files import names_in, text_of

PROC = Path("/proc")
TARGETS: set[int] = set()
"""Processes that this one started and that serve its target."""


@contextmanager
def counted_as_target(pid: int) -> Iterator[None]:
    """Counts the CPU time of a process that this one started as that of the target, while the context lasts."""
    TARGETS.add(pid)
    try:
        yield
    finally:
        TARGETS.discard(pid)


class Process(msgspec.Struct, frozen=True):
    """A process, by what no later process has in common with it."""

    host: str
    pid: int
    start: int
    """Start in clock ticks since boot, since the system reuses process numbers."""

    @classmethod
    def this(cls) -> Process:
        """The process that runs this."""
        pid = os.getpid()
        return cls(os.uname().nodename, pid, start_ticks(pid) or 0)

    @property
    def is_running(self) -> bool:
        """True if it still runs on this machine."""
        return self.host == os.uname().nodename and start_ticks(self.pid) == self.start


class ThreadTimes(msgspec.Struct, frozen=True):
    """The scheduler's counters of a thread at one moment."""

    at_ns: int
    run_ns: int
    delay_ns: int
    """Ready to run, without a processor."""


def start_ticks(pid: int) -> int | None:
    """Start of a process in clock ticks since boot; None for one that has ended, a zombie included."""
    fields = _status(PROC / str(pid))
    return int(fields[19]) if len(fields) > 19 and fields[0] != "Z" else None


def cpu_ns(process: Path) -> int | None:
    """User and system time of a process (its directory in ``/proc``), its threads that have ended included."""
    fields = _status(process)
    if len(fields) < 13:
        return None
    return (int(fields[11]) + int(fields[12])) * (10**9 // os.sysconf("SC_CLK_TCK"))


def thread_times(process: Path) -> Iterator[tuple[int, ThreadTimes]]:
    """The number and the counters of each thread that a process (its directory in ``/proc``) has now."""
    for name in names_in(process / "task"):
        words = text_of(process / "task" / name / "schedstat").split()
        if len(words) >= 2:
            yield int(name), ThreadTimes(time.monotonic_ns(), int(words[0]), int(words[1]))


def run_ns(pid: int) -> int:
    """CPU time of all threads that a process has now; 0 if it is gone."""
    return sum(times.run_ns for _, times in thread_times(PROC / str(pid)))


def io_bytes(process: Path) -> dict[str, int]:
    """The counters of ``io`` of a process (its directory in ``/proc``); those of other users need root."""
    pairs = (line.partition(":") for line in text_of(process / "io").splitlines())
    return {name: int(value) for name, _, value in pairs if value.strip().isdigit()}


def process_directories(proc: Path = PROC) -> Iterator[Path]:
    """The directory of each process in ``/proc``."""
    return (proc / name for name in names_in(proc) if name.isdecimal())


def open_files(process: Path) -> Iterator[Path]:
    """The entries in ``fd`` of a process; none of a process of another user, or of one that has ended."""
    return (process / "fd" / name for name in names_in(process / "fd"))


def children(parent: int) -> Iterator[tuple[int, str]]:
    """The processes that a process has started: number and command line."""
    for process in process_directories():
        if _status(process)[1:2] == [str(parent)]:
            yield int(process.name), text_of(process / "cmdline").replace("\0", " ")


def _status(process: Path) -> list[str]:
    """The fields of ``stat`` after the name of the program, which may have any character and ends at the last
    parenthesis: state, parent, …"""
    return text_of(process / "stat").rpartition(")")[2].split()


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


ALL = "cpu"
"""Name of all processors together in ``/proc/stat``; a single processor is ``cpu0``."""
STAT = "proc/stat"


class Processors(msgspec.Struct, frozen=True):
    """Time of all processors together by state, in per cent."""

    user: float
    system: float
    """Includes interrupts and steal time."""
    wait: float
    """Idle while I/O was outstanding."""
    idle: float
    steal: float = 0.0
    """Taken by the hypervisor for other machines; a part of ``system``."""

    @property
    def used(self) -> float:
        """User and system."""
        return self.user + self.system

    @classmethod
    def mean(cls, several: Sequence[Processors]) -> Processors:
        """The mean over intervals of the same length."""
        sums = (sum(getattr(one, name) for one in several) for name in ("user", "system", "wait", "idle", "steal"))
        return cls(*(total / max(1, len(several)) for total in sums))


class ProcessorMeter:
    """Measures the CPU use between successive samples."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._stat = root / STAT
        self._before = ticks(text_of(self._stat))

    def sample(self) -> Processors | None:
        """CPU use since the last sample or since the start; None if the system does not publish it."""
        before, self._before = self._before, ticks(text_of(self._stat))
        return shares(before[ALL], self._before[ALL]) if ALL in before and ALL in self._before else None


def ticks(stat: str) -> dict[str, list[int]]:
    """Clock ticks since boot: user, nice, system, idle, iowait, irq, softirq, steal.

    The guest columns that follow are left out, because user includes them.
    """
    lines = (line.split() for line in stat.splitlines() if re.match(r"cpu\d*\s", line))
    return {name: [int(word) for word in words[:8]] for name, *words in lines if len(words) >= 8}


def shares(then: Sequence[int], now: Sequence[int]) -> Processors | None:
    """Shares of the ticks between two readings; None if no time has passed."""
    # The kernel may take back idle ticks that it had counted.
    passed = [max(0, late - early) for late, early in zip(now, then, strict=True)]
    total = sum(passed)
    if total <= 0:
        return None
    user, nice, system, idle, wait, irq, softirq, steal = (100 * ticks / total for ticks in passed)
    return Processors(user + nice, system + irq + softirq + steal, wait, idle, steal)


# ---- topology

_CPUS = "sys/devices/system/cpu"
_NODES = "sys/devices/system/node"


class Processor(msgspec.Struct, frozen=True):
    """A logical processor with its core, socket and NUMA node."""

    number: int
    core: int
    """Core number, unique over all sockets."""
    socket: int
    node: int


class Topology(msgspec.Struct, frozen=True):
    """The processors of a machine, from Linux's sysfs."""

    name: str
    processors: tuple[Processor, ...]
    power_scheme: str
    """The CPU frequency governor; empty if there is none."""

    @property
    def cores(self) -> int:
        """Number of physical cores."""
        return len({processor.core for processor in self.processors})

    @property
    def sockets(self) -> int:
        """Number of sockets in use."""
        return len({processor.socket for processor in self.processors})

    @property
    def nodes(self) -> int:
        """Number of NUMA nodes in use."""
        return len({processor.node for processor in self.processors})

    @property
    def has_threads(self) -> bool:
        """True if a core has several logical processors."""
        return self.cores < len(self.processors)


def topology_of(name: str, root: Path = Path("/")) -> Topology:
    """Reads the topology of this machine, called ``name``, from ``root``/sys."""
    numbers = _numbers(text_of(root / _CPUS / "online").strip()) or [0]
    nodes = _nodes(root)
    cores: dict[tuple[int, int], int] = {}
    processors = []
    for number in numbers:
        topology = root / _CPUS / f"cpu{number}" / "topology"
        socket = _integer(text_of(topology / "physical_package_id").strip(), 0)
        core = (socket, _integer(text_of(topology / "core_id").strip(), number))
        processors.append(Processor(number, cores.setdefault(core, len(cores)), max(0, socket), nodes.get(number, 0)))
    return Topology(name, tuple(processors), text_of(root / _CPUS / "cpu0/cpufreq/scaling_governor").strip())


def _nodes(root: Path) -> dict[int, int]:
    """NUMA node by processor number."""
    return {
        number: node
        for node in _numbers(text_of(root / _NODES / "online").strip())
        for number in _numbers(text_of(root / _NODES / f"node{node}" / "cpulist").strip())
    }


def _numbers(text: str) -> list[int]:
    """Expands ``0-3,6`` to a list."""
    numbers: list[int] = []
    for word in filter(None, text.split(",")):
        first, _, last = word.partition("-")
        if not re.fullmatch(r"\d{1,6}", first, re.ASCII) or not re.fullmatch(r"\d{0,6}", last, re.ASCII):
            return []
        numbers += range(int(first), int(last or first) + 1)
    return numbers


def _integer(text: str, default: int) -> int:
    return int(text) if re.fullmatch(r"-?\d{1,9}", text, re.ASCII) else default

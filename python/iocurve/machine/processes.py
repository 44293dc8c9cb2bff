"""Processes of this machine: who they are, their CPU time and their storage traffic.

The kernel's counters: ``/proc/PID/stat`` and ``/proc/PID/io`` (proc(5)), and ``/proc/PID/task/TID/schedstat``, whose
first two numbers are the nanoseconds that a thread ran and the nanoseconds that it was ready and waited for a processor
(Documentation/scheduler/sched-stats.rst).
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

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


@dataclass(frozen=True)
class Process:
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


@dataclass(frozen=True)
class ThreadTimes:
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

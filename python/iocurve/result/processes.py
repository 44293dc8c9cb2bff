"""Meters the CPU time and the storage traffic of this process, its threads and the processes that it started.

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

from iocurve.result.document import MachineUse
from iocurve.result.servers import NONE, Servers
from iocurve.units import SECOND_NS

_STARTED: set[int] = set()


@contextmanager
def counted_as_target(pid: int) -> Iterator[None]:
    """Counts the CPU time of a process that this one started as that of the target, while the context lasts."""
    _STARTED.add(pid)
    try:
        yield
    finally:
        _STARTED.discard(pid)


@dataclass(frozen=True)
class ThreadTimes:
    """The scheduler's counters of a thread at one moment."""

    at_ns: int
    run_ns: int
    delay_ns: int
    """Ready to run, without a processor."""


class ProcessMeter:
    """CPU use of this process, its threads and its children from now on, and of the target's servers."""

    def __init__(self, root: Path = Path("/"), servers: Servers = NONE) -> None:
        self._servers, self._is_known = servers or NONE, servers is not None
        self._self = root / "proc/self"
        self._proc = root / "proc"
        self._started_ns = time.monotonic_ns()
        self._cpu_ns = _process_cpu_ns(self._self)
        self._targets = self._targets_cpu_ns()
        self._io = _io(self._self)
        self._own: set[int] = set()
        self._first = self._threads()
        self._last = dict(self._first)

    def poll(self) -> None:
        """Reads the counters of the threads that there are now."""
        now = self._threads()
        for thread, times in now.items():
            self._first.setdefault(thread, times)
        self._last |= now

    def added(self, use: MachineUse) -> MachineUse:
        """The use of the machine with what this process and its children had of it."""
        self.poll()
        elapsed_ns = time.monotonic_ns() - self._started_ns
        own_ns = _process_cpu_ns(self._self)
        if own_ns is None or self._cpu_ns is None or elapsed_ns <= 0:
            return use
        own = (own_ns - self._cpu_ns) / elapsed_ns / use.cpus
        targets = self._targets_cpu_ns()
        target = sum(spent - self._targets.get(pid, spent) for pid, spent in targets.items()) / elapsed_ns / use.cpus
        others = max(0.0, use.busy_share - (use.steal_share or 0.0) - own - target)
        busy, delayed = self._busiest(own=True)
        _, target_delayed = self._busiest(own=False)
        return use.replace(
            own_share=min(1.0, own),
            # The CPU time of a server that is not known is among that of others, and cannot be told from it.
            target_share=min(1.0, target) if self._is_known else None,
            others_share=others if self._is_known else None,
            thread_busy_share=busy,
            thread_delay_share=delayed,
            target_delay_share=target_delayed,
            **self._moved(),
        )

    def _moved(self) -> dict[str, int | None]:
        now = _io(self._self)
        return {
            f"device_{name}": now[name] - self._io[name] if name in now and name in self._io else None
            for name in ("read_bytes", "write_bytes")
        }

    def _busiest(self, *, own: bool) -> tuple[float | None, float | None]:
        """The largest run time and the largest delay of a thread, of the time for which it was seen."""
        spans = [
            (self._first[thread], last)
            for thread, last in self._last.items()
            if last.at_ns > self._first[thread].at_ns and (thread in self._own) is own
        ]
        if not spans:
            return None, None
        busy = max((last.run_ns - first.run_ns) / (last.at_ns - first.at_ns) for first, last in spans)
        delayed = max((last.delay_ns - first.delay_ns) / (last.at_ns - first.at_ns) for first, last in spans)
        return min(1.0, busy), min(1.0, delayed)

    def _threads(self) -> dict[int, ThreadTimes]:
        """The counters of all threads but this process's main one, which only waits for the load."""
        own = dict(_thread_times(self._self))
        self._own |= own.keys()
        targets = {
            thread: times
            for pid in _STARTED | self._servers
            for thread, times in _thread_times(self._proc / str(pid))
            # The main thread of an embedded volume only waits.
            if thread != pid or pid not in _STARTED
        }
        own.pop(os.getpid(), None)
        return own | targets

    def _targets_cpu_ns(self) -> dict[int, int]:
        found = {pid: _process_cpu_ns(self._proc / str(pid)) for pid in _STARTED | self._servers}
        return {pid: cpu_ns for pid, cpu_ns in found.items() if cpu_ns is not None}


def run_ns(pid: int) -> int:
    """CPU time of all threads that a process has now; 0 if it is gone."""
    return sum(times.run_ns for _, times in _thread_times(Path("/proc") / str(pid)))


def children(parent: int) -> Iterator[tuple[int, str]]:
    """The processes that a process has started: number and command line."""
    for name in _names(Path("/proc")):
        if name.isdecimal() and _text(Path("/proc") / name / "stat").rpartition(")")[2].split()[1:2] == [str(parent)]:
            yield int(name), _text(Path("/proc") / name / "cmdline").replace("\0", " ")


def _thread_times(process: Path) -> Iterator[tuple[int, ThreadTimes]]:
    for name in _names(process / "task"):
        words = _text(process / "task" / name / "schedstat").split()
        if len(words) >= 2:
            yield int(name), ThreadTimes(time.monotonic_ns(), int(words[0]), int(words[1]))


def _process_cpu_ns(process: Path) -> int | None:
    """User and system time of a process, its threads that have ended included."""
    # The name of the command, in parentheses, may hold spaces.
    words = _text(process / "stat").rpartition(")")[2].split()
    if len(words) < 13:
        return None
    return (int(words[11]) + int(words[12])) * (SECOND_NS // os.sysconf("SC_CLK_TCK"))


def _io(process: Path) -> dict[str, int]:
    pairs = (line.partition(":") for line in _text(process / "io").splitlines())
    return {name: int(value) for name, _, value in pairs if value.strip().isdigit()}


def _names(directory: Path) -> list[str]:
    try:
        return [entry.name for entry in directory.iterdir()]
    except OSError:
        return []


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""

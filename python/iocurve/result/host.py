"""Facts of the machine that generates the load, from Linux's ``/proc`` and ``/etc``.

Facts that the system does not publish are ``unknown``: a missing fact never stops a measurement.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from iocurve.machine import processes
from iocurve.machine.files import UNKNOWN, cpu_model, distribution, memory, text_of
from iocurve.machine.mounts import mounts, nearest
from iocurve.machine.processes import ALL, NONE, STAT, Servers, shares, ticks
from iocurve.result.document import HostFacts, MachineUse, MountFacts, ProcessorUse


def collect(root: Path = Path("/")) -> HostFacts:
    """Collects the facts of this machine; ``root`` is the directory with ``proc`` and ``etc``."""
    return HostFacts(
        hostname=os.uname().nodename or UNKNOWN,
        cpu_model=cpu_model(root),
        cpus=len(os.sched_getaffinity(0)),
        memory_bytes=memory(text_of(root / "proc/meminfo")).get("MemTotal", 0) * 1024,
        kernel=text_of(root / "proc/sys/kernel/osrelease").strip() or UNKNOWN,
        distribution=distribution(root),
        tcp_congestion_control=text_of(root / "proc/sys/net/ipv4/tcp_congestion_control").strip() or None,
        python=".".join(map(str, sys.version_info[:3])),
    )


def mount_of(path: Path, root: Path = Path("/")) -> MountFacts | None:
    """The mounted file system that ``path`` (or, if it does not exist yet, its nearest parent) is on."""
    mount = nearest(path.resolve(), mounts(root))
    if mount is None:
        return None
    return MountFacts(device=mount.source, mount_point=mount.point, file_system=mount.kind, options=mount.option_text)


class MachineMeter:
    """Measures the CPU use of the machine from now on, all processes included.

    It tells the share of this process, its threads and its children, and that of the target's servers.
    """

    def __init__(self, root: Path = Path("/"), servers: Servers = NONE) -> None:
        self._stat = root / STAT
        self._start = ticks(text_of(self._stat))
        self._servers, self._is_known = servers or NONE, servers is not None
        self._self = root / "proc/self"
        self._proc = root / "proc"
        self._started_ns = time.monotonic_ns()
        self._cpu_ns = processes.cpu_ns(self._self)
        self._targets = self._targets_cpu_ns()
        self._io = processes.io_bytes(self._self)
        self._own: set[int] = set()
        self._first = self._threads()
        self._last = dict(self._first)

    def poll(self) -> None:
        """Reads the counters of the threads that there are now, which are gone once a thread has ended."""
        now = self._threads()
        for thread, times in now.items():
            self._first.setdefault(thread, times)
        self._last |= now

    def use(self) -> MachineUse | None:
        """CPU use since the meter was created; None if the system does not publish it."""
        since_boot = ticks(text_of(self._stat))
        of_each = {name: shares(self._start[name], now) for name, now in since_boot.items() if name in self._start}
        whole = of_each.pop(ALL, None)
        if whole is None:
            return None
        each = [
            ProcessorUse(processor=int(name[3:]), user_share=share.user / 100, system_share=share.system / 100)
            for name, share in of_each.items()
            if share is not None
        ]
        cpus = os.cpu_count() or 1
        busy_share, steal_share = min(1.0, whole.used / 100), whole.steal / 100
        return self.added(MachineUse(busy_share=busy_share, cpus=cpus, processors=tuple(each), steal_share=steal_share))

    def added(self, use: MachineUse) -> MachineUse:
        """The use of the machine with what this process and its children had of it."""
        self.poll()
        elapsed_ns = time.monotonic_ns() - self._started_ns
        own_ns = processes.cpu_ns(self._self)
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
        now = processes.io_bytes(self._self)
        return {
            f"device_{name}": now[name] - self._io[name] if name in now and name in self._io else None
            for name in ("read_bytes", "write_bytes")
        }

    def _busiest(self, *, own: bool) -> tuple[float | None, float | None]:
        """The largest run time and the largest delay of a thread, of the time for which it was seen.

        A thread that was seen for less than a quarter of the longest time is left out: one that begins only waits.
        """
        seen = [
            (last.at_ns - self._first[thread].at_ns, self._first[thread], last)
            for thread, last in self._last.items()
            if (thread in self._own) is own
        ]
        least_ns = max((seen_ns for seen_ns, *_ in seen), default=0) / 4
        spans = [(first, last) for seen_ns, first, last in seen if seen_ns and seen_ns >= least_ns]
        if not spans:
            return None, None
        busy = max((last.run_ns - first.run_ns) / (last.at_ns - first.at_ns) for first, last in spans)
        delayed = max((last.delay_ns - first.delay_ns) / (last.at_ns - first.at_ns) for first, last in spans)
        return min(1.0, busy), min(1.0, delayed)

    def _threads(self) -> dict[int, processes.ThreadTimes]:
        """The counters of all threads but this process's main one, which only waits for the load."""
        own = dict(processes.thread_times(self._self))
        self._own |= own.keys()
        targets = {
            thread: times
            for pid in processes.TARGETS | self._servers
            for thread, times in processes.thread_times(self._proc / str(pid))
            # The main thread of an embedded volume only waits.
            if thread != pid or pid not in processes.TARGETS
        }
        own.pop(os.getpid(), None)
        return own | targets

    def _targets_cpu_ns(self) -> dict[int, int]:
        found = {pid: processes.cpu_ns(self._proc / str(pid)) for pid in processes.TARGETS | self._servers}
        return {pid: cpu_ns for pid, cpu_ns in found.items() if cpu_ns is not None}

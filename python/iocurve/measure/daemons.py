"""The daemons of a cluster beside a load client: their processors, and what they cost while no load runs."""

from __future__ import annotations

import os
import time

from iocurve.measure import spin
from iocurve.result.document import IdleCost
from iocurve.result.processes import children, run_ns
from iocurve.units import SECOND_NS


class Daemons:
    """The process that started this one, and its other children that are no load clients."""

    def __init__(self) -> None:
        self._parent = os.getppid()

    def free_processors(self) -> set[int]:
        """The processors of this machine that the daemons do not use."""
        _bind(range(os.cpu_count() or 1))
        return os.sched_getaffinity(0) - self._processors()

    def leave_processors(self, threads: int) -> None:
        """Lets this thread, and those it starts, use all processors, but those of the daemons only if they are needed.

        Threads inherit the processors of the thread that starts them; the daemons are bound to some.
        """
        free = self.free_processors()
        if len(free) >= threads:
            _bind(free)

    def idle_cost(self, name: str, seconds: float) -> IdleCost:
        """Measures what the daemons cost; ``name`` is that of the client."""
        free = self.free_processors() or os.sched_getaffinity(0)
        used_ns, started_ns = self._run_ns(), time.monotonic_ns()
        longest_ns, lost_ns = spin.gaps(seconds, max(free))
        elapsed_ns = time.monotonic_ns() - started_ns
        return IdleCost(
            client=name,
            seconds=elapsed_ns / SECOND_NS,
            daemon_share=(self._run_ns() - used_ns) / elapsed_ns,
            daemon_processors=tuple(sorted(self._processors())),
            longest_gap_ns=longest_ns,
            gap_share=lost_ns / (seconds * SECOND_NS),
        )

    def _processors(self) -> set[int]:
        return os.sched_getaffinity(self._parent)

    def _run_ns(self) -> int:
        """CPU time of the daemons."""
        siblings = [pid for pid, line in children(self._parent) if pid != os.getpid() and not line.startswith("ray::")]
        return sum(map(run_ns, (self._parent, *siblings)))


def _bind(processors: range | set[int]) -> None:
    os.sched_setaffinity(0, processors)

"""Runs for hours, in which nothing may leak (``make soak``)."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from iocurve.dialects.fio.command import read_command
from iocurve.engine.outcome import Outcome
from iocurve.foundation.units import MIB
from iocurve.measure import local


@dataclass(frozen=True)
class Held:
    """Memory and descriptors of a process."""

    descriptors: int
    threads: int
    resident_bytes: int

    @classmethod
    def by(cls, pid: int) -> Held:
        """Memory and descriptors of a process now."""
        process = Path("/proc") / str(pid)
        pages = int((process / "statm").read_text().split()[1])
        held = [len(list((process / part).iterdir())) for part in ("fd", "task")]
        return cls(held[0], held[1], pages * os.sysconf("SC_PAGE_SIZE"))

    @property
    def resident_mib(self) -> float:
        """The resident set."""
        return self.resident_bytes / MIB


def run(job: Sequence[str], place: Path) -> Outcome:
    """Runs a job of fio in this process. Raises ``RuntimeError`` unless it finishes."""
    outcome = local.run(read_command(job, cwd=place, environment={}).plan, poll_s=0.01)
    if outcome.state != "finished":
        raise RuntimeError(f"a run {outcome.state}: {outcome.workers[0].error}")
    return outcome


def interval_sums(outcome: Outcome) -> tuple[int, list[str]]:
    """Operations of the window, and where the intervals do not sum to the totals."""
    operations, faults = 0, []
    for worker in outcome.workers:
        sums: Counter[tuple[str, str]] = Counter()
        for interval in worker.intervals:
            for kind, part in interval.operations.items():
                if not interval.ramp:
                    sums[kind, "operations"] += part.operations
                    sums[kind, "bytes"] += part.bytes
        for kind, total in worker.operations.items():
            operations += total.operations
            found = (sums[kind, "operations"], sums[kind, "bytes"])
            if found != (total.operations, total.bytes):
                faults.append(f"intervals of {kind} sum to {found}, not to {(total.operations, total.bytes)}")
    return operations, faults

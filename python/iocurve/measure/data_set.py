"""The files that a scenario or a search loads: equal parts of one data set on one target."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from iocurve import _native
from iocurve.engine.plan import Plan
from iocurve.errors import Mistake, PlanError
from iocurve.job.model import Said
from iocurve.job.target_fields import target_fields
from iocurve.targets.opened_target import OpenedTarget
from iocurve.units import MIB, format_bytes

MULTIPLE_BYTES = MIB
"""Sizes of files are multiples of this, the largest block that a scenario uses."""
PROCESSORS_MAX = 4
"""A load of a worker for each processor has at most so many."""


@dataclass(frozen=True)
class DataSet:
    """Files of our own, or equal parts of a file or device that was named."""

    opened: OpenedTarget
    stem: str
    """Start of the files' names."""
    count: int
    file_bytes: int

    @classmethod
    def of(cls, opened: OpenedTarget, stem: str, count: int, size_bytes: int) -> DataSet:
        """A data set of at most ``size_bytes`` in at most ``count`` files of whole MiB.

        A file or device that is smaller is used as it is. Raises ``PlanError`` where less than 1 MiB is left.
        """
        room = size_bytes if opened.bytes is None else min(size_bytes, opened.bytes)
        files = min(count, room // MULTIPLE_BYTES)
        if not files:
            raise PlanError([Mistake(f"a data set of {format_bytes(room)} is too small: 1 MiB is the least")])
        return cls(opened, stem, files, room // files // MULTIPLE_BYTES * MULTIPLE_BYTES)

    def section(self, numbers: Sequence[int]) -> Said:
        """Fields of a worker that uses these files."""
        there = target_fields(self.opened).but(size=len(numbers) * self.file_bytes)
        if self.opened.path is None:
            return there.but(paths=tuple(f"{self.stem}.{number}" for number in numbers))
        # The parts of a named file lie beside each other.
        return there.but(paths=(self.opened.path,), offset=numbers[0] * self.file_bytes)

    def share(self, worker: int, workers: int) -> Said:
        """Fields of one of several workers: all files are used, none by two unless there are more workers."""
        return self.section(self._numbers(worker, workers))

    def _numbers(self, worker: int, workers: int) -> list[int]:
        if self.count <= workers:
            return [worker % self.count]
        if self.opened.path is not None:
            return list(range(worker * self.count // workers, (worker + 1) * self.count // workers))
        return list(range(worker, self.count, workers))


def remove_files(plans: Iterable[Plan], opened: Iterable[OpenedTarget]) -> None:
    """Removes the files that plans made; a file or device that was there before stays. Raises ``TargetError``."""
    kept = {str(Path(one.path).absolute()) for one in opened if one.path}
    for plan in plans:
        paths = {file.path for group in plan.groups for worker in group.workers for file in worker.files}
        if not paths & kept:
            _native.remove_files(plan.to_json())


def processors() -> list[int]:
    """Processors that workers of a load are bound to, in turn."""
    return sorted(os.sched_getaffinity(0))


def pinned(opened: OpenedTarget, worker: int) -> Said:
    """Binds a worker to one processor, where its connections are: both ends of a connection on one core win over ends
    on different cores."""
    if opened.nconnect is None:
        return Said()
    cpus = processors()
    return Said.of(cpus=(cpus[worker % len(cpus)],))

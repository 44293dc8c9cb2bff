"""Everything that output in fio's formats is made from, apart from the result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Literal, TypeVar

from iocurve.dialects.fio.job import SectionReport
from iocurve.dialects.fio.output.disk_util import DiskWatch
from iocurve.engine.plan import Plan
from iocurve.job.model import Job, PlanNote
from iocurve.job.resolve import ReportGroup

Value = TypeVar("Value")
Format = Literal["normal", "json", "json+", "terse"]


@dataclass(frozen=True)
class Output:
    """Settings from fio's output options."""

    path: Path | None = None
    """File of --output; None: standard output."""
    formats: tuple[Format, ...] = ("normal",)
    terse_version: Literal[2, 3, 4, 5] = 3
    eta: Literal["auto", "always", "never"] = "auto"
    """Value of --eta: when progress is shown."""
    state_directory: Path = Path()
    """Value of --aux-path: directory of verify state files."""


@dataclass(frozen=True, kw_only=True)
class Invocation:
    """The part of a prepared command line that fio's output needs."""

    notes: tuple[PlanNote, ...]
    job: Job
    plan: Plan
    output: Output
    sections: tuple[SectionReport, ...]
    report_groups: tuple[ReportGroup, ...]
    placement: tuple[frozenset[int], ...] = ()
    """The clients that run each section, by their position in the command line; empty without clients."""
    disks: DiskWatch = field(default_factory=DiskWatch, compare=False, repr=False)
    """Counters of the disks during the run."""

    def runs_on(self, group: int, worker: int, client: int) -> bool:
        """True if a client runs this worker of the plan: one of a job file that follows its --client, as in fio."""
        if not self.placement:
            return True
        return client in self._hosts_of_workers[group, worker]

    @cached_property
    def _hosts_of_workers(self) -> dict[tuple[int, int], frozenset[int]]:
        return self.by_worker(self.placement)

    def by_worker(self, of_sections: Sequence[Value]) -> dict[tuple[int, int], Value]:
        """The value of a section for each of its workers, by group and number in the group."""
        workers = [(group, index) for group, one in enumerate(self.plan.groups) for index in range(len(one.workers))]
        placed = zip(self.job.sections, of_sections, strict=True)
        values = [value for section, value in placed for _ in range(section.numjobs)]
        return dict(zip(workers, values, strict=True))

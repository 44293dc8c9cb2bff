"""Everything that output in fio's formats is made from, apart from the result."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Literal

from iocurve.dialects.fio.job import SectionReport
from iocurve.dialects.fio.output.disk_util import DiskWatch
from iocurve.engine.plan import Plan
from iocurve.job.model import Job, PlanNote
from iocurve.job.resolve import ReportGroup

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
        return client in self._hosts_of_workers[group][worker]

    @cached_property
    def _hosts_of_workers(self) -> list[list[frozenset[int]]]:
        """The clients that run each worker, by group and number in the group."""
        placed = zip(self.job.sections, self.placement, strict=True)
        hosts = iter([hosts for section, hosts in placed for _ in range(section.numjobs)])
        return [list(islice(hosts, len(group.workers))) for group in self.plan.groups]

"""Everything that output in fio's formats is made from, apart from the result."""

from __future__ import annotations

from dataclasses import dataclass, field
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
    disks: DiskWatch = field(default_factory=DiskWatch, compare=False, repr=False)
    """Counters of the disks during the run."""

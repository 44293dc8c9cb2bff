"""A fio command line that was read: the plan, the job sections and the output settings."""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from iocurve.dialects.base import Prepared
from iocurve.dialects.fio.job import SectionReport
from iocurve.dialects.fio.output.disk_util import DiskWatch
from iocurve.engine.plan import Plan
from iocurve.job.model import Job
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
class Invocation(Prepared, ABC):
    """Everything that output in fio's formats is made from, apart from the result."""

    job: Job
    plan: Plan
    output: Output
    sections: tuple[SectionReport, ...]
    report_groups: tuple[ReportGroup, ...]
    check_only: bool
    """True with --parse-only or --showcmd: nothing runs."""
    command_lines: tuple[str, ...]
    """Output of --showcmd, a line for each job file."""
    arguments: tuple[str, ...]
    disks: DiskWatch = field(default_factory=DiskWatch, compare=False, repr=False)
    """Counters of the disks during the run."""

    @property
    def plans(self) -> Sequence[Plan]:
        """The single plan."""
        return (self.plan,)

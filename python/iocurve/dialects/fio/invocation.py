"""A fio command line that was understood: what runs, and which form the answer has."""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from iocurve.dialects.base import Prepared
from iocurve.dialects.fio.job import SectionReport
from iocurve.engine.plan import Plan
from iocurve.job.model import Job
from iocurve.job.resolve import ReportGroup

Format = Literal["normal", "json", "json+", "terse"]


@dataclass(frozen=True)
class Output:
    """What fio's own options say about output."""

    path: Path | None = None
    """None: standard output."""
    formats: tuple[Format, ...] = ("normal",)
    terse_version: Literal[2, 3, 4, 5] = 3
    eta: Literal["auto", "always", "never"] = "auto"
    """Whether progress is shown."""


@dataclass(frozen=True, kw_only=True)
class Invocation(Prepared, ABC):
    """What fio-shaped output needs to know."""

    job: Job
    plan: Plan
    output: Output
    sections: tuple[SectionReport, ...]
    report_groups: tuple[ReportGroup, ...]
    check_only: bool
    """fio's --parse-only and --showcmd: nothing is to be run."""
    command_lines: tuple[str, ...]
    """What --showcmd shows."""
    arguments: tuple[str, ...]

    @property
    def plans(self) -> Sequence[Plan]:
        """The one plan."""
        return (self.plan,)

"""Collects the diagnostics of a plan: errors, obstacles, notes, and directories to create."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from iocurve.foundation.errors import Diagnostic
from iocurve.job.model import Job, PlanNote, Section


@dataclass
class Diagnostics:
    """The diagnostics of one job. All are collected; none is raised."""

    job: Job
    errors: list[Diagnostic] = field(default_factory=list)
    obstacles: list[Diagnostic] = field(default_factory=list)
    notes: list[PlanNote] = field(default_factory=list)
    directories: list[str] = field(default_factory=list)

    def error(self, section: Section, text: str, fields: Sequence[str], hint: str | None = None) -> None:
        """Adds an error at the position of the first of ``fields`` that was set."""
        where = section.where(*fields, "name")
        self.errors.append(Diagnostic(f"{section.name or self.job.name}: {text}", where, hint))

    def option(self, field: str, value: object = None) -> str:
        """The option for a field, in the words of the job's dialect."""
        return self.job.words.option(field, value)

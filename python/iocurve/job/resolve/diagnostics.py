"""Collects the diagnostics of a plan: mistakes, obstacles, notes, and directories to create."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from iocurve.errors import Mistake
from iocurve.job.model import Job, PlanNote, Section


@dataclass
class Diagnostics:
    """The diagnostics of one job. All are collected; none is raised."""

    job: Job
    mistakes: list[Mistake] = field(default_factory=list)
    obstacles: list[Mistake] = field(default_factory=list)
    notes: list[PlanNote] = field(default_factory=list)
    directories: list[str] = field(default_factory=list)

    def mistake(self, section: Section, text: str, fields: Sequence[str], hint: str | None = None) -> None:
        """Adds a mistake at the position of the first of ``fields`` that was set."""
        where = section.where(*fields, "name")
        self.mistakes.append(Mistake(f"{section.name or self.job.name}: {text}", where, hint))

    def option(self, field: str, value: object = None) -> str:
        """The option for a field, in the words of the job's dialect."""
        return self.job.words.option(field, value)

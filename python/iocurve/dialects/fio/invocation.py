"""A fio command line that was read: everything that output in fio's formats is made from, apart from the result."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Literal

import msgspec

from iocurve.dialects.base import ClusterRequest
from iocurve.dialects.fio.job import SectionReport, Value, by_worker
from iocurve.dialects.fio.output.disk_util import DiskWatch
from iocurve.engine.plan import Plan
from iocurve.foundation.errors import Diagnostic
from iocurve.job.model import Job, PlanNote
from iocurve.job.resolve import Machine, ReportGroup

Format = Literal["normal", "json", "json+", "terse"]


class Output(msgspec.Struct):
    """Settings from fio's output options."""

    path: Path | None = None
    """File of --output; None: standard output."""
    formats: tuple[Format, ...] = ("normal",)
    terse_version: Literal[2, 3, 4, 5] = 3
    eta: Literal["auto", "always", "never"] = "auto"
    """Value of --eta: when progress is shown."""
    state_directory: Path = Path()
    """Value of --aux-path: directory of verify state files."""


class FioCommand(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A fio command line that was read."""

    arguments: tuple[str, ...] = ()
    notes: tuple[PlanNote, ...]
    obstacles: tuple[Diagnostic, ...] = ()
    directories: tuple[str, ...] = ()
    out: Path | None = None
    check_only: bool = False
    """True with --parse-only or --showcmd: nothing runs."""
    command_lines: tuple[str, ...] = ()
    """Output of --showcmd, a line for each job file."""
    cluster: ClusterRequest | None = None
    machine: Machine
    job: Job
    plan: Plan
    output: Output
    sections: tuple[SectionReport, ...]
    report_groups: tuple[ReportGroup, ...]
    placement: tuple[frozenset[int], ...] = ()
    """The clients that run each section, by their position in the command line; empty without clients."""
    disks: DiskWatch = msgspec.field(default_factory=DiskWatch)
    """Counters of the disks during the run."""

    def runs_on(self, group: int, worker: int, client: int) -> bool:
        """True if a client runs this worker of the plan: one of a job file that follows its --client, as in fio."""
        if not self.placement:
            return True
        return client in self._hosts_of_workers[group, worker]

    @cached_property
    def _hosts_of_workers(self) -> dict[tuple[int, int], frozenset[int]]:
        return self.by_worker(self.placement)

    def client_path(self, path: str, client: int) -> str:
        """A file that the job does not name gets the client's name, as in fio."""
        if self.cluster is None or path not in self._unnamed_paths:
            return path
        directory, slash, name = path.rpartition("/")
        return f"{directory}{slash}{self.cluster.names[client]}.{name}"

    @cached_property
    def _unnamed_paths(self) -> set[str]:
        """Paths that the job does not name."""
        return {
            file.path
            for (group, worker), section in self.by_worker(self.job.sections).items()
            for file in self.plan.groups[group].workers[worker].files
            if not section.files.paths
        }

    def by_worker(self, of_sections: Sequence[Value]) -> dict[tuple[int, int], Value]:
        """The value of a section for each of its workers, by group and number in the group."""
        return by_worker(self.job, self.plan, of_sections)

"""Resolves a job into a plan: decides every size, file and end condition on a given machine.

The rules are fio's where the dialects agree with fio: sizes are per worker and divided among its files, files by name
are shared by all jobs of a section, and a runtime shortens a load but does not extend it.

``machine`` holds the facts of the machine that a plan depends on, ``diagnostics`` collects errors and notes,
``checks`` refuses invalid jobs; ``engines``, ``files`` and ``load`` make the parts of a worker.
"""

from __future__ import annotations

import hashlib
import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from iocurve.engine import plan as planned
from iocurve.foundation.errors import Diagnostic, PlanError, Where
from iocurve.foundation.units import SECOND_NS
from iocurve.job.model import Job, PlanNote, Section, paths_text
from iocurve.job.resolve import checks, load
from iocurve.job.resolve.checks import Diagnostics
from iocurve.job.resolve.engines import disk_of, nfs_urls_of, on_each_file, planned_engine, sharing_mounts
from iocurve.job.resolve.files import ResolvedFiles
from iocurve.job.resolve.machine import Machine, PathFacts, PathKind
from iocurve.job.resolve.tree import on_tree, with_tasks
from iocurve.job.warnings import warnings_of
from iocurve.targets.disk import DiskSpec
from iocurve.targets.nfs_url import NfsUrl

__all__ = ["Machine", "PathFacts", "PathKind", "ReportGroup", "Resolution", "plan_here", "read_only_errors", "resolve"]

_DEFAULT_SEED = 0x89


class ReportGroup(msgspec.Struct, frozen=True):
    """Workers that are reported as one; the index of the group is its number in the plan."""

    section: int
    """Index of the group's first section, whose settings describe the group."""
    number: int
    """fio's groupid, which counts barriers and new groups."""


class Resolution(msgspec.Struct, frozen=True):
    """A plan, with the notes and obstacles found on the way."""

    plan: planned.Plan
    notes: tuple[PlanNote, ...]
    obstacles: tuple[Diagnostic, ...]
    """Reasons why the plan cannot run on this machine now (a missing directory)."""
    directories: tuple[str, ...]
    """Directories to create before the run, because file names lead into them."""
    report_groups: tuple[ReportGroup, ...]


def resolve(job: Job, machine: Machine, directory: Path) -> Resolution:
    """Resolves a job; relative names start from ``directory``. Raises ``PlanError`` with all reasons."""
    return _Resolver(job, machine, directory).resolve()


def read_only_errors(job: Job) -> list[Diagnostic]:
    """The errors of sections that must not change files, and do."""
    diagnostics = Diagnostics(job)
    for section in job.sections:
        checks.read_only(section, diagnostics)
    return diagnostics.errors


def plan_here(job: Job, interval_ns: int | None, machine: Machine | None = None) -> planned.Plan:
    """The plan of a job from the current directory; ``machine`` defaults to this one.

    Raises ``PlanError``, also for obstacles.
    """
    resolution = resolve(job.replace(interval_ns=interval_ns), machine or Machine(), Path.cwd())
    if resolution.obstacles:
        raise PlanError(resolution.obstacles)
    return resolution.plan


@dataclass
class _Resolver:
    job: Job
    machine: Machine
    directory: Path
    workers: int = 0
    diagnostics: Diagnostics = field(init=False)
    files: ResolvedFiles = field(init=False)
    overwritten: dict[str, Where | None] = field(default_factory=dict)
    """Existing files that will be written to, each with the first position that names it."""

    def __post_init__(self) -> None:
        self.diagnostics = Diagnostics(self.job)
        self.files = ResolvedFiles(self.job, self.machine, self.directory, self.diagnostics)

    def resolve(self) -> Resolution:
        sections = self.job.sections
        checks.amounts(sections)
        checks.waits(sections, self.diagnostics)
        workers = sharing_mounts(self.job, [self._workers(section) for section in sections], self.diagnostics)
        self._note_overwritten_files()
        errors = self.diagnostics.errors
        if not any(workers) and not errors:
            errors.append(Diagnostic("there is no job to run"))
        if errors:
            raise PlanError(list(dict.fromkeys(errors)))
        groups, numbers = _report_groups(sections)
        has_exit_groups = any(section.ending.ends_exit_group_only for section in sections)
        # A zip whose first part is at its end takes nothing from the second.
        numbered = [
            [
                worker.replace(report_group=number, exit_group=groups[number].number if has_exit_groups else 0)
                for worker, number in zip(members, numbers, strict=False)
            ]
            for members in workers
        ]
        # Samples of a steady state are whole intervals.
        checks_ns = [section.ending.steady_state.check_ns for section in sections if section.ending.steady_state]
        interval_ns = self.job.interval_ns or math.gcd(SECOND_NS, *checks_ns)
        plan = planned.Plan(name=self.job.name, interval_ns=interval_ns, groups=_start_groups(sections, numbered))
        return Resolution(
            plan=plan,
            notes=tuple(dict.fromkeys(self.diagnostics.notes)),
            obstacles=tuple(dict.fromkeys(self.diagnostics.obstacles)),
            directories=tuple(dict.fromkeys(self.diagnostics.directories)),
            report_groups=tuple(groups),
        )

    def _workers(self, section: Section) -> list[planned.Worker]:
        errors_before = len(self.diagnostics.errors)
        nfs_urls, disk = nfs_urls_of(section, self.diagnostics), disk_of(section, self.diagnostics)
        checks.section(section, self.machine, self.diagnostics)
        if len(self.diagnostics.errors) > errors_before:
            return []
        workers = []
        for jobnum in range(section.numjobs):
            self.workers += 1
            nfs_url = nfs_urls[(section.first_jobnum + jobnum) % len(nfs_urls)] if nfs_urls else None
            worker = self._worker(section, jobnum, nfs_url, disk)
            # An error in one job of a section is an error in all of them.
            if worker is None:
                return []
            workers.append(worker)
        self._note(section, workers)
        return workers

    def _worker(
        self, section: Section, jobnum: int, nfs_url: NfsUrl | None, disk: DiskSpec | None
    ) -> planned.Worker | None:
        seed = self._seed(section)
        rng = random.Random(seed)
        found = self._files(section, jobnum, disk, rng)
        if found is None:
            return None
        files, regions = found
        low, high = section.ending.start_delay_ns
        ending = load.end(section, regions)
        worker = planned.Worker(
            job=section.name or self.job.name,
            jobnum=section.first_jobnum + jobnum,
            report_group=0,
            engine=planned_engine(section, nfs_url, self.machine),
            disk=disk.plan(self.directory) if disk else None,
            files=files,
            file_select=section.files.file_select,
            file_run=section.files.file_run,
            operations=load.operations(section, regions),
            access=load.access(section),
            depth=load.depth(section),
            batch=load.batch(section.pace),
            rate=load.total_rate(section.pace),
            intervals_singly=section.report.intervals_singly,
            think=load.think(section.pace),
            syncs=load.syncs(section),
            replay=section.load.replay,
            sync_at_end=section.pace.sync_at_end and section.load.writes and not section.ending.only_lays_out,
            flow=section.load.flow,
            wait_for=section.ending.wait_for,
            start_delay_ns=0 if section.ending.only_lays_out else rng.randint(low, high),
            ramp_ns=0 if section.ending.only_lays_out else section.ending.ramp_ns,
            end=ending,
            tolerates=section.ending.tolerates,
            whole_transfers=section.ending.whole_transfers,
            cooldown_ns=section.ending.cooldown_ns,
            ends_others=section.ending.ends_others,
            ends_run=section.ending.ends_run,
            ends_exit_group_only=section.ending.ends_exit_group_only,
            client=section.clients[jobnum] if section.clients else 0,
            latency_target=load.latency_target(section.pace),
            steady_state=section.ending.steady_state,
            seed=seed,
            payload=load.payload(section, regions),
            verify=load.verify(section, regions, ending),
            log=load.log(section, ending),
            submission_latency=section.report.submission_latency,
            cpus=load.processors(section, jobnum),
        )
        if section.load.tree:
            return on_tree(section, worker)
        if section.load.tasks:
            return with_tasks(section, worker)
        return on_each_file(section, worker) if section.load.metadata else worker

    def _files(
        self, section: Section, jobnum: int, disk: DiskSpec | None, rng: random.Random
    ) -> tuple[tuple[planned.FilePlan, ...], load.Regions] | None:
        """The files of a worker, and the regions that they were made of; None after an error."""
        if exact := section.files.regions:
            files = exact[jobnum % len(exact)]
            return files, files
        regions = self.files.on(disk).regions(section, jobnum, rng)
        if regions is None:
            return None
        return tuple(self.files.planned(section, region) for region in regions), regions

    def _seed(self, section: Section) -> int:
        """The same in every run for the same worker of a job, unless the job asks for a different one."""
        if section.data.seed is None and not section.data.repeatable:
            return self.machine.fresh_seed()
        said = _DEFAULT_SEED if section.data.seed is None else section.data.seed
        return int.from_bytes(hashlib.blake2b(f"{said}/{self.workers}".encode(), digest_size=8).digest())

    # -- notes ---------------------------------------------------------------------------------------------------------

    def _note(self, section: Section, workers: Sequence[planned.Worker]) -> None:
        self.diagnostics.notes += warnings_of(self.job.words, section, workers)
        # The dialect that computed the regions has examined their files.
        if section.files.regions:
            return
        if section.load.metadata == "delete":
            self._note_deleted(section, workers)
        if not section.load.tree and (section.load.writes or section.load.trims or section.files.recreate):
            self._note_overwritten(section, workers)

    def _note_overwritten(self, section: Section, workers: Sequence[planned.Worker]) -> None:
        if section.target.engine in ("nfs", "null") or (section.data.verify and section.data.verify.only):
            return
        where = section.where("paths", "writes", "name")
        if section.load.metadata:
            return
        for path in dict.fromkeys(file.path for worker in workers for file in worker.files):
            kind = self.files.stat(path).kind
            if kind == "block":
                self.diagnostics.notes.append(_overwrites([path], where))
            elif kind == "file":
                self.overwritten.setdefault(path, where)

    def _note_deleted(self, section: Section, workers: Sequence[planned.Worker]) -> None:
        paths = dict.fromkeys(file.path for worker in workers for file in worker.files)
        there = [path for path in paths if section.target.engine != "nfs" and self.files.stat(path).kind == "file"]
        if there:
            where = section.where("paths", "engine", "name")
            self.diagnostics.notes.append(_overwrites(there, where, "deleted"))

    def _note_overwritten_files(self) -> None:
        """Adds one note for all files, because a job may name thousands."""
        if self.overwritten:
            self.diagnostics.notes.append(_overwrites(list(self.overwritten), next(iter(self.overwritten.values()))))


def _overwrites(paths: Sequence[str], where: Where | None, done: str = "overwritten") -> PlanNote:
    text = f"{paths_text(paths)} {'exists' if len(paths) == 1 else 'exist'} already and will be {done}"
    return PlanNote("overwrites", text, where, "warning")


# -- groups ------------------------------------------------------------------------------------------------------------


def _start_groups(
    sections: Sequence[Section], workers: Sequence[Sequence[planned.Worker]]
) -> tuple[planned.Group, ...]:
    """Starts a new group at each barrier; waits for jobs of earlier groups are dropped, because those have ended."""
    groups: list[list[planned.Worker]] = []
    names: set[str] = set()
    for section, members in zip(sections, workers, strict=True):
        if section.report.barrier or not groups:
            groups.append([])
            names = set()
        names.update(worker.job for worker in members)
        groups[-1].extend(_waiting(worker, names) for worker in members)
    return tuple(planned.Group(workers=tuple(group)) for group in groups if group)


def _waiting(worker: planned.Worker, names: set[str]) -> planned.Worker:
    waits = tuple(name for name in worker.wait_for if name in names)
    return worker if waits == worker.wait_for else worker.replace(wait_for=waits)


def _report_groups(sections: Sequence[Section]) -> tuple[list[ReportGroup], Iterator[int]]:
    """Joins neighbouring workers that ask for it into report groups, up to a barrier or a new group.

    Returns the groups, and the number of each worker's group.
    """
    groups: list[ReportGroup] = []
    numbers: list[int] = []
    number = 0
    for index, section in enumerate(sections):
        for jobnum in range(section.numjobs):
            if jobnum == 0 and index and (section.report.barrier or section.report.new_report_group):
                number += 1
            joins = section.report.report_as_group and groups and groups[-1].number == number
            if groups and (joins or section.report.report_as_one):
                groups[-1] = ReportGroup(groups[-1].section, number)
            else:
                groups.append(ReportGroup(index, number))
            numbers.append(len(groups) - 1)
    return groups, iter(numbers)

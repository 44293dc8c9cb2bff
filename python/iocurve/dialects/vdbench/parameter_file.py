"""A vdbench command line that was read: its definitions, its runs, and their plans."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from random import Random

import msgspec
from msgspec.structs import asdict, replace

from iocurve.dialects.base import ClusterRequest
from iocurve.dialects.vdbench.file_plan import FilePlans
from iocurve.dialects.vdbench.file_systems import FileSystems
from iocurve.dialects.vdbench.job import Builder, Built, constants
from iocurve.dialects.vdbench.output.table import STORAGE, TRANSFERS, OutputTable, file_systems
from iocurve.dialects.vdbench.planned import Planned, Share, starting
from iocurve.dialects.vdbench.read import options
from iocurve.dialects.vdbench.read.keywords import Definitions
from iocurve.dialects.vdbench.read.lines import ParsedText
from iocurve.dialects.vdbench.read.options import Loop, Options
from iocurve.dialects.vdbench.runs import Run
from iocurve.dialects.vdbench.topology import Topology
from iocurve.dialects.vdbench.validation import Validation
from iocurve.engine.derived import on_clients
from iocurve.engine.plan import Plan
from iocurve.foundation.errors import Diagnostic, PlanError, in_order
from iocurve.job.model import PlanNote
from iocurve.job.resolve import Machine, Resolution, resolve

CHECKED_SECTIONS = 20_000
"""Limit of the workers that are planned to check runs before the first run starts."""
DEFINITIONS_IN_FULL = 20
"""Run definitions that are explained with their workloads; the others are explained without."""


class Resolved(msgspec.Struct, frozen=True):
    """The job and the plan of a run."""

    built: Built
    resolution: Resolution


class ParameterFile(msgspec.Struct, kw_only=True):
    """A vdbench command line that was read."""

    arguments: tuple[str, ...]
    notes: tuple[PlanNote, ...]
    obstacles: tuple[Diagnostic, ...] = ()
    out: Path | None = None
    machine: Machine
    cluster: ClusterRequest | None = None
    options: Options
    text: ParsedText
    definitions: Definitions
    file_systems: FileSystems | None
    """FSDs and FWDs; None if the file has neither."""
    topology: Topology
    runs: tuple[Run, ...]
    directory: Path
    validation: Validation | None
    """Data validation; None if it is off."""
    resolved: dict[int, Resolved] = msgspec.field(default_factory=dict)
    """First runs of definitions that were planned to check them, by identity."""
    current: Planned | None = None
    """The run, or the format before it, that was planned last."""

    @property
    def file_plans(self) -> FilePlans:
        """Plans of file system workloads."""
        assert self.file_systems, "the parameter file has no FSDs"
        cleans = self.options.cleans
        hosts = self.topology.hosts
        return FilePlans(self.definitions, self.file_systems, hosts, self.machine, cleans, self.validation)

    @property
    def table(self) -> OutputTable:
        """The columns of the reports."""
        return file_systems(self.file_plans.operations(self.runs)) if self.file_systems else STORAGE

    def planned(
        self, run: Run, rate: float | None, shares: Sequence[float] | None, formatted: frozenset[str]
    ) -> Planned:
        """Plans a run; a point of a curve has a ``rate`` and the ``shares`` of its workers. Raises ``PlanError``."""
        if self.file_systems:
            planned = self.file_plans.run(run, rate)
            return replace(planned, plan=self._placed(planned.plan, planned.shares))
        shares = None if rate is None else self.builder().skewed_shares(run) or shares
        resolved = self.resolve(run, shares, rate, formatted=formatted)
        return Planned(
            run=run,
            name=run.name,
            start=starting(run, rate),
            plan=resolved.resolution.plan,
            shares=tuple(placement.share for placement in resolved.built.placements),
            counted=TRANSFERS,
            constants=constants(run, rate, resolved.built, resolved.resolution.plan, self.definitions.general),
        )

    def format(self, run: Run, *, already: bool, used: frozenset[str]) -> Planned:
        """Plans the format before a run; see ``FilePlans.formats``. Raises ``PlanError``."""
        planned = self.file_plans.formats(run, already=already, used=used)
        return replace(planned, plan=self._placed(planned.plan, planned.shares))

    def counted(self, run: Run) -> frozenset[str]:
        """Operations that the rate of a run counts."""
        return self.file_plans.counted(run) if self.file_systems else TRANSFERS

    @property
    def loop(self) -> Loop:
        """Repetition of all runs (-l, loop=)."""
        written = self.definitions.general.get("loop")
        return self.options.loop or (options.loop(written) if written else Loop())

    def resolve(
        self,
        run: Run,
        shares: Sequence[float] | None = None,
        total: float | None = None,
        *,
        formatted: frozenset[str] = frozenset(),
    ) -> Resolved:
        """Plans a run. A point of a curve needs the total rate and the share of each section.

        ``formatted`` names the SDs of earlier runs: formatsds=yes formats each SD once.

        Raises ``PlanError``.
        """
        built = self.builder(formatted).build(run, shares, total)
        resolution = resolve(built.job, self.machine, self.directory)
        places = [placement.share for placement in built.placements]
        plan = self._placed(resolution.plan, places)
        return Resolved(built, Resolution(**{**asdict(resolution), "plan": plan}))

    def _placed(self, plan: Plan, shares: Sequence[Share]) -> Plan:
        """The plan with the agent of each worker; with a variable rate every group has the same shares."""
        if self.cluster is None:
            return plan
        clients = [self.cluster.names.index(self.topology.nodes[share.host]) for share in shares]
        return plan.replace(groups=tuple(on_clients(group, clients) for group in plan.groups))

    def recovery(self) -> Plan | None:
        """Plans the recovery of the journals; None without a journal. Raises ``PlanError``."""
        if self.file_systems:
            return self.file_plans.recovery(self.runs)
        job = self.builder().recovery()
        if not job.sections:
            return None
        resolution = resolve(job, self.machine, self.directory)
        if resolution.obstacles:
            raise PlanError(resolution.obstacles)
        return resolution.plan

    def builder(self, formatted: frozenset[str] = frozenset()) -> Builder:
        """A builder of jobs. With formatsds=yes they format the SDs that are not in ``formatted``."""
        formats = self.topology.storage.keys() - formatted if self.definitions.general.get("formatsds") else frozenset()
        rng = Random(self.machine.fresh_seed())
        return Builder(self.definitions, self.topology, self._bytes_at, rng, frozenset(formats), self.validation)

    def _bytes_at(self, path: str) -> int:
        return self.machine.stat(str(self.directory / path)).bytes

    def first_runs(self) -> Iterator[Run]:
        """Yields the first run of each run definition."""
        seen = set()
        for run in self.runs:
            if id(run.rd) not in seen:
                seen.add(id(run.rd))
                yield run


def check(file: ParameterFile) -> tuple[list[PlanNote], list[Diagnostic]]:
    """Plans runs before the first one starts. Returns notes and obstacles.

    Raises ``PlanError`` with every error that prevents planning.
    """
    if file.file_systems:
        return _check_files(file)
    notes: dict[PlanNote, None] = {}
    obstacles: dict[Diagnostic, None] = {}
    errors: dict[Diagnostic, None] = {}
    firsts = {id(run) for run in islice(file.first_runs(), DEFINITIONS_IN_FULL)}
    checked_sections = 0
    for run in distinct(file.runs):
        if checked_sections > CHECKED_SECTIONS:
            break
        try:
            resolved = file.resolve(run)
        except PlanError as error:
            errors |= dict.fromkeys(error.errors)
            checked_sections += 1
            continue
        if id(run) in firsts:
            file.resolved[id(run)] = resolved
        checked_sections += len(resolved.built.placements)
        notes |= dict.fromkeys((*resolved.built.notes, *resolved.resolution.notes))
        absent = () if file.cluster else _missing_directories(resolved)
        obstacles |= dict.fromkeys((*resolved.built.obstacles, *resolved.resolution.obstacles, *absent))
    if errors:
        raise PlanError(in_order(errors))
    return list(notes), list(obstacles)


def _check_files(file: ParameterFile) -> tuple[list[PlanNote], list[Diagnostic]]:
    plans = file.file_plans
    obstacles = list(plans.obstacles(file.runs))
    for run in file.first_runs() if not obstacles else ():
        plans.check(run)
    return list(plans.notes(file.runs)), obstacles


def distinct(runs: Iterable[Run]) -> Iterator[Run]:
    """Yields one of each set of runs that differ only in rate, threads and duration: they share their errors."""
    seen = set()
    for run in runs:
        settings = [run.rd.get(name) for name in ("wd", "openflags", "distribution", "format")]
        loops = replace(run.loops, threads=None)
        names = () if "wd" in run.rd.values else (run.rd.name,)
        shape = (*map(str, settings), loops, run.storage, run.rate.kind, run.curve_percent is None, names)
        if shape not in seen:
            seen.add(shape)
            yield run


def _missing_directories(resolved: Resolved) -> Iterator[Diagnostic]:
    """Missing parent directories are obstacles: vdbench creates files but no directories."""
    for directory in resolved.resolution.directories:
        storage = next(
            (
                storage
                for placement in resolved.built.placements
                for storage in placement.storage
                if any(str(Path(lun).parent) == directory for lun in placement.luns)
            ),
            None,
        )
        hint = f"create it with mkdir -p {directory}, or use another directory: --map-lun {directory}=…"
        yield Diagnostic(f"directory {directory} does not exist", storage.where if storage else None, hint)

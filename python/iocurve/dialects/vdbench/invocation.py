"""A vdbench command line that was understood: its definitions, its runs, and how each becomes a plan."""

from __future__ import annotations

from abc import ABC
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from iocurve.dialects.base import Prepared
from iocurve.dialects.vdbench.job import Builder, Built
from iocurve.dialects.vdbench.read import options
from iocurve.dialects.vdbench.read.definitions import Definitions
from iocurve.dialects.vdbench.read.lines import Text
from iocurve.dialects.vdbench.read.options import Loop, Options
from iocurve.dialects.vdbench.runs import Run
from iocurve.dialects.vdbench.validation import Validation
from iocurve.dialects.vdbench.world import World
from iocurve.engine.plan import Plan
from iocurve.errors import Mistake, PlanError, in_order
from iocurve.job.model import PlanNote
from iocurve.job.resolve import Resolution, resolve

CHECKED_SECTIONS = 20_000
"""Runs are looked at before the first one starts until so many of their workers were."""


@dataclass(frozen=True)
class Resolved:
    """One run as it will be carried out."""

    run: Run
    built: Built
    resolution: Resolution


@dataclass(frozen=True, kw_only=True)
class Invocation(Prepared, ABC):
    """What running or explaining needs to know."""

    options: Options
    text: Text
    found: Definitions
    world: World
    runs: tuple[Run, ...]
    directory: Path
    validation: Validation | None
    """How what is written is compared, if it is."""

    @property
    def plans(self) -> Sequence[Plan]:
        """That of the first run: others may go by what it measures."""
        return [self.resolve(run).resolution.plan for run in self.runs[:1]]

    @property
    def loop(self) -> Loop:
        """How often all runs are repeated."""
        said = self.found.general.get("loop")
        return self.options.loop or (options.loop(said) if said else Loop())

    def resolve(
        self,
        run: Run,
        shares: Sequence[float] | None = None,
        total: float | None = None,
        *,
        formatted: frozenset[str] = frozenset(),
    ) -> Resolved:
        """The plan of a run; a curve's point needs the total rate and the share of each section.

        ``formatted`` names the SDs that an earlier run has used: each is formatted once.

        Raises ``PlanError``.
        """
        built = self.builder(formatted).build(run, shares, total)
        resolution = resolve(built.job, self.machine, self.directory)
        plan = resolution.plan.replace(interval_ns=run.timing.interval_ns)
        return Resolved(run, built, Resolution(**{**vars(resolution), "plan": plan}))

    def recovery(self) -> Resolution | None:
        """What verifies a journal; None where there is none. Raises ``PlanError``."""
        job = self.builder().recovery()
        if not job.sections:
            return None
        resolution = resolve(job, self.machine, self.directory)
        if resolution.obstacles:
            raise PlanError(resolution.obstacles)
        return resolution

    def asked_shares(self, run: Run) -> list[float] | None:
        """Each section's part of a run's rate where any workload has a skew."""
        return self.builder().asked_shares(run)

    def builder(self, formatted: frozenset[str] = frozenset()) -> Builder:
        """Makes the jobs of runs; they format the SDs that are not yet, where that is asked for."""
        formats = self.world.storage.keys() - formatted if self.found.general.get("formatsds") else frozenset()
        chance = Random(self.machine.fresh_seed())
        return Builder(self.found, self.world, self._bytes_at, chance, frozenset(formats), self.validation)

    def _bytes_at(self, path: str) -> int:
        return self.machine.stat(str(self.directory / path)).bytes

    def first_runs(self) -> Iterator[Run]:
        """One of each run definition."""
        seen = set()
        for run in self.runs:
            if id(run.rd) not in seen:
                seen.add(id(run.rd))
                yield run


def check(invocation: Invocation) -> tuple[list[PlanNote], list[Mistake]]:
    """Plans runs before the first one starts: notes, and what keeps them from running here.

    Raises ``PlanError`` with every reason why one cannot be planned.
    """
    notes: dict[PlanNote, None] = {}
    obstacles: dict[Mistake, None] = {}
    mistakes: dict[Mistake, None] = {}
    looked_at = 0
    for run in distinct(invocation.runs):
        if looked_at > CHECKED_SECTIONS:
            break
        try:
            resolved = invocation.resolve(run)
        except PlanError as error:
            mistakes |= dict.fromkeys(error.mistakes)
            looked_at += 1
            continue
        looked_at += len(resolved.built.pieces)
        notes |= dict.fromkeys((*resolved.built.notes, *resolved.resolution.notes))
        obstacles |= dict.fromkeys(
            (*resolved.built.obstacles, *resolved.resolution.obstacles, *_missing_directories(resolved))
        )
    if mistakes:
        raise PlanError(in_order(mistakes))
    return list(notes), list(obstacles)


def distinct(runs: Iterable[Run]) -> Iterator[Run]:
    """One run of those that differ in nothing but rate, threads and duration: what is wrong with one is with all."""
    seen = set()
    for run in runs:
        settings = [run.rd.get(name) for name in ("wd", "openflags", "distribution", "format")]
        loops = tuple((name, str(value)) for name, value in run.loops.items() if name != "threads")
        places = () if "wd" in run.rd.values else (run.rd.name,)
        shape = (*map(str, settings), loops, run.storage, run.rate.kind, run.curve_percent is None, places)
        if shape not in seen:
            seen.add(shape)
            yield run


def _missing_directories(resolved: Resolved) -> Iterator[Mistake]:
    """vdbench makes files, but not the directories they are in."""
    for directory in resolved.resolution.directories:
        storage = next(
            (
                storage
                for piece in resolved.built.pieces
                for storage in piece.storage
                if any(str(Path(lun).parent) == directory for lun in piece.luns)
            ),
            None,
        )
        hint = f"make it: mkdir -p {directory}, or name another place: --map-lun {directory}=…"
        yield Mistake(f"directory {directory} does not exist", storage.where if storage else None, hint)

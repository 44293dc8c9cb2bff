"""``iocurve vdbench …`` and ``iocurve explain vdbench …``: a command line becomes runs, notes and settings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

from iocurve.dialects.vdbench import lines, options
from iocurve.dialects.vdbench.definitions import Definitions, define
from iocurve.dialects.vdbench.job import Builder, Built
from iocurve.dialects.vdbench.lines import Text
from iocurve.dialects.vdbench.options import Loop, Options
from iocurve.dialects.vdbench.runs import Run, expand
from iocurve.dialects.vdbench.validation import Asked, Reader, Validation, validation
from iocurve.dialects.vdbench.validation import mistakes as validation_mistakes
from iocurve.dialects.vdbench.world import World, make_world
from iocurve.errors import DialectError, Mistake, PlanError
from iocurve.job.model import Note
from iocurve.job.resolve import Machine, Resolution, ThisMachine, resolve

CHECKED_SECTIONS = 20_000
"""Runs are looked at before the first one starts until so many of their workers were."""


@dataclass(frozen=True)
class Resolved:
    """One run as it will be carried out."""

    run: Run
    built: Built
    resolution: Resolution


@dataclass(frozen=True)
class Prepared:
    """Everything that running or explaining needs."""

    options: Options
    text: Text
    found: Definitions
    world: World
    runs: tuple[Run, ...]
    notes: tuple[Note, ...]
    """About the whole file; those of single runs come with them."""
    machine: Machine
    directory: Path
    validation: Validation | None
    """How what is written is compared, if it is."""

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
        return self.machine.look(str(self.directory / path)).bytes

    def first_runs(self) -> Iterator[Run]:
        """One of each run definition."""
        seen = set()
        for run in self.runs:
            if id(run.rd) not in seen:
                seen.add(id(run.rd))
                yield run


def prepare(arguments: Sequence[str], *, cwd: Path | None = None, machine: Machine | None = None) -> Prepared:
    """Reads a vdbench command line (without ``vdbench``) and its parameter files.

    Raises ``DialectError`` with every mistake in what was written, ``PlanError`` where a run cannot be planned.
    """
    directory = cwd or Path.cwd()
    machine = machine or ThisMachine()
    said = options.parse(arguments, directory)
    if said.text is not None:
        text = lines.read_text(said.text, "-t", said.variables)
    else:
        text = lines.read(said.files, said.variables)
    found = define(text.statements)
    mistakes = [*said.mistakes, *text.mistakes, *found.mistakes]
    if not text.is_whole:
        raise DialectError(in_order(mistakes))
    world = make_world(found, said.host_maps, said.lun_maps, said.size)
    runs = expand(found, list(world.storage), said.overrides, Random(machine.fresh_seed()))
    mistakes += [*world.mistakes, *runs.mistakes]
    mistakes += _loop_mistakes(found) + _nothing_to_run(runs.runs, mistakes) + _cannot_begin(said, found)
    asked = _asked_validation(said, found, mistakes)
    mistakes += validation_mistakes(found, world, asked)
    notes = (*said.notes, *found.notes, *world.notes, *asked.notes)
    begun = _from(said.begin_at, runs.runs)
    validated = validation(found, world, runs.runs, asked, directory)
    prepared = Prepared(said, text, found, world, tuple(begun), notes, machine, directory, validated)
    if not found.is_file_system:
        mistakes += _first_mistakes(prepared)
    if mistakes:
        raise DialectError(in_order(mistakes))
    return prepared


def check(prepared: Prepared) -> tuple[list[Note], list[Mistake]]:
    """Plans runs before the first one starts: notes, and what keeps them from running here.

    Raises ``PlanError`` with every reason why one cannot be planned.
    """
    notes: dict[Note, None] = {}
    obstacles: dict[Mistake, None] = {}
    mistakes: dict[Mistake, None] = {}
    looked_at = 0
    for run in distinct(prepared.runs):
        if looked_at > CHECKED_SECTIONS:
            break
        try:
            resolved = prepared.resolve(run)
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


def in_order(mistakes: Iterable[Mistake]) -> list[Mistake]:
    """By file and line, so that a person can go through them."""
    unique = list(dict.fromkeys(mistakes))
    sources = list(dict.fromkeys(mistake.where.source for mistake in unique if mistake.where))

    def place(mistake: Mistake) -> tuple[int, int, int]:
        where = mistake.where
        return (sources.index(where.source), where.line, where.column) if where else (len(sources), 0, 0)

    return sorted(unique, key=place)


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


def _first_mistakes(prepared: Prepared) -> list[Mistake]:
    """What building the first run of each definition finds: names that nothing has, flags, skews."""
    mistakes: list[Mistake] = []
    builder = prepared.builder()
    for run in distinct(prepared.first_runs()):
        try:
            builder.build(run)
        except PlanError as error:
            mistakes += error.mistakes
    return mistakes


def _asked_validation(said: Options, found: Definitions, mistakes: list[Mistake]) -> Asked:
    """What the command line and the general parameters say together."""
    reader = Reader(said.validation)
    for keyword in ("validate", "journal"):
        try:
            reader.words(keyword, found.general.get(keyword, ()), found.general.place(keyword))
        except ValueError as error:
            mistakes.append(Mistake(f"{keyword}: {error}", found.general.place(keyword)))
    if reader.asked.recover and (said.loop or found.general.get("loop")):
        where = found.general.place("journal", "loop")
        mistakes.append(Mistake("a journal is recovered once: leave out -l and loop=", where if where.source else None))
    if reader.asked.recover_only and not reader.asked.recover:
        reader.asked = replace(reader.asked, recover=True)
    return reader.asked


def _loop_mistakes(found: Definitions) -> list[Mistake]:
    said = found.general.get("loop")
    try:
        if said:
            options.loop(said)
    except ValueError as error:
        return [Mistake(f"loop: {error}", found.general.place("loop"))]
    return []


def _nothing_to_run(runs: Sequence[Run], mistakes: Sequence[Mistake]) -> list[Mistake]:
    if runs or mistakes:
        return []
    return [Mistake("there is nothing to run", None, "add rd=rd1,wd=…,iorate=max,elapsed=60")]


def _cannot_begin(said: Options, found: Definitions) -> list[Mistake]:
    if said.begin_at is None or any(rd.name == said.begin_at for rd in found.by_kind["rd"]):
        return []
    return [Mistake(f"-r: there is no rd={said.begin_at[:40]}")]


def _from(name: str | None, runs: Sequence[Run]) -> Sequence[Run]:
    number = next((index for index, run in enumerate(runs) if run.rd.name == name), 0)
    return runs[number:]

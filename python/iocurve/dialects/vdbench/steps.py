"""The steps of a parameter file: its runs, the formats before them, and the recovery of journals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
from msgspec.structs import replace

from iocurve.dialects.base import Measured, Step
from iocurve.dialects.vdbench.output.table import Row, average, ms, rows
from iocurve.dialects.vdbench.parameter_file import ParameterFile
from iocurve.dialects.vdbench.planned import Planned
from iocurve.dialects.vdbench.read.options import Loop
from iocurve.dialects.vdbench.runner import Writer, data_errors
from iocurve.dialects.vdbench.runs import Run, curve_target
from iocurve.engine.outcome import Live, Outcome
from iocurve.engine.plan import Plan
from iocurve.foundation.errors import RunError
from iocurve.foundation.units import counted
from iocurve.job.model import Job

RECOVERY = "journal_recovery"


def rounds(file: ParameterFile, writer: Writer) -> tuple[tuple[Step, ...], tuple[Step, ...]]:
    """The steps of all runs, and those of the rounds that repeat them (-l, loop=)."""
    request = file.validation.request if file.validation else None
    first = [_recovery(file, writer)] if request and request.recover else []
    if request and request.recover_only:
        return tuple(first), ()
    used, definitions = set[str](), set[int]()
    steps = (*first, *_round(file, writer, used, definitions, len(first)))
    return steps, () if file.loop == Loop() else tuple(_round(file, writer, used, definitions, 0))


def _round(file: ParameterFile, writer: Writer, used: set[str], definitions: set[int], number: int) -> Iterator[Step]:
    """The steps of a round; ``number`` is that of the first.

    Formats follow from the order of the runs: ``used`` has the anchors or SDs of earlier runs, ``definitions`` the run
    definitions, by identity, of which a run was formatted.
    """
    maximum: tuple[int, Run] | None = None
    points: tuple[int, ...] = ()
    for run in file.runs:
        pause_ns, before = run.rd.get("pause") or 0, frozenset(used)
        steps = _FileSteps(file, writer, run)
        if file.file_systems:
            used |= file.file_plans.anchors(run)
            already = id(run.rd) in definitions
            if file.file_plans.has_format(run, already=already, used=before):
                definitions.add(id(run.rd))
                yield steps.format(partial(file.format, run, already=already, used=before), pause_ns)
                number, pause_ns = number + 1, 0
            if not run.is_measured:
                continue
        else:
            used |= file.builder().build(run).storage if file.definitions.general.get("formatsds") else frozenset()
        if run.curve_percent is None:
            maximum, points = (number, run), ()
            yield steps.measured(before, pause_ns)
        else:
            assert maximum, "a point of a curve follows the run at its maximum"
            yield steps.measured(before, pause_ns, Curve(file, *maximum, points))
            points = (*points, number)
        number += 1


class Curve(msgspec.Struct, frozen=True):
    """The runs that a point of a curve depends on."""

    file: ParameterFile
    number: int
    """Number of the step of the run at the maximum."""
    run: Run
    points: tuple[int, ...]
    """Numbers of the steps of the points before."""

    def stopped(self, measured: Measured) -> bool:
        """True if a point before has reached ``stopcurve=``."""
        limit = self.run.rd.get("stopcurve")
        totals = [self._total(measured[number]) for number in self.points if number in measured]
        return limit is not None and any(total and ms(total.both.mean_ns) >= limit for total in totals)

    def rate(self, measured: Measured, percent: int) -> float | None:
        """The rate of the point of this percentage; None before the maximum is measured."""
        if self.number not in measured:
            return None
        total = self._total(measured[self.number])
        return float(curve_target(total.rate if total else 0.0, percent))

    def shares(self, measured: Measured) -> list[float]:
        """The share of each worker in the maximum."""
        workers = measured[self.number].workers if self.number in measured else ()
        counts = [sum(kind.operations for kind in worker.operations.values()) for worker in workers]
        return [number / max(1, sum(counts)) for number in counts]

    def _total(self, outcome: Outcome) -> Row | None:
        return total_of(self.run, self.file.counted(self.run), outcome)


def total_of(run: Run, counted_kinds: frozenset[str], outcome: Outcome) -> Row | None:
    """The average of the counted intervals of a run, or of all if it ended before the first of them."""
    made = rows(outcome.workers, run.timing.interval_ns, counted_kinds)
    return average(made, run.timing.skipped) or average(made, 0)


class _FileSteps(msgspec.Struct, frozen=True):
    """Makes the steps of a run."""

    file: ParameterFile
    writer: Writer
    run: Run

    def format(self, make: Callable[[], Planned], pause_ns: int) -> Step:
        """The step of the format before the run."""
        return replace(
            self._step(f"format_for_{self.run.name}", lambda _: self._kept(make())),
            pause_ns=pause_ns,
            goes_on=partial(_require_data, self.run),
        )

    def measured(self, used: frozenset[str], pause_ns: int, curve: Curve | None = None) -> Step:
        """The step of the run itself; of a point of a curve with the runs that it depends on."""
        run = self.run
        has_limit = run.curve_percent is not None and run.rd.get("stopcurve") is not None
        limits = data_limits(run, self.file)
        return replace(
            self._step(run.name, partial(self._plan, used, curve)),
            title=run.title,
            axes=run.axes,
            job=partial(self._job, used),
            kept=run.rate.kind == "curve" or has_limit,
            optional=bool(has_limit and curve and curve.points),
            pause_ns=pause_ns,
            enough=lambda: _ends_with_data(run, limits),
            goes_on=self._goes_on,
        )

    def _step(self, name: str, plan: Callable[[Measured], Plan | None]) -> Step:
        return Step(name=name, plan=plan, follow=lambda _: self.writer.follow(), answer=self.writer.answer)

    def _kept(self, planned: Planned) -> Plan:
        self.file.current = planned
        return planned.plan

    def _plan(self, used: frozenset[str], curve: Curve | None, measured: Measured) -> Plan | None:
        if curve is None or self.run.curve_percent is None:
            return self._kept(self.file.planned(self.run, None, None, used))
        if curve.stopped(measured):
            return None
        rate, shares = curve.rate(measured, self.run.curve_percent), curve.shares(measured)
        return self._kept(self.file.planned(self.run, rate, shares, used))

    def _job(self, used: frozenset[str]) -> Job:
        return self.file.resolve(self.run, formatted=used).built.job

    def _goes_on(self, outcome: Outcome) -> bool:
        """Raises ``RunError`` where a curve has no maximum, and where data could not be read or written."""
        if self.run.rate.kind == "curve":
            total = total_of(self.run, self.file.counted(self.run), outcome)
            if total is None or not total.rate:
                text = f"rd={self.run.name}: the run at the maximum measured nothing, so the curve has no points"
                raise RunError(text)
        return _require_data(self.run, outcome)


def _require_data(run: Run, outcome: Outcome) -> bool:
    if errors := data_errors(outcome):
        raise RunError(f"rd={run.name}: {counted(errors, 'I/O error')}: see errorlog.html")
    return True


def _ends_with_data(run: Run, limits: Mapping[str, int]) -> Callable[[Live], bool]:
    """The function that ends a run when maxdata= is reached: ``limits`` has bytes by kind, ``both`` counts all."""
    moved = Counter[str]()
    seen, number = (0, 0), 0

    def reached(live: Live) -> bool:
        nonlocal seen, number
        if live.intervals == 0 or (live.group, live.intervals) == seen:
            return False
        number += live.intervals - (seen[1] if live.group == seen[0] else 0)
        seen = live.group, live.intervals
        is_part = live.elapsed_ns < live.intervals * run.timing.interval_ns
        if is_part or number <= run.timing.skipped:
            return False
        for kind in ("read", "write"):
            moved[kind] += live.operations[kind].bytes if kind in live.operations else 0
        total = {**moved, "both": moved.total()}
        return any(total[kind] >= limit for kind, limit in limits.items())

    return reached if limits else lambda _: False


def data_limits(run: Run, file: ParameterFile) -> dict[str, int]:
    """Bytes after which a run ends, by kind. Values below 100 are multiples of the size of all SDs."""
    limits = {}
    for name, kind in (("maxdata", "both"), ("maxdataread", "read"), ("maxdatawritten", "write")):
        limit = run.rd.get(name)
        if limit is not None:
            whole = sum(storage.size or 0 for storage in file.topology.storage.values())
            limits[kind] = limit * whole if limit < 100 and whole else limit
    return limits


# -- data validation ---------------------------------------------------------------------------------------------------


def _recovery(file: ParameterFile, writer: Writer) -> Step:
    """Recovers the journals (-jr)."""

    def plan(_measured: Measured) -> Plan:
        found = file.recovery()
        if found is None:
            raise RunError("there is no journal to recover; write one first with -j in this directory")
        return found

    return Step(name=RECOVERY, plan=plan, follow=lambda _: writer.recovery_started(), answer=writer.recovered)


@contextmanager
def validation_maps(file: ParameterFile) -> Iterator[None]:
    """Provides the maps of data validation: in a temporary directory, or kept as journals."""
    validation = file.validation
    if validation is None:
        yield
    elif validation.request.journal:
        if not validation.request.recover:
            validation.remove_journals(file.topology, file.file_systems)
        yield
    else:
        with TemporaryDirectory(prefix="iocurve-vdbench-") as directory:
            file.validation = replace(validation, directory=Path(directory))
            try:
                yield
            finally:
                file.validation = validation


def links(file: ParameterFile, steps: Sequence[Step]) -> list[str]:
    """The names of all runs and formats in order, for links."""
    texts = {run.name: f"{run.name} For loops: {run.loops_text}" for run in file.runs}
    return [texts.get(step.name, f"{step.name} For loops: None") for step in steps if step.name != RECOVERY]

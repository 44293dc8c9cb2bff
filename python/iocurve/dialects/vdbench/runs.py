"""Expands run definitions into runs: SD sets, then loops in the order they are written, then the rates of iorate=.

Several rates of fwdrate= are a loop among the forxx loops.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from decimal import Decimal
from itertools import product
from random import Random
from typing import Literal

import msgspec
from msgspec.structs import replace

from iocurve.dialects.vdbench.read import values
from iocurve.dialects.vdbench.read.keywords import Definition, Definitions
from iocurve.dialects.vdbench.read.options import FormatOverride, Options
from iocurve.dialects.vdbench.read.values import Rate, Seek
from iocurve.foundation.errors import Diagnostic, DialectError
from iocurve.foundation.units import SECOND_NS
from iocurve.job.model import PlanNote
from iocurve.result.document import Axis

RUNS_MAX = 100_000
CURVE = (10, 50, 70, 80, 90, 100)
"""Default of curve=: points in percent of the maximum rate."""
ELAPSED_NS = 30 * SECOND_NS
_LABELS = {"operations": "operation", "compratio": "comp"}
"""vdbench's names of loops in the lines of runs, where they differ from the keyword's."""
SHOWN_BY_PLANS = ("forthreads", "forxfersize", "forrdpct")
"""Loops over what a plan of reads and writes shows as depth, block size and share of reads."""
_DISTRIBUTIONS = ("exponential", "uniform", "deterministic", "variable", "spike")


class Timing(msgspec.Struct, frozen=True):
    """Duration of a run, and the intervals that are counted."""

    elapsed_ns: int
    """elapsed=; it starts after the warmup if there is one."""
    warmup_ns: int | None
    interval_ns: int

    @property
    def skipped(self) -> int:
        """Number of intervals that are not counted: those of the warmup, or the first one."""
        return (self.warmup_ns or 0) // self.interval_ns or 1

    @property
    def total_ns(self) -> int:
        """Time from the first operation to the last."""
        return self.elapsed_ns + (self.warmup_ns or 0)

    @property
    def ramp_ns(self) -> int:
        """Time before the counted intervals."""
        return self.skipped * self.interval_ns


class Loops(msgspec.Struct, frozen=True):
    """A run's value of each forxx loop; None where the run definition has no such loop."""

    xfersize: int | None = None
    threads: int | None = None
    rdpct: Decimal | None = None
    rhpct: Decimal | None = None
    whpct: Decimal | None = None
    seekpct: Seek | None = None
    hitarea: int | None = None
    compratio: Decimal | None = None
    depth: int | None = None
    width: int | None = None
    files: int | None = None
    sizes: int | None = None
    totalsize: int | Decimal | None = None
    """Bytes; a percentage of the FSD's as a ``Decimal``."""
    wss: int | None = None
    operations: str | None = None


class Run(msgspec.Struct, frozen=True):
    """One run of a run definition."""

    rd: Definition
    name: str
    """Name of the run definition; a point of a curve has its percentage: ``rd1_(50%)``."""
    loops: Loops
    storage: tuple[str, ...] | None
    """SDs that replace those of the workloads (rd=…,sd=)."""
    rate: Rate
    arrivals: Literal["exponential", "uniform", "deterministic"]
    timing: Timing
    several_rates: bool
    formats: tuple[str, ...] = ()
    """The words of format=, after -co, -cy and -cn; empty for no format, and for SDs."""
    curve_percent: int | None = None
    """Rate in percent of the maximum that the curve's first run reached."""

    @property
    def is_of_files(self) -> bool:
        """True for file system workloads."""
        return _is_of_files(self.rd)

    @property
    def arrivals_at(self) -> Literal["even", "poisson"]:
        """The arrivals of a plan."""
        return "poisson" if self.arrivals == "exponential" else "even"

    @property
    def is_measured(self) -> bool:
        """False if only the format before it runs."""
        return not {"only", "clean"} & set(self.formats)

    @property
    def loops_text(self) -> str:
        """vdbench's text for the loops: ``threads=8 xfersize=4k``, or ``None``."""
        parts = [f"{_LABELS.get(name, name)}={self._loop_text(name)}" for name in self.rd.loops]
        if self.several_rates and self.curve_percent is None:
            parts.append(f"iorate={self.rate.per_second:f}")
        return " ".join(parts) or "None"

    @property
    def title(self) -> str:
        """The name with the values of the loops: ``rd1 threads=8``; runs of one definition differ in them."""
        return self.name if self.loops_text == "None" else f"{self.name} {self.loops_text}"

    @property
    def axes(self) -> dict[str, Axis] | None:
        """The values of the loops by their keywords: ``forfiles``, ``iorate``; None without loops."""
        words = {name: name if name == "fwdrate" else f"for{name}" for name in self.rd.loops}
        found: dict[str, Axis] = {word: _axis(self._loop_text(name)) for name, word in words.items()}
        if self.several_rates and self.curve_percent is None:
            found["iorate"] = _axis(f"{self.rate.per_second:f}")
        known = {name: value for name, value in found.items() if self.is_of_files or name not in SHOWN_BY_PLANS}
        return known if found else None

    def _loop_text(self, name: str) -> str:
        if name == "fwdrate":
            return f"{self.rate.per_second:f}" if self.rate.kind == "number" else self.rate.kind
        return _loop_text(name, getattr(self.loops, name))


def _is_of_files(rd: Definition) -> bool:
    return bool({"fwd", "fsd", "fwdrate"} & rd.values.keys())


def timing_notes(run: Run) -> Iterator[PlanNote]:
    """Warns of durations that vdbench itself refuses."""
    timing = run.timing
    for name, length in (("elapsed", timing.elapsed_ns), ("warmup", timing.warmup_ns or 0)):
        if length % timing.interval_ns:
            seconds = f"{length / SECOND_NS:g} is not a multiple of interval={timing.interval_ns // SECOND_NS}"
            text = f"rd={run.rd.name}: {name}={seconds}; vdbench itself refuses that"
            yield PlanNote("partial_interval", text, run.rd.position_of(name, "interval"), "warning")


def curve_target(max_rate: float, percent: int) -> int:
    """Operations per second of a point of a curve, rounded up to hundreds (below 1000 to tens) as vdbench does."""
    target = int(max_rate * percent / 100)
    step = 100 if target >= 1000 else 10
    return max(step, math.ceil(target / step) * step)


def expand(
    definitions: Definitions, storage: Sequence[str], cli: Options, rng: Random
) -> tuple[list[Run], list[Diagnostic]]:
    """Expands all run definitions in order; gives the errors in them, too.

    ``storage`` names all SDs; ``rng`` draws the sets of ``sd=setsofN``.
    """
    runs: list[Run] = []
    errors: list[Diagnostic] = []
    for rd in definitions.by_kind["rd"]:
        try:
            for run in _Expander(rd, storage, cli, rng).runs():
                if len(runs) >= RUNS_MAX:
                    raise ValueError(f"the limit of {RUNS_MAX} runs is exceeded")
                runs.append(run)
        except DialectError as error:
            errors += error.errors
        except ValueError as error:
            errors.append(Diagnostic(str(error), rd.where))
            if len(runs) >= RUNS_MAX:
                break
    return runs, errors


class _Expander:
    def __init__(self, rd: Definition, storage: Sequence[str], cli: Options, rng: Random) -> None:
        self._rd = rd
        self._storage = storage
        self._rng = rng
        self._words = self._distribution()
        self._timing = self._timed(cli)
        self._rates = self._requested_rates()
        self._formats = self._forced_formats(cli.format)

    def runs(self) -> Iterator[Run]:
        for chosen in self._storage_sets():
            for combination in product(*self._rd.loops.values()):
                chosen_values = dict(zip(self._rd.loops, combination, strict=True))
                rate = chosen_values.pop("fwdrate", None)
                loops = Loops(**chosen_values)
                rates = self._rates if rate is None else (rate,)
                for rate in rates:
                    run = Run(
                        rd=self._rd,
                        name=self._rd.name,
                        loops=loops,
                        storage=chosen,
                        rate=rate,
                        arrivals=self._arrivals(),
                        timing=self._timing,
                        several_rates=len(rates) > 1,
                        formats=self._formats,
                    )
                    yield run
                    if rate.kind == "curve":
                        yield from self._curve(run)

    def _curve(self, run: Run) -> Iterator[Run]:
        for percent in self._rd.get("curve", CURVE):
            yield replace(
                run, name=f"{run.name}_({percent}%)", rate=Rate("number"), several_rates=False, curve_percent=percent
            )

    def _distribution(self) -> list[str]:
        try:
            return [values.chosen(word, _DISTRIBUTIONS) for word in self._rd.get("distribution", ())]
        except ValueError as error:
            raise self._error(str(error), "distribution") from None

    def _error(self, text: str, *names: str, hint: str | None = None) -> DialectError:
        return DialectError([Diagnostic(f"rd={self._rd.name}: {text}", self._rd.position_of(*names), hint)])

    def _arrivals(self) -> Literal["exponential", "uniform", "deterministic"]:
        for word in self._words:
            if word in ("uniform", "deterministic"):
                return "uniform" if word == "uniform" else "deterministic"
        return "exponential"

    def _requested_rates(self) -> tuple[Rate, ...]:
        field = "fwdrate" if _is_of_files(self._rd) else "iorate"
        rates: tuple[Rate, ...] | None = self._rd.get(field)
        if rates is None and field in self._rd.wrong:
            return ()
        if rates is None:
            hint = f"add {field}=max, {field}=curve or a number"
            raise self._error(f"{field}= is missing", hint=hint)
        if "spike" in self._words:
            raise self._error("distribution=spike is not supported yet", "distribution")
        if "variable" not in self._words:
            return rates
        if any(rate.kind != "number" for rate in rates) or len(rates) % 2:
            text = "distribution=variable needs pairs of a rate and its duration in seconds"
            raise self._error(text, field, hint="iorate=(100,10,1000,5)")
        pairs = tuple(
            (rate.per_second, int(length.per_second)) for rate, length in zip(rates[::2], rates[1::2], strict=True)
        )
        if not 0 < sum(seconds for _, seconds in pairs) <= 3600 or any(seconds < 1 for _, seconds in pairs):
            raise self._error(
                "the durations of a variable rate must be at least 1 s each and at most 3600 s together", field
            )
        return (Rate("variable", pattern=pairs),)

    def _timed(self, cli: Options) -> Timing:
        elapsed = cli.elapsed_ns or self._rd.get("elapsed", ELAPSED_NS)
        warmup = self._rd.get("warmup") if cli.warmup_ns is None else cli.warmup_ns
        interval = cli.interval_ns or self._rd.get("interval") or min(elapsed // 2, 60 * SECOND_NS)
        # vdbench's intervals are whole seconds.
        interval = max(SECOND_NS, interval // SECOND_NS * SECOND_NS)
        if elapsed < 2 * interval:
            text = f"elapsed={elapsed // SECOND_NS} is shorter than two intervals of {interval // SECOND_NS} s"
            raise self._error(text, "elapsed", "interval", hint="vdbench does not count the first interval")
        if elapsed + (warmup or 0) > 2**62:
            raise self._error("elapsed= is too long", "elapsed")
        return Timing(elapsed, warmup or None, interval)

    def _forced_formats(self, forced: FormatOverride | None) -> tuple[str, ...]:
        """The words of format=, after -co, -cy and -cn."""
        words: tuple[str, ...] = self._rd.get("format", ())
        if not _is_of_files(self._rd):
            return ()
        if forced == "no":
            return tuple(word for word in words if word == "complete")
        if forced and "complete" in words:
            text = "format=complete and a format that the command line forces exclude each other"
            raise self._error(text, "format", hint="leave out -co or -cy")
        return tuple(dict.fromkeys((*words, forced))) if forced else words

    def _storage_sets(self) -> Iterator[tuple[str, ...] | None]:
        words = self._rd.get("sd")
        if words is None:
            yield None
            return
        word = words[0].lower() if len(words) == 1 and words[0] not in self._storage else ""
        if word in ("single", "range"):
            for number in range(len(self._storage)):
                yield tuple(self._storage[(number if word == "single" else 0) : number + 1])
        elif word.startswith("setsof") and word[6:].isdecimal() and int(word[6:7] and word[6:][:9]):
            shuffled = self._rng.sample(list(self._storage), len(self._storage))
            size = int(word[6:][:9])
            for start in range(0, len(shuffled), size):
                yield tuple(shuffled[start : start + size])
        else:
            try:
                yield tuple(values.matching(words, self._storage, "sd"))
            except ValueError as error:
                raise self._error(str(error), "sd") from None


def _axis(text: str) -> Axis:
    """The number in a text, or the text."""
    try:
        value = float(text)
    except ValueError:
        return text
    return int(value) if value.is_integer() else value


def _loop_text(name: str, value: int | Decimal | Seek | str) -> str:
    if isinstance(value, int) and name in ("xfersize", "hitarea", "sizes", "wss", "totalsize"):
        return _size_text(value)
    if isinstance(value, Decimal):
        return f"{value:f}%" if name == "totalsize" else f"{value:f}"
    return str(value)


def _size_text(size: int) -> str:
    """Formats ``4k``, ``1m``, ``512``."""
    for letter, scale in (("t", 1 << 40), ("g", 1 << 30), ("m", 1 << 20), ("k", 1 << 10)):
        if size and size % scale == 0:
            return f"{size // scale}{letter}"
    return str(size)

"""A history of results: its table in the terminal, its page, and JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from iocurve.analysis.history import BEFORE_MIN, FALSE_ALARMS, RUNS_MIN, SMALLEST, HistoryRun, Level, Series
from iocurve.report.compared import value_text
from iocurve.report.table import Table
from iocurve.result.stats import CONFIDENCE

COLUMNS = ("point", "figure", "runs", "first", "last", "changes")


class History(msgspec.Struct, frozen=True):
    """Runs in order of time, and the series of their figures."""

    runs: tuple[HistoryRun, ...]
    series: tuple[Series, ...]

    @property
    def notes(self) -> tuple[str, ...]:
        """The false-alarm rate, and what is not searched or not reported."""
        searched = sum(len(one.runs) >= RUNS_MIN for one in self.series)
        few = len(self.series) - searched
        return (
            f"{searched} series searched for changes of more than {100 * SMALLEST:g} %: of series without a change, "
            f"at most {100 * FALSE_ALARMS:g} % show one. A change takes three runs; the newest run of each series is "
            f"judged by itself where at least {BEFORE_MIN} runs are before it, with the same rate.",
            *([f"{few} of fewer than {RUNS_MIN} runs are not searched."] if few else []),
        )

    def run_text(self, series: Series, index: int) -> str:
        """``run 12, 2026-11-20 10:15, nightly/20``."""
        number = series.runs[index]
        run = self.runs[number]
        return f"run {number + 1}, {run.result.created:%Y-%m-%d %H:%M}, {run.source}"


def changes(history: History, series: Series) -> list[str]:
    """``run 12, …: 8k → 7.2k (-10.0 %)`` for each change, drifts, and a newest run outside of what came before."""
    texts = []
    before: Level | None = None
    for level in series.levels:
        if before is not None:
            change = _change_text(series.name, before.end, level.start)
            texts.append(f"{history.run_text(series, level.first)}: {change}")
        if level.is_drift:
            first, last = series.runs[level.first] + 1, series.runs[level.last] + 1
            texts.append(f"drifts from run {first} to {last}: {_change_text(series.name, level.start, level.end)}")
        before = level
    newest = series.newest
    if newest and newest.is_outside:
        change = _change_text(series.name, newest.before, newest.value)
        place = history.run_text(series, len(series.runs) - 1)
        texts.append(f"{place}, the newest, is outside of what came before: {change}, p = {newest.p:.1g}")
    return texts


def _change_text(name: str, before: float, after: float) -> str:
    return f"{value_text(name, before)} → {value_text(name, after)} ({100 * (after / before - 1):+.1f} %)"


def rows(history: History) -> Iterator[tuple[str, ...]]:
    """The cells of each series."""
    for one in history.series:
        found = changes(history, one)
        none = "none" if len(one.runs) >= RUNS_MIN else "too few runs"
        yield (
            one.point,
            one.name,
            str(len(one.runs)),
            value_text(one.name, one.values[0].value),
            value_text(one.name, one.values[-1].value),
            "; ".join(found) or none,
        )


def table(history: History) -> Table:
    """The table of the terminal."""
    return Table(COLUMNS, list(rows(history)), numbers=("runs", "first", "last"), sentences=("changes",))


def document(history: History) -> dict[str, object]:
    """The history for programs; runs count from 0."""
    return {
        "runs": [
            {"source": run.source, "created": run.result.created.isoformat(), "iocurve": run.result.iocurve}
            for run in history.runs
        ],
        "confidence": CONFIDENCE,
        "false_alarms": FALSE_ALARMS,
        "series": [_record(one) for one in history.series],
    }


def _record(one: Series) -> dict[str, object]:
    return {
        "point": one.point,
        "family": one.family,
        "figure": one.name,
        "values": [
            {"run": run, "value": value.value, "low": value.low, "high": value.high}
            for run, value in zip(one.runs, one.values, strict=True)
        ],
        "searched": len(one.runs) >= RUNS_MIN,
        "levels": [_level(one.runs, level) for level in one.levels],
        "newest": _newest(one),
    }


def _newest(series: Series) -> dict[str, object] | None:
    newest = series.newest
    if newest is None:
        return None
    return {"run": series.runs[-1], "before": newest.before, "p": newest.p, "outside": newest.is_outside}


def _level(runs: Sequence[int], level: Level) -> dict[str, object]:
    return {"first_run": runs[level.first], "last_run": runs[level.last], "start": level.start, "end": level.end}

"""A comparison of results, and a history of them, as text: tables of the terminal, Markdown, JSON."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

import msgspec
from msgspec.structs import replace

from iocurve.analysis.compare import CORRECTION, SINGLE_RUN, Comparison, Difference, label
from iocurve.analysis.history import BEFORE_MIN, FALSE_ALARMS, RUNS_MIN, SMALLEST, HistoryRun, Level, Series
from iocurve.foundation.errors import option
from iocurve.foundation.units import MICROSECOND_NS, counted, format_count, format_latency
from iocurve.report.conditions import Folded, conditions
from iocurve.report.table import Table, bold, code
from iocurve.result.document import Result
from iocurve.result.figures import RESPONSE, of_kind, plain
from iocurve.result.paired import Verdict, margin_text
from iocurve.result.stalls import first_names
from iocurve.result.stats import CONFIDENCE

VERDICTS: tuple[Verdict, ...] = ("slower", "faster", "no difference", "inconclusive")
"""In the order of summaries: regressions first."""
UNLIKE = ("Name", "Started", "Ceiling of the loop", "Seeds", "Idle daemons", "Longest idle gap", "Session slots")
"""Facts that differ between any two results, or are measured."""
LOOPBACK_PORT = re.compile(r"(127\.0\.0\.1|localhost|\[::1\]):\d+")
"""An embedded volume has another port in each run."""
FIGURE_NAMES = {
    "iops": "IOPS",
    "p50_us": "p50",
    "p99_us": "p99",
    "p99_9_us": "p99.9",
    "cpu_us_per_operation": "CPU per operation",
}


class Compared(msgspec.Struct, frozen=True):
    """A comparison with the names that its reader knows the results by."""

    comparison: Comparison
    sources: tuple[str, ...]
    """Paths, or the commands or targets that were measured in turns."""

    @property
    def is_of_turns(self) -> bool:
        """The points of one result are compared."""
        return len(self.comparison.results) == 1

    @property
    def labels(self) -> tuple[str, ...]:
        """``A``, ``B``, … for the results."""
        return tuple(map(label, range(len(self.sources))))

    @property
    def summary(self) -> str:
        """``2 slower, 1 faster, 12 no difference``."""
        found = Counter(one.verdict for one in self.comparison.differences)
        return ", ".join(f"{found[verdict]} {verdict}" for verdict in VERDICTS if verdict in found)

    @property
    def notes(self) -> tuple[str, ...]:
        """The correction and the margin, and what the intervals do not hold."""
        tested, margin = self.comparison.tested, margin_text(self.comparison.margin)
        if not tested:
            return (f"No difference has an interval. Differences of {margin} or more matter (--margin).",)
        return (
            f"All {counted(tested, 'interval')} together hold with {100 * CONFIDENCE:g} % ({CORRECTION}'s correction). "
            f"Differences of {margin} or more matter (--margin).",
            *([SINGLE_RUN] if self.comparison.has_single_runs else []),
            *self._chosen_runs,
        )

    @property
    def _chosen_runs(self) -> Iterator[str]:
        """The number of runs that their noise chose, and what they could have seen; empty where it was given."""
        chosen = [point for result in self.comparison.results for point in result.points if point.runs_chosen]
        seen = [one for each in self.comparison.of("iops") if (one := each.detectable_percent) is not None]
        if chosen:
            runs = max(len(point.runs) for point in chosen)
            is_over = any(note.code == "left_out" for result in self.comparison.results for note in result.notes)
            why = "was chosen by their noise" if not is_over else f"ended with {option('search_time')}"
            finds = f": a change of {max(seen):.2g} % of IOPS is found in 8 of 10 such comparisons" if seen else ""
            yield f"The number of runs of each, {runs}, {why}{finds}."

    @property
    def conditions(self) -> list[tuple[str, tuple[str, ...]]]:
        """The facts in which the results differ, and their values; those of turns in one result are the same."""
        return [] if self.is_of_turns else differing(self.comparison.results)

    @property
    def unmatched(self) -> list[str]:
        """``random-4k depth 8: only in A``."""
        return [
            f"{one.point}: in A, not in {label(one.other)}"
            if one.is_of_base
            else f"{one.point}: only in {label(one.other)}"
            for one in self.comparison.unmatched
        ]


def differing(results: Sequence[Result]) -> list[tuple[str, tuple[str, ...]]]:
    """The conditions that are not the same in all results, disturbances of points among them."""
    facts: dict[str, list[str]] = {}
    for place, result in enumerate(results):
        for heading, found in conditions(result).items():
            for name, fact in found.items():
                if name not in UNLIKE:
                    text = fact.text if isinstance(fact, Folded) else fact
                    kept = facts.setdefault(f"{heading}: {name}", ["–"] * len(results))
                    kept[place] = LOOPBACK_PORT.sub(r"\1", text)
        facts.setdefault("Noisy points", [""] * len(results))[place] = _disturbed(result)
    return [(name, tuple(values)) for name, values in facts.items() if len(set(values)) > 1]


def _disturbed(result: Result) -> str:
    found = [point.noise for point in result.points if point.noise]
    return f"{len(found)} of {len(result.points)}: {found[0]}" if found else "none"


# ---- cells


def figure_name(name: str) -> str:
    """``p99``, ``response p99``, ``read p99``."""
    kind, figure = of_kind(name)
    mark = "response" if figure.startswith(RESPONSE) else None
    return " ".join(filter(None, (kind, mark, FIGURE_NAMES[plain(figure)])))


def value_text(name: str, value: float) -> str:
    """``12.8k``, ``1.2 ms``, ``512.0``."""
    if of_kind(name)[1] == "iops":
        return format_count(value)
    return format_latency(value * MICROSECOND_NS) if "_us" in name else f"{value:,.1f}"


def change_text(one: Difference) -> str:
    """``+3.2 % [+1.1, +5.4]``; a bound that is not known is a question mark."""
    text = f"{_signed(one.change_percent)} %"
    if one.low_percent is None and one.high_percent is None:
        return text
    bounds = ("?" if bound is None else _signed(bound) for bound in (one.low_percent, one.high_percent))
    return f"{text} [{', '.join(bounds)}]"


def _signed(percent: float) -> str:
    """With one decimal, and more where a bound next to zero would read as zero."""
    for digits in (1, 2, 3):
        text = f"{percent:+.{digits}f}"
        if float(text):
            return text
    return "0.0"


def rows(compared: Compared) -> Iterator[tuple[str, ...]]:
    """The cells of each difference: point, the result where there are several, figure, both values, change, verdict."""
    several = len(compared.sources) > 2
    for one in compared.comparison.differences:
        yield (
            one.point if one.point == one.other_point else f"{one.point} → {one.other_point}",
            *([label(one.other)] if several else []),
            figure_name(one.name),
            value_text(one.name, one.base_value),
            value_text(one.name, one.value),
            change_text(one),
            one.verdict_text,
        )


def columns(compared: Compared) -> tuple[str, ...]:
    """The names of the cells."""
    if len(compared.sources) > 2:
        return "point", "to A", "figure", "A", "value", "change", "verdict"
    return "point", "figure", *(("A", "B") if len(compared.sources) == 2 else ("base", "value")), "change", "verdict"


# ---- forms


def table(compared: Compared) -> Table:
    """All differences."""
    return Table(columns(compared), list(rows(compared)), numbers=("A", "B", "base", "value"), sentences=("verdict",))


def grouped(table: Table) -> Table:
    """The table with each point named once, and a gap between points."""
    shown: list[Sequence[str]] = []
    point = None
    for row in table.rows:
        if point not in (None, row[0]):
            shown.append(())
        shown.append(row if row[0] != point else ("", *row[1:]))
        point = row[0]
    return replace(table, rows=shown)


def conditions_table(compared: Compared) -> Table | None:
    """The conditions that differ; None where none does."""
    found = [(name, *values) for name, values in compared.conditions]
    if not found:
        return None
    return Table(("conditions that differ", *compared.labels), found, sentences=compared.labels)


MARKDOWN_ROWS = 5
"""Most differences in the comment of a pull request, which has at most 15 lines."""


def markdown(compared: Compared) -> str:
    """For the comment of a pull request, in at most 15 lines: the summary, what changed most, and what is left out."""
    differences, cells = compared.comparison.differences, list(rows(compared))
    changed = [place for place, one in enumerate(differences) if one.verdict in ("faster", "slower")]
    changed.sort(key=lambda place: (differences[place].verdict != "slower", -abs(differences[place].change_percent)))
    shown = [_bold(cells[place]) for place in changed[:MARKDOWN_ROWS]]
    same, untold = (sum(one.verdict == name for one in differences) for name in ("no difference", "inconclusive"))
    rest = [
        *([f"{counted(len(changed) - len(shown), 'more change')}"] if len(changed) > len(shown) else []),
        f"{counted(same, 'figure')} without a difference",
        f"{untold} inconclusive",
        *([f"{counted(len(compared.unmatched), 'point')} without a partner"] if compared.unmatched else []),
        *([f"{counted(len(compared.conditions), 'condition')} that differ"] if compared.conditions else []),
    ]
    sources = ", ".join(f"{name}: {code(one)}" for name, one in zip(compared.labels, compared.sources, strict=True))
    return "\n".join(
        [
            f"**{compared.summary}**",
            "",
            sources,
            "",
            *([*replace(table(compared), rows=shown).markdown(), ""] if shown else []),
            f"Not shown: {', '.join(rest)}. `iocurve compare` with these results shows all; `--html` writes a page.",
            "",
            f"<sub>{' '.join(compared.notes)}</sub>",
            "",
        ]
    )


def _bold(row: tuple[str, ...]) -> tuple[str, ...]:
    return (*row[:-1], bold(row[-1])) if row[-1].startswith(("faster", "slower")) else row


def document(compared: Compared) -> dict[str, object]:
    """The comparison for programs; names as in result.json, changes in percent."""
    comparison = compared.comparison
    return {
        "results": [
            {"label": name, "source": source, **_identity(compared, place)}
            for place, (name, source) in enumerate(zip(compared.labels, compared.sources, strict=True))
        ],
        "conditions": [
            {"name": name, "values": dict(zip(compared.labels, values, strict=True))}
            for name, values in compared.conditions
        ],
        "margin": comparison.margin,
        "confidence": CONFIDENCE,
        "correction": CORRECTION,
        "intervals": comparison.tested,
        "differences": [one.to_record() | {"other": label(one.other)} for one in comparison.differences],
        "unmatched": [
            {
                "point": one.point,
                "series": one.family,
                "missing_in": label(one.other if one.is_of_base else 0),
                "compared_with": label(one.other),
            }
            for one in comparison.unmatched
        ],
        "notes": list(compared.notes),
    }


def _identity(compared: Compared, place: int) -> dict[str, str]:
    results = compared.comparison.results
    result = results[place] if place < len(results) else results[0]
    return {"name": result.name, "created": result.created.isoformat(), "iocurve": result.iocurve}


# ---- a history

HISTORY_COLUMNS = ("point", "figure", "runs", "first", "last", "changes")


class History(msgspec.Struct, frozen=True):
    """Runs in order of time, and the series of their figures."""

    runs: tuple[HistoryRun, ...]
    series: tuple[Series, ...]

    @property
    def summary(self) -> str:
        """``3 of 12 series changed: read depth 8 (iops), …``."""
        changed = [f"{one.point} ({one.name})" for one in self.series if history_changes(self, one)]
        of = f"of {len(self.series)} series changed"
        return f"{len(changed)} {of}: {first_names(changed)}." if changed else f"None {of}."

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
        source, result = self.runs[number]
        return f"run {number + 1}, {result.created:%Y-%m-%d %H:%M}, {source}"


def history_changes(history: History, series: Series) -> list[str]:
    """``run 12, …: 8k → 7.2k (-10.0 %)`` for each change, drifts, and a newest run outside of what came before."""
    texts = []
    before: Level | None = None
    for level in series.levels:
        if before is not None:
            change = _level_change_text(series.name, before.end, level.start)
            texts.append(f"{history.run_text(series, level.first)}: {change}")
        if level.is_drift:
            first, last = series.runs[level.first] + 1, series.runs[level.last] + 1
            texts.append(
                f"drifts from run {first} to {last}: {_level_change_text(series.name, level.start, level.end)}"
            )
        before = level
    newest = series.newest
    if newest and newest.is_outside:
        change = _level_change_text(series.name, newest.before, newest.value)
        place = history.run_text(series, len(series.runs) - 1)
        texts.append(f"{place}, the newest, is outside of what came before: {change}, p = {newest.p:.1g}")
    return texts


def _level_change_text(name: str, before: float, after: float) -> str:
    return f"{value_text(name, before)} → {value_text(name, after)} ({100 * (after / before - 1):+.1f} %)"


def _history_rows(history: History) -> Iterator[tuple[str, ...]]:
    """The cells of each series."""
    for one in history.series:
        found = history_changes(history, one)
        none = "none" if len(one.runs) >= RUNS_MIN else "too few runs"
        yield (
            one.point,
            one.name,
            str(len(one.runs)),
            value_text(one.name, one.values[0].value),
            value_text(one.name, one.values[-1].value),
            "; ".join(found) or none,
        )


def history_table(history: History) -> Table:
    """The table of the terminal."""
    return Table(
        HISTORY_COLUMNS, list(_history_rows(history)), numbers=("runs", "first", "last"), sentences=("changes",)
    )


def history_document(history: History) -> dict[str, object]:
    """The history for programs; runs count from 0."""
    return {
        "runs": [
            {"source": source, "created": result.created.isoformat(), "iocurve": result.iocurve}
            for source, result in history.runs
        ],
        "confidence": CONFIDENCE,
        "false_alarms": FALSE_ALARMS,
        "series": [_series_record(one) for one in history.series],
    }


def _series_record(one: Series) -> dict[str, object]:
    return {
        "point": one.point,
        "series": one.family,
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

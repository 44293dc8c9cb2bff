"""Two command lines and what their differences are worth, for people and programs: tables, a page, a document."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from iocurve._native import VERSION
from iocurve.advice.differ import LABELS, Attribution, Factors, FieldDifference, MeasuredRates
from iocurve.foundation.units import MIB, counted, format_count
from iocurve.report import chart_bars
from iocurve.report.cells import ReportFigure
from iocurve.report.chart_bars import WaterfallBar
from iocurve.report.page import rendered
from iocurve.report.table import Table
from iocurve.result.document import Result
from iocurve.result.document_file import write_atomically
from iocurve.result.paired import RateRatio

PAGE_NAME = "differ.html"
REST = "rest"


def differences_table(found: Sequence[FieldDifference], expected: Mapping[str, float] | None = None) -> Table:
    """The fields of both commands, with the factors that a service level lets expect."""
    rows = [(one.name, *map(_said, one.texts, one.defaults)) for one in found]
    if expected is None:
        return Table(("field", *LABELS), rows, sentences=LABELS)
    rows += [(name, "", "") for name in (REST, "B / A")]
    factors = [f"{expected[row[0]]:.2f} ×" if row[0] in expected else "not known" for row in rows]
    shown = [(*row, factor) for row, factor in zip(rows, factors, strict=True)]
    return Table(("field", *LABELS, "expected"), shown, numbers=("expected",), sentences=LABELS)


def _said(text: str, is_default: bool) -> str:
    return f"{text} (default)" if is_default else text


def ratio_text(ratio: RateRatio) -> str:
    """``1.41 × [1.38, 1.44]``."""
    return " ".join(filter(None, (f"{ratio.value:.2f} ×", ratio.bounds_text)))


def shares_table(found: Factors) -> Table:
    """The factors of the fields and of the rest, which multiply to the whole gap."""
    rows = [(one.name, ratio_text(one.ratio), one.ratio.verdict_text) for one in found.shares]
    rows.append((REST, ratio_text(found.rest), found.rest.verdict_text))
    rows.append(("B / A", ratio_text(found.total), found.total.verdict_text))
    return Table(("field", "factor (95 %)", "verdict"), rows, numbers=("factor (95 %)",), sentences=("verdict",))


def sentence(found: Factors) -> str:
    """``B is 1.72 × A [1.65, 1.80]: direct 1.41 ×, iodepth 1.20 ×; rest 1.02 ×``."""
    ordered = sorted(found.shares, key=lambda one: -max(one.ratio.value, 1 / one.ratio.value))
    parts = ", ".join(f"{one.name} {one.ratio.value:.2f} ×" for one in ordered)
    bounds = f" {found.total.bounds_text}" if found.total.bounds_text else ""
    return f"B is {found.total.value:.2f} × A{bounds}: {parts}; rest {found.rest.value:.2f} ×"


def remarks(found: Attribution) -> Iterator[str]:
    """Remarks for a reader of the factors."""
    if found.factors.total.verdict == "inconclusive":
        yield "inconclusive: the rates of A and B differ too little for their noise, or too few turns were measured"
    for one in found.factors.interactions:
        yield (
            f"{' and '.join(one.names)} depend on each other: together they give {ratio_text(one.ratio)} of what their "
            "separate factors would"
        )
    if found.without_effect:
        names = ", ".join(found.without_effect)
        yield f"no effect on the load on this target: {names}"
    if not found.is_whole:
        yield f"mean over {found.orders} of the orders of switching the fields; interactions are not looked for"
    yield from found.outliers


def measured_text(found: MeasuredRates) -> str:
    """``measured: A 44.1 MiB/s, B 60.2 MiB/s: B is 1.37 × A``."""
    texts = (f"{label} {_rate_text(rate, found.unit)}" for label, rate in zip(LABELS, found.rates, strict=True))
    gap = f": B is {found.rates[1] / found.rates[0]:.2f} × A" if found.rates[0] else ""
    return f"measured: {', '.join(texts)}{gap}"


def document(
    differences: Sequence[FieldDifference],
    found: Attribution | None,
    expected: Mapping[str, float] | None = None,
    measured: MeasuredRates | None = None,
) -> dict[str, object]:
    """All as JSON; without a target no attribution, without a service level no expected factors."""
    return {
        "differences": [one.to_builtins() for one in differences],
        "measured": measured.to_builtins() if measured else None,
        "attribution": found.to_builtins() if found else None,
        "expected": expected,
    }


def write(
    sources: Sequence[str], differences: Sequence[FieldDifference], found: Attribution, result: Result, directory: Path
) -> Path:
    """Writes the page next to the result; gives its path. Raises ``ResultError``."""
    path = directory / PAGE_NAME
    waterfall = ReportFigure(
        "waterfall",
        "From A to B",
        f"Each field's factor is the mean over {counted(found.orders, 'order')} of switching the fields. All factors "
        "multiply to the whole gap; the rest is the part that the named fields do not explain.",
        (chart_bars.waterfall(_bars(found), found.unit),),
        shares_table(found.factors),
    )
    fields = ReportFigure("fields", "Fields that differ", "", (), differences_table(differences))
    page = rendered(
        "compared.html",
        title="Why two commands differ",
        version=VERSION,
        sources=list(zip(LABELS, sources, strict=True)),
        subtitle=f"{result.created:%Y-%m-%d %H:%M} UTC, on {result.target.address}",
        finding=f"{sentence(found.factors)}.",
        notes=list(remarks(found)),
        missing=[],
        figures=[waterfall, fields],
    )
    write_atomically(path, page.encode())
    return path


def _bars(found: Attribution) -> list[WaterfallBar]:
    first, last = (_scaled(rate, found.unit) for rate in found.rates)
    before, after_all = (_rate_text(rate, found.unit) for rate in found.rates)
    bars: list[WaterfallBar] = [("A", 0.0, first, before, None)]
    level = first
    for name, ratio in [*((one.name, one.ratio) for one in found.factors.shares), (REST, found.factors.rest)]:
        after = level * ratio.value
        bars.append((name, level, after, ratio_text(ratio), ratio.verdict))
        level = after
    return [*bars, ("B", 0.0, last, after_all, None)]


def _rate_text(rate: float, unit: str) -> str:
    return f"{_scaled(rate, unit):,.1f} MiB/s" if unit == "MiB/s" else f"{format_count(rate)} IOPS"


def _scaled(rate: float, unit: str) -> float:
    """MiB/s of bytes per second."""
    return rate / MIB if unit == "MiB/s" else rate

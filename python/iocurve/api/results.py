"""Results of earlier runs, and the charts of their reports, for programs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from iocurve.analysis import checks as checking
from iocurve.analysis import compare as comparing
from iocurve.analysis.check_expressions import parse_all
from iocurve.analysis.check_names import Vocabulary
from iocurve.analysis.checks import Checks
from iocurve.analysis.compare import Comparison
from iocurve.analysis.reading import Reading
from iocurve.result.document import Result
from iocurve.result.paired import MARGIN

if TYPE_CHECKING:
    import altair

    from iocurve.report.chart_style import Chart


def load(path: Path | str) -> Result:
    """Reads a result: ``result.json``, or the directory of a report. Raises ``ResultError``."""
    return Result.read(path)


def compare(base: Result | Path | str, *others: Result | Path | str, margin: float = MARGIN) -> Comparison:
    """Compares results, or those at paths, with the first; of one alone its points that took turns.

    ``margin`` is the smallest relative difference that matters: 0.1 is 10 %. Raises ``ResultError``, also if there is
    nothing to compare.
    """
    first, *rest = map(_result, (base, *others))
    return comparing.compare(first, *rest, margin=margin) if rest else comparing.compare_turns(first, margin)


def check(result: Result | Path | str, *expressions: str) -> Checks:
    """Checks which points fail an expression, as ``iocurve check --fail-if``: ``check(result, "p99 > 2ms")``.

    ``result`` is one, or the path of one. The ``verdict`` is ``failed`` if one expression holds for a point,
    ``inconclusive`` if its interval spans the bound. Raises ``ResultError``, and ``DialectError`` with the place of
    each error in the expressions.
    """
    found = _result(result)
    return checking.check(found, parse_all(expressions, Vocabulary.of(found)))


def _result(result: Result | Path | str) -> Result:
    return result if isinstance(result, Result) else load(result)


def openmetrics(result: Result) -> str:
    """The result in OpenMetrics text format, as ``iocurve result metrics``."""
    # The library of metrics takes a while to load.
    from iocurve.report.metrics import ResultMetrics
    from iocurve.result.openmetrics import text

    return text(ResultMetrics(result)).decode()


def charts(result: Result) -> dict[str, altair.Chart]:
    """The charts of the report as objects of altair, by the names of their images (``iocurve report --images``)."""
    # The libraries that draw take most of a second to load.
    import altair

    from iocurve.report.chart_style import labelled
    from iocurve.report.conditions import emulation_label
    from iocurve.report.figures import figures

    label = emulation_label(result)
    found = {}
    for figure in figures(Reading(result)):
        for number, chart in enumerate(figure.charts, start=1):
            name = figure.slug if len(figure.charts) == 1 else f"{figure.slug}-{number}"
            found[name] = altair.Chart.from_dict(_valid(labelled(chart, label)))
    return found


def _valid(chart: Chart) -> Chart:
    """The chart without the layout of its legend, which Vega-Lite draws and altair's schema does not know."""
    config = chart["config"]
    legend = {name: value for name, value in config["legend"].items() if name != "layout"}
    return chart | {"config": config | {"legend": legend}}

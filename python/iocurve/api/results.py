"""Results of earlier runs, and the charts of their reports, for programs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from iocurve.analysis.reading import Reading
from iocurve.result.document import Result

if TYPE_CHECKING:
    import altair

    from iocurve.report.charts import Chart


def load(path: Path | str) -> Result:
    """Reads a result: ``result.json``, or the directory of a report. Raises ``ResultError``."""
    return Result.read(path)


def charts(result: Result) -> dict[str, altair.Chart]:
    """The charts of the report as objects of altair, by the names of their images (``iocurve report --images``)."""
    # The libraries that draw take most of a second to load.
    import altair

    from iocurve.report.charts import labelled
    from iocurve.report.figures import figures
    from iocurve.report.setting import emulation_label

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

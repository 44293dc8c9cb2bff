"""What the report shows: one figure per question, each a chart or two and a table with the exact figures.

Figures follow from the axes of a family of points, not from its name: points along ``read_percent`` are a mix, points
along ``depth`` a latency curve. Whatever varies in no way that is known here gets its course over time.
"""

from __future__ import annotations

from dataclasses import replace

from iocurve.analysis.families import Family, families
from iocurve.analysis.limits import volume_description
from iocurve.report import charts, loads
from iocurve.report import comparisons as beside
from iocurve.report.cells import Figure
from iocurve.result.document import Result


def figures(result: Result) -> list[Figure]:
    """All figures of a result, in the order of its families; what compares several comes after them.

    What was measured on an emulated target says so on every chart.
    """
    found = families(result)
    made = [
        *(figure for family in found for figure in _figures(family, result)),
        *beside.single_loads(found, result),
        *beside.comparisons(found, result),
        *beside.with_published(result),
    ]
    emulated = words_of_emulation(result)
    return [replace(one, charts=tuple(charts.labelled(chart, emulated) for chart in one.charts)) for one in made]


def _figures(family: Family, result: Result) -> list[Figure]:
    if family.is_mix:
        return [loads.mix(family, result)]
    if family.is_advice:
        return [beside.advice_table(family)]
    if family.is_depth:
        return [loads.latency(family, result), *loads.side_by_side(family, result)]
    if family.is_rate:
        return [loads.by_rate(family, result)]
    if family.is_grid:
        return [beside.grid(family, result)]
    return [loads.over_time(family, result)]


def words_of_emulation(result: Result) -> str:
    """What was emulated; empty where nothing was."""
    facts = result.scenario.targets.values() if result.scenario else [result.target]
    named = [
        _EMULATED[one.kind].format(what=one.address if result.scenario else volume_description(one) or "no limits")
        for one in facts
        if one.kind in _EMULATED
    ]
    return "emulated target: " + " and ".join(dict.fromkeys(named)) if named else ""


_EMULATED = {"embedded_volume": "embedded NFS volume ({what})", "emulated_disk": "disk ({what})"}

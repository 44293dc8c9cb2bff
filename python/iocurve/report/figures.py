"""Chooses the figures of a report: each is a chart or two, and a table with the exact values.

The axes of a family decide, not its name: points along ``read_percent`` are drawn as a mix, points along ``depth`` as a
latency curve. A family that varies along no known axis is drawn over time.
"""

from __future__ import annotations

from dataclasses import replace

from iocurve.analysis import Reading
from iocurve.analysis.families import Family
from iocurve.analysis.limits import volume_description
from iocurve.report import charts, comparisons, loads
from iocurve.report.cells import Figure
from iocurve.result.document import Result


def figures(reading: Reading) -> list[Figure]:
    """The figures of each family, then those that compare families. Charts of emulated targets are labelled so."""
    made = [
        *(figure for family in reading.families for figure in _family_figures(family, reading)),
        *comparisons.single_loads(reading),
        *comparisons.comparisons(reading),
        *comparisons.with_published(reading),
    ]
    label = emulation_label(reading.result)
    return [replace(one, charts=tuple(charts.labelled(chart, label) for chart in one.charts)) for one in made]


def _family_figures(family: Family, reading: Reading) -> list[Figure]:
    if family.is_mix:
        return [loads.mix(family, reading)]
    if family.is_advice:
        return [comparisons.advice_table(family)]
    if family.is_depth:
        return [loads.latency(family, reading), *loads.side_by_side(family, reading)]
    if family.is_rate:
        return [loads.by_rate(family, reading)]
    if family.is_grid:
        return [comparisons.grid(family, reading)]
    return [loads.over_time(family, reading)]


def emulation_label(result: Result) -> str:
    """Names the emulated targets of a result; empty where all targets are real."""
    facts = result.scenario.targets.values() if result.scenario else [result.target]
    named = [
        _EMULATED[one.kind].format(what=one.address if result.scenario else volume_description(one) or "no limits")
        for one in facts
        if one.kind in _EMULATED
    ]
    return "emulated target: " + " and ".join(dict.fromkeys(named)) if named else ""


_EMULATED = {"embedded_volume": "embedded NFS volume ({what})", "emulated_disk": "disk ({what})"}

"""Chooses the figures of a report: each is a chart or two, and a table with the exact values.

The axes of a family decide, not its name: points along ``read_percent`` are drawn as a mix, points along ``depth`` as a
latency curve. A family that varies along no known axis is drawn over time; where a scenario has several of them, they
are bars side by side, and their course over time is folded.
"""

from __future__ import annotations

from iocurve.analysis import Reading
from iocurve.analysis.families import Family
from iocurve.report import clients, comparisons, loads, searches, single_loads
from iocurve.report.cells import Figure


def figures(reading: Reading) -> list[Figure]:
    """The loads side by side, the figures of each family, then those that compare families; folded ones last."""
    of_families = [figure for family in reading.families for figure in _family_figures(family, reading)]
    return [
        *single_loads.beside_each_other(reading),
        *searches.found(reading),
        *(figure for figure in of_families if not figure.is_folded),
        *comparisons.comparisons(reading),
        *comparisons.with_published(reading),
        *clients.shared(reading),
        *(figure for figure in of_families if figure.is_folded),
    ]


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
    if len(family.members) > loads.OVER_TIME_POINTS_MAX:
        return [loads.by_job(family)]
    is_folded = len(single_loads.single_families(reading)) > 0
    each = family.each_point() if len(family.members) > 1 else [family]
    return [loads.over_time(one, reading, is_folded=is_folded) for one in each]

"""``python -m bench.knees``: compares found knees with computed ones, and the time with that of a plain grid.

The targets are embedded volumes with a fixed latency and a limit on IOPS: their knee is the product of the two. Each
search is repeated; a plain grid has a point for every 5 % more in flight, each with the precision of the search.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.machine import machine_facts, versions
from iocurve.measure.campaign import Campaign, started
from iocurve.measure.search import knee
from iocurve.measure.search.command import workload_of
from iocurve.measure.search.loads import Effort, Loads
from iocurve.report.view import NoView
from iocurve.targets import opened_target as place
from iocurve.targets import target as targets
from iocurve.units import MIB

RESULTS = Path(__file__).parent / "results"
WORKLOAD = "rw=randread bs=4k"
VOLUMES = ((5_000, 5), (10_000, 5), (20_000, 5), (4_000, 10))
"""IOPS limit, and latency in milliseconds."""
GRID_STEP = 1.05
IN_FLIGHT_MAX = 512
TOLERANCE = 0.05


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.knees", description=__doc__)
    parser.add_argument("--runs", type=int, default=5, help="searches on each volume")
    parser.add_argument("--grids", type=int, default=1, help="number of volumes to measure by a plain grid, too")
    options = parser.parse_args(arguments)
    found = []
    for number, (iops, latency_ms) in enumerate(VOLUMES):
        for _ in range(options.runs):
            found.append(_measured(iops, latency_ms, "search", _search))
            _print(found[-1])
        if number < options.grids:
            found.append(_measured(iops, latency_ms, "grid", _grid))
            _print(found[-1])
    searches = [one for one in found if one["way"] == "search"]
    within = sum(abs(one["knee"] / one["computed"] - 1) <= TOLERANCE for one in searches)
    print(f"{within} of {len(searches)} searches within {TOLERANCE:.0%} of the computed knee")
    document = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine_facts(),
        "versions": versions(None),
        "workload": WORKLOAD,
        "in_flight_max": IN_FLIGHT_MAX,
        "precision": Effort().precision,
        "runs": found,
    }
    path = RESULTS / f"knees-{datetime.now(UTC):%Y-%m-%dT%H%M%SZ}.json"
    path.write_text(json.dumps(document, indent=1) + "\n")
    print(f"Saved as {path}")
    return 0


def _measured(iops: int, latency_ms: int, way: str, find: Callable[[Loads], tuple[float, float]]) -> dict[str, Any]:
    target = targets.parse(f"volume:unlimited?iops={iops}&latency={latency_ms}ms")
    workload, defaults = workload_of(WORKLOAD)
    with place.opened(target) as there:
        campaign = Campaign(started("knee", there.facts.address, there.facts), NoView(), lambda _: None)
        loads = Loads(there, workload, defaults, 64 * MIB, Effort(), campaign, "depth")
        # The files are created before the time counts.
        loads.closed(1)
        points = campaign.measured
        start = time.monotonic()
        in_flight, half_width = find(loads)
        seconds = time.monotonic() - start
        busy = [point.machine.busy_share for point in campaign.result.points if point.machine]
        loads.files.remove()
    return {
        "way": way,
        "iops_limit": iops,
        "latency_ms": latency_ms,
        "computed": iops * latency_ms / 1000,
        "knee": in_flight,
        "half_width": half_width,
        "points": campaign.measured - points,
        "seconds": seconds,
        "machine_busy_share_max": max(busy, default=None),
    }


def _search(loads: Loads) -> tuple[float, float]:
    found = knee.find(loads.closed, IN_FLIGHT_MAX)
    return found.in_flight.mean, (found.in_flight.high - found.in_flight.low) / 2


def _grid(loads: Loads) -> tuple[float, float]:
    """The first point that reaches the highest rate, within the tolerance of points on a bound."""
    wanted, in_flight = [1], 1.0
    while wanted[-1] < IN_FLIGHT_MAX:
        in_flight *= GRID_STEP
        if round(in_flight) > wanted[-1]:
            wanted.append(min(round(in_flight), IN_FLIGHT_MAX))
    samples = [loads.closed(number) for number in wanted]
    most = max(sample.iops.mean for sample in samples)
    first = next(sample for sample in samples if sample.iops.mean >= most * (1 - knee.SAME))
    return float(first.in_flight), first.in_flight * (GRID_STEP - 1)


def _print(one: dict[str, Any]) -> None:
    print(
        f"{one['way']:6}  {one['iops_limit']:>6} IOPS, {one['latency_ms']:>2} ms: computed {one['computed']:.0f}, "
        f"found {one['knee']:.2f} ± {one['half_width']:.2f} ({one['knee'] / one['computed'] - 1:+.1%}), "
        f"{one['points']} points, {one['seconds']:.1f} s, machine {one['machine_busy_share_max'] or 0:.0%} busy",
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main())

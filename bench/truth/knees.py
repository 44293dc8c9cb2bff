"""Searches for the knee on embedded volumes with a fixed latency and a limit on IOPS, in real time."""

from __future__ import annotations

import time
from collections.abc import Iterator

from bench.truth.table import Row
from iocurve.foundation.units import MIB, SECOND_NS
from iocurve.measure.campaign import Campaign, started
from iocurve.measure.search import knee
from iocurve.measure.search.command import workload_of
from iocurve.measure.search.loads import Effort, Loads
from iocurve.report.progress import NoView
from iocurve.targets import opened_target
from iocurve.targets import target as targets

COLUMNS = ("volume", "set limit × measured latency", "knee found", "bounds", "held", "points", "seconds")
VOLUMES = ((5_000, 5), (10_000, 5), (20_000, 5), (4_000, 10))
"""IOPS limit, and latency in milliseconds."""
IN_FLIGHT_MAX = 512


def knees(scale: float) -> Iterator[Row]:
    """A search on each volume; the knee is the product of the limit and the latency of an operation alone."""
    for _ in range(max(1, round(scale))):
        for iops, latency_ms in VOLUMES:
            yield _searched(iops, latency_ms)


def _searched(iops: int, latency_ms: int) -> Row:
    target = targets.parse(f"volume:unlimited?iops={iops}&latency={latency_ms}ms")
    workload, defaults = workload_of("rw=randread bs=4k")
    with opened_target.opened(target) as there:
        campaign = Campaign(started("knee", there.facts.address, there.facts), NoView(), lambda _: None)
        loads = Loads(there, workload, defaults, 64 * MIB, Effort(), campaign, "depth")
        # The first point creates the files, before the time counts.
        alone = loads.closed(1)
        start, points = time.monotonic(), campaign.measured
        found = knee.find(loads.closed, IN_FLIGHT_MAX).in_flight
        seconds = time.monotonic() - start
        loads.files.remove()
    computed = iops * alone.latency_ns.mean / SECOND_NS
    return (
        f"{iops:,} IOPS, {latency_ms} ms",
        f"{computed:.1f}",
        f"{found.mean:.1f}",
        f"{found.low:.1f} to {found.high:.1f}",
        "yes" if found.low <= computed <= found.high else "no",
        str(campaign.measured - points),
        f"{seconds:.1f}",
    )

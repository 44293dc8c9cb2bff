"""The changes for twice the throughput or half the latency: three scenarios, and verdicts that are not sure."""

from __future__ import annotations

from typing import Any

import pytest

from data import synthetic
from data.synthetic import VOLUME
from goldens import present
from iocurve.analysis import read
from iocurve.analysis.limit_groups import Twice
from iocurve.analysis.limit_kinds import LIMIT_KINDS
from iocurve.foundation.units import KIB, MIB, TIB
from iocurve.result.caps import caps
from iocurve.result.document import Limit, TargetFacts

AXES: dict[str, int | float | str] = {
    "read_percent": 100,
    "block_bytes": 64 * KIB,
    "depth": 32,
    "nconnect": 4,
    "order": "random",
}


def twice(code: str, *, confidence: str = "certain", target: TargetFacts = VOLUME, iops: float = 8_000) -> Twice | None:
    """The advice for one point that is held down by a limit: 32 in flight, 64 KiB."""
    point = synthetic.nfs_point("read 64 KiB", "mix", AXES, iops)
    sure: Any = confidence
    limit = Limit(code=code, short_name=LIMIT_KINDS[code].short_name, text="at a limit", confidence=sure)
    return read(synthetic.result([point.replace(limit=limit)], target=target)).twice


def level(name: str, quota_tib: int, mib_per_s: int, next_mib: int) -> TargetFacts:
    values = {"throughput_bytes_per_s": mib_per_s * MIB}
    return VOLUME.replace(
        service_level=name,
        quota_bytes=quota_tib * TIB,
        caps=caps(values),
        next_tib_bytes_per_s=next_mib * MIB,
        latency_mean_ns=None,
    )


def test_a_throughput_limit_needs_a_larger_quota_or_fewer_in_flight() -> None:
    found = present(twice("volume_throughput", target=level("premium", 8, 512, 64)))
    assert found.for_rate == "1,000 MiB/s need a quota of 16 TiB at this level (64 MiB/s for each TiB)"
    assert found.for_latency.startswith("16 in flight instead of 32 have the same rate and wait half as long")


def test_a_service_level_ends() -> None:
    found = present(twice("volume_throughput", target=level("premium", 40, 2560, 64), iops=40_960))
    assert found.for_rate.startswith("this service level ends at 4,500 MiB/s: use another level or several volumes")


@pytest.mark.parametrize(
    "target",
    [level("premium", 40, 256, 64).replace(speed=0.1), level("premium", 100, 512, 0)],
    ids=["at a fraction of the speed", "a limit set by hand"],
)
def test_a_limit_that_no_quota_gives_is_raised(target: TargetFacts) -> None:
    found = present(twice("volume_throughput", target=target))
    assert found.for_rate == "raise the volume's limit to 1,000 MiB/s"


def test_a_volume_that_adds_the_latency_itself_gets_no_faster() -> None:
    slow = level("premium", 8, 512, 64).replace(latency_mean_ns=3_500_000)
    found = present(twice("volume_throughput", target=slow))
    assert found.for_latency == "the volume itself adds 3.5 ms: half of 4 ms is below that"


def test_connections_and_depth() -> None:
    connections, depth = twice("connection_requests"), twice("depth")
    assert connections is not None
    assert connections.for_rate.startswith("use 8 connections (nconnect; iocurve doctor checks")
    assert depth is not None
    assert depth.for_rate == "64 in flight; that gives twice the rate as long as the latency stays at 4 ms"


@pytest.mark.parametrize("confidence", ["possible", "none"])
def test_a_verdict_that_is_not_sure_gives_no_advice(confidence: str) -> None:
    assert twice("volume_throughput", confidence=confidence) is None
    assert twice("unknown", confidence="certain") is None

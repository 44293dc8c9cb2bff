"""The formulas of sizing."""

from __future__ import annotations

from fractions import Fraction

import pytest

from goldens import present
from iocurve.advice import facts
from iocurve.foundation.units import GIB, KIB, MIB, MILLISECOND_NS, TIB
from iocurve.volume import profile


@pytest.mark.parametrize(
    ("iops", "latency_us", "expected"),
    [
        # Document B's own line: it says 4.0.
        (5_000, 1_300, Fraction(13, 2)),
        (3_500, 1_140, Fraction("3.99")),
        (110_000, 500, 55),
        (400_000, 2_000, 800),
        (16_000, 2_000, 32),
        (32_000, 4_000, 128),
    ],
)
def test_littles_law(iops: int, latency_us: int, expected: Fraction) -> None:
    assert facts.in_flight(iops, latency_us * 1000) == expected


def test_a_window_is_bandwidth_times_round_trip() -> None:
    assert facts.window_bytes(1_000 * MIB, MILLISECOND_NS) == 1_000 * MIB // 1000
    assert facts.window_bytes(3, 500_000_000) == 2


def test_the_smallest_premium_quota_for_4500_mib_per_s() -> None:
    figure = present(profile.load("anf-premium").throughput_mib_per_s)
    assert facts.smallest_quota(lambda quota: figure.of(quota) >= 4500, 50, 102_400) == Fraction("70.3125") * TIB
    assert facts.smallest_quota(lambda quota: figure.of(quota) >= 4501, 50, 102_400) is None
    assert facts.smallest_quota(lambda quota: figure.of(quota) >= 1, 50, 102_400) == 50 * GIB


def test_every_fact_has_a_page() -> None:
    for name, file in facts.files().items():
        assert all(facts.cite(name, fact) for fact in file.facts)
    assert facts.value("nfs-client", "read_ahead_kib") * KIB == 15 * MIB

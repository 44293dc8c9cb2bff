"""Distributions on a target of a given size; the cases and figures are those of DiskSpd's own tests."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goldens import cases
from iocurve.dialects.diskspd.read import values
from iocurve.dialects.diskspd.read.distribution import OffsetZone, aligned_bytes, shares, zones_of
from iocurve.dialects.diskspd.read.profile import TargetParameters

KIB, GIB = 1 << 10, 1 << 30


def zones(text: str, region: int) -> list[tuple[int, int, int]]:
    target = TargetParameters(block_bytes=4 * KIB, random_percent=100)
    target.set_spans(*values.distribution(text, target.block_bytes))
    return [(zone.io_percent, zone.start, zone.length) for zone in zones_of(target, region)]


@cases("diskspd/percentages")
def test_percentages_begin_where_operations_can(text: str, expected: list[tuple[int, int, int]]) -> None:
    assert zones(text, 100 * KIB) == [(share, start * KIB, length * KIB) for share, start, length in expected]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("abs10/1G:10/1G:0/100G", [(10, 0, 1), (10, 1, 1), (80, 102, 98)]),
        ("abs10/1G:10/1G:0/100G:80/1T", [(10, 0, 1), (10, 1, 1), (80, 102, 98)]),
        ("abs10/100G:10/100G", [(10, 0, 100), (10, 100, 100)]),
        ("abs10/100G:10/200G", [(10, 0, 100), (10, 100, 100)]),
    ],
)
def test_sizes_end_with_the_target(text: str, expected: list[tuple[int, int, int]]) -> None:
    assert zones(text, 200 * GIB) == [(share, start * GIB, length * GIB) for share, start, length in expected]


def test_what_a_small_target_leaves_of_a_distribution_is_scaled_up() -> None:
    target = TargetParameters(block_bytes=4 * KIB, random_percent=100)
    target.set_spans(*values.distribution("abs10/100G:30/100G", 4 * KIB))
    assert shares(zones_of(target, 200 * GIB)) == [25, 75]


def test_parts_too_small_for_an_offset_keep_their_operations() -> None:
    # 1 % of eight sectors holds no offset: three such parts in a row, without operations in the first.
    target = TargetParameters(block_bytes=4 * KIB, alignment_bytes=512, random_percent=100)
    target.set_spans(*values.distribution("pct0/1:1/1:1/1", 4 * KIB))
    assert zones_of(target, 4 * KIB) == [OffsetZone(100, 0, 512)]


@pytest.mark.slow
@given(
    st.lists(st.tuples(st.integers(0, 100), st.integers(1, 100)), min_size=1, max_size=8),
    st.integers(4 * KIB, 2_000 * KIB),
    st.sampled_from([512, 4 * KIB, 8 * KIB, 5000]),
)
def test_all_operations_go_to_zones_inside_the_target(parts: list[tuple[int, int]], region: int, step: int) -> None:
    percent = place = 0
    said = []
    for share, length in parts:
        share, length = min(share, 100 - percent), min(length, 100 - place)
        if not length:
            break
        percent, place = percent + share, place + length
        said.append(f"{share}/{length}")
    if place == 100 and percent < 100:
        said[-1] = f"{int(said[-1].partition('/')[0]) + 100 - percent}/{said[-1].partition('/')[2]}"
    target = TargetParameters(block_bytes=4 * KIB, alignment_bytes=step, random_percent=100)
    target.set_spans(*values.distribution("pct" + ":".join(said), 4 * KIB))
    found = zones_of(target, region)
    assert sum(zone.io_percent for zone in found) == 100
    ends = [0]
    for zone in found:
        assert zone.start >= ends[-1]
        assert zone.start % step == 0
        ends.append(zone.end)
    assert ends[-1] <= aligned_bytes(target, region)

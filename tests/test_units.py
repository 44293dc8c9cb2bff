import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goldens import Golden, cases
from iocurve.foundation.units import (
    format_bytes,
    format_count,
    format_duration,
    format_latency,
    format_number,
    parse_bandwidth,
    parse_bytes,
    parse_time_ns,
)


@cases("foundation/sizes")
def test_sizes(text: str, size: int) -> None:
    assert parse_bytes(text) == size


@cases("foundation/times")
def test_times(text: str, nanoseconds: int) -> None:
    assert parse_time_ns(text) == nanoseconds


@cases("foundation/bandwidths")
def test_bandwidths(text: str, bytes_per_s: int) -> None:
    assert parse_bandwidth(text) == bytes_per_s


@cases("foundation/refused")
def test_what_is_no_quantity_is_refused_with_the_units(quantity: str, text: str, golden: Golden) -> None:
    with pytest.raises(ValueError) as refusal:  # noqa: PT011 (the whole text is compared below)
        {"size": parse_bytes, "bandwidth": parse_bandwidth, "time": parse_time_ns}[quantity](text)
    golden.check(str(refusal.value))


@given(st.from_regex(r"\d{1,5}(?:\.\d)?[kMGT]?i?[bB]?", fullmatch=True))
def test_a_text_is_no_different_quantity_as_a_size_and_as_a_bandwidth(text: str) -> None:
    try:
        size = parse_bytes(text)
    except ValueError:
        return
    with contextlib.suppress(ValueError):
        assert parse_bandwidth(text) == size


@given(st.text())
def test_any_text_is_a_size_or_refused(text: str) -> None:
    with contextlib.suppress(ValueError):
        assert parse_bytes(text) >= 0


@cases("foundation/shown_sizes")
def test_sizes_are_shown_in_the_largest_unit(size: int, text: str) -> None:
    assert format_bytes(size) == text


@pytest.mark.parametrize(("count", "text"), [(0, "0"), (950, "950"), (12_800, "12.8k"), (1_050_000, "1.05M")])
def test_counts(count: int, text: str) -> None:
    assert format_count(count) == text


@pytest.mark.parametrize(
    ("nanoseconds", "text"), [(640, "640 ns"), (12_500, "12.5 µs"), (1_200_000, "1.2 ms"), (3_000_000_000, "3 s")]
)
def test_latencies(nanoseconds: int, text: str) -> None:
    assert format_latency(nanoseconds) == text


@cases("foundation/durations")
def test_durations(seconds: float, text: str) -> None:
    assert format_duration(int(seconds * 1e9)) == text


@cases("foundation/shown_numbers")
def test_numbers_are_never_in_scientific_notation(value: float, digits: int, text: str) -> None:
    assert format_number(value, digits) == text

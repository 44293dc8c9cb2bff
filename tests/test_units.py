from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goldens import cases
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


@pytest.mark.parametrize("text", ["10Gb", "4kb", "5b", "16Mib", "1 Gbit"])
def test_a_size_in_bits_is_refused(text: str) -> None:
    """One rule for all quantities: a small b is bits."""
    with pytest.raises(ValueError, match=r"small b is bits; write 64KiB, 64kB or 64k|is not a size"):
        parse_bytes(text)


@pytest.mark.parametrize("text", ["4500", " 1.5 ", "4500/s"])
def test_a_bandwidth_without_a_unit_is_refused_with_the_units(text: str) -> None:
    number = text.strip().removesuffix("/s")
    with pytest.raises(ValueError, match=f"has no unit; write {number}MiB/s, {number}MB/s or {number}Mb/s"):
        parse_bandwidth(text)


@pytest.mark.parametrize("text", ["16000mb", "16Mib", "5b", "16gb/s"])
def test_a_bandwidth_that_may_be_bits_or_bytes_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="may be bits or bytes; write 16000Mb, 16Gb, 2000MB or 1907MiB"):
        parse_bandwidth(text)


@pytest.mark.parametrize("text", ["", "k", "4x", "-1", "1e3", "4 k k", "1.", "٤k", "1,5k"])
def test_an_invalid_size_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a size such as 64KiB, 4G or 1\.5TiB"):
        parse_bytes(text)


@pytest.mark.parametrize("text", ["30", " 1.5 "])
def test_a_time_without_a_unit_is_refused_with_the_units(text: str) -> None:
    number = text.strip()
    with pytest.raises(
        ValueError, match=f"^'{text}' has no unit; write {number}us, {number}ms, {number}s or {number}m$"
    ):
        parse_time_ns(text)


def test_an_invalid_time_is_refused_with_an_example() -> None:
    with pytest.raises(ValueError, match="'4k' is not a time such as 250us, 2ms, 30s or 10m"):
        parse_time_ns("4k")


def test_an_invalid_bandwidth_is_refused_with_an_example() -> None:
    with pytest.raises(ValueError, match="'4x' is not a bandwidth such as 16000Mb, 16Gb, 2000MB or 1907MiB"):
        parse_bandwidth("4x/s")


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

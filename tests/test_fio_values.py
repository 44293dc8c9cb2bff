"""fio's reading of values, odd rules included; expectations were taken from fio 3.33 itself."""

from __future__ import annotations

from typing import Any

import pytest

from goldens import cases
from iocurve.dialects.fio.read import values
from iocurve.dialects.fio.read.values import Context
from iocurve.job.model import Percent, PerKind


def context(kb_base: int = 1024) -> Context:
    return Context(kb_base=kb_base, option="option")


@cases("fio/sizes")
def test_sizes(text: str, kb_base: int, size: int) -> None:
    assert values.size(text, context(kb_base)) == size


@pytest.mark.parametrize(
    ("text", "size"),
    [("10*1024", 10), ("1.5g", 1), ("10x", 16), ("4 k", 4), (" 4k", 4), ("4kfoo", 4096), ("1e3", 1), ("0x10k", 16)],
)
def test_what_fio_reads_in_part_is_read_so_and_said(text: str, size: int) -> None:
    asked = context()
    assert values.size(text, asked) == size
    assert [note.code for note in asked.notes] == ["odd_value"]


def test_whole_values_need_no_note() -> None:
    asked = context()
    for text in ("4k", "4096", "4kb", "4ki", "4b", " 4"):
        values.size(text, asked)
    assert asked.notes == []


def test_inverted_units_are_said() -> None:
    asked = context()
    values.size("4kib", asked)
    assert asked.notes[0].text == "fio reads 4kib as 4000 bytes: with kb_base=1024, 'ib' suffixes are powers of 1000"


def test_percentages() -> None:
    assert values.amount_or_percent("50%", context()) == Percent(percent=50)
    with pytest.raises(ValueError, match="takes a size such as 64k"):
        values.size("50%", context())


@cases("fio/times")
def test_times(text: str, microseconds: int) -> None:
    assert values.time_ns(text, context()) == microseconds * 1000


@pytest.mark.parametrize("text", ["", "k", "abc", "-1", "9" * 30, "1z"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"size|zoned"):
        values.size(text, context())


@cases("fio/per_kind")
def test_one_value_for_reads_one_for_writes_one_for_trims(text: str, read: int, write: int, trim: int) -> None:
    before: PerKind[Any] = PerKind(read=512, write=1024, trim=2048)
    assert values.per_kind(text, context(), before) == PerKind(read=read, write=write, trim=trim)


@pytest.mark.parametrize(
    ("reader", "text", "value"),
    [
        (values.boolean, "1", True),
        (values.boolean, " 0 ", False),
        (values.integer(1), "1k", 1024),
        (values.plain_integer, "-1", 2**64 - 1),
        (values.time_range_ns, "5-1", (1_000_000_000, 5_000_000_000)),
        (values.size_range, "4k-64k", (4096, 65536)),
        (values.names, "a:b\\:c:/dev/sda", ("a", "b:c", "/dev/sda")),
        (values.percentiles, "50:99:99.9", (50.0, 99.0, 99.9)),
        (values.processors, "0-2,6,1", (0, 1, 2, 6)),
        (values.processor_mask, "0xa", (1, 3)),
    ],
)
def test_other_values(reader: values.Reader[object], text: str, value: Any) -> None:
    assert reader(text, context()) == value


@pytest.mark.parametrize(
    ("reader", "text", "message"),
    [
        (values.boolean, "yes", "option takes 0 or 1, not 'yes'"),
        (values.integer(1), "0", "option must be from 1 to 2147483647, not 0"),
        (values.word("a", "b", "c"), "d", "option takes a, b or c, not 'd'"),
        (values.text_value, " ", "option needs a value"),
        (values.names, ":", "':' names no file"),
        (values.percentiles, "0:50", "option takes up to 20 values above 0 and up to 100, separated by ':'"),
        (values.percentiles, "x", "'x' is not a number"),
        (values.processors, "a", "option takes a list of processors such as 0-3,6, not 'a'"),
        (values.processors, "3-1", "option names no processor: '3-1'"),
    ],
)
def test_errors_say_what_would_be_right(reader: values.Reader[object], text: str, message: str) -> None:
    with pytest.raises(ValueError) as refusal:  # noqa: PT011 (the whole text is compared below)
        reader(text, context())
    assert str(refusal.value) == message

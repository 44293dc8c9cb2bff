"""Reads fio's values: numbers, sizes, times and lists, by the rules of fio's own parser.

A reader takes the text and a ``Context``. It returns the value, or raises ``ValueError`` with a message for the user.
If fio reads only the beginning of a value, the reader does the same and adds a note.

A pattern is a sequence of ``"text"``, ``0xdeadbeef``, ``-12``, ``%o`` and ``'file'``.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TypeVar

import msgspec

from iocurve.foundation.errors import Where, nearest
from iocurve.foundation.units import MICROSECOND_NS
from iocurve.job.model import Amount, Level, Percent, PerKind, PlanNote


class Context(msgspec.Struct):
    """The state that the meaning of a value's text depends on."""

    kb_base: int = 1024
    directory: Path = Path()
    """Base of relative file names."""
    where: Where | None = None
    option: str = ""
    notes: list[PlanNote] = msgspec.field(default_factory=list)

    def note(self, code: str, text: str, level: Level = "info") -> None:
        """Adds a note about the option that is being read."""
        self.notes.append(PlanNote(code, text, self.where, level))


T = TypeVar("T")
Reader = Callable[[str, Context], T]

_SIZE_UNITS = re.compile(r"(?:[kmgtp](?:i?b|i)?|b)?\Z", re.IGNORECASE)
_TIME_UNITS = {"s": 1_000_000, "m": 60_000_000, "h": 3_600_000_000, "d": 86_400_000_000}
_INTEGER = re.compile(r"\s*([+-]?\d+)", re.ASCII)
_HEXADECIMAL = re.compile(r"\s*([+-]?(?:0[xX])?[0-9a-fA-F]+)")
_LARGEST = 2**63 - 1


def size(text: str, context: Context) -> int:
    """Reads bytes: ``4k``, ``30g``, ``0x1000``. With kb_base=1024 ``4k`` and ``4ki`` are 4096 and ``4kib`` is 4000."""
    amount = amount_or_percent(text, context)
    if isinstance(amount, Percent):
        raise ValueError(f"'{text}' is a percentage; {context.option} takes a size such as 64k")
    return amount


def amount_or_percent(text: str, context: Context) -> Amount:
    """Reads bytes, or ``50%`` of a file or device."""
    if text.endswith("z"):
        raise ValueError(f"'{text}' is a number of zones; zoned devices are not supported yet")
    value, rest = _leading_integer(text, "a size such as 64k or 30g")
    if rest.startswith("%"):
        return Percent(percent=_checked(value, 0, 100, f"{text}: a percentage"))
    factor, is_whole = _size_factor(rest, context.kb_base)
    result = _checked(value * factor, 0, _LARGEST, f"{text}: a size")
    if not is_whole:
        _note_odd(text, f"{result} bytes", context)
    elif re.match(r"[kmgtp]ib\Z", rest, re.IGNORECASE):
        other = "1000" if context.kb_base == 1024 else "1024"
        note = (
            f"fio reads {text} as {result} bytes: with kb_base={context.kb_base}, 'ib' suffixes are powers of {other}"
        )
        context.note("unit_inverted", note, "warning")
    return result


def signed_size(text: str, context: Context) -> int:
    """Reads bytes with a sign: ``-8k`` is 8 KiB backwards."""
    if text.lstrip().startswith("-"):
        return -size(text.lstrip()[1:], context)
    return size(text, context)


def decimal(text: str) -> float:
    """Reads a decimal number."""
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"'{text}' is not a number") from None


def leading_integer(text: str, expected: str) -> int:
    """Reads the number at the beginning of the text and ignores the rest, as fio does."""
    return _leading_integer(text, expected)[0]


def integer(minimum: int = 0, maximum: int = 2**31 - 1) -> Reader[int]:
    """Makes a reader of integers. fio allows size suffixes (``1k`` is 1024)."""

    def read(text: str, context: Context) -> int:
        first = split_list(text)[0]
        if len(split_list(text)) > 1:
            _note_odd(text, first, context)
        return _checked(size(first, context), minimum, maximum, context.option)

    return read


def signed_integer(minimum: int, maximum: int) -> Reader[int]:
    """Makes a reader of integers that may be negative."""

    def read(text: str, context: Context) -> int:
        return _checked(leading_integer(text, "a number"), minimum, maximum, context.option)

    return read


def flow_weight(text: str, context: Context) -> int:
    """Reads the weight of a flow."""
    if text.lstrip().startswith("-"):
        raise ValueError(
            f"{context.option}={text.strip()}: weights are positive, and fio 3.33 keeps no proportion with negative "
            "ones; jobs that had flow=8 and flow=-1 for earlier versions of fio are now jobs with flow=1 and flow=8"
        )
    return integer(0, 1000)(text, context)


def list_of(read: Reader[T]) -> Reader[tuple[T, ...]]:
    """Makes a reader of values separated by commas; parts may be empty, as in ``,1m``."""

    def read_all(text: str, context: Context) -> tuple[T, ...]:
        return tuple(read(part, context) for part in text_value(text, context).split(",") if part)

    return read_all


def error_lists(text: str, context: Context) -> tuple[tuple[int, ...], ...]:
    """Reads the errors to ignore of reads, writes and verification: ``EAGAIN,ENOSPC:EIO``; a list may be empty."""
    lists = text_value(text, context).split(",")
    if len(lists) > 3:
        raise ValueError(f"{context.option} takes three lists: of reads, of writes, of verification")
    numbers = [tuple(_error_number(name.strip()) for name in one.split(":") if name.strip()) for one in lists]
    return tuple(numbers + [()] * (3 - len(numbers)))


def _error_number(name: str) -> int:
    if name.isdigit():
        return int(name)
    found = getattr(errno, name, None) if name[:1] == "E" else None
    if not isinstance(found, int):
        raise ValueError(f"'{name}' is no error: write EIO, ENOSPC or a number")
    return found


def plain_integer(text: str, _context: Context) -> int:
    """Reads an integer modulo 2**64 (seeds)."""
    value, _ = _leading_integer(text, "a number")
    return value % 2**64


def boolean(text: str, context: Context) -> bool:
    """Reads 0 or 1."""
    if not re.fullmatch(r"\s*[01]\s*", text):
        raise ValueError(f"{context.option} takes 0 or 1, not '{text}'")
    return text.strip() == "1"


def switch(text: str, context: Context) -> bool:
    """Reads any integer; every value but 0 switches the option on (``time_based=60``)."""
    if not re.fullmatch(r"\s*-?\d{1,18}\s*", text, re.ASCII):
        raise ValueError(f"{context.option} takes 0 or 1, not '{text}'")
    value = int(text)
    if value not in (0, 1):
        note = f"{context.option}={text.strip()} switches {context.option} on, as every number except 0 does"
        context.note("odd_value", note)
    return value != 0


def time_ns(text: str, context: Context) -> int:
    """Reads a time into nanoseconds: ``30`` (seconds), ``10m`` (minutes), ``500ms``."""
    return _time_ns(text, context, bare=1_000_000)


def short_time_ns(text: str, context: Context) -> int:
    """Reads a time whose bare number means microseconds (thinktime, latency_target) into nanoseconds."""
    return _time_ns(text, context, bare=1)


sizes, short_times = list_of(size), list_of(short_time_ns)
"""Sizes, and times whose bare numbers mean microseconds."""


def _time_ns(text: str, context: Context, bare: int) -> int:
    value, rest = _leading_integer(text, "a time such as 30, 10m or 500ms")
    microseconds, is_whole = _time_factor(rest, bare)
    result = _checked(value * microseconds * MICROSECOND_NS, 0, 2**63, f"{text}: a time")
    if not is_whole:
        _note_odd(text, f"{value * microseconds} microseconds", context)
    return result


def time_range_ns(text: str, context: Context) -> tuple[int, int]:
    """Reads one time, or ``1-5`` for a random time between the two."""
    times = [time_ns(part, context) for part in split_list(text)[:2]]
    return min(times), max(times)


def size_range(text: str, context: Context) -> tuple[int, int]:
    """Reads one size, or ``4k-64k``."""
    sizes = [size(part, context) for part in split_list(text)[:2]]
    return min(sizes), max(sizes)


def per_kind(
    text: str, context: Context, before: PerKind[T], minimum: int = 1, maximum: int = 2**32 - 1
) -> PerKind[int | T]:
    """Reads ``4k`` (all), ``4k,8k`` (reads, writes) or ``,8k`` (only writes); a third is for trims.

    Kinds without a value keep that of ``before``.
    """
    parts = split_list(text)
    values = [_checked(size(p, context), minimum, maximum, context.option) if p else None for p in parts]
    if not any(value is not None for value in values):
        raise ValueError(f"{context.option} has no value")
    first = before.read if values[0] is None else values[0]
    if len(parts) == 1:
        return PerKind[int | T].same(first)
    write = before.write if values[1] is None else values[1]
    # Without a third value, trims get the value of writes.
    last = values[min(len(parts), 3) - 1]
    trim = before.trim if last is None else last
    return PerKind(read=first, write=write, trim=trim)


def word(*allowed: str) -> Reader[str]:
    """Makes a reader of one of the words ``allowed``; text after a colon is left to the option's own reader."""

    def read(text: str, context: Context) -> str:
        chosen = text.partition(":")[0].strip()
        if chosen not in allowed:
            raise ValueError(f"{context.option} takes {either(allowed)}, not '{text}'{did_you_mean(chosen, allowed)}")
        return text.strip()

    return read


def words(*allowed: str) -> Reader[frozenset[str]]:
    """Makes a reader of several of the words ``allowed``, separated by commas."""
    one = word(*allowed)
    return lambda text, context: frozenset(one(part.strip(), context) for part in text.split(","))


def meaning(meanings: Mapping[str, T]) -> Reader[T]:
    """Makes a reader of one of the keys of ``meanings``, which returns its value."""

    def read(text: str, context: Context) -> T:
        if text.strip() not in meanings:
            raise ValueError(
                f"{context.option} takes {either(meanings)}, not '{text}'{did_you_mean(text.strip(), meanings)}"
            )
        return meanings[text.strip()]

    return read


def meanings(*pairs: str) -> Reader[str]:
    """Makes a reader of one of several words; ``0=none`` reads 0 as none."""
    words = (pair.partition("=") for pair in pairs)
    return meaning({word: value or word for word, _, value in words})


def text_value(text: str, context: Context) -> str:
    """Reads any text that is not empty."""
    if not text.strip():
        raise ValueError(f"{context.option} needs a value")
    return text.strip()


def names(text: str, context: Context) -> tuple[str, ...]:
    """Reads file names separated by ``:``; ``\\:`` is a colon in a name."""
    if (url := re.match(r"(?:.*:)?([a-z]\w+)://", text)) is not None:
        raise ValueError(
            f"'{text}': ':' separates files, so this names '{url[1]}' and others; nfs_url= loads an export"
        )
    parts = [part.replace("\\:", ":") for part in re.split(r"(?<!\\):", text_value(text, context).lstrip(":"))]
    kept = tuple(part for part in parts if part)
    if any("\0" in part for part in kept) or not kept:
        raise ValueError(f"'{text}' names no file")
    return kept


def name_pattern(text: str, context: Context) -> str:
    """Translates the keywords of filename_format."""
    pattern = text_value(text, context).replace("{", "{{").replace("}", "}}")
    for keyword, ours in (("$jobname", "{job}"), ("$jobnum", "{jobnum}"), ("$filenum", "{file}")):
        pattern = pattern.replace(keyword, ours)
    if "$clientuid" in pattern:
        context.note("no_effect", "$clientuid is empty without a fio client, as in fio")
    return pattern.replace("$clientuid", "")


def reserves_space(text: str, context: Context) -> bool:
    """Reads fallocate. Space is reserved in one way, or not at all."""
    chosen = word("none", "posix", "keep", "native", "truncate", "0", "1")(text, context)
    if chosen in ("keep", "truncate"):
        text = f"fallocate={chosen} reserves space and sets the length, as fallocate=native does"
        context.note("no_effect", text)
    return chosen not in ("none", "0")


def range_sync(text: str, context: Context) -> int:
    """Reads sync_file_range: its steps (checked only) and the number of writes between two calls."""
    steps, _, every = text_value(text, context).partition(":")
    for step in steps.split(","):
        word("wait_before", "write", "wait_after")(step.strip(), context)
    return integer(0)(every, context) if every else 1


def percentiles(text: str, context: Context) -> tuple[float, ...]:
    """Reads ``50:99:99.9``: at most 20 percentiles, above 0 and up to 100."""
    values = [decimal(part) for part in text.split(":")]
    if len(values) > 20 or not all(0 < value <= 100 for value in values):
        raise ValueError(f"{context.option} takes up to 20 values above 0 and up to 100, separated by ':'")
    return tuple(values)


def percentage(text: str, context: Context) -> float:
    """Reads a percentage above 0 and up to 100."""
    value = decimal(text)
    if not 0 < value <= 100:
        raise ValueError(f"{context.option} takes a percentage above 0 and up to 100, not '{text}'")
    return value


def fraction(text: str, context: Context) -> float:
    """Reads a number from 0 to 1."""
    value = decimal(text)
    if not 0 <= value <= 1:
        raise ValueError(f"{context.option} takes a number from 0 to 1, not '{text}'")
    return value


def processors(text: str, context: Context) -> tuple[int, ...]:
    """Reads a list of processors: ``0-3,6``."""
    chosen: list[int] = []
    for part in text.split(","):
        found = re.fullmatch(r"\s*(\d{1,5})\s*(?:-\s*(\d{1,5}))?\s*", part, re.ASCII)
        if found is None:
            raise ValueError(f"{context.option} takes a list of processors such as 0-3,6, not '{text}'")
        chosen += range(int(found[1]), int(found[2] or found[1]) + 1)
    if not chosen:
        raise ValueError(f"{context.option} names no processor: '{text}'")
    return tuple(dict.fromkeys(chosen))


def processor_mask(text: str, context: Context) -> tuple[int, ...]:
    """Reads a mask in which bit n selects processor n."""
    mask = _checked(size(text, context), 1, 2**63, context.option)
    return tuple(bit for bit in range(mask.bit_length()) if mask >> bit & 1)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """``; did you mean randread?``; empty if no name is close."""
    close = nearest(name.lower(), known)
    return f"; did you mean {close}?" if close else ""


def split_list(text: str) -> list[str]:
    """Splits a list as fio does: at commas if there are any, else at colons, else at minus signs."""
    parts: list[str] = []
    while True:
        at = next((place for place in (text.find(","), text.find(":"), text.find("-", 1)) if place >= 0), -1)
        if at < 0:
            return [*parts, text]
        parts.append(text[:at])
        text = text[at + 1 :]


def either(words: Iterable[str]) -> str:
    """``a, b or c``."""
    *most, last = words
    return f"{', '.join(most)} or {last}" if most else last


def _leading_integer(text: str, expected: str) -> tuple[int, str]:
    """Splits the text into its leading number and the suffix, as fio's parser does."""
    is_hexadecimal = "0x" in text.lower()
    found = (_HEXADECIMAL if is_hexadecimal else _INTEGER).match(text)
    if found is None or len(found[1]) > 20:
        raise ValueError(f"'{text}' is not {expected}")
    if is_hexadecimal:
        return int(found[1], 16), text[found.end() :] and "\0"
    # A blank before the number hides the suffix from fio: "bs=4k, 8k" writes blocks of 8 bytes.
    rest = text[found.end() :]
    return int(found[1]), "\0" if rest and text[0].isspace() else rest


def _size_factor(rest: str, kb_base: int) -> tuple[int, bool]:
    """Factor of a size suffix, and True if the whole suffix is valid."""
    unit = re.split("[:,/-]", rest.lower(), maxsplit=1)[0]
    is_whole = bool(_SIZE_UNITS.match(rest))
    if not unit or unit[0] not in "kmgtp":
        return 1, is_whole
    inverted = {1000: 1024, 1024: 1000}[kb_base]
    base = inverted if unit[1:3] == "ib" else kb_base
    return int(base ** ("kmgtp".index(unit[0]) + 1)), is_whole


def _time_factor(rest: str, bare: int) -> tuple[int, bool]:
    """Microseconds per unit of a time suffix, and True if it is valid. fio reads unknown ones as microseconds."""
    unit = rest.lower()
    if not unit or not unit[0].isalpha():
        return bare, not unit
    if unit.startswith(("us", "ms")):
        return (1 if unit[0] == "u" else 1000), unit in {"us", "usec", "ms", "msec"}
    return _TIME_UNITS.get(unit, 1), unit in _TIME_UNITS


def _note_odd(text: str, meaning: str, context: Context) -> None:
    note = f"fio and iocurve read only the beginning of '{text}', as {meaning}"
    context.note("odd_value", note, "warning")


def _checked(value: int, minimum: int, maximum: int, what: str) -> int:
    if not minimum <= value <= maximum:
        raise ValueError(f"{what} must be from {minimum} to {maximum}, not {value}")
    return value


MAX_BYTES = 64 << 10
_OFFSET = "o" * 16
"""Placeholder for the 8 bytes of a block's offset."""
_HEXADECIMAL_PATTERN = re.compile(r"0[xX]((?:(?!0[xX])[0-9a-fA-F])+)")
_DECIMAL = re.compile(r"[+-]?\d{1,10}", re.ASCII)


def pattern(text: str, context: Context, *, with_offsets: bool) -> str:
    """The pattern in hexadecimal, as plans hold it. Raises ``ValueError``."""
    parts, rest = [], text.strip()
    while rest:
        part, rest = _first(rest, context, with_offsets)
        parts.append(part)
    found = "".join(parts)
    if not found:
        raise ValueError(f'{context.option} needs a pattern such as 0xdeadbeef or "text"')
    if len(found) > 2 * MAX_BYTES:
        raise ValueError(f"{context.option}: a pattern may have at most {MAX_BYTES} bytes")
    return found


def _first(text: str, context: Context, with_offsets: bool) -> tuple[str, str]:
    """Splits the text into its first part, in hexadecimal, and the rest."""
    if text[0] in "\"'":
        inner, closing, rest = text[1:].partition(text[0])
        if not closing:
            raise ValueError(f"{context.option}: {text} has no closing {text[0]}")
        content = inner.encode() if text[0] == '"' else _file(inner, context)
        return content.hex(), rest
    if text.startswith("%o"):
        if not with_offsets:
            raise ValueError(f"{context.option} does not take %o; only verify_pattern does")
        return _OFFSET, text[2:]
    return _number(text, context)


def _number(text: str, context: Context) -> tuple[str, str]:
    found = _HEXADECIMAL_PATTERN.match(text)
    if found:
        digits = found[1]
        return digits.zfill(len(digits) + len(digits) % 2).lower(), text[found.end() :]
    # A decimal number ends where a hexadecimal one begins: -100xab is -10 and 0xab.
    end = text.lower().find("0x")
    found = _DECIMAL.match(text[:end] if end > 0 else text)
    if not found or not -(2**31) <= int(found[0]) < 2**31:
        hint = "write numbers as 12 or 0xff, text as \"abc\", files as 'name'"
        raise ValueError(f"{context.option}: '{text}' is not a pattern ({hint})")
    value = int(found[0]) % 2**32
    return value.to_bytes(max(1, (value.bit_length() + 7) // 8), "little").hex(), text[found.end() :]


def _file(name: str, context: Context) -> bytes:
    try:
        with (context.directory / name).open("rb") as file:
            content = file.read(MAX_BYTES)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise ValueError(f"{context.option}: '{name}' cannot be read: {reason}") from None
    if not content:
        raise ValueError(f"{context.option}: '{name}' is empty")
    return content

"""Files of other tools: their text, JSON documents between other lines, and numbers whose types are not certain."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TypeVar

import msgspec

from iocurve.foundation.errors import ResultError
from iocurve.foundation.units import MILLISECOND_NS
from iocurve.result.document_file import Json

BYTES_MAX = 1 << 30
"""A larger file is refused: outputs of tools are smaller, logs of operations are not."""
_MARKS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))


class SourceFile(msgspec.Struct, frozen=True, dict=True):
    """A file that a tool wrote."""

    path: Path

    @property
    def name(self) -> str:
        """The path as it was given."""
        return str(self.path)

    @cached_property
    def text(self) -> str:
        """The text: UTF-8, or UTF-16 as PowerShell redirects it. Raises ``ResultError``."""
        try:
            if self.path.stat().st_size > BYTES_MAX:
                raise self.error(f"larger than {BYTES_MAX >> 30} GiB, which no output of a tool is")
            content = self.path.read_bytes()
        except OSError as error:
            raise ResultError(f"{self.path} cannot be read: {error.strerror}") from None
        encoding = next((name for mark, name in _MARKS if content.startswith(mark)), "utf-8")
        # A byte that is not text, in a path for example, does not make the figures unreadable.
        return content.decode(encoding, errors="replace").replace("\r\n", "\n")

    def sibling(self, name: str) -> SourceFile | None:
        """A file in the same directory; None if it does not exist."""
        path = self.path.parent / name
        return SourceFile(path) if path.is_file() else None

    def error(self, text: str) -> ResultError:
        """An error in the file."""
        return ResultError(f"{self.path}: {text}")


# ---- JSON


_NOT_A_NUMBER = re.compile(r"(?<=[:\[,])(\s*)-?(?:nan|inf)(?=\s*[,}\]\n])", re.IGNORECASE)
"""fio and others print nan and inf, which are not JSON."""
_START = re.compile(r"^[^\w\"'{\n]*\{", re.MULTILINE)


def documents(text: str) -> tuple[tuple[Json, ...], str | None]:
    """All objects that start at the start of a line, except those inside others; those of an array, if it is one.

    With the reason why one cannot be read: ``line 14: ...``; None if all can.
    """
    text = _NOT_A_NUMBER.sub(r"\1null", text)
    found: list[Json] = []
    decoder, position, error = json.JSONDecoder(), 0, None
    if text.lstrip().startswith("["):
        listed = _array(text)
        if listed:
            return listed, None
    while start := _START.search(text, position):
        try:
            document, position = decoder.raw_decode(text, start.end() - 1)
        except ValueError as wrong:
            error = f"line {text.count(chr(10), 0, start.start()) + 1}: {wrong}"
            position = start.end()
            continue
        except RecursionError:
            return tuple(found), "it is nested too deeply"
        found.append(document)
    return tuple(found), error


def _array(text: str) -> tuple[Json, ...]:
    try:
        listed = json.loads(text)
    except (ValueError, RecursionError):
        return ()
    return tuple(each for each in listed if isinstance(each, dict))


def part_of(of: Json, name: str) -> Json:
    """The object of this name in another; empty where there is none."""
    found = of.get(name)
    return found if isinstance(found, dict) else {}


# ---- numbers and times


def time_of(text: str, form: str) -> datetime | None:
    """A time in UTC in a form of ``strptime``; None for another text."""
    try:
        return datetime.strptime(text, form).replace(tzinfo=UTC)
    except ValueError:
        return None


LARGEST = 1 << 60
"""A larger number is none that a tool measured."""


def number(value: object) -> float | None:
    """A number, also in a text with commas between thousands; None for anything else."""
    if isinstance(value, str):
        try:
            value = float(value.strip().replace(",", ""))
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if abs(value) <= LARGEST else None


def whole(value: object) -> int | None:
    """A number as an integer; exact for integers of any size."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value if abs(value) <= LARGEST else None
    found = number(value)
    return None if found is None else round(found)


def scaled(value: object, factor: float) -> float | None:
    """A number times a factor; None if it is none."""
    found = number(value)
    # To a thousandth: 1.0093 ms are 1009300 ns.
    return None if found is None else round(found * factor, 3)


def nanoseconds(milliseconds: object) -> float | None:
    """A number of milliseconds in ns; None if it is none."""
    return scaled(milliseconds, MILLISECOND_NS)


Value = TypeVar("Value")


def single(values: Iterable[Value]) -> Value | None:
    """The value that all are; None of several different ones, and of none."""
    distinct = set(values)
    return distinct.pop() if len(distinct) == 1 else None


_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgtp]?)(i?b?)\Z", re.IGNORECASE)


def size(text: object, unit: int = 1) -> int | None:
    """``4k``, ``4KiB``, ``1m`` in bytes, a power of 1024 for each step; a number without a unit counts in ``unit``."""
    found = _SIZE.match(str(text).strip())
    if found is None:
        return None
    factor = 1024 ** (" kmgtp".index(found[2].lower())) if found[2] else unit
    return round(float(found[1]) * factor)

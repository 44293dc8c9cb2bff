"""The kinds of values of a job's keys. A kind reads values from TOML, writes them, and has a JSON schema.

Readers raise ``ValueError`` with the message for the user.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar

import msgspec

from iocurve.engine.plan import FixedBlocks, Uniform
from iocurve.foundation.structs import refusal
from iocurve.foundation.units import GIB, KIB, MIB, SECOND_NS, TIB, parse_bytes, parse_time_ns
from iocurve.job.model import Percent, PerKind

T = TypeVar("T")
S = TypeVar("S", bound=str)
N = TypeVar("N", bound=float)
Schema = dict[str, Any]

_OPERATIONS = ("read", "write", "trim")
_SIZE_UNITS = ((TIB, "TiB"), (GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB"))
_TIME_UNITS = (
    (3600 * SECOND_NS, "h"),
    (60 * SECOND_NS, "m"),
    (SECOND_NS, "s"),
    (1_000_000, "ms"),
    (1_000, "us"),
    (1, "ns"),
)


class Kind(ABC, Generic[T]):
    """One kind of value."""

    @abstractmethod
    def read(self, value: object) -> T:
        """Converts a TOML value to the value of a section's field."""

    def write(self, value: T) -> object:
        """Converts the value of a field to TOML; the inverse of ``read``. Default: the value is the same in TOML."""
        return value

    @property
    @abstractmethod
    def schema(self) -> Schema:
        """JSON schema of the TOML value."""


AnyKind: TypeAlias = Kind[Any]
"""A kind whose values have a type that only the field knows."""


@dataclass(frozen=True)
class Plain(Kind[T]):
    """A number or boolean of TOML."""

    type: type[T]
    name: str
    low: float | None = None
    high: float | None = None

    def read(self, value: object) -> T:
        """Checks type and limits. A whole number is also accepted as a float."""
        number = float(value) if self.type is float and type(value) is int else value
        if not isinstance(number, self.type) or type(number) is not self.type:
            raise ValueError(f"{_shown(value)} is not {self.name}")
        if isinstance(number, int | float):
            if self.low is not None and not number >= self.low:
                raise ValueError(f"{_shown(value)} is less than {self.low:g}")
            if self.high is not None and not number <= self.high:
                raise ValueError(f"{_shown(value)} is more than {self.high:,.0f}")
        return number

    @property
    def schema(self) -> Schema:
        """Schema of the type, with limits."""
        schema: Schema = {"type": {bool: "boolean", int: "integer", float: "number", str: "string"}[self.type]}
        limits = {"minimum": self.low, "maximum": self.high}
        return schema | {name: limit for name, limit in limits.items() if limit is not None}


def whole(low: int, high: int) -> Plain[int]:
    """A kind of whole numbers within limits."""
    return Plain(int, "a whole number", low, high)


TRUTH = Plain(bool, "true or false")
FRACTION = Plain(float, "a number", 0, 2**53)
TEXT = Plain(str, 'a text in quotes ("…")')


@dataclass(frozen=True)
class Pattern(Kind[str]):
    """A text that matches a regular expression."""

    pattern: str
    form: str

    def read(self, value: object) -> str:
        """The text."""
        text = TEXT.read(value)
        if not re.fullmatch(self.pattern, text):
            raise ValueError(f"{_shown(value)} is not {self.form}")
        return text

    @property
    def schema(self) -> Schema:
        """A text with a pattern."""
        return {"type": "string", "pattern": f"^({self.pattern})$"}


@dataclass(frozen=True)
class Word(Kind[S]):
    """One of several words."""

    words: tuple[S, ...]

    def read(self, value: object) -> S:
        """The word."""
        for word in self.words:
            if word == value:
                return word
        raise ValueError(f"{_shown(value)} is not one of {', '.join(self.words)}")

    @property
    def schema(self) -> Schema:
        """An enumeration."""
        return {"enum": list(self.words)}


@dataclass(frozen=True)
class Size(Kind[int]):
    """Bytes: ``"4KiB"``, ``4096``; with ``is_signed`` also ``"-8KiB"``."""

    is_signed: bool = False
    most: int = 2**63 - 1
    """The largest file, unless the engine takes less."""

    def read(self, value: object) -> int:
        """Bytes."""
        size = self._bytes(value)
        if abs(size) > self.most:
            limit = "the largest file" if self.most == Size.most else str(self.most)
            raise ValueError(f"{_shown(value)} is larger than {limit}")
        return size

    def _bytes(self, value: object) -> int:
        if isinstance(value, str):
            sign = -1 if self.is_signed and value.startswith("-") else 1
            return sign * parse_bytes(value.removeprefix("-") if self.is_signed else value)
        if not isinstance(value, int) or isinstance(value, bool) or (value < 0 and not self.is_signed):
            raise ValueError(f'{_shown(value)} is not a size such as "64KiB", "4G" or 512')
        return value

    def write(self, value: int) -> object:
        """Text in the largest exact unit."""
        return f"-{_exactly(-value, _SIZE_UNITS, '')}" if value < 0 else _exactly(value, _SIZE_UNITS, "")

    @property
    def schema(self) -> Schema:
        """A text with a unit, or bytes."""
        return _size_schema("-?" if self.is_signed else "", "")


class SizeOrPercent(Kind[int | Percent]):
    """Bytes, or ``"50%"``."""

    def read(self, value: object) -> int | Percent:
        """Bytes, or a percentage."""
        return _percent(value) if isinstance(value, str) and value.endswith("%") else Size().read(value)

    def write(self, value: int | Percent) -> object:
        """Text in the largest exact unit."""
        return f"{value.percent}%" if isinstance(value, Percent) else Size().write(value)

    @property
    def schema(self) -> Schema:
        """A text with a unit, or bytes."""
        return _size_schema("", r"|\d{1,3}%")


def _size_schema(sign: str, more: str) -> Schema:
    pattern = rf"^({sign}\d+(\.\d+)? ?[kmgtpKMGTP]?(i?B)?{more})$"
    return {"anyOf": [{"type": "string", "pattern": pattern}, {"type": "integer"}]}


@dataclass(frozen=True)
class Time(Kind[int]):
    """Nanoseconds: ``"30s"``, ``"250us"``; a bare number is seconds."""

    def read(self, value: object) -> int:
        """Nanoseconds."""
        nanoseconds = self._nanoseconds(value)
        if nanoseconds >= 2**63:
            raise ValueError(f"{_shown(value)} is longer than the longest duration")
        return nanoseconds

    def _nanoseconds(self, value: object) -> int:
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 2**53:
            return round(value * SECOND_NS)
        if not isinstance(value, str):
            raise ValueError(f'{_shown(value)} is not a time such as "250us", "2ms", "30s" or 30')
        return parse_time_ns(value)

    def write(self, value: int) -> object:
        """Text in the largest exact unit."""
        return _exactly(value, _TIME_UNITS, "s") if value else "0s"

    @property
    def schema(self) -> Schema:
        """A text with a unit, or seconds."""
        pattern = r"^\d+(\.\d+)? ?(ns|us|µs|ms|s|m|min|h|d)?$"
        return {"anyOf": [{"type": "string", "pattern": pattern}, {"type": "number", "minimum": 0}]}


@dataclass(frozen=True)
class Several(Kind[tuple[T, ...]]):
    """A list of values."""

    each: Kind[T]

    def read(self, value: object) -> tuple[T, ...]:
        """A tuple; a single value need not be a list."""
        return tuple(map(self.each.read, value if isinstance(value, list) else [value]))

    def write(self, value: tuple[T, ...]) -> object:
        """A list."""
        return [self.each.write(one) for one in value]

    @property
    def schema(self) -> Schema:
        """A list, or one value."""
        return {"anyOf": [self.each.schema, {"type": "array", "items": self.each.schema}]}


@dataclass(frozen=True)
class Between(Kind[tuple[N, N]]):
    """A value, or the limits of a random value."""

    each: Kind[N]

    def read(self, value: object) -> tuple[N, N]:
        """Lower and upper limit."""
        limits = value if isinstance(value, list) else [value, value]
        if len(limits) != 2:
            raise ValueError(f"{_shown(value)} is not a value or a pair of lower and upper limit")
        low, high = map(self.each.read, limits)
        if low > high:
            raise ValueError(f"{_shown(value)}: the first value is above the second")
        return low, high

    def write(self, value: tuple[N, N]) -> object:
        """One value if both limits are equal."""
        low, high = map(self.each.write, value)
        return low if low == high else [low, high]

    @property
    def schema(self) -> Schema:
        """A value or a pair."""
        pair = {"type": "array", "items": self.each.schema, "minItems": 2, "maxItems": 2}
        return {"anyOf": [self.each.schema, pair]}


@dataclass(frozen=True)
class ByOperation(Kind[PerKind[T | None]]):
    """A value for all operations, or a table with one for ``read``, ``write`` and ``trim`` each."""

    each: Kind[T]
    is_optional: bool
    """True if operations may be omitted."""
    is_table: bool = False
    """True if a value may itself be a table."""

    def read(self, value: object) -> PerKind[T | None]:
        """Three values."""
        if not isinstance(value, dict) or (self.is_table and not set(value) <= set(_OPERATIONS)):
            return PerKind[T | None].same(self.each.read(value))
        if not set(value) <= set(_OPERATIONS) or not (value or self.is_optional):
            raise ValueError(f"{_shown(value)} is not a table of read, write and trim")
        missing = [name for name in _OPERATIONS if name not in value]
        if missing and not self.is_optional:
            raise ValueError(f"{_shown(value)} has no value for {' and '.join(missing)}")
        read, write, trim = (self.each.read(value[name]) if name in value else None for name in _OPERATIONS)
        return PerKind(read=read, write=write, trim=trim)

    def write(self, value: PerKind[T | None]) -> object:
        """One value if all are equal."""
        parts = {name: value.of(name) for name in _OPERATIONS}
        written = {name: self.each.write(part) for name, part in parts.items() if part is not None}
        if len(written) == len(_OPERATIONS) and all(part == value.read for part in parts.values()):
            return written["read"]
        return written

    @property
    def schema(self) -> Schema:
        """A value or a table."""
        table = {
            "type": "object",
            "properties": dict.fromkeys(_OPERATIONS, self.each.schema),
            "additionalProperties": False,
        }
        if not self.is_optional:
            table["required"] = list(_OPERATIONS)
        return {"anyOf": [self.each.schema, table]}


@dataclass(frozen=True)
class PlanPart(Kind[T]):
    """A part of the plan, written as a table."""

    part: Any
    """Its type."""

    def read(self, value: object) -> T:
        """The part."""
        try:
            found: T = msgspec.convert(value, self.part)
        except msgspec.ValidationError as error:
            raise ValueError(refusal(error)) from None
        return found

    def write(self, value: T) -> object:
        """The fields that differ from their defaults."""
        return _without_none(msgspec.to_builtins(value))

    @property
    def schema(self) -> Schema:
        """Schema of the part, in which a default of several values is a list."""
        found: Schema = msgspec.json.decode(msgspec.json.encode(msgspec.json.schema(self.part)))
        return found


@dataclass(frozen=True)
class Short(PlanPart[T]):
    """A table with a short form: a size for blocks, ``"uniform"`` for a distribution."""

    word: str = ""

    def read(self, value: object) -> T:
        """The part, from the short form or a table."""
        if self.word and value == self.word:
            value = {"kind": self.word}
        if not self.word and not isinstance(value, dict):
            value = {"kind": "fixed", "bytes": Size().read(value)}
        return super().read(value)

    def write(self, value: T) -> object:
        """The short form if it is complete."""
        if isinstance(value, Uniform) and self.word:
            return self.word
        return Size().write(value.bytes) if isinstance(value, FixedBlocks) and not self.word else super().write(value)

    @property
    def schema(self) -> Schema:
        """Both forms; ``schema`` moves the definitions to the top."""
        full = super().schema
        short: Schema = {"const": self.word} if self.word else Size().schema
        return {"anyOf": [short, {key: value for key, value in full.items() if key != "$defs"}], "$defs": full["$defs"]}


def _percent(text: str) -> Percent:
    digits = text.removesuffix("%")
    if not digits.isascii() or not digits.isdigit() or int(digits[:12]) > 100:
        raise ValueError(f"'{text}' is not a percentage from 0% to 100%")
    return Percent(percent=int(digits))


def _exactly(value: int, units: Sequence[tuple[int, str]], plain: str) -> str | int:
    for size, name in units:
        if value and value % size == 0:
            return f"{value // size}{name}"
    return f"{value}{plain}" if plain else value


def _without_none(value: object) -> object:
    """Removes None values, as TOML has no null."""
    if isinstance(value, dict):
        return {key: _without_none(one) for key, one in value.items() if one is not None}
    return [_without_none(one) for one in value] if isinstance(value, list) else value


def _shown(value: object) -> str:
    text = "true" if value is True else "false" if value is False else repr(value)
    clean = "".join(letter if letter.isprintable() else "?" for letter in text)
    return clean if len(clean) <= 60 else clean[:57] + "…"

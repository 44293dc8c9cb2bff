"""The kinds of values of a job's keys. A kind reads values from TOML, writes them, and has a JSON schema.

Readers raise ``ValueError`` with the message for the user.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from iocurve.engine.plan import FixedBlocks, Uniform
from iocurve.job.model import Percent, PerKind
from iocurve.units import GIB, KIB, MIB, SECOND_NS, TIB, parse_bytes, parse_time_ns

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


class Kind(Protocol):
    """One kind of value."""

    def read(self, value: Any) -> Any:
        """Converts a TOML value to the value of a section's field."""

    def write(self, value: Any) -> Any:
        """Converts the value of a field to TOML; the inverse of ``read``."""

    @property
    def schema(self) -> Schema:
        """JSON schema of the TOML value."""


@dataclass(frozen=True)
class Plain:
    """A number or boolean of TOML."""

    type: type
    name: str
    low: float | None = None
    high: float | None = None

    def read(self, value: Any) -> Any:
        """Checks type and limits. A whole number is also accepted as a float."""
        if self.type is float and type(value) is int:
            return float(value)
        if type(value) is not self.type:
            raise ValueError(f"{_shown(value)} is not {self.name}")
        number: Any = value
        if self.low is not None and not number >= self.low:
            raise ValueError(f"{_shown(value)} is less than {self.low:g}")
        if self.high is not None and not number <= self.high:
            raise ValueError(f"{_shown(value)} is more than {self.high:,.0f}")
        return number

    def write(self, value: Any) -> Any:
        """The value itself."""
        return value

    @property
    def schema(self) -> Schema:
        """Schema of the type, with limits."""
        schema: Schema = {"type": {bool: "boolean", int: "integer", float: "number", str: "string"}[self.type]}
        limits = {"minimum": self.low, "maximum": self.high}
        return schema | {name: limit for name, limit in limits.items() if limit is not None}


def whole(low: int, high: int) -> Plain:
    """A kind of whole numbers within limits."""
    return Plain(int, "a whole number", low, high)


TRUTH = Plain(bool, "true or false")
FRACTION = Plain(float, "a number", 0, 2**53)
TEXT = Plain(str, 'a text in quotes ("…")')


@dataclass(frozen=True)
class Pattern:
    """A text that matches a regular expression."""

    pattern: str
    form: str

    def read(self, value: Any) -> Any:
        """The text."""
        if not re.fullmatch(self.pattern, TEXT.read(value)):
            raise ValueError(f"{_shown(value)} is not {self.form}")
        return value

    def write(self, value: Any) -> Any:
        """The text."""
        return value

    @property
    def schema(self) -> Schema:
        """A text with a pattern."""
        return {"type": "string", "pattern": f"^({self.pattern})$"}


@dataclass(frozen=True)
class Word:
    """One of several words."""

    words: tuple[str, ...]

    def read(self, value: Any) -> Any:
        """The word."""
        if not isinstance(value, str) or value not in self.words:
            raise ValueError(f"{_shown(value)} is not one of {', '.join(self.words)}")
        return value

    def write(self, value: Any) -> Any:
        """The word."""
        return value

    @property
    def schema(self) -> Schema:
        """An enumeration."""
        return {"enum": list(self.words)}


@dataclass(frozen=True)
class Size:
    """Bytes: ``"4KiB"``, ``4096``; with ``or_percent`` also ``"50%"``; with ``is_signed`` also ``"-8KiB"``."""

    or_percent: bool = False
    is_signed: bool = False

    def read(self, value: Any) -> Any:
        """Bytes."""
        if self.or_percent and isinstance(value, str) and value.endswith("%"):
            return _percent(value)
        size = self._bytes(value)
        if abs(size) >= 2**63:
            raise ValueError(f"{_shown(value)} is larger than the largest file")
        return size

    def _bytes(self, value: Any) -> int:
        if isinstance(value, str):
            sign = -1 if self.is_signed and value.startswith("-") else 1
            return sign * parse_bytes(value.removeprefix("-") if self.is_signed else value)
        if type(value) is not int or (value < 0 and not self.is_signed):
            raise ValueError(f'{_shown(value)} is not a size such as "64KiB", "4G" or 512')
        return int(value)

    def write(self, value: Any) -> Any:
        """Text in the largest exact unit."""
        if isinstance(value, Percent):
            return f"{value.percent}%"
        if value < 0:
            return f"-{_exactly(-value, _SIZE_UNITS, '')}"
        return _exactly(value, _SIZE_UNITS, "")

    @property
    def schema(self) -> Schema:
        """A text with a unit, or bytes."""
        unit = r"[kmgtpKMGTP]?(i?[bB])?"
        sign = "-?" if self.is_signed else ""
        percent = r"|\d{1,3}%" if self.or_percent else ""
        return {
            "anyOf": [{"type": "string", "pattern": rf"^({sign}\d+(\.\d+)? ?{unit}{percent})$"}, {"type": "integer"}]
        }


@dataclass(frozen=True)
class Time:
    """Nanoseconds: ``"30s"``, ``"250us"``; a bare number is seconds."""

    def read(self, value: Any) -> Any:
        """Nanoseconds."""
        nanoseconds = self._nanoseconds(value)
        if nanoseconds >= 2**63:
            raise ValueError(f"{_shown(value)} is longer than the longest duration")
        return nanoseconds

    def _nanoseconds(self, value: Any) -> int:
        if type(value) in (int, float) and 0 <= value < 2**53:
            seconds: float = value
            return round(seconds * SECOND_NS)
        if not isinstance(value, str):
            raise ValueError(f'{_shown(value)} is not a time such as "250us", "2ms", "30s" or 30')
        return parse_time_ns(value)

    def write(self, value: Any) -> Any:
        """Text in the largest exact unit."""
        return _exactly(value, _TIME_UNITS, "s") if value else "0s"

    @property
    def schema(self) -> Schema:
        """A text with a unit, or seconds."""
        pattern = r"^\d+(\.\d+)? ?(ns|us|µs|ms|s|m|min|h|d)?$"
        return {"anyOf": [{"type": "string", "pattern": pattern}, {"type": "number", "minimum": 0}]}


@dataclass(frozen=True)
class Several:
    """A list of values."""

    each: Kind

    def read(self, value: Any) -> Any:
        """A tuple; a single value need not be a list."""
        return tuple(map(self.each.read, value if isinstance(value, list) else [value]))

    def write(self, value: Any) -> Any:
        """A list."""
        return [self.each.write(one) for one in value]

    @property
    def schema(self) -> Schema:
        """A list, or one value."""
        return {"anyOf": [self.each.schema, {"type": "array", "items": self.each.schema}]}


@dataclass(frozen=True)
class Between:
    """A value, or the limits of a random value."""

    each: Kind

    def read(self, value: Any) -> Any:
        """Lower and upper limit."""
        limits = value if isinstance(value, list) else [value, value]
        if len(limits) != 2:
            raise ValueError(f"{_shown(value)} is not a value or a pair of lower and upper limit")
        low, high = map(self.each.read, limits)
        if low > high:
            raise ValueError(f"{_shown(value)}: the first value is above the second")
        return low, high

    def write(self, value: Any) -> Any:
        """One value if both limits are equal."""
        low, high = map(self.each.write, value)
        return low if low == high else [low, high]

    @property
    def schema(self) -> Schema:
        """A value or a pair."""
        pair = {"type": "array", "items": self.each.schema, "minItems": 2, "maxItems": 2}
        return {"anyOf": [self.each.schema, pair]}


@dataclass(frozen=True)
class ByOperation:
    """A value for all operations, or a table with one for ``read``, ``write`` and ``trim`` each."""

    each: Kind
    is_optional: bool
    """True if operations may be omitted."""
    is_table: bool = False
    """True if a value may itself be a table."""

    def read(self, value: Any) -> Any:
        """Three values."""
        if not isinstance(value, dict) or (self.is_table and not set(value) <= set(_OPERATIONS)):
            return PerKind[Any].same(self.each.read(value))
        unknown = sorted(set(value) - set(_OPERATIONS))
        if unknown or not (value or self.is_optional):
            raise ValueError(f"{_shown(value)} is not a table of read, write and trim")
        missing = [name for name in _OPERATIONS if name not in value]
        if missing and not self.is_optional:
            raise ValueError(f"{_shown(value)} has no value for {' and '.join(missing)}")
        return PerKind[Any](**{name: self.each.read(value[name]) if name in value else None for name in _OPERATIONS})

    def write(self, value: Any) -> Any:
        """One value if all are equal."""
        parts = {name: getattr(value, name) for name in _OPERATIONS}
        written = {name: self.each.write(part) for name, part in parts.items() if part is not None}
        if len(written) == len(_OPERATIONS) and all(part == parts["read"] for part in parts.values()):
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
class Table:
    """A part of the plan, written as a table."""

    part: Any
    """Its type."""

    def read(self, value: Any) -> Any:
        """The part."""
        try:
            return msgspec.convert(value, self.part)
        except msgspec.ValidationError as error:
            raise ValueError(_message(str(error))) from None

    def write(self, value: Any) -> Any:
        """The fields that differ from their defaults."""
        return _without_none(msgspec.to_builtins(value))

    @property
    def schema(self) -> Schema:
        """Schema of the part, in which a default of several values is a list."""
        found: Schema = msgspec.json.decode(msgspec.json.encode(msgspec.json.schema(self.part)))
        return found


@dataclass(frozen=True)
class Short(Table):
    """A table with a short form: a size for blocks, ``"uniform"`` for a distribution."""

    word: str = ""

    def read(self, value: Any) -> Any:
        """The part, from the short form or a table."""
        if self.word and isinstance(value, str) and value == self.word:
            return Uniform()
        if not self.word and not isinstance(value, dict):
            size = Size().read(value)
            value = {"kind": "fixed", "bytes": size}
        return super().read(value)

    def write(self, value: Any) -> Any:
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


def _exactly(value: int, units: Sequence[tuple[int, str]], plain: str) -> Any:
    for size, name in units:
        if value and value % size == 0:
            return f"{value // size}{name}"
    return f"{value}{plain}" if plain else value


def _message(error: str) -> str:
    """Turns msgspec's ``Expected `int`, got `str` - at `$.bytes``` into ``bytes: expected `int`, got `str```."""
    text, _, place = error.partition(" - at ")
    where = place.strip("`").removeprefix("$").lstrip(".")
    return f"{where}: {text[0].lower()}{text[1:]}" if where else f"{text[0].lower()}{text[1:]}"


def _without_none(value: Any) -> Any:
    """Removes None values, as TOML has no null."""
    if isinstance(value, dict):
        return {key: _without_none(one) for key, one in value.items() if one is not None}
    return [_without_none(one) for one in value] if isinstance(value, list) else value


def _shown(value: Any) -> str:
    text = "true" if value is True else "false" if value is False else repr(value)
    clean = "".join(letter if letter.isprintable() else "?" for letter in text)
    return clean if len(clean) <= 60 else clean[:57] + "…"

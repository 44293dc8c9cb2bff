"""The keys of a job, one per field of a section, and the kinds of their values.

A kind reads values from TOML, writes them, and has a JSON schema.

Readers raise ``ValueError`` with the message for the user.
"""

from __future__ import annotations

import re
import types
import typing
from collections.abc import Callable, Sequence
from typing import Any, Generic, Literal, TypeAlias, TypeVar, Union, get_args, get_origin

import msgspec

from iocurve.dialects.base import printable
from iocurve.engine.plan import Blocks, FixedBlocks, Uniform
from iocurve.foundation.structs import Struct, refusal
from iocurve.foundation.units import GIB, KIB, MIB, SECOND_NS, TIB, parse_bytes, parse_time_ns
from iocurve.job import model
from iocurve.job.model import PARTS, Percent, PerKind, Preference, Said, Section, Words

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
_LARGEST = 2**63 - 1
"""The largest file, and the longest duration in nanoseconds."""


class Kind(msgspec.Struct, Generic[T], frozen=True):
    """One kind of value."""

    read: Callable[[object], T]
    """Converts a TOML value to the value of a section's field."""
    schema: Callable[[], Schema]
    """JSON schema of the TOML value."""
    write: Callable[[T], object] = lambda value: value
    """Converts the value of a field to TOML; the inverse of ``read``. Default: the value is the same in TOML."""
    is_single: bool = False
    """True if a value is one number, word, text or truth value."""


AnyKind: TypeAlias = Kind[Any]
"""A kind whose values have a type that only the field knows."""


def plain(of: type[T], name: str, low: float | None = None, high: float | None = None) -> Kind[T]:
    """A number, text or boolean of TOML, within limits. A whole number is also accepted as a float."""

    def read(value: object) -> T:
        number = float(value) if of is float and type(value) is int else value
        if not isinstance(number, of) or type(number) is not of:
            raise ValueError(f"{_literal(value)} is not {name}")
        if isinstance(number, int | float):
            if low is not None and not number >= low:
                raise ValueError(f"{_literal(value)} is less than {low:g}")
            if high is not None and not number <= high:
                raise ValueError(f"{_literal(value)} is more than {high:,.0f}")
        return number

    schema: Schema = {"type": {bool: "boolean", int: "integer", float: "number", str: "string"}[of]}
    limits = {name: limit for name, limit in (("minimum", low), ("maximum", high)) if limit is not None}
    return Kind(read, lambda: schema | limits, is_single=True)


def whole(low: int, high: int) -> Kind[int]:
    """Whole numbers within limits."""
    return plain(int, "a whole number", low, high)


TRUTH = plain(bool, "true or false")
FRACTION = plain(float, "a number", 0, 2**53)
TEXT = plain(str, 'a text in quotes ("…")')


def pattern(expression: str, form: str) -> Kind[str]:
    """A text that matches a regular expression."""

    def read(value: object) -> str:
        text = TEXT.read(value)
        if not re.fullmatch(expression, text):
            raise ValueError(f"{_literal(value)} is not {form}")
        return text

    return Kind(read, lambda: {"type": "string", "pattern": f"^({expression})$"})


def word(words: tuple[S, ...]) -> Kind[S]:
    """One of several words."""

    def read(value: object) -> S:
        for each in words:
            if each == value:
                return each
        raise ValueError(f"{_literal(value)} is not one of {', '.join(words)}")

    return Kind(read, lambda: {"enum": list(words)}, is_single=True)


def size(*, is_signed: bool = False, most: int = _LARGEST) -> Kind[int]:
    """Bytes: ``"4KiB"``, ``4096``; with ``is_signed`` also ``"-8KiB"``. They are written in the largest exact unit."""

    def in_bytes(value: object) -> int:
        if isinstance(value, str):
            sign = -1 if is_signed and value.startswith("-") else 1
            return sign * parse_bytes(value.removeprefix("-") if is_signed else value)
        if not isinstance(value, int) or isinstance(value, bool) or (value < 0 and not is_signed):
            raise ValueError(f'{_literal(value)} is not a size such as "64KiB", "4G" or 512')
        return value

    def read(value: object) -> int:
        found = in_bytes(value)
        if abs(found) > most:
            limit = "the largest file" if most == _LARGEST else str(most)
            raise ValueError(f"{_literal(value)} is larger than {limit}")
        return found

    def write(value: int) -> object:
        return f"-{_exactly(-value, _SIZE_UNITS, '')}" if value < 0 else _exactly(value, _SIZE_UNITS, "")

    return Kind(read, lambda: _size_schema("-?" if is_signed else "", ""), write, is_single=True)


SIZE = size()


def _read_size_or_percent(value: object) -> int | Percent:
    return _percent(value) if isinstance(value, str) and value.endswith("%") else SIZE.read(value)


def _write_size_or_percent(value: int | Percent) -> object:
    return f"{value.percent}%" if isinstance(value, Percent) else SIZE.write(value)


def _size_schema(sign: str, more: str) -> Schema:
    expression = rf"^({sign}\d+(\.\d+)? ?[kmgtpKMGTP]?(i?B)?{more})$"
    return {"anyOf": [{"type": "string", "pattern": expression}, {"type": "integer"}]}


SIZE_OR_PERCENT: Kind[int | Percent] = Kind(
    _read_size_or_percent, lambda: _size_schema("", r"|\d{1,3}%"), _write_size_or_percent
)
"""Bytes, or ``"50%"``."""


def _nanoseconds(value: object) -> int:
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 2**53:
        return round(value * SECOND_NS)
    if not isinstance(value, str):
        raise ValueError(f'{_literal(value)} is not a time such as "250us", "2ms", "30s" or 30')
    return parse_time_ns(value)


def _read_time(value: object) -> int:
    nanoseconds = _nanoseconds(value)
    if nanoseconds > _LARGEST:
        raise ValueError(f"{_literal(value)} is longer than the longest duration")
    return nanoseconds


def _time_schema() -> Schema:
    text = {"type": "string", "pattern": r"^\d+(\.\d+)? ?(ns|us|µs|ms|s|m|min|h|d)?$"}
    return {"anyOf": [text, {"type": "number", "minimum": 0}]}


TIME = Kind(
    _read_time, _time_schema, lambda value: _exactly(value, _TIME_UNITS, "s") if value else "0s", is_single=True
)
"""Nanoseconds: ``"30s"``, ``"250us"``; a bare number is seconds."""


def several(each: Kind[T]) -> Kind[tuple[T, ...]]:
    """A list of values; a single value need not be a list."""
    return Kind(
        read=lambda value: tuple(map(each.read, value if isinstance(value, list) else [value])),
        schema=lambda: {"anyOf": [each.schema(), {"type": "array", "items": each.schema()}]},
        write=lambda value: [each.write(one) for one in value],
    )


def between(each: Kind[N]) -> Kind[tuple[N, N]]:
    """A value, or the lower and the upper limit of a random value."""

    def read(value: object) -> tuple[N, N]:
        limits = value if isinstance(value, list) else [value, value]
        if len(limits) != 2:
            raise ValueError(f"{_literal(value)} is not a value or a pair of lower and upper limit")
        low, high = map(each.read, limits)
        if low > high:
            raise ValueError(f"{_literal(value)}: the first value is above the second")
        return low, high

    def write(value: tuple[N, N]) -> object:
        low, high = map(each.write, value)
        return low if low == high else [low, high]

    def schema() -> Schema:
        pair = {"type": "array", "items": each.schema(), "minItems": 2, "maxItems": 2}
        return {"anyOf": [each.schema(), pair]}

    return Kind(read, schema, write)


def by_operation(each: Kind[T], *, is_optional: bool, is_table: bool) -> Kind[PerKind[T | None]]:
    """A value for all operations, or a table with one for ``read``, ``write`` and ``trim`` each.

    ``is_optional``: operations may be omitted. ``is_table``: a value may itself be a table.
    """

    def read(value: object) -> PerKind[T | None]:
        if not isinstance(value, dict) or (is_table and not set(value) <= set(_OPERATIONS)):
            return PerKind[T | None].same(each.read(value))
        if not set(value) <= set(_OPERATIONS) or not (value or is_optional):
            raise ValueError(f"{_literal(value)} is not a table of read, write and trim")
        missing = [name for name in _OPERATIONS if name not in value]
        if missing and not is_optional:
            raise ValueError(f"{_literal(value)} has no value for {' and '.join(missing)}")
        read, write, trim = (each.read(value[name]) if name in value else None for name in _OPERATIONS)
        return PerKind(read=read, write=write, trim=trim)

    def write(value: PerKind[T | None]) -> object:
        parts = {name: value.of(name) for name in _OPERATIONS}
        written = {name: each.write(part) for name, part in parts.items() if part is not None}
        if len(written) == len(_OPERATIONS) and all(part == value.read for part in parts.values()):
            return written["read"]
        return written

    def schema() -> Schema:
        properties = dict.fromkeys(_OPERATIONS, each.schema())
        table: Schema = {"type": "object", "properties": properties, "additionalProperties": False}
        return {"anyOf": [each.schema(), table | ({} if is_optional else {"required": list(_OPERATIONS)})]}

    return Kind(read, schema, write)


def plan_part(of: Any) -> AnyKind:
    """A part of the plan, written as a table of the fields that differ from their defaults; ``of`` is its type."""

    def read(value: object) -> object:
        try:
            return msgspec.convert(value, of)
        except msgspec.ValidationError as error:
            raise ValueError(refusal(error)) from None

    # A default of several values is a list in the schema.
    return Kind(
        read,
        lambda: msgspec.json.decode(re.sub(rb"\\n +", rb"\\n", msgspec.json.encode(msgspec.json.schema(of)))),
        lambda value: _without_none(msgspec.to_builtins(value)),
    )


def short(of: Any, word: str = "") -> AnyKind:
    """A part of the plan with a short form: a size for blocks, a ``word`` for a distribution."""
    table = plan_part(of)

    def read(value: object) -> object:
        if word and value == word:
            value = {"kind": word}
        if not word and not isinstance(value, dict):
            value = {"kind": "fixed", "bytes": SIZE.read(value)}
        return table.read(value)

    def write(value: object) -> object:
        if isinstance(value, Uniform) and word:
            return word
        return SIZE.write(value.bytes) if isinstance(value, FixedBlocks) and not word else table.write(value)

    def schema() -> Schema:
        # ``output.schema`` moves the definitions to the top.
        full = table.schema()
        brief: Schema = {"const": word} if word else SIZE.schema()
        return {"anyOf": [brief, {key: value for key, value in full.items() if key != "$defs"}], "$defs": full["$defs"]}

    return Kind(read, schema, write)


def _percent(text: str) -> Percent:
    digits = text.removesuffix("%")
    if not digits.isascii() or not digits.isdigit() or int(digits[:12]) > 100:
        raise ValueError(f"'{text}' is not a percentage from 0% to 100%")
    return Percent(percent=int(digits))


def _exactly(value: int, units: Sequence[tuple[int, str]], plain: str) -> str | int:
    for unit, name in units:
        if value and value % unit == 0:
            return f"{value // unit}{name}"
    return f"{value}{plain}" if plain else value


def _without_none(value: object) -> object:
    """Removes None values, as TOML has no null."""
    if isinstance(value, dict):
        return {key: _without_none(one) for key, one in value.items() if one is not None}
    return [_without_none(one) for one in value] if isinstance(value, list) else value


def _literal(value: object) -> str:
    return printable("true" if value is True else "false" if value is False else repr(value), 60)


_EXCEPTIONS = {
    "depth": "iodepth",
    "depth_low": "iodepth_low",
    "blocks": "bs",
    "ramp_ns": "ramp_time",
    "file_bytes": "file_size",
    "path_bytes": "path_sizes",
    "think_every_ns": "think_every_time",
    "rate_bytes": "rate_bytes",
    "rate_total_bytes": "rate_total_bytes",
    "payload_pool_bytes": "payload_pool_size",
}
"""Fields whose key is fio's word, or whose name without the unit is taken or unclear."""
EARLIER_KEYS = {
    "depth": "iodepth",
    "depth_low": "iodepth_low",
    "blocks": "bs",
    "ramp": "ramp_time",
    "family": "series",
    "families": "series",
    "axes": "parameters",
}
"""Keys of job files and scenarios that had other names; they are read as well."""


def own_key(field: str) -> str:
    """The key of a field in job files: ``runtime`` for ``runtime_ns``."""
    return _EXCEPTIONS.get(field) or field.removesuffix("_ns").removesuffix("_bytes")


WORDS = Words(
    names={field: own_key(field) for field in model.FIELDS},
    joint=" = ",
    asks={
        "direct": "direct = true",
        "repeat": "repeatable = true",
        "no repeat": "repeatable = false",
        "no create": "create = false",
        "size": 'size = "1g"',
    },
    worker="worker",
    shares_mount=False,
)


NOT_WRITTEN = frozenset(
    {
        *("engine_asked", "metadata", "space_call", "replay", "replay_flushes", "regions", "tasks", "task_shares"),
        *("short_last_block", "endless", "keep_payload", "first_jobnum", "clients", "report_as_one"),
        "intervals_singly",
    }
)
"""Fields that job files do not have: replayed traces, and what other tools alone can request."""
_SIZES = frozenset(
    {
        *("file_bytes", "path_bytes", "size", "offset", "offset_increment", "offset_align", "align_bytes", "gap_bytes"),
        *("gap_spread_bytes", "start_bytes", "start_increment_bytes", "zone_bytes", "zone_range_bytes"),
        *("zone_skip_bytes", "rate_bytes", "rate_total_bytes", "transfer", "payload_pool_bytes"),
        "payload_compress_chunk_bytes",
    }
)
_U32, _U64 = 2**32 - 1, 2**64 - 1
_WHOLE = {
    **dict.fromkeys(("numjobs", "depth", "file_count", "file_run", "run_length", "think_every"), (1, _U32)),
    **dict.fromkeys(("loops", "operations"), (1, _U64)),
    **dict.fromkeys(("rate_operations", "seed"), (0, _U64)),
    **dict.fromkeys(
        ("random_percent", "payload_compress_percent", "payload_dedupe_percent", "payload_dedupe_set_percent"), (0, 100)
    ),
    "nconnect": (1, 16),
}
"""Limits of whole numbers; the default is 0 to 2^32 - 1."""
_SPECIAL_KINDS: dict[str, AnyKind] = {
    "payload_pattern": pattern("([0-9a-f]{2}|o{16})+", "a pattern in hexadecimal"),
    "file_name_pattern": pattern(
        r"([^{}/\x00]|\{job\}|\{jobnum\}|\{file\})+", "a name with {job}, {jobnum} and {file}"
    ),
    "read_percent": plain(float, "a percentage", 0, 100),
    "latency_percentile": plain(float, "a percentage", 0, 100),
    "name": pattern(r"[^\x00]+", "a name"),
    "nfs_source": pattern(r"[0-9a-fA-F:.]+", "an IP address such as 127.0.1.2"),
}
"""Kinds that do not follow from the type of the field."""


FIELDS = [name for name in model.FIELDS if name not in NOT_WRITTEN]
FIELD_OF = {own_key(name): name for name in FIELDS}
"""The field that a key sets."""


def _kind(name: str, annotation: object) -> AnyKind:
    """Kind of a field's value, from its name and type."""
    if name in _SPECIAL_KINDS:
        return _SPECIAL_KINDS[name]
    parts = [part for part in _options(annotation) if part is not type(None)]
    if annotation == Blocks:
        return short(Blocks)
    if annotation == Preference:
        return short(Preference, "uniform")
    if name.endswith("_ns") and parts == [int]:
        return TIME
    if name in _SIZES and int in parts:
        if name == "payload_compress_chunk_bytes":
            return size(most=_U32)
        return SIZE_OR_PERCENT if len(parts) > 1 else size(is_signed=name == "gap_bytes")
    if len(parts) > 1:
        raise TypeError(f"{name}: no kind for {annotation}")
    (part,) = parts
    return _single(name, part)


def _single(name: str, part: object) -> AnyKind:
    if part is int:
        return whole(*_WHOLE.get(name, (0, _U32)))
    plain: dict[object, AnyKind] = {bool: TRUTH, float: FRACTION, str: TEXT}
    if part in plain:
        return plain[part]
    if get_origin(part) is Literal:
        return word(get_args(part))
    if get_origin(part) is tuple:
        first, second = get_args(part)
        each = _kind(name, first)
        return several(each) if second is Ellipsis else between(each)
    if get_origin(part) is PerKind:
        (value,) = get_args(part)
        is_optional = type(None) in _options(value)
        return by_operation(_kind(name, value), is_optional=is_optional, is_table=value in (Blocks, Preference))
    if isinstance(part, type) and issubclass(part, Struct):
        return plan_part(part)
    raise TypeError(f"{name}: no kind for {part}")


def _options(annotation: object) -> tuple[object, ...]:
    return get_args(annotation) if get_origin(annotation) in (Union, types.UnionType) else (annotation,)


def _kinds() -> dict[str, AnyKind]:
    hints: dict[str, object] = {}
    for part in (Section, *PARTS.values()):
        hints |= typing.get_type_hints(part, include_extras=True)
    return {name: _kind(name, _without_unset(hints[name])) for name in FIELDS}


def _without_unset(annotation: object) -> object:
    """Type of a field without the None of an unset field."""
    parts = tuple(part for part in _options(annotation) if part is not type(None))
    return parts[0] if len(parts) == 1 else Union[parts]  # noqa: UP007 - made of a tuple


KINDS: dict[str, AnyKind] = _kinds()
"""Kind of value of each field."""
DEFAULTS = Said.of(engine="uring", direct=True, random=True, read_percent=50.0, cover="once", depth=1, time_based=True)
"""Defaults of a job file."""

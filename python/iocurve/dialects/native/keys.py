"""The keys of a job: one per field of a section, with the kind of its value; and the defaults of a job file."""

from __future__ import annotations

import types
import typing
from typing import Literal, Union, get_args, get_origin

from iocurve.dialects.native import kinds
from iocurve.dialects.native.kinds import AnyKind
from iocurve.engine.plan import Blocks
from iocurve.foundation.structs import Struct
from iocurve.job import model
from iocurve.job.model import PARTS, PerKind, Preference, Said, Section, Words

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
    "payload_pattern": kinds.pattern("([0-9a-f]{2}|o{16})+", "a pattern in hexadecimal"),
    "file_name_pattern": kinds.pattern(
        r"([^{}/\x00]|\{job\}|\{jobnum\}|\{file\})+", "a name with {job}, {jobnum} and {file}"
    ),
    "read_percent": kinds.plain(float, "a percentage", 0, 100),
    "latency_percentile": kinds.plain(float, "a percentage", 0, 100),
    "name": kinds.pattern(r"[^\x00]+", "a name"),
    "nfs_source": kinds.pattern(r"[0-9a-fA-F:.]+", "an IP address such as 127.0.1.2"),
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
        return kinds.short(Blocks)
    if annotation == Preference:
        return kinds.short(Preference, "uniform")
    if name.endswith("_ns") and parts == [int]:
        return kinds.TIME
    if name in _SIZES and int in parts:
        if name == "payload_compress_chunk_bytes":
            return kinds.size(most=_U32)
        return kinds.SIZE_OR_PERCENT if len(parts) > 1 else kinds.size(is_signed=name == "gap_bytes")
    if len(parts) > 1:
        raise TypeError(f"{name}: no kind for {annotation}")
    (part,) = parts
    return _single(name, part)


def _single(name: str, part: object) -> AnyKind:
    if part is int:
        return kinds.whole(*_WHOLE.get(name, (0, _U32)))
    plain: dict[object, AnyKind] = {bool: kinds.TRUTH, float: kinds.FRACTION, str: kinds.TEXT}
    if part in plain:
        return plain[part]
    if get_origin(part) is Literal:
        return kinds.word(get_args(part))
    if get_origin(part) is tuple:
        first, second = get_args(part)
        each = _kind(name, first)
        return kinds.several(each) if second is Ellipsis else kinds.between(each)
    if get_origin(part) is PerKind:
        (value,) = get_args(part)
        is_optional = type(None) in _options(value)
        return kinds.by_operation(_kind(name, value), is_optional=is_optional, is_table=value in (Blocks, Preference))
    if isinstance(part, type) and issubclass(part, Struct):
        return kinds.plan_part(part)
    raise TypeError(f"{name}: no kind for {part}")


def _options(annotation: object) -> tuple[object, ...]:
    return get_args(annotation) if get_origin(annotation) in (Union, types.UnionType) else (annotation,)


def _kinds() -> dict[str, AnyKind]:
    hints: dict[str, object] = {}
    for part in (Section, *PARTS.values()):
        hints |= typing.get_type_hints(part, include_extras=True)
    return {name: _kind(name, _without_none(hints[name])) for name in FIELDS}


def _without_none(annotation: object) -> object:
    """Type of a field without the None of an unset field."""
    parts = tuple(part for part in _options(annotation) if part is not type(None))
    return parts[0] if len(parts) == 1 else Union[parts]  # noqa: UP007 - made of a tuple


KINDS: dict[str, AnyKind] = _kinds()
"""Kind of value of each field."""
DEFAULTS = Said.of(
    engine="uring",
    direct=True,
    random=True,
    read_percent=50.0,
    cover="once",
    depth=1,
    time_based=True,
)
"""Defaults of a job file."""

"""The load of fio jobs, from the options that fio's JSON keeps as they were given."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from iocurve.foundation.units import KIB
from iocurve.imports.measured import ImportedLoad
from iocurve.imports.parsing import number, size, whole
from iocurve.result.imported import ImportedKind

Options = Mapping[str, str]
SYNCHRONOUS = ("sync", "psync", "vsync", "pvsync", "pvsync2", "mmap", "splice", "ftruncate")
"""Engines with one operation in flight, whatever iodepth says."""
DEFAULT_BLOCK_BYTES = 4 * KIB


def load_of(options: Sequence[Options | None], names: Sequence[str], kinds: Mapping[str, ImportedKind]) -> ImportedLoad:
    """The load of jobs that ran together; what differs between them, or is not known, is None."""
    moved = [kind for kind in ("read", "write") if kind in kinds]
    kind = moved[0] if len(moved) == 1 else "mixed" if moved else None
    known = [one for one in options if one is not None]
    if len(known) < len(options):
        return ImportedLoad(kind=kind)
    blocks = {_block_bytes(one, name) for one in known for name in _kinds_of(_pattern(one))}
    depths = [_depth(one) for one in known]
    counts = copies_of(known, names)
    return ImportedLoad(
        kind=kind,
        order=_single(map(_order, known)),
        block_bytes=_single(blocks),
        read_percent=_single(map(_read_percent, known)) if kind == "mixed" else None,
        depth=None if None in depths else sum((one or 0) * count for one, count in zip(depths, counts, strict=True)),
    )


def copies_of(options: Sequence[Options | None], names: Sequence[str]) -> list[int]:
    """The jobs that each entry reports: ``numjobs`` under group_reporting, otherwise one."""
    entries = Counter(names)
    return [
        (whole(one.get("numjobs")) or 1) if one is not None and entries[name] == 1 else 1
        for one, name in zip(options, names, strict=True)
    ]


def workers_of(options: Sequence[Options | None], names: Sequence[str]) -> int | None:
    """The number of jobs; None where fio wrote no options."""
    return None if any(one is None for one in options) else sum(copies_of(options, names))


Value = TypeVar("Value", str | None, int | None, float | None)


def _single(values: Iterable[Value]) -> Value | None:
    found = set(values)
    return found.pop() if len(found) == 1 else None


def _pattern(options: Options) -> str:
    return (options.get("rw") or options.get("readwrite") or "read").partition(":")[0]


def _order(options: Options) -> str | None:
    """random or sequential; None for a mix of both."""
    if number(options.get("percentage_random", "100").split(",")[0]) not in (0, 100):
        return None
    return "random" if _pattern(options).startswith("rand") else "sequential"


def _kinds_of(pattern: str) -> list[str]:
    bare = pattern.removeprefix("rand")
    return ["read", "write"] if bare in ("rw", "readwrite") else [bare]


def _block_bytes(options: Options, kind: str) -> int | None:
    """The block size of one kind: ``bs=4k``, or ``bs=4k,64k`` for reads and writes; None if it varies."""
    if any(name in options for name in ("bsrange", "blocksize_range", "bssplit")):
        return None
    given = options.get("bs") or options.get("blocksize")
    if given is None:
        return DEFAULT_BLOCK_BYTES
    sizes = given.split(",")
    return size(sizes[1] if kind == "write" and len(sizes) > 1 and sizes[1] else sizes[0])


def _read_percent(options: Options) -> float | None:
    written = number(options.get("rwmixwrite"))
    read = number(options.get("rwmixread"))
    return read if read is not None else 50.0 if written is None else 100 - written


def _depth(options: Options) -> int | None:
    """The depth of one job; None where the default engine, another on each system, decides."""
    depth = whole(options.get("iodepth")) or 1
    if depth == 1 or options.get("ioengine") in SYNCHRONOUS:
        return 1
    return depth if "ioengine" in options else None

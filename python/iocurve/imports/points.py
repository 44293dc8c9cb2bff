"""Makes a result of imported loads: a point for each, which says what is not known.

``ImportedMeasurement`` is a load and its values as a reader finds them, before they become a point.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import PurePath

import msgspec
from msgspec.structs import asdict

from iocurve._native import VERSION
from iocurve.foundation.units import LARGE_BLOCK_BYTES, format_bytes
from iocurve.result.document import INCONCLUSIVE, Axis, Limit, Note, Point, Result, TargetFacts
from iocurve.result.imported import ImportFacts


class ImportedLoad(msgspec.Struct, frozen=True):
    """The load as far as a tool tells it. None is not known."""

    kind: str | None = None
    """read, write, or mixed."""
    order: str | None = None
    """random or sequential."""
    block_bytes: int | None = None
    read_percent: float | None = None
    depth: float | None = None
    """Operations in flight, all jobs together."""

    def axes(self) -> dict[str, Axis]:
        """The axes that are known."""
        return {
            name: int(value) if isinstance(value, float) and value.is_integer() else value
            for name, value in asdict(self).items()
            if value is not None
        }


class ImportedMeasurement(ImportFacts):
    """One load with its figures; what follows from ``shape`` is filled in when it becomes a point."""

    name: str
    shape: ImportedLoad
    load: str = ""
    created: datetime | None = None
    target: str | None = None
    """The file, directory or device that was loaded."""
    notes: tuple[tuple[str, str], ...] = ()
    """Codes and sentences on what the tool does not tell, or tells otherwise than iocurve measures it."""


KIND = "imported"
"""The kind of a result that was imported."""
MACHINE = (
    "Imported from {tools}: nothing is known about the machine, other work on it and the target, so no limit is named "
    "and no noise seen."
)
DOUBTFUL = ("fio_slat", "fio_skew", "truncated", "vdbench_no_average")
"""Codes of notes that cast doubt on values."""
UNKNOWN = Limit(
    code="unknown", short_name=INCONCLUSIVE, text="an imported result does not tell what limited it", confidence="none"
)
"""The verdict on an imported point."""


def result_of(measured: Sequence[ImportedMeasurement], name: str) -> Result:
    """The result with a point for each load, in their order."""
    created = [one.created for one in measured if one.created is not None]
    tools = ", ".join(dict.fromkeys(one.tool for one in measured))
    targets = list(dict.fromkeys(one.target for one in measured))
    notes = dict.fromkeys(note for one in measured for note in one.notes)
    failed = [one for one in measured if one.state != "finished"]
    states = {one.state for one in measured}
    return Result(
        iocurve=VERSION,
        kind=KIND,
        name=name,
        created=min(created) if created else datetime.now(UTC).replace(microsecond=0),
        state="failed" if "failed" in states else "interrupted" if "interrupted" in states else "finished",
        incomplete_reason="; ".join(text for one in failed for text in one.errors_text) if failed else None,
        host=None,
        target=TargetFacts(kind="unknown", address=targets[0] or "not known" if len(targets) == 1 else "several"),
        null_ceiling_operations_per_s=None,
        notes=(
            Note(code="imported", text=MACHINE.format(tools=tools)),
            *(Note(code=code, text=text, level="warning" if code in DOUBTFUL else "info") for code, text in notes),
            *(() if created else (Note(code="no_date", text=NO_DATE, level="info"),)),
        ),
        points=tuple(_point(one, title) for one, title in zip(measured, _names(measured), strict=True)),
    )


NO_DATE = "The files do not tell when they were measured: the date is that of the import."


def _names(measured: Sequence[ImportedMeasurement]) -> list[str]:
    """The name of each point; with its file, or its directory, where several files have a load of that name."""
    sources: dict[str, list[PurePath]] = {}
    for one in measured:
        sources.setdefault(one.name, []).append(PurePath(one.source))
    return [_name(one, list(dict.fromkeys(sources[one.name]))) for one in measured]


def _name(one: ImportedMeasurement, sources: Sequence[PurePath]) -> str:
    if len(sources) == 1:
        return one.name
    has_names = len({source.name for source in sources}) == len(sources)
    path = PurePath(one.source)
    return f"{path.name if has_names else path.parent.name}: {one.name}"


def _point(one: ImportedMeasurement, name: str) -> Point:
    load, depth = load_text(one.shape), one.shape.depth
    # Points of a family share what they have no axis for; a depth that is not known is no axis.
    family = " ".join((load, "by depth") if load and depth is not None else (load or "imported",))
    stated = {field: getattr(one, field) for field in ImportFacts.__struct_fields__}
    facts = ImportFacts(**stated).replace(load=load or one.name, in_bytes=_is_in_bytes(one), depth=depth)
    return Point(name=name, family=family, axes=one.shape.axes(), imported=facts, limit=UNKNOWN)


def _is_in_bytes(one: ImportedMeasurement) -> bool:
    if any(kind.bytes_per_s is None for kind in (one.total, *one.kinds.values())):
        return False
    load = one.shape
    return load.order == "sequential" or (load.block_bytes or 0) >= LARGE_BLOCK_BYTES


def load_text(load: ImportedLoad) -> str:
    """The load in words: ``4 KiB random reads``, ``4 KiB random, 70 % reads``; empty where too little is known."""
    if load.kind is None:
        return ""
    place = " ".join(filter(None, (format_bytes(load.block_bytes) if load.block_bytes else "", load.order)))
    if load.kind != "mixed":
        return f"{place} {load.kind}s".strip()
    share = "reads and writes" if load.read_percent is None else f"{load.read_percent:.3g} % reads"
    return f"{place}, {share}" if place and load.read_percent is not None else f"{place} {share}".strip()

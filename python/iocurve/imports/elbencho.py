"""elbencho's results as JSON (``--jsonfile``) and CSV (``--csvfile``). Each phase is a point; the last done counts."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from iocurve.foundation.units import MIB, MICROSECOND_NS, MILLISECOND_NS
from iocurve.imports.parsing import SourceFile, documents, number, part_of, scaled, whole
from iocurve.imports.points import ImportedLoad, ImportedMeasurement
from iocurve.result.document import Json
from iocurve.result.imported import ImportedKind, ImportedLatency, total_of

KINDS = {
    "write": "write",
    "read": "read",
    "mkdirs": "mkdir",
    "rmdirs": "rmdir",
    "rmfiles": "delete",
    "stat": "getattr",
    "rwmix": "write",
}
"""Kinds by the start of a phase's name; the reads of a mix are reported apart."""
LAST = "elbencho's values are those of its column 'last done': up to the end of the slowest thread."
NO_PERCENTILES = "elbencho's results have no percentiles."
CSV_NAMES = {
    "entries/s": "entries/s [last]",
    "iops": "IOPS [last]",
    "entries": "entries [last]",
}
"""Names in CSV by those in JSON."""


def is_json(source: SourceFile) -> bool:
    """True of a text with a phase of elbencho."""
    return '"phase_type"' in source.text and '"last_done"' in source.text


def read_json(source: SourceFile) -> list[ImportedMeasurement]:
    """A point for each phase. Raises ``ResultError``."""
    objects, error = documents(source.text)
    phases = [each for each in objects if isinstance(each.get("last_done"), dict)]
    found = [_json_phase(source, phase) for phase in phases]
    return _some(source, found, f"elbencho's JSON is damaged or truncated ({error})" if error else "")


def is_csv(source: SourceFile) -> bool:
    """True of a table with elbencho's columns."""
    return "operation,time ms [first],time ms [last]" in source.text.replace('"', "")


def read_csv(source: SourceFile) -> list[ImportedMeasurement]:
    """A point for each line. Raises ``ResultError``."""
    try:
        rows = list(csv.DictReader(source.text.splitlines()))
    except csv.Error as error:
        raise source.error(f"elbencho's CSV is damaged: {error}") from None
    return _some(source, [_csv_phase(source, row) for row in rows if row.get("operation") not in (None, "operation")])


def _some(source: SourceFile, found: Sequence[ImportedMeasurement], error: str = "") -> list[ImportedMeasurement]:
    ran = [one for one in found if one.total.iops]
    if not ran:
        raise source.error(error or "no phase of elbencho has a rate")
    return ran


# ---- JSON


def _json_phase(source: SourceFile, phase: Json) -> ImportedMeasurement:
    done, config = part_of(phase, "last_done"), part_of(phase, "config")
    latency = part_of(done, "latency")
    values = [(done, latency)]
    if mixed := part_of(done, "rwmix_read"):
        values.append((mixed, {name: part_of(part_of(latency, name), "rwmix_read") for name in ("entries", "IO")}))
    kinds = [
        _kind(each | {"elapsed_time_ms": done.get("elapsed_time_ms")}, _json_latency(stated, "iops" in each))
        for each, stated in values
    ]
    rates = [number(each.get("bytes/s")) for each, _ in values]
    moved = [whole(each.get("bytes")) for each, _ in values]
    return _measured(
        source,
        str(phase.get("phase_type", "")),
        [kind.replace(bytes=size, bytes_per_s=rate) for kind, size, rate in zip(kinds, moved, rates, strict=True)],
        {name.replace("_", " "): value for name, value in config.items()} | {"random": config.get("random_offsets")},
        (done.get("elapsed_time_ms"), phase.get("iso_start_date")),
    )


def _json_latency(latency: Json, is_io: bool) -> ImportedLatency:
    stated = part_of(latency, "IO" if is_io else "entries")
    return ImportedLatency(
        min_ns=scaled(stated.get("min_us"), MICROSECOND_NS),
        mean_ns=scaled(stated.get("avg_us"), MICROSECOND_NS),
        max_ns=scaled(stated.get("max_us"), MICROSECOND_NS),
    )


# ---- CSV


def _csv_phase(source: SourceFile, row: Mapping[str, str]) -> ImportedMeasurement:
    kinds = [_csv_kind(row, "")]
    if number(row.get("rwmix read IOPS [last]")) or number(row.get("rwmix read entries/s [last]")):
        kinds.append(_csv_kind(row, "rwmix read "))
    return _measured(source, row["operation"], kinds, row, (row.get("time ms [last]"), row.get("ISO date")))


def _csv_kind(row: Mapping[str, str], prefix: str) -> ImportedKind:
    values = {name: row.get(f"{prefix}{column}") or None for name, column in CSV_NAMES.items()}
    which = f"{prefix}{'IO' if values['iops'] else 'Ent'} lat us"
    latency = ImportedLatency(
        min_ns=scaled(row.get(f"{which} [min]"), MICROSECOND_NS),
        mean_ns=scaled(row.get(f"{which} [avg]"), MICROSECOND_NS),
        max_ns=scaled(row.get(f"{which} [max]"), MICROSECOND_NS),
    )
    kind = _kind(values | {"elapsed_time_ms": row.get("time ms [last]")}, latency)
    moved = scaled(row.get(f"{prefix}MiB [last]"), MIB)
    rate = scaled(row.get(f"{prefix}MiB/s [last]"), MIB)
    return kind.replace(bytes=None if moved is None else round(moved), bytes_per_s=rate)


# ---- both


def _kind(values: Mapping[str, object], latency: ImportedLatency) -> ImportedKind:
    """Operations on data where there are any, otherwise on entries. Their number is the rate times the time."""
    rate = number(values.get("iops"))
    elapsed_ms = number(values.get("elapsed_time_ms"))
    operations = None if rate is None or elapsed_ms is None else round(rate * elapsed_ms / 1000)
    if rate is None:
        rate, operations = number(values.get("entries/s")), whole(values.get("entries"))
    return ImportedKind(operations=operations, iops=rate, latency=latency.replace(count=operations))


def _measured(
    source: SourceFile,
    phase: str,
    found: Sequence[ImportedKind],
    config: Mapping[str, object],
    times: tuple[object, object],
) -> ImportedMeasurement:
    first = next((kind for start, kind in KINDS.items() if phase.lower().startswith(start)), phase.lower())
    kinds = dict(zip((first, "read"), found, strict=False))
    elapsed_ms, started = number(times[0]), times[1]
    threads, hosts = whole(config.get("threads")), whole(config.get("hosts")) or 1
    depth = whole(config.get("IO depth", config.get("io depth"))) or 1
    kind = first if len(kinds) == 1 else "mixed"
    is_data = kind in ("read", "write", "mixed")
    random = str(config.get("random") or "").lower()
    return ImportedMeasurement(
        tool=f"elbencho {config.get('version') or ''}".strip(),
        source=source.name,
        name=phase,
        state="failed" if phase.endswith("]") else "finished",
        load=ImportedLoad(
            kind=kind,
            order=("random" if random in ("1", "true") else "sequential") if is_data and random else None,
            block_bytes=whole(config.get("block size")) if is_data else None,
            depth=threads * hosts * (depth if is_data else 1) if threads else None,
        ),
        kinds=kinds,
        total=total_of(kinds),
        window_ns=None if elapsed_ms is None else round(elapsed_ms * MILLISECOND_NS),
        workers=threads * hosts if threads else None,
        created=_time(str(started or "")),
        notes=(("elbencho_last_done", LAST), ("elbencho_no_percentiles", NO_PERCENTILES)),
    )


def _time(text: str) -> datetime | None:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found.replace(microsecond=0) if found.tzinfo else found.replace(microsecond=0, tzinfo=UTC)

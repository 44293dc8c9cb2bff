"""elbencho's results as JSON (``--jsonfile``), CSV (``--csvfile``) and on the console. Each phase is a point.

Of elbencho's two columns the last done counts.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime

from iocurve.foundation.units import MB, MIB, MICROSECOND_NS, MILLISECOND_NS
from iocurve.imports.parsing import SourceFile, documents, number, part_of, scaled, whole
from iocurve.imports.points import ImportedLoad, ImportedMeasurement
from iocurve.result.document_file import Json
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
CSV_NAMES = {"entries/s": "entries/s [last]", "iops": "IOPS [last]", "entries": "entries [last]"}
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
    return _latency(stated.get(f"{name}_us") for name in ("min", "avg", "max"))


# ---- CSV


def _csv_phase(source: SourceFile, row: Mapping[str, str]) -> ImportedMeasurement:
    kinds = [_csv_kind(row, "")]
    if number(row.get("rwmix read IOPS [last]")) or number(row.get("rwmix read entries/s [last]")):
        kinds.append(_csv_kind(row, "rwmix read "))
    return _measured(source, row["operation"], kinds, row, (row.get("time ms [last]"), row.get("ISO date")))


def _csv_kind(row: Mapping[str, str], prefix: str) -> ImportedKind:
    values = {name: row.get(f"{prefix}{column}") or None for name, column in CSV_NAMES.items()}
    which = f"{prefix}{'IO' if values['iops'] else 'Ent'} lat us"
    latency = _latency(row.get(f"{which} [{name}]") for name in ("min", "avg", "max"))
    kind = _kind(values | {"elapsed_time_ms": row.get("time ms [last]")}, latency)
    moved = scaled(row.get(f"{prefix}MiB [last]"), MIB)
    rate = scaled(row.get(f"{prefix}MiB/s [last]"), MIB)
    return kind.replace(bytes=None if moved is None else round(moved), bytes_per_s=rate)


# ---- console

_HEADING = re.compile(r"OPERATION\s+RESULT TYPE\s+FIRST DONE\s+LAST DONE")
_ROW = re.compile(
    r"(?P<phase>\S+)?\s+(?P<label>[A-Z]\S*(?: \S+)*)\s*:\s+(?:(?P<first>\S+)\s+(?P<last>\S+)|\[(?P<list>.*)\])\s*$"
)
_LATENCY = re.compile(r"(IO|IO rd|IO wr|\w+) latency(?: us)?")
_TIME = re.compile(r"(?:(\d+)h)?(?:(\d+)m)?(?:([\d.]+)s)?(?:(\d+)ms)?")
_VALUES = {"IOPS": "iops", "MiB/s": "MiB/s", "MB/s": "MB/s", "MiB": "MiB", "/s": "entries/s", " total": "entries"}
"""Values by the ends of their labels."""


def is_console(source: SourceFile) -> bool:
    """True of a text with elbencho's table."""
    return _start(source) >= 0


def _start(source: SourceFile) -> int:
    """The place of the first table; -1 where there is none."""
    found = _HEADING.search(source.text)
    return found.start() if found else -1


def read_console(source: SourceFile) -> list[ImportedMeasurement]:
    """A point for each phase with a rate. Raises ``ResultError``."""
    phases: list[Json] = []
    for line in source.text[_start(source) :].splitlines():
        row = _ROW.match(line)
        if row and row["phase"]:
            phases.append({"phase_type": row["phase"], "last_done": {"latency": {}, "rwmix_read": {}}})
        if row and phases:
            _console_row(phases[-1]["last_done"], row)
    return _some(source, [_json_phase(source, phase) for phase in phases])


def _console_row(done: Json, row: re.Match[str]) -> None:
    """Adds the values of a row under the names that JSON has for them."""
    label, last = row["label"], row["last"]
    if found := _LATENCY.fullmatch(label):
        values = dict(each.split("=") for each in (row["list"] or "").split() if "=" in each)
        stated: Json = {f"{name}_us": _us(value) for name, value in values.items()}
        named = "IO" if found[1].startswith("IO") else "entries"
        of_kind = done["latency"].setdefault(named, {})
        of_kind.update({"rwmix_read": stated} if found[1] == "IO rd" else stated)
    elif label.startswith("Elapsed"):
        done["elapsed_time_ms"] = number(last) if label.endswith("ms") else _ms(last)
    elif not label.endswith(" total") or not label.startswith(("IOPS", "MiB", "MB")):
        done = done["rwmix_read"] if label.endswith(" read") else done
        bare = label.removesuffix(" read").removesuffix(" write")
        name = next((name for end, name in _VALUES.items() if bare.endswith(end)), "")
        scale = {"MiB/s": MIB, "MB/s": MB, "MiB": MIB}.get(name, 1)
        json_name = {"MiB/s": "bytes/s", "MB/s": "bytes/s", "MiB": "bytes"}.get(name, name)
        done[json_name] = scaled(last, scale)


def _ms(text: str) -> float | None:
    """``0ms``, ``12.345s``, ``2m3.241s``, ``1h2m3.241s`` in milliseconds."""
    found = _TIME.fullmatch(text)
    if found is None or not any(found.groups()):
        return None
    hours, minutes, seconds, milliseconds = (float(each or 0) for each in found.groups())
    return ((hours * 60 + minutes) * 60 + seconds) * 1000 + milliseconds


def _us(text: str) -> float | None:
    """``42us``, ``1.23ms``, ``1.23s``, before version 3.0 ``42`` in microseconds."""
    unit = text.lstrip("0123456789.")
    return scaled(text.removesuffix(unit), {"": 1, "us": 1, "ms": 1_000, "s": 1_000_000}.get(unit, 1))


# ---- all


def _latency(microseconds: Iterable[object]) -> ImportedLatency:
    """The smallest, the mean and the largest latency."""
    smallest, mean, largest = (scaled(value, MICROSECOND_NS) for value in microseconds)
    return ImportedLatency(min_ns=smallest, mean_ns=mean, max_ns=largest)


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
        shape=ImportedLoad(
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

"""DiskSpd's results as XML (``-Rxml``) and as text. Each time span is a point."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Literal
from xml.etree import ElementTree

from msgspec.structs import replace

from iocurve.foundation.units import MIB, MILLISECOND_NS, SECOND_NS
from iocurve.imports.parsing import SourceFile, nanoseconds, number, scaled, single, size, time_of, whole
from iocurve.imports.points import ImportedLoad, ImportedMeasurement
from iocurve.result.imported import ImportedInterval, ImportedKind, ImportedLatency, total_of

NO_LATENCY = "DiskSpd measured no latencies (-L was not given)."
ROUNDED = "DiskSpd's text states rates to two and latencies to three decimals (in ms)."
_NINES = re.compile(r"(\d+)-nines\Z")
_NTH = re.compile(r"(\d+)(?:st|nd|rd|th)\Z")
_KINDS = {"read": "Read", "write": "Write"}


# ---- XML


def is_xml(source: SourceFile) -> bool:
    """True of results, not of a profile alone."""
    return "<Results" in source.text and "<TimeSpan" in source.text


def read_xml(source: SourceFile) -> list[ImportedMeasurement]:
    """A point for each time span. Raises ``ResultError``."""
    text = source.text
    end = text.find("</Results>")
    if end < 0:
        raise source.error("DiskSpd's XML is truncated: </Results> is missing")
    try:
        root = ElementTree.fromstring(text[text.index("<Results") : end + len("</Results>")])
    except ElementTree.ParseError as error:
        raise source.error(f"DiskSpd's XML is damaged: {error}") from None
    profiles = root.findall("./Profile/TimeSpans/TimeSpan")
    spans = root.findall("./TimeSpan")
    tool = f"DiskSpd {root.findtext('./System/Tool/Version') or ''}".strip()
    created = _time(root.findtext("./System/RunTime"))
    padded = [*profiles, *[None] * len(spans)]
    found = [
        _xml_span(source, span, padded[place], f"time span {place + 1}", tool, created)
        for place, span in enumerate(spans)
    ]
    points = _named([one for one in found if one.total.operations])
    if not points:
        raise source.error("no time span of DiskSpd completed an operation")
    return points


def _xml_span(
    source: SourceFile,
    span: ElementTree.Element,
    profile: ElementTree.Element | None,
    name: str,
    tool: str,
    created: datetime | None,
) -> ImportedMeasurement:
    seconds = number(span.findtext("TestTimeSeconds"))
    counts = {kind: [_sum(span, f"{word}Count"), _sum(span, f"{word}Bytes")] for kind, word in _KINDS.items()}
    latencies = {kind: _xml_latency(span, word) for kind, word in {**_KINDS, "": "Total"}.items()}
    kinds = {
        kind: _rates(ImportedKind(operations=count, bytes=moved, latency=_counted(latencies[kind], count)), seconds)
        for kind, (count, moved) in counts.items()
        if count
    }
    total = total_of(kinds).replace(latency=_counted(latencies[""], sum(count for count, _ in counts.values())))
    error = span.findtext("Error")
    state, reasons = _end(source, error)
    return ImportedMeasurement(
        tool=tool,
        source=source.name,
        name=name,
        shape=_xml_load(profile, kinds),
        kinds=kinds,
        total=total,
        intervals=tuple(_xml_intervals(span, profile)),
        window_ns=None if seconds is None else round(seconds * SECOND_NS),
        workers=whole(span.findtext("ThreadCount")),
        state=state,
        errors_text=reasons,
        created=created,
        target=single([path.text or "" for path in profile.findall(".//Target/Path")]) if profile is not None else None,
        notes=() if total.latency.mean_ns is not None else (("diskspd_no_latency", NO_LATENCY),),
    )


def _sum(span: ElementTree.Element, name: str) -> int:
    return sum(whole(found.text) or 0 for found in span.findall(f"./Thread/Target/{name}"))


def _rates(kind: ImportedKind, seconds: float | None) -> ImportedKind:
    """The rates, which the XML leaves to its reader."""
    if not seconds or kind.operations is None or kind.bytes is None:
        return kind
    return kind.replace(iops=kind.operations / seconds, bytes_per_s=kind.bytes / seconds)


def _counted(latency: ImportedLatency, count: int | None) -> ImportedLatency:
    return latency.replace(count=count)


def _xml_latency(span: ElementTree.Element, word: str) -> ImportedLatency:
    stated = span.find("Latency")
    if stated is None:
        return ImportedLatency()
    deviation = "LatencyStdev" if word == "Total" else f"{word}LatencyStdev"
    buckets = {
        f"{percent:g}": value
        for bucket in stated.findall("Bucket")
        if (percent := number(bucket.findtext("Percentile"))) is not None
        and (value := nanoseconds(bucket.findtext(f"{word}Milliseconds"))) is not None
    }
    return ImportedLatency(
        min_ns=buckets.pop("0", None),
        mean_ns=nanoseconds(stated.findtext(f"Average{word}Milliseconds")),
        stddev_ns=nanoseconds(stated.findtext(deviation)),
        max_ns=buckets.pop("100", None),
        percentiles=buckets,
    )


def _xml_intervals(span: ElementTree.Element, profile: ElementTree.Element | None) -> Iterator[ImportedInterval]:
    """The whole intervals of ``-D``."""
    length_ms = number(profile.findtext("IoBucketDuration")) if profile is not None else None
    buckets = span.findall("./Iops/Bucket")
    for bucket in buckets[:-1] if length_ms else ():
        end_ms = number(bucket.get("SampleMillisecond"))
        for kind, word in _KINDS.items():
            count = number(bucket.get(word))
            if count and end_ms is not None and length_ms:
                yield ImportedInterval(
                    start_ns=round((end_ms - length_ms) * MILLISECOND_NS),
                    end_ns=round(end_ms * MILLISECOND_NS),
                    kind=kind,
                    iops=count * 1000 / length_ms,
                    mean_ns=nanoseconds(bucket.get(f"{word}AvgLatencyMilliseconds")),
                    max_ns=nanoseconds(bucket.get(f"{word}MaxLatencyMilliseconds")),
                )


def _xml_load(profile: ElementTree.Element | None, kinds: Mapping[str, ImportedKind]) -> ImportedLoad:
    targets = profile.findall("./Targets/Target") if profile is not None else []
    if profile is None or not targets:
        return ImportedLoad(kind=_kind_of(kinds))
    total_threads = whole(profile.findtext("ThreadCount")) or 0
    outstanding = [whole(target.findtext("RequestCount")) or 1 for target in targets]
    threads = [whole(target.findtext("ThreadsPerFile")) or 1 for target in targets]
    total_requests = whole(profile.findtext("RequestCount")) or 0
    depth = sum(each * (total_threads or count) for each, count in zip(outstanding, threads, strict=True))
    return _load(
        kinds,
        random=[_is_random(target) for target in targets],
        blocks=[size(target.findtext("BlockSize")) for target in targets],
        written=[number(target.findtext("WriteRatio")) or 0.0 for target in targets],
        depth=total_requests * total_threads if total_requests and total_threads else depth,
    )


def _is_random(target: ElementTree.Element) -> bool | None:
    """None for a mix of random and sequential operations."""
    ratio = number(target.findtext("RandomRatio"))
    return None if ratio not in (None, 100) else target.find("Random") is not None or ratio == 100


# ---- text


def is_text(source: SourceFile) -> bool:
    """True of a text with a table of results."""
    return bool(re.search(r"^\W*Total IO\s*$", source.text, re.MULTILINE)) and "thread |" in source.text


def read_text(source: SourceFile) -> list[ImportedMeasurement]:
    """A point for each time span. Raises ``ResultError``."""
    parts = re.split(r"^\W*Results for timespan.*$", source.text, flags=re.MULTILINE)
    if len(parts) == 1:
        parts = ["", *re.split(r"(?=^\W*actual test time)", source.text, flags=re.MULTILINE)[1:]]
    inputs = re.split(r"^\s*timespan:\s+\d+\s*$", parts[0], flags=re.MULTILINE)[1:]
    found = [
        _text_span(source, part, inputs[place] if place < len(inputs) else "", f"time span {place + 1}")
        for place, part in enumerate(parts[1:])
    ]
    points = _named([one for one in found if one is not None and one.total.operations])
    if not points:
        raise source.error("DiskSpd's text has no whole table of results; was it truncated?")
    return points


def _text_span(source: SourceFile, text: str, inputs: str, name: str) -> ImportedMeasurement | None:
    seconds = number(_found(r"actual test time:\s*([\d.]+)s", text))
    tables = {kind: _table(text, title) for kind, title in (("", "Total"), ("read", "Read"), ("write", "Write"))}
    if not tables[""]:
        return None
    charts = _charts(text)
    state, reasons = _end(source)
    stated = {kind: _text_kind(cells, charts.get(kind, {})) for kind, cells in tables.items() if cells}
    kinds = {kind: each for kind, each in stated.items() if kind and each.operations}
    notes = [("diskspd_rounded", ROUNDED)]
    if stated[""].latency.mean_ns is None:
        notes.append(("diskspd_no_latency", NO_LATENCY))
    return ImportedMeasurement(
        tool="DiskSpd",
        source=source.name,
        name=name,
        shape=_text_load(inputs, kinds),
        kinds=kinds,
        total=stated[""],
        window_ns=None if seconds is None else round(seconds * SECOND_NS),
        workers=whole(_found(r"thread count:\s*(\d+)", text)),
        created=_time(_found(r"start time:\s*(\S+ \S+)", source.text)),
        target=single(re.findall(r"^\s*path: '(.*)'", inputs, re.MULTILINE)),
        notes=tuple(notes),
        state=state,
        errors_text=reasons,
    )


def _found(pattern: str, text: str) -> str | None:
    found = re.search(pattern, text)
    return found[1] if found else None


def _table(text: str, title: str) -> dict[str, str]:
    """The cells of the total line of a table, by column; empty without the table."""
    start = re.search(rf"^\W*{title} IO\s*$", text, re.MULTILINE)
    lines = [line.strip(" >\t") for line in text[start.end() :].splitlines()[1:]] if start else []
    columns = [name.strip() for name in lines[0].split("|")] if lines else []
    for line in lines:
        if line.startswith("total:"):
            cells = [cell.strip() for cell in line.removeprefix("total:").split("|")]
            return dict(zip(columns[1:], cells, strict=False))
    return {}


def _text_kind(cells: Mapping[str, str], chart: Mapping[str, float]) -> ImportedKind:
    percentiles = dict(chart)
    operations = whole(cells.get("I/Os"))
    return ImportedKind(
        operations=operations,
        bytes=whole(cells.get("bytes")),
        iops=number(cells.get("I/O per s")),
        # Old versions call MiB MB.
        bytes_per_s=scaled(cells.get("MiB/s", cells.get("MB/s")), MIB),
        latency=ImportedLatency(
            count=operations,
            min_ns=percentiles.pop("min", None),
            mean_ns=nanoseconds(cells.get("AvgLat")),
            stddev_ns=nanoseconds(cells.get("LatStdDev")),
            max_ns=percentiles.pop("max", None),
            percentiles=percentiles,
        ),
    )


def _charts(text: str) -> dict[str, dict[str, float]]:
    """The percentiles of reads, writes and (under an empty name) all, of the last table: that of all targets."""
    start = text.rfind("%-ile")
    charts: dict[str, dict[str, float]] = {"read": {}, "write": {}, "": {}}
    for line in text[start:].splitlines()[1:] if start >= 0 else ():
        first, *cells = [cell.strip(" >\t") for cell in line.split("|")]
        name = _percent(first)
        for kind, cell in zip(charts, cells, strict=False):
            value = nanoseconds(cell)
            if name and value is not None:
                charts[kind][name] = value
    return charts


def _percent(name: str) -> str:
    """``99th`` as ``99``, ``4-nines`` as ``99.99``; empty for other lines."""
    if name in ("min", "max"):
        return name
    nines, nth = _NINES.match(name), _NTH.match(name)
    if nines:
        return "99." + "9" * (int(nines[1]) - 2)
    return nth[1] if nth else ""


def _text_load(inputs: str, kinds: Mapping[str, ImportedKind]) -> ImportedLoad:
    paths = re.split(r"^\s*path:", inputs, flags=re.MULTILINE)[1:]
    if not paths:
        return ImportedLoad(kind=_kind_of(kinds))
    total_threads = whole(_found(r"(?:total )?thread count:\s*(\d+)|total number of threads:\s*(\d+)", inputs))
    outstanding = [whole(_found(r"outstanding I/O operations[^:\n]*:\s*(\d+)", path)) or 1 for path in paths]
    threads = [whole(_found(r"threads per file:\s*(\d+)", path)) or total_threads or 1 for path in paths]
    return _load(
        kinds,
        random=["using random" in path if "using mixed" not in path else None for path in paths],
        blocks=[size(_found(r"block size:\s*(\S+)", path)) for path in paths],
        written=[_written_percent(path) for path in paths],
        depth=sum(each * count for each, count in zip(outstanding, threads, strict=True)),
    )


def _written_percent(path: str) -> float:
    mix = re.search(r"read/write ratio:\s*(\d+)/(\d+)", path)
    return float(mix[2]) if mix else 100.0 if "performing write" in path else 0.0


# ---- both


def _named(spans: Sequence[ImportedMeasurement]) -> list[ImportedMeasurement]:
    """A single time span has the name of its target, as in results of ``iocurve diskspd``."""
    return [replace(spans[0], name=spans[0].target)] if len(spans) == 1 and spans[0].target else list(spans)


def _load(
    kinds: Mapping[str, ImportedKind],
    *,
    random: Sequence[bool | None],
    blocks: Sequence[int | None],
    written: Sequence[float],
    depth: int,
) -> ImportedLoad:
    is_random, block_bytes, percent, kind = single(random), single(blocks), single(written), _kind_of(kinds)
    return ImportedLoad(
        kind=kind,
        order=None if is_random is None else "random" if is_random else "sequential",
        block_bytes=block_bytes,
        read_percent=100 - percent if kind == "mixed" and percent is not None else None,
        depth=depth,
    )


def _kind_of(kinds: Mapping[str, ImportedKind]) -> str | None:
    return next(iter(kinds)) if len(kinds) == 1 else "mixed" if kinds else None


def _time(text: str | None) -> datetime | None:
    """``2021/04/16 19:03:38 UTC``."""
    return time_of((text or "").removesuffix(" UTC").strip(), "%Y/%m/%d %H:%M:%S")


def _end(
    source: SourceFile, error: str | None = None
) -> tuple[Literal["finished", "interrupted", "failed"], tuple[str, ...]]:
    """The state of the run, and the reason where it ended early: iocurve's last line has it then."""
    if error:
        return "failed", (error,)
    found = re.search(r"^(?:<!-- )?incomplete: (.*?)(?: -->)?\s*\Z", source.text, re.MULTILINE)
    return ("interrupted", (found[1],)) if found else ("finished", ())

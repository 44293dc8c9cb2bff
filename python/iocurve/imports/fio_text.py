"""fio's outputs ``normal`` and ``terse`` as documents in the form of its JSON.

Text rounds what JSON states exactly: rates are computed from operations and time where it has both.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from iocurve.foundation.units import KIB
from iocurve.imports.parsing import SourceFile, number, size, time_of, whole
from iocurve.result.document_file import Json

KINDS = ("read", "write", "trim")
"""Kinds in the order in which fio numbers them."""
UNSTATED = "not stated"
_PREFIX = re.compile(r"^[\s>]*(?:<[^>]*>\s*)?")
"""Marks of a quotation, and the name of fio's client."""
_HEADER = re.compile(r"(.+): \(g=(\d+)\): rw=(\S+), bs=(.+?), ioengine=(\S+), iodepth=(\d+)")
_JOB = re.compile(r"(.+): \(groupid=(\d+), jobs=(\d+)\): err=\s*(\d+)[^:]*(?::.*)?: pid=(\d+): (.+)")
_KIND = re.compile(r"(read|write|trim|mixed)\s*: (?:IOPS=|io=)(.+)")
_RUN = re.compile(r"\(([\d.]+[KMGTP]?i?B)/(\d+)msec\)|([\d.]+[KMGTP]?B), .*runt=\s*(\d+)msec")
_LATENCY = re.compile(r"(slat|clat|lat) \((nsec|usec|msec)\): (min=.+)")
_PERCENTILES = re.compile(r"(clat|lat) percentiles \((nsec|usec|msec)\):")
_PERCENTILE = re.compile(r"([\d.]+)th=\[\s*>?=?\s*(\d+)\]")
_ISSUED = re.compile(r"issued (?:rwts?)?\s*: total=(?:r=)?(\d+)[,/](?:w=)?(\d+)[,/](?:d=)?(\d+)")
_ERRORS = re.compile(r"errors\s*: total=(\d+)")
_BLOCKS = re.compile(r"([\d.]+[KMG]?)B?-([\d.]+[KMG]?)B?(?=[/,]|$|, )")
_UNITS = {"nsec": 1, "usec": 1_000, "msec": 1_000_000}
_FACTORS = {"k": 1_000, "m": 1_000_000, "g": 1_000_000_000}
_STATISTICS = {"min": "min", "max": "max", "avg": "mean", "stdev": "stddev"}


def is_normal(source: SourceFile) -> bool:
    """True of a text with the result of a job."""
    return any(_JOB.match(line) for line in _lines(source))


def _lines(source: SourceFile) -> Iterator[str]:
    return (_PREFIX.sub("", line).rstrip() for line in source.text.splitlines())


def normal(source: SourceFile) -> list[Json]:
    """The documents of a text: one for each run of fio. Raises ``ResultError``."""
    documents = [{"jobs": list(jobs.values()), **facts} for facts, jobs in _runs(source)]
    if not documents:
        raise source.error("fio's text has no job with a result; was it truncated?")
    return documents


def _runs(source: SourceFile) -> Iterator[tuple[Json, dict[tuple[str, ...], Json]]]:
    """The facts and the jobs of each run; of those that ``--status-interval`` prints several times the last counts."""
    facts: Json = {}
    options: dict[str, Json] = {}
    jobs: dict[tuple[str, ...], Json] = {}
    of_job: list[str] = []
    job: Json = {}
    for line in [*_lines(source), "Run status group"]:
        header, started = _HEADER.match(line), _JOB.match(line)
        if of_job and (header or started or line.startswith(("Run status group", "fio-"))):
            _read_job(job, of_job)
            of_job = []
        if header:
            if jobs:
                yield facts, jobs
                facts, options, jobs = {}, {}, {}
            options[header[1]] = _options(header)
        elif line.startswith("fio-"):
            facts["fio version"] = line.strip()
        elif started:
            job = _job(started, options)
            jobs[started[1], started[2], started[5]] = job
            moment = time_of(" ".join(started[6].split()), "%a %b %d %H:%M:%S %Y")
            facts |= {"timestamp": int(moment.timestamp())} if moment else {}
            of_job = [line]
        elif of_job:
            of_job.append(line)
    if jobs:
        yield facts, jobs


def _options(header: re.Match[str]) -> Json:
    """The options of a job that its first line states."""
    pairs = _BLOCKS.findall(re.sub(r"\([RWT]\) ", "", header[4]))
    blocks = {"bs": ",".join(low for low, _ in pairs)}
    if not pairs or any(low != high for low, high in pairs):
        blocks = {"bsrange": header[4]}
    return {"rw": header[3], "ioengine": header[5], "iodepth": header[6], "rwmixread": UNSTATED, **blocks}


def _job(started: re.Match[str], options: Mapping[str, Json]) -> Json:
    stated = options.get(started[1])
    return {
        "jobname": started[1],
        "groupid": int(started[2]),
        "error": int(started[4]),
        **({"job options": stated | {"numjobs": started[3]}} if stated else {}),
    }


def _read_job(job: Json, lines: Sequence[str]) -> None:
    """Adds the values of the lines below the first of a job."""
    part: Json = {}
    percentiles: Json = {}
    scale = 1
    for line in lines:
        if found := _KIND.match(line):
            part = job.setdefault(found[1], _throughput(found[2]))
        elif found := _LATENCY.match(line):
            stated = part.setdefault(f"{found[1]}_ns", {})
            stated.update(_statistics(found[3], _UNITS[found[2]]))
        elif found := _PERCENTILES.match(line):
            scale = _UNITS[found[2]]
            percentiles = part.setdefault(f"{found[1]}_ns", {}).setdefault("percentile", {})
        elif line.startswith("|"):
            percentiles.update({percent: int(value) * scale for percent, value in _PERCENTILE.findall(line)})
        elif found := _ISSUED.match(line):
            _count(job, [int(each) for each in found.groups()])
        elif found := _ERRORS.match(line):
            job["total_err"] = int(found[1])
        elif line.startswith(("cpu", "fsync/", "lat (")):
            part = {}


def _throughput(text: str) -> Json:
    """Bytes and time of ``…, BW=2399KiB/s (…)(23.4MiB/10003msec)``, before version 3 of ``io=1MB, …, runt=9msec``."""
    found = _RUN.search(text)
    moved, runtime = (found[1] or found[3], found[2] or found[4]) if found else ("", "0")
    return {"io_bytes": size(moved), "io_kbytes": 0, "runtime": int(runtime)}


def _statistics(text: str, unit_ns: int) -> Json:
    found = {}
    for each in text.split(","):
        name, _, value = each.strip().partition("=")
        factor = _FACTORS.get(value.strip()[-1:].lower(), 1)
        stated = number(value.strip().rstrip("kKmMgG"))
        if name in _STATISTICS and stated is not None:
            found[_STATISTICS[name]] = stated * factor * unit_ns
    return found


def _count(job: Json, counts: Sequence[int]) -> None:
    """Operations by kind, and from them the bytes of blocks of one size and the rates."""
    if mixed := job.get("mixed"):
        counts = (sum(counts), 0, 0)
    for kind, count in zip(("mixed",) if mixed else KINDS, counts, strict=False):
        part = job.get(kind)
        if not part or not count:
            continue
        part["total_ios"] = count
        exact = _block_bytes(job, kind)
        if exact and abs(exact * count - (part["io_bytes"] or 0)) <= 0.01 * exact * count:
            part["io_bytes"] = exact * count
        if part["runtime"] and part["io_bytes"]:
            part["bw_bytes"] = part["io_bytes"] * 1000 / part["runtime"]


def _block_bytes(job: Json, kind: str) -> int | None:
    blocks = str(job.get("job options", {}).get("bs", "")).split(",")
    if kind == "mixed":
        return size(blocks[0]) if len(set(blocks[:2])) == 1 else None
    return size(blocks[min(KINDS.index(kind), len(blocks) - 1)])


# ---- terse

_LATENCY_NAMES = ("min", "max", "mean", "stddev")
_PERCENTILE_FIELDS = 20
_BEFORE_KINDS = {2: 4, 3: 5, 4: 5, 5: 5}
"""Fields before those of reads: version, fio's version except in 2, name, group, error."""
_KIND_FIELDS = {2: 41, 3: 41, 4: 41, 5: 47}


def is_terse(source: SourceFile) -> bool:
    """True of a text with a line of terse output."""
    return any(_terse_fields(line) for line in _lines(source))


def _terse_fields(line: str) -> list[str]:
    """The fields of a line of terse output; empty for another line."""
    fields = line.split(";")
    version = whole(fields[0]) if len(fields[0]) == 1 else None
    if version not in _BEFORE_KINDS or len(fields) < _BEFORE_KINDS[version] + 2 * _KIND_FIELDS[version]:
        return []
    return fields if version == 2 or fields[1].startswith("fio-") else []


def terse(source: SourceFile) -> list[Json]:
    """The documents of a text: lines of one version of fio follow each other as jobs of one run."""
    jobs: list[Json] = []
    version = ""
    for fields in filter(None, map(_terse_fields, _lines(source))):
        first = _BEFORE_KINDS[int(fields[0])]
        version = fields[1] if first == 5 else version
        name, group, error = fields[first - 3 : first]
        job: Json = {"jobname": name, "groupid": whole(group) or 0, "error": whole(error) or 0}
        width = _KIND_FIELDS[int(fields[0])]
        for place, kind in enumerate(KINDS[: 2 if fields[0] == "3" else 3]):
            start = first + place * width
            job[kind] = _terse_kind(fields[start : start + width])
        jobs.append(job)
    return [{"jobs": jobs, **({"fio version": version} if version else {})}]


def _terse_kind(fields: Sequence[str]) -> Json:
    """Bytes in KiB, rates and times in ms; latencies in microseconds, as fio's JSON has them before version 3."""
    moved, bandwidth, iops, runtime = map(number, fields[:4])
    percentiles = (each.partition("%=") for each in fields[12 : 12 + _PERCENTILE_FIELDS])
    return {
        "io_bytes": round((moved or 0) * KIB),
        "io_kbytes": moved,
        "bw": bandwidth,
        "iops": iops,
        "runtime": runtime,
        "slat": _terse_latency(fields[4:8]),
        "clat": _terse_latency(fields[8:12])
        | {"percentile": {percent: number(value) for percent, _, value in percentiles if percent != "0"}},
        "lat": _terse_latency(fields[12 + _PERCENTILE_FIELDS :][:4]),
    }


def _terse_latency(fields: Sequence[str]) -> Json:
    return dict(zip(_LATENCY_NAMES, map(number, fields), strict=True))

"""fio's outputs of versions 2 and 3: JSON and JSON+ (``--output-format=json``, ``json+``) and text, with their logs.

Jobs that run at the same time (fio's ``groupid``) are one point. Of the documents that ``--status-interval`` prints
for one run, the last counts.

The load of jobs comes from the options that fio's JSON keeps as they were given.
"""

from __future__ import annotations

import math
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import chain
from pathlib import PurePosixPath

from iocurve.foundation.units import KIB, MICROSECOND_NS, MILLISECOND_NS, format_duration
from iocurve.imports import fio_text
from iocurve.imports.parsing import SourceFile, documents, number, part_of, scaled, single, size, whole
from iocurve.imports.points import ImportedLoad, ImportedMeasurement
from iocurve.result.document_file import Json
from iocurve.result.imported import (
    ImportedInterval,
    ImportedJob,
    ImportedKind,
    ImportedLatency,
    histogram_of,
    together,
    total_of,
)

KINDS = ("read", "write", "trim")
MIXED = "mixed"
"""All kinds together, in place of them (``unified_rw_reporting=1``)."""
ALL_CLIENTS = "All clients"
SKEW = 0.01
"""Jobs whose times differ by more than this fraction did not run at the same time."""

NAMED_MAX = 3
CLAT = (
    "Percentiles are those of fio's clat, which leaves out the time to submit (slat): fio states percentiles of the "
    "whole latency only with lat_percentiles=1. Minimum, mean and maximum are of the whole latency."
)
SLAT_MAX = 0.1
"""Percentiles that leave out more than this fraction of the latency are doubtful."""
BINS = "Histograms come from the bins of fio's JSON+, each at most 1.6 % wide."
APART = (
    "fio states percentiles of each kind and job apart. Those of several together need the bins of JSON+, and are "
    "unknown here."
)
NONE = "fio wrote no percentiles."
TEXT = "fio's text rounds latencies, and bytes where blocks vary in size; its JSON is exact."
NO_OPTIONS = "fio wrote no job options (versions before 2.16, or a client): block size and depth are not known."


def is_fio(source: SourceFile) -> bool:
    """True of a text with a document of fio, whole or truncated."""
    text = source.text
    return '"jobname"' in text and ('"jobs"' in text or '"client_stats"' in text)


def read(source: SourceFile) -> list[ImportedMeasurement]:
    """The points of a file with JSON. Raises ``ResultError``."""
    objects, error = documents(source.text)
    found = [document for each in objects for document in _documents_in(each)]
    if not found:
        raise source.error(
            f"fio's JSON is damaged or truncated ({error}), and no whole document comes before"
            if error
            else "fio's JSON has no jobs"
        )
    notes = [("truncated", f"{source.name} ends in a truncated document, which is left out")] if error else []
    return _all_points(source, found, notes)


def read_normal(source: SourceFile) -> list[ImportedMeasurement]:
    """The points of a file with fio's output for people. Raises ``ResultError``."""
    return _all_points(source, fio_text.normal(source), [("fio_text", TEXT)])


def read_terse(source: SourceFile) -> list[ImportedMeasurement]:
    """The points of a file with terse output. Raises ``ResultError``."""
    return _all_points(source, fio_text.terse(source), [("fio_text", TEXT)])


def _all_points(
    source: SourceFile, found: Sequence[Json], notes: Sequence[tuple[str, str]]
) -> list[ImportedMeasurement]:
    points = [point for run in _runs(found) for point in _points(source, run, notes)]
    if not points:
        raise source.error("no job of fio completed an operation")
    return points


def _documents_in(document: Json) -> list[Json]:
    """Documents of fio, also inside those of scripts that keep several."""
    if _jobs_of(document) is not None:
        return [document]
    found = []
    for value in document.values():
        parts = value if isinstance(value, list) else [value]
        for part in parts:
            found += _documents_in(part) if isinstance(part, dict) else []
    return found


def _jobs_of(document: Json) -> list[Json] | None:
    """The entries of jobs; None in other documents."""
    jobs = document.get("jobs") or document.get("client_stats")
    if not isinstance(jobs, list):
        return None
    is_of_fio = any(isinstance(job, dict) and "jobname" in job for job in jobs)
    return [job for job in jobs if isinstance(job, dict)] if is_of_fio else None


# ---- several documents


def _runs(found: Sequence[Json]) -> list[list[Json]]:
    """The documents of each run: the last has its end, those before it are of ``--status-interval``."""
    runs: list[list[Json]] = []
    for document in found:
        if runs and _is_later(document, runs[-1][-1]):
            runs[-1].append(document)
        else:
            runs.append([document])
    return runs


def _is_later(document: Json, before: Json) -> bool:
    """True if one run printed both: its jobs ran on in between for as long as the clock did."""
    names = [[(job.get("jobname"), job.get("groupid")) for job in _jobs(one)] for one in (document, before)]
    later, earlier = _progress(document), _progress(before)
    if names[0] != names[1] or any(new < old for new, old in zip(later, earlier, strict=True)):
        return False
    times_ms = [_time_ms(one) for one in (document, before)]
    ran_ms = later[0] - earlier[0]
    if times_ms[0] is None or times_ms[1] is None:
        return ran_ms > 0
    resolution_ms = 0 if "timestamp_ms" in document else 1000
    return ran_ms > (times_ms[0] - times_ms[1] - resolution_ms) / 2


def _progress(document: Json) -> tuple[float, float]:
    """The time for which jobs ran, groups one after another, and their operations."""
    groups: dict[str, float] = {}
    for job in _jobs(document):
        group = str(job.get("groupid"))
        groups[group] = max(groups.get(group, 0.0), _runtime_ms(job))
    operations = [whole(part_of(job, kind).get("total_ios")) or 0 for job in _jobs(document) for kind in KINDS]
    return sum(groups.values()), float(sum(operations))


def _time_ms(document: Json) -> float | None:
    found = number(document.get("timestamp_ms"))
    return found if found is not None else scaled(document.get("timestamp"), 1000)


def _jobs(document: Json) -> list[Json]:
    return _jobs_of(document) or []


# ---- points


def _points(source: SourceFile, run: Sequence[Json], notes: Sequence[tuple[str, str]]) -> list[ImportedMeasurement]:
    document = run[-1]
    jobs = _jobs(document)
    several = [job for job in jobs if job.get("jobname") != ALL_CLIENTS]
    groups: dict[object, list[Json]] = {}
    for job in several or jobs:
        groups.setdefault(job.get("groupid", 0), []).append(job)
    if len(run) > 1:
        notes = [*notes, ("snapshots", f"{source.name}: the last of {len(run)} documents of the run counts")]
    whole_client = [job for job in jobs if job.get("jobname") == ALL_CLIENTS] if len(groups) == 1 and several else []
    found = [_point(source, document, members, whole_client, notes) for members in groups.values()]
    return [point for point in found if point.kinds]


def _point(
    source: SourceFile, document: Json, jobs: Sequence[Json], clients: Sequence[Json], notes: Sequence[tuple[str, str]]
) -> ImportedMeasurement:
    options = [_options(document, job) for job in jobs]
    of_jobs = [_kinds(job) for job in jobs]
    kinds = _kinds(clients[0]) if clients else _merged(of_jobs)
    total = total_of(kinds)
    names = [str(job.get("jobname", "")) for job in jobs]
    distinct = list(dict.fromkeys(names))
    errors = [f"{name}: error {job['error']}" for name, job in zip(names, jobs, strict=True) if job.get("error")]
    reports = [ImportedJob(name=name, kinds=each) for name, each in zip(names, of_jobs, strict=True)]
    return ImportedMeasurement(
        tool=_tool(document),
        source=source.name,
        name=", ".join(distinct[:NAMED_MAX]) + (f" and {len(distinct) - NAMED_MAX} more" * (len(distinct) > NAMED_MAX)),
        shape=load_of(options, names, kinds),
        kinds=kinds,
        total=total,
        jobs=tuple(reports) if len(reports) > 1 else (),
        command=_command(options, names),
        intervals=_intervals(source, _numbers(document, jobs), options, _unit_ns(jobs)),
        window_ns=round(max(map(_runtime_ms, jobs)) * MILLISECOND_NS),
        workers=workers_of(options, names),
        cpu_ns_per_operation=_cpu_ns(jobs, total.operations),
        state="failed" if errors else "finished",
        errors_text=tuple(errors),
        created=_created(document),
        target=_target(options),
        notes=(*notes, *_notes(source, jobs, kinds, total)),
    )


def _merged(of_jobs: Sequence[Mapping[str, ImportedKind]]) -> dict[str, ImportedKind]:
    names = dict.fromkeys(name for kinds in of_jobs for name in kinds)
    return {name: together([kinds[name] for kinds in of_jobs if name in kinds]) for name in names}


def _options(document: Json, job: Json) -> dict[str, str] | None:
    """The options of a job as they were given; None where fio did not write them."""
    own = job.get("job options")
    if not isinstance(own, dict):
        return None
    shared = document.get("global options")
    merged = (shared if isinstance(shared, dict) else {}) | own
    return {str(name): str(value) for name, value in merged.items()}


def _command(options: Sequence[Options | None], names: Sequence[str]) -> str | None:
    """A command line with the jobs of a report; copies of a job stand once."""
    words = {}
    for one, name in zip(options, names, strict=True):
        if one is None:
            return None
        given = {"name": name} | {option: value for option, value in one.items() if option != "name"}
        words[name] = [f"--{option}={value}" if value else f"--{option}" for option, value in given.items()]
    return shlex.join(["fio", *chain.from_iterable(words.values())])


def _numbers(document: Json, jobs: Sequence[Json]) -> list[list[int]]:
    """The numbers in the names of the logs of each job: fio counts jobs from 1, each of ``numjobs`` by itself."""
    every = [job for job in _jobs(document) if job.get("jobname") != ALL_CLIENTS]
    copies = copies_of([_options(document, job) for job in every], [str(job.get("jobname", "")) for job in every])
    starts = [1 + sum(copies[:place]) for place in range(len(every))]
    return [
        list(range(start, start + count))
        for job, start, count in zip(every, starts, copies, strict=True)
        if any(job is one for one in jobs)
    ]


# ---- figures


def _runtime_ms(job: Json) -> float:
    return max(number(part_of(job, kind).get("runtime")) or 0.0 for kind in (*KINDS, MIXED))


def _kinds(job: Json) -> dict[str, ImportedKind]:
    """The kinds that a job completed."""
    found = {kind: _kind(part_of(job, kind), job) for kind in KINDS if _ran(part_of(job, kind))}
    if not found and _ran(part_of(job, MIXED)):
        found[MIXED] = _kind(part_of(job, MIXED), job)
    syncs = whole(part_of(job, "sync").get("total_ios"))
    if syncs:
        options = job.get("job options")
        name = "fdatasync" if isinstance(options, dict) and "fdatasync" in options else "fsync"
        found[name] = ImportedKind(operations=syncs, latency=_latency(part_of(job, "sync"), syncs))
    return found


def _ran(part: Json) -> bool:
    """True if a kind completed an operation; fio 2.1 does not count them."""
    return any(number(part.get(name)) for name in ("total_ios", "io_bytes", "iops"))


def _kind(part: Json, job: Json) -> ImportedKind:
    operations = whole(part.get("total_ios"))
    moved = whole(part.get("io_bytes"))
    if moved is not None and "io_kbytes" not in part:
        # Before version 3 io_bytes was in KiB.
        moved *= KIB
    rate = number(part.get("bw_bytes"))
    errors = whole(job.get("total_err"))
    if errors is None and job.get("error") == 0:
        # Without continue_on_error a job ends at its first error, which it would state.
        errors = 0
    return ImportedKind(
        operations=operations,
        bytes=moved,
        errors=errors,
        iops=_iops(part, operations),
        bytes_per_s=scaled(part.get("bw"), KIB) if rate is None else rate,
        latency=_latency(part, operations),
    )


def _iops(part: Json, operations: int | None) -> float | None:
    stated, runtime_ms = number(part.get("iops")), number(part.get("runtime"))
    return operations * 1000 / runtime_ms if stated is None and runtime_ms and operations else stated


def _latency(part: Json, operations: int | None) -> ImportedLatency:
    """The whole latency; its percentiles are those of the completion latency where fio states no others."""
    name = _latency_name(part)
    stated = part.get(name, {})
    unit_ns = 1 if name.endswith("_ns") else MICROSECOND_NS
    percentiles = {
        percent: value
        for percent, value in ((_percent(key), scaled(value, unit_ns)) for key, value in _dict(stated, "percentile"))
        if percent and value is not None
    }
    # The whole latency has no percentiles unless lat_percentiles=1 is set, but always these.
    whole_latency = part.get("lat_ns" if unit_ns == 1 else "lat")
    moments = whole_latency if isinstance(whole_latency, dict) and number(whole_latency.get("max")) else stated
    return ImportedLatency(
        count=whole(stated.get("N")) or operations,
        min_ns=scaled(moments.get("min"), unit_ns),
        mean_ns=scaled(moments.get("mean"), unit_ns),
        stddev_ns=scaled(moments.get("stddev"), unit_ns),
        max_ns=scaled(moments.get("max"), unit_ns),
        percentiles=percentiles,
        histogram=histogram_of(_bins(dict(_dict(stated, "bins")), unit_ns)),
    )


def _latency_name(part: Json) -> str:
    names = [name for name in ("lat_ns", "clat_ns", "lat", "clat") if isinstance(part.get(name), dict)]
    with_percentiles = [name for name in names if any(key != "0.00" for key, _ in _dict(part[name], "percentile"))]
    return next(iter([*with_percentiles, *names]), "lat_ns")


def _dict(stated: Json, name: str) -> list[tuple[str, object]]:
    found = stated.get(name)
    return list(found.items()) if isinstance(found, dict) else []


def _percent(key: str) -> str:
    """``99.900000`` as ``99.9``; empty for the unused entries of old versions."""
    found = number(key)
    return f"{found:g}" if found else ""


def _unit_ns(jobs: Sequence[Json]) -> int:
    """The unit of latencies: microseconds before version 3."""
    parts = [part_of(job, kind) for job in jobs for kind in (*KINDS, MIXED)]
    names = {name for name in map(_latency_name, parts) if name.endswith("_ns")}
    return 1 if any(name in part for part in parts for name in names) else MICROSECOND_NS


def _bins(bins: Json, unit_ns: int) -> dict[int, int]:
    """Operations by latency in ns. Old versions number the bins, later ones give the middle of each."""
    bits = whole(bins.get("FIO_IO_U_PLAT_BITS"))
    counts: dict[int, int] = {}
    for key, value in bins.items():
        count, place = whole(value), number(key)
        if count and place is not None:
            latency = place if bits is None else _middle(int(place), bits)
            counts[round(latency * unit_ns)] = count
    return counts


def _middle(index: int, bits: int) -> float:
    """The middle of a numbered bin (``plat_idx_to_val`` in fio's stat.c)."""
    if index < 2 << bits:
        return index
    step = 1 << ((index >> bits) - 1)
    return (step << bits) + ((index % (1 << bits)) + 0.5) * step


def _cpu_ns(jobs: Sequence[Json], operations: int | None) -> float | None:
    """CPU time per operation; ``job_runtime`` adds up the jobs that one entry reports."""
    used = []
    for job in jobs:
        shares = [number(job.get("usr_cpu")), number(job.get("sys_cpu"))]
        ran_ms = number(job.get("job_runtime"))
        if ran_ms is None or shares[0] is None or shares[1] is None:
            return None
        used.append((shares[0] + shares[1]) / 100 * ran_ms * MILLISECOND_NS)
    return sum(used) / operations if operations else None


# ---- facts


def _tool(document: Json) -> str:
    version = str(document.get("fio version", "")).removeprefix("fio-")
    return f"fio {version}" if version else "fio, version not stated"


def _created(document: Json) -> datetime | None:
    time_ms = _time_ms(document)
    try:
        return datetime.fromtimestamp(time_ms // 1000, UTC) if time_ms else None
    except (ValueError, OverflowError, OSError):
        return None


def _target(options: Sequence[dict[str, str] | None]) -> str | None:
    """The file or directory of the jobs, if they share one."""
    return single(one.get("filename") or one.get("directory") for one in options if one is not None)


def _submission_share(jobs: Sequence[Json], kinds: Mapping[str, ImportedKind]) -> float:
    """The largest share of the mean latency that submission took, of all kinds of all jobs."""
    shares = [0.0]
    for part in (part_of(job, kind) for job in jobs for kind in (*KINDS, MIXED) if kind in kinds):
        for whole_name, name in (("lat_ns", "clat_ns"), ("lat", "clat")):
            whole_mean, mean = (number(dict(_dict(part, each)).get("mean")) for each in (whole_name, name))
            if whole_mean and mean is not None:
                shares.append(1 - mean / whole_mean)
    return max(shares)


def _notes(
    source: SourceFile, jobs: Sequence[Json], kinds: Mapping[str, ImportedKind], total: ImportedKind
) -> Iterable[tuple[str, str]]:
    names = {
        _latency_name(part_of(job, kind))
        for job in jobs
        for kind in (*KINDS, MIXED)
        if kind in kinds and part_of(job, kind)
    }
    if any(name.startswith("clat") for name in names):
        yield "fio_clat", CLAT
        left_out = _submission_share(jobs, kinds)
        if left_out > SLAT_MAX:
            share = f"{100 * left_out:.0f} %"
            yield "fio_slat", f"{source.path.name}: submission took {share} of the latency, which percentiles leave out"
    if any(kind.latency.histogram for kind in kinds.values()):
        yield "fio_bins", BINS
    elif not total.latency.percentiles:
        is_stated = any(_latency(part_of(job, kind), None).percentiles for job in jobs for kind in kinds)
        yield ("fio_percentiles_apart", APART) if is_stated else ("fio_no_percentiles", NONE)
    if not any(isinstance(job.get("job options"), dict) for job in jobs):
        yield "fio_no_options", NO_OPTIONS
    ran_ms = sorted(map(_runtime_ms, jobs))
    if ran_ms[-1] - ran_ms[0] > SKEW * ran_ms[-1]:
        told = " to ".join(format_duration(round(each * MILLISECOND_NS)) for each in (ran_ms[0], ran_ms[-1]))
        yield "fio_skew", f"{source.name}: jobs that are one point ran for {told}; their rates are added up"


Options = Mapping[str, str]
SYNCHRONOUS = ("sync", "psync", "vsync", "pvsync", "pvsync2", "mmap", "splice", "ftruncate")
"""Engines with one operation in flight, whatever iodepth says."""
DEFAULT_BLOCK_BYTES = 4 * KIB


def load_of(options: Sequence[Options | None], names: Sequence[str], kinds: Mapping[str, ImportedKind]) -> ImportedLoad:
    """The load of jobs that ran together; what differs between them, or is not known, is None."""
    moved = [kind for kind in ("read", "write") if kind in kinds]
    kind = moved[0] if len(moved) == 1 else MIXED if moved or MIXED in kinds else None
    known = [one for one in options if one is not None]
    if len(known) < len(options):
        return ImportedLoad(kind=kind)
    blocks = {_block_bytes(one, name) for one in known for name in _kinds_of(_pattern(one))}
    depths = [_depth(one) for one in known]
    counts = copies_of(known, names)
    return ImportedLoad(
        kind=kind,
        order=single(map(_order, known)),
        block_bytes=single(blocks),
        read_percent=single(map(_read_percent, known)) if kind == "mixed" else None,
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
    return read if "rwmixread" in options else 50.0 if written is None else 100 - written


def _depth(options: Options) -> int | None:
    """The depth of one job; None where the default engine, another on each system, decides."""
    depth = whole(options.get("iodepth")) or 1
    if depth == 1 or options.get("ioengine") in SYNCHRONOUS:
        return 1
    return depth if "ioengine" in options else None


# ---- logs next to the JSON

LOGGED_KINDS = {0: "read", 1: "write", 2: "trim"}
LOGS = {"iops": "write_iops_log", "bw": "write_bw_log", "lat": "write_lat_log"}


def _intervals(
    source: SourceFile, numbers: Sequence[Sequence[int]], options: Sequence[Options | None], unit_ns: int
) -> tuple[ImportedInterval, ...]:
    """The series of the jobs of one point, from the logs that are in the same directory; empty without any.

    ``numbers`` are those in the names of the logs of each job; latencies are in ``unit_ns``. An interval in which not
    all jobs have an entry is left out.
    """
    cells: dict[tuple[int, str], dict[str, list[float]]] = {}
    window_ms = _window_ms(options)
    if window_ms is None:
        return ()
    for job, of_job in zip(options, numbers, strict=True):
        for which, option in LOGS.items():
            prefix = PurePosixPath((job or {}).get(option, "")).name
            for number_in_name in of_job if prefix else ():
                entries = _entries(source, prefix, which, number_in_name)
                for place, value in _windows(entries, window_ms, which):
                    cell = cells.setdefault(place, {name: [] for name in LOGS})
                    cell[which].append(value * (unit_ns if which == "lat" else 1))
    jobs = {place: len(cell["iops"]) + len(cell["bw"]) for place, cell in cells.items()}
    most = {kind: max(count for (_, each), count in jobs.items() if each == kind) for _, kind in cells}
    return tuple(
        ImportedInterval(
            start_ns=round((index - 1) * window_ms * MILLISECOND_NS),
            end_ns=round(index * window_ms * MILLISECOND_NS),
            kind=kind,
            iops=sum(cell["iops"]) if cell["iops"] else None,
            bytes_per_s=sum(cell["bw"]) * KIB if cell["bw"] else None,
            mean_ns=math.fsum(cell["lat"]) / len(cell["lat"]) if cell["lat"] else None,
        )
        for (index, kind), cell in sorted(cells.items())
        if jobs[index, kind] == most[kind]
    )


def _window_ms(options: Sequence[Options | None]) -> float | None:
    """The window that all jobs log means of; None where they log each operation, or differ."""
    windows = {number((job or {}).get("log_avg_msec")) for job in options}
    return windows.pop() or None if len(windows) == 1 else None


def _entries(source: SourceFile, prefix: str, which: str, place: int) -> Iterator[tuple[float, float, str]]:
    """Time in ms, value and kind of each line that is whole."""
    log = source.sibling(f"{prefix}_{which}.{place}.log") or source.sibling(f"{prefix}_{which}.log")
    for line in log.text.splitlines() if log else ():
        columns = line.split(",")
        if len(columns) >= 4:
            time_ms, value, kind = number(columns[0]), number(columns[1]), whole(columns[2])
            if time_ms is not None and value is not None and kind in LOGGED_KINDS:
                yield time_ms, value, LOGGED_KINDS[kind]


def _windows(
    entries: Iterable[tuple[float, float, str]], window_ms: float, which: str
) -> Iterator[tuple[tuple[int, str], float]]:
    """Number, kind and value of each window of a log. fio logs no rate where nothing completed: it is 0 there."""
    ends: dict[str, int] = {}
    for time_ms, value, kind in entries:
        index = max(1, round(time_ms / window_ms))
        if which != "lat":
            yield from (((missing, kind), 0.0) for missing in range(ends.get(kind, index) + 1, index))
        ends[kind] = index
        yield (index, kind), value

"""The report in words: headline figures, what limited them, what to do next, and what the figures stand on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from iocurve.analysis import cautions, disk_limits
from iocurve.analysis import connections as advice_of
from iocurve.analysis.families import Family, Measured, families
from iocurve.analysis.limit_kinds import next_steps as steps_past
from iocurve.analysis.limits import knee, volume_description
from iocurve.engine.plan import NfsEngine, OperationPlan, Worker
from iocurve.job.describe import block_text
from iocurve.result.document import Finding, Result, TargetFacts
from iocurve.result.summary import Summary
from iocurve.units import MIB, SECOND_NS, format_bytes, format_count, format_duration, format_latency

CONCURRENCY_TOLERANCE = 0.1
"""Achieved concurrency further than this from the requested depth is pointed out."""
HEADLINES_MAX = 5
SEARCH_HEADLINES = 3
"""The answer, and what there was at it."""
SKEW_TOLERANCE = 0.01
"""A larger share of the window in which not all workers ran is pointed out."""
SAME = 0.02
"""Rates that differ by less are called the same."""
SEEDS_LISTED_MAX = 8

LABELS = {
    "emulated_disk": "the disk is emulated: this machine's page cache plays it, and its limits are the published ones",
    "disk_state_not_kept": "the state of the emulated disk could not be written: the next run finds the one before",
    "payload_discarded": "READ payload was discarded in the kernel, neither copied nor looked at",
    "write_verifier_changed": "the server restarted and may have lost unstable writes (its write verifier changed)",
    "file_has_holes": "parts of the files were never written: reading them takes no I/O, so reads look too fast",
    "aio_buffered_is_synchronous": "without O_DIRECT native AIO waits for each operation: the depth had no effect",
    "aio_waits_for_trims_and_flushes": "native AIO has no trim and no flush of a range: the worker waited for each",
    "uring_waits_for_trims": "io_uring has no trim of devices: the worker waited for each",
    "mmap_direct_is_msync": "there is no direct I/O through a mapping: each write was followed by msync instead",
    "trim_punches_holes": "trims of files punched holes: the file system did the work, and reads there find zeros",
    "verify_nothing_to_compare": "the null engine moves no data: verification compared nothing",
    "verify_not_all_read_back": "the end came before all that was written was read back and compared",
    "uring_kernel_threads": "kernel threads carried out the I/O: their CPU time is not in the figures",
    "uring_files_not_registered": "io_uring ran without registered files, which costs CPU time",
    "uring_buffers_not_registered": "io_uring ran without registered buffers, which costs CPU time",
}
"""What the engine's labels mean; a label that is not here is shown as it is."""


@dataclass(frozen=True)
class Headline:
    """One figure to remember."""

    value: str
    unit: str
    what: str


def incomplete_reason(result: Result) -> str:
    """Why points are missing or cut short, as a sentence; empty where the run is complete."""
    reason = result.incomplete_reason or ("" if result.state == "finished" else "no reason is recorded")
    return f"{reason[0].upper()}{reason[1:].removesuffix('.')}." if reason else ""


def headlines(result: Result) -> list[Headline]:
    """The few figures that a reader came for."""
    if result.search:
        return [_found_headline(finding) for finding in result.search.findings[:SEARCH_HEADLINES]]
    return [headline for family in families(result) for headline in _headlines(family)]


def findings(result: Result) -> list[str]:
    """What limited the points, family by family, and where more depth stops to help."""
    found = []
    for family in families(result):
        found += _limits(family)
        if family.is_advice:
            found += _advice(family)
        elif family.is_depth:
            found += _knees(family)
            found += _gain(family)
    return found


def next_steps(result: Result) -> list[str]:
    """What to do to get past the limits of the best figures."""
    best = [max(family.members, key=lambda member: member.summary.iops) for family in families(result)]
    return steps_past(result.target, [member.limit for member in best if member.limit])


def doubts(result: Result) -> list[str]:
    """What keeps the figures from being what they seem."""
    measured = [member for family in families(result) for member in family.members]
    found = [note.text for note in result.notes if note.level == "warning"]
    found += cautions.cache_doubts(result)
    found += cautions.level_doubts(member.point for member in measured)
    found += _labels(families(result))
    found += _unmeasured(result)
    found += _concurrency(measured)
    found += _skew(measured)
    found += _errors(measured)
    return found


def remarks(result: Result) -> list[str]:
    """What is worth knowing and casts no doubt on the figures."""
    return [note.text for note in result.notes if note.level == "info"] + cautions.cache_remarks(result)


def setting(result: Result) -> list[str]:
    """Of a scenario: why, and in which form it ran; of a search: what was asked, and what was found."""
    told = []
    if scenario := result.scenario:
        told.append(" ".join(scenario.why.split()))
        if scenario.shortened:
            told.append(f"Not the full scenario: {'; '.join(scenario.shortened)}.")
    if search := result.search:
        told.append(f"{search.question[0].upper()}{search.question[1:]} ({search.workload}).")
        told += [_found(finding) for finding in search.findings]
        told += [f"The search stopped: {search.stopped}.", *(f"{one[0].upper()}{one[1:]}." for one in search.remarks)]
    return told


def _found(finding: Finding) -> str:
    bounds = f" ({finding.figure.bounds_text})" if finding.figure.bounds_text else ""
    return (
        f"{finding.name[0].upper()}{finding.name[1:]}: {finding.figure.value:,.6g} {finding.unit}".rstrip()
        + bounds
        + "."
    )


def conditions(result: Result) -> dict[str, dict[str, str]]:
    """What the figures stand on: everything needed to run it again, by heading."""
    return {"Run": _run(result), "Machine": _machine(result), "Target": _target(result.target), "Load": _load(result)}


# ---- headlines


def _headlines(family: Family) -> list[Headline]:
    if family.is_mix:
        return _mix_headlines(family)
    if family.is_advice:
        return _advice_headlines(family)
    if family.is_depth:
        return _depth_headlines(family)
    return _other_headlines(family)


def _found_headline(finding: Finding) -> Headline:
    return Headline(f"{finding.figure.value:,.4g}", finding.unit, finding.name)


def _mix_headlines(family: Family) -> list[Headline]:
    pure = ((100.0, "reads"), (0.0, "writes"))
    return [
        Headline(*_rate(family, member.summary), f"{family.load} {word}")
        for percent, word in pure
        for member in family.members
        if member.axis("read_percent") == percent
    ]


def _rate(family: Family, summary: Summary) -> tuple[str, str]:
    if family.is_sequential:
        return f"{summary.mib_per_s:,.0f}", "MiB/s"
    return format_count(summary.iops), "IOPS"


def _depth_headlines(family: Family) -> list[Headline]:
    shallow = min(family.members, key=lambda member: member.axis("depth"))
    return [_latency_headline(shallow.summary, f"p50 of a {family.subject} at depth {shallow.axis('depth'):g}")]


def _advice_headlines(family: Family) -> list[Headline]:
    found = advice_of.pairs(family.members)
    pays = sum(pair.advice == "pays" for pair in found)
    _, many = advice_of.compared_connections(family.members)
    return [Headline(f"{pays}", f"of {len(found)}", f"loads gain from nconnect {many}")]


def _other_headlines(family: Family) -> list[Headline]:
    """Of the fastest point (there is no better way to choose one), by report group."""
    best = max(family.members, key=lambda member: member.summary.iops)
    groups = best.point.report_groups()
    rates = [
        Headline(format_count(totals.iops), "IOPS", f"{_job(group, groups)}{kind}s, {totals.mib_per_s:,.1f} MiB/s")
        for group in groups
        for kind, totals in group.kinds.items()
    ]
    # The median over jobs that have nothing to do with each other says nothing.
    median = [_latency_headline(best.summary, "p50, all operations")] if len(groups) == 1 else []
    return rates[:HEADLINES_MAX] + median


def _job(group: Summary, groups: Sequence[Summary]) -> str:
    return f"{group.name}: " if len(groups) > 1 else ""


def _latency_headline(summary: Summary, what: str) -> Headline:
    value, unit = format_latency(summary.latency.percentile(50)).split(" ")
    return Headline(value, unit, what)


# ---- findings


def _limits(family: Family) -> list[str]:
    """One sentence per limit, naming the points; saturation is told by the knee."""
    by_text: dict[str, list[Measured]] = {}
    for member in family.members:
        if member.limit and not (family.is_depth and member.limit.code in ("saturated", "depth")):
            by_text.setdefault(member.limit.text, []).append(member)
    return [f"{_title(family)}, {_names(family, members)}: {text}." for text, members in by_text.items()]


def _title(family: Family) -> str:
    return family.subject[0].upper() + family.subject[1:]


def _names(family: Family, members: list[Measured]) -> str:
    if len(members) == len(family.members):
        return "all points" if len(members) > 1 else members[0].point.name
    if family.is_mix:
        return "mix " + ", ".join(member.mix for member in members)
    if family.is_advice:
        return f"{len(members)} of {len(family.members)} points"
    if family.is_depth:
        return "; ".join(
            _depths(name, points, members) for name, points in family.series().items() if _some(points, members)
        )
    return ", ".join(member.point.name for member in members)


def _advice(family: Family) -> list[str]:
    """Where more connections gain and lose the most."""
    found = sorted(advice_of.pairs(family.members), key=lambda pair: pair.gain)
    if not found:
        return []
    least, most = found[0], found[-1]
    return [
        f"{_title(family)}: more connections give from {least.gain:.2f} times the rate "
        f"({advice_of.load_text(least.few)}) to {most.gain:.2f} times ({advice_of.load_text(most.few)})."
    ]


def _some(points: list[Measured], members: list[Measured]) -> bool:
    return any(point in members for point in points)


def _depths(name: str, points: list[Measured], members: list[Measured]) -> str:
    depths = ", ".join(f"{point.axis('depth'):g}" for point in points if point in members)
    return f"{name} at depth {depths}" if name else f"depth {depths}"


def _knees(family: Family) -> list[str]:
    return [_knee(family, name, points) for name, points in family.series().items()]


def _knee(family: Family, name: str, points: list[Measured]) -> str:
    subject = f"{_title(family)}, {name}" if name else _title(family)
    start = knee([member.point for member in points])
    if start is None:
        return f"{subject}: IOPS still grow at the greatest depth measured ({points[-1].axis('depth'):g})."
    at, last = next(member for member in points if member.point is start), points[-1]
    waits = [format_latency(member.summary.latency.percentile(50)) for member in (at, last)]
    return (
        f"{subject}: IOPS grow up to depth {at.axis('depth'):g} ({format_count(at.summary.iops)}); from there to depth "
        f"{last.axis('depth'):g} the median wait goes from {waits[0]} to {waits[1]} {_for_iops(at, last)}."
    )


def _for_iops(at: Measured, last: Measured) -> str:
    gain = last.summary.iops / at.summary.iops - 1
    return f"for {gain:+.0%} IOPS" if abs(gain) >= 0.005 else "for no more IOPS"


def _gain(family: Family) -> list[str]:
    """How far apart the first and the last series are at their best."""
    series = family.series()
    if len(series) < 2:
        return []
    best = {name: max(member.summary.iops for member in members) for name, members in series.items()}
    first, *_, last = best
    ratio = best[last] / best[first]
    if abs(ratio - 1) < SAME:
        return [f"{_title(family)}: {first} and {last} reach the same, {format_count(best[last])} IOPS."]
    return [
        f"{_title(family)}: {last} reaches {format_count(best[last])} IOPS, {ratio:.2f} times the "
        f"{format_count(best[first])} of {first}."
    ]


# ---- doubts


def _labels(measured: Iterable[Family]) -> list[str]:
    """Each label once, with what it holds for."""
    holders: dict[str, list[str]] = {}
    for family in measured:
        for label in sorted({label for member in family.members for label in member.summary.labels}):
            if label.startswith(disk_limits.PREFIX):
                continue
            holders.setdefault(label, []).append(_title(family))
    return [f"{', '.join(names)}: {LABELS.get(label, label)}." for label, names in holders.items()]


def _unmeasured(result: Result) -> list[str]:
    """Points that did not end as planned."""
    return [
        f"{point.name}: {point.outcome.state}{_because(point.summary().errors_text)}."
        for point in result.points
        if point.outcome.state != "finished"
    ]


def _because(errors: Iterable[str]) -> str:
    return "".join(f"; {error}" for error in errors)


def _concurrency(measured: list[Measured]) -> list[str]:
    apart = [member for member in measured if not member.summary.paced and _is_apart(member.summary)]
    return [
        f"{member.point.name}: {member.summary.concurrency_achieved:.1f} operations were in flight on average, "
        f"{member.summary.depth_requested:g} were asked for."
        for member in apart
    ]


def _is_apart(summary: Summary) -> bool:
    asked = summary.depth_requested
    return abs(summary.concurrency_achieved - asked) > CONCURRENCY_TOLERANCE * asked


def _skew(measured: list[Measured]) -> list[str]:
    return [
        f"{member.point.name}: {_skew_words(member.summary)}."
        for member in measured
        if member.summary.skew_ns > SKEW_TOLERANCE * member.summary.window_ns
    ]


def _skew_words(summary: Summary) -> str:
    window = format_duration(summary.window_ns)
    if summary.staggered:
        return f"its workers did not all run at the same time; rates are over the whole {window}"
    skew = format_duration(summary.skew_ns)
    return f"for {skew} some of its workers ran but not all; rates are over the {window} in which all did"


def _errors(measured: list[Measured]) -> list[str]:
    return [
        f"{member.point.name}: {member.summary.errors:,} operations failed and {member.summary.short:,} came up short."
        for member in measured
        if member.summary.errors or member.summary.short
    ]


# ---- conditions


def _run(result: Result) -> dict[str, str]:
    ceiling = result.null_ceiling_operations_per_s
    return {
        "Name": result.name,
        "Started": result.created.strftime("%Y-%m-%d %H:%M:%S UTC"),
        "Kind": result.kind,
        "iocurve": result.iocurve,
        "Ended": result.state,
        "Ceiling of the loop": f"{format_count(ceiling)} operations/s per worker (null engine)"
        if ceiling
        else "not measured",
    }


def _machine(result: Result) -> dict[str, str]:
    host = result.host
    return {
        "Host": host.hostname,
        "Processor": f"{host.cpu_model}, {host.cpus} usable",
        "Memory": format_bytes(host.memory_bytes),
        "System": f"{host.distribution}, Linux {host.kernel}",
        "TCP congestion control": host.tcp_congestion_control or "unknown",
        "Python": host.python,
    }


def _target(target: TargetFacts) -> dict[str, str]:
    facts = {
        "Kind": target.kind.replace("_", " "),
        "Address": target.address,
        "Level and quota": volume_description(target),
        "Throughput limit": f"{target.throughput_bytes_per_s / MIB:,.6g} MiB/s"
        if target.throughput_bytes_per_s
        else "",
        "IOPS limit": f"{target.iops:,}" if target.iops else "",
        "Added latency": format_latency(target.latency_ns) if target.latency_ns else "",
        "Client's egress": f"{target.client_egress_bytes_per_s / MIB:,.6g} MiB/s"
        if target.client_egress_bytes_per_s
        else "",
        "Store": target.store or "",
    }
    if target.mount:
        facts["File system"] = f"{target.mount.file_system} on {target.mount.mount_point} ({target.mount.device})"
        facts["Mount options"] = target.mount.options
    return {name: fact for name, fact in facts.items() if fact}


def _load(result: Result) -> dict[str, str]:
    workers = [worker for point in result.points for group in point.plan.groups for worker in group.workers]
    summaries = [point.summary() for point in result.points]
    facts = {
        "Jobs": _jobs(result),
        "Engine": _distinct(engine for summary in summaries for engine in summary.engines),
        "NFS mount": _distinct(_mount(worker) for worker in workers),
        "Files per worker": _distinct(_files(worker) for worker in workers),
        "Order": _distinct(_order(worker) for worker in workers),
        "Measured time": _distinct(_runtime(worker) for worker in workers),
        "Ramp": _distinct(format_duration(worker.ramp_ns) for worker in workers if worker.ramp_ns) or "none",
        "Cool-down": _distinct(format_duration(worker.cooldown_ns) for worker in workers if worker.cooldown_ns),
        "Written data": _distinct(f"{worker.payload.content}, {worker.payload.renew}" for worker in workers),
        "Seeds": _seeds(workers),
    }
    return {name: fact for name, fact in facts.items() if fact}


def _jobs(result: Result) -> str:
    """What each job asks for; points along axes say it in their tables."""
    if len(result.points) != 1:
        return ""
    workers = [worker for group in result.points[0].plan.groups for worker in group.workers]
    clones = Counter(_job_words(worker) for worker in workers)
    return "; ".join(f"{words} (× {count})" if count > 1 else words for words, count in clones.items())


def _job_words(worker: Worker) -> str:
    kinds = ", ".join(_kind_words(operation) for operation in worker.operations)
    return f"{worker.job}: {kinds}, depth {worker.depth}"


def _kind_words(operation: OperationPlan) -> str:
    rate = operation.rate
    if rate is None:
        return f"{operation.kind} {block_text(operation.blocks)}"
    count = format_count(rate.count) if rate.unit == "operations" else format_bytes(rate.count)
    pace = f"{count}/s" if rate.per_ns == SECOND_NS else f"{count} per {format_duration(rate.per_ns)}"
    return f"{operation.kind} {block_text(operation.blocks)} at {pace}"


def _distinct(words: Iterable[str]) -> str:
    return "; ".join(dict.fromkeys(word for word in words if word))


def _mount(worker: Worker) -> str:
    if not isinstance(worker.engine, NfsEngine):
        return ""
    mount = worker.engine.mount
    promise = {"none": "unstable writes", "data_sync": "data-sync writes", "file_sync": "file-sync writes"}
    return f"NFSv{mount.version}, nconnect {mount.nconnect}, {promise[mount.durability]}"


def _files(worker: Worker) -> str:
    return f"{len(worker.files)} × {format_bytes(max(file.bytes for file in worker.files))}"


def _order(worker: Worker) -> str:
    if not any(operation.random_percent for operation in worker.operations):
        return "sequential"
    cover = "each block once a pass" if worker.access.cover == "once" else "independent draws"
    return f"random, {cover}"


def _runtime(worker: Worker) -> str:
    if worker.end.runtime_ns is not None:
        return format_duration(worker.end.runtime_ns)
    return format_bytes(worker.end.bytes) if worker.end.bytes is not None else "until its operations are done"


def _seeds(workers: list[Worker]) -> str:
    seeds = list(dict.fromkeys(worker.seed for worker in workers))
    listed = ", ".join(map(str, seeds[:SEEDS_LISTED_MAX]))
    return (
        listed
        if len(seeds) <= SEEDS_LISTED_MAX
        else f"{listed} and {len(seeds) - SEEDS_LISTED_MAX} more (in result.json)"
    )

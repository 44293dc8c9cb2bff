"""The doubts about a result: everything that keeps its figures from meaning what they seem to mean."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Container, Iterable, Sequence
from statistics import fmean

from iocurve.analysis import target_limits
from iocurve.analysis.cache_evidence import cache_doubts, cache_remarks
from iocurve.analysis.families import PointFamily
from iocurve.analysis.level_changes import Drift, level_change
from iocurve.analysis.load_names import COMPARED_AXES
from iocurve.analysis.target_limits import fitted_figures
from iocurve.foundation.units import SECOND_NS, counted, format_count, format_depth, format_duration, format_number
from iocurve.result import stalls
from iocurve.result.document import NOTHING_MEASURED, Point, Result
from iocurve.result.stats import CONFIDENCE, VALUES_MIN, mean_interval, values_missing
from iocurve.result.summary import SeriesInterval, Summary

CONCURRENCY_TOLERANCE = 0.1
"""An achieved concurrency that differs from the requested depth by more than this fraction is a doubt."""
IMPRECISE = 0.02
"""A rate with rare events is doubted where half of its interval is a larger part of it."""
SKEW_TOLERANCE = 0.01
"""Workers that did not all run for more than this fraction of the window are a doubt."""

LABELS = {
    "emulated_disk": "the disk is emulated: this machine's page cache plays it, and its limits are the published ones",
    "disk_state_not_kept": "the state of the emulated disk could not be written: the next run finds the one before",
    "payload_discarded": "READ payload was discarded in the kernel, neither copied nor read",
    "write_verifier_changed": "the server restarted and may have lost unstable writes (its write verifier changed)",
    "file_has_holes": "parts of the files were never written: reading them takes no I/O, so reads look too fast",
    "reads_zeros": "blocks of zeros were read: they may never have been written, and then reads look too fast",
    "aio_buffered_is_synchronous": "without O_DIRECT native AIO waits for each operation: the depth had no effect",
    "aio_waits_for_trims_and_flushes": "native AIO has no trim and no flush of a range: the worker waited for each",
    "uring_waits_for_trims": "io_uring has no trim of devices: the worker waited for each",
    "mmap_direct_is_msync": "there is no direct I/O through a mapping: each write was followed by msync instead",
    "trim_punches_holes": "trims of files punched holes: the file system did the work, and reads there find zeros",
    "verify_nothing_to_compare": "the null engine moves no data: verification compared nothing",
    "verify_not_all_read_back": "the end came before all that was written was read back and compared",
    "uring_kernel_threads": "kernel threads did the I/O: their CPU time is not in the figures",
    "uring_files_not_registered": "io_uring ran without registered files, which costs CPU time",
    "uring_buffers_not_registered": "io_uring ran without registered buffers, which costs CPU time",
}
"""The meaning of each label of the engine; an unknown label is shown as it is."""
TOLD_BY = {
    "file_has_holes": stalls.READS_UNWRITTEN,
    "reads_zeros": stalls.READS_UNWRITTEN,
    "write_verifier_changed": stalls.VERIFIER_CHANGED,
}
"""Labels that a remark tells with more."""


def doubts_of(result: Result, families: Sequence[PointFamily]) -> list[str]:
    """Every reason to read the figures with care, as sentences."""
    measured = [member for family in families for member in family.members]
    return [
        *(note.text for note in result.notes if note.level != "info"),
        *_emulation(result),
        *cache_doubts(result),
        *level_doubts(measured),
        *_unsure_rates(measured),
        *_labels(families, {note.code for note in result.notes}),
        *(f"{text}." for text in _unfinished(result)),
        *_concurrency(measured),
        *_skew(measured),
        *_errors(measured),
        *(f"{text[:1].upper()}{text[1:]}." for text in _starved_volume(measured)),
        *(f"{text}." for text in map(stalls.repeats_text, measured) if text),
        *_disturbed(measured),
        *(_single_gains(families) if result.scenario else []),
    ]


def trust_of(measured: Sequence[Point]) -> tuple[stalls.Condition, str]:
    """The state of this machine under all points together: the worst of theirs, and a sentence that counts them."""
    state, text = _trust_of(measured)
    text = "; ".join(filter(None, (text, stalls.stalled_points_text(measured), stalls.discarded_text(measured))))
    if starved := _starved_volume(measured):
        return "CPU-starved" if state == "CPU-starved" else "noisy", "; ".join([text, *starved])
    return state, text


def _trust_of(measured: Sequence[Point]) -> tuple[stalls.Condition, str]:
    """As ``trust_of``, without what a volume says."""
    counts = Counter(map(stalls.condition, measured))
    disturbed = [point for point in measured if point.noise]
    whole = counted(len(measured), "point")
    if disturbed:
        told = f"oisy: {len(disturbed)} of {whole}, by {stalls.culprits(disturbed)}"
        if not counts["CPU-starved"]:
            return "noisy", f"N{told}"
        use = max((point.machine for point in disturbed), key=stalls.starved_share)
        who = "" if use is None or stalls.starved_party(use) == "load" else "the target "
        time = f"for up to {100 * stalls.starved_share(use):.0f} % of the time"
        starved = f"CPU-starved: {counts['CPU-starved']} of {whole}, {who}{time}"
        return "CPU-starved", f"{starved}; n{told}"
    if counts["idle"] < len(measured):
        return "not known", f"Other work on this machine is not known for {counts['not known']} of {whole}"
    return "idle", f"Idle: other work on this machine disturbed none of {whole}" if measured else ""


def remarks_of(result: Result) -> list[str]:
    """Facts that are worth knowing and cast no doubt on the figures."""
    return [note.text for note in result.notes if note.level == "info"] + cache_remarks(result)


def _emulation(result: Result) -> list[str]:
    """How the embedded volumes differ from the services that they stand for."""
    targets = [result.target, *(result.scenario.targets.values() if result.scenario else ())]
    speeds = [one.speed for one in targets if one.speed not in (None, 1)]
    fitted = fitted_figures(targets)
    found = [
        f"The embedded volume ran at {speed:.3g} of its speed: rates are multiplied by {speed:.3g}, latencies by "
        f"{1 / speed:.3g}; speedups, depths and the shape of curves are those of the whole."
        for speed in dict.fromkeys(filter(None, speeds))
    ]
    if fitted:
        found.append(f"Limits that are fitted to published results and not published themselves: {', '.join(fitted)}.")
    return found


def level_doubts(points: Iterable[Point]) -> list[str]:
    """Points whose rate left its level, in a step (as when burst credits run out) or in a drift."""
    return [doubt for point in points for doubt in _level_doubts(point)]


def _unsure_rates(points: Iterable[Point]) -> list[str]:
    """Points of one run whose rate was measured too briefly for what it shows, or has long memory."""
    return [f"{point.name}: {text}" for point in points if not point.runs and (text := unsure_text(point.course()))]


def unsure_text(course: Sequence[SeriesInterval]) -> str:
    """Says what a series of rates does not tell well enough, and how much longer to measure; empty where it does."""
    rates = [one.iops for one in course]
    if len(rates) < VALUES_MIN or any(map(math.isnan, rates)):
        return ""
    interval = mean_interval(rates, 1 - CONFIDENCE)
    if interval.half_width <= IMPRECISE * fmean(rates):
        return ""
    missing = values_missing(rates)
    more = f"measure for at least {math.ceil(missing * course[0].length_ns / SECOND_NS)} s more"
    if math.isinf(interval.half_width):
        return f"its rate has no stable mean in this time: {more}"
    if interval.events is not None and missing:
        times = counted(interval.events, "time")
        return f"its rate left its level {times}, too few to know how often it does: {more}"
    if interval.wanders:
        return (
            "its rate wanders the more the longer it runs (long memory): fewer than 95 of 100 such intervals hold the "
            "true mean; repeat the run, or measure several times as long"
        )
    return ""


def _level_doubts(point: Point) -> list[str]:
    intervals = stalls.course_beside_stall(point)
    change = level_change([interval.iops for interval in intervals])
    if change is None:
        return []
    if isinstance(change, Drift):
        return [_drift_text(point.name, change, intervals)]
    at_s = (intervals[change.index].start_ns - point.course()[0].start_ns) / SECOND_NS
    why = "burst credits that are spent look like this" if change.after < change.before else "its start was not steady"
    if point.noise:
        why = "other work on this machine disturbed the point"
    return [
        f"{point.name} left its level {format_number(at_s, 3)} s into the measured time: "
        f"{format_count(change.before)} IOPS before, {format_count(change.after)} after; {why}"
    ]


def _drift_text(name: str, drift: Drift, intervals: Sequence[SeriesInterval]) -> str:
    elapsed_s = (intervals[-1].start_ns - intervals[0].start_ns) / SECOND_NS
    per_minute = (drift.last - drift.first) / elapsed_s * 60
    return (
        f"{name} drifted over its measured time, from {format_count(drift.first)} to {format_count(drift.last)} IOPS "
        f"({per_minute:+,.0f} IOPS per minute): its mean is not a level; measure longer"
    )


def _labels(families: Iterable[PointFamily], told: Container[str] = ()) -> list[str]:
    """Each label of the engine once, with the families that have it where not all have it.

    A note of a code in ``told`` says more than the label does.
    """
    families = list(families)
    holders: dict[str, list[str]] = {}
    for family in families:
        for label in sorted({label for member in family.members for label in member.summary().labels}):
            if not label.startswith(target_limits.PREFIX) and TOLD_BY.get(label) not in told:
                holders.setdefault(label, []).append(family.heading)
    return [
        _label(LABELS.get(label, label), names if len(names) < len(families) else [])
        for label, names in holders.items()
    ]


def _label(text: str, names: Sequence[str]) -> str:
    return f"{', '.join(names)}: {text}." if names else f"{text[:1].upper()}{text[1:]}."


def missing_parts(result: Result) -> list[str]:
    """The reasons why a result is no whole measurement: its end, points that failed, and points that measured nothing.

    Empty for a whole one.
    """
    ended = "was interrupted" if result.state == "interrupted" else "failed"
    return [
        *([f"the run {ended}: {result.incomplete_reason}"] if result.state != "finished" else []),
        *_unfinished(result),
        *(f"{point.name}: {NOTHING_MEASURED}" for point in result.points if point.is_empty),
    ]


def _unfinished(result: Result) -> list[str]:
    """Points that failed or were interrupted, with the errors of their workers."""
    return [
        f"{point.name}: {'; '.join((point.outcome.state, *point.summary().errors_text))}"
        for point in result.points
        if point.outcome.state != "finished"
    ]


def _concurrency(measured: Iterable[Point]) -> list[str]:
    """Points that had another number of operations in flight than their depth. Under a rate the depth is no goal."""
    return [
        f"{member.name}: {member.summary().concurrency_achieved:.1f} operations were in flight on average, "
        f"{format_depth(member.summary().depth_requested)} were requested."
        for member in measured
        if not member.imported
        and not member.summary().paced
        and not stalls.is_brief(member.summary())
        and _misses_its_depth(member.summary())
    ]


def _misses_its_depth(summary: Summary) -> bool:
    asked = summary.depth_requested
    return abs(summary.concurrency_achieved - asked) > CONCURRENCY_TOLERANCE * asked


def _skew(measured: Iterable[Point]) -> list[str]:
    """Points whose workers did not all run at the same time."""
    return [
        f"{member.name}: {_skew_text(member.summary())}."
        for member in measured
        if member.summary().skew_ns > SKEW_TOLERANCE * member.summary().window_ns
    ]


def _skew_text(summary: Summary) -> str:
    window = f"rates are over the {format_duration(summary.window_ns)} in which any did"
    if not summary.overlap_ns:
        return f"its workers never all ran at the same time; {window}"
    skew, overlap = format_duration(summary.skew_ns), format_duration(summary.overlap_ns)
    return (
        f"for {skew} some of its workers ran but not all; {window}; over the {overlap} in which all ran, it did "
        f"{format_count(summary.overlap_iops)} IOPS"
    )


def _errors(measured: Iterable[Point]) -> list[str]:
    return [
        f"{member.name}: {member.summary().errors:,} operations failed and {member.summary().short:,} came up short."
        for member in measured
        if member.summary().errors or member.summary().short
    ]


def _starved_volume(measured: Iterable[Point]) -> list[str]:
    """Points in which the measured volume was starved."""
    text = stalls.starved_volume_text({member.name: stalls.starved_volume(member.machine) for member in measured})
    return [text] if text else []


def _disturbed(measured: Sequence[Point]) -> list[str]:
    """Points that others on this machine disturbed, also when they were measured again."""
    found = [member for member in measured if member.noise]
    if not found:
        return []
    names = stalls.first_names([f"{point.name} ({point.noise})" for point in found], "; ")
    again = ", also when measured again" if any(point.retries for point in found) else ""
    return [
        f"{len(found)} of {counted(len(measured), 'point')} were noisy, by other work on this machine{again}: {names}."
    ]


def _single_gains(families: Iterable[PointFamily]) -> list[str]:
    """Families that are compared along an axis although each point was measured once."""
    found = [
        family.heading
        for family in families
        if any(family.varies(axis) for axis in COMPARED_AXES) and not any(one.runs for one in family.members)
    ]
    names = ", ".join(found)
    return [f"{names}: each point was measured once, so ratios of their rates have no interval."] if found else []

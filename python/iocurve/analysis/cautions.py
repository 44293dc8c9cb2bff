"""Sentences on what a figure may hide: caches that answered, levels that were left, loads that were never steady."""

from __future__ import annotations

from collections.abc import Iterable

from iocurve.analysis.steady import shift
from iocurve.result.document import CacheFacts, Point, Result
from iocurve.result.summary import course
from iocurve.units import SECOND_NS, format_count


def cache_doubts(result: Result) -> list[str]:
    """Figures that look cached though caches were to play no part."""
    return [
        f"{point.family}: {_compared(facts)}, so its figures look cached, although caches were to be left out"
        for point, facts in _checked(result)
        if facts.verdict == "cached" and facts.policy == "uncached"
    ]


def cache_remarks(result: Result) -> list[str]:
    """What was done about caches, and whether the figures look cached."""
    return [
        *(f"{family}: {preparation}" for family, preparation in _preparations(result)),
        *(
            f"{point.family}: {_compared(facts)}: {_VERDICTS[facts.verdict]}"
            for point, facts in _checked(result)
            if not (facts.verdict == "cached" and facts.policy == "uncached")
        ),
    ]


def level_doubts(points: Iterable[Point]) -> list[str]:
    """Points that left their level in the middle: credits that are spent look like this."""
    found = []
    for point in points:
        intervals = course(point.outcome.workers)
        left = shift([interval.iops for interval in intervals])
        if left is None:
            continue
        at_s = (intervals[left.index].start_ns - intervals[0].start_ns) / SECOND_NS
        why = "burst credits that are spent look like this" if left.after < left.before else "its start was not steady"
        found.append(
            f"{point.name} left its level {at_s:.3g} s into the measured time: "
            f"{format_count(left.before)} IOPS before, {format_count(left.after)} after; {why}"
        )
    return found


_VERDICTS = {
    "cached": "the figures look cached, as they were meant to be",
    "uncached": "no cache is seen to answer",
    "unclear": "whether caches answered is not clear",
    "not_checked": "not compared",
}


def _checked(result: Result) -> list[tuple[Point, CacheFacts]]:
    return [(point, point.cache) for point in result.points if point.cache and point.cache.gain]


def _preparations(result: Result) -> dict[tuple[str, str], None]:
    """Of each family, each once, in order."""
    return dict.fromkeys((point.family, point.cache.preparation) for point in result.points if point.cache)


def _compared(facts: CacheFacts) -> str:
    assert facts.gain is not None
    low, high = facts.gain.low, facts.gain.high
    bounds = "" if low is None or high is None else f" (95 %: {low:+.1%} to {high:+.1%})"
    return f"the same offsets again give {facts.gain.value:+.1%} IOPS against fresh ones{bounds}"

"""Says whether the figures of a point look cached, and what was done about caches before it ran."""

from __future__ import annotations

from iocurve.analysis.cache_evidence import texts, turns_ratio
from iocurve.result.document import CacheFacts, Point, Result


def cache_doubts(result: Result) -> list[str]:
    """Points whose figures look cached although the scenario requires uncached ones."""
    return [
        f"{point.family}: {_compared(facts)}, so its figures look cached, although caches were to be left out"
        for point, facts in _checked(result)
        if facts.verdict == "cached" and facts.policy == "uncached"
    ]


def cache_remarks(result: Result) -> list[str]:
    """The preparation of each family's caches, and the verdict on each point that casts no doubt."""
    return [
        *(f"{family}: {preparation}" for family, preparation in _preparations(result)),
        *(
            f"{point.family}: {_compared(facts)}: {_verdict(facts)}"
            for point, facts in _checked(result)
            if not (facts.verdict == "cached" and facts.policy == "uncached")
        ),
    ]


_VERDICTS = {
    "cached": "the figures look cached, as they were meant to be",
    "uncached": "not cached",
    "unclear": "cannot tell whether caches answered",
    "not_checked": "not compared",
}


def _verdict(facts: CacheFacts) -> str:
    warm = "; caches are fully warm" if facts.is_fully_warm else ""
    return _VERDICTS[facts.verdict] + warm


def _checked(result: Result) -> list[tuple[Point, CacheFacts]]:
    """The points whose caches were judged; of a family those with a comparison, or else the first."""
    judged = [(point, point.cache) for point in result.points if point.cache and _is_judged(point.cache)]
    compared = {point.family for point, facts in judged if facts.gain}
    first = {point.family: point for point, _ in reversed(judged) if point.family not in compared}
    return [(point, facts) for point, facts in judged if facts.gain or first.get(point.family) is point]


def _is_judged(facts: CacheFacts) -> bool:
    return facts.gain is not None or bool(facts.evidence)


def _preparations(result: Result) -> dict[tuple[str, str], None]:
    """Family and preparation, each pair once, in the order of the points."""
    return dict.fromkeys((point.family, point.cache.preparation) for point in result.points if point.cache)


def _compared(facts: CacheFacts) -> str:
    sides = list(texts(facts))
    ratio = turns_ratio(facts)
    if ratio is None:
        return "; ".join(sides)
    times = " ".join(filter(None, (f"{ratio.value:.2f} ×", ratio.bounds_text)))
    return "; ".join([f"repeated offsets give {times} the IOPS of fresh ones", *sides])

"""Tells whether caches answered a load, from several sides; no side alone is enough.

Repeated offsets that are faster than fresh ones are in a cache. Where they are as fast, either no cache answers or
caches answer everything: the counters of the target, its known limit or the bytes that storage moved tell which.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from statistics import median
from typing import Literal

from iocurve.analysis.measured_load import MeasuredLoad
from iocurve.engine.plan import FileOpen, FixedBlocks
from iocurve.foundation.units import MICROSECOND_NS, format_bytes, format_latency
from iocurve.result.document import CacheEvidence, CacheFacts, Interval, Point, Result
from iocurve.result.paired import MARGIN, RatePair, RateRatio, margin_text, rate_ratio

GAIN_MIN = 0.05
"""Less gain than this by repeated offsets is none."""
CONFIDENCE = 0.99
"""Confidence of the comparison of turns. A load without a cache looks cached in at most 1 of 200 by the interval, and
in at most 1 of 200 by the sign test."""
MOST, LEAST = 0.9, 0.1
"""A share of the reads above the one counts as all of them, a share below the other as none."""
ABOVE_LIMIT = 1.1
"""A device is not this many times as fast as its limit: something else answers."""
MODES_APART = 4.0
"""Two groups of latencies are modes if the median of one is at least this many times that of the other."""
MEMORY_NS_MAX = 30 * MICROSECOND_NS
"""Reads of a small block from memory are faster than this, those from storage slower."""
SMALL_BLOCK = 16 << 10

CacheVerdict = Literal["cached", "uncached", "unclear", "not_checked"]
OWN = ("counters", "limit", "storage", "devices", "page cache")
"""Sources that tell of the load itself, not of a comparison."""


def compared(facts: CacheFacts, repeated: Sequence[float], fresh: Sequence[float]) -> CacheFacts:
    """The facts with the rates of the turns at repeated and at fresh offsets."""
    facts = facts.replace(repeated_runs=tuple(repeated), fresh_runs=tuple(fresh))
    ratio = turns_ratio(facts)
    if ratio is None:
        return facts
    low, high = (None if bound is None else bound - 1 for bound in (ratio.low, ratio.high))
    gain = Interval(value=ratio.value - 1, low=low, high=high)
    return facts.replace(repeated_iops=_of_turns(repeated), fresh_iops=_of_turns(fresh), speedup=gain)


def turns_ratio(facts: CacheFacts) -> RateRatio | None:
    """The rate at repeated offsets divided by that at fresh ones; None where no turn at fresh ones had operations.

    The order of the turns is repeated, fresh, fresh, repeated, and so on. Results of earlier versions have no turns.
    """
    gain = facts.speedup
    if not facts.fresh_runs and gain is not None:
        low, high = (None if bound is None else bound + 1 for bound in (gain.low, gain.high))
        return RateRatio(gain.value + 1, low, high)
    turns = enumerate(zip(facts.repeated_runs, facts.fresh_runs, strict=True))
    pairs = [
        RatePair(one, other, 2 * number + number % 2, 2 * number + 1 - number % 2) for number, (one, other) in turns
    ]
    return rate_ratio(pairs, MARGIN, CONFIDENCE)


def _of_turns(rates: Sequence[float]) -> Interval:
    """The median with the lowest and the highest rate: of 8 turns or more they hold the true median 99 of 100 times."""
    return Interval(value=median(rates), low=min(rates), high=max(rates))


Resident = tuple[float | None, float | None]
"""The part of a load's files that the page cache held before it and after it; None where it is not known."""


def judged(facts: CacheFacts, load: MeasuredLoad, resident: Resident = (None, None)) -> CacheFacts:
    """The facts with the evidence on a load that reads, and the verdict that it supports."""
    read = load.kind("read")
    if read is None or not read.operations:
        return facts
    evidence = tuple(
        one
        for one in (
            _counters(load),
            _above_limit(load),
            _storage(load),
            _devices(load),
            _resident(load, resident),
            repeated_evidence(facts),
            _modes(load),
        )
        if one is not None
    )
    return facts.replace(evidence=evidence, verdict=_verdict(facts, evidence), is_fully_warm=_fully_warm(evidence))


def _verdict(facts: CacheFacts, evidence: tuple[CacheEvidence, ...]) -> CacheVerdict:
    own = {one.says for one in evidence if one.source in OWN}
    repeated = next((one.says for one in evidence if one.source == "repeated"), None)
    if "cached" in own and "not_cached" not in own:
        return "cached"
    if repeated == "cached":
        return "unclear" if any(one.source == "counters" and one.says == "not_cached" for one in evidence) else "cached"
    if any(one.source == "counters" and one.says == "not_cached" for one in evidence):
        return "uncached"
    return "unclear" if evidence or facts.speedup else "not_checked"


def _fully_warm(evidence: tuple[CacheEvidence, ...]) -> bool:
    """Everything is answered by a cache: repeated offsets gain nothing, and yet no storage is at work."""
    says = {one.source: one.says for one in evidence}
    has_no_gain = says.get("repeated") in (None, "nothing")
    return has_no_gain and any(says.get(source) == "cached" for source in OWN)


def _counters(load: MeasuredLoad) -> CacheEvidence | None:
    """The hits that an emulated disk counted."""
    disks = [worker for worker in load.workers if worker.plan.disk]
    reads = sum(worker.outcome.counters.get("reads", 0) for worker in disks)
    if not reads:
        return None
    hits = sum(worker.outcome.counters.get("cache_read_hits", 0) for worker in disks)
    text = f"the emulated disk counted {hits:,} hits of its host cache in {reads:,} reads ({hits / reads:.0%})"
    return CacheEvidence(source="counters", text=text, says=_says(hits / reads))


def _above_limit(load: MeasuredLoad) -> CacheEvidence | None:
    """Reads faster than the device can be."""
    disks = {worker.plan.disk.state_path: worker.plan.disk for worker in load.workers if worker.plan.disk}
    if not disks or len(disks) > 1:
        return None
    limits = next(iter(disks.values())).limits
    most = max(limits.iops, limits.burst.iops if limits.burst else 0)
    iops = load.iops("read")
    if iops <= most * ABOVE_LIMIT:
        return None
    return CacheEvidence(
        source="limit", text=f"{iops:,.0f} reads a second, where the disk itself does at most {most:,}", says="cached"
    )


def _storage(load: MeasuredLoad) -> CacheEvidence | None:
    """The bytes that storage moved for this process, compared with those that were read."""
    machine, read = load.point.machine, load.kind("read")
    if machine is None or machine.device_read_bytes is None or read is None or not read.bytes or not _is_local(load):
        return None
    share = machine.device_read_bytes / read.bytes
    moved = f"storage moved {format_bytes(machine.device_read_bytes)} for {format_bytes(read.bytes)} of reads"
    if share >= LEAST:
        # The storage may have its own caches.
        return CacheEvidence(source="storage", text=moved, says="partly" if share < MOST else "nothing")
    return CacheEvidence(source="storage", text=moved, says="cached")


def _devices(load: MeasuredLoad) -> CacheEvidence | None:
    """The bytes that the devices beneath the files read, for any process, compared with those of the load."""
    machine, read = load.point.machine, load.kind("read")
    if machine is None or machine.block_read_bytes is None or read is None or not read.bytes or not _is_local(load):
        return None
    names, found = ", ".join(machine.block_devices), format_bytes(machine.block_read_bytes)
    text = f"{names} read {found} for {format_bytes(read.bytes)} of reads"
    # Other processes may have read, too: much says nothing, little says that the load was not answered by a device.
    return CacheEvidence(
        source="devices", text=text, says="cached" if machine.block_read_bytes < LEAST * read.bytes else "nothing"
    )


def _resident(load: MeasuredLoad, resident: Resident) -> CacheEvidence | None:
    before, after = resident
    if before is None or not _is_local(load):
        return None
    told_after = f" and {after:.0%} after it" if after is not None else ""
    text = f"the page cache held {before:.0%} of the files before the load{told_after}"
    # A page cache that is empty before the load may fill during it.
    return CacheEvidence(source="page cache", text=text, says="cached" if before >= MOST else "nothing")


def repeated_evidence(facts: CacheFacts) -> CacheEvidence | None:
    """The comparison of turns at repeated and at fresh offsets; None without one."""
    ratio = turns_ratio(facts)
    if ratio is None:
        return None
    faster = [one > (1 + GAIN_MIN) * other for one, other in zip(facts.repeated_runs, facts.fresh_runs, strict=True)]
    # A cache that fills makes the ratio fall from turn to turn, which widens the interval: the sign test finds it.
    is_mostly_faster = sign_test(sum(faster), len(faster)) <= (1 - CONFIDENCE) / 2
    if is_mostly_faster or (ratio.verdict == "faster" and (ratio.low or 0) > 1 + GAIN_MIN):
        turns = f", in {sum(faster)} of {len(faster)} runs" if faster else ""
        return CacheEvidence(
            source="repeated", text=f"repeated offsets are faster than fresh ones{turns}", says="cached"
        )
    if ratio.verdict == "inconclusive":
        text = f"the rates of the runs vary too much to compare repeated offsets with fresh ones{_because(ratio)}"
    elif ratio.verdict == "no difference" or ratio.is_small:
        text = (
            f"repeated offsets are as fast as fresh ones, to {margin_text(ratio.margin)}: no cache answers, or caches "
            "answer everything"
        )
    else:
        text = f"repeated offsets are {ratio.verdict} than fresh ones, too little to tell of a cache"
    return CacheEvidence(source="repeated", text=text, says="nothing")


def sign_test(positive: int, count: int) -> float:
    """The probability that at least this number of the signs is positive if both are as likely."""
    return math.fsum(math.comb(count, number) / 2.0**count for number in range(positive, count + 1))


def _because(ratio: RateRatio) -> str:
    return f" ({ratio.doubt})" if "no operations" in ratio.doubt else ""


def _modes(load: MeasuredLoad) -> CacheEvidence | None:
    """Two groups of latencies: reads from memory and reads from storage."""
    if not _is_local(load) or not _is_small(load):
        return None
    latency = load.summary.kinds["read"].service
    if latency.histogram is None:
        return None
    fast = latency.histogram.count_between(0, MEMORY_NS_MAX) / latency.count
    slow_ns = latency.percentile(100 * (1 + fast) / 2) if fast < 1 else 0
    if not LEAST <= fast <= MOST or slow_ns < MODES_APART * MEMORY_NS_MAX:
        return None
    memory, storage = format_latency(MEMORY_NS_MAX), format_latency(slow_ns)
    text = f"latencies have two modes: {fast:.0%} below {memory}, the rest about {storage}"
    return CacheEvidence(source="latency", text=text, says="partly")


def _says(share: float) -> Literal["cached", "not_cached", "partly"]:
    return "cached" if share >= MOST else "not_cached" if share <= LEAST else "partly"


def _is_local(load: MeasuredLoad) -> bool:
    """Files of this machine, on no emulated disk."""
    engines = [getattr(worker.plan.engine, "open", None) for worker in load.workers if not worker.plan.disk]
    return len(engines) == len(load.workers) and all(isinstance(one, FileOpen) for one in engines)


def _is_small(load: MeasuredLoad) -> bool:
    blocks = [operation.blocks for worker in load.workers for operation in worker.plan.operations]
    return all(isinstance(one, FixedBlocks) and one.bytes <= SMALL_BLOCK for one in blocks)


def texts(facts: CacheFacts) -> Iterator[str]:
    """The evidence in words, but for the comparison, which has its own figures."""
    yield from (one.text for one in facts.evidence if one.source != "repeated")


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
            f"{point.family}: {_compared(facts)}: {_text_of_verdict(facts)}"
            for point, facts in _checked(result)
            if not (facts.verdict == "cached" and facts.policy == "uncached")
        ),
    ]


_VERDICTS = {
    "cached": "the figures look cached, as they were meant to be",
    "uncached": "not cached",
    "unclear": "inconclusive whether caches answered",
    "not_checked": "not compared",
}


def _text_of_verdict(facts: CacheFacts) -> str:
    warm = "; caches are fully warm" if facts.is_fully_warm else ""
    return _VERDICTS[facts.verdict] + warm


def _checked(result: Result) -> list[tuple[Point, CacheFacts]]:
    """The points whose caches were judged; of a family those with a comparison, or else the first."""
    judged = [
        (point, facts)
        for point in result.points
        if (facts := point.cache) and (facts.speedup is not None or facts.evidence)
    ]
    compared = {point.family for point, facts in judged if facts.speedup}
    first = {point.family: point for point, _ in reversed(judged) if point.family not in compared}
    return [(point, facts) for point, facts in judged if facts.speedup or first.get(point.family) is point]


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

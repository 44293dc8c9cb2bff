"""The limits that can hold a point down: the short name of each, and the step that gets past it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from iocurve.result.document import Limit, TargetFacts
from iocurve.units import MIB, format_number

__all__ = ["LIMIT_KINDS", "UNKNOWN", "Confidence", "Limit", "LimitKind", "is_sure", "limit", "next_steps"]

Confidence = Literal["certain", "likely", "possible", "none"]
UNKNOWN = "unknown"
"""The code of a verdict that names no limit."""
SURE: tuple[Confidence, ...] = ("certain", "likely")
"""The confidence of verdicts that give advice."""


@dataclass(frozen=True)
class LimitKind:
    """One kind of limit."""

    short_name: str
    next_step: str = ""
    """Advice in a sentence, with ``{throughput_lever}`` and ``{unlimited_hint}`` of the target; empty: no advice."""


LARGER_DISK = "use a larger disk, stripe several, or let a host cache serve the reads."
LIMIT_KINDS = {
    "volume_throughput": LimitKind("MiB/s limit", "For more throughput, raise {throughput_lever}.{unlimited_hint}"),
    "volume_read_throughput": LimitKind("read MiB/s limit", "For more read throughput, raise the limit on reads."),
    "volume_write_throughput": LimitKind("write MiB/s limit", "For more write throughput, raise the limit on writes."),
    "volume_iops": LimitKind("IOPS limit", "For more IOPS, raise the volume's IOPS limit.{unlimited_hint}"),
    "volume_read_iops": LimitKind("read IOPS limit", "For more reads per second, raise the limit on read IOPS."),
    "volume_write_iops": LimitKind("write IOPS limit", "For more writes per second, raise the limit on write IOPS."),
    "burst_iops": LimitKind("burst IOPS", "The burst rate holds while credits last; a larger volume bursts higher."),
    "burst_credits": LimitKind(
        "burst credits", "Plan for the baseline: burst credits return only while the load stays below it."
    ),
    "client_egress": LimitKind(
        "client's egress",
        "Clients at their egress write more only together: use more of them, or larger machines.",
    ),
    "client_read": LimitKind(
        "client's reads", "Clients at their read limit read more only together: use more of them, or larger machines."
    ),
    "client_iops": LimitKind(
        "client's IOPS", "Clients at their IOPS do more only together: use more of them, or larger machines."
    ),
    "connection_requests": LimitKind(
        "connection's requests", "Use more connections (nconnect) or clients: each has its own requests in flight."
    ),
    "connection_throughput": LimitKind(
        "connection's MiB/s", "Use more connections (nconnect) or clients: each has its own bandwidth."
    ),
    "connection_iops": LimitKind(
        "connection's IOPS", "Use more connections (nconnect) or clients: each has its own operations per second."
    ),
    "server_parallelism": LimitKind(
        "server's speed", "The server works on no more operations at once; only a faster server carries more."
    ),
    "rate": LimitKind("rate asked"),
    "group_rate": LimitKind("group's rate"),
    "think_time": LimitKind("think time", "The load pauses between operations: shorten the think time for more."),
    "machine": LimitKind(
        "this machine",
        "This machine is saturated, by the load, by the target or by other programs: keep it quiet, or make the "
        "load elsewhere.",
    ),
    "client_cpu": LimitKind(
        "client's CPU", "Clients whose processors are busy do more only together: use more of them, or larger machines."
    ),
    "foreign_cpu": LimitKind(
        "others' CPU", "Other processes, or other guests of the host, hold the processors: keep them quiet."
    ),
    "generator": LimitKind("load's thread", "The thread of the load is saturated: use more jobs, each a thread."),
    "page_cache": LimitKind(
        "page cache", "The page cache of this machine answers: use direct I/O, or a data set larger than memory."
    ),
    "tcp_congestion": LimitKind(
        "TCP congestion", "Packets are lost: look for the congested link, or use more connections."
    ),
    "saturated": LimitKind(
        "saturation", "Where more depth only adds latency, more connections (nconnect) or clients may still give more."
    ),
    "depth": LimitKind(
        "depth", "Where the depth is the limit, a greater depth, more jobs or more connections may give more."
    ),
    "disk_iops": LimitKind("disk's IOPS", f"For more IOPS, {LARGER_DISK}"),
    "disk_throughput": LimitKind("disk's MB/s", f"For more throughput, {LARGER_DISK}"),
    "vm_uncached_iops": LimitKind(
        "VM's uncached IOPS", "The virtual machine lets no more IOPS through to its disks: use a larger one."
    ),
    "vm_uncached_throughput": LimitKind(
        "VM's uncached MB/s", "The virtual machine lets no more bytes through to its disks: use a larger one."
    ),
    "vm_cached_iops": LimitKind(
        "VM's cached IOPS", "The virtual machine serves no more IOPS with a host cache: use a larger one."
    ),
    "vm_cached_throughput": LimitKind(
        "VM's cached MB/s", "The virtual machine serves no more bytes with a host cache: use a larger one."
    ),
    UNKNOWN: LimitKind("cannot tell", "iocurve why --confirm varies one thing at a time to find the limit."),
}
"""All kinds, by code."""


def limit(
    code: str,
    text: str,
    target: TargetFacts,
    *,
    confidence: Confidence = "certain",
    evidence: Iterable[str] = (),
) -> Limit:
    """A verdict, with the name and the next step of its kind; where others fit as well, the step that would tell."""
    return Limit(
        code=code,
        short_name=LIMIT_KINDS[code].short_name,
        text=text,
        confidence=confidence,
        evidence=tuple(evidence),
        next_step=_next_step(code if confidence in SURE else UNKNOWN, target),
    )


def is_sure(limit: Limit | None) -> bool:
    """True of a verdict that follows from the figures; others fit as well where it is false."""
    return limit is not None and limit.code != UNKNOWN and limit.confidence in SURE


def next_steps(target: TargetFacts, limits: Iterable[Limit]) -> list[str]:
    """The steps that get past the given limits of a target, each once; of one that is not sure, the step that tells."""
    codes = dict.fromkeys(limit.code if is_sure(limit) else UNKNOWN for limit in limits)
    steps = (_next_step(code, target) for code in codes)
    return [step for step in steps if step]


def _next_step(code: str, target: TargetFacts) -> str:
    # A result of a newer iocurve may know more kinds.
    step = LIMIT_KINDS[code].next_step if code in LIMIT_KINDS else ""
    return step.format(throughput_lever=_throughput_lever(target), unlimited_hint=_unlimited_hint(target))


def _throughput_lever(target: TargetFacts) -> str:
    gain = target.next_tib_bytes_per_s
    if gain is None:
        return "the volume's throughput limit"
    if gain <= 0:
        return "the service level (a larger quota gives no more at this level)"
    return f"the quota (each TiB more gives {format_number(gain / MIB, 4)} MiB/s at this level) or the service level"


def _unlimited_hint(target: TargetFacts) -> str:
    """The option that runs our own volume without its limits."""
    return " --unlimited shows what this machine itself carries." if target.kind == "embedded_volume" else ""

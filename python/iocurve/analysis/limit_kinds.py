"""The kinds of limits that can hold a point down: a row for each has its name, its advice and its experiment."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Literal

import msgspec

from iocurve.foundation.units import MIB, format_number
from iocurve.result.caps import Kind
from iocurve.result.document import Limit, RateName, TargetFacts

__all__ = ["LIMIT_KINDS", "UNKNOWN", "Confidence", "Limit", "LimitKind", "is_sure", "limit", "next_steps"]

Confidence = Literal["certain", "likely", "possible", "none"]
Counted = tuple[RateName, Kind, Literal["volume", "connection"]]
"""A quantity, the operations that count, and whether all of them count or those of each connection."""
UNKNOWN = "unknown"
"""The code of a verdict that names no limit."""
SURE: tuple[Confidence, ...] = ("certain", "likely")
"""The confidence of verdicts that give advice."""


class Experiment(msgspec.Struct, frozen=True):
    """A change of a load, and how its rate responds if the limit is the one that was named."""

    change: str
    """The name of a ``Variation``."""
    expects: Literal["more", "same"]
    without: str | None = None
    """The change that takes a requested load away: the limit that is next shows without it."""


FASTER = Experiment("rate", "more", "unpaced")


class LimitKind(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of limit, and all that depends on nothing but the kind."""

    short_name: str
    next_step: str = ""
    """Advice in a sentence, with ``{throughput_lever}`` and ``{unlimited_hint}`` of the target; empty: no advice."""
    twice: str = ""
    """The change for twice the throughput, with the values of the point; empty: not known from the kind alone."""
    counts: Counted | None = None
    """The quantity that the limit counts: points at it have equal values. None: equal values show nothing."""
    experiment: Experiment | None = None
    """The experiment that would refute the verdict. None: all probes test it."""
    has_queue: bool = False
    """Operations wait in a queue: fewer in flight have the same rate and less latency."""
    is_of_client: bool = False
    """The limit is on the side of the client, and says nothing of the volume."""


MORE_OF_THEM = "use more of them, or larger machines."
TWICE_CLIENTS = (
    "use twice as many clients, or machines with twice the limit (iocurve size --have … --clients N --vm NAME)"
)
TWICE_CONNECTIONS = (
    "use {connections2} (nconnect; iocurve doctor checks that the mount has them), or twice as many clients"
)
TWICE_RATE = "ask for twice the rate: the target was not the limit"
TWICE_DISKS = "stripe twice as many disks, or use the next size (iocurve size --only disk)"
OTHERS_FIRST = "keep other programs off this machine first, then measure again"
LARGER_DISK = "use a larger disk, stripe several, or let a host cache serve the reads."
on_bytes = partial(LimitKind, experiment=Experiment("block", "more"), has_queue=True)
on_operations = partial(LimitKind, experiment=Experiment("block", "same"), has_queue=True)
of_clients = partial(
    LimitKind, twice=TWICE_CLIENTS, experiment=Experiment("clients", "more"), has_queue=True, is_of_client=True
)
of_connections = partial(
    LimitKind, twice=TWICE_CONNECTIONS, experiment=Experiment("connections", "more"), has_queue=True, is_of_client=True
)
on_this_side = partial(LimitKind, is_of_client=True)
LIMIT_KINDS = {
    "volume_throughput": on_bytes(
        short_name="MiB/s limit",
        next_step="For more throughput, raise {throughput_lever}.{unlimited_hint}",
        counts=("bytes_per_s", "any", "volume"),
    ),
    "volume_read_throughput": on_bytes(
        short_name="read MiB/s limit",
        next_step="For more read throughput, raise the limit on reads.",
        twice="raise the limit on reads to {mib2}",
        counts=("bytes_per_s", "read", "volume"),
    ),
    "volume_write_throughput": on_bytes(
        short_name="write MiB/s limit",
        next_step="For more write throughput, raise the limit on writes.",
        twice="raise the limit on writes to {mib2}",
        counts=("bytes_per_s", "write", "volume"),
    ),
    "volume_iops": on_operations(
        short_name="IOPS limit",
        next_step="For more IOPS, raise the volume's IOPS limit.{unlimited_hint}",
        twice="raise the volume's IOPS limit to {iops2}",
        counts=("iops", "any", "volume"),
    ),
    "volume_read_iops": on_operations(
        short_name="read IOPS limit",
        next_step="For more reads per second, raise the limit on read IOPS.",
        twice="raise the limit on reads to {iops2}",
        counts=("iops", "read", "volume"),
    ),
    "volume_write_iops": on_operations(
        short_name="write IOPS limit",
        next_step="For more writes per second, raise the limit on write IOPS.",
        twice="raise the limit on writes to {iops2}",
        counts=("iops", "write", "volume"),
    ),
    "burst_iops": on_operations(
        short_name="burst IOPS",
        next_step="The burst rate holds while credits last; a larger volume bursts higher.",
        twice="provision the rate: a burst ends with its credits",
    ),
    "burst_credits": LimitKind(
        short_name="burst credits",
        next_step="Plan for the baseline: burst credits return only while the load stays below it.",
        twice="provision the rate: credits return only below the baseline",
        has_queue=True,
    ),
    "client_egress": of_clients(
        short_name="client's egress",
        next_step=f"Clients at their egress write more only together: {MORE_OF_THEM}",
        counts=("bytes_per_s", "write", "volume"),
    ),
    "client_read": of_clients(
        short_name="client's reads",
        next_step=f"Clients at their read limit read more only together: {MORE_OF_THEM}",
        counts=("bytes_per_s", "read", "volume"),
    ),
    "client_iops": of_clients(
        short_name="client's IOPS", next_step=f"Clients at their IOPS do more only together: {MORE_OF_THEM}"
    ),
    "connection_requests": of_connections(
        short_name="connection's requests",
        next_step="Use more connections (nconnect) or clients: each has its own requests in flight.",
        counts=("iops", "any", "connection"),
    ),
    "connection_throughput": of_connections(
        short_name="connection's MiB/s",
        next_step="Use more connections (nconnect) or clients: each has its own bandwidth.",
        counts=("bytes_per_s", "any", "connection"),
    ),
    "connection_iops": of_connections(
        short_name="connection's IOPS",
        next_step="Use more connections (nconnect) or clients: each has its own operations per second.",
    ),
    "server_parallelism": LimitKind(
        short_name="server's speed",
        next_step="The server works on no more operations at once; only a faster server carries more.",
        twice="only a server that works on twice as many operations at once",
        counts=("iops", "any", "volume"),
        experiment=Experiment("depth", "same"),
        has_queue=True,
    ),
    "rate": LimitKind(short_name="rate asked", twice=TWICE_RATE, experiment=FASTER),
    "group_rate": LimitKind(short_name="group's rate", twice=TWICE_RATE, experiment=FASTER),
    "backlog": LimitKind(
        short_name="backlog",
        next_step="The load caught up with its schedule: measure again, with a longer ramp.",
        twice="measure again with a longer ramp: the load was behind its schedule",
    ),
    "think_time": LimitKind(
        short_name="think time",
        next_step="The load pauses between operations: shorten the think time for more.",
        twice="halve the think time: the target was not the limit",
        experiment=Experiment("think", "more", "think"),
    ),
    "machine": on_this_side(
        short_name="this machine",
        next_step=(
            "This machine is saturated, by the load, by the target or by other programs: keep it "
            "quiet, or make the load elsewhere."
        ),
        twice=OTHERS_FIRST,
        experiment=Experiment("workers", "same"),
    ),
    "client_cpu": on_this_side(
        short_name="client's CPU",
        next_step=f"Clients whose processors are busy do more only together: {MORE_OF_THEM}",
        twice=TWICE_CLIENTS,
    ),
    "foreign_cpu": on_this_side(
        short_name="others' CPU",
        next_step="Other processes, or other guests of the host, hold the processors: keep them quiet.",
        twice=OTHERS_FIRST,
    ),
    "generator": on_this_side(
        short_name="load's thread",
        next_step="The thread of the load is saturated: use more jobs, each a thread.",
        twice="use twice as many jobs: each is a thread",
        experiment=Experiment("workers", "more"),
    ),
    "page_cache": on_this_side(
        short_name="page cache",
        next_step="The page cache of this machine answers: use direct I/O, or a data set larger than memory.",
        experiment=Experiment("offsets", "same"),
    ),
    "tcp_congestion": on_this_side(
        short_name="TCP congestion", next_step="Packets are lost: look for the congested link, or use more connections."
    ),
    "saturated": LimitKind(
        short_name="saturation",
        next_step="Where more depth only adds latency, more connections (nconnect) or clients may still give more.",
    ),
    "depth": LimitKind(
        short_name="depth",
        next_step="Where the depth is the limit, a greater depth, more jobs or more connections may give more.",
        twice="{depth2} in flight; that gives twice the rate as long as the latency stays at {latency}",
        experiment=Experiment("depth", "more"),
    ),
    "disk_iops": on_operations(short_name="disk's IOPS", next_step=f"For more IOPS, {LARGER_DISK}", twice=TWICE_DISKS),
    "disk_throughput": on_bytes(
        short_name="disk's MB/s", next_step=f"For more throughput, {LARGER_DISK}", twice=TWICE_DISKS
    ),
    "vm_uncached_iops": on_operations(
        short_name="VM's uncached IOPS",
        next_step="The virtual machine lets no more IOPS through to its disks: use a larger one.",
        twice="use a machine with twice the uncached IOPS (iocurve size --only disk)",
    ),
    "vm_uncached_throughput": on_bytes(
        short_name="VM's uncached MB/s",
        next_step="The virtual machine lets no more bytes through to its disks: use a larger one.",
        twice="use a machine with twice the uncached MB/s (iocurve size --only disk)",
    ),
    "vm_cached_iops": on_operations(
        short_name="VM's cached IOPS",
        next_step="The virtual machine serves no more IOPS with a host cache: use a larger one.",
        twice="use a machine with twice the cached IOPS",
    ),
    "vm_cached_throughput": on_bytes(
        short_name="VM's cached MB/s",
        next_step="The virtual machine serves no more bytes with a host cache: use a larger one.",
        twice="use a machine with twice the cached MB/s",
    ),
    UNKNOWN: LimitKind(
        short_name="cannot tell", next_step="iocurve why --confirm varies one thing at a time to find the limit."
    ),
}
"""All kinds, by code."""


def kind_of(code: str) -> LimitKind:
    """The row of a code. That of a kind that only a newer iocurve knows says nothing."""
    return LIMIT_KINDS.get(code) or LimitKind(short_name=code)


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
    return kind_of(code).next_step.format(
        throughput_lever=_throughput_lever(target), unlimited_hint=_unlimited_hint(target)
    )


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

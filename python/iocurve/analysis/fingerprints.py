"""Tells the limits of a target that says nothing of itself apart, by how a load responds to one change at a time.

A limit on bytes gives equal MiB/s at every block size, one on operations equal IOPS. A limit of a connection or of a
client grows with their number. A limit on one kind of operation leaves room for the other. A token bucket serves a
short burst at the unloaded latency, since it saves up tokens in the pauses; a busy server makes the burst queue.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from iocurve.analysis.levels import levels
from iocurve.analysis.limit_kinds import UNKNOWN, Limit, limit
from iocurve.analysis.measured_load import MeasuredLoad, is_lossy, network_evidence
from iocurve.result.document import Point, TargetFacts
from iocurve.units import MIB, SECOND_NS, format_latency, format_number

GROWS = 1.4
"""Doubling what limits a load gives at least this ratio of the rates."""
CRISP = 0.12
"""Ratios within this fraction of 1 or 2 are no accident, even on a busy machine."""
FLAT = 0.08
"""A token bucket's levels spread by no more than this fraction; where no baseline is known, a level must be as flat."""
SAME = 1.2
"""Doubling anything else gives at most this ratio."""


@dataclass(frozen=True)
class Response:
    """A load and the same load with one change."""

    text: str
    """The change: ``twice the depth``."""
    base: MeasuredLoad
    changed: MeasuredLoad

    @property
    def ratio(self) -> float:
        """IOPS with the change to IOPS without, both between stalls of this machine."""
        before = rate_of(self.base)
        return rate_of(self.changed) / before if before else 0.0

    @property
    def grows(self) -> bool:
        """The rate follows the change."""
        return self.ratio >= GROWS

    @property
    def is_same(self) -> bool:
        """The rate does not follow the change."""
        return 1 / SAME <= self.ratio <= SAME

    @property
    def is_crisp(self) -> bool:
        """The rate stays or doubles with so little error that a load which was held up would hardly show it."""
        return abs(self.ratio - 1) <= CRISP or abs(self.ratio / 2 - 1) <= CRISP

    @property
    def is_ambiguous(self) -> bool:
        """The rate follows the change in part, as near a knee or where something held the load up."""
        return SAME < self.ratio < GROWS

    @property
    def is_lower(self) -> bool:
        """The rate fell, which more depth, connections or clients do not explain."""
        return self.ratio < 1 / SAME

    @property
    def evidence(self) -> str:
        """``twice the depth: 1.02 times the IOPS (1,503 to 1,533)``."""
        figures = f"{rate_of(self.base):,.0f} to {rate_of(self.changed):,.0f}"
        return f"{self.text}: {self.ratio:.2f} times the IOPS ({figures})"


def response(text: str, base: Point, changed: Point, target: TargetFacts) -> Response:
    """How a load responded to a change."""
    return Response(text, MeasuredLoad(base, target), MeasuredLoad(changed, target))


def rate_of(load: MeasuredLoad) -> float:
    """IOPS between stalls of this machine."""
    return load.iops() * load.held_up


def exhausted_credits(load: MeasuredLoad) -> Limit | None:
    """Burst credits that ran out: the rate falls once from one level to another, and stays there."""
    step = levels([interval.iops for interval in load.course], FLAT)
    if step is None or load.summary.paced:
        return None
    at_s = (load.course[step.index].start_ns - load.course[0].start_ns) / SECOND_NS
    text = f"the rate fell {format_number(at_s, 3)} s into the measured time, as it does when burst credits run out"
    evidence = [f"level at {step.before:,.0f} IOPS before, level at {step.after:,.0f} after"]
    return limit("burst_credits", text, load.target, confidence="likely", evidence=evidence)


def depth_verdict(deeper: Response) -> Limit | None:
    """The depth, where a greater one gives more."""
    if not deeper.grows:
        return None
    text = f"at the requested depth, {format_number(deeper.base.summary.depth_requested)} in flight: more gives more"
    return limit("depth", text, deeper.base.target, confidence="likely", evidence=[deeper.evidence])


def connection_verdict(connections: Response, blocks: Response | None) -> Limit:
    """A limit of each connection, with whose number the rate grows: on bytes or on requests in flight."""
    load = connections.base
    evidence = [connections.evidence, *([blocks.evidence] if blocks else []), *network_evidence(load)]
    if is_lossy(load):
        text = "the connection loses segments, so congestion control holds it back"
        return limit("tcp_congestion", text, load.target, confidence="likely", evidence=evidence)
    if blocks and blocks.grows:
        each = load.held_up * load.bytes_per_s() / load.connections
        text = f"at a limit of about {format_number(each / MIB, 4)} MiB/s that a connection has"
        return limit("connection_throughput", text, load.target, confidence="likely", evidence=evidence)
    if blocks and blocks.is_same:
        text = "at the operations that the server takes of a connection, at a time or per second"
        return limit("connection_requests", text, load.target, confidence="likely", evidence=evidence)
    return unknown(load, "each connection has a limit; the figures do not tell which", evidence)


def client_verdict(clients: Response, blocks: Response | None) -> Limit:
    """A limit of each client address, with whose number the rate grows: on the bytes or the operations of one kind."""
    load = clients.base
    evidence = [clients.evidence, *([blocks.evidence] if blocks else [])]
    kinds = [name for name in ("read", "write") if load.iops(name)]
    if len(kinds) > 1 or blocks is None or not (blocks.grows or blocks.is_same):
        return unknown(load, "each client has a limit; the figures do not tell on what", evidence)
    (kind,) = kinds
    if blocks.is_same:
        code, rate = "client_iops", f"{rate_of(load):,.0f} IOPS"
    else:
        code = "client_read" if kind == "read" else "client_egress"
        rate = f"{format_number(load.held_up * load.bytes_per_s() / MIB, 4)} MiB/s"
    text = f"at a limit of about {rate} that a client has for {kind}s"
    return limit(code, text, load.target, confidence="likely", evidence=evidence)


def cap_verdict(blocks: Response, mix: Response | None) -> Limit | None:
    """A limit on bytes, of all operations or of one kind; None of a limit on operations."""
    if not blocks.grows:
        return None
    load = blocks.base
    rate = f"{format_number(load.held_up * load.bytes_per_s() / MIB, 4)} MiB/s"
    return _of_kind(load, "throughput", rate, [blocks.evidence], mix)


def operations_verdict(blocks: Response, mix: Response | None) -> Limit | None:
    """A limit on operations of one kind; None where it may be one on all of them."""
    if not blocks.is_same or mix is None or not mix.grows:
        return None
    return _of_kind(blocks.base, "iops", f"{rate_of(blocks.base):,.0f} IOPS", [blocks.evidence], mix)


def bucket_verdict(blocks: Response, mix: Response | None, single: MeasuredLoad, bursts: MeasuredLoad) -> Limit:
    """A token bucket for all operations, or a server that is busy: by the latency of short bursts."""
    load = blocks.base
    size = bursts.summary.depth_requested
    alone_ns, median_ns = (float(one.summary.service.percentile(50)) for one in (single, bursts))
    queued_ns = (size / rate_of(load) * SECOND_NS + alone_ns) / 2
    evidence = [
        blocks.evidence,
        *([mix.evidence] if mix else []),
        f"bursts of {size:g} after pauses: median {format_latency(median_ns)}; one by one {format_latency(alone_ns)}, "
        f"queued at a busy server about {format_latency(queued_ns)}",
    ]
    if queued_ns < GROWS * GROWS * alone_ns:
        return unknown(
            load, "a limit on operations, or the server's own speed: bursts do not tell them apart", evidence
        )
    if median_ns >= math.sqrt(alone_ns * queued_ns):
        text = f"at the server's own speed, about {rate_of(load):,.0f} IOPS"
        return limit("server_parallelism", text, load.target, confidence="likely", evidence=evidence)
    text = f"at a limit of about {rate_of(load):,.0f} IOPS"
    return limit("volume_iops", text, load.target, confidence="likely", evidence=evidence)


def unknown(load: MeasuredLoad, text: str, evidence: list[str]) -> Limit:
    """A verdict that names no limit."""
    return limit(UNKNOWN, text, load.target, confidence="none", evidence=evidence)


def _of_kind(load: MeasuredLoad, figure: str, rate: str, evidence: list[str], mix: Response | None) -> Limit:
    """The limit on one kind, where the other kind adds to it; on all operations otherwise."""
    told = [*evidence, *([mix.evidence] if mix else ["reads and writes were not mixed: it may hold for one of them"])]
    if mix is None or not mix.grows:
        return limit(f"volume_{figure}", f"at a limit of about {rate}", load.target, confidence="likely", evidence=told)
    kind = "read" if load.iops("read") else "write"
    text = f"at a limit of about {rate} on {kind}s"
    return limit(f"volume_{kind}_{figure}", text, load.target, confidence="likely", evidence=told)

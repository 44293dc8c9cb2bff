"""Tells the limits of a target that says nothing of itself apart, by how a load responds to one change at a time.

A limit on bytes gives equal MiB/s at every block size, one on operations equal IOPS. A limit of a connection or of a
client grows with their number. A limit on one kind of operation leaves room for the other. A limit on the rate lets a
short burst after a pause through faster than a busy server could work (``iocurve.analysis.bursts``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from operator import mul
from statistics import fmean

import msgspec

from iocurve.analysis.bursts import Bursts
from iocurve.analysis.level_changes import levels
from iocurve.analysis.limit_kinds import UNKNOWN, Limit, limit
from iocurve.analysis.measured_load import MeasuredLoad, is_lossy, network_evidence
from iocurve.foundation.units import MIB, SECOND_NS, format_depth, format_latency, format_number
from iocurve.result.caps import Kind
from iocurve.result.stats import FREEDOM_MIN, Estimate, ratio, scaled, series_mean

MATTERS = 0.1
"""Rates that differ by less than this fraction are the same; a limit that is so close to another holds as well."""
VAGUE = 0.25
"""An interval that reaches further than this fraction from its ratio does not tell it from another."""
MADE_UP = 0.03
"""A ratio so close to 1 or 2 is that of rates which a limit keeps in spite of stalls."""
CREDITS_S_MIN = 0.25
"""Credits that run out sooner do not limit the load."""
PERIODIC = 0.5
"""Autocorrelation from which a series repeats itself, after one below ``BETWEEN``."""
BETWEEN = 0.2
NEARLY = 0.8
"""The period is the shortest whose autocorrelation is at least this part of the highest."""
FLAT = 0.08
"""A token bucket's levels spread by no more than this fraction; where no baseline is known, a level must be as flat."""
DEEP = 1.6
"""A growth with twice the depth of at least this much leaves the depth as the limit."""
UNQUEUED = 1.15
"""Operations wait for nothing if their mean latency is at most this many times that of one alone."""


class Response(msgspec.Struct, frozen=True, dict=True):
    """A load and the same load with one change.

    Every comparison is with the interval of the ratio, so that rates which vary too much give no answer.
    """

    text: str
    """The change: ``twice the depth``."""
    base: MeasuredLoad
    changed: MeasuredLoad

    @cached_property
    def estimate(self) -> Estimate:
        """IOPS with the change to IOPS without, between stalls of this machine, unless the target made up for them."""
        found = ratio(_rate(self.changed), _rate(self.base))
        is_made_up = any(abs(found.mean / times - 1) <= MADE_UP for times in (1, 2))
        return found if is_made_up else ratio(rate_of(self.changed), rate_of(self.base))

    @property
    def ratio(self) -> float:
        """The ratio without its interval."""
        return self.estimate.mean

    @property
    def grows(self) -> bool:
        """The rate grows by more than a limit that holds as well would let it."""
        return self.estimate.low > 1 + MATTERS

    @property
    def is_more(self) -> bool:
        """The rate grows by more than the intervals explain."""
        return self.estimate.low > 1

    @property
    def is_same(self) -> bool:
        """The rate does not follow the change."""
        return self._is_within(1)

    @property
    def doubles(self) -> bool:
        """The rate follows the change in full."""
        return self._is_within(2)

    @property
    def is_lower(self) -> bool:
        """The rate falls, which more depth, connections or clients do not explain."""
        return self.estimate.high < 1 / (1 + MATTERS)

    @property
    def evidence(self) -> str:
        """``twice the depth: 1.02 times the IOPS (1,503 to 1,533)``."""
        figures = f"{rate_of(self.base).mean:,.0f} to {rate_of(self.changed).mean:,.0f}"
        width = self.estimate.half_width
        within = f" ±{width:.2f}" if MATTERS <= width < math.inf else ""
        return f"{self.text}: {self.ratio:.2f}{within} times the IOPS ({figures})"

    def _is_within(self, factor: float) -> bool:
        near, bound = factor / (1 + MATTERS) <= self.ratio <= factor * (1 + MATTERS), 1 + VAGUE
        return near and factor / bound <= self.estimate.low and self.estimate.high <= factor * bound


def rate_of(load: MeasuredLoad) -> Estimate:
    """IOPS between stalls of this machine, with the error that the intervals of the load show."""
    return scaled(_rate(load), load.held_up)


@lru_cache(maxsize=64)
def _rate(load: MeasuredLoad) -> Estimate:
    """IOPS with all stalls."""
    series = rates(load)
    estimate = series_mean(series)
    iops, operations = load.iops(), load.summary.operations
    # Without a series, as if operations came at random.
    error = iops / math.sqrt(operations) if operations else math.inf
    if estimate.batches > 1 and estimate.mean:
        error = estimate.error / estimate.mean * iops
    if period := _period(series):
        # A periodic rate is known except for a part of a period, of any size, at either end.
        error = min(error, iops * period / len(series) / math.sqrt(12))
    return Estimate(iops, error, max(estimate.batches, FREEDOM_MIN + 1))


def rates(load: MeasuredLoad) -> list[float]:
    """IOPS of the whole intervals of the measured window, also of those in which nothing was done."""
    return [one.iops for one in load.course]


def _period(series: Sequence[float]) -> int | None:
    """Values after which a series repeats itself, as at a limit for each window of a clock; None if it does not."""
    middle = fmean(series) if series else 0.0
    centred = [value - middle for value in series]
    power = math.fsum(map(mul, centred, centred))
    lags = [math.fsum(map(mul, centred, centred[lag:])) for lag in range(len(series) // 2)]
    # The sum of a longer lag has fewer terms.
    alike = [product * len(series) / (len(series) - lag) for lag, product in enumerate(lags)]
    start = next((lag for lag, one in enumerate(alike) if one < BETWEEN * power), len(alike))
    most = max(alike[start:], default=0.0)
    if most < PERIODIC * power or not power:
        return None
    return next(lag for lag in range(start, len(alike)) if alike[lag] >= NEARLY * most)


def exhausted_credits(load: MeasuredLoad) -> Limit | None:
    """Burst credits that ran out: the rate falls once from one level to another, and stays there."""
    step = levels([interval.iops for interval in load.course], FLAT)
    if step is None or load.summary.paced:
        return None
    at_s = (load.course[step.index].start_ns - load.course[0].start_ns) / SECOND_NS
    if at_s < CREDITS_S_MIN:
        return None
    text = f"the rate fell {format_number(at_s, 3)} s into the measured time, as it does when burst credits run out"
    evidence = [f"level at {step.before:,.0f} IOPS before, level at {step.after:,.0f} after"]
    return limit("burst_credits", text, load.target, confidence="likely", evidence=evidence)


def depth_verdict(deeper: Response, alone: Bursts | None) -> Limit:
    """The depth, which more of it helps: all of the limit, where nothing waits at this depth."""
    load = deeper.base
    evidence = [deeper.evidence]
    if not deeper.doubles and deeper.estimate.low < DEEP:
        mean_ns = load.summary.service.mean_ns
        waits = alone is None or mean_ns > UNQUEUED * alone.last.high * SECOND_NS
        if alone is not None:
            evidence.append(
                f"mean latency {format_latency(mean_ns)}, of one operation alone "
                f"{format_latency(alone.last.mean * SECOND_NS)}"
            )
        if waits:
            text = "near the knee, where the depth and another limit hold the rate down together"
            return unknown(load, text, evidence)
    text = f"at the requested depth, {format_depth(load.summary.depth_requested)} in flight: more gives more"
    return limit("depth", text, load.target, confidence="likely", evidence=evidence)


def connection_verdict(connections: Response, blocks: Response | None) -> Limit:
    """A limit of each connection, with whose number the rate grows: on bytes or on requests in flight."""
    load = connections.base
    evidence = [connections.evidence, *([blocks.evidence] if blocks else []), *network_evidence(load)]
    if is_lossy(load):
        text = "the connection loses segments, so congestion control holds it back"
        return limit("tcp_congestion", text, load.target, confidence="likely", evidence=evidence)
    if blocks and blocks.doubles:
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
    if len(kinds) > 1 or blocks is None or not (blocks.doubles or blocks.is_same):
        return unknown(load, "each client has a limit; the figures do not tell on what", evidence)
    (kind,) = kinds
    if blocks.is_same:
        code, rate = "client_iops", f"{rate_of(load).mean:,.0f} IOPS"
    else:
        code = "client_read" if kind == "read" else "client_egress"
        rate = f"{format_number(load.held_up * load.bytes_per_s() / MIB, 4)} MiB/s"
    text = f"at a limit of about {rate} that a client has{'' if code == 'client_iops' else f' for {kind}s'}"
    return limit(code, text, load.target, confidence="likely", evidence=evidence)


def limit_verdict(load: MeasuredLoad, quantity: str, kind: Kind, evidence: Sequence[str]) -> Limit:
    """A limit of the volume on ``throughput`` or ``iops``, of one kind of operation or of all."""
    share = load.iops(None if kind == "any" else kind) / load.iops()
    figure = f"{share * rate_of(load).mean:,.0f} IOPS"
    if quantity == "throughput":
        each = load.bytes_per_s(None if kind == "any" else kind)
        figure = f"{format_number(load.held_up * each / MIB, 4)} MiB/s"
    code, of = (f"volume_{quantity}", "") if kind == "any" else (f"volume_{kind}_{quantity}", f" on {kind}s")
    text = f"at a limit of about {figure}{of}"
    return limit(code, text, load.target, confidence="likely", evidence=evidence)


def counted_kind(load: MeasuredLoad, mix: Response, other: Response | None, some: Response | None) -> Kind | None:
    """The operations that a limit on a load of one kind counts; None where that is not known.

    ``mix`` is of both kinds, half and half, ``other`` of the other kind alone, ``some`` of a few of the other kind.
    """
    own: Kind = "read" if load.iops("read") else "write"
    if mix.is_same or (other and costs_add_up(mix, other)):
        return "any"
    if mix.grows:
        return own
    if some is None:
        return None
    # So few have room below their own limit: either they add to the rate, or they take from it.
    added = some.changed.iops() / some.changed.iops(own)
    if some.estimate.low > math.sqrt(added):
        return own
    return "any" if 1 / math.sqrt(added) < some.estimate.low and some.estimate.high < math.sqrt(added) else None


def counted_of_mix(load: MeasuredLoad, alone: Mapping[Kind, Response]) -> Kind | None:
    """The operations that a limit on a mix counts, by what each kind does alone; None where that is not known.

    A kind that gets more alone than in the mix has no limit that holds the mix down. One that gets as much has.
    """
    shares = {kind: load.iops(kind) / load.iops() for kind in alone}
    held = [kind for kind, one in alone.items() if one.estimate.low <= shares[kind] * (1 + MATTERS)]
    if len(held) > 1 or any(alone[kind].estimate.high >= math.sqrt(shares[kind]) for kind in held):
        return None
    return held[0] if held else "any"


def costs_add_up(mix: Response, other: Response) -> bool:
    """True if half of each kind gets what one limit on both gives, and not what a limit on each gives."""
    together = 2 / (1 + 1 / other.ratio)
    apart = 2 * min(1.0, other.ratio)
    is_near = together / (1 + MATTERS) <= mix.ratio <= together * (1 + MATTERS)
    return is_near and mix.estimate.low <= together <= mix.estimate.high < apart


def server_verdict(load: MeasuredLoad, evidence: Sequence[str]) -> Limit:
    """The server works on no more at once."""
    text = f"at the server's own speed, about {rate_of(load).mean:,.0f} IOPS"
    return limit("server_parallelism", text, load.target, confidence="likely", evidence=evidence)


def burst_evidence(bursts: Bursts, rate: Estimate) -> str:
    """``8 operations at once after a pause: done in 2.1 ms; 8 of the sustained rate take 5.3 ms``."""
    count = f"{bursts.size:,} operations" if bursts.size > 1 else "one operation"
    sustained = format_latency(bursts.size / rate.mean * SECOND_NS)
    return (
        f"{count} at once after a pause: done in {format_latency(bursts.last.mean * SECOND_NS)} on average; "
        f"at the sustained rate that takes {sustained}"
    )


def unknown(load: MeasuredLoad, text: str, evidence: Sequence[str]) -> Limit:
    """A verdict that names no limit."""
    return limit(UNKNOWN, text, load.target, confidence="none", evidence=evidence)

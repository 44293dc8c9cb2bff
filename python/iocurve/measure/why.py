"""Finds what limits a load by changing one thing at a time, or confirms a verdict by the one change that refutes it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median

from iocurve.analysis import fingerprints
from iocurve.analysis.fingerprints import Response
from iocurve.analysis.levels import levels
from iocurve.analysis.limit_kinds import UNKNOWN, Limit
from iocurve.analysis.limits import verdict_of
from iocurve.analysis.measured_load import MeasuredLoad
from iocurve.engine.plan import Plan
from iocurve.measure import variations
from iocurve.measure.variations import Variation, shortened
from iocurve.result.disturbance import STARVED, starved_share
from iocurve.result.document import Point, TargetFacts

UNDECIDED = ("depth", "saturated", UNKNOWN)
"""Verdicts that other limits look like, until something is changed."""
CATCH_UPS_PER_S = 80
"""Token buckets save up a good 1/64 s; a burst of 1/80 s of the rate goes through at once."""
BURST_MIN, BURST_MAX = 4, 64

ATTEMPTS = 4
"""Series of probes; two of them must agree."""
REPEATS = 2
"""Repetitions of a probe that was held up, at most; and of a load whose credits may have run out."""
LEVEL = 0.2
"""A level is found again if the repetition is within this fraction of it."""
HELD_UP = "foreign_cpu"
"""The verdict that a repetition may refute: others may leave the processors meanwhile."""
RATIO_MAX = 2.6
"""A change doubles a rate at most; a larger ratio means that the load without the change was held up."""

Run = Callable[[Plan], Point]
"""Carries a plan out and returns it as a point."""


@dataclass
class Probes:
    """Runs a load and variations of it."""

    plan: Plan
    target: TargetFacts
    run: Run
    base: Point
    responses: list[Response] = field(default_factory=list)
    starved: bool = False
    """The load or a probe got too little of the processors, also when it was repeated."""

    @property
    def is_consistent(self) -> bool:
        """False where a change gave more than it can, or a part of it: the load without it may have been held up."""
        if self.starved:
            return all(one.is_crisp for one in self.responses)
        return all(one.ratio <= RATIO_MAX and not one.is_ambiguous for one in self.responses)

    @property
    def fastest(self) -> Point:
        """The load, or a variation that should be no faster, whichever was held up least."""
        same = [one.changed.point for one in self.responses if one.is_same]
        return max((self.base, *same), key=lambda point: fingerprints.rate_of(MeasuredLoad(point, self.target)))

    @property
    def load(self) -> MeasuredLoad:
        """The load without a change."""
        return MeasuredLoad(self.base, self.target)

    def response(self, variation: Variation, base: Point | None = None) -> Response | None:
        """The response to a change; None where the load cannot be changed so, or nothing was done."""
        point = self.changed(variation)
        if point is None:
            return None
        found = fingerprints.response(variation.text, base or self.base, point, self.target)
        self.responses.append(found)
        return found

    def increase(self, variation: Variation) -> Response | None:
        """The response to a change that can only help.

        One that harmed was held up by this machine, and is repeated. One that helped is repeated with the load without
        the change, which may have been held up.
        """
        found = self.response(variation)
        for _ in range(REPEATS):
            if found is None or not found.is_lower:
                break
            found = self.response(variation)
        if found is None or found.ratio <= fingerprints.SAME:
            return found
        self.responses.remove(found)
        again = self.run(shortened(self.plan))
        self.base = max(self.base, again, key=lambda point: fingerprints.rate_of(MeasuredLoad(point, self.target)))
        return self.response(variation)

    def changed(self, variation: Variation) -> Point | None:
        """The load with a change, for the length of a probe."""
        plan = variation.apply(self.plan)
        if plan is None:
            return None
        point = self.run(shortened(plan))
        if starved_share(point.machine) >= STARVED:
            point = self.run(shortened(plan))
        self.starved = self.starved or starved_share(point.machine) >= STARVED
        return point if point.summary().operations else None


def diagnose(plan: Plan, target: TargetFacts, run: Run) -> tuple[Limit, Point]:
    """The limit of a load, found by probes where its own figures do not tell; and the load as it was measured.

    Probes name a limit when two series of them agree: one that was held up may seem to show another.

    Raises what ``run`` raises.
    """
    named: set[str] = set()
    for _ in range(ATTEMPTS):
        probes = Probes(plan, target, run, run(plan))
        own = _own(probes)
        if own and own.code != HELD_UP:
            return own, probes.base
        # A limit may show in spite of others that hold the processors: then every response is crisp.
        probes.starved = own is not None
        found = _probed(probes)
        if not probes.is_consistent or found.code == UNKNOWN:
            continue
        if found.code in named:
            return found, probes.base
        named.add(found.code)
    return own or _held_up(probes, found), probes.base


def _own(probes: Probes) -> Limit | None:
    """The verdict that the load's own figures tell; None where a change must tell it."""
    credits = fingerprints.exhausted_credits(probes.load)
    if credits and _stays_low(probes):
        return credits
    own = verdict_of(probes.base, probes.target)
    return None if own is None or own.code in UNDECIDED else own


def _stays_low(probes: Probes) -> bool:
    """The load ends at the lower level whenever it is repeated at once; a load that was held up does not."""
    step = levels([interval.iops for interval in probes.load.course])
    ends = (_last_rate(probes) for _ in range(REPEATS))
    return step is not None and all(abs(rate / step.after - 1) <= LEVEL for rate in ends)


def _last_rate(probes: Probes) -> float:
    """The IOPS at which a repetition ends. A few credits return before it, so only its second half counts."""
    again = MeasuredLoad(probes.run(shortened(probes.plan)), probes.target)
    rates = [interval.iops for interval in again.course] or [fingerprints.rate_of(again)]
    return median(rates[len(rates) // 2 :])


def _held_up(probes: Probes, found: Limit) -> Limit:
    if found.code == UNKNOWN and probes.is_consistent:
        return found
    evidence = [response.evidence for response in probes.responses]
    return fingerprints.unknown(probes.load, "the changes do not agree; something held the load up", evidence)


def _probed(probes: Probes) -> Limit:
    deeper = probes.increase(variations.DEEPER)
    if deeper and (found := fingerprints.depth_verdict(deeper)):
        return found
    connections = probes.increase(variations.MORE_CONNECTIONS)
    if connections and connections.grows:
        return fingerprints.connection_verdict(connections, probes.response(variations.HALF_BLOCKS))
    clients = probes.increase(variations.MORE_CLIENTS)
    if clients and clients.grows:
        return fingerprints.client_verdict(clients, probes.response(variations.HALF_BLOCKS))
    tried = [one for one in (deeper, connections, clients) if one]
    evidence = [one.evidence for one in tried]
    if any(one.is_lower for one in tried):
        return fingerprints.unknown(probes.load, "this machine held up the probes", evidence)
    found = _cap(probes, probes.fastest)
    return found.replace(evidence=(*found.evidence, *evidence))


def _cap(probes: Probes, base: Point) -> Limit:
    """The limit of the volume as a whole: on bytes, on operations, or of the server."""
    blocks = probes.response(variations.HALF_BLOCKS, base)
    if blocks is None:
        return fingerprints.unknown(probes.load, "blocks of another size were not tried", [])
    if not blocks.grows and not blocks.is_same:
        text = "neither MiB/s nor IOPS stay the same with half the block size"
        return fingerprints.unknown(probes.load, text, [blocks.evidence])
    mix = probes.response(variations.MIXED, base)
    if found := fingerprints.cap_verdict(blocks, mix) or fingerprints.operations_verdict(blocks, mix):
        return found
    return _bucket(probes, blocks, mix)


def _bucket(probes: Probes, blocks: Response, mix: Response | None) -> Limit:
    iops = fingerprints.rate_of(blocks.base)
    size = max(BURST_MIN, min(BURST_MAX, int(iops / CATCH_UPS_PER_S)))
    single, bursts = probes.changed(variations.SINGLE), probes.changed(variations.in_bursts(size, iops))
    if single is None or bursts is None:
        return fingerprints.unknown(probes.load, "bursts could not be tried", [blocks.evidence])
    loads = (MeasuredLoad(point, probes.target) for point in (single, bursts))
    return fingerprints.bucket_verdict(blocks, mix, *loads)

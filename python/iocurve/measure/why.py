"""Finds what limits a load by changing one thing at a time, or confirms a verdict by the one change that refutes it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from iocurve.analysis import fingerprints
from iocurve.analysis.fingerprints import Response
from iocurve.analysis.limit_kinds import UNKNOWN, Limit
from iocurve.analysis.limits import verdict_of
from iocurve.analysis.measured_load import MeasuredLoad
from iocurve.engine.plan import Plan
from iocurve.measure import variations
from iocurve.measure.variations import Variation, shortened
from iocurve.result.document import Point, TargetFacts

UNDECIDED = ("depth", "saturated", UNKNOWN)
"""Verdicts that other limits look like, until something is changed."""
CATCH_UPS_PER_S = 80
"""Token buckets save up a good 1/64 s; a burst of 1/80 s of the rate goes through at once."""
BURST_MIN, BURST_MAX = 4, 64

REPEATS = 2
"""A probe that was held up is repeated at most this many times."""

Run = Callable[[Plan], Point]
"""Carries a plan out and returns it as a point."""


@dataclass
class Probes:
    """Runs a load and variations of it."""

    plan: Plan
    target: TargetFacts
    run: Run
    base: Point

    @property
    def load(self) -> MeasuredLoad:
        """The load without a change."""
        return MeasuredLoad(self.base, self.target)

    def response(self, variation: Variation) -> Response | None:
        """The response to a change; None where the load cannot be changed so, or nothing was done."""
        point = self.changed(variation)
        return None if point is None else fingerprints.response(variation.text, self.base, point, self.target)

    def increase(self, variation: Variation) -> Response | None:
        """The response to a change that can only help; one that harmed was held up by this machine, and is repeated."""
        found = self.response(variation)
        for _ in range(REPEATS):
            if found is None or not found.is_lower:
                break
            found = self.response(variation)
        return found

    def changed(self, variation: Variation) -> Point | None:
        """The load with a change, for the length of a probe."""
        plan = variation.apply(self.plan)
        if plan is None:
            return None
        point = self.run(shortened(plan))
        return point if point.summary().operations else None


def diagnose(plan: Plan, target: TargetFacts, run: Run) -> tuple[Limit | None, Point]:
    """The limit of a load, found by probes where its own figures do not tell; and the load as it was measured.

    Raises what ``run`` raises.
    """
    base = run(plan)
    load = MeasuredLoad(base, target)
    own = fingerprints.exhausted_credits(load) or verdict_of(base, target)
    if own is None or own.code not in UNDECIDED:
        return own, base
    return _probed(Probes(plan, target, run, base)), base


def _probed(probes: Probes) -> Limit:
    deeper = probes.increase(variations.DEEPER)
    if deeper and (found := fingerprints.depth_verdict(deeper)):
        return found
    blocks = probes.response(variations.HALF_BLOCKS)
    connections = probes.increase(variations.MORE_CONNECTIONS)
    if connections and (found := fingerprints.connection_verdict(connections, blocks)):
        return found
    clients = probes.increase(variations.MORE_CLIENTS)
    if clients and (found := fingerprints.client_verdict(clients)):
        return found
    tried = [one for one in (deeper, connections, clients) if one]
    evidence = [one.evidence for one in tried]
    if any(one.is_lower for one in tried):
        return fingerprints.unknown(probes.load, "this machine held up the probes", evidence)
    found = _cap(probes, blocks)
    return found.replace(evidence=(*found.evidence, *evidence))


def _cap(probes: Probes, blocks: Response | None) -> Limit:
    """The limit of the volume as a whole: on bytes, on operations, or of the server."""
    if blocks is None:
        return fingerprints.unknown(probes.load, "blocks of another size were not tried", [])
    if not blocks.grows and not blocks.is_same:
        text = "neither MiB/s nor IOPS stay the same with half the block size"
        return fingerprints.unknown(probes.load, text, [blocks.evidence])
    mix = probes.response(variations.MIXED)
    if found := fingerprints.cap_verdict(blocks, mix) or fingerprints.operations_verdict(blocks, mix):
        return found
    return _bucket(probes, blocks, mix)


def _bucket(probes: Probes, blocks: Response, mix: Response | None) -> Limit:
    iops = fingerprints.rate_of(probes.load)
    size = max(BURST_MIN, min(BURST_MAX, int(iops / CATCH_UPS_PER_S)))
    single, bursts = probes.changed(variations.SINGLE), probes.changed(variations.in_bursts(size, iops))
    if single is None or bursts is None:
        return fingerprints.unknown(probes.load, "bursts could not be tried", [blocks.evidence])
    loads = (MeasuredLoad(point, probes.target) for point in (single, bursts))
    return fingerprints.bucket_verdict(blocks, mix, *loads)

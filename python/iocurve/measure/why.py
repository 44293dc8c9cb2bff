"""Finds what limits a load by changing one thing at a time, or confirms a verdict by changes that would refute it."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from statistics import fmean, median
from time import monotonic

import msgspec

from iocurve.analysis import bursts as pauses
from iocurve.analysis import fingerprints
from iocurve.analysis.bursts import Bursts
from iocurve.analysis.fingerprints import MATTERS, Response
from iocurve.analysis.level_changes import levels
from iocurve.analysis.limit_kinds import UNKNOWN, Limit
from iocurve.analysis.limits import verdict_of
from iocurve.analysis.load_limits import HELD_UP, sleeps
from iocurve.analysis.measured_load import MeasuredLoad
from iocurve.engine.plan import Plan
from iocurve.foundation.units import SECOND_NS
from iocurve.measure import variations
from iocurve.measure.variations import Variation, measured_alike, shortened
from iocurve.result.caps import Kind
from iocurve.result.document import Point, TargetFacts
from iocurve.result.stalls import STARVED, noise, starved_share, target_starved_share
from iocurve.result.stats import series_mean

UNDECIDED = ("depth", "saturated", "generator", UNKNOWN)
"""Verdicts that other limits look like, until something is changed."""
LARGE = 3.0
"""A large burst has this many times the operations that are in service at the rate of the load."""
BURST_MAX = 256
SOME = 80
"""Percentage of the other kind of operation, to the ratio of its rate alone: less than its own limit takes."""
BURSTS = 8
"""Number of bursts that a probe has time for."""
BURSTS_NS_MAX = 3 * SECOND_NS
SPENT_NS = 3 * variations.PROBE_NS
"""A run of this length spends what a bucket gained since the run before, and says little of it."""

ATTEMPTS = 4
"""Series of probes; two of them must agree."""
SILENT_MAX = 2
"""Series on a quiet machine that name no limit end the probes.

A later series seldom names one: none did in 276 simulated runs of an experiment, which no bench repeats.
"""
REPEATS = 2
"""Repetitions of a probe that was held up, at most; and of a load whose credits may have run out."""
LEVEL = 0.2
"""A level is found again if the repetition is within this fraction of it."""
LEVEL_ALIKE = 0.03
"""The halves of a run are level if their rates differ by no more than this fraction."""
RATIO_MAX = 2.6
"""A change doubles a rate at most; a larger ratio means that the load without the change was held up."""
PRECISION, PRECISION_HURRIED = 0.035, 0.06
"""Probes last until half of the interval of a rate is this fraction of it, within bounds; the other if hurried."""
LENGTH_MAX_NS, LENGTH_HURRIED_NS = 5 * SECOND_NS, 4 * variations.PROBE_NS
BASE_NS = SECOND_NS
"""The load without a change is measured for this time; the first time twice as long, so that credits may run out."""
PATIENCE_S = 60.0
HURRIED_S = 30.0
"""With less time than this, runs are shorter."""
RESTED = 0.75
"""A load whose threads, and the target's, need a processor for less of the time is not limited by that."""
OVERHEAD_S = 0.1
"""Time that a run takes in addition to its ramp and its measured time."""

Run = Callable[[Plan], Point]
"""Carries a plan out and returns it as a point."""
Clock = Callable[[], float]
"""The time in seconds."""


class Probes(msgspec.Struct):
    """Runs a load and variations of it."""

    plan: Plan
    target: TargetFacts
    run: Run
    base: Point
    until_s: float = math.inf
    """End of the time for probes, by the clock."""
    clock: Clock = monotonic
    is_hurried: bool = False
    """True where runs are short, as there is little time."""
    responses: list[Response] = msgspec.field(default_factory=list)
    starved: bool = False
    """The load or a probe got too little of the processors, also when it was repeated."""
    _loads: dict[int, MeasuredLoad] = msgspec.field(default_factory=dict)
    """By the identity of their points."""
    is_steady: bool = True
    """False where the load got another rate after the probes than before them."""
    is_shown: bool = False
    """The cause shows as delays do not show one: by bursts that are soon, or wait in steps, or by twice the rate."""
    is_quiet: bool = True
    """False where other work disturbed this machine during a run, or is not known."""

    @property
    def is_consistent(self) -> bool:
        """False where a change gave more than it can, or the load changed: something held one of the runs up."""
        if self.starved:
            return self.is_crisp
        # A cache that more in flight fills sooner explains a larger ratio with the depth.
        most = {variations.DEEPER.text: math.inf} if self.is_quiet else {}
        return self.is_steady and all(one.ratio <= most.get(one.text, RATIO_MAX) for one in self.responses)

    @property
    def is_crisp(self) -> bool:
        """Each change had no effect or its full one, which others that hold the processors do not give by chance."""
        return all(one.is_same or one.doubles for one in self.responses)

    @property
    def is_proven(self) -> bool:
        """One series is enough, also where others hold the processors: the load needs them for less of the time, or did
        twice as much with a change."""
        is_rested = sleeps(self.load, RESTED) or any(one.doubles for one in self.responses)
        return self.is_shown and self.is_crisp and is_rested

    @property
    def fastest(self) -> Point:
        """The load, or a variation that should be no faster, whichever was held up least."""
        same = [one.changed.point for one in self.responses if one.is_same]
        return max((self.base, *same), key=self._iops)

    @property
    def load(self) -> MeasuredLoad:
        """The load without a change."""
        return self.of(self.base)

    def of(self, point: Point) -> MeasuredLoad:
        """The figures of a run, which many comparisons use."""
        found = self._loads.setdefault(id(point), MeasuredLoad(point, self.target))
        assert found.point is point, "the load keeps the point, so no other has its identity"
        return found

    @property
    def length_ns(self) -> int:
        """Measured time of a probe: the more the rate of the load varies, the longer."""
        precision = PRECISION_HURRIED if self.is_hurried else PRECISION
        needed = self.load.summary.window_ns * (fingerprints.rate_of(self.load).precision / precision) ** 2
        return round(min(max(needed, variations.PROBE_NS), LENGTH_HURRIED_NS if self.is_hurried else LENGTH_MAX_NS))

    def response(self, variation: Variation, base: Point | None = None, least_ns: int = 0) -> Response | None:
        """The response to a change; None where the load cannot be changed so, or nothing was done."""
        point = self.changed(variation, max(self.length_ns, least_ns))
        if point is None:
            return None
        found = Response(variation.text, self.of(base or self.base), self.of(point))
        self.responses.append(found)
        return found

    def increase(self, variation: Variation) -> Response | None:
        """The response to a change that can only help.

        One that harmed was held up by this machine, and is repeated. One that helped is repeated with the load without
        the change, unless the machine was quiet: it may have been held up.
        """
        found = self.response(variation)
        for _ in range(REPEATS):
            if found is None or not found.is_lower:
                break
            self.responses.remove(found)
            found = self.response(variation)
        if found is None or found.is_same or (found.grows and self.is_quiet):
            return found
        self.responses.remove(found)
        self.base = max(self.base, self.measured(self.plan), key=self._iops)
        again = self.response(variation)
        self.is_shown = self.is_shown or (again is not None and again.doubles)
        return again

    def changed(self, variation: Variation, length_ns: int | None = None) -> Point | None:
        """The load with a change, for the length of a probe or another one."""
        plan = variation.apply(self.plan)
        if plan is None:
            return None
        point = self.measured(plan, length_ns)
        if starved_share(point.machine) >= STARVED and not self.starved:
            point = self.measured(plan, length_ns)
            self.starved = starved_share(point.machine) >= STARVED
        return point if point.summary().operations else None

    def measured(self, plan: Plan, length_ns: int | None = None) -> Point:
        """One run, for the length of a probe or another one. Raises ``TimeoutError`` if it would end too late."""
        length_ns = self.length_ns if length_ns is None else length_ns
        if self.clock() + (variations.RAMP_NS + length_ns) / SECOND_NS + OVERHEAD_S > self.until_s:
            raise TimeoutError
        point = self.run(shortened(plan, length_ns))
        use = point.machine
        self.is_quiet = self.is_quiet and use is not None and noise(use, length_ns) is None
        return point

    def check(self) -> None:
        """Repeats the load without a change: probes tell nothing of a target that changed meanwhile."""
        again = Response("the same load again", self.load, self.of(self.measured(self.plan)))
        self.is_steady = not again.grows and not again.is_lower

    def bursts(self, size: int) -> Bursts | None:
        """Bursts of a number of operations, with pauses in which a bucket gains more than a burst takes."""
        iops = fingerprints.rate_of(self.load).mean
        enough_ns = round(BURSTS * (1 + variations.PAUSE) * size / iops * SECOND_NS) if iops else 0
        least_ns = variations.PROBE_NS if self.is_hurried else self.length_ns
        length_ns = min(max(enough_ns, least_ns), BURSTS_NS_MAX)
        point = self.changed(variations.in_bursts(size, iops), length_ns) if iops else None
        return pauses.bursts_of(self.of(point), size) if point else None

    def left_open(self, text: str) -> Limit:
        """A verdict that names no limit, with what the changes did."""
        return fingerprints.unknown(self.load, text, [response.evidence for response in self.responses])

    def _iops(self, point: Point) -> float:
        return fingerprints.rate_of(self.of(point)).mean


def diagnose(
    plan: Plan, target: TargetFacts, run: Run, patience_s: float = PATIENCE_S, clock: Clock = monotonic
) -> tuple[Limit, Point]:
    """The limit of a load, found by probes where its own figures do not tell; and the load as it was measured.

    Where other work on this machine disturbed a run, probes name a limit when two series of them agree, unless bursts
    show the cause: one that was held up may seem to show another. If the time is over after the first, its verdict is
    *possible*. ``patience_s`` bounds the time for probes, in seconds; the first run of the load, of 1 s, or 2 s if
    there is time, is made in any case.

    Raises what ``run`` raises.
    """
    until_s, is_hurried = clock() + patience_s, patience_s < HURRIED_S
    first_ns = BASE_NS if is_hurried else 2 * BASE_NS
    named: dict[str, Limit] = {}
    silent = 0
    series = partial(Probes, plan, target, run, until_s=until_s, clock=clock, is_hurried=is_hurried)
    probes = series(run(measured_alike(plan, first_ns)))
    for attempt in range(ATTEMPTS):
        try:
            if attempt:
                probes = series(probes.measured(plan))
            own = _own_verdict(probes)
            if own and own.code != HELD_UP:
                return own, probes.base
            # A limit may show in spite of others that hold the processors: then every response is crisp.
            probes.starved = own is not None
            is_short = probes.length_ns > probes.load.summary.window_ns
            if not attempt and (is_short or not _is_level(probes.load)):
                # The first run was too short for a rate that varies, or may have begun with saved-up operations.
                probes.base = probes.measured(plan)
            found = _probed(probes)
            # A last change without an effect shows that the target is as it was.
            is_known = probes.is_quiet or probes.is_proven
            if not (is_known and probes.responses and probes.responses[-1].is_same):
                probes.check()
        except TimeoutError:
            return _at_the_end(probes, named), probes.base
        if not probes.is_consistent or found.code == UNKNOWN:
            silent += probes.is_consistent and probes.is_quiet
            if silent == SILENT_MAX:
                break
            continue
        if found.code in named or probes.is_quiet or probes.is_proven:
            return found, probes.base
        named[found.code] = found
    agrees = found.code == UNKNOWN and probes.is_consistent
    left = found if agrees else probes.left_open("the changes do not agree; something held the load up")
    return own or left, probes.base


def _is_level(load: MeasuredLoad) -> bool:
    """The rate of the first half of a run is that of the second, as far as the noise of the second tells."""
    series = fingerprints.rates(load)
    first, second = series[: len(series) // 2], series_mean(series[len(series) // 2 :])
    if not first or not second.mean:
        return False
    return abs(fmean(first) / second.mean - 1) <= max(LEVEL_ALIKE, min(second.precision, MATTERS))


def _at_the_end(probes: Probes, named: dict[str, Limit]) -> Limit:
    """The verdict of the series that was finished in time."""
    if len(named) == 1:
        (found,) = named.values()
        return found.replace(confidence="possible", next_step="")
    return probes.left_open("the time for probes was over before they could tell")


def _own_verdict(probes: Probes) -> Limit | None:
    """The verdict that the load's own figures tell; None where a change must tell it."""
    credits = fingerprints.exhausted_credits(probes.load)
    if credits and _stays_low(probes) and _returns(probes):
        return credits
    own = verdict_of(probes.base, probes.target)
    is_open = own is None or own.code in UNDECIDED or (own.confidence == "possible" and own.code != HELD_UP)
    return None if is_open else own


def _stays_low(probes: Probes) -> bool:
    """The load ends at the lower level whenever it is repeated at once; a load that was held up does not."""
    step = levels([interval.iops for interval in probes.load.course])
    ends = (_last_rate(probes) for _ in range(REPEATS))
    return step is not None and all(abs(rate / step.after - 1) <= LEVEL for rate in ends)


def _last_rate(probes: Probes) -> float:
    """The IOPS at which a repetition ends. A few credits return before it, so only its second half counts."""
    again = probes.of(probes.measured(probes.plan))
    rates = [interval.iops for interval in again.course] or [fingerprints.rate_of(again).mean]
    return median(rates[len(rates) // 2 :])


def _returns(probes: Probes) -> bool:
    """The higher level is there again after a rest, as credits are; that of a server that slowed down is not."""
    step = levels([interval.iops for interval in probes.load.course])
    if step is None or probes.changed(variations.in_bursts(1, step.after)) is None:
        return False
    rested = probes.of(probes.run(variations.from_the_start(probes.plan)))
    rates = [interval.iops for interval in rested.course][:3]
    return bool(rates) and median(rates) > (step.before + step.after) / 2


def _probed(probes: Probes) -> Limit:
    if thread := _saturated_thread(probes):
        return thread
    changes = (variations.DEEPER, variations.MORE_CONNECTIONS, variations.MORE_CLIENTS)
    more = probes.response(variations.together(probes.plan, changes))
    if more and more.is_same:
        found = _cap(probes, probes.fastest)
        return found.replace(evidence=(*found.evidence, more.evidence))
    # One of these changes helps or harms; run alone, each shows which.
    probes.responses.clear()
    deeper = probes.increase(variations.DEEPER)
    if deeper and deeper.grows:
        return fingerprints.depth_verdict(deeper, probes.bursts(1))
    connections = probes.increase(variations.MORE_CONNECTIONS)
    if connections and connections.grows:
        return fingerprints.connection_verdict(connections, probes.response(variations.HALF_BLOCKS))
    clients = probes.increase(variations.MORE_CLIENTS)
    if clients and clients.grows:
        return fingerprints.client_verdict(clients, probes.response(variations.HALF_BLOCKS))
    tried = [one for one in (deeper, connections, clients) if one]
    evidence = [one.evidence for one in tried]
    if deeper and deeper.is_lower and all(one.is_same for one in tried if one is not deeper):
        deepest = probes.response(variations.together(probes.plan, (variations.DEEPER,) * 2))
        if deepest and deepest.estimate.high < deeper.ratio:
            told = [*evidence, deepest.evidence, "a server slows down with more in flight, a limit does not"]
            return fingerprints.server_verdict(probes.load, told)
    if any(one.is_lower for one in tried):
        return fingerprints.unknown(probes.load, "more in flight gives less", evidence)
    if not all(one.is_same for one in tried):
        return fingerprints.unknown(probes.load, "the rate varies too much for the probes", evidence)
    found = _cap(probes, probes.fastest)
    return found.replace(evidence=(*found.evidence, *evidence))


def _saturated_thread(probes: Probes) -> Limit | None:
    """The busy thread of a load that more threads help, and not by their connections."""
    own = verdict_of(probes.base, probes.target)
    if own is None or own.code != "generator":
        return None
    threads, connections = map(probes.increase, (variations.MORE_WORKERS, variations.MORE_CONNECTIONS))
    if not threads or not threads.grows or (connections and connections.grows):
        return None
    return own.replace(evidence=(*own.evidence, threads.evidence))


def _cap(probes: Probes, base: Point) -> Limit:
    """The limit of the volume as a whole: on bytes, on operations, or of the server."""
    load = probes.of(base)
    blocks = probes.response(variations.HALF_BLOCKS, base)
    if blocks is None:
        return fingerprints.unknown(load, "blocks of another size were not tried", [])
    if not (blocks.is_same or blocks.grows):
        text = "neither MiB/s nor IOPS stay the same with half the block size"
        return fingerprints.unknown(load, text, [blocks.evidence])
    quantity, evidence = _quantity(probes, blocks)
    counted, told = _counted(probes, base)
    try:
        cause, of_bursts = cause_by_bursts(probes, load)
    except TimeoutError:
        if quantity != "throughput":
            raise
        cause, of_bursts = None, ["there was no time for bursts"]
    probes.is_shown = probes.is_shown or (blocks.doubles and not probes.is_quiet)
    evidence += [*of_bursts, *told]
    if cause == "server":
        return fingerprints.server_verdict(load, evidence)
    # A second kind of operation that costs nothing shows a limit on the first.
    if quantity == "throughput" or (quantity and (cause == "limit" or counted in ("read", "write"))):
        if counted is None:
            text = "a limit; whether it holds for one kind of operation alone, the mix does not tell"
            return fingerprints.unknown(load, text, evidence)
        return fingerprints.limit_verdict(load, quantity, counted, evidence)
    text = "a limit on operations, or the server's own speed: bursts do not tell them apart"
    if quantity is None:
        text = "the cost of an operation grows with its size, but not in proportion to it"
    return fingerprints.unknown(load, text, evidence)


def _counted(probes: Probes, base: Point) -> tuple[Kind | None, list[str]]:
    """The operations that a limit counts, by loads of other mixes, and the evidence."""
    load = probes.of(base)
    mix = probes.response(variations.MIXED, base)
    if mix is None:
        alone = {kind: found for kind, one in variations.ALONE.items() if (found := probes.response(one, base))}
        told = [one.evidence for one in alone.values()] or [
            "reads and writes were not mixed: it may hold for one of them"
        ]
        return fingerprints.counted_of_mix(load, alone) if alone else "any", told
    other = probes.response(variations.OTHER_KIND, base) if mix.is_lower else None
    if other is None or fingerprints.costs_add_up(mix, other):
        told = [f"the other kind takes {1 / other.ratio:.2g} times as much of the limit"] if other else []
        return fingerprints.counted_kind(load, mix, other, None), [mix.evidence, *told]
    some = probes.response(variations.with_some(percent), base) if (percent := round(SOME * other.ratio)) else None
    tried = [one.evidence for one in (mix, other, some) if one]
    return fingerprints.counted_kind(load, mix, other, some), tried


def _quantity(probes: Probes, blocks: Response) -> tuple[str | None, list[str]]:
    """The quantity that is limited; None where an operation costs a part for itself and a part for its bytes."""
    if blocks.is_same:
        return "iops", [blocks.evidence]
    if blocks.doubles:
        return "throughput", [blocks.evidence]
    # Two limits, on bytes and on operations, stop the growth at once; costs that add up slow it down.
    quarter = probes.response(variations.QUARTER_BLOCKS, blocks.changed.point)
    told = [blocks.evidence, *([quarter.evidence] if quarter else [])]
    return "throughput" if quarter and quarter.is_same else None, told


def cause_by_bursts(probes: Probes, load: MeasuredLoad) -> tuple[str | None, list[str]]:
    """A ``limit`` on the rate or the speed of the ``server``, by bursts after pauses; None where they do not tell."""
    alone, rate = probes.bursts(1), fingerprints.rate_of(load)
    if alone is None:
        return None, ["bursts could not be tried"]
    stations = pauses.in_service(rate, alone).mean
    large = alone
    if not pauses.profits(alone, rate):
        size = min(max(2, math.ceil(LARGE * stations)), BURST_MAX)
        large = probes.bursts(size) or alone
        if not pauses.profits(large, rate) and pauses.has_spare_stations(alone, large, rate):
            # The last operations of this burst kept few of the stations busy.
            size = min(math.ceil(LARGE) * pauses.at_once(alone, large), BURST_MAX)
            large = probes.bursts(size) or large
    evidence = [fingerprints.burst_evidence(large, rate)]
    if pauses.profits(large, rate):
        probes.is_shown = True
        return _remembers(probes, large, evidence), evidence
    if large.gain(rate).low < pauses.NO_GAIN:
        return None, evidence
    if pauses.is_one_at_a_time(alone, rate):
        return "server", [*evidence, "one operation alone takes as long as one at the sustained rate"]
    if pauses.is_later_than_limits_allow(alone, large, rate):
        return "server", [*evidence, "that is later than after a wait of each for the sustained rate"]
    if pauses.is_served_in_steps(alone, large, rate):
        probes.is_shown = True
        return "server", [*evidence, "operations of a burst wait in steps, as for a number of servers"]
    is_steady = target_starved_share(probes.base.machine) < pauses.UNEVEN_DELAYED and pauses.is_random(alone)
    if is_steady and pauses.disperses(_busy(probes), variations.INTERVAL_NS / SECOND_NS, alone):
        return "server", [*evidence, "completions vary as the latency of single operations does"]
    return None, evidence


def _remembers(probes: Probes, large: Bursts, evidence: list[str]) -> str | None:
    """``limit`` if as many in flight without pauses get its rate. A server that slows down with what is in flight gives
    them more."""
    kept = probes.response(variations.at_depth(large.size))
    for _ in range(REPEATS):
        if kept is None or kept.is_same or kept.is_lower:
            break
        # A large bucket has gained operations in the pauses before; the whole load spends them soonest.
        probes.responses.remove(kept)
        probes.measured(probes.plan)
        kept = probes.response(variations.at_depth(large.size), least_ns=SPENT_NS)
    if kept is None:
        return None
    evidence.append(kept.evidence)
    is_limit = not kept.grows and pauses.profits(large, fingerprints.rate_of(kept.changed))
    if kept.is_lower:  # So few may do less.
        probes.responses.remove(kept)
    return "limit" if is_limit else None


def _busy(probes: Probes) -> list[list[float]]:
    """Completions over the intervals of the runs in which the limit was reached."""
    loads = [probes.load, *(one.changed for one in probes.responses if one.is_same)]
    length_s = variations.INTERVAL_NS / SECOND_NS
    return [[rate * length_s for rate in fingerprints.rates(load)] for load in loads]

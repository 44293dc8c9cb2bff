"""Proves a volume: measures the few loads that decide each SLO, and judges each with its interval.

An SLO fails only if the load was deep enough, no other process disturbed it, and this client carries more than was
agreed; else it is inconclusive. What one client alone lacks, and another might get, was not delivered to this client.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, median
from typing import Literal

import msgspec
from msgspec.structs import replace

from iocurve.advice.slos import Agreement, Slo, value_text
from iocurve.analysis.check_expressions import parse_all
from iocurve.analysis.check_names import Vocabulary
from iocurve.analysis.check_values import PointValues, Value
from iocurve.analysis.checks import Verdict, judged
from iocurve.analysis.limit_kinds import is_sure, kind_of
from iocurve.analysis.limits import verdict_of
from iocurve.foundation.structs import Struct
from iocurve.foundation.units import MIB, MICROSECOND_NS, SECOND_NS, counted, format_duration, format_latency
from iocurve.measure import campaign as campaigns
from iocurve.measure.campaign import Campaign, Keep
from iocurve.measure.data_set import require_reachable
from iocurve.measure.machines import THIS_MACHINE
from iocurve.measure.run_files import tell_leftovers
from iocurve.measure.search.command import workload_of
from iocurve.measure.search.loads import Effort, Loads
from iocurve.measure.variations import MORE_CLIENTS
from iocurve.report.progress import View
from iocurve.result import stalls
from iocurve.result.document import Point, Result, SearchFacts
from iocurve.result.stats import sample_mean
from iocurve.targets import opened_target
from iocurve.targets import target as targets
from iocurve.targets.opened_target import OpenedTarget
from iocurve.targets.target import Target

DEPTHS = (32, 128, 512)
"""Operations in flight, one after the other until the SLO is reached or more gives nothing."""
BYTES_IN_FLIGHT_MAX = 64 * MIB
RUNS = 3
"""An SLO that seems to be broken is measured this number of times, at least."""
AGREE = 0.03
"""Runs within this part of one another show a limit, also where others disturbed them."""
GROWS = 0.05
"""A larger gain of a deeper load means that the load was not deep enough."""
CLIENT_MARGIN = 1.1
"""The client must carry this multiple of an SLO before missing it is the volume's fault."""
CLIENT_GAIN = 1.5
"""Two addresses that get this multiple of what one gets show a limit of each client, on a busy machine as well."""
CLIENT_S = 1.5
CLIENT_SIZE = 64 * MIB
MEDIAN_OF = 5
"""A burst has ended where the median of this number of intervals is nearer to the baseline."""
BURST = "burst"
"""The family of the point that measures a burst."""
BURST_LENGTH = 0.97
"""Part of the agreed length that a burst must last: its first moments are not measured."""
BURST_RUN = 1.15
"""A burst is measured for this multiple of its agreed length, so that its end is seen."""
SUSTAINED_RUN = 1.75
"""A rate is measured for this multiple of a known burst: it has ended by the last third, which decides."""
EFFORT = Effort(precision=0.015, shortest_ns=SECOND_NS, longest_ns=4 * SECOND_NS, repeats_max=0)
LONGER = 3
"""Runs after the first are this much longer, and more precise."""


Judgement = Verdict | Literal["not_delivered"]
"""not_delivered: this client got less than was agreed, and another client was not measured, or got more."""


class JudgedSlo(Struct):
    """An SLO and what was measured."""

    slo: Slo
    verdict: Judgement
    value: float | None
    """In the unit of the SLO; None where nothing was measured."""
    low: float | None
    """Lower bound of the 95 % interval; None where it is not known."""
    high: float | None
    why: str
    """The comparison in words, or why it is inconclusive."""
    points: tuple[str, ...]
    """Names of the points in the result."""
    depth: int | None = None
    """Operations in flight of the point that counts."""
    limited_by: str = ""
    """The verdict on the limit of that point, with its confidence."""
    worst: float | None = None
    """The worst value of all runs of the SLO, in its unit; None where there is none, as of a burst."""
    longest_us: float | None = None
    """The longest operation of all these runs."""
    stalled: bool = False
    """The target stalled in one of these runs."""

    @property
    def value_text(self) -> str:
        """``127.9 MiB/s [127.5, 128.2]``."""
        if self.value is None:
            return "–"
        text = value_text(self.slo.measure, self.value)
        if self.low is None or self.high is None or math.isinf(self.low) or math.isinf(self.high):
            return text
        bounds = [value_text(self.slo.measure, bound) for bound in (self.low, self.high)]
        unit = text.partition(" ")[2]
        if all(bound.endswith(f" {unit}") for bound in bounds):
            bounds = [bound.removesuffix(f" {unit}") for bound in bounds]
        return f"{text} [{', '.join(bounds)}]"

    @property
    def worst_text(self) -> str:
        """``9.1 ms is the worst of 3 runs, longest operation 3 s (a stall)``."""
        if self.longest_us is None:
            return "–"
        runs = counted(len(self.points), "run")
        if self.worst is not None and len(self.points) > 1:
            runs = f"{value_text(self.slo.measure, self.worst)} is the worst of {runs}"
        stall = " (a stall)" if self.stalled else ""
        return f"{runs}, longest operation {format_latency(self.longest_us * MICROSECOND_NS)}{stall}"


class Proof(Struct):
    """The verdicts on all SLOs of a volume."""

    target: str
    agreement: Agreement
    tolerance: float
    """A value may miss its bound by this part of it."""
    judged: tuple[JudgedSlo, ...]

    @property
    def verdict(self) -> Judgement:
        """The worst verdict: failed, not delivered, then inconclusive."""
        found = {one.verdict for one in self.judged} or {"inconclusive"}
        order: tuple[Judgement, ...] = ("failed", "not_delivered", "inconclusive", "passed")
        return next(one for one in order if one in found)


class ProofRequest(msgspec.Struct, frozen=True):
    """A proof before it is measured: target, SLOs, effort."""

    target: Target
    agreement: Agreement
    size_bytes: int
    tolerance: float
    burst_s: float
    """Longest time for which a burst is measured."""
    sustained_s: float | None = None
    """Time for which a rate that is kept is measured again, to outlast a burst; 0: it is not. Default: as long as the
    burst of a kind that is known to burst, and none of others."""
    network_bytes_per_s: int | None = None
    """Limit of this client's network, where it is known."""
    overwrite: bool = False
    effort: Effort = EFFORT
    patience_ns: int | None = None
    """No SLO is judged after this time, and those left out are named. Default: all are judged."""


def prove(request: ProofRequest, directory: Path, *, quiet: bool = False) -> tuple[Result, Proof]:
    """Measures and judges; ``result.json`` and its report are in ``directory``.

    Raises ``DialectError``, ``PlanError``, and ``TargetError`` or ``RunError`` when nothing could be measured.
    """
    require_reachable(request.target, THIS_MACHINE)
    opened_target.check_overwrites(request.target, overwrite=request.overwrite, writes=True)
    found: list[JudgedSlo] = []

    def measure(view: View, keep: Keep) -> Result:
        with opened_target.opened(request.target) as target:
            tell_leftovers([target], view)
            name = f"proof of {request.agreement.title} on {target.facts.address}"
            campaign = Campaign(campaigns.started("prove", name, target.facts), view, keep)
            prover = Prover(request, target, campaign)

            def body(campaign: Campaign) -> SearchFacts | None:
                campaign.limit_time(request.patience_ns)
                for place, slo in enumerate(slos := request.agreement.slos):
                    if place and campaign.seconds_left <= 0:
                        campaign.note_left_out([one.name for one in slos[place:]])
                        break
                    found.append(prover.judge(slo))
                return None

            return campaigns.carry_out(campaign, body, prover.remove)

    result = campaigns.into_directory(directory, measure, quiet=quiet)
    missing = request.agreement.slos[len(found) :]
    found += [_untold(one, "the measurement ended before it", ()) for one in missing]
    proof = Proof(
        target=result.target.address, agreement=request.agreement, tolerance=request.tolerance, judged=tuple(found)
    )
    return result, proof


class Prover(msgspec.Struct):
    """Judges SLOs one after the other on one target; every load is a point of a campaign."""

    request: ProofRequest
    opened: OpenedTarget
    campaign: Campaign
    _loads: Loads | None = None
    _of_client: dict[tuple[str, int | None], Point] = msgspec.field(default_factory=dict)
    """Points of this client without the volume's limits, by workload, and by depth for latencies."""

    def judge(self, slo: Slo) -> JudgedSlo:
        """Measures the load of an SLO and judges it."""
        loads = self._loads_of(slo)
        if slo.measure in ("burst_iops", "burst_s"):
            return self._burst(slo, loads)
        return self._rate(slo, loads) if slo.is_least else self._latency(slo, loads)

    def remove(self, patience_ns: int | None = None) -> None:
        """Removes the files of the run. Raises ``TargetError``."""
        if self._loads:
            self._loads.files.remove(patience_ns)

    def _loads_of(self, slo: Slo) -> Loads:
        """One data set serves all SLOs."""
        workload, defaults = workload_of(slo.workload)
        if self._loads is None:
            effort, size = self.request.effort, self.request.size_bytes
            self._loads = Loads(self.opened, workload, defaults, size, effort, self.campaign, "SLO")
        self._loads.workload, self._loads.defaults = workload, defaults
        self._loads.family = slo.name
        self._loads.label = f"{slo.name}: "
        return self._loads

    # ---- rates

    def _rate(self, slo: Slo, loads: Loads) -> JudgedSlo:
        points: list[Point] = []
        grows = False
        most = max(1, BYTES_IN_FLIGHT_MAX // slo.block_bytes)
        depths = [*dict.fromkeys(min(depth, most) for depth in DEPTHS)]
        while len(points) < RUNS or (grows and len(points) < len(depths)):
            # A load that no longer grows is repeated as it was.
            before = max((_value_of(slo, one) for one in points), default=0.0)
            place = min(len(points), len(depths) - 1) if grows or len(points) < 2 else 1
            loads.effort = self._effort(len(points))
            point = loads.closed_point(depths[min(place, len(depths) - 1)])
            points.append(point)
            best = max(points, key=lambda one: _value_of(slo, one))
            passed = next((one for one in points if self._check(slo, one)[0] == "passed"), None)
            if passed is not None:
                found = self._contradicted(self._found(slo, passed, points), points)
                return self._sustained(found, points, loads)
            grows = bool(before) and _value_of(slo, point) > before * (1 + GROWS)
        found = self._found(slo, best, points)
        if found.verdict == "inconclusive":
            return found
        if grows:
            return found.replace(verdict="inconclusive", why=f"{found.why}; the rate still grows with the queue depth")
        return self._excused(found, best, [_value_of(slo, one) for one in points])

    def _effort(self, runs: int) -> Effort:
        effort = self.request.effort
        if not runs:
            return effort
        return replace(effort, precision=effort.precision / 2, longest_ns=effort.longest_ns * LONGER)

    def _sustained(self, found: JudgedSlo, points: Sequence[Point], loads: Loads) -> JudgedSlo:
        """A rate that is kept may be that of a burst: it holds for the time in which it was seen, and no longer."""
        slo, seconds = found.slo, self.request.sustained_s
        if seconds is None:
            seconds = 0.0 if slo.knows_bursts else SUSTAINED_RUN * self._known_burst_s()
        if found.verdict != "passed":
            return found
        if seconds:
            loads.effort = self.request.effort
            point = loads.for_time(found.depth or DEPTHS[0], seconds)
            return self._hidden(self._after_burst(found, point), [*points, point])
        held = f"holds for at least {format_duration(sum(one.summary().window_ns for one in points))}"
        if slo.knows_bursts:
            return self._hidden(found.replace(why=f"{found.why}, {held}"), points)
        why = f"{found.why}, {held}: a longer burst would look the same; --sustained 60m outlasts one"
        return found.replace(verdict="inconclusive", why=why)

    def _known_burst_s(self) -> float:
        """The longest burst that the target or a service level among the SLOs states; 0 where none is known."""
        stated = [one.bound for one in self.request.agreement.slos if one.measure == "burst_s"]
        bursts = [(cap.burst, cap.value) for cap in self.opened.facts.caps if cap.burst]
        stated += [burst.credits / (burst.value - base) for burst, base in bursts if burst.value > base]
        return max(stated, default=0.0)

    def _after_burst(self, found: JudgedSlo, point: Point) -> JudgedSlo:
        """Judges the rate by the last third of a long run, before which a burst would have ended."""
        slo, course = found.slo, point.course()
        unit = MIB if slo.measure == "mib_per_s" else 1
        rates = [(one.bytes_per_s if unit == MIB else one.iops) / unit for one in course]
        last = rates[-(len(rates) // 3) :] if len(rates) >= 3 * MEDIAN_OF else []
        names = (*found.points, point.name)
        if not last:
            return found.replace(verdict="inconclusive", points=names, why="--sustained is too short for a verdict")
        mean = sample_mean(last)
        value = Value(mean.mean, mean.low, mean.high)
        verdict, why = self._compared(slo, value, point)
        held = intervals_held(rates, self._bound(slo))
        seen = format_duration(course[-len(last)].start_ns - course[0].start_ns)
        why = (
            f"{why}: it held for {format_duration(course[held - 1].end_ns - course[0].start_ns)} only, a burst"
            if verdict == "failed" and held
            else f"{why} after {seen}; a burst of up to that length would have ended"
        )
        judged = found.replace(verdict=verdict, value=mean.mean, low=value.low, high=value.high, why=why, points=names)
        return self._excused(judged, point, _thirds(last)) if verdict == "failed" else judged

    def _hidden(self, found: JudgedSlo, points: Sequence[Point]) -> JudgedSlo:
        """A baseline that is exceeded because credits are left has not been seen."""
        slo = found.slo
        bursts = [one for one in self.request.agreement.slos if one.measure == "burst_iops"]
        if slo.measure != "iops" or not bursts or (found.value or 0.0) <= slo.bound * CLIENT_MARGIN:
            return found
        if self._has_spent_credits([one for one in self.campaign.result.points if one.family == BURST] + [*points]):
            return found
        why = f"{found.why}: a burst hides the baseline; --burst-time must outlast the credits"
        return found.replace(verdict="inconclusive", why=why)

    def _has_spent_credits(self, points: Sequence[Point]) -> bool:
        """True if the points did more operations beyond the baseline than there are credits: what is left is no burst.

        Credits are stated as the length of a burst.
        """
        lengths = [one for one in self.request.agreement.slos if one.measure == "burst_s"]
        if not lengths:
            return False
        rate, baseline = lengths[0].burst_iops or 0.0, lengths[0].baseline_iops or 0.0
        spent = sum((one.summary().iops - baseline) * one.summary().window_ns / SECOND_NS for one in points)
        return spent > (rate - baseline) * lengths[0].bound

    def _excused(self, found: JudgedSlo, point: Point, runs: Sequence[float]) -> JudgedSlo:
        """An SLO that seems to be broken is inconclusive where the client or this machine may be why."""
        client, is_shown = self._of_this_client(found, point)
        excuse = ("" if _agree(runs) else _disturbed(point)) or self._limited_client(found, point)
        if excuse and not is_shown:
            return found.replace(verdict="inconclusive", why=f"{found.why}; {excuse}")
        return found.replace(verdict="not_delivered", why=f"{found.why}; {client}") if client else found

    def _of_this_client(self, found: JudgedSlo, point: Point) -> tuple[str, bool]:
        """The reason why the limit may be one of this client or of the way to it; empty where another has it, too.

        A local disk has one client. A machine whose network is known to carry the SLO is excluded by that. The
        second value is True where another address got so much more that other work on this machine cannot be why.
        """
        facts, slo = self.opened.facts, found.slo
        is_mounted = facts.mount is not None and facts.mount.file_system.startswith("nfs")
        if not is_mounted and facts.kind not in ("nfs", "embedded_volume"):
            return "", False
        together = self._elsewhere(slo, point)
        if together is None:
            needed = slo.bound * (MIB if slo.measure == "mib_per_s" else slo.block_bytes)
            carries = (self.request.network_bytes_per_s or 0) >= CLIENT_MARGIN * needed
            return "" if carries else "no other client was measured, nor is this one's network known (--vm)", False
        gain, had = together / (found.value or 1.0), value_text(slo.measure, together)
        if gain <= 1 + GROWS:
            return "", False
        return f"two addresses had {had} together: the limit is one of each client", gain >= CLIENT_GAIN

    def _elsewhere(self, slo: Slo, point: Point) -> float | None:
        """The value of the load from two other addresses of this machine; None where the server would not see them."""
        plan = MORE_CLIENTS.apply(point.plan)
        if plan is None:
            return None
        return _value_of(slo, self.campaign.repeat(plan, "measuring from other addresses"))

    def _limited_client(self, found: JudgedSlo, point: Point) -> str:
        slo = found.slo
        limit = verdict_of(point, self.opened.facts)
        if limit and kind_of(limit.code).is_of_client and is_sure(limit):
            return f"{limit.text} ({limit.confidence})"
        network = self.request.network_bytes_per_s
        needed = slo.bound * (MIB if slo.measure == "mib_per_s" else slo.block_bytes)
        if slo.kind == "write" and network is not None and network < needed:
            return f"this client delivers only {value_text('mib_per_s', network / MIB)} of writes"
        carried = self._client_has(slo, found.depth or DEPTHS[0])
        if carried < slo.bound * CLIENT_MARGIN:
            return f"this client delivers only {value_text(slo.measure, carried)} of this load"
        return ""

    def _client_has(self, slo: Slo, depth: int) -> float:
        """The value of the load on a volume without limits on this machine: the client carries at least that."""
        key = slo.workload, None if slo.is_least else slo.depth
        if key not in self._of_client:
            workload, defaults = workload_of(slo.workload)
            with opened_target.opened(targets.parse("volume:unlimited")) as volume:
                effort = self.request.effort
                loads = Loads(volume, workload, defaults, CLIENT_SIZE, effort, self.campaign, "client")
                try:
                    self._of_client[key] = loads.aside(depth, CLIENT_S, "measuring what this client carries")
                finally:
                    loads.files.remove(None)
        return _value_of(slo, self._of_client[key])

    # ---- bursts

    def _burst(self, slo: Slo, loads: Loads) -> JudgedSlo:
        """The rate of a burst by the intervals in which it held, and its length by the first that no longer had it."""
        point, is_short = self._burst_point(loads)
        course = point.course()
        rates = [interval.iops for interval in course]
        held = intervals_held(rates, ((slo.burst_iops or 0.0) + (slo.baseline_iops or 0.0)) / 2)
        if slo.measure == "burst_iops":
            return self._burst_rate(slo, point, rates[: max(held, MEDIAN_OF)])
        if not held:
            return _untold(slo, "the rate of the burst was not reached", (point.name,))
        length_s, step_s = course[held - 1].end_ns / SECOND_NS, (course[0].end_ns - course[0].start_ns) / SECOND_NS
        high_s = length_s + step_s if held < len(course) else math.inf
        needed_s = slo.bound * BURST_LENGTH * (1 - self.request.tolerance)
        verdict: Verdict = "passed" if length_s >= needed_s else "failed" if high_s < needed_s else "inconclusive"
        lasted = value_text("burst_s", length_s)
        why = f"the burst ended after {lasted}" if held < len(course) else f"it held to the end, for {lasted}"
        if is_short and verdict == "inconclusive":
            why += f"; --burst-time {math.ceil(slo.bound)}s decides it"
        found = _of_burst(slo, verdict, Value(length_s, length_s, high_s), why, point)
        # A limit shows in a level that stays where the burst ended, also where others disturbed the run.
        is_clear = _agree(_thirds(rates[:held])) and _agree(_thirds(rates[held + 1 :]))
        excuse = _disturbed(point) if verdict == "failed" and not is_clear else ""
        return found.replace(verdict="inconclusive", why=f"{why}; {excuse}") if excuse else found

    def _burst_point(self, loads: Loads) -> tuple[Point, bool]:
        """One run serves the rate and the length; True if it is shorter than the agreed length."""
        lengths = [one.bound for one in self.request.agreement.slos if one.measure == "burst_s"]
        length_s = max(lengths, default=self.request.burst_s) * BURST_RUN
        measured = next((one for one in self.campaign.result.points if one.family == BURST), None)
        if measured is None:
            loads.label, loads.family = f"{BURST}: ", BURST
            # The layout of files takes its own time, and leaves the credits alone.
            measured = loads.for_time(DEPTHS[1], min(length_s, self.request.burst_s))
        return measured, length_s > self.request.burst_s

    def _burst_rate(self, slo: Slo, point: Point, rates: Sequence[float]) -> JudgedSlo:
        if len(rates) < MEDIAN_OF:
            return _untold(slo, "the burst was too short for an interval", (point.name,))
        mean = sample_mean(list(rates))
        value = Value(mean.mean, mean.mean - mean.half_width, mean.mean + mean.half_width)
        verdict, why = self._compared(slo, value, point)
        found = _of_burst(slo, verdict, value, why, point)
        return self._excused(found, point, _thirds(rates)) if verdict == "failed" else found

    # ---- latencies

    def _latency(self, slo: Slo, loads: Loads) -> JudgedSlo:
        points: list[Point] = []
        while len(points) < RUNS:
            loads.effort = self._effort(len(points))
            points.append(loads.closed_point(slo.depth or 1))
            found = min((self._found(slo, one, points) for one in points), key=lambda one: one.value or math.inf)
            if found.verdict == "passed":
                return self._contradicted(found, points)
        excuse = ""
        if found.verdict == "failed":
            values = [self._found(slo, one, points).value or 0.0 for one in points]
            own = self._client_has(slo, slo.depth or 1)
            if not _agree(values):
                excuse = _disturbed(points[-1])
            if own * CLIENT_MARGIN > slo.bound:
                excuse = f"this client alone takes {value_text(slo.measure, own)}"
        return found.replace(verdict="inconclusive", why=f"{found.why}; {excuse}") if excuse else found

    # ---- judging

    def _contradicted(self, found: JudgedSlo, points: Sequence[Point]) -> JudgedSlo:
        """An SLO that one run keeps is inconclusive where another broke it, and neither depth nor others are why."""
        for point in points:
            stall = stalls.of_target(point)
            counts = stall is not None or (not found.slo.is_least and not point.noise)
            verdict, _, value = self._check(found.slo, point)
            if counts and verdict == "failed" and value:
                had = value_text(found.slo.measure, float(value.value))
                stalled = f": the target stalled for {format_latency(stall[1])}" if stall else ""
                return found.replace(verdict="inconclusive", why=f"{found.why}; another run had {had}{stalled}")
        return found

    def _found(self, slo: Slo, point: Point, points: Sequence[Point]) -> JudgedSlo:
        verdict, why, value = self._check(slo, point)
        limit = verdict_of(point, self.opened.facts)
        found = JudgedSlo(
            slo=slo,
            verdict=verdict,
            value=float(value.value) if value and not isinstance(value.value, str) else None,
            low=value.low if value else None,
            high=value.high if value else None,
            why=why,
            points=tuple(one.name for one in points),
            depth=int(point.axes.get("depth", 0)) or None,
            limited_by=f"{limit.text} ({limit.confidence})" if limit and is_sure(limit) else "",
        )
        return _with_worst(found, points)

    def _check(self, slo: Slo, point: Point) -> tuple[Verdict, str, Value | None]:
        values = PointValues(self.campaign.result, point)
        name = Vocabulary.of(self.campaign.result).name(slo.measure, 1)
        value = values.of(name)
        if value is None:
            return "inconclusive", "nothing was measured", None
        verdict, why = self._compared(slo, value, point)
        return verdict, why, value

    def _compared(self, slo: Slo, value: Value, point: Point) -> tuple[Verdict, str]:
        """An SLO is an expression that must not hold, such as ``mib_per_s < 125.44``."""
        figure = "iops" if slo.measure == "burst_iops" else slo.measure
        unit = "us" if not slo.is_least else ""
        text = f"{figure} {'<' if slo.is_least else '>'} {self._bound(slo):.6f}{unit}"
        (expression,) = parse_all([text], Vocabulary.of(self.campaign.result))
        found = judged(text, point.name, expression.condition, lambda _: value)
        if found is None:
            return "inconclusive", "nothing was measured"
        is_bounded = value.low is not None and value.high is not None
        if found.verdict == "failed" and not is_bounded:
            return "inconclusive", "too few values for an interval"
        return found.verdict, _sentence(slo, value, found.verdict, self.request.tolerance)

    def _bound(self, slo: Slo) -> float:
        tolerance = self.request.tolerance
        return slo.bound * (1 - tolerance if slo.is_least else 1 + tolerance)


def _sentence(slo: Slo, value: Value, verdict: Verdict, tolerance: float) -> str:
    ratio = float(value.value) / slo.bound
    share = f"{100 * ratio:.1f} % of the SLO"
    if verdict == "passed":
        return share
    if verdict == "failed":
        return f"{share}, beyond the tolerance of {100 * tolerance:g} %"
    return f"{share}; the interval spans the bound"


def _value_of(slo: Slo, point: Point) -> float:
    """The value of an SLO at a point, in the unit of the SLO."""
    figures = point.figures
    values = {"mib_per_s": figures.mib_per_s, "mean": figures.mean_us, "p99": figures.p99_us}
    return values.get(slo.measure, figures.iops) or 0.0


def _of_burst(slo: Slo, verdict: Verdict, value: Value, why: str, point: Point) -> JudgedSlo:
    found = JudgedSlo(
        slo=slo,
        verdict=verdict,
        value=float(value.value),
        low=value.low,
        high=value.high,
        why=why,
        points=(point.name,),
        depth=DEPTHS[1],
    )
    return _with_worst(found, [point])


def _with_worst(found: JudgedSlo, points: Sequence[Point]) -> JudgedSlo:
    """The SLO with what tells of all its runs."""
    values = [_value_of(found.slo, one) for one in points]
    is_burst = found.slo.measure in ("burst_iops", "burst_s")
    return found.replace(
        worst=None if is_burst else min(values) if found.slo.is_least else max(values),
        longest_us=max(one.summary().latency.max_ns for one in points) / MICROSECOND_NS,
        stalled=any(stalls.of_target(one) for one in points),
    )


def intervals_held(rates: Sequence[float], least: float) -> int:
    """The number of intervals before the rate stays below ``least``: a few slow intervals end no burst."""
    for place in range(len(rates)):
        if median(rates[place : place + MEDIAN_OF]) < least and rates[place] < least:
            return place
    return len(rates)


def _thirds(rates: Sequence[float]) -> list[float]:
    """The means of the first, the second and the last third; none of fewer than three rates."""
    size = len(rates) // 3
    return [fmean(rates[place * size : (place + 1) * size]) for place in range(3)] if size else []


def _agree(runs: Sequence[float]) -> bool:
    return len(runs) >= RUNS and min(runs) > 0 and max(runs) / min(runs) - 1 <= AGREE


def _disturbed(point: Point) -> str:
    return f"others disturbed it: {point.noise}" if point.noise else ""


def _untold(slo: Slo, why: str, points: tuple[str, ...]) -> JudgedSlo:
    return JudgedSlo(slo=slo, verdict="inconclusive", value=None, low=None, high=None, why=why, points=points)

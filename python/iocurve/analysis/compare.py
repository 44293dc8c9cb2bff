"""Compares results: what is faster, slower, not different, or inconclusive, for each point and figure.

::

    comparison = compare(base, other)              # two or more results; the first is the base
    comparison = compare_turns(result)             # the points of one result that took turns
    for one in comparison.differences:
        print(one.point, one.name, one.change_percent, one.low_percent, one.high_percent, one.verdict)

A check such as ``p99 change > 5%`` takes the differences whose ``name`` is ``p99_us`` (names as in
``iocurve.result.figures``) and compares its bound with the interval from ``low_percent`` to ``high_percent``: beyond
the bound if the whole interval is, not beyond it if none of it is, and is inconclusive otherwise or where a bound of
the interval is None. ``change_percent`` of a latency is positive where latency rose; ``verdict`` then says slower.

Points that took turns are compared by their pairs (``iocurve.result.paired``). Other points have an interval each: of
the rate from the intervals of the run with their correlation, of a percentile from order statistics
(``iocurve.result.percentiles``), or of either from the turns of the point. The interval of the ratio follows from the
two (the method of variance estimates recovery: G. Y. Zou, A. Donner, "Construction of confidence limits about effect
measures: a general approach", Statistics in Medicine 27, 2008), on the scale of logarithms.

All differences of a comparison are wrong together at most as often as one alone would be: Holm's correction (S. Holm,
"A simple sequentially rejective multiple test procedure", Scandinavian Journal of Statistics 6, 1979).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from statistics import fmean, stdev
from string import ascii_uppercase

import msgspec
from msgspec.structs import replace

from iocurve.analysis.matching import Unmatched, matched
from iocurve.engine.plan import FLUSH_KINDS
from iocurve.foundation.errors import ResultError
from iocurve.foundation.units import SECOND_NS
from iocurve.result.document import OWN_LIMITS, Point, Result, Turn
from iocurve.result.figures import LATENCY_NAMES, RESPONSE, of_kind, plain
from iocurve.result.paired import MARGIN, PAIRS_MIN, RatePair, RateRatio, Verdict, confidence_of_turns, rate_ratio
from iocurve.result.percentiles import independent_operations, percentile_interval
from iocurve.result.stats import CONFIDENCE, Bounded, compared_half_width, student_quantile, values_missing

CORRECTION = "Holm"
RESOLUTION = 1e-3
"""Relative width of a bucket of the histograms, by which bounds of percentiles are widened."""
NAMES = ("iops", "p50_us", "p99_us", "p99_9_us", "cpu_us_per_operation")
"""The figures that are compared. Under a rate the percentiles are those of response latencies."""
KIND_FIGURES = NAMES[:-1]
"""The figures that are compared of each kind of operation where a point has several: ``read_p99_us``."""
SINGLE_RUN = (
    "The interval of a point that ran once holds the variation within that run, and not the differences between runs: "
    "iocurve ab interleaves the runs of both."
)


class Difference(msgspec.Struct, frozen=True):
    """The difference of one figure of a point from that of its base."""

    point: str
    """Name of the point in the base."""
    family: str
    other: int
    """Index of the result that is compared with the base, from 1; 1 for points of one result."""
    other_point: str
    """Name of the point that is compared."""
    name: str
    """``iops``, ``p99_us``, ``response_p99_us``, …"""
    base_value: float
    value: float
    speed: RateRatio
    """Speed relative to the base: the ratio of rates, or the inverse ratio of latencies or CPU times."""
    confidence: float
    """Confidence level of the interval, such that all intervals of the comparison hold together."""
    noise: str | None = None
    """Disturbance of one of the points by others; None without one."""
    is_disturbed_run: bool = False
    """One of the points ran once and was disturbed, which its interval does not hold: there is no verdict."""

    @property
    def is_rate(self) -> bool:
        """More is faster."""
        return of_kind(self.name)[1] == "iops"

    @property
    def verdict(self) -> Verdict:
        """``faster``, ``slower``, ``no difference`` or ``inconclusive``."""
        return "inconclusive" if self.is_disturbed_run else self.speed.verdict

    @property
    def verdict_text(self) -> str:
        """The verdict with the margin and with doubts: ``faster, by less than 10 %``."""
        if self.is_disturbed_run:
            return "inconclusive: measured once, and noisy"
        return ", ".join(filter(None, (self.speed.verdict_text, self._power_text, self.noise and "noisy")))

    @property
    def _power_text(self) -> str:
        """``4.2 % would have shown``, of a verdict that there is no difference."""
        found = self.detectable_percent if self.verdict == "no difference" else None
        return "" if found is None else f"{found:.2g} % would have shown"

    @property
    def detectable_percent(self) -> float | None:
        """The change, in percent, that 8 of 10 such comparisons would have found: the power is 80 %.

        None where the interval is open.
        """
        found = None if self.is_disturbed_run else self.speed.detectable
        return None if found is None else 100 * found

    @property
    def change_percent(self) -> float:
        """By how much the figure is larger than that of the base."""
        return self._percent(self.speed.value)

    @property
    def low_percent(self) -> float | None:
        """Lower bound of the change; None if it is unknown."""
        return self._bound(self.speed.low if self.is_rate else self.speed.high)

    @property
    def high_percent(self) -> float | None:
        """Upper bound of the change; None if it is unknown."""
        return self._bound(self.speed.high if self.is_rate else self.speed.low)

    def to_record(self) -> dict[str, int | float | str | None]:
        """The difference as one flat record."""
        return {
            "point": self.point,
            "series": self.family,
            "other": self.other,
            "other_point": self.other_point,
            "figure": self.name,
            "base_value": self.base_value,
            "value": self.value,
            "change_percent": self.change_percent,
            "change_low_percent": self.low_percent,
            "change_high_percent": self.high_percent,
            "detectable_percent": self.detectable_percent,
            "confidence": self.confidence,
            "verdict": self.verdict,
            "verdict_text": self.verdict_text,
            "noise": self.noise,
        }

    def _percent(self, speed: float) -> float:
        return 100 * ((speed if self.is_rate else 1 / speed) - 1)

    def _bound(self, speed: float | None) -> float | None:
        return self._percent(speed) if speed else None


class Comparison(msgspec.Struct, frozen=True):
    """All differences of results from the first of them, or of points of one result from the first of their turns."""

    results: tuple[Result, ...]
    differences: tuple[Difference, ...]
    """By point, then by result, then by figure."""
    unmatched: tuple[Unmatched, ...]
    """Points without a partner."""
    margin: float
    """Smallest relative difference that matters: 0.1 is 10 %."""
    has_single_runs: bool
    """A point ran once and has an interval, which does not hold what differs from run to run."""

    @property
    def tested(self) -> int:
        """The number of differences that have an interval."""
        bounded = [one for one in self.differences if one.speed.low is not None or one.speed.high is not None]
        return sum(not one.is_disturbed_run for one in bounded)

    def to_records(self) -> list[dict[str, int | float | str | None]]:
        """One flat record per difference, for tables: ``pandas.DataFrame(comparison.to_records())``."""
        return [one.to_record() for one in self.differences]

    def of(self, name: str) -> list[Difference]:
        """The differences of one figure; response latencies are found under the plain name too."""
        return [one for one in self.differences if name in (one.name, plain(one.name))]


def label(place: int) -> str:
    """``A`` for the first result, ``AA`` for the 27th."""
    return ascii_uppercase[place % 26] * (1 + place // 26)


def compare(base: Result, *others: Result, margin: float = MARGIN) -> Comparison:
    """Compares results with the first, point by point.

    Points are matched by name, family and axes, and where these differ by the load of their plans. ``margin`` is the
    smallest relative difference that matters. Raises ``ResultError`` where no point has a partner.
    """
    tests, unmatched = [], []
    for number, other in enumerate(others, start=1):
        pairs, missing = matched(base, other, number)
        unmatched += missing
        tests += [test for one, partner in pairs for test in _tests(one, partner, number, margin, is_paired=False)]
    if not tests:
        raise ResultError("nothing to compare: no two points have the same name or the same load")
    order = {point.name: place for place, point in enumerate(base.points)}
    tests.sort(key=lambda test: (order[test.base.name], test.number))
    return _compared((base, *others), tests, unmatched, margin)


def compare_turns(result: Result, margin: float = MARGIN) -> Comparison:
    """Compares the points of a result that took turns with the first of them. Raises ``ResultError`` without such."""
    points = {point.name: point for point in result.points}
    bases = {point.name: points.get(point.compared_with[0]) for point in result.points if point.compared_with}
    tests = [
        test
        for point in result.points
        if (base := bases.get(point.name)) is not None and base is not point
        for test in _tests(base, point, 1, margin, is_paired=True)
    ]
    if not tests:
        raise ResultError(f"{result.name}: no points have interleaved runs; name two results to compare")
    return _compared((result,), tests, [], margin)


def figure_interval(
    point: Point, name: str, confidence: float = CONFIDENCE, *, with_turns: bool = True
) -> Bounded | None:
    """A figure of a point with its interval: from the turns of the point, or from its one run; None without the figure.

    Turns keep the latency that users see: response under a rate, and service otherwise. ``with_turns`` False leaves
    them out.
    """
    value, (kind, figure) = _value(point, name), of_kind(plain(name))
    if value is None:
        return None
    turns = [_turn_value(turn, name) for turn in _finished(point)] if with_turns else []
    known = [one for one in turns if one]
    if len(known) >= PAIRS_MIN and len(known) == len(turns):
        logs = [math.log(one) for one in known]
        half = student_quantile(len(logs) - 1, confidence) * stdev(logs) / math.sqrt(len(logs))
        return Bounded(value, value * math.exp(-half), value * math.exp(half))
    if kind and point.runs:
        return Bounded(value, None, None)
    if figure == "iops":
        rates = [one.iops for one in point.course(kind)]
        half = compared_half_width(rates, point.length_chosen_by, confidence) / (fmean(rates) if any(rates) else 1)
        return Bounded(
            value, value * (1 - half) if half < 1 else None, value * (1 + half) if math.isfinite(half) else None
        )
    return Bounded(value, *(_percentile_bounds(point, name, confidence) if figure in LATENCY_NAMES else (None, None)))


def _value(point: Point, name: str) -> float | None:
    kind, figure = of_kind(name)
    found = getattr(point.figures if kind is None else point.kind_figures.get(kind), figure, None)
    return float(found) if found else None


def _percentile_bounds(point: Point, name: str, confidence: float) -> tuple[float | None, float | None]:
    """In µs, widened by the resolution of the histogram."""
    kind, figure = of_kind(name)
    percent = LATENCY_NAMES[plain(figure)]
    count = independent_operations(point, percent, kind)
    if count is None:
        return None, None
    totals = point.summary() if kind is None else point.summary().kinds[kind]
    latency = (totals.response if figure.startswith(RESPONSE) else None) or totals.service
    low, high = percentile_interval(latency, percent, count, confidence)
    return low and low * (1 - RESOLUTION) / 1000, high and high * (1 + RESOLUTION) / 1000


class _Test(msgspec.Struct, frozen=True):
    """A figure of two points that has yet to be compared."""

    base: Point
    point: Point
    number: int
    name: str
    margin: float
    is_paired: bool
    """The points took turns with each other."""

    @property
    def figure(self) -> str:
        """The figure without its kind and the mark of response latencies."""
        return of_kind(plain(self.name))[1]

    def value(self, point: Point) -> float | None:
        """The figure of a point; None where it has none."""
        return _value(point, self.name)

    def speed(self, confidence: float) -> RateRatio | None:
        """The speed relative to the base; None where one of the figures is missing."""
        own, base = self.value(self.point), self.value(self.base)
        if own is None or base is None:
            return None
        pairs = self._pairs() if self.is_paired else []
        level = confidence_of_turns(confidence, are_chosen=self.point.runs_chosen)
        found = rate_ratio(pairs, self.margin, level) if len(pairs) >= PAIRS_MIN else self._unpaired(confidence)
        if found is None:
            return None
        doubt = found.doubt.replace("the rates of the runs", "the runs")
        return replace(found, own_limit=self._own_limit(), doubt=doubt)

    def _pairs(self) -> list[RatePair]:
        """The pairs of rounds in which both ran, slower over faster, so that their ratio is one of speeds."""
        turns = {turn.repetition: turn for turn in _finished(self.base)}
        pairs = []
        for turn in _finished(self.point):
            if turn.repetition in turns:
                own, base = _turn_value(turn, self.name), _turn_value(turns[turn.repetition], self.name)
                if own is None or base is None:
                    return []
                values = (own, base) if self.figure == "iops" else (base, own)
                resolution = self._resolution(turn, own) + self._resolution(turns[turn.repetition], base)
                pairs.append(RatePair(*values, turn.order, turns[turn.repetition].order, resolution))
        return pairs

    def _resolution(self, turn: Turn, value: float) -> float:
        """Relative error that counts leave in a rate, and the histogram in a latency."""
        if self.figure == "iops":
            return turn.resolution(value)
        return RESOLUTION if self.figure in LATENCY_NAMES else 0.0

    def _unpaired(self, confidence: float) -> RateRatio:
        own, base = self.bounded(self.point, confidence), self.bounded(self.base, confidence)
        if self.figure != "iops":
            own, base = base, own
        doubt = "" if None not in (*own, *base) else self._doubt(confidence)
        low, high = ratio_bounds(own, base)
        found = RateRatio(own.value / base.value, low, high, self.margin, doubt if low is None or high is None else "")
        if found.verdict == "inconclusive" and not found.doubt and self.figure == "iops":
            return replace(found, doubt=self._shortage())
        return found

    def _shortage(self) -> str:
        """The further measured time that a rate needs before its events or its level are known; empty for none."""
        kind, seconds = of_kind(self.name)[0], 0.0
        for point in (self.base, self.point):
            course = [] if point.runs else point.course(kind)
            missing = values_missing([one.iops for one in course]) if course else 0
            seconds = max(seconds, missing * course[0].length_ns / SECOND_NS if course else 0.0)
        return f"not enough data: at least {math.ceil(seconds)} s more" if seconds else ""

    def bounded(self, point: Point, confidence: float) -> Bounded:
        """The figure of a point with its interval."""
        found = figure_interval(point, self.name, confidence, with_turns=self._counts_alike)
        assert found is not None, "points without the figure are not compared"
        return found

    @property
    def _counts_alike(self) -> bool:
        """Turns keep the latency that users see: response under a rate, and service otherwise."""
        summaries, (kind, _) = [point.summary() for point in (self.base, self.point)], of_kind(self.name)
        seen = [one.kinds[kind] if kind else one for one in summaries]
        is_response = [one.response is not None for one in seen]
        return self.figure not in LATENCY_NAMES or is_response[0] == is_response[1]

    def _doubt(self, confidence: float) -> str:
        if self.figure == "cpu_us_per_operation":
            return "measured once"
        both = [self.bounded(point, confidence) for point in (self.base, self.point)]
        without = [point for point in (self.base, self.point) if not point.course()]
        if without:
            tool = without[0].imported and without[0].imported.tool
            return f"imported: {tool} states no time series" if tool else "no time series"
        if all(one.low is None for one in both) or self.figure == "iops":
            return self._shortage() or "too few intervals, or rates that wander"
        return "too few operations for a bound"

    def _own_limit(self) -> str:
        limits = [one.limit for one in (self.point, self.base) if one.limit and one.limit.code in OWN_LIMITS]
        return limits[0].short_name if limits else ""

    def difference(self, speed: RateRatio, confidence: float) -> Difference:
        """The difference with its interval."""
        base, value = self._values(speed)
        return Difference(
            point=self.base.name,
            family=self.base.family,
            other=self.number,
            other_point=self.point.name,
            name=self.name,
            base_value=base,
            value=value,
            speed=speed,
            confidence=confidence,
            noise=self.point.noise or self.base.noise,
            is_disturbed_run=self.is_disturbed_run,
        )

    def _values(self, speed: RateRatio) -> tuple[float, float]:
        """The figures of the base and of the point, of one origin with their ratio: the turns, or the merged runs."""
        base, value = self.value(self.base), self.value(self.point)
        assert base is not None, "compared"
        assert value is not None, "compared"
        pairs = self._pairs() if self.is_paired else []
        if len(pairs) < PAIRS_MIN or not speed.value:
            return base, value
        is_rate = self.figure == "iops"
        known = [one for pair in pairs if (one := pair.base if is_rate else pair.rate)]
        # The ratio is one of means of logarithms, and so are the figures.
        typical = math.exp(fmean(map(math.log, known)))
        return typical, typical * (speed.value if is_rate else 1 / speed.value)

    @property
    def is_disturbed_run(self) -> bool:
        """Noise in a single run is not in its interval."""
        return any(point.noise and len(point.runs) < PAIRS_MIN for point in (self.base, self.point))


def _tests(base: Point, point: Point, number: int, margin: float, *, is_paired: bool) -> Iterator[_Test]:
    """The figures of two points that are compared."""
    is_paced = all(one.summary().response is not None for one in (base, point))
    names = [RESPONSE + name if is_paced and name in LATENCY_NAMES else name for name in NAMES]
    for name in (*names, *_names_of_kinds(base, point)):
        yield _Test(base, point, number, name, margin, is_paired)


def _names_of_kinds(base: Point, point: Point) -> Iterator[str]:
    """The figures of each kind that both points have; of a single kind they are those of the points."""
    both = [one.kind_figures for one in (base, point)]
    if all(len(kinds.keys() - FLUSH_KINDS) == 1 for kinds in both):
        return
    for kind in both[0]:
        if kind in both[1] and kind not in FLUSH_KINDS:
            is_paced = all(kinds[kind].response_p50_us is not None for kinds in both)
            for name in KIND_FIGURES:
                yield f"{kind}_{RESPONSE if is_paced and name in LATENCY_NAMES else ''}{name}"


def _compared(
    results: tuple[Result, ...], tests: Sequence[_Test], unmatched: Sequence[Unmatched], margin: float
) -> Comparison:
    found = _corrected(tests)
    differences = tuple(test.difference(*one) for test, one in zip(tests, found, strict=True) if one is not None)
    once = any(not point.runs for test in tests for point in (test.base, test.point))
    return Comparison(results, differences, tuple(unmatched), margin, once)


def _corrected(tests: Sequence[_Test]) -> list[tuple[RateRatio, float] | None]:
    """The ratios, each with its confidence level: Holm's procedure, in which all tests of a step share a level.

    Tests that found a difference leave the level of theirs to the others, which are then tested again.
    """
    found = [(figure, CONFIDENCE) if (figure := test.speed(CONFIDENCE)) else None for test in tests]
    waiting = [
        place
        for place, one in enumerate(found)
        if one is not None and _is_tested(one[0]) and not tests[place].is_disturbed_run
    ]
    while waiting:
        confidence = 1 - (1 - CONFIDENCE) / len(waiting)
        for place in waiting:
            figure = tests[place].speed(confidence)
            assert figure is not None, "it was there at another level"
            found[place] = (figure, confidence)
        left = [place for place in waiting if not _is_different(found[place])]
        if len(left) == len(waiting):
            break
        waiting = left
    return found


def _is_tested(figure: RateRatio) -> bool:
    return not figure.own_limit and (figure.low is not None or figure.high is not None)


def _is_different(one: tuple[RateRatio, float] | None) -> bool:
    return one is not None and one[0].verdict in ("faster", "slower")


def ratio_bounds(own: Bounded, base: Bounded) -> tuple[float | None, float | None]:
    """The bounds of the ratio of two independent figures; None on a side where one of theirs is unknown."""
    middle = math.log(own.value / base.value)
    low = high = None
    if own.low and base.high:
        low = middle - math.hypot(math.log(own.value / own.low), math.log(base.high / base.value))
    if own.high and base.low:
        high = middle + math.hypot(math.log(own.high / own.value), math.log(base.value / base.low))
    return None if low is None else math.exp(low), None if high is None else math.exp(high)


def _finished(point: Point) -> list[Turn]:
    return [turn for turn in point.runs if turn.state == "finished"]


def _turn_value(turn: Turn, name: str) -> float | None:
    """A figure of a turn under its name; None where the turn has none."""
    kind, figure = of_kind(plain(name))
    if kind:
        of_turn = turn.kinds.get(kind)
        return getattr(of_turn, RESPONSE + figure, None) or getattr(of_turn, figure, None) or None
    if figure in ("iops", "cpu_us_per_operation"):
        return float(getattr(turn, figure) or 0) or None
    nanoseconds = getattr(turn, f"{figure.removesuffix('_us')}_ns", None)
    return nanoseconds / 1000 if nanoseconds else None

"""Checks of a result: which points fail an expression, by how much, and where the intervals do not tell."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal

import msgspec

from iocurve.analysis.check_expressions import Condition, Expression, ValueComparison, comparisons
from iocurve.analysis.check_names import Name
from iocurve.analysis.check_values import PointValues, Value, found_value, interval_text, text_of
from iocurve.analysis.compare import Comparison as Comparisons
from iocurve.analysis.compare import Difference, label
from iocurve.analysis.doubts import missing_parts
from iocurve.engine.plan import FLUSH_KINDS
from iocurve.foundation.units import SECOND_NS, counted, format_duration, format_number
from iocurve.result.document import Point, Result
from iocurve.result.figures import plain

Verdict = Literal["failed", "inconclusive", "passed"]
TIMES_MIN = 10
"""From here on a value is a multiple of its bound, and not per cent above it."""
ValueOf = Callable[[Name], Value | None]


class Check(msgspec.Struct, frozen=True):
    """The outcome of one expression for one point, or for the result."""

    expression: str
    subject: str
    """Name of the point; empty for the whole result."""
    verdict: Verdict
    text: str
    """By how much it failed, or why it is inconclusive: ``p99 2.31 ms is 15.5 % above 2ms``."""


class Checks(msgspec.Struct, frozen=True):
    """The outcomes of all expressions, in their order and in that of the points."""

    all: tuple[Check, ...]
    incomplete: tuple[str, ...] = ()
    """The reasons why what is checked is no whole measurement; checks of the rest prove nothing then."""

    def of(self, verdict: Verdict) -> list[Check]:
        """The checks with a verdict."""
        return [check for check in self.all if check.verdict == verdict]

    @property
    def verdict(self) -> Verdict:
        """The worst of all verdicts: failed, then inconclusive."""
        found = {check.verdict for check in self.all}
        return "failed" if "failed" in found else "inconclusive" if "inconclusive" in found else "passed"

    @property
    def sentence(self) -> str:
        """``3 checks: 1 failed, 2 passed``."""
        words: dict[Verdict, str] = {"failed": "failed", "inconclusive": "inconclusive", "passed": "passed"}
        counts = ", ".join(f"{len(self.of(verdict))} {word}" for verdict, word in words.items() if self.of(verdict))
        return f"{counted(len(self.all), 'check')}: {counts}"


def check(result: Result, expressions: Iterable[Expression]) -> Checks:
    """Checks all points of a result. Points that lack a value of an expression are left out of it."""
    found = tuple(one for expression in expressions for one in _checked(result, expression))
    return Checks(found, tuple(missing_parts(result)))


def _checked(result: Result, expression: Expression) -> Iterator[Check]:
    if expression.is_of_result:
        found = judged(expression.text, "", expression.condition, lambda name: found_value(result, name))
        yield found or Check(expression.text, "", "inconclusive", "the search did not find the value")
        return
    is_empty = True
    for point in result.points:
        values = PointValues(result, point)
        one = judged(expression.text, point.name, expression.condition, values.of)
        if one is not None and _selects(expression.where, values.of):
            is_empty = False
            yield one
    if is_empty:
        why = "no point is selected and has these values" if expression.where else "no point has these values"
        yield Check(expression.text, "", "inconclusive", why)


def check_changes(comparison: Comparisons, expressions: Sequence[Expression]) -> Checks:
    """Checks a comparison: changes, and values of the points that are compared with those of the base.

    Points that lack a value of an expression are left out of it.
    """
    found = tuple(one for expression in expressions for one in _changed(comparison, expression))
    parts = [(place, text) for place, result in enumerate(comparison.results) for text in missing_parts(result)]
    several = len(comparison.results) > 1
    return Checks(found, tuple(f"{label(place)}: {text}" if several else text for place, text in parts))


def _changed(comparison: Comparisons, expression: Expression) -> Iterator[Check]:
    is_empty = True
    for (other, base_name, name), differences in _by_point(comparison).items():
        result = comparison.results[other if len(comparison.results) > 1 else 0]
        values = PointValues(result, next(point for point in result.points if point.name == name))
        changes = _by_name(differences, values.point)

        def value_of(
            name: Name, changes: dict[str, Difference] = changes, values: PointValues = values
        ) -> Value | None:
            if not name.is_change:
                return values.of(name)
            key = f"{name.kind}_{name.key}" if name.kind else name.key
            return _change(changes[key]) if key in changes else None

        number = f" (result {other + 1})" if len(comparison.results) > 2 else ""
        subject = f"{base_name}{number}" if name == base_name else f"{base_name} → {name}{number}"
        one = judged(expression.text, subject, expression.condition, value_of)
        if one is not None and _selects(expression.where, value_of):
            is_empty = False
            yield one
    if is_empty:
        yield Check(expression.text, "", "inconclusive", "no point that is compared has these values")


def _by_point(comparison: Comparisons) -> dict[tuple[int, str, str], list[Difference]]:
    found: dict[tuple[int, str, str], list[Difference]] = {}
    for one in comparison.differences:
        found.setdefault((one.other, one.point, one.other_point), []).append(one)
    return found


def _by_name(differences: Sequence[Difference], point: Point) -> dict[str, Difference]:
    """Differences of a point by name, with and without the mark of response latencies.

    Those of a point with one kind of operation are those of that kind, too.
    """
    found = {one.name: one for one in differences} | {plain(one.name): one for one in differences}
    kinds = point.kind_figures.keys() - FLUSH_KINDS
    if len(kinds) == 1:
        found |= {f"{kind}_{name}": one for name, one in found.items() for kind in kinds}
    return found


def _change(one: Difference) -> Value:
    """A change in percent. A bound that is not known excludes nothing, and a disturbed single run has none."""
    low, high = (None, None) if one.is_disturbed_run else (one.low_percent, one.high_percent)
    return Value(one.change_percent, -math.inf if low is None else low, math.inf if high is None else high)


def judged(expression: str, subject: str, condition: Condition, value_of: ValueOf) -> Check | None:
    """One check; None where a value is missing."""
    values = [(one, value_of(one.name)) for one in comparisons(condition)]
    if any(value is None for _, value in values):
        return None
    holds = _holds(condition, value_of)
    if holds is False:
        return Check(expression, subject, "passed", "")
    texts = [_text(one, value) for one, value in values if value and compared(one, value) is holds]
    return Check(expression, subject, "failed" if holds else "inconclusive", "; ".join(texts))


def compared(comparison: ValueComparison, value: Value) -> bool | None:
    """True or False as a comparison holds or not; None where the interval of the value spans the bound."""
    bound, relation = comparison.bound, comparison.relation
    if isinstance(bound, str) or isinstance(value.value, str):
        return (str(value.value) == bound) == (relation == "==")
    if relation in ("==", "!="):
        return (value.value == bound) == (relation == "==")
    low, high = (value.value, value.value) if value.low is None or value.high is None else (value.low, value.high)
    if relation in ("<", "<="):
        # As for the opposite relation, on the other side of 0.
        low, high, bound = -high, -low, -bound
    is_strict = relation in (">", "<")
    if low > bound or (low == bound and not is_strict):
        return True
    return False if high < bound or (high == bound and is_strict) else None


def _holds(condition: Condition, value_of: ValueOf) -> bool | None:
    """Three-valued: True, False, or None where it is unknown (Kleene's logic). A missing value is False."""
    if isinstance(condition, ValueComparison):
        value = value_of(condition.name)
        return compared(condition, value) if value else False
    found = [_holds(part, value_of) for part in condition.parts]
    decisive = condition.operator == "or"
    if decisive in found:
        return decisive
    return None if None in found else not decisive


def _selects(where: Condition | None, value_of: ValueOf) -> bool:
    """True for a selected point. The filter takes values as they are, without their intervals."""

    def plain(name: Name) -> Value | None:
        value = value_of(name)
        return Value(value.value) if value else None

    return where is None or _holds(where, plain) is True


def _text(comparison: ValueComparison, value: Value) -> str:
    """``p99 2.31 ms is 15.5 % above 2ms (95 %: 2.2 ms to 2.4 ms)``."""
    name, bound, literal = comparison.name, comparison.bound, comparison.literal
    what = f"{name.text} change" if name.is_change else name.text
    if isinstance(bound, str) or isinstance(value.value, str):
        return f"{what} is {text_of(value.value, name.measure)}"
    shown = f"{what} {text_of(value.value, 'share' if name.is_change else name.measure)}"
    interval = interval_text(value, "share" if name.is_change else name.measure)
    if compared(comparison, value) is None:
        if not interval:
            return f"{shown} has no interval"
        more = _seconds_more(value, bound)
        needs = "" if more is None else f"; measure for about {format_duration(round(more) * SECOND_NS)} more"
        return f"{shown} ({interval}): {_undecided(name, value, bound) or f'the interval spans {literal}'}{needs}"
    distance = _distance(value.value, bound, name.is_change or name.measure == "share")
    return f"{shown} is {distance}{literal} ({interval})" if interval else f"{shown} is {distance}{literal}"


def _undecided(name: Name, value: Value, bound: float) -> str:
    """The reason why a value has no bound on the side of ``bound``; empty where its interval has both."""
    low, high = value.low, value.high
    if isinstance(value.value, str) or low is None or high is None:
        return ""
    side = "upper" if bound > value.value else "lower"
    if not math.isinf(high if side == "upper" else low):
        return ""
    if value.operations_wanted is None:
        return f"it has no {side} bound"
    return (
        f"{counted(value.operations, 'operation')} are too few for an {side} bound of {name.text}, "
        f"which takes {value.operations_wanted:,}"
    )


def _seconds_more(value: Value, bound: float) -> float | None:
    """The further measured time after which the interval would not span a bound; None where it is unknown or endless.

    The width of an interval falls with the root of the time.
    """
    if isinstance(value.value, str) or value.low is None or value.high is None or value.value == bound:
        return None
    reach = value.high - value.value if bound > value.value else value.value - value.low
    by_width = value.seconds * (reach / (bound - value.value)) ** 2
    wanted = value.seconds_wanted if math.isinf(reach) else by_width
    more = 0 if wanted is None else wanted - value.seconds
    return max(more, 1.0) if value.seconds and more > 0 else None


def _distance(value: float, bound: float, is_percent: bool) -> str:
    """``15.5 % above``, ``20 times``. A distance in per cent of 0, or of a value in per cent, says nothing."""
    if value == bound:
        return ""
    side = "above " if value > bound else "below "
    if not bound or is_percent:
        return side
    if value / bound >= TIMES_MIN:
        return f"{format_number(value / bound, 3)} times "
    return f"{format_number(100 * abs(value / bound - 1), 3)} % {side}"

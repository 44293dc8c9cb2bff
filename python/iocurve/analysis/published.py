"""Compares measured figures with published ones, and lists how the conditions differed."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from iocurve.analysis.gains import Gain, gain_of
from iocurve.analysis.load_names import axis_text
from iocurve.engine.plan import NfsEngine
from iocurve.foundation.units import MIB, MILLISECOND_NS, TIB, format_bytes, format_number
from iocurve.result.caps import EGRESS
from iocurve.result.document import Point, Result, TargetFacts
from iocurve.result.reference import PublishedFigure, Reference
from iocurve.result.summary import Totals

TOLERANCE = 0.02
"""Ratios within this fraction of 1 count as the same figure; published results lie 1 to 2 % around their limits."""


class PublishedComparison(msgspec.Struct, frozen=True):
    """A measured figure and the published one that belongs to it."""

    point: Point
    figure: PublishedFigure
    reference: Reference
    measured: float
    speed: float = 1.0
    """Fraction of its speed at which the target ran: its rates are this fraction of those at full speed."""
    gain: Gain | None = None
    """The measured gain with its interval, where the figure is a gain."""

    @property
    def bounds(self) -> tuple[float, float]:
        """The published figure, or both ends of its range, as the target shows it at its speed."""
        low, high = _ends(self.figure)
        return _at_speed(low, self.figure.unit, self.speed), _at_speed(high, self.figure.unit, self.speed)

    @property
    def ratio(self) -> float:
        """Measured to published, at the speed of the target; 1 within a published range."""
        low, high = self.bounds
        return self.measured / min(max(self.measured, low), high)

    @property
    def legend(self) -> str:
        """``published``; ``published × 0.1`` where the target ran at this fraction of its speed."""
        return "published" + (f" × {self.speed:.3g}" if self.expected_text else "")

    @property
    def expected_text(self) -> str:
        """The published figure at the speed of the target: ``46,000 IOPS``; empty where that is the figure itself."""
        if self.speed == 1 or self.figure.unit == "×":
            return ""
        return figure_text(*self.bounds, self.figure.unit)

    @property
    def is_same(self) -> bool:
        """Within the tolerance; a gain must have a verdict as well."""
        return abs(self.ratio - 1) <= TOLERANCE and (self.gain is None or self.gain.verdict != "inconclusive")


def comparisons_of(result: Result) -> list[PublishedComparison]:
    """All comparisons of a result, in the order of its points.

    A volume at a fraction of its speed is compared with the same fraction of published rates.
    """
    found = []
    for point in result.points:
        speed = result.target_of(point).speed or 1.0
        for reference in result.references:
            for figure in reference.of(point.family, dict(point.axes)):
                gain = _gain(point, result.points) if figure.unit == "×" else None
                measured = gain.value if gain else _measured(point, figure)
                if measured:
                    found.append(PublishedComparison(point, figure, reference, measured, speed, gain))
    return found


def differences(result: Result, reference: Reference) -> list[tuple[str, str, str]]:
    """The conditions that differed: name, as published, as measured. Conditions that the page omits are left out."""
    there = reference.conditions
    points = [point for point in result.points if reference.of(point.family, dict(point.axes))]
    rows = [
        ("service level", there.service_level, result.target.service_level or "not known"),
        ("speed", "full speed", f"{result.target.speed:.0%}" if result.target.speed else "full speed"),
        ("quota", there.quota, _quota(result.target)),
        ("clients", there.clients, _several(points, "clients") or "1"),
        ("client", there.client, _client(result)),
        (
            "client's egress",
            there.client_egress_mib_per_s and f"{there.client_egress_mib_per_s:,.0f} MiB/s",
            _egress(result.target),
        ),
        ("nconnect", there.nconnect, _several(points, "nconnect") or "none"),
        ("mount", there.mount, _mount(result)),
        ("operating system", there.operating_system, result.host.distribution if result.host else "not known"),
        ("data set", there.data_set, _data_set(points)),
        ("tool", there.tool, f"iocurve {result.iocurve}"),
    ]
    return [(what, str(said), here) for what, said, here in rows if said is not None and str(said) != here]


def lines_of(comparisons: Sequence[PublishedComparison]) -> list[str]:
    """A line for each family with published figures: ``published × 0.1, random-4k: 388,000 IOPS read (1.18 of it)``."""
    families: dict[tuple[str, float], list[str]] = {}
    for one in comparisons:
        kind = "" if one.figure.kind == "total" else f" {one.figure.kind}"
        place = " ".join(axis_text(axis, value) for axis, value in one.figure.axes.items() if axis != "read_percent")
        words = " ".join(filter(None, (figure_text(*_ends(one.figure), one.figure.unit) + kind, place)))
        families.setdefault((one.point.family, one.speed), []).append(f"{words} ({one.ratio:.2f} of it)")
    return [
        f"published{f' × {speed:.3g}' if speed != 1 else ''}, {family}: {', '.join(texts)}"
        for (family, speed), texts in families.items()
    ]


def _client(result: Result) -> str:
    if result.host is None:
        return "not known"
    return f"{result.host.cpus} processors, {format_bytes(result.host.memory_bytes)}; one machine"


def described(figure: PublishedFigure) -> str:
    """A published figure as the page gives it: ``about 12,800 IOPS``."""
    word = {"stated": "", "about": "about ", "derived": "worked out: "}[figure.how]
    return word + figure_text(*_ends(figure), figure.unit)


def figure_text(low: float, high: float, unit: str) -> str:
    """``12,800 IOPS``, ``2 to 4 ×``; no decimals from 100 on."""
    ends = dict.fromkeys(f"{value:,.0f}" if value >= 100 else format_number(value, 3) for value in (low, high))
    return f"{' to '.join(ends)} {unit}"


def _ends(figure: PublishedFigure) -> tuple[float, float]:
    return figure.value, figure.value if figure.value_max is None else figure.value_max


def _at_speed(value: float, unit: str, speed: float) -> float:
    """Rates are a fraction, latencies a multiple, and gains the same."""
    return value if unit == "×" else value / speed if unit == "ms" else value * speed


def _measured(point: Point, figure: PublishedFigure) -> float | None:
    summary = point.summary()
    totals: Totals | None = summary if figure.kind == "total" else summary.kinds.get(figure.kind)
    if totals is None or figure.unit == "×":
        return None
    return {"IOPS": totals.iops, "MiB/s": totals.mib_per_s, "ms": totals.latency.mean_ns / MILLISECOND_NS}[figure.unit]


def _gain(point: Point, points: Sequence[Point]) -> Gain | None:
    """IOPS relative to the same load with one connection; None where that was not measured."""
    axes = {name: value for name, value in point.axes.items() if name != "nconnect"}
    for other in points:
        others = {name: value for name, value in other.axes.items() if name != "nconnect"}
        if other.family == point.family and others == axes and other.axes.get("nconnect") == 1:
            return gain_of(point, other)
    return None


def _quota(target: TargetFacts) -> str:
    return f"{target.quota_bytes / TIB:g} TiB" if target.quota_bytes else "not known"


def _egress(target: TargetFacts) -> str:
    egress = target.cap(EGRESS)
    return f"{egress / MIB:,.0f} MiB/s" if egress else "not capped"


def _several(points: Sequence[Point], axis: str) -> str:
    return ", ".join(dict.fromkeys(str(point.axes[axis]) for point in points if axis in point.axes))


def _mount(result: Result) -> str:
    engines = [worker.engine for point in result.points for group in point.plan.groups for worker in group.workers]
    versions = sorted({engine.mount.version for engine in engines if isinstance(engine, NfsEngine)})
    if versions:
        return f"{' and '.join({3: 'NFSv3', 4: 'NFSv4.1'}[one] for one in versions)} from user space, no mount"
    return result.target.mount.options if result.target.mount else "none"


def _data_set(points: Sequence[Point]) -> str:
    sizes = [
        sum({file.path: file.bytes for worker in group.workers for file in worker.files}.values())
        for point in points
        for group in point.plan.groups
    ]
    return format_bytes(max(sizes, default=0))

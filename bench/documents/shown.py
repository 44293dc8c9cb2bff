"""The ways to show a statement: each reads the result of a command, and gives cells of the table."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

from iocurve import analysis
from iocurve.analysis import gains as gains_of_points
from iocurve.analysis import published
from iocurve.analysis.families import PointFamily
from iocurve.analysis.load_names import point_unit
from iocurve.foundation.units import format_latency
from iocurve.result.document import Axis, Point, Result
from iocurve.result.document_file import RESULT_NAME
from iocurve.result.stalls import condition

GAIN = re.compile(r"[^\[,]*(?:\[[^\]]*\])?")
"""The ratio and its interval at the start of the text of a gain."""
CHANGE = r"IOPS +\S+ +\S+ +([+−-][\d.,]+) % \[([+−-][\d.,]+), ([+−-][\d.,]+)\]"
"""A change of the rate with its interval, in the output of ``iocurve ab``."""
Cells = tuple[str, str, str]
"""The result, the published value and the ratio of both."""
Show = Callable[[Path], Cells]
"""Reads the directory of a command."""


@cache
def reading_of(directory: Path) -> analysis.Reading:
    """The reading of a command's result."""
    return analysis.read(Result.read(directory / "report" / RESULT_NAME))


def stated(family: str, unit: str, kind: str = "", on: str = "", number: int = 0, **axes: Axis) -> Show:
    """A published value, next to the measured one.

    ``kind`` is the kind of operation that the value counts, ``on`` the place on the axis of kinds; ``number`` chooses
    among the values of several tools.
    """
    if on:
        axes["kind"] = on

    def cells(directory: Path) -> Cells:
        found = [
            one
            for one in reading_of(directory).published
            if (one.figure.family, one.figure.unit) == (family, unit)
            and kind in ("", one.figure.kind)
            and all(one.figure.axes.get(name) == value for name, value in axes.items())
        ]
        if len(found) <= number:
            return "not measured", "", ""
        one = found[number]
        measured = published.figure_text(one.measured, one.measured, unit)
        bounds = f" {one.gain.bounds_text}" if one.gain and one.gain.bounds_text else ""
        scale = f" × {one.speed:.3g}" if one.expected_text else ""
        return f"{measured}{bounds}{_mark(one.point)}", f"{published.described(one.figure)}{scale}", f"{one.ratio:.2f}"

    return cells


def rate(family: str, said: str = "a chart only", **axes: Axis) -> Show:
    """The rate of a point for which the page has no value."""

    def cells(directory: Path) -> Cells:
        member = next((one for one in _family(directory, family).members if _is_at(one, axes)), None)
        if member is None:
            return "not measured", said, ""
        speed = reading_of(directory).result.target_of(member).speed
        value = member.summary().iops if point_unit(member) == "IOPS" else member.summary().mib_per_s
        scale = f" at {speed:.3g} of the speed" if speed else ""
        return f"{value:,.0f} {point_unit(member)}{scale}{_mark(member)}", said, ""

    return cells


def by_mix(family: str, said: str) -> Show:
    """The totals from pure reads to pure writes."""

    def cells(directory: Path) -> Cells:
        members = sorted(_family(directory, family).members, key=lambda one: -one.axis("read_percent"))
        unit = point_unit(members[0])
        rates = [one.summary().iops if unit == "IOPS" else one.summary().mib_per_s for one in members]
        falls = all(later <= earlier * 1.02 for earlier, later in itertools.pairwise(rates))
        mixes = ", ".join(f"{one.mix} {value:,.0f}" for one, value in zip(members, rates, strict=True))
        return f"{mixes} {unit}: {'falls' if falls else 'does not fall'} with the writes", said, ""

    return cells


def gains(family: str, said: str, **axes: Axis) -> Show:
    """The gains of points over their base."""

    def cells(directory: Path) -> Cells:
        found = reading_of(directory)
        texts = [
            f"{_rest(member, axes)}: {_ratio(text)}"
            for member in _family(directory, family).members
            if _is_at(member, axes) and (text := found.gain_text(member))
        ]
        return "; ".join(texts), said, ""

    return cells


def latencies(family: str, said: str, **axes: Axis) -> Show:
    """The mean latency of points, with few connections (or near) and with many (or far)."""

    def cells(directory: Path) -> Cells:
        members = [one for one in _family(directory, family).members if _is_at(one, axes)]
        texts = [f"{_rest(one, axes)}: {format_latency(one.summary().latency.mean_ns)}" for one in members]
        return "; ".join(texts), said, ""

    return cells


def advice(said: str) -> Show:
    """The verdicts of the green, yellow and red table."""

    def cells(directory: Path) -> Cells:
        pairs = gains_of_points.pairs(_family(directory, "advice").members)
        texts = [
            f"{gains_of_points.kind_and_block(pair.few)} depth {pair.few.axis('depth'):g}: {pair.gain.value:.2f} × "
            f"{pair.gain.verdict}"
            for pair in pairs
        ]
        return "; ".join(texts), said, ""

    return cells


def finding(name: str, said: str, factor: float = 1.0, value: float | None = None) -> Show:
    """A finding of a search; ``factor`` is the speed of its target."""

    def cells(directory: Path) -> Cells:
        search = reading_of(directory).result.search
        found = next(one for one in search.findings if one.name == name) if search else None
        if found is None:
            return "", said, ""
        ratio = f"{found.figure.value / (factor * value):.2f}" if value else ""
        return f"{name}: {found.figure.value:,.0f} {found.unit}", said, ratio

    return cells


def printed(pattern: str, said: str, ratio: str = "") -> Show:
    """The first match of a pattern in the output of a command, its groups joined."""

    def cells(directory: Path) -> Cells:
        found = _in_output(directory, pattern)
        text = "; ".join(filter(None, found.groups() or (found[0],))) if found else "not found"
        return " ".join(text.split()), said, ratio if found else ""

    return cells


def changed(said: str, low: float | None = None, high: float = 0.0) -> Show:
    """The rate of the second of two compared lines as a multiple of the first; a ratio of 1 is in the range."""

    def cells(directory: Path) -> Cells:
        found = _in_output(directory, CHANGE)
        if found is None:
            return "not found", said, ""
        gain, least, most = (1 + float(part.replace("−", "-").replace(",", "")) / 100 for part in found.groups())
        ratio = f"{gain / min(max(gain, low), high):.2f}" if low else ""
        noisy = [point for point in reading_of(directory).result.points if point.noise]
        mark = _mark(noisy[0]) if noisy else ""
        return f"{gain:.2f} × [{least:.2f}, {most:.2f}]{mark}", said, ratio

    return cells


def counted(pattern: str, said: str, unit: str, value: float | None = None) -> Show:
    """A number in the output of a command, and its ratio to a published one."""

    def cells(directory: Path) -> Cells:
        found = _in_output(directory, pattern)
        if found is None:
            return "not found", said, ""
        number = float(found[1].replace(",", ""))
        return f"{number:,.0f} {unit}", said, f"{number / value:.2f}" if value else ""

    return cells


def of_clients(said: str, value: float) -> Show:
    """The rate of the only point of a job that several clients ran, and its ratio to a published one."""

    def cells(directory: Path) -> Cells:
        [point] = reading_of(directory).result.points
        clients, rate = len(point.clients), point.summary().iops
        return f"{rate:,.0f} IOPS, {clients} clients{_mark(point)}", said, f"{rate / value:.2f}"

    return cells


def series(name: str, said: str) -> Show:
    """The rates of the points of a series."""

    def cells(directory: Path) -> Cells:
        members = _family(directory, name).members
        texts = [f"{_rest(one, {})}: {one.summary().iops:,.0f} IOPS{_mark(one)}" for one in members]
        return f"{name}: {'; '.join(texts)}", said, ""

    return cells


def _in_output(directory: Path, pattern: str) -> re.Match[str] | None:
    return re.search(pattern, (directory / "stdout.txt").read_text(encoding="utf-8"), re.MULTILINE)


def _mark(point: Point) -> str:
    """The mark of a point that others disturbed: ``, starved``."""
    return f", {condition(point)}" if point.noise else ""


def _ratio(text: str) -> str:
    found = GAIN.match(text)
    return found[0].strip() if found else text


def _family(directory: Path, name: str) -> PointFamily:
    return next(one for one in reading_of(directory).families if one.name == name)


def _is_at(member: Point, axes: dict[str, Axis]) -> bool:
    return all(member.axes.get(name) == value for name, value in axes.items())


def _rest(member: Point, axes: dict[str, Axis]) -> str:
    """The name of a point without its family and what all points of the row share."""
    name = member.name.removeprefix(f"{member.family} ")
    for axis, value in axes.items():
        name = name.replace(f"{axis} {value}", "").replace(str(value), "") if isinstance(value, str) else name
    return " ".join(name.split())

"""Groups the points of a result into families, and says what the points of a family have in common."""

from __future__ import annotations

from functools import cached_property

import msgspec

from iocurve.analysis.limits import depth_series
from iocurve.analysis.load_names import axis_text
from iocurve.foundation.units import format_bytes, numbered
from iocurve.result.document import Point, Result

GRID_AXES = ("kind", "block_bytes", "order", "clients", "target", "nconnect")
"""Axes along which loads are compared side by side."""


class PointFamily(msgspec.Struct, frozen=True, dict=True):
    """Points that differ in their axes only, in the order in which they were measured."""

    name: str
    members: tuple[Point, ...]
    title: str = ""
    """The scenario's title for the family; empty where it has none."""

    def each_point(self) -> list[PointFamily]:
        """Each point as a family with the name of the point; points of the same name are numbered."""
        titles = numbered(member.name for member in self.members)
        return [PointFamily(title, (member,), title) for title, member in zip(titles, self.members, strict=True)]

    def varies(self, axis: str) -> bool:
        """True if the points have several values on an axis."""
        return len({member.axes.get(axis) for member in self.members}) > 1

    @property
    def is_mix(self) -> bool:
        """A series of read and write shares."""
        return self.varies("read_percent") and not self.varies("depth") and not self.is_scale_out

    @property
    def is_rate(self) -> bool:
        """A series of rates at which operations were due."""
        return self.varies("rate")

    @property
    def is_grid(self) -> bool:
        """Loads that differ in kind, block size, connections, clients or target."""
        return any(self.varies(axis) for axis in GRID_AXES)

    @property
    def is_advice(self) -> bool:
        """Loads of many kinds, each with few connections and with many."""
        return self.is_depth and self.varies("nconnect") and (self.varies("block_bytes") or self.varies("kind"))

    @property
    def is_depth(self) -> bool:
        """One or more series of depths."""
        return self.varies("depth") and not self.is_scale_out

    @property
    def is_scale_out(self) -> bool:
        """One or more series of numbers of clients, each client with the same depth."""
        axes = [member.axes for member in self.members]
        each = {float(one["depth"]) / float(one["clients"]) for one in axes if "depth" in one and "clients" in one}
        return self.varies("clients") and len(each) <= 1

    @property
    def is_measured_along_axes(self) -> bool:
        """The points differ in what a scenario or a search varies; jobs have no axes."""
        along = self.is_scale_out or self.is_mix or self.is_depth or self.is_rate or self.is_grid
        return along or self.varies("files")

    @property
    def is_sequential(self) -> bool:
        """Sequential loads are counted in MiB/s, all others in IOPS."""
        return self.members[0].axes.get("order") == "sequential"

    @property
    def load(self) -> str:
        """Block size and order, as far as all points share them: ``4 KiB random``; may be empty."""
        axes = self.members[0].axes
        words = []
        if "block_bytes" in axes and not self.varies("block_bytes"):
            words.append(format_bytes(int(axes["block_bytes"])))
        if "order" in axes and not self.varies("order"):
            words.append(str(axes["order"]))
        return " ".join(words)

    @property
    def subject(self) -> str:
        """The scenario's title, or load and kind of operation: ``4 KiB random read``."""
        if self.title:
            return self.title
        kinds = {kind for member in self.members for kind in member.summary().kinds}
        return f"{self.load} {kinds.pop() if len(kinds) == 1 else ''}".strip() or self.name

    @property
    def heading(self) -> str:
        """The subject with a capital, for the start of a sentence."""
        return self.subject[0].upper() + self.subject[1:]

    @property
    def fastest(self) -> Point:
        """The point with the most IOPS."""
        return max(self.members, key=lambda member: member.summary().iops)

    @property
    def fixed(self) -> str:
        """Depth and connections, where all points share them: ``depth 64, nconnect 8``."""
        axes = self.members[0].axes
        named = [axis for axis in ("depth", "nconnect") if axis in axes and not self.varies(axis)]
        return ", ".join(f"{axis} {axes[axis]}" for axis in named)

    @cached_property
    def series(self) -> dict[str, list[Point]]:
        """The depth series, by the axes in which they differ: ``nconnect 8``."""
        return {self._distinction(points[0]): list(points) for points in depth_series(self.members)}

    @cached_property
    def scale_out_series(self) -> dict[str, list[Point]]:
        """The series of numbers of clients, by the axes in which they differ: ``read_percent 75``."""
        found: dict[str, list[Point]] = {}
        for member in sorted(self.members, key=lambda member: member.axis("clients")):
            axes = member.axes.items()
            others = [(axis, value) for axis, value in axes if axis not in ("clients", "depth") and self.varies(axis)]
            found.setdefault(", ".join(axis_text(axis, value) for axis, value in others), []).append(member)
        return found

    def _distinction(self, point: Point) -> str:
        # If kinds differ, the kind already tells reads from writes.
        left_out = {"depth"} | ({"read_percent"} if self.varies("kind") else set())
        return ", ".join(
            axis_text(axis, value) for axis, value in point.axes.items() if axis not in left_out and self.varies(axis)
        )


def families_of(result: Result) -> list[PointFamily]:
    """The families of a result in the order of its points; points that measured nothing are left out."""
    members: dict[str, list[Point]] = {}
    for point in result.points:
        if point.summary().operations or point.imported:
            members.setdefault(point.family, []).append(point)
    titles = {one.name: one.title for one in result.scenario.families} if result.scenario else {}
    return [PointFamily(name, tuple(points), titles.get(name, "")) for name, points in members.items()]

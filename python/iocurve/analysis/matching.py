"""Matches the points of results by their load."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence

import msgspec

from iocurve.analysis.load_names import point_load
from iocurve.engine.derived import block_bytes_min
from iocurve.engine.plan import Plan, Worker
from iocurve.result.document import Point, Result


class Unmatched(msgspec.Struct, frozen=True):
    """A point without a partner."""

    point: str
    family: str
    other: int
    """Index of the result that is compared with the base, from 1."""
    is_of_base: bool
    """The point is of the base, and missing in the other result."""


Pairs = list[tuple[Point, Point]]


def matched(base: Result, other: Result, number: int) -> tuple[Pairs, list[Unmatched]]:
    """The pairs of points with the same load, in the order of the base, and the points without a partner.

    Points of the same name, family and axes are pairs; then those of the same family and axes, and of the rest those
    whose plans have the same load; last those of the same load and depth in words, as imported points have no plan. A
    depth that a result does not know is not compared. Two results of one point each are a pair whatever their loads
    are. Points that measured nothing are left out.
    """
    left, right = ([point for point in result.points if point.figures.iops] for result in (base, other))
    order = {id(point): place for place, point in enumerate(left)}
    pairs: Pairs = []
    knows_depths = all(any(map(_depth, points)) for points in (left, right))
    for key in (point_key, _by_axes, _by_load, _by_words_and_depth if knows_depths else _by_words):
        found = _pairs(left, right, key)
        pairs += found
        taken = {id(point) for pair in found for point in pair}
        left = [point for point in left if id(point) not in taken]
        right = [point for point in right if id(point) not in taken]
    if not pairs and len(left) == len(right) == 1:
        pairs, left, right = [(left[0], right[0])], [], []
    missing = [*_unmatched(left, number, is_of_base=True), *_unmatched(right, number, is_of_base=False)]
    return sorted(pairs, key=lambda pair: order[id(pair[0])]), missing


def _pairs(left: Sequence[Point], right: Sequence[Point], key: Callable[[Point], Hashable]) -> Pairs:
    """Points with the same key; one that several points have tells nothing unless both results have as many."""
    counts = [Counter(key(point) for point in points) for points in (left, right)]
    clear = {one for one, count in counts[0].items() if one is not None and counts[1][one] == count}
    queues: dict[Hashable, list[Point]] = {}
    for point in right:
        queues.setdefault(key(point), []).append(point)
    return [(point, queues[key(point)].pop(0)) for point in left if key(point) in clear]


def point_key(point: Point) -> Hashable:
    """Name, family and axes, which tell the points of a result apart."""
    return point.name, point.family, _axes(point)


def _by_axes(point: Point) -> Hashable:
    return (point.family, _axes(point)) if point.axes else None


def _axes(point: Point) -> Hashable:
    return tuple(sorted((name, str(value)) for name, value in point.axes.items()))


def _by_load(point: Point) -> Hashable:
    if point.imported:
        return point.imported.load, point.imported.depth
    return load_key(point.plan) if point.plan.groups else None


def _by_words_and_depth(point: Point) -> Hashable:
    words = _by_words(point)
    return (words, _depth(point)) if words else None


def _by_words(point: Point) -> Hashable:
    return point_load(point) or None


def _depth(point: Point) -> float | None:
    return point.imported.depth if point.imported else point.summary().depth_requested


def load_key(plan: Plan) -> Hashable:
    """The load of a plan: kinds, blocks, order, rates and depth of its workers, however they are named or placed."""
    return tuple(tuple(sorted(map(_worker_key, group.workers), key=repr)) for group in plan.groups)


def _worker_key(worker: Worker) -> Hashable:
    operations = tuple(
        (one.kind, one.share, block_bytes_min(one.blocks), repr(one.blocks), one.random_percent, repr(one.rate))
        for one in worker.operations
    )
    return operations, worker.depth, worker.engine.kind == "sync"


def _unmatched(points: Iterable[Point], number: int, *, is_of_base: bool) -> list[Unmatched]:
    return [Unmatched(point.name, point.family, number, is_of_base) for point in points]

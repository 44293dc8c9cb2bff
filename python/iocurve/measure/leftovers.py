"""The note about files that earlier runs left on the targets of a run."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from iocurve.engine.plan import NullEngine, Plan
from iocurve.foundation.units import SECOND_NS
from iocurve.measure.machines import Machines
from iocurve.report.view import NoView, View
from iocurve.targets.manifest import leftovers_line
from iocurve.targets.nfs_url import nfs_address
from iocurve.targets.places import Place, export_place

if TYPE_CHECKING:
    from iocurve.targets.opened_target import OpenedTarget

LISTING_NS = 5 * SECOND_NS
"""Longest time for which a server is waited for before a run, to look for what earlier runs left."""


def tell_leftovers(opened: Iterable[OpenedTarget], view: View) -> None:
    """Prints a line for each target on which an earlier run left files, unless nothing is to be shown."""
    if isinstance(view, NoView):
        return
    places = [(one.place(LISTING_NS), one.facts.address) for one in opened]
    _tell((place, address) for place, address in places if place is not None)


def tell_leftovers_of_plans(plans: Sequence[Plan], machines: Machines) -> None:
    """As ``tell_leftovers``, for the directories and exports that plans use."""
    _tell(_exports(plans))
    directories = sorted(_directories(plans))
    clients = range(machines.count)
    _tell((machines.directory(client, one), str(one)) for client in clients for one in directories)


def _tell(places: Iterable[tuple[Place, str]]) -> None:
    lines = [leftovers_line(place, address) for place, address in places]
    for line in dict.fromkeys(line for line in lines if line is not None):
        print(f"note: {line}", file=sys.stderr)


def _exports(plans: Sequence[Plan]) -> Iterator[tuple[Place, str]]:
    engines = {worker.engine for plan in plans for group in plan.groups for worker in group.workers}
    for place in dict.fromkeys(map(export_place, engines)):
        if place is not None:
            timeout_ns = min(LISTING_NS, place.mount.timeout_ns)
            yield dataclasses.replace(place, mount=place.mount.replace(timeout_ns=timeout_ns)), nfs_address(place.mount)


def _directories(plans: Sequence[Plan]) -> set[Path]:
    """The directories of local files; a tree is a directory itself."""
    workers = [worker for plan in plans for group in plan.groups for worker in group.workers]
    local = [one for one in workers if not isinstance(one.engine, NullEngine) and export_place(one.engine) is None]
    trees = {Path(file.path) for one in local if one.tree for file in one.files}
    parents = {Path(path).parent for path in {file.path for one in local if not one.tree for file in one.files}}
    return {path.absolute() for path in trees | parents}

"""Removal of the directory trees of a run."""

from __future__ import annotations

from iocurve.engine import plan as planned
from iocurve.errors import TargetError
from iocurve.job.resolve.tree import removal
from iocurve.measure import local
from iocurve.targets.places import LocalPlace, NfsPlace, Place


def remove(place: Place, name: str) -> None:
    """Removes a tree and its root, but nothing of another name. Raises ``TargetError`` if the root stays."""
    outcome = local.run(removal(*_opened(place, name)).replace(name=f"removing {name}"))
    if outcome.state != "finished":
        errors = [worker.error for worker in outcome.workers if worker.error]
        raise TargetError(f"{name} was not removed as a whole: {errors[0] if errors else outcome.state}")


def _opened(place: Place, name: str) -> tuple[planned.EnginePlan, str]:
    """The engine for a place, and the path of a name on it."""
    if isinstance(place, NfsPlace):
        return planned.NfsMetadataEngine(mount=place.mount, keep_open=True), name
    if isinstance(place, LocalPlace):
        how = planned.FileOpen(direct=False, durability="none", invalidate=False)
        return planned.MetadataEngine(open=how, keep_open=True), str(place.directory / name)
    raise TargetError(f"{name} is in a directory of a load client: trees of files need an NFS export there")

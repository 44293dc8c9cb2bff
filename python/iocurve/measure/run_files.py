"""The files that a run makes on its targets: named in a manifest before they exist, removed at the end."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterable
from pathlib import Path

from iocurve.engine.plan import FilePlan, NfsEngine, Plan, Worker
from iocurve.measure.machines import THIS_MACHINE, Machines
from iocurve.report.view import NoView, View
from iocurve.targets.manifest import Manifest, ManifestFile, leftovers_line
from iocurve.targets.opened_target import OpenedTarget
from iocurve.targets.places import LocalPlace, NfsPlace, Place, place_of
from iocurve.units import SECOND_NS

LISTING_NS = 5 * SECOND_NS
"""Longest time for which a server is waited for before a run, to look for what earlier runs left."""


class RunFiles:
    """The files of one run. Files and devices that were there before are none of them."""

    def __init__(self, run: str, opened: Iterable[OpenedTarget], machines: Machines = THIS_MACHINE) -> None:
        """``run`` is the name that the names of the files begin with."""
        self._run, self._machines = run, machines
        self._named = [Path(one.path) for one in opened if one.path is not None and one.bytes is None]
        """Files that the user named and that did not exist."""
        self._manifests: dict[Place, Manifest] = {}
        self._unlisted: dict[object, Plan] = {}
        """A plan for each set of files in a place that can have no manifest."""

    def announce(self, plan: Plan) -> None:
        """Names the new files of a plan in manifests. Raises ``TargetError``."""
        new: dict[Place, dict[str, int]] = {}
        workers = [worker for group in plan.groups for worker in group.workers]
        for worker, file in ((one, file) for one in workers for file in one.files):
            name = Path(file.path).name
            if not name.startswith(self._run):
                continue
            place = self._place(worker, file)
            if place is None:
                files = frozenset((repr(one.engine), one.client, other.path) for one in workers for other in one.files)
                self._unlisted[files] = plan
            else:
                sizes = new.setdefault(place, {})
                sizes[name] = max(sizes.get(name, 0), file.offset_bytes + file.bytes)
        for place, sizes in new.items():
            self._add(place, sizes)

    def identify(self) -> None:
        """Adds the numbers of files that were laid out since the last call. Raises ``TargetError``."""
        for place, manifest in self._manifests.items():
            unknown = [file.name for file in manifest.files if file.id is None]
            found = place.facts(unknown) if unknown else []
            ids = {name: facts.id for name, facts in zip(unknown, found, strict=True) if facts is not None}
            if ids:
                files = tuple(file.replace(id=ids.get(file.name, file.id)) for file in manifest.files)
                self._write(place, manifest.replace(files=files))

    def keep(self) -> None:
        """Marks the files as kept on purpose. Raises ``TargetError``."""
        self.identify()
        for place, manifest in self._manifests.items():
            self._write(place, manifest.replace(kept=True))

    def remove(self, patience_ns: int | None = None) -> None:
        """Removes the files, and the manifests after them.

        ``patience_ns`` limits the time for which a silent server is waited for; by default it is that of the load.
        Raises ``TargetError`` if files stay.
        """
        for place, manifest in self._manifests.items():
            hurried = place
            if isinstance(place, NfsPlace) and patience_ns is not None:
                timeout_ns = min(patience_ns, place.mount.timeout_ns)
                hurried = dataclasses.replace(place, mount=place.mount.replace(timeout_ns=timeout_ns))
            hurried.remove([*(file.name for file in manifest.files), manifest.name])
        self._manifests.clear()
        for plan in self._unlisted.values():
            self._machines.remove_files(plan)
        self._unlisted.clear()
        for path in self._named:
            LocalPlace(path.parent).remove([path.name])

    def _place(self, worker: Worker, file: FilePlan) -> Place | None:
        """The directory of a file; None on other machines, and on exports that are reached by NFSv4.1.

        One mount stands for all of an export, whatever their connections and addresses.
        """
        if isinstance(worker.engine, NfsEngine):
            mount = worker.engine.mount
            if mount.version != 3:
                return None
            return NfsPlace(mount.replace(nconnect=1, source=None, durability="none", keep_payload=False))
        return LocalPlace(Path(file.path).absolute().parent) if self._machines is THIS_MACHINE else None

    def _add(self, place: Place, sizes: dict[str, int]) -> None:
        known = self._manifests.get(place)
        manifest = known or self._resumed(place)
        names = {file.name for file in manifest.files}
        new = tuple(ManifestFile(name=name, bytes=size) for name, size in sizes.items() if name not in names)
        if new or known is None:
            self._write(place, manifest.replace(files=(*manifest.files, *new)))

    def _resumed(self, place: Place) -> Manifest:
        """A new manifest, in a file of its own; or that of the run that this one resumes after it was killed."""
        manifest = Manifest.of(self._run)
        if place.facts([manifest.name]) != [None]:
            return manifest.replace(files=Manifest.read(place, manifest.name).files)
        place.write(manifest.name, manifest.encoded(), new=True)
        return manifest

    def _write(self, place: Place, manifest: Manifest) -> None:
        place.write(manifest.name, manifest.encoded(), new=False)
        self._manifests[place] = manifest


def tell_leftovers(opened: Iterable[OpenedTarget], view: View) -> None:
    """Prints a line for each target on which an earlier run left files, unless nothing is to be shown."""
    if isinstance(view, NoView):
        return
    places = [(place_of(one, LISTING_NS), one.facts.address) for one in opened]
    lines = [leftovers_line(place, address) for place, address in places if place is not None]
    for line in dict.fromkeys(line for line in lines if line is not None):
        print(f"note: {line}", file=sys.stderr)

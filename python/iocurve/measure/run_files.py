"""The files that a run makes on its targets: named in a manifest before they exist, removed at the end."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterable
from pathlib import Path

from iocurve.engine.plan import FilePlan, NfsEngine, NfsMetadataEngine, NullEngine, Plan, Worker
from iocurve.errors import TargetError
from iocurve.measure.machines import THIS_MACHINE, Machines
from iocurve.report.view import NoView, View
from iocurve.targets.manifest import Manifest, ManifestFile, leftover, leftovers_line
from iocurve.targets.opened_target import OpenedTarget
from iocurve.targets.places import LocalPlace, NfsPlace, Place, place_of
from iocurve.units import SECOND_NS

LISTING_NS = 5 * SECOND_NS
"""Longest time for which a server is waited for before a run, to look for what earlier runs left."""


class RunFiles:
    """The files of one run. Files and devices that were there before are none of them."""

    def __init__(
        self,
        run: str,
        opened: Iterable[OpenedTarget] = (),
        machines: Machines = THIS_MACHINE,
        *,
        unkept: bool = False,
    ) -> None:
        """``run`` is the name that the names of the run's own files begin with.

        Of files with other names it makes those of ``opened`` targets that did not exist, and with ``unkept`` those
        that its plans do not keep.
        """
        self._run, self._machines, self._unkept = run, machines, unkept
        self._opened = frozenset(Path(one.path).absolute() for one in opened if one.path is not None and not one.bytes)
        """Files that the user named, and that are made, still empty, while the target is open."""
        self._manifests: dict[Place, Manifest] = {}

    def announce(self, plan: Plan) -> None:
        """Names the new files of a plan in manifests. Raises ``TargetError``."""
        new: dict[Place, dict[str, int]] = {}
        workers = [worker for group in plan.groups for worker in group.workers]
        for worker, file in ((one, file) for one in workers for file in one.files):
            if self._is_made(worker, file):
                place, name = self._place(worker, file)
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
        errors = []
        while self._manifests:
            place, manifest = self._manifests.popitem()
            if isinstance(place, NfsPlace) and patience_ns is not None:
                timeout_ns = min(patience_ns, place.mount.timeout_ns)
                place = dataclasses.replace(place, mount=place.mount.replace(timeout_ns=timeout_ns))
            try:
                _remove(place, manifest)
            except TargetError as error:
                errors.append(error)
        if errors:
            raise errors[0]

    def _is_made(self, worker: Worker, file: FilePlan) -> bool:
        """True if the run makes this file, unless it is there already."""
        if isinstance(worker.engine, NullEngine) or file.layout == "nothing":
            return False
        path = Path(file.path)
        return path.name.startswith(self._run) or self._was_opened(path) or (self._unkept and not file.keep)

    def _was_opened(self, path: Path) -> bool:
        return path.absolute() in self._opened

    def _place(self, worker: Worker, file: FilePlan) -> tuple[Place, str]:
        """The directory with the manifest of a file, and the name of the file there.

        One mount stands for all of an export, whatever its connections and addresses.
        """
        if isinstance(worker.engine, NfsEngine | NfsMetadataEngine):
            mount = worker.engine.mount.replace(nconnect=1, source=None, durability="none", keep_payload=False)
            return NfsPlace(mount), file.path.strip("/")
        path = Path(file.path).absolute()
        return self._machines.directory(worker.client, path.parent), path.name

    def _add(self, place: Place, sizes: dict[str, int]) -> None:
        known = self._manifests.get(place)
        names = {file.name for file in known.files} if known else set()
        new = self._new(place, {name: size for name, size in sizes.items() if name not in names})
        if new:
            manifest = known or self._resumed(place)
            names = {file.name for file in manifest.files}
            new = [file for file in new if file.name not in names]
            self._write(place, manifest.replace(files=(*manifest.files, *new)))

    def _new(self, place: Place, sizes: dict[str, int]) -> list[ManifestFile]:
        """The files to announce. Where a user gave the name nothing may be, or a file that this run has just made."""
        files = [ManifestFile(name=name, bytes=size) for name, size in sizes.items()]
        others = [file.name for file in files if not file.name.startswith(self._run)]
        there = dict(zip(others, place.facts(others), strict=True)) if others else {}
        new = []
        for file in files:
            if (facts := there.get(file.name)) is None:
                new.append(file)
            elif isinstance(place, LocalPlace) and self._was_opened(place.directory / file.name):
                new.append(file.replace(id=facts.id))
        return new

    def _resumed(self, place: Place) -> Manifest:
        """A new manifest, in a file of its own; or that of the run that this one resumes after it was killed."""
        manifest = Manifest.of(self._run, place.process(), place.client)
        if place.facts([manifest.name]) != [None]:
            return manifest.replace(files=Manifest.read(place, manifest.name).files)
        place.write(manifest.name, manifest.encoded(), new=True)
        return manifest

    def _write(self, place: Place, manifest: Manifest) -> None:
        place.write(manifest.name, manifest.encoded(), new=False)
        self._manifests[place] = manifest


def _remove(place: Place, manifest: Manifest) -> None:
    """Removes the files of a manifest; those that a user named only while they are the run's."""
    own = [file.name for file in manifest.files if manifest.is_own(file)]
    named = () if len(own) == len(manifest.files) else leftover(place, manifest).files
    place.remove([*own, *(file.name for file in named if file.name not in own), manifest.name])


def tell_leftovers(opened: Iterable[OpenedTarget], view: View) -> None:
    """Prints a line for each target on which an earlier run left files, unless nothing is to be shown."""
    if isinstance(view, NoView):
        return
    places = [(place_of(one, LISTING_NS), one.facts.address) for one in opened]
    lines = [leftovers_line(place, address) for place, address in places if place is not None]
    for line in dict.fromkeys(line for line in lines if line is not None):
        print(f"note: {line}", file=sys.stderr)

"""The files that a run makes on its targets: named in a manifest before they exist, removed at the end or later."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from iocurve.engine import plan as planned
from iocurve.engine.outcome import Live
from iocurve.engine.plan import FilePlan, NullEngine, Plan, Worker
from iocurve.foundation.errors import TargetError
from iocurve.foundation.units import SECOND_NS
from iocurve.job.resolve.tree import removal
from iocurve.measure import local
from iocurve.measure.machines import THIS_MACHINE, Machines
from iocurve.report.progress import NoView, View
from iocurve.targets.nfs_url import nfs_address
from iocurve.targets.places import (
    FILES_BYTES_MAX,
    LocalPlace,
    Manifest,
    ManifestFile,
    NfsPlace,
    Place,
    export_place,
    leftover,
    leftovers_line,
)

if TYPE_CHECKING:
    from iocurve.targets.opened_target import OpenedTarget


class RunFiles:
    """The files of one run. Files and devices that were there before are none of them."""

    def __init__(
        self, run: str, opened: Iterable[OpenedTarget] = (), machines: Machines = THIS_MACHINE, *, unkept: bool = False
    ) -> None:
        """``run`` is the name that the names of the run's own files begin with.

        Of files with other names it makes those of ``opened`` targets that did not exist, and with ``unkept`` those
        that its plans do not keep.
        """
        self._run, self._machines, self._unkept = run, machines, unkept
        self._opened = frozenset(Path(one.path).absolute() for one in opened if one.path is not None and not one.bytes)
        """Files that the user named, and that are made, still empty, while the target is open."""
        self._manifests: dict[Place, list[Manifest]] = {}
        """By part."""

    def announce(self, plan: Plan) -> None:
        """Names the new files of a plan in manifests. Raises ``TargetError``."""
        new: dict[Place, dict[str, ManifestFile]] = {}
        roots: dict[Place, dict[str, None]] = {}
        workers = [worker for group in plan.groups for worker in group.workers]
        for worker, file in ((one, file) for one in workers for file in one.files):
            if worker.tree:
                place, name = self._place(worker, file)
                roots.setdefault(place, {})[name] = None
            elif self._is_made(worker, file):
                place, name = self._place(worker, file)
                files = new.setdefault(place, {})
                files[name] = _announced(name, file, files.get(name))
        for place, files in new.items():
            self._add(place, files)
        for place, names in roots.items():
            self._add_trees(place, [name for name in names if name.startswith(self._run)])

    def identify(self) -> None:
        """Adds the numbers of files that were laid out since the last call. Raises ``TargetError``."""
        for place, parts in self._manifests.items():
            unknown = [file.name for one in parts for file in one.files if file.id is None and not file.created_empty]
            found = place.facts(unknown) if unknown else []
            ids = {name: facts.id for name, facts in zip(unknown, found, strict=True) if facts is not None}
            for manifest in list(parts):
                files = tuple(file.replace(id=ids.get(file.name, file.id)) for file in manifest.files)
                if files != manifest.files:
                    self._write(place, manifest.replace(files=files))

    def identifying(self, enough: local.Enough) -> local.Enough:
        """As ``enough``; identifies the files of a run as soon as they are laid out."""
        is_done = False

        def watch(live: Live) -> bool:
            nonlocal is_done
            if not is_done and live.phase not in ("layout", "prepare"):
                is_done = True
                self.identify()
            return enough(live)

        return watch

    def keep(self) -> None:
        """Marks the files as kept on purpose. Raises ``TargetError``."""
        self.identify()
        for place, parts in self._manifests.items():
            for manifest in list(parts):
                self._write(place, manifest.replace(kept=True))

    def remove(self, patience_ns: int | None = None) -> None:
        """Removes the files, and the manifests after them.

        ``patience_ns`` limits the time for which a silent server is waited for; by default it is that of the load.
        Raises ``TargetError`` if files stay.
        """
        errors = []
        while self._manifests:
            place, parts = self._manifests.popitem()
            if isinstance(place, NfsPlace) and patience_ns is not None:
                timeout_ns = min(patience_ns, place.mount.timeout_ns)
                place = replace(place, mount=place.mount.replace(timeout_ns=timeout_ns))
            try:
                for manifest in reversed(parts):
                    _remove(place, manifest)
            except TargetError as error:
                errors.append(error)
        if errors:
            raise errors[0]

    def _is_made(self, worker: Worker, file: FilePlan) -> bool:
        """True if the run makes this file, unless it is there already."""
        if isinstance(worker.engine, NullEngine):
            return False
        is_unkept = self._unkept and not file.keep
        if file.layout == "nothing":
            return is_unkept and any(operation.kind == "create" for operation in worker.operations)
        if file.layout == "directory":
            return False
        path = Path(file.path)
        return path.name.startswith(self._run) or self._was_opened(path) or is_unkept

    def _was_opened(self, path: Path) -> bool:
        return path.absolute() in self._opened

    def _place(self, worker: Worker, file: FilePlan) -> tuple[Place, str]:
        """The directory with the manifest of a file, and the name of the file there."""
        if (export := export_place(worker.engine)) is not None:
            return export, file.path.strip("/")
        path = Path(file.path).absolute()
        return self._machines.directory(worker.client, path.parent), path.name

    def _add(self, place: Place, files: dict[str, ManifestFile]) -> None:
        known = {file.name for manifest in self._manifests.get(place, ()) for file in manifest.files}
        new = self._new(place, [file for name, file in files.items() if name not in known])
        if not new:
            return
        if place not in self._manifests:
            self._manifests[place] = list(self._resumed(place))
        parts = self._manifests[place]
        known = {file.name for manifest in parts for file in manifest.files}
        for batch in _batches([file for file in new if file.name not in known]):
            if parts and _has_room(parts[-1], batch):
                self._write(place, parts[-1].replace(files=(*parts[-1].files, *batch)))
            else:
                manifest = self._manifest(place).replace(part=len(parts), files=tuple(batch))
                place.write(manifest.name, manifest.encoded(), new=True)
                parts.append(manifest)

    def _add_trees(self, place: Place, names: Sequence[str]) -> None:
        """Names trees in a manifest, before they are laid out."""
        if place not in self._manifests:
            self._manifests[place] = list(self._resumed(place))
        parts = self._manifests[place]
        new = [name for name in names if not any(name in manifest.trees for manifest in parts)]
        if not new:
            return
        manifest = self._manifest(place).replace(part=len(parts), files=(), trees=tuple(new))
        place.write(manifest.name, manifest.encoded(), new=True)
        parts.append(manifest)

    def _new(self, place: Place, files: Sequence[ManifestFile]) -> list[ManifestFile]:
        """The files to announce. Where a user gave the name nothing may be, or a file that this run has just made."""
        others = [file.name for file in files if not file.name.startswith(self._run)]
        there = dict(zip(others, place.facts(others), strict=True)) if others else {}
        new = []
        for file in files:
            if (facts := there.get(file.name)) is None:
                new.append(file)
            elif isinstance(place, LocalPlace) and self._was_opened(place.directory / file.name):
                new.append(file.replace(id=facts.id))
        return new

    def _resumed(self, place: Place) -> Iterator[Manifest]:
        """The manifests of the run that this one resumes after it was killed."""
        for part in count():
            manifest = self._manifest(place).replace(part=part)
            if place.facts([manifest.name]) == [None]:
                return
            found = Manifest.read(place, manifest.name)
            manifest = manifest.replace(files=found.files, trees=found.trees)
            place.write(manifest.name, manifest.encoded(), new=False)
            yield manifest

    def _manifest(self, place: Place) -> Manifest:
        return Manifest.of(self._run, place.process(), place.client)

    def _write(self, place: Place, manifest: Manifest) -> None:
        place.write(manifest.name, manifest.encoded(), new=False)
        self._manifests[place][manifest.part] = manifest


def _announced(name: str, file: FilePlan, other: ManifestFile | None) -> ManifestFile:
    """A file of a plan; ``other`` is another use of it."""
    is_empty = file.layout == "nothing"
    size = 0 if is_empty else file.offset_bytes + file.bytes
    if other is not None:
        is_empty, size = is_empty and other.created_empty, max(size, other.bytes)
    return ManifestFile(name=name, bytes=size, created_empty=is_empty)


def _batches(files: Sequence[ManifestFile]) -> Iterator[list[ManifestFile]]:
    """The files of each manifest.

    Files that the load creates are apart: their manifest is not written again, so that it is older than they are.
    """
    for created_empty in (False, True):
        batch: list[ManifestFile] = []
        room = FILES_BYTES_MAX
        for file in files:
            if file.created_empty != created_empty:
                continue
            if batch and file.text_bytes > room:
                yield batch
                batch, room = [], FILES_BYTES_MAX
            batch.append(file)
            room -= file.text_bytes
        if batch:
            yield batch


def _has_room(manifest: Manifest, files: Sequence[ManifestFile]) -> bool:
    if manifest.trees:
        return False
    everything = (*manifest.files, *files)
    if any(file.created_empty for file in everything):
        return False
    return sum(file.text_bytes for file in everything) <= FILES_BYTES_MAX


def _remove(place: Place, manifest: Manifest) -> None:
    """Removes the files of a manifest; those that a user named only while they are the run's."""
    for tree in manifest.trees:
        remove_tree(place, tree)
    own = [file.name for file in manifest.files if manifest.is_own(file)]
    named = () if len(own) == len(manifest.files) else leftover(place, manifest).files
    place.remove([*own, *(file.name for file in named if file.name not in own), manifest.name])


def remove_tree(place: Place, name: str) -> None:
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
    raise TargetError(f"{name} is in a directory of an agent: trees of files need an NFS export there")


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
            yield replace(place, mount=place.mount.replace(timeout_ns=timeout_ns)), nfs_address(place.mount)


def _directories(plans: Sequence[Plan]) -> set[Path]:
    """The directories of local files; a tree is a directory itself."""
    workers = [worker for plan in plans for group in plan.groups for worker in group.workers]
    local = [one for one in workers if not isinstance(one.engine, NullEngine) and export_place(one.engine) is None]
    trees = {Path(file.path) for one in local if one.tree for file in one.files}
    parents = {Path(path).parent for path in {file.path for one in local if not one.tree for file in one.files}}
    return {path.absolute() for path in trees | parents}

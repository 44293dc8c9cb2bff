"""Manifests: what a run makes on a target is written there before it is made, so that nothing is left unknown."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Literal

import msgspec

from iocurve.foundation.errors import TargetError
from iocurve.foundation.structs import Struct
from iocurve.foundation.units import counted, format_bytes
from iocurve.machine.processes import Process
from iocurve.targets.places import FileFacts, Place

SUFFIX = ".manifest.json"
RUN = re.compile(r"iocurve-[^/\0]+-[0-9a-f]{8}")
"""The names of runs, with which the names of most of their files begin."""
NAME = re.compile(r"[^/\0][^\0]*")
UNTOUCHED = "nothing that it names is touched"
BYTES_MAX = 256 << 10
PADDED_BYTES = 4096
"""Manifests are padded to multiples of this: one that is written again is never shorter than before."""
FILES_BYTES_MAX = 48 << 10
"""Longest text of the files of a manifest: it is written by one WRITE, which servers limit to 64 KiB and more."""
ID_MAX = 2**64 - 1


class ManifestFile(Struct):
    """A file that a run makes."""

    name: str
    bytes: int
    """Its length at most."""
    id: int | None = None
    """Number in its file system; None until the file is laid out."""
    created_empty: bool = False
    """The load creates the file and writes nothing to it. Its number is never written down: to look up each new file
    would be a load of its own."""

    @property
    def text_bytes(self) -> int:
        """Length of its text in a manifest at most."""
        return len(self.replace(id=ID_MAX).to_json()) + 1


class Manifest(Struct):
    """The files of one run in one directory, or a part of them."""

    iocurve_manifest: Literal[1] = 1
    run: str
    created: datetime
    host: str
    pid: int
    process_start: int
    """Start of the process in clock ticks since boot, since the system reuses process numbers."""
    client: int | None = None
    """Agent that makes the files, where they are on its own machine: clients may share a directory."""
    part: int = 0
    """Number of this manifest, where one of a size that every server takes cannot have all files."""
    kept: bool = False
    """The files stay on purpose."""
    files: tuple[ManifestFile, ...]
    trees: tuple[str, ...] = ()
    """Directories of the run with trees of files, which are known by their names alone."""

    @classmethod
    def of(cls, run: str, process: Process | None = None, client: int | None = None) -> Manifest:
        """The manifest of a run, still without files; the process defaults to this one."""
        made, by = datetime.now(UTC).replace(microsecond=0), process or Process.this()
        return cls(run=run, created=made, host=by.host, pid=by.pid, process_start=by.start, client=client, files=())

    @property
    def name(self) -> str:
        """Name of the manifest's own file."""
        client = "" if self.client is None else f".client-{self.client}"
        return f"{self.run}{client}{f'.part-{self.part}' if self.part else ''}{SUFFIX}"

    @property
    def total_bytes(self) -> int:
        """Bytes of all files at most."""
        return sum(file.bytes for file in self.files)

    @property
    def is_running(self) -> bool:
        """True if the process of the run still lives on this machine."""
        return Process(self.host, self.pid, self.process_start).is_running

    def is_own(self, file: ManifestFile) -> bool:
        """True if the name of a file is the run's; others were named by the user."""
        return file.name.startswith(self.run) and "/" not in file.name

    def encoded(self) -> bytes:
        """The JSON form, padded."""
        text = self.to_json().encode()
        return text.ljust(-len(text) // PADDED_BYTES * -PADDED_BYTES)

    @classmethod
    def read(cls, place: Place, name: str) -> Manifest:
        """Reads a manifest. Raises ``TargetError`` if it is none of iocurve's, or names other files than its run's."""
        # Loaded here: most runs find no manifest.
        import json

        try:
            document, _ = json.JSONDecoder().raw_decode(place.read(name, BYTES_MAX).decode())
            manifest = cls.from_builtins(document)
        except ValueError as error:
            raise TargetError(
                f"{name} is not a manifest of iocurve ({error}); nothing that it names is touched"
            ) from None
        if name != manifest.name or not RUN.fullmatch(manifest.run):
            raise TargetError(
                f"{name} is the manifest of another run, {manifest.run}; nothing that it names is touched"
            )
        if others := [tree for tree in manifest.trees if not tree.startswith(manifest.run) or "/" in tree]:
            raise TargetError(f"{name} names '{others[0]}', which is no directory of its run; {UNTOUCHED}")
        for file in manifest.files:
            if not NAME.fullmatch(file.name) or ".." in file.name.split("/") or file.name.endswith(SUFFIX):
                raise TargetError(f"{name} names '{file.name}', which no run makes; {UNTOUCHED}")
        return manifest


class Leftover(msgspec.Struct, frozen=True):
    """The files of a run that are still there."""

    manifest: Manifest
    files: tuple[ManifestFile, ...]
    """Files that are the run's."""
    strange: tuple[str, ...]
    """Names under which another file is found now."""


def described(parts: Sequence[Manifest]) -> str:
    """``iocurve-envelope-46d4b062 of 2026-11-22 16:30 UTC on host: 4 files (1 GiB)``, for the manifests of one run."""
    first = parts[0]
    return f"{first.run} of {first.created:%Y-%m-%d %H:%M} UTC on {first.host}: {_amount(parts)}"


def _amount(parts: Sequence[Manifest]) -> str:
    files, size = sum(len(one.files) for one in parts), sum(one.total_bytes for one in parts)
    trees = sum(len(one.trees) for one in parts)
    and_trees = f" and {counted(trees, 'directory tree')}" if trees else ""
    return f"{counted(files, 'file')} ({format_bytes(size)}){and_trees}"


def manifests(place: Place) -> Iterator[Manifest | TargetError]:
    """All manifests of a directory; an error for each that cannot be used. Raises ``TargetError``."""
    for name in place.names(SUFFIX):
        try:
            yield Manifest.read(place, name)
        except TargetError as error:
            yield error


def leftover(place: Place, manifest: Manifest) -> Leftover:
    """Looks at the files of a run. Raises ``TargetError``."""
    own, *facts = place.facts([manifest.name, *(file.name for file in manifest.files)])
    there = [(file, found) for file, found in zip(manifest.files, facts, strict=True) if found is not None]
    files = tuple(file for file, found in there if own and _is_same(manifest, file, found, own))
    return Leftover(manifest, files, tuple(file.name for file, _ in there if file not in files))


def _is_same(manifest: Manifest, file: ManifestFile, found: FileFacts, own: FileFacts) -> bool:
    """True if a file is the one that the manifest names.

    A run that is killed before its layout ends has not written the numbers of its files: then it is a file no longer
    than announced that was changed after the announcement. That is not enough where a user named the file, and there
    the manifest must have the same owner: in a shared directory anyone can write one that names the files of others.
    A file that the load created has no number: it is still empty, so that nothing is lost with it.
    """
    if not found.is_plain or found.bytes > file.bytes:
        return False
    if file.created_empty:
        return not found.bytes and found.owner == own.owner and found.modified_ns >= own.modified_ns
    if not manifest.is_own(file):
        return found.id == file.id and found.owner == own.owner
    return found.modified_ns >= own.modified_ns if file.id is None else found.id == file.id


def leftovers_line(place: Place, target: str) -> str | None:
    """One line about what earlier runs left in a directory; None if nothing, or if it cannot be listed."""
    try:
        found = [one for one in manifests(place) if isinstance(one, Manifest) and not (one.kept or one.is_running)]
    except TargetError:
        # The run itself will say what is wrong with the target.
        return None
    if not found:
        return None
    runs = len({one.run for one in found})
    left = described(found) if runs == 1 else f"{runs} runs: {_amount(found)}"
    return f"left on the target by an earlier run, {left}; to remove: iocurve clean '{target}'"

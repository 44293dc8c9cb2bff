"""Directories of targets as places for small files: a local directory, or the root of an NFS export.

The files are manifests: what a run makes on a target is written there before it is made, so that nothing is left
unknown.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import ClassVar, Literal, Protocol

import msgspec

from iocurve._native import Export
from iocurve.engine.plan import EnginePlan, NfsEngine, NfsMetadataEngine, NfsMount
from iocurve.foundation.errors import TargetError
from iocurve.foundation.structs import Struct
from iocurve.foundation.units import counted, format_bytes
from iocurve.machine.mounts import mounts
from iocurve.machine.processes import Process


class FileFacts(msgspec.Struct, frozen=True):
    """Facts about a file, by which it is known again."""

    is_plain: bool
    """A regular file with one name; no symbolic link."""
    bytes: int
    id: int
    """Number of the file in its file system."""
    modified_ns: int
    owner: str
    """User number, or the name that an NFSv4.1 server gives."""


class Place(Protocol):
    """A directory. Names are relative to it; every method raises ``TargetError``."""

    @property
    def client(self) -> int | None:
        """The agent on whose own machine it is; None where all see the same."""

    def process(self) -> Process:
        """The process that makes files here."""

    def names(self, suffix: str) -> list[str]:
        """The names that end in ``suffix``."""

    def facts(self, names: Sequence[str]) -> list[FileFacts | None]:
        """Facts about files; None for a name that does not exist."""

    def read(self, name: str, bytes_max: int) -> bytes:
        """The beginning of a file."""

    def write(self, name: str, data: bytes, *, new: bool) -> None:
        """Writes the beginning of a file in one step; ``new`` creates it, and fails where it exists."""

    def remove(self, names: Sequence[str]) -> None:
        """Removes files; ignores missing ones."""


class LocalPlace(msgspec.Struct, frozen=True):
    """A local directory."""

    directory: Path
    client: ClassVar[int | None] = None

    def process(self) -> Process:
        """See ``Place``."""
        return Process.this()

    def names(self, suffix: str) -> list[str]:
        """See ``Place``."""
        with _reported(self.directory), os.scandir(self.directory) as entries:
            return sorted(entry.name for entry in entries if entry.name.endswith(suffix))

    def facts(self, names: Sequence[str]) -> list[FileFacts | None]:
        """See ``Place``."""
        return [self._facts(name) for name in names]

    def read(self, name: str, bytes_max: int) -> bytes:
        """See ``Place``."""
        with _reported(self.directory / name):
            descriptor = os.open(self.directory / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            with os.fdopen(descriptor, "rb") as file:
                return file.read(bytes_max)

    def write(self, name: str, data: bytes, *, new: bool) -> None:
        """See ``Place``."""
        flags = os.O_WRONLY | os.O_NOFOLLOW | (os.O_CREAT | os.O_EXCL if new else 0)
        with _reported(self.directory / name), os.fdopen(os.open(self.directory / name, flags, 0o644), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())

    def remove(self, names: Sequence[str]) -> None:
        """See ``Place``."""
        for name in names:
            with _reported(self.directory / name), contextlib.suppress(FileNotFoundError):
                (self.directory / name).unlink()

    def _facts(self, name: str) -> FileFacts | None:
        with _reported(self.directory / name):
            try:
                status = os.lstat(self.directory / name)
            except FileNotFoundError:
                return None
        is_plain = stat.S_ISREG(status.st_mode) and status.st_nlink == 1
        return FileFacts(is_plain, status.st_size, status.st_ino, status.st_mtime_ns, str(status.st_uid))


class NfsPlace(msgspec.Struct, frozen=True):
    """The root of an export, which need not be mounted."""

    mount: NfsMount
    client: ClassVar[int | None] = None

    def process(self) -> Process:
        """See ``Place``."""
        return Process.this()

    def names(self, suffix: str) -> list[str]:
        """See ``Place``."""
        return sorted(self._export.names(suffix))

    def facts(self, names: Sequence[str]) -> list[FileFacts | None]:
        """See ``Place``."""
        return [facts and FileFacts(*facts) for facts in self._export.facts(list(names))]

    def read(self, name: str, bytes_max: int) -> bytes:
        """See ``Place``."""
        return self._export.read(name, bytes_max)

    def write(self, name: str, data: bytes, *, new: bool) -> None:
        """See ``Place``."""
        self._export.write(name, data, new)

    def remove(self, names: Sequence[str]) -> None:
        """See ``Place``."""
        self._export.remove(list(names))

    @property
    def _export(self) -> Export:
        return Export(self.mount.to_json())


def export_place(engine: EnginePlan) -> NfsPlace | None:
    """The export of an engine; None for an engine of local files.

    One mount stands for all of an export, whatever its connections and addresses.
    """
    if not isinstance(engine, NfsEngine | NfsMetadataEngine):
        return None
    return NfsPlace(engine.mount.replace(nconnect=1, source=None, durability="none", keep_payload=False))


def is_mounted(device: str) -> bool:
    """True if the mount table has a block device, under any of its names."""
    real = os.path.realpath(device)
    sources = {mount.source for mount in mounts() if mount.source.startswith("/")}
    return any(os.path.realpath(source) == real for source in sources)


@contextlib.contextmanager
def _reported(path: Path) -> Iterator[None]:
    """Turns an error of the system into one for the user."""
    try:
        yield
    except OSError as error:
        raise TargetError(f"{path}: {error.strerror}") from None


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

"""Directories of targets as places for small files: a local directory, or the root of an NFS export."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar, Protocol

import msgspec

from iocurve._native import Export
from iocurve.engine.plan import EnginePlan, NfsEngine, NfsMetadataEngine, NfsMount
from iocurve.foundation.errors import TargetError
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

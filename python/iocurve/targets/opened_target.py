"""Opens a target for a load: starts an embedded volume or an emulated disk first, and removes it afterwards."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv4Address
from pathlib import Path

from iocurve.errors import TargetError
from iocurve.result.document import TargetFacts
from iocurve.targets import target as targets
from iocurve.targets.places import LocalPlace, NfsPlace, Place
from iocurve.targets.target import DiskTarget, LocalTarget, NewDiskTarget, NfsTarget, Target, VolumeTarget
from iocurve.units import MIB, format_bytes
from iocurve.volume.spec import memory_limit_bytes


@dataclass(frozen=True)
class OpenedTarget:
    """A target that is ready for a load."""

    target: NfsTarget | LocalTarget | DiskTarget
    """The target to connect to; for an embedded volume its NFS URL."""
    facts: TargetFacts
    path: str | None = None
    """The file or device to load; None if the load creates its own files."""
    bytes: int | None = None
    """Size of the file or device if it existed before; None otherwise."""

    @property
    def nconnect(self) -> int | None:
        """The ``nconnect`` of the URL; None if the target is not an NFS export."""
        return self.target.nconnect if isinstance(self.target, NfsTarget) else None

    @property
    def allows_many_clients(self) -> bool:
        """True if the load can use any source address in 127.0.0.0/8, so that the server sees many clients."""
        return isinstance(self.target, NfsTarget) and is_ipv4_loopback(self.target.url.host)

    def place(self, timeout_ns: int | None = None) -> Place | None:
        """The directory in which loads create their files; None for a file or a device.

        ``timeout_ns`` limits the time for which a silent server is waited for; it defaults to that of the target.
        """
        if self.path is not None:
            return None
        if isinstance(self.target, NfsTarget):
            return NfsPlace(self.target.mount(1, timeout_ns))
        return LocalPlace(self.target.path if isinstance(self.target, LocalTarget) else self.target.spec.directory)


UNOPENED = OpenedTarget(NfsTarget.of("nfs://unopened/export"), TargetFacts(kind="nfs", address=""))
"""Placeholder for points that are only counted and shown, not run."""


@contextmanager
def opened(target: Target) -> Iterator[OpenedTarget]:
    """Opens the target while the context lasts. Raises ``TargetError``."""
    if isinstance(target, VolumeTarget):
        with target.opened() as served:
            yield OpenedTarget(served, targets.facts_of(target))
    elif isinstance(target, NewDiskTarget):
        with target.opened() as disk:
            yield OpenedTarget(disk, targets.facts_of(target))
    elif not isinstance(target, LocalTarget) or target.kind == "directory":
        yield OpenedTarget(target, targets.facts_of(target))
    elif target.exists:
        yield OpenedTarget(target, targets.facts_of(target), str(target.path), target.bytes or None)
    else:
        with _new_file(target.path):
            yield OpenedTarget(target, targets.facts_of(target), str(target.path))


@contextmanager
def _new_file(path: Path) -> Iterator[None]:
    """Creates the file, so that the run may fill and remove it; removes it at the end if it is empty."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    except FileExistsError:
        raise TargetError(f"{path}: another program created this file just now; nothing was written to it") from None
    except OSError as error:
        raise TargetError(f"{path}: {error.strerror}") from None
    try:
        yield
    finally:
        # A file with data is kept or removed by the code that wrote the data.
        if path.exists() and not path.stat().st_size:
            path.unlink()


def check_overwrites(target: Target, *, overwrite: bool, writes: bool) -> None:
    """Refuses writes to an existing file or device unless the user allows them. Raises ``TargetError``."""
    if not isinstance(target, LocalTarget) or target.kind == "directory":
        return
    path, exists = target.path, target.path.exists()
    if exists and writes and not overwrite:
        raise TargetError(
            f"{path} already exists and writes would destroy its data; "
            "use --read-only to measure reads alone, --overwrite to allow the writes, or name a directory"
        )
    if not exists and not writes:
        raise TargetError(f"{path} does not exist, so there is nothing to read; name an existing file")
    if exists and target.bytes < MIB:
        raise TargetError(f"{path}: {format_bytes(target.bytes)} is too small; a target needs at least 1 MiB")


def check_space(target: Target, size_bytes: int) -> None:
    """Checks that files of this total size fit, if the free space is known. Raises ``TargetError``."""
    free_bytes, where = _free_space(target)
    if free_bytes is not None and size_bytes > free_bytes:
        name = target.path if isinstance(target, LocalTarget) else target.text
        needed, free = format_bytes(size_bytes), format_bytes(free_bytes)
        raise TargetError(f"{name}: {needed} of data do not fit in the {free} {where}")


def _free_space(target: Target) -> tuple[int | None, str]:
    """Bytes that the run's files can take, and where; None if unknown."""
    if isinstance(target, VolumeTarget) and target.export.store == "memory":
        return min(memory_limit_bytes(), target.export.quota_bytes()), "of memory available to the embedded volume"
    if isinstance(target, VolumeTarget):
        return _free_bytes(target.export.store), f"free in {target.export.store}"
    if isinstance(target, NewDiskTarget):
        return _free_bytes(Path.cwd()), "free in the current directory"
    if isinstance(target, DiskTarget) or (isinstance(target, LocalTarget) and target.kind == "directory"):
        return _free_bytes(target.path), "free there"
    return None, ""


def _free_bytes(directory: str | Path) -> int:
    try:
        return shutil.disk_usage(directory).free
    except OSError as error:
        raise TargetError(f"{directory} can no longer be used: {error.strerror}") from None


def is_ipv4_loopback(host: str) -> bool:
    """True if a host is this machine's, with all the addresses of 127.0.0.0/8 to call from."""
    try:
        return host == "localhost" or IPv4Address(host).is_loopback
    except AddressValueError:
        return False

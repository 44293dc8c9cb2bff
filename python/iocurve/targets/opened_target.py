"""A target that is ready for a load: started first if it must be, and gone afterwards if it was."""

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
from iocurve.targets.target import DiskTarget, LocalTarget, NewDiskTarget, NfsTarget, Target, VolumeTarget
from iocurve.units import MIB, format_bytes
from iocurve.volume.spec import memory_limit_bytes


@dataclass(frozen=True)
class OpenedTarget:
    """A target that can be loaded."""

    target: NfsTarget | LocalTarget | DiskTarget
    """As it is reached now."""
    facts: TargetFacts
    path: str | None = None
    """The file or device that is loaded; None where the load makes files of its own."""
    bytes: int | None = None
    """Size of the file or device, where it was there before; None otherwise."""

    @property
    def nconnect(self) -> int | None:
        """Connections that the URL asks for; None where the target is no NFS export."""
        return self.target.nconnect if isinstance(self.target, NfsTarget) else None

    @property
    def allows_many_clients(self) -> bool:
        """Whether a load can come from any address of 127.0.0.0/8, as if from as many machines."""
        return isinstance(self.target, NfsTarget) and _is_loopback(self.target.url.host)


UNOPENED = OpenedTarget(NfsTarget.of("nfs://unopened/export"), TargetFacts(kind="nfs", address=""))
"""Stands for a target in points that are only counted and shown."""


@contextmanager
def opened(target: Target) -> Iterator[OpenedTarget]:
    """The target while it can be loaded. Raises ``TargetError``."""
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
    """A file that a person named and that is not there: made here, so that it is ours to fill and to remove."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    except FileExistsError:
        raise TargetError(f"{path} exists already, although it did not a moment ago; nothing was written") from None
    except OSError as error:
        raise TargetError(f"{path}: {error.strerror}") from None
    try:
        yield
    finally:
        # What holds data is removed, or kept, by whoever wrote them.
        if path.exists() and not path.stat().st_size:
            path.unlink()


def check_overwrites(target: Target, *, overwrite: bool, writes: bool) -> None:
    """Nothing is written to what was there before unless the user said so. Raises ``TargetError``."""
    if not isinstance(target, LocalTarget) or target.kind == "directory":
        return
    path, there = target.path, target.path.exists()
    if there and writes and not overwrite:
        raise TargetError(
            f"{path} is already there and writes would destroy what is in it; "
            "--read-only measures reads alone, --overwrite allows the writes, or name a directory"
        )
    if not there and not writes:
        raise TargetError(f"{path}: there is nothing to read; name a file that is there")
    if there and target.bytes < MIB:
        raise TargetError(f"{path}: {format_bytes(target.bytes)} is too small; 1 MiB is the least")


def check_room(target: Target, size_bytes: int) -> None:
    """Files of so many bytes will fit, as far as that is known before they are made. Raises ``TargetError``."""
    room, what = _room(target)
    if room is not None and size_bytes > room:
        name = target.path if isinstance(target, LocalTarget) else target.text
        needed, there = format_bytes(size_bytes), format_bytes(room)
        raise TargetError(f"{name}: {needed} of data do not fit in the {there} {what}")


def _room(target: Target) -> tuple[int | None, str]:
    """Bytes that files of ours can have, and of what; None where that is not known."""
    if isinstance(target, VolumeTarget) and target.export.store == "memory":
        return min(memory_limit_bytes(), target.export.quota_bytes()), "of memory that the embedded volume may take"
    if isinstance(target, VolumeTarget):
        return shutil.disk_usage(target.export.store).free, f"that are free at {target.export.store}"
    if isinstance(target, NewDiskTarget):
        return shutil.disk_usage(Path.cwd()).free, "that are free in the current directory"
    if isinstance(target, DiskTarget) or (isinstance(target, LocalTarget) and target.kind == "directory"):
        return shutil.disk_usage(target.path).free, "that are free there"
    return None, ""


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or IPv4Address(host).is_loopback
    except AddressValueError:
        return False

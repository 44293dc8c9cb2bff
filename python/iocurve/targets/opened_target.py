"""Where a load goes: a target that is ready for it, started first if it must be, and gone after it if it was."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv4Address
from pathlib import Path

from iocurve.errors import TargetError
from iocurve.job.model import Section
from iocurve.result.document import TargetFacts
from iocurve.targets import target as targets
from iocurve.targets.target import DiskTarget, LocalTarget, NewDiskTarget, NfsTarget, Target, VolumeTarget
from iocurve.units import MIB, format_bytes
from iocurve.volume.serve import MemoryStore, store_of


@dataclass(frozen=True)
class Place:
    """A target that can be loaded."""

    target: NfsTarget | LocalTarget | DiskTarget
    """As it is reached now."""
    facts: TargetFacts
    section: Section
    """Fields of a job that lead its load here, without names of files."""
    path: str | None = None
    """The file or device that is loaded; None where files of our own are made."""
    bytes: int | None = None
    """Size of what is there already; None where it is made."""

    @property
    def has_many_clients(self) -> bool:
        """Whether a load can come from any address of 127.0.0.0/8, as if from as many machines."""
        return isinstance(self.target, NfsTarget) and _is_loopback(self.target.url.host)


ANYWHERE = Place(LocalTarget(Path(), "directory", 0), TargetFacts(kind="directory", address=""), Section())
"""For points that are only to be counted and shown."""


@contextmanager
def opened(target: Target) -> Iterator[Place]:
    """The place while it can be loaded. Raises ``TargetError``."""
    if isinstance(target, VolumeTarget):
        with target.opened() as served:
            yield _nfs(served, targets.facts_of(target))
    elif isinstance(target, NfsTarget):
        yield _nfs(target, targets.facts_of(target))
    elif isinstance(target, NewDiskTarget):
        with target.opened() as disk:
            yield Place(disk, targets.facts_of(target), disk.section())
    elif isinstance(target, DiskTarget):
        yield Place(target, targets.facts_of(target), target.section())
    else:
        yield _local(target)


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


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or IPv4Address(host).is_loopback
    except AddressValueError:
        return False


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
        store = store_of("memory")
        assert isinstance(store, MemoryStore)
        return min(store.limit_bytes, target.export.quota_bytes()), "of memory that the embedded volume may take"
    if isinstance(target, VolumeTarget):
        return shutil.disk_usage(target.export.store).free, f"that are free at {target.export.store}"
    if isinstance(target, NewDiskTarget):
        return shutil.disk_usage(Path.cwd()).free, "that are free in the current directory"
    if isinstance(target, DiskTarget) or (isinstance(target, LocalTarget) and target.kind == "directory"):
        return shutil.disk_usage(target.path).free, "that are free there"
    return None, ""


def _nfs(target: NfsTarget, facts: TargetFacts) -> Place:
    return Place(target, facts, Section(engine="nfs", nfs_url=target.text, nconnect=target.nconnect))


def _local(target: LocalTarget) -> Place:
    facts = targets.facts_of(target)
    if target.kind == "directory":
        return Place(target, facts, Section(directories=(str(target.path),)))
    return Place(target, facts, Section(), path=str(target.path), bytes=target.bytes or None)

"""Where a load goes: a target that is ready for it, started first if it must be, and gone after it if it was."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv4Address
from pathlib import Path

from iocurve import target as targets
from iocurve.errors import TargetError
from iocurve.model import Section
from iocurve.result import TargetFacts
from iocurve.target import DiskTarget, LocalTarget, NewDiskTarget, NfsTarget, Target, VolumeTarget
from iocurve.units import MIB, format_bytes


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


def _nfs(target: NfsTarget, facts: TargetFacts) -> Place:
    return Place(target, facts, Section(engine="nfs", nfs_url=target.text, nconnect=target.nconnect))


def _local(target: LocalTarget) -> Place:
    facts = targets.facts_of(target)
    if target.kind == "directory":
        return Place(target, facts, Section(directories=(str(target.path),)))
    return Place(target, facts, Section(), path=str(target.path), bytes=target.bytes or None)

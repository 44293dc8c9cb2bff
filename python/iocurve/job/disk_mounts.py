"""``--disk MOUNT=disk:…``: jobs whose files are below MOUNT have them on an emulated disk, and need not be changed."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from iocurve.errors import Mistake, Where
from iocurve.job.model import Job
from iocurve.job.resolve import Machine, PathFacts
from iocurve.targets.disk import parse_disk


@dataclass(frozen=True)
class DiskMount:
    """A directory that an emulated disk stands in for."""

    mount: str
    disk: str
    """As a target: ``disk:…``."""
    where: Where | None

    @classmethod
    def of(cls, text: str, where: Where | None) -> DiskMount:
        """Reads ``MOUNT=disk:…``. Raises ``ValueError`` with all that is wrong in it."""
        mount, equals, disk = text.partition("=")
        if not equals or not disk.startswith("disk:") or not mount.startswith("/"):
            raise ValueError(
                "--disk needs a directory and a disk, as in --disk '/mnt/data=disk:premium-ssd-p30?path=DIR'"
            )
        parse_disk(disk)
        return cls(os.path.normpath(mount), disk, where)


@dataclass(frozen=True)
class MountedMachine:
    """A machine on which files below the mounts are where the disks keep them."""

    machine: Machine
    mounts: tuple[DiskMount, ...]
    directory: Path
    """What relative names start from."""

    def look(self, path: str) -> PathFacts:
        """What is at ``path``, or at its place on a disk."""
        for mount in sorted(self.mounts, key=lambda mount: -len(mount.mount)):
            within = _within(mount.mount, self.directory / path)
            if within is not None:
                return self.machine.look(str(self.directory / parse_disk(mount.disk).directory / within))
        return self.machine.look(path)

    def is_mounted(self, device: str) -> bool:
        """Whether a block device holds a mounted file system."""
        return self.machine.is_mounted(device)

    def cpus(self) -> frozenset[int]:
        """Processors that workers may be bound to."""
        return self.machine.cpus()

    def user(self) -> tuple[int, int]:
        """User and group to be for an NFS server."""
        return self.machine.user()

    def fresh_seed(self) -> int:
        """64 bits that no other run has."""
        return self.machine.fresh_seed()


def put_on_disks(job: Job, mounts: Sequence[DiskMount], directory: Path) -> tuple[Job, list[Mistake]]:
    """The job with its files on the disks, and what is wrong with that; relative names start from ``directory``."""
    mistakes: list[Mistake] = []
    used: set[DiskMount] = set()
    sections = []
    for section in job.sections:
        names = section.files.directories or section.files.paths
        # The innermost mount counts, as it does for a kernel.
        for one in sorted(mounts, key=lambda mount: -len(mount.mount)):
            within = [_within(one.mount, directory / name) for name in names]
            if not any(within):
                continue
            used.add(one)
            if not all(within):
                text = f"{section.name}: some of its files are below {one.mount} and some are not; split the job"
                mistakes.append(Mistake(text, section.where("directories", "paths", "name")))
            field = "directories" if section.files.directories else "paths"
            moved = section.said.but(**{"disk": one.disk, field: tuple(name or "." for name in within)})
            sections.append(moved)
            break
        else:
            sections.append(section.said)
    mistakes += [Mistake(f"no job has files below {mount.mount}", mount.where) for mount in mounts if mount not in used]
    return Job.of(job.name, job.words, sections, job.defaults), mistakes


def _within(mount: str, path: Path) -> str | None:
    """The name from the mount on; None if it is not below."""
    whole = os.path.normpath(path)
    return os.path.relpath(whole, mount) if whole == mount or whole.startswith(mount.rstrip("/") + "/") else None

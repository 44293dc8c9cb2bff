"""``--disk MOUNT=disk:…``: moves files below MOUNT to an emulated disk; the job file stays as it is."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from iocurve.foundation.errors import Diagnostic, Where
from iocurve.job.model import Job, Section
from iocurve.job.resolve import Machine, PathFacts
from iocurve.targets.disk import parse_disk


class DiskMount(msgspec.Struct, frozen=True):
    """A directory that an emulated disk replaces."""

    mount: str
    disk: str
    """The disk as a target: ``disk:…``."""
    where: Where | None

    @classmethod
    def of(cls, text: str, where: Where | None) -> DiskMount:
        """Reads ``MOUNT=disk:…``. Raises ``ValueError`` with all errors."""
        mount, equals, disk = text.partition("=")
        if not equals or not disk.startswith("disk:") or not mount.startswith("/"):
            raise ValueError(
                "--disk needs a directory and a disk, as in --disk '/mnt/data=disk:premium-ssd-p30?path=DIR'"
            )
        parse_disk(disk)
        return cls(os.path.normpath(mount), disk, where)


def stat_on(mounts: Sequence[DiskMount], machine: Machine, directory: Path) -> Callable[[str], PathFacts]:
    """The function that gives kind and size of a file, on its disk if it is below a mount.

    Relative names start from ``directory``.
    """

    def stat(path: str) -> PathFacts:
        for mount in sorted(mounts, key=lambda mount: -len(mount.mount)):
            within = _within(mount.mount, directory / path)
            if within is not None:
                return machine.stat(str(directory / parse_disk(mount.disk).directory / within))
        return machine.stat(path)

    return stat


def put_on_disks(job: Job, mounts: Sequence[DiskMount], directory: Path) -> tuple[Job, list[Diagnostic]]:
    """The job with its files on the disks, and the errors; relative names start from ``directory``."""
    if not mounts:
        return job, []
    errors: list[Diagnostic] = []
    used: set[DiskMount] = set()
    sections = []
    for section in job.sections:
        names = section.files.directories or section.files.paths
        # The innermost mount takes effect, as in the kernel.
        for one in sorted(mounts, key=lambda mount: -len(mount.mount)):
            within = [_within(one.mount, directory / name) for name in names]
            if not any(within):
                continue
            used.add(one)
            if not all(within):
                text = f"{section.name}: some of its files are below {one.mount}, others are not; split the job"
                errors.append(Diagnostic(text, section.where("directories", "paths", "name")))
            field = "directories" if section.files.directories else "paths"
            moved = section.said.but(**{"disk": one.disk, field: tuple(name or "." for name in within)})
            sections.append(Section.of(moved, job.defaults))
            break
        else:
            sections.append(section)
    errors += [
        Diagnostic(f"no job has files below {mount.mount}", mount.where) for mount in mounts if mount not in used
    ]
    return job.replace(sections=tuple(sections)), errors


def _within(mount: str, path: Path) -> str | None:
    """The path relative to the mount; None if it is not below the mount."""
    whole = os.path.normpath(path)
    return os.path.relpath(whole, mount) if whole == mount or whole.startswith(mount.rstrip("/") + "/") else None

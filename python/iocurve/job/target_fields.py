"""Fields of a section that direct its load to an opened target."""

from __future__ import annotations

from iocurve.job.model import Said
from iocurve.targets.opened_target import OpenedTarget
from iocurve.targets.target import DiskTarget, NfsTarget


def target_fields(opened: OpenedTarget) -> Said:
    """The fields, without file names; on an emulated disk file names are relative to the disk's directory."""
    target = opened.target
    if isinstance(target, NfsTarget):
        return Said.of(engine="nfs", nfs_url=target.text)
    if isinstance(target, DiskTarget):
        return Said.of(disk=target.text)
    return Said.of(directories=(str(target.path),)) if target.kind == "directory" else Said()

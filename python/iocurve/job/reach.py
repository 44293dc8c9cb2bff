"""Which fields of a section lead its load to a target."""

from __future__ import annotations

from iocurve.job.model import Said
from iocurve.targets.opened_target import OpenedTarget
from iocurve.targets.target import DiskTarget, NfsTarget


def reach(opened: OpenedTarget) -> Said:
    """Where the load goes, without names of files: those of an emulated disk start from the disk's directory."""
    target = opened.target
    if isinstance(target, NfsTarget):
        return Said.of(engine="nfs", nfs_url=target.text)
    if isinstance(target, DiskTarget):
        return Said.of(disk=target.text)
    return Said.of(directories=(str(target.path),)) if target.kind == "directory" else Said()

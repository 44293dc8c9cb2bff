"""Which fields of a section lead its load to a target."""

from __future__ import annotations

from iocurve.job.model import Section
from iocurve.targets.opened_target import OpenedTarget
from iocurve.targets.target import DiskTarget, NfsTarget


def reach(opened: OpenedTarget) -> Section:
    """Where the load goes, without names of files: those of an emulated disk start from the disk's directory."""
    target = opened.target
    if isinstance(target, NfsTarget):
        return Section(engine="nfs", nfs_url=target.text, nconnect=target.nconnect)
    if isinstance(target, DiskTarget):
        return Section(disk=target.text)
    return Section(directories=(str(target.path),)) if target.kind == "directory" else Section()

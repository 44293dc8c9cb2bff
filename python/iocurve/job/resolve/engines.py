"""Which engine a worker runs on, and how it opens files."""

from __future__ import annotations

from ipaddress import ip_address

from iocurve.engine import plan as planned
from iocurve.job.model import Section
from iocurve.job.resolve.findings import Findings
from iocurve.targets.disk import DiskSpec, parse_disk
from iocurve.targets.nfs_url import NfsUrl, parse_nfs_url
from iocurve.units import SECOND_NS

NCONNECT_DEFAULT = 1
TIMEOUT_DEFAULT_NS = 60 * SECOND_NS
"""How long a server may be silent before a run gives up."""


def nfs_url_of(section: Section, findings: Findings) -> NfsUrl | None:
    """The server of a section that runs on NFS."""
    if section.target.engine != "nfs":
        return None
    if section.target.nfs_url is None:
        hint = f"add {findings.option('nfs_url', 'nfs://host/export')}"
        findings.mistake(section, f"{findings.option('engine', 'nfs')} needs a server", ("engine",), hint)
        return None
    try:
        ip_address(section.target.nfs_source or "::")
    except ValueError:
        findings.mistake(section, f"nfs_source: '{section.target.nfs_source}' is not an IP address", ("nfs_source",))
    try:
        return parse_nfs_url(section.target.nfs_url)
    except ValueError as error:
        findings.mistake(section, str(error), ("nfs_url",))
        return None


def disk_of(section: Section, findings: Findings) -> DiskSpec | None:
    """The emulated disk of a section."""
    if section.target.disk is None:
        return None
    if section.target.engine == "nfs":
        text = f"{findings.option('disk')}: an emulated disk is for local files, not for NFS"
        findings.mistake(section, text, ("disk", "engine"))
        return None
    try:
        return parse_disk(section.target.disk)
    except ValueError as error:
        findings.mistake(section, str(error), ("disk",))
        return None


def planned_engine(section: Section, url: NfsUrl | None, user: tuple[int, int]) -> planned.EnginePlan:
    """The engine of a section's workers; ``user`` is who we are to an NFS server."""
    if url is not None:
        return planned.NfsEngine(mount=_mount(section, url, user))
    if section.target.engine == "null":
        return planned.NullEngine()
    how = planned.FileOpen(
        direct=section.target.direct,
        durability=section.target.durability,
        invalidate=section.target.invalidate,
    )
    if section.target.disk is not None:
        # This machine's page cache plays the device, and its limits the emulation.
        how = planned.FileOpen(direct=False, durability="none", invalidate=False)
    if section.target.engine == "aio":
        return planned.AioEngine(open=how)
    if section.target.engine == "uring":
        return planned.UringEngine(open=how)
    return planned.MmapEngine(open=how) if section.target.engine == "mmap" else planned.SyncEngine(open=how)


def _mount(section: Section, url: NfsUrl, user: tuple[int, int]) -> planned.NfsMount:
    target, (uid, gid) = section.target, user
    return planned.NfsMount(
        host=url.host,
        port=url.port,
        mount_port=url.mount_port,
        export=url.export,
        version=3,
        nconnect=_first(target.nconnect, url.nconnect, NCONNECT_DEFAULT),
        uid=uid if url.uid is None else url.uid,
        gid=gid if url.gid is None else url.gid,
        durability=section.target.durability,
        timeout_ns=_first(target.nfs_timeout_ns, url.timeout_ns, TIMEOUT_DEFAULT_NS),
        keep_payload=section.data.verify is not None,
        source=section.target.nfs_source and str(ip_address(section.target.nfs_source)),
    )


def _first(*said: int | None) -> int:
    """What was said nearest to the load: by the job, by the URL, by nobody."""
    return next(value for value in said if value is not None)

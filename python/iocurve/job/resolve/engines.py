"""Which engine a worker runs on, and how it opens files."""

from __future__ import annotations

from ipaddress import ip_address

from iocurve.engine import plan as planned
from iocurve.job.model import Section, settled
from iocurve.job.resolve.findings import Findings
from iocurve.targets.disk import DiskSpec, parse_disk
from iocurve.targets.nfs_url import NfsUrl, parse_nfs_url


def nfs_url_of(section: Section, findings: Findings) -> NfsUrl | None:
    """The server of a section that runs on NFS."""
    if section.engine != "nfs":
        return None
    if section.nfs_url is None:
        hint = f"add {findings.option('nfs_url', 'nfs://host/export')}"
        findings.mistake(section, f"{findings.option('engine', 'nfs')} needs a server", ("engine",), hint)
        return None
    try:
        ip_address(section.nfs_source or "::")
    except ValueError:
        findings.mistake(section, f"nfs_source: '{section.nfs_source}' is not an IP address", ("nfs_source",))
    try:
        return parse_nfs_url(section.nfs_url)
    except ValueError as error:
        findings.mistake(section, str(error), ("nfs_url",))
        return None


def disk_of(section: Section, findings: Findings) -> DiskSpec | None:
    """The emulated disk of a section."""
    if section.disk is None:
        return None
    if section.engine == "nfs":
        text = f"{findings.option('disk')}: an emulated disk is for local files, not for NFS"
        findings.mistake(section, text, ("disk", "engine"))
        return None
    try:
        return parse_disk(section.disk)
    except ValueError as error:
        findings.mistake(section, str(error), ("disk",))
        return None


def planned_engine(section: Section, url: NfsUrl | None, user: tuple[int, int]) -> planned.EnginePlan:
    """The engine of a section's workers; ``user`` is who we are to an NFS server."""
    if url is not None:
        return planned.NfsEngine(mount=_mount(section, url, user))
    if section.engine == "null":
        return planned.NullEngine()
    how = planned.FileOpen(
        direct=settled(section.direct),
        durability=settled(section.durability),
        invalidate=settled(section.invalidate),
    )
    if section.disk is not None:
        # This machine's page cache plays the device, and its limits the emulation.
        how = planned.FileOpen(direct=False, durability="none", invalidate=False)
    if section.engine == "aio":
        return planned.AioEngine(open=how)
    if section.engine == "uring":
        return planned.UringEngine(open=how)
    return planned.MmapEngine(open=how) if section.engine == "mmap" else planned.SyncEngine(open=how)


def _mount(section: Section, url: NfsUrl, user: tuple[int, int]) -> planned.NfsMount:
    uid, gid = user
    said = section.nconnect if "nconnect" in section.positions or url.nconnect is None else url.nconnect
    is_said = "nfs_timeout_ns" in section.positions or url.timeout_ns is None
    timeout_ns = section.nfs_timeout_ns if is_said else url.timeout_ns
    return planned.NfsMount(
        host=url.host,
        port=url.port,
        mount_port=url.mount_port,
        export=url.export,
        version=3,
        nconnect=settled(said),
        uid=uid if url.uid is None else url.uid,
        gid=gid if url.gid is None else url.gid,
        durability=settled(section.durability),
        timeout_ns=settled(timeout_ns),
        keep_payload=section.verify is not None,
        source=section.nfs_source and str(ip_address(section.nfs_source)),
    )

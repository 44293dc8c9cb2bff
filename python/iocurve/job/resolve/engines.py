"""The engine of a worker, and the flags that it opens files with; and workers of metadata operations."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import ip_address

from iocurve.engine import plan as planned
from iocurve.foundation.errors import Diagnostic, DialectError
from iocurve.job.model import Job, PlanNote, Section
from iocurve.job.resolve.checks import Diagnostics
from iocurve.job.resolve.machine import Machine
from iocurve.job.resolve.tree import WHOLE_FILES
from iocurve.targets.disk import DiskSpec, parse_disk
from iocurve.targets.nfs_url import NfsUrl, parse_nfs_url, parse_nfs_urls


def checked_nfs_url(text: str) -> str:
    """The URL of an export, as a path of another tool names it. Raises ``DialectError``."""
    try:
        parse_nfs_url(text)
    except ValueError as error:
        raise DialectError([Diagnostic(str(error))]) from None
    return text


def nfs_urls_of(section: Section, diagnostics: Diagnostics) -> tuple[NfsUrl, ...]:
    """The addresses of the server of a section that runs on NFS; its workers take them in turn."""
    if section.target.engine != "nfs":
        return ()
    if section.target.nfs_url is None:
        hint = f"add {diagnostics.option('nfs_url', 'nfs://host/export')}"
        diagnostics.error(section, f"{diagnostics.option('engine', 'nfs')} needs a server", ("engine",), hint)
        return ()
    try:
        ip_address(section.target.nfs_source or "::")
    except ValueError:
        diagnostics.error(section, f"nfs_source: '{section.target.nfs_source}' is not an IP address", ("nfs_source",))
    try:
        return parse_nfs_urls(section.target.nfs_url)
    except ValueError as error:
        diagnostics.error(section, str(error), ("nfs_url",))
        return ()


def disk_of(section: Section, diagnostics: Diagnostics) -> DiskSpec | None:
    """The emulated disk of a section."""
    if section.target.disk is None:
        return None
    if section.target.engine == "nfs":
        text = f"{diagnostics.option('disk')}: an emulated disk is for local files, not for NFS"
        diagnostics.error(section, text, ("disk", "engine"))
        return None
    try:
        return parse_disk(section.target.disk)
    except ValueError as error:
        diagnostics.error(section, str(error), ("disk",))
        return None


def planned_engine(section: Section, url: NfsUrl | None, machine: Machine) -> planned.EnginePlan:
    """The engine of a section's workers; AIO where the machine refuses io_uring and the job names no engine."""
    if url is not None:
        return planned.NfsEngine(mount=_mount(section, url, machine.user()))
    if section.target.engine == "null":
        return planned.NullEngine()
    how = planned.FileOpen(
        direct=section.target.direct, durability=section.target.durability, invalidate=section.target.invalidate
    )
    if section.target.disk is not None:
        # The page cache of this machine emulates the device; the plan's disk emulates its limits.
        how = planned.FileOpen(direct=False, durability="none", invalidate=False)
    if section.target.space_call:
        return planned.SpaceEngine(open=how, call=section.target.space_call)
    engine = section.target.engine
    if engine == "uring" and "engine" not in section.given and not machine.has_io_uring():
        engine = "aio"
    if engine == "aio":
        return planned.AioEngine(open=how)
    if engine == "uring":
        return planned.UringEngine(open=how)
    return planned.MmapEngine(open=how) if section.target.engine == "mmap" else planned.SyncEngine(open=how)


def _mount(section: Section, url: NfsUrl, user: tuple[int, int]) -> planned.NfsMount:
    target = section.target
    return url.mount(user, target.nconnect, target.nfs_timeout_ns).replace(
        durability=target.durability,
        keep_payload=target.keep_payload or section.data.verify is not None,
        source=target.nfs_source and str(ip_address(target.nfs_source)),
    )


def sharing_mounts(
    job: Job, workers: Sequence[list[planned.Worker]], diagnostics: Diagnostics
) -> list[list[planned.Worker]]:
    """The workers of all sections, where those that run at once on one mount of one client share its connections.

    A worker has its connections to itself, so each gets a part of them, and one where there are more workers.
    """
    mounts: dict[tuple[object, ...], list[tuple[int, int]]] = {}
    start = 0
    for at, (section, members) in enumerate(zip(job.sections, workers, strict=True)):
        start = at if section.report.barrier else start
        urls = parse_nfs_urls(section.target.nfs_url or "") if section.target.engine == "nfs" and members else ()
        if not any(job.words.shares_mount if url.shared_mount is None else url.shared_mount for url in urls):
            continue
        for place, worker in enumerate(members):
            if isinstance(worker.engine, planned.NfsEngine):
                mount = worker.engine.mount
                where = start, worker.client, mount.source, mount.host, mount.export
                mounts.setdefault(where, []).append((at, place))
    shared = [list(members) for members in workers]
    for places in mounts.values():
        engines = [shared[at][place].engine for at, place in places]
        most = max(engine.mount.nconnect for engine in engines if isinstance(engine, planned.NfsEngine))
        if len(places) == 1 or most == 1:
            continue
        for number, (at, place) in enumerate(places):
            worker = shared[at][place]
            each = max(1, most // len(places) + (number < most % len(places)))
            assert isinstance(worker.engine, planned.NfsEngine), "as above"
            engine = worker.engine.replace(mount=worker.engine.mount.replace(nconnect=each))
            shared[at][place] = worker.replace(engine=engine)
        diagnostics.notes.append(_sharing_note(job, job.sections[places[0][0]], len(places), most))
    return shared


def _sharing_note(job: Job, section: Section, count: int, connections: int) -> PlanNote:
    jobs, option = f"{count} {job.words.worker}s", "shared_mount=0 in the URL gives each as many"
    text = f"{jobs} share the {connections} connections of a mount, as those of a kernel mount do; {option}"
    if count > connections:
        text = f"{jobs} have one connection each, where those of a kernel mount share {connections}; {option}"
    return PlanNote("mount_shared", text, section.where("nconnect", "nfs_url"))


NEEDS_NO_FILE: frozenset[planned.MetadataKind] = frozenset({"create", "mkdir", "rmdir"})
"""Kinds whose files are not laid out before the run."""


def on_each_file(section: Section, worker: planned.Worker) -> planned.Worker:
    """The worker of a section with ``load.metadata``."""
    kind = section.load.metadata
    assert kind is not None, "asked by the caller"
    block = worker.files[0].bytes if kind in WHOLE_FILES else 1
    operation = planned.OperationPlan(
        kind=kind, share=1, blocks=planned.FixedBlocks(bytes=block), random_percent=0, rate=_rate(worker)
    )
    files = worker.files
    if not section.files.regions:
        is_name = section.files.are_directories or kind in NEEDS_NO_FILE
        makes = section.files.are_directories and not section.files.read_only
        layout: planned.Layout | None = ("directory" if makes else "nothing") if is_name else None
        files = tuple(_file(file, layout) for file in files)
    return worker.replace(
        engine=_engine(worker.engine),
        files=files,
        operations=(operation,),
        access=planned.Access(),
        depth=worker.depth if isinstance(worker.engine, planned.NfsEngine) else 1,
        batch=planned.Batch(),
        rate=None,
        syncs=(),
        sync_at_end=False,
        end=_end(section, worker),
        verify=None,
        log=None,
        submission_latency=False,
    )


def _engine(engine: planned.EnginePlan) -> planned.EnginePlan:
    if isinstance(engine, planned.NfsEngine):
        return planned.NfsMetadataEngine(mount=engine.mount, keep_open=False)
    assert isinstance(engine, planned.SyncEngine), "a section with a metadata operation has this engine"
    return planned.MetadataEngine(open=engine.open, keep_open=False)


def _file(file: planned.FilePlan, name_layout: planned.Layout | None) -> planned.FilePlan:
    """The file with a region of one byte, its last: one operation on each file is a pass."""
    if name_layout is not None:
        return file.replace(offset_bytes=0, bytes=1, start_bytes=0, layout=name_layout)
    return file.replace(offset_bytes=file.offset_bytes + file.bytes - 1, bytes=1, start_bytes=0)


def _rate(worker: planned.Worker) -> planned.Rate | None:
    """The rate in operations; bytes have no meaning here."""
    rates = [rate for rate in (worker.operations[0].rate, worker.rate) if rate and rate.unit == "operations"]
    return rates[0] if rates else None


def _end(section: Section, worker: planned.Worker) -> planned.End:
    if section.files.regions:
        return planned.End(runtime_ns=section.ending.runtime_ns or None, bytes=None, operations=len(worker.files))
    if worker.end.bytes is None and worker.end.operations is None:
        return worker.end
    operations = len(worker.files) * section.ending.loops
    most = section.ending.operations * section.ending.loops
    return worker.end.replace(bytes=None, operations=min(operations, most) if most else operations)

"""Workers that do one metadata operation on each of their files, in place of reads, writes and trims."""

from __future__ import annotations

from iocurve.engine import plan as planned
from iocurve.job.model import Section
from iocurve.job.resolve.tree import WHOLE_FILES

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
        files = tuple(_file(file, kind, section.files.are_directories) for file in files)
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


def _file(file: planned.FilePlan, kind: planned.MetadataKind, is_directory: bool) -> planned.FilePlan:
    """The file with a region of one byte, its last: one operation on each file is a pass."""
    if is_directory or kind in NEEDS_NO_FILE:
        layout: planned.Layout = "directory" if is_directory else "nothing"
        return file.replace(offset_bytes=0, bytes=1, start_bytes=0, layout=layout)
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

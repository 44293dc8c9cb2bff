"""Renders a worker's operations as a trace that ``read_iolog`` replays: version 3 of fio's iolog."""

from __future__ import annotations

import os
from collections.abc import Iterator

from iocurve.engine.outcome import LogRecords, WorkerOutcome
from iocurve.engine.plan import Worker
from iocurve.units import MICROSECOND_NS


def lines(worker: WorkerOutcome, planned: Worker) -> Iterator[str]:
    """Lines of microseconds, file, action, offset and length, in the order in which operations were submitted."""
    assert worker.log is not None, "a worker with write_iolog has a log"
    names = [_name(file.path) for file in planned.files]
    yield "fio version 3 iolog"
    for action in ("add", "open"):
        yield from (f"0 {name} {action}" for name in names)
    last_us = 0
    for last_us, kind, offset, length, file in _submitted(worker.log.unpack()):
        yield f"{last_us} {names[file]} {kind} {offset} {length}"
    yield from (f"{last_us} {name} close" for name in names)


def _submitted(records: LogRecords) -> list[tuple[int, str, int, int, int]]:
    columns = (records.at_ns, records.service_ns, records.kind, records.offset, records.bytes, records.file)
    found = [
        (at_ns - int(service_ns), kind, offset, length, file)
        for at_ns, service_ns, kind, offset, length, file in zip(*columns, strict=True)
    ]
    found.sort(key=lambda each: each[0])
    return [(at_ns // MICROSECOND_NS, *rest) for at_ns, *rest in found]


def _name(path: str) -> str:
    """The name as a job in the current directory would have it."""
    inside = os.path.relpath(path)
    return path if inside.startswith("..") else inside

"""Samples how much of a load's files the page cache holds, without reading anything from storage."""

from __future__ import annotations

import errno
import os
import random
from pathlib import Path

from iocurve.engine.plan import FileOpen, FilePlan, Plan, Worker

SAMPLES = 256
SAMPLE_BYTES = 4096


def resident_share(plan: Plan) -> float | None:
    """The part of the files that the page cache holds; None where I/O bypasses it, or the system does not tell.

    A read with ``RWF_NOWAIT`` (preadv2(2)) returns what is cached and fails where it would have to wait for storage.
    """
    files = [
        file
        for worker in plan.groups[0].workers
        if worker.disk is None and _is_buffered(worker)
        for file in worker.files
    ]
    found = [hit for file in files for hit in _sampled(file, max(1, SAMPLES // len(files)))]
    return sum(found) / len(found) if found else None


def _is_buffered(worker: Worker) -> bool:
    opened = getattr(worker.engine, "open", None)
    return isinstance(opened, FileOpen) and not opened.direct


def _sampled(file: FilePlan, count: int) -> list[bool]:
    """For each of some blocks of a file, True if it is in the page cache."""
    if not hasattr(os, "RWF_NOWAIT") or not Path(file.path).is_file():
        return []
    # The same blocks each time: a sample must not depend on the run.
    chance = random.Random(0)
    blocks = max(1, file.bytes // SAMPLE_BYTES)
    buffer = bytearray(SAMPLE_BYTES)
    descriptor = os.open(file.path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        places = [file.offset_bytes + chance.randrange(blocks) * SAMPLE_BYTES for _ in range(count)]
        answers = [_is_cached(descriptor, buffer, place) for place in places]
    finally:
        os.close(descriptor)
    return [answer for answer in answers if answer is not None]


def _is_cached(descriptor: int, buffer: bytearray, offset: int) -> bool | None:
    try:
        return os.preadv(descriptor, [buffer], offset, os.RWF_NOWAIT) > 0
    except OSError as error:
        return False if error.errno == errno.EAGAIN else None

"""Tells how much of a load's files the page cache holds, without reading anything from storage.

cachestat(2) counts the pages; kernels before 6.5 do not have it, and then blocks are sampled by reads with
``RWF_NOWAIT`` (preadv2(2)), which return what is cached and fail where they would have to wait for storage.
"""

from __future__ import annotations

import ctypes
import errno
import os
import random
from pathlib import Path

from iocurve.engine.plan import FileOpen, FilePlan, Plan, Worker

SAMPLES = 256
SAMPLE_BYTES = 4096
CACHESTAT = 451
"""The number of the system call, the same on all architectures that iocurve is built for."""


def resident_share(plan: Plan) -> float | None:
    """The part of the files that the page cache holds; None where I/O bypasses it, or the system does not tell."""
    files = {
        (file.path, file.offset_bytes): file
        for worker in plan.groups[0].workers
        if worker.disk is None and _is_buffered(worker)
        for file in worker.files
    }
    shares = [
        (share, file.bytes)
        for file in files.values()
        if (share := _share(file, max(1, SAMPLES // len(files)))) is not None
    ]
    whole = sum(size for _, size in shares)
    return sum(share * size for share, size in shares) / whole if whole else None


def _share(file: FilePlan, samples: int) -> float | None:
    if not Path(file.path).is_file() or not file.bytes:
        return None
    descriptor = os.open(file.path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        counted = _counted(descriptor, file)
        return _sampled(descriptor, file, samples) if counted is None else counted
    finally:
        os.close(descriptor)


def _counted(descriptor: int, file: FilePlan) -> float | None:
    """By cachestat(2); None where the kernel or the file system does not have it."""
    place = (ctypes.c_uint64 * 2)(file.offset_bytes, file.bytes)
    # Pages in the cache, dirty, in writeback, evicted, evicted recently.
    pages = (ctypes.c_uint64 * 5)()
    if ctypes.CDLL(None, use_errno=True).syscall(CACHESTAT, descriptor, place, pages, 0) != 0:
        return None
    return min(1.0, pages[0] * os.sysconf("SC_PAGE_SIZE") / file.bytes)


def _is_buffered(worker: Worker) -> bool:
    opened = getattr(worker.engine, "open", None)
    return isinstance(opened, FileOpen) and not opened.direct


def _sampled(descriptor: int, file: FilePlan, count: int) -> float | None:
    """The share of some blocks that are in the page cache."""
    if not hasattr(os, "RWF_NOWAIT"):
        return None
    # The same blocks each time: a sample must not depend on the run.
    chance = random.Random(0)
    blocks = max(1, file.bytes // SAMPLE_BYTES)
    buffer = bytearray(SAMPLE_BYTES)
    places = [file.offset_bytes + chance.randrange(blocks) * SAMPLE_BYTES for _ in range(count)]
    answers = [answer for place in places if (answer := _is_cached(descriptor, buffer, place)) is not None]
    return sum(answers) / len(answers) if answers else None


def _is_cached(descriptor: int, buffer: bytearray, offset: int) -> bool | None:
    try:
        return os.preadv(descriptor, [buffer], offset, os.RWF_NOWAIT) > 0
    except OSError as error:
        return False if error.errno == errno.EAGAIN else None

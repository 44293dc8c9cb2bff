"""fio's disk statistics: I/O of the disks below the job's files, from Linux's ``/sys/dev/block``."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path

import msgspec

from iocurve.engine.plan import NfsEngine, NullEngine, Plan
from iocurve.machine.mounts import counters, device_name, nearest_status

_STAT_FIELDS = {
    "read_ios": 0,
    "write_ios": 4,
    "read_merges": 1,
    "write_merges": 5,
    "read_ticks": 3,
    "write_ticks": 7,
    "in_queue": 10,
}
"""fio's names, in fio's order, and the positions of the fields in ``stat``; ticks are milliseconds."""
_BUSY_MS = 9


class DiskUse(msgspec.Struct, frozen=True):
    """Use of one disk between two readings."""

    name: str
    counts: dict[str, int]
    util_percent: float


class DiskWatch(msgspec.Struct):
    """Reads the counters of disks at the start of a run and at its end. Disks without counters are omitted."""

    root: Path = Path("/sys/dev/block")
    _started: dict[str, list[int]] = msgspec.field(default_factory=dict)
    _ended: dict[str, list[int]] = msgspec.field(default_factory=dict)
    _start_s: float = 0.0
    _elapsed_s: float = 0.0

    def start(self, paths: Iterable[str]) -> None:
        """Reads the counters of the disks below ``paths``; a second call replaces the first."""
        disks = {disk for path in paths if (disk := _disk_of(path, self.root))}
        self._started, self._start_s = {str(disk): _counters(disk) for disk in sorted(disks)}, time.monotonic()
        self.end()

    def end(self) -> None:
        """Reads the counters again."""
        self._ended, self._elapsed_s = {name: _counters(Path(name)) for name in self._started}, time.monotonic()
        self._elapsed_s -= self._start_s

    def uses(self) -> list[DiskUse]:
        """The use of each disk between the two readings."""
        return [
            self._use(Path(name).name, before, self._ended[name])
            for name, before in self._started.items()
            if before and self._ended.get(name)
        ]

    def _use(self, name: str, before: list[int], after: list[int]) -> DiskUse:
        counts = {name: after[index] - before[index] for name, index in _STAT_FIELDS.items()}
        busy_ms, elapsed_ms = after[_BUSY_MS] - before[_BUSY_MS], self._elapsed_s * 1000
        return DiskUse(name, counts, min(100.0, 100.0 * busy_ms / elapsed_ms) if elapsed_ms else 0.0)


def disk_paths(plan: Plan) -> list[str]:
    """Paths of the plan's local files."""
    workers = [worker for group in plan.groups for worker in group.workers]
    local = [worker for worker in workers if not isinstance(worker.engine, NullEngine | NfsEngine)]
    return list(dict.fromkeys(file.path for worker in local for file in worker.files))


def _disk_of(path: str, root: Path) -> Path | None:
    """The sysfs directory of the disk below a file (or below the nearest directory above it), not of a partition."""
    status = nearest_status(Path(path))
    if status is None:
        return None
    try:
        device = (root / device_name(status.st_rdev or status.st_dev)).resolve(strict=True)
    except OSError:
        return None
    return device.parent if (device / "partition").exists() else device


def _counters(disk: Path) -> list[int]:
    found = counters(disk) or []
    return found if len(found) > max(_STAT_FIELDS.values()) else []

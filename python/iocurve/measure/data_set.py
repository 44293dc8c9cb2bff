"""The files of a scenario or a search: equal parts of one data set on one target."""

from __future__ import annotations

import os
from collections.abc import Sequence

import msgspec

from iocurve.engine.plan import FixedBlocks
from iocurve.foundation.errors import Diagnostic, PlanError, TargetError
from iocurve.foundation.units import MIB, format_bytes
from iocurve.job.model import Load, Said, TreeLoad
from iocurve.measure.machines import Machines
from iocurve.result.document import Axis
from iocurve.targets.opened_target import OpenedTarget
from iocurve.targets.target import DiskTarget, NfsTarget, Target, VolumeTarget

MULTIPLE_BYTES = MIB
"""File sizes are multiples of this, the largest block size of any scenario."""
PROCESSORS_MAX = 4
"""Most workers of a load that has one worker per processor."""


class DataSet(msgspec.Struct, frozen=True):
    """Files that the run creates, or equal parts of a file or device that the user named."""

    opened: OpenedTarget
    stem: str
    """Prefix of the file names."""
    count: int
    file_bytes: int

    @classmethod
    def of(cls, opened: OpenedTarget, stem: str, count: int, size_bytes: int) -> DataSet:
        """A data set of at most ``size_bytes`` in at most ``count`` files of whole MiB.

        A smaller file or device is used at its own size. Raises ``PlanError`` if that is below 1 MiB.
        """
        available = size_bytes if opened.bytes is None else min(size_bytes, opened.bytes)
        files = min(count, available // MULTIPLE_BYTES)
        if not files:
            raise PlanError(
                [Diagnostic(f"a data set of {format_bytes(available)} is too small; it needs at least 1 MiB")]
            )
        return cls(opened, stem, files, available // files // MULTIPLE_BYTES * MULTIPLE_BYTES)

    def section(self, numbers: Sequence[int]) -> Said:
        """The fields of a worker that uses the files with these numbers."""
        fields = target_fields(self.opened).but(size=len(numbers) * self.file_bytes)
        if self.opened.path is None:
            return fields.but(paths=tuple(f"{self.stem}.{number}" for number in numbers))
        # The parts of a named file are adjacent.
        return fields.but(paths=(self.opened.path,), offset=numbers[0] * self.file_bytes)

    def share(self, worker: int, workers: int) -> Said:
        """The fields of one of several workers: they use all files, and share files only if there are more workers."""
        return self.section(self._numbers(worker, workers))

    def tree(self, tree: TreeLoad, client: int) -> Said:
        """The fields of a worker on the tree of a client; all workers of the client share it."""
        root = f"{self.stem}-tree-{tree.files}x{tree.sizes[0].bytes}-{client}"
        return target_fields(self.opened).but(size=max(MULTIPLE_BYTES, tree.bytes), paths=(root,))

    def _numbers(self, worker: int, workers: int) -> list[int]:
        if self.count <= workers:
            return [worker % self.count]
        if self.opened.path is not None:
            return list(range(worker * self.count // workers, (worker + 1) * self.count // workers))
        return list(range(worker, self.count, workers))


def target_fields(opened: OpenedTarget) -> Said:
    """The fields that direct a load to an opened target, without file names.

    On an emulated disk file names are relative to the disk's directory.
    """
    target = opened.target
    if isinstance(target, NfsTarget):
        return Said.of(engine="nfs", nfs_url=target.text)
    if isinstance(target, DiskTarget):
        return Said.of(disk=target.text)
    return Said.of(directories=(str(target.path),)) if target.kind == "directory" else Said()


def processors() -> list[int]:
    """The processors to bind workers to, in turn."""
    return sorted(os.sched_getaffinity(0))


def pinned(opened: OpenedTarget, worker: int) -> Said:
    """Binds a worker of an NFS load to one processor: a loopback connection is faster with both ends on one core."""
    if opened.nconnect is None:
        return Said()
    cpus = processors()
    return Said.of(cpus=(cpus[worker % len(cpus)],))


def axes_of(load: Load) -> dict[str, Axis]:
    """Order, block size and mix of a load; the block size only if the load has a single one.

    Of a load on a tree the files in each directory.
    """
    if load.tree is not None:
        return {"files": load.tree.files}
    axes: dict[str, Axis] = {"order": "random" if load.random else "sequential"}
    blocks = load.blocks.read if load.reads else load.blocks.write
    if isinstance(blocks, FixedBlocks):
        axes["block_bytes"] = blocks.bytes
    percent = load.read_percent if load.reads and load.writes else 100.0 * load.reads
    axes["read_percent"] = int(percent) if percent == int(percent) else percent
    return axes


def require_reachable(target: Target, machines: Machines) -> None:
    """Raises ``TargetError`` for an embedded volume, which only this machine reaches, with clients elsewhere."""
    if not machines.are_here:
        require_on_network(target)


def require_on_network(target: Target) -> None:
    """Raises ``TargetError`` for an embedded volume."""
    if isinstance(target, VolumeTarget):
        raise TargetError(
            "the embedded volume listens on this machine only, and the agents are elsewhere; name an NFS URL "
            "or a directory that is mounted on each of them"
        )

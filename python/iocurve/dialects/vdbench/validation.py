"""Data validation and journals: ``-v``, ``-j``, ``validate=``, ``journal=``.

Every written block carries a header and a checksum. A map file per SD counts the writes of each block; every read is
verified against both. A journal is a map that is kept, so that a later run can verify the writes of an earlier one.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from iocurve.dialects.vdbench.file_systems import FORMAT_TRANSFER, FileSystems, Tree
from iocurve.dialects.vdbench.planned import BLOCKS
from iocurve.dialects.vdbench.read.keywords import Definitions
from iocurve.dialects.vdbench.read.options import ValidationRequest
from iocurve.dialects.vdbench.runs import Run
from iocurve.dialects.vdbench.topology import Storage, Topology
from iocurve.engine.plan import BlockRange, Blocks, BlockSplit, Verify, VerifyMap
from iocurve.foundation.errors import Diagnostic, TargetError

SUFFIX = ".iocurve-map"
TREE_SUFFIX = ".iocurve-tree"
_MAGICS = (b"ioCmap1\n", b"ioCtree\n")
_TEMPORARY = Path("a temporary directory")
"""Placeholder until the run creates the temporary directory of its maps."""
_READ_BYTES = 1 << 20
"""Largest block size of a recovery."""


class Validation(msgspec.Struct, frozen=True):
    """Settings of data validation for the runs."""

    request: ValidationRequest
    interval_bytes: int
    """Length of a block with a header: the greatest common divisor of all transfer sizes and alignments."""
    directory: Path = _TEMPORARY

    def verify(self, storage: Sequence[Storage], luns: Sequence[str], *, take_over: bool = False) -> Verify:
        """Verification of a worker on these SDs."""
        return Verify(
            method="crc32c",
            interval_bytes=self.interval_bytes,
            read_back=False,
            map=VerifyMap(
                paths=tuple(str(self.path(one, lun)) for one, lun in zip(storage, luns, strict=True)),
                before_write=self.request.preread and not take_over,
                after_write=self.request.read_after_write,
                take_over=take_over,
            ),
        )

    def of_tree(self, tree: Tree, *, take_over: bool = False) -> Verify:
        """Verification of a worker on the files of an FSD: what a task reads is compared, and nothing else is read."""
        contents, names = self.tree_paths(tree)
        kept = str(names) if self.request.journal else None
        paths = (str(contents),)
        counted = VerifyMap(paths=paths, before_write=False, after_write=False, take_over=take_over, tree=kept)
        return Verify(method="crc32c", interval_bytes=self.interval_bytes, read_back=False, map=counted)

    def tree_paths(self, tree: Tree) -> tuple[Path, Path]:
        """Paths of the map of an FSD's contents, and of its journal of names."""
        directory = Path(tree.journal if self.request.journal and tree.journal else self.directory)
        return directory / f"{tree.name}{SUFFIX}", directory / f"{tree.name}{TREE_SUFFIX}"

    def path(self, storage: Storage, lun: str) -> Path:
        """Path of the map of an SD's LUN."""
        several = list(dict.fromkeys(storage.luns.values()))
        name = storage.name if len(several) == 1 else f"{storage.name}-{several.index(lun) + 1}"
        directory = storage.journal if self.request.journal and storage.journal else self.directory
        return Path(directory) / f"{name}{SUFFIX}"

    def read_bytes(self, whole: int) -> int:
        """Block size of a recovery: the largest power-of-two multiple of a block that divides the SD."""
        size = self.interval_bytes
        while size * 2 <= _READ_BYTES and (whole // self.interval_bytes * self.interval_bytes) % (size * 2) == 0:
            size *= 2
        return size

    def maps(self, topology: Topology) -> Iterator[tuple[Storage, str, Path]]:
        """Yields every SD with its LUNs and maps."""
        for storage in topology.storage.values():
            for lun in dict.fromkeys(storage.luns.values()):
                yield storage, lun, self.path(storage, lun)

    def remove_journals(self, topology: Topology, trees: FileSystems | None) -> None:
        """Removes the journals of earlier runs. Files that are not maps of iocurve are kept. Raises ``TargetError``."""
        of_trees = [path for tree in trees.trees.values() for path in self.tree_paths(tree)] if trees else []
        for path in (*(path for _, _, path in self.maps(topology)), *of_trees):
            try:
                if path.is_file() and _is_ours(path):
                    path.unlink()
            except OSError as error:
                raise TargetError(f"the journal {path} cannot be replaced: {error.strerror}") from None


def validation(
    definitions: Definitions,
    topology: Topology,
    trees: FileSystems | None,
    runs: Sequence[Run],
    request: ValidationRequest,
    cwd: Path,
) -> Validation | None:
    """Settings of data validation; None if it is off."""
    if not request.active:
        return None
    if trees is not None:
        divisor = math.gcd(FORMAT_TRANSFER, *trees.transfer_sizes(runs))
        return Validation(request, divisor, cwd if request.journal else _TEMPORARY)
    sizes = [storage.offset for storage in topology.storage.values()]
    sizes += [storage.align for storage in topology.storage.values()]
    sizes += [run.loops.xfersize for run in runs if run.loops.xfersize]
    for workload in definitions.by_kind["wd"] or [definitions.defaults["wd"]]:
        sizes += _sizes(workload.get("xfersize", BLOCKS))
    return Validation(request, math.gcd(*sizes), cwd if request.journal else _TEMPORARY)


def errors(definitions: Definitions, topology: Topology, request: ValidationRequest) -> Iterator[Diagnostic]:
    """Yields the parameters that data validation does not support."""
    if not request.active:
        return
    luns = Counter((host, lun) for storage in topology.storage.values() for host, lun in storage.luns.items())
    for storage in topology.storage.values():
        if any(luns[pair] > 1 for pair in storage.luns.items()):
            text = f"sd={storage.name}: another SD has the same lun; data validation needs separate luns"
            yield Diagnostic(text, storage.where, "give each SD its own lun")
        if storage.offset % 512 or storage.align % 512:
            text = f"sd={storage.name}: with data validation offset= and align= must be multiples of 512"
            yield Diagnostic(text, storage.where)
    for workload in definitions.by_kind["wd"]:
        if "stride" in workload.values:
            yield Diagnostic("stride= is not supported with data validation", workload.position_of("stride"))
    if request.recover and definitions.general.get("formatsds"):
        yield Diagnostic(
            "formatsds=yes would overwrite the data that the journal verifies",
            definitions.general.position_of("formatsds"),
        )


def _sizes(blocks: Blocks) -> list[int]:
    if isinstance(blocks, BlockRange):
        return [blocks.low, blocks.step]
    return [part.bytes for part in blocks.parts] if isinstance(blocks, BlockSplit) else [blocks.bytes]


def _is_ours(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(_MAGICS[0])) in (*_MAGICS, b"")

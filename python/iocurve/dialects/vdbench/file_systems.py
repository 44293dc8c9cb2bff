"""File system workloads: the directories and files of an FSD, what an FWD does to them, and their errors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal

import msgspec
from msgspec.structs import replace

from iocurve.dialects.vdbench.read import values
from iocurve.dialects.vdbench.read.file_values import OPERATIONS, FileIo, FileSelect, Shares
from iocurve.dialects.vdbench.read.keywords import Definition, Definitions
from iocurve.dialects.vdbench.runs import Loops, Run
from iocurve.foundation.errors import Diagnostic
from iocurve.foundation.units import KIB
from iocurve.job.model import PlanNote

FORMAT = "format"
"""Name of the FWD that sets up formats."""
FORMAT_TRANSFER = 128 * KIB
"""vdbench's transfer size of a format; fwd=format overrides it."""


class Tree(msgspec.Struct, frozen=True):
    """The directories and files below the anchor of an FSD."""

    name: str
    anchor: str
    depth: int
    width: int
    files: int
    """Files in each directory that has files."""
    sizes: Shares
    everywhere: bool
    """``distribution=all``: every directory has files, not only those without subdirectories."""
    shared: bool
    total_bytes: int | None
    """``totalsize=``: only a part of the files of this size is used."""
    working_set_bytes: int | None
    journal: str | None = None
    """Directory of its journal; the current one if there is none."""

    @property
    def directories(self) -> int:
        """Number of directories, without the anchor."""
        return sum(self.width**level for level in range(1, self.depth + 1))

    @property
    def file_count(self) -> int:
        """Number of files."""
        return self.files * (self.directories if self.everywhere else self.width**self.depth)

    @property
    def bytes(self) -> int:
        """Size of all files; a mean if the sizes are drawn at random."""
        return int(self.file_count * self.sizes.mean)

    def first_file(self) -> str:
        """Name of the first file below the anchor."""
        levels = 1 if self.everywhere else self.depth
        return "".join(f"vdb.{level}_1.dir/" for level in range(1, levels + 1)) + "vdb_f0000.file"

    def with_loops(self, loops: Loops) -> Tree:
        """The tree of a run that overrides depth, width, number or sizes of files. Raises ``ValueError``."""
        return replace(
            self,
            depth=loops.depth or self.depth,
            width=loops.width or self.width,
            files=loops.files or self.files,
            sizes=Shares.same(loops.sizes) if loops.sizes else self.sizes,
            total_bytes=self.total_bytes if loops.totalsize is None else self._total_of_run(loops.totalsize),
            working_set_bytes=loops.wss or self.working_set_bytes,
        )

    def _total_of_run(self, total: int | Decimal) -> int:
        if isinstance(total, int):
            return total
        if self.total_bytes is None:
            raise ValueError(f"totalsize={total:f}% needs a totalsize= of fsd={self.name}")
        return int(self.total_bytes * total / 100)


class Workload(msgspec.Struct, frozen=True):
    """An FWD: its operation, and how it selects files and places within them."""

    name: str
    trees: tuple[Tree, ...]
    hosts: tuple[str, ...]
    operation: str
    read_percent: Decimal | None
    """Percentage of reads; replaces the operation."""
    io: FileIo
    select: FileSelect
    transfers: Shares
    threads: int
    skew: Decimal | None
    stop_after: str | None
    target: str | None
    """FSD that files are copied or moved to."""


class FileSystems(msgspec.Struct, frozen=True):
    """All FSDs and FWDs of a parameter file."""

    trees: Mapping[str, Tree]
    workloads: Mapping[str, Workload]
    hosts: tuple[str, ...]
    """Hosts of a workload without ``host=``."""
    format_workload: Workload | None = None
    """``fwd=format``: the threads and transfer sizes of formats; no ``fwd=`` of a run selects it."""

    def transfer_sizes(self, runs: Sequence[Run]) -> set[int]:
        """Sizes of all transfers of all workloads, in bytes."""
        workloads = [*self.workloads.values(), self._default, *filter(None, [self.format_workload])]
        shares = [workload.transfers for workload in workloads]
        loops = {run.loops.xfersize for run in runs if run.loops.xfersize}
        return loops | {size for one in shares for size, _ in one.parts}

    def of_run(self, run: Run) -> list[Workload]:
        """The workloads of a run, with the values that the run overrides. Raises ``ValueError``."""
        rd = run.rd
        chosen = rd.get("fwd")
        if chosen is None:
            found = [self._default]
        else:
            found = [self.workloads[name] for name in values.matching(chosen, list(self.workloads), "fwd")]
        trees = None
        if rd.get("fsd"):
            trees = tuple(self.trees[name] for name in values.matching(rd.values["fsd"], list(self.trees), "fsd"))
        operations = [run.loops.operations] if run.loops.operations else rd.get("operations") or [None]
        return [_overridden(workload, run, trees, operation) for workload in found for operation in operations]

    @property
    def _default(self) -> Workload:
        return _default(self.trees, self.hosts)


def read(
    definitions: Definitions,
    hosts: Mapping[str, str],
    runs: Sequence[Run],
    errors: list[Diagnostic],
    anchors: Mapping[str, str],
) -> FileSystems | None:
    """Reads all FSDs and FWDs, and checks the runs. None if there are neither.

    ``hosts`` has the host of each label, ``anchors`` maps anchors to the directories that are used instead.
    """
    if not definitions.is_file_system:
        return None
    read_trees = (tree for fsd in definitions.by_kind["fsd"] for tree in _trees(fsd, errors))
    trees = {tree.name: replace(tree, anchor=anchors.get(tree.anchor, tree.anchor)) for tree in read_trees}
    _check_anchors(definitions, trees, errors)
    workloads = {fwd.name: _workload(fwd, trees, hosts, errors) for fwd in definitions.by_kind["fwd"]}
    special = [workloads.pop(name) for name in list(workloads) if name.lower() == FORMAT]
    found = FileSystems(trees, workloads, tuple(dict.fromkeys(hosts.values())), next(iter(special), None))
    for run in {id(run.rd): run for run in reversed(runs)}.values():
        errors += _run_errors(found, run)
    return found


def _trees(fsd: Definition, errors: list[Diagnostic]) -> Iterator[Tree]:
    if "anchor" not in fsd.values:
        if "anchor" not in fsd.wrong:
            errors.append(Diagnostic(f"fsd={fsd.name} has no anchor=", fsd.where, "add anchor=/a/directory"))
        return
    tree = Tree(
        name=fsd.name,
        anchor=fsd.values["anchor"],
        # vdbench makes one level even for depth=0.
        depth=max(1, fsd.get("depth", 1)),
        width=fsd.get("width", 1),
        files=fsd.get("files", 10),
        sizes=fsd.get("sizes", Shares.same(4096)),
        everywhere=fsd.get("distribution") == "all",
        shared=fsd.get("shared", False),
        total_bytes=fsd.get("totalsize"),
        working_set_bytes=fsd.get("wss"),
        journal=fsd.get("journal"),
    )
    errors += _tree_errors(tree, fsd)
    if "count" not in fsd.values:
        yield tree
        return
    start, number = fsd.values["count"]
    for suffix in range(start, start + number):
        yield replace(tree, name=f"{fsd.name}{suffix}", anchor=f"{tree.anchor}{suffix}")


def _tree_errors(tree: Tree, fsd: Definition) -> Iterator[Diagnostic]:
    if tree.width**tree.depth > 2**40:
        text = f"fsd={fsd.name}: depth={tree.depth} and width={tree.width} are more than a million million directories"
        yield Diagnostic(text, fsd.position_of("depth", "width"))
        return
    for name, part in (("totalsize", tree.total_bytes), ("wss", tree.working_set_bytes)):
        whole = tree.bytes if name == "totalsize" or tree.total_bytes is None else tree.total_bytes
        if part is not None and tree.sizes.is_fixed and part > whole:
            yield Diagnostic(
                f"fsd={fsd.name}: {name}={part} is more than its files have, {whole}", fsd.position_of(name)
            )


def _check_anchors(definitions: Definitions, trees: Mapping[str, Tree], errors: list[Diagnostic]) -> None:
    """Reports anchors within another anchor, and trees of one anchor that differ."""
    wheres = {fsd.name: fsd.position_of("anchor") for fsd in definitions.by_kind["fsd"]}
    by_anchor: dict[str, Tree] = {}
    for tree in trees.values():
        anchor = tree.anchor.rstrip("/")
        where = wheres.get(tree.name)
        other = by_anchor.setdefault(anchor, tree)
        if _shape(other) != _shape(tree):
            text = f"fsd={tree.name} and fsd={other.name} have one anchor but different trees"
            errors.append(Diagnostic(text, where))
    for anchor, tree in by_anchor.items():
        parts = anchor.split("/")
        above = next((by_anchor[up] for n in range(1, len(parts)) if (up := "/".join(parts[:n])) in by_anchor), None)
        if above:
            text = f"the anchor of fsd={tree.name} is within that of fsd={above.name}, {above.anchor}"
            errors.append(Diagnostic(text, wheres.get(tree.name)))


def _shape(tree: Tree) -> tuple[int | bool | Shares, ...]:
    return tree.depth, tree.width, tree.files, tree.everywhere, tree.sizes


def _default(trees: Mapping[str, Tree], hosts: tuple[str, ...]) -> Workload:
    """The workload of a run with fsd= but without fwd=."""
    return Workload(
        name="default",
        trees=tuple(trees.values()),
        hosts=hosts,
        operation="read",
        read_percent=None,
        io=FileIo("sequential"),
        select=FileSelect(),
        transfers=Shares.same(4096),
        threads=1,
        skew=None,
        stop_after=None,
        target=None,
    )


def _workload(
    fwd: Definition, trees: Mapping[str, Tree], hosts: Mapping[str, str], errors: list[Diagnostic]
) -> Workload:
    def named(keyword: str, known: Sequence[str]) -> list[str]:
        try:
            return values.matching(fwd.get(keyword, ()), known, "fsd" if keyword in ("fsd", "target") else keyword)
        except ValueError as error:
            errors.append(Diagnostic(f"fwd={fwd.name}: {error}", fwd.position_of(keyword)))
            return []

    errors += _workload_errors(fwd)
    workload = replace(
        _default(trees, tuple(dict.fromkeys(hosts[label] for label in named("host", list(hosts)) or hosts))),
        name=fwd.name,
        trees=tuple(trees[name] for name in named("fsd", list(trees))),
        operation=fwd.get("operation", "read"),
        read_percent=fwd.get("rdpct"),
        threads=fwd.get("threads", 1),
        skew=fwd.get("skew"),
        stop_after=fwd.get("stopafter"),
        target=next(iter(named("target", list(trees))), None),
    )
    return replace(
        workload,
        io=fwd.get("fileio", workload.io),
        select=fwd.get("fileselect", workload.select),
        transfers=fwd.get("xfersizes", workload.transfers),
    )


def _workload_errors(fwd: Definition) -> Iterator[Diagnostic]:
    operation = fwd.get("operation", "read")
    if fwd.name.lower() in OPERATIONS:
        yield Diagnostic(f"fwd={fwd.name}: an operation cannot be the name of a workload", fwd.where)
    if fwd.name.lower() == FORMAT:
        return
    if "fsd" not in fwd.values:
        yield Diagnostic(f"fwd={fwd.name} names no fsd=", fwd.where)
    if "target" in fwd.values and operation not in ("copy", "move"):
        text = f"fwd={fwd.name}: target= needs operation=copy or operation=move"
        yield Diagnostic(text, fwd.position_of("target"))
    if operation in ("copy", "move") and "target" not in fwd.values:
        yield Diagnostic(f"fwd={fwd.name}: operation={operation} needs target=", fwd.position_of("operation"))


def notes(definitions: Definitions) -> Iterator[PlanNote]:
    """Warns of values that one version of vdbench refuses and another accepts."""
    for fwd in definitions.by_kind["fwd"]:
        io = fwd.get("fileio", FileIo("sequential"))
        if "rdpct" in fwd.values and io.access == "sequential":
            text = f"fwd={fwd.name}: vdbench 5.04.06 refuses rdpct= with fileio=sequential"
            yield PlanNote("sequential_mix", text, fwd.position_of("rdpct"), "warning")


def _overridden(workload: Workload, run: Run, trees: tuple[Tree, ...] | None, operation: str | None) -> Workload:
    loops = run.loops
    return replace(
        workload,
        trees=tuple(tree.with_loops(loops) for tree in trees or workload.trees),
        transfers=Shares.same(loops.xfersize) if loops.xfersize else workload.transfers,
        threads=loops.threads or workload.threads,
        read_percent=workload.read_percent if loops.rdpct is None else loops.rdpct,
        operation=operation or workload.operation,
    )


def _run_errors(found: FileSystems, run: Run) -> Iterator[Diagnostic]:
    rd = run.rd
    if "fwd" not in rd.values and "fsd" not in rd.values:
        yield Diagnostic(f"rd={rd.name} names neither fwd= nor fsd=", rd.where)
        return
    try:
        workloads = found.of_run(run)
    except ValueError as error:
        yield Diagnostic(f"rd={rd.name}: {error}", rd.position_of("totalsize", "fwd", "fsd"))
        return
    skews = [workload.skew for workload in workloads if workload.skew is not None]
    if len(skews) == len(workloads) and abs(sum(skews, Decimal(0)) - 100) > Decimal("0.0001"):
        yield Diagnostic(f"rd={rd.name}: the skew of its workloads adds up to {sum(skews)}, not 100", rd.where)
    formats = run.formats
    for tree in {tree.name: tree for workload in workloads for tree in workload.trees}.values():
        if tree.shared and formats and not {"clean", "restart", "complete"} & set(formats):
            text = f"rd={rd.name}: a shared fsd={tree.name} is formatted in two runs"
            hint = "first format=(clean,only), then format=(restart,only)"
            yield Diagnostic(text, rd.position_of("format"), hint)
    for workload in workloads:
        if len(workload.hosts) > 1 and any(not tree.shared for tree in workload.trees):
            text = f"rd={rd.name}: fwd={workload.name} runs on several hosts and needs an FSD with shared=yes"
            yield Diagnostic(text, rd.where)

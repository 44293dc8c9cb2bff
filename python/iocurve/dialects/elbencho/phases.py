"""The phases of an iteration, as plans."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from iocurve.dialects.elbencho.options import PHASES, Options
from iocurve.engine import plan as plans
from iocurve.errors import Diagnostic, PlanError
from iocurve.job.resolve import Machine, PathFacts
from iocurve.job.resolve.machine import ENDLESS
from iocurve.targets.target import NfsTarget
from iocurve.units import MILLISECOND_NS, SECOND_NS

INTERVAL_NS = 100 * MILLISECOND_NS
"""Resolution of the values up to the end of the fastest thread."""
SINGLE_INTERVALS = 512
TASKS: dict[str, plans.TreeTask] = {
    "mkdirs": "mkdir",
    "write": "transfer",
    "stat": "getattr",
    "read": "transfer",
    "delfiles": "delete",
    "deldirs": "rmdir",
}
RATE_SCALE = 1000


@dataclass(frozen=True)
class Phase:
    """One phase: its load, and the operations that its rows count."""

    name: str
    """elbencho's name: ``WRITE``, ``RWMIX30``."""
    workers: tuple[plans.Worker, ...]
    unit: str = ""
    """``Dirs`` or ``Files``; empty where only data are counted."""
    entry: str = ""
    """Kind of operation that completes an entry."""
    data: tuple[str, ...] = ()
    """Kinds that move data."""
    entries: int = 0
    """Entries that the phase has."""
    after: tuple[plans.Worker, ...] = ()
    """Removes the directories of the ranks, or has the lengths of files, which get them before the phase; not timed."""

    @property
    def plan(self) -> plans.Plan:
        """The plan of the phase; the first group is timed."""
        groups = tuple(plans.Group(workers=workers) for workers in (self.workers, self.after) if workers)
        return plans.Plan(name=self.name, interval_ns=INTERVAL_NS, groups=groups)


@dataclass(frozen=True)
class DataSet:
    """The paths of a command line, as found on a machine."""

    options: Options
    is_tree: bool
    """The paths are directories."""
    sizes: tuple[int, ...] = ()
    """Bytes of each file or device that are used."""
    lengths: tuple[int, ...] = ()
    """Bytes that each file or device has after random writes."""
    is_device: bool = False

    @classmethod
    def found(cls, options: Options, machine: Machine) -> DataSet:
        """Looks at the paths. Raises ``PlanError`` with every reason why they cannot be used."""
        over_nfs = [path.startswith("nfs:") for path in options.paths]
        if all(over_nfs):
            return _of_export(options)
        facts = [machine.stat(path) for path in options.paths]
        kinds = {fact.kind for fact in facts}
        if any(over_nfs) or ("directory" in kinds and kinds != {"directory"}):
            raise PlanError([Diagnostic("the paths are of several kinds; give directories, files or exports alone")])
        if kinds == {"directory"}:
            return _of_directories(options)
        data_set = cls.of_files(options, [options.size or fact.bytes for fact in facts], "block" in kinds)
        errors = [
            error
            for path, fact in zip(options.paths, facts, strict=True)
            for error in _path_errors(options, path, fact, machine)
        ]
        if errors := errors or [*data_set.errors()]:
            raise PlanError(errors)
        return data_set

    @classmethod
    def of_files(cls, options: Options, lengths: Sequence[int], is_device: bool = False) -> DataSet:
        """Files or devices; direct and random transfers leave out a part of a block at an end."""
        used = [whole_blocks(length, options.block) for length in lengths] if options.moves_whole_blocks else lengths
        return cls(options, is_tree=False, sizes=tuple(used), lengths=tuple(lengths), is_device=is_device)

    def errors(self) -> Iterator[Diagnostic]:
        """Reasons why the phases cannot run on these files or devices."""
        if "stat" in self.options.phases:
            yield Diagnostic("--stat needs a directory, and the paths are files or devices")
        if self.is_device and "delfiles" in self.options.phases:
            yield Diagnostic("-F deletes files, and the paths are devices")
        if self.options.phases & {"write", "read"} and self.blocks < self.options.sharers:
            yield Diagnostic(f"{self.blocks} blocks are fewer than {self.options.sharers} threads")

    @property
    def blocks(self) -> int:
        """Blocks of all files."""
        return sum(-(-size // self.options.block) for size in self.sizes)

    def share(self, rank: int) -> Iterator[tuple[int, int, int]]:
        """The part of a rank: number of a file, offset and bytes, in order.

        The last rank has the rest; at random offsets no rank has it.
        """
        options = self.options
        each = self.blocks // options.sharers
        first = rank * each
        last = self.blocks if rank == options.sharers - 1 and not options.random else first + each
        for number, size in enumerate(self.sizes):
            blocks = -(-size // options.block)
            start, end = max(first, 0), min(last, blocks)
            if start < end:
                offset = start * options.block
                yield number, offset, min(end * options.block, size) - offset
            first, last = first - blocks, last - blocks


def whole_blocks(size: int, block: int) -> int:
    """A size without the part of a block at its end."""
    return size - size % min(block, max(1, size))


def _path_errors(options: Options, path: str, fact: PathFacts, machine: Machine) -> Iterator[Diagnostic]:
    """Reasons why a local file or device cannot be used."""
    writes, moves_data = "write" in options.phases, bool(options.phases & {"write", "read"})
    parent = posixpath.dirname(path) or "."
    if options.phases & {"mkdirs", "deldirs"}:
        yield Diagnostic(f"-d and -D need a directory, and {path} is none", hint=f"create it: mkdir {path}")
    elif fact.kind in ("other", *ENDLESS):
        yield Diagnostic(f"{path} is neither a directory, a file nor a block device")
    elif fact.kind == "missing" and path.startswith("/dev/") and not path.startswith("/dev/shm/"):
        yield Diagnostic(f"there is no device {path}")
    elif fact.kind == "missing" and machine.stat(parent).kind != "directory":
        yield Diagnostic(f"directory {parent} does not exist", hint=f"create it: mkdir -p {parent}")
    elif fact.kind == "missing" and not writes:
        yield Diagnostic(f"{path} does not exist", hint="write it first: -w")
    elif fact.kind == "block" and writes and machine.is_mounted(path):
        yield Diagnostic(f"{path} is mounted and would be overwritten", hint="unmount it first")
    elif fact.kind == "block" and options.size > fact.bytes:
        yield Diagnostic(f"{path} has {fact.bytes} bytes, fewer than -s")
    elif moves_data and not options.size and not fact.bytes:
        yield Diagnostic(f"the size of {path} is not known", hint="give it: -s 1g")
    elif moves_data and not writes and fact.bytes < options.size:
        yield Diagnostic(f"{path} has {fact.bytes} bytes, fewer than -s", hint="write it first: -w")


def _of_directories(options: Options) -> DataSet:
    if options.moves_whole_blocks:
        options = replace(options, size=whole_blocks(options.size, options.block))
    return DataSet(options, is_tree=True)


def _of_export(options: Options) -> DataSet:
    """Directories where -n, -N, -d or -D say so, or the path is the export itself; otherwise files."""
    names = [place(path)[1] for path in options.paths]
    if options.sizes_tree or options.phases & {"mkdirs", "deldirs"} or not all(names):
        return _of_directories(options)
    data_set = DataSet.of_files(options, (options.size,) * len(names))
    errors = [*data_set.errors()]
    if not options.size and options.phases & {"write", "read"}:
        errors = [Diagnostic("the size of a file in an export is not known", hint="give it: -s 1g")]
    if errors:
        raise PlanError(errors)
    return data_set


def place(path: str) -> tuple[NfsTarget | None, str]:
    """The export and the path in it: ``nfs://host/export/dir`` has ``dir``. A local path has no export."""
    if not path.startswith("nfs:"):
        return None, posixpath.normpath(path)
    url, mark, query = path.partition("?")
    start, host, rest = url.removeprefix("nfs://"), "", ""
    host, _, rest = start.partition("/")
    export, _, name = rest.strip("/").partition("/")
    return NfsTarget.of(f"nfs://{host}/{export}{mark}{query}"), name


def of_iteration(data_set: DataSet, seed: Callable[[], int]) -> Iterator[Phase]:
    """The phases in elbencho's order."""
    for option in PHASES:
        has_none = option in ("mkdirs", "deldirs") and not data_set.options.directories
        if option in data_set.options.phases and not has_none:
            yield _of_trees(data_set, option, seed) if data_set.is_tree else _of_files(data_set, option, seed)


def _name(options: Options, option: str) -> str:
    mixes = option == "write" and options.read_percent
    return f"RWMIX{options.read_percent}" if mixes else PHASES[option]


# -- directories ---------------------------------------------------------------------------------------------------


def _of_trees(data_set: DataSet, option: str, seed: Callable[[], int]) -> Phase:
    options = data_set.options
    workers = tuple(_tree_worker(options, option, number, seed()) for number in range(options.ranks))
    entry = {"write": "close", "read": "close"}.get(option, str(TASKS[option]))
    has_data = option in ("write", "read") and options.size
    directories = options.sharers * options.directories
    is_of_directories = option in ("mkdirs", "deldirs")
    return Phase(
        name=_name(options, option),
        workers=workers,
        unit="Dirs" if is_of_directories else "Files",
        entry=entry,
        data=((option,) if has_data else ()),
        entries=directories if is_of_directories else max(directories, options.sharers) * options.files,
        after=tuple(_remover(options, workers[rank], rank) for rank in range(options.sharers))
        if option == "deldirs"
        else (),
    )


def rank_of(options: Options, number: int) -> int:
    """The rank of a worker: hosts that do not share the data set have the same ranks."""
    return number if options.share_paths else number % options.threads


def roots_of(options: Options, rank: int) -> tuple[NfsTarget | None, tuple[str, ...], plans.TreeNames]:
    """The export, the directories that a rank's directories are in, in turn, and their names.

    Directory i of a rank is in path (rank + i) modulo the number of paths.
    """
    placed = [place(path) for path in options.paths]
    first = rank % len(placed)
    (target, base), *_ = turned = placed[first:] + placed[:first]
    file = f"r{rank}-f{{}}"
    if options.directories:
        below = tuple(posixpath.join(path, f"r{rank}") for _, path in turned)
        return target, below, plans.TreeNames(directory="d{}", file=file)
    above, name = posixpath.split(base)
    return target, (above,), plans.TreeNames(directory=name, file=file)


def _tree_worker(options: Options, option: str, number: int, seed: int) -> plans.Worker:
    target, roots, names = roots_of(options, rank_of(options, number))
    block = min(options.block, options.size) if options.size else 1
    tree = plans.Tree(
        depth=1,
        width=max(1, options.directories),
        files=options.files,
        files_on_all_levels=True,
        sizes=(plans.SizeShare(bytes=options.size, weight=1),),
        further_roots=roots[1:],
        # There is no other way to make a directory on an export that is not mounted.
        creates_parents=target is not None and option == "mkdirs",
        names=names,
    )
    task = TASKS[option]
    if option == "read" and not options.size:
        task = "open"
    kinds: tuple[str, ...] = (option, "create", "open", "close") if task == "transfer" else (task,)
    if task == "open":
        kinds = (task, "close")
    work = plans.TreeWork(
        tree=tree,
        tasks=(task,),
        select=plans.SequentialSelect(),
        select_once=not options.repeats,
        times_files=option in ("write", "read"),
    )
    limit = {"write": options.write_limit, "read": options.read_limit}.get(option, 0)
    rate = plans.Rate(unit="operations", count=max(1, limit * RATE_SCALE // block), per_ns=SECOND_NS * RATE_SCALE)
    base = _worker(options, option, number, seed)
    return base.replace(
        engine=_metadata_engine(options, target, keep_open=True),
        files=(plans.FilePlan(path=roots[0], offset_bytes=0, bytes=block, layout="nothing", keep=True),),
        operations=tuple(_operation(kind, block if kind in ("read", "write") else 1) for kind in kinds),
        tree=work,
        rate=rate if limit and task == "transfer" else None,
        end=plans.End(runtime_ns=options.runtime_ns or None, bytes=None, operations=None),
    )


def _remover(options: Options, worker: plans.Worker, rank: int) -> plans.Worker:
    """Removes the directories of a rank, which its directories were in."""
    target, roots, _ = roots_of(options, rank)
    return worker.replace(
        engine=_metadata_engine(options, target, keep_open=False),
        files=tuple(plans.FilePlan(path=root, offset_bytes=0, bytes=1, layout="nothing", keep=True) for root in roots),
        operations=(_operation("rmdir", 1),),
        tree=None,
        end=plans.End(runtime_ns=None, bytes=None, operations=len(roots)),
    )


# -- files and devices ---------------------------------------------------------------------------------------------


def _of_files(data_set: DataSet, option: str, seed: Callable[[], int]) -> Phase:
    options = data_set.options
    if option == "delfiles":
        used = min(options.ranks, len(options.paths))
        workers = tuple(_name_worker(options, option, number, used, seed()) for number in range(used))
        return Phase(_name(options, option), workers, "Files", str(TASKS[option]), entries=len(options.paths))
    mixes = option == "write" and options.read_percent > 0
    workers = tuple(_data_worker(data_set, option, number, seed()) for number in range(options.ranks))
    extends = option == "write" and options.random and not data_set.is_device
    return Phase(
        name=_name(options, option),
        workers=workers,
        data=("read", "write") if mixes else (option,),
        after=(_lengths_worker(data_set, seed()),) if extends else (),
    )


def _lengths_worker(data_set: DataSet, seed: int) -> plans.Worker:
    """Random writes reach no rest of the blocks, but files have their whole length."""
    options, lengths = data_set.options, data_set.lengths
    placed = [place(path) for path in options.paths]
    return _worker(options, "lengths", 0, seed).replace(
        engine=_metadata_engine(options, placed[0][0], keep_open=False),
        files=tuple(
            plans.FilePlan(path=path, offset_bytes=0, bytes=length, layout="reserve", keep=True)
            for (_, path), length in zip(placed, lengths, strict=True)
        ),
        operations=(_operation("getattr", 1),),
        end=plans.End(runtime_ns=None, bytes=None, operations=len(lengths)),
    )


def _name_worker(options: Options, option: str, number: int, used: int, seed: int) -> plans.Worker:
    placed = [place(path) for path in options.paths[number::used]]
    return _worker(options, option, number, seed).replace(
        engine=_metadata_engine(options, placed[0][0], keep_open=False),
        files=tuple(
            plans.FilePlan(path=path, offset_bytes=0, bytes=1, layout="nothing", keep=True) for _, path in placed
        ),
        operations=(_operation(TASKS[option], 1),),
        end=plans.End(runtime_ns=None, bytes=None, operations=len(placed)),
    )


def _data_worker(data_set: DataSet, option: str, number: int, seed: int) -> plans.Worker:
    options = data_set.options
    layout: plans.Layout = "existing"
    if option == "write" and not data_set.is_device:
        layout = "reserve" if options.extends else "create"
    spans = [*data_set.share(rank_of(options, number))]
    targets = [place(path) for path in options.paths]
    amount = sum(size for _, _, size in spans)
    if options.random_bytes:
        amount = max(options.block, options.random_bytes // options.sharers // options.block * options.block)
    shares = {"read": options.read_percent, "write": 100 - options.read_percent} if option == "write" else {"read": 100}
    limit = options.write_limit if option == "write" else options.read_limit
    random_percent = 100 if options.random else 0
    return _worker(options, option, number, seed).replace(
        engine=_data_engine(options, targets[0][0]),
        files=tuple(
            plans.FilePlan(path=targets[file][1], offset_bytes=offset, bytes=size, layout=layout, keep=True)
            for file, offset, size in spans
        ),
        file_select="by_size" if options.random else "sequential",
        operations=tuple(
            plans.OperationPlan(
                kind="read" if kind == "read" else "write",
                share=share,
                blocks=plans.FixedBlocks(bytes=options.block),
                align_bytes=0 if options.aligned else 1,
                random_percent=random_percent,
                rate=None,
            )
            for kind, share in shares.items()
            if share
        ),
        access=plans.Access(
            cover="once" if option == "write" and options.aligned else "independent",
            passes="fresh",
            position="worker",
            short_last_block=not options.random,
        ),
        depth=options.depth,
        rate=plans.Rate(unit="bytes", count=limit, per_ns=SECOND_NS) if limit else None,
        end=plans.End(
            runtime_ns=options.runtime_ns or None, bytes=None if options.repeats else amount, operations=None
        ),
    )


# -- both ----------------------------------------------------------------------------------------------------------


def _worker(options: Options, option: str, number: int, seed: int) -> plans.Worker:
    """A worker whose engine, files, operations and end are still to be set."""
    cpus = (options.cpus[number % options.threads % len(options.cpus)],) if options.cpus else ()
    return plans.Worker(
        job=option,
        jobnum=number,
        report_group=0,
        engine=plans.NullEngine(),
        files=(plans.FilePlan(path="", offset_bytes=0, bytes=1, layout="nothing", keep=True),),
        file_select="round_robin",
        operations=(_operation("open", 1),),
        access=plans.Access(),
        depth=1,
        start_delay_ns=0,
        ramp_ns=0,
        end=plans.End(runtime_ns=None, bytes=None, operations=None),
        ends_others="on_error",
        client=number // options.threads,
        seed=seed,
        payload=plans.Payload(content=plans.RandomContent(), renew="refill" if options.refill_percent else "keep"),
        intervals_singly=SINGLE_INTERVALS,
        cpus=cpus,
    )


def _operation(kind: str, block: int) -> plans.OperationPlan:
    blocks = plans.FixedBlocks(bytes=block)
    return plans.OperationPlan(kind=kind, share=1, blocks=blocks, random_percent=0, rate=None)  # type: ignore[arg-type]


def _metadata_engine(options: Options, target: NfsTarget | None, *, keep_open: bool) -> plans.EnginePlan:
    if target is not None:
        return plans.NfsMetadataEngine(mount=target.mount(target.nconnect), keep_open=keep_open)
    return plans.MetadataEngine(open=_open(options), keep_open=keep_open)


def _data_engine(options: Options, target: NfsTarget | None) -> plans.EnginePlan:
    if target is not None:
        return plans.NfsEngine(mount=target.mount(target.nconnect))
    return plans.AioEngine(open=_open(options)) if options.depth > 1 else plans.SyncEngine(open=_open(options))


def _open(options: Options) -> plans.FileOpen:
    return plans.FileOpen(direct=options.direct, durability="none", invalidate=False)

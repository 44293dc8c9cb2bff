"""The phases of an iteration, as jobs."""

from __future__ import annotations

import errno
import posixpath
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
from msgspec.structs import replace

from iocurve.dialects.elbencho.options import PHASES, ElbenchoOptions
from iocurve.engine import plan as plans
from iocurve.foundation.errors import Diagnostic, PlanError
from iocurve.foundation.units import MILLISECOND_NS
from iocurve.job import model
from iocurve.job.resolve import Machine, PathFacts, plan_here, resolve
from iocurve.job.resolve.engines import checked_nfs_url
from iocurve.job.resolve.machine import ENDLESS

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
WORDS = model.Words(
    names={"depth": "--iodepth", "direct": "--direct", "blocks": "--block", "size": "--size", "random": "--rand"},
    joint=" ",
    asks={"direct": "--direct"},
    worker="thread",
    # elbencho always does these, or says them itself.
    silent_about=frozenset(
        {
            *("runtime_caps", "size_per_job", "file_shared", "offsets_once", "offsets_independent", "block_misfit"),
            *("rate_per_job", "mix_lost"),
        }
    ),
)


_MADE_BY_OTHERS = plans.Tolerance(kinds=("mkdir", "rmdir"), errnos=(errno.EEXIST, errno.ENOENT))
"""Failures with --dirsharing: each thread makes and removes all directories, and one of them succeeds."""


class Phase(msgspec.Struct, frozen=True):
    """One phase: its load, and the operations that its rows count."""

    name: str
    """elbencho's name: ``WRITE``, ``RWMIX30``."""
    threads: tuple[model.Section, ...]
    """The load of each thread."""
    unit: str = ""
    """``Dirs`` or ``Files``; empty where only data are counted."""
    entry: str = ""
    """Kind of operation that completes an entry."""
    data: tuple[str, ...] = ()
    """Kinds that move data."""
    entries: int = 0
    """Entries that the phase has."""
    after: tuple[model.Section, ...] = ()
    """Removes the directories of the ranks, or has the lengths of files, which get them before the phase; not timed."""

    @property
    def job(self) -> model.Job:
        """The phase as a job, of which the threads up to the first barrier are timed."""
        after = [
            section.replace(report=section.report.replace(barrier=not number))
            for number, section in enumerate(self.after)
        ]
        return model.Job(name=self.name, words=WORDS, sections=(*self.threads, *after), defaults=model.Said())

    def notes(self, machine: Machine) -> tuple[model.PlanNote, ...]:
        """Warnings about the load: threads differ in their shares alone, so that the first one has them all."""
        job = self.job
        return resolve(job.replace(sections=job.sections[:1]), machine, Path.cwd()).notes

    def plan(self, machine: Machine, *, runs: bool = True) -> plans.Plan:
        """The plan of the phase; the first group is timed. Raises ``PlanError`` for obstacles, if it ``runs``."""
        if runs:
            return plan_here(self.job, INTERVAL_NS, machine)
        return resolve(self.job.replace(interval_ns=INTERVAL_NS), machine, Path.cwd()).plan


class ElbenchoData(msgspec.Struct, frozen=True):
    """The paths of a command line, as found on a machine."""

    options: ElbenchoOptions
    is_tree: bool
    """The paths are directories."""
    sizes: tuple[int, ...] = ()
    """Bytes of each file or device that are used."""
    lengths: tuple[int, ...] = ()
    """Bytes that each file or device has after random writes."""
    is_device: bool = False
    obstacles: tuple[Diagnostic, ...] = ()
    """Reasons why the phases cannot run on this machine: what the paths name is not there, or too small."""

    @classmethod
    def on_machine(cls, options: ElbenchoOptions, machine: Machine) -> ElbenchoData:
        """Looks at the paths; missing ones are what the options make of them. Raises ``PlanError`` with every error."""
        over_nfs = [path.startswith("nfs:") for path in options.paths]
        if all(over_nfs):
            return _of_export(options)
        facts = [machine.stat(path) for path in options.paths]
        kinds = {fact.kind for fact in facts}
        if any(over_nfs) or ("directory" in kinds and kinds != {"directory"}):
            raise PlanError([Diagnostic("the paths are of several kinds; give directories, files or exports alone")])
        if kinds == {"directory"}:
            return _of_directories(options)
        found = [*zip(options.paths, facts, strict=True)]
        obstacles = tuple(one for path, fact in found for one in _obstacles(options, path, fact, machine))
        if kinds == {"missing"} and (options.sizes_tree or options.phases & {"mkdirs", "deldirs"}):
            return replace(_of_directories(options), obstacles=obstacles)
        data_set = cls.of_files(options, [options.size or fact.bytes for fact in facts], "block" in kinds)
        errors = [error for path, fact in found for error in _path_errors(options, path, fact)]
        if errors := errors or [*data_set.errors()]:
            raise PlanError([*obstacles, *errors])
        return replace(data_set, obstacles=obstacles)

    @classmethod
    def of_files(cls, options: ElbenchoOptions, lengths: Sequence[int], is_device: bool = False) -> ElbenchoData:
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


def _path_errors(options: ElbenchoOptions, path: str, fact: PathFacts) -> Iterator[Diagnostic]:
    """Reasons why no phase can use a local file or device."""
    if options.phases & {"mkdirs", "deldirs"}:
        yield Diagnostic(f"-d and -D need a directory, and {path} is none", hint=f"create it: mkdir {path}")
    elif fact.kind in ("other", *ENDLESS):
        yield Diagnostic(f"{path} is neither a directory, a file nor a block device")
    elif options.phases & {"write", "read"} and not options.size and not fact.bytes:
        yield Diagnostic(f"the size of {path} is not known", hint="give it: -s 1g")


def _obstacles(options: ElbenchoOptions, path: str, fact: PathFacts, machine: Machine) -> Iterator[Diagnostic]:
    """Reasons why a local path cannot be used as it is now."""
    writes, moves_data = "write" in options.phases, bool(options.phases & {"write", "read"})
    parent = posixpath.dirname(path) or "."
    if fact.kind == "missing" and path.startswith("/dev/") and not path.startswith("/dev/shm/"):
        yield Diagnostic(f"there is no device {path}")
    elif fact.kind == "missing" and (options.sizes_tree or options.phases & {"mkdirs", "deldirs"}):
        yield Diagnostic(f"directory {path} does not exist", hint=f"create it: mkdir -p {path}")
    elif fact.kind == "missing" and machine.stat(parent).kind != "directory":
        yield Diagnostic(f"directory {parent} does not exist", hint=f"create it: mkdir -p {parent}")
    elif fact.kind == "missing" and not writes:
        yield Diagnostic(f"{path} does not exist", hint="write it first: -w")
    elif fact.kind == "block" and writes and machine.is_mounted(path):
        yield Diagnostic(f"{path} is mounted and would be overwritten", hint="unmount it first")
    elif fact.kind == "block" and options.size > fact.bytes:
        yield Diagnostic(f"{path} has {fact.bytes} bytes, fewer than -s")
    elif moves_data and not writes and fact.bytes < options.size:
        yield Diagnostic(f"{path} has {fact.bytes} bytes, fewer than -s", hint="write it first: -w")


def _of_directories(options: ElbenchoOptions) -> ElbenchoData:
    if options.moves_whole_blocks:
        options = replace(options, size=whole_blocks(options.size, options.block))
    return ElbenchoData(options, is_tree=True)


def _of_export(options: ElbenchoOptions) -> ElbenchoData:
    """Directories where -n, -N, -d or -D say so, or the path is the export itself; otherwise files."""
    names = [place(path)[1] for path in options.paths]
    if options.sizes_tree or options.phases & {"mkdirs", "deldirs"} or not all(names):
        return _of_directories(options)
    data_set = ElbenchoData.of_files(options, (options.size,) * len(names))
    errors = [*data_set.errors()]
    if not options.size and options.phases & {"write", "read"}:
        errors = [Diagnostic("the size of a file in an export is not known", hint="give it: -s 1g")]
    if errors:
        raise PlanError(errors)
    return data_set


def place(path: str) -> tuple[str | None, str]:
    """The export and the path in it: ``nfs://host/export/dir`` has ``dir``. A local path has no export."""
    if not path.startswith("nfs:"):
        return None, posixpath.normpath(path)
    url, mark, query = path.partition("?")
    start, host, rest = url.removeprefix("nfs://"), "", ""
    host, _, rest = start.partition("/")
    export, _, name = rest.strip("/").partition("/")
    return checked_nfs_url(f"nfs://{host}/{export}{mark}{query}"), name


def options_of(options: ElbenchoOptions) -> list[str]:
    """The options of the phases of an iteration, in elbencho's order."""
    without = () if options.directories else ("mkdirs", "deldirs")
    return [option for option in PHASES if option in options.phases and option not in without]


def of_option(data_set: ElbenchoData, option: str) -> Phase:
    """The phase of an option."""
    return _of_trees(data_set.options, option) if data_set.is_tree else _of_files(data_set, option)


def name_of(options: ElbenchoOptions, option: str) -> str:
    """The name of the phase of an option."""
    mixes = option == "write" and options.read_percent
    return f"RWMIX{options.read_percent}" if mixes else PHASES[option]


# -- directories ---------------------------------------------------------------------------------------------------


def _of_trees(options: ElbenchoOptions, option: str) -> Phase:
    threads = tuple(_tree_thread(options, option, number) for number in range(options.ranks))
    entry = {"write": "close", "read": "close"}.get(option, str(TASKS[option]))
    has_data = option in ("write", "read") and options.size
    directories = options.sharers * options.directories
    is_of_directories = option in ("mkdirs", "deldirs")
    owners = 1 if options.shares_directories else options.sharers
    return Phase(
        name=name_of(options, option),
        threads=threads,
        unit="Dirs" if is_of_directories else "Files",
        entry=entry,
        data=((option,) if has_data else ()),
        entries=owners * options.directories
        if is_of_directories
        else max(directories, options.sharers) * options.files,
        after=tuple(_remover(options, rank) for rank in range(owners)) if option == "deldirs" else (),
    )


def rank_of(options: ElbenchoOptions, number: int) -> int:
    """The rank of a worker: hosts that do not share the data set have the same ranks."""
    return number if options.share_paths else number % options.threads


def roots_of(options: ElbenchoOptions, rank: int) -> tuple[str | None, tuple[str, ...], plans.TreeNames]:
    """The export, the directories that a rank's directories are in, in turn, and their names.

    Directory i of a rank is in path (rank + i) modulo the number of paths.
    """
    placed = [place(path) for path in options.paths]
    first = rank % len(placed)
    (target, base), *_ = turned = placed[first:] + placed[:first]
    file = f"r{rank}-f{{}}"
    if options.directories:
        owner = 0 if options.shares_directories else rank
        below = tuple(posixpath.join(path, f"r{owner}") for _, path in turned)
        return target, below, plans.TreeNames(directory="d{}", file=file)
    above, name = posixpath.split(base)
    return target, (above,), plans.TreeNames(directory=name, file=file)


def _tree_thread(options: ElbenchoOptions, option: str, number: int) -> model.Section:
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
    work = plans.TreeWork(
        tree=tree,
        tasks=(task,),
        select=plans.SequentialSelect(),
        select_once=not options.repeats,
        times_files=option in ("write", "read"),
    )
    shares: dict[plans.OperationKind, int] = {}
    if task == "transfer":
        shares["read" if option == "read" else "write"] = 1
    limit = {"write": options.write_limit, "read": options.read_limit}.get(option, 0)
    return _thread(options, option, number).replace(
        target=_target(options, target),
        files=model.Files(regions=((_region(roots[0], 0, block),),)),
        load=model.Load(
            tasks=work,
            task_shares=shares,
            blocks=model.PerKind.same(plans.FixedBlocks(bytes=block)),
            random=options.random and option == "read",
        ),
        pace=model.Pace(rate_total_bytes=limit if task == "transfer" else 0),
    )


def _remover(options: ElbenchoOptions, rank: int) -> model.Section:
    """Removes the directories of a rank, which its directories were in."""
    target, roots, _ = roots_of(options, rank)
    return _names(options, "deldirs", rank, target, "rmdir", [_region(root, 0, 1) for root in roots])


# -- files and devices ---------------------------------------------------------------------------------------------


def _of_files(data_set: ElbenchoData, option: str) -> Phase:
    options = data_set.options
    if option == "delfiles":
        used = min(options.ranks, len(options.paths))
        threads = tuple(_deleter(options, number, used) for number in range(used))
        return Phase(name_of(options, option), threads, "Files", str(TASKS[option]), entries=len(options.paths))
    mixes = option == "write" and options.read_percent > 0
    threads = tuple(_data_thread(data_set, option, number) for number in range(options.ranks))
    extends = option == "write" and options.random and not data_set.is_device
    return Phase(
        name=name_of(options, option),
        threads=threads,
        data=("read", "write") if mixes else (option,),
        after=(_lengths(data_set),) if extends else (),
    )


def _lengths(data_set: ElbenchoData) -> model.Section:
    """Random writes reach no rest of the blocks, but files have their whole length."""
    placed = [place(path) for path in data_set.options.paths]
    regions = [_region(path, 0, length, "reserve") for (_, path), length in zip(placed, data_set.lengths, strict=True)]
    return _names(data_set.options, "lengths", 0, placed[0][0], "getattr", regions)


def _deleter(options: ElbenchoOptions, number: int, used: int) -> model.Section:
    placed = [place(path) for path in options.paths[number::used]]
    return _names(options, "delfiles", number, placed[0][0], "delete", [_region(path, 0, 1) for _, path in placed])


def transferred(thread: model.Section) -> int:
    """Bytes after which a thread on files or devices ends; 0 if it goes on until its time is over."""
    amount = thread.ending.transfer
    return amount if isinstance(amount, int) and not thread.ending.endless else 0


def _data_thread(data_set: ElbenchoData, option: str, number: int) -> model.Section:
    options = data_set.options
    layout: plans.Layout = "existing"
    if option == "write" and not data_set.is_device:
        layout = "reserve" if options.extends else "create"
    spans = [*data_set.share(rank_of(options, number))]
    placed = [place(path) for path in options.paths]
    amount = sum(size for _, _, size in spans)
    if options.random_bytes:
        amount = max(options.block, options.random_bytes // options.sharers // options.block * options.block)
    read_percent = options.read_percent if option == "write" else 100
    regions = tuple(_region(placed[file][1], offset, size, layout) for file, offset, size in spans)
    thread = _thread(options, option, number)
    return thread.replace(
        target=_target(options, placed[0][0]),
        files=model.Files(regions=(regions,), file_select="by_size" if options.random else "sequential"),
        load=model.Load(
            reads=read_percent > 0,
            writes=read_percent < 100,
            read_percent=read_percent,
            blocks=model.PerKind.same(plans.FixedBlocks(bytes=options.block)),
            # Sequential offsets are random ones of which none is drawn.
            random=True,
            random_percent=model.PerKind.same(100 if options.random else 0),
            align_bytes=model.PerKind.same(0 if options.aligned else 1),
            cover="once" if option == "write" and options.aligned else "independent",
            position="worker",
            short_last_block=not options.random,
        ),
        pace=model.Pace(
            depth=options.depth, rate_total_bytes=options.write_limit if option == "write" else options.read_limit
        ),
        ending=thread.ending.replace(transfer=amount, endless=options.repeats),
    )


# -- both ----------------------------------------------------------------------------------------------------------


def _thread(options: ElbenchoOptions, option: str, number: int) -> model.Section:
    """A thread whose target, files and load are still to be set."""
    cpus = (options.cpus[number % options.threads % len(options.cpus)],) if options.cpus else ()
    return model.Section(
        name=option,
        first_jobnum=number,
        clients=(number // options.threads,),
        cpus=cpus,
        data=model.Data(repeatable=False, payload_refill=options.refill_percent > 0, payload_scramble=False),
        ending=model.Ending(
            runtime_ns=options.runtime_ns,
            ends_others="on_error",
            tolerates=(_MADE_BY_OTHERS,) if options.shares_directories else (),
        ),
        report=model.Reporting(report_as_one=True, intervals_singly=SINGLE_INTERVALS),
    )


def _names(
    options: ElbenchoOptions,
    name: str,
    number: int,
    target: str | None,
    kind: plans.MetadataKind,
    regions: Sequence[plans.FilePlan],
) -> model.Section:
    """The load of a thread that does one operation on each of some names."""
    thread = _thread(options, name, number)
    return thread.replace(
        target=_target(options, target).replace(engine="sync" if target is None else "nfs"),
        files=model.Files(regions=(tuple(regions),)),
        load=model.Load(metadata=kind),
        ending=thread.ending.replace(runtime_ns=0),
    )


def _region(path: str, offset: int, size: int, layout: plans.Layout = "nothing") -> plans.FilePlan:
    return plans.FilePlan(path=path, offset_bytes=offset, bytes=size, layout=layout, keep=True)


def _target(options: ElbenchoOptions, target: str | None) -> model.Target:
    if target is not None:
        return model.Target(engine="nfs", nfs_url=target)
    return model.Target(engine="aio" if options.depth > 1 else "sync", direct=options.direct)

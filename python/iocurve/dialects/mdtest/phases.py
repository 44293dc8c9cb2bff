"""The phases of an iteration: the names of their directories and items, and the operations of each, as a job."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain, islice
from pathlib import Path
from random import Random

import msgspec
from msgspec.structs import replace

from iocurve.dialects.mdtest.options import MdtestOptions
from iocurve.engine import plan as plans
from iocurve.foundation.units import SECOND_NS
from iocurve.job.model import Data, Ending, Files, Job, Load, Pace, PlanNote, Reporting, Said, Section, Target, Words
from iocurve.job.resolve import Machine, plan_here, resolve
from iocurve.job.resolve.engines import checked_nfs_url

TREE = "mdtest_tree"
"""Name of a tree's directories before their numbers."""


class Shape(msgspec.Struct, frozen=True):
    """Numbers of directories and items. Directory 0 is a tree's root; the children of d are d × b + 1 to d × b + b."""

    options: MdtestOptions
    loops: int
    """Test directories of an iteration, each with a tree."""
    directories: int
    """Directories of a tree."""
    per_directory: int
    """Items of a rank in each directory that has items."""

    @classmethod
    def of(cls, options: MdtestOptions) -> Shape:
        """The numbers that follow from -n, -I, -z, -b and -L, as in mdtest."""
        branches, depth = options.branch_factor, options.depth
        directories = sum(branches**level for level in range(depth + 1))
        with_items = branches**depth if options.leaf_only else directories
        both = bool(options.items and options.items_per_directory)
        loops = options.items // options.items_per_directory if both else 1
        per_directory = options.items_per_directory or options.items // with_items
        return cls(options, loops, directories, per_directory)

    @property
    def nodes(self) -> range:
        """Directories of a tree that have items."""
        leaves = self.options.branch_factor**self.options.depth
        return range(self.directories - leaves if self.options.leaf_only else 0, self.directories)

    @property
    def items(self) -> int:
        """Items of a rank, in all loops."""
        return self.loops * len(self.nodes) * self.per_directory

    def test_directory(self, rank: int, iteration: int, loop: int) -> str:
        """The directory of an iteration, below the directory of -d that a rank uses."""
        paths = self.options.paths
        return f"{paths[rank % len(paths)].rstrip('/')}/test-dir.{iteration}-{loop}"

    def tree_directories(self, rank: int, iteration: int, loop: int) -> Iterator[str]:
        """All directories of the tree that a rank makes, each after the one that it is in."""
        base = self._base(rank)
        top = self.test_directory(rank, iteration, loop)
        return (f"{top}/{self._directory(base, number)}" for number in range(self.directories))

    def item_paths(self, kind: str, rank: int, iteration: int, shift: int) -> Iterator[str]:
        """The items that a rank uses after a number of rank shifts (-N), in order of their numbers."""
        options = self.options
        owner = (rank + shift * options.shift) % options.ranks
        base = self._base((owner + options.shift) % options.ranks)
        for loop in range(self.loops):
            top = self.test_directory(rank, iteration, loop)
            for node in self.nodes:
                directory = f"{top}/{self._directory(base, node)}/{kind}.mdtest.{owner}."
                first = node * self.per_directory
                for number in range(first, first + self.per_directory):
                    yield f"{directory}{number}"

    def _base(self, rank: int) -> str:
        return f"{TREE}.{rank}" if self.options.unique else TREE

    def _directory(self, base: str, number: int) -> str:
        names = [f"{base}.{number}"]
        while number > 0:
            number = (number - 1) // self.options.branch_factor
            names.append(f"{base}.{number}")
        return "/".join(reversed(names))


ROWS = (
    "Directory creation",
    "Directory stat",
    "Directory rename",
    "Directory removal",
    "File creation",
    "File stat",
    "File read",
    "File removal",
    "Tree creation",
    "Tree removal",
)
"""Names of the phases, in the order of mdtest's table."""

WORDS = Words(names={}, joint=" ", asks={}, worker="task")
_WARNED = plans.Tolerance(kinds=("mkdir", "rmdir", "getattr", "delete"))
"""Operations whose failure mdtest warns of, and goes on; a file that cannot be opened ends it."""


class Phase(msgspec.Struct, frozen=True):
    """One operation on each of many names."""

    name: str
    """Row of the table; other phases are not timed."""
    kind: plans.MetadataKind
    made: Callable[[], tuple[Sequence[str], ...]]
    """Makes the names of each rank that takes part, in order."""
    items: int
    """Items that the rate counts."""
    targets: Sequence[int] | None = None
    """For each name of a rank that is renamed: the number of its new name."""
    in_order: bool = False
    """A name depends on the ones before it."""
    runtime_ns: int | None = None
    bytes: int = 1
    """Bytes of each file that is written or read as a whole."""
    durability: plans.Durability = "none"
    clients: Sequence[int] = ()
    """The agent of each rank; empty: this machine runs all."""

    @property
    def paths(self) -> tuple[Sequence[str], ...]:
        """The names of each rank that takes part, which take memory."""
        return self.made()

    @property
    def job(self) -> Job:
        """The phase as a job; over NFS one worker has an operation of each rank in flight."""
        ranks, depth = self.paths, 1
        clients = tuple(self.clients[: len(ranks)]) or (0,) * len(ranks)
        first = next(path for names in ranks for path in names[:1])
        if first.startswith("nfs:") and not self.in_order:
            used = tuple(dict.fromkeys(clients))
            of_client = ([names for names, one in zip(ranks, clients, strict=True) if one == client] for client in used)
            depth = len(ranks) // len(used)
            ranks = tuple(list(chain.from_iterable(zip(*names, strict=True))) for names in of_client)
            clients = used
        target, place = _target(first, self.durability)
        section = Section(
            name=self.name,
            numjobs=len(ranks),
            clients=clients,
            target=target,
            files=Files(regions=tuple(self._regions(names, place) for names in ranks)),
            load=Load(metadata=self.kind),
            pace=Pace(depth=depth),
            ending=Ending(runtime_ns=self.runtime_ns or 0, tolerates=(_WARNED,), ends_others="on_error"),
            data=Data(repeatable=False),
            report=Reporting(report_as_one=True),
        )
        return Job(name=self.name, words=WORDS, sections=(section,), defaults=Said())

    def notes(self, machine: Machine) -> tuple[PlanNote, ...]:
        """Warnings about the load."""
        first = replace(self, made=lambda: ([next(path for names in self.paths for path in names[:1])],))
        return resolve(first.job, machine, Path.cwd()).notes

    def plan(self, machine: Machine) -> plans.Plan:
        """The plan of the phase."""
        return plan_here(self.job, SECOND_NS, machine)

    def _regions(self, names: Sequence[str], place: Callable[[str], str]) -> tuple[plans.FilePlan, ...]:
        targets = self.targets or [0] * len(names)
        return tuple(
            plans.FilePlan(path=place(name), offset_bytes=target, bytes=self.bytes, layout="nothing", keep=True)
            for name, target in zip(names, targets, strict=True)
        )

    def shuffled(self, seed: int) -> Phase:
        """The phase with the items of each rank in a separate random order (-R)."""

        def shuffled() -> tuple[Sequence[str], ...]:
            return tuple(Random(seed + rank).sample(names, len(names)) for rank, names in enumerate(self.paths))

        return replace(self, made=shuffled)

    def limited(self, count: int) -> Phase:
        """The phase on the first items of each rank; directories of the tree stay."""
        if not self.name.startswith("File"):
            return self
        paths = tuple(names[:count] for names in self.paths)
        return replace(self, made=lambda: paths, items=count * len(paths))


def of_iteration(shape: Shape, iteration: int) -> Iterator[Phase]:
    """The phases of an iteration, in mdtest's order."""
    clients = [shape.options.client_of(rank) for rank in range(shape.options.ranks)]
    for phase in _of_iteration(shape, iteration):
        if shape.options.in_random_order and phase.name.endswith((" stat", " read")):
            phase = phase.shuffled(shape.options.random_seed)
        yield replace(phase, clients=clients) if shape.options.cluster else phase


def _of_iteration(shape: Shape, iteration: int) -> Iterator[Phase]:
    options = shape.options
    ranks = range(options.ranks)
    makers = ranks if options.unique else range(1)

    def tops() -> tuple[list[str], ...]:
        paths = (shape.test_directory(rank, iteration, loop) for rank in ranks for loop in range(shape.loops))
        return ([*dict.fromkeys(paths)],)

    def trees() -> tuple[list[str], ...]:
        return tuple(
            [path for loop in range(shape.loops) for path in shape.tree_directories(rank, iteration, loop)]
            for rank in makers
        )

    def upwards() -> tuple[list[str], ...]:
        return tuple(names[::-1] for names in trees())

    if options.does("create"):
        yield Phase("Test directory creation", "mkdir", tops, 0, in_order=True)
        yield Phase("Tree creation", "mkdir", trees, shape.directories, in_order=True)
    if options.tests_directories:
        yield from _of_directories(shape, iteration)
    if options.tests_files:
        yield from _of_files(shape, iteration)
    if options.does("remove"):
        yield Phase("Tree removal", "rmdir", upwards, shape.directories, in_order=True)
        yield Phase("Test directory removal", "rmdir", tops, 0, in_order=True)


def wear_out(phase: Phase, done: Sequence[int]) -> Phase | None:
    """The items by which each rank is behind the fastest after a stonewall; None if none is."""
    most = max(done)
    rests = tuple(list(islice(names, count, most)) for names, count in zip(phase.paths, done, strict=True))
    left = tuple(names for names in rests if names)
    if not left:
        return None
    clients = [client for names, client in zip(rests, phase.clients, strict=True) if names] if phase.clients else ()
    return replace(phase, made=lambda: left, items=sum(map(len, left)), in_order=True, runtime_ns=None, clients=clients)


def _of_directories(shape: Shape, iteration: int) -> Iterator[Phase]:
    options, items = shape.options, shape.items * shape.options.ranks
    paths = _items_by_rank(shape, "dir", iteration)
    if options.does("create"):
        yield Phase("Directory creation", "mkdir", paths(0), items)
    if options.does("stat"):
        yield Phase("Directory stat", "getattr", paths(1), items)
    if not options.only and shape.items > 1:
        count = shape.items
        targets = [count - 1, *range(count - 1)]
        yield Phase("Directory rename", "rename", partial(_renamed, paths(1)), items, targets, in_order=True)
    if options.does("remove"):
        yield Phase("Directory removal", "rmdir", paths(3), items)


def _renamed(made: Callable[[], tuple[list[str], ...]]) -> tuple[list[str], ...]:
    """The names after the one that each is renamed to; the last gets a new name."""
    return tuple([*names[:-1], f"{names[0]}-XX"] for names in made())


def _of_files(shape: Shape, iteration: int) -> Iterator[Phase]:
    options, items = shape.options, shape.items * shape.options.ranks
    paths = _items_by_rank(shape, "file", iteration)
    if options.does("create"):
        runtime_ns = options.stonewall_ns or None
        created = Phase("File creation", "create", paths(0), items, runtime_ns=runtime_ns, in_order=bool(runtime_ns))
        if options.write_bytes:
            durability: plans.Durability = "file_sync" if options.syncs_files else "none"
            created = replace(created, kind="write_file", bytes=options.write_bytes, durability=durability)
        yield created
    if options.does("stat"):
        yield Phase("File stat", "getattr", paths(1), items)
    if options.does("read") and options.read_bytes:
        yield Phase("File read", "read_file", paths(2), items, bytes=options.read_bytes)
    elif options.does("read"):
        yield Phase("File read", "open", paths(2), items)
    if options.does("remove"):
        yield Phase("File removal", "delete", paths(3), items)


def _items_by_rank(shape: Shape, kind: str, iteration: int) -> Callable[[int], Callable[[], tuple[list[str], ...]]]:
    """Makes the items of each rank after a number of rank shifts."""
    ranks = range(shape.options.ranks)
    return lambda shift: lambda: tuple([*shape.item_paths(kind, rank, iteration, shift)] for rank in ranks)


def _target(path: str, durability: plans.Durability) -> tuple[Target, Callable[[str], str]]:
    """The target that has a path, and how it names paths."""
    if not path.startswith("nfs:"):
        return Target(engine="sync", durability=durability), os.path.normpath
    url, _ = split(path)
    target = Target(engine="nfs", nfs_url=checked_nfs_url(url), durability=durability)
    return target, lambda name: split(name)[1]


def split(path: str) -> tuple[str, str]:
    """Splits ``nfs://host/export?vers=4.1/test-dir.0-0/…``: the URL comes first, then the path below it."""
    url, marker, below = path.partition("/test-dir.")
    return url, f"{marker}{below}".lstrip("/")

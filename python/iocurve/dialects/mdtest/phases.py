"""The phases of an iteration: the operations of each, as a plan."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice

from iocurve.dialects.mdtest.names import Shape
from iocurve.engine import plan as plans
from iocurve.targets.target import NfsTarget
from iocurve.units import SECOND_NS

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


_WARNED = plans.Tolerance(kinds=("mkdir", "rmdir", "getattr", "delete"))
"""Operations whose failure mdtest warns of, and goes on; a file that cannot be opened ends it."""


@dataclass(frozen=True)
class Phase:
    """One operation on each of many names."""

    name: str
    """Row of the table; other phases are not timed."""
    kind: plans.MetadataKind
    paths: tuple[Sequence[str], ...]
    """The names of each rank that takes part, in order."""
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
    """The load client of each rank that takes part; empty: this machine runs all."""

    def plan(self, seed: Callable[[], int]) -> plans.Plan:
        """The plan of the phase; over NFS one worker has an operation of each rank in flight."""
        first = next(path for names in self.paths for path in names[:1])
        over_nfs = first.startswith("nfs:")
        clients = self.clients or [0] * len(self.paths)
        if over_nfs and not self.in_order:
            workers = []
            for client in dict.fromkeys(clients):
                of_client = [names for names, one in zip(self.paths, clients, strict=True) if one == client]
                merged = list(chain.from_iterable(zip(*of_client, strict=True)))
                workers.append(self._worker(client, merged, len(of_client), seed()).replace(client=client))
        else:
            workers = [
                self._worker(rank, names, 1, seed()).replace(client=clients[rank])
                for rank, names in enumerate(self.paths)
            ]
        return plans.Plan(name=self.name, interval_ns=SECOND_NS, groups=(plans.Group(workers=tuple(workers)),))

    def _worker(self, rank: int, names: Sequence[str], depth: int, seed: int) -> plans.Worker:
        engine, in_place = _engine(names[0], self.durability)
        targets = self.targets or [0] * len(names)
        files = tuple(
            plans.FilePlan(path=in_place(name), offset_bytes=target, bytes=self.bytes, layout="nothing", keep=True)
            for name, target in zip(names, targets, strict=True)
        )
        one = plans.FixedBlocks(bytes=self.bytes)
        return plans.Worker(
            job=self.name,
            jobnum=rank,
            report_group=0,
            engine=engine,
            files=files,
            file_select="round_robin",
            operations=(plans.OperationPlan(kind=self.kind, share=1, blocks=one, random_percent=0, rate=None),),
            access=plans.Access(),
            depth=depth,
            start_delay_ns=0,
            ramp_ns=0,
            end=plans.End(runtime_ns=self.runtime_ns, bytes=None, operations=len(names)),
            tolerates=(_WARNED,),
            ends_others="on_error",
            seed=seed,
            payload=plans.Payload(
                content=plans.RandomContent(), renew="scramble", compress_percent=0, dedupe_percent=0
            ),
        )

    def limited(self, count: int) -> Phase:
        """The phase on the first items of each rank; directories of the tree stay."""
        if not self.name.startswith("File"):
            return self
        paths = tuple(names[:count] for names in self.paths)
        return replace(self, paths=paths, items=count * len(paths))


def of_iteration(shape: Shape, iteration: int) -> Iterator[Phase]:
    """The phases of an iteration, in mdtest's order."""
    for phase in _of_iteration(shape, iteration):
        clients = [shape.options.client_of(rank) for rank in range(shape.options.ranks)]
        yield replace(phase, clients=clients[: len(phase.paths)]) if shape.options.cluster else phase


def _of_iteration(shape: Shape, iteration: int) -> Iterator[Phase]:
    options = shape.options
    ranks = range(options.ranks)
    tops = dict.fromkeys(shape.test_directory(rank, iteration, loop) for rank in ranks for loop in range(shape.loops))
    makers = ranks if options.unique else range(1)
    trees = tuple(
        [path for loop in range(shape.loops) for path in shape.tree_directories(rank, iteration, loop)]
        for rank in makers
    )
    if options.does("create"):
        yield Phase("Test directory creation", "mkdir", (list(tops),), 0, in_order=True)
        yield Phase("Tree creation", "mkdir", trees, shape.directories, in_order=True)
    if options.tests_directories:
        yield from _of_directories(shape, iteration)
    if options.tests_files:
        yield from _of_files(shape, iteration)
    if options.does("remove"):
        upwards = tuple(names[::-1] for names in trees)
        yield Phase("Tree removal", "rmdir", upwards, shape.directories, in_order=True)
        yield Phase("Test directory removal", "rmdir", (list(tops),), 0, in_order=True)


def wear_out(phase: Phase, done: Sequence[int]) -> Phase | None:
    """The items by which each rank is behind the fastest after a stonewall; None if none is."""
    most = max(done)
    rests = tuple(list(islice(names, count, most)) for names, count in zip(phase.paths, done, strict=True))
    left = tuple(names for names in rests if names)
    if not left:
        return None
    clients = [client for names, client in zip(rests, phase.clients, strict=True) if names] if phase.clients else ()
    return replace(phase, paths=left, items=sum(map(len, left)), in_order=True, runtime_ns=None, clients=clients)


def _of_directories(shape: Shape, iteration: int) -> Iterator[Phase]:
    options, items = shape.options, shape.items * shape.options.ranks
    paths = _items_by_rank(shape, "dir", iteration)
    if options.does("create"):
        yield Phase("Directory creation", "mkdir", paths(0), items)
    if options.does("stat"):
        yield Phase("Directory stat", "getattr", paths(1), items)
    if not options.only and shape.items > 1:
        renamed = tuple([*names[:-1], f"{names[0]}-XX"] for names in paths(1))
        count = shape.items
        targets = [count - 1, *range(count - 1)]
        yield Phase("Directory rename", "rename", renamed, items, targets, in_order=True)
    if options.does("remove"):
        yield Phase("Directory removal", "rmdir", paths(3), items)


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


def _items_by_rank(shape: Shape, kind: str, iteration: int) -> Callable[[int], tuple[list[str], ...]]:
    """The items of each rank after a number of rank shifts."""
    ranks = range(shape.options.ranks)
    return lambda shift: tuple(list(shape.item_paths(kind, rank, iteration, shift)) for rank in ranks)


def _engine(path: str, durability: plans.Durability) -> tuple[plans.EnginePlan, Callable[[str], str]]:
    """The engine for a path, and how it names paths."""
    if not path.startswith("nfs:"):
        how = plans.FileOpen(direct=False, durability=durability, invalidate=False)
        return plans.MetadataEngine(open=how, keep_open=False), os.path.normpath
    url, _ = split(path)
    target = NfsTarget.of(url)
    mount = target.mount(target.url.nconnect or 1).replace(durability=durability)
    return plans.NfsMetadataEngine(mount=mount, keep_open=False), lambda name: split(name)[1]


def split(path: str) -> tuple[str, str]:
    """Splits ``nfs://host/export?vers=4.1/test-dir.0-0/…``: the URL comes first, then the path below it."""
    url, marker, below = path.partition("/test-dir.")
    return url, f"{marker}{below}".lstrip("/")

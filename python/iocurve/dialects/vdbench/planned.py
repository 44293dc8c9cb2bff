"""A planned run, of SDs or of file systems: everything that running and reporting need.

A run of SDs places each workload on the SDs and hosts that it uses.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from functools import cached_property

import msgspec

from iocurve.dialects.vdbench.file_systems import Tree
from iocurve.dialects.vdbench.output.table import CURVE, MAXIMUM, Cell
from iocurve.dialects.vdbench.read import values
from iocurve.dialects.vdbench.read.keywords import Definition, Definitions
from iocurve.dialects.vdbench.read.values import Band, Seek
from iocurve.dialects.vdbench.runs import Run
from iocurve.dialects.vdbench.topology import Storage, Topology
from iocurve.engine.plan import Blocks, FixedBlocks, Plan, Tolerance
from iocurve.foundation.errors import Diagnostic, PlanError, Where
from iocurve.foundation.units import SECOND_NS


class Share(msgspec.Struct, frozen=True):
    """The workload, target and host that a worker belongs to in the reports."""

    workload: str
    target: str
    """Name of the FSD or SD; concatenated SDs are joined by ``+``."""
    host: str
    luns: tuple[tuple[str, str], ...] = ()
    """SDs with their LUNs on this host."""


class Planned(msgspec.Struct, frozen=True):
    """The plan of a run, or of the format before it."""

    run: Run
    name: str
    """Name of the run, or ``format_for_`` and the name."""
    start: str
    """The line that announces it."""
    plan: Plan
    shares: tuple[Share, ...]
    """One per worker of the first group; other groups repeat them."""
    counted: frozenset[str]
    """Operations that the rate counts."""
    constants: Mapping[str, Cell]
    """Columns of the flat file that are constant within the run."""
    trees: tuple[Tree, ...] = ()
    """The trees of file systems."""

    @property
    def link(self) -> str:
        """Name of the run in the links of reports."""
        return f"{self.name} For loops: {'None' if self.is_format else self.run.loops_text}"

    @property
    def is_format(self) -> bool:
        """True for the format before a run."""
        return self.name != self.run.name


DATA_ERRORS_MAX = 50
"""vdbench's default of data_errors=."""


def tolerated(general: Definition) -> Tolerance:
    """Failures that do not end a run: reads and writes, as long as they are fewer than ``data_errors=``."""
    limit = general.get("dataerrors", DATA_ERRORS_MAX)
    most = limit if isinstance(limit, int) else DATA_ERRORS_MAX
    return Tolerance(kinds=("read", "write"), errors_max=most - 1)


def starting(run: Run, rate: float | None) -> str:
    """The line that announces a run; a point of a curve has a ``rate``."""
    warmup = f" warmup={run.timing.warmup_ns // SECOND_NS}" if run.timing.warmup_ns else ""
    elapsed = f"elapsed={run.timing.elapsed_ns // SECOND_NS}{warmup}"
    if run.is_of_files:
        number = rate if rate is not None else float(run.rate.per_second)
        word = f"{run.rate.kind}." if run.rate.kind in ("max", "curve") and rate is None else f"{number:g};"
        return f"Starting RD={run.name}; {elapsed}; fwdrate={word} For loops: {run.loops_text}"
    requested = f"{rate:g}" if rate is not None else str(run.rate)
    if run.curve_percent is not None and rate is None:
        requested = f"{run.curve_percent}% of the maximum"
    return f"Starting RD={run.name}; I/O rate: {requested}; {elapsed}; For loops: {run.loops_text}"


def saved_percent(ratio: Decimal | None) -> int:
    """Per cent of the data that a ratio of compression or deduplication saves."""
    return 0 if ratio is None or ratio <= 1 else round(100 * (1 - 1 / ratio))


def requested_rate(run: Run, rate: float | None) -> float:
    """The column reqrate of the flat file."""
    if rate is not None:
        return rate
    return float({"max": MAXIMUM, "curve": CURVE}.get(run.rate.kind, float(run.rate.per_second)))


BLOCKS = FixedBlocks(bytes=4096)
"""Default of xfersize=."""


class StorageWorkload(msgspec.Struct, frozen=True):
    """A WD with the values that a run overrides."""

    definition: Definition
    blocks: Blocks
    read_percent: Decimal
    read_hits: Decimal
    """rhpct="""
    write_hits: Decimal
    """whpct="""
    seek: Seek
    skew: Decimal | None
    rate: Decimal | None
    """iorate= of the workload; None: a share of the run's."""
    band: Band | None
    """range="""
    hotband: Band | None
    stride: tuple[int, int] | None
    threads: int | None
    """Applies to concatenated SDs."""
    openflags: tuple[str, ...]
    """openflags= of the run, else of the workload; empty: those of the SD apply."""

    @classmethod
    def of(cls, run: Run, wd: Definition) -> StorageWorkload:
        """The workload in a run."""
        loops = run.loops
        return cls(
            definition=wd,
            blocks=FixedBlocks(bytes=loops.xfersize) if loops.xfersize else wd.get("xfersize", BLOCKS),
            read_percent=_read_percent(run, wd),
            read_hits=wd.get("rhpct", Decimal(0)) if loops.rhpct is None else loops.rhpct,
            write_hits=wd.get("whpct", Decimal(0)) if loops.whpct is None else loops.whpct,
            seek=loops.seekpct or wd.get("seekpct", Seek(Decimal(100))),
            skew=wd.get("skew"),
            rate=wd.get("iorate"),
            band=wd.get("range"),
            hotband=wd.get("hotband"),
            stride=wd.get("stride"),
            threads=wd.get("threads"),
            openflags=run.rd.get("openflags") or wd.get("openflags") or (),
        )

    @property
    def name(self) -> str:
        """Name of the WD."""
        return self.definition.name

    def position_of(self, *names: str) -> Where:
        """Position of the first of these keywords that is set, else of the definition."""
        return self.definition.position_of(*names)


def _read_percent(run: Run, wd: Definition) -> Decimal:
    if run.loops.rdpct is not None:
        return run.loops.rdpct
    if "writepct" in wd.values and "rdpct" not in wd.values:
        return 100 - Decimal(wd.values["writepct"])
    return Decimal(wd.get("rdpct", 100))


class Placement(msgspec.Struct, frozen=True, dict=True):
    """One workload on one SD of one host, or on several concatenated SDs."""

    workload: StorageWorkload
    storage: tuple[Storage, ...]
    host: str
    stream: int = 0
    streams: int = 1

    @cached_property
    def luns(self) -> tuple[str, ...]:
        """LUNs of the SDs on this host."""
        return tuple(storage.luns[self.host] for storage in self.storage)

    @property
    def share(self) -> Share:
        """The reports that the worker belongs to."""
        names = tuple(storage.name for storage in self.storage)
        return Share(self.workload.name, "+".join(names), self.host, tuple(zip(names, self.luns, strict=True)))


class Placer(msgspec.Struct, frozen=True):
    """Places all workloads of a run; adds to ``errors``."""

    run: Run
    definitions: Definitions
    topology: Topology
    errors: list[Diagnostic]

    def placements(self) -> Iterator[Placement]:
        """The placements, workload by workload."""
        for wd in self._workloads():
            storage = [self.topology.storage[name] for name in self._storage(wd)]
            hosts = self._matching(wd.get("host"), self.topology.hosts, "host", wd)
            if self.definitions.general.get("concatenatesds"):
                yield from self._concatenated(wd, storage, hosts)
            else:
                yield from self._single(wd, storage, hosts)

    def _workloads(self) -> list[Definition]:
        rd = self.run.rd
        if "wd" not in rd.values:
            if self.run.storage is None:
                self.errors.append(Diagnostic(f"rd={rd.name} names neither wd= nor sd=", rd.where))
            return [self.definitions.defaults["wd"].copy(rd.name, rd.where)]
        known = {wd.name: wd for wd in self.definitions.by_kind["wd"]}
        return [known[name] for name in self._matching(rd.get("wd"), list(known), "wd", rd)]

    def _storage(self, wd: Definition) -> Sequence[str]:
        if self.run.storage is not None:
            return self.run.storage
        if "sd" not in wd.values:
            self.errors.append(Diagnostic(f"wd={wd.name} has no sd=", wd.where))
            return ()
        return self._matching(wd.get("sd"), list(self.topology.storage), "sd", wd)

    def _matching(
        self, words: Sequence[str] | None, known: Sequence[str], kind: str, definition: Definition
    ) -> Sequence[str]:
        """The known names that ``words`` match; all without ``words``."""
        try:
            return known if words is None else values.matching(words, known, kind)
        except ValueError as error:
            text = f"{definition.kind}={definition.name}: {error}"
            self.errors.append(Diagnostic(text, definition.position_of(kind)))
            return ()

    def _single(self, wd: Definition, storage: Sequence[Storage], hosts: Sequence[str]) -> Iterator[Placement]:
        workload, streams = StorageWorkload.of(self.run, wd), self._streams(wd)
        # A workload uses the SDs that exist on at least one of its hosts.
        within_reach = [one for one in storage if any(host in one.luns for host in hosts)]
        for one in storage if not within_reach else ():
            text = f"wd={wd.name}: no host of the workload has sd={one.name}"
            self.errors.append(Diagnostic(text, wd.position_of("host", "sd")))
        for number, one in enumerate(within_reach):
            owners = [host for host in hosts if host in one.luns]
            # A shared LUN is read sequentially by one host only: several would each read every block.
            shared = len({one.luns[host] for host in owners}) == 1
            if workload.seek.percent == 0 and shared:
                owners = [owners[number % len(owners)]]
            for host in owners:
                for stream in range(streams):
                    yield Placement(workload, (one,), host, stream, streams)

    def _streams(self, wd: Definition) -> int:
        try:
            return values.whole(wd.get("streams", ("1",))[0], 1, 1024)
        except ValueError as error:
            self.errors.append(Diagnostic(f"streams: {error}", wd.position_of("streams")))
            return 1

    def _concatenated(self, wd: Definition, storage: Sequence[Storage], hosts: Sequence[str]) -> Iterator[Placement]:
        for name in ("hotband", "range", "streams", "rhpct", "whpct"):
            if name in wd.values:
                text = f"{name}= is not supported yet with concatenated SDs"
                self.errors.append(Diagnostic(text, wd.position_of(name)))
        for host in hosts:
            if storage and all(host in one.luns for one in storage):
                yield Placement(StorageWorkload.of(self.run, wd), tuple(storage), host)


# -- shares of a run's rate --------------------------------------------------------------------------------------------


def skewed_shares(placements: Sequence[Placement]) -> list[float] | None:
    """Share of the run's rate for each placement, from skew=; None if no workload has a skew."""
    if all(placement.workload.skew is None for placement in placements):
        return None
    shares = workload_shares(placements)
    counts = Counter(placement.workload.name for placement in placements)
    return [float(shares[placement.workload.name]) / counts[placement.workload.name] for placement in placements]


def workload_shares(placements: Sequence[Placement]) -> dict[str, Decimal]:
    """Shares of the run's rate by workload, 1 in total. Workloads without skew= split the remainder evenly.

    Raises ``PlanError`` if the skews do not add up.
    """
    workloads = {placement.workload.name: placement.workload for placement in placements}
    free = [name for name, workload in workloads.items() if not workload.skew and workload.rate is None]
    total = sum((workload.skew or Decimal(0) for workload in workloads.values()), Decimal(0))
    left = (100 - total) / len(free) if free else Decimal(0)
    if total > 100 or (total and not free and total != 100):
        where = placements[0].workload.position_of("skew")
        raise PlanError([Diagnostic(f"the skew= of the workloads of a run adds up to {total:f}, not 100", where)])
    return {name: (workload.skew or left) / 100 for name, workload in workloads.items()}

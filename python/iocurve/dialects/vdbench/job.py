"""Turns a run into a job: one section per workload, SD and host, with the SD's threads= as queue depth.

``WORDS`` has vdbench's names for the fields of a section.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Decimal
from random import Random
from urllib.parse import urlsplit

import msgspec

from iocurve.dialects.vdbench.output.table import Cell
from iocurve.dialects.vdbench.planned import (
    Placement,
    Placer,
    StorageWorkload,
    requested_rate,
    saved_percent,
    skewed_shares,
    tolerated,
    workload_shares,
)
from iocurve.dialects.vdbench.read.keywords import Definition, Definitions
from iocurve.dialects.vdbench.read.options import TEXTS
from iocurve.dialects.vdbench.read.values import Opening, Rate, opening
from iocurve.dialects.vdbench.region import is_device, offset_fields
from iocurve.dialects.vdbench.runs import Run
from iocurve.dialects.vdbench.topology import THREADS, Storage, Topology
from iocurve.dialects.vdbench.validation import Validation
from iocurve.engine.derived import block_bytes_max
from iocurve.engine.plan import BlockRange, FixedBlocks, Flow, Plan
from iocurve.foundation.errors import Diagnostic, PlanError, Where
from iocurve.foundation.units import GIB, SECOND_NS
from iocurve.job.model import Fields, Job, PerKind, PlanNote, Said, Words

WORDS = Words(
    names=TEXTS["names"],
    joint="=",
    asks=TEXTS["asks"],
    worker="worker",
    # vdbench's own notes (first_interval, ramp_added) say which intervals are not counted.
    silent_about=frozenset({"ramp_added"}),
)


MAX_SECTIONS = 4096
DEFAULTS = Said.of(
    engine="uring",
    overwrite=True,
    random=True,
    read_percent=100.0,
    cover="independent",
    position="worker",
    depth=8,
    time_based=True,
    repeatable=False,
)
"""vdbench's defaults."""


class Built(msgspec.Struct, frozen=True):
    """The job of a run, with the placements of its sections, notes and obstacles."""

    job: Job
    placements: tuple[Placement, ...]
    """One per section of the first segment; with a variable rate the other segments repeat them."""
    notes: tuple[PlanNote, ...]
    obstacles: tuple[Diagnostic, ...]
    """Reasons why the job cannot run on this machine."""

    @property
    def storage(self) -> frozenset[str]:
        """Names of the SDs that the job uses."""
        return frozenset(one.name for placement in self.placements for one in placement.storage)


UNKNOWN_BYTES = 1 << 40
"""Assumed size of an SD that does not exist on this machine, so that its runs can be explained."""


class Builder(msgspec.Struct):
    """Builds the jobs of a parameter file's runs."""

    definitions: Definitions
    topology: Topology
    bytes_at: Callable[[str], int]
    rng: Random
    formats: frozenset[str]
    validation: Validation | None
    _errors: list[Diagnostic] = msgspec.field(default_factory=list)
    _notes: list[PlanNote] = msgspec.field(default_factory=list)
    _obstacles: dict[Diagnostic, None] = msgspec.field(default_factory=dict)

    def build(self, run: Run, shares: Sequence[float] | None = None, total: float | None = None) -> Built:
        """Builds the job of a run. A point of a curve has the rate ``total``, split by ``shares``.

        Raises ``PlanError``.
        """
        self._errors, self._notes = [], []
        placements = self._placements(run)
        depths = self._depths(run, placements)
        flows = self._flows(run, placements)
        self._note_flows(run, placements, flows)
        # The run ends when every workload with seekpct=eof has reached the end.
        stops = [placement.workload.seek.at_end == "stop" for placement in placements]
        sections = []
        for number, (rate, ramp_ns, runtime_ns) in enumerate(_segments(run)):
            curve = [total * share for share in shares or ()] if total is not None else None
            rates = curve or _rates(placements, rate)
            for index, (placement, depth, each, flow) in enumerate(zip(placements, depths, rates, flows, strict=True)):
                update: Fields = {"ramp_ns": ramp_ns, "runtime_ns": runtime_ns}
                update |= {"barrier": True} if number and not index else {}
                update |= {"flow": flow} if flow else {}
                update |= {"ends_others": "together"} if stops[index] and not all(stops) else {}
                update |= {"rate_total_operations": each, "arrivals": run.arrivals_at} if each else {}
                sections.append(self._section(run, placement, depth).but(**update))
        if self._errors:
            raise PlanError(list(dict.fromkeys(self._errors)))
        notes = dict.fromkeys((*self._notes, *_run_notes(run)))
        job = Job.of(run.name, WORDS, sections, DEFAULTS).replace(interval_ns=run.timing.interval_ns)
        return Built(job, tuple(placements), tuple(notes), tuple(self._obstacles))

    def recovery(self) -> Job:
        """Builds the job that reads and verifies every block in the journals."""
        assert self.validation
        sections = []
        for storage, lun, path in self.validation.maps(self.topology):
            if not path.is_file():
                continue
            opened = opening(storage.openflags or (), storage.where, self._errors, [])
            whole = self._whole(storage, lun)
            section = Said.of(
                name=f"journal_recovery {storage.name}",
                paths=(lun,),
                offset=0,
                file_bytes=(whole, whole),
                depth=storage.threads,
                blocks=PerKind.same(FixedBlocks(bytes=self.validation.read_bytes(whole))),
                reads=True,
                random=False,
                at_end="stop",
                create=False,
                ramp_ns=0,
                time_based=False,
                verify=self.validation.verify((storage,), (lun,), take_over=True),
            ).at(dict.fromkeys(("paths", "file_bytes"), storage.where))
            sections.append(section.but(**_lun_fields((lun,), opened, storage.where, self._errors)))
        if self._errors:
            raise PlanError(self._errors)
        return Job.of("journal_recovery", WORDS, sections, DEFAULTS)

    def skewed_shares(self, run: Run) -> list[float] | None:
        """Share of the run's rate for each section, from skew=; None if no workload has a skew."""
        return skewed_shares(list(Placer(run, self.definitions, self.topology, []).placements()))

    def _placements(self, run: Run) -> Sequence[Placement]:
        errors: list[Diagnostic] = []
        placements = list(Placer(run, self.definitions, self.topology, errors).placements())
        if not placements and not errors:
            errors.append(Diagnostic(f"rd={run.rd.name} has no SD to run on", run.rd.where, "add sd= with a lun="))
        if len(placements) > MAX_SECTIONS and not errors:
            text = f"rd={run.rd.name}: {len(placements)} workers are more than the limit of {MAX_SECTIONS}"
            errors.append(Diagnostic(text, run.rd.where))
        if errors:
            raise PlanError(errors)
        return placements

    # -- threads and rates ---------------------------------------------------------------------------------------------

    def _depths(self, run: Run, placements: Sequence[Placement]) -> list[int]:
        if self.definitions.general.get("concatenatesds"):
            if run.loops.threads is not None:
                return _split(run.loops.threads, len(placements))
            return [placement.workload.threads or THREADS for placement in placements]
        sharing = Counter((placement.storage[0].name, placement.host) for placement in placements)
        ranks: Counter[tuple[str, str]] = Counter()
        depths = []
        for placement in placements:
            storage = placement.storage[0]
            key = storage.name, placement.host
            threads = run.loops.threads or storage.threads
            if placement.streams > 1:
                depths.append(-(-threads // placement.streams))
                continue
            depths.append(_split(threads, sharing[key])[ranks[key]])
            ranks[key] += 1
            if sharing[key] > 1:
                text = f"the threads of sd={storage.name} are split among its {sharing[key]} workloads"
                self._notes.append(PlanNote("threads_divided", text, storage.where))
        if any(placement.workload.threads for placement in placements):
            text = "threads= of a workload applies only with concatenatesds=yes; the SD's threads= applies here"
            where = placements[0].workload.position_of("threads")
            self._notes.append(PlanNote("no_effect", text, where, "warning"))
        return depths

    def _flows(self, run: Run, placements: Sequence[Placement]) -> Sequence[Flow | None]:
        """Flows that keep the skew of workloads at iorate=max. Workloads with iorate= have no flow."""
        free = [placement for placement in placements if placement.workload.rate is None]
        counts = Counter(placement.workload.name for placement in free)
        at_maximum = run.rate.kind in ("max", "curve") and run.curve_percent is None
        if not at_maximum or len(counts) < 2 or all(placement.workload.skew is None for placement in free):
            return [None] * len(placements)
        shares = workload_shares(free)
        weights = {name: max(1, round(shares[name] * 1_000_000 / number)) for name, number in counts.items()}
        return [
            Flow(id=0, weight=weights[placement.workload.name]) if placement.workload.rate is None else None
            for placement in placements
        ]

    def _note_flows(self, run: Run, placements: Sequence[Placement], flows: Sequence[Flow | None]) -> None:
        """A skew at iorate=max holds within an agent: clients do not wait for each other."""
        nodes = {self.topology.nodes[placement.host] for placement in placements}
        if self.topology.on_cluster and any(flows) and len(nodes) > 1:
            text = f"rd={run.rd.name}: skew= is kept on each agent by itself, not between them"
            self._notes.append(PlanNote("skew_by_client", text, run.rd.where, "warning"))

    # -- one section ---------------------------------------------------------------------------------------------------

    def _section(self, run: Run, placement: Placement, depth: int) -> Said:
        workload, storage, general = placement.workload, placement.storage[0], self.definitions.general
        seek, percent, blocks = workload.seek, workload.read_percent, workload.blocks
        flags = workload.openflags or storage.openflags or ()
        opened = opening(flags, workload.position_of("openflags"), self._errors, self._notes)
        region = self._region(run, placement)
        random_percent = self._whole_percent(workload)
        fields: Fields = {
            "name": _name(placement, self.topology),
            "paths": placement.luns,
            "depth": depth,
            "blocks": PerKind.same(blocks),
            "reads": percent > 0,
            "writes": percent < 100,
            "read_percent": float(percent),
            "random": random_percent > 0,
            "random_percent": PerKind.same(random_percent),
            "at_end": seek.at_end,
            # Reads and writes of a mix share one position, as in vdbench.
            "position": "worker" if 0 < percent < 100 else "kind",
            "create": not placement.luns[0].startswith("/dev/") and general.get("formatsds", True),
            "sync_at_end": opened.flushed,
            "tolerates": (tolerated(general),),
            "whole_transfers": True,
            "ends_others": "on_error",
            **_payload(general, run, storage),
            **region,
        }
        align = storage.align or (blocks.step if isinstance(blocks, BlockRange) else 0)
        if align:
            fields["align_bytes"] = PerKind.same(align)
        fields |= self._stride(workload, random_percent)
        fields |= self._format(placement)
        if len(placement.storage) > 1:
            fields |= self._sizes(placement) if "file_bytes" in fields else {}
            fields["file_select"] = "by_size" if random_percent else "sequential"
        if self.validation:
            fields["verify"] = self.validation.verify(placement.storage, placement.luns)
        fields |= _lun_fields(placement.luns, opened, storage.where, self._errors)
        self._obstacles |= dict.fromkeys(_windows_names(placement.luns, storage.where))
        return Said.of(**fields).at(_positions(run, workload, storage))

    def _whole_percent(self, workload: StorageWorkload) -> int:
        seek = workload.seek
        percent = int(seek.percent.to_integral_value(rounding="ROUND_HALF_UP"))
        if percent != seek.percent:
            text = f"seekpct={seek.percent:f} is rounded to {percent}"
            self._notes.append(PlanNote("seekpct_rounded", text, workload.position_of("seekpct"), "warning"))
        return percent

    def _stride(self, workload: StorageWorkload, random_percent: int) -> Fields:
        if workload.stride is None:
            return {}
        low, high = workload.stride
        if random_percent != 100:
            text = "stride= is not supported yet with a seekpct below 100"
            hint = "use seekpct=100, which skips after every operation"
            self._errors.append(Diagnostic(text, workload.position_of("stride"), hint))
        return {"random": False, "gap_bytes": low, "gap_spread_bytes": high - low}

    def _format(self, placement: Placement) -> Fields:
        """formatsds=yes: files are recreated before the first run that uses them."""
        if not any(one.name in self.formats for one in placement.storage):
            return {}
        if is_device(placement.luns[0]):
            text = f"formatsds=yes does not format devices: {placement.luns[0]} is not written"
            where = self.definitions.general.position_of("formatsds")
            self._notes.append(PlanNote("no_format", text, where, "warning"))
            return {}
        return {"recreate": True}

    def _sizes(self, placement: Placement) -> Fields:
        """Sizes of the concatenated SDs, if they differ."""
        sizes = tuple(self._whole(one, lun) for one, lun in zip(placement.storage, placement.luns, strict=True))
        return {"file_bytes": None, "path_bytes": sizes} if len(set(sizes)) > 1 else {}

    def _region(self, run: Run, placement: Placement) -> Fields:
        hitarea = placement.storage[0].hitarea if run.loops.hitarea is None else run.loops.hitarea
        whole = min(self._whole(one, lun) for one, lun in zip(placement.storage, placement.luns, strict=True))
        block = block_bytes_max(placement.workload.blocks)
        return offset_fields(placement, hitarea, whole, block, self.rng, self._errors)

    def _whole(self, storage: Storage, lun: str) -> int:
        """Size of an SD. If it neither exists nor has a size=, adds an obstacle and returns ``UNKNOWN_BYTES``."""
        known = storage.size or (0 if lun.startswith("nfs:") else self.bytes_at(lun))
        if not known:
            text = f"sd={storage.name}: {lun} does not exist here and has no size="
            hint = "add size=, or map it to an existing path with --map-lun"
            self._obstacles[Diagnostic(text, storage.where, hint)] = None
        return known or UNKNOWN_BYTES


def constants(run: Run, rate: float | None, built: Built, plan: Plan, general: Definition) -> dict[str, Cell]:
    """The columns of the flat file that are constant within a run of SDs."""
    workers = [worker for group in plan.groups for worker in group.workers]
    luns = {(file.path, file.offset_bytes): file.bytes for worker in workers for file in worker.files}
    loads = [placement.workload for placement in built.placements]
    threads = [run.loops.threads or placement.storage[0].threads for placement in built.placements]
    compression: Decimal | None = run.loops.compratio or general.get("compratio")
    dedup: Decimal | None = general.get("dedupratio")

    def common(values: Iterable[Decimal | int]) -> float | None:
        """The value if there is only one."""
        found = set(map(float, values))
        return found.pop() if len(found) == 1 else None

    sizes = {block_bytes_max(operation.blocks) for worker in workers for operation in worker.operations}
    return {
        "reqrate": requested_rate(run, rate),
        "xfersize": sizes.pop() if len(sizes) == 1 else None,
        "threads": common(threads),
        "rdpct": common(load.read_percent for load in loads),
        "rhpct": common(load.read_hits for load in loads),
        "whpct": common(load.write_hits for load in loads),
        "seekpct": common(load.seek.percent for load in loads),
        "lunsize": sum(luns.values()) / GIB,
        "version": "iocurve",
        "compratio": None if compression is None else float(compression),
        "dedupratio": None if dedup is None else float(dedup),
    }


# -- parts -------------------------------------------------------------------------------------------------------------


def _segments(run: Run) -> list[tuple[Rate, int, int]]:
    """The rates of a run in order, each with its ramp and its measured time in ns."""
    timing = run.timing
    if run.rate.kind != "variable":
        return [(run.rate, timing.ramp_ns, timing.total_ns - timing.ramp_ns)]
    segments: list[tuple[Rate, int, int]] = []
    passed, number = 0, 0
    while passed < timing.total_ns and len(segments) < 10_000:
        per_second, seconds = run.rate.pattern[number % len(run.rate.pattern)]
        length = min(seconds * SECOND_NS, timing.total_ns - passed)
        ramp = min(max(0, timing.ramp_ns - passed), max(0, length - 1))
        segments.append((Rate("number", per_second), ramp, length - ramp))
        passed, number = passed + length, number + 1
    return segments


def _rates(placements: Sequence[Placement], rate: Rate) -> Sequence[float | None]:
    """Rate of each placement; None: as fast as possible."""
    counts = Counter(placement.workload.name for placement in placements)
    shares = workload_shares(placements)
    each: list[float | None] = []
    for placement in placements:
        name, number = placement.workload.name, placement.workload.rate
        if number is None and rate.kind == "number":
            number = rate.per_second * shares[name]
        each.append(None if number is None else float(number) / counts[name])
    return each


def _split(threads: int, parts: int) -> list[int]:
    """Splits threads as evenly as possible, at least one for each part."""
    share, rest = divmod(threads, parts)
    return [max(1, share + (1 if number < rest else 0)) for number in range(parts)]


def _run_notes(run: Run) -> Iterator[PlanNote]:
    if run.timing.warmup_ns:
        yield PlanNote("ramp_added", "warmup= runs before elapsed= and is not part of it")
    else:
        yield PlanNote("first_interval", "without warmup= the first interval of elapsed= is not counted in averages")
    if run.arrivals == "uniform" and run.rate.kind != "max":
        text = "distribution=uniform runs as deterministic: requests are scheduled at equal intervals"
        yield PlanNote("uniform_arrivals", text, run.rd.position_of("distribution"), "warning")
    if run.rd.get("format"):
        text = "format= has no effect: it applies to file systems; missing files of SDs are created"
        yield PlanNote("no_effect", text, run.rd.position_of("format"))


def _payload(general: Definition, run: Run, storage: Storage) -> Fields:
    dedup = storage.dedup_ratio if storage.dedup_ratio > 1 else general.get("dedupratio")
    percents = {
        "payload_compress_percent": saved_percent(run.loops.compratio or general.get("compratio")),
        "payload_dedupe_percent": saved_percent(dedup),
    }
    return {name: percent for name, percent in percents.items() if percent}


def _name(placement: Placement, topology: Topology) -> str:
    parts = [placement.workload.name, "+".join(one.name for one in placement.storage[:3])]
    if len(placement.storage) > 3:
        parts[-1] += f"+{len(placement.storage) - 3} more"
    if len(topology.hosts) > 1:
        parts.append(placement.host)
    if placement.streams > 1:
        parts.append(f"stream {placement.stream + 1}")
    return " ".join(parts)


_FIELDS = {
    "seekpct": ("random", "random_percent", "at_end"),
    "rdpct": ("reads", "writes", "read_percent"),
    "xfersize": ("blocks",),
    "skew": (),
    "stride": ("gap_bytes",),
    "openflags": ("direct", "durability"),
    "hotband": ("distribution",),
    "range": ("offset",),
}


def _positions(run: Run, workload: StorageWorkload, storage: Storage) -> dict[str, Where]:
    """Position of each field: in the workload, or in the run that overrides it."""
    positions = dict.fromkeys(("paths", "file_bytes", "size"), storage.where)
    for name, fields in _FIELDS.items():
        for definition in (workload.definition, run.rd):
            if name in definition.positions:
                positions |= dict.fromkeys(fields, definition.positions[name])
    return {"name": workload.definition.where, **positions}


# -- LUNs: local files, devices, and files on NFS servers --------------------------------------------------------------


def _lun_fields(names: Sequence[str], opened: Opening, where: Where, errors: list[Diagnostic]) -> Fields:
    """Fields of a section for its LUNs: engine, paths and open flags."""
    remote = [name for name in names if name.startswith("nfs:")]
    if not remote:
        return {"direct": opened.direct, "durability": opened.durability}
    parts = [_nfs(name) for name in remote]
    urls = {url for url, _ in parts}
    if len(remote) < len(names) or len(urls) > 1:
        errors.append(Diagnostic("only SDs in the same NFS export can be concatenated", where))
    if any(not file for _, file in parts):
        errors.append(Diagnostic(f"{remote[0]} names no file", where, "write nfs://host/export/file"))
    files = tuple(file for _, file in parts)
    return {"engine": "nfs", "nfs_url": urls.pop(), "paths": files, "durability": opened.durability}


def _windows_names(names: Sequence[str], where: Where) -> Iterator[Diagnostic]:
    """Yields an obstacle for each LUN with a Windows name."""
    for name in names:
        if name.startswith("\\\\") or re.match(r"[A-Za-z]:\\", name):
            hint = f"map it to a path on Linux: --map-lun '{name}=/dev/…'"
            yield Diagnostic(f"{name} is a Windows path", where, hint)


def _nfs(name: str) -> tuple[str, str]:
    """Splits the URL of a file into the URL of its directory, which is mounted, and the file name."""
    try:
        parts = urlsplit(name)
    except ValueError:
        return name, ""
    directory, _, file = parts.path.rpartition("/")
    return parts._replace(path=directory or "/").geturl(), file

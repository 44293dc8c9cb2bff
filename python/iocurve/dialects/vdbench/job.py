"""Turns a run into a job: one section per workload, SD and host, with the SD's threads= as queue depth."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from random import Random
from typing import Any
from urllib.parse import urlsplit

from iocurve.dialects.vdbench.output.table import Cell
from iocurve.dialects.vdbench.planned import Share, requested_rate
from iocurve.dialects.vdbench.read import values
from iocurve.dialects.vdbench.read.definitions import Definition, Definitions
from iocurve.dialects.vdbench.read.openflags import Opening, opening
from iocurve.dialects.vdbench.read.values import Rate, Seek
from iocurve.dialects.vdbench.region import Spread
from iocurve.dialects.vdbench.runs import Run
from iocurve.dialects.vdbench.topology import Storage, Topology
from iocurve.dialects.vdbench.validation import Validation
from iocurve.dialects.vdbench.words import WORDS
from iocurve.engine.plan import BlockRange, Blocks, FixedBlocks, Flow, Plan
from iocurve.errors import Diagnostic, PlanError, Where
from iocurve.job.model import Job, PerKind, PlanNote, Said
from iocurve.units import GIB, SECOND_NS

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


@dataclass(frozen=True)
class Placement:
    """One workload on one SD of one host, or on several concatenated SDs."""

    workload: Definition
    storage: tuple[Storage, ...]
    host: str
    stream: int = 0
    streams: int = 1

    @property
    def luns(self) -> tuple[str, ...]:
        """LUNs of the SDs on this host."""
        return tuple(storage.luns[self.host] for storage in self.storage)

    @property
    def share(self) -> Share:
        """The reports that the worker belongs to."""
        names = tuple(storage.name for storage in self.storage)
        return Share(self.workload.name, "+".join(names), self.host, tuple(zip(names, self.luns, strict=True)))


@dataclass(frozen=True)
class Built:
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


class Builder:
    """Builds the jobs of a parameter file's runs."""

    def __init__(
        self,
        definitions: Definitions,
        topology: Topology,
        bytes_at: Callable[[str], int],
        rng: Random,
        formats: frozenset[str],
        validation: Validation | None,
    ) -> None:
        self._definitions = definitions
        self._topology = topology
        self._bytes_at = bytes_at
        self._rng = rng
        self._formats = formats
        self._validation = validation
        self._workloads = {wd.name: wd for wd in definitions.by_kind["wd"]}
        self._obstacles: dict[Diagnostic, None] = {}

    def build(self, run: Run, shares: Sequence[float] | None = None, total: float | None = None) -> Built:
        """Builds the job of a run. A point of a curve has the rate ``total``, split by ``shares``.

        Raises ``PlanError``.
        """
        notes: list[PlanNote] = []
        errors: list[Diagnostic] = []
        placements = list(self._placements(run, errors))
        if errors:
            raise PlanError(errors)
        if not placements:
            raise PlanError([Diagnostic(f"rd={run.rd.name} has no SD to run on", run.rd.where, "add sd= with a lun=")])
        if len(placements) > MAX_SECTIONS:
            raise PlanError(
                [
                    Diagnostic(
                        f"rd={run.rd.name}: {len(placements)} workers are more than the limit of {MAX_SECTIONS}",
                        run.rd.where,
                    )
                ]
            )
        depths = self._depths(run, placements, notes)
        sections = []
        segments = _segments(run)
        flows = self._flows(run, placements)
        notes += self._flow_notes(run, placements, flows)
        stops = [seek_of(run, placement.workload).at_end == "stop" for placement in placements]
        for number, (rate, ramp_ns, runtime_ns) in enumerate(segments):
            curve = [total * share for share in shares or ()] if total is not None else None
            rates = curve or self._rates(placements, rate)
            for index, (placement, depth, each, flow) in enumerate(zip(placements, depths, rates, flows, strict=True)):
                section = self._section(run, placement, depth, errors, notes)
                update: dict[str, Any] = {"ramp_ns": ramp_ns, "runtime_ns": runtime_ns}
                update |= {"barrier": True} if number and not index else {}
                update |= {"flow": flow} if flow else {}
                # The run ends when every workload with seekpct=eof has reached the end.
                update |= {"ends_others": "together"} if stops[index] and not all(stops) else {}
                update |= {"rate_total_operations": each, "arrivals": _arrivals(run)} if each else {}
                sections.append(section.but(**update))
        if errors:
            raise PlanError(list(dict.fromkeys(errors)))
        notes += _run_notes(run)
        job = Job.of(run.name, WORDS, sections, DEFAULTS)
        return Built(job, tuple(placements), tuple(dict.fromkeys(notes)), tuple(self._obstacles))

    def recovery(self) -> Job:
        """Builds the job that reads and verifies every block in the journals."""
        assert self._validation
        errors: list[Diagnostic] = []
        sections = []
        for storage, lun, path in self._validation.maps(self._topology):
            if not path.is_file():
                continue
            opened = opening(storage.openflags or (), storage.where, errors, [])
            whole = self._whole(storage, lun)
            section = Said.of(
                name=f"journal_recovery {storage.name}",
                paths=(lun,),
                offset=0,
                file_bytes=(whole, whole),
                depth=storage.threads,
                blocks=PerKind.same(FixedBlocks(bytes=self._validation.read_bytes(whole))),
                reads=True,
                random=False,
                at_end="stop",
                create=False,
                ramp_ns=0,
                time_based=False,
                verify=self._validation.verify((storage,), (lun,), take_over=True),
            ).at(dict.fromkeys(("paths", "file_bytes"), storage.where))
            sections.append(section.but(**_lun_fields((lun,), opened, storage.where, errors)))
        if errors:
            raise PlanError(errors)
        return Job.of("journal_recovery", WORDS, sections, DEFAULTS)

    def skewed_shares(self, run: Run) -> list[float] | None:
        """Share of the run's rate for each placement, from skew=; None if no workload has a skew."""
        placements = list(self._placements(run, []))
        if not any("skew" in placement.workload.values for placement in placements):
            return None
        names = list(dict.fromkeys(placement.workload.name for placement in placements))
        shares, counts = _shares(placements, names), Counter(placement.workload.name for placement in placements)
        return [float(shares[placement.workload.name]) / counts[placement.workload.name] for placement in placements]

    # -- placements ----------------------------------------------------------------------------------------------------

    def _placements(self, run: Run, errors: list[Diagnostic]) -> Iterator[Placement]:
        for workload in self._chosen_workloads(run, errors):
            storage = self._chosen_storage(run, workload, errors)
            hosts = self._chosen_hosts(workload, errors)
            if self._definitions.general.get("concatenatesds"):
                yield from self._concatenated(workload, storage, hosts, errors)
            else:
                yield from self._single(run, workload, storage, hosts, errors)

    def _chosen_workloads(self, run: Run, errors: list[Diagnostic]) -> list[Definition]:
        words = run.rd.get("wd")
        if words is None:
            if run.storage is None:
                errors.append(Diagnostic(f"rd={run.rd.name} names neither wd= nor sd=", run.rd.where))
            return [self._definitions.defaults["wd"].copy(run.rd.name, run.rd.where)]
        try:
            return [self._workloads[name] for name in values.matching(words, list(self._workloads), "wd")]
        except ValueError as error:
            errors.append(Diagnostic(f"rd={run.rd.name}: {error}", run.rd.position_of("wd")))
            return []

    def _chosen_storage(self, run: Run, workload: Definition, errors: list[Diagnostic]) -> list[Storage]:
        names = run.storage
        if names is None:
            words = workload.get("sd")
            if words is None:
                errors.append(Diagnostic(f"wd={workload.name} has no sd=", workload.where))
                return []
            try:
                names = tuple(values.matching(words, list(self._topology.storage), "sd"))
            except ValueError as error:
                errors.append(Diagnostic(f"wd={workload.name}: {error}", workload.position_of("sd")))
                return []
        return [self._topology.storage[name] for name in names]

    def _chosen_hosts(self, workload: Definition, errors: list[Diagnostic]) -> list[str]:
        words = workload.get("host")
        if words is None:
            return list(self._topology.hosts)
        try:
            return values.matching(words, self._topology.hosts, "host")
        except ValueError as error:
            errors.append(Diagnostic(f"wd={workload.name}: {error}", workload.position_of("host")))
            return []

    def _single(
        self, run: Run, workload: Definition, storage: Sequence[Storage], hosts: Sequence[str], errors: list[Diagnostic]
    ) -> Iterator[Placement]:
        sequential = seek_of(run, workload).percent == 0
        streams = self._streams(workload, errors)
        # A workload uses the SDs that exist on at least one of its hosts.
        within_reach = [one for one in storage if any(host in one.luns for host in hosts)]
        for one in storage if not within_reach else ():
            text = f"wd={workload.name}: no host of the workload has sd={one.name}"
            errors.append(Diagnostic(text, workload.position_of("host", "sd")))
        for number, one in enumerate(within_reach):
            owners = [host for host in hosts if host in one.luns]
            # A shared LUN is read sequentially by one host only: several would each read every block.
            shared = len({one.luns[host] for host in owners}) == 1
            if sequential and shared:
                owners = [owners[number % len(owners)]]
            for host in owners:
                for stream in range(streams):
                    yield Placement(workload, (one,), host, stream, streams)

    def _streams(self, workload: Definition, errors: list[Diagnostic]) -> int:
        if "streams" not in workload.values:
            return 1
        try:
            return values.whole(workload.values["streams"][0], 1, 1024)
        except ValueError as error:
            errors.append(Diagnostic(f"streams: {error}", workload.position_of("streams")))
            return 1

    def _concatenated(
        self, workload: Definition, storage: Sequence[Storage], hosts: Sequence[str], errors: list[Diagnostic]
    ) -> Iterator[Placement]:
        for name in ("hotband", "range", "streams", "rhpct", "whpct"):
            if name in workload.values:
                text = f"{name}= is not supported yet with concatenated SDs"
                errors.append(Diagnostic(text, workload.position_of(name)))
        for host in hosts:
            if storage and all(host in one.luns for one in storage):
                yield Placement(workload, tuple(storage), host)

    # -- threads and rates ---------------------------------------------------------------------------------------------

    def _depths(self, run: Run, placements: Sequence[Placement], notes: list[PlanNote]) -> list[int]:
        if self._definitions.general.get("concatenatesds"):
            threads = run.loops.get("threads")
            if threads is not None:
                return _split(int(threads), len(placements))
            return [int(placement.workload.get("threads", 8)) for placement in placements]
        sharing = Counter((placement.storage[0].name, placement.host) for placement in placements)
        ranks: Counter[tuple[str, str]] = Counter()
        depths = []
        for placement in placements:
            storage = placement.storage[0]
            key = storage.name, placement.host
            threads = int(run.loops.get("threads") or storage.threads)
            if placement.streams > 1:
                depths.append(-(-threads // placement.streams))
                continue
            depths.append(_split(threads, sharing[key])[ranks[key]])
            ranks[key] += 1
            if sharing[key] > 1:
                text = f"the threads of sd={storage.name} are split among its {sharing[key]} workloads"
                notes.append(PlanNote("threads_divided", text, storage.where))
        if any(placement.workload.get("threads") for placement in placements):
            text = "threads= of a workload applies only with concatenatesds=yes; the SD's threads= applies here"
            notes.append(PlanNote("no_effect", text, placements[0].workload.position_of("threads"), "warning"))
        return depths

    def _flows(self, run: Run, placements: Sequence[Placement]) -> Sequence[Flow | None]:
        """Flows that keep the skew of workloads at iorate=max. Workloads with their own iorate= have no flow."""
        free = [placement for placement in placements if "iorate" not in placement.workload.values]
        names = list(dict.fromkeys(placement.workload.name for placement in free))
        at_maximum = run.rate.kind in ("max", "curve") and run.curve_percent is None
        if not at_maximum or len(names) < 2 or not any("skew" in placement.workload.values for placement in free):
            return [None] * len(placements)
        shares, counts = _shares(placements, names), Counter(placement.workload.name for placement in free)
        weights = {name: max(1, round(shares[name] * 1_000_000 / counts[name])) for name in names}
        return [
            Flow(id=0, weight=weights[placement.workload.name]) if placement in free else None
            for placement in placements
        ]

    def _flow_notes(
        self, run: Run, placements: Sequence[Placement], flows: Sequence[Flow | None]
    ) -> Iterator[PlanNote]:
        """A skew at iorate=max holds within a load client: clients do not wait for each other."""
        nodes = {self._topology.nodes[placement.host] for placement in placements}
        if self._topology.on_cluster and any(flows) and len(nodes) > 1:
            text = f"rd={run.rd.name}: skew= is kept on each load client by itself, not between them"
            yield PlanNote("skew_by_client", text, run.rd.where, "warning")

    def _rates(self, placements: Sequence[Placement], rate: Rate) -> Sequence[float | None]:
        workloads = list(dict.fromkeys(placement.workload.name for placement in placements))
        counts = Counter(placement.workload.name for placement in placements)
        fixed = {placement.workload.name: placement.workload.get("iorate") for placement in placements}
        shares = _shares(placements, workloads)
        each: list[float | None] = []
        for placement in placements:
            name = placement.workload.name
            number = fixed[name]
            if number is None and rate.kind == "number":
                number = rate.per_second * shares[name]
            each.append(None if number is None else float(number) / counts[name])
        return each

    # -- one section ---------------------------------------------------------------------------------------------------

    def _section(
        self, run: Run, placement: Placement, depth: int, errors: list[Diagnostic], notes: list[PlanNote]
    ) -> Said:
        workload, storage = placement.workload, placement.storage[0]
        seek = seek_of(run, workload)
        size = run.loops.get("xfersize")
        written: Blocks = workload.get("xfersize", FixedBlocks(bytes=4096))
        blocks = FixedBlocks(bytes=int(size)) if size else written
        percent = read_percent(run, workload)
        flags = run.rd.get("openflags") or workload.get("openflags") or storage.openflags or ()
        opened = opening(flags, workload.position_of("openflags"), errors, notes)
        region = self._region(run, placement, seek, blocks.largest, errors)
        random_percent = _whole_percent(seek, workload, notes)
        fields: dict[str, Any] = {
            "name": _name(placement, self._topology),
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
            "create": not placement.luns[0].startswith("/dev/") and self._definitions.general.get("formatsds", True),
            "sync_at_end": opened.flushed,
            **_payload(self._definitions.general, run, storage),
            **region,
        }
        align = storage.align or (blocks.step if isinstance(blocks, BlockRange) else 0)
        if align:
            fields["align_bytes"] = PerKind.same(align)
        fields |= _stride(workload, random_percent, errors)
        formats = any(one.name in self._formats for one in placement.storage)
        if formats and _is_device(placement.luns[0]):
            text = f"formatsds=yes does not format devices: {placement.luns[0]} is not written"
            notes.append(PlanNote("no_format", text, self._definitions.general.position_of("formatsds"), "warning"))
        elif formats:
            fields["recreate"] = True
        if len(placement.storage) > 1:
            fields |= self._sizes(placement, fields)
            fields["file_select"] = "by_size" if random_percent else "sequential"
        if self._validation:
            fields["verify"] = self._validation.verify(placement.storage, placement.luns)
        fields |= _lun_fields(placement.luns, opened, storage.where, errors)
        self._obstacles |= dict.fromkeys(_windows_names(placement.luns, storage.where))
        return Said.of(**fields).at(_positions(run, workload, storage))

    def _sizes(self, placement: Placement, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Sizes of the concatenated SDs, if they differ."""
        if "file_bytes" not in fields:
            return {}
        sizes = tuple(self._whole(one, lun) for one, lun in zip(placement.storage, placement.luns, strict=True))
        return {"file_bytes": None, "path_bytes": sizes} if len(set(sizes)) > 1 else {}

    def _region(
        self, run: Run, placement: Placement, seek: Seek, block: int, errors: list[Diagnostic]
    ) -> dict[str, Any]:
        storage, workload = placement.storage[0], placement.workload
        hits = {name: run.loops.get(name, workload.get(name, Decimal(0))) for name in ("rhpct", "whpct")}
        spread = Spread(
            offset=storage.offset,
            span=workload.get("range") or storage.range,
            hotband=workload.get("hotband"),
            read_hits=hits["rhpct"],
            write_hits=hits["whpct"],
            hitarea=int(run.loops.get("hitarea", storage.hitarea)),
            seek=seek,
            stream=placement.stream,
            streams=placement.streams,
            where=workload.position_of("range", "hotband", "rhpct", "whpct"),
        )
        whole = min(self._whole(one, lun) for one, lun in zip(placement.storage, placement.luns, strict=True))
        return spread.fields(whole, block, self._rng, errors, is_device=_is_device(placement.luns[0]))

    def _whole(self, storage: Storage, lun: str) -> int:
        """Size of an SD. If it neither exists nor has a size=, adds an obstacle and returns ``UNKNOWN_BYTES``."""
        known = storage.size or (0 if lun.startswith("nfs:") else self._bytes_at(lun))
        if not known:
            text = f"sd={storage.name}: {lun} does not exist here and has no size="
            self._obstacles[
                Diagnostic(text, storage.where, "add size=, or map it to an existing path with --map-lun")
            ] = None
        return known or UNKNOWN_BYTES


def constants(run: Run, rate: float | None, built: Built, plan: Plan, general: Definition) -> dict[str, Cell]:
    """The columns of the flat file that are constant within a run of SDs."""
    loops, placements = run.loops, built.placements
    workers = [worker for group in plan.groups for worker in group.workers]
    luns = {(file.path, file.offset_bytes): file.bytes for worker in workers for file in worker.files}

    def common(values: Iterable[float]) -> float | None:
        """The value if there is only one."""
        found = set(values)
        return found.pop() if len(found) == 1 else None

    def of_loop(name: str) -> float | None:
        return common(float(loops.get(name, placement.workload.get(name, 0))) for placement in placements)

    return {
        "reqrate": requested_rate(run, rate),
        "xfersize": common(operation.blocks.largest for worker in workers for operation in worker.operations),
        "threads": common(float(loops.get("threads") or placement.storage[0].threads) for placement in placements),
        "rdpct": common(float(read_percent(run, placement.workload)) for placement in placements),
        "rhpct": of_loop("rhpct"),
        "whpct": of_loop("whpct"),
        "seekpct": common(float(seek_of(run, placement.workload).percent) for placement in placements),
        "lunsize": sum(luns.values()) / GIB,
        "version": "iocurve",
        "compratio": _ratio(loops.get("compratio", general.get("compratio"))),
        "dedupratio": _ratio(general.get("dedupratio")),
    }


def _ratio(written: Decimal | None) -> float | None:
    return None if written is None else float(written)


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


def seek_of(run: Run, workload: Definition) -> Seek:
    """seekpct of a workload in a run."""
    seek = run.loops.get("seekpct") or workload.get("seekpct") or Seek(Decimal(100))
    assert isinstance(seek, Seek)
    return seek


def read_percent(run: Run, workload: Definition) -> Decimal:
    """Percentage of reads of a workload in a run."""
    if "rdpct" in run.loops:
        return Decimal(run.loops["rdpct"])
    if "writepct" in workload.values and "rdpct" not in workload.values:
        return 100 - Decimal(workload.values["writepct"])
    return Decimal(workload.get("rdpct", 100))


def _whole_percent(seek: Seek, workload: Definition, notes: list[PlanNote]) -> int:
    percent = int(seek.percent.to_integral_value(rounding="ROUND_HALF_UP"))
    if percent != seek.percent:
        text = f"seekpct={seek.percent:f} is rounded to {percent}"
        notes.append(PlanNote("seekpct_rounded", text, workload.position_of("seekpct"), "warning"))
    return percent


def _shares(placements: Sequence[Placement], workloads: Sequence[str]) -> Mapping[str, Decimal]:
    """Shares of the run's rate by workload, 1 in total. Workloads without skew= split the remainder evenly."""
    skews = {placement.workload.name: placement.workload.get("skew") for placement in placements}
    free = [name for name in workloads if not skews[name] and not _has_rate(placements, name)]
    total = sum(((skews[name] or Decimal(0)) for name in workloads), Decimal(0))
    left = (100 - total) / len(free) if free else Decimal(0)
    if total > 100 or (total and not free and total != 100):
        where = placements[0].workload.position_of("skew")
        raise PlanError([Diagnostic(f"the skew= of the workloads of a run adds up to {total:f}, not 100", where)])
    return {name: (skews[name] or left) / 100 for name in workloads}


def _has_rate(placements: Sequence[Placement], name: str) -> bool:
    return any(placement.workload.name == name and "iorate" in placement.workload.values for placement in placements)


def _split(threads: int, parts: int) -> list[int]:
    """Splits threads as evenly as possible, at least one for each part."""
    share, rest = divmod(threads, parts)
    return [max(1, share + (1 if number < rest else 0)) for number in range(parts)]


def _arrivals(run: Run) -> str:
    return "poisson" if run.arrivals == "exponential" else "even"


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


def _stride(workload: Definition, random_percent: int, errors: list[Diagnostic]) -> dict[str, Any]:
    if "stride" not in workload.values:
        return {}
    low, high = workload.values["stride"]
    if random_percent != 100:
        text = "stride= is not supported yet with a seekpct below 100"
        errors.append(
            Diagnostic(text, workload.position_of("stride"), "use seekpct=100, which skips after every operation")
        )
    return {"random": False, "gap_bytes": low, "gap_spread_bytes": high - low}


def _payload(general: Definition, run: Run, storage: Storage) -> dict[str, Any]:
    compress = Decimal(run.loops.get("compratio", general.get("compratio", 1)))
    dedup = storage.dedup_ratio if storage.dedup_ratio > 1 else Decimal(general.get("dedupratio", 1))
    fields = {}
    if compress > 1:
        fields["payload_compress_percent"] = round(100 * (1 - 1 / compress))
    if dedup > 1:
        fields["payload_dedupe_percent"] = round(100 * (1 - 1 / dedup))
    return fields


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


def _positions(run: Run, workload: Definition, storage: Storage) -> dict[str, Where]:
    """Position of each field: in the workload, or in the run that overrides it."""
    positions = dict.fromkeys(("paths", "file_bytes", "size"), storage.where)
    for name, fields in _FIELDS.items():
        for definition in (workload, run.rd):
            if name in definition.positions:
                positions |= dict.fromkeys(fields, definition.positions[name])
    return {"name": workload.where, **positions}


# -- LUNs: local files, devices, and files on NFS servers --------------------------------------------------------------


def _lun_fields(names: Sequence[str], opened: Opening, where: Where, errors: list[Diagnostic]) -> dict[str, Any]:
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


def _is_device(name: str) -> bool:
    """True if the name is that of a device; vdbench, too, decides by name."""
    return name.startswith(("/dev/", "\\"))


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

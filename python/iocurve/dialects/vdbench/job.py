"""A run becomes a job: a section for each workload, SD and host, at the depth of the SD's threads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from random import Random
from typing import Any

from iocurve.dialects.vdbench import luns
from iocurve.dialects.vdbench.read import values
from iocurve.dialects.vdbench.read.definitions import Definition, Definitions
from iocurve.dialects.vdbench.read.openflags import opening
from iocurve.dialects.vdbench.read.places import Places, places
from iocurve.dialects.vdbench.read.values import Rate, Seek
from iocurve.dialects.vdbench.runs import Run
from iocurve.dialects.vdbench.validation import Validation
from iocurve.dialects.vdbench.words import WORDS
from iocurve.dialects.vdbench.world import Storage, World
from iocurve.engine.plan import BlockRange, Blocks, FixedBlocks, Flow
from iocurve.errors import Mistake, PlanError, Where
from iocurve.job.model import Job, PerKind, PlanNote, Said
from iocurve.units import SECOND_NS

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
"""What vdbench does where nothing is said."""


@dataclass(frozen=True)
class Piece:
    """One workload on one SD of one host, or on several SDs as one."""

    workload: Definition
    storage: tuple[Storage, ...]
    host: str
    stream: int = 0
    streams: int = 1

    @property
    def luns(self) -> tuple[str, ...]:
        """Where it goes."""
        return tuple(storage.luns[self.host] for storage in self.storage)


@dataclass(frozen=True)
class Built:
    """A job, what its sections are, and what there is to say."""

    job: Job
    pieces: tuple[Piece, ...]
    """One for each section of the first segment; with a variable rate the others repeat them."""
    notes: tuple[PlanNote, ...]
    obstacles: tuple[Mistake, ...]
    """What keeps it from running on this machine."""

    @property
    def storage(self) -> frozenset[str]:
        """Names of the SDs that it uses."""
        return frozenset(one.name for piece in self.pieces for one in piece.storage)


UNKNOWN_BYTES = 1 << 40
"""Stands for the size of an SD that is not here, so that its runs can be explained."""


class Builder:
    """Makes the jobs of a parameter file's runs."""

    def __init__(
        self,
        found: Definitions,
        world: World,
        bytes_at: Callable[[str], int],
        chance: Random,
        formats: frozenset[str],
        validation: Validation | None,
    ) -> None:
        self._found = found
        self._world = world
        self._bytes_at = bytes_at
        self._chance = chance
        self._formats = formats
        self._validation = validation
        self._workloads = {wd.name: wd for wd in found.by_kind["wd"]}
        self._obstacles: dict[Mistake, None] = {}

    def build(self, run: Run, shares: Sequence[float] | None = None, total: float | None = None) -> Built:
        """The job of a run. A curve's point takes its rate from ``total``, split as ``shares``.

        Raises ``PlanError``.
        """
        notes: list[PlanNote] = []
        mistakes: list[Mistake] = []
        pieces = list(self._pieces(run, mistakes))
        if mistakes:
            raise PlanError(mistakes)
        if not pieces:
            raise PlanError([Mistake(f"rd={run.rd.name} has nothing to run on", run.rd.where, "name sd= and lun=")])
        if len(pieces) > MAX_SECTIONS:
            raise PlanError([Mistake(f"rd={run.rd.name}: {len(pieces)} workers are too many", run.rd.where)])
        depths = self._depths(run, pieces, notes)
        sections = []
        segments = _segments(run)
        flows = self._flows(run, pieces)
        stops = [seek_of(run, piece.workload).at_end == "stop" for piece in pieces]
        for number, (rate, ramp_ns, runtime_ns) in enumerate(segments):
            curve = [total * share for share in shares or ()] if total is not None else None
            rates = curve or self._rates(pieces, rate)
            for index, (piece, depth, each, flow) in enumerate(zip(pieces, depths, rates, flows, strict=True)):
                section = self._section(run, piece, depth, mistakes, notes)
                update: dict[str, Any] = {"ramp_ns": ramp_ns, "runtime_ns": runtime_ns}
                update |= {"barrier": True} if number and not index else {}
                update |= {"flow": flow} if flow else {}
                # Once all that read or write to the end have come there, the run is over.
                update |= {"ends_others": "together"} if stops[index] and not all(stops) else {}
                update |= {"rate_total_operations": each, "arrivals": _arrivals(run)} if each else {}
                sections.append(section.but(**update))
        if mistakes:
            raise PlanError(list(dict.fromkeys(mistakes)))
        notes += _run_notes(run)
        job = Job.of(run.name, WORDS, sections, DEFAULTS)
        return Built(job, tuple(pieces), tuple(dict.fromkeys(notes)), tuple(self._obstacles))

    def recovery(self) -> Job:
        """Reads everything that a journal knows, and compares it."""
        assert self._validation
        mistakes: list[Mistake] = []
        sections = []
        for storage, lun, path in self._validation.maps(self._world):
            if not path.is_file():
                continue
            opened = opening(storage.openflags or (), storage.where, mistakes, [])
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
            sections.append(section.but(**luns.target((lun,), opened, storage.where, mistakes)))
        if mistakes:
            raise PlanError(mistakes)
        return Job.of("journal_recovery", WORDS, sections, DEFAULTS)

    def asked_shares(self, run: Run) -> list[float] | None:
        """Each piece's part of the run's rate where any workload has a skew; None where none has."""
        pieces = list(self._pieces(run, []))
        if not any("skew" in piece.workload.values for piece in pieces):
            return None
        names = list(dict.fromkeys(piece.workload.name for piece in pieces))
        shares, counts = _shares(pieces, names), Counter(piece.workload.name for piece in pieces)
        return [float(shares[piece.workload.name]) / counts[piece.workload.name] for piece in pieces]

    # -- who runs where ------------------------------------------------------------------------------------------------

    def _pieces(self, run: Run, mistakes: list[Mistake]) -> Iterator[Piece]:
        for workload in self._chosen_workloads(run, mistakes):
            storage = self._chosen_storage(run, workload, mistakes)
            hosts = self._chosen_hosts(workload, mistakes)
            if self._found.general.get("concatenatesds"):
                yield from self._concatenated(workload, storage, hosts, mistakes)
            else:
                yield from self._single(run, workload, storage, hosts, mistakes)

    def _chosen_workloads(self, run: Run, mistakes: list[Mistake]) -> list[Definition]:
        words = run.rd.get("wd")
        if words is None:
            if run.storage is None:
                mistakes.append(Mistake(f"rd={run.rd.name} names neither wd= nor sd=", run.rd.where))
            return [self._found.defaults["wd"].copy(run.rd.name, run.rd.where)]
        try:
            return [self._workloads[name] for name in values.matching(words, list(self._workloads), "wd")]
        except ValueError as error:
            mistakes.append(Mistake(f"rd={run.rd.name}: {error}", run.rd.place("wd")))
            return []

    def _chosen_storage(self, run: Run, workload: Definition, mistakes: list[Mistake]) -> list[Storage]:
        names = run.storage
        if names is None:
            words = workload.get("sd")
            if words is None:
                mistakes.append(Mistake(f"wd={workload.name} has no sd=", workload.where))
                return []
            try:
                names = tuple(values.matching(words, list(self._world.storage), "sd"))
            except ValueError as error:
                mistakes.append(Mistake(f"wd={workload.name}: {error}", workload.place("sd")))
                return []
        return [self._world.storage[name] for name in names]

    def _chosen_hosts(self, workload: Definition, mistakes: list[Mistake]) -> list[str]:
        words = workload.get("host")
        if words is None:
            return list(self._world.hosts)
        try:
            return values.matching(words, self._world.hosts, "host")
        except ValueError as error:
            mistakes.append(Mistake(f"wd={workload.name}: {error}", workload.place("host")))
            return []

    def _single(
        self, run: Run, workload: Definition, storage: Sequence[Storage], hosts: Sequence[str], mistakes: list[Mistake]
    ) -> Iterator[Piece]:
        sequential = seek_of(run, workload).percent == 0
        streams = self._streams(workload, mistakes)
        # Of all SDs a workload uses those that its hosts have.
        within_reach = [one for one in storage if any(host in one.luns for host in hosts)]
        for one in storage if not within_reach else ():
            text = f"wd={workload.name}: no host of the workload has sd={one.name}"
            mistakes.append(Mistake(text, workload.place("host", "sd")))
        for number, one in enumerate(within_reach):
            owners = [host for host in hosts if host in one.luns]
            # Several readers of one sequence would read every block several times.
            shared = len({one.luns[host] for host in owners}) == 1
            if sequential and shared:
                owners = [owners[number % len(owners)]]
            for host in owners:
                for stream in range(streams):
                    yield Piece(workload, (one,), host, stream, streams)

    def _streams(self, workload: Definition, mistakes: list[Mistake]) -> int:
        if "streams" not in workload.values:
            return 1
        try:
            return values.whole(workload.values["streams"][0], 1, 1024)
        except ValueError as error:
            mistakes.append(Mistake(f"streams: {error}", workload.place("streams")))
            return 1

    def _concatenated(
        self, workload: Definition, storage: Sequence[Storage], hosts: Sequence[str], mistakes: list[Mistake]
    ) -> Iterator[Piece]:
        for name in ("hotband", "range", "streams", "rhpct", "whpct"):
            if name in workload.values:
                text = f"{name}= over concatenated SDs is not there yet"
                mistakes.append(Mistake(text, workload.place(name)))
        for host in hosts:
            if storage and all(host in one.luns for one in storage):
                yield Piece(workload, tuple(storage), host)

    # -- threads and rates ---------------------------------------------------------------------------------------------

    def _depths(self, run: Run, pieces: Sequence[Piece], notes: list[PlanNote]) -> list[int]:
        if self._found.general.get("concatenatesds"):
            said = run.loops.get("threads")
            if said is not None:
                return _split(int(said), len(pieces))
            return [int(piece.workload.get("threads", 8)) for piece in pieces]
        sharing = Counter((piece.storage[0].name, piece.host) for piece in pieces)
        ranks: Counter[tuple[str, str]] = Counter()
        depths = []
        for piece in pieces:
            storage = piece.storage[0]
            key = storage.name, piece.host
            threads = int(run.loops.get("threads") or storage.threads)
            if piece.streams > 1:
                depths.append(-(-threads // piece.streams))
                continue
            depths.append(_split(threads, sharing[key])[ranks[key]])
            ranks[key] += 1
            if sharing[key] > 1:
                text = f"the threads of sd={storage.name} are divided among its {sharing[key]} workloads"
                notes.append(PlanNote("threads_divided", text, storage.where))
        if any(piece.workload.get("threads") for piece in pieces):
            text = "threads= of a workload counts with concatenatesds=yes only; the SD's threads count here"
            notes.append(PlanNote("no_effect", text, pieces[0].workload.place("threads"), "warning"))
        return depths

    def _flows(self, run: Run, pieces: Sequence[Piece]) -> Sequence[Flow | None]:
        """At the maximum, workloads with a skew wait for one another; those with rates of their own do not."""
        free = [piece for piece in pieces if "iorate" not in piece.workload.values]
        names = list(dict.fromkeys(piece.workload.name for piece in free))
        at_maximum = run.rate.kind in ("max", "curve") and run.curve_percent is None
        if not at_maximum or len(names) < 2 or not any("skew" in piece.workload.values for piece in free):
            return [None] * len(pieces)
        shares, counts = _shares(pieces, names), Counter(piece.workload.name for piece in free)
        weights = {name: max(1, round(shares[name] * 1_000_000 / counts[name])) for name in names}
        return [Flow(id=0, weight=weights[piece.workload.name]) if piece in free else None for piece in pieces]

    def _rates(self, pieces: Sequence[Piece], rate: Rate) -> Sequence[float | None]:
        workloads = list(dict.fromkeys(piece.workload.name for piece in pieces))
        counts = Counter(piece.workload.name for piece in pieces)
        fixed = {piece.workload.name: piece.workload.get("iorate") for piece in pieces}
        shares = _shares(pieces, workloads)
        each: list[float | None] = []
        for piece in pieces:
            name = piece.workload.name
            number = fixed[name]
            if number is None and rate.kind == "number":
                number = rate.per_second * shares[name]
            each.append(None if number is None else float(number) / counts[name])
        return each

    # -- one section ---------------------------------------------------------------------------------------------------

    def _section(self, run: Run, piece: Piece, depth: int, mistakes: list[Mistake], notes: list[PlanNote]) -> Said:
        workload, storage = piece.workload, piece.storage[0]
        seek = seek_of(run, workload)
        size = run.loops.get("xfersize")
        said: Blocks = workload.get("xfersize", FixedBlocks(bytes=4096))
        blocks = FixedBlocks(bytes=int(size)) if size else said
        percent = read_percent(run, workload)
        flags = run.rd.get("openflags") or workload.get("openflags") or storage.openflags or ()
        opened = opening(flags, workload.place("openflags"), mistakes, notes)
        used = self._places(run, piece, seek, blocks.largest, mistakes)
        random_percent = _whole_percent(seek, workload, notes)
        fields: dict[str, Any] = {
            "name": _name(piece, self._world),
            "paths": piece.luns,
            "depth": depth,
            "blocks": PerKind.same(blocks),
            "reads": percent > 0,
            "writes": percent < 100,
            "read_percent": float(percent),
            "random": random_percent > 0,
            "random_percent": PerKind.same(random_percent),
            "at_end": seek.at_end,
            # With one kind of operation it is all the same.
            "position": "worker" if 0 < percent < 100 else "kind",
            "create": not piece.luns[0].startswith("/dev/") and self._found.general.get("formatsds", True),
            "sync_at_end": opened.flushed,
            **_payload(self._found.general, run, storage),
            **used.fields,
        }
        align = storage.align or (blocks.step if isinstance(blocks, BlockRange) else 0)
        if align:
            fields["align_bytes"] = PerKind.same(align)
        fields |= _stride(workload, random_percent, mistakes)
        formats = any(one.name in self._formats for one in piece.storage)
        if formats and luns.is_device(piece.luns[0]):
            text = f"formatsds=yes does not write devices: {piece.luns[0]} stays as it is"
            notes.append(PlanNote("no_format", text, self._found.general.place("formatsds"), "warning"))
        elif formats:
            fields["recreate"] = True
        if len(piece.storage) > 1:
            fields |= self._together(piece, fields)
            fields["file_select"] = "by_size" if random_percent else "sequential"
        if self._validation:
            fields["verify"] = self._validation.verify(piece.storage, piece.luns)
        fields |= luns.target(piece.luns, opened, storage.where, mistakes)
        self._obstacles |= dict.fromkeys(luns.windows_names(piece.luns, storage.where))
        return Said.of(**fields).at(_positions(run, workload, storage))

    def _together(self, piece: Piece, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Each SD has a size of its own, where any says one."""
        if "file_bytes" not in fields:
            return {}
        sizes = tuple(self._whole(one, lun) for one, lun in zip(piece.storage, piece.luns, strict=True))
        return {"file_bytes": None, "path_bytes": sizes} if len(set(sizes)) > 1 else {}

    def _places(self, run: Run, piece: Piece, seek: Seek, block: int, mistakes: list[Mistake]) -> Places:
        storage, workload = piece.storage[0], piece.workload
        hits = {name: run.loops.get(name, workload.get(name, Decimal(0))) for name in ("rhpct", "whpct")}
        return places(
            whole=min(self._whole(one, lun) for one, lun in zip(piece.storage, piece.luns, strict=True)),
            is_device=luns.is_device(piece.luns[0]),
            block=block,
            offset=storage.offset,
            span=workload.get("range") or storage.range,
            hotband=workload.get("hotband"),
            read_hits=hits["rhpct"],
            write_hits=hits["whpct"],
            hitarea=int(run.loops.get("hitarea", storage.hitarea)),
            seek=seek,
            stream=(piece.stream, piece.streams),
            chance=self._chance,
            where=workload.place("range", "hotband", "rhpct", "whpct"),
            mistakes=mistakes,
        )

    def _whole(self, storage: Storage, lun: str) -> int:
        """Bytes of an SD; where it is not here, and nothing says how large it is, some size stands for it."""
        known = storage.size or (0 if lun.startswith("nfs:") else self._bytes_at(lun))
        if not known:
            text = f"sd={storage.name}: nothing says how large {lun} is, and it is not here"
            self._obstacles[Mistake(text, storage.where, "add size=, or name another place: --map-lun")] = None
        return known or UNKNOWN_BYTES


# -- parts -------------------------------------------------------------------------------------------------------------


def _segments(run: Run) -> list[tuple[Rate, int, int]]:
    """Rates one after another, each with the part of it that does not count and the part that does."""
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
    """How often a workload goes to a random place in a run."""
    found = run.loops.get("seekpct") or workload.get("seekpct") or Seek(Decimal(100))
    assert isinstance(found, Seek)
    return found


def read_percent(run: Run, workload: Definition) -> Decimal:
    """Share of reads of a workload in a run."""
    if "rdpct" in run.loops:
        return Decimal(run.loops["rdpct"])
    if "writepct" in workload.values and "rdpct" not in workload.values:
        return 100 - Decimal(workload.values["writepct"])
    return Decimal(workload.get("rdpct", 100))


def _whole_percent(seek: Seek, workload: Definition, notes: list[PlanNote]) -> int:
    percent = int(seek.percent.to_integral_value(rounding="ROUND_HALF_UP"))
    if percent != seek.percent:
        text = f"seekpct={seek.percent:f} is taken as {percent}"
        notes.append(PlanNote("seekpct_rounded", text, workload.place("seekpct"), "warning"))
    return percent


def _shares(pieces: Sequence[Piece], workloads: Sequence[str]) -> Mapping[str, Decimal]:
    """Of the run's rate, 1 in all: those with a skew have it, the others divide what is left."""
    skews = {piece.workload.name: piece.workload.get("skew") for piece in pieces}
    free = [name for name in workloads if not skews[name] and not _has_rate(pieces, name)]
    said = sum(((skews[name] or Decimal(0)) for name in workloads), Decimal(0))
    left = (100 - said) / len(free) if free else Decimal(0)
    if said > 100 or (said and not free and said != 100):
        where = pieces[0].workload.place("skew")
        raise PlanError([Mistake(f"the skew of all workloads of a run is {said:f}, not 100", where)])
    return {name: (skews[name] or left) / 100 for name in workloads}


def _has_rate(pieces: Sequence[Piece], name: str) -> bool:
    return any(piece.workload.name == name and "iorate" in piece.workload.values for piece in pieces)


def _split(threads: int, parts: int) -> list[int]:
    """As even as it goes, at least one for each."""
    share, rest = divmod(threads, parts)
    return [max(1, share + (1 if number < rest else 0)) for number in range(parts)]


def _arrivals(run: Run) -> str:
    return "poisson" if run.arrivals == "exponential" else "even"


def _run_notes(run: Run) -> Iterator[PlanNote]:
    if run.timing.warmup_ns:
        yield PlanNote("ramp_added", "warmup comes before the elapsed and is not part of it")
    else:
        yield PlanNote(
            "first_interval", "without warmup the first interval, which is part of the elapsed, does not count"
        )
    if run.arrivals == "uniform" and run.rate.kind != "max":
        text = "distribution=uniform runs as deterministic: at equal distances"
        yield PlanNote("uniform_arrivals", text, run.rd.place("distribution"), "warning")
    if "format" in run.rd.values and run.rd.values["format"][0].lower() != "no":
        text = "format= has no effect: it belongs to file systems; files of SDs are made where they are missing"
        yield PlanNote("no_effect", text, run.rd.place("format"))


def _stride(workload: Definition, random_percent: int, mistakes: list[Mistake]) -> dict[str, Any]:
    if "stride" not in workload.values:
        return {}
    low, high = workload.values["stride"]
    if random_percent != 100:
        text = "stride= together with a seekpct below 100 is not there yet"
        mistakes.append(Mistake(text, workload.place("stride"), "seekpct=100 skips after every operation"))
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


def _name(piece: Piece, world: World) -> str:
    parts = [piece.workload.name, "+".join(one.name for one in piece.storage[:3])]
    if len(piece.storage) > 3:
        parts[-1] += f"+{len(piece.storage) - 3} more"
    if len(world.hosts) > 1:
        parts.append(piece.host)
    if piece.streams > 1:
        parts.append(f"stream {piece.stream + 1}")
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
    """Where each field was said: in the workload, or in the run that overrides it."""
    found = dict.fromkeys(("paths", "file_bytes", "size"), storage.where)
    for name, fields in _FIELDS.items():
        for said in (workload, run.rd):
            if name in said.places:
                found |= dict.fromkeys(fields, said.places[name])
    return {"name": workload.where, **found}

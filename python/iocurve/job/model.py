"""What a person wrote: a job, the same for every dialect.

A dialect turns its text into what was said (``Said``: fields by name, each with its place), and brings its defaults in
the same form. Together they make sections in which nothing is open any more. Quantities are already numbers (bytes,
nanoseconds), but what they apply to (files that exist or not, clones, devices) is decided by ``iocurve.job.resolve``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Generic, Literal, Self, TypeVar

from msgspec import Meta

from iocurve.engine import plan as planned
from iocurve.engine.plan import Durability, FileSelect
from iocurve.errors import Where
from iocurve.job.words import Words
from iocurve.structs import Struct, TaggedStruct
from iocurve.units import SECOND_NS

EngineName = Literal["null", "sync", "aio", "uring", "mmap", "nfs"]
Level = Literal["info", "warning"]
T = TypeVar("T")


class Percent(Struct):
    """A share of a file or device whose size is not known yet."""

    percent: Annotated[int, Meta(ge=0, le=100)]


Amount = int | Percent
"""Bytes, or a share of a file."""


class PerKind(Struct, Generic[T]):
    """One value for reads, one for writes, one for trims."""

    read: T
    write: T
    trim: T

    @classmethod
    def same(cls, value: T) -> Self:
        """One value for all kinds."""
        return cls(read=value, write=value, trim=value)


class ZoneShare(Struct):
    """A zone's part of the operations and of the region; zones lie one after another."""

    access_percent: Annotated[float, Meta(ge=0, le=100)]
    size: Amount


class ZonesSaid(TaggedStruct, tag="zones_said"):
    """Zones whose sizes may depend on the file's."""

    zones: tuple[ZoneShare, ...]


Preference = planned.Uniform | planned.Zipf | planned.Pareto | planned.Normal | ZonesSaid
"""Which places chance prefers."""


_UNIFORM: PerKind[Preference] = PerKind.same(planned.Uniform())
_4_KIB: PerKind[planned.Blocks] = PerKind.same(planned.FixedBlocks(bytes=4096))
_NO_RATE: PerKind[int | None] = PerKind.same(None)


class Target(Struct):
    """Where the load goes, and how it gets there."""

    engine: EngineName = "uring"
    engine_asked: str | None = None
    """The engine as the dialect calls it."""
    nfs_url: str | None = None
    nconnect: int | None = None
    """Connections; None is what the URL says, or 1."""
    nfs_timeout_ns: int | None = None
    """How long a server may be silent; None is what the URL says, or a minute."""
    nfs_source: str | None = None
    """Address of this machine that the connections come from, so that jobs are clients of their own: on loopback any of
    127.0.0.0/8, without further setup."""
    direct: bool = False
    durability: Durability = "none"
    invalidate: bool = False
    disk: str | None = None
    """An emulated disk that the files lie on: ``disk:premium-ssd-p30?stripe=3&vm=Standard_D8ds_v4&path=DIR``."""


class Files(Struct):
    """Which files and devices are used, and which region of each."""

    paths: tuple[str, ...] = ()
    """Files by name, shared by all clones; without them each clone has files of its own."""
    directories: tuple[str, ...] = ()
    """Clones take turns in them; files by name are in the first."""
    file_name_pattern: str = "{job}.{clone}.{file}"
    """With ``{job}``, ``{clone}`` and ``{file}``."""
    file_count: int = 1
    file_bytes: tuple[int, int] | None = None
    """Size of each file, drawn between the two."""
    path_bytes: tuple[int, ...] | None = None
    """Size of each of ``paths``, in their order, where they differ."""
    size: Amount | None = None
    """All files of a worker together."""
    offset: Amount = 0
    """Where the used region of each file starts."""
    offset_increment: Amount = 0
    """Added to the offset per clone."""
    offset_align: int = 0
    """Offsets that are a share of a file are rounded up to multiples of this; 0 is a block."""
    file_select: FileSelect = "round_robin"
    file_run: int = 1
    """Operations in a row that go to one file."""
    create: bool = True
    """Whether files that are missing may be made."""
    overwrite: bool = False
    """Whether files to be written are laid out with data first."""
    recreate: bool = False
    """Whether files are made anew even where they are there (DiskSpd's -c)."""
    create_on_open: bool = False
    """Whether files are made when they are opened, without a layout."""
    unlink: bool = False
    append: bool = False
    """Whether the region of a file that is there begins at its end (fio's file_append)."""
    until_full: bool = False
    """Whether a device without room ends the load in order (fio's fill_device); files of no size grow until then."""


class Load(Struct):
    """Which operations there are, and where each goes."""

    reads: bool = True
    writes: bool = False
    trims: bool = False
    random: bool = False
    random_percent: PerKind[int] = PerKind.same(100)
    """With ``random``: how many operations go to a random place; the others go on from the last one."""
    distribution: PerKind[Preference] = _UNIFORM
    read_percent: float = 50.0
    blocks: PerKind[planned.Blocks] = _4_KIB
    align_bytes: PerKind[int] = PerKind.same(0)
    """Random offsets are multiples of this; 0 is the smallest block."""
    cover: Literal["once", "independent"] = "once"
    run_length: int = 1
    """Operations at consecutive places that follow each random one, itself included (randread:8)."""
    gap_bytes: int = 0
    """Left out after each sequential operation (read:8k)."""
    gap_spread_bytes: int = 0
    """Further bytes to leave out, drawn up to this."""
    start_bytes: int = 0
    """Where in the region sequential operations begin."""
    start_increment_bytes: int = 0
    """Added to that per clone (DiskSpd's -T)."""
    at_end: Literal["wrap", "stop"] = "wrap"
    position: Literal["kind", "worker", "job", "identical", "repeated"] = "kind"
    """Who shares a sequential position."""
    zone_bytes: int = 0
    """Bytes to transfer in a strided zone before the next."""
    zone_range_bytes: int = 0
    zone_skip_bytes: int = 0
    replay: planned.Replay | None = None
    """What was recorded elsewhere is done instead; the section says which kinds and sizes there are."""
    replay_flushes: tuple[planned.SyncKind, ...] = ()
    """Flushes that are part of it."""
    flow: planned.Flow | None = None


class Pace(Struct):
    """How fast operations are submitted and completed, and what flushes them."""

    rate_operations: PerKind[int | None] = _NO_RATE
    """Per second, each kind paced by itself."""
    rate_bytes: PerKind[int | None] = _NO_RATE
    """Per second, each kind paced by itself."""
    rate_total_operations: float = 0.0
    """Per second and worker, all kinds together; 0 is no limit."""
    rate_total_bytes: int = 0
    """Per second and worker, all kinds together; 0 is no limit."""
    arrivals: Literal["even", "poisson"] = "even"
    depth: int = 1
    depth_low: int = 0
    """In flight before operations are submitted again once the depth was reached; 0 is the depth."""
    batch_submit: int = 0
    """Operations handed to the engine at once at most; 0 is all that are due."""
    batch_complete_min: int = 1
    batch_complete_max: int = 0
    think_ns: int = 0
    """Length of a pause; 0 is none."""
    think_spin_ns: int = 0
    think_every: int = 0
    """Operations between pauses; 0 is 1, or with a time between pauses any number."""
    think_counts: Literal["completed", "issued"] = "completed"
    think_every_ns: int = 0
    """Length of the load between pauses, if so many operations do not come first; 0 is by number alone."""
    think_drains: bool = True
    """Whether what is in flight comes back before a pause begins."""
    think_moves_schedule: bool = False
    """Whether due times are moved by a pause; otherwise what was missed is caught up with."""
    fsync_every: int = 0
    """Writes between two flushes; 0 is no flush. Where several kinds are due, the first of these three comes alone."""
    fdatasync_every: int = 0
    sync_file_range_every: int = 0
    sync_at_end: bool = False
    latency_target_ns: int = 0
    """0 is none."""
    latency_window_ns: int = SECOND_NS
    latency_percentile: float = 100.0
    latency_run_on: bool = False


class Ending(Struct):
    """When the load starts and what ends it."""

    runtime_ns: int = 0
    """0 is no limit."""
    time_based: bool = False
    """Whether the load is repeated until the runtime has passed."""
    ramp_ns: int = 0
    cooldown_ns: int = 0
    """Load after the runtime that is not counted."""
    start_delay_ns: tuple[int, int] = (0, 0)
    """Drawn between the two."""
    transfer: Amount | None = None
    """What is transferred, where that is not ``size``."""
    operations: int = 0
    """Operations of one pass; 0 is no limit."""
    loops: int = 1
    """Passes."""
    wait_for: tuple[str, ...] = ()
    """Jobs that must have ended before."""
    ends_others: Literal["never", "always", "on_error", "together"] = "never"
    ends_run: bool = False
    """Whether later groups do not start then, either."""
    ends_exit_group_only: bool = False
    """With ``ends_others``, end only the jobs up to the next ``barrier`` or ``new_report_group``."""
    steady_state: planned.SteadyState | None = None


class Data(Struct):
    """What is written, and how what is read is compared."""

    repeatable: bool = True
    """Whether every run makes the same choices."""
    seed: int | None = None
    payload_zero: bool = False
    payload_refill: bool = False
    payload_scramble: bool | None = None
    """None: random content is scrambled."""
    payload_pattern: str | None = None
    """In hexadecimal, as in ``plan.PatternContent``."""
    payload_pool_bytes: int = 0
    """Size of a pool that content is drawn from; 0 is none."""
    payload_pool_path: str | None = None
    payload_compress_percent: int = 0
    payload_compress_chunk_bytes: int = 0
    payload_dedupe_percent: int = 0
    verify: planned.Verify | None = None


class Reporting(Struct):
    """What is recorded, and which workers are reported as one."""

    log: planned.LogPlan | None = None
    submission_latency: bool = False
    """Whether the time until an operation is submitted is measured apart; only where the engine submits."""
    barrier: bool = False
    """Starts when all sections before it have ended."""
    new_report_group: bool = False
    report_as_group: bool = False


@dataclass(frozen=True)
class Said:
    """What was said of a section, by a person or by a scenario: fields that are not here are open."""

    fields: Mapping[str, Any] = field(default_factory=dict)
    """Values by the names of ``Section``'s fields and of those of its parts."""
    positions: Mapping[str, Where] = field(default_factory=dict)
    """Where fields were said."""

    @classmethod
    def of(cls, **fields: Any) -> Said:
        """Of fields by name; those that are None are open. Raises ``TypeError`` for a name that no field has."""
        said = {name: value for name, value in fields.items() if value is not None}
        if unknown := said.keys() - FIELDS.keys():
            raise TypeError(f"a section has no field {', '.join(sorted(unknown))}")
        return cls(said)

    def get(self, name: str) -> Any:
        """What was said of a field; None where it is open."""
        return self.fields.get(name)

    def over(self, defaults: Said) -> Said:
        """This, with what it leaves open taken from ``defaults``."""
        return Said({**defaults.fields, **self.fields}, {**defaults.positions, **self.positions})

    def but(self, **fields: Any) -> Said:
        """This with other values; a field that is None becomes open."""
        kept = {name: value for name, value in self.fields.items() if name not in fields}
        return Said.of(**kept, **fields).at(self.positions)

    def at(self, positions: Mapping[str, Where]) -> Said:
        """This, said at these places."""
        return Said(self.fields, positions)


class Section(Struct):
    """One job of a file with everything that it leaves open filled in: what its workers (clones) do."""

    name: str | None = None
    description: str | None = None
    clones: int = 1
    """Workers, each with this section's whole load."""
    cpus: tuple[int, ...] = ()
    """Processors that workers may run on; none leaves it to the scheduler."""
    cpus_split: bool = False
    """Whether each clone has one of the processors, not all of them."""
    target: Target = Target()
    files: Files = Files()
    load: Load = Load()
    pace: Pace = Pace()
    ending: Ending = Ending()
    data: Data = Data()
    report: Reporting = Reporting()
    said: Said = Said()
    """What was said of it, before the defaults."""

    @classmethod
    def of(cls, said: Said, defaults: Said = Said()) -> Section:
        """A section as it was said over a dialect's defaults."""
        parts: dict[str, dict[str, Any]] = {}
        for name, value in said.over(defaults).fields.items():
            parts.setdefault(FIELDS[name], {})[name] = value
        filled: dict[str, Any] = parts.pop("", {})
        filled |= {part: PARTS[part](**fields) for part, fields in parts.items()}
        return cls(**filled, said=said)

    def value(self, field: str) -> Any:
        """A field of the section or of one of its parts, by its name."""
        part = FIELDS[field]
        return getattr(getattr(self, part) if part else self, field)

    def where(self, *fields: str) -> Where | None:
        """The place of the first of these fields that was said."""
        positions = self.said.positions
        return next((positions[field] for field in fields if field in positions), None)


PARTS: Mapping[str, type[Struct]] = {
    "target": Target,
    "files": Files,
    "load": Load,
    "pace": Pace,
    "ending": Ending,
    "data": Data,
    "report": Reporting,
}
"""By the names that a section has for them."""
FIELDS: Mapping[str, str] = {
    **dict.fromkeys(("name", "description", "clones", "cpus", "cpus_split"), ""),
    **{field: part for part, of in PARTS.items() for field in of.__struct_fields__},
}
"""The part that each field is in; empty for those of the section itself. No two parts share a name."""


class Job(Struct):
    """Everything that runs together."""

    name: str
    words: Words
    """Those that a person used, for what is said about the job."""
    sections: tuple[Section, ...]
    defaults: Said
    """The dialect's, which the sections were filled in from."""

    @classmethod
    def of(cls, name: str, words: Words, said: Iterable[Said], defaults: Said) -> Job:
        """A job of sections as they were said, over a dialect's defaults."""
        return cls(
            name=name,
            words=words,
            sections=tuple(Section.of(one, defaults) for one in said),
            defaults=defaults,
        )

    def changed(self, change: Callable[[Said], Said]) -> Job:
        """The job with every section said otherwise."""
        return Job.of(self.name, self.words, [change(section.said) for section in self.sections], self.defaults)


@dataclass(frozen=True)
class PlanNote:
    """Something to tell a person who runs or reads this; the figures are what was asked for, but read on."""

    code: str
    """Stable, for programs: ``depth_capped``."""
    text: str
    where: Where | None = None
    level: Level = "info"
    """warning: the figures are not what one may think."""

    def __str__(self) -> str:
        return f"{self.where}: {self.text}" if self.where else self.text


def named(paths: Sequence[str]) -> str:
    """``a``, ``a and b``, ``a and 7 more files``."""
    if len(paths) <= 2:
        return " and ".join(paths)
    return f"{paths[0]} and {len(paths) - 1:,} more files"

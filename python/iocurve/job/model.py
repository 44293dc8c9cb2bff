"""A job as the user wrote it, in a form that all dialects share.

A dialect reads its text into ``Said`` (fields by name, each with its position), and has its defaults in the same form.
Together they fill sections, which leave no field open. Quantities are numbers already (bytes, nanoseconds);
``iocurve.job.resolve`` then applies them to files, devices and the jobs of a section.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any, Generic, Literal, Self, TypeVar

import msgspec
from msgspec import Meta

from iocurve.engine import plan as planned
from iocurve.engine.derived import block_bytes_max, block_bytes_min
from iocurve.engine.plan import Durability, FileSelect
from iocurve.foundation.errors import Where
from iocurve.foundation.structs import Struct, TaggedStruct
from iocurve.foundation.units import SECOND_NS


class Words(msgspec.Struct, frozen=True):
    """The names of a section's fields in a dialect: messages use the words that the job was written in."""

    names: Mapping[str, str]
    """Option names by field; a field that is absent keeps its own name."""
    joint: str
    """Separator of an option and its value."""
    asks: Mapping[str, str]
    """Options with their values in the dialect, for ``direct``, ``repeat``, ``no repeat``, ``no create``, ``size``."""
    worker: str
    """The dialect's name for one of the workers of a job."""
    warns_about: frozenset[str] = frozenset()
    """Codes of warnings that only this dialect needs."""
    silent_about: frozenset[str] = frozenset()
    """Codes of notes that the dialect's own reader adds."""
    shares_mount: bool = True
    """Lines of other tools are of files on a mount, whose connections all jobs of a client share."""

    def option(self, field: str, value: object = None) -> str:
        """The dialect's option for a field: ``iodepth``, ``-o``; with a value ``iodepth=4``, ``-o4``."""
        name = self.names.get(field, field)
        return name if value is None else f"{name}{self.joint}{value}"


EngineName = Literal["null", "sync", "aio", "uring", "mmap", "nfs"]
SpaceCall = Literal["fallocate", "ftruncate"]
Level = Literal["info", "warning"]
Fields = dict[str, Any]
"""Fields of a section and of its parts by name, as ``Said.of`` takes them."""
T = TypeVar("T")
U = TypeVar("U")


class Percent(Struct):
    """A percentage of a file or device whose size is not known yet."""

    percent: Annotated[int, Meta(ge=0, le=100)]


Amount = int | Percent
"""Bytes, or a percentage of the file."""


class PerKind(Struct, Generic[T]):
    """One value for reads, one for writes, one for trims."""

    read: T
    write: T
    trim: T

    @classmethod
    def same(cls, value: T) -> Self:
        """The same value for all kinds."""
        return cls(read=value, write=value, trim=value)

    def of(self, kind: str) -> T:
        """The value for ``read``, ``write`` or ``trim``."""
        value: T = getattr(self, kind)
        return value

    def map(self, function: Callable[[T], U]) -> PerKind[U]:
        """The results of ``function`` for each kind."""
        return PerKind(read=function(self.read), write=function(self.write), trim=function(self.trim))

    def values(self) -> tuple[T, T, T]:
        """The values for reads, writes and trims."""
        return self.read, self.write, self.trim


class ZoneShare(Struct):
    """A zone's share of the operations and of the region; zones follow one another."""

    access_percent: Annotated[float, Meta(ge=0, le=100)]
    size: Amount


class ZonesSaid(TaggedStruct, tag="zones_said"):
    """Zones whose sizes may depend on the file's size."""

    zones: Annotated[tuple[ZoneShare, ...], Meta(min_length=1)]


Preference = planned.Uniform | planned.Zipf | planned.Pareto | planned.Normal | ZonesSaid
"""Distribution of random offsets."""


_UNIFORM: PerKind[Preference] = PerKind.same(planned.Uniform())
_4_KIB: PerKind[planned.Blocks] = PerKind.same(planned.FixedBlocks(bytes=4096))
_NO_RATE: PerKind[int | None] = PerKind.same(None)


class Target(Struct):
    """The engine of the load, and the server, device or disk it goes to."""

    engine: EngineName = "uring"
    engine_asked: str | None = None
    """Name of the engine in the dialect."""
    space_call: SpaceCall | None = None
    """Call that the synchronous engine makes in place of reads and writes."""
    nfs_url: str | None = None
    nconnect: int | None = None
    """TCP connections of each worker. Default: the URL's, or 1."""
    nfs_timeout_ns: int | None = None
    """Time after which a silent server fails the run. Default: the URL's, or a minute."""
    nfs_source: str | None = None
    """Local address of the connections. The server sees one client for each address; on loopback any address of
    127.0.0.0/8 works without setup."""
    direct: bool = False
    durability: Durability = "none"
    invalidate: bool = False
    keep_payload: bool = False
    """Data that an NFS server returns are kept also where nothing verifies them."""
    disk: str | None = None
    """Emulated disk that the files are on: ``disk:premium-ssd-p30?stripe=3&vm=Standard_D8ds_v4&path=DIR``."""


class Files(Struct):
    """Files and devices, and the region of each that is used."""

    paths: tuple[str, ...] = ()
    """Files by name, shared by all jobs of the section. Default: each job has its own files."""
    directories: tuple[str, ...] = ()
    """Directories of the files; jobs take them in turn. Files by name are in the first."""
    file_name_pattern: str = "{job}.{jobnum}.{file}"
    """Pattern of file names, with ``{job}``, ``{jobnum}`` and ``{file}``."""
    are_directories: bool = False
    """The names are those of directories, which are created if missing: for metadata operations."""
    file_count: int = 1
    file_bytes: tuple[int, int] | None = None
    """Size of each file, drawn at random between the two values."""
    path_bytes: tuple[int, ...] | None = None
    """Size of each of ``paths``, in their order, if the sizes differ."""
    size: Amount | None = None
    """Size of all files of a worker together."""
    offset: Amount = 0
    """Start of the used region in each file."""
    offset_increment: Amount = 0
    """Added to the offset for each further job."""
    offset_align: int = 0
    """Offsets given as a percentage are rounded up to a multiple of this; 0 is one block."""
    file_select: FileSelect = "round_robin"
    file_run: int = 1
    """Consecutive operations on one file before the next is selected."""
    create: bool = True
    """Missing files may be created."""
    read_only: bool = False
    """No file is created, extended or removed (fio's --readonly); files that are missing or too short are refused."""
    overwrite: bool = False
    """Files that will be written are first laid out with data."""
    recreate: bool = False
    """Existing files are recreated (DiskSpd's -c)."""
    preallocate: bool = True
    """The space of files that are only written is allocated before the run; otherwise writes extend them (fio's
    fallocate=none)."""
    create_on_open: bool = False
    """Files are created when they are opened, without a layout."""
    unlink: bool = False
    append: bool = False
    """The region of an existing file begins at its end (fio's file_append)."""
    until_full: bool = False
    """A full device ends the load cleanly (fio's fill_device); files without a size grow until then."""
    regions: tuple[tuple[planned.FilePlan, ...], ...] = ()
    """The exact files and regions of each worker, or of all workers together, for tools that compute them; they replace
    all other fields here, and are used as they are."""


class TreeLoad(Struct):
    """Operations on the names, attributes and whole files of a directory tree, in place of reads, writes and trims."""

    depth: Annotated[int, Meta(ge=1, le=29)] = 1
    """Levels of directories."""
    width: Annotated[int, Meta(ge=1, le=2**29)] = 1
    """Directories in each directory."""
    files: Annotated[int, Meta(ge=1, le=2**29)] = 100
    """Files in each directory of the lowest level."""
    sizes: Annotated[tuple[planned.SizeShare, ...], Meta(min_length=1)] = (planned.SizeShare(bytes=4096, weight=1),)
    """Sizes of the files."""
    mix: Mapping[planned.MetadataKind, Annotated[int, Meta(ge=0, le=2**32 - 1)]]
    """Shares of the kinds of operation."""

    @property
    def file_count(self) -> int:
        """Number of files."""
        return int(self.width**self.depth) * self.files

    @property
    def bytes(self) -> int:
        """Size of all files together."""
        weights = sum(size.weight for size in self.sizes)
        return sum(self.file_count * size.bytes * size.weight for size in self.sizes) // max(1, weights)


class Load(Struct):
    """Operations and their offsets."""

    reads: bool = True
    writes: bool = False
    trims: bool = False
    random: bool = False
    random_percent: PerKind[int] = PerKind.same(100)
    """With ``random``: per cent of operations that go to a random offset; the others continue after the last one."""
    distribution: PerKind[Preference] = _UNIFORM
    read_percent: float = 50.0
    blocks: PerKind[planned.Blocks] = _4_KIB
    align_bytes: PerKind[int] = PerKind.same(0)
    """Alignment of random offsets; 0 is the smallest block."""
    cover: Literal["once", "independent"] = "once"
    run_length: int = 1
    """Consecutive operations at each random offset, the first included (fio's randread:8)."""
    gap_bytes: int = 0
    """Bytes skipped after each sequential operation (fio's read:8k)."""
    gap_spread_bytes: int = 0
    """Further bytes skipped, drawn from 0 up to this."""
    start_bytes: int = 0
    """Offset in the region at which sequential operations begin."""
    start_increment_bytes: int = 0
    """Added to ``start_bytes`` for each further job (DiskSpd's -T)."""
    at_end: Literal["wrap", "stop"] = "wrap"
    short_last_block: bool = False
    """The last sequential operation of a region has the bytes that are left."""
    position: Literal["kind", "worker", "job", "identical", "repeated"] = "kind"
    """Sharing of the sequential position, as in ``plan.Access``."""
    zone_bytes: int = 0
    """Bytes to transfer in a strided zone before moving to the next."""
    zone_range_bytes: int = 0
    zone_skip_bytes: int = 0
    replay: planned.Replay | None = None
    """Replays a recording instead; the kinds and blocks of the section are those of the recording."""
    metadata: planned.MetadataKind | None = None
    """An operation on the name or the attributes of each file, in place of reads, writes and trims."""
    tree: TreeLoad | None = None
    """Operations on a tree, in place of reads, writes and trims. The section's only path is its root."""
    tasks: planned.TreeWork | None = None
    """Tasks on a tree, one after another, in place of reads, writes and trims. The region of each worker is the root;
    transfers have the blocks of the section."""
    task_shares: Mapping[planned.OperationKind, int] = {}
    """Shares of reads and writes in the transfers of ``tasks``."""
    replay_flushes: tuple[planned.SyncKind, ...] = ()
    """Kinds of flush in the recording."""
    flow: planned.Flow | None = None
    """Share of the operations of all jobs with the same id; a job that is ahead waits."""

    @property
    def changes_files(self) -> bool:
        """True if operations write or trim data or change names, or work on a tree, which is laid out first."""
        works_on_tree = self.tree is not None or self.tasks is not None
        return self.writes or self.trims or works_on_tree or self.metadata not in (None, "getattr", "access")

    def kinds(self) -> list[planned.OperationKind]:
        """The kinds, in the order of the plan; fio's trimwrite trims a block before it writes it."""
        used: dict[planned.OperationKind, bool] = {"read": self.reads, "trim": self.trims, "write": self.writes}
        return [kind for kind, is_used in used.items() if is_used]

    def smallest_block(self) -> int:
        """Bytes of the smallest operation."""
        return min(block_bytes_min(self.blocks.of(kind)) for kind in self.kinds())

    def least_room(self) -> int:
        """Bytes that a region needs: each kind has an operation that fits; larger ones are drawn again, as fio does."""
        return max(block_bytes_min(self.blocks.of(kind)) for kind in self.kinds())

    def largest_block(self) -> int:
        """Bytes of the largest operation."""
        return max(block_bytes_max(self.blocks.of(kind)) for kind in self.kinds())


class Pace(Struct):
    """Rates, queue depth, batches, pauses and flushes."""

    rate_operations: PerKind[int | None] = _NO_RATE
    """Per second; each kind is paced by itself."""
    rate_bytes: PerKind[int | None] = _NO_RATE
    """Per second; each kind is paced by itself."""
    rate_total_operations: float = 0.0
    """Per second and worker, all kinds together; 0 is no limit."""
    rate_total_bytes: int = 0
    """Per second and worker, all kinds together; 0 is no limit."""
    arrivals: Literal["even", "poisson"] = "even"
    depth: int = 1
    depth_low: int = 0
    """Once the depth is reached, nothing is submitted until at most this many are in flight; 0 is the depth."""
    batch_submit: int = 0
    """Most operations submitted at once; 0 is all that are due."""
    batch_complete_min: int = 1
    batch_complete_max: int = 0
    think_ns: int = 0
    """Length of a pause; 0 is none."""
    think_spin_ns: int = 0
    think_every: int = 0
    """Operations between pauses; 0 is 1, or no limit if ``think_every_ns`` is set."""
    think_counts: Literal["completed", "issued"] = "completed"
    think_every_ns: int = 0
    """Length of the load between pauses, if ``think_every`` operations do not come first; 0 counts operations only."""
    think_drains: bool = True
    """Operations in flight complete before a pause begins."""
    think_moves_schedule: bool = False
    """A pause moves due times; otherwise the worker catches up."""
    fsync_every: int = 0
    """Writes between two flushes; 0 is no flush. If several of these three kinds are due, only the first is issued."""
    fdatasync_every: int = 0
    sync_file_range_every: int = 0
    sync_at_end: bool = False
    latency_target_ns: int = 0
    """Latency limit of a search for the depth; 0 is no search."""
    latency_window_ns: int = SECOND_NS
    latency_percentile: float = 100.0
    latency_run_on: bool = False


class Ending(Struct):
    """Start and end of the load."""

    runtime_ns: int = 0
    """0 is no limit."""
    time_based: bool = False
    """The load is repeated until the runtime is over."""
    endless: bool = False
    """The load is repeated until the runtime is over, or until it is stopped if there is none."""
    ramp_ns: int = 0
    cooldown_ns: int = 0
    """Load after the runtime, not counted."""
    start_delay_ns: tuple[int, int] = (0, 0)
    """Delay of the start, drawn at random between the two values."""
    transfer: Amount | None = None
    """Amount to transfer, if it differs from ``size``."""
    operations: int = 0
    """Operations of one pass; 0 is no limit."""
    loops: int = 1
    """Number of passes."""
    only_lays_out: bool = False
    """The files are laid out, and nothing else is done (fio's create_only)."""
    wait_for: tuple[str, ...] = ()
    """Jobs that must have ended before this one starts."""
    tolerates: tuple[planned.Tolerance, ...] = ()
    """Failures that do not end a job."""
    whole_transfers: bool = False
    """A read or write that moves fewer bytes than requested has failed."""
    ends_others: Literal["never", "always", "on_error", "together"] = "never"
    ends_run: bool = False
    """Later groups are then left out, too."""
    ends_exit_group_only: bool = False
    """``ends_others`` ends only the jobs up to the next ``barrier`` or ``new_report_group``."""
    steady_state: planned.SteadyState | None = None


class Data(Struct):
    """Seeds, written data and verification."""

    repeatable: bool = True
    """Every run uses the same random sequence."""
    seed: int | None = None
    payload_zero: bool = False
    payload_refill: bool = False
    payload_scramble: bool | None = None
    """Change a few bytes of each block between writes (fio's scramble_buffers). Default: for random content."""
    payload_pattern: str | None = None
    """Pattern in hexadecimal, as in ``plan.PatternContent``."""
    payload_pool_bytes: int = 0
    """Size of the pool that written data are taken from; 0 is no pool."""
    payload_pool_path: str | None = None
    payload_compress_percent: int = 0
    payload_compress_chunk_bytes: int = 0
    payload_dedupe_percent: int = 0
    payload_dedupe_set_percent: int = 0
    """Repeated blocks are drawn from a set of blocks of this per cent of the job's size; 0 repeats the block before."""
    verify: planned.Verify | None = None


class Reporting(Struct):
    """Logs, and the grouping of workers in reports."""

    log: planned.LogPlan | None = None
    submission_latency: bool = False
    """Measures submission latency apart (fio's slat); only for engines that submit asynchronously."""
    barrier: bool = False
    """The section starts when all sections before it have ended (fio's stonewall)."""
    new_report_group: bool = False
    report_as_group: bool = False
    report_as_one: bool = False
    """All workers of the job are reported as one, also across barriers."""
    intervals_singly: int | None = None
    """Intervals of each worker that are kept singly, as in ``plan.Worker``."""


class Said(msgspec.Struct, frozen=True):
    """The fields of a section that a user or a scenario has set; absent fields are open."""

    fields: Mapping[str, Any] = msgspec.field(default_factory=dict)
    """Values by the names of the fields of ``Section`` and of its parts."""
    positions: Mapping[str, Where] = msgspec.field(default_factory=dict)
    """Positions at which fields were set."""

    @classmethod
    def of(cls, **fields: Any) -> Said:
        """Takes fields by name; None leaves a field open. Raises ``TypeError`` for an unknown name."""
        said = {name: value for name, value in fields.items() if value is not None}
        if unknown := said.keys() - FIELDS.keys():
            raise TypeError(f"a section has no field {', '.join(sorted(unknown))}")
        return cls(said)

    def get(self, name: str) -> Any:
        """The value of a field; None if it is open."""
        return self.fields.get(name)

    def over(self, defaults: Said) -> Said:
        """A copy with its open fields filled from ``defaults``."""
        return Said({**defaults.fields, **self.fields}, {**defaults.positions, **self.positions})

    def but(self, **fields: Any) -> Said:
        """A copy with other values; None makes a field open."""
        kept = {name: value for name, value in self.fields.items() if name not in fields}
        return Said.of(**kept, **fields).at(self.positions)

    def at(self, positions: Mapping[str, Where]) -> Said:
        """A copy with these positions."""
        return Said(self.fields, positions)


class Section(Struct):
    """One job of a job file, with all open fields filled in: the load of its workers."""

    name: str | None = None
    description: str | None = None
    numjobs: int = 1
    """Number of workers; each runs the section's whole load."""
    first_jobnum: int = 0
    """Number of the first worker."""
    clients: tuple[int, ...] = ()
    """Agent of each worker; empty: the first client runs all."""
    cpus: tuple[int, ...] = ()
    """Processors that workers may run on; empty leaves the choice to the scheduler."""
    cpus_split: bool = False
    """Each worker is bound to one of the processors; otherwise to all of them."""
    target: Target = Target()
    files: Files = Files()
    load: Load = Load()
    pace: Pace = Pace()
    ending: Ending = Ending()
    data: Data = Data()
    report: Reporting = Reporting()
    given: frozenset[str] = frozenset()
    """Names of the fields that were set; the others have a default."""
    positions: Mapping[str, Where] = {}
    """Positions at which fields were set."""

    @classmethod
    def of(cls, said: Said, defaults: Said = Said()) -> Section:
        """A section of the fields that were set, with a dialect's defaults in the others."""
        parts: dict[str, Fields] = {}
        for name, value in said.over(defaults).fields.items():
            parts.setdefault(FIELDS[name], {})[name] = value
        filled = parts.pop("", {})
        filled |= {part: PARTS[part](**fields) for part, fields in parts.items()}
        return cls(**filled, given=frozenset(said.fields), positions=said.positions)

    @property
    def said(self) -> Said:
        """The fields that were set, without the defaults."""
        values = {name: self.value(name) for name in FIELDS if name in self.given}
        return Said.of(**values).at(self.positions)

    def as_read_only(self) -> Section:
        """The section with ``read_only``."""
        return self.replace(files=self.files.replace(read_only=True), given=self.given | {"read_only"})

    def value(self, field: str) -> Any:
        """A field of the section or of one of its parts, by its name."""
        part = FIELDS[field]
        return getattr(getattr(self, part) if part else self, field)

    def where(self, *fields: str) -> Where | None:
        """The position of the first of these fields that was set."""
        return next((self.positions[field] for field in fields if field in self.positions), None)


PARTS: Mapping[str, type[Struct]] = {
    "target": Target,
    "files": Files,
    "load": Load,
    "pace": Pace,
    "ending": Ending,
    "data": Data,
    "report": Reporting,
}
"""The parts of a section, by the names of its fields."""
FIELDS: Mapping[str, str] = {
    **dict.fromkeys(("name", "description", "numjobs", "first_jobnum", "clients", "cpus", "cpus_split"), ""),
    **{field: part for part, of in PARTS.items() for field in of.__struct_fields__},
}
"""The part that each field is in; empty for fields of the section itself. Field names are unique over all parts."""


class Job(Struct):
    """All sections of a job file."""

    name: str
    words: Words
    """The words of the dialect, for messages about the job."""
    sections: tuple[Section, ...]
    defaults: Said
    """The dialect's defaults, which the sections were filled from."""
    interval_ns: int | None = None
    """Reporting interval of the plan; None: a second, or less where a steady state needs more samples."""

    @classmethod
    def of(cls, name: str, words: Words, said: Iterable[Said], defaults: Said) -> Job:
        """A job of the fields that were set in each section, with a dialect's defaults in the others."""
        return cls(name=name, words=words, sections=tuple(Section.of(one, defaults) for one in said), defaults=defaults)

    def changed(self, change: Callable[[Said], Said]) -> Job:
        """A copy in which ``change`` was applied to each section."""
        return self.replace(sections=tuple(Section.of(change(one.said), self.defaults) for one in self.sections))


class PlanNote(msgspec.Struct, frozen=True):
    """A remark for the user: the job runs as requested, but its figures may not mean what one expects."""

    code: str
    """Stable name for programs: ``depth_capped``."""
    text: str
    where: Where | None = None
    level: Level = "info"
    """warning: the figures may not mean what one expects."""

    def __str__(self) -> str:
        return f"{self.where}: {self.text}" if self.where else self.text


def paths_text(paths: Sequence[str]) -> str:
    """``a``, ``a and b``, ``a and 7 more files``."""
    if len(paths) <= 2:
        return " and ".join(paths)
    return f"{paths[0]} and {len(paths) - 1:,} more files"

"""What a person wrote: a job, the same for every dialect.

Fields are optional; ``None`` is "not said". A dialect turns its text into sections and brings its own defaults
as one more section; ``iocurve.resolve`` makes a plan of both. Quantities are already numbers (bytes, nanoseconds),
but what they apply to (files that exist or not, clones, devices) is still open.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Generic, Literal, Self, TypeVar

import msgspec
from msgspec import Meta

from iocurve.engine import plan as planned
from iocurve.engine.plan import Durability, FileSelect
from iocurve.errors import Where
from iocurve.job.words import Words
from iocurve.structs import Struct, TaggedStruct

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


class Section(Struct):
    """One job of a file: what its workers (clones) do."""

    name: str | None = None
    description: str | None = None
    clones: int | None = None
    """Workers, each with this section's whole load."""

    engine: EngineName | None = None
    engine_asked: str | None = None
    """The engine as the dialect calls it."""
    nfs_url: str | None = None
    nconnect: int | None = None
    nfs_timeout_ns: int | None = None
    nfs_source: str | None = None
    """Address of this machine that the connections come from, so that jobs are clients of their own: on loopback any of
    127.0.0.0/8, without further setup."""
    direct: bool | None = None
    durability: Durability | None = None
    invalidate: bool | None = None

    disk: str | None = None
    """An emulated disk that the files lie on: ``disk:premium-ssd-p30?stripe=3&vm=Standard_D8ds_v4&path=DIR``."""

    paths: tuple[str, ...] | None = None
    """Files by name, shared by all clones; without them each clone has files of its own."""
    directories: tuple[str, ...] | None = None
    """Clones take turns in them; files by name are in the first."""
    file_name_pattern: str | None = None
    """With ``{job}``, ``{clone}`` and ``{file}``."""
    file_count: int | None = None
    file_bytes: tuple[int, int] | None = None
    """Size of each file, drawn between the two."""
    path_bytes: tuple[int, ...] | None = None
    """Size of each of ``paths``, in their order, where they differ."""
    size: Amount | None = None
    """All files of a worker together."""
    offset: Amount | None = None
    """Where the used region of each file starts."""
    offset_increment: Amount | None = None
    """Added to the offset per clone."""
    offset_align: int | None = None
    file_select: FileSelect | None = None
    file_run: int | None = None
    """Operations in a row that go to one file."""
    create: bool | None = None
    """Whether files that are missing may be made."""
    overwrite: bool | None = None
    """Whether files to be written are laid out with data first."""
    recreate: bool | None = None
    """Whether files are made anew even where they are there (DiskSpd's -c)."""
    create_on_open: bool | None = None
    """Whether files are made when they are opened, without a layout."""
    unlink: bool | None = None
    append: bool | None = None
    """Whether the region of a file that is there begins at its end (fio's file_append)."""
    until_full: bool | None = None
    """Whether a device without room ends the load in order (fio's fill_device); files of no size grow until then."""

    reads: bool | None = None
    writes: bool | None = None
    trims: bool | None = None
    random: bool | None = None
    random_percent: PerKind[int] | None = None
    """With ``random``: how many operations go to a random place; the others go on from the last one."""
    distribution: PerKind[Preference] | None = None
    read_percent: float | None = None
    blocks: PerKind[planned.Blocks] | None = None
    align_bytes: PerKind[int] | None = None
    """Random offsets are multiples of this; 0 is the smallest block."""
    cover: Literal["once", "independent"] | None = None
    run_length: int | None = None
    """Operations at consecutive places that follow each random one, itself included (randread:8)."""
    gap_bytes: int | None = None
    """Left out after each sequential operation (read:8k)."""
    gap_spread_bytes: int | None = None
    """Further bytes to leave out, drawn up to this."""
    start_bytes: int | None = None
    """Where in the region sequential operations begin."""
    start_increment_bytes: int | None = None
    """Added to that per clone (DiskSpd's -T)."""
    at_end: Literal["wrap", "stop"] | None = None
    position: Literal["kind", "worker", "job", "identical", "repeated"] | None = None
    """Who shares a sequential position."""
    zone_bytes: int | None = None
    """Bytes to transfer in a strided zone before the next."""
    zone_range_bytes: int | None = None
    zone_skip_bytes: int | None = None

    rate_operations: PerKind[int | None] | None = None
    """Per second, each kind paced by itself."""
    rate_bytes: PerKind[int | None] | None = None
    """Per second, each kind paced by itself."""
    rate_total_operations: float | None = None
    """Per second and worker, all kinds together."""
    rate_total_bytes: int | None = None
    """Per second and worker, all kinds together."""
    arrivals: Literal["even", "poisson"] | None = None
    depth: int | None = None
    depth_low: int | None = None
    batch_submit: int | None = None
    batch_complete_min: int | None = None
    batch_complete_max: int | None = None
    think_ns: int | None = None
    """Length of a pause; 0 is none."""
    think_spin_ns: int | None = None
    think_every: int | None = None
    """Operations between pauses."""
    think_counts: Literal["completed", "issued"] | None = None
    think_every_ns: int | None = None
    """Length of the load between pauses, if so many operations do not come first; 0 is by number alone."""
    think_drains: bool | None = None
    """Whether what is in flight comes back before a pause begins; it does unless this says otherwise."""
    think_moves_schedule: bool | None = None
    """Whether due times are moved by a pause; otherwise what was missed is caught up with."""
    fsync_every: int | None = None
    """Writes between two flushes; 0 is no flush. Where several kinds are due, the first of these three comes alone."""
    fdatasync_every: int | None = None
    sync_file_range_every: int | None = None
    sync_at_end: bool | None = None
    replay: planned.Replay | None = None
    """What was recorded elsewhere is done instead; the section says which kinds and sizes there are."""
    replay_flushes: tuple[planned.SyncKind, ...] | None = None
    """Flushes that are part of it."""

    runtime_ns: int | None = None
    time_based: bool | None = None
    """Whether the load is repeated until the runtime has passed."""
    ramp_ns: int | None = None
    cooldown_ns: int | None = None
    """Load after the runtime that is not counted."""
    start_delay_ns: tuple[int, int] | None = None
    """Drawn between the two."""
    transfer: Amount | None = None
    """What is transferred, where that is not ``size``."""
    operations: int | None = None
    """Operations of one pass."""
    loops: int | None = None
    """Passes."""
    flow: planned.Flow | None = None
    wait_for: tuple[str, ...] | None = None
    """Jobs that must have ended before."""
    ends_others: Literal["never", "always", "on_error", "together"] | None = None
    ends_run: bool | None = None
    """Whether later groups do not start then, either."""
    latency_target_ns: int | None = None
    """0 is none."""
    latency_window_ns: int | None = None
    latency_percentile: float | None = None
    latency_run_on: bool | None = None
    steady_state: planned.SteadyState | None = None

    repeatable: bool | None = None
    """Whether every run makes the same choices."""
    seed: int | None = None
    payload_zero: bool | None = None
    payload_refill: bool | None = None
    payload_scramble: bool | None = None
    """Unsaid: random content is scrambled."""
    payload_pattern: str | None = None
    """In hexadecimal, as in ``plan.PatternContent``."""
    payload_pool_bytes: int | None = None
    payload_pool_path: str | None = None
    payload_compress_percent: int | None = None
    payload_compress_chunk_bytes: int | None = None
    payload_dedupe_percent: int | None = None
    verify: planned.Verify | None = None
    log: planned.LogPlan | None = None
    submission_latency: bool | None = None
    """Whether the time until an operation is handed over is measured apart; only where the engine hands over."""
    cpus: tuple[int, ...] | None = None
    cpus_split: bool | None = None
    """Whether each clone has one of the processors, not all of them."""

    barrier: bool | None = None
    """Starts when all sections before it have ended."""
    new_report_group: bool | None = None
    report_as_group: bool | None = None

    positions: dict[str, Where] = msgspec.field(default_factory=dict)
    """Where each field was said."""

    def over(self, defaults: Section) -> Self:
        """This section with what it leaves open taken from ``defaults``."""
        return self.replace(**(_said(defaults) | _said(self)))

    def where(self, *fields: str) -> Where | None:
        """The place of the first of these fields that was said."""
        return next((self.positions[field] for field in fields if field in self.positions), None)


class Job(Struct):
    """Everything that runs together."""

    name: str
    words: Words
    """Those that a person used, for what is said about the job."""
    sections: tuple[Section, ...]
    defaults: Section
    """The dialect's: every field that a plan needs."""


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


def settled(value: T | None) -> T:
    """A field that the dialect's defaults always fill."""
    assert value is not None, "the dialect's defaults are incomplete"
    return value


def named(paths: Sequence[str]) -> str:
    """``a``, ``a and b``, ``a and 7 more files``."""
    if len(paths) <= 2:
        return " and ".join(paths)
    return f"{paths[0]} and {len(paths) - 1:,} more files"


def _said(section: Section) -> dict[str, Any]:
    fields = {name: getattr(section, name) for name in section.__struct_fields__}
    return {name: value for name, value in fields.items() if value is not None}

"""What runs: the contract between Python, which resolves a job into a plan, and the engine.

Everything is decided here: sizes are bytes, times are nanoseconds, and ``None`` is a decision ("no limit").
``crates/engine/src/plan.rs`` is the same contract in Rust; ``tests/test_plan_contract.py`` holds the two together.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

U16 = Annotated[int, Field(ge=0, lt=2**16)]
U32 = Annotated[int, Field(ge=0, lt=2**32)]
U64 = Annotated[int, Field(ge=0, lt=2**64)]
Count = Annotated[int, Field(ge=1, lt=2**32)]
Nanos = U64

Durability = Literal["none", "data_sync", "file_sync"]
Layout = Literal["existing", "fill", "reserve", "new"]
FileSelect = Literal["round_robin", "random", "sequential"]
OperationKind = Literal["read", "write"]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class FileOpen(_Model):
    """How local files are opened."""

    direct: bool
    """Bypass the page cache (O_DIRECT)."""
    durability: Durability
    """What a completed write promises."""
    invalidate: bool
    """Drop the file's pages from the page cache before the run."""


class NullEngine(_Model):
    """Nothing is done: the cost of the loop itself."""

    kind: Literal["null"] = "null"


class SyncEngine(_Model):
    """pread and pwrite, one at a time."""

    kind: Literal["sync"] = "sync"
    open: FileOpen


class AioEngine(_Model):
    """Linux native AIO (io_submit)."""

    kind: Literal["aio"] = "aio"
    open: FileOpen


class UringEngine(_Model):
    """io_uring with registered files and buffers."""

    kind: Literal["uring"] = "uring"
    open: FileOpen


class NfsMount(_Model):
    """A user-space NFS mount."""

    host: str
    port: U16 | None
    """TCP port of the NFS program; None asks the server's portmapper."""
    mount_port: U16 | None
    """TCP port of the MOUNT program; None asks the server's portmapper."""
    export: str
    version: Literal[3]
    nconnect: Annotated[int, Field(ge=1, le=16)]
    """TCP connections of one worker."""
    uid: U32
    gid: U32
    durability: Durability
    timeout_ns: Nanos
    """Give up when the server has not answered for this long."""
    keep_payload: bool
    """Whether READ payload reaches the worker's buffers; False lets large payloads be discarded in the kernel."""


class NfsEngine(_Model):
    """User-space NFS over ``nconnect`` TCP connections of the worker's own."""

    kind: Literal["nfs"] = "nfs"
    mount: NfsMount


EnginePlan = Annotated[NullEngine | SyncEngine | AioEngine | UringEngine | NfsEngine, Field(discriminator="kind")]


class FilePlan(_Model):
    """One file (or device) and the region of it that is used."""

    path: str
    """For NFS relative to the export."""
    offset_bytes: U64
    bytes: U64
    layout: Layout
    """existing: must be there and long enough. fill: created if missing, written where it is shorter.
    reserve: created if missing, extended without writing. new: must not exist; created and written."""
    keep: bool
    """False removes the file after the run if the run created it."""


class Rate(_Model):
    """An open-loop rate: ``count`` per ``per_ns``; the k-th operation is due at exactly k x per / count."""

    unit: Literal["operations", "bytes"]
    count: Annotated[int, Field(ge=1, lt=2**64)]
    per_ns: Annotated[int, Field(ge=1, lt=2**64)]


class OperationPlan(_Model):
    """One kind of operation in a worker's mix."""

    kind: OperationKind
    share: U32
    """Weight in the mix; with a rate on any operation each kind is paced by itself and weights do not count."""
    block_bytes: Count
    rate: Rate | None
    """Most that is asked of this kind; None is as fast as possible."""


class Sequential(_Model):
    """One block after another, from the start again at the end; each kind has its own position."""

    order: Literal["sequential"] = "sequential"


class Random(_Model):
    """By chance."""

    order: Literal["random"] = "random"
    cover: Literal["once", "independent"]
    """once: every block once per pass (fio's random map). independent: fio's norandommap."""
    passes: Literal["same", "fresh"]
    """Whether the next pass over the region repeats the sequence of this one (fio's randrepeat=1)."""


Access = Annotated[Sequential | Random, Field(discriminator="order")]


class End(_Model):
    """What ends a worker: whichever comes first; with none it runs until it is stopped."""

    runtime_ns: Nanos | None
    """Length of the measured window, after the ramp."""
    bytes: U64 | None
    """Bytes transferred, all kinds together, ramp included."""
    operations: U64 | None
    """Operations, all kinds together, ramp included."""


class Payload(_Model):
    """What is written."""

    content: Literal["random", "zero"]
    renew: Literal["keep", "scramble", "refill"]
    """What happens to a buffer before each write; scramble is fio's scramble_buffers, refill its refill_buffers."""


class Worker(_Model):
    """One thread: its engine, its files, its load."""

    job: str
    clone: U32
    """Which clone of its job (fio's numjobs), from 0."""
    report_group: U32
    """Workers with the same number are reported as one (fio's group_reporting)."""
    engine: EnginePlan
    files: Annotated[tuple[FilePlan, ...], Field(min_length=1)]
    file_select: FileSelect
    operations: Annotated[tuple[OperationPlan, ...], Field(min_length=1)]
    access: Access
    depth: Count
    """Operations in flight at most; a synchronous engine runs at 1."""
    start_delay_ns: Nanos
    ramp_ns: Nanos
    """Load that runs but is not counted, before the measured window."""
    end: End
    seed: U64
    payload: Payload
    cpu: U32 | None
    """Processor the thread is bound to; None leaves it to the scheduler."""


class Group(_Model):
    """Workers that start at the same instant."""

    workers: Annotated[tuple[Worker, ...], Field(min_length=1)]


class Plan(_Model):
    """A whole run: groups that start one after another."""

    version: Literal[1] = 1
    name: str
    interval_ns: Annotated[int, Field(ge=1_000_000, lt=2**64)]
    """Length of one reporting interval."""
    groups: Annotated[tuple[Group, ...], Field(min_length=1)]

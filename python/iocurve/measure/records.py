"""The messages between agents and the coordinator, as JSON."""

from __future__ import annotations

import msgspec

from iocurve.engine.outcome import IntervalRecord, Live, Outcome
from iocurve.engine.plan import Plan
from iocurve.foundation.structs import Struct, TaggedStruct
from iocurve.result.document import HostFacts, IdleCost, LayoutFacts, MachineUse, MountFacts


class Introduction(Struct):
    """An agent, before it has a plan."""

    host: HostFacts
    iocurve: str
    """Version of iocurve."""
    boot: str
    """Identity of the machine's boot; equal on clients that share a machine."""


class Survey(Struct):
    """A request to check a client."""

    exists: bool
    """The directory exists."""
    mount: MountFacts | None
    free_bytes: int | None
    """Free space there; None if it does not exist."""
    nic_mbit_per_s: int | None
    """Speed of the fastest network interface; None if the system does not publish it."""


class Task(Struct):
    """The plan that a client runs."""

    run: str
    """Identity of the run: the same for all its clients."""
    client: int
    """Index of the client, from 0."""
    point: str
    """Name of the point."""
    plan: Plan
    """The plan of this client alone."""
    positions: tuple[tuple[int, int], ...]
    """Group and worker in the plan of all clients, for each worker of ``plan`` in its order."""
    lease_s: float
    """The client stops by itself when nothing has reached it for this long."""
    send_s: float = 0.0
    """Closed intervals of this time are sent together."""


class StartedRecord(TaggedStruct, tag="started"):
    """A group was released."""

    group: int
    start_ns: int
    """Its start by the client's clock, ns since 1970."""


class ReadyRecord(TaggedStruct, tag="ready"):
    """A further group is prepared and waits for its release."""

    group: int


class ClosedRecord(TaggedStruct, tag="interval"):
    """An interval, merged over the client's workers."""

    interval: IntervalRecord


class EndRecord(TaggedStruct, tag="end"):
    """The last record of a client."""

    outcome: Outcome
    layout: LayoutFacts | None
    machine: MachineUse | None
    local_file_error: str | None = None
    """Why the local file lacks records."""


Record = StartedRecord | ReadyRecord | ClosedRecord | EndRecord

# msgspec prepares a type when it is first decoded, and must not do so in two threads at once: here it is one.
RECORDS: msgspec.json.Decoder[Record] = msgspec.json.Decoder(Record)
TASKS = msgspec.json.Decoder(Task)
LIVE = msgspec.json.Decoder(Live)
IDLE_COSTS: msgspec.json.Decoder[IdleCost | None] = msgspec.json.Decoder(IdleCost | None)
INTERVALS = msgspec.json.Decoder(tuple[IntervalRecord, ...])
"""The readers of messages; they raise ``ValueError``."""


def records_of(message: bytes) -> list[Record]:
    """Reads the records that a client sent together; none says that it is alive. Raises ``ValueError``."""
    return list(map(RECORDS.decode, message.splitlines()))

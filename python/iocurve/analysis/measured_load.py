"""The figures of a point that verdicts on its limit compare: rates by kind, by client and by connection."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median

import msgspec

from iocurve.engine.derived import measured_ns
from iocurve.engine.outcome import ConnectionOutcome, KindOutcome, WorkerOutcome
from iocurve.engine.plan import NfsEngine, Worker
from iocurve.foundation.units import SECOND_NS, format_latency
from iocurve.result.document import Point, TargetFacts
from iocurve.result.summary import SeriesInterval, Summary, Totals

IN_FLIGHT = 0.9
"""The depth is in flight when at least this fraction of it is on average."""
SHARED = 0.2
"""Others that use at least this fraction of the machine can hold up a load."""
HELD_UP_MAX = 1.35
"""A load that was held up for longer tells nothing about its target."""


class WorkerLoad(msgspec.Struct, frozen=True):
    """A worker of a point: what it was to do, and what it did."""

    plan: Worker
    outcome: WorkerOutcome

    @property
    def connections(self) -> int:
        """TCP connections of the worker; 0 where it has none."""
        return self.plan.engine.mount.nconnect if isinstance(self.plan.engine, NfsEngine) else 0

    @property
    def source(self) -> str | None:
        """The address that its connections come from; None is the system's choice."""
        return self.plan.engine.mount.source if isinstance(self.plan.engine, NfsEngine) else None

    @property
    def seconds(self) -> float:
        """Length of the measured window."""
        return measured_ns(self.outcome) / SECOND_NS

    @property
    def operations(self) -> int:
        """Operations of all kinds in the window."""
        return sum(kind.operations for kind in self.outcome.operations.values())

    def iops(self, kind: str | None = None) -> float:
        """Operations per second of one kind, or of all kinds, in the worker's own window."""
        return sum(one.operations for one in self._of(kind)) / self.seconds if self.seconds else 0.0

    def bytes_per_s(self, kind: str | None = None) -> float:
        """Throughput of one kind, or of all kinds, in the worker's own window."""
        return sum(one.bytes for one in self._of(kind)) / self.seconds if self.seconds else 0.0

    def _of(self, kind: str | None) -> list[KindOutcome]:
        kinds = self.outcome.operations
        return list(kinds.values()) if kind is None else [kinds[kind]] if kind in kinds else []


@dataclass(frozen=True, eq=False)
class MeasuredLoad:
    """A point with the figures that limits are compared with. One is equal to itself alone, so that caches know it."""

    point: Point
    target: TargetFacts
    is_client: bool = False
    """The load is the part of one agent of several."""

    @property
    def machine_name(self) -> str:
        """The machine that makes the load, in words."""
        return "the client" if self.is_client else "this machine"

    @property
    def summary(self) -> Summary:
        """All workers together."""
        return self.point.summary()

    @cached_property
    def workers(self) -> tuple[WorkerLoad, ...]:
        """The workers of the group that ran longest; groups run one after another."""
        loads = [
            WorkerLoad(self.point.plan.groups[outcome.group].workers[outcome.worker], outcome)
            for outcome in self.point.outcome.workers
        ]
        longest = max(loads, key=lambda load: measured_ns(load.outcome), default=None)
        return tuple(load for load in loads if longest and load.outcome.group == longest.outcome.group)

    @cached_property
    def clients(self) -> dict[tuple[str | None, str | None], tuple[WorkerLoad, ...]]:
        """The workers by their machine and the address that their connections come from: a server's clients."""
        hostnames = {client.client: client.host.hostname for client in self.point.clients}
        found: dict[tuple[str | None, str | None], tuple[WorkerLoad, ...]] = {}
        for worker in self.workers:
            client = (hostnames.get(worker.plan.client), worker.source)
            found[client] = (*found.get(client, ()), worker)
        return found

    @property
    def connections(self) -> int:
        """TCP connections of all workers."""
        return sum(worker.connections for worker in self.workers)

    @cached_property
    def held_up(self) -> float:
        """The factor by which the rate would be higher had nothing held up this machine; 1 where nothing did.

        In a closed loop the depth over the median latency is the rate between stalls, which are few and long. A rate
        that most intervals do not have is none: a bucket made up for the stalls.
        """
        summary = self.summary
        median_ns = summary.service.percentile(50)
        is_full = summary.concurrency_achieved >= IN_FLIGHT * summary.depth_requested
        # Reads and writes wait for different limits: the median of both tells of neither.
        is_mixed = sum(totals.operations > 0 for totals in summary.kinds.values()) > 1
        if summary.paced or not median_ns or not is_full or is_mixed or not self._is_shared:
            return 1.0
        between_stalls = summary.depth_requested * SECOND_NS / median_ns
        usual = median([interval.iops for interval in self.course] or [between_stalls])
        factor = min(between_stalls, usual) / summary.iops
        return factor if 1 < factor <= HELD_UP_MAX else 1.0

    @property
    def _is_shared(self) -> bool:
        """True if other programs use a good part of this machine."""
        machine = self.point.machine
        return machine is not None and (machine.others_share or 0.0) + (machine.steal_share or 0.0) >= SHARED

    @cached_property
    def course(self) -> Sequence[SeriesInterval]:
        """The measured intervals."""
        return self.point.course()

    def kind(self, name: str) -> Totals | None:
        """The operations of one kind; None where there were none."""
        return self.summary.kinds.get(name)

    def iops(self, kind: str | None = None) -> float:
        """IOPS of one kind, or of all kinds."""
        totals = self.summary if kind is None else self.kind(kind)
        return totals.iops if totals else 0.0

    def bytes_per_s(self, kind: str | None = None) -> float:
        """Throughput of one kind, or of all kinds."""
        totals = self.summary if kind is None else self.kind(kind)
        return totals.bytes_per_s if totals else 0.0


LOSSY = 0.005
"""Connections that send more than this fraction of their segments again are congested."""
HELD_BACK = 0.1
"""A smaller share of the time in which a sender was held back is left out."""


def is_lossy(load: MeasuredLoad) -> bool:
    """True if the connections lose enough segments for congestion control to hold them back."""
    return _lost_share(load) >= LOSSY


def network_evidence(load: MeasuredLoad) -> Iterator[str]:
    """Round-trip time, losses, and the time in which the sender was held back.

    The kernel reports what this machine sends, which are the writes of an NFS load. A sender that waits for the
    receiver's window does not prove that the window is small: a server that limits a load stops reading, which closes
    the window as well.
    """
    connections = _connections(load)
    if not connections:
        return
    rtt = format_latency(max(one.rtt_ns for one in connections))
    retransmits = sum(one.retransmits for one in connections)
    yield f"TCP: round trip {rtt}, {retransmits:,} segments sent again ({_lost_share(load):.2%})"
    busy_ns = sum(one.busy_ns for one in connections)
    for name, held_ns in (
        ("the receiver's window", sum(one.receive_window_limited_ns for one in connections)),
        ("the send buffer", sum(one.send_buffer_limited_ns for one in connections)),
    ):
        if busy_ns and held_ns >= HELD_BACK * busy_ns:
            share = f"{held_ns / busy_ns:.0%}"
            yield f"TCP: {name} held the sender back for {share} of the time in which it had data to send"


def _lost_share(load: MeasuredLoad) -> float:
    """Retransmitted segments to those that the written bytes need; requests of reads are one segment each."""
    connections = _connections(load)
    written = load.kind("write")
    segment_bytes = max((one.segment_bytes for one in connections), default=0)
    if not segment_bytes:
        return 0.0
    sent = load.summary.operations + (written.bytes / segment_bytes if written else 0.0)
    return sum(one.retransmits for one in connections) / sent if sent else 0.0


def _connections(load: MeasuredLoad) -> list[ConnectionOutcome]:
    return [one for worker in load.workers for one in worker.outcome.connections]

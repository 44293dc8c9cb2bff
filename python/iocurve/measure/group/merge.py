"""Merges the intervals of clients into one live view, and their ends into one outcome."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping, Sequence
from typing import TypeVar

from iocurve.engine.outcome import IntervalRecord, KindOutcome, Live, LiveTotals, Outcome, State, WorkerOutcome
from iocurve.foundation.errors import RunError
from iocurve.measure.group.client import Ended, GroupClient, RunningClient
from iocurve.result.course import group_intervals
from iocurve.result.document import ClientOutcome
from iocurve.result.summary import added, live_kind

T = TypeVar("T")

SHOW_S = 0.02
"""Time from a record to the live view that has it, so that many records make one view; ..."""
SHOW_S_PER_CLIENT = 0.0002
"""... for which large groups take longer, because a view has all clients."""


class LiveView:
    """The progress of a run; any thread may read it."""

    def __init__(self, clients: Sequence[GroupClient], loop: asyncio.AbstractEventLoop) -> None:
        self._clients, self._loop = clients, loop
        self._open: dict[tuple[int, int, bool], dict[int, IntervalRecord]] = {}
        self._totals: dict[str, LiveTotals] = {}
        """Totals of the intervals that clients have sent, by kind."""
        self._delay_s = SHOW_S + SHOW_S_PER_CLIENT * len(clients)
        self._due: asyncio.TimerHandle | None = None
        self._lock = threading.Lock()
        self._live = Live(
            phase="layout", group=0, elapsed_ns=0, layout_bytes=0, layout_bytes_total=0, intervals=0, operations={}
        )

    def newest(self) -> Live:
        """The progress so far."""
        with self._lock:
            return self._live

    def show(self, **changes: object) -> None:
        """Changes fields of the view."""
        with self._lock:
            self._live = self._live.replace(**changes)

    def add(self, client: int, interval: IntervalRecord) -> None:
        """Adds an interval of a client."""
        self._open.setdefault((interval.group, interval.index, not interval.ramp), {})[client] = interval
        for kind, part in interval.operations.items():
            parts: list[LiveTotals | KindOutcome] = [part, *([self._totals[kind]] if kind in self._totals else [])]
            self._totals[kind] = _total(parts)
        self.publish_soon()

    def publish_soon(self) -> None:
        """Publishes once for all records of a short time: the cost of a view grows with the number of clients."""
        if self._due is None:
            self._due = self._loop.call_later(self._delay_s, self.publish)

    def publish(self) -> None:
        """Shows the newest interval that all running clients have closed."""
        if self._due:
            self._due.cancel()
            self._due = None
        clients = tuple(client.live() for client in self._clients)
        found = self._closed()
        if not found:
            self.show(clients=clients)
            return
        interval = found[0]
        self.show(
            phase="ramp" if interval.ramp else "run",
            group=interval.group,
            elapsed_ns=interval.end_ns,
            intervals=interval.index + 1,
            operations={name: live_kind(parts) for name, parts in _by_name([one.operations for one in found]).items()},
            jobs={name: _total(parts) for name, parts in _by_name([one.jobs for one in found]).items()},
            totals=dict(self._totals),
            clients=clients,
        )

    def _closed(self) -> list[IntervalRecord]:
        """The newest interval of all clients, once every running client of its group sent it; given once."""
        phases = {client.part.client: client.phase for client in self._clients}
        groups = {number: phase.group for number, phase in phases.items() if isinstance(phase, RunningClient)}
        complete = [
            key
            for key, sent in self._open.items()
            if all(client in sent for client, group in groups.items() if group <= key[0])
        ]
        if not complete:
            return []
        newest = max(complete)
        found = list(self._open[newest].values())
        self._open = {key: sent for key, sent in self._open.items() if key > newest}
        return found


def _by_name(of_clients: Sequence[Mapping[str, T]]) -> dict[str, list[T]]:
    names = sorted({name for parts in of_clients for name in parts})
    return {name: [parts[name] for parts in of_clients if name in parts] for name in names}


def _total(parts: Sequence[LiveTotals | KindOutcome]) -> LiveTotals:
    return LiveTotals(**added(parts, LiveTotals.__struct_fields__))


def merged_outcome(clients: Sequence[GroupClient]) -> Outcome:
    """One outcome, with the workers in the order of the whole plan. Raises ``RunError`` if no client has started."""
    ended = [client for client in clients if client.received.end]
    if not ended and not any(client.starts_ns for client in clients):
        phases = {client.name: client.phase for client in clients}
        reasons = "; ".join(f"{name}: {phase.reason}" for name, phase in phases.items() if isinstance(phase, Ended))
        raise RunError(f"no agent finished: {reasons}")
    # A point whose clients were all lost under load is kept without a worker: their local files can complete it.
    zeros = _zeros(ended)
    workers = [worker for client in ended for worker in _placed_workers(client, zeros)]
    workers.sort(key=lambda worker: (worker.group, worker.worker))
    return Outcome(state=_worst(clients), workers=tuple(workers), intervals=group_intervals(workers))


def client_outcomes(clients: Sequence[GroupClient], run: str) -> tuple[ClientOutcome, ...]:
    """The clients of a run that has ended."""
    zeros = _zeros(clients)
    return tuple(_client_outcome(client, zeros, run) for client in clients)


def _client_outcome(client: GroupClient, zeros: dict[int, int], run: str) -> ClientOutcome:
    assert isinstance(client.phase, Ended), "the run has ended"
    first, end = client.part.groups[0], client.received.end
    return ClientOutcome(
        client=client.part.client,
        name=client.name,
        host=client.member.introduction.host,
        state=client.phase.state,
        reason=client.phase.reason,
        clock=client.clock,
        late_ns=client.starts_ns[first] - zeros[first] if first in client.starts_ns else 0,
        machine=end.machine if end else None,
        run=run,
        journal=client.journal,
        local_file_error=end.local_file_error if end else None,
        stalls=end.outcome.stalls if end else (),
        until_loss=None if end else client.received.until_loss(),
    )


def _zeros(clients: Sequence[GroupClient]) -> dict[int, int]:
    """The start of each group on the client that started first, by the clock of the coordinator."""
    groups = {group for client in clients for group in client.starts_ns}
    return {group: min(one.starts_ns[group] for one in clients if group in one.starts_ns) for group in groups}


def _placed_workers(client: GroupClient, zeros: dict[int, int]) -> list[WorkerOutcome]:
    """The workers of a client at their places in the whole plan."""
    assert client.received.end is not None
    positions = client.part.by_place()
    placed = []
    for worker in client.received.end.outcome.workers:
        position = positions[worker.group, worker.worker]
        late_ns = client.starts_ns.get(position[0], 0) - zeros.get(position[0], 0)
        placed.append(placed_worker(worker, position, late_ns))
    return placed


def placed_worker(worker: WorkerOutcome, position: tuple[int, int], late_ns: int) -> WorkerOutcome:
    """A worker at its place in the whole plan, with times since the first client's start."""
    intervals = tuple(
        one.replace(start_ns=one.start_ns + late_ns, end_ns=one.end_ns + late_ns) for one in worker.intervals
    )
    return worker.replace(
        group=position[0],
        worker=position[1],
        window_start_ns=worker.window_start_ns + late_ns,
        window_end_ns=worker.window_end_ns + late_ns,
        drained_ns=worker.drained_ns + late_ns,
        absences=tuple(one.replace(start_ns=max(0, one.start_ns + late_ns)) for one in worker.absences),
        intervals=intervals,
    )


def _worst(clients: Sequence[GroupClient]) -> State:
    states = {client.phase.state for client in clients if isinstance(client.phase, Ended)}
    if states & {"lost", "failed"}:
        return "failed"
    return "interrupted" if "interrupted" in states else "finished"

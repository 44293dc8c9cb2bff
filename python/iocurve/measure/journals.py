"""Adds the records that a lost client kept in its local file to the result of the other clients."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from iocurve.analysis.limits import with_verdicts, without_verdicts
from iocurve.engine.outcome import IntervalRecord
from iocurve.foundation.errors import ResultError
from iocurve.measure.campaign import reason
from iocurve.measure.deployment import by_place
from iocurve.measure.group.merge import placed_worker
from iocurve.measure.records import ClosedRecord, EndRecord, Task, record_of, task_of
from iocurve.result.course import group_intervals, of_outcome, with_others
from iocurve.result.document import ClientOutcome, Point, Result, UntilLoss
from iocurve.result.summary import merge_kinds


class Journal(msgspec.Struct, frozen=True):
    """The local file of a client."""

    path: Path
    task: Task
    intervals: tuple[IntervalRecord, ...]
    end: EndRecord | None
    """None if the client was cut off before its end."""

    @classmethod
    def read(cls, path: Path) -> Journal:
        """Reads a local file; its last line may be cut off. Raises ``ResultError``."""
        try:
            return cls.parsed(path, path.read_bytes())
        except OSError as error:
            raise ResultError(f"{path} cannot be read: {error.strerror}") from None

    @classmethod
    def parsed(cls, path: Path, text: bytes) -> Journal:
        """The content of a local file. Raises ``ResultError``."""
        try:
            first, *lines = text.splitlines()
            task = task_of(first)
            records = [record_of(line) for line in _whole(lines)]
        except ValueError as error:
            raise ResultError(f"{path} is not the local file of a load client: {error}") from None
        intervals = tuple(record.interval for record in records if isinstance(record, ClosedRecord))
        end = next((record for record in records if isinstance(record, EndRecord)), None)
        return cls(path, task, intervals, end)


def lost(result: Result) -> list[ClientOutcome]:
    """The clients whose records are missing."""
    return [client for point in result.points for client in point.clients if client.state == "lost"]


def parsed(client: ClientOutcome, text: bytes) -> Journal:
    """The content of a lost client's local file. Raises ``ResultError``."""
    return Journal.parsed(Path(client.journal or f"{client.name}'s file"), text)


def merged(result: Result, journals: Sequence[Journal]) -> Result:
    """The result with the records of lost clients. Raises ``ResultError`` for a file that is not of this result.

    A client that ran to its end counts in the totals from now on; of another, the intervals are kept apart.
    """
    for journal in journals:
        result = _with_journal(result, journal)
    reasons = [f"{point.name}: {why}" for point in result.points if (why := _missing(point))]
    if reasons:
        result = result.replace(incomplete_reason="; ".join(reasons))
    elif len(result.points) == result.points_planned and all(one.outcome.state == "finished" for one in result.points):
        result = result.ended("finished")
    elif result.state == "failed":
        text = "a load client was lost; its records were added later, and what was to follow was not measured"
        result = result.replace(incomplete_reason=text)
    return with_verdicts(result)


def _missing(point: Point) -> str | None:
    lost = any(client.state == "lost" for client in point.clients)
    return reason(point.outcome, point.clients) if lost else None


def _whole(lines: Sequence[bytes]) -> list[bytes]:
    """All lines but a last one that was cut off."""
    return [line for number, line in enumerate(lines) if number < len(lines) - 1 or line.endswith(b"}")]


def _with_journal(result: Result, journal: Journal) -> Result:
    task = journal.task
    points = [
        next(
            (
                _with_client(point, client, journal)
                for client in point.clients
                if (client.run, client.client) == (task.run, task.client)
            ),
            point,
        )
        for point in result.points
    ]
    if any(new is not old for new, old in zip(points, result.points, strict=True)):
        return result.replace(points=tuple(points))
    raise ResultError(f"{journal.path} is of client {task.client} of another run ({task.point}), not of this result")


def _with_client(point: Point, client: ClientOutcome, journal: Journal) -> Point:
    if client.state != "lost":
        raise ResultError(f"{journal.path}: the records of load client {client.name} are in the result already")
    if journal.end is None:
        own = [one for one in journal.intervals if point.phase in (None, one.group)]
        return _with(point, client.replace(until_loss=_until_loss(own)))
    positions = by_place(journal.task.plan, journal.task.positions)
    placed = [
        placed_worker(worker, positions[worker.group, worker.worker], client.late_ns)
        for worker in journal.end.outcome.workers
    ]
    added = placed if point.phase is None else [one.replace(group=0) for one in placed if one.group == point.phase]
    workers = sorted([*point.outcome.workers, *added], key=lambda worker: (worker.group, worker.worker))
    end = journal.end
    whole = client.replace(
        state="merged", reason=None, machine=end.machine, stalls=end.outcome.stalls, until_loss=None, journal=None
    )
    point = _with(point, whole)
    is_whole = all(one.state in ("finished", "merged") for one in point.clients)
    state = "finished" if is_whole and journal.end.outcome.state == "finished" else point.outcome.state
    intervals = with_others(of_outcome(point.outcome), group_intervals(added))
    outcome = point.outcome.replace(state=state, workers=tuple(workers), intervals=intervals)
    return without_verdicts(point.replace(outcome=outcome))


def _with(point: Point, client: ClientOutcome) -> Point:
    clients = tuple(client if one.client == client.client else one for one in point.clients)
    return point.replace(clients=clients)


def _until_loss(intervals: Sequence[IntervalRecord]) -> UntilLoss:
    counted = [interval for interval in intervals if not interval.ramp]
    names = sorted({name for interval in counted for name in interval.operations})
    return UntilLoss(
        intervals=len(counted),
        elapsed_ns=sum(interval.end_ns - interval.start_ns for interval in counted),
        operations={
            name: merge_kinds([one.operations[name] for one in counted if name in one.operations]) for name in names
        },
    )

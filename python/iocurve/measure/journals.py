"""The local files of agents: added to the result of the other clients, or made a result where there is none."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from iocurve.analysis.limits import with_verdicts, without_verdicts
from iocurve.engine.outcome import CpuTime, IntervalOutcome, IntervalRecord, Outcome, WorkerOutcome
from iocurve.engine.plan import Group, NfsEngine, NfsMetadataEngine, Worker
from iocurve.foundation.errors import ResultError
from iocurve.foundation.units import counted, format_duration
from iocurve.measure.campaign import reason, started
from iocurve.measure.deployment import by_place
from iocurve.measure.group.merge import placed_worker
from iocurve.measure.records import RECORDS, TASKS, ClosedRecord, EndRecord, Task
from iocurve.result.course import group_intervals, of_outcome, with_others
from iocurve.result.document import ClientOutcome, HostFacts, Point, Result, TargetFacts, UntilLoss
from iocurve.result.summary import live_kind, merge_kinds
from iocurve.targets.nfs_url import nfs_address


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
            task = TASKS.decode(first)
            records = [RECORDS.decode(line) for line in _whole(lines)]
        except ValueError as error:
            raise ResultError(f"{path} is not the local file of an agent: {error}") from None
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
        text = "an agent was lost; its records were added later, and what was to follow was not measured"
        result = result.replace(incomplete_reason=text)
    return with_verdicts(result)


def recovered(files: Sequence[tuple[str, HostFacts, bytes]]) -> Result:
    """A result of runs whose program was killed, one point each. Raises ``ResultError`` for a file that is none.

    ``files`` has each local file with the name and the facts of its machine. A client that was killed, too, has in the
    totals what it had measured in whole intervals.
    """
    runs: dict[str, list[tuple[HostFacts, Journal]]] = {}
    for name, host, text in files:
        journal = Journal.parsed(Path(name), text)
        runs.setdefault(journal.task.run, []).append((host, journal))
    points = [_recovered_point(sorted(each, key=lambda one: one[1].task.client)) for each in runs.values()]
    workers = [worker for point in points for group in point.plan.groups for worker in group.workers]
    nfs = [worker.engine for worker in workers if isinstance(worker.engine, NfsEngine | NfsMetadataEngine)]
    addresses = {nfs_address(engine.mount) for engine in nfs}
    unknown = TargetFacts(kind="unknown", address="the plan has its paths")
    target = TargetFacts(kind="nfs", address=addresses.pop()) if len(addresses) == 1 else unknown
    result = started("recovered", "recovered", target, with_ceiling=False)
    why = f"the program of the run was killed; {counted(len(files), 'local file')} of agents made this result"
    return with_verdicts(result.replace(points=tuple(points)).ended("failed", why))


def _recovered_point(files: Sequence[tuple[HostFacts, Journal]]) -> Point:
    task = files[0][1].task
    workers = {at: worker for _, one in files for at, worker in _workers_by_position(one).items()}
    numbers = sorted({group for group, _ in workers})
    # Workers of clients whose file is missing leave no gap.
    ordered = [[at for at in sorted(workers) if at[0] == number] for number in numbers]
    positions = {at: (group, place) for group, each in enumerate(ordered) for place, at in enumerate(each)}
    groups = tuple(Group(workers=tuple(workers[at] for at in each)) for each in ordered)
    outcomes = [
        placed_worker(worker, positions[by_place(one.task.plan, one.task.positions)[worker.group, worker.worker]], 0)
        for _, one in files
        for worker in (one.end.outcome.workers if one.end else _until_cut(one))
    ]
    outcomes.sort(key=lambda worker: (worker.group, worker.worker))
    outcome = Outcome(state="interrupted", workers=tuple(outcomes), intervals=group_intervals(outcomes))
    clients = tuple(_recovered_client(host, one) for host, one in files)
    plan = task.plan.replace(groups=groups)
    return Point(name=task.point, family=task.point, axes={}, plan=plan, outcome=outcome, clients=clients)


def _workers_by_position(journal: Journal) -> dict[tuple[int, int], Worker]:
    plan = journal.task.plan
    places = by_place(plan, journal.task.positions)
    return {at: plan.groups[group].workers[place] for (group, place), at in places.items()}


def _recovered_client(host: HostFacts, journal: Journal) -> ClientOutcome:
    end = journal.end
    measured = sum(one.end_ns - one.start_ns for one in journal.intervals if not one.ramp)
    how = "stopped when it heard no more of its program" if end else "was killed"
    return ClientOutcome(
        client=journal.task.client,
        name=str(journal.path),
        host=host,
        state="interrupted",
        reason=f"{how} after {format_duration(measured)} of measuring",
        machine=end.machine if end else None,
        run=journal.task.run,
        stalls=end.outcome.stalls if end else (),
    )


def _until_cut(journal: Journal) -> list[WorkerOutcome]:
    """The intervals of a client as one worker for each group: a client merges its workers in each interval."""
    found = []
    for number, group in enumerate(journal.task.plan.groups):
        own = [one for one in journal.intervals if one.group == number]
        measured = [one for one in own if not one.ramp]
        if not measured:
            continue
        first, end_ns = group.workers[0], measured[-1].end_ns
        worker = WorkerOutcome(
            group=number,
            worker=0,
            job=first.job,
            jobnum=first.jobnum,
            report_group=first.report_group,
            engine="",
            state="interrupted",
            error=None,
            window_start_ns=measured[0].start_ns,
            window_end_ns=end_ns,
            drained_ns=end_ns,
            drained_operations=0,
            operations=_until_loss(measured).operations,
            cpu=CpuTime(user_ns=0, system_ns=0, context_switches=0),
            depth_levels={},
            latency_depth=None,
            read_back_ns=0,
            reconnects=0,
            labels=(),
            intervals=tuple(map(_interval_of_worker, own)),
            steady_state=None,
            log=None,
        )
        found.append(worker)
    return found


def _interval_of_worker(one: IntervalRecord) -> IntervalOutcome:
    kinds = {name: live_kind([kind]) for name, kind in one.operations.items()}
    return IntervalOutcome(index=one.index, ramp=one.ramp, start_ns=one.start_ns, end_ns=one.end_ns, operations=kinds)


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
        raise ResultError(f"{journal.path}: the records of agent {client.name} are in the result already")
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

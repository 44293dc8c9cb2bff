"""fio's client form: the output of each host, and "All clients" with the totals of all hosts and all jobs.

fio 3.33 prints the same lines; its own "All clients" is missing where a job file has several sections.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from iocurve.dialects.fio.invocation import FioCommand
from iocurve.dialects.fio.output.job_stats import JobStats, job_stats
from iocurve.engine.outcome import WorkerOutcome
from iocurve.result.document import ClientOutcome, Point, Result

ALL_CLIENTS = "All clients"


def clients(result: Result) -> Sequence[ClientOutcome]:
    """The hosts, in the order of the command line; empty without ``--client``."""
    return result.points[0].clients if result.points else ()


def of_client(prepared: FioCommand, result: Result, client: int) -> Result:
    """The result of one host, as if it had run alone."""
    (point,) = result.points
    return _with_workers(result, point, [one for one in _workers(prepared, point) if _client(point, one[0]) == client])


def all_clients(prepared: FioCommand, result: Result) -> tuple[FioCommand, Result]:
    """One reported job of all hosts and jobs."""
    (point,) = result.points
    first = replace(prepared.sections[0], name=ALL_CLIENTS, description=None)
    group = replace(prepared.report_groups[0], section=0, number=0, workers=len(point.outcome.workers))
    together = replace(prepared, sections=(first, *prepared.sections[1:]), report_groups=(group,))
    workers = [(worker, changed.replace(report_group=0)) for worker, changed in _workers(prepared, point)]
    return together, _with_workers(result, point, workers)


def total(prepared: FioCommand, result: Result) -> JobStats | None:
    """The figures of all hosts; None if nothing was measured or there is only one host, as in fio."""
    if len(clients(result)) < 2:
        return None
    stats = job_stats(*all_clients(prepared, result))
    return stats[0] if stats else None


def _workers(prepared: FioCommand, point: Point) -> list[tuple[WorkerOutcome, WorkerOutcome]]:
    """Each worker, and the same at its place in the plan of one host."""
    hosts = range(len(point.clients))
    places = [
        [place for client in hosts for place in range(len(group.workers)) if prepared.runs_on(number, place, client)]
        for number, group in enumerate(prepared.plan.groups)
    ]
    return [(worker, worker.replace(worker=places[worker.group][worker.worker])) for worker in point.outcome.workers]


def _client(point: Point, worker: WorkerOutcome) -> int:
    return point.plan.groups[worker.group].workers[worker.worker].client


def _with_workers(result: Result, point: Point, workers: Sequence[tuple[WorkerOutcome, WorkerOutcome]]) -> Result:
    outcome = point.outcome.replace(workers=tuple(changed for _, changed in workers))
    return result.replace(points=(point.replace(outcome=outcome),))

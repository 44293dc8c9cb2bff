"""Groups of workers that start together, and groups that are reported as one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from iocurve.engine import plan as planned
from iocurve.job.model import Section


@dataclass(frozen=True)
class ReportGroup:
    """Workers that are reported as one; the index of the group is its number in the plan."""

    section: int
    """Index of the group's first section, whose settings describe the group."""
    number: int
    """fio's groupid, which counts barriers and new groups."""
    workers: int


def start_groups(sections: Sequence[Section], workers: Sequence[Sequence[planned.Worker]]) -> tuple[planned.Group, ...]:
    """Starts a new group at each barrier; waits for jobs of earlier groups are dropped, because those have ended."""
    groups: list[list[planned.Worker]] = []
    names: set[str] = set()
    for section, members in zip(sections, workers, strict=True):
        if section.report.barrier or not groups:
            groups.append([])
            names = set()
        names.update(worker.job for worker in members)
        groups[-1].extend(_waiting(worker, names) for worker in members)
    return tuple(planned.Group(workers=tuple(group)) for group in groups if group)


def _waiting(worker: planned.Worker, names: set[str]) -> planned.Worker:
    waits = tuple(name for name in worker.wait_for if name in names)
    return worker if waits == worker.wait_for else worker.replace(wait_for=waits)


def report_groups(sections: Sequence[Section]) -> tuple[list[ReportGroup], Iterator[int]]:
    """Joins neighbouring workers that ask for it into report groups, up to a barrier or a new group.

    Returns the groups, and the number of each worker's group.
    """
    groups: list[ReportGroup] = []
    numbers: list[int] = []
    number = 0
    for index, section in enumerate(sections):
        for jobnum in range(section.numjobs):
            if jobnum == 0 and index and (section.report.barrier or section.report.new_report_group):
                number += 1
            if groups and section.report.report_as_group and groups[-1].number == number:
                last = groups[-1]
                groups[-1] = ReportGroup(last.section, number, last.workers + 1)
            else:
                groups.append(ReportGroup(index, number, 1))
            numbers.append(len(groups) - 1)
    return groups, iter(numbers)

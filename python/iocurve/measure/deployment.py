"""Divides a plan among the agents."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from functools import partial

import msgspec
from msgspec.structs import replace

from iocurve.engine.derived import on_clients
from iocurve.engine.plan import FilePlan, Group, Layout, Plan, Worker

SEED_STEP = 0x9E37_79B9_7F4A_7C15
"""Distance of the seeds of clients that run the same plan (2^64 divided by the golden ratio)."""

Rename = Callable[[FilePlan, int], FilePlan]
"""The file of a client (from 0) in place of a file of the plan."""


RunsOn = Callable[[int, int, int], bool]
"""True if a worker of a group, both by their number, runs on a client."""


class Part(msgspec.Struct, frozen=True):
    """The part of a plan that one client runs."""

    client: int
    plan: Plan
    positions: tuple[tuple[int, int], ...]
    """Group and worker in the whole plan, for each worker of the part in its order."""
    groups: tuple[int, ...]
    """Index in the whole plan of each group."""

    def paths(self) -> set[str]:
        """Paths of the files that the part uses."""
        workers = [worker for group in self.plan.groups for worker in group.workers]
        return {file.path for worker in workers for file in worker.files}

    def with_files(self, changed: Callable[[FilePlan], FilePlan]) -> Part:
        """The same part with other files."""
        groups = tuple(
            group.replace(
                workers=tuple(worker.replace(files=tuple(map(changed, worker.files))) for worker in group.workers)
            )
            for group in self.plan.groups
        )
        return replace(self, plan=self.plan.replace(groups=groups))

    def by_place(self) -> dict[tuple[int, int], tuple[int, int]]:
        """Group and worker in the whole plan, by group and worker in the part."""
        return by_place(self.plan, self.positions)


def by_place(plan: Plan, positions: Sequence[tuple[int, int]]) -> dict[tuple[int, int], tuple[int, int]]:
    """Positions in the order of the workers of a plan, by group and worker in that plan."""
    places = [(number, place) for number, group in enumerate(plan.groups) for place in range(len(group.workers))]
    return dict(zip(places, positions, strict=True))


_LAID_OUT_BEFORE: Mapping[Layout, Layout] = {"new": "fill", "recreate": "fill", "recreate_reserve": "reserve"}
"""The layout of a file that another client has laid out: it is there, and must not be emptied."""


def parts(plan: Plan) -> list[Part]:
    """The parts of all clients that have workers. A file that several use is made by the first of them."""
    clients = {worker.client for group in plan.groups for worker in group.workers}
    found: list[Part] = []
    made: set[str] = set()
    for client in sorted(clients):
        part = _part(plan, client)
        found.append(part.with_files(partial(_laid_out, frozenset(made))))
        made |= part.paths()
    return found


def _laid_out(made: Set[str], file: FilePlan) -> FilePlan:
    return file.replace(layout=_LAID_OUT_BEFORE.get(file.layout, file.layout)) if file.path in made else file


def _part(plan: Plan, client: int) -> Part:
    positions = tuple(
        (number, place)
        for number, group in enumerate(plan.groups)
        for place, worker in enumerate(group.workers)
        if worker.client == client
    )
    numbers = tuple(dict.fromkeys(number for number, _ in positions))
    groups = tuple(
        Group(workers=tuple(worker for worker in plan.groups[number].workers if worker.client == client))
        for number in numbers
    )
    return Part(client, plan.replace(groups=groups), positions, numbers)


def same_file(file: FilePlan, _client: int) -> FilePlan:
    """All clients use the same path."""
    return file


def everywhere(_group: int, _worker: int, _client: int) -> bool:
    """Every client runs every worker."""
    return True


def replicated(plan: Plan, clients: int, rename: Rename = same_file, runs_on: RunsOn = everywhere) -> Plan:
    """The same plan on each of several clients, with different offsets on each."""
    if clients == 1 and rename is same_file:
        return plan
    groups = tuple(
        group.replace(workers=tuple(_copies(group.workers, clients, rename, partial(runs_on, number))))
        for number, group in enumerate(plan.groups)
    )
    return plan.replace(groups=groups)


def assigned(plan: Plan, clients: Sequence[int]) -> Plan:
    """A plan of one group, with the client of each worker."""
    (group,) = plan.groups
    return plan.replace(groups=(on_clients(group, clients),))


def _copies(
    workers: Sequence[Worker], clients: int, rename: Rename, runs_on: Callable[[int, int], bool]
) -> list[Worker]:
    return [
        worker.replace(
            client=client,
            seed=(worker.seed + client * SEED_STEP) % 2**64,
            files=tuple(rename(file, client) for file in worker.files),
        )
        for client in range(clients)
        for number, worker in enumerate(workers)
        if runs_on(number, client)
    ]

"""Opens agents on a Ray cluster: one actor on each node that offers the resource ``load_client``."""

from __future__ import annotations

import asyncio
import logging
import os
import shlex
import socket
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from iocurve._native import VERSION
from iocurve.cluster import nodes, ray_options
from iocurve.cluster.nodes import ANSWER_S, REACH_S, RESOURCE, ClusterNode
from iocurve.cluster.ray_options import ENVIRONMENT
from iocurve.cluster.started import StartedCluster
from iocurve.foundation.errors import (
    Diagnostic,
    DialectError,
    IocurveError,
    PlanError,
    RunError,
    argument_of,
    option,
    options_written_as,
)
from iocurve.measure import interrupts
from iocurve.measure.client import LoadClient
from iocurve.measure.group import ClientGroup, loop_in_thread
from iocurve.measure.group.barrier import Tell, ignored
from iocurve.measure.group.client import ClientLostError, Link, Member
from iocurve.measure.machines import CONTEXT_MACHINES
from iocurve.measure.records import Introduction

if TYPE_CHECKING:
    from types import ModuleType

    from ray.actor import ActorClass
    from ray.util.placement_group import PlacementGroup

AUTO_CLUSTER = "auto"
"""The cluster that this machine belongs to."""
CONCURRENT_CALLS = 8
"""Calls that a client answers at once: the stream of records, and short calls during it."""
NODES_S = 30.0
"""Time to wait for nodes that are about to join."""
JOIN_S = 20.0
"""Time in which this process must have joined the cluster."""
PLACE_S = 15.0
"""Time in which all agents must have been reserved."""
BUSY_S = 1.5
"""A run that has just ended gives its agents back within this time."""
INTRODUCE_S = 60.0
"""Time in which a client must have loaded iocurve."""
CHECK_S = 30.0
"""The same for a check, which judges each client by itself."""
RAY_CURRENT = Path("/tmp/ray/ray_current_cluster")
"""The address of the cluster that ``ray start`` started on this machine."""
SHOWN_MAX = 80
"""Characters of a command line that another run shows."""


@contextmanager
def opened(
    address: str | None,
    clients: int | None,
    on: Sequence[str] = (),
    *,
    allow_missing: bool = False,
    missing: Sequence[str] = (),
    tell: Tell = ignored,
    stops_on_loss: bool = False,
) -> Iterator[ClientGroup]:
    """Agents on a cluster while the context lasts.

    ``address`` is HOST:PORT of the head; None or ``auto`` is the cluster of this machine.
    ``clients`` is None for one on every node. ``on`` lists the nodes (hostname or address) in the order of the clients.
    With ``allow_missing`` the agents that are there suffice. The group says which are missing; ``missing`` are
    known to be. ``tell`` and ``stops_on_loss`` are those of ``ClientGroup``.
    Raises ``RunError`` where the cluster cannot be reached, is busy or lacks agents, ``PlanError`` where versions
    differ.
    """
    with _reached(address) as (head, expected):
        # Names are enough to know what is missing.
        wanted = ({}, len(on)) if on else (expected, clients)
        found, absent = _awaited(head, *wanted, 0 if allow_missing else NODES_S)
        if absent and not (allow_missing and found):
            raise RunError(_lacking(absent, len(found)))
        chosen = _chosen(found, clients, on, expected)
        with _joined(head) as ray, loop_in_thread() as loop, _reserved(ray, chosen) as links:
            members = _introduced(links, asyncio.run_coroutine_threadsafe(_introductions(links), loop).result())
            framework = f"Ray {ray.__version__}"
            yield ClientGroup(members, loop, framework, (*missing, *absent), tell, stops_on_loss=stops_on_loss)


@contextmanager
def load_clients(on: str = "auto", clients: int | None = None) -> Iterator[int]:
    """Runs jobs, scenarios and searches that start in the block on the agents of a Ray cluster.

    Gives the number of clients. ``on`` is HOST:PORT of the cluster's head, or ``auto`` for the cluster of this machine;
    ``clients`` is None for one on every node. Files, workers and queue depth are for each client; all start at the same
    instant. Raises ``RunError`` where the cluster cannot be reached or has too few nodes, ``PlanError`` where versions
    differ.
    """
    if clients is not None and clients < 1:
        raise DialectError([Diagnostic(f"clients={clients}: choose at least 1")])
    with ExitStack() as stack:
        with options_written_as(argument_of):
            group = stack.enter_context(opened(on, clients))
        token = CONTEXT_MACHINES.set(group)
        try:
            yield group.count
        finally:
            CONTEXT_MACHINES.reset(token)


def load_client_addresses(address: str, clients: int | None, *, allow_missing: bool) -> list[str]:
    """The addresses of the agents of a cluster. Raises as ``opened``."""
    with _reached(address) as (head, expected):
        found, absent = _awaited(head, expected, clients, 0 if allow_missing else NODES_S)
        if absent and not (allow_missing and found):
            raise RunError(_lacking(absent, len(found)))
        return [node.address for node in found[:clients]]


@contextmanager
def opened_each(
    address: str | None, clients: int | None
) -> Iterator[tuple[ClientGroup, dict[str, str], tuple[str, ...]]]:
    """The agents that answer, the reasons of those that do not by their names, and the missing ones.

    Each is asked by itself, also while a run has the cluster. Raises ``RunError`` where the head does not answer.
    """
    with _reached(address) as (head, expected):
        found, missing = _awaited(head, expected, clients, 0)
        with _joined(head) as ray, loop_in_thread() as loop, _guests(ray, found) as links:
            asked = asyncio.run_coroutine_threadsafe(_introductions(links, CHECK_S), loop).result()
            failed = {link.name: one for link, one in zip(links, asked, strict=True) if isinstance(one, str)}
            _name_by_hostname(links, asked)
            pairs = zip(links, asked, strict=True)
            members = [Member(link, one) for link, one in pairs if not isinstance(one, str)]
            yield ClientGroup(members, loop, f"Ray {ray.__version__}"), failed, missing


@contextmanager
def _reached(address: str | None) -> Iterator[tuple[str, Mapping[str, str]]]:
    """The head's HOST:PORT, and the agents that the cluster must have: addresses by the names of machines."""
    known = StartedCluster.known()
    asked = address or AUTO_CLUSTER
    if known and known.alive and asked in (AUTO_CLUSTER, known.address):
        variables, head, expected = known.environment(), known.address, known.hosts
    else:
        variables, head, expected = ENVIRONMENT | ray_options.user_environment(os.environ), _head(asked), {}
    with nodes.messages_kept(), ray_options.applied(variables):
        nodes.load_ray()
        yield head or _head_here(), expected


def _no_address(address: str, why: str) -> DialectError:
    return DialectError([Diagnostic(f"{option('on')} {address}: {why}")])


def _head(address: str) -> str:
    """HOST:PORT if a head listens there, nothing for ``auto``. Raises ``RunError``; ``DialectError`` for no address."""
    if address == AUTO_CLUSTER:
        return ""
    if address.startswith("ray://"):
        remedy = f"run iocurve on a node of the cluster, with {option('on')} auto or {option('on')} HEAD:6379"
        raise _no_address(address, f"Ray Client does not stream records; {remedy}")
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        raise _no_address(address, "name auto, or the head as HOST:PORT, such as 10.0.0.4:6379")
    try:
        # Ray itself tries for minutes.
        socket.create_connection((host, int(port)), REACH_S).close()
    except (OSError, OverflowError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise RunError(_unreachable(f"there is no cluster at {address} ({reason})")) from None
    return address


def _head_here() -> str:
    """The head of the cluster that this machine belongs to. Raises ``RunError``."""
    from ray._private.services import canonicalize_bootstrap_address

    try:
        found = canonicalize_bootstrap_address(AUTO_CLUSTER)
    except Exception:  # noqa: BLE001 - Ray fails in many ways
        raise RunError(_unreachable("this machine is in no cluster")) from None
    return _head(str(found))


def is_there() -> bool:
    """True if this machine belongs to a cluster, as Ray itself finds one. Ray is not loaded: it would keep its mode."""
    known = StartedCluster.known()
    return bool((known and known.alive) or os.environ.get("RAY_ADDRESS")) or RAY_CURRENT.exists()


def _unreachable(what: str) -> str:
    return (
        f"{what}; iocurve cluster up --hosts vm1,vm2 starts one over ssh, iocurve cluster up --local 3 "
        "tries it here, iocurve cluster commands prints how to start one without ssh"
    )


def _unusable(head: str, why: str) -> str:
    return f"the cluster at {head} cannot be used: {why}; iocurve cluster down ends one that iocurve started"


def _awaited(
    head: str, expected: Mapping[str, str], clients: int | None, seconds: float
) -> tuple[list[ClusterNode], tuple[str, ...]]:
    """The agents that answer, and those that do not after that time, or their number where no name is known.

    Raises ``RunError`` if the head does not answer.
    """
    until = time.monotonic() + seconds
    while True:
        try:
            found = nodes.listed(head)
        except RunError as error:
            raise RunError(_unusable(head, str(error))) from None
        if any(not (node.answers or node.is_load_client) for node in found):
            raise RunError(_unusable(head, f"a daemon of the head does not answer for {ANSWER_S:g} s"))
        there = [node for node in found if node.is_load_client and node.answers]
        missing = _missing(found, expected, clients)
        if (there and not missing) or time.monotonic() >= until:
            return there, missing
        time.sleep(0.5)


def _missing(found: Sequence[ClusterNode], expected: Mapping[str, str], clients: int | None) -> tuple[str, ...]:
    known = dict(expected) or {node.address: node.address for node in found if node.is_load_client}
    answering = {node.address for node in found if node.is_load_client and node.answers}
    silent = {node.address for node in found if not node.answers}
    if clients is not None and len(answering) >= clients:
        return ()
    absent = [
        (name if name == at else f"{name} ({at})") + (" does not answer" if at in silent else "")
        for name, at in known.items()
        if at not in answering
    ]
    further = (clients or 1) - len(known)
    return (*absent, *([f"{further} of {clients or 1}"] if further > 0 else []))


def _lacking(missing: Sequence[str], found: int) -> str:
    return (
        f"agents are missing: {', '.join(missing)}; the cluster has {found}. iocurve cluster check lists them; "
        "--allow-missing measures with those that are there"
    )


def _chosen(
    found: Sequence[ClusterNode], clients: int | None, on: Sequence[str], expected: Mapping[str, str]
) -> list[ClusterNode]:
    """The nodes of these names: hostnames, addresses, or the names by which iocurve started them."""
    if not on:
        return list(found[:clients])
    by_address = {node.address: node for node in found}
    by_name = {node.hostname: node for node in found} | by_address
    by_name |= {name: by_address[at] for name, at in expected.items() if at in by_address}
    if missing := [name for name in on if name not in by_name]:
        there = ", ".join(name for name, at in expected.items() if at in by_address) or ", ".join(by_address)
        raise PlanError([Diagnostic(f"the cluster has no agent '{name}'; it has {there}") for name in missing])
    return [by_name[name] for name in on]


@contextmanager
def _joined(head: str) -> Iterator[ModuleType]:
    """The module ``ray``, of which this process is a driver. Raises ``RunError``."""
    ray = nodes.load_ray()
    logging.getLogger("ray").setLevel(logging.ERROR)
    # Ray prints errors of its daemons to standard output, whatever log_to_driver says.
    ray._private.worker.print_to_stdstream = lambda *_, **__: None
    failed: Exception | None = RunError(f"a daemon of the head does not answer for {JOIN_S:g} s")

    def join() -> None:
        nonlocal failed
        try:
            ray.init(address=head, log_to_driver=False, logging_level=logging.ERROR, configure_logging=False)
            failed = None
        except Exception as error:  # noqa: BLE001 - Ray fails in many ways
            failed = error

    # Ray waits for minutes for a daemon that has died.
    with interrupts.restored():
        thread = threading.Thread(target=join, daemon=True)
        thread.start()
        thread.join(JOIN_S)
    if failed:
        why = str(failed) if isinstance(failed, RunError) else nodes.reason_of(failed)
        raise RunError(_unusable(head, why))
    try:
        yield ray
    finally:
        with suppress(Exception):
            ray.shutdown()


@contextmanager
def _reserved(ray: ModuleType, chosen: Sequence[ClusterNode]) -> Iterator[list[RayLink]]:
    """An agent on each node, all or none. Raises ``RunError``, at once if another run has them."""
    from ray.util.placement_group import placement_group, remove_placement_group
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

    until = time.monotonic() + BUSY_S
    while (busy := _other_run()) and time.monotonic() < until:
        time.sleep(0.1)
    if busy:
        raise RunError(f"the cluster is busy with {busy}; a cluster runs one load at a time")
    bundles = [{RESOURCE: 1, f"node:{node.address}": 0.001} for node in chosen]
    group = placement_group(bundles, strategy="STRICT_SPREAD", name=_own_run())
    links: list[RayLink] = []
    try:
        _wait_for_group(group)
        remote = _remote(ray, {RESOURCE: 1})
        for number, node in enumerate(chosen):
            place = PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=number)
            actor = remote.options(scheduling_strategy=place).remote(is_under_daemons=True)
            links.append(RayLink(ray, actor, node.address))
        yield links
    finally:
        _end(links)
        with suppress(Exception):
            remove_placement_group(group)


def _wait_for_group(group: PlacementGroup) -> None:
    """Returns once all agents are reserved. Raises ``RunError``."""
    until = time.monotonic() + PLACE_S
    while not group.wait(1):
        if busy := _other_run(group):
            raise RunError(f"the cluster is busy with {busy}; a cluster runs one load at a time")
        if time.monotonic() > until:
            raise RunError(
                f"the agents could not be reserved in {PLACE_S:g} s: a machine has gone; iocurve cluster check "
                "says which"
            )


@contextmanager
def _guests(ray: ModuleType, found: Sequence[ClusterNode]) -> Iterator[list[RayLink]]:
    """A process on each node that takes no agent from a run."""
    links = [
        RayLink(ray, _remote(ray, {f"node:{node.address}": 0.001}).remote(is_under_daemons=True), node.address)
        for node in found
    ]
    try:
        yield links
    finally:
        _end(links)


def _remote(ray: ModuleType, resources: Mapping[str, float]) -> ActorClass:
    return ray.remote(
        num_cpus=0, resources=dict(resources), max_restarts=0, max_task_retries=0, max_concurrency=CONCURRENT_CALLS
    )(LoadClient)


def _end(links: Sequence[RayLink]) -> None:
    for link in links:
        link.abandon()


def _own_run() -> str:
    words = shlex.join(["iocurve", *sys.argv[1:]])
    shown = words if len(words) <= SHOWN_MAX else f"{words[: SHOWN_MAX - 1]}…"
    return f"'{shown}' (process {os.getpid()} of {socket.gethostname()})"


def _other_run(own: PlacementGroup | None = None) -> str | None:
    """The run that has the agents now."""
    from ray.util.placement_group import placement_group_table

    table = placement_group_table().values()
    mine = own.id.hex() if own else ""
    return next((one["name"] for one in table if one["state"] == "CREATED" and one["placement_group_id"] != mine), None)


async def _introductions(links: Sequence[RayLink], seconds: float = INTRODUCE_S) -> list[Introduction | str]:
    """Each client's introduction, or why there is none."""
    return await asyncio.gather(*(_introduction(link, seconds) for link in links))


async def _introduction(link: RayLink, seconds: float) -> Introduction | str:
    try:
        return Introduction.from_json(await asyncio.wait_for(link.call("introduce"), seconds))
    except TimeoutError:
        return f"it does not answer for {seconds:g} s"
    except (ClientLostError, IocurveError) as error:
        return str(error)


def _introduced(links: Sequence[RayLink], asked: Sequence[Introduction | str]) -> list[Member]:
    """Members with names. Raises ``RunError`` where a client does not start, ``PlanError`` where versions differ."""
    if failed := [f"{link.name}: {one}" for link, one in zip(links, asked, strict=True) if isinstance(one, str)]:
        raise RunError("".join([f"{len(failed)} of {len(links)} agents do not start:", *map("\n  ".__add__, failed)]))
    introductions = [one for one in asked if not isinstance(one, str)]
    own = VERSION
    other = [
        Diagnostic(
            f"{link.name} has iocurve {one.iocurve}, this machine has {own}", hint="install the same version on all"
        )
        for link, one in zip(links, introductions, strict=True)
        if one.iocurve != own
    ]
    if other:
        raise PlanError(other)
    _name_by_hostname(links, asked)
    return [Member(link, one) for link, one in zip(links, introductions, strict=True)]


def _name_by_hostname(links: Sequence[RayLink], asked: Sequence[Introduction | str]) -> None:
    """Names clients by their hostnames where these differ."""
    hostnames = ["" if isinstance(one, str) else one.host.hostname for one in asked]
    for link, hostname in zip(links, hostnames, strict=True):
        if hostname and hostnames.count(hostname) == 1:
            link.name = hostname


class RayLink(Link):
    """The way to an agent that is an actor (``Link``)."""

    def __init__(self, ray: ModuleType, actor: Any, address: str) -> None:
        self._ray, self._actor, self._address, self._name = ray, actor, address, address

    @property
    def name(self) -> str:
        """Hostname of the client, or its address where several share a hostname."""
        return self._name

    @name.setter
    def name(self, name: str) -> None:
        self._name = name

    async def call(self, method: str, *arguments: object) -> Any:
        """Calls a method of the client."""
        try:
            return await getattr(self._actor, method).remote(*arguments)
        except Exception as error:  # noqa: BLE001 - an unknown error is raised as it is
            raise _translated(error, self._address) from None

    async def stream(self, start_ns: int) -> AsyncIterator[bytes]:
        """The messages of ``LoadClient.run``."""
        messages = self._actor.run.options(num_returns="streaming").remote(start_ns)
        try:
            async for message in messages:
                yield await message
        except Exception as error:  # noqa: BLE001 - an unknown error is raised as it is
            raise _translated(error, self._address) from None

    def abandon(self) -> None:
        """Kills the actor."""
        with suppress(Exception):
            self._ray.kill(self._actor)


_LOSSES = {
    "ActorDiedError": "its process has ended",
    "ActorUnavailableError": "its connection has ended",
    "NodeDiedError": "its machine has left the cluster",
}
"""The meaning of Ray's errors."""


def _translated(error: Exception, address: str) -> Exception:
    """The exception of the client at an address, or ``ClientLostError`` where the client is gone."""
    from ray.exceptions import RayError, RayTaskError

    if isinstance(error, RayTaskError):
        cause = error.cause
        return cause if isinstance(cause, IocurveError) else RunError(f"internal error on an agent: {cause!r}")
    if isinstance(error, RayError):
        name, known = type(error).__name__, StartedCluster.known()
        if cause := known and known.ended_connection(address):
            return ClientLostError(cause)
        return ClientLostError(_LOSSES.get(name) or f"{name}: {error}")
    return error

"""Opens load clients on a Ray cluster: one actor on each node that offers the resource ``load_client``."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager, suppress
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, cast

from iocurve.cluster.ray_options import ENVIRONMENT, authentication, state_directory
from iocurve.errors import Diagnostic, IocurveError, PlanError, RunError
from iocurve.measure import interrupts
from iocurve.measure.client import LoadClient
from iocurve.measure.group import ClientGroup, loop_in_thread
from iocurve.measure.group.link import ClientLostError, Link, Member
from iocurve.measure.records import Introduction
from iocurve.result.version import iocurve_version

if TYPE_CHECKING:
    from types import ModuleType

Node = dict[str, Any]
"""A node as Ray describes it."""
AUTO_CLUSTER = "auto"
"""The cluster that this machine belongs to."""
RESOURCE = "load_client"
"""Each node offers one of it; the node of the head program offers none unless it is to generate load, too."""
CONCURRENT_CALLS = 8
"""Calls that a client answers at once: the stream of records, and short calls during it."""
NODES_S = 30
"""Time to wait for nodes that are about to join."""
REACH_S = 10
"""Time in which the head must accept a connection."""
INTRODUCE_S = 60
"""Time in which a client must have loaded iocurve."""


@contextmanager
def opened(address: str | None, clients: int | None, on: Sequence[str] = ()) -> Iterator[ClientGroup]:
    """Load clients on a cluster while the context lasts.

    ``address`` is HOST:PORT of the head; None or ``auto`` is the cluster of this machine.
    ``clients`` is None for one on every node. ``on`` lists the nodes (hostname or address) in the order of the clients.
    Raises ``RunError`` where the cluster cannot be reached or has too few nodes, ``PlanError`` where versions differ.
    """
    with _messages_of_ray_kept():
        ray = connect(address or AUTO_CLUSTER)
        try:
            with _on(ray, clients, on) as group:
                yield group
        finally:
            with suppress(Exception):
                ray.shutdown()


@contextmanager
def _on(ray: ModuleType, clients: int | None, on: Sequence[str]) -> Iterator[ClientGroup]:
    with loop_in_thread() as loop, _actors(ray, clients, on) as links:
        members = asyncio.run_coroutine_threadsafe(_introduced(links), loop).result()
        yield ClientGroup(members, loop, f"Ray {ray.__version__}")


@contextmanager
def _messages_of_ray_kept() -> Iterator[None]:
    """Sends to ``ray.log`` in the state directory whatever Ray writes to standard error past Python.

    Whoever runs a measurement hears of a lost machine from iocurve.
    """
    if sys.__stderr__ is None or sys.stderr is not sys.__stderr__:
        yield
        return
    state_directory().mkdir(parents=True, exist_ok=True)
    sys.__stderr__.flush()
    with (state_directory() / "ray.log").open("w") as log, os.fdopen(os.dup(2), "w", buffering=1) as shown:
        os.dup2(log.fileno(), 2)
        sys.stderr = shown
        try:
            yield
        finally:
            sys.stderr = sys.__stderr__
            os.dup2(shown.fileno(), 2)


def connect(address: str) -> ModuleType:
    """Connects this process to a cluster; gives the module ``ray``. Raises ``RunError``."""
    if address.startswith("ray://"):
        raise RunError(
            f"--on {address}: Ray Client does not stream records; run iocurve on a node of the cluster, "
            "with --on auto or --on HEAD:6379"
        )
    _require_listener(address)
    os.environ.update(ENVIRONMENT | authentication(os.environ))
    ray = load_ray()
    try:
        with interrupts.restored():
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, configure_logging=False)
    except Exception as error:  # noqa: BLE001 - Ray fails in many ways
        raise RunError(_unreachable(address, error)) from None
    return ray


def _require_listener(address: str) -> None:
    """Ray itself tries for minutes. Raises ``RunError`` if nothing listens at HOST:PORT."""
    if address == AUTO_CLUSTER:
        return
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        raise RunError(f"--on {address}: name auto, or the head as HOST:PORT, such as 10.0.0.4:6379")
    try:
        socket.create_connection((host, int(port)), REACH_S).close()
    except (OSError, OverflowError) as error:
        raise RunError(_unreachable(address, error)) from None


def load_ray() -> ModuleType:
    """The module ``ray``. Raises ``RunError`` if it is not installed."""
    try:
        import ray
    except ImportError:
        raise RunError("many machines need Ray, which is not installed: pip install 'iocurve[scale]'") from None
    return cast("ModuleType", ray)


def _unreachable(address: str, error: Exception) -> str:
    where = "this machine is in no cluster" if address == AUTO_CLUSTER else f"there is no cluster at {address}"
    first = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return f"{where} ({first}); iocurve cluster commands prints how to start one, iocurve cluster up --local 3 tries it"


@contextmanager
def _actors(ray: ModuleType, clients: int | None, on: Sequence[str]) -> Iterator[list[RayLink]]:
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    remote = ray.remote(
        num_cpus=0, resources={RESOURCE: 1}, max_restarts=0, max_task_retries=0, max_concurrency=CONCURRENT_CALLS
    )(LoadClient)
    nodes = _chosen(_nodes(ray, clients), clients, on)
    links = []
    try:
        for node in nodes:
            there = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
            actor = remote.options(scheduling_strategy=there).remote(is_under_daemons=True)
            links.append(RayLink(ray, actor, node["NodeManagerAddress"]))
        yield links
    finally:
        for link in links:
            link.abandon()


def load_nodes(ray: ModuleType) -> list[Node]:
    """The live nodes that offer a load client, in the order of their addresses."""
    nodes = [node for node in ray.nodes() if node["Alive"] and node["Resources"].get(RESOURCE, 0) >= 1]
    return sorted(nodes, key=lambda node: int(ip_address(node["NodeManagerAddress"])))


def _nodes(ray: ModuleType, clients: int | None) -> list[Node]:
    """Waits for nodes that are about to join. Raises ``RunError`` for too few."""
    import time

    until = time.monotonic() + NODES_S
    while True:
        nodes = load_nodes(ray)
        if len(nodes) >= (clients or 1):
            return nodes
        if time.monotonic() > until:
            raise RunError(
                f"--clients {clients or 1}: the cluster has {len(nodes)} nodes that offer {RESOURCE}; "
                "iocurve cluster check lists them, iocurve cluster commands prints how to add one"
            )
        time.sleep(0.5)


def _chosen(nodes: list[Node], clients: int | None, on: Sequence[str]) -> list[Node]:
    if not on:
        return nodes[:clients]
    by_name = {node[key]: node for node in nodes for key in ("NodeManagerHostname", "NodeManagerAddress")}
    if missing := [name for name in on if name not in by_name]:
        there = ", ".join(node["NodeManagerAddress"] for node in nodes)
        raise PlanError([Diagnostic(f"the cluster has no load client '{name}'; it has {there}") for name in missing])
    return [by_name[name] for name in on]


async def _introduced(links: Sequence[RayLink]) -> list[Member]:
    """Loads iocurve on every client. Raises ``RunError`` where that fails, ``PlanError`` where versions differ."""
    introductions = await asyncio.gather(*(_introduction(link) for link in links))
    own = iocurve_version()
    other = [
        Diagnostic(
            f"{link.name} has iocurve {one.iocurve}, this machine has {own}", hint="install the same version on all"
        )
        for link, one in zip(links, introductions, strict=True)
        if one.iocurve != own
    ]
    if other:
        raise PlanError(other)
    hostnames = [one.host.hostname for one in introductions]
    for link, hostname in zip(links, hostnames, strict=True):
        if hostnames.count(hostname) == 1:
            link.name = hostname
    return [Member(link, one) for link, one in zip(links, introductions, strict=True)]


async def _introduction(link: RayLink) -> Introduction:
    try:
        return Introduction.from_json(await asyncio.wait_for(link.call("introduce"), INTRODUCE_S))
    except (ClientLostError, TimeoutError) as error:
        raise RunError(
            f"load client {link.name} does not start: {str(error) or f'no answer for {INTRODUCE_S} s'}"
        ) from None


class RayLink(Link):
    """The way to a load client that is an actor (``Link``)."""

    def __init__(self, ray: ModuleType, actor: Any, name: str) -> None:
        self._ray, self._actor, self._name = ray, actor, name

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
            raise _translated(error) from None

    async def stream(self, start_ns: int) -> AsyncIterator[bytes]:
        """The records of ``LoadClient.run``."""
        records = self._actor.run.options(num_returns="streaming").remote(start_ns)
        try:
            async for record in records:
                yield await record
        except Exception as error:  # noqa: BLE001 - an unknown error is raised as it is
            raise _translated(error) from None

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


def _translated(error: Exception) -> Exception:
    """The exception of the client, or ``ClientLostError`` where the client is gone."""
    from ray.exceptions import RayError, RayTaskError

    if isinstance(error, RayTaskError):
        cause = error.cause
        return cause if isinstance(cause, IocurveError) else RunError(f"internal error on a load client: {cause!r}")
    if isinstance(error, RayError):
        name = type(error).__name__
        return ClientLostError(f"{_LOSSES[name]} ({name})" if name in _LOSSES else f"{name}: {error}")
    return error

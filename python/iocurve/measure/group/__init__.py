"""Runs one plan on a group of agents: all start at one instant, and give one outcome.

The coordinator prepares every client and waits for the last (barrier), measures each client's clock, and sends each
the start in its own clock. A client that sends nothing for five intervals (at least 5 s) is shown as silent, and is
lost after twice that time: the others finish, and what it had sent is kept apart. Times in the outcome are since the
start of the first client, so that clients which started late count with their own windows.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar, cast

from iocurve.engine.plan import Plan
from iocurve.foundation.errors import RunError, TargetError
from iocurve.machine.files import boot_id
from iocurve.machine.processes import Process
from iocurve.measure.deployment import parts
from iocurve.measure.group.barrier import Tell, ignored
from iocurve.measure.group.client import REPLY_S, ClientLostError, GroupClient, Member, cause_of
from iocurve.measure.group.run import GroupRun
from iocurve.measure.machines import RunningPlan
from iocurve.measure.records import IDLE_COSTS
from iocurve.result.document import ClusterFacts, HostFacts, IdleCost
from iocurve.targets.places import FileFacts

IDLE_S = 1.0
"""Time in which a client measures what the daemons cost while no load runs."""
CANCEL_S = 2.0
"""Longest time in which calls that no client will answer are ended."""

T = TypeVar("T")


@contextmanager
def loop_in_thread() -> Iterator[asyncio.AbstractEventLoop]:
    """An event loop in a separate thread, for the calls of a group."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="iocurve-clients", daemon=True)
    thread.start()
    try:
        yield loop
    finally:
        with suppress(TimeoutError):
            asyncio.run_coroutine_threadsafe(_cancelled_calls(), loop).result(CANCEL_S)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(timeout=5)


async def _cancelled_calls() -> None:
    """Ends the calls that no client will answer any more."""
    calls = asyncio.all_tasks() - {asyncio.current_task()}
    for call in calls:
        call.cancel()
    if calls:
        await asyncio.wait(calls, timeout=CANCEL_S / 2)


class ClientGroup:
    """Agents that run plans together (``Machines``)."""

    def __init__(
        self,
        members: Sequence[Member],
        loop: asyncio.AbstractEventLoop,
        framework: str = "none",
        missing: Sequence[str] = (),
        tell: Tell = ignored,
        *,
        stops_on_loss: bool = False,
    ) -> None:
        """``loop`` runs in a separate thread and makes all calls; ``framework`` is the library that carries them.

        ``missing`` names the agents that the run goes without. ``tell`` is called, in that thread, when a client
        is silent, sends again, or is lost; with ``stops_on_loss`` a run stops then.
        """
        self._members, self._loop, self._framework = list(members), loop, framework
        self._missing, self._tell, self._stops_on_loss = tuple(missing), tell, stops_on_loss

    @property
    def count(self) -> int:
        """Number of agents."""
        return len(self._members)

    @property
    def are_here(self) -> bool:
        """True if all clients run on this machine."""
        return all(member.introduction.boot == boot_id() for member in self._members)

    @property
    def names(self) -> tuple[str, ...]:
        """Names or addresses of the clients."""
        return tuple(member.link.name for member in self._members)

    def cluster_facts(self) -> ClusterFacts:
        """The cluster. On each machine one client measures what the daemons cost while no load runs."""
        first = {member.introduction.boot: member for member in reversed(self._members)}
        found = asyncio.run_coroutine_threadsafe(self._idle_costs(list(first.values())), self._loop).result()
        return ClusterFacts(framework=self._framework, idle=tuple(found), missing=self._missing)

    async def _idle_costs(self, members: Sequence[Member]) -> list[IdleCost]:
        async def ask(member: Member) -> IdleCost | None:
            call = member.link.call("idle_cost", member.link.name, IDLE_S)
            try:
                return IDLE_COSTS.decode(await asyncio.wait_for(call, IDLE_S + REPLY_S))
            except (ClientLostError, TimeoutError, RunError):
                # A run with this client says so at its start.
                return None

        costs = await asyncio.gather(*map(ask, members))
        return [cost for cost in costs if cost]

    def start(self, plan: Plan, name: str) -> RunningPlan:
        """Starts a plan. Raises ``RunError`` if it needs a client that there is not, or that was lost."""
        found = parts(plan)
        if found[-1].client >= self.count:
            raise RunError(f"{name}: {found[-1].client + 1} agents wanted, {self.count} there")
        clients = [GroupClient(self._members[part.client], part) for part in found]
        if lost := [client.name for client in clients if client.member.is_lost]:
            raise RunError(f"{name}: agent {', '.join(lost)} was lost before")
        return GroupRun(clients, plan, name, self._loop, self._tell, stops_on_loss=self._stops_on_loss)

    def kept(self, run: str, client: int) -> bytes | None:
        """The local file of a client of an earlier run, from the machine that has it."""
        found: list[bytes | None] = self.asked(lambda member: member.link.call("kept", run, client))
        return next((text for text in found if text is not None), None)

    def all_kept(self) -> list[tuple[str, HostFacts, bytes]]:
        """The local files of all earlier runs, each with the name and the facts of its machine."""
        found: list[list[bytes]] = self.asked(lambda member: member.link.call("all_kept"))
        pairs = zip(self._members, found, strict=True)
        return [(one.link.name, one.introduction.host, text) for one, texts in pairs for text in texts]

    def forget_kept(self, run: str, client: int) -> None:
        """Removes that file."""
        self.asked(lambda member: member.link.call("forget_kept", run, client))

    def asked(self, ask: Callable[[Member], Awaitable[T]]) -> list[T]:
        """Asks all clients at once."""

        async def ask_all() -> list[T]:
            return list(await asyncio.gather(*(ask(member) for member in self._members)))

        return asyncio.run_coroutine_threadsafe(ask_all(), self._loop).result()

    def directory(self, client: int, path: Path) -> ClientPlace:
        """A directory of the machine of an agent."""
        return ClientPlace(self._members[client], self._loop, client, path)


FILES_S = 60.0
"""Longest time in which a client lists, writes or removes files."""


@dataclass(frozen=True)
class ClientPlace:
    """A directory on the machine of an agent (``Place``)."""

    member: Member = field(hash=False)
    loop: asyncio.AbstractEventLoop = field(hash=False)
    client: int
    directory: Path

    def process(self) -> Process:
        """See ``Place``."""
        return cast("Process", self._ask("process"))

    def names(self, suffix: str) -> list[str]:
        """See ``Place``."""
        return cast("list[str]", self._ask("names", suffix))

    def facts(self, names: Sequence[str]) -> list[FileFacts | None]:
        """See ``Place``."""
        return cast("list[FileFacts | None]", self._ask("facts", list(names)))

    def read(self, name: str, bytes_max: int) -> bytes:
        """See ``Place``."""
        return cast("bytes", self._ask("read", name, bytes_max))

    def write(self, name: str, data: bytes, *, new: bool) -> None:
        """See ``Place``."""
        self._ask("write", name, data, new=new)

    def remove(self, names: Sequence[str]) -> None:
        """See ``Place``."""
        self._ask("remove", list(names))

    def _ask(self, method: str, *arguments: object, **options: object) -> object:
        return asyncio.run_coroutine_threadsafe(self._reply(method, arguments, options), self.loop).result()

    async def _reply(self, method: str, arguments: tuple[object, ...], options: dict[str, object]) -> object:
        link = self.member.link
        if self.member.is_lost:
            raise TargetError(f"agent {link.name} was lost; what it left: iocurve clean {self.directory}, run there")
        call = link.call("in_directory", str(self.directory), method, arguments, options)
        try:
            return await asyncio.wait_for(call, FILES_S)
        except (ClientLostError, TimeoutError) as error:
            self.member.lose()
            raise TargetError(f"agent {link.name} was lost: {cause_of(error)}") from None

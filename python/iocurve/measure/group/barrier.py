"""The barriers of a run: all clients are prepared before the first start, and each further group starts at once.

A client that does not answer is silent, and then lost.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Literal, TypeVar

import msgspec
from msgspec.structs import replace

from iocurve.engine.plan import Plan
from iocurve.foundation.errors import Interrupted, IocurveError, RunError, TargetError
from iocurve.foundation.units import SECOND_NS, format_duration
from iocurve.measure.group.client import REPLY_S, ClientLostError, GroupClient, RunningClient, cause_of, clock_offset
from iocurve.measure.group.merge import LiveView
from iocurve.measure.records import LIVE, Task
from iocurve.result.document import ClientClock

SILENT_INTERVALS = 5
SILENT_S_MIN = 5.0
"""A client that sends nothing for this many intervals, and at least for this long, is shown as silent."""
LOST_AFTER_SILENCES = 2
LOST_S_MIN = 30.0
"""A client is lost after this number of such silences, and at least after this time. TCP doubles the time between its
attempts: after a cut of 20 s a client may be silent for 26 s."""
SEND_S_PER_CLIENT = 0.005
"""The more clients, the longer each collects its intervals: Ray takes 1 ms of a processor of the head for a message."""
STOP_S = 5.0
"""A client that is silent for this long after a stop is lost."""
LEASE_S_MIN = 30.0
"""A client that hears nothing from the coordinator for this long stops by itself; longer with long intervals."""
SILENCE_POLL_S = 0.25
"""Time between two searches for silent clients."""


class Patience(msgspec.Struct, frozen=True):
    """The times after which a run shows a client as silent, loses it, and a client stops by itself.

    A client sends the intervals of ``send_s`` together.
    """

    silent_s: float
    lost_s: float
    lease_s: float
    send_s: float

    @classmethod
    def of(cls, plan: Plan, clients: int) -> Patience:
        """The times for the intervals of a plan and the number of its clients."""
        send_s = SEND_S_PER_CLIENT * clients
        silent_s = send_s + max(SILENT_S_MIN, SILENT_INTERVALS * plan.interval_ns / SECOND_NS)
        lost_s = max(LOST_S_MIN, LOST_AFTER_SILENCES * silent_s)
        return cls(silent_s, lost_s, max(LEASE_S_MIN, lost_s), send_s)


Tell = Callable[[str], None]
"""Gets a line about a client at once: it is silent, it sends again, or it was lost."""


def ignored(_line: str) -> None:
    """Tells nothing."""


class SilenceWatch:
    """Watches the clients of a run."""

    def __init__(self, patience: Patience, publish: Callable[[], None], tell: Tell) -> None:
        """Calls ``publish`` and ``tell`` when a client is newly shown as silent."""
        self._patience, self._publish, self._tell = patience, publish, tell
        self._stopped_s: float | None = None

    def stop(self) -> None:
        """Loses clients earlier from now on: the run was stopped."""
        if self._stopped_s is None:
            self._stopped_s = time.monotonic()

    async def watch(self, following: Mapping[asyncio.Task[None], GroupClient]) -> None:
        """Loses clients that are silent for too long and cancels what follows them.

        One task for all clients costs each nothing.
        """
        while True:
            await asyncio.sleep(SILENCE_POLL_S)
            for task, client in following.items():
                if not isinstance(client.phase, RunningClient):
                    continue
                self._show_silent(client, client.phase)
                if (silent_s := self._overdue_s(client.phase)) is not None:
                    task.cancel()
                    client.lose(f"silent for {format_duration(round(silent_s * SECOND_NS))}")

    def _show_silent(self, client: GroupClient, phase: RunningClient) -> None:
        if not phase.is_silent and time.monotonic() - phase.heard_s > self._patience.silent_s:
            client.phase = replace(phase, is_silent=True)
            self._publish()
            silent, lost = (
                format_duration(round(seconds * SECOND_NS))
                for seconds in (self._patience.silent_s, self._patience.lost_s)
            )
            self._tell(f"agent {client.name} has sent nothing for {silent}; it is lost after {lost}")

    def _overdue_s(self, phase: RunningClient) -> float | None:
        """Seconds for which the client has been silent, if that is too long."""
        now = time.monotonic()
        if self._stopped_s is not None:
            silent_s = now - max(phase.heard_s, self._stopped_s)
            return silent_s if silent_s > STOP_S else None
        silent_s = now - phase.heard_s
        return silent_s if silent_s > self._patience.lost_s else None


LEAD_S = 0.3
"""Time from the barrier to the start; every client must have its start by then, ..."""
LEAD_S_PER_CLIENT = 0.01
"""... for which large groups need longer."""

OTHERS_S = 1.0
"""Time after the first error in which other clients may have theirs."""

PROGRESS_S = 0.5
"""Time between two questions for the progress of a layout."""
T = TypeVar("T")


class Barrier:
    """Prepares the clients of a run and releases their groups."""

    def __init__(self, clients: Sequence[GroupClient], patience: Patience, view: LiveView, run: str, name: str) -> None:
        """``run`` is the name of the local files, ``name`` that of the point."""
        self._clients, self._patience, self._view, self._run, self._name = clients, patience, view, run, name
        self._layouts: dict[int, tuple[int, int]] = {}
        """Bytes laid out and to lay out of each client that lays out files."""
        self._unheard: set[int] = set()
        """Clients of which nothing is known yet among those that prepare at once."""
        self.lead_ns = round((LEAD_S + LEAD_S_PER_CLIENT * len(clients)) * SECOND_NS)
        """Time from a barrier to the start after it."""

    async def prepare_all(self) -> None:
        """Returns when all clients are prepared and their clocks are known.

        If one cannot be prepared, none runs, and the errors of all that fail within a moment are raised as one.
        """
        preparing: list[asyncio.Future[None]] = []
        try:
            for together in _in_turns(self._clients):
                self._unheard = {client.part.client for client in together}
                preparing = [asyncio.ensure_future(self._prepare(client)) for client in together]
                _, left = await asyncio.wait(preparing, return_when=asyncio.FIRST_EXCEPTION)
                if left:
                    await asyncio.wait(left, timeout=OTHERS_S)
                _require_none(preparing)
        except BaseException:
            await _settled([end(client, "stop") for client in self._clients])
            await _settled(preparing)
            raise
        await asyncio.gather(*(self._compare_clocks(client) for client in self._clients))

    async def _prepare(self, client: GroupClient) -> None:
        task = Task(
            run=self._run,
            client=client.part.client,
            point=self._name,
            plan=client.part.plan,
            positions=client.part.positions,
            lease_s=self._patience.lease_s,
            send_s=self._patience.send_s,
        )
        preparing = asyncio.ensure_future(client.member.link.call("prepare", msgspec.json.encode(task)))
        try:
            while not (await asyncio.wait({preparing}, timeout=PROGRESS_S))[0]:
                await self._show_layout(client)
            self._unheard.discard(client.part.client)
            if laid_out := self._layouts.get(client.part.client):
                self._layouts[client.part.client] = laid_out[1], laid_out[1]
            client.journal = preparing.result() or None
        except (ClientLostError, TimeoutError) as error:
            preparing.cancel()
            client.member.lose()
            raise RunError(f"agent {client.name} was lost while it prepared: {cause_of(error)}") from None
        except Interrupted:
            raise
        except TargetError as error:
            raise TargetError(f"agent {client.name}: {error}") from None
        except IocurveError as error:
            raise RunError(f"agent {client.name}: {error}") from None

    async def _show_layout(self, client: GroupClient) -> None:
        """Asks for the progress; a client that does not answer is lost. The view has the sums of all clients."""
        text = await asyncio.wait_for(client.member.link.call("progress"), self._patience.lost_s)
        if text == b"null":
            return
        live = LIVE.decode(text)
        if live.layout_bytes_total:
            self._layouts[client.part.client] = live.layout_bytes, live.layout_bytes_total
        elif live.phase == "layout":
            # It does not know yet if there is something to lay out.
            return
        self._unheard.discard(client.part.client)
        if self._layouts and not self._unheard:
            done, total = map(sum, zip(*self._layouts.values(), strict=True))
            self._view.show(layout_bytes=done, layout_bytes_total=total)

    async def _compare_clocks(self, client: GroupClient) -> None:
        offset_ns, error_ns = await self._reply(client, clock_offset(client.member.link))
        client.clock = ClientClock(offset_ns=offset_ns, error_ns=error_ns, drift_ns=None)

    def releases(self) -> list[Awaitable[None]]:
        """The calls that release the group that all its clients wait for, if there is one."""
        running = [(client, client.phase) for client in self._clients if isinstance(client.phase, RunningClient)]
        awaited = [phase.waits_for for _, phase in running if phase.waits_for is not None]
        if not awaited:
            return []
        group = min(awaited)
        of_group = [(client, phase) for client, phase in running if group in client.part.groups]
        if any(phase.waits_for != group for _, phase in of_group):
            return []
        start_ns = time.time_ns() + self.lead_ns
        for client, phase in of_group:
            client.phase = replace(phase, waits_for=None)
        return [self._release(client, group, start_ns) for client, _ in of_group]

    async def _release(self, client: GroupClient, group: int, start_ns: int) -> None:
        offset_ns, number = client.clock.offset_ns, client.part.groups.index(group)
        started = await self._reply(client, client.member.link.call("release", number, start_ns + offset_ns))
        client.starts_ns[group] = started - offset_ns

    async def _reply(self, client: GroupClient, call: Awaitable[T]) -> T:
        return await client.member.reply(call, self._patience.lost_s, "before the start")


def _require_none(preparing: Sequence[asyncio.Future[None]]) -> None:
    """Raises what clients raised while they prepared."""
    errors = [error for one in preparing if one.done() and (error := one.exception())]
    kept = next((error for error in errors if isinstance(error, Interrupted)), None)
    if len(errors) == 1 or kept:
        raise kept or errors[0]
    if errors:
        lines = "".join(f"\n  {error}" for error in errors)
        kind = TargetError if all(isinstance(error, TargetError) for error in errors) else RunError
        raise kind(f"{len(errors)} of {len(preparing)} agents cannot prepare:{lines}") from None


async def end(client: GroupClient, how: Literal["stop", "finish"]) -> None:
    """Ends the load of a client (``LoadClient.stop`` or ``finish``), unless it is lost."""
    if not client.member.is_lost:
        await client.member.link.call(how)


def _in_turns(clients: Sequence[GroupClient]) -> Iterator[list[GroupClient]]:
    """The clients that prepare at once: a file that several use is laid out by the first of them, before the others."""
    left, laid_out = list(clients), set[str]()
    while left:
        taken: set[str] = set()
        together = []
        for client in left:
            new = client.part.paths() - laid_out
            if not new & taken:
                together.append(client)
                taken |= new
        yield together
        laid_out |= taken
        left = [client for client in left if client not in together]


async def _settled(calls: Sequence[Awaitable[None]]) -> None:
    """Waits for calls, whatever comes of them, but not for long."""
    await asyncio.wait([asyncio.ensure_future(call) for call in calls], timeout=REPLY_S)

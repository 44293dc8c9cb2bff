"""Runs one plan on a group of load clients: all start at one instant, and give one outcome.

The head program prepares every client and waits for the last (barrier), measures each client's clock, and sends each
the start in its own clock. A client that sends nothing for five intervals (at least 5 s) is shown as silent, and is
lost after twice that time: the others finish, and what it had sent is kept apart. Times in the outcome are since the
start of the first client, so that clients which started late count with their own windows.
"""

from __future__ import annotations

import asyncio
import secrets
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar, cast

import msgspec

from iocurve.engine.outcome import (
    IntervalKind,
    IntervalRecord,
    KindOutcome,
    Live,
    LiveClient,
    Outcome,
    State,
    WorkerOutcome,
)
from iocurve.engine.plan import Plan
from iocurve.errors import Interrupted, IocurveError, RunError, TargetError
from iocurve.measure.deployment import Part, parts
from iocurve.measure.machines import ClientFacts, Running
from iocurve.measure.records import (
    AliveRecord,
    ClosedRecord,
    EndRecord,
    Introduction,
    ReadyRecord,
    StartedRecord,
    Task,
    idle_cost_of,
    live_of,
    record_of,
)
from iocurve.result import host
from iocurve.result.document import ClientClock, ClientOutcome, ClusterFacts, IdleCost, LayoutFacts, UntilLoss
from iocurve.result.summary import live_kind, merge_kinds
from iocurve.targets.places import FileFacts, Process
from iocurve.units import SECOND_NS, format_duration

CLOCK_ROUNDS = 25
"""Readings of a client's clock; the shortest round trip counts."""
SILENT_INTERVALS = 5
SILENT_S_MIN = 5.0
"""A client that sends nothing for this many intervals, and at least for this long, is named as silent."""
LOST_AFTER_SILENCES = 2
"""A client is lost after this number of such silences. TCP doubles the time between its attempts: after a cut
of 4 s it may be silent for 6.4 s."""
STOP_S = 1.5
"""A client that is silent for this long after a stop is lost."""
LEASE_S_MIN = 30.0
"""A client that hears nothing from the head program for this long stops by itself; longer with long intervals."""
FILES_S = 60.0
"""Longest time in which a client lists, writes or removes files."""
IDLE_S = 1.0
"""Time in which a client measures what the daemons cost while no load runs."""
CANCEL_S = 2.0
"""Longest time in which calls that no client will answer are ended."""
LEAD_S = 0.3
"""Time from the barrier to the start; every client must have its start by then, ..."""
LEAD_S_PER_CLIENT = 0.01
"""... for which large groups need longer."""
SILENCE_POLL_S = 0.25
"""Time between two searches for silent clients."""
SHOW_S = 0.02
"""Time from a record to the live view that has it, so that many records make one view; ..."""
SHOW_S_PER_CLIENT = 0.0002
"""... for which large groups take longer, because a view has all clients."""
KEPT_PARTS = 32
"""Intervals of a client that are kept before they are added up."""

T = TypeVar("T")


class ClientLostError(Exception):
    """The transport has lost a client; the text says how."""


class Link(Protocol):
    """The way to a ``LoadClient``. Raises ``ClientLostError`` when the client is gone, and what the client raises."""

    @property
    def name(self) -> str:
        """Name or address of the client."""

    async def call(self, method: str, *arguments: Any) -> Any:
        """Calls a method of the client."""

    def stream(self, start_ns: int) -> AsyncIterator[bytes]:
        """The records of ``LoadClient.run``."""

    def abandon(self) -> None:
        """Gives up a lost client; it is not called again."""


@dataclass
class Member:
    """A client of the group."""

    link: Link
    introduction: Introduction
    is_lost: bool = False
    """Lost in an earlier run."""


@dataclass
class _Client:
    """A client in one run."""

    member: Member
    part: Part
    state: Literal["running", "finished", "interrupted", "failed", "lost"] = "running"
    reason: str | None = None
    journal: str | None = None
    offset_ns: int = 0
    error_ns: int = 0
    drift_ns: int | None = None
    starts_ns: dict[int, int] = field(default_factory=dict)
    """Start of each group by the clock of the head program."""
    waits_for: int | None = None
    """Index in the whole plan of the group that waits for its release."""
    group: int = 0
    end: EndRecord | None = None
    intervals: int = 0
    elapsed_ns: int = 0
    kinds: dict[str, list[KindOutcome]] = field(default_factory=dict)
    newest: IntervalRecord | None = None
    heard: float = 0.0
    is_silent: bool = False
    """Shown as silent."""
    following: asyncio.Task[None] | None = None
    """Follows the records of the client."""
    silent_s: float | None = None
    """Set once the client has been silent for too long."""

    @property
    def runs(self) -> bool:
        return self.state == "running"

    @property
    def shown_state(self) -> str:
        """The state in the live view."""
        return "silent" if self.runs and self.is_silent else self.state

    @property
    def name(self) -> str:
        return self.member.link.name

    def keep(self, interval: IntervalRecord) -> None:
        """Adds an interval to what is kept for the case that the client is lost."""
        self.newest = interval
        if interval.ramp:
            return
        self.intervals += 1
        self.elapsed_ns += interval.end_ns - interval.start_ns
        for kind, part in interval.operations.items():
            self.kinds.setdefault(kind, []).append(part)
        # Clients add up in turns: all of many at once would hold up the head program for seconds.
        if (self.intervals + self.part.client) % KEPT_PARTS == 0:
            self.kinds = {kind: [merge_kinds(parts)] for kind, parts in self.kinds.items()}

    def live(self) -> LiveClient:
        """The client in the live view."""
        parts = self.newest.operations.values() if self.newest else ()
        return LiveClient(
            host=self.name,
            state=self.shown_state,
            operations=sum(part.operations for part in parts),
            bytes=sum(part.bytes for part in parts),
        )

    def until_loss(self) -> UntilLoss:
        """What the client sent."""
        operations = {kind: merge_kinds(parts) for kind, parts in self.kinds.items()}
        return UntilLoss(intervals=self.intervals, elapsed_ns=self.elapsed_ns, operations=operations)


@contextmanager
def loop_in_thread() -> Iterator[asyncio.AbstractEventLoop]:
    """An event loop in a thread of its own, for the calls of a group."""
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
    """Load clients that run plans together (``Machines``)."""

    def __init__(self, members: Sequence[Member], loop: asyncio.AbstractEventLoop, framework: str = "none") -> None:
        """``loop`` runs in a thread of its own and carries all calls; ``framework`` names what carries them."""
        self._members, self._loop, self._framework = list(members), loop, framework

    @property
    def count(self) -> int:
        """Number of load clients."""
        return len(self._members)

    @property
    def are_here(self) -> bool:
        """True if all clients run on this machine."""
        return all(member.introduction.boot == host.boot_id() for member in self._members)

    @property
    def names(self) -> tuple[str, ...]:
        """Names or addresses of the clients."""
        return tuple(member.link.name for member in self._members)

    def cluster_facts(self) -> ClusterFacts:
        """The cluster. On each machine one client measures what the daemons cost while no load runs."""
        first = {member.introduction.boot: member for member in reversed(self._members)}
        found = asyncio.run_coroutine_threadsafe(self._idle_costs(list(first.values())), self._loop).result()
        return ClusterFacts(framework=self._framework, idle=tuple(found))

    async def _idle_costs(self, members: Sequence[Member]) -> list[IdleCost]:
        async def ask(member: Member) -> IdleCost | None:
            call = member.link.call("idle_cost", member.link.name, IDLE_S)
            try:
                return idle_cost_of(await asyncio.wait_for(call, IDLE_S + SILENT_S_MIN))
            except (ClientLostError, TimeoutError, RunError):
                # A run with this client says so at its start.
                return None

        costs = await asyncio.gather(*map(ask, members))
        return [cost for cost in costs if cost]

    def start(self, plan: Plan, name: str) -> Running:
        """Starts a plan. Raises ``RunError`` if it needs a client that there is not, or that was lost."""
        found = parts(plan)
        if found[-1].client >= self.count:
            raise RunError(f"{name}: {found[-1].client + 1} load clients wanted, {self.count} there")
        clients = [_Client(self._members[part.client], part) for part in found]
        if lost := [client.name for client in clients if client.member.is_lost]:
            raise RunError(f"{name}: load client {', '.join(lost)} was lost before")
        return GroupRun(clients, plan, name, self._loop)

    def asked(self, ask: Callable[[Member], Awaitable[T]]) -> list[T]:
        """Asks all clients at once."""

        async def ask_all() -> list[T]:
            return list(await asyncio.gather(*(ask(member) for member in self._members)))

        return asyncio.run_coroutine_threadsafe(ask_all(), self._loop).result()

    def directory(self, client: int, path: Path) -> ClientPlace:
        """A directory of the machine of a load client."""
        return ClientPlace(self._members[client], self._loop, client, path)


@dataclass(frozen=True)
class ClientPlace:
    """A directory on the machine of a load client (``Place``)."""

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

    def _ask(self, method: str, *arguments: Any, **options: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(self._asked(method, arguments, options), self.loop).result()

    async def _asked(self, method: str, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
        link = self.member.link
        if self.member.is_lost:
            raise TargetError(
                f"load client {link.name} was lost; what it left: iocurve clean {self.directory}, run there"
            )
        call = link.call("in_directory", str(self.directory), method, arguments, options)
        try:
            return await asyncio.wait_for(call, FILES_S)
        except (ClientLostError, TimeoutError) as error:
            self.member.is_lost = True
            link.abandon()
            raise TargetError(f"load client {link.name} was lost: {_said(error)}") from None


class GroupRun:
    """A plan that runs on load clients (``Running``)."""

    def __init__(self, clients: Sequence[_Client], plan: Plan, name: str, loop: asyncio.AbstractEventLoop) -> None:
        self._clients, self._plan, self._name, self._loop = clients, plan, name, loop
        self._run = secrets.token_hex(8)
        interval_s = plan.interval_ns / SECOND_NS
        self._silence_s = max(SILENT_S_MIN, SILENT_INTERVALS * interval_s)
        self._lost_s = LOST_AFTER_SILENCES * self._silence_s
        self._lease_s = max(LEASE_S_MIN, 2 * self._lost_s)
        self._lead_ns = round((LEAD_S + LEAD_S_PER_CLIENT * len(clients)) * SECOND_NS)
        self._merger = _Merger()
        self._calls: set[asyncio.Future[Any]] = set()
        self._showing: asyncio.TimerHandle | None = None
        self._show_s = SHOW_S + SHOW_S_PER_CLIENT * len(clients)
        self._stopped_at: float | None = None
        self._lock = threading.Lock()
        self._live = Live(
            phase="layout", group=0, elapsed_ns=0, layout_bytes=0, layout_bytes_total=0, intervals=0, operations={}
        )
        self._future = asyncio.run_coroutine_threadsafe(self._drive(), loop)

    def wait(self, seconds: float) -> Outcome | None:
        """Waits up to ``seconds`` for the outcome; raises ``TargetError`` or ``RunError`` if nothing was measured."""
        try:
            return self._future.result(seconds)
        except TimeoutError:
            return None

    def live(self) -> Live:
        """The progress so far."""
        with self._lock:
            return self._live

    def stop(self) -> None:
        """Stops all clients; those that do not end soon are lost."""
        self._loop.call_soon_threadsafe(self._stop_all)

    def facts(self) -> ClientFacts:
        """The load clients, once the run has ended."""
        ends = [client.end for client in self._clients if client.end]
        layouts = [end.layout for end in ends if end.layout]
        layout = LayoutFacts(
            bytes=sum(one.bytes for one in layouts), elapsed_ns=max((one.elapsed_ns for one in layouts), default=0)
        )
        machines = [end.machine for end in ends if end.machine]
        busiest = max(machines, key=lambda machine: machine.busy_share, default=None)
        return ClientFacts(tuple(map(self._outcome_of, self._clients)), layout if layouts else None, busiest)

    async def _drive(self) -> Outcome:
        renewing = asyncio.ensure_future(self._renew_leases())
        try:
            await self._prepare_all()
            await asyncio.gather(*(self._compare_clocks(client) for client in self._clients))
            await self._follow_all(time.time_ns() + self._lead_ns)
            await asyncio.gather(*(self._finish(client) for client in self._clients))
        finally:
            renewing.cancel()
        self._show(phase="done")
        return self._merged()

    async def _prepare_all(self) -> None:
        """Returns when all clients are prepared. If one cannot be, none runs and its error is raised."""
        preparing: list[asyncio.Future[None]] = []
        try:
            for together in _in_turns(self._clients):
                preparing = [asyncio.ensure_future(self._prepare(client)) for client in together]
                await asyncio.gather(*preparing)
        except BaseException:
            await _settled([self._stop(client) for client in self._clients])
            await _settled(preparing)
            raise

    async def _prepare(self, client: _Client) -> None:
        part = client.part
        client.group = part.groups[0]
        task = Task(
            run=self._run,
            client=part.client,
            point=self._name,
            plan=part.plan,
            positions=part.positions,
            lease_s=self._lease_s,
        )
        preparing = asyncio.ensure_future(client.member.link.call("prepare", msgspec.json.encode(task)))
        try:
            while not (await asyncio.wait({preparing}, timeout=0.5))[0]:
                await self._show_layout(client)
            client.journal = preparing.result()
        except (ClientLostError, TimeoutError) as error:
            preparing.cancel()
            client.member.is_lost = True
            client.member.link.abandon()
            raise RunError(f"load client {client.name} was lost while it prepared: {_said(error)}") from None
        except Interrupted:
            raise
        except TargetError as error:
            raise TargetError(f"load client {client.name}: {error}") from None
        except IocurveError as error:
            raise RunError(f"load client {client.name}: {error}") from None

    async def _show_layout(self, client: _Client) -> None:
        """Asks for the progress; a client that does not answer is lost."""
        text = await asyncio.wait_for(client.member.link.call("progress"), self._lost_s)
        if text != b"null" and (live := live_of(text)).phase == "layout":
            self._show(layout_bytes=live.layout_bytes, layout_bytes_total=live.layout_bytes_total)

    async def _compare_clocks(self, client: _Client) -> None:
        """Measures the offset of the client's clock."""
        client.offset_ns, client.error_ns = await self._reached(client, clock_offset(client.member.link))

    async def _follow_all(self, start_ns: int) -> None:
        """Follows the records of all clients until each has ended or is lost."""
        for client in self._clients:
            client.heard = time.monotonic() + self._lead_ns / SECOND_NS
            client.following = asyncio.ensure_future(self._follow(client, start_ns))
        watching = asyncio.ensure_future(self._watch_silence())
        try:
            await asyncio.gather(*(client.following for client in self._clients if client.following))
        finally:
            watching.cancel()
            self._publish()

    async def _follow(self, client: _Client, start_ns: int) -> None:
        """Follows the records of a client until its end, or until it is lost."""
        try:
            async for record in client.member.link.stream(start_ns + client.offset_ns):
                client.heard, client.is_silent = time.monotonic(), False
                self._take(client, record, start_ns)
            client.state = client.end.outcome.state if client.end else "failed"
        except ClientLostError as lost:
            self._lose(client, str(lost))
        except IocurveError as error:
            client.state, client.reason = "failed", str(error)
        except asyncio.CancelledError:
            if client.silent_s is None:
                raise
            self._lose(client, f"silent for {format_duration(round(client.silent_s * SECOND_NS))}")
        self._release_next()
        self._publish_soon()

    async def _watch_silence(self) -> None:
        """Ends the following of clients that are silent for too long. One task for all clients costs each nothing."""
        while True:
            await asyncio.sleep(SILENCE_POLL_S)
            for client in self._clients:
                if client.runs and client.silent_s is None and client.following:
                    self._name_silent(client)
                    client.silent_s = self._overdue(client)
                    if client.silent_s is not None:
                        client.following.cancel()

    def _name_silent(self, client: _Client) -> None:
        """Shows that a client has been silent for some time."""
        if not client.is_silent and time.monotonic() - client.heard > self._silence_s:
            client.is_silent = True
            self._publish()

    def _overdue(self, client: _Client) -> float | None:
        """Seconds for which the client has been silent, if that is too long."""
        now = time.monotonic()
        if self._stopped_at is not None:
            silent_s = now - max(client.heard, self._stopped_at)
            return silent_s if silent_s > STOP_S else None
        silent_s = now - client.heard
        return silent_s if silent_s > self._lost_s else None

    def _take(self, client: _Client, line: bytes, start_ns: int) -> None:
        record = record_of(line)
        if isinstance(record, StartedRecord):
            client.starts_ns[client.part.groups[record.group]] = record.start_ns - client.offset_ns
            self._show(phase="ready" if record.start_ns > start_ns else "ramp")
        elif isinstance(record, ClosedRecord):
            self._merge(client, record.interval)
        elif isinstance(record, ReadyRecord):
            client.waits_for = client.part.groups[record.group]
            self._release_next()
        elif isinstance(record, EndRecord):
            client.end = record
        else:
            assert isinstance(record, AliveRecord)

    def _merge(self, client: _Client, interval: IntervalRecord) -> None:
        client.keep(interval)
        client.group = client.part.groups[interval.group]
        self._merger.add(client.part.client, interval.replace(group=client.group))
        self._publish_soon()

    def _publish_soon(self) -> None:
        """Publishes once for all records of a short time: the cost of a view grows with the number of clients."""
        if self._showing is None:
            self._showing = self._loop.call_later(self._show_s, self._publish)

    def _publish(self) -> None:
        """Shows the newest interval that all running clients have closed."""
        if self._showing:
            self._showing.cancel()
            self._showing = None
        running = {client.part.client: client.group for client in self._clients if client.runs}
        closed = self._merger.closed(running)
        clients = tuple(client.live() for client in self._clients)
        if closed is None:
            self._show(clients=clients)
            return
        interval, operations = closed
        self._show(
            phase="ramp" if interval.ramp else "run",
            group=interval.group,
            elapsed_ns=interval.end_ns,
            intervals=interval.index + 1,
            operations=operations,
            clients=clients,
        )

    def _release_next(self) -> None:
        """Releases the group that all its clients wait for, if there is one."""
        waiting = [client for client in self._clients if client.runs and client.waits_for is not None]
        if not waiting:
            return
        group = min(client.waits_for for client in waiting if client.waits_for is not None)
        wanted = [client for client in self._clients if client.runs and group in client.part.groups]
        if any(client.waits_for != group for client in wanted):
            return
        start_ns = time.time_ns() + self._lead_ns
        for client in wanted:
            client.waits_for = None
            self._spawn(self._release(client, group, start_ns))

    async def _release(self, client: _Client, group: int, start_ns: int) -> None:
        number = client.part.groups.index(group)
        started = await self._reached(client, client.member.link.call("release", number, start_ns + client.offset_ns))
        client.starts_ns[group] = started - client.offset_ns

    async def _finish(self, client: _Client) -> None:
        """Measures the clock again and removes the local file of a client whose records have arrived."""
        if client.end is None:
            return
        try:
            offset_ns, _ = await asyncio.wait_for(clock_offset(client.member.link), SILENT_S_MIN)
            client.drift_ns = offset_ns - client.offset_ns
            await asyncio.wait_for(client.member.link.call("forget"), SILENT_S_MIN)
            client.journal = None
        except (ClientLostError, TimeoutError):
            # Its records are complete; only the second reading of the clock is missing.
            return

    def _lose(self, client: _Client, how: str) -> None:
        client.state = "lost"
        client.reason = f"lost after {format_duration(client.elapsed_ns)} of measuring: {how}"
        client.member.is_lost = True
        client.member.link.abandon()

    async def _renew_leases(self) -> None:
        while True:
            await asyncio.sleep(self._lease_s / 10)
            for client in self._clients:
                if client.runs:
                    self._spawn(client.member.link.call("renew_lease"))

    def _stop_all(self) -> None:
        if self._stopped_at is None:
            self._stopped_at = time.monotonic()
        for client in self._clients:
            if client.runs:
                self._spawn(self._stop(client))

    async def _stop(self, client: _Client) -> None:
        if not client.member.is_lost:
            await client.member.link.call("stop")

    async def _reached(self, client: _Client, call: Awaitable[T]) -> T:
        """The answer of a client. Raises ``RunError`` if it does not answer."""
        try:
            return await asyncio.wait_for(call, self._lost_s)
        except (ClientLostError, TimeoutError) as error:
            client.member.is_lost = True
            client.member.link.abandon()
            raise RunError(f"load client {client.name} was lost before the start: {_said(error)}") from None

    def _spawn(self, call: Any) -> None:
        """Makes a call whose failure shows in the stream of records."""
        task = asyncio.ensure_future(call)
        self._calls.add(task)
        task.add_done_callback(self._calls.discard)
        task.add_done_callback(lambda done: done.cancelled() or done.exception())

    def _show(self, **changes: Any) -> None:
        with self._lock:
            self._live = self._live.replace(**changes)

    def _merged(self) -> Outcome:
        """One outcome, with the workers in the order of the whole plan."""
        ended = [client for client in self._clients if client.end]
        if not ended and not any(client.starts_ns for client in self._clients):
            reasons = "; ".join(f"{client.name}: {client.reason}" for client in self._clients)
            raise RunError(f"no load client finished: {reasons}")
        # A point whose clients were all lost under load is kept without a worker: their local files can complete it.
        zeros = _zeros(ended)
        workers = [worker for client in ended for worker in _placed_workers(client, zeros)]
        workers.sort(key=lambda worker: (worker.group, worker.worker))
        return Outcome(state=_worst(self._clients), workers=tuple(workers))

    def _outcome_of(self, client: _Client) -> ClientOutcome:
        assert client.state != "running", "the run has ended"
        first = client.part.groups[0]
        zeros = _zeros([one for one in self._clients if one.starts_ns])
        return ClientOutcome(
            client=client.part.client,
            name=client.name,
            host=client.member.introduction.host,
            state=client.state,
            reason=client.reason,
            clock=ClientClock(offset_ns=client.offset_ns, error_ns=client.error_ns, drift_ns=client.drift_ns),
            late_ns=client.starts_ns[first] - zeros[first] if first in client.starts_ns else 0,
            machine=client.end.machine if client.end else None,
            run=self._run,
            journal=client.journal,
            until_loss=None if client.end else client.until_loss(),
        )


class _Merger:
    """Merges the intervals of clients; an interval is closed once every running client of its group has sent it."""

    def __init__(self) -> None:
        self._open: dict[tuple[int, int, bool], dict[int, IntervalRecord]] = {}

    def add(self, client: int, interval: IntervalRecord) -> None:
        """One more interval of a client."""
        self._open.setdefault((interval.group, interval.index, not interval.ramp), {})[client] = interval

    def closed(self, running: dict[int, int]) -> tuple[IntervalRecord, dict[str, IntervalKind]] | None:
        """The newest closed interval, if it was not returned yet; ``running`` has each running client's group."""
        complete = [
            key
            for key, found in self._open.items()
            if all(client in found for client, group in running.items() if group <= key[0])
        ]
        if not complete:
            return None
        newest = max(complete)
        found = list(self._open[newest].values())
        self._open = {key: value for key, value in self._open.items() if key > newest}
        names = sorted({name for one in found for name in one.operations})
        parts = {name: [one.operations[name] for one in found if name in one.operations] for name in names}
        return found[0], {name: live_kind(kinds) for name, kinds in parts.items()}


async def clock_offset(link: Link, rounds: int = CLOCK_ROUNDS) -> tuple[int, int]:
    """Offset of a client's clock (client minus head) and the error of it, both in ns.

    The reading with the shortest round trip counts: the client read its clock between sending and receiving, so half of
    the round trip bounds the error.
    """
    best = (1 << 62, 0)
    for _ in range(rounds):
        sent = time.time_ns()
        read = await link.call("clock")
        received = time.time_ns()
        best = min(best, (received - sent, read - (sent + received) // 2))
    return best[1], best[0] // 2


def _in_turns(clients: Sequence[_Client]) -> Iterator[list[_Client]]:
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


def _zeros(clients: Sequence[_Client]) -> dict[int, int]:
    """The start of each group on the client that started first, by the clock of the head program."""
    groups = {group for client in clients for group in client.starts_ns}
    return {group: min(one.starts_ns[group] for one in clients if group in one.starts_ns) for group in groups}


def _placed_workers(client: _Client, zeros: dict[int, int]) -> list[WorkerOutcome]:
    """The workers of a client at their places in the whole plan."""
    assert client.end is not None
    positions = client.part.by_place()
    placed = []
    for worker in client.end.outcome.workers:
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
        intervals=intervals,
    )


def _worst(clients: Sequence[_Client]) -> State:
    states = {client.state for client in clients}
    if states & {"lost", "failed"}:
        return "failed"
    return "interrupted" if "interrupted" in states else "finished"


def _said(error: BaseException) -> str:
    return str(error) or "it does not answer"


async def _settled(calls: Sequence[Awaitable[Any]]) -> None:
    """Waits for calls, whatever comes of them, but not for long."""
    await asyncio.wait([asyncio.ensure_future(call) for call in calls], timeout=SILENT_S_MIN)

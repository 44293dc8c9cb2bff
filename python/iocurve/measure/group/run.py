"""A plan that runs on agents."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable, Sequence
from contextlib import suppress
from typing import Literal

from msgspec.structs import replace

from iocurve.engine.outcome import IntervalRecord, Live, Outcome
from iocurve.engine.plan import Plan
from iocurve.foundation.errors import IocurveError
from iocurve.foundation.units import SECOND_NS, counted, format_duration
from iocurve.measure.group.barrier import Barrier, Patience, SilenceWatch, Tell, end, ignored
from iocurve.measure.group.client import REPLY_S, ClientLostError, Ended, GroupClient, RunningClient, clock_offset
from iocurve.measure.group.merge import LiveView, client_outcomes, merged_outcome
from iocurve.measure.machines import ClientFacts
from iocurve.measure.records import ClosedRecord, EndRecord, ReadyRecord, Record, StartedRecord, records_of
from iocurve.result.document import LayoutFacts


class GroupRun:
    """A plan that runs on agents (``RunningPlan``)."""

    def __init__(
        self,
        clients: Sequence[GroupClient],
        plan: Plan,
        name: str,
        loop: asyncio.AbstractEventLoop,
        tell: Tell = ignored,
        *,
        stops_on_loss: bool = False,
    ) -> None:
        self._clients, self._loop, self._tell, self._stops_on_loss = clients, loop, tell, stops_on_loss
        self._run = secrets.token_hex(8)
        self._patience = Patience.of(plan, len(clients))
        self._view = LiveView(clients, loop)
        self._barrier = Barrier(clients, self._patience, self._view, self._run, name)
        self._silence = SilenceWatch(self._patience, self._view.publish, tell)
        self._calls: set[asyncio.Future[object]] = set()
        self._future = asyncio.run_coroutine_threadsafe(self._drive(), loop)

    def wait(self, seconds: float) -> Outcome | None:
        """Waits up to ``seconds`` for the outcome; raises ``TargetError`` or ``RunError`` if nothing was measured."""
        try:
            return self._future.result(seconds)
        except TimeoutError:
            return None

    def live(self) -> Live:
        """The progress so far."""
        return self._view.newest()

    def stop(self) -> None:
        """Stops all clients; those that do not end soon are lost."""
        self._loop.call_soon_threadsafe(self._stop_all)

    def finish(self) -> None:
        """Ends the load of all clients as if its time were over."""
        self._loop.call_soon_threadsafe(self._end_all, "finish")

    def facts(self) -> ClientFacts:
        """The agents, once the run has ended."""
        ends = [client.received.end for client in self._clients if client.received.end]
        layouts = [end.layout for end in ends if end.layout]
        layout = LayoutFacts(
            bytes=sum(one.bytes for one in layouts), elapsed_ns=max((one.elapsed_ns for one in layouts), default=0)
        )
        machines = [end.machine for end in ends if end.machine]
        busiest = max(machines, key=lambda machine: machine.busy_share, default=None)
        return client_outcomes(self._clients, self._run), layout if layouts else None, busiest

    async def _drive(self) -> Outcome:
        renewing = asyncio.ensure_future(self._renew_leases())
        try:
            await self._barrier.prepare_all()
            await self._follow_all(time.time_ns() + self._barrier.lead_ns)
            await asyncio.gather(*(_finish(client) for client in self._clients))
        finally:
            renewing.cancel()
        self._view.show(phase="done")
        return merged_outcome(self._clients)

    async def _follow_all(self, start_ns: int) -> None:
        """Follows the records of all clients until each has ended or is lost."""
        start_s = time.monotonic() + self._barrier.lead_ns / SECOND_NS
        for client in self._clients:
            client.phase = RunningClient(group=client.part.groups[0], heard_s=start_s)
        following = {asyncio.ensure_future(self._follow(client, start_ns)): client for client in self._clients}
        watching = asyncio.ensure_future(self._silence.watch(following))
        try:
            await asyncio.gather(*following)
        finally:
            watching.cancel()
            self._view.publish()

    async def _follow(self, client: GroupClient, start_ns: int) -> None:
        """Follows the records of a client until its end, or until it is lost."""
        try:
            async for message in client.member.link.stream(start_ns + client.clock.offset_ns):
                assert isinstance(client.phase, RunningClient), "a client that has ended is not followed"
                if client.phase.is_silent:
                    silent = format_duration(round((time.monotonic() - client.phase.heard_s) * SECOND_NS))
                    self._tell(f"agent {client.name} sends again, after {silent}")
                client.phase = client.phase.after_message(time.monotonic())
                for record in records_of(message):
                    self._take(client, client.phase, record, start_ns)
            client.end()
        except ClientLostError as lost:
            client.lose(str(lost))
        except IocurveError as error:
            client.phase = Ended("failed", str(error))
        except asyncio.CancelledError:
            # The client has ended if it was silent for too long.
            if not client.is_over:
                raise
        self._tell_end(client)
        self._release_next()
        self._view.publish_soon()

    def _tell_end(self, client: GroupClient) -> None:
        """Tells at once that a client was lost or has failed, and stops the others if they are not to go on."""
        if not isinstance(client.phase, Ended) or client.phase.reason is None:
            return
        left = sum(not one.is_over for one in self._clients)
        others = f"; {counted(left, 'other')} {'stop' if self._stops_on_loss else 'go on'}" if left else ""
        self._tell(f"agent {client.name} {client.phase.reason}{others}")
        if self._stops_on_loss:
            self._stop_all()

    def _take(self, client: GroupClient, phase: RunningClient, record: Record, start_ns: int) -> None:
        groups = client.part.groups
        if isinstance(record, StartedRecord):
            client.starts_ns[groups[record.group]] = record.start_ns - client.clock.offset_ns
            self._view.show(phase="ready" if record.start_ns > start_ns else "ramp")
        elif isinstance(record, ClosedRecord):
            client.phase = replace(phase, group=groups[record.interval.group])
            self._merge(client, record.interval)
        elif isinstance(record, ReadyRecord):
            client.phase = replace(phase, waits_for=groups[record.group])
            self._release_next()
        else:
            assert isinstance(record, EndRecord)
            client.received.end = record

    def _merge(self, client: GroupClient, interval: IntervalRecord) -> None:
        client.received.add(interval, client.part.client)
        self._view.add(client.part.client, interval.replace(group=client.part.groups[interval.group]))

    def _release_next(self) -> None:
        for release in self._barrier.releases():
            self._spawn(release)

    async def _renew_leases(self) -> None:
        while True:
            await asyncio.sleep(self._patience.lease_s / 10)
            for client in self._clients:
                if not client.is_over:
                    self._spawn(client.member.link.call("renew_lease"))

    def _stop_all(self) -> None:
        self._silence.stop()
        self._end_all("stop")

    def _end_all(self, how: Literal["stop", "finish"]) -> None:
        for client in self._clients:
            if not client.is_over:
                self._spawn(end(client, how))

    def _spawn(self, call: Awaitable[object]) -> None:
        """Makes a call whose failure shows in the stream of records."""
        task = asyncio.ensure_future(call)
        self._calls.add(task)
        task.add_done_callback(self._calls.discard)
        task.add_done_callback(lambda done: done.cancelled() or done.exception())


async def _finish(client: GroupClient) -> None:
    """Measures the clock again and removes the local file of a client whose records have arrived."""
    if client.received.end is None:
        return
    # Its records are complete; a call that fails costs only the second reading of the clock, or leaves the file.
    with suppress(ClientLostError, TimeoutError):
        await asyncio.wait_for(client.member.link.call("forget"), REPLY_S)
        client.journal = None
    with suppress(ClientLostError, TimeoutError):
        offset_ns, _ = await asyncio.wait_for(clock_offset(client.member.link), REPLY_S)
        client.clock = client.clock.replace(drift_ns=offset_ns - client.clock.offset_ns)

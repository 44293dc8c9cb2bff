"""An agent in one run, and the link to it: its phase, its clock, and the records that it has sent.

A client prepares, runs, and ends; no phase comes back. Silence is part of running: a client that is shown as silent
runs again with its next record.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable
from typing import Any, Literal, Protocol, TypeVar

import msgspec
from msgspec.structs import replace

from iocurve.engine.outcome import IntervalRecord, KindOutcome, LiveClient, State
from iocurve.foundation.errors import RunError
from iocurve.foundation.units import format_duration
from iocurve.measure.deployment import Part
from iocurve.measure.records import EndRecord, Introduction
from iocurve.result.document import ClientClock, UntilLoss
from iocurve.result.summary import added, merge_kinds

KEPT_PARTS = 32
"""Intervals of a client that are kept before they are added up."""


class RunningClient(msgspec.Struct, frozen=True):
    """Sends records."""

    group: int
    """Index in the whole plan of the group that runs."""
    heard_s: float
    """Arrival of the newest message, by the monotonic clock."""
    is_silent: bool = False
    """Shown as silent since then."""
    waits_for: int | None = None
    """Index in the whole plan of the group that waits for its release."""

    def after_message(self, now_s: float) -> RunningClient:
        """A message has arrived."""
        return replace(self, heard_s=now_s, is_silent=False)


class Ended(msgspec.Struct, frozen=True):
    """Sends nothing more."""

    state: State | Literal["lost"]
    reason: str | None = None


Phase = RunningClient | Ended | None
"""None: it lays out files, opens connections, and waits for the start."""


class Received(msgspec.Struct):
    """The records of a client: its end, or what is kept for the case that it is lost before."""

    end: EndRecord | None = None
    intervals: int = 0
    elapsed_ns: int = 0
    kinds: dict[str, list[KindOutcome]] = msgspec.field(default_factory=dict)
    newest: IntervalRecord | None = None

    def add(self, interval: IntervalRecord, client: int) -> None:
        """Adds an interval of a client."""
        self.newest = interval
        if interval.ramp:
            return
        self.intervals += 1
        self.elapsed_ns += interval.end_ns - interval.start_ns
        for kind, part in interval.operations.items():
            self.kinds.setdefault(kind, []).append(part)
        # Clients add up in turns: all of many at once would hold up the coordinator for seconds.
        if (self.intervals + client) % KEPT_PARTS == 0:
            self.kinds = {kind: [merge_kinds(parts)] for kind, parts in self.kinds.items()}

    def until_loss(self) -> UntilLoss:
        """The sum of the intervals."""
        operations = {kind: merge_kinds(parts) for kind, parts in self.kinds.items()}
        return UntilLoss(intervals=self.intervals, elapsed_ns=self.elapsed_ns, operations=operations)


class GroupClient(msgspec.Struct):
    """A client in one run."""

    member: Member
    part: Part
    phase: Phase = None
    received: Received = msgspec.field(default_factory=Received)
    journal: str | None = None
    """Its local file, until its records have arrived."""
    clock: ClientClock = msgspec.field(default_factory=lambda: ClientClock(offset_ns=0, error_ns=0))
    starts_ns: dict[int, int] = msgspec.field(default_factory=dict)
    """Start of each group by the clock of the coordinator."""

    @property
    def name(self) -> str:
        """Name or address of the client."""
        return self.member.link.name

    @property
    def is_over(self) -> bool:
        """True once the client sends nothing more."""
        return isinstance(self.phase, Ended)

    def end(self) -> None:
        """Ends the client, of which no further message comes."""
        outcome = self.received.end.outcome if self.received.end else None
        errors = [worker.error for worker in outcome.workers if worker.error] if outcome else []
        told = f"failed: {'; '.join(dict.fromkeys(errors))}" if errors else None
        self.phase = Ended(outcome.state if outcome else "failed", told)

    def lose(self, how: str) -> None:
        """Ends the client and gives it up."""
        self.phase = Ended("lost", f"lost after {format_duration(self.received.elapsed_ns)} of measuring: {how}")
        self.member.lose()

    def live(self) -> LiveClient:
        """The client in the live view."""
        newest = self.received.newest
        parts = newest.operations.values() if newest else ()
        match self.phase:
            case Ended(state):
                shown: str = state
            case RunningClient(is_silent=True):
                shown = "silent"
            case _:
                shown = "running"
        return LiveClient(host=self.name, state=shown, **added(parts, ("operations", "bytes")))


CLOCK_ROUNDS = 25
"""Readings of a client's clock; the shortest round trip counts."""
CLOCK_S = 2.0
"""Time after which no further reading of a clock begins."""
REPLY_S = 5.0
"""Longest wait for the reply to a call that the run can do without."""

T = TypeVar("T")


class ClientLostError(Exception):
    """The transport has lost a client; the text says how."""


class Link(Protocol):
    """The way to a ``LoadClient``. Raises ``ClientLostError`` when the client is gone, and what the client raises."""

    @property
    def name(self) -> str:
        """Name or address of the client."""

    async def call(self, method: str, *arguments: object) -> Any:
        """Calls a method of the client."""

    def stream(self, start_ns: int) -> AsyncIterator[bytes]:
        """The messages of ``LoadClient.run``."""

    def abandon(self) -> None:
        """Gives up a lost client; it is not called again."""


class Member(msgspec.Struct):
    """A client of the group."""

    link: Link
    introduction: Introduction
    is_lost: bool = False
    """Lost in this run or in an earlier one."""

    def lose(self) -> None:
        """Gives up the client for this run and all later ones."""
        self.is_lost = True
        self.link.abandon()

    async def reply(self, call: Awaitable[T], seconds: float, when: str) -> T:
        """The reply to a call. Raises ``RunError`` if none arrives within ``seconds``: the client was lost ``when``."""
        try:
            return await asyncio.wait_for(call, seconds)
        except (ClientLostError, TimeoutError) as error:
            self.lose()
            raise RunError(f"agent {self.link.name} was lost {when}: {cause_of(error)}") from None


def cause_of(error: BaseException) -> str:
    """The text of an error by which a client was lost."""
    return str(error) or "it does not answer"


async def clock_offset(link: Link, rounds: int = CLOCK_ROUNDS) -> tuple[int, int]:
    """Offset of a client's clock (client minus head) and the error of it, both in ns.

    The reading with the shortest round trip counts: the client read its clock between sending and receiving, so half of
    the round trip bounds the error. Fewer readings suffice where each takes long.
    """
    best = (1 << 62, 0)
    until = time.monotonic() + CLOCK_S
    for _ in range(rounds):
        sent = time.time_ns()
        read = await link.call("clock")
        received = time.time_ns()
        best = min(best, (received - sent, read - (sent + received) // 2))
        if time.monotonic() > until:
            break
    return best[1], best[0] // 2

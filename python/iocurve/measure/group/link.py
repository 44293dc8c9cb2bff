"""The way to a load client, and the members of a group."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable
from typing import Any, Protocol, TypeVar

import msgspec

from iocurve.foundation.errors import RunError
from iocurve.measure.records import Introduction

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
            raise RunError(f"load client {self.link.name} was lost {when}: {cause_of(error)}") from None


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

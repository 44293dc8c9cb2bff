"""Finds silent clients: they are shown as silent first and lost later, so that TCP can recover."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping

import msgspec
from msgspec.structs import replace

from iocurve.engine.plan import Plan
from iocurve.foundation.units import SECOND_NS, format_duration
from iocurve.measure.group.client import GroupClient, RunningClient

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
"""A client that hears nothing from the head program for this long stops by itself; longer with long intervals."""
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
            self._tell(f"load client {client.name} has sent nothing for {silent}; it is lost after {lost}")

    def _overdue_s(self, phase: RunningClient) -> float | None:
        """Seconds for which the client has been silent, if that is too long."""
        now = time.monotonic()
        if self._stopped_s is not None:
            silent_s = now - max(phase.heard_s, self._stopped_s)
            return silent_s if silent_s > STOP_S else None
        silent_s = now - phase.heard_s
        return silent_s if silent_s > self._patience.lost_s else None

"""Agents in this process, for tests of a group without a cluster."""

import asyncio
import threading
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from goldens import present
from iocurve import _native
from iocurve.dialects.base import ClusterRequest
from iocurve.engine.outcome import KindOutcome
from iocurve.measure.client import LoadClient
from iocurve.measure.group import ClientGroup, loop_in_thread
from iocurve.measure.group.barrier import Tell, ignored
from iocurve.measure.group.client import ClientLostError, Link, Member
from iocurve.measure.records import Introduction
from iocurve.result.document import Point


class LocalLink(Link):
    """The way to an agent in this process, which can be made to die and to freeze."""

    def __init__(self, name: str, clock_error_ns: int = 0) -> None:
        self._name, self.client = name, LoadClient(clock_error_ns)
        self._threads = ThreadPoolExecutor(8)
        self.records = 0
        """Records that the coordinator got."""
        self.calls: Counter[str] = Counter()
        self.dies_after: int | None = None
        self.freezes_after: int | None = None
        self.cut_after: int | None = None
        """The link is cut; the client itself goes on to its end."""
        self.ended = threading.Event()

    @property
    def name(self) -> str:
        return self._name

    async def call(self, method: str, *arguments: Any) -> Any:
        self.calls[method] += 1
        if self._is_frozen():
            await asyncio.sleep(3600)
        return await self._in_thread(getattr(self.client, method), *arguments)

    async def stream(self, start_ns: int) -> AsyncIterator[bytes]:
        messages = self.client.run(start_ns)
        sent: list[bytes] = []
        while True:
            if not sent:
                message = await self._in_thread(next, messages, None)
                if message is None:
                    return
                sent = message.splitlines() or [b""]
            record = sent.pop(0)
            if self.dies_after is not None and self.records >= self.dies_after:
                self.client.stop()
                raise ClientLostError("ActorDiedError")
            if self.cut_after is not None and self.records >= self.cut_after:
                self._threads.submit(self._to_the_end, messages)
                raise ClientLostError("cut off")
            if self._is_frozen():
                await asyncio.sleep(3600)
            self.records += 1
            yield record

    def abandon(self) -> None:
        self.client.stop()

    def _to_the_end(self, messages: Iterator[bytes]) -> None:
        for _ in messages:
            pass
        self.ended.set()

    def _is_frozen(self) -> bool:
        return self.freezes_after is not None and self.records >= self.freezes_after

    async def _in_thread(self, function: Any, *arguments: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._threads, function, *arguments)


@contextmanager
def group_of(links: Sequence[LocalLink], tell: Tell = ignored, *, stops_on_loss: bool = False) -> Iterator[ClientGroup]:
    """A group of clients in this process."""
    with loop_in_thread() as loop:
        try:
            members = [Member(link, Introduction.from_json(link.client.introduce())) for link in links]
            yield ClientGroup(members, loop, tell=tell, stops_on_loss=stops_on_loss)
        finally:
            for link in links:
                link.abandon()


@contextmanager
def in_process(asked: ClusterRequest) -> Iterator[ClientGroup]:
    """The agents that a command line asks for, in this process."""
    names = asked.names or [f"client{number}" for number in range(asked.count or 2)]
    with group_of([LocalLink(name) for name in names]) as group:
        yield group


def require_whole_sum(point: Point, operations: int, size: int) -> tuple[list[KindOutcome], list[tuple[int, int]]]:
    """Checks that a point is the sum of its workers, each with these operations and bytes; gives both."""
    each = [one.operations["read"] for one in point.outcome.workers]
    assert [(one.operations, one.bytes) for one in each] == [(operations, size)] * len(each)
    added = _native.Histogram()
    for one in each:
        added.add(_native.Histogram.decode(one.service.histogram))
    summary = point.summary()
    assert (summary.operations, summary.bytes) == (len(each) * operations, len(each) * size)
    assert present(summary.service.histogram).buckets() == added.buckets()
    return each, added.buckets()

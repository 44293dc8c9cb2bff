"""``python -m bench.cluster_head``: CPU time and memory of the coordinator by the number of agents.

Simulated clients measure one interval a second each, and send them together as agents do. The group, its
merging and its live view are those of a run; nothing generates load. CPU time is measured in real time, memory over
minutes that are fed without a pause. The way of a record through Ray is measured apart (``--ray``): a few actors send
as many records a second as so many clients would.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import os
import random
import sys
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from bench.processes import descendants
from iocurve import _native
from iocurve._native import VERSION
from iocurve.engine import plan as planned
from iocurve.engine.outcome import IntervalRecord, KindOutcome, LatencyOutcome
from iocurve.foundation.units import KIB, MIB, SECOND_NS
from iocurve.machine.files import boot_id
from iocurve.measure import local
from iocurve.measure.deployment import replicated
from iocurve.measure.group import ClientGroup, loop_in_thread
from iocurve.measure.group.barrier import Patience
from iocurve.measure.group.client import Link, Member
from iocurve.measure.records import ClosedRecord, EndRecord, Introduction, StartedRecord
from iocurve.result import host

CLIENTS = (10, 30, 100, 300, 1000)
OPERATIONS = 20_000
"""Operations in a record: a client that does 20 k IOPS."""
MEDIAN_NS = 800_000
SIGMA = 0.6
"""Standard deviation of the logarithm of latencies."""
SETTLED_S = 60
"""Simulated time after which memory must not grow."""
RAY_ACTORS = 5


@dataclass(frozen=True)
class HeadCost:
    """The cost of the coordinator with a number of clients."""

    clients: int
    records: int
    cpu_s: float
    elapsed_s: float
    rss_bytes: tuple[int, ...] = ()
    """At the start, in the middle and at the end of the simulated minutes."""

    @property
    def cpu_us_per_record(self) -> float:
        """CPU time for each record."""
        return 1e6 * self.cpu_s / self.records

    @property
    def cores(self) -> float:
        """Processors in use."""
        return self.cpu_s / self.elapsed_s


# ---- records


@cache
def _kind(number: int) -> KindOutcome:
    """An interval of reads whose latencies spread as those of a network volume do."""
    chance = random.Random(number)
    histogram = _native.Histogram()
    for _ in range(OPERATIONS):
        histogram.record(round(chance.lognormvariate(0, SIGMA) * MEDIAN_NS))
    latency = LatencyOutcome(
        count=histogram.count,
        min_ns=histogram.min,
        max_ns=histogram.max,
        mean_ns=histogram.mean,
        stddev_ns=histogram.stddev,
        histogram=histogram.encode(),
    )
    return KindOutcome(
        operations=OPERATIONS, bytes=OPERATIONS * 4 * KIB, errors=0, short=0, service=latency, response=None
    )


def record(number: int) -> bytes:
    """The record of interval ``number``, as a client sends it."""
    interval = IntervalRecord(
        group=0,
        index=number,
        ramp=False,
        start_ns=number * SECOND_NS,
        end_ns=(number + 1) * SECOND_NS,
        operations={"read": _kind(number % 8)},
    )
    return msgspec.json.encode(ClosedRecord(interval=interval))


@cache
def end_record() -> bytes:
    """The last record of a client."""
    outcome = local.run(plan(1))
    return msgspec.json.encode(EndRecord(outcome=outcome, layout=None, machine=None))


def plan(clients: int) -> planned.Plan:
    """A worker for each client; it is never run but for the last record."""
    worker = planned.Worker(
        job="simulated",
        jobnum=0,
        report_group=0,
        engine=planned.NullEngine(),
        files=(planned.FilePlan(path="nothing", offset_bytes=0, bytes=MIB, layout="fill", keep=False),),
        file_select="round_robin",
        operations=(
            planned.OperationPlan(
                kind="read", share=1, blocks=planned.FixedBlocks(bytes=4 * KIB), random_percent=100, rate=None
            ),
        ),
        access=planned.Access(cover="once", passes="same"),
        depth=8,
        start_delay_ns=0,
        ramp_ns=0,
        end=planned.End(runtime_ns=None, bytes=MIB, operations=None),
        seed=1,
        payload=planned.Payload(content=planned.RandomContent(), renew="scramble"),
    )
    whole = planned.Plan(name="simulated", interval_ns=SECOND_NS, groups=(planned.Group(workers=(worker,)),))
    return replicated(whole, clients)


# ---- clients


@dataclass
class Feed:
    """Holds the records and the measurements of all simulated clients."""

    lines: Sequence[bytes]
    """The records of a client, the same for all."""
    is_paced: bool
    started: tuple[float, float] | None = None
    """CPU time and time at the first record."""
    ended: tuple[float, float] = (0.0, 0.0)
    rss_bytes: list[int] = field(default_factory=list)

    def begin(self) -> None:
        """The first record of a client is about to be sent."""
        self.started = self.started or (time.process_time(), time.monotonic())

    def end(self) -> None:
        """The last record of a client has been sent."""
        self.ended = (time.process_time(), time.monotonic())


class SimulatedLink(Link):
    """The way to a simulated client."""

    def __init__(self, number: int, clients: int, feed: Feed) -> None:
        self._number, self._clients, self._feed = number, clients, feed

    @property
    def name(self) -> str:
        """``client-7``."""
        return f"client-{self._number}"

    async def call(self, method: str, *arguments: Any) -> Any:
        """Answers a call as a client would."""
        del arguments
        await asyncio.sleep(0)
        answers = {"clock": time.time_ns(), "prepare": "/nowhere", "progress": b"null"}
        return answers.get(method)

    async def stream(self, start_ns: int) -> AsyncIterator[bytes]:
        """The records: one a second, or one after the other without a pause."""
        yield msgspec.json.encode(StartedRecord(group=0, start_ns=start_ns))
        feed = self._feed
        if feed.is_paced:
            await asyncio.sleep(1 + self._number / self._clients)
        feed.begin()
        sampled = _sampled(len(feed.lines)) if self._number == 0 else ()
        due = time.monotonic()
        together = _together(self._clients)
        for first in range(0, len(feed.lines), together):
            if sampled and first + together > sampled[0]:
                feed.rss_bytes.append(_rss_bytes())
                sampled = sampled[1:]
            lines = feed.lines[first : first + together]
            yield b"\n".join(lines)
            due += len(lines)
            await asyncio.sleep(max(0.0, due - time.monotonic()) if feed.is_paced else 0)
        feed.end()
        yield end_record()

    def abandon(self) -> None:
        """Nothing runs."""


class SimulatedClient:
    """A client that is an actor and sends records at a rate."""

    def __init__(self, seconds: float, clients: int) -> None:
        together = _together(clients)
        self._rate = clients / RAY_ACTORS / together
        lines = [record(number) for number in range(round(seconds * clients / RAY_ACTORS))]
        self._messages = [b"\n".join(lines[first : first + together]) for first in range(0, len(lines), together)]

    def introduce(self) -> bytes:
        """As an agent does."""
        return msgspec.json.encode(_introduction())

    def clock(self) -> int:
        """As an agent does."""
        return time.time_ns()

    def prepare(self, _task: bytes) -> str:
        """Nothing is to be prepared."""
        end_record()
        return "/nowhere"

    def progress(self) -> bytes:
        """Nothing is laid out."""
        return b"null"

    def run(self, start_ns: int) -> Iterator[bytes]:
        """The records, at the rate."""
        yield msgspec.json.encode(StartedRecord(group=0, start_ns=start_ns))
        due = start_ns
        for message in self._messages:
            due += round(SECOND_NS / self._rate)
            time.sleep(max(0, due - time.time_ns()) / SECOND_NS)
            yield message
        yield end_record()

    def renew_lease(self) -> None:
        """Nothing stops by itself."""

    def forget(self) -> None:
        """There is no local file."""


def _together(clients: int) -> int:
    """Intervals of a second that a client sends together."""
    return max(1, round(Patience.of(plan(1), clients).send_s))


def _introduction() -> Introduction:
    return Introduction(host=host.collect(), iocurve=VERSION, boot=boot_id())


# ---- measuring


def simulated(clients: int, records: int, *, is_paced: bool) -> HeadCost:
    """Feeds the records of simulated clients to a group in this process."""
    end_record()
    feed = Feed([record(number) for number in range(records)], is_paced)
    links = [SimulatedLink(number, clients, feed) for number in range(clients)]
    introduction = _introduction()
    with loop_in_thread() as loop:
        group = ClientGroup([Member(link, introduction) for link in links], loop)
        local.measure(plan(clients), machines=group)
    assert feed.started is not None
    return HeadCost(
        clients=clients,
        records=clients * records,
        cpu_s=feed.ended[0] - feed.started[0],
        elapsed_s=feed.ended[1] - feed.started[1],
        rss_bytes=tuple(feed.rss_bytes),
    )


def through_ray(clients: int, seconds: float) -> HeadCost:
    """Receives records at the rate of ``clients`` clients from a few actors; includes Ray's own processes."""
    import ray

    # Workers import the class by its module, which has another name where it is the program.
    from bench.cluster_head import SimulatedClient as Client
    from iocurve.cluster.session import RayLink

    os.environ |= {"RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0"}
    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False, object_store_memory=80 * MIB)
    try:
        remote = ray.remote(num_cpus=0, max_concurrency=8)(Client)
        actors = [remote.remote(seconds, clients) for _ in range(RAY_ACTORS)]
        ray.get([actor.introduce.remote() for actor in actors])
        members = [
            Member(RayLink(ray, actor, f"client-{number}"), _introduction()) for number, actor in enumerate(actors)
        ]
        with loop_in_thread() as loop:
            group = ClientGroup(members, loop)
            running = group.start(plan(RAY_ACTORS), "simulated")
            while running.live().phase not in ("ramp", "run"):
                running.wait(0.01)
            cpu_s, at_s = _cpu_s(), time.monotonic()
            while running.wait(local.POLL_S) is None:
                running.live()
            cpu_s, elapsed_s = _cpu_s() - cpu_s, time.monotonic() - at_s
    finally:
        ray.shutdown()
    return HeadCost(clients=clients, records=round(clients * seconds), cpu_s=cpu_s, elapsed_s=elapsed_s)


def _cpu_s() -> float:
    """CPU time of this process and of Ray's processes that it started, those of the actors left out."""
    ticks = os.sysconf("SC_CLK_TCK")
    daemons = [words for name, words in descendants(os.getpid()) if not name.startswith("ray::")]
    return time.process_time() + sum(int(words[11]) + int(words[12]) for words in daemons) / ticks


def _sampled(records: int) -> tuple[int, ...]:
    return SETTLED_S, (SETTLED_S + records) // 2, records - 1


def _rss_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


# ---- the program


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures and prints the table."""
    options = _parser().parse_args(arguments)
    console = Console(width=120)
    if options.ray:
        for clients in options.clients:
            cost = through_ray(clients, options.seconds)
            used = f"{cost.cores:.1%} of a processor, {cost.cpu_us_per_record:,.0f} us a record"
            console.print(f"{clients} records/s through Ray: {used}")
        return 0
    table = Table(title="The coordinator, 1 record/s from each client", title_justify="left", box=SIMPLE)
    memory = f"RSS MiB after 1, {(1 + options.minutes) / 2:g} and {options.minutes:g} min"
    for heading in ("clients", "of a processor", "us a record", memory):
        table.add_column(heading, justify="right")
    for clients in options.clients:
        paced = _apart(clients, options.seconds, is_paced=True)
        fed = _apart(clients, round(60 * options.minutes), is_paced=False)
        sizes = ", ".join(f"{size / MIB:,.0f}" for size in fed.rss_bytes)
        used = clients * paced.cpu_us_per_record / 1e6
        table.add_row(f"{clients:,}", f"{used:.1%}", f"{paced.cpu_us_per_record:,.0f}", sizes)
    console.print(f"A record has {len(record(0)):,} bytes and {OPERATIONS:,} latencies.")
    console.print(table)
    return 0


def _apart(clients: int, records: int, *, is_paced: bool) -> HeadCost:
    """Measures in a separate process, whose memory nothing else has used."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(simulated, clients, records, is_paced=is_paced).result()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.cluster_head", description=__doc__)
    parser.add_argument("clients", nargs="*", type=int, default=CLIENTS, help="numbers of clients")
    parser.add_argument("--seconds", type=int, default=20, help="real time for the CPU time of each")
    parser.add_argument("--minutes", type=float, default=5, help="simulated time for the memory of each")
    parser.add_argument("--ray", action="store_true", help="measure the way through Ray instead")
    return parser


if __name__ == "__main__":
    sys.exit(main())

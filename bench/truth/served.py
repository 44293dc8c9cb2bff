"""iocurve's NFS client against a stub server that logs what it did."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import fmean

from bench.truth import measured
from bench.truth.instruments import Logged, Service, machine_delays, run_served, undisturbed
from bench.truth.measured import Times
from bench.truth.table import Row
from iocurve.engine import plan as planned
from iocurve.foundation.units import MILLISECOND_NS, SECOND_NS
from iocurve.result.document import Point
from iocurve.targets.target import NfsTarget

SHAPES = ("constant:1000", "exponential:1000", "lognormal:1000:1", "bimodal:500:5500:0.1")
"""All with a mean of 1 ms."""
SLEEP = "this machine: wake-up of a C program from a sleep"
DEPTH_OPEN = 512
"""Enough in flight for an open loop never to be held up, but for the case that shows what happens if it is."""


def closed(scale: float) -> Iterator[Row]:
    """Closed loops at depths 1, 4 and 16."""
    row, machine = measured.exchange_delays(round(2000 * scale))
    yield row
    for depth, operations in ((1, 2000), (4, 4000), (16, 8000)):
        for shape in SHAPES:
            point, log = _run(Service(shape), round(operations * scale), depth)
            yield measured.compared(f"depth {depth}, {_named(shape)}", point, measured.held(log), machine)
    for name, service in (
        ("4 slots", Service("constant:1000", slots=4)),
        ("stalls of 100 ms at 0.3 s and 0.8 s", Service("constant:1000", stalls_s=((0.3, 0.1), (0.8, 0.1)))),
        ("cap of 3,000/s, bursts of 50", Service("constant:1000", cap=(3000, 50))),
    ):
        point, log = _run(service, round(4000 * scale), 16)
        yield measured.compared(f"depth 16, {_named(service.shape)}, {name}", point, measured.held(log), machine)
    point, log = _run(Service("constant:1000"), round(4000 * scale), 4, is_write=True)
    yield measured.compared("depth 4, constant, writes", point, measured.held(log), machine)


def opened(scale: float) -> Iterator[Row]:
    """Open loops: latency counts from when an operation is due, whenever it was sent."""
    sleeps = machine_delays("sleep", round(2000 * scale), MILLISECOND_NS)
    yield measured.machine_row(SLEEP, sleeps)
    row, machine = measured.exchange_delays(round(2000 * scale))
    yield row
    for shape in SHAPES:
        yield _open(f"500/s evenly, 1 slot, {_named(shape)}", Service(shape, slots=1), 500, scale, machine)
    for shape in SHAPES:
        yield _open(f"2,000/s evenly, {_named(shape)}", Service(shape), 2000, scale, machine)
    stalls = Service("constant:500", slots=1, stalls_s=((1.0, 0.2), (2.0, 0.05)))
    yield _open("1,000/s evenly, 1 slot, constant, stalls of 200 and 50 ms", stalls, 1000, scale, machine)
    name = "the same at depth 4, which delays the sending"
    yield _open(name, stalls, 1000, scale, machine, depth=4)
    capped = Service("constant:500", cap=(2000, 1000))
    yield _open("2,200/s evenly above a cap of 2,000/s, burst of 1,000", capped, 2200, scale, machine, depth=4096)
    # An operation is sent after a sleep, and its answer is an exchange.
    both = Times(tuple(map(sum, zip(machine.values, Times.of(sleeps).values, strict=True))))
    for shape in SHAPES[:3]:
        yield _poisson(f"500/s Poisson, 1 slot, {_named(shape)}", Service(shape, slots=1), 500, scale, both)


def theory(scale: float) -> Iterator[Row]:
    """Compares the stub's log and iocurve's results with the formulas of queueing theory."""
    for shape in SHAPES:
        yield _never_idle(shape, scale)
    for queue in QUEUES:
        point, log = _run(queue.service, round(10_000 * scale), DEPTH_OPEN, rate=measured.paced(queue.per_s, "poisson"))
        yield from _beside_theory(queue, point, log)


def _never_idle(shape: str, scale: float) -> Row:
    """A closed loop keeps the only server busy: its throughput is one by the mean of the service times drawn."""
    point, log = _run(Service(shape, slots=1), round(3000 * scale), 4)
    expected = SECOND_NS / fmean(one.service_ns for one in log)
    rate = (len(log) - 1) * SECOND_NS / (log[-1].sent_ns - log[0].sent_ns)
    name = f"closed loop, depth 4, 1 slot, {_named(shape)}: operations/s"
    return name, f"{expected:,.1f}", _against(rate, expected), _against(point.summary().iops, expected), ""


@dataclass(frozen=True)
class Poisson:
    """A queue with Poisson arrivals and one server."""

    name: str
    service: Service
    per_s: int
    squared_variation: float
    """Variance of the service times, relative to the square of their mean."""

    @property
    def mean_us(self) -> float:
        """Mean response (Pollaczek and Khinchine)."""
        load = self.per_s * self.service.mean_us / 1e6
        return self.service.mean_us * (1 + load * (1 + self.squared_variation) / 2 / (1 - load))


QUEUES = (
    Poisson("M/M/1", Service("exponential:400", slots=1), 1250, 1.0),
    Poisson("M/D/1", Service("constant:400", slots=1), 1250, 0.0),
    Poisson("M/G/1, lognormal", Service("lognormal:400:0.5", slots=1), 1250, math.expm1(0.25)),
)
"""At half of their capacity."""


def _beside_theory(queue: Poisson, point: Point, log: list[Logged]) -> Iterator[Row]:
    times = [one.time_ns / 1000 for one in log]
    found = point.summary().latency
    spread = f"±{2 * measured.block_error(times) / fmean(times):.1%}"
    name = f"{queue.name}, {queue.per_s:,}/s"
    yield (
        f"{name}: mean (µs)",
        f"{queue.mean_us:,.0f}",
        _against(fmean(times), queue.mean_us),
        _against(found.mean_ns / 1000, queue.mean_us),
        spread,
    )
    if queue.name != "M/M/1":
        return
    figures = Times.of(times)
    for place, percent in ((1, 50), (2, 95), (3, 99)):
        # The response of M/M/1 is exponential with the mean 1 / (mu - lambda).
        expected = -math.log(1 - percent / 100) * queue.mean_us
        yield (
            f"{name}: p{percent} (µs)",
            f"{expected:,.0f}",
            _against(figures.values[place], expected),
            _against(found.percentile(percent) / 1000, expected),
            spread,
        )


def _against(found: float, expected: float) -> str:
    return f"{found:,.1f} ({found / expected - 1:+.2%})"


def _run(service: Service, operations: int, depth: int, **changes: object) -> tuple[Point, list[Logged]]:
    def plan(port: int) -> planned.Plan:
        mount = NfsTarget.of(f"nfs://127.0.0.1/stub?nfsport={port}&mountport={port}").mount(1)
        return measured.load(planned.NfsEngine(mount=mount), "data", operations, depth, **changes)

    return undisturbed(lambda: run_served(service, plan))


def _open(name: str, service: Service, per_s: int, scale: float, machine: Times, *, depth: int = DEPTH_OPEN) -> Row:
    operations = round(max(2000, 3 * per_s) * scale)
    point, log = _run(service, operations, depth, rate=measured.paced(per_s))
    return measured.compared(name, point, measured.due_evenly(log, per_s), machine)


def _poisson(name: str, service: Service, per_s: int, scale: float, machine: Times) -> Row:
    point, log = _run(service, round(2000 * scale), DEPTH_OPEN, rate=measured.paced(per_s, "poisson"))
    # The schedule is iocurve's own. Nothing holds an operation up at this depth: it arrives when it is due.
    return measured.compared(name, point, measured.held(log), machine)


def _named(shape: str) -> str:
    return shape.partition(":")[0]

"""A storage target as a queueing model in simulated time, for probes that call ``run(plan)``.

Operations pass the caps, then the stations, then a delay, in the order in which they come. Caps and stations keep their
state from run to run, so that a bucket that a probe has emptied is empty for the next.
"""

from __future__ import annotations

import base64
import heapq
import math
import random
import struct
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from data.synthetic import kind, outcome, worker_outcome
from iocurve.engine.derived import block_bytes_min
from iocurve.engine.outcome import IntervalKind, IntervalOutcome, KindOutcome, LogOutcome, WorkerOutcome
from iocurve.engine.plan import NfsEngine, Plan, Worker
from iocurve.foundation.units import SECOND_NS
from iocurve.result.document import MachineUse, Point

QUIET = MachineUse(busy_share=0.1, cpus=2, own_share=0.05, others_share=0.05, steal_share=0.0, thread_delay_share=0.0)
GAP_S = 0.03
"""Time between two runs: mounts and connections."""

Admit = Callable[[float, float], float]
"""Time at which an operation that comes at a time (s) with a cost is let through; calls are in order of time."""
Draw = Callable[[], float]


def bucket(rate: float, burst: float) -> Admit:
    """Token bucket (as ITU-T I.371's virtual scheduling); a burst of 1 paces at equal gaps."""
    due = -math.inf

    def admit(now: float, cost: float) -> float:
        nonlocal due
        at = max(now, due - max(0.0, burst - cost) / rate)
        due = max(due, at) + cost / rate
        return at

    return admit


def fixed_window(rate: float, length: float) -> Admit:
    """So much in each window of a clock."""
    quota, window, used = rate * length, 0, 0.0

    def admit(now: float, cost: float) -> float:
        nonlocal window, used
        current = math.floor(now / length)
        if current > window:
            window, used = current, 0.0
        # A remainder is carried over, so that the rate is exact.
        while used >= quota:
            window, used = window + 1, used - quota
        used += cost
        return max(now, window * length)

    return admit


def sliding_window(rate: float, length: float) -> Admit:
    """So much in any window."""
    quota, kept, used = max(1.0, rate * length), deque[tuple[float, float]](), 0.0

    def admit(now: float, cost: float) -> float:
        nonlocal used
        at = now
        while kept and (kept[0][0] <= at - length or used + cost > quota):
            earlier, spent = kept.popleft()
            at, used = max(at, earlier + length), used - spent
        kept.append((at, cost))
        used += cost
        return at

    return admit


def smoothing(rate: float, memory: float) -> Admit:
    """Holds an exponential average of the rate."""
    level, last = 0.0, 0.0

    def admit(now: float, cost: float) -> float:
        nonlocal level, last
        at = max(now, last)
        level *= math.exp(-(at - last) / memory)
        if level > rate:
            at += memory * math.log(level / rate)
            level = rate
        level, last = level + cost / memory, at
        return at

    return admit


@dataclass
class Cap:
    """A limit: what it counts, and for whom."""

    make: Callable[[], Admit]
    unit: str = "operations"
    kind: str | None = None
    scope: str = "all"
    """all, client or connection."""
    write_cost: float = 1.0
    """A written operation or byte counts as this many."""
    parts: dict[object, Admit] = field(default_factory=dict)

    def admit(self, now: float, operation: _Operation) -> float:
        if self.kind not in (None, operation.kind):
            return now
        key = {"all": None, "client": operation.client, "connection": operation.connection}[self.scope]
        part = self.parts.setdefault(key, self.make())
        cost = self.write_cost if operation.kind == "write" else 1.0
        return part(now, cost * (operation.bytes if self.unit == "bytes" else 1))


@dataclass
class Stations:
    """Servers of one queue."""

    count: int
    service: Callable[[str, int], float]
    """Seconds, by kind and bytes."""
    free: list[float] = field(default_factory=list)

    def done(self, now: float, operation: _Operation, slowness: float) -> float:
        if not self.free:
            self.free = [0.0] * self.count
        start = max(now, heapq.heappop(self.free))
        end = start + slowness * self.service(operation.kind, operation.bytes)
        heapq.heappush(self.free, end)
        return end


@dataclass
class _Operation:
    worker: int
    kind: str
    bytes: int
    connection: object
    client: object
    submitted: float
    done: float = 0.0


@dataclass
class Target:
    """A target, and the machine that loads it."""

    delay: Draw = lambda: 0.0002
    caps: list[Cap] = field(default_factory=list)
    stations: Stations | None = None
    slots: int | None = None
    """Operations that it takes of a connection at a time."""
    slower_from: float = math.inf
    """Simulated time from which stations take ``slowness`` times as long."""
    slowness: float = 1.0
    overhead: float = 20e-6
    """Processor time of this machine for an operation, one after another."""
    stall_rate: float = 0.0
    stall: float = 0.005
    """Mean length of the times in which this machine does nothing."""
    chance: random.Random = field(default_factory=lambda: random.Random(1))
    now: float = 1.0
    clock: float = 0.0
    """Time within a run."""
    runs: int = 0

    def run(self, plan: Plan) -> Point:
        """One run."""
        self.runs += 1
        self.now += GAP_S
        run = _Run(self, plan)
        point = run.result()
        # Operations in flight are waited for.
        self.now = max([run.end, *(one.done for done in run.done for one in done)])
        return point


class _Run:
    def __init__(self, target: Target, plan: Plan) -> None:
        self.target, self.plan, self.start = target, plan, target.now
        self.workers = plan.groups[0].workers
        self.window = [
            (self.start + one.ramp_ns / SECOND_NS, self.start + (one.ramp_ns + (one.end.runtime_ns or 0)) / SECOND_NS)
            for one in self.workers
        ]
        self.end = max(end for _, end in self.window)
        self.events: list[tuple[float, int, str, object]] = []
        self.count = 0
        self.processor = self.start
        self.stalls = self._stalls()
        self.flying = [0] * len(self.workers)
        self.issued = [0] * len(self.workers)
        self.paused = [False] * len(self.workers)
        self.due = [self.start] * len(self.workers)
        self.waiting: dict[object, deque[_Operation]] = {}
        self.taken: Counter[object] = Counter()
        self.done: list[list[_Operation]] = [[] for _ in self.workers]

    def result(self) -> Point:
        for number in range(len(self.workers)):
            self._push(self.start, "submit", number)
        while self.events:
            now, _, step, item = heapq.heappop(self.events)
            self.target.clock = now
            getattr(self, f"_{step}")(now, item)
        outcomes = [self._outcome(number, worker) for number, worker in enumerate(self.workers)]
        return Point(name="p", family="f", axes={}, plan=self.plan, outcome=outcome(*outcomes), machine=QUIET)

    def _push(self, at: float, step: str, item: object) -> None:
        self.count += 1
        heapq.heappush(self.events, (at, self.count, step, item))

    def _stalls(self) -> list[tuple[float, float]]:
        target, at, found = self.target, self.start, []
        while target.stall_rate and at < self.end:
            at += target.chance.expovariate(target.stall_rate)
            length = target.chance.expovariate(1 / target.stall)
            found.append((at, at + length))
            at += length
        return found

    def _awake(self, now: float) -> float:
        for start, end in self.stalls:
            if start <= now < end:
                return end
        return now

    def _submit(self, now: float, number: int) -> None:
        worker = self.workers[number]
        while self.flying[number] < worker.depth and not self.paused[number] and now < self.end:
            if worker.rate:
                if self.due[number] > now:
                    self._push(self.due[number], "submit", number)
                    return
                self.due[number] += worker.rate.per_ns / worker.rate.count / SECOND_NS
            self.processor = max(self.processor, self._awake(now)) + self.target.overhead
            operation = self._operation(number, worker, now)
            self.flying[number] += 1
            self.issued[number] += 1
            self._push(self.processor, "arrive", operation)
            if worker.think and self.issued[number] % worker.think.every == 0:
                self.paused[number] = True

    def _operation(self, number: int, worker: Worker, now: float) -> _Operation:
        weights = [one.share for one in worker.operations]
        (chosen,) = self.target.chance.choices(worker.operations, weights)
        engine = worker.engine
        connection, client = (number, 0), None
        if isinstance(engine, NfsEngine):
            connection, client = (number, self.issued[number] % engine.mount.nconnect), engine.mount.source
        return _Operation(number, chosen.kind, block_bytes_min(chosen.blocks), connection, client, now)

    def _arrive(self, now: float, operation: _Operation) -> None:
        slots, key = self.target.slots, operation.connection
        if slots and self.taken[key] >= slots:
            self.waiting.setdefault(key, deque()).append(operation)
            return
        self.taken[key] += 1
        self._cap(now, (operation, 0))

    def _cap(self, now: float, item: tuple[_Operation, int]) -> None:
        operation, stage = item
        target = self.target
        if stage < len(target.caps):
            self._push(target.caps[stage].admit(now, operation), "cap", (operation, stage + 1))
            return
        slowness = target.slowness if now >= target.slower_from else 1.0
        served = target.stations.done(now, operation, slowness) if target.stations else now
        self._push(served + target.delay(), "complete", operation)

    def _complete(self, now: float, operation: _Operation) -> None:
        key, number = operation.connection, operation.worker
        self.taken[key] -= 1
        if waiting := self.waiting.get(key):
            self.taken[key] += 1
            self._cap(now, (waiting.popleft(), 0))
        operation.done = self._awake(now)
        self.done[number].append(operation)
        self.flying[number] -= 1
        worker = self.workers[number]
        if self.paused[number]:
            if self.flying[number] == 0 and worker.think:
                self._push(operation.done + worker.think.pause_ns / SECOND_NS + 30e-6, "resume", number)
            return
        self._submit(operation.done, number)

    def _resume(self, now: float, number: int) -> None:
        self.paused[number] = False
        self._submit(self._awake(now), number)

    # ---- the outcome

    def _outcome(self, number: int, worker: Worker) -> WorkerOutcome:
        start, end = self.window[number]
        measured = [one for one in self.done[number] if start <= one.done < end]
        kinds: dict[str, KindOutcome] = {}
        for name in {one.kind for one in worker.operations}:
            own = [one for one in measured if one.kind == name]
            latencies = Counter(_rounded(one.done - one.submitted) for one in own)
            kinds[name] = kind(latencies, own[0].bytes if own else 0)
        window = (round((start - self.start) * SECOND_NS), round((end - self.start) * SECOND_NS))
        made = worker_outcome(
            kinds,
            number=number,
            window_ns=window,
            intervals=self._intervals(measured, window),
            report_group=worker.report_group,
        )
        return made.replace(log=self._log(measured) if worker.log else None)

    def _intervals(self, measured: Sequence[_Operation], window: tuple[int, int]) -> list[IntervalOutcome]:
        length = self.plan.interval_ns
        cells: dict[int, list[_Operation]] = {}
        for one in measured:
            cells.setdefault(int((one.done - self.start) * SECOND_NS / length), []).append(one)
        found = []
        for index in range(window[0] // length, -(-window[1] // length)):
            at, until = max(window[0], index * length), min(window[1], (index + 1) * length)
            counts: dict[str, list[_Operation]] = {}
            for one in cells.get(index, []):
                counts.setdefault(one.kind, []).append(one)
            kinds = {name: _interval_kind(own) for name, own in counts.items()}
            found.append(IntervalOutcome(index=index, ramp=False, start_ns=at, end_ns=until, operations=kinds))
        return found

    def _log(self, measured: Sequence[_Operation]) -> LogOutcome:
        done = sorted(measured, key=lambda one: one.done)
        at = [round((one.done - self.start) * SECOND_NS) for one in done]
        service = [(one.done - one.submitted) * SECOND_NS for one in done]
        return LogOutcome(
            window_ns=None,
            records=len(done),
            lost=0,
            kinds=("read",),
            at_ns=_packed("Q", at),
            kind=base64.b64encode(bytes(len(done))).decode(),
            bytes=_packed("Q", [one.bytes for one in done]),
            service_ns=_packed("d", service),
            response_ns="",
            offset=_packed("Q", [0] * len(done)),
            operations="",
            service_ns_max="",
            histograms=(),
        )


def _packed(form: str, values: Sequence[float]) -> str:
    return base64.b64encode(struct.pack(f"<{len(values)}{form}", *values)).decode()


def _rounded(seconds: float) -> int:
    """Three digits, as a histogram keeps."""
    value = max(1, round(seconds * SECOND_NS))
    step = int(10 ** max(0, len(str(value)) - 3))
    return value // step * step


def _interval_kind(own: Sequence[_Operation]) -> IntervalKind:
    latencies = [(one.done - one.submitted) * SECOND_NS for one in own]
    mean = math.fsum(latencies) / len(own)
    return IntervalKind(
        operations=len(own),
        bytes=sum(one.bytes for one in own),
        errors=0,
        mean_ns=mean,
        stddev_ns=0.0,
        p50_ns=round(mean),
        p99_ns=round(max(latencies)),
        min_ns=round(min(latencies)),
        max_ns=round(max(latencies)),
    )

"""Brings caches into the state that a scenario asks for, and finds out whether they answered, whatever was asked.

``resident_share`` tells how much of a load's files the page cache holds, without reading anything from storage:
cachestat(2) counts the pages; kernels before 6.5 do not have it, and then blocks are sampled by reads with
``RWF_NOWAIT`` (preadv2(2)), which return what is cached and fail where they would have to wait for storage.
"""

from __future__ import annotations

import ctypes
import errno
import os
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean, linear_regression

import msgspec

from iocurve.analysis.cache_evidence import compared, judged
from iocurve.analysis.measured_load import MeasuredLoad
from iocurve.engine.derived import with_workers
from iocurve.engine.outcome import Live, Outcome
from iocurve.engine.plan import FileOpen, FilePlan, Plan, Worker
from iocurve.foundation.units import SECOND_NS, format_bytes, format_duration, format_latency
from iocurve.job.model import Job
from iocurve.job.resolve.tree import layout
from iocurve.measure.local import Enough, run_to_the_end
from iocurve.measure.scenario.cases import Case, Cases
from iocurve.measure.scenario.document import TURN_NS_MIN
from iocurve.result.document import CacheFacts, Point
from iocurve.result.summary import summarise

CHECK_PAIRS = 12
"""Times that repeated offsets and fresh ones take turns: the sign test then bears with one turn that goes wrong."""
CHECK_NS_MAX = 180 * SECOND_NS
"""Longest time of all turns."""
CHECK_TURN_NS_MIN = TURN_NS_MIN // 2
"""Shortest turn: many periods of a token bucket."""
CHECK_POINTS = 6
"""The turns take as long as this many points."""
SETTLE_FACTOR = 20
"""A load without its own time has this many times a point's length to level off."""
SETTLE_ROUNDS = 10
"""Rounds in the length of a point: latency has levelled off when a window of them is steady."""

Prepare = Callable[[Plan, str, Enough], Outcome]
"""Runs a plan that is not measured; the text says what for."""
Planned = Callable[[Job], Plan]


class Caches(msgspec.Struct):
    """Brings caches into the state that a scenario asks for, and looks whether they played a part."""

    cases: Cases
    planned: Planned
    run: Prepare
    _checked: set[str] = msgspec.field(default_factory=set)
    _resident: dict[str, float | None] = msgspec.field(default_factory=dict)
    """By case: the part of its files that the page cache held before it."""

    def prepare(self, case: Case, plan: Plan) -> str:
        """Before a point; says what was done. Raises ``TargetError`` or ``RunError`` where that fails."""
        self._lay_out(plan)
        said = self._prepared(case)
        self._resident[case.name] = resident_share(plan)
        return said

    def _lay_out(self, plan: Plan) -> None:
        """Completes the trees of a plan: the points before it removed files."""
        if made := layout(plan, "layout"):
            self.run(made, "laying out files", run_to_the_end)

    def _prepared(self, case: Case) -> str:
        policy = case.family.cache
        if policy == "untouched":
            return ""
        if policy == "cached":
            self._run(case.job, "the same load before it is measured")
            said = "the same load at the same offsets ran once before"
        elif policy == "warmed":
            for target in case.on:
                self._run(self.cases.whole(target), "filling caches")
            said = "the data set was read once before"
        else:
            # Before each turn: the turns before it have brought the data set, which all points share, into caches.
            for target in case.on:
                self._run(self.cases.unrelated(target), "reading unrelated data")
            unrelated = format_bytes(self.cases.form.unrelated_bytes)
            said = f"{unrelated} of unrelated data were read before; offsets are new"
        if policy == "warmed" or self.cases.form_of(case).settle_ns:
            said += f"; {self._settle(case)}"
        return said

    def facts(self, case: Case, plan: Plan, preparation: str, point: Point) -> CacheFacts | None:
        """After a point: repeated offsets and fresh ones take turns, once a family, where there are reads."""
        if case.family.cache == "untouched":
            return None
        after = resident_share(plan)
        facts = CacheFacts(policy=case.family.cache, preparation=preparation)
        load = MeasuredLoad(point, self.cases.opened[case.on[0]].facts)
        return judged(self._compared(facts, case, plan), load, (self._resident.get(case.name), after))

    def _compared(self, facts: CacheFacts, case: Case, plan: Plan) -> CacheFacts:
        reads = any(operation.kind == "read" for worker in plan.groups[0].workers for operation in worker.operations)
        if not reads or case.family.name in self._checked:
            return facts
        self._checked.add(case.family.name)
        runtime_ns = self.cases.form_of(case).runtime_ns
        length = turn_ns(runtime_ns)
        rates: dict[str, list[float]] = {"repeated": [], "fresh": []}
        plan = _lasting(plan, length)
        newest = _again(plan, self._turn(plan))
        elsewhere = case.job.changed(lambda said: said.but(repeatable=False))
        for number in range(CHECK_PAIRS):
            # Repeated offsets run first in every other pair, so that a steady drift favours neither.
            for name in ("repeated", "fresh") if number % 2 == 0 else ("fresh", "repeated"):
                turn = newest if name == "repeated" else _lasting(self.planned(elsewhere), length)
                outcome = self._turn(turn)
                rates[name].append(summarise("", turn, outcome.workers).iops)
                newest = newest if name == "repeated" else _again(turn, outcome)
        return compared(facts, rates["repeated"], rates["fresh"])

    def _run(self, job: Job, what: str) -> None:
        self.run(self.planned(job), what, run_to_the_end)

    def _turn(self, plan: Plan) -> Outcome:
        return self.run(plan, "looking whether caches answer", run_to_the_end)

    def _settle(self, case: Case) -> str:
        """Runs the point's load until its latency has levelled off."""
        length = self.cases.form_of(case).runtime_ns
        longest = self.cases.form_of(case).settle_ns or SETTLE_FACTOR * length
        plan = self.planned(case.job)
        watcher = _Settled(max(plan.interval_ns, length // SETTLE_ROUNDS))
        self.run(_lasting(plan, longest), "waiting until latency has levelled off", watcher.update)
        took = format_duration(watcher.elapsed_ns)
        if watcher.is_settled:
            return f"the load ran for {took}, until its latency had levelled off at {format_latency(watcher.level_ns)}"
        return f"the load ran for {took}, and its latency had not levelled off"


def turn_ns(runtime_ns: int) -> int:
    """The length of a turn of repeated or fresh offsets, of points of this length."""
    whole = min(CHECK_NS_MAX, CHECK_POINTS * runtime_ns)
    return max(min(CHECK_TURN_NS_MIN, runtime_ns), whole // (2 * CHECK_PAIRS + 1))


class _Settled:
    """Watches latency in rounds until a window of them is steady."""

    def __init__(self, round_ns: int) -> None:
        self._round_ns = round_ns
        self._seen = 0
        self._current: list[float] = []
        self._ends_ns = 0
        self._rounds: list[float] = []
        self.elapsed_ns = 0
        self.level_ns = 0.0
        self.is_settled = False

    def update(self, live: Live) -> bool:
        """True when it has levelled off."""
        if live.phase != "run" or live.intervals <= self._seen:
            return False
        self._seen, self.elapsed_ns = live.intervals, live.elapsed_ns
        operations = sum(kind.operations for kind in live.operations.values())
        if operations:
            waited = sum(kind.operations * kind.mean_ns for kind in live.operations.values())
            self._current.append(waited / operations)
        self._ends_ns = self._ends_ns or live.elapsed_ns + self._round_ns
        if live.elapsed_ns < self._ends_ns or not self._current:
            return False
        self._rounds.append(fmean(self._current))
        self._current, self._ends_ns = [], live.elapsed_ns + self._round_ns
        found = window(self._rounds)
        self.level_ns, self.is_settled = found or (0.0, False)
        return self.is_settled


def _lasting(plan: Plan, runtime_ns: int) -> Plan:
    """The same load for another time. No ramp, which would leave less to repeat than it reads."""
    return with_workers(plan, lambda _, one: one.replace(ramp_ns=0, end=one.end.replace(runtime_ns=runtime_ns)))


def _again(plan: Plan, outcome: Outcome) -> Plan:
    """The same offsets once more, and none beyond those that ran: a faster load would reach fresh ones."""
    ran = {(one.group, one.worker): sum(kind.operations for kind in one.operations.values()) for one in outcome.workers}
    return with_workers(
        plan, lambda place, worker: worker.replace(end=worker.end.replace(operations=max(1, ran.get(place, 1))))
    )


ROUNDS = 5
RANGE_MAX = 0.20
SLOPE_MAX = 0.10


def window(rounds: Sequence[float]) -> tuple[float, bool] | None:
    """The average of the newest rounds, and True if they are steady; None while there are too few.

    The window is that of SNIA's Solid State Storage Performance Test Specification (section "steady state"): over five
    rounds the values stay within 20 % of their average from the lowest to the highest, and the least-squares line
    through them rises or falls by no more than 10 % of it.
    """
    newest = list(rounds[-ROUNDS:])
    if len(newest) < ROUNDS:
        return None
    average = fmean(newest)
    slope, _ = linear_regression(range(ROUNDS), newest)
    is_steady = max(newest) - min(newest) <= RANGE_MAX * average and abs(slope) * (ROUNDS - 1) <= SLOPE_MAX * average
    return average, is_steady


SAMPLES = 256
SAMPLE_BYTES = 4096
CACHESTAT = 451
"""The number of the system call, the same on all architectures that iocurve is built for."""


def resident_share(plan: Plan) -> float | None:
    """The part of the files that the page cache holds; None where I/O bypasses it, or the system does not tell."""
    files = {
        (file.path, file.offset_bytes): file
        for worker in plan.groups[0].workers
        if worker.disk is None and _is_buffered(worker)
        for file in worker.files
    }
    shares = [
        (share, file.bytes)
        for file in files.values()
        if (share := _share(file, max(1, SAMPLES // len(files)))) is not None
    ]
    whole = sum(size for _, size in shares)
    return sum(share * size for share, size in shares) / whole if whole else None


def _share(file: FilePlan, samples: int) -> float | None:
    if not Path(file.path).is_file() or not file.bytes:
        return None
    descriptor = os.open(file.path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        counted = _counted(descriptor, file)
        return _sampled(descriptor, file, samples) if counted is None else counted
    finally:
        os.close(descriptor)


def _counted(descriptor: int, file: FilePlan) -> float | None:
    """By cachestat(2); None where the kernel or the file system does not have it."""
    place = (ctypes.c_uint64 * 2)(file.offset_bytes, file.bytes)
    # Pages in the cache, dirty, in writeback, evicted, evicted recently.
    pages = (ctypes.c_uint64 * 5)()
    if ctypes.CDLL(None, use_errno=True).syscall(CACHESTAT, descriptor, place, pages, 0) != 0:
        return None
    return min(1.0, pages[0] * os.sysconf("SC_PAGE_SIZE") / file.bytes)


def _is_buffered(worker: Worker) -> bool:
    opened = getattr(worker.engine, "open", None)
    return isinstance(opened, FileOpen) and not opened.direct


def _sampled(descriptor: int, file: FilePlan, count: int) -> float | None:
    """The share of some blocks that are in the page cache."""
    if not hasattr(os, "RWF_NOWAIT"):
        return None
    # The same blocks each time: a sample must not depend on the run.
    chance = random.Random(0)
    blocks = max(1, file.bytes // SAMPLE_BYTES)
    buffer = bytearray(SAMPLE_BYTES)
    places = [file.offset_bytes + chance.randrange(blocks) * SAMPLE_BYTES for _ in range(count)]
    answers = [answer for place in places if (answer := _is_cached(descriptor, buffer, place)) is not None]
    return sum(answers) / len(answers) if answers else None


def _is_cached(descriptor: int, buffer: bytearray, offset: int) -> bool | None:
    try:
        return os.preadv(descriptor, [buffer], offset, os.RWF_NOWAIT) > 0
    except OSError as error:
        return False if error.errno == errno.EAGAIN else None

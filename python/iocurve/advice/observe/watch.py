"""Turns counters at successive instants into an observation."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from iocurve.advice.observation import (
    KindObserved,
    LimitNear,
    Observation,
    ObservedInterval,
    ProcessObserved,
)
from iocurve.advice.observe.counters import Clock, CounterSample, KindCounters, Processes, Subject
from iocurve.errors import TargetError

PROCESSES_MAX = 10
"""Most processes in an observation."""
Sleep = Callable[[float], None]


def samples(
    subject: Subject,
    seconds: float,
    interval_s: float,
    root: Path = Path("/"),
    sleep: Sleep = time.sleep,
    clock: Clock = time.monotonic,
) -> Iterator[CounterSample]:
    """Samples at even times; the last one at the end. Raises ``TargetError`` if the subject goes away."""
    first = subject.sample(root, clock)
    yield first
    number = 1
    while True:
        due = min(number * interval_s, seconds)
        sleep(max(0.0, first.time_s + due - clock()))
        yield subject.sample(root, clock)
        if due >= seconds:
            return
        number += 1


def interval(earlier: CounterSample, later: CounterSample, start_s: float) -> ObservedInterval:
    """The operations between two samples. Raises ``TargetError`` if the counters went back."""
    return ObservedInterval(
        start_s=start_s,
        read=_between(earlier, later, earlier.read, later.read),
        write=_between(earlier, later, earlier.write, later.write),
    )


def observation(
    subject: Subject,
    taken: Sequence[CounterSample],
    processes: tuple[Processes, Processes] | None = None,
    limits: Sequence[LimitNear] = (),
) -> Observation:
    """The observation of two samples or more. Raises ``TargetError`` if there are fewer, or counters went back."""
    if len(taken) < 2:
        raise TargetError(f"{subject.name}: nothing was observed; watch for at least one interval")
    first, last = taken[0], taken[-1]
    whole = interval(first, last, 0.0)
    pairs = itertools.pairwise(taken)
    seconds = last.time_s - first.time_s
    began = datetime.fromtimestamp(time.time() - seconds, UTC)
    return Observation(
        subject=subject.name,
        counters=subject.counters,
        began=began.isoformat(timespec="seconds"),
        seconds=seconds,
        read=whole.read,
        write=whole.write,
        other_operations=last.other_operations - first.other_operations,
        intervals=tuple(interval(one, two, one.time_s - first.time_s) for one, two in pairs),
        processes=moved(*processes, subject) if processes else (),
        limits=tuple(limits),
        connections=len(subject.mount.transports) or subject.mount.nconnect if subject.mount else None,
    )


def moved(before: Processes, after: Processes, subject: Subject) -> tuple[ProcessObserved, ...]:
    """The processes that moved bytes in between; those that have ended are not there.

    Processes with files open on the subject come first, then the busiest.
    """
    found = []
    for (pid, name), (read, written) in after.moved.items():
        read_before, written_before = before.moved.get((pid, name), (0, 0))
        if read > read_before or written > written_before:
            found.append((read - read_before, written - written_before, pid, name))
    busiest = [
        ProcessObserved(
            pid=pid, name=name, read_bytes=read, write_bytes=written, has_files_open=after.has_open(pid, subject)
        )
        for read, written, pid, name in sorted(found, key=lambda one: -(one[0] + one[1]))
    ]
    # Others work on other file systems, or for the kernel.
    return tuple(sorted(busiest, key=lambda one: not one.has_files_open)[:PROCESSES_MAX])


def _between(earlier: CounterSample, later: CounterSample, before: KindCounters, after: KindCounters) -> KindObserved:
    seconds = later.time_s - earlier.time_s
    if after.operations < before.operations or seconds <= 0:
        raise TargetError("the counters went back: it was mounted or attached again while it was observed")
    return KindObserved(
        operations=after.operations - before.operations,
        bytes=after.bytes - before.bytes,
        seconds=seconds,
        latency_us_total=after.total_us - before.total_us,
        client_wait_us_total=_difference(after.client_wait_us, before.client_wait_us),
        server_us_total=_difference(after.server_us, before.server_us),
    )


def _difference(after: int | None, before: int | None) -> float | None:
    return None if after is None or before is None else float(after - before)

"""Merges the runs of a point that takes turns with others, and splits a run of several phases into points.

A merged outcome reads as if the measured windows of the runs had followed one another without a gap: counts add up,
histograms are merged, intervals are renumbered. The ramps of all runs but the first are left out. A phase is a group of
workers that starts when the group before it has ended.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence

from iocurve.engine.derived import measured_ns
from iocurve.engine.outcome import Absence, GroupInterval, KindOutcome, Outcome, State, WorkerOutcome
from iocurve.engine.plan import Plan
from iocurve.foundation.units import numbered
from iocurve.result.course import Record, of_outcome
from iocurve.result.document import MachineUse, Point, ProcessorUse, Turn
from iocurve.result.stalls import disturbance
from iocurve.result.summary import add_counts, merge_cpu, merge_kinds, worst

MOST_AT_ONCE = 1 << 20
"""Stands for a batch that has no upper bound: those in flight are fewer."""
TURN_PERCENTILES = {"p50_ns": 50.0, "p99_ns": 99.0, "p99_9_ns": 99.9}
"""The percentiles that turns keep."""


def with_turn(point: Point | None, run: Point, place: tuple[int, int], discarded: Sequence[Point] = ()) -> Point:
    """A point with one more run; ``place`` is its round and its order. None makes a point of the first run.

    ``discarded`` has the runs that it replaces.
    """
    turn = turn_of(run, place, len(discarded))
    others = tuple(turn_of(one, place) for one in discarded)
    if point is None:
        return run.replace(runs=(turn,), retries=len(others), discarded=others, noise=_disturbed([turn]))
    turns = (*point.runs, turn)
    return point.replace(
        outcome=merged(point.outcome, run.outcome),
        layout=point.layout or run.layout,
        machine=_mean_use(point, run),
        runs=turns,
        retries=point.retries + len(others),
        discarded=(*point.discarded, *others),
        noise=_disturbed(turns),
    )


def with_run(point: Point, run: Point, discarded: Sequence[Point]) -> Point:
    """A point with one more run, as its next turn; a point that was measured once has had its first."""
    if not point.runs:
        turn = turn_of(point, (1, 1), point.retries)
        point = point.replace(runs=(turn,), noise=_disturbed([turn]))
    number = len(point.runs) + 1
    return with_turn(point, run, (number, number), discarded)


def in_state(point: Point, state: State) -> Point:
    """The point with this state: it is interrupted as long as turns are missing."""
    workers = tuple(worker.replace(state=state) for worker in point.outcome.workers)
    return point.replace(outcome=point.outcome.replace(state=state, workers=workers))


def has_turn(point: Point | None, number: int) -> bool:
    """True if the point finished its turn of a round."""
    return point is not None and any(turn.repetition == number and turn.state == "finished" for turn in point.runs)


def turn_of(run: Point, place: tuple[int, int], retries: int = 0) -> Turn:
    """The values of a run; ``place`` is its round and its order."""
    summary = run.summary()
    return Turn(
        repetition=place[0],
        order=place[1],
        state=run.outcome.state,
        window_ns=summary.window_ns,
        operations=summary.operations,
        iops=summary.iops,
        bytes_per_s=summary.bytes_per_s,
        mean_ns=summary.latency.mean_ns,
        **{name: round(summary.latency.percentile(percent)) or None for name, percent in TURN_PERCENTILES.items()},
        max_ns=round(summary.latency.max_ns) or None,
        batch=sum(_batch(worker) for worker in run.outcome.workers) or None,
        cpu_us_per_operation=summary.cpu_us_per_operation,
        kinds=run.kind_figures if len(run.kind_figures) > 1 else {},
        seeds=tuple(worker.seed for group in run.plan.groups for worker in group.workers),
        retries=retries,
        noise=disturbance(run),
    )


BATCHES_MIN = 0.01
"""Batches of a size that is rarer, of all that completed, say nothing of the edges of a window."""


def _batch(worker: WorkerOutcome) -> int:
    """The largest usual size of a batch of completions, as its level has it; 1 where none is known."""
    levels = {size: count for size, count in worker.complete_levels.items() if size != "0" and count}
    least = BATCHES_MIN * sum(levels.values())
    sizes = [MOST_AT_ONCE if size.startswith(">") else int(size) for size, count in levels.items() if count >= least]
    return max(sizes, default=1)


def _disturbed(turns: Sequence[Turn]) -> str | None:
    """``3 of 6 turns: other processes used 48 % of the processors``, the text being that of the newest."""
    found = [turn.noise for turn in turns if turn.noise]
    return f"{len(found)} of {len(turns)} runs: {found[-1]}" if found else None


# ---- outcomes


def merged(before: Outcome, run: Outcome) -> Outcome:
    """The outcome of several runs of the same plan; its state is that of the newest."""
    known = {(worker.group, worker.worker): worker for worker in before.workers}
    first = _next_index(before, run)
    newest = {
        (worker.group, worker.worker): _merged_worker(known.get((worker.group, worker.worker)), worker, first)
        for worker in run.workers
    }
    intervals = (*of_outcome(before), *_shifted_groups(before, run, first))
    return Outcome(state=run.state, workers=tuple((known | newest).values()), intervals=intervals)


def _next_index(before: Outcome, run: Outcome) -> int:
    """Number of the first interval of a further run: records still start at multiples of their length."""
    workers = (*before.workers, *run.workers)
    length = max((interval.joined for worker in workers for interval in worker.intervals), default=1)
    end = max((one.index + one.joined for worker in before.workers for one in worker.intervals), default=0)
    return -(-end // length) * length


def _shifted_groups(before: Outcome, run: Outcome, first_index: int) -> Iterator[GroupInterval]:
    """The intervals of the groups of a further run, after those of the runs before it."""
    for group in sorted({worker.group for worker in run.workers}):
        end_ns = max((worker.window_end_ns for worker in before.workers if worker.group == group), default=0)
        start_ns = min(worker.window_start_ns for worker in run.workers if worker.group == group)
        intervals = [interval for interval in of_outcome(run) if interval.group == group]
        yield from _shifted(intervals, end_ns - start_ns, first_index)


def _merged_worker(before: WorkerOutcome | None, run: WorkerOutcome, first_index: int) -> WorkerOutcome:
    if before is None:
        return run
    shift_ns = before.window_end_ns - run.window_start_ns
    end_ns = before.window_end_ns + measured_ns(run)
    return run.replace(
        window_start_ns=before.window_start_ns,
        window_end_ns=end_ns,
        drained_ns=run.drained_ns + shift_ns,
        absences=(*before.absences, *_shifted_absences(run.absences, shift_ns)),
        drained_operations=before.drained_operations + run.drained_operations,
        operations=_merged_kinds(before.operations, run.operations),
        cpu=merge_cpu([before.cpu, run.cpu]),
        depth_levels=add_counts([before.depth_levels, run.depth_levels]),
        submit_levels=add_counts([before.submit_levels, run.submit_levels]),
        complete_levels=add_counts([before.complete_levels, run.complete_levels]),
        read_back_ns=before.read_back_ns + run.read_back_ns,
        reconnects=before.reconnects + run.reconnects,
        counters=add_counts([before.counters, run.counters]),
        labels=tuple(dict.fromkeys((*before.labels, *run.labels))),
        intervals=(*before.intervals, *_shifted(run.intervals, shift_ns, first_index)),
    )


def _shifted(intervals: Sequence[Record], shift_ns: int, first_index: int) -> list[Record]:
    """The intervals of the measured window, renumbered; no time is negative, as a ramp may be longer than the shift."""
    return [
        interval.replace(
            index=interval.index + first_index, start_ns=interval.start_ns + shift_ns, end_ns=interval.end_ns + shift_ns
        )
        for interval in intervals
        if not interval.ramp
    ]


def _shifted_absences(several: Sequence[Absence], shift_ns: int) -> list[Absence]:
    return [absence.replace(start_ns=max(0, absence.start_ns + shift_ns)) for absence in several]


def _merged_kinds(before: dict[str, KindOutcome], run: dict[str, KindOutcome]) -> dict[str, KindOutcome]:
    return {
        kind: merge_kinds([before[kind], run[kind]]) if kind in before and kind in run else (before | run)[kind]
        for kind in before | run
    }


# ---- the machine


def _mean_use(point: Point, run: Point) -> MachineUse | None:
    """Shares are means over the measured time, the largest delays stay the largest, bytes add up."""
    before, newest = point.machine, run.machine
    if before is None or newest is None:
        return before or newest
    earlier, later = point.summary().window_ns, run.summary().window_ns
    weight = later / (earlier + later) if earlier + later else 0.5

    def mean(first: float, second: float) -> float:
        return first + weight * (second - first)

    shares = ("own_share", "target_share", "others_share", "steal_share")
    largest = ("thread_busy_share", "thread_delay_share", "target_delay_share", "volume_starved_share")
    sums = ("device_read_bytes", "device_write_bytes")
    return newest.replace(
        busy_share=mean(before.busy_share, newest.busy_share),
        processors=_mean_processors(before.processors, newest.processors, weight),
        **_each(shares, mean, before, newest),
        **_each(largest, max, before, newest),
        **_each(sums, operator.add, before, newest),
    )


def _each(
    names: Sequence[str], combine: Callable[[float, float], float], before: MachineUse, newest: MachineUse
) -> dict[str, float | None]:
    """Combines figures of two uses; one that is unknown in either stays unknown."""
    pairs = {name: (getattr(before, name), getattr(newest, name)) for name in names}
    return {name: None if None in pair else combine(*pair) for name, pair in pairs.items()}


def _mean_processors(
    before: Sequence[ProcessorUse], newest: Sequence[ProcessorUse], weight: float
) -> tuple[ProcessorUse, ...]:
    earlier = {one.processor: one for one in before}
    return tuple(
        ProcessorUse(
            processor=one.processor,
            user_share=known.user_share + weight * (one.user_share - known.user_share),
            system_share=known.system_share + weight * (one.system_share - known.system_share),
        )
        for one in newest
        if (known := earlier.get(one.processor)) is not None
    )


# ---- phases


JOBS_NAMED_MAX = 3
"""Most jobs in the name of a phase, as in that of an imported one."""


def phase_names(plan: Plan) -> tuple[str, ...]:
    """The names of the phases of a plan: those of their jobs, the same ones numbered. None if it has one phase."""
    if len(plan.groups) == 1:
        return ()
    names: list[str] = []
    for group in plan.groups:
        jobs = list(dict.fromkeys(worker.job for worker in group.workers))
        more = f" and {len(jobs) - JOBS_NAMED_MAX} more" * (len(jobs) > JOBS_NAMED_MAX)
        names.append(", ".join(jobs[:JOBS_NAMED_MAX]) + more)
    return tuple(numbered(names))


def phases_of(run: Point, names: Sequence[str], machines: Sequence[MachineUse | None] = ()) -> tuple[Point, ...]:
    """A point for each phase of a run that started, with its name; the run itself if there are no names.

    ``machines`` has the use of this machine in each phase, as far as it is known.
    """
    if not names:
        return (run,)
    plan = run.plan
    started = sorted({worker.group for worker in run.outcome.workers})
    states = _states(run.outcome, started)
    return tuple(
        run.replace(
            name=names[number],
            plan=plan.replace(name=names[number], groups=(plan.groups[number],)),
            outcome=run.outcome.replace(
                state=state,
                workers=tuple(worker.replace(group=0) for worker in _of_group(run.outcome, number)),
                intervals=tuple(one.replace(group=0) for one in of_outcome(run.outcome) if one.group == number),
            ),
            layout=run.layout if number == started[0] else None,
            machine=machines[number] if number < len(machines) else run.machine,
            phase=number,
        )
        for number, state in zip(started, states, strict=True)
    )


def _of_group(outcome: Outcome, number: int) -> list[WorkerOutcome]:
    return [worker for worker in outcome.workers if worker.group == number]


def _states(outcome: Outcome, started: Sequence[int]) -> list[State]:
    """The state of each phase; a run that was stopped after the last operation is stopped in its last phase."""
    states = [worst(worker.state for worker in _of_group(outcome, number)) for number in started]
    return states if outcome.state in states else [*states[:-1], outcome.state]


def whole_run(points: Sequence[Point], name: str) -> tuple[Point, ...]:
    """The phases of one run joined to the point that they were; other points as they are."""
    phases = {point.phase: point for point in points if point.phase is not None}
    if not phases:
        return tuple(points)
    first, *_ = phases.values()
    groups = [phases.get(number, first).plan.groups[0] for number in range(max(phases) + 1)]
    workers = [one.replace(group=number) for number, point in phases.items() for one in point.outcome.workers]
    intervals = [one.replace(group=number) for number, point in phases.items() for one in point.outcome.intervals]
    state = worst(point.outcome.state for point in phases.values())
    outcome = first.outcome.replace(state=state, workers=tuple(workers), intervals=tuple(intervals))
    plan = first.plan.replace(name=name, groups=tuple(groups))
    return (first.replace(name=name, plan=plan, outcome=outcome, axes={}, phase=None),)

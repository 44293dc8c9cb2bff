"""Facts of a run that its percentiles and rates do not tell apart from the usual speed of a target.

Reads of what was never written cost the target little or nothing. A stall is the target's. While the agent itself
did not run (``Absence``), the target is not to blame. A point is disturbed where other work on this machine took part
of it. Each has a remark, a code and a sentence, which a result keeps and every command prints.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal, TypeAlias

from iocurve.engine.derived import block_bytes_min
from iocurve.engine.outcome import Absence, WorkerOutcome
from iocurve.engine.plan import Plan
from iocurve.foundation.units import MILLISECOND_NS, SECOND_NS, counted, format_duration, format_latency, format_number
from iocurve.result.document import MachineUse, Point, TargetFacts
from iocurve.result.summary import MergedOperations, SeriesInterval, Summary, add_counts, unwritten_reads

Condition = Literal["idle", "noisy", "CPU-starved", "not known"]
"""The machine while a point ran.

noisy: others may have moved the rate by more than 2 %. CPU-starved: and a thread of the load or of its target waited
for a processor for so long that the rate is one of this machine. not known: the system does not tell, or the point was
too short.
"""

FOREIGN_SHARE = 0.10
"""Others use this share of all processors. Services of an idle system use 1 to 3 %; ours could not run elsewhere on a
machine with few processors, and on any machine caches, memory and clock rates are shared."""
STEAL_SHARE = 0.02
"""The hypervisor takes this share. Nothing inside the machine can evade it."""
DELAYED = 0.10
"""A thread was ready and waited for a processor for this share of the time. Threads of the load and of the target also
wait for each other, so this counts only together with ``FOREIGN_PROCESSORS``."""
STARVED = 0.30
"""A thread that waits for a processor for more than this share gets too little of it to tell anything else."""
VOLUME_STARVED = 0.02
"""An iocurve volume counts that it was starved for this share of the time: its rates may be lower by as much."""
FOREIGN_PROCESSORS = 0.2
"""Others use this much of one processor."""
NAMED_MAX = 3
"""Points that a sentence names; tables mark all of them."""
OTHERS, HYPERVISOR = "other processes", "the hypervisor"
WINDOW_NS_MIN = 200 * MILLISECOND_NS
"""The kernel counts CPU time in ticks of 10 ms: the shares of a shorter run are too coarse to tell."""


def noise(use: MachineUse | None, window_ns: int) -> str | None:
    """Describes how others disturbed a run; None if they did not, or if the system does not tell."""
    if use is None or window_ns < WINDOW_NS_MIN:
        return None
    others, steal, delay = use.others_share or 0.0, use.steal_share or 0.0, starved_share(use)
    found = [
        *([f"{OTHERS} used {others:.0%} of the processors"] if others >= FOREIGN_SHARE else []),
        *([f"{HYPERVISOR} took {steal:.0%}"] if steal >= STEAL_SHARE else []),
        *(
            [f"a thread of the {starved_party(use)} waited for a processor for {delay:.0%} of the time"]
            if delay >= DELAYED and (others + steal) * use.cpus >= FOREIGN_PROCESSORS
            else []
        ),
    ]
    return ", ".join(found) or None


def disturbance(point: Point) -> str | None:
    """How others on this machine disturbed a point; None where they did not, or that is not known."""
    return noise(point.machine, point.summary().window_ns)


def severity(use: MachineUse | None) -> float:
    """Orders runs by how much others took: the share of the processors."""
    return (use.others_share or 0.0) + (use.steal_share or 0.0) if use else 0.0


def starved_share(use: MachineUse | None) -> float:
    """Longest share of time for which a thread of the load or of its target was ready and had no processor."""
    return max(use.thread_delay_share or 0.0, target_starved_share(use)) if use else 0.0


def target_starved_share(use: MachineUse | None) -> float:
    """The same of the target's threads alone."""
    return (use.target_delay_share or 0.0) if use else 0.0


def starved_party(use: MachineUse) -> Literal["load", "target"]:
    """The party whose thread waited longest for a processor."""
    return "load" if (use.thread_delay_share or 0.0) >= (use.target_delay_share or 0.0) else "target"


def waited_for_others(use: MachineUse) -> float:
    """As ``starved_share``, without the target's threads where only the load can have kept them waiting."""
    others = ((use.others_share or 0.0) + (use.steal_share or 0.0)) * use.cpus
    return starved_share(use) if others >= FOREIGN_PROCESSORS else use.thread_delay_share or 0.0


def starved_volume(use: MachineUse | None) -> float:
    """The share of time for which the measured volume was starved; 0 if it is below ``VOLUME_STARVED``."""
    share = (use.volume_starved_share or 0.0) if use else 0.0
    return share if share >= VOLUME_STARVED else 0.0


def first_names(names: Sequence[str], separator: str = ", ") -> str:
    """The first of some points, and how many more there are."""
    more = [f"{len(names) - NAMED_MAX} more"] if len(names) > NAMED_MAX else []
    return separator.join([*names[:NAMED_MAX], *more])


def starved_volume_text(shares: Mapping[str, float]) -> str | None:
    """Names the points in which the measured volume was starved, and the largest share; None if there are none."""
    if not any(shares.values()):
        return None
    names = first_names([name for name, share in shares.items() if share])
    return (
        f"the volume had no processor, or was stopped, for up to {100 * max(shares.values()):.0f} % of the time "
        f"({names}): rates may be lower and latencies higher than its limits"
    )


def condition(point: Point) -> Condition:
    """The machine while a point ran."""
    use = point.machine
    if point.noise:
        # Without others, the threads of the load and of its target wait for each other.
        return "CPU-starved" if starved_share(use) >= STARVED else "noisy"
    is_told = use is not None and use.others_share is not None and point.summary().window_ns >= WINDOW_NS_MIN
    return "idle" if is_told else "not known"


def culprits(points: Iterable[Point]) -> str:
    """The parties that disturbed some points, with the most that each took: ``other processes (up to 48 %)``."""
    found = [(point.noise, point.machine) for point in points if point.noise]
    parties = [
        (party, max((getattr(use, share) or 0.0 for _, use in found if use), default=0.0))
        for party, share in ((OTHERS, "others_share"), (HYPERVISOR, "steal_share"))
        if any(party in text for text, _ in found)
    ]
    named = [f"{party} (up to {100 * most:.0f} % of the processors)" if most else party for party, most in parties]
    return " and ".join(named) or OTHERS


STALL_NS = SECOND_NS
"""An operation that takes this long, and ``TIMES`` the median, has met a stall."""
SHORT_STALL_NS = 100 * MILLISECOND_NS
"""The same of one that takes ``TIMES`` the 99.9th percentile."""
TIMES = 10
LACKING_SHARE = 0.1
"""This machine is named as a cause of a stall if it may have lacked processors for this share of it."""
WINDOW_LATENCIES = 4
"""A window with room for fewer operations in sequence is short: the queue fills and drains in a similar time."""
ZEROS_SHARE = 0.01
"""A smaller share of blocks of zeros is that of usual data."""
MISSED_SHARE = 0.001
"""A greater share of due operations that were never sent is remarked: p99.9 would be another with them."""


Stall: TypeAlias = tuple[int, int]
"""Start, since the start of the group, and length, in ns."""
CLIENT_ABSENT, TARGET_STALLED, SLOW_TARGET = "client_absent", "target_stalled", "slow_target"
UNFINISHED, MISSED = "operations_unfinished", "operations_missed"
READS_UNWRITTEN, VERIFIER_CHANGED = "reads_unwritten", "verifier_changed"
CODES = frozenset({CLIENT_ABSENT, TARGET_STALLED, SLOW_TARGET, UNFINISHED, MISSED, READS_UNWRITTEN, VERIFIER_CHANGED})
"""Codes of the remarks."""


def longest_stall(workers: Sequence[WorkerOutcome]) -> Stall | None:
    """The longest stall of the target; None if nothing stood out, or if this machine did not run at that time."""
    kinds = {kind for worker in workers for kind in worker.operations}
    found = [stall for kind in sorted(kinds) if (stall := _stall(workers, kind))]
    return max(found, key=lambda stall: stall[1], default=None)


def course_beside_stall(point: Point) -> list[SeriesInterval]:
    """The measured intervals without those that the longest stall touches: a stall is no level."""
    course, stall = point.course(), longest_stall(point.outcome.workers)
    if stall is None:
        return course
    return [one for one in course if one.end_ns <= stall[0] or one.start_ns >= sum(stall)]


def of_target(point: Point) -> Stall | None:
    """The longest stall, unless a starved thread of the load or of the target had no processor for half of its time."""
    found = longest_stall(point.outcome.workers)
    share = starved_share(point.machine)
    is_machine = share >= STARVED and found is not None and share * point.summary().window_ns >= found[1] / 2
    return None if is_machine else found


def repeats_text(point: Point) -> str:
    """A sentence on the runs of a point that do not count, without a full stop; empty if there are none."""
    if not point.discarded:
        return ""
    runs = "; ".join(run.text for run in point.discarded)
    times = counted(len(point.discarded), "time")
    return f"{point.name} was measured again {times} because others used this machine; runs that do not count: {runs}"


def discarded_text(points: Sequence[Point]) -> str:
    """The number of all runs that do not count, and their longest operation; empty if there are none."""
    runs = [run for point in points for run in point.discarded]
    longest = max((run.max_ns or 0 for run in runs), default=0)
    told = f", longest operation {format_latency(longest)}" if longest else ""
    return f"{counted(len(runs), 'disturbed run')} measured again{told}" if runs else ""


def absences(workers: Sequence[WorkerOutcome]) -> list[Absence]:
    """The times in which an agent did not run, each once."""
    found = {(one.start_ns, one.duration_ns) for worker in workers for one in worker.absences}
    return [Absence(start_ns=start, duration_ns=duration) for start, duration in sorted(found)]


def is_brief(summary: Summary) -> bool:
    """True if the window is short for the latency of the operations: it shows how a queue fills and drains."""
    return bool(summary.service.count) and summary.service.mean_ns * WINDOW_LATENCIES > summary.window_ns > 0


def limit_iops(target: TargetFacts, plan: Plan) -> float | None:
    """The most IOPS that the known limits of a target allow a plan: None where none is known.

    They are its IOPS, its throughput in the smallest blocks of the plan, and what its servers do at once.
    """
    workers = [worker for group in plan.groups for worker in group.workers]
    moving = [one for worker in workers for one in worker.operations if one.kind in ("read", "write")]
    blocks = [block_bytes_min(one.blocks) for one in moving]
    throughput, servers = target.throughput_bytes_per_s, target.servers
    found = [
        target.iops,
        throughput / min(blocks) if throughput and blocks and min(blocks) else None,
        servers * SECOND_NS / target.service_ns if servers and target.service_ns else None,
    ]
    return min((one for one in found if one), default=None)


def foreseen_text(name: str, depth: int, iops: float, runtime_ns: int) -> str:
    """Says before a run that it is short for its depth at a rate that is known; empty if it is not."""
    latency_ns = round(depth / iops * SECOND_NS) if iops else 0
    if latency_ns * WINDOW_LATENCIES <= runtime_ns:
        return ""
    return (
        f"{name}: {depth} in flight at {format_number(iops, 3)} IOPS take {format_duration(latency_ns)} each, and the "
        f"run is {format_duration(runtime_ns)}: it will show how the queue fills and drains. Use a runtime of at least "
        f"{format_duration(latency_ns * WINDOW_LATENCIES)}, or a smaller iodepth"
    )


def missed_share(summary: Summary) -> float:
    """Share of the due operations that were never sent, under a rate."""
    due = summary.operations + summary.drained + summary.unfinished + summary.missed
    return summary.missed / due if due else 0.0


def unwritten_text(workers: Sequence[WorkerOutcome]) -> str:
    """The share of the files, or of the reads, that holds no data, with the remedy; empty if that is little."""
    unwritten, zeros, sampled = unwritten_reads(workers)
    if unwritten:
        share, cost = 100 * unwritten, "need"
        found = f"{share:.3g} % of the files that it reads were never written (holes, or space that is only allocated)"
    elif zeros >= ZEROS_SHARE:
        share, cost = 100 * zeros, "may need"
        found = f"{share:.3g} % of {sampled:,} sampled reads were blocks of zeros, as if never written"
    else:
        return ""
    remedy = "Fill the target first (rw=write bs=1m, once over all of it)"
    return f"{found}: such reads {cost} no I/O, and rates are too high. {remedy}"


def lacking_ns(point: Point, stall: Stall) -> int:
    """Most of a stall in which this machine may be to blame; 0 if that is little.

    A thread of the load or of the target was ready and had no processor, or the client did not run.
    """
    away = sum(_overlap(one, stall[0], sum(stall)) for one in absences(point.outcome.workers))
    starved = round(waited_for_others(point.machine) * point.summary().window_ns) if point.machine else 0
    found = min(stall[1], max(away, starved))
    return found if found >= LACKING_SHARE * stall[1] else 0


def stall_text(point: Point, stall: Stall) -> str:
    """Says when the target stalled; where this machine lacked processors meanwhile, the target is not blamed alone."""
    name, took = point.summary().name, f"an operation took {format_latency(stall[1])}"
    start = f"{format_duration(stall[0])} after the start of the load"
    if not (lacking := lacking_ns(point, stall)):
        return f"{name}: the target stalled {start}: {took}"
    return (
        f"{name}: {took}, from {start}: the target stalled, or this machine did; for up to "
        f"{format_duration(lacking)} of that time it had no processor for a thread that was ready"
    )


def stalled_points_text(points: Sequence[Point]) -> str:
    """``operations stalled for up to 3.02 s in 1 of 8 points``; empty without stalls."""
    found = [stall[1] for point in points if (stall := longest_stall(point.outcome.workers))]
    longest = format_latency(max(found, default=0))
    return f"operations stalled for up to {longest} in {len(found)} of {counted(len(points), 'point')}" if found else ""


def remarks(point: Point) -> Iterator[tuple[str, str]]:
    """Code and sentence of each remark on a point."""
    summary, workers = point.summary(), point.outcome.workers
    for absence in absences(workers):
        yield (
            CLIENT_ABSENT,
            f"{summary.name}: iocurve itself did not run for {format_duration(absence.duration_ns)}, "
            f"{format_duration(absence.start_ns)} after the start of the load (it was stopped, or had no processor): "
            "latencies and rates of that time are not the target's",
        )
    if stall := longest_stall(workers):
        yield TARGET_STALLED, stall_text(point, stall)
    if text := unwritten_text(workers):
        yield READS_UNWRITTEN, f"{summary.name}: {text}"
    if changes := add_counts([worker.counters for worker in workers]).get("verifier_changes"):
        yield (
            VERIFIER_CHANGED,
            f"{summary.name}: the server's write verifier changed {counted(changes, 'time')}: it restarted or failed "
            "to sync, and may have lost writes that it had accepted",
        )
    if summary.unfinished:
        yield (
            UNFINISHED,
            f"{summary.name}: {counted(summary.unfinished, 'operation')} never completed: latencies have the age that "
            "each reached, a lower bound",
        )
    if (share := missed_share(summary)) > MISSED_SHARE:
        yield (
            MISSED,
            f"{summary.name}: {counted(summary.missed, 'due operation')} ({100 * share:.2g} %) were never sent: the "
            "load was below its rate. Response latencies have the time that they waited, a lower bound",
        )
    if is_brief(summary):
        yield (
            SLOW_TARGET,
            f"{summary.name}: an operation takes {format_latency(summary.service.mean_ns)} and the run only "
            f"{format_duration(summary.window_ns)}: it shows how the queue fills and drains. Use a runtime of at least "
            f"{format_duration(round(summary.service.mean_ns * WINDOW_LATENCIES))}, or a smaller iodepth",
        )


def _stall(workers: Sequence[WorkerOutcome], kind: str) -> Stall | None:
    latency = MergedOperations(workers, (kind,)).service
    longest, median = round(latency.max_ns), latency.percentile(50)
    is_long = longest >= STALL_NS and longest >= TIMES * median
    if not is_long and longest < max(SHORT_STALL_NS, TIMES * latency.percentile(99.9)):
        return None
    start = max(0, _completed_ns(workers, kind, longest) - longest)
    away = sum(_overlap(one, start, start + longest) for one in absences(workers))
    return None if away > longest / 2 else (start, longest)


def _completed_ns(workers: Sequence[WorkerOutcome], kind: str, longest: int) -> int:
    """Time at which the longest operation of a kind had completed, to the interval; after the window the last did."""
    holds = [worker for worker in workers if kind in worker.operations]
    slowest = max(holds, key=lambda worker: worker.operations[kind].service.max_ns)
    found = [
        one.end_ns for one in slowest.intervals if kind in one.operations and one.operations[kind].max_ns == longest
    ]
    return found[0] if found else slowest.drained_ns


def _overlap(absence: Absence, start_ns: int, end_ns: int) -> int:
    return max(0, min(absence.start_ns + absence.duration_ns, end_ns) - max(absence.start_ns, start_ns))

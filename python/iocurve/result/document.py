"""``result.json``: the document that reports and analyses read.

It stores the plan and the outcome of every point as the engine returned them, with the facts of host and target.
Figures over workers (``iocurve.result.figures``) are written for other programs, and computed again when it is read.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import cached_property
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from iocurve._native import VERSION
from iocurve.engine.derived import counts_bytes, stream_hash
from iocurve.engine.outcome import KindOutcome, Outcome, Stall, State, WorkerOutcome
from iocurve.engine.plan import Plan
from iocurve.foundation.errors import ResultError
from iocurve.foundation.structs import Struct, refusal
from iocurve.foundation.units import SECOND_NS, counted, format_count, format_duration, format_latency, format_number
from iocurve.result import figures, frames
from iocurve.result.caps import Cap, cap_value
from iocurve.result.course import course, course_of, for_document, records, series
from iocurve.result.document_file import RESULT_NAME, JournalLine, Json, read_document, write_atomically
from iocurve.result.figures import Figures, KindFigures
from iocurve.result.imported import ImportFacts, unstated
from iocurve.result.paired import MARGIN, RatePair, RateRatio, confidence_of_turns, counting_resolution, rate_ratio
from iocurve.result.reference import Reference
from iocurve.result.stats import CONFIDENCE, Estimate, judged_mean, sample_mean
from iocurve.result.summary import SeriesInterval, Summary, summarise, unwritten_reads

if TYPE_CHECKING:
    import altair
    import pandas
    import polars
    import pyarrow

Axis = int | float | str
RateName = Literal["iops", "bytes_per_s"]


class HostFacts(Struct):
    """The machine that generated the load."""

    hostname: str
    cpu_model: str
    cpus: int
    """Processors that this process may run on."""
    memory_bytes: int
    kernel: str
    distribution: str
    tcp_congestion_control: str | None
    """The kernel's default for new connections; it changes loopback figures by 5 to 25 %."""
    python: str


class MountFacts(Struct):
    """The mounted file system that a path is on."""

    device: str
    mount_point: str
    file_system: str
    options: str


class TargetFacts(Struct):
    """The measured target. A limit is None if it is unknown or not set."""

    kind: Literal[
        "embedded_volume", "nfs", "directory", "file", "device", "emulated_disk", "null", "several", "unknown"
    ]
    """several: the jobs load different targets, which the plan lists. unknown: that of an imported result."""
    address: str
    """URL or path."""
    service_level: str | None = None
    """standard, premium or ultra; for an emulated disk its name, cache and virtual machine."""
    quota_bytes: int | None = None
    caps: tuple[Cap, ...] = ()
    """Known limits of rates, and of requests in flight."""
    latency_ns: int | None = None
    """Added to each operation by an embedded volume."""
    latency_mean_ns: int | None = None
    """Mean of the latency added to each operation, its random part included."""
    servers: int | None = None
    """Operations that the server works on at once."""
    service_ns: int | None = None
    """Time for which each of them occupies a server."""
    next_tib_bytes_per_s: int | None = None
    """Throughput that a quota 1 TiB larger adds, by the formula of the service level."""
    speed: float | None = None
    """Fraction of its speed at which an embedded volume runs; all limits here are those at that speed."""
    fitted: tuple[str, ...] = ()
    """Figures of the service level that are fitted to published results, and not published themselves."""
    store: str | None = None
    """Store of an embedded volume: ``memory``, or a directory."""
    mount: MountFacts | None = None

    def cap(self, name: str) -> int | None:
        """The value of the cap of this name; None without one."""
        return cap_value(self.caps, name)

    @property
    def iops(self) -> int | None:
        """The cap on the IOPS of reads and writes together."""
        return self.cap("iops")

    @property
    def throughput_bytes_per_s(self) -> int | None:
        """The cap on the throughput of reads and writes together."""
        return self.cap("throughput_bytes_per_s")


NoteLevel = Literal["info", "warning", "error"]


class Note(Struct):
    """A remark that readers of the figures must know."""

    code: str
    """Stable, for programs: ``payload_discarded``."""
    text: str
    level: NoteLevel = "warning"
    """A warning concerns the validity of the figures; an error is a thing that the run could not do, such as to write
    its report; anything else is info."""


class LayoutFacts(Struct):
    """Data written to lay out the files before the point ran."""

    bytes: int
    elapsed_ns: int


class ProcessorUse(Struct):
    """Use of one processor while a point ran; it was idle for the rest of the time."""

    processor: int
    user_share: float
    """Share of the time, 0 to 1."""
    system_share: float
    """Time in the kernel; includes interrupts and steal time."""


class MachineUse(Struct):
    """CPU use of this machine while a point ran, all processes included."""

    busy_share: float
    """Mean over all processors, 0 to 1."""
    cpus: int
    processors: tuple[ProcessorUse, ...] = ()
    """Use of each processor; empty if the system does not publish it."""
    own_share: float | None = None
    """CPU time of this process, of all processors together; None where the system does not tell."""
    target_share: float | None = None
    """CPU time of the processes of this machine that serve the target: an embedded volume, or those that listen on its
    port. None if they are not known."""
    others_share: float | None = None
    """CPU time of everything else on this machine; None if the target's cannot be told from it."""
    steal_share: float | None = None
    """Time that the hypervisor gave to other machines."""
    thread_busy_share: float | None = None
    """CPU time of the busiest thread of the load, of the elapsed time."""
    thread_delay_share: float | None = None
    """Longest time for which a thread of the load was ready to run and waited for a processor, of the elapsed time."""
    target_delay_share: float | None = None
    """The same of the threads of the target."""
    volume_starved_share: float | None = None
    """Time for which a thread of the iocurve volume that was measured was starved, as the volume counts it (``iocurve
    volume stats``), of the elapsed time. None if the target is no volume of this user on this machine."""
    device_read_bytes: int | None = None
    """Bytes that this process had fetched from storage (``/proc/self/io``)."""
    device_write_bytes: int | None = None
    block_devices: tuple[str, ...] = ()
    """Names of the block devices beneath the files of the load."""
    block_read_bytes: int | None = None
    """Bytes that these devices read, for all processes; None where the files are on none."""
    block_write_bytes: int | None = None


CachePolicy = Literal["cached", "uncached", "warmed", "untouched"]
"""Cache preparation before a point.

cached: use the same offsets again. uncached: use fresh offsets, and read other data in between. warmed: fill the cache
first, until the latency is level. untouched: prepare nothing and compare nothing.
"""


class Interval(Struct):
    """A figure with its bounds: a 95 % confidence interval, or the bracket or the bounds of a search."""

    value: float
    low: float | None
    """None if the uncertainty is unknown."""
    high: float | None
    kind: Literal["confidence", "bracket", "bounds"] = "confidence"
    """bracket: ``low`` met the limit and is the figure; ``high`` did not meet it. bounds: the figure lies between them
    whatever the form of the curve is, with 95 % confidence; None if there is no bound on that side."""

    @classmethod
    def of(cls, estimate: Estimate) -> Interval:
        """The interval of an estimate."""
        is_known = math.isfinite(estimate.half_width)
        bounds = (estimate.low, estimate.high) if is_known else (None, None)
        return cls(value=estimate.mean, low=bounds[0], high=bounds[1])

    @property
    def bounds_text(self) -> str:
        """``95 %: 114 to 118``; empty if the bounds are unknown."""
        if self.kind == "bounds" and (self.low is None) != (self.high is None):
            return self.one_bound(lambda value: format_number(value, 3))
        if self.low is None or self.high is None:
            return ""
        if self.kind == "bounds":
            return f"bounds: {format_number(self.low, 3)} to {format_number(self.high, 3)}"
        if self.kind == "bracket":
            return f"{format_number(self.high, 3)} did not hold"
        return f"95 %: {format_number(self.low, 3)} to {format_number(self.high, 3)}"

    def one_bound(self, text: Callable[[float], str]) -> str:
        """``at least 114``; empty without a bound."""
        if self.low is not None:
            return f"at least {text(self.low)}"
        return f"at most {text(self.high)}" if self.high is not None else ""


class CacheEvidence(Struct):
    """A sign that caches answered a load, or that they did not."""

    source: str
    """``counters`` of the target, ``limit`` of the device, bytes that ``storage`` moved for this process, bytes that
    the ``devices`` beneath the files moved, ``page cache`` before and after the load, ``repeated`` offsets beside fresh
    ones, modes of ``latency``."""
    text: str
    says: Literal["cached", "not_cached", "partly", "nothing"]


class CacheFacts(Struct):
    """Cache preparation before a point, and a verdict whether its figures look cached."""

    policy: CachePolicy
    preparation: str = ""
    """Description of the preparation."""
    repeated_runs: tuple[float, ...] = ()
    """IOPS of each turn that repeats the offsets of a turn before."""
    fresh_runs: tuple[float, ...] = ()
    """IOPS of each turn of the same load at offsets not used before; the first turn of each is a pair."""
    repeated_iops: Interval | None = None
    """Median of ``repeated_runs``; the bounds are the slowest and the fastest turn."""
    fresh_iops: Interval | None = None
    """Median of ``fresh_runs``, with the same bounds."""
    speedup: Interval | None = None
    """Repeated ÷ fresh − 1: 0.17 is 17 % more, with a 99 % interval. None if not compared."""
    verdict: Literal["cached", "uncached", "unclear", "not_checked"] = "not_checked"
    is_fully_warm: bool = False
    """Caches answered everything, so that repeated offsets are no faster."""
    evidence: tuple[CacheEvidence, ...] = ()


class FamilyFacts(Struct):
    """A family of points, as the scenario describes it."""

    name: str
    title: str
    cache: CachePolicy


class FamilyComparison(Struct):
    """Families of points to compare."""

    title: str
    families: tuple[str, ...] = msgspec.field(name="series")
    """The first is the baseline of the comparison."""


class ScenarioFacts(Struct):
    """The scenario that was run, and its form."""

    name: str
    title: str
    why: str
    question: str = ""
    """The question that the scenario asks; empty where it asks none."""
    answer: str = ""
    """The parameter that answers it: its last value is compared with its first. ``series``: the highest rate of each
    series; ``fewest clients``: those that reach the highest rate. Empty where the highest rates are the answer."""
    form: Literal["full", "short", "scaled"]
    shortened: tuple[str, ...] = ()
    """Reductions against the full form: ``data set 256 MiB instead of 1 TiB``."""
    targets: dict[str, TargetFacts]
    """Targets by their names in the scenario."""
    families: tuple[FamilyFacts, ...] = msgspec.field(name="series")
    comparisons: tuple[FamilyComparison, ...] = ()
    tag: str
    """Part of the names of the files that it creates."""

    def __post_init__(self) -> None:
        if self.answer == "families":  # until version 5
            msgspec.structs.force_setattr(self, "answer", "series")


class Finding(Struct):
    """A figure found by a search."""

    name: str
    """``knee``, ``capacity``, ``unloaded latency``."""
    unit: str
    """``in flight``, ``IOPS``, ``µs``; empty for a dimensionless figure."""
    figure: Interval


NONE_SHOWN = "none shown"
"""The figure of a finding that no measured load gave."""


class SearchFacts(Struct):
    """The question of a search, and its findings."""

    question: str
    workload: str
    findings: tuple[Finding, ...]
    """The first answers the question."""
    stopped: str
    """Reason why the search ended."""
    remarks: tuple[str, ...] = ()
    """Caveats: a model that does not fit, a figure that is only a lower bound."""
    unanswered: str = ""
    """Name of the finding that would answer the question (``highest rate``) where no measured load did; else empty."""

    @property
    def rows(self) -> list[tuple[str, str, str]]:
        """Name, figure with its unit, and bounds of each finding, after an answer that no measured load gave."""
        found = [
            (one.name, f"{format_number(one.figure.value, 3)} {one.unit}".rstrip(), one.figure.bounds_text)
            for one in self.findings
        ]
        return [*([(self.unanswered, NONE_SHOWN, "")] if self.unanswered else []), *found]


class Limit(Struct):
    """The verdict on what limited a point, with the figures that show it."""

    code: str
    """Stable, for programs: ``volume_throughput``; ``unknown`` where the figures do not tell."""
    short_name: str
    """The name for narrow columns: ``MiB/s limit``."""
    text: str
    """The limit with its value, without a full stop: ``at the volume's limit of 512 MiB/s``."""
    confidence: Literal["certain", "likely", "possible", "none"] = "likely"
    """certain: measured at a limit that is known. likely: follows from the figures. possible: fits, as others do."""
    evidence: tuple[str, ...] = ()
    next_step: str = ""
    """The step that gets past the limit, or the experiment that would name it."""

    def __post_init__(self) -> None:
        for name in ("code", "short_name"):
            if (found := getattr(self, name)) in EARLIER_VALUES:
                msgspec.structs.force_setattr(self, name, EARLIER_VALUES[found])

    @property
    def label(self) -> str:
        """The name with its confidence, as every table has it: ``depth (possible)``, ``inconclusive``."""
        return self.short_name if self.confidence == "none" else f"{self.short_name} ({self.confidence})"


INCONCLUSIVE = "inconclusive"
"""The label of a point whose limit is not known."""
EARLIER_VALUES = {"foreign_cpu": "cpu_contention", "others_cpu": "cpu_contention", "cannot tell": INCONCLUSIVE}
"""Codes and short names of limits that were others in earlier versions; checks accept them, too."""
OWN_LIMITS = ("machine", "generator", "cpu_contention")
"""Codes of the limits of the machine that makes the load: a ratio of rates that they bound says nothing of the
target."""


class ClientClock(Struct):
    """The clock of an agent compared with the clock of the coordinator."""

    offset_ns: int
    """Client minus head, before the start."""
    error_ns: int
    """The offset is known to within this: half of the shortest round trip."""
    drift_ns: int | None = None
    """Change of the offset until the end; None where it was not measured again."""


class UntilLoss(Struct):
    """The records that a lost client had sent; it counts in no total."""

    intervals: int
    elapsed_ns: int
    """Length of these intervals, the ramp left out."""
    operations: dict[str, KindOutcome]
    """By kind."""


class ClientOutcome(Struct):
    """An agent of a point. ``client`` of a worker's plan is an index into the clients of its point."""

    client: int
    name: str
    """Name or address by which the cluster knows it."""
    host: HostFacts
    state: Literal["finished", "interrupted", "failed", "lost", "merged"]
    """lost: died, froze or was cut off. merged: lost, and its records were added later."""
    reason: str | None = None
    """Why it did not finish."""
    clock: ClientClock | None = None
    late_ns: int = 0
    """Start of its first group after the instant that all were to start at, by the clock of the coordinator."""
    machine: MachineUse | None = None
    run: str = ""
    """Identity of the run in the name of the client's local file."""
    journal: str | None = None
    """Local file with the records of a lost client, on that client; None where it was removed."""
    local_file_error: str | None = None
    """Why its local file lacked records; they arrived all the same."""
    stalls: tuple[Stall, ...] = ()
    """Its waits for servers, in every phase of the run, by its own time."""
    until_loss: UntilLoss | None = None
    limit: Limit | None = None
    """Verdict on what limited the client, given after the run; None if it measured nothing."""


class Fairness(Struct):
    """The evenness of the shares of a target that the agents of a point had; a lost client counts in no value."""

    rate: RateName
    """The rate that is compared: throughput, or IOPS where no data moved."""
    jain_index: float | None
    """Jain's index: 1 where all clients have the same, 1/n where one of n has all; None where all have nothing."""
    slowest: int
    """A client."""
    slowest_rate: float
    fastest: int
    fastest_rate: float


class Turn(Struct):
    """One of several runs of a point, interleaved with those of the points that it is compared with."""

    repetition: int
    """Number of the repetition, from 1: in each, every compared point runs once."""
    order: int
    """Number of the run among those of all points that take turns, from 1: in A B B A, B has 2 and 3."""
    state: State
    window_ns: int
    operations: int
    iops: float
    bytes_per_s: float
    mean_ns: float
    """Mean latency."""
    p50_ns: int | None = None
    """Percentiles of the latency; None in results of earlier versions."""
    p99_ns: int | None = None
    p99_9_ns: int | None = None
    max_ns: int | None = None
    """The longest operation; None in results of earlier versions."""
    batch: int | None = None
    """Operations that completed at once, at most, all workers together; None in results of earlier versions."""
    cpu_us_per_operation: float | None = None
    """CPU time of the workers' threads per operation, in µs."""
    kinds: dict[str, KindFigures] = {}
    """The figures of each kind of operation, if there are several; empty in results of earlier versions."""
    seeds: tuple[int, ...]
    """The seed of each worker."""
    retries: int = 0
    """Number of times that the run was measured again because it was noisy."""
    noise: str | None = None
    """Other work that disturbed the run, also when it was measured again; None without such."""

    def resolution(self, rate: float | None = None) -> float:
        """Relative error of its rate, or of ``rate`` of a kind of operation, that counting leaves."""
        operations = self.operations if rate is None else rate * self.window_ns / SECOND_NS
        in_flight = operations * self.mean_ns / self.window_ns if self.window_ns else 1.0
        return counting_resolution(operations, in_flight, self.batch or 1)

    @property
    def text(self) -> str:
        """``50 IOPS, longest operation 3 s (other processes used 48% of the processors)``."""
        longest = f", longest operation {format_latency(self.max_ns)}" if self.max_ns else ""
        return f"{format_count(self.iops)} IOPS{longest} ({self.noise or self.state})"


NO_PLAN = Plan(name="", interval_ns=SECOND_NS, groups=())
"""The plan of an imported point, which has none."""
NOTHING_MEASURED = "no operation completed in the measured time"
"""The failure of a run whose load completed nothing, for example because it ended within its ramp."""
NO_OUTCOME = Outcome(state="finished", workers=())
"""The outcome of an imported point, which has none."""


class Point(Struct, dict=True, omit_defaults=True):
    """One measurement: a plan and its outcome, or the figures of another tool.

    A field that has its default is not written.
    """

    name: str
    family: str = msgspec.field(name="series")
    """Points of a series differ only in their parameters and share a chart: ``random-4k-mix``, ``depth``."""
    axes: dict[str, Axis] = msgspec.field(name="parameters")
    """``read_percent``, ``block_bytes``, ``depth``, ``nconnect``, ``order``."""
    plan: Plan = NO_PLAN
    outcome: Outcome = NO_OUTCOME
    imported: ImportFacts | None = None
    """The figures of another tool; None if iocurve measured the point."""
    layout: LayoutFacts | None = None
    machine: MachineUse | None = None
    cache: CacheFacts | None = None
    target: str | None = None
    """Name of the target in the scenario; None without a scenario, or if the point loads several targets."""
    limit: Limit | None = None
    """Verdict on the limit of the point, given after the run; None if nothing was measured."""
    clients: tuple[ClientOutcome, ...] = ()
    """The agents of a cluster; empty where this machine was the only one."""
    fairness: Fairness | None = None
    """Fairness of the clients' shares of the target, given after the run; None without clients."""
    runs: tuple[Turn, ...] = ()
    """The runs that ``outcome`` merges; empty if the point ran once. The plan is that of the first."""
    compared_with: tuple[str, ...] = ()
    """Names of all points that take turns, this one included; the first is the base of gains."""
    margin: float = MARGIN
    """Smallest relative difference from these points that matters: 0.1 is 10 %."""
    length_chosen_by: int = 0
    """Intervals at the start that chose the length of the point; intervals of its rates come from those after them."""
    runs_chosen: bool = False
    """The number of runs was chosen by their noise."""
    retries: int = 0
    """Number of runs that were measured again because they were noisy."""
    discarded: tuple[Turn, ...] = ()
    """These runs, which count in no value of the point. A run in which the target stalled is none of them."""
    noise: str | None = None
    """Other work that disturbed the point on this machine, also when it was measured again; None without such."""
    phase: int | None = None
    """The group of the run's plan that the point has, from 0, where each group is a point; None: the whole run."""

    def summary(self) -> Summary:
        """Merges all workers."""
        return self._summary

    @cached_property
    def _summary(self) -> Summary:
        if self.imported:
            return self.imported.summary(self.name)
        return summarise(self.name, self.plan, self.outcome.workers)

    @cached_property
    def figures(self) -> Figures:
        """Rates, latencies in µs and the limit, all workers and kinds together."""
        rate = self.rate_interval()
        limit = (self.limit.code, self.limit.confidence) if self.limit else (None, None)
        found = Figures.of_point(self.summary(), (rate.low, rate.high), limit)
        return found.replace(**unstated(self.imported.total)) if self.imported else found

    @cached_property
    def stream_hash(self) -> str | None:
        """Identifies the operations that the plan decides (``engine.derived.stream_hash``); None of an import."""
        return None if self.imported else stream_hash(self.plan)

    @cached_property
    def kind_figures(self) -> dict[str, KindFigures]:
        """The figures of each kind of operation."""
        found = {kind: KindFigures.of(totals) for kind, totals in self.summary().kinds.items()}
        stated = self.imported.kinds if self.imported else {}
        return {
            kind: each.replace(**unstated(stated[kind])) if kind in stated else each for kind, each in found.items()
        }

    def axis(self, name: str) -> float:
        """Value of a numeric axis."""
        return float(self.axes[name])

    @property
    def mix(self) -> str:
        """Read and write shares as people write them: ``75:25``."""
        return f"{self.axis('read_percent'):g}:{100 - self.axis('read_percent'):g}"

    @property
    def limit_label(self) -> str:
        """The name of the limit with its confidence, as tables have it; ``inconclusive`` where no verdict is given."""
        return self.limit.label if self.limit else INCONCLUSIVE

    @property
    def measured_text(self) -> str:
        """The time that rates are over: ``2.5 s``, ``3 s in 6 runs``."""
        if self.imported and self.imported.window_ns is None:
            return ""
        time = format_duration(self.summary().window_ns)
        return f"{time} in {counted(len(self.runs), 'run')}" if self.runs else time

    def __repr__(self) -> str:
        found = self.figures
        values = {"IOPS": found.iops, "MiB/s": found.mib_per_s, "µs p99": found.p99_us}
        shown = [f"{format_number(value)} {unit}" for unit, value in values.items() if value is not None]
        return f"<Point '{self.name}': {', '.join(shown)}>"

    @property
    def is_empty(self) -> bool:
        """The load ran as planned, and completed nothing in the measured time, in which something was planned."""
        found = self.summary()
        nothing = self.outcome.state == "finished" and not (self.imported or found.operations or found.errors)
        workers = (worker for group in self.plan.groups for worker in group.workers)
        return nothing and any(worker.end.operations != 0 for worker in workers)

    def report_groups(self) -> list[Summary]:
        """Merges the workers of each report group, in plan order (fio's group_reporting)."""
        if self.imported:
            return self.imported.job_summaries(self.name)
        members: dict[int, list[WorkerOutcome]] = {}
        for worker in self.outcome.workers:
            members.setdefault(worker.report_group, []).append(worker)
        names = (", ".join(dict.fromkeys(worker.job for worker in group)) for group in members.values())
        return [summarise(name, self.plan, group) for name, group in zip(names, members.values(), strict=True)]

    def rate_interval(self, rate: RateName = "iops", kind: str | None = None) -> Interval:
        """A rate, of all kinds or of one, with its 95 % interval: from the turns, or from the intervals of one run.

        Turns keep no rates by kind. The bounds are unknown where there are too few values.
        """
        summary = self.summary()
        value = getattr(summary if kind is None else summary.kinds[kind], rate)
        if not self.runs:
            measured = self.course(kind)
            rates = [getattr(one, rate) for one in measured]
            if any(map(math.isnan, rates)):
                return Interval(value=value, low=None, high=None)
            found = judged_mean(rates, records(measured, self.length_chosen_by))
        elif kind is None or len(summary.kinds) == 1:
            found = sample_mean([getattr(turn, rate) for turn in self.runs if turn.state == "finished"])
        else:
            return Interval(value=value, low=None, high=None)
        if not found.mean or math.isinf(found.half_width):
            return Interval(value=value, low=None, high=None)
        # The series leaves out the ends of the window, so its mean is not quite the rate.
        return Interval(value=value, low=max(0.0, value * (1 - found.precision)), high=value * (1 + found.precision))

    @property
    def rate_name(self) -> RateName:
        """The rate that counts: bytes of sequential loads and of large blocks, operations of others."""
        if self.imported:
            return "bytes_per_s" if self.imported.in_bytes else "iops"
        workers = (self.plan.groups[one.group].workers[one.worker] for one in self.outcome.workers)
        return "bytes_per_s" if counts_bytes(workers) else "iops"

    def speedup_over(self, base: Point, rate: RateName | None = None) -> RateRatio | None:
        """A rate relative to that of another point, with a 95 % interval from the rounds in which both ran.

        ``rate`` is by default ``rate_name``. Without such rounds the ratio has no interval. None where the other one
        measured nothing.
        """
        rate = rate or self.rate_name
        pairs = _rate_pairs(self, base, rate) if base.name in self.compared_with else []
        if not pairs:
            pairs = [RatePair(getattr(self.summary(), rate), getattr(base.summary(), rate), 1, 0)]
        confidence = confidence_of_turns(CONFIDENCE, are_chosen=self.runs_chosen)
        found = rate_ratio(pairs, self.margin, confidence)
        limits = [one.limit for one in (self, base) if one.limit and one.limit.code in OWN_LIMITS]
        return replace(found, own_limit=limits[0].short_name) if found and limits else found

    def of_client(self, client: int) -> Summary:
        """Merges the workers of one agent."""
        return self.part_of(client).summary()

    def part_of(self, client: int) -> Point:
        """The part of the point that one agent ran, as if that client's machine had been the only one."""
        facts = next(one for one in self.clients if one.client == client)
        groups = self.plan.groups
        workers = tuple(one for one in self.outcome.workers if groups[one.group].workers[one.worker].client == client)
        outcome = self.outcome.replace(workers=workers, intervals=())
        return self.replace(
            name=facts.name, outcome=outcome, machine=facts.machine, limit=None, clients=(), fairness=None
        )

    def series(self) -> list[SeriesInterval]:
        """The time series, workers merged."""
        return list(self._series)

    @cached_property
    def _series(self) -> Sequence[SeriesInterval]:
        return self.imported.series() if self.imported else series(self.outcome)

    def course(self, kind: str | None = None) -> list[SeriesInterval]:
        """The measured intervals without partial ones, all of one length, kinds together or one kind."""
        return course_of(self.imported.series(), kind) if self.imported else course(self.outcome, kind)


class IdleCost(Struct):
    """The cost of the cluster's daemons to an agent while no load ran, before the first point."""

    client: str
    """Name of the client; clients of one machine are measured once."""
    seconds: float
    """Time of the measurement."""
    daemon_share: float
    """CPU time of the daemons, of one processor."""
    daemon_processors: tuple[int, ...]
    """The processors that the daemons may use. The load leaves them free where it needs fewer than the others."""
    longest_gap_ns: int
    """Longest time for which a thread that spins on a processor of the load did not run."""
    gap_share: float
    """Sum of all its gaps, of the time; those of other programs are among them."""


class Probe(Struct):
    """A load that was repeated after the run with one change at a time, to find its limit."""

    point: str
    """Name of the point whose load it repeated."""
    limit: Limit
    """The limit that the changes show; ``unknown`` where they do not tell."""
    iops: float
    """The rate of the load without a change. The limit is that of the point only where it is the same."""
    elapsed_ns: int
    """Time of all repetitions."""


class ClusterFacts(Struct):
    """The cluster of the agents."""

    framework: str
    """Name and version: ``Ray 2.52.1``."""
    idle: tuple[IdleCost, ...]
    """One for each machine."""
    missing: tuple[str, ...] = ()
    """Agents that the run goes without, because the user allowed it."""


class Result(Struct):
    """``result.json``."""

    schema_version: Literal[5] = 5
    iocurve: str
    """Version of iocurve that measured."""
    kind: str
    """Kind of run: ``envelope``, ``fio``."""
    name: str
    created: Annotated[datetime, Meta(tz=True)]
    state: State
    incomplete_reason: str | None
    """Why points are missing or incomplete; None if finished."""
    points_planned: int | None = None
    """Number of points of the whole run; None where it depends on what is measured."""
    host: HostFacts | None
    """The machine that generated the load; None if it is not known."""
    target: TargetFacts
    null_ceiling_operations_per_s: float | None
    """Rate of one worker's loop on this machine without I/O: the upper bound of one worker."""
    notes: tuple[Note, ...]
    points: tuple[Point, ...]
    scenario: ScenarioFacts | None = None
    search: SearchFacts | None = None
    references: tuple[Reference, ...] = ()
    """Published figures to compare with the points; a copy made when this was measured."""
    cluster: ClusterFacts | None = None
    """The cluster of the agents; None where this machine was the only one."""
    perturbation_tests: tuple[Probe, ...] = ()
    """Loads that were repeated with changes after the last point, on a target that does not state its limits."""
    job: str | None = None
    """The job of a command line as a job file for ``iocurve run``; None of others, and where TOML cannot express it."""

    @classmethod
    def start(cls, kind: str, name: str, host: HostFacts, target: TargetFacts, null_ceiling: float | None) -> Result:
        """A new result without points, created now. Its state is interrupted until ``ended`` changes it."""
        return cls(
            iocurve=VERSION,
            kind=kind,
            name=name,
            created=datetime.now(UTC).replace(microsecond=0),
            state="interrupted",
            incomplete_reason="the run has not ended yet",
            host=host,
            target=target,
            null_ceiling_operations_per_s=null_ceiling,
            notes=(),
            points=(),
        )

    def point(self, name: str) -> Point:
        """The point of this name. Raises ``ResultError`` with the names that there are; of several the first counts."""
        found = next((one for one in self.points if one.name == name), None)
        if found is None:
            known = ", ".join(repr(one.name) for one in self.points)
            raise ResultError(f"there is no point {name!r}; there are {known or 'none'}")
        return found

    def with_point(self, point: Point) -> Result:
        """Returns a copy with a further point."""
        return self.replace(points=(*self.points, point))

    def with_note(self, code: str, text: str, level: NoteLevel = "warning") -> Result:
        """Returns a copy with a further note; duplicates are dropped."""
        note = Note(code=code, text=text, level=level)
        return self if note in self.notes else self.replace(notes=(*self.notes, note))

    def ended(self, state: State, reason: str | None = None) -> Result:
        """Returns a copy in its final state; ``reason`` says why points are missing or incomplete."""
        return self.replace(state=state, incomplete_reason=reason)

    def target_of(self, point: Point) -> TargetFacts:
        """The target that a point loads."""
        return self.scenario.targets[point.target] if self.scenario and point.target else self.target

    @classmethod
    def read(cls, path: Path | str) -> Result:
        """Reads ``result.json``, or the one in a directory. Raises ``ResultError``."""
        path = Path(path) / RESULT_NAME if Path(path).is_dir() else Path(path)
        document = read_document(path)
        points = document.get("points")
        if isinstance(points, list):
            document["points"] = [_without_figures(point) if isinstance(point, dict) else point for point in points]
        try:
            return cls.from_builtins(document)
        except ValueError as error:
            raise ResultError(f"{path} is not a result of iocurve: {refusal(error)}") from None

    def write(self, path: Path | str) -> None:
        """Writes ``result.json`` in one step. Raises ``ResultError``."""
        write_atomically(Path(path), self.document())

    def document(self) -> bytes:
        """The text of ``result.json``, in which each point carries its figures."""
        written = self.replace(points=()).to_builtins() | {"points": [_written(point) for point in self.points]}
        return msgspec.json.format(msgspec.json.encode(written), indent=1) + b"\n"

    def changes(self, earlier: Result) -> JournalLine:
        """The difference from an earlier state, which its document has."""
        old, new = earlier.points, self.points
        first = _alike(old, new)
        last = len(old) - _alike(old[first:][::-1], new[first:][::-1])
        fields = [name for name in self.__struct_fields__ if getattr(self, name) is not getattr(earlier, name)]
        written = self.replace(points=()).to_builtins()
        return JournalLine(
            replaced=(first, last),
            points=[_written(point) for point in new[first : len(new) - len(old) + last]],
            fields={name: written[name] for name in fields if name != "points"},
        )

    def to_records(self) -> list[dict[str, Axis | None]]:
        """One flat record per point, all with the same keys; units are in the names."""
        records = [_record(point) | _comparison_record(point, self.points) for point in self.points]
        keys = list(dict.fromkeys(key for record in records for key in record))
        return [{key: record.get(key) for key in keys} for record in records]

    def to_pandas(self) -> pandas.DataFrame:
        """The records as a table of pandas (``iocurve[pandas]``). Raises ``ResultError`` without pandas."""
        return frames.to_pandas(self.to_records())

    def to_polars(self) -> polars.DataFrame:
        """The records as a table of polars (``iocurve[polars]``). Raises ``ResultError`` without polars."""
        return frames.to_polars(self.to_records())

    def to_arrow(self) -> pyarrow.Table:
        """The records as a table of Arrow (``iocurve[arrow]``). Raises ``ResultError`` without pyarrow."""
        return frames.to_arrow(self.to_records())

    def write_parquet(self, path: Path | str) -> None:
        """Writes the records as Parquet (``iocurve[arrow]``), with name, version and date as metadata of the file.

        Raises ``ResultError`` without pyarrow, and if the file cannot be written.
        """
        facts = {"name": self.name, "version": self.iocurve, "created": self.created.isoformat(), "state": self.state}
        write_atomically(Path(path), frames.parquet(self.to_records(), facts))

    def chart(self, y: str = "iops", *, x: str | None = None, by: str | None = None) -> altair.LayerChart:
        """Draws a field of the records over another, as an object of altair that a notebook shows.

        By default ``x`` is the first parameter that varies and ``by``, the colour, the series or the next one. IOPS
        have their 95 % interval. Raises ``ResultError`` for a field that no record has.
        """
        axes = list(dict.fromkeys(axis for point in self.points for axis in point.axes))
        return frames.chart(self.to_records(), y, x, by, axes)

    def __repr__(self) -> str:
        return f"<Result {self.kind} '{self.name}': {self.state}, {counted(len(self.points), 'point')}>"

    def _repr_html_(self) -> str:
        """The form in a notebook: a table of the points."""
        return frames.html(f"{self.name}: {self.state}", self.to_records())


def _alike(one: Sequence[Point], other: Sequence[Point]) -> int:
    """The number of points at the start that two states of a result share."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] is pair[1], zip(one, other, strict=False)))


def _rate_pairs(point: Point, base: Point, rate: RateName) -> list[RatePair]:
    turns = {turn.repetition: turn for turn in base.runs if turn.state == "finished"}
    both = [
        (turn, turns[turn.repetition]) for turn in point.runs if turn.state == "finished" and turn.repetition in turns
    ]
    return [
        RatePair(getattr(own, rate), getattr(of, rate), own.order, of.order, own.resolution() + of.resolution())
        for own, of in both
    ]


STREAM_HASH = "stream_hash"


def _written(point: Point) -> Json:
    """A point of the document: names and parameters, then its figures, then what they are computed from."""
    fields = point.replace(outcome=for_document(point.outcome)).to_builtins()
    names = {name: fields.pop(name) for name in ("name", "series", "parameters")}
    computed = figures.nested(point.figures, point.kind_figures) | {STREAM_HASH: point.stream_hash}
    return {**names, **computed, **fields}


def _record(point: Point) -> dict[str, Axis | None]:
    summary = point.summary()
    return {
        "name": point.name,
        "series": point.family,
        **point.axes,
        "state": summary.state,
        "workers": summary.workers,
        "window_s": summary.window_ns / SECOND_NS,
        "skew_s": summary.skew_ns / SECOND_NS,
        **figures.flat(point.figures, point.kind_figures),
        "depth_requested": summary.depth_requested,
        "reconnects": summary.reconnects,
        "labels": " ".join(summary.labels),
        "limited_by_name": point.limit.short_name if point.limit else None,
        "limited_by_text": point.limit.text if point.limit else None,
        **({"fairness": point.fairness.jain_index} if point.fairness else {}),
        **_unwritten_record(point),
    }


def _unwritten_record(point: Point) -> dict[str, Axis | None]:
    """The shares of reads of what was never written; empty for a point without such."""
    unwritten, zeros, _ = unwritten_reads(point.outcome.workers)
    return {"unwritten_share": unwritten, "zero_reads_share": zeros} if unwritten or zeros else {}


def _comparison_record(point: Point, points: Sequence[Point]) -> dict[str, Axis | None]:
    """The gain of a point that takes turns over the first of those that it is compared with; empty for other points."""
    record: dict[str, Axis | None] = {}
    if point.retries or point.noise:
        record = {"retries": point.retries, "noise": point.noise or ""}
    if point.discarded:
        record["discarded"] = "; ".join(run.text for run in point.discarded)
    base = next((one for one in points if point.compared_with and one.name == point.compared_with[0]), None)
    if base is None or base is point:
        return record
    found = point.speedup_over(base)
    record["speedup_over"] = base.name
    for name in ("value", "low", "high", "margin", "verdict", "verdict_text"):
        record["speedup" if name == "value" else f"speedup_{name}"] = getattr(found, name, None)
    return record


def _without_figures(point: Json) -> Json:
    computed = {name for name, value in point.items() if name == STREAM_HASH or figures.is_computed(name, value)}
    return {name: value for name, value in point.items() if name not in computed - {*Point.__struct_encode_fields__}}

"""Examines a case in simulated time: the stub server's limits, loads of ``simulated_load.c``, iocurve's own judging.

The job is read and planned, the verdict on its run made, and the probes of ``why --confirm`` chosen and judged by the
code that does so for a user. Only the engine is replaced: a plan runs in ``simulated_load``, which takes milliseconds.
Three settings: the target states its limits, it states nothing, and it states nothing next to processes that keep
processors busy; then the load's threads wake up as late as was measured (``wake_ups_beside_hogs.txt``).
"""

from __future__ import annotations

import math
import struct
import subprocess
import tempfile
import zlib
from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np
from numpy.typing import NDArray

from bench.limits.case import Case, Load, drawn
from bench.limits.examine import REDRAWN_MAX, Machine, binding, final_name, judged_name
from bench.truth.instruments import program
from iocurve._native import Histogram
from iocurve.analysis.limits import verdicts_of, wants_probe
from iocurve.dialects.native.command import prepare
from iocurve.engine.derived import block_bytes_min
from iocurve.engine.outcome import (
    CpuTime,
    IntervalKind,
    IntervalOutcome,
    KindOutcome,
    LatencyOutcome,
    LogOutcome,
    Outcome,
    WorkerOutcome,
)
from iocurve.engine.plan import NfsEngine, Plan, Worker
from iocurve.foundation.units import MILLISECOND_NS, SECOND_NS
from iocurve.measure import variations
from iocurve.measure.confirm import RUNTIME_NS, confirmation_of
from iocurve.measure.why import diagnose
from iocurve.result import host
from iocurve.result.caps import Burst, Cap, Kind, Quantity, Scope
from iocurve.result.document import MachineUse, Point, Result, TargetFacts

Setting = Literal["known", "hidden", "hogs"]
Array = NDArray[np.int64]
WAKE_UPS = Path(__file__).with_name("wake_ups_beside_hogs.txt")
"""Delays of wake-ups in us, next to two processes that never slept, on a machine with two processors."""
ADDRESS = "nfs://127.0.0.1/stub"
NFS_PORT = 2049
GAP_NS = 60 * MILLISECOND_NS
"""Time between two runs: mounts and connections."""
RUN_S = 0.1
"""Time that a run takes in addition to its ramp and its measured time."""
CPUS = 2
IDLE_SHARE, HOGS_SHARE = 0.03, 0.97
"""Share of the processors that other programs use on an idle machine and next to the hogs."""
COLUMNS = ("worker", "is_write", "due", "submitted", "done", "bytes")


def examined(setting: Setting, name: str, seed: int) -> dict[str, Any]:
    """Examines the case that a seed gives, or another one if the server says that its limit was not binding."""
    for redrawn in range(REDRAWN_MAX):
        found = {"kind": name, "seed": seed, **_examined(setting, name, seed + 1_000_000 * redrawn)}
        if found["judged"] != "void":
            break
    return found


EXAMINERS = {setting: partial(examined, setting) for setting in ("known", "hidden", "hogs")}


def _examined(setting: Setting, name: str, seed: int) -> dict[str, Any]:
    case, machine = drawn(name, seed), Machine()
    facts = stated(case.limits) if setting == "known" else TargetFacts(kind="nfs", address=ADDRESS)
    with simulated(case, seed, beside_hogs=setting == "hogs") as server:
        point = server.run(planned(case.load, seed))
        result = Result.start("run", point.name, host.collect(), facts, None).replace(points=(point,))
        (first,) = verdicts_of(result)
        if not binding(case, server.account(point)):
            return {**machine.facts(), "drawn": seed, "final": None, "judged": "void", "judged_first": "void"}
        plan = variations.shortened(on_own_files(point.plan), RUNTIME_NS)
        found = confirmation_of(plan, facts, server.run, first, lambda: server.clock_s)
    share = HOGS_SHARE if setting == "hogs" else IDLE_SHARE
    alone = first.to_builtins() if first else {}
    again = found.verdict.to_builtins() if found.verdict else None
    final = final_name({**alone, "outcome": found.outcome, "verdict_now": again})
    return {
        **machine.facts(),
        "drawn": seed,
        "limits": case.limits,
        "right": sorted(case.right),
        "first": [first.code, first.confidence] if first else None,
        "outcome": found.outcome,
        "final": final,
        "evidence": list(found.evidence),
        "judged": judged_name(case.right, final, share),
        "judged_first": judged_name(case.right, final_name(alone), share),
    }


def probed(seconds: float, name: str, seed: int) -> dict[str, Any]:
    """Examines a case as the first page does: the verdict on the run, or a probe of at most ``seconds`` after it."""
    case, machine = drawn(name, seed), Machine()
    facts = TargetFacts(kind="nfs", address=ADDRESS)
    with simulated(case, seed, beside_hogs=False) as server:
        point = server.run(planned(case.load, seed))
        result = Result.start("run", point.name, host.collect(), facts, None).replace(points=(point,))
        (found,) = verdicts_of(result)
        binds, began_s = binding(case, server.account(point)), server.clock_s
        if not point.summary().paced and wants_probe(found):
            found, _ = diagnose(on_own_files(point.plan), facts, server.run, seconds, lambda: server.clock_s)
    final = final_name(found.to_builtins() if found else {})
    return {
        "kind": name,
        "seed": seed,
        **machine.facts(),
        "final": final,
        "evidence": [found.text, *found.evidence] if found else [],
        "probe_s": round(server.clock_s - began_s, 2),
        "judged": judged_name(case.right, final, IDLE_SHARE) if binds else "void",
    }


def planned(load: Load, seed: int, port: int = NFS_PORT) -> Plan:
    """The plan of a load, as ``iocurve run`` makes it."""
    with tempfile.TemporaryDirectory(prefix="iocurve-limits-") as directory:
        job = Path(directory) / "job.toml"
        job.write_text(load.job(port, seed), encoding="utf-8")
        (plan,) = prepare([str(job)]).plans()
    return plan


def on_own_files(plan: Plan) -> Plan:
    """The load on separate files, as ``why --confirm`` places it."""
    (group,) = plan.groups
    workers = [
        worker.replace(files=tuple(file.replace(path=f"why-{file.path}", layout="fill") for file in worker.files))
        for worker in group.workers
    ]
    return plan.replace(groups=(group.replace(workers=tuple(workers)),))


# ---- what the target states


def stated(limits: Sequence[str]) -> TargetFacts:
    """The facts of a target that states its limits: caps, its mean latency, the number and speed of its stations."""
    facts = TargetFacts(kind="embedded_volume", address=ADDRESS)
    caps: list[Cap] = []
    latency_us = 0.0
    for text in limits:
        policy, _, rest = text.partition(",")
        keys = dict(word.split("=") for word in rest.split(","))
        mean_us = _mean_us(keys["service"]) if "service" in keys else 0.0
        if policy == "stations":
            facts = facts.replace(servers=int(keys["count"]), service_ns=round(mean_us * 1000))
        elif policy == "delay":
            latency_us += mean_us
        elif policy == "in_flight":
            caps.append(Cap(scope="connection", quantity="requests", value=int(keys["count"])))
        elif "rate" in keys:
            caps.append(_cap(keys))
    mean_ns = round(latency_us * 1000) or None
    return facts.replace(caps=_with_credits(caps, limits), latency_ns=mean_ns, latency_mean_ns=mean_ns)


def _cap(keys: dict[str, str]) -> Cap:
    scope: dict[str, Scope] = {"c": "connection", "a": "client"}
    kind: dict[str, Kind] = {"r": "read", "w": "write"}
    quantity: Quantity = "bytes_per_s" if keys.get("unit") == "b" else "iops"
    return Cap(
        scope=scope.get(keys.get("per", ""), "volume"),
        quantity=quantity,
        kind=kind.get(keys.get("of", ""), "any"),
        value=round(float(keys["rate"])),
    )


def _with_credits(caps: Sequence[Cap], limits: Sequence[str]) -> tuple[Cap, ...]:
    """Two caps on all operations are a baseline, and the rate while its credits last."""
    of_all = [cap for cap in caps if (cap.scope, cap.quantity, cap.kind) == ("volume", "iops", "any")]
    if len(of_all) < 2:
        return tuple(caps)
    base, most = sorted(of_all, key=lambda cap: cap.value)
    text = next(one for one in limits if f"rate={base.value}" in one or f"rate={base.value}." in one)
    credits = float(text.partition("burst=")[2].partition(",")[0])
    with_credits = base.replace(burst=Burst(value=most.value, credits=round(credits)))
    return (*(cap for cap in caps if cap not in of_all), with_credits)


def _mean_us(service: str) -> float:
    shape, *numbers = service.split(":")
    first, *rest = map(float, numbers)
    return first + rest[1] * (rest[0] - first) if shape == "bimodal" else first


# ---- runs


@dataclass
class Server:
    """A server in simulated time, and the machine that loads it."""

    case: Case
    commands: IO[bytes]
    records: IO[bytes]
    beside_hogs: bool
    held_s: tuple[float, ...] = ()
    """Time for which each limit held requests of the last run."""
    clock_s: float = 0.0
    """Time of all runs so far."""
    port: int = NFS_PORT

    def run(self, plan: Plan) -> Point:
        """Runs a plan."""
        workers = plan.groups[0].workers
        done, threads = self.carried_out(map(_line, workers))
        self.clock_s += max(worker.ramp_ns + (worker.end.runtime_ns or 0) for worker in workers) / SECOND_NS + RUN_S
        outcomes = [
            _outcome(number, worker, done[done[:, 0] == number], threads[2 * number + 1], plan.interval_ns)
            for number, worker in enumerate(workers)
        ]
        outcome = Outcome(state="finished", workers=tuple(outcomes))
        use = self._use(workers, threads)
        return Point(name=plan.name, family="run", axes={}, plan=plan, outcome=outcome, machine=use)

    def rate(self, plan: Plan) -> float:
        """Runs a plan, and gives its IOPS alone."""
        workers = plan.groups[0].workers
        done, _ = self.carried_out(map(_line, workers))
        start, end = workers[0].ramp_ns, workers[0].ramp_ns + (workers[0].end.runtime_ns or 0)
        return float(((done[:, 4] >= start) & (done[:, 4] < end)).sum() * SECOND_NS / (end - start))

    def carried_out(self, lines: Iterable[str]) -> tuple[Array, tuple[int, ...]]:
        """The operations that workers did, and for each worker how long it waited and ran."""
        written = list(lines)
        self.commands.write(f"{''.join(written)}run {GAP_NS}\n".encode())
        self.commands.flush()
        (count,) = self._read(1)
        raw = self.records.read(8 * count * len(COLUMNS))
        done = np.frombuffer(raw, dtype="<i8").reshape(count, len(COLUMNS))
        threads = self._read(2 * len(written))
        self.held_s = tuple(held / SECOND_NS for held in self._read(len(self.case.limits)))
        return done, threads

    def account(self, point: Point) -> dict[str, Any]:
        """The account of the last run, as the stub server gives it."""
        summary = point.summary()
        first, last = 0, max(one.drained_ns for one in point.outcome.workers)
        seconds = (last - first) / SECOND_NS
        return {"operations": summary.iops * seconds, "seconds": seconds, "held_s": self.held_s, "late_s": 0.0}

    def _read(self, count: int) -> tuple[int, ...]:
        raw = self.records.read(8 * count)
        if len(raw) < 8 * count:
            raise RuntimeError("simulated_load ended")
        return struct.unpack(f"<{count}q", raw)

    def _use(self, workers: Sequence[Worker], threads: Sequence[int]) -> MachineUse:
        elapsed = max(worker.ramp_ns + (worker.end.runtime_ns or 0) for worker in workers)
        ran = [one / elapsed for one in threads[1::2]]
        own = sum(ran) / CPUS
        others = HOGS_SHARE if self.beside_hogs else IDLE_SHARE
        return MachineUse(
            busy_share=min(1.0, own + others),
            cpus=CPUS,
            own_share=own,
            others_share=min(others, 1.0 - own),
            steal_share=0.0,
            thread_busy_share=max(ran),
            thread_delay_share=max(threads[0::2]) / elapsed,
        )


@contextmanager
def simulated(case: Case, seed: int, *, beside_hogs: bool) -> Iterator[Server]:
    """A server in simulated time."""
    command = [program("simulated_load"), str(seed), str(WAKE_UPS) if beside_hogs else "-", *case.limits]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin
        assert process.stdout
        yield Server(case, process.stdin, process.stdout, beside_hogs)
        process.stdin.close()


def _line(worker: Worker) -> str:
    (operation, *_) = worker.operations
    shares = sum(one.share for one in worker.operations)
    reads = sum(one.share for one in worker.operations if one.kind == "read")
    rate, think, file = worker.rate, worker.think, worker.files[0]
    assert isinstance(worker.engine, NfsEngine)
    words = (
        worker.depth,
        worker.engine.mount.nconnect,
        zlib.crc32((worker.engine.mount.source or "").encode()),
        zlib.crc32(file.path.encode()),
        file.bytes,
        100 * reads / shares,
        block_bytes_min(operation.blocks),
        rate.count * SECOND_NS / rate.per_ns if rate else 0,
        int(bool(rate and rate.arrivals == "poisson")),
        think.pause_ns if think else 0,
        think.every if think else 1,
        worker.ramp_ns + (worker.end.runtime_ns or 0),
    )
    return f"worker {' '.join(map(str, words))}\n"


# ---- outcomes


def _outcome(number: int, worker: Worker, done: Array, ran_ns: int, interval_ns: int) -> WorkerOutcome:
    start, end = worker.ramp_ns, worker.ramp_ns + (worker.end.runtime_ns or 0)
    at = done[:, 4]
    measured = done[(at >= start) & (at < end)]
    kinds: dict[str, Array] = {one.kind: measured[measured[:, 1] == (one.kind == "write")] for one in worker.operations}
    return WorkerOutcome(
        group=0,
        worker=number,
        job=worker.job,
        jobnum=worker.jobnum,
        report_group=worker.report_group,
        engine="simulated",
        state="finished",
        error=None,
        window_start_ns=start,
        window_end_ns=end,
        drained_ns=int(at.max()) if len(at) else end,
        drained_operations=int((at >= end).sum()),
        operations={name: _kind(own, is_paced=bool(worker.rate)) for name, own in kinds.items()},
        cpu=CpuTime(user_ns=ran_ns // 2, system_ns=ran_ns - ran_ns // 2, context_switches=0),
        depth_levels={},
        latency_depth=None,
        read_back_ns=0,
        reconnects=0,
        labels=(),
        intervals=tuple(_intervals(kinds, start, end, interval_ns)),
        steady_state=None,
        log=_log(measured) if worker.log else None,
    )


def _kind(own: Array, *, is_paced: bool) -> KindOutcome:
    return KindOutcome(
        operations=len(own),
        bytes=int(own[:, 5].sum()),
        errors=0,
        short=0,
        service=_latency(own[:, 4] - own[:, 3]),
        response=_latency(own[:, 4] - own[:, 2]) if is_paced else None,
    )


def _latency(values: Array) -> LatencyOutcome:
    histogram = Histogram()
    for value in values.tolist():
        histogram.record(value)
    return LatencyOutcome(
        count=len(values),
        min_ns=int(values.min()) if len(values) else 0,
        max_ns=int(values.max()) if len(values) else 0,
        mean_ns=float(values.mean()) if len(values) else 0.0,
        stddev_ns=float(values.std()) if len(values) else 0.0,
        histogram=histogram.encode(),
    )


def _intervals(kinds: dict[str, Array], start: int, end: int, length: int) -> Iterator[IntervalOutcome]:
    for index in range(start // length, math.ceil(end / length)):
        since, until = max(start, index * length), min(end, (index + 1) * length)
        found = {name: own[(own[:, 4] >= since) & (own[:, 4] < until)] for name, own in kinds.items()}
        operations = {name: _interval(own) for name, own in found.items() if len(own)}
        yield IntervalOutcome(index=index, ramp=False, start_ns=since, end_ns=until, operations=operations)


def _interval(own: Array) -> IntervalKind:
    latencies = own[:, 4] - own[:, 3]
    return IntervalKind(
        operations=len(own),
        bytes=int(own[:, 5].sum()),
        errors=0,
        mean_ns=float(latencies.mean()),
        stddev_ns=float(latencies.std()),
        p50_ns=None,
        p99_ns=None,
        min_ns=int(latencies.min()),
        max_ns=int(latencies.max()),
    )


def _log(measured: Array) -> LogOutcome:
    done = measured[np.argsort(measured[:, 4], kind="stable")]
    return LogOutcome(
        window_ns=None,
        records=len(done),
        lost=0,
        kinds=("read", "write"),
        at_ns=_packed(done[:, 4].astype("<u8")),
        kind=_packed(done[:, 1].astype("u1")),
        bytes=_packed(done[:, 5].astype("<u8")),
        service_ns=_packed((done[:, 4] - done[:, 3]).astype("<f8")),
        response_ns="",
        offset=_packed(np.zeros(len(done), dtype="<u8")),
        operations="",
        service_ns_max="",
        histograms=(),
    )


def _packed(column: NDArray[Any]) -> str:
    return b64encode(column.tobytes()).decode("ascii")

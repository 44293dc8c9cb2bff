"""Runs the sides of a comparison alternately and reports the rate and the cost of each.

A side is a command that speaks fio: it takes ``--runtime`` and prints fio's JSON. Each round runs it twice, for a short
and for a long time; CPU per I/O is the difference of CPU between the two over the difference of operations, so that
starting and ending a process (an interpreter, a shared library) cancels out on every side alike.
"""

from __future__ import annotations

import json
import os
import resource
import shlex
import statistics
import subprocess
import time
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import accumulate
from math import comb
from pathlib import Path
from typing import Any

from iocurve.result.host import MachineMeter

CLOCK_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
RUN_MARGIN_SECONDS = 60
"""Time beyond its runtime after which a run counts as hanging."""


@dataclass(frozen=True)
class Duration:
    """Times of the two runs of a side in one round."""

    short_seconds: float
    long_seconds: float


@dataclass(frozen=True)
class Side:
    """One side of a comparison."""

    name: str
    command: tuple[str, ...]
    server_pid: int | None = None
    limit: str | None = None
    """The side that moves the same bytes and does nothing else."""
    mib_per_second: int | None = None
    """MiB for each second of a run that ends with its file, as one with verification does."""
    counted: str | None = None
    """``read`` or ``write`` if these count; otherwise the kind of which there were more."""

    def command_for(self, seconds: float) -> list[str]:
        if self.mib_per_second:
            return [*self.command, f"--size={round(self.mib_per_second * seconds)}m", "--output-format=json"]
        return [*self.command, f"--runtime={round(seconds * 1000)}ms", "--time_based", "--output-format=json"]

    def parse(self, output: str) -> Reported:
        """The figures that the command reports."""
        return parse_fio_json(output, self.counted)


@dataclass(frozen=True)
class Round:
    """The result of a side in one round."""

    iops: float
    mib_per_s: float
    latency_us_p50: float | None
    latency_us_p99: float | None
    client_cpu_us_per_io: float
    server_cpu_us_per_io: float | None
    cores_busy_elsewhere: float
    """Processors used by neither client nor server: if many, the round is not reliable."""


FIGURES = ("iops", "mib_per_s", "latency_us_p50", "latency_us_p99", "client_cpu_us_per_io", "server_cpu_us_per_io")


def compare(sides: Sequence[Side], rounds: int, duration: Duration) -> list[dict[str, Any]]:
    """Measures all sides once per round (A B, A B, …); ratios are relative to the first side."""
    reached: dict[str, list[Round]] = {side.name: [] for side in sides}
    for _ in range(rounds):
        for side in sides:
            reached[side.name].append(_measure(side, duration))
    documents = [_document(side, reached[side.name], duration) for side in sides]
    medians = {document["name"]: document["median"] for document in documents}
    for side, document in zip(sides, documents, strict=True):
        document["ratio_to_first"] = _ratios(document["median"], documents[0]["median"])
        if side.limit:
            document["ratio_to_limit"] = _ratios(document["median"], medians[side.limit])
    return documents


def _document(side: Side, rounds: Sequence[Round], duration: Duration) -> dict[str, Any]:
    records = [asdict(a_round) for a_round in rounds]
    columns = {figure: [record[figure] for record in records if record[figure] is not None] for figure in FIGURES}
    return {
        "name": side.name,
        "command": shlex.join(map(_anywhere, side.command_for(duration.long_seconds))),
        "median": {figure: statistics.median(values) for figure, values in columns.items() if values},
        "min": {figure: min(values) for figure, values in columns.items() if values},
        "max": {figure: max(values) for figure, values in columns.items() if values},
        "rounds": records,
    }


def _anywhere(word: str) -> str:
    """An argument of a command line without the path of this checkout and its programs."""
    if Path(word).is_absolute() and os.access(word, os.X_OK):
        return Path(word).name
    return word.replace(f"{Path.cwd()}/", "")


def _ratios(of: dict[str, float], to: dict[str, float]) -> dict[str, float]:
    return {figure: of[figure] / to[figure] for figure in FIGURES if figure in of and to.get(figure)}


def _measure(side: Side, duration: Duration) -> Round:
    short, long = _run(side, duration.short_seconds), _run(side, duration.long_seconds)
    operations = max(1, long.reported.operations - short.reported.operations)
    client_cpu = long.client_cpu_seconds - short.client_cpu_seconds
    server_cpu = long.server_cpu_seconds - short.server_cpu_seconds
    return Round(
        iops=long.reported.iops,
        mib_per_s=long.reported.mib_per_s,
        latency_us_p50=long.reported.latency_us_p50,
        latency_us_p99=long.reported.latency_us_p99,
        client_cpu_us_per_io=client_cpu * 1e6 / operations,
        server_cpu_us_per_io=server_cpu * 1e6 / operations if side.server_pid else None,
        cores_busy_elsewhere=long.cores_busy_elsewhere,
    )


@dataclass(frozen=True)
class Reported:
    """A client's report on its own run."""

    operations: int
    iops: float
    mib_per_s: float
    latency_us_p50: float | None
    latency_us_p99: float | None


@dataclass(frozen=True)
class _Run:
    reported: Reported
    client_cpu_seconds: float
    server_cpu_seconds: float
    cores_busy_elsewhere: float


def median_bounds(values: Sequence[float]) -> tuple[float, float] | None:
    """The narrowest two of the values that hold the true median between them with 95 %; ``None`` for fewer than six.

    Holds for independent values of any distribution (sign test): each is below the median with probability one half.
    """
    count = len(values)
    outside = list(accumulate(2 * comb(count, below) / 2**count for below in range(count // 2)))
    left_out = bisect_right(outside, 0.05)
    ordered = sorted(values)
    return (ordered[left_out - 1], ordered[-left_out]) if left_out else None


def _run(side: Side, seconds: float) -> _Run:
    server_before, machine, start = process_cpu_seconds(side.server_pid), MachineMeter(), time.monotonic()
    client = run_to_end(side.command_for(seconds), seconds + RUN_MARGIN_SECONDS)
    elapsed, use = time.monotonic() - start, machine.use()
    server_cpu = process_cpu_seconds(side.server_pid) - server_before
    cores_busy = use.busy_share * use.cpus if use else 0.0
    return _Run(
        reported=side.parse(client.output),
        client_cpu_seconds=client.cpu_seconds,
        server_cpu_seconds=server_cpu,
        cores_busy_elsewhere=max(0.0, cores_busy - (client.cpu_seconds + server_cpu) / elapsed),
    )


@dataclass(frozen=True)
class Finished:
    """The output of a command, and the CPU time of it and its children."""

    output: str
    cpu_seconds: float


def run_to_end(command: Sequence[str], timeout_seconds: float, may_fail: bool = False) -> Finished:
    """Raises ``RuntimeError`` with the command's output if it failed and may not."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    finished = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout_seconds, check=False
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if finished.returncode != 0 and not may_fail:
        said = (finished.stderr or finished.stdout).strip()[-2000:]
        raise RuntimeError(f"exit status {finished.returncode} from: {shlex.join(command)}\n{said}")
    cpu_seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Finished(finished.stdout, cpu_seconds)


def parse_fio_json(text: str, counted: str | None = None) -> Reported:
    """Operations, their rate and latency from fio's JSON; skips notes that fio prints before it."""
    job = json.loads(text[text.index("{") :])["jobs"][0]
    kind = job[counted] if counted else max((job["read"], job["write"]), key=lambda each: each["total_ios"])
    percentiles = kind["clat_ns"].get("percentile", {})
    p50_ns, p99_ns = percentiles.get("50.000000"), percentiles.get("99.000000")
    return Reported(
        operations=kind["total_ios"],
        iops=kind["iops"],
        mib_per_s=kind["bw_bytes"] / (1 << 20),
        latency_us_p50=None if p50_ns is None else p50_ns / 1000,
        latency_us_p99=None if p99_ns is None else p99_ns / 1000,
    )


def process_cpu_seconds(pid: int | None) -> float:
    """User and system time of a process so far; 0 without one."""
    if pid is None:
        return 0.0
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / CLOCK_TICKS_PER_SECOND

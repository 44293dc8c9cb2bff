"""``python -m bench.soak``: many runs in one process, many processes, and one long run. Nothing may leak.

Each part prints what it measured. The end is 1 if something leaked, or if intervals do not sum to totals.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.faults.victims import runtime_environment, volume_process
from bench.servers import IOCURVE
from iocurve.dialects.fio.command import prepare
from iocurve.engine.outcome import Outcome
from iocurve.measure import local
from iocurve.units import MIB

WARM_UP_RUNS = 50
"""Runs before the first reading: allocators and caches reach their size."""
RUN_GROWTH_MAX_BYTES = 8 * MIB
"""Most growth of the resident set over all runs of one process: allocators do not give all memory back."""
LOAD_GROWTH_MAX_BYTES = 8 * MIB
"""Most growth of the resident set from the second tenth of a long run to the last, ..."""
INTERVAL_MAX_BYTES = 512
"""... and for each interval of a job in the client: this plan joins none."""


@dataclass(frozen=True)
class Held:
    """Memory and descriptors of a process."""

    descriptors: int
    threads: int
    resident_bytes: int

    @classmethod
    def by(cls, pid: int) -> Held:
        """Memory and descriptors of a process now."""
        process = Path("/proc") / str(pid)
        pages = int((process / "statm").read_text().split()[1])
        held = [len(list((process / part).iterdir())) for part in ("fd", "task")]
        return cls(held[0], held[1], pages * os.sysconf("SC_PAGE_SIZE"))


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs all parts. Returns 1 if something leaked."""
    parser = argparse.ArgumentParser(prog="python -m bench.soak", description=__doc__)
    parser.add_argument("--runs", type=int, default=1000, help="short runs in one process (default: %(default)s)")
    parser.add_argument("--processes", type=int, default=1000, help="processes (default: %(default)s)")
    parser.add_argument("--seconds", type=int, default=3600, help="time of the long run (default: %(default)s)")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="iocurve-soak-") as directory:
        faults = [
            *many_runs(Path(directory), options.runs),
            *many_processes(Path(directory), options.processes),
            *long_run(Path(directory), options.seconds),
        ]
    for fault in faults:
        print(f"soak: {fault}")
    return int(bool(faults))


def many_runs(directory: Path, count: int) -> Iterator[str]:
    """Short runs in this process: no engine keeps a thread, a descriptor, a file or memory."""
    (place := directory / "runs").mkdir()
    with volume_process(place) as volume:
        nfs = f"--ioengine=nfs --nfs_url={volume.url()} --nconnect=2"
        jobs = [_job(engine) for engine in ("--ioengine=sync", "--ioengine=libaio", "--ioengine=io_uring", nfs)]
        first = serving = Held(0, 0, 0)
        for number in range(count + WARM_UP_RUNS):
            if number == WARM_UP_RUNS:
                first, serving = Held.by(os.getpid()), Held.by(volume.pid)
            _run(jobs[number % len(jobs)], place)
        last, served = Held.by(os.getpid()), Held.by(volume.pid)
        print(f"{count} runs in one process: {first} to {last}; the volume: {serving} to {served}", flush=True)
        yield from _leaks("the process of the runs", first, last, RUN_GROWTH_MAX_BYTES)
        yield from _leaks("the volume", serving, served, RUN_GROWTH_MAX_BYTES)
    yield from _left(place, {"data", "run", "state", "files"})


def many_processes(directory: Path, count: int) -> Iterator[str]:
    """Processes one after the other: the volume holds nothing for those that have gone, and no file is left."""
    (place := directory / "processes").mkdir()
    with volume_process(place) as volume:
        url = f"--nfs_url={volume.url()}"
        command = [str(IOCURVE), "fio", *_job(f"--ioengine=nfs {url}"), "--output=/dev/null"]
        serving = Held(0, 0, 0)
        environment = runtime_environment(place)
        for number in range(count):
            if number == min(WARM_UP_RUNS, count - 1):
                serving = Held.by(volume.pid)
            ended = subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True, check=False)
            if ended.returncode:
                yield f"process {number} ended with {ended.returncode}: {ended.stderr.strip()}"
                return
        served = Held.by(volume.pid)
        print(f"{count} processes; the volume: {serving} to {served}", flush=True)
        yield from _leaks("the volume", serving, served, RUN_GROWTH_MAX_BYTES)
    yield from _left(place, {"run", "state", "files"})


def long_run(directory: Path, seconds: int) -> Iterator[str]:
    """A full load: memory stays flat, and intervals sum to totals."""
    (place := directory / "long").mkdir()
    with volume_process(place, ("--store", "memory")) as volume:
        more = f"--ioengine=nfs --nfs_url={volume.url()} --nconnect=4 --iodepth=32 --numjobs=2 --size=64m"
        timed = f"--time_based --runtime={seconds}"
        job = [word for word in _job(f"{more} {timed}") if word != "--size=64k"]
        samples: list[tuple[int, int]] = []
        ended = threading.Event()
        sampler = threading.Thread(target=_sample, args=(volume.pid, samples, ended))
        sampler.start()
        try:
            outcome = _run(job, place)
        finally:
            ended.set()
            sampler.join()
    yield from _sums(outcome)
    kept_bytes = INTERVAL_MAX_BYTES * sum(len(worker.intervals) for worker in outcome.workers)
    yield from _growth("client", [client for client, _ in samples], LOAD_GROWTH_MAX_BYTES + kept_bytes)
    yield from _growth("volume", [volume for _, volume in samples], LOAD_GROWTH_MAX_BYTES)


def _job(engine: str) -> list[str]:
    return ["--name=soak", "--rw=randrw", "--bs=4k", "--size=64k", "--filename=data", *engine.split()]


def _run(job: Sequence[str], place: Path) -> Outcome:
    outcome = local.run(prepare(job, cwd=place, environment={}).plan, poll_s=0.01)
    if outcome.state != "finished":
        raise RuntimeError(f"a run {outcome.state}: {outcome.workers[0].error}")
    return outcome


def _sample(pid: int, samples: list[tuple[int, int]], ended: threading.Event) -> None:
    while not ended.wait(1):
        samples.append((Held.by(os.getpid()).resident_bytes, Held.by(pid).resident_bytes))


def _sums(outcome: Outcome) -> Iterator[str]:
    """Compares the sums of the intervals with the totals of the window."""
    operations = 0
    for worker in outcome.workers:
        sums: Counter[tuple[str, str]] = Counter()
        for interval in worker.intervals:
            for kind, part in interval.operations.items():
                if not interval.ramp:
                    sums[kind, "operations"] += part.operations
                    sums[kind, "bytes"] += part.bytes
        for kind, total in worker.operations.items():
            operations += total.operations
            found = (sums[kind, "operations"], sums[kind, "bytes"])
            if found != (total.operations, total.bytes):
                yield f"intervals of {kind} sum to {found}, not to {(total.operations, total.bytes)}"
    print(f"a long run: {operations:,} operations in {sum(len(w.intervals) for w in outcome.workers):,} intervals")


def _growth(name: str, resident: Sequence[int], growth_max_bytes: int) -> Iterator[str]:
    tenth = max(1, len(resident) // 10)
    early, late = (sum(part) // len(part) for part in (resident[tenth : 2 * tenth] or resident[:1], resident[-tenth:]))
    print(f"resident set of the {name}: {early / MIB:.1f} MiB early, {late / MIB:.1f} MiB at the end", flush=True)
    if late - early > growth_max_bytes:
        yield f"the {name} grew by {(late - early) / MIB:.1f} MiB in a long run"


def _leaks(name: str, first: Held, last: Held, growth_max_bytes: int) -> Iterator[str]:
    if last.descriptors > first.descriptors:
        yield f"{name} has {last.descriptors} descriptors, {first.descriptors} before"
    if last.threads > first.threads:
        yield f"{name} has {last.threads} threads, {first.threads} before"
    if last.resident_bytes - first.resident_bytes > growth_max_bytes:
        yield f"{name} grew by {(last.resident_bytes - first.resident_bytes) / MIB:.1f} MiB"


def _left(place: Path, known: set[str]) -> Iterator[str]:
    if left := {path.name for path in place.iterdir()} - known:
        yield f"files are left: {', '.join(sorted(left))}"


if __name__ == "__main__":
    sys.exit(main())

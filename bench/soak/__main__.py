"""``python -m bench.soak``: many runs in one process, many processes, one long run, and a crowd of clients.

Nothing may leak. Each part prints what it measured. The end is 1 if something leaked, or if intervals do not sum to
totals. The crowd's clients, kills and settings are chosen by ``--seed``; its guests need root.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from bench.faults.victims import runtime_environment, volume_process
from bench.servers import IOCURVE
from bench.soak import Held, interval_sums, run
from bench.soak.crowd import crowd
from iocurve.foundation.units import MIB

PARTS = ("runs", "processes", "long", "crowd")
WARM_UP_RUNS = 50
"""Runs before the first reading: allocators and caches reach their size."""
RUN_GROWTH_MAX_BYTES = 8 * MIB
"""Most growth of the resident set over all runs of one process: allocators do not give all memory back."""
LOAD_GROWTH_MAX_BYTES = 8 * MIB
"""Most growth of the resident set from the second tenth of a long run to the last, ..."""
INTERVAL_MAX_BYTES = 512
"""... and for each interval of a job in the client: this plan joins none."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs all parts. Returns 1 if something leaked."""
    parser = argparse.ArgumentParser(prog="python -m bench.soak", description=__doc__)
    parser.add_argument("--runs", type=int, default=1000, help="short runs in one process (default: %(default)s)")
    parser.add_argument("--processes", type=int, default=1000, help="processes (default: %(default)s)")
    parser.add_argument("--seconds", type=int, default=3600, help="time of the long run (default: %(default)s)")
    parser.add_argument("--crowd-seconds", type=int, help="time of the crowd (default: that of the long run)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the crowd (default: %(default)s)")
    parser.add_argument("--samples", type=Path, help="CSV file for the samples of the crowd")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS, help="default: all")
    options = parser.parse_args(arguments)
    seconds = options.crowd_seconds or options.seconds
    with tempfile.TemporaryDirectory(prefix="iocurve-soak-") as name:
        directory = Path(name)
        parts: dict[str, Callable[[], Iterator[str]]] = {
            "runs": lambda: many_runs(directory, options.runs),
            "processes": lambda: many_processes(directory, options.processes),
            "long": lambda: long_run(directory, options.seconds),
            "crowd": lambda: crowd(directory, seconds, options.seed, options.samples, has_guests=os.geteuid() == 0),
        }
        faults = [fault for part in options.parts for fault in parts[part]()]
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
            run(jobs[number % len(jobs)], place)
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
            outcome = run(job, place)
        finally:
            ended.set()
            sampler.join()
    operations, faults = interval_sums(outcome)
    print(f"a long run: {operations:,} operations in {sum(len(w.intervals) for w in outcome.workers):,} intervals")
    yield from faults
    kept_bytes = INTERVAL_MAX_BYTES * sum(len(worker.intervals) for worker in outcome.workers)
    yield from _growth("client", [client for client, _ in samples], LOAD_GROWTH_MAX_BYTES + kept_bytes)
    yield from _growth("volume", [volume for _, volume in samples], LOAD_GROWTH_MAX_BYTES)


def _job(engine: str) -> list[str]:
    return ["--name=soak", "--rw=randrw", "--bs=4k", "--size=64k", "--filename=data", *engine.split()]


def _sample(pid: int, samples: list[tuple[int, int]], ended: threading.Event) -> None:
    while not ended.wait(1):
        samples.append((Held.by(os.getpid()).resident_bytes, Held.by(pid).resident_bytes))


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

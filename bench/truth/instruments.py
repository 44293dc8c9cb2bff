"""Builds and runs the truth bench's instruments, which are in C and share no code with iocurve."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from struct import iter_unpack

from iocurve.engine.plan import Plan
from iocurve.measure import local
from iocurve.result.document import Point

SOURCES = Path(__file__).parent / "instruments"
CALL_BYTES = 152
"""A READ call of our client on the wire; an answer of 4 KiB has ``ANSWER_BYTES``."""
ANSWER_BYTES = 4096 + 44
STOP_TIMEOUT_S = 30


@dataclass(frozen=True)
class Service:
    """The behaviour of a stub: service times in microseconds, slots, planned stalls and a cap."""

    shape: str
    """``constant:1000``, ``exponential:1000``, ``lognormal:1000:1``, ``bimodal:500:5000:0.1``."""
    slots: int = 0
    """Operations that are served at once; 0 serves all."""
    stalls_s: tuple[tuple[float, float], ...] = ()
    """When a stall begins, from the first operation on, and how long it lasts."""
    cap: tuple[float, float] | None = None
    """Operations per second, and the burst."""
    seed: int = 1

    @property
    def mean_us(self) -> float:
        """Mean service time."""
        shape, *numbers = self.shape.split(":")
        first, *rest = map(float, numbers)
        return first + rest[1] * (rest[0] - first) if shape == "bimodal" else first

    def arguments(self) -> list[str]:
        """The command line of the stub server."""
        words = ["--service", self.shape, "--slots", str(self.slots), "--seed", str(self.seed)]
        for at, length in self.stalls_s:
            words += ["--stall", f"{at}:{length}"]
        return words + (["--cap", f"{self.cap[0]}:{self.cap[1]}"] if self.cap else [])


@dataclass(frozen=True)
class Logged:
    """An operation in an instrument's log; times in ns of CLOCK_MONOTONIC."""

    arrival_ns: int
    due_ns: int
    """When the answer was due; it is sent a little later."""
    sent_ns: int
    service_ns: int
    """The service time that was drawn."""
    is_write: bool

    @property
    def time_ns(self) -> int:
        """From arrival to answer."""
        return self.sent_ns - self.arrival_ns


TRIES = 3
LATE_NS = 50_000
WAITED_SHARE = 0.005
"""Other processes disturb a run in which the instrument sends 1 % of the answers later than ``LATE_NS``, or in which
iocurve's threads wait for a processor for more than this share of the time, by the kernel's account."""


def undisturbed(run: Callable[[], tuple[Point, list[Logged]]]) -> tuple[Point, list[Logged]]:
    """The first of three runs that other processes did not disturb, or else the one that they disturbed least.

    No latency that iocurve measured has a say in the choice.
    """
    best = run()
    for _ in range(TRIES - 1):
        if noise(*best) <= 1:
            break
        best = min(best, run(), key=lambda one: noise(*one))
    return best


def noise(point: Point, log: Sequence[Logged]) -> float:
    """More than 1 if other processes disturbed the run."""
    late_ns = percentile(sorted(one.sent_ns - one.due_ns for one in log), 99)
    waited = point.machine.thread_delay_share if point.machine else None
    return max(late_ns / LATE_NS, (waited or 0.0) / WAITED_SHARE)


def run_served(service: Service, plan_of: Callable[[int], Plan]) -> tuple[Point, list[Logged]]:
    """Runs a plan against a stub server, whose port ``plan_of`` gets; returns the point and the server's log."""
    with tempfile.TemporaryDirectory(prefix="iocurve-truth-") as directory:
        log = Path(directory) / "log"
        command = [program("stub_server"), "--log", str(log), *service.arguments()]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout
            try:
                point, _ = local.measure(plan_of(int(server.stdout.readline())))
            finally:
                server.terminate()
            try:
                server.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                server.kill()
            if server.wait():
                raise SystemExit(f"the stub server ended with status {server.returncode}")
        # READ is procedure 6, WRITE procedure 7.
        entries = iter_unpack("<5Q", log.read_bytes())
        return point, [Logged(at, due, sent, service, kind == 7) for at, due, sent, service, kind in entries]


def run_delayed(service: Service, plan: Plan) -> tuple[Point, list[Logged]]:
    """Runs a plan of one local file where pread and pwrite are delayed; returns the point and the log of the calls."""
    with tempfile.TemporaryDirectory(prefix="iocurve-truth-") as directory:
        log, made = Path(directory) / "log", Path(directory) / "point"
        settings = {
            "LD_PRELOAD": program("delay_shim"),
            "DELAY_SHIM_FILE": plan.groups[0].workers[0].files[0].path,
            "DELAY_SHIM_SERVICE": service.shape,
            "DELAY_SHIM_LOG": str(log),
        }
        command = [sys.executable, "-m", "bench.truth.one_plan", str(made)]
        subprocess.run(command, input=plan.to_json().encode(), env={**os.environ, **settings}, check=True)
        raw = log.read_bytes()
        calls = int.from_bytes(raw[:8], "little")
        entries = [
            Logged(begin, due, end, due - begin, bool(kind))
            for begin, due, end, kind in iter_unpack("<4Q", raw[8 : 8 + 32 * calls])
        ]
        return Point.from_json(made.read_bytes()), entries


def machine_delays(kind: str, count: int, wait_ns: int) -> list[int]:
    """The machine's own delays in ns, in ascending order: of ``sleep``, or of an ``exchange`` over loopback."""
    sizes = [str(CALL_BYTES), str(ANSWER_BYTES)] if kind == "exchange" else []
    command = [program("wake_up"), kind, str(count), str(wait_ns), *sizes]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    return sorted(map(int, ran.stdout.split()))


def percentile(ordered: Sequence[float], percent: float) -> float:
    """By nearest rank."""
    return ordered[max(0, min(len(ordered), math.ceil(len(ordered) * percent / 100)) - 1)]


@cache
def program(name: str) -> str:
    """The path of an instrument, which is built once per process."""
    path = Path(_directory().name) / name
    shared = ["-shared", "-fPIC"] if name in ("delay_shim", "slow_disk") else []
    source = str(SOURCES / f"{name}.c")
    subprocess.run(["gcc", "-O2", "-Wall", "-Wextra", "-Werror", *shared, "-o", path, source, "-lm"], check=True)
    return str(path)


@cache
def _directory() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="iocurve-instruments-")

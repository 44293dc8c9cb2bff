"""Examines one case: runs the load and ``iocurve why --confirm`` on the stub server, and judges the name."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from bench.limits.case import Case, drawn
from bench.truth.instruments import program
from iocurve.cli import main as iocurve

CONFIDENT = ("certain", "likely")
GENERAL = ("unknown", "nothing", "saturated")
"""Codes that name no limit. Saturation is true of every limit of a server."""
OF_THE_LOAD = frozenset({"depth", "rate", "group_rate", "think_time"})
"""Codes of loads that hold themselves down: their servers are not saturated."""
HELD_UP = ("cpu_contention", "machine", "client_cpu", "generator")
"""Codes that hold this machine responsible."""
BINDS_SHARE_MIN = 0.5
"""The limits under test hold requests for at least this share of the time in flight, and for at least
``BINDS_TIMES_MIN`` as long as any other."""
BINDS_TIMES_MIN = 2.0
RATE_TOLERANCE = 0.05
BUSY_SHARE = 0.9
"""Share of the processors' time from which a verdict on this machine is no error."""
REDRAWN_MAX = 3
STOP_TIMEOUT_S = 30


@dataclass(frozen=True)
class Stub:
    """A stub server that is up."""

    process: subprocess.Popen[str]
    port: int

    def account(self) -> dict[str, Any]:
        """Reads the server's account of the time since the last one."""
        assert self.process.stdout
        self.process.send_signal(signal.SIGUSR1)
        found: dict[str, Any] = json.loads(self.process.stdout.readline())
        return found


@contextmanager
def stub(limits: tuple[str, ...], seed: int) -> Iterator[Stub]:
    """A stub server with limits."""
    command = [program("stub_server"), "--spin-us", "0", "--seed", str(seed)]
    command += [word for one in limits for word in ("--limit", one)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        try:
            yield Stub(process, int(process.stdout.readline()))
        finally:
            process.terminate()
            process.wait(STOP_TIMEOUT_S)


def examined(name: str, seed: int) -> dict[str, Any]:
    """Examines the case that a seed gives, or another one if the server says that its limit was not binding."""
    for redrawn in range(REDRAWN_MAX):
        found = {"kind": name, "seed": seed, **_examined(name, seed + 1_000_000 * redrawn)}
        if found["judged"] != "void":
            break
    return found


def _examined(name: str, seed: int) -> dict[str, Any]:
    case, machine = drawn(name, seed), Machine()
    with tempfile.TemporaryDirectory(prefix="iocurve-limits-") as directory, stub(case.limits, seed) as server:
        job, out = Path(directory) / "job.toml", str(Path(directory) / "report")
        job.write_text(case.load.job(server.port, seed), encoding="utf-8")
        server.account()
        _command("run", str(job), "--out", out, "--quiet")
        account = server.account()
        binds = binding(case, account)
        document = json.loads(_command("why", out, "--confirm", "--json")) if binds else {}
    facts = machine.facts()
    share = facts["busy_share"]
    return {
        **facts,
        "drawn": seed,
        "limits": case.limits,
        "load": repr(case.load),
        "right": sorted(case.right),
        "account": account,
        "first": [document.get("code"), document.get("confidence")],
        "outcome": document.get("outcome"),
        "final": final_name(document) if binds else None,
        "evidence": document.get("evidence_now"),
        "judged": judged_name(case.right, final_name(document), share) if binds else "void",
        "judged_first": judged_name(case.right, _named(document), share) if binds else "void",
    }


def binding(case: Case, account: dict[str, Any]) -> bool:
    """True if the server's account says that the limit under test held the load down."""
    seconds = account["seconds"]
    if not account["operations"] or seconds <= 0:
        return False
    if not case.binding:
        rate = account["operations"] / seconds
        return not case.rate or bool(abs(rate / case.rate - 1) <= RATE_TOLERANCE)
    held = sum(account["held_s"][each] for each in case.binding)
    others = [time_s for each, time_s in enumerate(account["held_s"]) if each not in case.binding]
    in_flight_s = case.load.in_flight * seconds
    most_other = max([*others, account["late_s"]])
    return bool(held >= BINDS_SHARE_MIN * in_flight_s and held >= BINDS_TIMES_MIN * most_other)


def final_name(document: dict[str, Any]) -> str | None:
    """The name with which ``why --confirm`` leaves its user; none if it is inconclusive.

    A verdict that an experiment confirmed is one, also if the repeated load by itself tells it less surely or not.
    """
    code, outcome, now = document.get("code"), document.get("outcome"), document.get("verdict_now")
    if outcome == "refuted" and (now is None or now["code"] == code):
        return None
    named = _named(now or document)
    is_confirmed = outcome == "confirmed" and code not in GENERAL and (now is None or now["code"] in (code, "unknown"))
    return code if named is None and is_confirmed else named


def _named(verdict: dict[str, Any]) -> str | None:
    return verdict["code"] if verdict.get("confidence") in CONFIDENT else None


def judged_name(right: frozenset[str], name: str | None, share: float) -> str:
    """The judgement on a name that was given with confidence: right, undecided, held up or false.

    ``share`` is of the processors' time that was busy.
    """
    if name in right:
        return "right"
    if name == "saturated" and right & OF_THE_LOAD:
        return "false"
    if name is None or name in GENERAL:
        return "undecided"
    return "held up" if name in HELD_UP and share >= BUSY_SHARE else "false"


def _command(*words: str) -> str:
    """Runs a command of iocurve in this process, as a new one would load for a second; gives what it prints."""
    printed, complaints = io.StringIO(), io.StringIO()
    with redirect_stdout(printed), redirect_stderr(complaints):
        try:
            iocurve(words)
        except SystemExit as ended:
            status = ended.code
    if status:
        raise RuntimeError(f"iocurve {' '.join(words)}: {complaints.getvalue()}")
    return printed.getvalue()


class Machine:
    """The load of this machine from now on."""

    def __init__(self) -> None:
        self._began, self._times, self._load = time.monotonic(), _processor_times(), os.getloadavg()[0]

    def facts(self) -> dict[str, Any]:
        """Facts for a record. Nice processes count as busy: across sessions the scheduler may not prefer others."""
        spent = [late - early for early, late in zip(self._times, _processor_times(), strict=True)]
        every = max(1, sum(spent[:8]))
        return {
            "commit": commit(),
            "seconds": round(time.monotonic() - self._began, 1),
            "load_average": round(self._load, 1),
            "busy_share": round(1 - (spent[3] + spent[4]) / every, 3),
            "steal_share": round(spent[7] / every, 4),
        }


@cache
def commit() -> str:
    """The commit that is measured; empty outside of a repository."""
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def _processor_times() -> list[int]:
    """Ticks by what the processors did; proc(5) has the fields of ``/proc/stat``."""
    return [int(word) for word in Path("/proc/stat").read_text(encoding="ascii").partition("\n")[0].split()[1:]]


@contextmanager
def hogs(count: int) -> Iterator[None]:
    """Other processes that keep processors busy."""
    running = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()

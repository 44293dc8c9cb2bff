"""The matrix of ``python -m bench.faults --hosts``: what breaks while ``--hosts`` measures on fresh machines."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from bench.cluster import first_operations
from bench.cluster.fresh_hosts import FreshHosts, TimedRun, fresh_hosts
from bench.cluster.hosts import Host
from bench.faults.clock import stepped_by_file
from bench.faults.page import Page, verdict
from bench.faults.rows import Row
from bench.faults.seen import Seen
from iocurve.foundation.units import MILLISECOND_NS

SECONDS = 20
RATE = 100
HOSTS = (3, 12)
JOINS = 10
START_NS_MAX = 5 * MILLISECOND_NS
STEP_MS = 2000
GONE_S = 45
"""The lease of a host is 30 s; then its node ends."""
COST_S = 5
JOB = """
name = "load"
interval = "500ms"

[[job]]
name = "load"
engine = "nfs"
nfs_url = "{url}"
paths = ["data"]
size = "8MiB"
reads = true
random = true
rate_operations = {rate}
iodepth = 8
runtime = "{seconds}s"
time_based = true
"""
_BREAK_AFTER_LINES = 10
"""The local file of a client has two lines before its first interval; an interval is half a second."""


@dataclass
class SeenOverSsh(Seen):
    """Findings of a row, by the columns of this matrix."""

    told: str = ""
    kept: str = ""
    status: str = ""
    left: str = ""


Break = Callable[[FreshHosts, TimedRun, Host], None]


def _cut(seconds: int) -> Break:
    def cut(_made: FreshHosts, _run: TimedRun, victim: Host) -> None:
        victim.cut()
        time.sleep(seconds)
        victim.mend()

    return cut


def _kill(processes: Sequence[int]) -> None:
    for process in processes:
        os.kill(process, signal.SIGKILL)


def _kill_client(_made: FreshHosts, _run: TimedRun, victim: Host) -> None:
    _kill(victim.processes("ray::LoadClient"))


def _kill_ssh(made: FreshHosts, _run: TimedRun, victim: Host) -> None:
    _kill([one for one in made.head.processes("ssh") if f"\0{victim.name}\0" in _command(one)])


def _kill_host(_made: FreshHosts, _run: TimedRun, victim: Host) -> None:
    victim.kill()


def _kill_coordinator(_made: FreshHosts, run: TimedRun, _victim: Host) -> None:
    run.process.kill()


def _fill_disk(_made: FreshHosts, _run: TimedRun, victim: Host) -> None:
    victim.run(["sh", "-c", "for at in /tmp /root/.local; do dd if=/dev/zero of=$at/fill bs=64k; done 2>/dev/null"])


def _step_clock(_made: FreshHosts, _run: TimedRun, victim: Host) -> None:
    (victim.home / "step").touch()


BREAKS: dict[str, tuple[str, str, Break, int | None]] = {
    "nothing": ("nothing", "all is kept", lambda *_: None, 0),
    "cut-8s": ("the link of a host cut for 8 s", "told; all is kept", _cut(8), 0),
    "cut-25s": ("the link of a host cut for 25 s", "told; the wait is in the latencies", _cut(25), 0),
    "client": ("an agent killed (-9)", "told at once; the others finish", _kill_client, 1),
    "ssh": ("the ssh connection of a host killed (-9)", "told at once; the others finish", _kill_ssh, 1),
    "host": ("all processes of a host killed (-9)", "told at once; the others finish", _kill_host, 1),
    "coordinator": ("the program killed (-9)", "nothing is left; recover makes a result", _kill_coordinator, -9),
    "disk-full": ("the disks of a host full", "the result warns; all is kept", _fill_disk, 0),
    "clock": (f"the clock of a host stepped by {STEP_MS / 1000:g} s", "the result warns; all is kept", _step_clock, 0),
}
"""The fault, the expected end, its cause and the exit status, by name."""
NAMED = ("cut-8s", "cut-25s", "client", "ssh", "host", "disk-full", "clock")
"""Rows in which the victim must be named by the terminal or the result."""


def rows(counts: Sequence[int]) -> tuple[Row, ...]:
    """The rows of all numbers of hosts."""
    found = [
        Row(f"{name}-{count}", f"{broken}; {count} hosts", expected, partial(_broken, name, count))
        for count in counts
        for name, (broken, expected, _, _) in BREAKS.items()
    ]
    joins = [
        Row(f"joins-{count}", f"nothing; {count} hosts start {JOINS} times", "all join", partial(_joins, count))
        for count in counts
    ]
    return (*found, *joins)


def _broken(name: str, count: int, directory: Path) -> SeenOverSsh:
    _, _, disturb, status = BREAKS[name]
    victim_name = f"vm{min(2, count)}"
    clock = {victim_name: stepped_by_file(directory, "/root/step", STEP_MS)} if name == "clock" else {}
    with fresh_hosts(count, directory, clock) as made:
        victim = next(host for host in made.hosts if host.name == victim_name)
        job = directory / "load.toml"
        job.write_text(JOB.format(url=made.volume.url(), rate=RATE, seconds=SECONDS), encoding="utf-8")
        with first_operations.watched(made.volume_host) as firsts:
            run = TimedRun(made, ["run", str(job), *_over_ssh(made), "--out", str(directory / "report"), "--quiet"])
            has_begun = _wait_until_measured(run, victim)
            broken_at = time.monotonic()
            cost = _cost(made) if name == "nothing" else ""
            disturb(made, run, victim)
            ended = run.wait()
        seen = SeenOverSsh(f"exit {ended.status}, {time.monotonic() - broken_at:.0f} s after the fault")
        seen.expect(has_begun, f"the run ended before it was disturbed: {ended.last_line}")
        seen.expect(ended.status == status, f"exit {ended.status}: {ended.last_line}")
        seen.expect(not ended.has_stack_trace, "a stack trace")
        seen.status = str(ended.status)
        seen.left = _left(made, seen)
        report = directory / "report"
        if name == "coordinator":
            report = directory / "recovered"
            made.head.run([str(_python_iocurve()), "result", "recover", *_over_ssh(made), "--out", str(report)], 300)
        result = _result(report)
        seen.told = _told(run, result, victim.name, broken_at)
        seen.expect(name not in NAMED or seen.told != "no", "the host is named nowhere")
        seen.kept = _kept(result, count)
        seen.expect(bool(result), "there is no result")
        if name == "nothing":
            spread_ns = firsts.spread_ns()
            seen.end += f"; first operations at the server within {spread_ns / MILLISECOND_NS:.2f} ms; {cost}"
            seen.expect(len(firsts.first()) == count, f"first operations of {len(firsts.first())} hosts")
            seen.expect(spread_ns <= START_NS_MAX, "the start is not common")
        seen.end += f"; {_reason(result)}"
        return seen


def _joins(count: int, directory: Path) -> SeenOverSsh:
    took: list[float] = []
    seen, parts = SeenOverSsh("", told="no", kept="no load"), ""
    with fresh_hosts(count, directory) as made:
        for number in range(JOINS):
            ended = TimedRun(made, ["cluster", "up", *_over_ssh(made)]).wait(900)
            seen.expect(ended.status == 0, f"start {number + 1}: {ended.last_line}")
            if ended.status == 0:
                took.append(ended.seconds)
                parts = ended.last_line
            down = TimedRun(made, ["cluster", "down"]).wait()
            seen.expect(down.status == 0, f"end {number + 1}: {down.last_line}")
            seen.left = _left(made, seen)
            print(f"start {number + 1}: {ended.seconds:.0f} s; {ended.last_line}", file=sys.stderr, flush=True)
    times = f"{min(took):.0f} to {max(took):.0f} s; the last: {parts}" if took else "none"
    seen.status = "0" if len(took) == JOINS else "2"
    seen.end = f"{len(took)} of {JOINS} starts; {times}; load average {os.getloadavg()[0]:.0f}"
    return seen


def _over_ssh(made: FreshHosts) -> list[str]:
    return ["--hosts", made.listed, "--ssh", made.ssh]


def _python_iocurve() -> Path:
    return Path(sys.executable).with_name("iocurve")


def _wait_until_measured(run: TimedRun, victim: Host) -> bool:
    """Returns when the client of the victim has measured some intervals; False if the run has ended before."""
    clients = Path(f"/proc/{victim.pid}/root/root/.local/state/iocurve/clients")
    while run.is_running:
        if any(path.read_bytes().count(b"\n") >= _BREAK_AFTER_LINES for path in clients.glob("*.jsonl")):
            return True
        time.sleep(0.1)
    return False


def _left(made: FreshHosts, seen: Seen) -> str:
    """Leavings of iocurve on the hosts and the head once the leases have run out."""
    started = time.monotonic()
    while found := made.left():
        if time.monotonic() - started > GONE_S:
            seen.expect(False, f"left behind: {'; '.join(found)}")
            return "; ".join(found)
        time.sleep(0.5)
    waited_s = time.monotonic() - started
    return "none" if waited_s < 1 else f"none after {waited_s:.0f} s"


def _told(run: TimedRun, result: dict[str, Any], name: str, since: float) -> str:
    """When the terminal named a host after the fault; otherwise if the result does."""
    if line := run.first(name, since):
        return f"{line.at - since:.1f} s: {line.text.removeprefix('iocurve: ')}"
    notes = [note["text"] for note in result.get("notes", ()) if name in note["text"]]
    return f"at the end: {notes[0]}" if notes else "no"


def _result(directory: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads((directory / "result.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found


def _kept(result: dict[str, Any], count: int) -> str:
    """Operations in the totals, of those that were due."""
    workers = [worker for point in result.get("points", ()) for worker in point["outcome"]["workers"]]
    kinds = [kind for worker in workers for kind in worker["operations"].values()]
    slowest_ns = max((kind["service"]["max_ns"] for kind in kinds), default=0)
    done = sum(kind["operations"] for kind in kinds)
    return f"{done:,} of {count * RATE * SECONDS:,} operations, the slowest {slowest_ns / 1e9:.1f} s"


def _reason(result: dict[str, Any]) -> str:
    codes = sorted({note["code"] for note in result.get("notes", ()) if note["level"] != "info"})
    warned = f"; warnings: {', '.join(codes)}" if codes else ""
    return str(result.get("incomplete_reason") or result.get("state") or "no result") + warned


def _command(process: int) -> str:
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes().decode(errors="replace")
    except OSError:
        return ""


def _cost(made: FreshHosts) -> str:
    """Memory, threads and processes of a host and the head without the load."""
    load = {one for host in made.hosts for one in host.processes("ray::LoadClient")}
    texts = []
    for host, what in ((made.hosts[-1], "a host"), (made.head, "the head")):
        processes = [one for one in host.processes("") if one not in load and one != host.pid]
        before_s = sum(map(_cpu_s, processes))
        time.sleep(COST_S)
        cpu = (sum(map(_cpu_s, processes)) - before_s) / COST_S
        threads = sum(len(list(Path(f"/proc/{one}/task").glob("*"))) for one in processes)
        memory = sum(map(_pss_kib, processes)) >> 10
        texts.append(f"{what}: {len(processes)} processes, {threads} threads, {memory} MiB, {100 * cpu:.1f} % of a CPU")
    return "; ".join(texts)


def _cpu_s(process: int) -> float:
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _pss_kib(process: int) -> int:
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    except (OSError, subprocess.SubprocessError):
        return 0
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))


HEAD = f"""# When a host of `--hosts` breaks

`python -m bench.faults --hosts` breaks one thing after the other while `iocurve run --hosts` measures on fresh
machines, and writes this page. The machines are namespaces with a real sshd, a bare `PATH`, an empty home and a link of
1 Gbit/s; each issues {RATE} reads a second of an embedded volume for {SECONDS} s, and the fault comes after about 4 s.
The start is taken from packets that arrive at the server, stamped by the kernel.

"""
TAIL = """
All machines share two processors. *Told after* counts from the fault, and has the first line that names the host. *Left
behind* are processes and files below `/tmp` of the hosts. A clock is stepped by a library (`LD_PRELOAD`).

[failures-cluster.md](failures-cluster.md) shows faults of a cluster that was there before.
"""
COLUMNS = {
    "row": lambda row, _: row.name,
    "what is broken": lambda row, _: row.broken,
    "expected": lambda row, _: row.expected,
    "told after": lambda _, seen: getattr(seen, "told", ""),
    "kept": lambda _, seen: getattr(seen, "kept", ""),
    "exit status": lambda _, seen: getattr(seen, "status", ""),
    "left behind": lambda _, seen: getattr(seen, "left", ""),
    "seen": lambda _, seen: seen.end,
    "as expected": verdict,
}
PAGE = Page(Path(__file__).parents[2] / "docs" / "evidence" / "failures-hosts.md", HEAD, COLUMNS, TAIL)

"""The rows of the matrix: what breaks in a cluster, how the run is to end, and how it ended."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from bench.cluster.hosts import Host, hosts
from bench.cluster.start import start_cluster
from bench.faults.clock import wrong_clock
from bench.faults.rows import Row
from bench.faults.seen import Seen
from bench.faults.victims import Client, Ended, volume_process
from bench.servers import IOCURVE
from iocurve.result import version
from iocurve.units import MILLISECOND_NS

JOB = """
name = "load"
interval = "500ms"

[[job]]
name = "load"
engine = "nfs"
nfs_url = "{url}"
nconnect = 2
paths = ["data"]
size = "8MiB"
writes = true
read_percent = 50
rate_total_operations = 2000
depth = 8
ramp = "500ms"
runtime = "{seconds}s"
time_based = true
"""
RUN_SECONDS = 14
_BREAK_AFTER_LINES = 8
"""The local file of a client has two lines before its first interval; an interval is half a second."""
_VICTIM = 2
LEASE_S = 30

FINISH = "exit 0; 3 of 3 clients"
LOSES_ONE = "exit 1; the client is named, 2 of 3 finish"


@dataclass
class Scene:
    """A cluster of a head and three load clients, a volume on a separate host, and a run."""

    directory: Path
    head: Host
    nodes: list[Host]
    run: Client
    url: str
    broken_at: float = field(default_factory=time.monotonic)

    @property
    def victim(self) -> Host:
        """The host that breaks."""
        return self.nodes[_VICTIM]

    @property
    def result(self) -> dict[str, Any] | None:
        """The result, if there is one."""
        try:
            found: dict[str, Any] = json.loads((self.directory / "report" / "result.json").read_text())
        except (OSError, ValueError):
            return None
        return found

    def journals(self, node: Host) -> list[Path]:
        """Local files of the load clients of a host."""
        return sorted((node.home / "state/iocurve/clients").glob("*.jsonl"))

    def wait_until_measured(self) -> None:
        """Returns when the client of the victim has measured some intervals, or the run has ended."""
        while self.run.is_running:
            if any(path.read_bytes().count(b"\n") >= _BREAK_AFTER_LINES for path in self.journals(self.victim)):
                break
            time.sleep(0.1)
        self.broken_at = time.monotonic()


def rows() -> tuple[Row, ...]:
    """All rows."""
    return (
        Row("nothing", "nothing", FINISH, partial(_broken, lambda _: None, _finished)),
        Row("host-killed", "all processes of a host killed (-9)", LOSES_ONE, partial(_broken, _kill_host, _lost)),
        Row("link-cut-4s", "the link of a host cut for 4 s", FINISH, partial(_broken, _cut_for_4_s, _finished)),
        Row("link-cut", "the link of a host cut for good", LOSES_ONE, partial(_broken, _cut, _lost)),
        Row(
            "head-unreachable",
            "a host reaches the volume, but the head no more",
            f"{LOSES_ONE}; its local file makes the result whole",
            partial(_broken, _separate, _lost_and_merged),
        ),
        Row("client-frozen", "a load client stopped (SIGSTOP)", LOSES_ONE, partial(_broken, _freeze, _lost)),
        Row(
            "head-killed",
            "the head program killed (-9)",
            "the clients stop at once; their local files stay; the next run starts",
            partial(_broken, _kill_head_program, _clients_gone),
        ),
        Row(
            "head-cut",
            "the link of the head cut for good",
            f"exit 1; the clients stop by themselves within {LEASE_S} s",
            partial(_broken, _cut_head, _all_lost, seconds=60),
        ),
        Row(
            "clocks",
            "the clocks of two hosts wrong by +0.7 s and -0.7 s",
            f"{FINISH}; the offsets are measured, none starts late",
            _clocks,
        ),
        Row("version", "another version of iocurve on a host", "exit 2; host and versions named", _version),
    )


# -- the scene ---------------------------------------------------------------------------------------------------------


@contextmanager
def scene(
    directory: Path,
    environment: Mapping[str, Mapping[str, str]] | None = None,
    prepare: Callable[[list[Host]], object] = lambda _: None,
    seconds: int = RUN_SECONDS,
) -> Iterator[Scene]:
    """A run on three load clients that has just been started. ``prepare`` changes hosts before they join."""
    names = ("head", "load1", "load2", "load3", "volume")
    with hosts(names, directory, environment) as (head, *nodes, server):
        prepare(nodes)
        (directory / "store").mkdir()
        with volume_process(directory / "store", ("--store", "memory"), server.prefix, server.address) as volume:
            start_cluster(head, nodes, directory)
            run = _started(directory, head, volume.url(), seconds=seconds)
            yield Scene(directory, head, nodes, run, volume.url())


def _started(directory: Path, head: Host, url: str, out: str = "report", seconds: int = RUN_SECONDS) -> Client:
    job = directory / "load.toml"
    job.write_text(JOB.format(url=url, seconds=seconds), encoding="utf-8")
    words = ["run", str(job), "--clients", "3", "--on", "auto", "--out", str(directory / out), "--quiet"]
    return Client(directory, words, prefix=head.prefix)


def _broken(
    disturb: Callable[[Scene], None],
    look: Callable[[Scene, Seen, Ended], None],
    directory: Path,
    seconds: int = RUN_SECONDS,
) -> Seen:
    with scene(directory, seconds=seconds) as made:
        made.wait_until_measured()
        has_begun = made.run.is_running
        disturb(made)
        ended = made.run.wait()
        seen = _seen(made, ended)
        seen.expect(has_begun, f"the run ended before it was disturbed: {ended.last_line}")
        look(made, seen, ended)
        return seen


def _kill_host(made: Scene) -> None:
    made.victim.kill()


def _cut_for_4_s(made: Scene) -> None:
    made.victim.cut()
    time.sleep(4)
    made.victim.mend()


def _cut(made: Scene) -> None:
    made.victim.cut()


def _separate(made: Scene) -> None:
    made.victim.drop_all_to(made.head)


def _freeze(made: Scene) -> None:
    _signal(made.victim.processes("ray::LoadClient"), signal.SIGSTOP)


def _kill_head_program(made: Scene) -> None:
    made.run.signal(signal.SIGKILL)


def _cut_head(made: Scene) -> None:
    made.head.cut()


def _signal(processes: list[int], number: signal.Signals) -> None:
    assert processes, "there is no such process"
    for process in processes:
        os.kill(process, number)


# -- looking -----------------------------------------------------------------------------------------------------------


def _seen(made: Scene, ended: Ended) -> Seen:
    seen = Seen(f"exit {ended.status}, {time.monotonic() - made.broken_at:.0f} s after the fault")
    seen.expect(not ended.has_stack_trace, "a stack trace")
    seen.expect(ended.status != 124, "it hangs")
    return seen


def _finished(made: Scene, seen: Seen, ended: Ended) -> None:
    clients = _clients(made)
    whole = [client for client in clients if client["state"] == "finished"]
    seen.end += f"; {len(whole)} of {len(clients)} clients"
    seen.expect(ended.status == 0, f"exit {ended.status}: {ended.last_line}")
    seen.expect(len(whole) == 3, "a client is missing")
    seen.expect(not any(made.journals(node) for node in made.nodes), "a local file is left")


def _lost(made: Scene, seen: Seen, ended: Ended) -> None:
    clients = _clients(made)
    seen.expect(ended.status == 1, f"exit {ended.status}: {ended.last_line}")
    lost = [client for client in clients if client["state"] == "lost"]
    seen.end += f"; {len(clients) - len(lost)} of {len(clients)} clients"
    seen.expect([client["name"] for client in lost] == [made.victim.name], "the wrong clients are lost")
    for client in lost:
        seen.end += f"; {client['name']} {client['reason']}"
        seen.expect(client["until_loss"]["intervals"] > 0, "what it had sent is missing")
    reason = (made.result or {}).get("incomplete_reason") or ""
    seen.expect("2 of 3 load clients finished" in reason, f"the reason is: {reason}")
    page = made.directory / "report" / "report.html"
    seen.expect(page.exists() and "2 of 3 load clients finished" in page.read_text(), "the report does not say so")


def _lost_and_merged(made: Scene, seen: Seen, ended: Ended) -> None:
    _lost(made, seen, ended)
    before = _operations(made)
    _seconds_until(partial(_has_stopped, made, made.victim), made.broken_at)
    journals = made.journals(made.victim)
    seen.expect(len(journals) == 1, f"{len(journals)} local files")
    report = made.directory / "report"
    merged = made.head.run([str(IOCURVE), "result", "merge", str(report), *map(str, journals)])
    states = [client["state"] for client in _clients(made)]
    seen.end += f"; merged: {before:,} operations became {_operations(made):,}"
    seen.expect(merged.returncode in (0, 1), merged.stderr.strip())
    seen.expect(states == ["finished", "finished", "merged"], f"after the merge: {', '.join(states)}")
    seen.expect(_operations(made) > before, "the merge added nothing")


def _clients_gone(made: Scene, seen: Seen, ended: Ended) -> None:
    seen.expect(ended.status == -signal.SIGKILL, f"exit {ended.status}")
    gone_s = _seconds_until(lambda: not _load_processes(made), made.broken_at)
    kept = sum(bool(made.journals(node)) for node in made.nodes)
    seen.end = f"clients gone after {gone_s:.1f} s; {kept} local files"
    seen.expect(kept == 3, "local files are missing")
    again = _started(made.directory, made.head, made.url, "again", seconds=1).wait()
    seen.end += f"; the next run: exit {again.status}"
    seen.expect(again.status == 0, f"the next run: {again.last_line}")


def _all_lost(made: Scene, seen: Seen, ended: Ended) -> None:
    seen.expect(ended.status == 1, f"exit {ended.status}: {ended.last_line}")
    ends_s = [_seconds_until(partial(_has_stopped, made, node), made.broken_at) for node in made.nodes]
    seen.end += f"; the loads stopped by themselves after {min(ends_s):.0f} to {max(ends_s):.0f} s"
    seen.expect(max(ends_s) < LEASE_S + 2, "a load goes on")


def _has_stopped(made: Scene, node: Host) -> bool:
    """True if the local file of the host's client has its last record."""
    return any(b'\n{"kind":"end"' in path.read_bytes() for path in made.journals(node))


def _clocks(directory: Path) -> Seen:
    wrong_ms = {"load1": 700, "load2": -700, "load3": 0}
    environment = {name: wrong_clock(directory, 0, step_ms) for name, step_ms in wrong_ms.items() if step_ms}
    with scene(directory, environment) as made:
        ended = made.run.wait()
        seen = _seen(made, ended)
        _finished(made, seen, ended)
        clocks = {client["name"]: client["clock"] for client in _clients(made)}
        off_ms = {name: clock["offset_ns"] / MILLISECOND_NS for name, clock in clocks.items()}
        late_ms = [client["late_ns"] / MILLISECOND_NS for client in _clients(made)]
        seen.end = f"exit {ended.status}; offsets {', '.join(f'{off:+.1f}' for off in off_ms.values())} ms"
        error_ms = max((clock["error_ns"] / MILLISECOND_NS for clock in clocks.values()), default=0)
        seen.end += f" (error at most {error_ms:.1f} ms)"
        seen.expect(max(late_ms, default=0) < 1, "a client started late")
        for name, expected_ms in wrong_ms.items():
            seen.expect(
                abs(off_ms.get(name, 1e9) - expected_ms) < error_ms + 1, f"the clock of {name} was not measured"
            )
        return seen


def _version(directory: Path) -> Seen:
    def replace_version(nodes: list[Host]) -> None:
        other = directory / "version.py"
        other.write_text('def iocurve_version() -> str:\n    return "9.9.9"\n')
        mounted = nodes[_VICTIM].run(["mount", "--bind", str(other), str(version.__file__)])
        assert mounted.returncode == 0, mounted.stderr

    with scene(directory, {"load3": {"PYTHONDONTWRITEBYTECODE": "1"}}, replace_version) as made:
        ended = made.run.wait()
        seen = _seen(made, ended)
        seen.end = f"exit {ended.status}; {ended.last_line.strip()}"
        seen.expect(ended.status == 2, f"exit {ended.status}")
        text = f"{made.victim.name} has iocurve 9.9.9"
        named = text in ended.error or f"{made.victim.address} has iocurve 9.9.9" in ended.error
        seen.expect(named, "the host is not named")
        return seen


def _clients(made: Scene) -> list[dict[str, Any]]:
    """The load clients of the point that was disturbed."""
    points = (made.result or {}).get("points") or []
    return list(points[-1]["clients"]) if points else []


def _operations(made: Scene) -> int:
    """Operations that count."""
    workers = (made.result or {"points": [{"outcome": {"workers": []}}]})["points"][-1]["outcome"]["workers"]
    return sum(int(kind["operations"]) for worker in workers for kind in worker["operations"].values())


def _load_processes(made: Scene) -> list[int]:
    return [process for node in made.nodes for process in node.processes("ray::LoadClient")]


def _seconds_until(holds: Callable[[], bool], begin: float, timeout_s: float = 60) -> float:
    """Seconds from ``begin`` until something holds, or until the timeout."""
    while not holds() and time.monotonic() - begin < timeout_s:
        time.sleep(0.1)
    return time.monotonic() - begin

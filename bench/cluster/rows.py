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
from iocurve.foundation.units import MILLISECOND_NS
from iocurve.measure import client as load_client

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
iodepth = 8
ramp_time = "500ms"
runtime = "{seconds}s"
time_based = true
"""
RUN_SECONDS = 14
_BREAK_AFTER_LINES = 8
"""The local file of a client has two lines before its first interval; an interval is half a second."""
_VICTIM = 2
LEASE_S = 30
SOON_S = 25
"""A check or a second run on this machine, whose two processors all hosts share."""

FINISH = "exit 0; 3 of 3 clients"
LOSES_ONE = "exit 1; the client is named, 2 of 3 finish"


@dataclass
class Scene:
    """A cluster of a head and three agents, a volume on a separate host, and a run."""

    directory: Path
    head: Host
    nodes: list[Host]
    server: Host
    run: Client
    url: str
    broken_at: float = field(default_factory=time.monotonic)
    shown: str = ""
    """Output of the last check."""

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
        """Local files of the agents of a host."""
        return sorted((node.home / "state/iocurve/clients").glob("*.jsonl"))

    def wait_until_measured(self, node: Host | None = None) -> None:
        """Returns when the client of a host (the victim) has measured some intervals, or the run has ended."""
        while self.run.is_running:
            if any(path.read_bytes().count(b"\n") >= _BREAK_AFTER_LINES for path in self.journals(node or self.victim)):
                break
            time.sleep(0.1)
        self.broken_at = time.monotonic()


def rows() -> tuple[Row, ...]:
    """All rows."""
    return (
        Row("nothing", "nothing", FINISH, partial(_broken, lambda _: None, _finished)),
        Row("host-killed", "all processes of a host killed (-9)", LOSES_ONE, partial(_broken, _kill_host, _lost)),
        Row("link-cut-4s", "the link of a host cut for 4 s", FINISH, partial(_broken, _cut_for_4_s, _finished)),
        Row("link-cut-20s", "the link of a host cut for 20 s", FINISH, partial(_broken, _cut_for_20_s, _finished)),
        Row("link-cut", "the link of a host cut for good", LOSES_ONE, partial(_broken, _cut, _lost)),
        Row(
            "head-unreachable",
            "a host reaches the volume, but the head no more",
            f"{LOSES_ONE}; its local file makes the result whole: finished, exit 0",
            partial(_broken, _separate, _lost_and_merged),
        ),
        Row(
            "volume-cut-40s",
            "a host does not reach the volume for 40 s, but the head",
            f"{FINISH}; the run waits for the host, and the result says how long it had no reply",
            partial(_broken, _cut_from_volume_for_40_s, _waited),
        ),
        Row(
            "volume-cut",
            "a host does not reach the volume any more, but the head",
            "exit 1; the host and the time without a reply are named; all that was measured is kept",
            partial(_broken, _cut_from_volume, _without_volume),
        ),
        Row("client-frozen", "an agent stopped (SIGSTOP)", LOSES_ONE, partial(_broken, _freeze, _lost)),
        Row(
            "head-killed",
            "the coordinator killed (-9)",
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
        Row(
            "local-disk-full",
            "the disk of a host full in mid-run",
            f"{FINISH}; the result warns that the host's local file lacks records",
            _disk_full,
        ),
        Row(
            "host-missing",
            "one of three hosts does not join",
            "exit 1 with the number; with --allow-missing exit 0, and the result says so",
            _missing,
        ),
        Row(
            "busy",
            "a second run while one has the cluster",
            f"exit 1 within {SOON_S} s: the cluster is busy, with the first one's command; the first: {FINISH}",
            partial(_broken, lambda _: None, _finished_beside_another),
        ),
        Row("head-hangs", "the head's daemon stopped (SIGSTOP)", f"check: exit 1 within {SOON_S} s", _head_hangs),
        Row(
            "node-hangs",
            "the daemon of a host stopped (SIGSTOP)",
            f"check: exit 1 within {SOON_S} s; it gives the missing host and lists the others",
            _node_hangs,
        ),
        Row("local", "iocurve cluster up --local 3, down, three times", "exit 0; 3 agents; nothing left", _local),
        Row("version", "another version of iocurve on a host", "exit 2; host and versions named", _version),
    )


# -- the scene ---------------------------------------------------------------------------------------------------------


@contextmanager
def scene(
    directory: Path,
    environment: Mapping[str, Mapping[str, str]] | None = None,
    prepare: Callable[[list[Host]], object] = lambda _: None,
    seconds: int = RUN_SECONDS,
    count: int = 3,
) -> Iterator[Scene]:
    """A run on three agents, of which ``count`` join, that has just been started.

    ``prepare`` changes hosts before they join.
    """
    names = ("head", "load1", "load2", "load3", "volume")
    with hosts(names, directory, environment) as (head, *nodes, server):
        prepare(nodes)
        (directory / "store").mkdir()
        with volume_process(directory / "store", ("--store", "memory"), server.prefix, server.address) as volume:
            start_cluster(head, nodes[:count], directory)
            run = _started(directory, head, volume.url(), seconds=seconds)
            yield Scene(directory, head, nodes, server, run, volume.url())


def _started(
    directory: Path, head: Host, url: str, out: str = "report", seconds: int = RUN_SECONDS, *options: str
) -> Client:
    job = directory / "load.toml"
    job.write_text(JOB.format(url=url, seconds=seconds), encoding="utf-8")
    words = ["run", str(job), "--clients", "3", "--on", "auto", "--out", str(directory / out), "--quiet", *options]
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


def _cut_for_20_s(made: Scene) -> None:
    made.victim.cut()
    time.sleep(20)
    made.victim.mend()


def _cut(made: Scene) -> None:
    made.victim.cut()


def _separate(made: Scene) -> None:
    made.victim.drop_all_to(made.head)


def _cut_from_volume(made: Scene) -> None:
    made.victim.drop_all_to(made.server)


def _cut_from_volume_for_40_s(made: Scene) -> None:
    made.victim.drop_all_to(made.server)
    time.sleep(40)
    made.victim.drop_nothing_to(made.server)


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
    seen.expect("raylet" not in ended.error, "Ray's own messages on the terminal")
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
    seen.expect("2 of 3 agents finished" in reason, f"the reason is: {reason}")
    page = made.directory / "report" / "report.html"
    seen.expect(page.exists() and "2 of 3 agents finished" in page.read_text(), "the report does not say so")


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
    seen.expect(merged.returncode == 0, f"merge: exit {merged.returncode} {merged.stderr.strip()}")
    seen.expect((made.result or {})["state"] == "finished", "the run is not finished after the merge")
    seen.expect(states == ["finished", "finished", "merged"], f"after the merge: {', '.join(states)}")
    seen.expect(_operations(made) > before, "the merge added nothing")


def _waited(made: Scene, seen: Seen, ended: Ended) -> None:
    _finished(made, seen, ended)
    waits = _waits(made)
    seen.end += f"; {'; '.join(waits)}"
    seen.expect(any(f"agent {made.victim.name}: " in text for text in waits), "the wait is not told")


def _waits(made: Scene) -> list[str]:
    notes = (made.result or {"notes": []})["notes"]
    return [note["text"] for note in notes if note["code"] == "server_stalled"]


def _without_volume(made: Scene, seen: Seen, ended: Ended) -> None:
    seen.expect(ended.status == 1, f"exit {ended.status}")
    seen.end += f"; {(made.result or {}).get('incomplete_reason')}; {'; '.join(_waits(made))}"
    failed = [client["name"] for client in _clients(made) if client["state"] == "failed"]
    seen.expect(failed == [made.victim.name], f"failed: {', '.join(failed)}")
    seen.expect(any(made.victim.name in text for text in _waits(made)), "the wait is not told")
    counts = _operations_of_workers(made)
    seen.end += f"; operations kept: {', '.join(f'{count:,}' for count in counts)}"
    seen.expect(len(counts) == 3 and all(counts), "what a host measured is not kept")


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


def _finished_beside_another(made: Scene, seen: Seen, ended: Ended) -> None:
    # The row started nothing else; the second run is made while a third measures.
    _finished(made, seen, ended)
    first = _started(made.directory, made.head, made.url, "first")
    time.sleep(5)
    started = time.monotonic()
    second = _started(made.directory, made.head, made.url, "second").wait()
    seen.end = f"the second: exit {second.status} after {time.monotonic() - started:.0f} s; {second.last_line.strip()}"
    seen.expect(second.status == 1, f"the second run: exit {second.status}")
    seen.expect("the cluster is busy with 'iocurve run" in second.error, "the first run is not named")
    seen.expect(time.monotonic() - started < SOON_S, "it waits too long")
    seen.expect(first.wait().status == 0, "the first run does not finish")


def _disk_full(directory: Path) -> Seen:
    def small(nodes: list[Host]) -> None:
        victim = nodes[_VICTIM]
        _run_all(victim, f"mount -t tmpfs -o size=1m tmpfs {victim.home}/state")

    def fill(made: Scene) -> None:
        state = made.victim.home / "state"
        made.victim.run(["dd", "if=/dev/zero", f"of={state}/fill", "bs=4k"])

    with scene(directory, prepare=small) as made:
        # The mount of the victim is not seen from here.
        made.wait_until_measured(made.nodes[0])
        fill(made)
        ended = made.run.wait()
        seen = _seen(made, ended)
        _finished(made, seen, ended)
        texts = [note["text"] for note in (made.result or {})["notes"] if note["code"] == "local_file"]
        seen.end += f"; {'; '.join(texts)}"
        seen.expect(any("load3" in text and "No space left" in text for text in texts), "no warning")
        return seen


def _missing(directory: Path) -> Seen:
    with scene(directory, count=2) as made:
        ended = made.run.wait()
        seen = Seen(f"exit {ended.status}; {ended.last_line.strip()}")
        seen.expect(ended.status == 1, f"exit {ended.status}")
        seen.expect("agents are missing: 1 of 3" in ended.error, "what is missing is not said")
        again = _started(made.directory, made.head, made.url, "report", 1, "--allow-missing").wait()
        notes = [note["text"] for note in (made.result or {"notes": []})["notes"] if note["code"] == "clients_missing"]
        seen.end += f"; with --allow-missing: exit {again.status}; {'; '.join(notes)}"
        seen.expect(again.status == 0, f"with --allow-missing: exit {again.status}")
        seen.expect(notes == ["measured without 1 of 3: 2 agents took part"], "the result does not say so")
        return seen


def _head_hangs(directory: Path) -> Seen:
    with scene(directory, seconds=1) as made:
        made.run.wait()
        (gcs,) = [one for one in made.head.processes("") if "gcs/gcs_server " in _command(one)]
        return _checked_while(made, gcs, "does not answer")


def _node_hangs(directory: Path) -> Seen:
    with scene(directory, seconds=1) as made:
        made.run.wait()
        (raylet,) = [one for one in made.victim.processes("") if "/raylet " in _command(one)]
        seen = _checked_while(made, raylet, f"{made.victim.address} does not answer")
        seen.expect("load1" in seen.end or "load1" in made.shown, "the others are not listed")
        return seen


def _checked_while(made: Scene, process: int, text: str) -> Seen:
    """The check while a process is stopped."""
    os.kill(process, signal.SIGSTOP)
    try:
        started = time.monotonic()
        checked = made.head.run([str(IOCURVE), "cluster", "check"])
        took_s = time.monotonic() - started
    finally:
        os.kill(process, signal.SIGCONT)
    made.shown = checked.stdout + checked.stderr
    told = next((line for line in made.shown.splitlines() if text in line), "")
    seen = Seen(f"exit {checked.returncode} after {took_s:.0f} s; {told}")
    seen.expect(checked.returncode == 1, f"exit {checked.returncode}")
    seen.expect(bool(told), made.shown[-300:])
    seen.expect(took_s < SOON_S, "it waits too long")
    return seen


def _local(directory: Path) -> Seen:
    with hosts(("alone",), directory) as (alone,):
        seen = Seen("")
        for _ in range(3):
            for words in (("up", "--local", "3"), ("check", "--clients", "3"), ("down",)):
                ran = alone.run([str(IOCURVE), "cluster", *words], timeout_s=240)
                seen.expect(ran.returncode == 0, f"{words}: exit {ran.returncode} {ran.stderr[-300:]}")
        left = [one for one in alone.processes("") if "ray" in _command(one)]
        seen.end = f"exit 0 each time; {len(left)} processes left"
        seen.expect(not left, "processes are left")
        return seen


def _command(process: int) -> str:
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def _run_all(host: Host, *lines: str) -> None:
    for line in lines:
        ran = host.run(["sh", "-c", line])
        assert ran.returncode == 0, ran.stderr


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
        module, other = Path(load_client.__file__), directory / "client.py"
        other.write_text(module.read_text().replace("iocurve=VERSION", 'iocurve="9.9.9"'))
        mounted = nodes[_VICTIM].run(["mount", "--bind", str(other), str(module)])
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
    """The agents of the point that was disturbed."""
    points = (made.result or {}).get("points") or []
    return list(points[-1]["clients"]) if points else []


def _operations_of_workers(made: Scene) -> list[int]:
    """Operations of each worker that count; here each client has one worker."""
    workers = (made.result or {"points": [{"outcome": {"workers": []}}]})["points"][-1]["outcome"]["workers"]
    return [sum(int(kind["operations"]) for kind in worker["operations"].values()) for worker in workers]


def _operations(made: Scene) -> int:
    """Operations that count."""
    return sum(_operations_of_workers(made))


def _load_processes(made: Scene) -> list[int]:
    return [process for node in made.nodes for process in node.processes("ray::LoadClient")]


def _seconds_until(holds: Callable[[], bool], begin: float, timeout_s: float = 60) -> float:
    """Seconds from ``begin`` until something holds, or until the timeout."""
    while not holds() and time.monotonic() - begin < timeout_s:
        time.sleep(0.1)
    return time.monotonic() - begin

"""The rows of the matrix: what is broken, how the run is to end, and what is looked at afterwards."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from bench.faults import journals, network
from bench.faults.clock import HOUR_MS, wrong_clock
from bench.faults.network import Link
from bench.faults.relay import Relay, relay
from bench.faults.victims import Client, Ended, VolumeProcess, volume_process

RUN_SECONDS = 6
"""Measured time of a load."""
_BREAK_AFTER_SECONDS = 2.5
_END_MAX_SECONDS = 3
"""Longest time from a signal to the end."""

GOES_ON = "goes on; exit 0"
KEEPS = "ends with an error that says why; what was measured is kept"
STOPS = "ends as by Ctrl-C; what was measured is kept"


@dataclass
class Seen:
    """What was seen of one row."""

    end: str
    files_left: str = "none"
    data_lost: str = "none"
    faults: list[str] = field(default_factory=list)
    """What was not as expected."""

    def expect(self, holds: bool, otherwise: str) -> None:
        """Notes a fault unless it holds."""
        if not holds:
            self.faults.append(otherwise)


@dataclass(frozen=True)
class Row:
    """One thing that breaks."""

    name: str
    broken: str
    expected: str
    run: Callable[[Path], Seen]


@dataclass(frozen=True)
class Scene:
    """A volume behind a relay, and the client that loads it."""

    folder: Path
    volume: VolumeProcess
    relay: Relay
    client: Client


def rows(kill_count: int) -> tuple[Row, ...]:
    """All rows; the journals are killed so often."""
    return (
        Row("server-restart", "volume killed (-9), started again after 1 s", GOES_ON, partial(_load, _restart)),
        Row("server-hang", "volume stopped (SIGSTOP) for 5 s", GOES_ON, partial(_load, _hang)),
        Row("network-hang", "nothing passes for 5 s, connections stay", GOES_ON, partial(_load, _no_flow)),
        Row("reset-each", "every connection reset, one by one", GOES_ON, partial(_load, _reset_each)),
        Row("half-open", "the server's ends vanish without a word", "ends and says so; exit not 0", _half_open),
        Row("delay", "20 ms each way", GOES_ON, partial(_load, _delay)),
        Row("link-down", "the link of the network is down for 3 s", GOES_ON, partial(_networked, _link_down)),
        Row(
            "packet-loss", "a short queue drops packets of every burst", GOES_ON, partial(_networked, Link.lose_packets)
        ),
        Row("clock-step", "the time of day is set back by an hour", "goes on for 6 s; exit 0", _clock_step),
        Row("client-stopped", "client stopped (SIGSTOP) for 3 s", GOES_ON, partial(_load, _stop_client)),
        Row("server-gone", "volume killed (-9) and not started again", KEEPS, _server_gone),
        Row("server-gone-points", "the same in a scenario, after its first point", KEEPS, _scenario_without_server),
        Row("restart-between", "the same, and started again after 3 s", GOES_ON, _scenario_with_restart),
        Row("interrupt", "SIGINT", STOPS, partial(_signalled, signal.SIGINT)),
        Row("terminate", "SIGTERM", STOPS, partial(_signalled, signal.SIGTERM)),
        Row("hang-up", "SIGHUP", STOPS, partial(_signalled, signal.SIGHUP)),
        Row(
            "client-killed",
            "client killed (-9)",
            "files stay; the next run says how to remove them",
            _client_killed,
        ),
        Row(
            "write-fails",
            "a WRITE fails (EIO)",
            "ends; operation, file and offset named",
            partial(_errs, "eio=1e-4", "Input/output error"),
        ),
        Row(
            "volume-full",
            "a WRITE fails (ENOSPC)",
            "ends; operation, file and offset named",
            partial(_errs, "enospc=1e-4", "No space left on device"),
        ),
        Row("stdout-full", "stdout is /dev/full", "no stack trace; exit not 0", _stdout_full),
        Row(
            "bit-flips",
            "1e-6 of the bits read are flipped",
            "each found and named",
            partial(_verified, "flip-bit=1e-6", "flipped_bits"),
        ),
        Row(
            "torn-writes",
            "1 % of WRITEs torn",
            "each found and named",
            partial(_verified, "torn-write=0.01", "torn_write"),
        ),
        Row(
            "lost-writes",
            "1 % of WRITEs lost",
            "each found and named",
            partial(_verified, "lost-write=0.01", "lost_write"),
        ),
        Row(
            "stale-reads",
            "1 % of READs stale",
            "each found and named",
            partial(_verified, "stale-read=0.01", "stale_read"),
        ),
        Row(
            "misdirected-writes",
            "1 % of WRITEs misdirected",
            "each found and named",
            partial(_verified, "misdirected-write=0.01", "lost_write"),
        ),
        Row(
            "journals",
            f"client, volume or both killed (-9), {kill_count} times at any moment",
            "recovery finds every acknowledged write, and reports none falsely",
            partial(_journals, kill_count),
        ),
    )


# -- one load that goes on ---------------------------------------------------------------------------------------------


def _arguments(url: str, *more: str) -> list[str]:
    job = ("--name=load", "--rw=randrw", "--bs=4k", "--size=8m", "--iodepth=8", "--filename=data", *more)
    timed = ("--time_based", f"--runtime={RUN_SECONDS}", "--output-format=json", "--output=result.json")
    return ["fio", *job, *timed, "--ioengine=nfs", f"--nfs_url={url}", "--nconnect=4"]


def _load(disturb: Callable[[Scene], None], folder: Path) -> Seen:
    with volume_process(folder) as volume, relay(volume.port) as between:
        client = Client(folder, _arguments(volume.url(between.port)))
        time.sleep(_BREAK_AFTER_SECONDS)
        disturb(Scene(folder, volume, between, client))
        return _went_on(client.wait(), folder, volume)


def _went_on(ended: Ended, folder: Path, volume: VolumeProcess) -> Seen:
    seen, job = _seen(ended, volume), _job(folder)
    operations = sum(int(job[kind]["total_ios"]) for kind in ("read", "write")) if job else 0
    seen.end += f"; {operations:,} operations"
    seen.expect(ended.status == 0, f"exit {ended.status}: {ended.last_line}")
    seen.expect(operations > 0, "no operations")
    return seen


def _restart(scene: Scene) -> None:
    scene.volume.kill()
    time.sleep(1)
    scene.volume.start()


def _hang(scene: Scene) -> None:
    scene.volume.signal(signal.SIGSTOP)
    time.sleep(5)
    scene.volume.signal(signal.SIGCONT)


def _no_flow(scene: Scene) -> None:
    scene.relay.flows.clear()
    time.sleep(5)
    scene.relay.flows.set()


def _reset_each(scene: Scene) -> None:
    for _ in range(max(4, scene.relay.connections)):
        scene.relay.reset_oldest()
        time.sleep(0.3)


def _half_open(folder: Path) -> Seen:
    with volume_process(folder) as volume, relay(volume.port) as between:
        client = Client(folder, [*_arguments(volume.url(between.port)), "--nfs_timeout=10"])
        time.sleep(_BREAK_AFTER_SECONDS)
        between.vanish()
        ended = client.wait()
        seen = _seen(ended, volume)
        seen.expect(ended.status not in (0, 124), f"exit {ended.status}: {ended.last_line}")
        seen.expect(_job(folder) is not None, "result.json is missing")
        return seen


def _networked(disturb: Callable[[Link], object], folder: Path) -> Seen:
    if not network.is_possible():
        return Seen("not run", faults=["needs root"])
    with (
        network.link() as link,
        volume_process(folder, prefix=link.prefix, address=network.SERVER_ADDRESS) as volume,
    ):
        client = Client(folder, _arguments(volume.url()))
        time.sleep(_BREAK_AFTER_SECONDS)
        disturb(link)
        seen = _went_on(client.wait(), folder, volume)
        if dropped := link.dropped():
            seen.end += f"; {dropped:,} packets dropped"
        seen.expect(disturb is not Link.lose_packets or dropped > 0, "no packet was dropped")
        return seen


def _link_down(link: Link) -> None:
    link.cut()
    time.sleep(3)
    link.mend()


def _clock_step(folder: Path) -> Seen:
    clock = wrong_clock(folder, 3, -HOUR_MS)
    with volume_process(folder) as volume:
        ended = Client(folder, _arguments(volume.url()), clock).wait()
        seen = _went_on(ended, folder, volume)
        milliseconds = (_job(folder) or {"job_runtime": 0})["job_runtime"]
        seen.end += f" in {milliseconds / 1000:.1f} s"
        seen.expect(5_900 < milliseconds < 7_000, f"the window is {milliseconds} ms")
        return seen


def _delay(scene: Scene) -> None:
    scene.relay.delay_seconds = 0.02


def _stop_client(scene: Scene) -> None:
    scene.client.signal(signal.SIGSTOP)
    time.sleep(3)
    scene.client.signal(signal.SIGCONT)


# -- runs that end early -----------------------------------------------------------------------------------------------


def _scenario(url: str) -> list[str]:
    points = ("--points", "random-4k-mix*", "--points", "read_percent=100,50,0")
    return ["run", "envelope", "--short", *points, "--target", url, "--out", "report", "--quiet"]


def _server_gone(folder: Path) -> Seen:
    with volume_process(folder) as volume:
        client = Client(folder, [*_arguments(volume.url()), "--nfs_timeout=3"])
        time.sleep(_BREAK_AFTER_SECONDS)
        volume.kill()
        ended = client.wait()
        seen = _seen(ended, volume)
        seen.expect(ended.status not in (0, 124), f"exit {ended.status}: {ended.last_line}")
        seen.expect(_job(folder) is not None, "result.json is missing")
        seen.files_left = "the data file, on a server that is gone"
        return seen


def _after_first_point(folder: Path, client: Client) -> None:
    """Waits until a scenario has a point in its result."""
    result = folder / "report" / "result.json"
    while client.is_running and not (result.exists() and _points(result)):
        time.sleep(0.05)


def _points(result: Path) -> list[Any]:
    try:
        return list(json.loads(result.read_text()).get("points", []))
    except (OSError, ValueError):
        return []


def _scenario_without_server(folder: Path) -> Seen:
    with volume_process(folder) as volume:
        client = Client(folder, _scenario(f"{volume.url()}?timeo=100"))
        _after_first_point(folder, client)
        volume.kill()
        ended = client.wait()
        seen = _seen(ended, volume)
        seen.expect(ended.status not in (0, 124), f"exit {ended.status}: {ended.last_line}")
        _expect_report(seen, folder, ended)
        seen.files_left = "the data file, on a server that is gone"
        return seen


def _scenario_with_restart(folder: Path) -> Seen:
    with volume_process(folder) as volume:
        client = Client(folder, _scenario(volume.url()))
        _after_first_point(folder, client)
        volume.kill()
        time.sleep(3)
        volume.start()
        ended = client.wait()
        seen = _seen(ended, volume)
        seen.expect(ended.status == 0, f"exit {ended.status}: {ended.last_line}")
        _expect_report(seen, folder, ended)
        return seen


def _signalled(number: signal.Signals, folder: Path) -> Seen:
    with volume_process(folder) as volume:
        client = Client(folder, _scenario(volume.url()))
        _after_first_point(folder, client)
        began = time.monotonic()
        client.signal(number)
        ended = client.wait()
        seconds = time.monotonic() - began
        seen = _seen(ended, volume)
        seen.end += f"; {seconds:.1f} s after the signal"
        seen.expect(ended.status not in (0, 124, -number), f"exit {ended.status}: {ended.last_line}")
        seen.expect(seconds < _END_MAX_SECONDS, f"it took {seconds:.1f} s to end")
        seen.expect(seen.files_left == "none", "files are left")
        _expect_report(seen, folder, ended)
        return seen


def _client_killed(folder: Path) -> Seen:
    with volume_process(folder) as volume:
        client = Client(folder, _scenario(volume.url()))
        _after_first_point(folder, client)
        client.signal(signal.SIGKILL)
        ended = client.wait()
        seen = _seen(ended, volume)
        left = _left(volume)
        again = Client(folder, [*_scenario(volume.url())[:-2], "again"]).wait()
        seen.expect(again.status == 0, f"the next run ends with {again.status}: {again.last_line}")
        seen.expect("iocurve clean" in again.output + again.error, "the next run does not name what was left")
        seen.expect(set(left) <= set(_left(volume)), "the next run removed what is not its own")
        return seen


def _expect_report(seen: Seen, folder: Path, ended: Ended) -> None:
    for name in ("result.json", "report.html", "points.csv"):
        seen.expect((folder / "report" / name).exists(), f"{name} is missing")
    seen.expect(not ended.has_stack_trace, "a stack trace")
    points = _points(folder / "report" / "result.json")
    seen.end += f"; {len(points)} points kept"
    seen.expect(len(points) > 0, f"no point was kept: {ended.last_line}")


# -- what a volume injects ---------------------------------------------------------------------------------------------


def _errs(fault: str, message: str, folder: Path) -> Seen:
    with volume_process(folder, ("--fault", fault, "--fault-log", str(folder / "log"))) as volume:
        ended = Client(folder, [*_arguments(volume.url()), "--rw=write"]).wait()
        seen = _seen(ended, volume)
        records = _log(folder)
        named = [f"of 4096 bytes at offset {record['offset']} of data: {message}" for record in records]
        seen.expect(any(text in ended.error for text in named), f"exit {ended.status}: {ended.last_line}")
        return seen


def _stdout_full(folder: Path) -> Seen:
    with volume_process(folder) as volume:
        job = " ".join(_arguments(volume.url())).replace("--output=result.json", "").replace("=json", "=normal")
        ended = Client(folder, [], prefix=("sh", "-c", f'"$0" {job} > /dev/full')).wait()
        seen = _seen(ended, volume)
        seen.expect(ended.status not in (0, 124), f"exit {ended.status}: {ended.last_line}")
        return seen


def _verified(fault: str, kind: str, folder: Path) -> Seen:
    with volume_process(folder, ("--fault", fault, "--fault-log", str(folder / "log"))) as volume:
        job = ["--rw=write", "--verify=crc32c", "--iodepth=1", "--nconnect=1"]
        arguments = [word for word in _arguments(volume.url()) if not word.startswith(("--time_based", "--runtime"))]
        ended = Client(folder, [*arguments, *job]).wait()
        seen = _seen(ended, volume)
        injected = {record["offset"] // 4096 * 4096 for record in _log(folder)}
        found = _job(folder) or {}
        named = {one["offset"] for one in found["iocurve"]["differences"] if one["kind"] == kind} if found else set()
        others = len(found["iocurve"]["differences"]) - len(named) if found else 0
        seen.end += f"; {len(injected)} injected, {len(named & injected)} named"
        seen.expect(len(injected) > 0, "nothing was injected")
        seen.expect(named == injected, f"{len(injected - named)} not found, {len(named - injected)} reported falsely")
        seen.expect(kind == "lost_write" or not others, f"{others} of another kind")
        seen.data_lost = "by the fault alone"
        return seen


def _journals(count: int, folder: Path) -> Seen:
    with volume_process(folder) as volume:
        done = list(journals.kills(volume, folder, count))
    faults = [f"{kill.victim} killed after {kill.after_seconds:.2f} s: {kill.fault}" for kill in done if kill.fault]
    disturbed = sum(kill.status != 0 for kill in done)
    return Seen(f"{disturbed} of {count} runs cut short; {len(faults)} recoveries failed", faults=faults[:3])


# -- looking -----------------------------------------------------------------------------------------------------------


def _seen(ended: Ended, volume: VolumeProcess) -> Seen:
    left = _left(volume)
    seen = Seen(f"exit {ended.status} after {ended.seconds:.0f} s", files_left=", ".join(left) or "none")
    seen.expect(not ended.has_stack_trace, "a stack trace")
    return seen


def _left(volume: VolumeProcess) -> list[str]:
    """Names that are left on the target; a job's own data file belongs there, as in fio."""
    return sorted(path.name for path in volume.files.iterdir() if not path.name.startswith(".") and path.name != "data")


def _job(folder: Path) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = json.loads((folder / "result.json").read_text())["jobs"][0]
    except (OSError, ValueError, LookupError):
        return None
    return found


def _log(folder: Path) -> list[dict[str, Any]]:
    return list(map(json.loads, _lines(folder / "log")))


def _lines(path: Path) -> Iterator[str]:
    yield from path.read_text().splitlines()

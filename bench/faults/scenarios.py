"""A scenario that something ends, or disturbs, after its first point."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from bench.faults import cgroup
from bench.faults.seen import Seen, left_on, points_of
from bench.faults.victims import Client, Ended, VolumeProcess, volume_process

_END_MAX_SECONDS = 3
"""Longest time from a signal to the end."""

Disturb = Callable[[VolumeProcess, Client], None]


def scenario(url: str, out: str = "report") -> list[str]:
    """Three points on an export, with a table at the end."""
    points = ("--points", "random-4k-mix*", "--points", "read_percent=100,50,0")
    return ["run", "envelope", "--quick", "--no-confirm", *points, "--target", url, "--out", out]


def server_gone(directory: Path) -> Seen:
    """Kills the volume for good."""
    seen, ended = _reported(lambda volume, _: volume.kill(), directory, "?timeo=100")
    seen.expect_error(ended)
    seen.files_left = "the data file, on a server that is gone"
    return seen


def server_restarts(directory: Path) -> Seen:
    """Kills the volume, and starts it after 3 s."""

    def restart(volume: VolumeProcess, _: Client) -> None:
        volume.kill()
        time.sleep(3)
        volume.start()

    seen, ended = _reported(restart, directory)
    seen.expect_success(ended)
    return seen


def signalled(number: signal.Signals, directory: Path) -> Seen:
    """Sends a signal to the client."""
    seen, ended = _reported(lambda _, client: client.signal(number), directory)
    seconds = ended.seconds_after_signal
    seen.end += f"; {seconds:.1f} s after the signal"
    seen.expect(ended.status not in (0, 124, -number), f"exit {ended.status}: {ended.last_line}")
    seen.expect(seconds < _END_MAX_SECONDS, f"it took {seconds:.1f} s to end")
    seen.expect(seen.files_left == "none", "files are left")
    return seen


def client_killed(directory: Path) -> Seen:
    """Kills the client; the next run lists the files that are left."""
    return _killed(lambda _, client: client.signal(signal.SIGKILL), directory)


def out_of_memory(directory: Path) -> Seen:
    """Gives the client no more memory than it holds, so that the kernel kills it."""
    with cgroup.memory() as group:
        seen = _killed(lambda *_: group.allow_no_growth(), directory, group.prefix)
        seen.expect(group.kills() > 0, "the kernel did not kill it for want of memory")
        return seen


def _disturbed(
    disturb: Disturb, directory: Path, volume: VolumeProcess, options: str = "", prefix: Sequence[str] = ()
) -> Ended:
    """The end of a scenario that is disturbed after its first point."""
    client = Client(directory, scenario(volume.url() + options), prefix=prefix)
    result = directory / "report" / "result.json"
    while client.is_running and not points_of(result):
        time.sleep(0.05)
    disturb(volume, client)
    return client.wait()


def _reported(disturb: Disturb, directory: Path, options: str = "") -> tuple[Seen, Ended]:
    """The end of a disturbed scenario, of which there is a report."""
    with volume_process(directory) as volume:
        ended = _disturbed(disturb, directory, volume, options)
        seen = Seen.of(ended, volume.files)
        seen.expect_report(directory, ended)
        return seen, ended


def _killed(kill: Disturb, directory: Path, prefix: Sequence[str] = ()) -> Seen:
    with volume_process(directory) as volume:
        ended = _disturbed(kill, directory, volume, prefix=prefix)
        seen, left = Seen.of(ended, volume.files), left_on(volume)
        seen.expect(ended.status == -signal.SIGKILL, f"exit {ended.status}: {ended.last_line}")
        seen.expect_report(directory, ended, ("result.json",))
        again = Client(directory, scenario(volume.url(), "again")).wait()
        seen.expect_success(again)
        seen.expect("iocurve clean" in again.output + again.error, "the next run does not name what was left")
        seen.expect(set(left) <= set(left_on(volume)), "the next run removed what is not its own")
        return seen

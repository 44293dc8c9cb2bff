"""One load, and what breaks under it; most loads go on."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench.faults import network
from bench.faults.clock import HOUR_MS, wrong_clock
from bench.faults.network import Link
from bench.faults.relay import Relay, relay
from bench.faults.seen import CannotRunError, Seen, job_of
from bench.faults.victims import Client, Ended, VolumeProcess, volume_process

RUN_SECONDS = 6
"""Measured time of a load."""
BREAK_AFTER_SECONDS = 2.5


@dataclass(frozen=True)
class Scene:
    """A volume behind a relay, and the client that loads it."""

    directory: Path
    volume: VolumeProcess
    relay: Relay
    client: Client


def arguments(url: str, *more: str) -> list[str]:
    """A job of fio on an export; options that come later count."""
    return ["fio", *_JOB, *_TIMED, "--ioengine=nfs", f"--nfs_url={url}", "--nconnect=4", *more]


def local_arguments(directory: Path, *more: str) -> list[str]:
    """The same job on local files."""
    return ["fio", *_JOB, *_TIMED, "--ioengine=libaio", f"--directory={directory}", *more]


_JOB = ("--name=load", "--rw=randrw", "--bs=4k", "--size=8m", "--iodepth=8", "--filename=data")
_TIMED = ("--time_based", f"--runtime={RUN_SECONDS}", "--output-format=json", "--output=result.json")


def load(disturb: Callable[[Scene], None], directory: Path, *more: str) -> Seen:
    """Disturbs a load, which goes on."""
    with volume_process(directory) as volume, relay(volume.port) as between:
        client = Client(directory, arguments(volume.url(between.port), *more))
        time.sleep(BREAK_AFTER_SECONDS)
        disturb(Scene(directory, volume, between, client))
        return _went_on(client.wait(), directory, volume)


def _went_on(ended: Ended, directory: Path, volume: VolumeProcess) -> Seen:
    seen, job = Seen.of(ended, volume.files), job_of(directory)
    operations = sum(int(job[kind]["total_ios"]) for kind in ("read", "write")) if job else 0
    seen.end += f"; {operations:,} operations"
    seen.expect_success(ended)
    seen.expect(operations > 0, "no operations")
    return seen


def restart(scene: Scene) -> None:
    """Kills the volume, and starts it after a second."""
    scene.volume.kill()
    time.sleep(1)
    scene.volume.start()


def hang(scene: Scene) -> None:
    """Stops the volume for 5 s."""
    scene.volume.signal(signal.SIGSTOP)
    time.sleep(5)
    scene.volume.signal(signal.SIGCONT)


def hold_traffic(scene: Scene) -> None:
    """Forwards nothing for 5 s."""
    scene.relay.flows.clear()
    time.sleep(5)
    scene.relay.flows.set()


def reset_each(scene: Scene) -> None:
    """Resets all connections, one by one."""
    for _ in range(max(4, scene.relay.connections)):
        scene.relay.reset_oldest()
        time.sleep(0.3)


def delay(scene: Scene) -> None:
    """Adds 20 ms to each direction."""
    scene.relay.delay_seconds = 0.02


def stop_client(scene: Scene) -> None:
    """Stops the client for 3 s."""
    scene.client.signal(signal.SIGSTOP)
    time.sleep(3)
    scene.client.signal(signal.SIGCONT)


def half_open(directory: Path) -> Seen:
    """The server's ends of all connections vanish; a new connection works."""
    return load(lambda scene: scene.relay.vanish(), directory, "--nfs_timeout=6")


def networked(disturb: Callable[[Link], object], directory: Path) -> Seen:
    """Disturbs the link to a volume in a separate network namespace."""
    if not network.is_possible():
        raise CannotRunError("network namespaces need root")
    with (
        network.link() as link,
        volume_process(directory, prefix=link.prefix, address=link.server_address) as volume,
    ):
        client = Client(directory, arguments(volume.url()))
        time.sleep(BREAK_AFTER_SECONDS)
        disturb(link)
        seen = _went_on(client.wait(), directory, volume)
        if dropped := link.dropped():
            seen.end += f"; {dropped:,} packets dropped"
        seen.expect(disturb is not Link.lose_packets or dropped > 0, "no packet was dropped")
        return seen


def link_down(link: Link) -> None:
    """Cuts the link for 3 s."""
    link.cut()
    time.sleep(3)
    link.mend()


def clock_step(directory: Path) -> Seen:
    """Sets the time of day back, for the client alone."""
    clock = wrong_clock(directory, 3, -HOUR_MS)
    with volume_process(directory) as volume:
        ended = Client(directory, arguments(volume.url()), clock).wait()
        seen = _went_on(ended, directory, volume)
        milliseconds = (job_of(directory) or {"job_runtime": 0})["job_runtime"]
        seen.end += f" in {milliseconds / 1000:.1f} s"
        seen.expect(5_900 < milliseconds < 7_000, f"the window is {milliseconds} ms")
        return seen


def server_gone(directory: Path) -> Seen:
    """Kills the volume for good."""
    with volume_process(directory) as volume:
        client = Client(directory, arguments(volume.url(), "--nfs_timeout=3"))
        time.sleep(BREAK_AFTER_SECONDS)
        volume.kill()
        ended = client.wait()
        seen = Seen.of(ended, volume.files)
        seen.expect_error(ended)
        seen.expect(job_of(directory) is not None, "result.json is missing")
        seen.files_left = "the data file, on a server that is gone"
        return seen

"""Kills of client and volume while vdbench journals: no acknowledged write is lost, and none is reported as lost."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from bench.faults.victims import Client, VolumeProcess

Victim = Literal["client", "volume", "both"]
VICTIMS: tuple[Victim, ...] = ("client", "volume", "both")

PARAMETERS = (
    "sd=sd1,lun={url}/data,size=4m,threads=4\nwd=wd1,sd=sd1,xf=(4k,50,16k,50),rdpct=30\n"
    "rd=rd1,wd=wd1,iorate=max,elapsed={seconds},interval=1\n"
)
_RUN_SECONDS = 2
_DOWN_SECONDS = 0.3


@dataclass(frozen=True)
class Kill:
    """A kill, and what the recovery after it found."""

    victim: Victim
    after_seconds: float
    status: int
    """Exit status of the run that was disturbed."""
    fault: str
    """Report of the recovery; empty if every acknowledged write was there."""


def kills(volume: VolumeProcess, directory: Path, count: int, seed: int = 1) -> Iterator[Kill]:
    """Kills so often, each time at a random moment, and recovers after each. One journal lives through all of it.

    A victim is killed while the client starts, recovers the journal, writes or ends: an undisturbed run says how long
    that takes here. Raises ``RuntimeError`` if that run fails.
    """
    moments = random.Random(seed)
    (directory / "p").write_text(PARAMETERS.format(url=volume.url(), seconds=_RUN_SECONDS))
    for option in ("-j", "-jr"):
        undisturbed = Client(directory, ["vdbench", "-f", "p", option]).wait()
        if undisturbed.status:
            raise RuntimeError(f"a run that nothing disturbs failed: {undisturbed.last_line}")
    for number in range(count):
        yield _kill(volume, directory, VICTIMS[number % len(VICTIMS)], moments.uniform(0, undisturbed.seconds))


def _kill(volume: VolumeProcess, directory: Path, victim: Victim, after_seconds: float) -> Kill:
    client = Client(directory, ["vdbench", "-f", "p", "-jr"])
    time.sleep(after_seconds)
    if victim != "volume":
        client.signal(signal.SIGKILL)
    if victim != "client":
        volume.kill()
        time.sleep(_DOWN_SECONDS)
        volume.start()
    ended = client.wait()
    return Kill(victim, after_seconds, ended.status, fault=recover(directory))


def recover(directory: Path) -> str:
    """Recovers the journal. Returns what it reported; nothing if every acknowledged write is there."""
    ended = Client(directory, ["vdbench", "-f", "p", "-jro"]).wait()
    if ended.status == 0 and "no differences" in ended.output:
        return ""
    return f"the recovery ended with {ended.status}: {ended.last_line}"

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
_KILLED_WITHIN_SECONDS = 3.0
"""A victim is killed at a random moment of this: the client starts, recovers the journal, writes or ends."""
_DOWN_SECONDS = 0.3


@dataclass(frozen=True)
class Kill:
    """A kill, and what the recovery after it found."""

    victim: Victim
    after_seconds: float
    status: int
    """Exit status of the run that was disturbed."""
    had_journal: bool
    """False if the client was killed before it made a journal: there is nothing to recover."""
    fault: str
    """What the recovery reported; empty if every acknowledged write was there."""


def kills(volume: VolumeProcess, folder: Path, count: int, seed: int = 1) -> Iterator[Kill]:
    """Kills so often, each time at a random moment, and recovers after each. One journal lives through all of it."""
    moments = random.Random(seed)
    (folder / "p").write_text(PARAMETERS.format(url=volume.url(), seconds=_RUN_SECONDS))
    for number in range(count):
        yield _kill(volume, folder, VICTIMS[number % len(VICTIMS)], moments.uniform(0, _KILLED_WITHIN_SECONDS))


def _kill(volume: VolumeProcess, folder: Path, victim: Victim, after_seconds: float) -> Kill:
    journal = folder / "sd1.iocurve-map"
    client = Client(folder, ["vdbench", "-f", "p", "-jr" if journal.exists() else "-j"])
    time.sleep(after_seconds)
    if victim != "volume":
        client.signal(signal.SIGKILL)
    if victim != "client":
        volume.kill()
        time.sleep(_DOWN_SECONDS)
        volume.start()
    ended = client.wait()
    if not journal.exists() or not journal.stat().st_size:
        return Kill(victim, after_seconds, ended.status, had_journal=False, fault="")
    fault = ""
    recovery = Client(folder, ["vdbench", "-f", "p", "-jro"]).wait()
    if recovery.status or "no differences" not in recovery.output:
        fault = f"the recovery ended with {recovery.status}: {recovery.last_line}"
    return Kill(victim, after_seconds, ended.status, had_journal=True, fault=fault)

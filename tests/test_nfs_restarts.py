"""A volume is killed in mid-load and comes back: a verified run goes on, loses nothing, and tells each wait."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from bench.faults.victims import VolumeProcess, volume_process
from iocurve.engine import plan
from iocurve.engine.outcome import Live
from iocurve.measure import local
from iocurve.units import KIB, MIB, SECOND_NS
from plans import WRITE, file_plan, nfs_engine, plan_of, worker

pytestmark = pytest.mark.slow

BLOCKS = 2 * MIB // (4 * KIB)
INTERVALS_BETWEEN = 3
ABSENCE_SECONDS = 0.7
LOAD_SECONDS = 6
"""Longer than two absences and starts of a volume on a busy machine."""


class Killer:
    """Kills a volume some times while a load runs, and starts it again each time."""

    def __init__(self, volume: VolumeProcess, times: int) -> None:
        self._volume, self.left = volume, times
        self._next: int | None = None

    def __call__(self, live: Live) -> bool:
        if live.phase != "run" or live.waiting:
            self._next = None
        elif self._next is None:
            self._next = live.intervals + INTERVALS_BETWEEN
        elif self.left and live.intervals >= self._next:
            self._volume.kill()
            time.sleep(ABSENCE_SECONDS)
            self._volume.start()
            self.left -= 1
            self._next = None
        return False


@pytest.mark.parametrize(("version", "nconnect"), [("3", 4), ("4.1", 1), ("4.1", 4)])
def test_a_verified_run_survives_two_kills_of_the_server(tmp_path: Path, version: str, nconnect: int) -> None:
    with volume_process(tmp_path) as volume:
        mount = nfs_engine(f"{volume.url()}?mountport={volume.port}&vers={version}", nconnect).mount
        load = worker(
            plan.NfsEngine(mount=mount.replace(keep_payload=True)),
            "",
            files=(file_plan("f", 2 * MIB, layout="fill", keep=True),),
            operations=(
                WRITE.replace(rate=plan.Rate(unit="operations", count=BLOCKS, per_ns=LOAD_SECONDS * SECOND_NS)),
            ),
            end=plan.End(runtime_ns=None, bytes=2 * MIB, operations=None),
            payload=plan.Payload(content=plan.RandomContent(), renew="refill"),
            verify=plan.Verify.from_builtins({"method": "crc32c", "pattern": ""}),
        )
        killer = Killer(volume, times=2)
        outcome = local.run(plan_of(load), killer)
        served = f"127.0.0.1:{volume.port}"
    (one,) = outcome.workers
    assert (one.state, killer.left) == ("finished", 0), one.error
    done = {kind: (figures.operations, figures.errors) for kind, figures in one.operations.items()}
    assert done == {"write": (BLOCKS, 0), "read": (BLOCKS, 0)}
    assert [(stall.server, stall.phase) for stall in outcome.stalls] == [(served, "load")] * 2
    if version == "4.1":
        assert one.counters["session_recoveries"] == 2

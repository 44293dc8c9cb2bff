"""A volume is killed in mid-load and comes back: a verified run goes on, loses nothing, and tells each wait."""

import time
from pathlib import Path

import pytest

from bench.faults.relay import relay
from bench.faults.victims import VolumeProcess, volume_process
from iocurve.engine import plan
from iocurve.engine.outcome import Live, WorkerOutcome
from iocurve.foundation.units import KIB, MIB, SECOND_NS
from iocurve.measure import local
from plans import WRITE, file_plan, nfs_engine, plan_of, worker
from reclaims import COMPLETED_IN_THE_NEXT_SESSION, FILES, Reclaims

pytestmark = pytest.mark.slow

BYTES = 2 * MIB
BLOCKS = BYTES // (4 * KIB)
INTERVALS_BETWEEN = 3
ABSENCE_SECONDS = 0.7
SECONDS_PER_KILL = 1
"""Load between absences, which do not count: pauses between operations are not made up for."""
DEPTH = 8


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


def _verified_load(url: str, nconnect: int, kills: int, files: int = 1) -> plan.Worker:
    """Writes all blocks with pauses that leave time for the kills, and reads them back."""
    pause_ns = kills * SECONDS_PER_KILL * SECOND_NS // (BLOCKS // DEPTH)
    return worker(
        plan.NfsEngine(mount=nfs_engine(url, nconnect).mount.replace(keep_payload=True)),
        "",
        files=tuple(file_plan(f"f{number}", BYTES // files, layout="fill", keep=True) for number in range(files)),
        operations=(WRITE,),
        depth=DEPTH,
        think=plan.Think(pause_ns=pause_ns, every=DEPTH, counts="issued"),
        end=plan.End(runtime_ns=None, bytes=BYTES, operations=None),
        payload=plan.Payload(content=plan.RandomContent(), renew="refill"),
        verify=plan.Verify.from_builtins({"method": "crc32c", "pattern": ""}),
    )


def _finished(one: WorkerOutcome) -> None:
    assert one.state == "finished", one.error
    done = {kind: (figures.operations, figures.errors) for kind, figures in one.operations.items()}
    assert done == {"write": (BLOCKS, 0), "read": (BLOCKS, 0)}


@pytest.mark.parametrize(("version", "nconnect"), [("3", 4), ("4.1", 1), ("4.1", 4)])
def test_a_verified_run_survives_two_kills_of_the_server(tmp_path: Path, version: str, nconnect: int) -> None:
    with volume_process(tmp_path) as volume:
        load = _verified_load(f"{volume.url()}?mountport={volume.port}&vers={version}", nconnect, kills=2)
        killer = Killer(volume, times=2)
        outcome = local.run(plan_of(load), killer)
        served = f"127.0.0.1:{volume.port}"
    (one,) = outcome.workers
    _finished(one)
    assert (killer.left, [(stall.server, stall.phase) for stall in outcome.stalls]) == (0, [(served, "load")] * 2)
    if version == "4.1":
        assert one.counters["session_recoveries"] == 2


def test_a_reclaim_whose_session_is_lost_goes_on_in_the_next(tmp_path: Path) -> None:
    with volume_process(tmp_path) as volume, relay(volume.port) as between:
        reclaims = Reclaims(volume.port)
        between.look = reclaims.look
        killer = Killer(volume, times=1)
        load = _verified_load(f"{volume.url(between.port)}?vers=4.1", 1, kills=1, files=FILES)
        (one,) = local.run(plan_of(load), killer).workers
    _finished(one)
    assert killer.left == 0
    # Before RECLAIM_COMPLETE the volume refuses an open that reclaims nothing, with the error NFS4ERR_GRACE.
    assert reclaims.calls == COMPLETED_IN_THE_NEXT_SESSION

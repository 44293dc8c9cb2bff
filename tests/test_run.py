"""Runs of plans on real files, from the plan to the outcome."""

import json
import os
import threading
from pathlib import Path

import pytest

from data import synthetic
from goldens import cases, matches, present
from iocurve import _native
from iocurve.engine import plan
from iocurve.engine.derived import unpack
from iocurve.engine.outcome import Live, Outcome
from iocurve.foundation.errors import RunError, TargetError
from iocurve.foundation.units import KIB, MIB, MILLISECOND_NS, SECOND_NS
from iocurve.measure import local
from iocurve.result.document import MachineUse
from plans import READ, WRITE, end, file_plan, in_groups, local_engine, null_plan, plan_of, worker

LOCAL = ("sync", "aio", "uring", "mmap")


@pytest.mark.parametrize("kind", LOCAL)
def test_a_file_is_laid_out_read_once_and_removed(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "data"
    outcome = local.run(plan_of(worker(local_engine(kind), str(path))))
    assert outcome.state == "finished"
    (only,) = outcome.workers
    read = only.operations["read"]
    assert (read.operations, read.bytes, read.errors, read.short) == (256, MIB, 0, 0)
    assert read.service.count == 256
    assert 0 < read.service.min_ns <= read.service.mean_ns <= read.service.max_ns
    assert sum(part.operations["read"].operations for part in only.intervals) == 256
    assert not path.exists()


@pytest.mark.parametrize("kind", LOCAL)
def test_every_block_is_written_once(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "data"
    file = file_plan(path, layout="reserve", keep=True)
    payload = plan.Payload(content=plan.RandomContent(), renew="refill")
    writer = worker(local_engine(kind), str(path), files=(file,), operations=(WRITE,), payload=payload)
    outcome = local.run(plan_of(writer))
    assert outcome.workers[0].operations["write"].operations == 256
    blocks = [path.read_bytes()[start : start + 4 * KIB] for start in range(0, MIB, 4 * KIB)]
    assert all(any(block) for block in blocks)
    assert len(set(blocks)) == 256


@pytest.mark.parametrize("kind", LOCAL)
def test_reading_changes_nothing_and_leaves_a_file_that_was_there(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_bytes(content := os.urandom(MIB))
    local.run(plan_of(worker(local_engine(kind), str(path))))
    assert path.read_bytes() == content


@pytest.mark.parametrize("kind", LOCAL)
def test_a_trim_leaves_zeros_and_the_result_says_that_it_was_a_hole(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_bytes(os.urandom(MIB))
    trims = worker(local_engine(kind), str(path), operations=(READ.replace(kind="trim"),))
    (only,) = local.run(plan_of(trims)).workers
    assert (only.operations["trim"].operations, only.operations["trim"].bytes) == (256, MIB)
    assert "trim_punches_holes" in only.labels
    assert path.read_bytes() == bytes(MIB)


def test_a_file_is_recreated_and_one_of_any_length_grows_with_its_writes(tmp_path: Path) -> None:
    old, growing = tmp_path / "old", tmp_path / "growing"
    old.write_bytes(bytes(2 * MIB))
    growing.write_bytes(b"short")
    files = (file_plan(old, layout="recreate", keep=True), file_plan(growing, layout="create", keep=True))
    writer = worker(local_engine("sync"), "", files=files[1:], operations=(WRITE,), depth=1)
    local.run(plan_of(writer, worker(local_engine("sync"), "", files=files[:1])))
    assert (old.stat().st_size, growing.stat().st_size) == (MIB, MIB)
    assert any(old.read_bytes())


def test_a_log_of_each_operation_has_offset_and_latency(tmp_path: Path) -> None:
    log = plan.LogPlan(window_ns=None, histograms=False, records=200)
    sequential = READ.replace(random_percent=0)
    logged = worker(local_engine("sync"), str(tmp_path / "data"), operations=(sequential,), log=log)
    (only,) = local.run(plan_of(logged)).workers
    assert only.log is not None
    assert (only.log.records, only.log.lost) == (200, 56)
    records = unpack(only.log)
    assert records.offset == [number * 4 * KIB for number in range(200)]
    assert (records.kind, records.bytes, records.operations) == (["read"] * 200, [4 * KIB] * 200, [1] * 200)
    assert records.at_ns == sorted(records.at_ns)
    assert only.operations["read"].service.max_ns >= max(records.service_ns) >= min(records.service_ns) > 0
    assert (records.response_ns, records.service_ns_max, records.histograms) == ([], [], [])


def test_a_log_of_windows_adds_up_to_the_whole(tmp_path: Path) -> None:
    log = plan.LogPlan(window_ns=MILLISECOND_NS, histograms=True, records=10_000)
    (only,) = local.run(plan_of(worker(local_engine("sync"), str(tmp_path / "data"), log=log))).workers
    assert only.log is not None
    assert (only.log.window_ns, only.log.lost) == (MILLISECOND_NS, 0)
    records, read = unpack(only.log), only.operations["read"]
    assert (sum(records.operations), sum(records.bytes)) == (256, MIB)
    assert max(records.service_ns_max) == read.service.max_ns
    assert [_native.Histogram.decode(each).count for each in records.histograms] == records.operations


def test_a_waiting_worker_starts_after_the_others_and_reads_their_data(tmp_path: Path) -> None:
    # No file exists before: the reader's file must be long enough only when its group starts.
    file = file_plan(tmp_path / "data", layout="create", keep=True)
    writer = worker(local_engine("sync"), "", files=(file,), operations=(WRITE,), job="writer")
    reader = worker(local_engine("mmap"), "", files=(file_plan(tmp_path / "data", layout="existing", keep=True),))
    outcome = local.run(plan_of(writer, reader.replace(job="reader", wait_for=("writer",))))
    first, second = outcome.workers
    assert (outcome.state, second.operations["read"].bytes) == ("finished", MIB)
    assert second.window_start_ns >= first.drained_ns


def test_the_use_of_the_machine_begins_with_the_measured_time(monkeypatch: pytest.MonkeyPatch) -> None:
    meters: list[Meter] = []

    def metered(**_: object) -> Meter:
        meters.append(Meter([]))
        return meters[-1]

    monkeypatch.setattr("iocurve.result.host.MachineMeter", metered)
    observer = local.Observer(
        plan_of(worker(plan.NullEngine(), "nothing", ramp_ns=200 * MILLISECOND_NS)), local.run_to_the_end
    )

    def begins_anew(phase: str, elapsed_ms: int) -> bool:
        before = len(meters)
        live = synthetic.live(phase=phase, elapsed_ns=elapsed_ms * MILLISECOND_NS)
        observer.update(live)
        return len(meters) > before

    states = [("prepare", 0), ("ramp", 0), ("ramp", 100), ("ramp", 200), ("run", 1200)]
    assert [begins_anew(*state) for state in states] == [True, True, True, False, False]


def test_a_cool_down_is_load_that_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[str] = []
    monkeypatch.setattr("iocurve.result.host.MachineMeter", lambda **_: Meter(looks))
    rate = plan.Rate(unit="operations", count=100, per_ns=SECOND_NS)
    until = end(runtime_ns=200 * MILLISECOND_NS)
    cooled = worker(plan.NullEngine(), "nothing", rate=rate, end=until, cooldown_ns=300 * MILLISECOND_NS)

    def watch(live: Live) -> bool:
        looks.append(live.phase)
        return False

    measured, _ = local.measure(plan_of(cooled), watch)
    (only,) = measured.outcome.workers
    # A machine that other programs hold completes operations late, or misses some; none is counted twice.
    read = only.operations["read"]
    counted = read.operations
    assert (only.window_end_ns, counted + read.drained + read.unfinished + read.missed) == (200 * MILLISECOND_NS, 20)
    assert counted + only.drained_operations <= 50
    assert 0 < counted <= 20
    assert only.drained_ns // MILLISECOND_NS >= 500
    assert only.intervals[-1].end_ns == 200 * MILLISECOND_NS
    # CPU use is sampled at the end of the measured window, not after the cool-down.
    assert looks.count("use") == 1
    assert looks[-1] != "use"


class Meter:
    """Replaces the machine's meter and records when it is read."""

    def __init__(self, looks: list[str]) -> None:
        self._looks = looks

    def poll(self) -> None:
        pass

    def use(self) -> MachineUse:
        self._looks.append("use")
        return MachineUse(busy_share=0.0, cpus=1)


def test_figures_that_hold_steady_end_the_run() -> None:
    steady = plan.SteadyState(
        figure="bandwidth",
        criterion="slope",
        limit=1e30,
        limit_is_percent=False,
        duration_ns=300 * MILLISECOND_NS,
        ramp_ns=100 * MILLISECOND_NS,
        check_ns=100 * MILLISECOND_NS,
    )
    outcome = local.run(plan_of(worker(plan.NullEngine(), "nothing", steady_state=steady, end=end())))
    found = present(outcome.workers[0].steady_state)
    ends = [sample.end_ns // MILLISECOND_NS for sample in found.samples]
    assert (ends, found.attained_ns, outcome.state) == ([200, 300, 400], 400 * MILLISECOND_NS, "finished")


def test_direct_io_reaches_a_real_disk(tmp_path: Path) -> None:
    try:
        os.close(os.open(tmp_path / "probe", os.O_CREAT | os.O_RDWR | os.O_DIRECT))
    except OSError:
        pytest.skip("this file system refuses O_DIRECT")
    outcome = local.run(plan_of(worker(local_engine("uring", direct=True), str(tmp_path / "data"))))
    assert outcome.workers[0].operations["read"].operations == 256


def test_groups_run_one_after_another(tmp_path: Path) -> None:
    """The second group reads the data of the first."""
    file = file_plan(tmp_path / "data", layout="reserve", keep=True)
    first = worker(local_engine("sync"), "", files=(file,), operations=(WRITE,))
    second = worker(local_engine("sync"), "", files=(file.replace(layout="existing"),))
    outcome = local.run(in_groups((first,), (second, second)))
    matches("measure#groups run after", [(part.group, part.worker, list(part.operations)) for part in outcome.workers])


def test_the_same_seed_reads_the_same_blocks_in_the_same_order(tmp_path: Path) -> None:
    """Half of the blocks, twice: with the same seed the second run writes to the same blocks as the first."""

    def written(seed: int, name: str) -> list[int]:
        path = tmp_path / name
        file = file_plan(path, layout="reserve", keep=True)
        half = worker(local_engine("sync"), "", files=(file,), operations=(WRITE,), end=end(bytes=MIB // 2), seed=seed)
        local.run(plan_of(half))
        content = path.read_bytes()
        return [start for start in range(0, MIB, 4 * KIB) if any(content[start : start + 4 * KIB])]

    assert written(1, "a") == written(1, "b")
    assert written(1, "a") != written(2, "c")
    assert len(written(1, "a")) == 128


def test_several_files_share_the_load_in_turn(tmp_path: Path) -> None:
    files = tuple(file_plan(tmp_path / name, MIB // 4, layout="reserve", keep=True) for name in "abcd")
    kinds = (WRITE.replace(random_percent=0),)
    local.run(plan_of(worker(local_engine("sync"), "", files=files, operations=kinds, end=end(operations=8), depth=1)))
    for file in files:
        content = Path(file.path).read_bytes()
        assert any(content[: 8 * KIB])
        assert not any(content[8 * KIB :])


def test_a_rate_is_kept(tmp_path: Path) -> None:
    paced = READ.replace(rate=plan.Rate(unit="operations", count=1000, per_ns=SECOND_NS))
    made = worker(local_engine("uring"), str(tmp_path / "data"), operations=(paced,), end=end(operations=100))
    (only,) = local.run(plan_of(made)).workers
    # The hundredth operation is due after 99 ms and not earlier.
    assert only.window_end_ns - only.window_start_ns >= 99 * MILLISECOND_NS
    assert present(only.operations["read"].response).count == 100


def test_the_null_engine_needs_no_file() -> None:
    outcome = local.run(null_plan())
    assert (outcome.workers[0].operations["read"].operations, outcome.workers[0].engine) == (256, "null")


def test_an_outcome_is_kept_for_further_waits() -> None:
    """Ctrl-C may come between the end of a run and the assignment of its outcome."""
    handle = _native.Run(plan_of(worker(plan.NullEngine(), "n")).to_json())
    first = None
    while first is None:
        first = handle.wait(1)
    assert handle.wait(0) == first


def test_a_live_view_gets_the_intervals() -> None:
    seen: list[Live] = []
    until = end(runtime_ns=600 * MILLISECOND_NS)
    two = [worker(plan.NullEngine(), "n", end=until, jobnum=jobnum) for jobnum in range(2)]

    def watch(live: Live) -> bool:
        seen.append(live)
        return False

    local.run(plan_of(*two), watch)
    intervals = {live.intervals: live for live in seen if live.intervals}
    assert len(intervals) >= 2
    reads = [live.operations["read"] for live in intervals.values() if live.operations["read"].operations > 1]
    assert min(one.stddev_ns for one in reads) > 0, "a starved interval may have no operations"


def test_a_stop_keeps_the_measurements() -> None:
    handle = _native.Run(plan_of(worker(plan.NullEngine(), "n", end=end(runtime_ns=60 * SECOND_NS))).to_json())
    threading.Timer(0.3, handle.stop).start()
    outcome = None
    for _ in range(100):
        if outcome := handle.wait(0.1):
            break
    assert outcome is not None
    read = Outcome.from_json(outcome)
    assert read.state == "interrupted"
    assert read.workers[0].operations["read"].operations > 0


@pytest.mark.parametrize(("place", "layout"), [("precious", "new"), ("no/such/file", "fill")])
def test_a_file_that_cannot_be_made_is_an_error_before_anything_runs(place: str, layout: str, tmp_path: Path) -> None:
    (path := tmp_path / "precious").write_text("mine")
    made = file_plan(tmp_path / place, layout=layout)
    with pytest.raises(TargetError, match=place):
        local.run(plan_of(worker(local_engine("sync"), "", files=(made,))))
    assert path.read_text() == "mine"


def test_no_worker_starts_if_one_cannot_be_prepared(tmp_path: Path) -> None:
    good = worker(local_engine("sync"), str(tmp_path / "good"))
    existing = file_plan(tmp_path / "short", 1, layout="fill", keep=True)
    bad = worker(local_engine("sync"), "", files=(existing,))
    with pytest.raises(RunError, match="smaller than one block"):
        local.run(plan_of(good, bad))


@cases("measure/invalid_plans_are_refused")
def test_invalid_plans_are_refused(change: dict[str, int], text: str) -> None:

    document = json.loads(null_plan().to_json()) | change
    with pytest.raises(RunError, match=text):
        _native.Run(json.dumps(document))


def test_the_ceiling_is_a_rate() -> None:
    # Long enough for a machine that has other work, too.
    assert _native.null_ceiling(0.3) > 0


def test_ctrl_c_after_the_last_operation_still_interrupts() -> None:
    """The signal may arrive while the live view is drawn for the last time."""

    def interrupted(live: Live) -> bool:
        if live.phase == "done":
            raise KeyboardInterrupt
        return False

    outcome = local.run(plan_of(worker(plan.NullEngine(), "nothing", end=end(operations=10))), interrupted)
    assert (outcome.state, outcome.workers[0].state) == ("interrupted", "finished")

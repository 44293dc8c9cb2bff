"""Stalls of the target, absences of the agent, and runs that are too short for the target."""

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from data import synthetic
from goldens import Golden, cases, matches, present
from iocurve.analysis import read
from iocurve.analysis.check_expressions import parse_all
from iocurve.analysis.check_names import Vocabulary
from iocurve.analysis.checks import check
from iocurve.analysis.doubts import level_doubts
from iocurve.analysis.level_changes import level_change
from iocurve.engine.outcome import Absence, WorkerOutcome
from iocurve.foundation.units import SECOND_NS
from iocurve.result.document import MachineUse, Point, Result
from iocurve.result.stalls import absences, longest_stall, remarks, unwritten_text
from programs import started, status_of, stopped

MS = 1_000_000


def run(latencies: dict[int, int], seconds: int = 10, **fields: object) -> WorkerOutcome:
    """Reads in ``seconds``; the slowest completes in the sixth second."""
    intervals = synthetic.intervals([10] * seconds)
    slow = intervals[5].operations["read"].replace(max_ns=max(latencies))
    intervals[5] = intervals[5].replace(operations={"read": slow})
    done, window = {"read": synthetic.kind(latencies, 4096)}, (0, seconds * SECOND_NS)
    return synthetic.worker_outcome(done, window_ns=window, intervals=intervals).replace(**fields)


def codes(worker: WorkerOutcome) -> list[str]:
    return [code for code, _ in remarks(point_of(worker))]


@cases("result/a_stall_stands_out")
def test_a_stall_stands_out(latencies_ms: dict[str, int], start_ms: int | None) -> None:
    stall = longest_stall([run({int(latency) * MS: count for latency, count in latencies_ms.items()})])
    assert (stall and stall[0] // MS) == start_ms


def test_a_stall_stands_beside_the_state_of_the_machine() -> None:
    """A reader of the first lines alone learns that operations stalled."""
    found = read(synthetic.result([point_of(run({MS: 10_000, 3_000 * MS: 1})), point_of(run({MS: 10_000}))]))
    assert found.trust[1].endswith("; operations stalled for up to 3 s in 1 of 2 points")


def test_a_stall_near_the_start_is_no_change_of_level() -> None:
    worker = run({MS: 10_000, 3_030 * MS: 16}, seconds=10)
    slow, usual = worker.intervals[5].operations["read"], worker.intervals[0].operations["read"]
    rates = (778, 0, 0, 503, 1001, 999, 1003, 1002, 997, 1004)
    made = [
        one.replace(operations={"read": (slow if rate == 503 else usual).replace(operations=rate)} if rate else {})
        for one, rate in zip(worker.intervals, rates, strict=True)
    ]
    point = point_of(worker.replace(intervals=tuple(made)))
    assert level_change([one.iops for one in point.course()]) is not None, "of the rates alone it would be one"
    assert level_doubts([point]) == []


def test_a_stall_that_drains_after_the_window_started_before_its_end() -> None:
    late = {"read": synthetic.kind({MS: 2_500, 6_500 * MS: 1}, 4096)}
    worker = run({MS: 2_500}, seconds=4 + 2, drained_ns=9_000 * MS).replace(operations=late)
    assert longest_stall([worker]) == (2_500 * MS, 6_500 * MS)


def test_the_target_is_not_blamed_for_the_absence_of_the_client() -> None:
    away = Absence(start_ns=3_000 * MS, duration_ns=2_900 * MS)
    worker = run({MS: 10_000, 3_000 * MS: 1}, absences=(away,))
    assert (longest_stall([worker]), absences([worker, worker]), codes(worker)) == (None, [away], ["client_absent"])
    elsewhere = worker.replace(absences=(away.replace(start_ns=8_000 * MS, duration_ns=300 * MS),))
    assert codes(elsewhere) == ["client_absent", "target_stalled"]


@cases("result/remarks")
def test_remarks(latencies_ms: dict[str, int], fields: dict[str, Any], golden: Golden) -> None:
    golden.check(codes(run({int(latency) * MS: count for latency, count in latencies_ms.items()}, **fields)))


def test_missed_and_unfinished_operations_are_remarked() -> None:
    worker = run({MS: 1_000})
    kind = worker.operations["read"]
    assert codes(worker.replace(operations={"read": kind.replace(missed=1)})) == []
    left = kind.replace(missed=20, unfinished=1)
    assert codes(worker.replace(operations={"read": left})) == ["operations_unfinished", "operations_missed"]


@cases("analysis/never_written")
def test_reads_of_what_was_never_written_are_remarked(counters: dict[str, int], told: str | None) -> None:
    text = unwritten_text([run({MS: 100}, counters=counters)])
    assert text.startswith(told) and "Fill the target first" in text if told else text == ""
    assert codes(run({MS: 100}, counters=counters)) == (["reads_unwritten"] if told else [])


def test_a_sparse_file_is_named_on_stderr_and_in_every_form_of_the_result(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sparse, written, zeros = (tmp_path / name for name in ("sparse", "written", "zeros"))
    with sparse.open("wb") as made:
        made.write(os.urandom(1 << 20))
        made.truncate(4 << 20)
    written.write_bytes(os.urandom(4 << 20))
    zeros.write_bytes(bytes(4 << 20))
    found = {}
    for file in (sparse, written, zeros):
        out = str(tmp_path / f"out-{file.name}")
        load = ("--name=r", f"--filename={file}", "--rw=randread", "--bs=4k", "--size=4m")
        assert status_of("fio", *load, "--out", out) == 0
        (point,) = Result.read(out).points
        told = f"r: {unwritten_text(point.outcome.workers)}"
        found[file.name] = (told[:12], told in capsys.readouterr().err, *point.summary().labels)
        assert (told in read(Result.read(out)).doubts) is (file is not written)
    matches("result#sparse file named", found)


def test_a_condition_finds_the_stall() -> None:
    result = synthetic.result([point_of(run({MS: 10_000, 3_000 * MS: 1}))])
    found = check(result, parse_all(["stall > 1s", "stall > 4s"], Vocabulary.of(result))).all
    assert [one.verdict for one in found] == ["failed", "passed"]


@pytest.mark.slow
@pytest.mark.alone
def test_a_client_that_was_stopped_says_so_and_does_not_blame_the_target(tmp_path: Path) -> None:
    options = ("--ioengine=null", "--rw=randread", "--size=1g", "--time_based", "--runtime=3", "--rate_iops=2000")
    with started("fio", "--name=r", *options, "--out", str(tmp_path / "out"), cwd=tmp_path) as running:
        assert any("running" in line for line in present(running.stderr))
        time.sleep(0.5)
        running.send_signal(signal.SIGSTOP)
        time.sleep(1.2)
        ended = stopped(running, signal.SIGCONT)
    assert ended.returncode == 0, ended.stderr
    told = ("iocurve itself did not run for" in ended.stderr, "the target stalled" in ended.stderr)
    assert told == (True, False)
    result = Result.read(tmp_path / "out")
    (away,) = absences(result.points[0].outcome.workers)
    assert away.duration_ns >= SECOND_NS


def point_of(worker: WorkerOutcome, machine: MachineUse | None = None) -> Point:
    return synthetic.point(synthetic.plan([synthetic.worker_plan()]), worker, machine=machine)


def told(point: Point) -> str:
    return dict(remarks(point))["target_stalled"]


def test_a_stall_names_this_machine_where_it_lacked_processors_for_a_part_of_it() -> None:
    worker = run({MS: 10_000, 3_000 * MS: 1})
    assert told(point_of(worker)).startswith("p: the target stalled 3 s after the start of the load: an operation took")
    # 12 % of 10 s are 1.2 s of a stall of 3 s, 2 % are less than a tenth of it.
    much, little = (MachineUse(busy_share=0.9, cpus=2, thread_delay_share=delay) for delay in (0.12, 0.02))
    matches("result#stall names this", told(point_of(worker, much)))
    assert told(point_of(worker, little)) == told(point_of(worker))


def test_a_stall_in_which_the_client_was_away_for_less_than_half_names_it() -> None:
    away = Absence(start_ns=4_000 * MS, duration_ns=1_000 * MS)
    assert "for up to 1 s of that time" in told(point_of(run({MS: 10_000, 3_000 * MS: 1}, absences=(away,))))


def test_shares_of_reads_of_what_was_never_written_are_in_the_records() -> None:
    counters = {"unwritten_bytes": 256, "file_bytes": 1024, "sampled_reads": 8, "zero_reads": 2}
    runs = [point_of(run({MS: 100}, counters=counted)) for counted in (counters, {})]
    first, second = (synthetic.result([one]).to_records()[0] for one in runs)
    assert (first["unwritten_share"], first["zero_reads_share"]) == (0.25, 0.25)
    assert "unwritten_share" not in second

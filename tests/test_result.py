"""Results: exact sums over workers, and a document that survives file errors."""

import errno
import json
import os
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from data import synthetic
from data.synthetic import interval, kind, plan, point, result, worker_outcome, worker_plan
from goldens import cases, has, matches, present
from iocurve import _native
from iocurve.engine.outcome import CpuTime, Live, Outcome, WorkerOutcome
from iocurve.engine.plan import FileOpen, Rate, SyncEngine
from iocurve.foundation.errors import ResultError
from iocurve.foundation.units import SECOND_NS
from iocurve.result.caps import Burst, caps
from iocurve.result.document import CacheFacts, FamilyFacts, Limit, Point, Probe, Result, ScenarioFacts
from iocurve.result.document_file import EARLIER_FIELDS
from iocurve.result.summary import merge_latencies, summarise

BLOCK = 4096


def two(first: WorkerOutcome, second: WorkerOutcome) -> Point:
    return point(plan([worker_plan(), worker_plan()]), first, second)


# ---- sums over workers


def in_window(number: int, said: dict[str, Any]) -> WorkerOutcome:
    """A worker with operations by kind and latency; intervals are start, end and reads, and ramp before its window."""
    start, end = (round(second * SECOND_NS) for second in said["window_s"])
    intervals = [
        interval(at, first * SECOND_NS, last * SECOND_NS, {"read": count}, BLOCK).replace(
            ramp=last * SECOND_NS <= start
        )
        for at, (first, last, count) in enumerate(said.get("intervals", []))
    ]
    kinds = {
        name: kind({int(latency): count for latency, count in values.items()}, BLOCK)
        for name, values in said["operations"].items()
    }
    ended = {name: said[name] for name in ("state", "error") if name in said}
    return worker_outcome(kinds, number=number, window_ns=(start, end), intervals=intervals, **ended)


@cases("result/sums")
def test_workers_are_added_up(workers: list[dict[str, Any]], expected: dict[str, Any]) -> None:
    has(two(*(in_window(number, said) for number, said in enumerate(workers))).summary(), expected)


def test_nothing_measured_is_zero_and_not_an_error() -> None:
    summary = point(plan([worker_plan()]), worker_outcome({"read": kind({}, BLOCK)}, window_ns=(0, 0))).summary()
    assert (summary.iops, summary.concurrency_achieved, summary.cpu_us_per_operation) == (0.0, 0.0, None)
    assert summary.service.percentile(99) == 0


def test_groups_run_one_after_another() -> None:
    planned = plan([worker_plan(depth=4)], [worker_plan(depth=16)])
    summary = point(
        planned,
        worker_outcome({"read": kind({100_000: 1000}, BLOCK)}, window_ns=(0, SECOND_NS)),
        worker_outcome({"read": kind({100_000: 5000}, BLOCK)}, group=1, window_ns=(0, 3 * SECOND_NS)),
    ).summary()
    assert (summary.window_ns, summary.skew_ns, summary.iops) == (4 * SECOND_NS, 0, 1500.0)
    assert summary.depth_requested == (4 * 1 + 16 * 3) / 4


# ---- latencies


def test_percentiles_come_from_the_merged_histogram() -> None:
    """Nine workers are fast, one is slow: the mean of their 90th percentiles would be far off."""
    parts = [synthetic.latency({1000: 1000}) for _ in range(9)] + [synthetic.latency({1_000_000: 1000})]
    merged = merge_latencies(parts)
    assert merged.percentile(90) == 1000
    assert 999_000 <= merged.percentile(90.1) <= 1_001_000
    assert (merged.count, merged.min_ns, merged.max_ns) == (10_000, 1000, 1_000_000)


def test_mean_and_deviation_are_those_of_all_values() -> None:
    merged = merge_latencies([synthetic.latency({100: 3}), synthetic.latency({500: 1}), synthetic.latency({})])
    assert merged.mean_ns == 200.0
    assert merged.stddev_ns == pytest.approx((3 * 100**2 + 300**2) ** 0.5 / 2, rel=1e-12)


def test_percentiles_stay_within_the_exact_ends() -> None:
    """Buckets are 0.1 % wide: without this the largest percentile would exceed the largest value."""
    merged = merge_latencies([synthetic.latency({1_234_567: 10})])
    assert merged.percentile(0) == merged.percentile(100) == 1_234_567


def test_under_a_rate_the_latency_is_from_the_due_moment() -> None:
    rate = Rate(unit="operations", count=100, per_ns=SECOND_NS)
    paced = kind({1000: 100}, BLOCK, response={9000: 100})
    summary = point(
        plan([worker_plan(rate=rate), worker_plan()]),
        worker_outcome({"read": paced}),
        worker_outcome({"read": kind({1000: 300}, BLOCK)}, number=1),
    ).summary()
    assert summary.paced
    assert (summary.service.mean_ns, summary.latency.mean_ns) == (1000.0, (100 * 9000 + 300 * 1000) / 400)
    assert summary.concurrency_achieved == pytest.approx(400 * 1000 / SECOND_NS)


# ---- the rest of a summary


def test_cpu_is_counted_per_operation() -> None:
    busy = CpuTime(user_ns=300_000_000, system_ns=500_000_000, context_switches=7)
    summary = two(
        worker_outcome({"read": kind({1000: 400_000}, BLOCK)}, cpu=busy),
        worker_outcome({"read": kind({1000: 600_000}, BLOCK)}, number=1),
    ).summary()
    assert (summary.cpu_us_per_operation, summary.cpu_share_max) == (0.8, 0.8)


def test_a_synchronous_engine_has_one_operation_in_flight() -> None:
    opened = FileOpen(direct=False, durability="none", invalidate=False)
    worker = worker_plan(depth=32).replace(engine=SyncEngine(open=opened))
    assert point(plan([worker, worker_plan(depth=8)]), *_pair()).summary().depth_requested == 9


def _pair(**second: Any) -> tuple[WorkerOutcome, WorkerOutcome]:
    """Two workers with a read each."""
    read = {"read": kind({1000: 1}, BLOCK)}
    return worker_outcome(read), worker_outcome(read, number=1, **second)


def test_report_groups_are_reported_as_one() -> None:
    members = [("a", 0, 100), ("a", 0, 200), ("b", 3, 400)]
    workers = [
        worker_outcome({"read": kind({1000: count}, BLOCK)}, number=number, job=job, report_group=group)
        for number, (job, group, count) in enumerate(members)
    ]
    groups = point(plan([worker_plan(job=job) for job, *_ in members]), *workers).report_groups()
    assert [(group.name, group.workers, group.iops) for group in groups] == [("a", 2, 300.0), ("b", 1, 400.0)]


def test_the_course_over_time_adds_workers_up() -> None:
    first, second = (
        worker_outcome(
            {"read": kind({1000: 30}, BLOCK)}, intervals=[interval(0, 0, SECOND_NS // 2, {"read": count}, BLOCK)]
        )
        for count in (10, 20)
    )
    (part,) = two(first, second.replace(worker=1)).series()
    assert (part.kind, part.iops, part.bytes_per_s, part.max_ns) == ("read", 60.0, 60.0 * BLOCK, 2_800_000)


def test_a_summary_of_some_workers_has_their_share() -> None:
    planned, workers = plan([worker_plan(), worker_plan()]), _pair()
    assert summarise("one", planned, workers[:1]).workers == 1


# ---- the engine's own documents


def test_the_outcome_of_the_engine_is_read() -> None:
    worker = worker_plan([("read", 70), ("write", 30)], depth=8)
    limited = worker.replace(end=worker.end.replace(runtime_ns=None, operations=20_000))
    run = _native.Run(plan([limited]).to_json())
    measured = Outcome.from_json(present(run.wait(60)))
    Live.from_json(run.live())
    summary = summarise("null", plan([limited]), measured.workers)
    assert (measured.state, summary.operations, set(summary.kinds)) == ("finished", 20_000, {"read", "write"})
    assert sum(part.service.count for part in summary.kinds.values()) == 20_000


# ---- the document


def test_a_result_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    written = synthetic.envelope()
    written.write(path)
    assert (Result.read(path), json.loads(path.read_text())["schema_version"]) == (written, 5)
    assert [entry.name for entry in tmp_path.iterdir()] == ["result.json"]


def test_a_result_grows_by_its_points_and_ends() -> None:
    started = Result.start("envelope", "name", synthetic.HOST, synthetic.VOLUME, 1e6)
    assert (started.state, started.points) == ("interrupted", ())
    grown = started.with_point(synthetic.envelope().points[0]).with_note("code", "text").with_note("code", "text")
    assert (len(grown.points), len(grown.notes)) == (1, 1)
    assert grown.ended("finished").incomplete_reason is None


def test_a_document_of_version_2_is_read(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    burst = {"iops": 1000, "client.bandwidth_write_bytes_per_s": 5, "connection.requests_in_flight": 128}
    target = synthetic.VOLUME.replace(caps=caps(burst, Burst(value=3000, credits=9)), servers=2, service_ns=7)
    envelope = synthetic.envelope().replace(target=target)
    envelope.write(path)
    text = path.read_text().replace('"jobnum":', '"clone":').replace('"schema_version": 5', '"schema_version": 2')
    assert '"clone": 0' in text
    document = json.loads(text)
    facts = document["target"]
    for name in ("caps", "latency_mean_ns", "servers", "service_ns"):
        facts.pop(name)
    facts |= {"throughput_bytes_per_s": None, "iops": 1000, "client_egress_bytes_per_s": 5}
    facts["further"] = {"burst_iops": 3000, "burst_credits": 9, "connection_requests_in_flight": 128, "iops_read": None}
    facts["further"] |= {"servers": 2, "service_ns": 7, "latency_mean_ns": None}
    path.write_text(json.dumps(document))
    assert Result.read(path) == envelope


def test_names_of_version_4_are_read(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    limit = Limit(code="unknown", short_name="inconclusive", text="nothing shows it", confidence="none")
    whole = synthetic.envelope()
    first, second = synthetic.in_turns(whole.points[:2])
    runs = tuple(run.replace(retries=1, noise="others") for run in first.runs)
    noisy = first.replace(runs=runs, discarded=runs[:1], retries=2, noise="others", limit=limit)
    noisy = noisy.replace(
        cache=CacheFacts(policy="uncached", fresh_runs=(1.0,), repeated_runs=(2.0,)), runs_chosen=True
    )
    tests = (Probe(point="a", limit=limit, iops=1.0, elapsed_ns=1),)
    series = FamilyFacts(name="mix", title="", cache="uncached")
    scenario = ScenarioFacts(name="s", title="", why="", form="full", targets={}, families=(series,), tag="t")
    whole = whole.replace(points=(noisy, second), perturbation_tests=tests, scenario=scenario)
    whole.write(path)
    text = (
        path.read_text()
        .replace('"schema_version": 5', '"schema_version": 4')
        .replace('"inconclusive"', '"cannot tell"')
    )
    for earlier, name in EARLIER_FIELDS.items():
        # Two earlier names became one: lists of series were ``families``.
        written = f'"{name}": ' + ("[" if earlier == "families" else "")
        assert written in text, name
        text = text.replace(written, written.replace(name, earlier, 1))
    path.write_text(text)
    assert Result.read(path) == whole


def test_a_full_disk_leaves_the_old_document(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "result.json"
    old = result([])
    old.write(path)

    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    monkeypatch.setattr(os, "fsync", Mock(side_effect=full))
    with pytest.raises(ResultError, match=r"result\.json cannot be written: No space left on device"):
        synthetic.envelope().write(path)
    assert (Result.read(path), [entry.name for entry in tmp_path.iterdir()]) == (old, ["result.json"])


@cases("result/invalid")
def test_invalid_results_are_refused_with_a_reason(tmp_path: Path, content: str, says: str) -> None:
    path = tmp_path / "result.json"
    path.write_text(content, encoding="latin-1")
    with pytest.raises(ResultError, match=says) as raised:
        Result.read(path)
    assert str(path) in str(raised.value)


def test_a_missing_result_is_named(tmp_path: Path) -> None:
    with pytest.raises(ResultError, match=r"nowhere\.json cannot be read: No such file or directory"):
        Result.read(tmp_path / "nowhere.json")


def test_records_are_flat_with_the_same_keys() -> None:
    records = synthetic.envelope().to_records()
    assert (len(records), len({tuple(record) for record in records})) == (26, 1)
    first, last = records[0], records[4]
    matches(
        "result/records_are_flat_with_the_same_keys",
        (first["read_percent"], first["iops"], first["read_iops"], first["write_iops"]),
    )
    assert (last["read_iops"], last["write_iops"]) == (None, last["iops"])
    assert first["p99_9_us"] == first["read_p99_9_us"] is not None

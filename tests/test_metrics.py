"""OpenMetrics of running measurements and of results, and the dashboard that draws them."""

import json
import re
import socket
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from data import synthetic
from goldens import Golden, cases, present, rows
from iocurve.cli.common import parse_metrics_address
from iocurve.engine.outcome import Live, LiveTotals
from iocurve.foundation.errors import TargetError
from iocurve.foundation.units import SECOND_NS
from iocurve.report.metrics import ResultMetrics, RunMetrics
from iocurve.report.progress import NoView, StartedPoint
from iocurve.report.views import observed_by, progress_view
from iocurve.result.document import Finding, Interval, Limit, Result, SearchFacts
from iocurve.result.openmetrics import metrics_server, text
from programs import status_of

DASHBOARD = Path(__file__).parent.parent / "docs" / "grafana-dashboard.json"
Labels = dict[str, str]


def families(metrics: Collector) -> dict[str, Metric]:
    """The metrics as the library reads them back; it refuses names, units and suffixes against the standard."""
    written = text(metrics).decode()
    assert written.endswith("# EOF\n")
    return {family.name: family for family in text_string_to_metric_families(written)}  # type: ignore[no-untyped-call]


def value(found: dict[str, Metric], name: str, labels: Labels | None = None, sample: str | None = None) -> float:
    samples = [one for one in found[name].samples if one.name == (sample or name)]
    (only,) = [one for one in samples if (labels or {}).items() <= one.labels.items()]
    return float(only.value)


@pytest.fixture(scope="module")
def searched() -> Result:
    point = synthetic.fio_run().points[0]
    findings = [
        Finding(name=name, unit=unit, figure=Interval(value=value, low=low, high=high))
        for name, unit, value, low, high in rows("result/findings")
    ]
    limit = Limit(code="depth", short_name="depth", text="the queue depth", confidence="likely")
    facts = SearchFacts(question="?", workload="rw=randread", findings=tuple(findings), stopped="found")
    return synthetic.result([point.replace(limit=limit)]).replace(search=facts)


def test_a_stall_is_a_metric(searched: Result) -> None:
    (point,) = searched.points
    (worker, *others) = point.outcome.workers
    assert value(families(ResultMetrics(searched)), "iocurve_point_stall_seconds") == 0
    latencies = {1_000_000: 1_000, 3 * SECOND_NS: 1}
    slow = worker.replace(operations={**worker.operations, "read": synthetic.kind(latencies, 4096)})
    stalled = point.replace(outcome=synthetic.outcome(slow, *others))
    found = families(ResultMetrics(searched.replace(points=(stalled,))))
    assert value(found, "iocurve_point_stall_seconds", {"point": point.name}) == 3


def test_a_histogram_has_all_operations(searched: Result) -> None:
    found, reads = families(ResultMetrics(searched)), searched.points[0].summary().kinds["read"]
    name, labels = "iocurve_point_latency_seconds", {"operation": "read"}
    assert value(found, name, labels, f"{name}_count") == reads.operations
    total_s = reads.service.mean_ns * reads.service.count / SECOND_NS
    assert value(found, name, labels, f"{name}_sum") == pytest.approx(total_s)
    buckets = [one for one in found[name].samples if one.labels.get("operation") == "read" and "le" in one.labels]
    counts = [one.value for one in buckets]
    assert counts == sorted(counts)
    assert {one.labels["le"] for one in buckets} >= {"1e-06", "0.001", "50.0", "+Inf"}
    below = next(one.value for one in buckets if one.labels["le"] == "0.001")
    assert below == present(reads.service.histogram).count_between(0, 1_000_000)


def test_points_of_the_same_name_are_numbered(searched: Result) -> None:
    found = families(ResultMetrics(searched.replace(points=searched.points * 2)))
    points = [one.labels["point"] for one in found["iocurve_point_window_seconds"].samples]
    assert points == [name := searched.points[0].name, f"{name} (2)"]


def live() -> Live:
    """The second interval of a run: 100 reads, 150 with the first."""
    (part,) = synthetic.intervals([{"read": 100}])
    read = part.operations["read"].replace(errors=1, mean_ns=2e6, p50_ns=2_000_000, p99_ns=5_000_000)
    totals = {"read": LiveTotals(operations=150, bytes=614_400, errors=1)}
    return synthetic.live(elapsed_ns=SECOND_NS, intervals=2, operations={"read": read}, totals=totals)


def running() -> RunMetrics:
    metrics = RunMetrics()
    with observed_by(metrics), progress_view(quiet=True) as view:
        view.point_started(StartedPoint(0, 3, "reads", 10.0, interval_ns=SECOND_NS // 2))
        view.update(live())
    return metrics


@cases("result/metrics")
def test_metrics_are_in_base_units(
    searched: Result, of: str, name: str, labels: Labels, sample: str | None, golden: Golden
) -> None:
    golden.check(value(families(ResultMetrics(searched) if of == "result" else running()), name, labels, sample))


def test_a_bound_that_is_not_known_is_no_sample(searched: Result) -> None:
    found = families(ResultMetrics(searched))
    assert [one.labels["bound"] for one in found["iocurve_finding_operations_per_second"].samples] == ["value", "low"]


def test_counters_of_a_point_rise_over_all_its_runs() -> None:
    metrics, labels = running(), {"point": "reads", "operation": "read"}

    def counted(name: str) -> float:
        return value(families(metrics), f"iocurve_running_{name}", labels, f"iocurve_running_{name}_total")

    assert (counted("operations"), counted("data_bytes"), counted("errors")) == (150, 614_400, 1)
    metrics.turn_finished()
    metrics.point_started(StartedPoint(0, 3, "reads", 10.0, turn=(2, 3)))
    assert counted("operations") == 150
    metrics.update(live())
    assert (counted("operations"), counted("errors")) == (300, 2)
    metrics.point_finished(synthetic.fio_run().points[0].summary())
    assert counted("operations") == 300


def test_a_point_that_has_ended_moves_to_those_that_have() -> None:
    metrics, summary = running(), synthetic.fio_run().points[0].summary()
    metrics.point_finished(summary)
    found = families(metrics)
    assert found["iocurve_running"].samples == []
    assert "iocurve_running_operations_per_second" not in found
    assert value(found, "iocurve_running_finished_points") == 1
    assert value(found, "iocurve_point_operations_per_second", {"operation": "read"}) > 0
    metrics.point_finished(summary)
    assert value(families(metrics), "iocurve_running_finished_points") == 1


def test_a_load_that_prepares_a_point_has_no_rates() -> None:
    metrics = running()
    metrics.preparing("filling caches")
    found = families(metrics)
    assert value(found, "iocurve_running", {"phase": "filling caches"}) == 1
    assert "iocurve_running_operations_per_second" not in found


def test_without_an_observer_the_view_is_plain() -> None:
    with progress_view(quiet=True) as view:
        assert isinstance(view, NoView)


@pytest.mark.slow
def test_metrics_are_served_over_http(searched: Result) -> None:
    with metrics_server(ResultMetrics(searched), "127.0.0.1", 0) as url:
        with urllib.request.urlopen(url, timeout=10) as reply:
            assert reply.headers["Content-Type"].startswith("application/openmetrics-text; version=1.0.0")
            assert reply.read().endswith(b"# EOF\n")
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(url + "x", timeout=10)


def test_a_port_that_is_taken_is_an_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(TargetError, match="cannot listen"):
        metrics_server(RunMetrics(), "127.0.0.1", taken.getsockname()[1]).__enter__()


@pytest.mark.parametrize(
    ("said", "place"), [("9100", ("127.0.0.1", 9100)), ("0.0.0.0:0", ("0.0.0.0", 0)), ("[::1]:9100", ("::1", 9100))]
)
def test_metrics_are_bound_to_loopback_unless_a_host_is_given(said: str, place: tuple[str, int]) -> None:
    assert parse_metrics_address(said) == place


@pytest.mark.parametrize("said", ["", "x", ":9100", "::1:9100", "host:65536", "host:"])
def test_a_place_that_is_not_one_is_refused(said: str) -> None:
    with pytest.raises(ValueError, match=r"is not a port or HOST:PORT"):
        parse_metrics_address(said)


def test_the_command_prints_a_result(searched: Result, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    searched.write(tmp_path / "result.json")
    assert status_of("result", "metrics", str(tmp_path)) == 0
    assert capfd.readouterr().out == text(ResultMetrics(searched)).decode()


@pytest.mark.slow
def test_other_tools_commands_serve_metrics(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    fio = ["fio", "--name=r", "--rw=write", "--size=64k", f"--filename={tmp_path}/f", "--metrics=0"]
    assert status_of(*fio) == 0
    assert re.search(r"^metrics: http://127\.0\.0\.1:\d+/metrics$", capfd.readouterr().err, re.MULTILINE)


def test_the_dashboard_draws_metrics_that_exist(searched: Result) -> None:
    finished, live = families(ResultMetrics(searched)), families(running())
    all_families = [*finished.values(), *live.values()]
    exposed = {sample.name for family in all_families for sample in family.samples}
    # A family of gauges without samples: the point has no interval of its rate.
    exposed |= {family.name for family in all_families if family.type == "gauge"}
    panels = json.loads(DASHBOARD.read_text())["panels"]
    queries = [target["expr"] for panel in panels for target in panel.get("targets", [])]
    used = {name for query in queries for name in re.findall(r"\biocurve_\w+", query)}
    assert used <= exposed
    page = DASHBOARD.with_name("howto-pipeline.md").read_text()
    described = set(re.findall(r"`(iocurve_[a-z_]+)`", page))
    assert len(described) > 12
    assert described - {"iocurve_point_response_latency_seconds"} <= exposed | {family.name for family in all_families}
    assert len(queries) > 15
    assert len({panel["id"] for panel in panels}) == len(panels)

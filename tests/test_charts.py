"""Charts: units of axes, lines at limits, the knee, bars side by side; and the units of tables."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import altair
import pytest
import vl_convert
from msgspec.structs import replace

from data import synthetic
from data.browser import visit
from goldens import cases, matches, present
from iocurve.analysis import read
from iocurve.analysis.findings import KneeFinding
from iocurve.foundation.units import KIB, MIB
from iocurve.report import chart_bars, chart_curves, chart_style
from iocurve.report import page as report
from iocurve.report.cells import ReportFigure
from iocurve.report.chart_curves import latency_axis
from iocurve.report.conditions import Folded, conditions
from iocurve.report.figures import explored, figures
from iocurve.report.table import Nanoseconds, Table, bold, code
from iocurve.result.document import FamilyComparison, Point, Result, TargetFacts
from test_headlines import disks, knee

pytestmark = pytest.mark.slow

SCIENTIFIC = re.compile(r"\d(?:\.\d+)?e[+-]?\d")
VOLUME = synthetic.capped(
    TargetFacts(kind="nfs", address="nfs://server/vol"), iops=100_000, throughput_bytes_per_s=512 * MIB
)


def load(family: str, iops: float, **axes: int | float | str) -> Point:
    percent = axes.get("read_percent", 100 if axes.get("kind", "read") == "read" else 0)
    whole = {"read_percent": percent, "block_bytes": 4 * KIB, "depth": 64, "nconnect": 1, "order": "random"} | axes
    made = synthetic.nfs_point(f"{family} {axes}", family, whole, iops)
    return made.replace(axes={"order": "random", "block_bytes": 4 * KIB} | axes, target="volume")


def scenario(points: list[Point], *comparisons: FamilyComparison, **targets: TargetFacts) -> Result:
    made = synthetic.scenario(points, None, **targets or {"volume": VOLUME})
    return made.replace(target=VOLUME, scenario=present(made.scenario).replace(comparisons=comparisons))


def rows(chart: dict[str, Any], field: str) -> list[Any]:
    """The values of a field in all data of a chart."""
    return [row[field] for values in chart["datasets"].values() for row in values if field in row]


def texts(chart: dict[str, Any]) -> list[str]:
    """The texts of a drawn chart: its labels, legends and titles."""
    svg = vl_convert.vegalite_to_svg(json.dumps(chart | {"width": 900}), vl_version=report._vega_lite_version())
    return re.findall(r">([^<>]+)</t(?:ext|span)>", svg)


# ---- units


@cases("report/axis")
def test_an_axis_of_latencies_has_one_unit_that_fits(
    latencies_ns: list[int], unit: str, ends: tuple[float, float]
) -> None:
    axis = latency_axis(latencies_ns)
    assert (axis.unit, axis.marks[0], axis.marks[-1]) == (unit, *ends)
    assert f"'title': 'Latency ({unit}, log scale)'" in str(axis.y().to_dict())


@cases("report/a_table_shows_latencies_in_one")
def test_a_table_shows_latencies_in_one_unit(cells: list[float], column: str, shown: tuple[str, ...]) -> None:
    table = Table.of(("load", "p99"), [("a", Nanoseconds(cell)) for cell in cells])
    assert (table.columns, tuple(row[1] for row in table.rows)) == (("load", column), tuple(shown))


def test_a_unit_goes_where_the_name_of_the_column_wants_it() -> None:
    table = Table.of(("mean {unit}, nconnect 8", "other"), [(Nanoseconds(500.0), "–"), ("", "x")])
    assert table.columns == ("mean µs, nconnect 8", "other")
    assert table.rows == (("0.5", "–"), ("", "x"))


@pytest.mark.parametrize("scale", [1e-4, 1.0, 1e5])
def test_no_chart_and_no_table_has_scientific_notation(scale: float) -> None:
    dots = [
        chart_curves.LatencyDot("", load, f"{load}", load * scale, f"p{percent}", load * 1_000 * percent)
        for load in (1, 1_000, 100_000)
        for percent in (50, 99)
    ]
    chart = chart_curves.latency_curve(dots, [])
    assert not [text for text in texts(chart) if SCIENTIFIC.search(text)]
    bars = [chart_bars.Bar("a", "read", 12_345_678 * scale, p99_ns=40_000_000_000)]
    assert not [text for text in texts(chart_bars.grouped(bars, "IOPS", [])) if SCIENTIFIC.search(text)]


def test_a_page_has_no_scientific_notation() -> None:
    page = report.html(read(knee())).partition("<script")[0]
    assert "0.0000966" in figures(read(knee()))[0].table.rows[-1][1]
    assert not SCIENTIFIC.search(re.sub(r"<style>.*?</style>", "", page, flags=re.S))


# ---- limits


def test_the_limit_is_a_line_in_every_chart_with_its_quantity() -> None:
    mixes = [load(name, 90_000, read_percent=percent) for name in ("mix", "other") for percent in (100, 0)]
    grid = [load("grid", 90_000, kind=kind, nconnect=count) for kind in ("read", "write") for count in (1, 8)]
    depths = [load("depth", 60_000, depth=depth, nconnect=count) for depth in (1, 64) for count in (1, 8)]
    rates = [load("rate", rate, rate=rate) for rate in (50_000, 90_000)]
    compared = FamilyComparison(title="Beside each other", families=("mix", "other"))
    made = figures(read(scenario([*mixes, *grid, *depths, *rates], compared)))
    assert len(made) == 7
    for figure in made:
        assert rows(figure.charts[0], "limit") == ["limit 100,000 IOPS"], figure.title
        assert 100_000 in rows(figure.charts[0], "value"), figure.title


def test_the_limit_is_a_line_over_time_as_well() -> None:
    run = synthetic.fio_run().replace(target=VOLUME)
    rate, latency, *_ = figures(read(run))[0].charts
    assert rows(rate, "limit") == ["limit 100,000 IOPS"]
    assert rows(latency, "limit") == []


def test_latencies_are_drawn_as_far_as_there_are_operations_above_the_percentile() -> None:
    latency = figures(read(synthetic.fio_run()))[0].charts[-1]
    shown = dict(zip(rows(latency, "percentile"), rows(latency, "one_in"), strict=True))
    assert (shown["p90"], shown["p99"]) == (10, 100)
    few = synthetic.envelope().points[0].summary().latency
    (chart,) = chart_curves.percentile_curves({"read": replace(few, count=1000)})
    assert rows(chart, "percentile") == ["p10", "p25", "p50", "p75", "p90", "p95", "p99", "p99.5", "p99.9"]
    assert chart_curves.percentile_curves({"read": replace(few, count=1)}) == []


@cases("report/lower_limit")
def test_the_lower_of_both_limits_holds(
    target: dict[str, Any], unit: str, block_bytes: int, caps: list[list[Any]]
) -> None:
    facts = {"volume": TargetFacts.from_builtins(target)}
    assert [[cap.value, cap.label] for cap in chart_style.caps(facts, unit, block_bytes)] == caps


def test_different_limits_of_several_targets_are_named() -> None:
    slow = synthetic.capped(VOLUME, iops=5_000, throughput_bytes_per_s=512 * MIB)
    targets = {"fast": VOLUME, "slow": slow, "same": slow}
    matches("report#different limits", [cap.label for cap in chart_style.caps(targets, "IOPS", 0)])
    alike = {"near": VOLUME, "far": VOLUME}
    assert [cap.label for cap in chart_style.caps(alike, "IOPS", 0)] == ["limit 100,000 IOPS"]


# ---- the knee


def test_the_knee_and_the_capacity_are_marked_on_both_charts_of_a_knee() -> None:
    by_depth, latency = (figure.charts[0] for figure in figures(read(knee()))[:2])
    matches("report#knee capacity", [figure.title for figure in figures(read(knee()))])
    assert rows(by_depth, "text") == ["knee, 6.09 in flight"]
    assert rows(latency, "text") == ["knee, mean 108 µs"]
    for chart in (by_depth, latency):
        assert "capacity 131k IOPS" in rows(chart, "bound")
        assert rows(chart, "limit") == ["limit 512 MiB/s = 131,072 IOPS"]


def test_points_of_a_knee_are_joined_by_load() -> None:
    rates = {depth: 1_000.0 * depth for depth in (4, 1, 2)}
    chart = chart_curves.knee_curve(rates, [], KneeFinding(3.0, 3_000, 1_000_000, 4_000, 900_000))
    (line,) = [layer for layer in chart["layer"] if layer["encoding"].get("order")]
    assert line["mark"]["type"] == "line"
    assert line["encoding"]["order"] == {"field": "depth", "type": "quantitative"}


def test_other_searches_have_a_table_of_what_they_found() -> None:
    whole = knee()
    search = present(whole.search)
    first = figures(read(whole.replace(search=search.replace(findings=search.findings[3:4]))))[0]
    assert (first.title, first.charts) == ("What the search found", ())
    assert first.table.rows == (("capacity", "130,998 IOPS", "95 %: 129,933 to 132,064"),)


def test_repeated_trials_at_a_rate_are_dots_with_one_label_and_no_line() -> None:
    points = [load("max", rate, rate=rate) for rate in (10_000, 10_000, 20_000)]
    (figure,) = figures(read(synthetic.result(points, kind="max")))
    assert rows(figure.charts[0], "label") == ["50%", "50%", "", "", "100%", "100%"]
    lines = [layer for layer in figure.charts[0]["layer"] if layer["mark"]["type"] == "line"]
    assert [line["mark"]["opacity"] for line in lines] == [0]


# ---- loads side by side


@pytest.mark.parametrize("axes", [[{"kind": "read"}, {"kind": "write"}], [{"read_percent": 100}, {"read_percent": 0}]])
def test_rates_are_drawn_over_the_number_of_clients(axes: list[dict[str, int | str]]) -> None:
    points = [load("scale-out", count * 10_000, clients=count, **mix) for mix in axes for count in (1, 6, 12)]
    (figure,) = figures(read(scenario(points)))
    throughput, iops = (
        [row for values in chart["datasets"].values() for row in values if "clients" in row] for chart in figure.charts
    )
    assert [(row["series"], row["clients"], row["rate"]) for row in iops] == [
        (kind, count, count * 10_000) for kind in ("read", "write") for count in (1, 6, 12)
    ]
    assert [row["rate"] for row in throughput] == [39.0625, 234.375, 468.75] * 2


def singles(**targets: TargetFacts) -> Result:
    """Loads as in ``anf-vdbench``: of 8 KiB and of 64 KiB, the mix with both kinds."""
    points = [
        load("reads", 60_000, block_bytes=8 * KIB),
        load("mix", 60_000, block_bytes=8 * KIB, read_percent=50),
        load("large", 8_000, block_bytes=64 * KIB, order="sequential"),
    ]
    return scenario(points, **targets)


def told(made: Sequence[ReportFigure]) -> list[tuple[str, int, bool]]:
    return [(figure.title, len(figure.charts), figure.is_folded) for figure in made]


def test_loads_without_axes_are_bars_by_unit_and_their_course_is_folded() -> None:
    made = figures(read(singles()))
    matches("charts/loads_without_axes_are_bars_by_unit", told(made))
    iops, throughput = made[0].charts
    bars = [row["place"] for values in iops["datasets"].values() for row in values if "series" in row]
    assert bars == ["Title of reads", "Title of mix", "Title of mix"]
    assert rows(iops, "limit") == ["limit 512 MiB/s = 65,536 IOPS"]
    assert rows(throughput, "limit") == ["limit 512 MiB/s"]


def test_reads_and_writes_of_different_targets_are_not_stacked() -> None:
    bars = figures(read(disks()))[0].charts
    assert [sorted(set(rows(chart, "series"))) for chart in bars] == [["read", "write"], ["read", "write"]]
    assert rows(bars[0], "label")[:3] == ["12.8k", "77k", "77.1k"]


def jobs(count: int) -> Result:
    """Points of jobs, as of a file of vdbench, every second one with the name of the first."""
    points = [
        load("vdbench", 1_000.0 * (number + 1)).replace(name=f"rd{number % 2}", axes={}, target=None)
        for number in range(count)
    ]
    return synthetic.result(points, kind="vdbench")


def test_points_of_jobs_are_bars_with_names_of_their_own() -> None:
    made = figures(read(jobs(3)))
    matches("charts/points_of_jobs_are_bars_with_names", told(made))
    matches("report#points jobs bars", [row[:3] for row in made[0].table.rows])


def test_many_points_of_jobs_have_a_table_with_their_names() -> None:
    beside, by_job = figures(read(jobs(7)))
    assert (len(beside.charts), by_job.title, by_job.charts) == (1, "By job", ())
    assert by_job.table.columns[:3] == ("point", "job", "kind")
    assert [row[0] for row in by_job.table.rows] == ["rd0", "rd1"] * 3 + ["rd0"]
    assert [len(figure.charts) for figure in figures(read(jobs(25)))] == [0, 0]


def test_more_points_without_axes_than_a_page_has_room_for_share_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    result = jobs(5)
    points = [point.replace(family=f"job {number}") for number, point in enumerate(result.points)]
    result = result.replace(points=(*points, *singles().points))
    assert len([figure for figure in figures(read(result)) if figure.is_folded]) == len(result.points)
    monkeypatch.setattr("iocurve.report.figures.OVER_TIME_MAX", len(result.points) - 1)
    *_, table = figures(read(result))
    assert (table.charts, len({row[0] for row in table.table.rows})) == ((), len({one.name for one in result.points}))


@pytest.mark.parametrize(
    "result", [synthetic.envelope(), synthetic.fio_run(), knee(), disks()], ids=lambda one: one.kind
)
def test_charts_are_in_the_language_of_vega_lite(result: Result) -> None:
    reading = read(result)
    for figure in (*figures(reading), *explored(reading)):
        for chart in figure.charts:
            # Vega takes this setting, which the schema lacks.
            legend = {name: value for name, value in chart["config"]["legend"].items() if name != "layout"}
            altair.Chart.from_dict(chart | {"config": chart["config"] | {"legend": legend}})


def test_folded_charts_are_drawn_when_they_are_opened(tmp_path: Path) -> None:
    result = singles()
    report.write(read(result), tmp_path)
    drawn = r'<svg[^>]*class="marks"'
    closed = visit(tmp_path / "report.html", tmp_path)
    assert (closed.console, closed.requests) == ([], [])
    assert len(re.findall(drawn, closed.dom)) == 2
    page = (tmp_path / "report.html").read_text().replace('<details class="folded"', '<details open class="folded"')
    (tmp_path / "open.html").write_text(page)
    opened = visit(tmp_path / "open.html", tmp_path)
    assert len(re.findall(drawn, opened.dom)) == 15


# ---- long lists


def test_long_lists_of_conditions_are_folded() -> None:
    workers = [synthetic.worker_plan().replace(seed=seed) for seed in range(5)]
    outcomes = [synthetic.worker_outcome({}, number=number) for number in range(5)]
    result = synthetic.result([synthetic.point(synthetic.plan(workers), *outcomes)])
    assert conditions(result)["Load"]["Seeds"] == Folded("5 seeds", "0, 1, 2, 3, 4")
    assert "<summary>5 seeds</summary>0, 1, 2, 3, 4</details>" in report.html(read(result))


def test_further_doubts_are_folded() -> None:
    result = synthetic.result([])
    for number in range(7):
        result = result.with_note(f"note{number}", f"remark {number}")
    page = report.html(read(result))
    assert "<summary>2 more</summary>" in page
    assert page.index("remark 4") < page.index("<summary>2 more</summary>") < page.index("remark 5")


def test_markdown_shows_text_as_it_is() -> None:
    rows = [("a_b _c_ [1, 2] [x](y)", bold("no <i>")), (), (code("a|b"), "1 *")]
    matches("charts/markdown_shows_text_as", Table(("name", "value"), rows).markdown())

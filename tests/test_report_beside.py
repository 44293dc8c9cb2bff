"""Comparisons in a report: published figures, families, connections, rates; and statements about the setting."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from bench.truth.families import fractional
from data import synthetic
from goldens import matches, present
from iocurve.analysis import cache_evidence, doubts, gains, published, read
from iocurve.analysis.headlines import Headline
from iocurve.foundation.units import KIB, SECOND_NS
from iocurve.report import page as report
from iocurve.report.chart_style import labelled
from iocurve.report.comparisons import advice_cells
from iocurve.report.conditions import conditions, emulation_label, setting, targets
from iocurve.report.figures import figures
from iocurve.result.document import (
    Axis,
    CacheFacts,
    FamilyComparison,
    FamilyFacts,
    Finding,
    Interval,
    Point,
    Result,
    ScenarioFacts,
    SearchFacts,
    TargetFacts,
)
from iocurve.result.reference import Conditions, PublishedFigure, Reference
from iocurve.result.stats import judged_mean, series_mean
from iocurve.result.summary import SeriesInterval

VOLUME = "volume:anf-ultra?quota=4TiB"


def load(family: str, iops: float, **axes: Axis) -> Point:
    """A point with these axis values and this total IOPS."""
    percent = axes.get("read_percent", 100 if axes.get("kind", "read") == "read" else 0)
    whole: dict[str, Axis] = {"read_percent": percent, "block_bytes": 4 * KIB, "depth": 64, "nconnect": 1}
    made = synthetic.nfs_point(f"{family} {axes}", family, whole | {"order": "random"} | axes, iops)
    return made.replace(axes={"order": "random", "block_bytes": 4 * KIB} | axes)


def scenario(points: list[Point], titles: dict[str, str], *comparisons: FamilyComparison, **more: Any) -> Result:
    facts = ScenarioFacts(
        name="tiny",
        title="Tiny",
        why="To see it.",
        form="short",
        shortened=("data set 64 MiB instead of 1 TiB",),
        targets={"volume": TargetFacts(kind="embedded_volume", address=VOLUME)},
        families=tuple(FamilyFacts(name=name, title=title, cache="uncached") for name, title in titles.items()),
        comparisons=comparisons,
        tag="tag",
    )
    return synthetic.result(points, kind="scenario").replace(**({"scenario": facts} | more))


def reference(*found: PublishedFigure) -> Reference:
    return Reference(
        name="page",
        title="A page",
        source="https://example.org/page",
        conditions=Conditions(service_level="ultra", quota="100 TiB", clients=6, remarks=("it has a slip",)),
        figures=found,
    )


def drawn(chart: dict[str, Any], mark: str) -> list[dict[str, Any]]:
    """The rows that a layer with this mark draws."""
    for layer in chart["layer"]:
        if layer["mark"].get("type") == mark or layer["mark"].get("shape") == mark:
            rows = layer.get("data") or chart["data"]
            return list(chart["datasets"][rows["name"]] if "name" in rows else rows["values"])
    return []


# ---- published figures


MIX = [load("mix", iops, read_percent=percent) for percent, iops in ((100, 100_000), (50, 60_000), (0, 40_000))]
READS = PublishedFigure(family="mix", axes={"read_percent": 100}, kind="read", unit="IOPS", value=120_000, how="about")
GRID = [load("grid", iops, kind="write", nconnect=count) for count, iops in ((1, 10_000), (4, 27_000))]
GAIN = PublishedFigure(family="grid", axes={"kind": "write", "nconnect": 4}, unit="×", value=3)
WRITES = PublishedFigure(family="mix", axes={"read_percent": 0}, kind="write", unit="IOPS", value=40_400)


def mixed(*found: PublishedFigure, **more: Any) -> Result:
    """A scenario of the mix next to published figures."""
    return scenario(MIX, {"mix": "Mix"}, references=(reference(*found),) if found else (), **more)


def grid(*found: PublishedFigure) -> Result:
    return scenario(GRID, {"grid": "Grid"}, references=(reference(*found),))


PUBLISHED = mixed(READS, WRITES)


def test_published_figures_are_compared_with_the_points_they_belong_to() -> None:
    pairs = published.comparisons_of(PUBLISHED)
    matches(
        "report#published figures",
        [(one.point.axes["read_percent"], round(one.ratio, 3), one.is_same) for one in pairs],
    )


def test_only_stated_figures_are_marked_and_none_in_between() -> None:
    marks = drawn(figures(read(PUBLISHED))[0].charts[0], "diamond")
    assert [(mark["place"], mark["value"]) for mark in marks] == [("100:0", 120_000), ("0:100", 40_400)]


def test_a_published_figure_far_above_is_told_and_not_drawn() -> None:
    figure = figures(read(mixed(READS.replace(value=460_000))))[0]
    assert drawn(figure.charts[0], "diamond") == []
    assert figure.caption.endswith("Published figures lie far above and are in the table at the end only.")


def test_the_table_has_measured_published_ratio_and_what_was_different() -> None:
    table = figures(read(PUBLISHED))[-1]
    assert table.title == "Beside published figures: A page"
    matches("report#table measured", [row[2:6] for row in table.table.rows])
    assert "quota: 100 TiB there, 4 TiB here" in table.caption
    assert "clients: 6 there, 1 here" in table.caption
    assert "service level" not in table.caption
    assert table.caption.endswith("It has a slip.")


def test_a_gain_is_compared_with_the_same_load_over_one_connection() -> None:
    (pair,) = published.comparisons_of(grid(GAIN))
    assert pair.measured == pytest.approx(2.7)


def test_a_volume_at_a_fraction_of_its_speed_is_compared_with_this_fraction_of_published_rates() -> None:
    result = grid(GAIN.replace(unit="IOPS", value=270_000), GAIN)
    assert [one.figure.unit for one in published.comparisons_of(result)] == ["IOPS", "×"]
    slowed = result.replace(target=result.target.replace(speed=0.1), scenario=None)
    pairs = published.comparisons_of(slowed)
    assert [(round(one.ratio, 6), one.expected_text) for one in pairs] == [(1.0, "27,000 IOPS"), (0.9, "")]
    table = figures(read(slowed))[-1]
    assert table.table.columns[4] == "at 0.1 of the speed"
    assert table.table.rows[0][2:6] == ("27,000 IOPS", "270,000 IOPS", "27,000 IOPS", "1.000, the same")
    assert "The target ran at 0.1 of its speed; ratios are to this fraction of published rates." in table.caption


def test_a_published_range_is_met_anywhere_within_it() -> None:
    gain = GAIN.replace(value=2, value_max=4)
    (pair,) = published.comparisons_of(grid(gain))
    assert (pair.ratio, published.described(pair.figure)) == (1.0, "2 to 4 ×")
    (above,) = published.comparisons_of(grid(gain.replace(value_max=2.5)))
    assert above.ratio == pytest.approx(2.7 / 2.5)


def test_a_family_whose_published_results_are_in_a_chart_only_has_rows_without_a_ratio() -> None:
    page = reference(READS).replace(charts_only={"other": "the chart is an image"})
    points = [*MIX, load("other", 5_000)]
    table = figures(read(scenario(points, {"mix": "Mix", "other": "Other"}, references=(page,))))[-1].table
    assert table.rows[-1][2:] == ("5,000 IOPS", "in a chart only", "", "the chart is an image")


def test_a_result_keeps_its_references() -> None:
    assert Result.from_json(PUBLISHED.to_json()) == PUBLISHED


# ---- families side by side


def test_families_are_compared_where_both_were_measured() -> None:
    cached = [load("cached", 130_000, read_percent=100), load("cached", 90_000, read_percent=90)]
    compared = FamilyComparison(title="With caching and without", families=("mix", "cached"))
    result = scenario([*MIX, *cached], {"mix": "Without", "cached": "With"}, compared)
    figure = next(one for one in figures(read(result)) if one.title == "With caching and without")
    assert figure.table.rows == (("100:0", "100,000", "130,000", "1.30 ×, inconclusive: measured once"),)


@pytest.mark.slow
def test_single_loads_of_a_scenario_stand_beside_each_other() -> None:
    points = [load("reads", 77_000), load("writes", 12_800, kind="write")]
    mark = PublishedFigure(family="writes", kind="write", unit="IOPS", value=13_052.65)
    result = scenario(points, {"reads": "Most reads", "writes": "Most writes"}, references=(reference(mark),))
    figure = next(one for one in figures(read(result)) if one.slug == "all-loads")
    matches("report#single loads", [row[:3] for row in figure.table.rows])
    assert [one["place"] for one in drawn(figure.charts[0], "diamond")] == ["Most writes"]


def test_loads_of_several_kinds_are_grouped_with_their_gain() -> None:
    rates = (("read", 1, 50_000), ("read", 4, 100_000), ("write", 1, 20_000), ("write", 4, 50_000))
    points = [load("grid", iops, kind=kind, nconnect=count) for kind, count, iops in rates]
    (figure,) = figures(read(scenario(points, {"grid": "Grid"})))
    assert figure.title == "Grid: IOPS"
    matches("report_beside/loads_of_several_kinds_are_grouped", [(row[0], row[1], row[6]) for row in figure.table.rows])


# ---- advice


def advised(*, takes_turns: bool = True) -> Result:
    gains = {(1, "read"): 0.90, (1, "write"): 1.0, (64, "read"): 3.0, (64, "write"): 1.09}
    pairs = [
        [
            load("advice", iops, kind=kind, depth=depth, nconnect=count)
            for count, iops in ((1, 10_000), (4, 10_000 * gain))
        ]
        for (depth, kind), gain in gains.items()
    ]
    points = [point for pair in pairs for point in (synthetic.in_turns(pair) if takes_turns else pair)]
    return scenario(points, {"advice": "Where nconnect pays"})


def test_each_load_is_green_yellow_or_red_by_its_measured_gain() -> None:
    (family,) = read(advised()).families
    cells = {(cell.place, int(cell.series)): cell.verdict for cell in advice_cells(gains.pairs(family.members))}
    deep = {("read 4 KiB", 64): "faster", ("write 4 KiB", 64): "faster"}
    assert cells == deep | {("read 4 KiB", 1): "slower", ("write 4 KiB", 1): "no difference"}


def test_advice_has_no_colour_without_an_interval() -> None:
    (family,) = read(advised(takes_turns=False)).families
    assert {cell.verdict for cell in advice_cells(gains.pairs(family.members))} == {"inconclusive"}


def test_advice_is_a_coloured_table_and_one_sentence() -> None:
    (figure,) = figures(read(advised()))
    assert len(drawn(figure.charts[0], "rect")) == 4
    matches("report#advice coloured", read(advised()).findings[-1])
    assert read(advised()).headlines[0].value == "2"


# ---- the setting


@pytest.mark.slow
def test_the_page_names_an_emulated_target_once_and_every_image_names_it(tmp_path: Path) -> None:
    result = mixed(target=synthetic.VOLUME.replace(address=VOLUME))
    assert emulation_label(result) == f"emulated target: embedded NFS volume ({VOLUME})"
    assert targets(result) == [("", VOLUME, "emulated: embedded NFS volume (ultra, 4 TiB, 512 MiB/s)")]
    before_conditions = report.html(read(result)).partition('id="conditions"')[0]
    assert before_conditions.count(VOLUME) == 1
    assert all("title" not in chart for figure in figures(read(result)) for chart in figure.charts)
    images = report.write_images(read(result), tmp_path, ("svg",))
    assert all(emulation_label(result) in image.read_text() for image in images)


def test_a_long_label_of_an_image_is_broken_into_lines() -> None:
    (chart,) = figures(read(mixed()))[0].charts
    lines = labelled(chart, "emulated target: " + "a disk with a long name, " * 10)["title"]["text"]
    assert len(lines) == 3
    assert max(map(len, lines)) <= 120


@pytest.mark.slow
def test_what_is_real_is_not_called_emulated(tmp_path: Path) -> None:
    real = synthetic.result(MIX, target=TargetFacts(kind="nfs", address="nfs://filer/vol"))
    assert (emulation_label(real), targets(real)) == ("", [("", "nfs://filer/vol", "")])
    assert all("title" not in chart for figure in figures(read(real)) for chart in figure.charts)
    images = report.write_images(read(real), tmp_path, ("svg",))
    assert not any("emulated" in image.read_text() for image in images)


def test_each_of_several_targets_is_named_by_the_scenario() -> None:
    near, far = (TargetFacts(kind="embedded_volume", address=f"{VOLUME}&latency={ms}ms") for ms in (1, 5))
    facts = present(mixed().scenario).replace(targets={"near": near, "far": far})
    result = mixed(scenario=facts, target=TargetFacts(kind="several", address="both"))
    assert targets(result) == [
        ("near", f"{VOLUME}&latency=1ms", "emulated: embedded NFS volume (no limits)"),
        ("far", f"{VOLUME}&latency=5ms", "emulated: embedded NFS volume (no limits)"),
    ]
    assert [name for name in conditions(result) if name.startswith("Target")] == ["Target near", "Target far"]


def test_the_limits_of_an_emulated_disk_are_told_as_disks_are_sold() -> None:
    facts = TargetFacts(kind="emulated_disk", address="disk:x")
    disk = synthetic.capped(facts, iops=12_800, throughput_bytes_per_s=192_000_000)
    assert targets(synthetic.result([], target=disk)) == [("", "disk:x", "emulated disk (12,800 IOPS, 192 MB/s)")]


def test_why_a_scenario_ran_and_what_was_shortened_is_said_first() -> None:
    matches("report#why scenario", setting(mixed()))


@pytest.mark.slow
def test_what_a_search_found_is_said_first() -> None:
    facts = SearchFacts(
        question="how much must be in flight",
        workload="rw=randread",
        findings=(Finding(name="knee", unit="in flight", figure=Interval(value=100.0, low=98.0, high=102.0)),),
        stopped="it was found",
        remarks=("it is sharp",),
    )
    result = synthetic.envelope().replace(search=facts)
    matches("report#what search found", setting(result))
    assert read(result).headlines == (Headline("100", "in flight", "knee", "rw=randread", "95 %: 98 to 102 in flight"),)
    assert figures(read(result))[0].title == "What the search found"
    assert figures(read(result))[0].table.rows == (("knee", "100 in flight", "95 %: 98 to 102"),)


def test_rates_are_drawn_by_their_part_of_the_highest() -> None:
    points = [load("curve", rate, rate=float(rate)) for rate in (5_000, 10_000)]
    (figure,) = figures(read(synthetic.result(points, kind="curve")))
    assert figure.title == "4 KiB random read: latency by load"
    labels = {row["label"] for layer in figure.charts[0]["datasets"].values() for row in layer if "label" in row}
    assert labels == {"50%", "100%"}


# ---- cautions


def looked_at(policy: str, verdict: str, low: float) -> Result:
    gain = Interval(value=0.17, low=low, high=0.22)
    facts = CacheFacts.from_builtins(
        {"policy": policy, "preparation": "it was read once", "speedup": gain, "verdict": verdict}
    )
    return scenario([MIX[0].replace(cache=facts)], {"mix": "Mix"})


def test_figures_that_look_cached_against_the_intention_are_doubtful() -> None:
    matches("report#figures look", cache_evidence.cache_doubts(looked_at("uncached", "cached", 0.12)))


def test_figures_that_were_to_be_cached_and_look_it_are_no_doubt() -> None:
    result = looked_at("cached", "cached", 0.12)
    assert cache_evidence.cache_doubts(result) == []
    assert cache_evidence.cache_remarks(result)[-1].endswith("the figures look cached, as they were meant to be")


def test_a_level_that_is_left_or_drifts_is_told() -> None:
    rates = {"burst": [10_000] * 8 + [4_000] * 6, "tiring": [10_000 - 200 * index for index in range(16)]}
    burst, tiring = (doubts.level_doubts([synthetic.reads(each, name=name)]) for name, each in rates.items())
    matches("report#level left told", burst)
    matches("report#drift told slope", tiring)


def unsure(rates: NDArray[np.float64]) -> str:
    """The doubt about the rates of successive seconds."""
    return doubts.unsure_text(
        [
            SeriesInterval(0, at, False, at * SECOND_NS, (at + 1) * SECOND_NS, "read", rate, 0.0, 0.0, 0.0)
            for at, rate in enumerate(rates.tolist())
        ]
    )


def test_a_rate_that_was_measured_too_briefly_for_what_it_shows_is_a_doubt() -> None:
    chance = np.random.default_rng(1)
    rates = chance.normal(1000, 10, 100)
    assert unsure(rates) == ""
    rates[[30, 60]] = 0
    matches("report#rate was measured", unsure(rates))
    matches("report#rate was measured too", unsure(np.linspace(500, 1500, 100)))
    slow, _ = fractional(chance, 200, order=0.45, deviation=0.05)
    assert unsure(slow).startswith("its rate wanders the more the longer it runs (long memory)")


def test_the_interval_of_a_rate_leaves_out_the_values_that_chose_its_length() -> None:
    counts = [1_000] * 20 + [900, 1_100] * 10
    judged = judged_mean([float(count) for count in counts], 20)
    found = synthetic.reads(counts, length_chosen_by=20).rate_interval()
    assert (found.low, found.high) == pytest.approx((judged.low, judged.high))
    assert judged.half_width == pytest.approx(series_mean([float(count) for count in counts[20:]]).half_width / 2**0.5)


def test_the_end_of_a_run_has_the_answer_and_a_line_for_each_family_with_published_figures() -> None:
    facts, target = present(PUBLISHED.scenario), PUBLISHED.target.replace(speed=0.5)
    facts = facts.replace(question="How much?", targets={"volume": target})
    answer, *lines = read(PUBLISHED.replace(scenario=facts, target=target)).outcome
    assert answer == "highest rates: 100k reads, 40k writes IOPS"
    assert lines == ["published × 0.5, mix: 120,000 IOPS read (1.67 of it), 40,400 IOPS write (1.98 of it)"]

"""A report says at a glance: whether it can be trusted, how sure each figure and verdict is, and one answer."""

import csv
import io
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from data import synthetic
from goldens import Golden, cases, matches
from iocurve.analysis import read
from iocurve.analysis.headlines import mark_of
from iocurve.analysis.limits import with_verdicts
from iocurve.foundation.units import SECOND_NS, format_duration
from iocurve.report import page
from iocurve.report.conditions import conditions
from iocurve.report.figures import figures
from iocurve.report.table import result_table
from iocurve.result.document import FamilyFacts, Interval, MachineUse, Point, Result, ScenarioFacts, TargetFacts
from iocurve.result.stalls import noise, waited_for_others
from iocurve.result.stats import student_quantile

QUIET = MachineUse(busy_share=0.3, cpus=2, own_share=0.2, target_share=0.05, others_share=0.02, steal_share=0.0)
BUSY = QUIET.replace(others_share=0.48)
STARVED = QUIET.replace(others_share=0.9, thread_delay_share=0.64)


def on(*machines: MachineUse | None) -> Result:
    """The first points of an envelope, each on a machine in a given state."""
    whole = synthetic.envelope()
    points = [
        point.replace(machine=machine, noise=noise(machine, SECOND_NS))
        for point, machine in zip(whole.points, machines, strict=False)
    ]
    return whole.replace(points=tuple(points))


# ---- the line below the title


@cases("report/trust")
def test_one_line_says_whether_the_figures_can_be_trusted(
    machines: list[dict[str, float] | None], state: str, line: str
) -> None:
    result = on(*(None if machine is None else QUIET.replace(**machine) for machine in machines))
    assert read(result).trust == (state, line)
    shown = page.html(read(result))
    assert all(part[1:] in shown for part in line.split("; ", 1))


@cases("report/starved")
def test_a_result_says_that_the_volume_was_starved(shares: list[float | None], state: str, line: str) -> None:
    result = on(*(QUIET.replace(volume_starved_share=share) for share in shares))
    reading, line = read(result), line.format(*(point.name for point in result.points))
    assert reading.trust == (state, line)
    doubts = [f"T{doubt}." for doubt in line.split("; t")[1:]]
    assert [text for text in reading.doubts if "no processor" in text] == doubts
    shown = page.html(reading)
    assert all(doubt in shown for doubt in doubts)


def test_a_load_and_a_target_that_wait_for_each_other_are_not_starved_by_others() -> None:
    assert read(on(QUIET.replace(target_delay_share=0.5))).trust[0] == "idle"


def test_a_server_that_waits_for_the_load_is_not_held_up_by_others() -> None:
    waiting = QUIET.replace(target_delay_share=0.5, thread_delay_share=0.03)
    assert (waited_for_others(waiting), waited_for_others(waiting.replace(others_share=0.2))) == (0.03, 0.5)


def test_tiles_and_rows_of_disturbed_points_are_marked() -> None:
    """Pure reads and pure writes have a tile each; the mixes between them have none."""
    result = on(QUIET, BUSY, BUSY, BUSY, STARVED)
    assert [headline.mark for headline in read(result).headlines] == ["", "CPU-starved"]
    shown = page.html(read(result))
    assert len(re.findall(r'class="mark"', shown)) == 1
    limits = [row[-1] for row in figures(read(result))[0].table.rows]
    assert [limit.rpartition(", ")[2] for limit in limits[1:]] == ["noisy", "noisy", "noisy", "CPU-starved"]
    assert "noisy" not in limits[0]
    rows = [row[-1] for row in result_table(read(result)).rows]
    assert rows == limits


def test_a_tile_of_several_points_counts_those_that_are_doubtful() -> None:
    points = on(QUIET, BUSY, STARVED, STARVED).points
    assert (mark_of(points), mark_of(points[:1])) == ("2 of 4 points CPU-starved, 1 of 4 points noisy", "")


# ---- intervals


def in_turns(*rates: float) -> Point:
    """A point of an envelope, with turns at these rates."""
    point = synthetic.envelope().points[0]
    (made,) = synthetic.in_turns([point], rounds=1)
    turns = [
        made.runs[0].replace(repetition=number, order=number, window_ns=SECOND_NS, operations=round(rate), iops=rate)
        for number, rate in enumerate(rates, 1)
    ]
    return point.replace(runs=tuple(turns))


def test_the_interval_of_a_point_in_turns_is_that_of_its_turns() -> None:
    """Student's interval of the mean, around the rate of the point."""
    found = in_turns(90, 100, 110).rate_interval()
    half = student_quantile(2) * 10 / 3**0.5 / 100
    assert found.value == 118_000
    assert (found.low, found.high) == pytest.approx((118_000 * (1 - half), 118_000 * (1 + half)))


def test_no_rate_has_a_bound_below_zero_and_one_turn_has_no_bounds() -> None:
    assert in_turns(1, 200).rate_interval().low == 0.0
    assert in_turns(100).rate_interval().high is None


def test_tiles_and_bars_have_the_interval_of_their_point() -> None:
    point = in_turns(90, 100, 110)
    result = synthetic.envelope().replace(points=(point, *synthetic.envelope().points[1:5]))
    (reads, _) = read(result).headlines
    assert reads.bounds == "95 %: 88.7k to 147k"
    assert "95 %: 88.7k to 147k" in page.html(read(result))
    figure = figures(read(result))[0]
    bounds = {
        row["place"]: row["high"] for rows in figure.charts[0]["datasets"].values() for row in rows if "low" in row
    }
    assert bounds["100:0"] == pytest.approx(147_312, abs=1)
    assert bounds["75:25"] is None
    assert "Error bars are 95 % intervals." in figure.caption


# ---- the answer of a scenario


def scenario(answer: str) -> ScenarioFacts:
    return ScenarioFacts(
        name="s", title="", why="", question="?", answer=answer, form="full", targets={}, families=(), tag=""
    )


def gains() -> Result:
    """Reads and writes at two depths, with one connection and with eight; eight carry three and two times as much."""
    return answered(
        *(
            (kind, {"read_percent": percent, "nconnect": count, "depth": depth}, 1000.0 * depth * gain)
            for kind, percent, factor in (("read", 100, 3), ("write", 0, 2))
            for count, gain in ((1, 1), (8, factor))
            for depth in (1, 16)
        )
    )


def test_the_first_tile_answers_the_question_of_the_scenario() -> None:
    result = gains().replace(scenario=scenario("nconnect"))
    answer, *others = read(result).headlines
    assert (answer.value, answer.what) == ("3.00 × reads, 2.00 × writes", "8 connections instead of 1")
    matches("report#first tile answers", answer.detail)
    assert 0 < len(others) < 5
    assert "8 connections instead of 1" in page.html(read(result))
    matches("report#first tile answers question", read(result).sentences[0])


def test_a_scenario_that_asks_for_rates_is_answered_by_the_highest() -> None:
    reading = read(gains().replace(scenario=scenario("")))
    headlines = reading.answer
    assert "×" not in str(reading.headlines)
    assert "48k reads, 32k writes" not in [one.value for one in reading.headlines], "the tiles of the loads have them"
    assert (headlines[0].value, headlines[0].unit) == ("48k reads, 32k writes", "IOPS")
    assert headlines[0].detail.startswith(
        "4 KiB random reads at depth 16: its interval is not known · 4 KiB random writes at depth 16: its interval"
    )


def answered(*rows: tuple[str, dict[str, Any], float]) -> Result:
    """Random reads: the family, the axes and the IOPS of each point."""
    base: dict[str, Any] = {"order": "random", "block_bytes": 4096, "read_percent": 100, "nconnect": 1, "depth": 16}
    points = [
        synthetic.nfs_point(f"{family} {number}", family, {**base, **axes}, rate)
        for number, (family, axes, rate) in enumerate(rows)
    ]
    return synthetic.result(points)


@cases("report/answers")
def test_the_question_of_a_scenario_is_answered(
    question: str, rates: list[tuple[str, dict[str, Any], float]], titles: dict[str, str], golden: Golden
) -> None:
    facts = tuple(FamilyFacts(name=name, title=title, cache="untouched") for name, title in titles.items())
    answer, *_ = read(answered(*rates).replace(scenario=scenario(question).replace(families=facts))).headlines
    golden.check([answer.value, answer.unit, answer.what, answer.detail])


def test_fewer_clients_whose_interval_reaches_the_highest_rate_are_named_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Six clients had 900 of 800 to 990: as far as that tells, six to seven are enough."""
    measured = ((1, 300.0), (6, 900.0), (7, 1000.0), (20, 1005.0))
    result = answered(*(("f", {"clients": clients, "depth": 16 * clients}, rate) for clients, rate in measured))
    bounds = {900: Interval(value=900, low=800, high=990)}
    none = Interval(value=1, low=None, high=None)
    monkeypatch.setattr(Point, "rate_interval", lambda point, *_: bounds.get(round(point.summary().iops), none))
    answer, *_ = read(result.replace(scenario=scenario("fewest clients"))).headlines
    assert answer.value == "6–7"


# ---- one truth


def test_the_measured_time_is_that_of_the_rates_everywhere() -> None:
    point = in_turns(90, 100, 110)
    result = synthetic.result([point])
    (row,) = csv.DictReader(io.StringIO(page.points_csv(read(result))))
    assert float(row["window_s"]) * SECOND_NS == point.summary().window_ns
    time = format_duration(point.summary().window_ns)
    assert conditions(result)["Load"]["Measured time"] == point.measured_text == f"{time} in 3 runs"


def recorded() -> Result:
    """The runs that were recorded with one limit switched on at a time, as one result, and one without a limit."""
    points, targets = [], {}
    for path in sorted((Path(__file__).parent / "data" / "limits").glob("known-*.json")):
        document = json.loads(path.read_text(encoding="utf-8"))
        targets[path.stem] = TargetFacts.from_builtins(document["target"])
        point = Point.from_builtins(document["points"][0])
        points.append(point.replace(name=path.stem, family=path.stem, target=path.stem))
    targets["nothing"] = TargetFacts(kind="nfs", address="nfs://server/vol")
    points.append(points[0].replace(name="nothing", family="nothing", target="nothing", machine=QUIET))
    return synthetic.result(points).replace(scenario=scenario("").replace(targets=targets))


LIMIT_NAMES = 25
"""Distinct limits of the recorded runs, ``inconclusive`` among them."""


def test_page_table_csv_and_json_name_and_count_the_same_limits() -> None:
    result = recorded()
    reading = read(result)
    document = json.loads(with_verdicts(result).to_json())
    rows = list(csv.DictReader(io.StringIO(page.points_csv(reading))))
    of_json = [point["limit"] for point in document["points"]]
    labels = [one["short_name"] + ("" if one["confidence"] == "none" else f" ({one['confidence']})") for one in of_json]
    assert [row["limited_by_name"] for row in rows] == [one["short_name"] for one in of_json]
    assert [(row["limited_by"], row["limited_by_confidence"]) for row in rows] == [
        (one["code"], one["confidence"]) for one in of_json
    ]
    table = result_table(read(result))
    place = table.columns.index("limited by")
    assert [row[place] for row in table.rows if row] == labels
    shown = figures(reading)[0].table
    assert {row[-1] for row in shown.rows} == set(labels)
    groups = {
        (group.name if group.confidence == "none" else f"{group.name} ({group.confidence})"): group.count
        for group in reading.limit_groups
    }
    assert (groups, len({one["short_name"] for one in of_json})) == (Counter(labels), LIMIT_NAMES)

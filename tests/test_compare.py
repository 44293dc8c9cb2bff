"""Comparisons of results: matched points, intervals, corrected verdicts, and what the commands print."""

import json
import math
import random
import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace as replaced

from bench.truth.compared_runs import Load, Runs, Turns, counted, point, result
from data import synthetic
from goldens import cases, present
from iocurve.analysis.compare import NAMES, compare, compare_turns
from iocurve.analysis.history import Series, histories
from iocurve.analysis.matching import matched
from iocurve.cli.commands import run
from iocurve.foundation.errors import DialectError, ResultError
from iocurve.foundation.units import KIB, SECOND_NS
from iocurve.measure import ab
from iocurve.measure.campaign import Campaign, into_directory, turn_places
from iocurve.measure.scenario.cases import Cases, groups_of
from iocurve.report import compared, compared_page
from iocurve.report.compared import Compared
from iocurve.result import turns
from iocurve.result.document import Point
from iocurve.result.imported import ImportedKind, ImportFacts
from iocurve.result.paired import RatePair, RateRatio, rate_ratio
from iocurve.result.percentiles import independent_operations
from iocurve.result.stats import Bounded
from iocurve.targets.opened_target import UNOPENED
from iocurve.targets.target import VolumeTarget
from programs import iocurve, printed

STEADY = Load("steady", 8, 1e6, 0.3, 0.0, 0.01)


def measured(
    name: str = "steady", speed: float = 1.0, seed: int = 1, intervals: int = 24, noise: str | None = None
) -> Point:
    return point(replace(STEADY, name=name), intervals, speed, np.random.default_rng(seed)).replace(noise=noise)


def mixed(speed: float = 1.0, seed: int = 1, name: str = "steady") -> Point:
    """Reads at a speed, and writes at that of the base."""
    reads, writes = measured(name, speed, seed), measured(name, 1.0, seed + 1000)
    (worker,), (other,) = reads.outcome.workers, writes.outcome.workers
    intervals = [
        one.replace(operations=one.operations | {"write": two.operations["read"]})
        for one, two in zip(worker.intervals, other.intervals, strict=True)
    ]
    operations = worker.operations | {"write": other.operations["read"]}
    return synthetic.with_worker(reads, operations=operations, intervals=tuple(intervals))


def deeper(one: Point) -> Point:
    """The point, with another load in its plan."""
    worker = one.plan.groups[0].workers[0].replace(depth=64)
    return one.replace(plan=one.plan.replace(groups=(one.plan.groups[0].replace(workers=(worker,)),)))


# ---- which points are compared


def pairs_of(base: Sequence[Point], other: Sequence[Point]) -> tuple[list[tuple[str, str]], list[tuple[str, bool]]]:
    """Names of the points that are matched, and those without a partner, with whether they are of the base."""
    pairs, missing = matched(result(base), result(other), 1)
    return [(one.name, two.name) for one, two in pairs], [(one.point, one.is_of_base) for one in missing]


def test_points_are_matched_by_name_and_then_by_load() -> None:
    base = [measured("a"), deeper(measured("old name")), measured("gone")]
    other = [deeper(measured("new name")), measured("a", seed=2)]
    assert pairs_of(base, other) == ([("a", "a"), ("old name", "new name")], [("gone", True)])


def test_points_of_one_load_are_not_guessed_at() -> None:
    base, other = [measured("a"), measured("b")], [measured("c")]
    assert pairs_of(base, other)[0] == []
    with pytest.raises(ResultError, match="nothing to compare"):
        compare(result(base), result(other))


def test_single_points_are_compared_whatever_their_names_and_loads() -> None:
    assert pairs_of([measured("a")], [deeper(measured("b"))]) == ([("a", "b")], [])


def test_an_imported_point_is_matched_by_its_load_in_words() -> None:
    def imported(name: str, depth: float | None, words: str = "4 KiB random reads") -> Point:
        stated = ImportedKind(iops=1000.0)
        facts = ImportFacts(tool="fio 3.33", source="a", load=words, depth=depth, total=stated, kinds={"read": stated})
        return Point(name=name, family="imported", axes={}, imported=facts)

    own = [measured("a"), deeper(measured("b"))]
    pairs, _ = pairs_of([imported("x", 64), imported("y", 8), imported("z", 8, "writes")], own)
    assert pairs == [("x", "b"), ("y", "a")]
    # A depth that the import does not know is not compared.
    found = pairs_of([imported("x", None), imported("z", None, "writes")], own[:1])
    assert found == ([("x", "a")], [("z", True)])
    (rate,) = compare(result([imported("x", 8)]), result(own)).of("iops")
    assert rate.verdict_text == "inconclusive: imported: fio 3.33 states no time series"


# ---- differences


def test_a_run_twice_as_fast_is_faster_in_rate_and_median() -> None:
    found = compare(result([measured()]), result([measured(speed=2.0, seed=2)]))
    (rate,), (median,) = found.of("iops"), found.of("p50_us")
    assert (rate.verdict, median.verdict) == ("faster", "faster")
    assert rate.change_percent == pytest.approx(100, abs=3)
    assert median.change_percent == pytest.approx(-50, abs=2)
    for one, change in ((rate, 100), (median, -50)):
        assert present(one.low_percent) < change < present(one.high_percent)


def test_the_same_run_is_no_different() -> None:
    found = compare(result([measured()]), result([measured()]))
    assert [one.verdict for one in found.differences[:2]] == ["no difference", "no difference"]
    assert {one.change_percent for one in found.differences} == {0.0}


@cases("analysis/runs_without_a_verdict")
def test_what_has_no_verdict_costs_the_others_no_level(
    base: list[dict[str, Any]], other: list[dict[str, Any]], texts: dict[str, list[str]], tested: int
) -> None:
    found = compare(*(result([measured(**run) for run in runs]) for runs in (base, other)))
    assert {name: [one.verdict_text for one in found.of(name)] for name in texts} == texts
    assert found.tested == tested


def test_reads_and_writes_of_a_mix_are_compared_apart() -> None:
    found = compare(result([mixed()]), result([mixed(speed=0.5, seed=2)]))
    names = [f"{kind}_{name}" for kind in ("read", "write") for name in ("iops", "p50_us", "p99_us", "p99_9_us")]
    assert [one.name for one in found.differences] == [*NAMES, *names]
    (reads,), (writes,), (rate,) = (found.of(name) for name in ("read_p50_us", "write_p50_us", "read_iops"))
    assert (reads.verdict, writes.verdict, rate.verdict) == ("slower", "no difference", "slower")
    assert reads.change_percent == pytest.approx(100, abs=3)
    assert compared.change_text(rate)[:4] == "-50."
    assert compared.figure_name("read_response_p99_us") == "read response p99"
    shown = compared_page.page(Compared(found, ("old", "new")))
    assert shown.count(": change</h2>") == len(NAMES)
    assert "steady, writes" in shown


def test_reads_and_writes_of_turns_are_compared_by_their_pairs() -> None:
    points: dict[str, Point | None] = {"A": None, "B": None}
    for order, (name, round_) in enumerate((("A", 1), ("B", 1), ("B", 2), ("A", 2), ("A", 3), ("B", 3)), start=1):
        run_ = mixed(0.5 if name == "B" else 1.0, order, name)
        points[name] = turns.with_turn(points[name], run_, (round_, order))
    found = compare_turns(result(point.replace(compared_with=("A", "B")) for point in points.values() if point))
    (reads,), (writes,) = found.of("read_p50_us"), found.of("write_p50_us")
    assert (reads.verdict, writes.verdict) == ("slower", "no difference")
    assert reads.change_percent == pytest.approx(100, abs=5)
    # Results of earlier versions have turns without kinds: their difference has no interval.
    old = [one.replace(runs=tuple(turn.replace(kinds={}) for turn in one.runs)) for one in found.results[0].points]
    (reads,) = compare_turns(result(old)).of("read_p50_us")
    assert (reads.low_percent, reads.high_percent, reads.verdict) == (None, None, "inconclusive")


def test_holm_leaves_the_level_of_a_difference_to_the_others() -> None:
    found = compare(result([measured()]), result([measured(speed=2.0, seed=2)]))
    levels = sorted({round(one.confidence, 6) for one in found.differences if one.name != "cpu_us_per_operation"})
    # CPU time has none; those found different at the first step keep its level.
    assert levels[-1] == round(1 - 0.05 / 4, 6)
    assert found.tested == 4


def test_turns_are_compared_by_their_pairs_at_the_corrected_level() -> None:
    found = Turns(rounds=6, deviation=0.02).compared(1.5, seed=1)
    (rate,) = found.of("iops")
    a, b = found.results[0].points
    pairs = [RatePair(own.iops, base.iops, own.order, base.order) for own, base in zip(b.runs, a.runs, strict=True)]
    assert rate.verdict == "faster"
    assert rate.speed == rate_ratio(pairs, found.margin, rate.confidence)
    assert {one.name for one in found.differences} == set(NAMES)


def test_turns_of_another_result_are_no_pairs() -> None:
    one = Turns().compared(1.0, seed=1).results[0]
    found = compare(one, Turns().compared(1.0, seed=2).results[0])
    assert {difference.point for difference in found.differences} == {"A", "B"}
    assert all(difference.point == difference.other_point for difference in found.differences)


def test_no_difference_says_what_would_have_shown() -> None:
    found = compare(result([measured(intervals=60)]), result([measured(seed=2, intervals=60)])).of("iops")[0]
    detectable = present(found.detectable_percent)
    half = math.log((1 + present(found.high_percent) / 100) / (1 + present(found.low_percent) / 100)) / 2
    assert detectable == pytest.approx(100 * math.expm1(1.43 * half), rel=1e-6)
    assert found.verdict_text == f"no difference of 10 % or more, {detectable:.2g} % would have shown"
    assert found.to_record()["detectable_percent"] == detectable


def test_a_difference_that_would_have_shown_shows_in_eight_of_ten() -> None:
    chance = random.Random(1)

    def ratio(gain: float) -> RateRatio:
        pairs = [
            RatePair(gain * chance.lognormvariate(0, 0.03), chance.lognormvariate(0, 0.03), 2 * one + 1, 2 * one)
            for one in range(20)
        ]
        return present(rate_ratio(pairs))

    gain = 1 + fmean(ratio(1.0).detectable or 0 for _ in range(60))
    assert 0.7 <= sum(ratio(gain).verdict == "faster" for _ in range(100)) / 100 <= 0.95


def test_a_rate_with_a_rare_event_says_how_much_longer_to_measure() -> None:
    calm = measured(intervals=40)
    stalled = synthetic.with_reads(measured(seed=2, intervals=40), {20: {"operations": 0}})
    found = compare(result([calm]), result([stalled])).of("iops")[0]
    assert found.verdict == "inconclusive"
    seconds = math.ceil(40 * 4 * calm.course()[0].length_ns / SECOND_NS)
    assert found.verdict_text == f"inconclusive: not enough data: at least {seconds} s more"


def test_a_result_without_turns_is_not_compared_with_itself() -> None:
    with pytest.raises(ResultError, match="no points have interleaved runs"):
        compare_turns(result([measured()]))


def test_stalls_make_clusters_that_tell_as_much_as_one_operation_each() -> None:
    calm = measured(intervals=40)
    stalled = point(replace(STEADY, depth=64, stalls=0.1, stall=40), 40, 1.0, np.random.default_rng(1))
    operations = stalled.summary().operations
    assert (independent_operations(calm, 99) or 0) > 0.5 * calm.summary().operations
    # Of each 64 slow operations, all are in one stall.
    assert (independent_operations(stalled, 99.9) or operations) < operations / 32


# ---- what is printed


def saved(directory: Path, *points: Point, block: int = KIB) -> str:
    directory.mkdir()
    found = result(points)
    found.replace(host=present(found.host).replace(kernel=f"6.{block}")).write(directory / "result.json")
    return str(directory)


def test_the_command_prints_conditions_table_and_correction(tmp_path: Path) -> None:
    base = saved(tmp_path / "base", measured(), measured("gone"), block=1)
    out = printed("compare", base, saved(tmp_path / "other", measured(speed=2.0, seed=2), block=2))
    expected = ("Machine: System", "gone: in A, not in B", "(Holm's correction)", "faster")
    assert [text for text in expected if text not in out] == []


def test_json_has_the_names_of_figures(tmp_path: Path) -> None:
    paths = [saved(tmp_path / name, measured(seed=seed)) for seed, name in enumerate("abc")]
    document = json.loads(printed("compare", *paths, "--json", "--margin", "5%"))
    assert [one["label"] for one in document["results"]] == ["A", "B", "C"]
    assert {one["figure"] for one in document["differences"]} == set(NAMES)
    assert {one["other"] for one in document["differences"]} == {"B", "C"}
    assert (document["margin"], document["correction"]) == (0.05, "Holm")


def test_markdown_is_a_table_with_its_summary_first() -> None:
    found = Compared(compare(result([measured("a|b")]), result([measured("a|b", speed=2.0)])), ("old", "new"))
    text = compared.markdown(found)
    assert text.startswith("**")
    assert ("| a\\|b | IOPS |" in text, "**faster**" in text) == (True, True)


def test_the_comment_of_a_pull_request_has_at_most_15_lines() -> None:
    """16 points, of which 8 got slower: the changes that matter, and the counts of all else."""
    speeds = [0.5 + place / 100 if place < 8 else 1.0 for place in range(16)]
    base = result([measured(f"p{place}", seed=place) for place in range(16)])
    other = result([measured(f"p{place}", seed=place, speed=speed) for place, speed in enumerate(speeds)])
    text = compared.markdown(Compared(compare(base, other), ("old", "new")))
    assert len(text.splitlines()) <= 15
    assert text.count("**slower") == 5
    assert all(part in text for part in ("more changes", "without a difference", "iocurve compare"))


@pytest.mark.slow
def test_the_page_has_a_curve_and_the_changes_of_each_figure(tmp_path: Path) -> None:
    depths = [measured(f"depth {depth}").replace(axes={"depth": depth}) for depth in (1, 4)]
    base, other = saved(tmp_path / "base", *depths, block=1), saved(tmp_path / "other", *depths, block=2)
    printed("compare", base, other, "--html", str(tmp_path / "page.html"))
    titles = re.findall("<h2>(.*?)</h2>", (tmp_path / "page.html").read_text())
    assert {"simulated: latency over the rate", "p99.9: change", "Conditions that differ"} <= {*titles}


# ---- two in turns

NULL = "fio --name=x --ioengine=null --size=64k --rw=read --number_ios=4"


@pytest.mark.slow
@pytest.mark.parametrize("first", [0, 1])
def test_commands_take_turns_and_are_compared_by_their_pairs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: int
) -> None:
    seed = next(str(seed) for seed in range(99) if turn_places(2, 3, str(seed))[0].member == first)
    monkeypatch.setattr(Campaign, "order_seed", seed)
    found = into_directory(tmp_path, ab.of_commands([f"iocurve {NULL}", NULL], 3, 0.1, 0), quiet=True)
    a, b = found.points
    assert (a.name, b.name, found.points_planned) == ("A", "B", 2)
    orders = [sorted((one.order, other.order)) for one, other in zip(a.runs, b.runs, strict=True)]
    assert orders == [[1, 2], [3, 4], [5, 6]], "which of a round goes first is drawn"
    assert (a.compared_with, a.outcome.state, found.state) == (("A", "B"), "finished", "finished")
    assert all(turn.p99_ns and turn.cpu_us_per_operation is not None for turn in a.runs)
    assert {one.point for one in compare_turns(found).differences} == {"A"}


@pytest.mark.slow
def test_runs_end_with_the_time_that_is_given(tmp_path: Path) -> None:
    found = into_directory(tmp_path, ab.of_commands([NULL, NULL], None, 0.1, 0, patience_ns=1), quiet=True)
    assert [(len(point.runs), point.outcome.state) for point in found.points] == [(1, "finished")] * 2
    assert [one.text for one in found.notes if one.code == "left_out"] == ["--search-time ended the runs after 1 of 20"]


@cases("measure/wrong_turns")
def test_nothing_runs_where_one_command_is_wrong(words: list[str], message: str, tmp_path: Path) -> None:
    with pytest.raises(DialectError, match=message):
        run(["ab", *words, "--out", str(tmp_path / "out")])
    assert not (tmp_path / "out").exists()


def test_two_targets_are_a_scenario_of_one_load() -> None:
    load = ab.TargetLoad("rw=randrw rwmixread=70 bs=8k", 16, 2, 1 << 20, 2 * SECOND_NS, SECOND_NS)
    named = [VolumeTarget.of("volume:anf-ultra"), VolumeTarget.of("volume:anf-premium")]
    request = ab.of_targets(named, load, 5, overwrite=False)
    opened = dict.fromkeys(request.targets, UNOPENED)
    cases = Cases(request.scenario, request.form, opened, "tag").all()
    (group,) = groups_of(cases, request.scenario.comparisons, request.form)
    assert [case.name for case in cases] == ["load A", "load B"]
    assert (group.rounds, group.turn_ns, group.ramp_ns) == (5, 2 * SECOND_NS, SECOND_NS)
    first = cases[0].job.sections[0]
    assert (first.load.read_percent, first.pace.depth, len(cases[0].job.sections)) == (70, 16, 2)


def test_the_noise_between_runs_chooses_their_number() -> None:
    """Also by a simulation of few sets: the errors stay, and a change of half the margin is found."""
    chosen = [
        Turns(None, noise).compared(1.0, seed).results[0].points for noise in (0.003, 0.02, 0.2) for seed in (1, 2)
    ]
    runs = [len(points[0].runs) for points in chosen]
    assert runs[:2] == [5, 5]
    assert all(5 < count < 20 for count in runs[2:4])
    assert runs[4:] == [20, 20]
    assert all(point.runs_chosen for points in chosen for point in points)
    verdicts = {
        speed: [Turns(None, 0.02).compared(speed, seed).of("iops") for seed in range(20)] for speed in (1.0, 1.05)
    }
    assert sum(one.verdict != "no difference" for (one,) in verdicts[1.0]) <= 2
    assert sum(one.verdict == "faster" for (one,) in verdicts[1.05]) >= 14


def test_intervals_are_wider_where_the_noise_chose_the_number_of_runs() -> None:
    points = list(Turns(5, 0.02).compared(1.0, 1).results[0].points)
    given_, chosen = (
        compare_turns(result([point.replace(runs_chosen=is_chosen) for point in points])) for is_chosen in (False, True)
    )
    for one, other in zip(given_.differences, chosen.differences, strict=True):
        bounds = [bound for each in (other, one) if (bound := each.speed.low)]
        assert bounds == sorted(bounds)
        assert len(bounds) == 2
    assert "was chosen by their noise: a change of" in " ".join(Compared(chosen, ("A", "B")).notes)
    assert "chosen" not in " ".join(Compared(given_, ("A", "B")).notes)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.floats(10, 1e5), st.floats(10, 1e5)), min_size=3, max_size=8), st.integers(1, 100_000))
def test_a_row_of_turns_cannot_contradict_itself(rates: list[tuple[float, float]], merged: int) -> None:
    """The columns are of the turns, as the change is, whatever the merged values of the points are."""
    points = []
    for member, name in enumerate("AB"):
        point = synthetic.nfs_point(name, "load", dict(synthetic.AXES), 100 + merged * member)
        ((turn,),) = (one.runs for one in synthetic.in_turns([point], rounds=1))
        orders = [2 * number + (member if number % 2 == 0 else 1 - member) + 1 for number in range(len(rates))]
        runs = [
            replaced(turn, repetition=number, order=order, iops=pair[member], mean_ns=1e9 / pair[member])
            for number, (order, pair) in enumerate(zip(orders, rates, strict=True), 1)
        ]
        points.append(point.replace(runs=tuple(runs), compared_with=("A", "B")))
    (one,) = (one for one in compare_turns(synthetic.result(points)).differences if one.name == "iops")
    assert one.value == pytest.approx(one.base_value * (1 + one.change_percent / 100))
    assert min(pair[0] for pair in rates) * 0.999 <= one.base_value <= max(pair[0] for pair in rates) * 1.001


# ---- a history


def nightly(directory: Path, speeds: Sequence[float]) -> None:
    point_of = {speed: measured(speed=speed, intervals=8) for speed in set(speeds)}
    for number, speed in enumerate(speeds):
        run_of = result([point_of[speed]]).replace(created=datetime(2026, 10, 1 + number, tzinfo=UTC))
        (directory / f"{number:02}").mkdir(parents=True)
        run_of.write(directory / f"{number:02}" / "result.json")


@pytest.mark.slow
def test_a_history_names_the_run_at_which_a_figure_changed(tmp_path: Path) -> None:
    directory, page = tmp_path / "nightly", tmp_path / "page.html"
    nightly(directory, [1.0, 1.01] * 6 + [0.8, 0.81] * 6)
    (directory / "broken.json").write_text("{")
    ran = iocurve("history", str(directory), "--figure", "iops", "--html", str(page))
    assert (ran.returncode, "broken.json" in ran.stderr) == (0, True)
    assert "run 13, 2026-10-13 00:00, 12: 8.0" in ran.stdout
    assert "at most 1 % show one" in ran.stdout
    assert "<h2>steady: IOPS</h2>" in page.read_text()
    series = json.loads(printed("history", str(directory), "--json"))["series"]
    assert [level["first_run"] for level in series[0]["levels"]] == [0, 12]


def series_of(values: Sequence[float]) -> Series:
    return Series("p", "f", "iops", tuple(range(len(values))), tuple(Bounded(value, None, None) for value in values))


NIGHTS = [1_000.0, 1_010.0, 995.0, 1_004.0, 990.0, 1_001.0, 1_008.0, 997.0]


def test_a_level_that_returns_is_a_level() -> None:
    levels = series_of([*NIGHTS, *(0.85 * one for one in NIGHTS[:4]), *NIGHTS]).levels
    assert [(one.first, one.last) for one in levels] == [(0, 7), (8, 11), (12, 19)]


def test_the_newest_run_has_its_own_verdict() -> None:
    newest = present(series_of([*NIGHTS, 500.0]).newest)
    assert (newest.is_outside, newest.p < 1e-6) == (True, True)
    assert newest.before == pytest.approx(1_000, rel=0.002)
    assert not present(series_of([*NIGHTS, 1_012.0]).newest).is_outside
    again = present(series_of([*NIGHTS, 500.0, 505.0]).newest)
    assert again.is_outside, "a run that was outside itself is no measure for the next"
    assert series_of(NIGHTS[:5]).newest is None


@pytest.mark.slow
def test_a_newest_run_that_is_outside_is_told(tmp_path: Path) -> None:
    nightly(tmp_path, [1.0, 1.01, 1.0, 1.02, 1.0, 1.01, 0.5])
    told = "run 7, 2026-10-07 00:00, 06, the newest, is outside of what came before"
    assert told in printed("history", str(tmp_path), "--figure", "iops")
    assert json.loads(printed("history", str(tmp_path), "--json"))["series"][0]["newest"]["outside"] is True


def test_points_of_one_name_in_one_result_are_series() -> None:
    twice = result([measured(speed=1.0, intervals=8), measured(speed=0.5, intervals=8)])
    found = histories([("a", twice), ("b", twice)], ["iops"])
    assert [one.point for one in found] == ["steady", "steady (2)"]
    assert [one.runs for one in found] == [(0, 1), (0, 1)]


def test_few_runs_are_not_searched(tmp_path: Path) -> None:
    nightly(tmp_path, [1.0, 1.0, 0.5])
    assert "too few runs" in printed("history", str(tmp_path), "--figure", "p50_us")


@pytest.mark.parametrize(("words", "message"), [([], "has no results"), (["--figure", "p98_us"], "no figure 'p98_us'")])
def test_a_history_needs_results_and_known_figures(words: list[str], message: str, tmp_path: Path) -> None:
    with pytest.raises(DialectError, match=message):
        run(["history", str(tmp_path), *words])


# ---- error rates


@pytest.mark.slow
def test_a_against_a_is_hardly_ever_different_and_a_larger_difference_is_found() -> None:
    same = counted(Runs(loads=2, intervals=20, correlation=0.5), 1.0, 15)
    assert same.different <= 2
    more = counted(Runs(loads=1, intervals=20, correlation=0.0), 1.3, 10)
    assert more.share("iops", "faster") >= 0.9
    turns = counted(Turns(), 1.0, 100)
    assert turns.different <= 11

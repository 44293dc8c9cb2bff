"""The headlines of each kind of result: at most five, each named by its load."""

import re
import shlex
from collections.abc import Sequence
from typing import Any

from data import synthetic
from data.synthetic import capped, kind, outcome, plan, spread, worker_outcome, worker_plan
from goldens import cases, matches, rows
from iocurve.analysis import read
from iocurve.analysis.headlines import mark_of
from iocurve.analysis.load_names import load_name, rate_unit
from iocurve.engine.derived import block_bytes_min
from iocurve.engine.plan import Rate, Worker
from iocurve.foundation.units import KIB, MILLISECOND_NS, SECOND_NS
from iocurve.report import article
from iocurve.result.document import (
    CachePolicy,
    Finding,
    Interval,
    Point,
    Result,
    SearchFacts,
    TargetFacts,
)
from iocurve.result.reference import Conditions, PublishedFigure, Reference

Tile = tuple[str, str, str, str]


def tiles(result: Result) -> list[Tile]:
    """Each headline: value, unit, load, and the detail with the bounds."""
    found = read(result).headlines
    return [(one.value, one.unit, one.what, " · ".join(filter(None, (one.detail, one.bounds)))) for one in found]


def job(name: str, operations: dict[str, int], block_bytes: int, *, group: int = 0, rate: Rate | None = None) -> Worker:
    return worker_plan(list(operations.items()), job=name, block_bytes=block_bytes, rate=rate, report_group=group)


def point(name: str, *loads: tuple[Worker, dict[str, tuple[int, int]]]) -> Point:
    """A point of one second; each worker with IOPS and median latency in nanoseconds by kind."""
    outcomes = []
    for number, (worker, measured) in enumerate(loads):
        block_bytes = block_bytes_min(worker.operations[0].blocks)
        kinds = {what: kind(spread(median_ns, iops), block_bytes) for what, (iops, median_ns) in measured.items()}
        outcomes.append(worker_outcome(kinds, number=number, job=worker.job, report_group=worker.report_group))
    return synthetic.point(plan([worker for worker, _ in loads]), *outcomes, name=name, family=name)


# ---- jobs


def test_the_total_of_a_group_is_its_headline() -> None:
    reader, writer = job("reader", {"read": 1}, 8 * KIB), job("writer", {"write": 1}, 8 * KIB)
    grouped = point("group", (reader, {"read": (50_000, 100_000)}), (writer, {"write": (25_000, 200_000)}))
    matches("report#total group", tiles(synthetic.result([grouped], kind="fio")))


def test_a_headline_is_marked_where_due_operations_were_never_sent() -> None:
    rate = Rate(unit="operations", count=1000, per_ns=SECOND_NS)
    due = point("due", (job("a", {"read": 1}, 8 * KIB, rate=rate), {"read": (800, 100_000)}))
    (worker,) = due.outcome.workers

    def missing(count: int) -> Point:
        read = worker.operations["read"].replace(missed=count)
        return due.replace(outcome=outcome(worker.replace(operations={"read": read})))

    few = missing(worker.operations["read"].operations // 2_000)
    many = missing(worker.operations["read"].operations // 4)
    assert [mark_of([one]) for one in (due, few, many)] == ["", "", "missed up to 20 % of due operations"]
    assert mark_of([due, many]) == "1 of 2 points missed up to 20 % of due operations"


def test_several_groups_are_named_by_their_jobs() -> None:
    loads = [
        (job("db", {"read": 1}, 8 * KIB), {"read": (50_000, 100_000)}),
        (job("log", {"write": 1}, 64 * KIB, group=1), {"write": (2_000, 4 * MILLISECOND_NS)}),
    ]
    matches("report#groups named", tiles(synthetic.result([point("jobs", *loads)], kind="fio")))


def test_workers_that_report_apart_have_one_total() -> None:
    members = [(job("load", {"read": 1}, 4 * KIB, group=number), {"read": (10_000, 100_000)}) for number in range(3)]
    matches("report#workers report", tiles(synthetic.result([point("jobs", *members)], kind="diskspd")))


def test_several_points_of_jobs_are_named_by_their_points() -> None:
    points = [
        point(name, (job("load", {what: 1}, 4 * KIB), {what: (iops, 100_000)})).replace(family="vdbench")
        for name, what, iops in (("rd1", "read", 10_000), ("rd2", "write", 5_000))
    ]
    matches("report#points jobs named", [tile[:3] for tile in tiles(synthetic.result(points, kind="vdbench"))])


def test_many_jobs_show_the_best_ones_and_long_lists_of_jobs_are_cut() -> None:
    crowd = [(job(f"job{number}", {"read": 1}, 4 * KIB), {"read": (1_000, 100_000)}) for number in range(6)]
    alone = [
        (job(f"alone{number}", {"read": 1}, 4 * KIB, group=number), {"read": (number * 1_000, 100_000)})
        for number in range(1, 7)
    ]
    shown = tiles(synthetic.result([point("jobs", *crowd, *alone)], kind="fio"))
    matches("headlines/many_jobs_show_the_best_ones_and_long_lists", [(value, what) for value, _, what, _ in shown])


# ---- scenarios


def disks() -> Result:
    """The shape of the scenario ``azure-disk``."""
    points: list[Point] = []
    caches: dict[str, CachePolicy] = {}
    for name, cache, workers in rows("report/loads_of_disks"):
        loads = []
        for of_job, what, kib, iops, median_ms, count in workers:
            rate = Rate(unit="operations", count=count, per_ns=SECOND_NS) if count else None
            planned = job(of_job, {what: 1}, kib * KIB, rate=rate)
            loads.append((planned, {what: (iops, median_ms * MILLISECOND_NS)}))
        points.append(point(name, *loads))
        caches[name] = cache
    targets = {
        name: capped(TargetFacts(kind="emulated_disk", address=f"disk:{name}"), iops=iops)
        for name, iops in (("nocache", 12_800), ("readcache", 77_000))
    }
    return synthetic.scenario(points, caches, **targets)


def test_a_scenario_of_single_loads_has_one_headline_for_each() -> None:
    matches("headlines/a_scenario_of_single_loads_has_one_headline", tiles(disks()))


def six_loads(*figures: PublishedFigure) -> Result:
    """The shape of the scenario ``anf-vdbench``."""
    points = []
    for name, block, kinds in rows("report/rates_of_six_loads"):
        random_percent = 0 if name.startswith("sequential") else 100
        worker = worker_plan([(what, 50) for what in kinds], block_bytes=block, random_percent=random_percent)
        points.append(point(name, (worker, {what: (iops, MILLISECOND_NS) for what, iops in kinds.items()})))
    for depth, iops in ((12, 17_000), (384, 65_000)):
        axes = synthetic.AXES | {"block_bytes": 8 * KIB, "depth": depth}
        points.append(synthetic.nfs_point(f"depth {depth}", "latency", axes, iops))
    reference = Reference(name="page", title="A page", source="a page", conditions=Conditions(), figures=figures)
    return synthetic.scenario(points).replace(references=(reference,) if figures else ())


def test_of_many_loads_the_best_are_shown_in_the_order_of_measurement() -> None:
    matches("headlines/of_many_loads_the_best_are_shown", tiles(six_loads()))


def test_loads_of_the_document_go_first() -> None:
    published = rows("report/published_figures")
    figures = [PublishedFigure(family=name, kind=kind, unit=unit, value=value) for name, kind, unit, value in published]
    matches("headlines/loads_of_the_document_go_first", [tile[:3] for tile in tiles(six_loads(*figures))])


# ---- searches


def searched(*findings: Finding, kind: str = "max", points: Sequence[Point] = ()) -> Result:
    facts = SearchFacts(question="?", workload="rw=randread bs=4k", findings=findings, stopped="it was found")
    return synthetic.result(points, kind=kind).replace(search=facts)


def knee() -> Result:
    findings = [
        Finding(name=name, unit=unit, figure=Interval(value=value, low=low, high=high))
        for name, unit, value, low, high in rows("report/findings_of_a_knee")
    ]
    depths = [one for one in synthetic.envelope().points if one.family == "depth" and one.axes["nconnect"] == 8]
    return searched(*findings, kind="knee", points=depths)


def test_an_article_has_the_command_of_a_search_with_its_target_and_workload() -> None:
    text = article.markdown(article.article([read(knee())]), {}, "$appendix")
    [command] = re.findall(r"^iocurve knee .*$", text, re.MULTILINE)
    assert shlex.split(command) == ["iocurve", "knee", knee().target.address, "--workload", "rw=randread bs=4k"]


def test_a_knee_has_its_findings_with_their_intervals_and_no_terms_of_the_law() -> None:
    matches("headlines/a_knee_has_its_findings_with_their_intervals", tiles(knee()))


@cases("report/bounds")
def test_bounds_are_told_where_they_are_known_and_differ(figure: dict[str, float], detail: str) -> None:
    finding = Finding(name="highest rate", unit="IOPS", figure=Interval.from_builtins(figure))
    ((_, _, what, told),) = tiles(searched(finding))
    assert (what, told) == ("highest rate", " · ".join(filter(None, ("rw=randread bs=4k", detail))))


def test_a_latency_beyond_a_millisecond_is_told_in_milliseconds() -> None:
    figure = Interval(value=680_000.0, low=999_000.0, high=1_200_000.0)
    matches("report#latency beyond", tiles(searched(Finding(name="p99 at this rate", unit="µs", figure=figure))))


# ---- names of loads


@cases("report/load_names")
def test_a_load_is_named_in_the_words_of_the_field(loads: list[Any], name: str, unit: str) -> None:
    workers = [worker_plan(kinds, **changes) for kinds, changes in loads]
    assert (load_name(workers), rate_unit(workers)) == (name, unit)


def test_the_first_sentence_says_what_the_target_sustains_and_the_next_its_limit_and_knees() -> None:
    envelope = synthetic.envelope()
    matches("report#first sentence", read(envelope).sentences[:2])
    assert len(read(envelope).sentences) == 4
    point = envelope.points[0]
    assert read(envelope.replace(points=(point,))).sentences[0] == "It sustains 118k IOPS (4 KiB random reads)."
    assert read(synthetic.result([])).sentences == ()


def test_a_machine_that_others_use_is_no_finding_and_rates_under_it_were_reached() -> None:
    others = synthetic.envelope().points[0].replace(noise="other processes used 48% of the processors")
    first, *more = read(synthetic.result([others])).sentences
    assert first == "It reached 118k IOPS (4 KiB random reads)."
    assert not any("processors" in sentence for sentence in more)


def test_what_was_bought_is_said_first() -> None:
    found = synthetic.envelope()
    assert read(found).bought == "", "an embedded volume states its limits elsewhere"
    nfs = found.replace(target=found.target.replace(kind="nfs"))
    reading = read(nfs)
    matches("report#what was bought", reading.bought)
    assert reading.sentences[0] == reading.outcome[0] == reading.bought

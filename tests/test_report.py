"""The report: figures from the axes of a result, a self-contained page, CSV and images."""

import csv
import io
import os
import re
from collections.abc import Callable
from html import escape
from itertools import pairwise
from pathlib import Path

import pytest
from msgspec.structs import astuple

from data import synthetic
from data.browser import visit
from goldens import cases, data, matches
from iocurve.analysis import read
from iocurve.cli.commands import run
from iocurve.foundation.errors import ResultError, TargetError
from iocurve.foundation.units import SECOND_NS
from iocurve.report import article, chart_curves
from iocurve.report import page as report
from iocurve.report.conditions import conditions
from iocurve.report.figures import figures
from iocurve.report.page import PROOF_NAME, ReportDirectory
from iocurve.result.document import Point, Result, TargetFacts

pytestmark = pytest.mark.slow

ENVELOPE, FIO = read(synthetic.envelope()), read(synthetic.fio_run())
NO_LIMIT = TargetFacts(kind="nfs", address="nfs://server/vol")


def interrupted() -> Result:
    whole = synthetic.envelope()
    return whole.replace(points=whole.points[:3]).ended("interrupted", "Ctrl-C after point 3 of 26")


# ---- figures


TOLD: dict[str, Callable[[], object]] = {
    "report/an_envelope_has_its_four_figures": lambda: [figure.title for figure in figures(ENVELOPE)],
    "report#tables of an envelope": lambda: [figure.table.rows for figure in figures(ENVELOPE)],
    "report/the_headlines_are_what_a_reader_came": lambda: [astuple(one)[:4] for one in ENVELOPE.headlines],
    "report#jobs run after": lambda: [astuple(one)[:4] for one in FIO.headlines],
    "report#findings": lambda: ENVELOPE.findings,
    "report#labels told words": lambda: ENVELOPE.doubts,
    "report#conditions": lambda: [conditions(reading.result) for reading in (ENVELOPE, FIO)],
}


@pytest.mark.parametrize("golden", TOLD)
def test_a_report_tells(golden: str) -> None:
    matches(golden, TOLD[golden]())


def test_each_chart_draws_every_point() -> None:
    mix, throughput, curve, sides = (figure.charts[0] for figure in figures(ENVELOPE))
    assert [len(_rows(chart)) for chart in (mix, throughput, curve, sides)] == [8, 8, 32, 16]
    assert ({row["series"] for row in _rows(mix)}, _color_domain(mix)) == ({"read", "write"}, ["read", "write"])
    assert _color_domain(curve) == ["nconnect 1", "nconnect 8"]


def test_a_limit_is_drawn_where_it_is_near_and_told_where_it_is_far() -> None:
    near = figures(ENVELOPE)[0]
    assert "limit 512 MiB/s = 131,072 IOPS" in str(near.charts[0])
    assert "Dashed: the volume's limit 512 MiB/s = 131,072 IOPS (ultra, 4 TiB)." in near.caption
    far = figures(read(synthetic.envelope().replace(target=synthetic.capped(NO_LIMIT, iops=10**6))))[0]
    assert "limit 1,000,000 IOPS" not in str(far.charts[0])
    assert "The volume's limit 1,000,000 IOPS is far above." in far.caption
    none = figures(read(synthetic.envelope().replace(target=NO_LIMIT)))[0]
    assert "limit" not in none.caption


def test_one_series_has_nothing_beside_it() -> None:
    whole = synthetic.envelope()
    single = whole.replace(points=tuple(p for p in whole.points if p.axes["nconnect"] == 8))
    assert len(figures(read(single))) == 3


def test_jobs_have_a_row_each_and_their_course() -> None:
    (figure,) = figures(FIO)
    matches("report#jobs row", [row[:4] for row in figure.table.rows])
    assert len(figure.charts) == 4
    assert figure.table.rows[1][5] == "260.1", "under a rate it is from the due moment"


def test_groups_and_ramp_are_drawn_apart() -> None:
    """A line from the end of one group to the start of the next would show a load that never ran."""
    run = synthetic.fio_run()
    first, second = run.points[0].outcome.workers
    ramp, *others = first.intervals
    workers = (first.replace(intervals=(ramp.replace(ramp=True), *others)), second.replace(group=1, worker=0))
    planned = run.points[0].plan.groups[0].workers
    point = run.points[0].replace(plan=synthetic.plan(planned[:1], planned[1:]), outcome=synthetic.outcome(*workers))
    (figure,) = figures(read(run.replace(points=(point,))))
    rows = _rows(figure.charts[0])
    assert len({row["stretch"] for row in rows}) == 3
    assert {row["second"] for row in rows if row["kind"] == "write"} == {10.5 + second for second in range(10)}


# ---- words


def test_doubts_are_spoken_out() -> None:
    short = synthetic.worker_outcome(
        {"read": synthetic.kind({1000: 10}, 4096, errors=3)}, state="failed", error="the server has gone"
    )
    whole = synthetic.envelope()
    point = whole.points[0].replace(outcome=synthetic.outcome(short))
    noted = whole.replace(points=(point,)).with_note("tyre", "the ring had a flat tyre")
    matches("report#doubts", read(noted).doubts)


@cases("report/apart")
def test_workers_that_did_not_run_together_are_pointed_out(second: tuple[int, int], says: str) -> None:
    windows = ((0, 2 * SECOND_NS), (second[0] * SECOND_NS, second[1] * SECOND_NS))
    workers = [
        synthetic.worker_outcome({"read": synthetic.kind({10**9: 1}, 4096)}, number=number, window_ns=window)
        for number, window in enumerate(windows)
    ]
    planned = synthetic.plan([synthetic.worker_plan(), synthetic.worker_plan()])
    point = Point(name="job", family="fio", axes={}, plan=planned, outcome=synthetic.outcome(*workers))
    assert f"job: {says}." in read(synthetic.result([point])).doubts


def test_series_that_reach_the_same_are_called_the_same() -> None:
    whole = synthetic.envelope()
    low = [point for point in whole.points if point.family == "depth" and point.axes["depth"] == 1]
    deeper = [point.replace(axes=point.axes | {"depth": 2}) for point in low]
    found = read(whole.replace(points=(*low, *deeper))).findings
    assert found[-1] == "4 KiB random read: nconnect 1 and nconnect 8 reach the same, 26.3k IOPS."
    assert "depth 2 the median wait goes from 33 µs to 33 µs for no more IOPS." in found[0]


def test_a_remark_is_no_doubt() -> None:
    result = synthetic.result([]).with_note("aio", "libaio runs as Linux native AIO", "info")
    assert (read(result).doubts, read(result).remarks) == ((), ("libaio runs as Linux native AIO",))
    assert "libaio runs as Linux native AIO" in report.html(read(result))


# ---- the page


@pytest.mark.parametrize(
    ("result", "charts"),
    [
        pytest.param(interrupted(), 1, id="interrupted"),
        pytest.param(synthetic.result([]), 0, id="empty"),
    ],
)
def test_the_page_opens_by_itself(result: Result, charts: int, tmp_path: Path) -> None:
    report.write(read(result), tmp_path)
    seen = visit(tmp_path / "report.html", tmp_path)
    assert (seen.console, seen.requests, len(re.findall(r'<svg[^>]*class="marks"', seen.dom))) == ([], [], charts)
    assert result.name in seen.dom


SAVED = f"<script>{data('report/save_all.js')}</script></body>"


def test_each_chart_is_drawn_and_can_be_saved_in_three_forms(tmp_path: Path) -> None:
    made = report.html(ENVELOPE)
    (tmp_path / "page.html").write_text(made.replace("</body>", SAVED), encoding="utf-8")
    seen = visit(tmp_path / "page.html", tmp_path)
    lines = [line for line in seen.console if "SAVED" in line]
    saved = sorted(re.findall(r'SAVED (.*)", source', line)[0] for line in lines)
    slug = "4-kib-random-iops-by-mix"
    assert {f"{slug}.png data:image/png", f"{slug}.svg blob:", f"{slug}.csv blob:"} <= set(saved)
    assert len(saved) == 4 * 5, "of each chart three files, of which two are texts"
    assert any(line.startswith('"read:write","IOPS",') for line in saved)
    assert sum(line.startswith("<svg") for line in saved) == 4
    assert (lines, seen.requests) == (seen.console, [])
    assert len(re.findall(r'<svg[^>]*class="marks"', seen.dom)) == 4
    assert ENVELOPE.result.name in seen.dom


def test_the_visit_sees_errors_and_requests(tmp_path: Path) -> None:
    """Without this, the test above could pass because it never sees a request."""
    page = tmp_path / "page.html"
    page.write_text('<script>missing.name</script><img src="https://example.invalid/image.png">')
    seen = visit(page, tmp_path)
    assert len(seen.console) == 1
    assert "missing is not defined" in seen.console[0]
    assert seen.requests == ["https://example.invalid/image.png"]


def test_headings_are_in_order_and_every_color_of_a_light_page_has_one_on_a_dark() -> None:
    for page in (report.html(ENVELOPE), report.html(read(interrupted())), article.html(article.article([FIO]))):
        levels = [int(level) for level in re.findall(r"<h([1-6])", page)]
        assert levels[0] == 1
        assert all(after <= before + 1 for before, after in pairwise(levels))
        dark = page[page.index("prefers-color-scheme: dark") :]
        assert set(re.findall(r"(--\w[\w-]*):", page[: page.index("@media")])) == set(
            re.findall(r"(--\w[\w-]*):", dark[: dark.index("/*")])
        )


def test_an_incomplete_run_says_so_first() -> None:
    page = report.html(read(interrupted()))
    assert "Incomplete: this run was interrupted." in page
    assert "Ctrl-C after point 3 of 26. What was measured until then is below." in page
    assert page.index('role="alert"') < page.index('class="headlines"')
    assert "Incomplete" not in report.html(ENVELOPE)


def test_the_chart_library_is_there_once() -> None:
    page = report.html(ENVELOPE)
    assert (page.count('id="library"'), page.count('class="specification"')) == (1, 5)


@pytest.mark.parametrize(("count", "kibibytes"), [(20, 400), (100, 700)])
def test_a_page_of_many_points_is_small(count: int, kibibytes: int) -> None:
    points = synthetic.envelope().points[:20] if count == 20 else synthetic.fio_run().points * count
    whole = tuple(point.replace(name=f"p{number}") for number, point in enumerate(points))
    assert len(report.html(read(synthetic.envelope().replace(points=whole))).encode()) < kibibytes << 10


def test_names_from_outside_stay_text(tmp_path: Path) -> None:
    hostile = '</script><script>alert("x")</script><b>'
    whole = synthetic.fio_run()
    point = whole.points[0].replace(name=hostile, family=hostile)
    report.write(read(whole.replace(name=hostile, points=(point,))), tmp_path)
    seen = visit(tmp_path / "report.html", tmp_path)
    assert (seen.console, seen.requests) == ([], [])
    assert escape(hostile, quote=False) in seen.dom
    assert "<b>" not in re.sub(r"(?s)<ul class=.headlines.>.*?</ul>", "", seen.dom)
    assert len(re.findall(r'<svg[^>]*class="marks"', seen.dom)) == 4


# ---- files


def test_points_are_a_csv(tmp_path: Path) -> None:
    assert report.write(ENVELOPE, tmp_path) == [tmp_path / "report.html", tmp_path / "points.csv"]
    first, *others = csv.DictReader(io.StringIO((tmp_path / "points.csv").read_text()))
    assert (first["name"], first["read_percent"], first["iops"]) == ("4 KiB, 100 % reads", "100", "118000.0")
    assert len(others) == 25


def test_everything_can_be_written_at_once(tmp_path: Path) -> None:
    directory = tmp_path / "a" / "b"
    assert ReportDirectory(directory).finish(synthetic.fio_run()) == synthetic.fio_run()
    assert {path.name for path in directory.iterdir()} == {"result.json", "report.html", "points.csv"}
    assert Result.read(directory / "result.json") == synthetic.fio_run()


def test_what_an_earlier_run_wrote_goes_with_the_first_point_of_the_next(tmp_path: Path) -> None:
    ReportDirectory(tmp_path).finish(synthetic.fio_run())
    (tmp_path / PROOF_NAME).write_text("of the earlier run")
    (tmp_path / "notes.txt").write_text("mine")
    with ReportDirectory(tmp_path) as directory:
        assert len(list(tmp_path.iterdir())) == 5
        directory.keep(synthetic.envelope())
        assert {path.name for path in tmp_path.iterdir()} == {"result.json", "notes.txt"}
        (tmp_path / PROOF_NAME).write_text("of this run")
        directory.finish(synthetic.envelope())
    assert len(list(tmp_path.iterdir())) == 5


def bytes_written() -> int:
    """Bytes that this process has passed to the system."""
    return int(re.findall(r"wchar: (\d+)", Path("/proc/self/io").read_text())[0])


def grown(result: Result, points: int) -> Result:
    """The result with copies of its first point."""
    return result.replace(points=tuple(result.points[0].replace(name=f"point {number}") for number in range(points)))


def test_the_bytes_of_a_run_grow_with_its_points(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: None)
    whole = grown(synthetic.envelope(), 400)
    before = bytes_written()
    with ReportDirectory(tmp_path) as directory:
        for count in range(1, 401):
            directory.keep(whole.replace(points=whole.points[:count]))
            if count % 100 == 0:
                assert Result.read(tmp_path) == whole.replace(points=whole.points[:count])
    # Written whole after every point, it would be 200 times the document.
    assert (bytes_written() - before) / len(whole.document()) < 8


def test_a_run_that_is_killed_keeps_every_point(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "WHOLE_BYTES_MAX", 0)
    result = grown(synthetic.envelope(), 9)
    first, *others = result.points
    journal = tmp_path / "result.journal.jsonl"
    with ReportDirectory(tmp_path) as directory:
        directory.keep(result)
        assert not journal.exists()
        replaced = result.replace(points=(first, others[0].replace(retries=1), *others[1:]))
        inserted = replaced.replace(points=(*replaced.points[:4], first.replace(name="inserted"), *replaced.points[4:]))
        remarked = inserted.with_note("slow", "the target was slow").replace(points=inserted.points[:-1])
        for state in (replaced, inserted, remarked):
            directory.keep(state)
            assert Result.read(tmp_path) == state
        lines = journal.read_bytes()
        journal.write_bytes(lines[:-2])
        assert Result.read(tmp_path) == inserted, "a line that is cut off counts no more"
        journal.write_bytes(lines.replace(b'"extends":"', b'"extends":"0'))
        assert Result.read(tmp_path) == result, "a journal of another document does not count"
        for damaged in (b"1\n", b"{}\n", b"\xff\n"):
            journal.write_bytes(lines + damaged)
            with pytest.raises(ResultError, match=r"result\.journal\.jsonl, line 5, is damaged \(.*\); remove"):
                Result.read(tmp_path)
        directory.finish(remarked)
    assert not journal.exists()
    assert Result.read(tmp_path) == remarked


def test_one_run_at_a_time_writes_to_a_directory(tmp_path: Path) -> None:
    refused = f"--out {tmp_path}: another run writes to this directory; name another one"
    with ReportDirectory(tmp_path), pytest.raises(TargetError, match=re.escape(refused)):
        ReportDirectory(tmp_path)
    ReportDirectory(tmp_path).finish(synthetic.fio_run())
    with ReportDirectory(tmp_path) as directory:
        directory.finish(synthetic.fio_run())


def test_a_directory_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ResultError, match=r"nowhere/report\.html cannot be written: No such file or directory"):
        report.write(FIO, tmp_path / "nowhere")


def test_the_command_writes_images_to_directories_and_opens_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    synthetic.envelope().write(tmp_path / "result.json")
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", lambda url: not opened.append(url))  # type: ignore[func-returns-value]
    words = ["report", str(tmp_path), "--png", str(tmp_path / "new/png"), "--svg", str(tmp_path / "svg"), "--open"]
    assert run(words) == 0
    paths = [Path(line) for line in capsys.readouterr().out.splitlines()]
    assert [(path.parent.name, path.suffix) for path in paths[2:]] == [("png", ".png")] * 4 + [("svg", ".svg")] * 4
    assert all(path.is_file() for path in paths[:2])
    assert [path.stem for path in paths[2:6]] == [path.stem for path in paths[6:]]
    assert paths[2].name == "4-kib-random-iops-by-mix.png"
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in paths[2:6])
    assert all("<svg" in path.read_text()[:200] for path in paths[6:])
    # The width is at the start of the second part of a PNG.
    assert all(int.from_bytes(path.read_bytes()[16:20]) > 2 * report.IMAGE_WIDTH for path in paths[2:6])
    assert opened == [(tmp_path / "report.html").as_uri()]


def test_a_machine_without_a_browser_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synthetic.fio_run().write(tmp_path / "result.json")
    monkeypatch.setattr("webbrowser.open", lambda _: False)
    with pytest.raises(ResultError, match="no browser opens"):
        run(["report", str(tmp_path), "--open"])
    assert (tmp_path / "report.html").is_file()


def test_an_article_has_what_the_result_holds_and_how_to_measure_it_again(tmp_path: Path) -> None:
    made = article.article([ENVELOPE], [("read-ahead", "/mnt", "128 KiB", "red")])
    page, *_ = [path for path in article.write(made, tmp_path) if path.name == "article.md"]
    text = page.read_text()
    parts = ("Testing summary", "Test method", "Test configuration", "Tuning of", "Tests:", "Limits found", "Appendix")
    places = [text.index(f"# {part}") for part in parts]
    assert places == sorted(places)
    assert "The highest rate is 118k IOPS at" in text
    assert "no interval" in text
    assert "fio --name=test --directory=MOUNT --rw=randrw --rwmixread=75 --bs=4096 --iodepth=" in text
    assert all((tmp_path / image).is_file() for image in re.findall(r"!\[[^]]*\]\(([^)]*)\)", text))
    assert "red" in article.markdown(made, {}, "only $setup")
    assert "Limits found" not in article.markdown(made, {}, "only $setup")
    with pytest.raises(ResultError, match=r"it may use \$title"):
        article.markdown(made, {}, "$price")


def test_a_step_is_marked_where_it_was_and_latencies_are_mapped_whole() -> None:
    series = synthetic.fio_run().points[0].series()
    rate, _ = chart_curves.over_time(series, (), [(0, 4 * SECOND_NS, 4 * SECOND_NS, "5k → 3k IOPS")])
    assert [row["start"] for data in rate["datasets"].values() for row in data if "mark" in row] == [4.0]
    shares = [(at * SECOND_NS, (at + 1) * SECOND_NS, 1e5, 4e5, 10.0) for at in range(3)]
    (heat,) = chart_curves.heat_map(shares)
    cells = _rows(heat)
    assert {cell["second"] for cell in cells} == {0.0, 1.0, 2.0}
    assert sum(float(str(cell["share"])) for cell in cells) == pytest.approx(300, abs=1)
    assert chart_curves.heat_map(shares[:1]) == []


def _rows(chart: dict[str, object]) -> list[dict[str, object]]:
    """The largest data set of a chart: its marks, not labels or limit lines."""
    datasets = chart.get("datasets", {})
    assert isinstance(datasets, dict)
    return max(datasets.values(), key=len)


def _color_domain(chart: dict[str, object]) -> object:
    layers = chart["layer"]
    assert isinstance(layers, list)
    return next(layer["encoding"]["color"]["scale"]["domain"] for layer in layers if "color" in layer["encoding"])


def test_the_chart_library_is_kept_for_the_next_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library, bundles = vars(report)["_chart_library"], iter(("first", "second"))
    monkeypatch.setattr("vl_convert.javascript_bundle", lambda *_, **__: next(bundles))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    script = library.__wrapped__()
    (kept,) = (tmp_path / "iocurve").iterdir()
    assert kept.read_text(encoding="utf-8") == script == report.packed("first")
    kept.write_text("kept", encoding="utf-8")
    assert library.__wrapped__() == "kept"
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null")
    assert library.__wrapped__() == report.packed("second")

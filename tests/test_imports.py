"""Outputs of other tools as results: the values that they state, and unknown where they state none."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from data import synthetic
from diskspd_stats import BUSY, ONE_PROCESSOR, START, did, row, stats
from goldens import Golden, cases, data, matches, present
from iocurve.analysis import read
from iocurve.cli.commands import run
from iocurve.dialects.diskspd.output.text import SpanStats, results_text
from iocurve.dialects.diskspd.output.xml import results_xml
from iocurve.dialects.diskspd.read.profile import Profile, TargetParameters, TimeSpan
from iocurve.foundation.errors import ResultError
from iocurve.imports.formats import read_all
from iocurve.imports.points import result_of
from iocurve.report import page
from iocurve.result.document import Point, Result
from iocurve.result.figures import KindFigures
from programs import iocurve
from test_vdbench_run import printed
from vdbench_runs import Engine

OPTIONS = {"rw": "randread", "bs": "8k", "iodepth": "16", "numjobs": "2"}


FIO = json.loads(data("fio/imported.json"))
"""A document of fio and its parts; fio's bins of 100,352 and 2,007,040 ns hold its 1000 latencies."""


def fio_kind(**changes: Any) -> dict[str, Any]:
    kind: dict[str, Any] = FIO["kind"] | {"clat_ns": FIO["latency"] | changes}
    return kind


def fio_job(name: str = "job", *, options: dict[str, str] = OPTIONS, **changes: Any) -> dict[str, Any]:
    named = {"jobname": name, "groupid": 0, "job options": options, "read": fio_kind()}
    job: dict[str, Any] = FIO["job"] | named | changes
    return job


def fio_document(*jobs: dict[str, Any], time_ms: int = 1_767_323_045_000) -> dict[str, Any]:
    document: dict[str, Any] = FIO["document"] | {"timestamp_ms": time_ms, "jobs": list(jobs or [fio_job()])}
    return document


def imported(directory: Path, *texts: str | dict[str, Any]) -> Result:
    """The result of the files with these texts."""
    paths = []
    for number, text in enumerate(texts):
        paths.append(directory / f"file{number}")
        paths[-1].write_text(text if isinstance(text, str) else json.dumps(text, indent=2))
    return result_of(read_all(paths)[0], "test")


def only(directory: Path, *texts: str | dict[str, Any]) -> Point:
    """The only point of the files with these texts."""
    (point,) = imported(directory, *texts).points
    return point


def stated(result: Result) -> dict[str, Any]:
    """The values of a result and of its points that are known."""
    codes = sorted({note.code for note in result.notes})
    reading = read(result)
    verdicts = [verdict and verdict.code for verdict in reading.verdicts]
    next_steps = [group.next_step for group in reading.limit_groups]
    said = {
        "kind": (result.kind, result.state, result.host, result.target.address),
        "created": None if "no_date" in codes else result.created.isoformat(),
        "notes": codes,
        "read": (reading.doubts, verdicts, next_steps, [family.is_depth for family in reading.families]),
    }
    return said | {"points": [of_point(point) for point in result.points]}


def of_point(point: Point) -> dict[str, Any]:
    of = present(point.imported)
    return {
        "name": (point.name, point.family, point.axes),
        "source": (of.tool, of.workers, of.window_ns, of.state, point.summary().operations),
        "figures": known(point.figures),
        "kinds": {kind: known(figures) for kind, figures in point.kind_figures.items()},
        "course": [(part.start_ns, part.iops) for part in point.course()],
    }


def known(figures: KindFigures) -> dict[str, Any]:
    return {name: value for name, value in figures.to_builtins().items() if value is not None}


@cases("imports/outputs")
def test_an_output_gives_the_values_that_it_states(files: dict[str, str], golden: Golden, tmp_path: Path) -> None:
    directory = tmp_path / "run"
    directory.mkdir()
    for name, source in files.items():
        (directory / name).write_text(data(source))
    found = json.dumps(stated(result_of(read_all([directory])[0], "test")))
    golden.check(json.loads(found.replace(str(directory), "{here}")))


def test_an_imported_result_is_read_again_as_it_was_written(tmp_path: Path) -> None:
    result = imported(tmp_path, fio_document())
    result.write(tmp_path / "result.json")
    assert Result.read(tmp_path / "result.json") == result
    (written,) = json.loads((tmp_path / "result.json").read_text())["points"]
    assert "plan" not in written
    assert "outcome" not in written
    assert (written["p90_us"], written["read"]["p99_us"]) == (None, 103.936)


def codes(result: Result) -> set[str]:
    return {note.code for note in result.notes}


def test_a_percentile_that_fio_does_not_state_comes_from_the_bins(tmp_path: Path) -> None:
    found = only(tmp_path, fio_document(fio_job(read=fio_kind(bins=FIO["bins"])))).figures
    assert found.p99_us == 103.936
    assert found.p90_us == pytest.approx(100.352, rel=0.001)
    assert found.p99_99_us == pytest.approx(2007.04, rel=0.002)


def test_several_jobs_have_percentiles_only_with_bins(tmp_path: Path) -> None:
    results = [
        imported(tmp_path, fio_document(*(fio_job(name, read=fio_kind(**bins)) for name in "ab")))
        for bins in ({}, {"bins": FIO["bins"]})
    ]
    stated, binned = (one.points[0].figures for one in results)
    assert (stated.operations, stated.iops, stated.mean_us) == (2000, 1000.0, 120.0)
    assert (stated.p50_us, stated.min_us, stated.max_us) == (None, 91.0, 2011.0)
    assert binned.p50_us == pytest.approx(100.352, rel=0.001)
    assert "fio_percentiles_apart" in codes(results[0])


FORMS = {form: data(f"fio/output.{form}") for form in ("json", "normal", "terse")}
"""The outputs of one run of fio 3.33, of two jobs that mix and one that reads after them."""


@pytest.mark.parametrize("form", ["normal", "terse"])
def test_the_text_of_fio_gives_the_values_of_its_json(tmp_path: Path, form: str) -> None:
    exact, read_text = (imported(tmp_path, FORMS[each]).points for each in ("json", form))
    assert [point.name for point in read_text] == [point.name for point in exact] == ["a", "b"]
    for point, other in zip(read_text, exact, strict=True):
        for kind, stated in other.kind_figures.items():
            found = point.kind_figures[kind]
            assert found.iops == pytest.approx(stated.iops, rel=1e-3)
            for name in ("mib_per_s", "mean_us", "p50_us", "p99_us", "max_us"):
                # Text states latencies in whole microseconds.
                assert getattr(found, name) == pytest.approx(getattr(stated, name), rel=1e-3, abs=1), (kind, name)
    if form == "normal":
        # The text does not say what share of a mix was to be read.
        assert exact[0].axes["read_percent"] == 70
        assert [point.axes for point in read_text] == [
            {name: value for name, value in point.axes.items() if name != "read_percent"} for point in exact
        ]
        assert [point.summary().operations for point in read_text] == [point.summary().operations for point in exact]


def test_the_last_document_of_a_run_counts_and_each_appended_run(tmp_path: Path) -> None:
    half = json.dumps(fio_document(fio_job(read=fio_kind() | {"total_ios": 400, "runtime": 1000})))
    whole, later = (json.dumps(fio_document(time_ms=1_767_323_046_000 + after)) for after in (0, 2000))
    result = imported(tmp_path, f"{half}\n{whole}\n")
    assert [point.figures.operations for point in result.points] == [1000]
    assert "snapshots" in codes(result)
    assert len(imported(tmp_path, f"{whole}\n{later}\n").points) == 2


def test_a_truncated_document_is_an_error_with_its_line(tmp_path: Path) -> None:
    text = json.dumps(fio_document(), indent=2)
    half = text[: len(text) // 2]
    with pytest.raises(ResultError, match="damaged or truncated"):
        imported(tmp_path, half)
    found = imported(tmp_path, f"{text}\n{half}")
    assert [point.figures.operations for point in found.points] == [1000]
    assert "truncated" in codes(found)


def test_logs_next_to_the_json_become_the_series(tmp_path: Path) -> None:
    options = OPTIONS | {"numjobs": "1", "write_iops_log": "log/a", "write_lat_log": "log/a", "log_avg_msec": "500"}
    for name, base, step in (("iops", 480, 1), ("lat", 0, 100_000)):
        lines = [f"{500 * n}, {base + step * n}, 0, 0, 0\n" for n in range(1, 5)]
        (tmp_path / f"a_{name}.1.log").write_text("".join(lines))
    point = only(tmp_path, fio_document(fio_job(options=options)))
    series = [(part.start_ns, part.iops, part.mean_ns) for part in point.series()]
    assert series == [(n * 5 * 10**8, 481.0 + n, 100_000.0 * (n + 1)) for n in range(4)]


def test_the_report_of_an_import_says_what_is_not_known(tmp_path: Path) -> None:
    result = imported(tmp_path, fio_document())
    text = page.html(read(result))
    assert "nothing is known about the machine" in text
    assert "imported from fio 3.33" in text
    (row,) = csv.DictReader(page.points_csv(read(result)).splitlines())
    assert (row["iops"], row["p90_us"], row["limited_by"]) == ("500.0", "", "unknown")


def test_the_command_writes_a_result_and_names_files_that_it_leaves_out(tmp_path: Path) -> None:
    (runs := tmp_path / "runs").mkdir()
    (runs / "a.txt").write_text(json.dumps(fio_document()))
    (runs / "notes.md").write_text("nothing")
    ran = iocurve("import", str(runs), "--out", str(tmp_path / "out"))
    assert (ran.returncode, "inconclusive" in ran.stdout) == (0, True)
    assert Result.read(tmp_path / "out/result.json").points[0].figures.iops == 500
    assert f"left out {runs / 'notes.md'}" in ran.stderr


@pytest.mark.parametrize("text", ["", "{}", '{"schema_version": 5}', "hello\n", "\0\1\2"])
def test_a_file_of_no_known_format_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(ResultError, match="not an output that iocurve reads; looked for fio JSON"):
        imported(tmp_path, text)


# ---- vdbench


def test_our_vdbench_output_gives_the_values_of_the_run(tmp_path: Path) -> None:
    printed(tmp_path, "rd=rd1,wd=wd1,io=max,el=4,in=1\n", Engine({"read": 600, "write": 200}))
    (found,) = result_of(read_all([tmp_path / "output"])[0], "test").points
    # Two SDs with a worker each; the first of four intervals of a second does not count.
    assert (found.figures.iops, found.figures.mib_per_s, found.figures.operations) == (1600.0, 6.25, 4800)
    assert (found.figures.mean_us, found.kind_figures["read"].iops) == (450.0, 1200.0)
    assert found.figures.p99_us == pytest.approx(600, rel=0.001)
    assert present(found.imported).tool == "iocurve vdbench"


# ---- DiskSpd


def diskspd_files() -> tuple[str, str, Point]:
    """The text and the XML of 100 reads and 50 writes of 4 KiB in 10 s, and the point of the same workers."""
    target = TargetParameters(path="testfile1.dat", block_bytes=4096, write_percent=33)
    profile = Profile(time_spans=[TimeSpan(targets=[target], measure_latency=True)])
    kinds = {"read": did(100, 409_600, *[1.0] * 90, *[2.0] * 9, 8.0), "write": did(50, 204_800, *[1.5] * 50)}
    thread = stats(row(), kinds, [(10, 5)] * 10)
    results = [(SpanStats(10.0, ((thread,),)), BUSY)]
    workers = [one.replace(window_start_ns=0, window_end_ns=10 * 10**9) for one in thread.workers]
    own = synthetic.point(synthetic.plan([synthetic.worker_plan()]), *workers)
    text, xml = (write(profile, ONE_PROCESSOR, START, results) for write in (results_text, results_xml))
    return text, xml, own


def test_diskspd_xml_gives_the_values_of_our_own_result(tmp_path: Path) -> None:
    _, xml, own = diskspd_files()
    point = only(tmp_path, xml)
    for name in ("operations", "bytes", "iops", "mib_per_s", "min_us", "mean_us", "max_us"):
        assert getattr(point.figures, name) == pytest.approx(getattr(own.figures, name), abs=0.5), name
    for kind in ("read", "write"):
        found, expected = point.kind_figures[kind], own.kind_figures[kind]
        assert (found.operations, found.bytes, found.iops) == (expected.operations, expected.bytes, expected.iops)
        assert (found.p50_us, found.p99_us) == pytest.approx((expected.p50_us, expected.p99_us), rel=1e-3)
    matches("imports/diskspd_xml_gives_the_values_of_our_own", point.axes)


def test_diskspd_text_gives_the_values_of_its_xml(tmp_path: Path) -> None:
    from_text, from_xml = (only(tmp_path, one) for one in diskspd_files()[:2])
    assert from_text.axes == from_xml.axes
    for name in ("operations", "bytes", "iops", "mean_us", "p50_us", "p99_us"):
        assert getattr(from_text.figures, name) == getattr(from_xml.figures, name), name
    assert from_text.figures.mib_per_s == 0.06


# ---- elbencho and mdtest

MDTEST = data("mdtest/summary.txt")


def test_the_times_of_mdtest_are_no_rates_but_say_how_many_items_there_were(tmp_path: Path) -> None:
    head, _, _ = MDTEST.partition("SUMMARY")
    table = "   File stat  {0}  {0}  {0}  0.000\n   Tree removal  {1}  {1}  {1}  0.000\n\n"
    text = head + "SUMMARY rate (in ops/sec): (of 1 iterations)\n" + table.format("4000.000", "0.000")
    text += "SUMMARY time (in ms/op): (of 1 iterations)\n" + table.format("2.500", "3223.793") + "-- finished at x --\n"
    point = only(tmp_path, text)
    assert (point.name, point.figures.iops, point.figures.operations) == ("File stat", 4000, 10_000)
    assert present(point.imported).window_ns == 2_500_000_000


def test_the_table_of_old_versions_of_mdtest_has_rates(tmp_path: Path) -> None:
    text = MDTEST.replace("SUMMARY rate", "SUMMARY")
    assert imported(tmp_path, text).points == imported(tmp_path, MDTEST).points


# ---- names, damaged files


def test_loads_of_the_same_name_have_that_of_their_file(tmp_path: Path) -> None:
    result = imported(tmp_path, fio_document(), fio_document(), fio_document(fio_job("other")))
    assert [point.name for point in result.points] == ["file0: job", "file1: job", "other"]


def test_an_imported_load_cannot_be_repeated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    imported(tmp_path, fio_document()).write(tmp_path / "result.json")
    with pytest.raises(ResultError, match=r"job was imported from fio 3\.33: there is no plan"):
        run(["why", str(tmp_path / "result.json"), "--confirm"])
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("bins", [{"1": 10**30}, {"1e300": 5}, {"-7": 3}, {"100": -4}])
def test_impossible_bins_are_left_out_or_bounded(tmp_path: Path, bins: dict[str, int]) -> None:
    assert only(tmp_path, fio_document(fio_job(read=fio_kind(bins=bins)))).figures.p99_us == 103.936


def test_a_sequential_series_without_bytes_has_no_interval(tmp_path: Path) -> None:
    _, xml, _ = diskspd_files()
    buckets = "".join(f'<Bucket SampleMillisecond="{1000 * n}" Read="{10 + n % 2}" Write="5"/>' for n in range(1, 12))
    result = imported(tmp_path, xml.replace("</TestTimeSeconds>", f"</TestTimeSeconds><Iops>{buckets}</Iops>"))
    (point,) = result.points
    assert point.rate_interval("bytes_per_s").low is None
    assert present(point.imported).in_bytes
    assert "MiB/s" in page.html(read(result))


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(fio_document(), indent=1),
        *map(data, ("vdbench/flatfile.html", "vdbench/totals.html", "elbencho/phase.json", "elbencho/results.csv")),
        data("vdbench/histogram.html") + data("vdbench/totals.html"),
        MDTEST,
        *diskspd_files()[:2],
    ],
)
def test_a_truncated_file_is_read_or_refused(tmp_path: Path, text: str) -> None:
    refused = []
    for share in range(1, 20):
        try:
            result = imported(tmp_path, text[: len(text) * share // 20])
        except ResultError as error:
            refused.append(str(error))
        else:
            assert read(result).families
    assert refused
    assert all(str(tmp_path) in message for message in refused)

"""Outputs of other tools as results: the values that they state, and unknown where they state none."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from iocurve.analysis import read
from iocurve.cli.commands import run
from iocurve.errors import ResultError
from iocurve.imports.formats import read_all
from iocurve.imports.points import result_of
from iocurve.report import page
from iocurve.result.document import Point, Result

OPTIONS = {"rw": "randread", "bs": "8k", "iodepth": "16", "numjobs": "2"}


def fio_latency(scale: float = 1.0, *, with_bins: bool = False) -> dict[str, Any]:
    """1000 latencies; fio's bins of 100,352 and 2,007,040 ns hold them."""
    stated: dict[str, Any] = {
        "min": 90_000 * scale,
        "max": 2_010_000 * scale,
        "mean": 119_500.25 * scale,
        "stddev": 190_000.5 * scale,
        "N": 1000,
        "percentile": {"50.000000": 100_352 * scale, "99.000000": 103_936 * scale, "99.900000": 2_007_040 * scale},
    }
    return stated | ({"bins": {"100352": 990, "2007040": 10}} if with_bins else {})


def fio_kind(latency: dict[str, Any], *, operations: int = 1000) -> dict[str, Any]:
    return {
        "io_bytes": operations * 8192,
        "io_kbytes": operations * 8,
        "bw_bytes": operations * 4096,
        "bw": operations * 4,
        "iops": operations / 2,
        "runtime": 2000,
        "total_ios": operations,
        "lat_ns": {"min": 1, "max": 2, "mean": 1.5, "stddev": 0.5, "N": operations},
        "clat_ns": latency,
    }


def fio_job(name: str = "job", group: int = 0, *, options: dict[str, str] = OPTIONS, **changes: Any) -> dict[str, Any]:
    nothing = {"io_bytes": 0, "iops": 0.0, "runtime": 0, "total_ios": 0}
    job = {
        "jobname": name,
        "groupid": group,
        "error": 0,
        "job options": options,
        "read": fio_kind(fio_latency()),
        "write": nothing,
        "trim": nothing,
        "job_runtime": 4000,
        "usr_cpu": 1.0,
        "sys_cpu": 2.0,
    }
    return job | changes


def fio_document(*jobs: dict[str, Any], time_ms: int = 1_767_323_045_000) -> dict[str, Any]:
    return {
        "fio version": "fio-3.33",
        "timestamp_ms": time_ms,
        "global options": {"ioengine": "libaio", "filename": "/dev/sdb"},
        "jobs": list(jobs or [fio_job()]),
    }


def imported(directory: Path, *texts: str | dict[str, Any]) -> Result:
    """The result of the files with these texts."""
    paths = []
    for number, text in enumerate(texts):
        paths.append(directory / f"file{number}")
        paths[-1].write_text(text if isinstance(text, str) else json.dumps(text, indent=2))
    return result_of(read_all(paths)[0], "test")


def only(result: Result) -> Point:
    (point,) = result.points
    return point


def test_fio_json_gives_the_values_that_it_states(tmp_path: Path) -> None:
    result = imported(tmp_path, fio_document())
    point = only(result)
    assert point.figures.to_builtins() == {
        "operations": 1000,
        "bytes": 8_192_000,
        "errors": 0,
        "short": None,
        "iops": 500.0,
        "mib_per_s": 3.90625,
        "min_us": 90.0,
        "mean_us": 119.50025,
        "p50_us": 100.352,
        "p90_us": None,
        "p95_us": None,
        "p99_us": 103.936,
        "p99_9_us": 2007.04,
        "p99_99_us": None,
        "max_us": 2010.0,
        "iops_low": None,
        "iops_high": None,
        "cpu_us_per_operation": 120.0,
        "concurrency_achieved": 0.059750125,
        "limited_by": "unknown",
        "limited_by_confidence": "none",
    }
    assert point.axes == {"kind": "read", "order": "random", "block_bytes": 8192, "depth": 32}
    assert (point.name, point.family) == ("job", "8 KiB random reads by depth")
    assert (result.kind, result.host, result.target.address) == ("imported", None, "/dev/sdb")
    assert result.created.isoformat() == "2026-01-02T03:04:05+00:00"
    assert point.imported is not None
    assert (point.imported.tool, point.imported.workers, point.imported.window_ns) == ("fio 3.33", 2, 2 * 10**9)
    assert {note.code for note in result.notes} == {"imported", "fio_clat"}


def test_an_imported_result_is_read_again_as_it_was_written(tmp_path: Path) -> None:
    result = imported(tmp_path, fio_document())
    result.write(tmp_path / "result.json")
    assert Result.read(tmp_path / "result.json") == result
    (written,) = json.loads((tmp_path / "result.json").read_text())["points"]
    assert "plan" not in written
    assert "outcome" not in written
    assert (written["p90_us"], written["read"]["p99_us"]) == (None, 103.936)


def test_a_percentile_that_fio_does_not_state_comes_from_the_bins(tmp_path: Path) -> None:
    job = fio_job(read=fio_kind(fio_latency(with_bins=True)))
    point = only(imported(tmp_path, fio_document(job)))
    assert point.figures.p99_us == 103.936
    assert point.figures.p90_us == pytest.approx(100.352, rel=0.001)
    assert point.figures.p99_99_us == pytest.approx(2007.04, rel=0.002)


def test_several_jobs_have_percentiles_only_with_bins(tmp_path: Path) -> None:
    stated, binned = (
        only(imported(tmp_path, fio_document(*(fio_job(name, read=fio_kind(latency)) for name in "ab")))).figures
        for latency in (fio_latency(), fio_latency(with_bins=True))
    )
    assert (stated.operations, stated.iops, stated.mean_us) == (2000, 1000.0, 119.50025)
    assert (stated.p50_us, stated.min_us, stated.max_us) == (None, 90.0, 2010.0)
    assert binned.p50_us == pytest.approx(100.352, rel=0.001)


def test_percentiles_of_the_whole_latency_go_first(tmp_path: Path) -> None:
    kind = fio_kind(fio_latency()) | {"lat_ns": fio_latency(2)}
    result = imported(tmp_path, fio_document(fio_job(read=kind)))
    assert only(result).figures.p99_us == 207.872
    assert {note.code for note in result.notes} == {"imported"}


def test_groups_are_points_and_a_depth_series_is_a_curve(tmp_path: Path) -> None:
    jobs = [fio_job(f"d{depth}", depth, options=OPTIONS | {"iodepth": str(depth)}) for depth in (1, 2, 4)]
    result = imported(tmp_path, fio_document(*jobs))
    assert [point.axes["depth"] for point in result.points] == [2, 4, 8]
    (family,) = read(result).families
    assert family.is_depth
    assert [verdict.code for verdict in read(result).verdicts if verdict] == ["unknown"] * 3
    assert read(result).next_steps == ()


def test_a_synchronous_engine_has_depth_1(tmp_path: Path) -> None:
    job = fio_job(options=OPTIONS | {"ioengine": "psync"})
    assert only(imported(tmp_path, fio_document(job))).axes["depth"] == 2


def test_fio_2_has_microseconds_and_kibibytes(tmp_path: Path) -> None:
    read_part = {
        "io_bytes": 8000,
        "bw": 4000,
        "iops": 500.0,
        "runtime": 2000,
        "total_ios": 1000,
        "clat": {
            "min": 90,
            "max": 2010,
            "mean": 119.5,
            "stddev": 190.0,
            "percentile": {"50.000000": 100, "99.900000": 2008, "0.00": 0},
        },
    }
    job = {"jobname": "old", "groupid": 0, "error": 0, "read": read_part}
    result = imported(tmp_path, {"fio version": "fio-2.1.11", "jobs": [job]})
    found = only(result).figures
    assert (found.bytes, found.mib_per_s, found.mean_us, found.p50_us) == (8_192_000, 3.90625, 119.5, 100.0)
    assert (found.p99_us, found.cpu_us_per_operation) == (None, None)
    assert only(result).axes == {"kind": "read"}
    assert {"fio_no_options", "no_date"} <= {note.code for note in result.notes}


def test_text_before_the_json_is_passed_over(tmp_path: Path) -> None:
    text = "fio: note: both iodepth >= 1 and synchronous I/O engine\n" + json.dumps(fio_document(), indent=2)
    assert only(imported(tmp_path, text)).figures.iops == 500


def test_the_last_document_of_a_run_counts_and_each_appended_run(tmp_path: Path) -> None:
    half = fio_document(fio_job(read=fio_kind(fio_latency(), operations=400) | {"runtime": 1000}))
    whole = fio_document(time_ms=1_767_323_046_000)
    result = imported(tmp_path, f"{json.dumps(half)}\n{json.dumps(whole)}\n")
    assert only(result).figures.operations == 1000
    assert "snapshots" in {note.code for note in result.notes}
    later = fio_document(time_ms=1_767_323_048_000)
    assert len(imported(tmp_path, f"{json.dumps(whole)}\n{json.dumps(later)}\n").points) == 2


def test_a_truncated_document_is_an_error_with_its_line(tmp_path: Path) -> None:
    text = json.dumps(fio_document(), indent=2)
    with pytest.raises(ResultError, match="damaged or truncated"):
        imported(tmp_path, text[: len(text) // 2])
    found = imported(tmp_path, f"{text}\n{text[: len(text) // 2]}")
    assert only(found).figures.operations == 1000
    assert "truncated" in {note.code for note in found.notes}


def test_logs_next_to_the_json_become_the_series(tmp_path: Path) -> None:
    options = OPTIONS | {"numjobs": "1", "write_iops_log": "log/a", "write_lat_log": "log/a", "log_avg_msec": "500"}
    (tmp_path / "a_iops.1.log").write_text("".join(f"{500 * n}, {480 + n}, 0, 0, 0\n" for n in range(1, 5)))
    (tmp_path / "a_lat.1.log").write_text("".join(f"{500 * n}, {100_000 * n}, 0, 0, 0\n" for n in range(1, 5)))
    point = only(imported(tmp_path, fio_document(fio_job(options=options))))
    series = [(part.start_ns, part.iops, part.mean_ns) for part in point.series()]
    assert series == [(n * 5 * 10**8, 481.0 + n, 100_000.0 * (n + 1)) for n in range(4)]


def test_the_report_of_an_import_says_what_is_not_known(tmp_path: Path) -> None:
    result = imported(tmp_path, fio_document())
    text = page.html(read(result))
    assert "nothing is known about the machine" in text
    assert "imported from fio 3.33" in text
    (row,) = csv.DictReader(page.points_csv(read(result)).splitlines())
    assert (row["iops"], row["p90_us"], row["limited_by"]) == ("500.0", "", "unknown")


def test_the_command_writes_a_result_and_names_files_that_it_leaves_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = tmp_path / "runs"
    runs.mkdir()
    (runs / "a.txt").write_text(json.dumps(fio_document()))
    (runs / "notes.md").write_text("nothing")
    assert run(["import", str(runs), "--out", str(tmp_path / "out")]) == 0
    assert Result.read(tmp_path / "out/result.json").points[0].figures.iops == 500
    printed = capsys.readouterr()
    assert "cannot tell" in printed.out
    assert f"left out {runs / 'notes.md'}" in printed.err


@pytest.mark.parametrize("text", ["", "{}", '{"schema_version": 4}', "hello\n", "\0\1\2"])
def test_a_file_of_no_known_format_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(ResultError, match="not an output that iocurve reads; looked for fio JSON"):
        imported(tmp_path, text)

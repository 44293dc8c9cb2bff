"""fio's log files: exact lines from SYNTHETIC records, and the form that fio itself writes."""

from __future__ import annotations

import base64
import shutil
import struct
import subprocess
from pathlib import Path
from typing import Any

import pytest

from data import synthetic
from iocurve._native import Histogram
from iocurve.dialects.fio.output import logs
from iocurve.engine.outcome import LogOutcome, WorkerOutcome
from test_fio_output import fio, measured

MS = 1_000_000


def packed(figures: list[Any], figure: str = "Q") -> str:
    return base64.b64encode(struct.pack(f"<{len(figures)}{figure}", *figures)).decode()


def log_of(
    rows: list[tuple[int, str, int, float, int]], *, window_ns: int | None = None, histograms: tuple[str, ...] = ()
) -> LogOutcome:
    """Rows of: nanoseconds, kind, bytes, latency, offset (or operations, with windows)."""
    kinds = ("read", "write", "fsync")
    return LogOutcome(
        window_ns=window_ns,
        records=len(rows),
        lost=0,
        kinds=kinds,
        at_ns=packed([row[0] for row in rows]),
        kind=base64.b64encode(bytes(kinds.index(row[1]) for row in rows)).decode(),
        bytes=packed([row[2] for row in rows]),
        service_ns=packed([row[3] for row in rows], "d"),
        response_ns="",
        offset=packed([row[4] for row in rows]) if window_ns is None else "",
        operations=packed([row[4] for row in rows]) if window_ns else "",
        service_ns_max=packed([int(row[3]) * 2 for row in rows]) if window_ns else "",
        histograms=histograms,
    )


def worker(log: LogOutcome, number: int = 0) -> WorkerOutcome:
    """A window of 250 ms that begins at 1 s."""
    made = synthetic.worker_outcome({"read": synthetic.kind({1000: 1}, 4096)}, number=number)
    return made.replace(log=log, window_start_ns=1000 * MS, window_end_ns=1250 * MS)


def written(options: str, *workers: WorkerOutcome) -> dict[str, list[str]]:
    prepared = fio(f"--name=a --size=1m {options}")
    return {path.name: path.read_text().splitlines() for path in logs.write(prepared, measured(prepared, *workers))}


@pytest.fixture(autouse=True)
def _in_a_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


EACH = [(1003 * MS, "read", 4096, 2048.0, 8192), (1007 * MS, "write", 8192, 4e6, 0), (1008 * MS, "fsync", 0, 9.0, 0)]


def test_a_line_for_each_operation() -> None:
    files = written("--write_bw_log=x --write_iops_log=y --write_lat_log", worker(log_of(EACH)))
    assert files == {
        "x_bw.1.log": ["3, 2000000, 0, 4096, 0", "7, 2048, 1, 8192, 0"],
        "y_iops.1.log": ["3, 1, 0, 4096, 0", "7, 1, 1, 8192, 0"],
        "a_slat.1.log": [],
        "a_lat.1.log": ["3, 2048, 0, 4096, 0", "7, 4000000, 1, 8192, 0"],
        "a_clat.1.log": ["3, 2048, 0, 4096, 0", "7, 4000000, 1, 8192, 0"],
    }


def test_offsets_stand_before_the_priority() -> None:
    files = written("--write_lat_log=x --log_offset=1", worker(log_of(EACH)))
    assert files["x_lat.1.log"] == ["3, 2048, 0, 4096, 8192, 0", "7, 4000000, 1, 8192, 0, 0"]


def test_jobs_have_logs_of_their_own_or_share_one() -> None:
    members = (worker(log_of(EACH[:1])), worker(log_of(EACH[1:]), number=1))
    assert list(written("--numjobs=2 --write_iops_log=x", *members)) == ["x_iops.1.log", "x_iops.2.log"]
    shared = written("--numjobs=2 --write_iops_log=x --per_job_logs=0", *members)
    assert shared == {"x_iops.log": ["3, 1, 0, 4096, 0", "7, 1, 1, 8192, 0"]}


WINDOWS = [
    (1000 * MS, "read", 40_960, 1000.0, 10),
    (1000 * MS, "write", 4096, 7000.0, 1),
    (1050 * MS, "read", 122_880, 2000.0, 30),
    (1200 * MS, "read", 51_200, 500.0, 5),
]


@pytest.mark.parametrize(
    ("option", "prefix"), [("--write_bw_log", "a"), ("--write_bw_log=1", "1"), ("--write_bw_log=x", "x")]
)
def test_a_log_without_a_prefix_has_the_name_of_the_job(option: str, prefix: str) -> None:
    assert list(written(option, worker(log_of(EACH)))) == [f"{prefix}_bw.1.log"]


def test_windows_are_added_up_and_a_part_at_the_end_has_latencies_only() -> None:
    options = "--write_bw_log=x --write_iops_log=x --write_lat_log=x --log_avg_msec=100"
    files = written(options, worker(log_of(WINDOWS, window_ns=50 * MS)))
    assert files["x_iops.1.log"] == ["100, 400, 0, 0, 0", "100, 10, 1, 0, 0"]
    assert files["x_bw.1.log"] == ["100, 1600, 0, 0, 0", "100, 40, 1, 0, 0"]
    assert files["x_lat.1.log"] == ["100, 1750, 0, 0, 0", "100, 7000, 1, 0, 0", "250, 500, 0, 0, 0"]


def test_histograms_have_fios_bins_coarser_on_request() -> None:
    histogram = Histogram()
    for value in (5, 5, 130):
        histogram.record(value)
    log = log_of([(1000 * MS, "read", 12288, 46.7, 3)], window_ns=100 * MS, histograms=(histogram.encode(),))
    options = "--write_hist_log=x --log_hist_msec=100"
    [line] = written(options, worker(log))["x_clat_hist.1.log"]
    cells = line.split(", ")
    assert cells[:3] == ["100", "0", "0"]
    assert len(cells) == 3 + 1856
    assert {place: cell for place, cell in enumerate(cells[3:]) if cell != "0"} == {5: "2", 129: "1"}
    [line] = written(f"{options} --log_hist_coarseness=4", worker(log))["x_clat_hist.1.log"]
    assert {place: cell for place, cell in enumerate(line.split(", ")[3:]) if cell != "0"} == {0: "2", 8: "1"}


def test_latency_logs_are_of_slat_and_clat_where_it_was_taken_apart() -> None:
    parts = {"submission_ns": packed([48.0, 1e6, 1.0], "d")}
    lines = written("--write_lat_log=x", worker(log_of(EACH).replace(**parts)))
    values = {name: [line.split(", ")[1] for line in lines[f"x_{name}.1.log"]] for name in ("lat", "slat", "clat")}
    assert values == {"lat": ["2048", "4000000"], "slat": ["48", "1000000"], "clat": ["2000", "3000000"]}


def test_windows_have_the_largest_of_each_part() -> None:
    window_ns = 100 * MS
    log = log_of([(1000 * MS, "read", 4096, 70.0, 2)], window_ns=window_ns)
    parts = {
        "submission_ns": packed([20.0], "d"),
        "submission_ns_max": packed([30]),
        "completion_ns_max": packed([60]),
    }
    options = "--write_lat_log=x --log_avg_msec=100 --log_window_value=both"
    lines = written(options, worker(log.replace(**parts)))
    values = {name: lines[f"x_{name}.1.log"][0].split(", ")[1:3] for name in ("lat", "slat", "clat")}
    assert values == {"lat": ["70", "140"], "slat": ["20", "30"], "clat": ["50", "60"]}


def test_there_is_no_slat_log_where_slat_is_not_wanted() -> None:
    for option, names in (
        ("", {"lat", "slat", "clat"}),
        ("--disable_slat=1", {"lat", "clat"}),
        ("--disable_lat=1", {"slat", "clat"}),
        ("--disable_clat=1", {"lat", "slat"}),
    ):
        files = written(f"--write_lat_log=x {option}", worker(log_of(EACH)))
        assert set(files) == {f"x_{name}.1.log" for name in names}


@pytest.mark.skipif(shutil.which("fio") is None, reason="needs Debian's fio")
def test_names_and_columns_are_those_of_fio(tmp_path: Path) -> None:
    options = (
        "--write_bw_log=x --write_iops_log=x --write_lat_log=x --write_hist_log=x --log_hist_msec=1 --log_offset=1"
    )
    # Long enough for a histogram.
    command = ["fio", "--name=a", "--size=1m", "--thinktime=1000", "--thinktime_blocks=8", *options.split()]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    theirs = {path.name: path.read_text().splitlines() for path in tmp_path.glob("*.log")}
    ours = written(options, worker(log_of(EACH[:1])))
    assert set(theirs) == set(ours)
    assert (theirs.pop("x_slat.1.log"), ours.pop("x_slat.1.log")) == ([], [])
    for name, [line] in ours.items():
        assert len(line.split(", ")) == len(theirs[name][0].rstrip(", ").split(", ")), name

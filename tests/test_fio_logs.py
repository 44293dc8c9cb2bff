"""fio's logs, terse lines and traces: exact lines from SYNTHETIC records, and what of a trace is replayed."""

import base64
import json
import shutil
import struct
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from data import synthetic
from goldens import Golden, cases, data, matches
from iocurve._native import Histogram
from iocurve.dialects.fio.command import prepare, read_command
from iocurve.dialects.fio.job import FioCommand
from iocurve.dialects.fio.output import logs
from iocurve.dialects.fio.output.formats import render, render_json, render_terse
from iocurve.dialects.fio.output.job_stats import BINS, bin_index, bin_middle_ns
from iocurve.dialects.fio.read.draft import Deferred
from iocurve.dialects.fio.read.iolog import read
from iocurve.engine import plan
from iocurve.engine.outcome import LogOutcome, WorkerOutcome
from iocurve.foundation.errors import DialectError, PlanError
from iocurve.job.explain import load_text
from programs import FIO, completed, status_of
from test_fio_output import GROUPED, fio, fio_job, jobs_of, measured

MS = 1_000_000


def packed(figures: list[Any], figure: str = "Q") -> str:
    return base64.b64encode(struct.pack(f"<{len(figures)}{figure}", *figures)).decode()


def log_of(
    rows: list[tuple[int, str, int, float, int]], *, window_ns: int | None = None, histograms: tuple[str, ...] = ()
) -> LogOutcome:
    """Rows of: nanoseconds, kind, bytes, latency, offset (or operations, with windows)."""
    kinds = ("read", "write", "fsync")
    at_ns, kind, size, service_ns, last = (list(column) for column in zip(*rows, strict=True))
    return LogOutcome(
        window_ns=window_ns,
        records=len(rows),
        lost=0,
        kinds=kinds,
        at_ns=packed(at_ns),
        kind=packed([kinds.index(name) for name in kind], "B"),
        bytes=packed(size),
        service_ns=packed(service_ns, "d"),
        response_ns="",
        offset=packed(last) if window_ns is None else "",
        operations=packed(last) if window_ns else "",
        service_ns_max=packed([int(value) * 2 for value in service_ns]) if window_ns else "",
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


@cases("fio/logs")
def test_logs_have_a_line_for_each_operation(options: str, golden: Golden) -> None:
    golden.check(written(options, worker(log_of(EACH))))


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
    parts = {"submission_ns": packed([20.0], "d"), "submission_ns_max": packed([30]), "completion_ns_max": packed([60])}
    options = "--write_lat_log=x --log_avg_msec=100 --log_window_value=both"
    lines = written(options, worker(log.replace(**parts)))
    values = {name: lines[f"x_{name}.1.log"][0].split(", ")[1:3] for name in ("lat", "slat", "clat")}
    assert values == {"lat": ["70", "140"], "slat": ["20", "30"], "clat": ["50", "60"]}


@pytest.mark.skipif(shutil.which("fio") is None, reason="needs Debian's fio")
def test_names_and_columns_are_those_of_fio(tmp_path: Path) -> None:
    options = (
        "--write_bw_log=x --write_iops_log=x --write_lat_log=x --write_hist_log=x --log_hist_msec=1 --log_offset=1"
    )
    # Long enough for a histogram.
    command = [*FIO, "--name=a", "--size=1m", "--thinktime=1000", "--thinktime_blocks=8", *options.split()]
    assert completed(command, cwd=tmp_path).returncode == 0
    theirs = {path.name: path.read_text().splitlines() for path in tmp_path.glob("*.log")}
    ours = written(options, worker(log_of(EACH[:1])))
    assert set(theirs) == set(ours)
    assert (theirs.pop("x_slat.1.log"), ours.pop("x_slat.1.log")) == ([], [])
    for name, [line] in ours.items():
        assert len(line.split(", ")) == len(theirs[name][0].rstrip(", ").split(", ")), name


# ---- terse lines and latency bins


def terse(prepared: FioCommand) -> list[str]:
    [line] = render_terse(prepared, measured(prepared, fio_job(0), fio_job(1))).splitlines()
    return line.split(";")


def test_the_fields_of_version_3() -> None:
    # Latencies below a microsecond count in the first range.
    matches("fio#fields version 3", terse(fio(GROUPED)))


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("fio") is None, reason="needs Debian's fio")
@pytest.mark.parametrize("version", [2, 3, 4, 5])
def test_as_many_fields_as_fio_writes(version: int, tmp_path: Path) -> None:
    options = f"{GROUPED} --terse-version={version} --output-format=terse"
    done = completed([*FIO, *options.replace("--runtime=2", "--runtime=1 --rate_iops=1000").split()], cwd=tmp_path)
    theirs, ours = done.stdout.strip().split(";"), terse(fio(options))
    # A disk under the directory has nine more.
    assert len(theirs) - len(ours) in {0, 9}
    assert (ours[0], ours[-1]) == (theirs[0], theirs[-1])


def test_formats_follow_one_another_as_asked() -> None:
    prepared = fio(f"{GROUPED} --output-format=terse,normal")
    text = render(prepared, measured(prepared, fio_job(0), fio_job(1)))
    assert text.startswith("3;fio-3.33;a;0;0;6400;")
    assert text.count("\na: (g=0): rw=randrw") == 1
    assert fio(f"{GROUPED} --minimal").output.formats == ("terse",)
    assert fio(f"{GROUPED} --append-terse").output.formats == ("normal", "terse")


def test_json_plus_has_the_bins_of_the_latencies() -> None:
    prepared = fio(GROUPED)
    document = json.loads(render_json(prepared, measured(prepared, fio_job(0, report_group=0)), with_bins=True))
    read = document["jobs"][0]["read"]
    assert read["clat_ns"]["bins"] == {"151": 100, "1496": 300, "89600": 300, "2998272": 99, "2499805184": 1}
    assert "bins" not in read["lat_ns"]
    assert "bins" not in jobs_of(prepared, fio_job(0))[0]["read"]["clat_ns"]


@cases("fio/bins_and_their_middles")
def test_bins_and_their_middles(value_ns: int, number: int, middle_ns: int) -> None:
    assert (bin_index(value_ns), bin_middle_ns(number)) == (number, middle_ns)


@given(st.integers(0, BINS - 1))
def test_the_middle_of_a_bin_is_in_it(number: int) -> None:
    assert bin_index(bin_middle_ns(number)) == number


@given(st.integers(0, 2**64))
def test_a_bin_is_a_64th_of_a_power_of_two_wide_at_most(value_ns: int) -> None:
    middle = bin_middle_ns(bin_index(min(value_ns, 2**34)))
    assert abs(middle - min(value_ns, 2**34)) <= middle / 64


def test_syncs_are_reported_on_their_own() -> None:
    prepared = fio("--name=a --size=1m --rw=write --output-format=json,normal")
    latencies = {
        "write": {20_000: 200},
        "fsync": {150_000: 60},
        "fdatasync": {200_000: 3},
        "fsync_at_end": {900_000: 1},
    }
    kinds = {name: synthetic.kind(values, 4096 * (name == "write")) for name, values in latencies.items()}
    worker = synthetic.worker_outcome(kinds)
    [job] = jobs_of(prepared, worker)
    sync = job["sync"]
    assert (sync["total_ios"], sync["lat_ns"]["N"], sync["lat_ns"]["max"]) == (60, 63, 200_000)
    assert job["write"]["total_ios"] == 200
    text = render(prepared, measured(prepared, worker))
    assert "  fsync/fdatasync/sync_file_range:\n    sync (usec): min=150, max=200" in text
    assert "issued rwts: total=0,200,0,60 short=0,0,0,0 dropped=0,0,0,0" in text


def test_all_directions_as_one() -> None:
    prepared = fio(f"{GROUPED} --unified_rw_reporting=1 --output-format=json,normal")
    [job] = jobs_of(prepared, fio_job(0), fio_job(1))
    assert not {"read", "write", "trim"} & set(job)
    assert (job["mixed"]["total_ios"], job["mixed"]["iops"], job["mixed"]["bw_mean"]) == (2000, 1000.0, 4000.0)
    text = render(prepared, measured(prepared, fio_job(0), fio_job(1)))
    assert "  mixed: IOPS=1000, BW=4000KiB/s (4096kB/s)(8000KiB/2000msec)" in text
    assert "  MIXED: bw=4000KiB/s" in text
    assert "READ: bw=" not in text
    assert len(terse(prepared)) == len(terse(fio(GROUPED))) - 41


def test_all_directions_as_one_and_apart() -> None:
    [job] = jobs_of(fio(f"{GROUPED} --unified_rw_reporting=both"), fio_job(0), fio_job(1))
    totals = {kind: job[kind]["total_ios"] for kind in ("read", "write", "trim", "mixed")}
    assert totals == {"read": 1600, "write": 400, "trim": 0, "mixed": 2000}


# ---- traces

VERSION_2, VERSION_3 = data("fio/iolog_2.log"), data("fio/iolog_3.log")


def records(text: str, tmp_path: Path, options: Deferred | None = None) -> list[tuple[int, ...]]:
    """Due time in ms, offset, bytes, file, kind."""
    (tmp_path / "trace").write_text(text)
    packed = Path(read(tmp_path / "trace", options or Deferred()).path).read_bytes()
    return [(row[0] // MS, *row[1:]) for row in struct.iter_unpack("<QQIIIxxxx", packed)]


def test_version_2_waits_until_times_and_version_3_keeps_distances_also_where_time_goes_back(tmp_path: Path) -> None:
    """The first record of version 3 has no distance: the time before it is 0."""
    matches("fio#version 2 waits", records(VERSION_2, tmp_path))
    matches("fio#version 3 keeps", records(VERSION_3, tmp_path))


@cases("fio/replayed")
def test_a_trace_is_replayed_as_it_is_said(options: dict[str, Any], expected: list[list[int]], tmp_path: Path) -> None:
    said = msgspec.convert(options, Deferred)
    assert [[row[0], row[1], row[4]] for row in records(VERSION_3, tmp_path, said)] == expected


def test_lines_that_mean_nothing_are_counted(tmp_path: Path) -> None:
    (tmp_path / "trace").write_text(f"{VERSION_2}a jump 0 1\n\nc read 0 1\na read x 1\na read 0\na read 0 0\na what\n")
    trace = read(tmp_path / "trace", Deferred())
    assert (trace.records, trace.skipped_lines, trace.first_skipped_line) == (5, 7, 13)


def test_the_plan_has_the_kinds_sizes_and_files_of_the_trace(tmp_path: Path) -> None:
    worker = prepared(VERSION_2, "--numjobs=2 --size=1m --fsync=4", tmp_path).plan.groups[0].workers[1]
    assert [(file.path, file.bytes, file.layout) for file in worker.files] == [
        (f"{tmp_path}/a", 73728, "create"),
        (f"{tmp_path}/b", 73728, "create"),
    ]
    assert [operation.kind for operation in worker.operations] == ["read", "write", "fsync", "fdatasync"]
    parts = (plan.BlockShare(bytes=4096, weight=1), plan.BlockShare(bytes=8192, weight=1))
    assert worker.operations[1].blocks == plan.BlockSplit(parts=parts)
    assert load_text(worker) == "5 operations of a trace (reads, writes, fsyncs, fdatasyncs), at the recorded times"
    assert worker.replay is not None
    assert (worker.replay.records, worker.replay.paced, worker.end.operations, worker.syncs) == (5, True, 5, ())


def prepared(text: str, options: str, tmp_path: Path) -> FioCommand:
    (tmp_path / "trace").write_text(text)
    return read_command(["--name=r", "--read_iolog=trace", *options.split()], cwd=tmp_path, environment={})


@cases("fio/iolog_errors")
def test_what_cannot_be_replayed_is_told(text: str, options: str, error: str, tmp_path: Path) -> None:
    with pytest.raises(DialectError) as caught:
        prepared(text, options, tmp_path)
    assert error in str(caught.value)


def test_a_replay_is_no_job_file(tmp_path: Path) -> None:
    (tmp_path / "trace").write_text(VERSION_2)
    with pytest.raises(PlanError, match="a replayed trace"):
        prepare(["--name=r", "--read_iolog=trace"], cwd=tmp_path).jobs()


def test_options_of_a_replay_need_one(tmp_path: Path) -> None:
    notes = read_command(["--name=a", "--size=1m", "--replay_scale=2"], cwd=tmp_path, environment={}).notes
    assert "replay_scale has no effect without read_iolog" in [note.text for note in notes]


@pytest.mark.parametrize("options", ["--rw=write --size=12k", "--rw=read --size=16k --nrfiles=2 --numjobs=2"])
def test_a_trace_that_was_written_has_every_operation(options: str, tmp_path: Path) -> None:
    assert status_of("fio", "--name=a", *options.split(), "--write_iolog=x", "--eta=never", "--output=out") == 0
    lines = (tmp_path / "x").read_text().splitlines()
    count, kind, blocks = (2, "read", 2) if "numjobs" in options else (1, "write", 3)
    names = [f"a.{jobnum}.{file}" for jobnum in range(count) for file in range(count)]
    expected = [f"{name} {kind} {4096 * block} 4096" for name in names for block in range(blocks)]
    expected += [f"{name} {action}" for name in names for action in ("add", "open", "close")]
    assert sorted(line.split(maxsplit=1)[1] for line in lines if not line.startswith("fio")) == sorted(expected)


def test_a_trace_has_no_flushes() -> None:
    with pytest.raises(DialectError, match="write_iolog is not supported yet with fsync"):
        read_command(["--name=a", "--size=1m", "--rw=write", "--fsync=1", "--write_iolog=x"])

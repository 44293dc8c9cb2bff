"""fio-shaped output: exact figures from a SYNTHETIC outcome, and the same keys as fio itself."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from data import synthetic
from fio_machine import HeldMachine
from goldens import cases, data, expected, matches
from iocurve.dialects.fio.command import read_command
from iocurve.dialects.fio.job import FioCommand
from iocurve.dialects.fio.output.disk_util import DiskWatch
from iocurve.dialects.fio.output.formats import render, render_json
from iocurve.dialects.fio.output.normal import scaled
from iocurve.engine.outcome import CpuTime, FailureOutcome, SteadyOutcome, WorkerOutcome
from iocurve.result.document import Result
from programs import completed

SECOND = 1_000_000_000
MACHINE = HeldMachine(directories=frozenset({"/d"}))


def fio(arguments: str) -> FioCommand:
    return read_command(arguments.split(), cwd=Path("/d"), environment={}, machine=MACHINE)


def measured(prepared: FioCommand, *workers: WorkerOutcome) -> Result:
    point = synthetic.point(prepared.plan, *workers, name="fio", family="fio")
    return synthetic.result([point], kind="fio")


def jobs_of(prepared: FioCommand, *workers: WorkerOutcome) -> list[dict[str, Any]]:
    """The jobs of fio's JSON."""
    found: list[dict[str, Any]] = json.loads(render_json(prepared, measured(prepared, *workers)))["jobs"]
    return found


def fio_job(number: int, *, report_group: int = 0, **more: Any) -> WorkerOutcome:
    """800 reads and 200 writes of 4 KiB in two seconds."""
    reads = {150: 100, 1_500: 300, 90_000: 300, 3_000_000: 99, 2_500_000_000: 1}
    intervals = synthetic.intervals([{"read": 500, "write": 100}, {"read": 300, "write": 100}])
    worker = synthetic.worker_outcome(
        {"read": synthetic.kind(reads, 4096), "write": synthetic.kind({20_000: 200}, 4096)},
        number=number,
        job="a",
        window_ns=(0, 2 * SECOND),
        intervals=intervals,
        cpu=CpuTime(user_ns=SECOND // 2, system_ns=SECOND, context_switches=11),
        report_group=report_group,
        engine="Linux native AIO",
        **more,
    )
    levels = {"submit_levels": {"4": 100, "8": 300}, "complete_levels": {"0": 50, "8": 350}}
    return worker.replace(**({"depth_levels": {"1": 100, "8": 300}} | levels))


GROUPED = (
    "--name=a --size=1m --rw=randrw --rwmixread=80 --ioengine=libaio --direct=1 --iodepth=8 --numjobs=2 --runtime=2 "
    "--time_based --group_reporting --description=mixed --percentile_list=50:99.9"
)


def grouped_json() -> dict[str, Any]:
    prepared = fio(GROUPED)
    document: dict[str, Any] = json.loads(render_json(prepared, measured(prepared, fio_job(0), fio_job(1))))
    return document


def test_a_group_is_one_entry_with_merged_figures() -> None:
    matches("fio_output/a_group_is_one_entry_with_merged_figures", grouped_json())


def test_options_are_as_written_and_always_name_direction_and_depth() -> None:
    matches("fio_output/options_are_as_written_and_always_name", grouped_json()["jobs"][0]["job options"])
    (job,) = jobs_of(fio("--size=1m --name=a"), fio_job(0))
    assert job["job options"] == {"rw": "read", "iodepth": "1", "name": "a"}


def test_latency_is_slat_and_clat_where_it_was_taken_apart() -> None:
    options = "--name=a --size=1m --ioengine=libaio --slat_percentiles=1 --percentile_list=50"
    prepared = fio(f"{options} --output-format=normal,terse")
    # Ten reads of 5 us, of which 2 us is submission latency.
    kinds = {"read": synthetic.kind({5_000: 10}, 4096, parts=({2_000: 10}, {3_000: 10}))}
    result = measured(prepared, synthetic.worker_outcome(kinds, engine="Linux native AIO"))
    [job] = json.loads(render_json(prepared, result))["jobs"]
    latencies = {name: (job["read"][name]["mean"], job["read"][name]["N"]) for name in ("slat_ns", "clat_ns", "lat_ns")}
    assert latencies == {"slat_ns": (2_000.0, 10), "clat_ns": (3_000.0, 10), "lat_ns": (5_000.0, 10)}
    assert job["read"]["slat_ns"]["percentile"] == {"50.000000": 2_000}
    assert job["read"]["clat_ns"]["percentile"] == {"50.000000": 3_000}
    assert {name: share for name, share in job["latency_us"].items() if share} == {"4": 100.0}
    lines = render(prepared, result).splitlines()
    start = lines.index("    slat (nsec): min=2000, max=2000, avg=2000.00, stdev=0.00")
    matches("fio_output/latency_is_slat_and_clat_where_it_was_taken", lines[start + 1 : start + 7])
    terse = lines[-1].split(";")
    assert (terse[9:13], terse[13:17]) == (["2", "2", "2.000000", "0.000000"], ["3", "3", "3.000000", "0.000000"])


def test_without_group_reporting_each_job_is_an_entry() -> None:
    words = "--name=a --size=1m --numjobs=2 --name=b --size=1m --stonewall --lat_percentiles=1 --clat_percentiles=0"
    jobs = jobs_of(fio(words), fio_job(0), fio_job(1, report_group=1), fio_job(0, report_group=2, group=1))
    assert [(job["jobname"], job["groupid"]) for job in jobs] == [("a", 0), ("a", 0), ("b", 1)]
    assert jobs[0]["read"]["bw_agg"] == 50.0
    read = jobs[2]["read"]
    assert ["percentile" in read[name] for name in ("lat_ns", "clat_ns")] == [True, False]


def test_a_share_of_a_group_whose_jobs_end_at_different_times_is_of_its_bandwidth_as_in_fio() -> None:
    """The mean of a job over the bytes of all jobs in the time in which one of them ran."""
    workers = [fio_job(0), fio_job(1, report_group=1).replace(window_end_ns=3 * SECOND)]
    assert jobs_of(fio("--name=a --size=1m --numjobs=2"), *workers)[0]["read"]["bw_agg"] == pytest.approx(75.0)


def test_response_under_a_rate_and_errors_are_ours() -> None:
    paced = {"read": synthetic.kind({1_000: 10}, 4096, response={5_000: 10})}
    labels = ("payload_discarded",)
    worker = synthetic.worker_outcome(paced, state="failed", error="server gone", labels=labels)
    (job,) = jobs_of(fio("--name=a --size=1m --rate_iops=10"), worker)
    own = job["iocurve"]
    assert (job["error"], own["errors"], own["labels"]) == (5, ["server gone"], [*labels])
    assert (own["response_ns"]["read"]["max"], job["read"]["lat_ns"]["max"]) == (5_000, 1_000)


@cases("fio/the_first_error_is_told")
def test_the_first_error_is_told_by_its_number(number: int, words: str) -> None:
    prepared = fio("--name=a --size=1m --numjobs=3 --group_reporting --output-format=normal,terse,json")
    failed = [fio_job(1, state="failed", error="differs"), fio_job(2, state="failed", error="later")]
    numbered = [worker.replace(errno=code) for worker, code in zip(failed, (number, 28), strict=True)]
    text = render(prepared, measured(prepared, fio_job(0), *numbered))
    assert f"a: (groupid=0, jobs=3): {words}" in text
    assert f"\n3;fio-3.33;a;0;{number};" in text
    assert json.loads(text[text.index("\n{") :])["jobs"][0]["error"] == number


@cases("fio/counted_errors")
def test_counted_errors_have_fios_line(options: str, counted: int, line: str | None) -> None:
    prepared = fio(f"--name=a --size=1m --rw=randrw --ioengine=libaio --direct=1 {options}")
    failure = FailureOutcome(kind="read", path="/d/a", errno=5, error="Input/output error", count=counted)
    worker = fio_job(0).replace(failures=(failure,) if counted else ())
    text = render(prepared, measured(prepared, worker)).splitlines()
    found = [number for number, one in enumerate(text) if one.lstrip().startswith("errors  ")]
    assert [text[number] for number in found] == ([line] if line else [])
    assert all(text[number - 1].startswith("     issued rwts") for number in found)


def test_nothing_measured_is_zeros_not_a_crash() -> None:
    prepared = fio("--name=a --size=1m --output-format=json,normal")
    worker = synthetic.worker_outcome({"read": synthetic.kind({}, 4096)}, state="interrupted", window_ns=(0, 0))
    text = render(prepared, measured(prepared, worker))
    assert json.loads(text[: text.index("}\na: (g=0)") + 1])["jobs"][0]["read"]["iops"] == 0.0


def test_normal_output() -> None:
    prepared = fio(GROUPED)
    text = render(prepared, measured(prepared, fio_job(0), fio_job(1)))
    expected("fio/normal", "\n".join(line for line in text.splitlines() if "err= 0" not in line) + "\n")


@cases("fio/shortened")
def test_numbers_as_fio_shortens_them(value: float, base: int, text: str) -> None:
    assert scaled(value, base) == text


@pytest.mark.skipif(shutil.which("fio") is None, reason="needs Debian's fio")
def test_keys_are_those_of_fio(tmp_path: Path) -> None:
    arguments = GROUPED.replace("--runtime=2", "--runtime=1 --rate_iops=1000").split()
    done = completed(["fio", *arguments, "--lat_percentiles=1", "--output-format=json"], cwd=tmp_path)
    theirs = json.loads(done.stdout[done.stdout.index("{") :])
    prepared = fio(f"{GROUPED} --lat_percentiles=1")
    ours = json.loads(render_json(prepared, measured(prepared, fio_job(0), fio_job(1))))
    # The synthetic result is of no disk.
    assert keys(theirs) - keys(ours) <= {".disk_util"}
    assert {key for key in keys(ours) - keys(theirs) if "iocurve" not in key and "global options" not in key} == set()
    # Of what scripts read: whole numbers stay whole.
    types, of_ours = ({name: type(value) for name, value in one["jobs"][0]["read"].items()} for one in (theirs, ours))
    assert types == of_ours


def keys(document: Any, path: str = "") -> set[str]:
    """All keys below, with their paths; what depends on the machine or is the user's own is left out."""
    if isinstance(document, list):
        return {key for item in document for key in keys(item, path)}
    if not isinstance(document, dict) or path.endswith(("disk_util", "job options")):
        return set()
    return {f"{path}.{key}" for key in document} | {
        key for name, value in document.items() for key in keys(value, f"{path}.{name}")
    }


def test_a_steady_state_is_told_as_fio_tells_it() -> None:
    prepared = fio("--name=a --size=1m --ss=iops_slope:0.3% --ss_dur=2 --time_based --runtime=9")
    worker = fio_job(0).replace(steady_state=SteadyOutcome.from_json(data("fio/steady_state.json")))
    matches("fio_output/a_steady_state_is_told_as_fio_tells", jobs_of(prepared, worker)[0]["steadystate"])
    line = "  steadystate  : attained=yes, bw=1608KiB/s (1647kB/s), iops=402, iops slope=0.125%"
    assert line in render(prepared, measured(prepared, worker)).splitlines()


def test_writing_and_reading_back_have_times_of_their_own() -> None:
    """As in fio: one second of two was for writing, the other for what was read back."""
    worker = fio_job(0).replace(read_back_ns=SECOND)
    [job] = jobs_of(fio("--name=a --size=1m --rw=write --verify=crc32c"), worker)
    matches("fio#writing reading", {kind: (job[kind]["runtime"], job[kind]["iops"]) for kind in ("read", "write")})
    [job] = jobs_of(fio("--name=a --size=1m --rw=randrw --verify=crc32c"), worker)
    assert (job["read"]["runtime"], job["write"]["runtime"]) == (2000, 1000)


def test_reads_of_a_backlog_are_over_the_run() -> None:
    """They are in flight next to the writes; the phase in which nothing but reading is done takes a microsecond."""
    prepared = fio("--name=a --size=1m --rw=randwrite --verify=crc32c --verify_backlog=2")
    worker = fio_job(0).replace(read_back_ns=1000)
    [job] = jobs_of(prepared, worker)
    assert (job["read"]["runtime"], job["read"]["iops"]) == (2000, 400.0)
    line = "  read: IOPS=400, BW=1600KiB/s (1638kB/s)(3200KiB/2000msec)"
    assert line in render(prepared, measured(prepared, worker)).splitlines()


@pytest.mark.parametrize(("start", "end", "together_s"), [(0, 2, 4), (1, 3, 4), (4, 6, 6), (5, 7, 6)])
def test_a_group_has_one_rate_in_every_form(start: int, end: int, together_s: int) -> None:
    """One of two jobs runs for 4 s, the other for 2 s: within that time, after it, or with a gap between them."""
    prepared = fio(GROUPED)
    window = {"window_start_ns": start * SECOND, "window_end_ns": end * SECOND}
    jobs = fio_job(0).replace(window_end_ns=4 * SECOND), fio_job(1).replace(**window)
    result = measured(prepared, *jobs)
    rate = 1600 / together_s
    [job] = json.loads(render_json(prepared, result))["jobs"]
    (record,) = result.to_records()
    (point,) = json.loads(result.document())["points"]
    for found in (job["read"]["iops"], record["read_iops"], point["read"]["iops"]):
        assert found == pytest.approx(rate, rel=1e-6)
    assert record["iops"] == point["iops"] == 2000 / together_s
    text = render(prepared, result)
    assert f"read: IOPS={rate:.0f}," in text
    apart = fio(GROUPED.replace(" --group_reporting", ""))
    status = render(apart, measured(apart, jobs[0], jobs[1].replace(report_group=1)))
    assert f"   READ: bw={rate * 4:.0f}KiB/s" in status


def test_a_depth_that_was_found_is_told_with_its_latency() -> None:
    options = "--latency_target=500us --latency_window=100ms --latency_percentile=90 --iodepth=8"
    prepared, worker = fio(f"--name=a --size=1m {options}"), fio_job(0).replace(latency_depth=3)
    [job] = jobs_of(prepared, worker)
    found = {name: job[f"latency_{name}"] for name in ("target", "window", "percentile", "depth")}
    matches("fio_output/a_depth_that_was_found_is_told", found)
    line = "     latency   : target=500000, window=100000, percentile=90.00%, depth=3"
    assert line in render(prepared, measured(prepared, worker)).splitlines()


def test_disks_are_those_below_the_files_and_their_counters_are_differences(tmp_path: Path) -> None:
    disk, stat = tmp_path / "block/sdx", tmp_path / "block/sdx/stat"
    (disk / "sdx1").mkdir(parents=True)
    (disk / "sdx1/partition").write_text("1\n")
    number = tmp_path.stat().st_dev
    (tmp_path / f"{os.major(number)}:{os.minor(number)}").symlink_to(disk / "sdx1")
    stat.write_text("10 1 80 5 20 2 160 7 0 9 12 0 0 0 0\n")
    watch = DiskWatch(tmp_path)
    watch.start([str(tmp_path / "missing/a.0.0"), str(tmp_path)])
    stat.write_text("110 2 880 55 420 4 3360 77 0 9 132 0 0 0 0\n")
    watch.end()
    (use,) = watch.uses()
    assert (use.name, use.util_percent) == ("sdx", 0.0)
    matches("fio_output/disks_are_those_below_the_files", use.counts)
    prepared = fio(GROUPED)
    assert prepared.disks.uses() == []
    prepared = replace(prepared, disks=watch)
    result = measured(prepared, fio_job(0), fio_job(1))
    assert json.loads(render_json(prepared, result))["disk_util"] == [{"name": "sdx", **use.counts, "util": 0.0}]
    both = replace(prepared, output=replace(prepared.output, formats=("terse", "normal")))
    assert ";sdx;100;400;1;2;50;70;120;0.00%;mixed\n" in render(both, result)
    expected = "Disk stats (read/write):\n  sdx: ios=100/400, merge=1/2, ticks=50/70, in_queue=120, util=0.00%\n"
    assert expected in render(both, result)


def test_job_options_of_a_reported_group_are_those_of_its_last_job() -> None:
    prepared = fio("--name=a --size=1m --bs=4k --group_reporting --name=b --size=2m --bs=8k --description=x")
    (job,) = jobs_of(prepared, fio_job(0), fio_job(1))
    options = job["job options"]
    assert (job["jobname"], options["bs"], options["description"]) == ("a", "8k", "x")

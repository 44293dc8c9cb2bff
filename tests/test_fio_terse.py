"""fio's terse lines and latency bins: exact fields from a SYNTHETIC outcome, in the number that fio writes."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data import synthetic
from iocurve.dialects.fio.invocation import FioCommand
from iocurve.dialects.fio.output.formats import render, render_json
from iocurve.dialects.fio.output.job_stats import BINS, bin_index, bin_middle_ns
from iocurve.dialects.fio.output.terse import render as render_terse
from test_fio_output import GROUPED, fio, fio_job, measured


def terse(prepared: FioCommand) -> list[str]:
    [line] = render_terse(prepared, measured(prepared, fio_job(0), fio_job(1))).splitlines()
    return line.split(";")


def test_the_fields_of_version_3() -> None:
    fields = terse(fio(GROUPED))
    assert fields[:5] == ["3", "fio-3.33", "a", "0", "0"]
    reads, writes, rest = fields[5:46], fields[46:87], fields[87:]
    assert reads[:4] == ["6400", "3200", "800", "2000"]
    assert reads[4:8] == ["0", "0", "0.000000", "0.000000"]
    assert reads[8:12] == ["0", "2500000", "3530.581250", "88324.129118"]
    assert reads[12:15] == ["50.000000%=1", "99.900000%=2500000", "0%=0"]
    assert reads[14:32] == ["0%=0"] * 18
    assert reads[32:36] == reads[8:12]
    assert reads[36:] == ["2400", "4000", "100.000000%", "3200.000000", "565.685425"]
    assert writes[:4] == ["1600", "800", "200", "2000"]
    assert rest[:5] == ["25.000000%", "50.000000%", "22", "0", "0"]
    assert rest[5:12] == ["25.0%", "0.0%", "0.0%", "75.0%", "0.0%", "0.0%", "0.0%"]
    # Latencies below a microsecond count in the first range.
    assert rest[12:17] == ["40.00%", "0.00%", "0.00%", "0.00%", "20.00%"]
    assert rest[17:] == [
        *("30.00%", "0.00%", "0.00%", "0.00%", "0.00%"),
        *("0.00%", "9.90%", "0.00%", "0.00%", "0.00%", "0.00%"),
        *("0.00%", "0.00%", "0.00%", "0.00%", "0.00%", "0.10%"),
        "mixed",
    ]


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("fio") is None, reason="needs Debian's fio")
@pytest.mark.parametrize("version", [2, 3, 4, 5])
def test_as_many_fields_as_fio_writes(version: int, tmp_path: Path) -> None:
    options = f"{GROUPED} --terse-version={version} --output-format=terse"
    arguments = options.replace("--runtime=2", "--runtime=1").split()
    done = subprocess.run(["fio", *arguments], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=30)
    theirs = done.stdout.strip().split(";")
    ours = terse(fio(options))
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
    assert "bins" not in json.loads(render_json(prepared, measured(prepared, fio_job(0))))["jobs"][0]["read"]["clat_ns"]


@pytest.mark.parametrize(
    ("value_ns", "number", "middle_ns"),
    [(0, 0, 0), (127, 127, 127), (128, 128, 129), (255, 191, 255), (256, 192, 258), (15_700, 570, 15_680)],
)
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
    worker = synthetic.worker_outcome(
        {
            "write": synthetic.kind({20_000: 200}, 4096),
            "fsync": synthetic.kind({150_000: 60}, 0),
            "fdatasync": synthetic.kind({200_000: 3}, 0),
            "fsync_at_end": synthetic.kind({900_000: 1}, 0),
        }
    )
    document = json.loads(render_json(prepared, measured(prepared, worker)))
    sync = document["jobs"][0]["sync"]
    assert (sync["total_ios"], sync["lat_ns"]["N"], sync["lat_ns"]["max"]) == (60, 63, 200_000)
    assert document["jobs"][0]["write"]["total_ios"] == 200
    text = render(prepared, measured(prepared, worker))
    assert "  fsync/fdatasync/sync_file_range:\n    sync (usec): min=150, max=200" in text
    assert "issued rwts: total=0,200,0,60 short=0,0,0,0 dropped=0,0,0,0" in text


def test_all_directions_as_one() -> None:
    prepared = fio(f"{GROUPED} --unified_rw_reporting=1 --output-format=json,normal")
    result = measured(prepared, fio_job(0), fio_job(1))
    [job] = json.loads(render_json(prepared, result))["jobs"]
    assert not {"read", "write", "trim"} & set(job)
    assert (job["mixed"]["total_ios"], job["mixed"]["iops"], job["mixed"]["bw_mean"]) == (2000, 1000.0, 4000.0)
    text = render(prepared, result)
    assert "  mixed: IOPS=1000, BW=4000KiB/s (4096kB/s)(8000KiB/2000msec)" in text
    assert "  MIXED: bw=4000KiB/s" in text
    assert "READ: bw=" not in text
    assert len(terse(prepared)) == len(terse(fio(GROUPED))) - 41


def test_all_directions_as_one_and_apart() -> None:
    prepared = fio(f"{GROUPED} --unified_rw_reporting=both")
    [job] = json.loads(render_json(prepared, measured(prepared, fio_job(0), fio_job(1))))["jobs"]
    totals = {kind: job[kind]["total_ios"] for kind in ("read", "write", "trim", "mixed")}
    assert totals == {"read": 1600, "write": 400, "trim": 0, "mixed": 2000}

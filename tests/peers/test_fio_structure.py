"""The fields of fio's JSON, json+ and terse output are those of fio 3.33, for jobs that show each of them."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.skipif(shutil.which("fio") is None, reason="needs Debian's fio")

TABLE = Path(__file__).parents[2] / "docs/equivalence.md"

PLAIN = (
    "rw=read",
    "rw=write",
    "rw=randread",
    "rw=randwrite",
    "rw=rw",
    "rw=randrw;rwmixread=70",
    "rw=read;bs=16k;description=a job",
    "rw=write;bs=4k,8k",
    "rw=read;ioengine=libaio;iodepth=8",
    "rw=randwrite;ioengine=libaio;iodepth=8;iodepth_batch=4",
    "rw=read;ioengine=io_uring;iodepth=4",
    "rw=write;ioengine=mmap",
    "rw=trimwrite;ioengine=null",
    "rw=trim;ioengine=null",
    "rw=read;ioengine=null;iodepth=4",
    "rw=randread;ioengine=null;norandommap",
)
WRITES = (
    "rw=write;fsync=4",
    "rw=write;fdatasync=4",
    "rw=write;sync_file_range=write:4",
    "rw=write;end_fsync=1",
    "rw=rw;fsync=2",
    "rw=write;verify=crc32c",
    "rw=write;verify=md5;verify_backlog=4",
    "rw=write;do_verify=0;verify=crc32c",
    "rw=write;zero_buffers",
    "rw=write;refill_buffers;buffer_compress_percentage=50",
    "rw=write;continue_on_error=all",
    "rw=read;continue_on_error=none",
    "rw=write;sync=1",
    "rw=write;unlink=1",
    "rw=write;nrfiles=3",
    "rw=write;number_ios=3",
)
REPORTS = (
    "rw=read;lat_percentiles=1",
    "rw=read;slat_percentiles=1;ioengine=libaio;iodepth=2",
    "rw=read;lat_percentiles=1;clat_percentiles=0",
    "rw=read;clat_percentiles=0",
    "rw=read;percentile_list=50:99",
    "rw=read;percentile_list=99.9",
    "rw=read;gtod_reduce=1",
    "rw=read;disable_lat=1",
    "rw=read;disable_clat=1",
    "rw=read;disable_slat=1;ioengine=libaio;iodepth=2",
    "rw=rw;unified_rw_reporting=1",
    "rw=rw;unified_rw_reporting=both",
    "rw=read;numjobs=2",
    "rw=read;numjobs=2;group_reporting",
    "rw=write;numjobs=2;group_reporting;new_group",
    "rw=read;steadystate=iops:50%;steadystate_duration=2;runtime=3;time_based;ioengine=null",
)
PACES = (
    "rw=read;rate_iops=2000",
    "rw=read;rate=8m",
    "rw=rw;rate_iops=2000,1000",
    "rw=read;thinktime=100",
    "rw=read;thinktime=100;thinktime_blocks=4",
    "rw=read;loops=2",
    "rw=read;io_size=32k",
    "rw=read;runtime=1",
    "rw=read;startdelay=0",
    "rw=randread;random_distribution=zipf:1.1",
    "rw=randread;bssplit=4k/50:8k/50",
    "rw=read;latency_target=1s;latency_window=100ms;runtime=1;time_based;ioengine=null",
    "rw=write;ioengine=falloc",
    "rw=write;ioengine=filecreate;filesize=4k;nrfiles=2",
    "rw=read;filename=/dev/zero",
    "rw=write;filename=/dev/null",
)

FILES = {
    "json": (PLAIN, 3),
    "json+": (WRITES, 4),
    "json+ of reports": (REPORTS, 5),
    "json+ of paces": (PACES, 3),
}


OURS = {
    "/iocurve": "the real tool, its notes, and figures that fio's format has no field for",
    "/job options/iodepth": "readers of the format rely on it; fio has it only where it is set",
    "/read/clat_ns/percentile": "`gtod_reduce` and `disable_clat`: the latencies are measured",
    "/read/clat_ns/bins": "`gtod_reduce` and `disable_clat`: the latencies are measured",
}
"""Fields that fio lacks, with the reason; docs/equivalence.md lists them."""


@pytest.mark.parametrize("name", FILES)
def test_the_output_has_the_fields_of_fio(name: str, tmp_path: Path) -> None:
    jobs, version = FILES[name]
    form = name.split()[0]
    ours = output([sys.executable, "-m", "iocurve", "fio"], jobs, form, version, tmp_path / "ours")
    theirs = output(["fio"], jobs, form, version, tmp_path / "theirs")
    assert ours[1] == theirs[1]
    missing, more = set(), set()
    for mine, fios in zip(parts(ours[0]), parts(theirs[0]), strict=True):
        missing |= fios - mine
        more |= mine - fios
    assert missing == set()
    assert {path for path, _ in more if not path.startswith(tuple(OURS))} == set()


def test_the_page_lists_the_fields_that_fio_lacks() -> None:
    page = TABLE.read_text(encoding="utf-8").splitlines()
    assert [path for path, reason in OURS.items() if f"| `{path}` | {reason} |" not in page] == []


def parts(document: Mapping[str, Any]) -> Iterator[set[tuple[str, str]]]:
    """The fields of each job, then those around the jobs."""
    yield from (set(fields(job)) for job in document["jobs"])
    yield set(fields({key: value for key, value in document.items() if key != "jobs"}))


def output(tool: list[str], jobs: tuple[str, ...], form: str, version: int, directory: Path) -> tuple[Any, list[int]]:
    """The JSON document, and the number of fields of each terse line."""
    directory.mkdir()
    text = "[global]\nsize=64k\n" + "".join(
        f"[job{number}]\nstonewall\n" + options.replace(";", "\n") + "\n" for number, options in enumerate(jobs)
    )
    (directory / "jobs.fio").write_text(text)
    command = [*tool, f"--output-format={form},terse", f"--terse-version={version}", "jobs.fio"]
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 0, done.stderr
    start = done.stdout.index("{\n")
    document, end = json.JSONDecoder().raw_decode(done.stdout[start:])
    rest = done.stdout[:start] + done.stdout[start + end :]
    return document, [line.count(";") + 1 for line in rest.splitlines() if line.startswith(f"{version};")]


def fields(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Paths of the fields of a JSON value, with the types of the values."""
    if isinstance(value, Mapping):
        yield path, "object"
        for key, part in value.items():
            name = "N" if path.endswith("/bins") else key
            yield from fields(part, f"{path}/{name}")
    elif isinstance(value, list):
        yield path, "list"
        for part in value:
            yield from fields(part, f"{path}/[]")
    else:
        yield path, "number" if isinstance(value, float | int) else type(value).__name__

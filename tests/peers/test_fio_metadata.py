"""fio's engines that create, look at and delete files: both tools count the same and leave the same files."""

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from programs import completed

pytestmark = pytest.mark.skipif(shutil.which("fio") is None, reason="needs Debian's fio")

ENGINES = ("filecreate", "filestat", "filedelete")
JOBS = {
    "created as reads": "--nrfiles=20 --filesize=4k",
    "as writes": "--nrfiles=20 --filesize=4k --rw=write",
    "numjobs": "--nrfiles=5 --filesize=4k --rw=write --numjobs=2",
    "larger blocks": "--nrfiles=5 --filesize=64k --bs=64k --rw=write",
    "counted": "--filename=x:y:z --filesize=4k --number_ios=2 --rw=randwrite",
    "removed": "--nrfiles=5 --filesize=4k --rw=write --unlink=1",
}
IOCURVE = (str(Path(sys.executable).with_name("iocurve")), "fio")


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("job", JOBS.values(), ids=JOBS.keys())
def test_iocurve_counts_as_fio_does(job: str, engine: str, tmp_path: Path) -> None:
    ours, theirs = (done(tool, f"{job} --ioengine={engine}", tmp_path / tool[0][-3:]) for tool in (IOCURVE, ("fio",)))
    assert ours == theirs


@pytest.mark.parametrize("engine", ENGINES)
def test_each_further_loop_or_second_does_the_operation_again_where_it_can(engine: str, tmp_path: Path) -> None:
    """A deleted file cannot be deleted again: fio fails with ENOENT, and so does iocurve."""
    job = f"--nrfiles=3 --filesize=4k --loops=4 --ioengine={engine}"
    statuses = []
    for tool in (IOCURVE, ("fio",)):
        directory = tmp_path / tool[0][-3:]
        entry = run(tool, job, directory)[0]
        statuses.append((entry["error"], entry["read"]["total_ios"]))
    failed = engine == "filedelete"
    assert statuses[0][0] == statuses[1][0] == (2 if failed else 0)
    assert failed or statuses[0][1] == statuses[1][1] == 12


def test_without_a_size_each_created_file_counts_a_block(tmp_path: Path) -> None:
    job = "--nrfiles=7 --rw=write --bs=8k --ioengine=filecreate"
    assert done(IOCURVE, job, tmp_path / "ours") == done(("fio",), job, tmp_path / "fio")


def done(tool: tuple[str, ...], job: str, directory: Path) -> tuple[list[Any], dict[str, int]]:
    entries = run(tool, job, directory)
    counts = [
        (kind, entry[kind]["total_ios"], entry[kind]["io_bytes"], entry[kind]["clat_ns"].get("N", 0))
        for entry in entries
        for kind in ("read", "write", "trim")
    ]
    return counts, {path.name: path.stat().st_size for path in directory.iterdir()}


def run(tool: tuple[str, ...], job: str, directory: Path) -> list[dict[str, Any]]:
    directory.mkdir()
    command = [*tool, "--name=a", *job.split(), "--output-format=json"]
    result = completed(command, cwd=directory)
    jobs: list[dict[str, Any]] = json.loads(result.stdout[result.stdout.index("{") :])["jobs"]
    return jobs

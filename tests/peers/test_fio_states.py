"""Verify states: fio stops at a state that iocurve wrote, and iocurve at one that fio wrote."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from iocurve.dialects.fio.command import parsed, read_command
from iocurve.dialects.fio.verify_state import State
from iocurve.foundation.errors import PlanError

pytestmark = pytest.mark.skipif(shutil.which("fio") is None, reason="needs Debian's fio")

FIO, IOCURVE = ("fio",), (str(Path(sys.executable).with_name("iocurve")), "fio")
STATE = "local-a-0-verify.state"
JOB = "--name=a --size=256k --verify=crc32c"
PART = f"{JOB} --rw=write --number_ios=16 --do_verify=0"


def reads(tool: tuple[str, ...], options: str, directory: Path) -> tuple[int, int]:
    """Exit status and reads of a run in a directory."""
    command = [*tool, *options.split(), "--output-format=json", "--output=out.json"]
    status = subprocess.run(command, cwd=directory, capture_output=True, check=False, timeout=60).returncode
    text = (directory / "out.json").read_text()
    return status, sum(job["read"]["total_ios"] for job in json.loads(text[text.index("{") :])["jobs"])


def states(options: str, tmp_path: Path) -> tuple[dict[str, bytes], dict[str, bytes]]:
    """The state files that both tools write, by name."""
    found = []
    for tool, directory in ((IOCURVE, tmp_path / "ours"), (FIO, tmp_path / "theirs")):
        directory.mkdir()
        reads(tool, options, directory)
        found.append({path.name: path.read_bytes() for path in directory.glob("*.state")})
    return found[0], found[1]


@pytest.mark.parametrize(
    "options",
    [
        PART,
        f"{JOB} --rw=write",
        f"{JOB} --rw=write --nrfiles=2 --ioengine=libaio --iodepth=4 --number_ios=20",
        f"{JOB} --rw=write --ioengine=libaio --iodepth=4 --number_ios=2",
        "--size=64k --rw=write --verify=md5 --name=a --numjobs=2 --name=b --verify_state_save=0 --name=c",
        "--name=a --size=64k --rw=write",
        f"{JOB} --rw=read",
    ],
)
def test_the_files_of_sequential_jobs_are_the_same_byte_for_byte(options: str, tmp_path: Path) -> None:
    ours, theirs = states(options, tmp_path)
    assert ours == theirs


def test_the_state_of_a_random_job_differs_in_its_generator_and_order_alone(tmp_path: Path) -> None:
    ours, theirs = states(PART.replace("--rw=write", "--rw=randwrite"), tmp_path)
    mine, fios = State.decode(ours[STATE]), State.decode(theirs[STATE])
    assert (mine.job, mine.depth, mine.files, mine.writes) == (fios.job, fios.depth, fios.files, fios.writes)
    assert len(mine.completions) == len(fios.completions) == 1


@pytest.mark.parametrize("rw", ["read", "randread"])
def test_each_tool_stops_at_the_state_of_the_other(rw: str, tmp_path: Path) -> None:
    write = "--rw=write" if rw == "read" else "--rw=randwrite"
    ours, theirs = states(PART.replace("--rw=write", write), tmp_path)
    check = f"{JOB} --rw={rw} --verify_state_load=1"
    for directory, tool, own, other in (
        (tmp_path / "ours", IOCURVE, ours, theirs),
        (tmp_path / "theirs", FIO, theirs, ours),
    ):
        (directory / STATE).write_bytes(own[STATE])
        assert reads(tool, check, directory) == (0, 16)
        if rw == "read":
            (directory / STATE).write_bytes(other[STATE])
            assert reads(tool, check, directory) == (0, 16)


def test_without_a_state_both_fail_and_read_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.0.0").write_bytes(bytes(256 << 10))
    check = f"{JOB} --rw=read --verify_state_load=1"
    assert reads(FIO, check, tmp_path) == (1, 0)
    prepared = read_command(check.split(), cwd=tmp_path, environment={})
    with pytest.raises(PlanError) as refusal:
        parsed(prepared).require_runnable()
    assert str(refusal.value.errors[0]) == (
        f"a: verify_state_load=1: {tmp_path}/{STATE} cannot be read: No such file or directory "
        "(run the job that writes first, with verify and without verify_state_save=0)"
    )

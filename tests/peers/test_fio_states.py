"""Verify states: fio stops at a state that iocurve wrote, and iocurve at one that fio wrote."""

import shutil
from pathlib import Path

import pytest

from goldens import cases
from iocurve.dialects.fio.command import parsed, read_command
from iocurve.dialects.fio.verify_state import State
from iocurve.foundation.errors import PlanError
from programs import fio_jobs, fio_of

pytestmark = pytest.mark.skipif(shutil.which("fio") is None, reason="needs Debian's fio")

STATE = "local-a-0-verify.state"
JOB = "--name=a --size=256k --verify=crc32c"
PART = f"{JOB} --rw=write --number_ios=16 --do_verify=0"


def reads(tool: str, options: str, directory: Path) -> tuple[int, int]:
    """Exit status and reads of a run in a directory."""
    ran = fio_of(tool, [*options.split(), "--output-format=json", "--output=out.json"], directory)
    return ran.returncode, sum(job["read"]["total_ios"] for job in fio_jobs((directory / "out.json").read_text()))


def states(options: str, tmp_path: Path) -> tuple[dict[str, bytes], dict[str, bytes]]:
    """The state files that both tools write, by name."""
    found = []
    for tool in ("iocurve", "fio"):
        (directory := tmp_path / tool).mkdir()
        reads(tool, options, directory)
        found.append({path.name: path.read_bytes() for path in directory.glob("*.state")})
    return found[0], found[1]


@cases("fio/states")
def test_the_files_of_sequential_jobs_are_the_same_byte_for_byte(options: str, tmp_path: Path) -> None:
    ours, theirs = states(options.format(job=JOB), tmp_path)
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
    for tool, own, other in (("iocurve", ours, theirs), ("fio", theirs, ours)):
        for state in (own, other) if rw == "read" else (own,):
            (tmp_path / tool / STATE).write_bytes(state[STATE])
            assert reads(tool, check, tmp_path / tool) == (0, 16)


def test_without_a_state_both_fail_and_read_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.0.0").write_bytes(bytes(256 << 10))
    check = f"{JOB} --rw=read --verify_state_load=1"
    assert reads("fio", check, tmp_path) == (1, 0)
    prepared = read_command(check.split(), cwd=tmp_path, environment={})
    with pytest.raises(PlanError) as refusal:
        parsed(prepared).require_runnable()
    assert str(refusal.value.errors[0]) == (
        f"a: verify_state_load=1: {tmp_path}/{STATE} cannot be read: No such file or directory "
        "(run the job that writes first, with verify and without verify_state_save=0)"
    )

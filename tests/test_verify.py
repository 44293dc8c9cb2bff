"""Written data are read back and compared, on real files and over NFS."""

import errno
import os
import shutil
import typing
from pathlib import Path
from typing import Any

import pytest

from bench.servers import Server
from goldens import cases, matches, rows
from iocurve.dialects.fio.command import parsed, read_command
from iocurve.dialects.fio.verify_state import State
from iocurve.engine import plan
from iocurve.engine.derived import measured_ns
from iocurve.engine.outcome import Outcome
from iocurve.foundation.errors import PlanError
from iocurve.foundation.units import KIB, MIB, MILLISECOND_NS
from iocurve.measure import local
from plans import READ, WRITE, end, file_plan, local_engine, nfs_engine, plan_of, worker
from programs import fio_jobs, fio_of

LOCAL = ("sync", "aio", "uring", "mmap")
METHODS = typing.get_args(plan.VerifyMethod)
_PATTERN = "ab" + 16 * "o"


def verify(method: str = "crc32c", **changes: Any) -> plan.Verify:
    """Verification with fio's defaults."""
    pattern = _PATTERN if "pattern" in method else ""
    return plan.Verify.from_builtins({"method": method, "pattern": pattern, **changes})


def writer(path: Path | str, engine: plan.EnginePlan | None = None, **changes: Any) -> plan.Worker:
    """Writes 4 KiB blocks of a file of 1 MiB at random, each once, and reads them back."""
    return worker(
        engine or local_engine("sync"),
        "",
        **{
            "files": (file_plan(path, layout="fill", keep=True),),
            "operations": (WRITE,),
            "payload": plan.Payload(content=plan.RandomContent(), renew="refill"),
            "verify": verify(),
            **changes,
        },
    )


def only(made: plan.Worker) -> plan.Worker:
    """The same, but only reads and compares."""
    assert made.verify is not None
    return made.replace(verify=made.verify.replace(only=True))


def operations(outcome: Outcome) -> dict[str, tuple[int, int]]:
    """Operations and errors by kind of the only worker."""
    (one,) = outcome.workers
    assert one.state == "finished", one.error
    return {kind: (figures.operations, figures.errors) for kind, figures in one.operations.items()}


def error_of(outcome: Outcome) -> str:
    (one,) = outcome.workers
    assert one.state == "failed"
    return one.error or ""


def change(path: Path, place: int) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 0xFF
    path.write_bytes(content)


@pytest.mark.parametrize("kind", LOCAL)
@cases("engine/read_back")
def test_written_data_are_read_back_and_match(
    kind: str, changes: dict[str, Any], ends: dict[str, int], reads: list[int], writes: int, tmp_path: Path
) -> None:
    """``changes`` are of the verification, ``reads`` the fewest and the most."""
    of_end = {"end": end(**ends)} if ends else {}
    access = {"access": plan.Access(cover="independent", passes="fresh")} if reads[0] < reads[1] else {}
    made = writer(tmp_path / "data", local_engine(kind), verify=verify(**changes), **of_end, **access)
    outcome = local.run(plan_of(made))
    counts = operations(outcome)
    assert (counts["write"], counts["read"][1]) == ((writes, 0), 0)
    assert reads[0] <= counts["read"][0] <= reads[1]
    # An interval in which the machine was busy with something else has no reads.
    intervals = [part.operations["read"] for part in outcome.workers[0].intervals if "read" in part.operations]
    assert sum(one.operations for one in intervals) == counts["read"][0]
    if not ends:
        content = (tmp_path / "data").read_bytes()
        assert len({content[start : start + 4 * KIB] for start in range(0, MIB, 4 * KIB)}) == 256


@pytest.mark.parametrize("kind", LOCAL)
def test_a_changed_byte_is_found_at_its_offset(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "data"
    made = writer(path, local_engine(kind))
    local.run(plan_of(made))
    assert operations(local.run(plan_of(only(made)))) == {"write": (0, 0), "read": (256, 0)}
    change(path, 100 * 4 * KIB + 1234)
    outcome = local.run(plan_of(only(made)))
    assert outcome.workers[0].errno == errno.EILSEQ
    text = error_of(outcome)
    assert text.startswith(f"verification of 4096 bytes at offset 409600 of {path} failed: crc32c of its content is ")


@pytest.mark.parametrize("method", METHODS)
def test_every_method_accepts_its_own_data_and_finds_changes(method: str, tmp_path: Path) -> None:
    path = tmp_path / "data"
    made = writer(path, verify=verify(method, interval_bytes=1024, header_offset=256))
    reader = made.replace(operations=(READ,))
    assert operations(local.run(plan_of(made))) == {"write": (256, 0), "read": (256, 0)}
    assert operations(local.run(plan_of(reader))) == {"read": (256, 0)}
    change(path, 5 * KIB + 260)
    change(path, 9 * KIB + 900)
    outcome = local.run(plan_of(reader))
    if method == "null":
        assert operations(outcome) == {"read": (256, 0)}
        return
    text = error_of(outcome)
    # The reads are random: either may be the first. The first change is in a header, if there is one.
    places = (5 * KIB,) if method == "header" else (5 * KIB, 9 * KIB)
    assert any(f"verification of 1024 bytes at offset {place} of {path} failed" in text for place in places)
    assert ("2 of 1024 intervals differ" in text) == (method != "header")
    assert outcome.workers[0].operations["read"].operations == 256


def test_the_first_difference_ends_the_worker_if_fatal(tmp_path: Path) -> None:
    path = tmp_path / "data"
    made = writer(path, verify=verify(fatal=True), operations=(WRITE.replace(random_percent=0),), depth=1)
    local.run(plan_of(made))
    change(path, 9 * 4 * KIB + 99)
    outcome = local.run(plan_of(only(made)))
    assert "at offset 36864 of" in error_of(outcome)
    assert outcome.workers[0].operations["read"].operations == 10


def test_blocks_that_differ_are_dumped_and_nothing_is_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, here = tmp_path / "data", tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    made = writer(path, verify=verify(dump=True))
    local.run(plan_of(made))
    right = path.read_bytes()[4096:8192]
    change(path, 5000)
    text = error_of(local.run(plan_of(only(made))))
    assert text.endswith("; received data are in data.4096.received, expected data are in data.4096.expected")
    assert (here / "data.4096.expected").read_bytes() == right
    assert (here / "data.4096.received").read_bytes() == path.read_bytes()[4096:8192]
    (here / "data.4096.expected").write_text("mine")
    assert "data.4096.expected already exists and is kept" in error_of(local.run(plan_of(only(made))))
    assert (here / "data.4096.expected").read_text() == "mine"


def test_reads_of_a_mix_are_not_compared_but_its_writes_are(tmp_path: Path) -> None:
    (path := tmp_path / "data").write_bytes(os.urandom(MIB))
    assert operations(local.run(plan_of(writer(path, operations=(READ, WRITE)))))["read"][0] == 256


def test_a_runtime_that_ends_before_the_pass_says_that_not_all_was_read_back(tmp_path: Path) -> None:
    outcome = local.run(plan_of(writer(tmp_path / "data", end=end(runtime_ns=50 * MILLISECOND_NS))))
    assert (operations(outcome)["read"], outcome.workers[0].labels) == ((0, 0), ("verify_not_all_read_back",))


def test_data_that_no_run_wrote_are_detected(tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_bytes(bytes(MIB))
    text = error_of(local.run(plan_of(writer(path, operations=(READ,)))))
    assert "it has no header: magic 00000000" in text
    assert "256 of 256 intervals differ" in text


def test_the_null_engine_says_that_nothing_was_compared() -> None:
    outcome = local.run(plan_of(writer("nothing", plan.NullEngine())))
    assert operations(outcome) == {"write": (256, 0), "read": (256, 0)}
    assert outcome.workers[0].labels == ("verify_nothing_to_compare",)


def test_data_written_over_nfs_are_read_back(volume: Server) -> None:
    engine = nfs_engine(volume.url)
    engine = engine.replace(mount=engine.mount.replace(keep_payload=True))
    made = writer("data", engine)
    assert operations(local.run(plan_of(made))) == {"write": (256, 0), "read": (256, 0)}
    first = made.replace(
        operations=(WRITE.replace(random_percent=0),),
        end=end(operations=1),
        payload=plan.Payload(content=plan.ZeroContent(), renew="keep"),
        verify=None,
    )
    local.run(plan_of(first))
    text = error_of(local.run(plan_of(only(made))))
    assert text.startswith("verification of 4096 bytes at offset 0 of data failed: it has no header: magic 00000000")


FIO_JOBS: dict[str, str] = dict(rows("fio/verified"))


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("fio") is None, reason="needs Debian's fio")
@pytest.mark.parametrize("job", FIO_JOBS.values(), ids=FIO_JOBS.keys())
def test_the_numbers_of_reads_and_writes_are_fio_s(job: str, tmp_path: Path) -> None:
    arguments = ["--name=a", "--filename=data", "--size=1m", *job.split()]
    outcome = local.run(read_command(arguments, cwd=tmp_path, environment={}).plan)
    ours = operations(outcome)
    # Chance decides how many of the blocks of a mix are written: all others are read.
    if "randrw" in job:
        assert ours["read"] == (256, 0)
        return
    theirs = fio(arguments, tmp_path)
    assert {kind: ours.get(kind, (0, 0))[0] for kind in theirs} == theirs


@pytest.mark.skipif(shutil.which("fio") is None, reason="needs Debian's fio")
def test_a_pattern_is_the_same_for_fio_and_for_us(tmp_path: Path) -> None:
    write, read = (
        ["--name=a", "--filename=data", "--size=1m", f"--rw={rw}", *FIO_JOBS["pattern"].split()[1:]]
        for rw in ("write", "read")
    )
    assert fio(write, tmp_path) == {"read": 256, "write": 256}
    assert operations(local.run(read_command(read, cwd=tmp_path, environment={}).plan)) == {"read": (256, 0)}
    (tmp_path / "data").unlink()
    local.run(read_command(write, cwd=tmp_path, environment={}).plan)
    assert fio(read, tmp_path) == {"read": 256, "write": 0}


def fio(arguments: list[str], directory: Path) -> dict[str, int]:
    """Operations by kind as fio counts them."""
    (job,) = fio_jobs(fio_of("fio", [*arguments, "--output-format=json"], directory).stdout)
    assert job["error"] == 0
    return {kind: job[kind]["total_ios"] for kind in ("read", "write")}


def test_the_time_of_reading_back_is_reported_separately(tmp_path: Path) -> None:
    """The window covers both kinds; a job that only writes has no reads in it."""
    command = "--name=a --rw=write --size=4m --bs=64k"
    for options, reads_back in (("--verify=crc32c", True), ("", False)):
        [done] = local.run(read_command(f"{command} {options}".split(), cwd=tmp_path, environment={}).plan).workers
        assert (0 < done.read_back_ns < measured_ns(done)) == reads_back


# ---- fio's verify states


STATE = State(job="a", depth=2, files=1, writes=16, number=0, completions=((0, 61440), (0, 57344)))
JOB = "--name=a --size=256k --verify=crc32c --verify_state_load=1"


def test_a_state_is_what_fio_writes() -> None:
    """The checksum is the one that fio 3.33 computes for these bytes."""
    written = State(job="a", depth=1, files=1, writes=16, number=0, completions=((0, 61440),)).encode()
    assert (written[:24].hex(), len(written)) == ("0300000000000000" + "a800000000000000" + "6c61262c00000000", 192)


def test_a_state_is_read_as_it_was_written() -> None:
    assert State.decode(STATE.encode()) == STATE


@cases("engine/invalid_states")
def test_an_invalid_state_stops_the_run_with_the_reason(
    kept: int | None, changed: list[int] | None, reason: str, tmp_path: Path
) -> None:
    """``kept`` are the bytes that are left of the state, ``changed`` is a place with the byte there."""
    content = bytearray((STATE if changed != [] else State("a", 1, 1, 0, 0, ())).encode()[:kept])
    if changed:
        content[changed[0]] = changed[1]
    (path := tmp_path / "local-a-0-verify.state").write_bytes(content)
    prepared = read_command([*JOB.split(), "--rw=read"], cwd=tmp_path, environment={})
    with pytest.raises(PlanError) as refusal:
        parsed(prepared).require_runnable()
    text = f"a: verify_state_load=1: {path} is no verify state: {reason} (remove it and run the job that writes again)"
    assert [str(error) for error in refusal.value.errors] == [text]


def test_a_state_limits_the_reads_and_the_writes_that_are_only_verified(tmp_path: Path) -> None:
    (tmp_path / "states").mkdir()
    (tmp_path / "states" / "local-a-0-verify.state").write_bytes(STATE.encode())
    for options in ("--rw=read", "--rw=randread", "--rw=write --verify_only"):
        made = read_command(f"{JOB} --aux-path=states {options}".split(), cwd=tmp_path, environment={}).plan
        assert made.groups[0].workers[0].end.operations == 16


def test_a_job_that_writes_anew_cannot_stop_at_a_state(tmp_path: Path) -> None:
    with pytest.raises(PlanError) as refusal:
        read_command([*JOB.split(), "--rw=write"], cwd=tmp_path, environment={})
    matches("job#job writes anew", [str(error) for error in refusal.value.errors])

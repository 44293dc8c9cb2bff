"""Verify state files: what is in them, and what invalid ones lead to."""

from __future__ import annotations

from pathlib import Path

import pytest

from iocurve.dialects.fio.command import parsed, read_command
from iocurve.dialects.fio.verify_state import State
from iocurve.foundation.errors import PlanError

STATE = State(job="a", depth=2, files=1, writes=16, number=0, completions=((0, 61440), (0, 57344)))
JOB = "--name=a --size=256k --verify=crc32c --verify_state_load=1"


def test_a_state_is_what_fio_writes() -> None:
    """The checksum is the one that fio 3.33 computes for these bytes."""
    written = State(job="a", depth=1, files=1, writes=16, number=0, completions=((0, 61440),)).encode()
    assert written[:24].hex() == "0300000000000000" + "a800000000000000" + "6c61262c00000000"
    assert len(written) == 192


def test_a_state_is_read_as_it_was_written() -> None:
    assert State.decode(STATE.encode()) == STATE


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "it has 0 bytes, too few for a verify state"),
        (STATE.encode()[:-1], "its length or checksum is wrong; it may have been cut off"),
        (
            STATE.encode()[:30] + b"\1" + STATE.encode()[31:],
            "its length or checksum is wrong; it may have been cut off",
        ),
        (b"\2" + STATE.encode()[1:], "its version is 2; only version 3 is supported"),
        (State("a", 1, 1, 0, 0, ()).encode(), "nothing was written when it was saved"),
    ],
)
def test_an_invalid_state_stops_the_run_with_the_reason(content: bytes, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "local-a-0-verify.state"
    path.write_bytes(content)
    prepared = read_command([*JOB.split(), "--rw=read"], cwd=tmp_path, environment={})
    with pytest.raises(PlanError) as refusal:
        parsed(prepared).require_runnable()
    text = f"a: verify_state_load=1: {path} is no verify state: {reason} (remove it and run the job that writes again)"
    assert [str(error) for error in refusal.value.errors] == [text]


def test_a_state_limits_the_reads_and_the_writes_that_are_only_verified(tmp_path: Path) -> None:
    (tmp_path / "states").mkdir()
    (tmp_path / "states" / "local-a-0-verify.state").write_bytes(STATE.encode())
    for options in ("--rw=read", "--rw=randread", "--rw=write --verify_only"):
        arguments = [*JOB.split(), "--aux-path=states", *options.split()]
        plan = read_command(arguments, cwd=tmp_path, environment={}).plan
        assert plan.groups[0].workers[0].end.operations == 16


def test_a_job_that_writes_anew_cannot_stop_at_a_state(tmp_path: Path) -> None:
    with pytest.raises(PlanError) as refusal:
        read_command([*JOB.split(), "--rw=write"], cwd=tmp_path, environment={})
    assert [str(error) for error in refusal.value.errors] == [
        "a: verify_state_load=1 is not supported yet in a job that writes "
        "(add verify_only, or use rw=read or rw=randread)"
    ]

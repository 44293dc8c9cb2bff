"""``bench.instructions``: what a call costs the volume and the NFS client, and how counts are read."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from bench import instructions

CALLS = 1600
CALLS_AT_START = 32
"""Calls of the shorter run, whose instructions are those of the start."""
CALL_INSTRUCTIONS_MAX = {
    "read": 1_410,
    "write": 10_020,
    "getattr": 562,
    "create": 7_700,
    "list": 33_800,
    "list-plus": 37_600,
    "read4": 3_092,
    "create4": 13_950,
}
"""At most 2 % more than was counted: 1,401, 9,886, 554, 7,574 (the mean of CREATE and REMOVE), 33,150 and 36,942; of
NFSv4.1 3,032 and 13,678 (the mean of OPEN with CLOSE, and REMOVE).
Listings differ by 3 % from run to run, because names are hashed with a random key.
Lower a limit when a change gets well below it."""
CLIENT_INSTRUCTIONS_MAX = {
    "read": 5_059,
    "write": 1_385,
    "getattr": 1_217,
    "create": 2_451,
    "read4": 5_324,
    "write4": 1_656,
    "getattr4": 2_559,
    "create4": 3_168,
}
"""3 % more than was counted: 4,912, 1,345, 1,182 and 2,380, of NFSv4.1 5,169, 1,608, 2,485 and 3,076. Of a READ, 4,096
are its payload on its way through memory, one instruction for each byte."""


# It compiles the program unless `make test` has: half a minute of a processor.
@pytest.mark.timeout(600)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("target", "limits"),
    [
        pytest.param(instructions.VOLUME, CALL_INSTRUCTIONS_MAX, id="volume"),
        pytest.param(instructions.CLIENT, CLIENT_INSTRUCTIONS_MAX, id="client"),
    ],
)
def test_a_call_costs_no_more_instructions_than_it_did(target: tuple[str, ...], limits: dict[str, int]) -> None:
    valgrind = shutil.which("valgrind")
    if valgrind is None:
        pytest.skip("needs Debian's valgrind")
    program = instructions.build(target)
    for kind, most in limits.items():
        counts = (CALLS_AT_START, CALLS_AT_START + CALLS)
        few, many = (instructions.instructions(valgrind, program, count, [kind]) for count in counts)
        assert (many - few) / CALLS <= most, f"instructions of a {kind.upper()}"


def test_a_missing_valgrind_is_an_error_that_says_how_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert instructions.main(["--out", str(tmp_path)]) == 1
    assert "valgrind is not installed; on Debian: apt-get install valgrind" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_the_worker_is_the_thread_that_started_last(tmp_path: Path) -> None:
    for name, total in (("counts-01", 7), ("counts-03", 300), ("counts-02", 4000), ("counts-10", 12)):
        (tmp_path / name).write_text(f"version: 1\nevents: Ir\n\nfn=(1) main\n3 {total}\ntotals: {total}\n")
    (tmp_path / "counts").write_text("")
    assert instructions.worker_instructions(tmp_path) == 12


def test_a_file_without_a_total_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "counts-03").write_text("version: 1\n")
    with pytest.raises(RuntimeError, match="has no total"):
        instructions.worker_instructions(tmp_path)

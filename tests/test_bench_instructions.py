"""``bench.instructions``: what a call costs the volume and the NFS client, and how counts are read."""

import shutil
import tomllib
from pathlib import Path

import pytest

from bench import instructions
from goldens import data

CALLS = 1600
CALLS_AT_START = 32
"""Calls of the shorter run, whose instructions are those of the start."""
INSTRUCTIONS_MAX: dict[str, dict[str, int]] = tomllib.loads(data("bench/instructions.toml"))


# It compiles the program unless `make test` has: half a minute of a processor.
@pytest.mark.timeout(600)
@pytest.mark.slow
@pytest.mark.parametrize("name", INSTRUCTIONS_MAX)
def test_a_call_costs_no_more_instructions_than_it_did(name: str) -> None:
    valgrind = shutil.which("valgrind")
    if valgrind is None:
        pytest.skip("needs Debian's valgrind")
    program = instructions.build(instructions.VOLUME if name == "volume" else instructions.CLIENT)
    for kind, most in INSTRUCTIONS_MAX[name].items():
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

"""The check itself: the tools that ``make`` needs, and the rules that hold for all tests."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MESSAGE = "iocurve needs cargo 1.88 or newer, with rustfmt and clippy for the tests. This fetches it:"


@pytest.mark.parametrize("version", [None, "1.87.0", "0.99.0"])
def test_a_cargo_that_is_missing_or_too_old_is_found_before_anything_else(tmp_path: Path, version: str | None) -> None:
    (programs := tmp_path / "bin").mkdir()
    for name in ("awk", "find", "make", "python3", "sh", "uname"):
        found = shutil.which(name)
        assert found is not None, name
        (programs / name).symlink_to(found)
    if version is not None:
        (programs / "cargo").write_text(f"#!/bin/sh\necho 'cargo {version} (0123abcd 2025-01-01)'\n", encoding="utf-8")
        (programs / "cargo").chmod(0o755)
    ran = subprocess.run(
        ["make", "--no-print-directory", "build", f"VENV={tmp_path}/venv"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=ROOT,
        env=os.environ | {"PATH": str(programs)},
    )
    assert (ran.returncode, ran.stderr.splitlines()[0]) == (2, MESSAGE)
    assert not (tmp_path / "venv").exists()


TESTS = """
import os
import pytest

def test_that_skips_itself() -> None:
    pytest.skip("no peer")

@pytest.mark.xfail
def test_that_is_known_to_fail() -> None:
    raise AssertionError

def test_with_separate_directories() -> None:
    for name in ("XDG_STATE_HOME", "XDG_RUNTIME_DIR"):
        assert os.environ[name].startswith(os.environ["BASE"])
"""
MODULE = """
import pytest
pytest.skip("no peer", allow_module_level=True)
"""
SAID = "was skipped, which does not pass under CI: Skipped: no peer"


def output_of_pytest(directory: Path, text: str, *, ci: str, processes: int, name: str = "test_some.py") -> str:
    (directory / name).write_text(text, encoding="utf-8")
    options = ["-p", "conftest", "-p", "no:cacheprovider", "--rootdir", ".", "--basetemp", "base"]
    return subprocess.run(
        [sys.executable, "-m", "pytest", *options, "--numprocesses", str(processes), "."],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=directory,
        env=os.environ
        | {"CI": ci, "BASE": str(directory / "base"), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    ).stdout


@pytest.mark.slow
@pytest.mark.parametrize("processes", [0, 2])
def test_a_skipped_test_has_failed_under_ci(tmp_path: Path, processes: int) -> None:
    output = output_of_pytest(tmp_path, TESTS, ci="true", processes=processes)
    assert SAID in output
    assert " 1 failed, 1 passed, 1 xfailed in " in output


@pytest.mark.slow
def test_a_skipped_test_is_skipped_elsewhere(tmp_path: Path) -> None:
    assert " 1 passed, 1 skipped, 1 xfailed in " in output_of_pytest(tmp_path, TESTS, ci="", processes=2)


@pytest.mark.slow
@pytest.mark.parametrize("processes", [0, 2])
def test_a_module_that_skips_itself_has_failed_under_ci(tmp_path: Path, processes: int) -> None:
    output = output_of_pytest(tmp_path, MODULE, ci="true", processes=processes)
    assert SAID in output
    assert " 1 error" in output


GROUP = """
import os
from pathlib import Path
import pytest

@pytest.mark.parametrize("number", range(20))
def test_some(number: int) -> None:
    with Path("workers").open("a") as file:
        file.write(os.environ["PYTEST_XDIST_WORKER"] + "\\n")
"""


@pytest.mark.slow
@pytest.mark.parametrize(("name", "processes"), [("test_some.py", 2), ("test_cluster.py", 1)])
def test_a_group_stays_in_one_process(tmp_path: Path, name: str, processes: int) -> None:
    assert " 20 passed in " in output_of_pytest(tmp_path, GROUP, ci="", processes=2, name=name)
    assert len(set((tmp_path / "workers").read_text(encoding="utf-8").split())) == processes

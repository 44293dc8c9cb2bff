"""The check itself: the tools that ``make`` needs, and the rules that hold for all tests."""

import os
import shutil
import sys
from pathlib import Path

import pytest

from goldens import data
from programs import completed

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
    ran = completed(
        ["make", "--no-print-directory", "build", f"VENV={tmp_path}/venv"],
        cwd=ROOT,
        env=os.environ | {"PATH": str(programs)},
    )
    assert (ran.returncode, ran.stderr.splitlines()[0]) == (2, MESSAGE)
    assert not (tmp_path / "venv").exists()


SKIPS = data("scripts/tests_that_skip.txt")
MODULE = 'import pytest\npytest.skip("no peer", allow_module_level=True)\n'
GROUP = data("scripts/tests_of_a_group.txt")
SAID = "was skipped, which does not pass under CI: Skipped: no peer"


def output_of_pytest(directory: Path, texts: dict[str, str], *, ci: str, processes: int) -> str:
    for name, text in texts.items():
        (directory / name).write_text(text, encoding="utf-8")
    options = ["-p", "conftest", "-p", "no:cacheprovider", "--continue-on-collection-errors"]
    options += ["--rootdir", ".", "--basetemp", "base"]
    return completed(
        [sys.executable, "-m", "pytest", *options, "--numprocesses", str(processes), "."],
        cwd=directory,
        env=os.environ
        | {"CI": ci, "BASE": str(directory / "base"), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    ).stdout


@pytest.fixture(scope="module", params=[0, 2])
def under_ci(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    texts = {"test_some.py": SKIPS, "test_module.py": MODULE}
    return output_of_pytest(tmp_path_factory.mktemp("ci"), texts, ci="true", processes=request.param)


@pytest.mark.slow
def test_a_skipped_test_has_failed_under_ci(under_ci: str) -> None:
    assert f"test_some.py::test_that_skips_itself {SAID}" in under_ci
    assert " 1 failed, 1 passed, 1 xfailed, 1 error in " in under_ci


@pytest.mark.slow
def test_a_module_that_skips_itself_has_failed_under_ci(under_ci: str) -> None:
    assert f"test_module.py {SAID}" in under_ci


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The directory and the output of a run with two workers."""
    directory = tmp_path_factory.mktemp("elsewhere")
    texts = {"test_skips.py": SKIPS, "test_some.py": GROUP, "test_cluster.py": GROUP}
    return directory, output_of_pytest(directory, texts, ci="", processes=2)


@pytest.mark.slow
def test_a_skipped_test_is_skipped_elsewhere(elsewhere: tuple[Path, str]) -> None:
    assert " 41 passed, 1 skipped, 1 xfailed in " in elsewhere[1]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "processes"), [("test_some", 2), ("test_cluster", 1)])
def test_a_group_stays_in_one_process(elsewhere: tuple[Path, str], name: str, processes: int) -> None:
    workers = (elsewhere[0] / f"{name}.workers").read_text(encoding="utf-8").split()
    assert len(workers) == 20
    # On a busy machine one process may have run all tests before the other one has started.
    assert len(set(workers)) <= processes

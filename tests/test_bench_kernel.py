"""``bench.kernel_client`` and ``bench.kernel_restarts`` without the guest, which takes root and minutes."""

import os
import shutil
import tarfile
from pathlib import Path

import pytest

from bench.kernel_client import Reached, reached
from bench.kernel_restarts import cloning, unpacking
from bench.measure import median_bounds
from goldens import cases, matches


def test_files_count_by_the_time_between_two_lines_and_ios_by_fio() -> None:
    lines = ("begin create\n", "end 100\n", "a line of another program\n", "begin read 64k\n", "end 500 4000\n")
    clock, cpu_seconds = iter((10.0, 12.0, 20.0, 27.0)), iter((1.0, 1.5, 2.0, 2.25))
    found = dict(reached(lines, lambda: next(clock), lambda: next(cpu_seconds)))
    assert found == {
        "create": Reached(operations_per_s=50, server_cpu_us_per_operation=5_000),
        "read 64k": Reached(operations_per_s=500, server_cpu_us_per_operation=125),
    }


@cases("bench/bounds_of_a_median_are_those")
def test_bounds_of_a_median_are_those_of_the_sign_test(count: int, expected: list[int] | None) -> None:
    """Against the tables of the sign test, two-sided, 5 %."""
    found = median_bounds([float(value) for value in range(count, 0, -1)])
    assert (found and list(found)) == expected


def test_what_was_lost_of_a_tree_is_named(tmp_path: Path) -> None:
    work = unpacking(files=40)
    work.prepare(tmp_path)
    with tarfile.open(tmp_path / "tree.tar") as archive:
        # The argument of this name is unknown before Python 3.11.4.
        archive.extraction_filter = lambda member, _: member
        archive.extractall(tmp_path / "tree")
    assert work.differences(tmp_path) == []
    (tmp_path / "tree/0/0/3").unlink()
    (tmp_path / "tree/0/1/16").write_bytes(b"other")
    os.utime(tmp_path / "tree/0/1/16", (0, 1_700_000_016))
    (tmp_path / "tree/0/2/39").chmod(0o600)
    (tmp_path / "tree/0/more").touch()
    (tmp_path / "tree/0/even-more").touch()
    matches("bench_kernel/what_was_lost_of_a_tree_is_named", work.differences(tmp_path))


def test_what_was_lost_of_a_clone_is_named(tmp_path: Path) -> None:
    if shutil.which("git") is None:
        pytest.skip("needs git")
    work = cloning(commits=3)
    work.prepare(tmp_path)
    shutil.copytree(tmp_path / "origin.git", tmp_path / "clone/.git")
    assert work.differences(tmp_path) != []

"""Volume and clients on older kernels: io_uring came with 5.1, ``openat2`` with 5.6, ``epoll_pwait2`` with 5.11."""

import json
import platform
import re
import sys
from pathlib import Path

import pytest

from bench.servers import IOCURVE, volume
from goldens import cases, data
from programs import completed, fio_jobs

IO_URING_SETUP, OPENAT2, EPOLL_PWAIT2 = 425, 437, 441

WITHOUT_SYSTEM_CALL = data("scripts/without_system_call.txt")
"""Runs a program for which a system call does not exist (seccomp)."""


pytestmark = [pytest.mark.slow, pytest.mark.skipif(platform.machine() != "x86_64", reason="the filter is for x86-64")]


def without(*system_calls: int) -> tuple[str, ...]:
    """Begins a command for which the system calls do not exist."""
    each = ((sys.executable, "-c", WITHOUT_SYSTEM_CALL, str(system_call)) for system_call in system_calls)
    return tuple(word for words in each for word in words)


@pytest.mark.parametrize("version", ["3", "4.1"])
def test_volume_and_client_work_without_epoll_pwait2(tmp_path: Path, version: str) -> None:
    older = without(EPOLL_PWAIT2)
    with volume("--profile=unlimited", prefix=older) as server:
        url = f"{server.url_of(version)}&nconnect=4"
        job = ("--name=job", "--ioengine=nfs", f"--nfs_url={url}", "--rw=randwrite", "--bs=4k", "--size=4m")
        checked = ("--iodepth=16", "--verify=crc32c", "--do_verify=1", "--output-format=json")
        (found,) = fio_jobs(completed([*older, str(IOCURVE), "fio", *job, *checked], cwd=tmp_path).stdout)
    assert (found["write"]["total_ios"], found["read"]["total_ios"], found["error"]) == (1_024, 1_024, 0)


def test_a_directory_is_not_served_where_nothing_can_be_opened_below_it(tmp_path: Path) -> None:
    with (
        pytest.raises(RuntimeError, match="to serve a directory needs Linux 5\\.6 or newer"),
        volume("--profile=unlimited", "--store", str(tmp_path), prefix=without(OPENAT2)),
    ):
        pass


@cases("engine/without_io_uring")
def test_a_load_that_names_no_engine_runs_without_io_uring(tmp_path: Path, line: str) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "job.toml").write_text('[[job]]\npaths = ["data"]\nsize = "1MiB"\nwrites = true\ntime_based = false\n')
    command = [*without(IO_URING_SETUP, OPENAT2, EPOLL_PWAIT2), str(IOCURVE), *line.split()]
    ran = completed(command, cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    assert (found["state"], set(re.findall(r'"kind": ?"(aio|uring)"', ran.stdout))) == ("finished", {"aio"})


def test_a_job_that_names_io_uring_is_refused_where_it_is_missing(tmp_path: Path) -> None:
    job = ("--name=job", "--ioengine=io_uring", "--rw=randwrite", "--bs=4k", "--size=1m")
    ran = completed([*without(IO_URING_SETUP), str(IOCURVE), "fio", *job], cwd=tmp_path)
    assert ran.returncode == 1
    assert "this kernel has no io_uring (or a seccomp filter hides it)" in ran.stderr
    assert "--ioengine=libaio" in ran.stderr

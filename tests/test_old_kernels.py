"""What older kernels lack: Linux 5.11 is the first with ``epoll_pwait2``."""

from __future__ import annotations

import json
import platform
import subprocess
import sys

import pytest

from bench.servers import IOCURVE, volume

EPOLL_PWAIT2 = 441

WITHOUT_SYSTEM_CALL = """
import ctypes, errno, os, struct, sys
def step(code, jump_if, jump_else, k):
    return struct.pack("HBBI", code, jump_if, jump_else, k)
LOAD, JUMP_IF_EQUAL, RETURN, ALLOW, FAIL = 0x20, 0x15, 0x06, 0x7FFF0000, 0x00050000
steps = (
    step(LOAD, 0, 0, 0),
    step(JUMP_IF_EQUAL, 0, 1, int(sys.argv[1])),
    step(RETURN, 0, 0, FAIL | errno.ENOSYS),
    step(RETURN, 0, 0, ALLOW),
)
code = ctypes.create_string_buffer(b"".join(steps))
program = struct.pack("HxxxxxxP", len(steps), ctypes.addressof(code))
libc = ctypes.CDLL(None, use_errno=True)
NO_NEW_PRIVS, SECCOMP, FILTER = 38, 22, 2
if libc.prctl(NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(SECCOMP, FILTER, program):
    sys.exit(f"no filter: {os.strerror(ctypes.get_errno())}")
os.execv(sys.argv[2], sys.argv[2:])
"""
"""Runs a program for which a system call does not exist (seccomp)."""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the number of the system call is that of x86-64")
@pytest.mark.parametrize("version", ["3", "4.1"])
def test_volume_and_client_work_without_epoll_pwait2(version: str) -> None:
    without = (sys.executable, "-c", WITHOUT_SYSTEM_CALL, str(EPOLL_PWAIT2))
    with volume("--unlimited", prefix=without) as server:
        url = f"{server.url_of(version)}&nconnect=4"
        job = ("--name=job", "--ioengine=nfs", f"--nfs_url={url}", "--rw=randwrite", "--bs=4k", "--size=4m")
        checked = ("--iodepth=16", "--verify=crc32c", "--do_verify=1", "--output-format=json")
        ran = subprocess.run(
            [*without, IOCURVE, "fio", *job, *checked], capture_output=True, text=True, timeout=60, check=True
        )
    (found,) = json.loads(ran.stdout)["jobs"]
    assert (found["write"]["total_ios"], found["read"]["total_ios"], found["error"]) == (1_024, 1_024, 0)

"""The embedded volume mounted by the Linux kernel's own NFS client.

A kernel takes seconds to boot, so one for each version of NFS runs all scripts that share a server.
"""

import json
import os
import re
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest

from bench.processes import LINTED
from bench.servers import Server, free_ports
from bench.servers import volume as serve
from conftest import KernelNfs
from goldens import data, present, rows
from programs import started

VERSIONS = pytest.mark.parametrize("version", ["3", "4.1"])

EXPORTS = [
    *("--export", "/vol:root_squash=false,profile=unlimited"),
    *("--export", "/squashed:profile=unlimited,anonuid=77,anongid=78"),
    *("--export", "/secure:profile=unlimited,secure_ports=true"),
    *("--export", "/read-only:profile=unlimited,read_only=true"),
]


def _options(version: str) -> str:
    return f"vers={version},nconnect=4,rsize=262144,wsize=262144"


def script_of(name: str) -> str:
    return data(f"kernel/{name}.sh")


def _cases(version: str) -> dict[str, tuple[str, str]]:
    """The options of the mount and the script of each case."""
    found = [row for row in rows("kernel/scripts") if version == "4.1" or row[0] != "locks"]
    return {name: (options.format(version=version), script_of(script)) for name, script, options in found}


Ran = Callable[[str, str], subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def engine_tests(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tests of the engine as a program, without what only a debugger needs."""
    command = (*LINTED, "test", "--workspace", "--locked", "--no-run", "--message-format=json")
    root = Path(__file__).parents[2]
    built = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=280, check=True)
    messages = map(json.loads, built.stdout.splitlines())
    programs = [one["executable"] for one in messages if one.get("target", {}).get("name") == "iocurve_engine"]
    stripped = tmp_path_factory.mktemp("engine") / "tests"
    subprocess.run(["strip", "-o", str(stripped), *filter(None, programs)], timeout=60, check=True)
    return stripped


@pytest.fixture(scope="module")
def ran(kernel_nfs: KernelNfs, engine_tests: Path) -> Ran:
    """The end of a case, by version and name. In most exports root is root, as in file systems of the guest itself."""

    @cache
    def of_version(version: str) -> dict[str, subprocess.CompletedProcess[str]]:
        cases = _cases(version)
        script = "".join(
            script_of("run_case").format(name=name, options=options, script=one)
            for name, (options, one) in cases.items()
        )
        with serve(*EXPORTS) as server:
            programs = ["flock", f"{engine_tests}:/engine-tests"]
            done = kernel_nfs(server, script, options=_options(version), programs=programs, timeout_seconds=130)
        *fields, rest = done.stdout.split("\x1e")
        assert (done.returncode, rest) == (0, ""), f"ended: {fields[::4]}\n{done.stderr}"
        found = zip(*(fields[number::4] for number in range(4)), strict=True)
        return {name: subprocess.CompletedProcess(name, int(status), out, error) for name, status, out, error in found}

    return lambda version, name: of_version(version)[name]


# The first of these tests boots the kernel.
pytestmark = pytest.mark.timeout(300)


ENDS = [
    pytest.param(version, *row, id=f"{version} {title}")
    for version in ("3", "4.1")
    for title, *row in rows("kernel/ends")
    if version == "4.1" or row[0] != "locks"
]


@pytest.mark.parametrize(("version", "name", "status", "out", "error"), ENDS)
def test_a_script_ends_as_the_export_and_the_mount_allow(
    ran: Ran, version: str, name: str, status: int, out: str, error: str
) -> None:
    """``out`` and ``error`` are patterns of what it prints and of its complaints."""
    done = ran(version, name)
    assert done.returncode == status, done.stderr
    assert re.fullmatch(out, done.stdout, re.DOTALL), (done.stdout, done.stderr)
    assert re.fullmatch(error, done.stderr, re.DOTALL), done.stderr


# ---- servers that are killed


@contextmanager
def _served(directory: Path, port: int) -> Iterator[subprocess.Popen[str]]:
    """A volume of a directory's files that may be killed; it is ready on entry."""
    options = ("--profile=unlimited", "--no-root-squash", "--store", str(directory), "--port", str(port))
    with started("volume", "serve", *options, stderr=subprocess.STDOUT) as process:
        assert "nfs://" in present(process.stdout).readline()
        yield process


@VERSIONS
def test_a_copy_goes_on_when_the_server_is_killed_and_comes_back(
    tmp_path: Path, kernel_nfs: KernelNfs, version: str
) -> None:
    port = free_ports()
    done: list[subprocess.CompletedProcess[str]] = []
    server = Server(os.getpid(), port, port, "/vol")
    copy = threading.Thread(
        target=lambda: done.append(
            kernel_nfs(server, script_of("copy_over_restarts"), options=f"{_options(version)},hard")
        )
    )
    for files in (0, 100, 250):
        with _served(tmp_path, port):
            if files == 0:
                copy.start()
            while copy.is_alive() and sum(1 for _ in tmp_path.glob("t/*")) <= files + 50:
                time.sleep(0.01)
            assert copy.is_alive(), "the copy was to be interrupted"
    with _served(tmp_path, port):
        copy.join()
    assert (done[0].returncode, done[0].stdout) == (0, "460\n"), done[0].stderr

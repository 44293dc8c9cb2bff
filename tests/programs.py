"""Command lines and volumes of iocurve, in this process, and others."""

import io
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, TypeVar

import pytest

from bench.servers import Server
from iocurve.cli import main
from iocurve.measure import interrupts
from iocurve.volume.control import Control, control_socket
from iocurve.volume.serve import serve
from iocurve.volume.spec import Setting, spec_of, volume_of

T = TypeVar("T")
IOCURVE = (sys.executable, "-m", "iocurve")
FIO = ("fio", "--clocksource=clock_gettime")
"""fio itself; without a named clock it tests that of the processors, half of the time of a small job."""


def status_of(*arguments: str) -> int:
    """The exit status of a command that runs in this process."""
    # Its handlers of signals would end the process in a later test.
    with interrupts.restored(), pytest.raises(SystemExit) as ended:
        main(arguments)
    status = ended.value.code or 0
    assert isinstance(status, int)
    return status


def iocurve(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """A command line, run to its end in this process: a program would load the package again. Its stdin is empty."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err), chdir(cwd or Path.cwd()):
        patch.setattr(sys, "stdin", io.StringIO())
        status = status_of(*arguments)
    return subprocess.CompletedProcess(arguments, status, out.getvalue(), err.getvalue())


@contextmanager
def volume_here(settings: Mapping[str, Setting] | None = None, **export: Setting) -> Iterator[Server]:
    """A volume in threads of this process, by default without limits; a program would load the package again."""
    spec = volume_of([spec_of({"profile": "unlimited"} | export)], dict(settings or {}))
    served = serve(spec.config())
    try:
        with control_socket(Control(served, spec.export), served.port):
            yield Server(pid=os.getpid(), port=served.port, mount_port=served.port, export="/vol")
    finally:
        served.stop()


def stopped(process: subprocess.Popen[str], number: int | None = None) -> subprocess.CompletedProcess[str]:
    """The end of a process, after a signal if one is given."""
    if number is not None:
        process.send_signal(number)
    out, err = process.communicate(timeout=90)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


@contextmanager
def started(*arguments: str, **how: Any) -> Iterator[subprocess.Popen[str]]:
    """A command line as a process with pipes for its output; the process does not outlive the block."""
    pipe = subprocess.PIPE
    with subprocess.Popen([*IOCURVE, *arguments], **{"stdout": pipe, "stderr": pipe, "text": True} | how) as process:
        try:
            yield process
        finally:
            process.kill()


def printed(*arguments: str, status: int = 0, cwd: Path | None = None) -> str:
    """The stdout of a command line that ends with ``status``, run in this process."""
    ran = iocurve(*arguments, cwd=cwd)
    assert ran.returncode == status, ran.stderr
    return ran.stdout


def completed(command: Sequence[str | Path], *, timeout: float = 60, **how: Any) -> subprocess.CompletedProcess[str]:
    """A command, run to its end as a process."""
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False, **how)


def fio_of(tool: str, words: Sequence[str], cwd: Path) -> subprocess.CompletedProcess[str]:
    """Jobs of fio by ``fio`` itself, or by ``iocurve`` in this process."""
    return iocurve("fio", *words, cwd=cwd) if tool == "iocurve" else completed([*FIO, *words], cwd=cwd, timeout=100)


def fio_jobs(output: str) -> list[dict[str, Any]]:
    """The jobs of fio's JSON, which may follow other lines."""
    jobs: list[dict[str, Any]] = json.loads(output[output.index("{") :])["jobs"]
    return jobs


def awaited(found: Callable[[], T], missing: str) -> T:
    """The first value that is true; fails with ``missing`` if there is none for 60 s."""
    deadline = time.monotonic() + 60
    while not (value := found()):
        assert time.monotonic() < deadline, missing
        time.sleep(0.01)
    return value

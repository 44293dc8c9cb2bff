"""Command lines of iocurve, in this process, and others."""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Sequence
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from iocurve.cli import main

IOCURVE = (sys.executable, "-m", "iocurve")


def status_of(*arguments: str) -> int:
    """The exit status of a command that runs in this process."""
    with pytest.raises(SystemExit) as ended:
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


def completed(command: Sequence[str | Path], *, timeout: float = 60, **how: Any) -> subprocess.CompletedProcess[str]:
    """A command, run to its end as a process."""
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False, **how)

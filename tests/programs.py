"""iocurve as people run it: in this process, and as a program."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from iocurve.cli import main


def status_of(*arguments: str) -> int:
    """The exit status of a command that runs in this process."""
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    status = ended.value.code or 0
    assert isinstance(status, int)
    return status


def iocurve(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """A command line, run to its end."""
    command = [sys.executable, "-m", "iocurve", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=100, cwd=cwd, check=False)

"""Several signals: the exit status is that of the first one, and what is being written is written whole."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import atexit, os, signal, sys
from iocurve import cli
from iocurve.cli import exits
from iocurve.measure import interrupts

def send(number):
    os.kill(os.getpid(), number)

def command(words):
    interrupts.install()
    send(signal.SIGTERM)

def flush():
    if {at} == "flush":
        send(signal.SIGINT)
    return True

cli._run, exits.flush = command, flush
if {at} == "exit":
    atexit.register(send, signal.SIGINT)
cli.main()
"""


@pytest.mark.slow
@pytest.mark.parametrize("at", ["flush", "exit", "never"])
def test_a_second_signal_at_the_end_changes_nothing(at: str) -> None:
    command = (sys.executable, "-c", SCRIPT.format(at=repr(at)), "explain")
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stderr) == (143, "")


WRITING = """
import os, signal, sys
from pathlib import Path
from iocurve.measure import interrupts
from iocurve.result.document import write_atomically

interrupts.install()
sync = os.fsync

def signals(number):
    os.kill(os.getpid(), signal.SIGTERM)
    os.kill(os.getpid(), signal.SIGINT)
    sync(number)

os.fsync = signals
try:
    interrupts.undivided(write_atomically)(Path(sys.argv[1]), b"whole")
except KeyboardInterrupt:
    os._exit(interrupts.exit_status())
"""


def test_signals_wait_while_a_file_is_written(tmp_path: Path) -> None:
    command = (sys.executable, "-c", WRITING, str(tmp_path / "file"))
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stderr) == (143, "")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"file": b"whole"}

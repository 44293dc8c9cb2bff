"""The exit status of a process that several signals end is that of the first one."""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
import atexit, os, signal, sys
from iocurve import cli
from iocurve.cli import streams
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

cli._run, streams.flush = command, flush
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

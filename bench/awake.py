"""Keeps the processors awake, so that waking one adds no time to a measurement.

A processor of a virtual machine that sleeps may take from 50 µs to some milliseconds to wake up. Loads whose every call
waits for the one before wake a processor several times per call, and then measure mostly that.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

SPIN = "import os; parent = os.getppid()\nwhile os.getppid() == parent:\n    for _ in range(100_000): pass"
"""Ends by itself if its parent does."""


@contextmanager
def processors_awake() -> Iterator[None]:
    """Runs a process on each processor that takes only time that nothing else wants (``SCHED_IDLE``)."""
    spinning = [
        subprocess.Popen([sys.executable, "-c", SPIN], stdin=subprocess.DEVNULL, start_new_session=True)
        for _ in os.sched_getaffinity(0)
    ]
    try:
        for process, cpu in zip(spinning, sorted(os.sched_getaffinity(0)), strict=True):
            os.sched_setaffinity(process.pid, {cpu})
            os.sched_setscheduler(process.pid, os.SCHED_IDLE, os.sched_param(0))
            # Sessions share processors evenly unless told otherwise, whatever is inside.
            with suppress(OSError):
                Path(f"/proc/{process.pid}/autogroup").write_text("19")
        yield
    finally:
        for process in spinning:
            process.kill()
        for process in spinning:
            process.wait()

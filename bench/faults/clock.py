"""Processes whose time of day is wrong. Needs gcc."""

from __future__ import annotations

import subprocess
from pathlib import Path

HOUR_MS = 3_600_000


def wrong_clock(directory: Path, after_s: int, step_ms: int) -> dict[str, str]:
    """Variables for a process whose time of day moves by ``step_ms`` some seconds after its start.

    Only the clock of the day moves; the monotonic clock stays as it is.
    """
    library = directory / "clock_step.so"
    source = Path(__file__).with_name("clock_step.c")
    if not library.exists():
        subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-o", library, source], check=True)
    return {"LD_PRELOAD": str(library), "CLOCK_STEP_AFTER_S": str(after_s), "CLOCK_STEP_MS": str(step_ms)}


def stepped_by_file(home: Path, trigger: str, step_ms: int) -> dict[str, str]:
    """The same once a file is there. The library is copied to ``home`` by its name."""
    return wrong_clock(home, 0, step_ms) | {"CLOCK_STEP_FILE": trigger}

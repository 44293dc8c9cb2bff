"""Finds the gaps of a thread that wants to run all the time: a program that loads nothing of iocurve.

``python spin.py SECONDS PROCESSOR`` prints the longest gap and the sum of all gaps, in ns.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import time

GAP_NS = 5_000
"""Shorter times between two readings of the clock are the loop's own."""


def gaps(seconds: float, processor: int) -> tuple[int, int]:
    """The longest gap and the sum of all gaps of a thread on a processor, in ns; measured by a separate process."""
    words = [sys.executable, "-S", "-E", __file__, str(seconds), str(processor)]
    longest, lost = subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()
    return int(longest), int(lost)


def _spin(seconds: float) -> tuple[int, int]:
    clock = time.perf_counter_ns
    longest = lost = 0
    before = clock()
    end = before + round(seconds * 1e9)
    while before < end:
        now = clock()
        if now - before > GAP_NS:
            lost += now - before
            longest = max(longest, now - before)
        before = now
    return longest, lost


if __name__ == "__main__":
    gc.disable()
    os.sched_setaffinity(0, {int(sys.argv[2])})
    print(*_spin(float(sys.argv[1])))

"""CPU use of the whole machine, from ``/proc/stat`` (proc(5))."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import msgspec

from iocurve.machine.files import text_of

ALL = "cpu"
"""Name of all processors together in ``/proc/stat``; a single processor is ``cpu0``."""
STAT = "proc/stat"


class Processors(msgspec.Struct, frozen=True):
    """Time of all processors together by state, in per cent."""

    user: float
    system: float
    """Includes interrupts and steal time."""
    wait: float
    """Idle while I/O was outstanding."""
    idle: float
    steal: float = 0.0
    """Taken by the hypervisor for other machines; a part of ``system``."""

    @property
    def used(self) -> float:
        """User and system."""
        return self.user + self.system

    @classmethod
    def mean(cls, several: Sequence[Processors]) -> Processors:
        """The mean over intervals of the same length."""
        sums = (sum(getattr(one, name) for one in several) for name in ("user", "system", "wait", "idle", "steal"))
        return cls(*(total / max(1, len(several)) for total in sums))


class ProcessorMeter:
    """Measures the CPU use between successive samples."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._stat = root / STAT
        self._before = ticks(text_of(self._stat))

    def sample(self) -> Processors | None:
        """CPU use since the last sample or since the start; None if the system does not publish it."""
        before, self._before = self._before, ticks(text_of(self._stat))
        return shares(before[ALL], self._before[ALL]) if ALL in before and ALL in self._before else None


def ticks(stat: str) -> dict[str, list[int]]:
    """Clock ticks since boot: user, nice, system, idle, iowait, irq, softirq, steal.

    The guest columns that follow are left out, because user includes them.
    """
    lines = (line.split() for line in stat.splitlines() if re.match(r"cpu\d*\s", line))
    return {name: [int(word) for word in words[:8]] for name, *words in lines if len(words) >= 8}


def shares(then: Sequence[int], now: Sequence[int]) -> Processors | None:
    """Shares of the ticks between two readings; None if no time has passed."""
    # The kernel may take back idle ticks that it had counted.
    passed = [max(0, late - early) for late, early in zip(now, then, strict=True)]
    total = sum(passed)
    if total <= 0:
        return None
    user, nice, system, idle, wait, irq, softirq, steal = (100 * ticks / total for ticks in passed)
    return Processors(user + nice, system + irq + softirq + steal, wait, idle, steal)

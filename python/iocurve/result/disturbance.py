"""Tells whether something else on this machine disturbed a run.

A closed loop loses about the share of time for which its thread, or that of an embedded volume, has no processor. The
thresholds are set so that a disturbance may move a rate by more than the 2 % within which figures count as the same.
"""

from __future__ import annotations

from iocurve.result.document import MachineUse
from iocurve.units import MILLISECOND_NS

FOREIGN_SHARE = 0.10
"""Others use this share of all processors. Services of an idle system use 1 to 3 %; ours could not run elsewhere on a
machine with few processors, and on any machine caches, memory and clock rates are shared."""
STEAL_SHARE = 0.02
"""The hypervisor takes this share. Nothing inside the machine can evade it."""
DELAYED = 0.10
"""A thread was ready and waited for a processor for this share of the time. Threads of the load and of the target also
wait for each other, so this counts only together with ``FOREIGN_PROCESSORS``."""
FOREIGN_PROCESSORS = 0.2
"""Others use this much of one processor."""
WINDOW_NS_MIN = 200 * MILLISECOND_NS
"""The kernel counts CPU time in ticks of 10 ms: the shares of a shorter run are too coarse to tell."""


def disturbance(use: MachineUse | None, window_ns: int) -> str | None:
    """Describes how others disturbed a run; None if they did not, or if the system does not tell."""
    if use is None or window_ns < WINDOW_NS_MIN:
        return None
    others, steal, delay = use.others_share or 0.0, use.steal_share or 0.0, starved_share(use)
    found = [
        *([f"other processes used {others:.0%} of the processors"] if others >= FOREIGN_SHARE else []),
        *([f"the hypervisor took {steal:.0%}"] if steal >= STEAL_SHARE else []),
        *(
            [f"a thread waited for a processor for {delay:.0%} of the time"]
            if delay >= DELAYED and (others + steal) * use.cpus >= FOREIGN_PROCESSORS
            else []
        ),
    ]
    return ", ".join(found) or None


def severity(use: MachineUse | None) -> float:
    """Orders runs by how much others took: the share of the processors."""
    return (use.others_share or 0.0) + (use.steal_share or 0.0) if use else 0.0


def starved_share(use: MachineUse | None) -> float:
    """Longest share of time for which a thread of the load or of its target was ready and had no processor."""
    return max(use.thread_delay_share or 0.0, use.target_delay_share or 0.0) if use else 0.0

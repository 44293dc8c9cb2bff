"""Tells whether something else on this machine disturbed a run.

A closed loop loses about the share of time for which its thread, or that of an embedded volume, has no processor. The
thresholds are set so that a disturbance may move a rate by more than the 2 % within which figures count as the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from iocurve.foundation.units import MILLISECOND_NS
from iocurve.result.document import MachineUse, Point

Condition = Literal["quiet", "disturbed", "starved", "not known"]
"""The machine while a point ran.

disturbed: others may have moved the rate by more than 2 %. starved: and a thread of the load or of its target waited
for a processor for so long that the rate is one of this machine. not known: the system does not tell, or the point was
too short.
"""

FOREIGN_SHARE = 0.10
"""Others use this share of all processors. Services of an idle system use 1 to 3 %; ours could not run elsewhere on a
machine with few processors, and on any machine caches, memory and clock rates are shared."""
STEAL_SHARE = 0.02
"""The hypervisor takes this share. Nothing inside the machine can evade it."""
DELAYED = 0.10
"""A thread was ready and waited for a processor for this share of the time. Threads of the load and of the target also
wait for each other, so this counts only together with ``FOREIGN_PROCESSORS``."""
STARVED = 0.30
"""A thread that waits for a processor for more than this share gets too little of it to tell anything else."""
VOLUME_STARVED = 0.02
"""An iocurve volume counts that it was starved for this share of the time: its rates may be lower by as much."""
FOREIGN_PROCESSORS = 0.2
"""Others use this much of one processor."""
NAMED_MAX = 3
"""Points that a sentence names; tables mark all of them."""
OTHERS, HYPERVISOR = "other processes", "the hypervisor"
WINDOW_NS_MIN = 200 * MILLISECOND_NS
"""The kernel counts CPU time in ticks of 10 ms: the shares of a shorter run are too coarse to tell."""


def disturbance(use: MachineUse | None, window_ns: int) -> str | None:
    """Describes how others disturbed a run; None if they did not, or if the system does not tell."""
    if use is None or window_ns < WINDOW_NS_MIN:
        return None
    others, steal, delay = use.others_share or 0.0, use.steal_share or 0.0, starved_share(use)
    found = [
        *([f"{OTHERS} used {others:.0%} of the processors"] if others >= FOREIGN_SHARE else []),
        *([f"{HYPERVISOR} took {steal:.0%}"] if steal >= STEAL_SHARE else []),
        *(
            [f"a thread of the {starved_party(use)} waited for a processor for {delay:.0%} of the time"]
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


def starved_party(use: MachineUse) -> Literal["load", "target"]:
    """The party whose thread waited longest for a processor."""
    return "load" if (use.thread_delay_share or 0.0) >= (use.target_delay_share or 0.0) else "target"


def waited_for_others(use: MachineUse) -> float:
    """As ``starved_share``, without the target's threads where only the load can have kept them waiting."""
    others = ((use.others_share or 0.0) + (use.steal_share or 0.0)) * use.cpus
    return starved_share(use) if others >= FOREIGN_PROCESSORS else use.thread_delay_share or 0.0


def starved_volume(use: MachineUse | None) -> float:
    """The share of time for which the measured volume was starved; 0 if it is below ``VOLUME_STARVED``."""
    share = (use.volume_starved_share or 0.0) if use else 0.0
    return share if share >= VOLUME_STARVED else 0.0


def first_names(names: Sequence[str], separator: str = ", ") -> str:
    """The first of some points, and how many more there are."""
    more = [f"{len(names) - NAMED_MAX} more"] if len(names) > NAMED_MAX else []
    return separator.join([*names[:NAMED_MAX], *more])


def starved_volume_text(shares: Mapping[str, float]) -> str | None:
    """Names the points in which the measured volume was starved, and the largest share; None if there are none."""
    if not any(shares.values()):
        return None
    names = first_names([name for name, share in shares.items() if share])
    return (
        f"the volume was starved of processors for up to {100 * max(shares.values()):.0f} % of the time "
        f"({names}): rates may be lower and latencies higher than its limits"
    )


def condition(point: Point) -> Condition:
    """The machine while a point ran."""
    use = point.machine
    if point.disturbance:
        # Without others, the threads of the load and of its target wait for each other.
        return "starved" if starved_share(use) >= STARVED else "disturbed"
    is_told = use is not None and use.others_share is not None and point.summary().window_ns >= WINDOW_NS_MIN
    return "quiet" if is_told else "not known"


def culprits(points: Iterable[Point]) -> str:
    """The parties that disturbed some points, with the most that each took: ``other processes (up to 48 %)``."""
    found = [(point.disturbance, point.machine) for point in points if point.disturbance]
    parties = [
        (party, max((getattr(use, share) or 0.0 for _, use in found if use), default=0.0))
        for party, share in ((OTHERS, "others_share"), (HYPERVISOR, "steal_share"))
        if any(party in text for text, _ in found)
    ]
    named = [f"{party} (up to {100 * most:.0f} % of the processors)" if most else party for party, most in parties]
    return " and ".join(named) or OTHERS

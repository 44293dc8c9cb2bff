"""The expected time of a scenario, before it runs.

Points that others disturb, and servers that are slower than what they state, take longer. The time of each turn with
its ramp is exact; the time around it is an estimate for two processors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from iocurve.foundation.units import MILLISECOND_NS, SECOND_NS, format_duration
from iocurve.measure.scenario import caches
from iocurve.measure.scenario.cases import Case, Cases
from iocurve.measure.scenario.groups import CaseGroup
from iocurve.result.document import TargetFacts

RUN_NS = 120 * MILLISECOND_NS
"""Time to start and to end a run: threads, connections, files that are opened."""
ONCE_NS = 4 * SECOND_NS
"""Time to start the targets, and to write the report."""


def expected_ns(cases: Cases, groups: Sequence[CaseGroup], targets: Mapping[str, TargetFacts]) -> int:
    """The time of all points with their ramps, caches and files.

    Data is read and written at the throughput that a target states; where it states none, that time is left out.
    """
    total = ONCE_NS
    checked: set[str] = set()
    for group in groups:
        for case in group.cases:
            total += group.rounds * (group.ramp_ns + group.turn_ns + _before_ns(case, cases, targets) + RUN_NS)
            if case.family.cache != "untouched" and case.reads and case.family.name not in checked:
                checked.add(case.family.name)
                total += 2 * caches.CHECK_PAIRS * (caches.turn_ns(cases.form_of(case).runtime_ns) + RUN_NS)
    loaded = {name for group in groups for case in group.cases for name in case.on}
    needs_more = any(case.family.cache == "uncached" for group in groups for case in group.cases)
    data = cases.form.size_bytes + (cases.form.unrelated_bytes if needs_more else 0)
    return total + sum(_moved_ns(data, targets[name]) for name in loaded)


def _before_ns(case: Case, cases: Cases, targets: Mapping[str, TargetFacts]) -> int:
    """The time to bring caches into the state that a case asks for."""
    form, policy = cases.form_of(case), case.family.cache
    if policy == "untouched":
        return 0
    if policy == "cached":
        return form.length_ns + RUN_NS
    data = cases.form.size_bytes if policy == "warmed" else cases.form.unrelated_bytes
    settle_ns = form.settle_ns or (form.runtime_ns if policy == "warmed" else 0)
    return settle_ns + sum(_moved_ns(data, targets[name]) + RUN_NS for name in case.on)


def _moved_ns(size_bytes: int, facts: TargetFacts) -> int:
    throughput = facts.cap("throughput_bytes_per_s")
    return size_bytes * SECOND_NS // throughput if throughput else 0


def rounded(time_ns: int) -> str:
    """An expected time with few digits: ``25 s``, ``1 min 50 s``, ``32 h 9 min``."""
    step_s = 60 if time_ns > 600 * SECOND_NS else 10 if time_ns > 60 * SECOND_NS else 1
    return format_duration(max(1, round(time_ns / SECOND_NS / step_s)) * step_s * SECOND_NS)

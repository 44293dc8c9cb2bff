"""Groups the points of a scenario that are compared with each other, and estimates its time, before it runs.

Points that others disturb, and servers that are slower than what they state, take longer. The time of each turn with
its ramp is exact; the time around it is an estimate for two processors.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from iocurve.analysis.load_names import COMPARED_AXES
from iocurve.foundation.units import MILLISECOND_NS, SECOND_NS, format_duration
from iocurve.measure.scenario import caches
from iocurve.measure.scenario.cases import Case, Cases
from iocurve.measure.scenario.document import Form
from iocurve.result.document import FamilyComparison, TargetFacts


class CaseGroup(msgspec.Struct, frozen=True):
    """Points that take turns, or a single point that is compared with none."""

    cases: tuple[Case, ...]
    rounds: int
    """Turns of each point; 1 if there is nothing to compare."""
    turn_ns: int
    """Measured time of each turn."""
    ramp_ns: int

    bases: Mapping[str, str]
    """By point: the point that its gain is over, by their names."""

    def compared(self, case: Case) -> tuple[str, ...]:
        """The names of all points that take turns, first the one that the gain of ``case`` is over."""
        base = self.bases[case.name]
        return (base, *(one.name for one in self.cases if one.name != base))

    @property
    def measured_ns(self) -> int:
        """Time of all turns with their ramps."""
        return len(self.cases) * self.rounds * (self.ramp_ns + self.turn_ns)


def groups_of(cases: Sequence[Case], comparisons: Sequence[FamilyComparison], form: Form) -> list[CaseGroup]:
    """The groups in the order of their first points; their points differ only in a compared axis or family."""
    by_key: dict[object, list[Case]] = {}
    for case in cases:
        keys = list(_keys(case, comparisons))
        known = list({id(by_key[key]): by_key[key] for key in keys if key in by_key}.values())
        merged = [*(one for group in known for one in group), case]
        by_key |= {key: merged for one in merged for key in _keys(one, comparisons)}
    groups = list({id(group): group for group in by_key.values()}.values())
    ordered = sorted((sorted(group, key=cases.index) for group in groups), key=lambda group: cases.index(group[0]))
    return [_group(group, comparisons, form) for group in ordered]


def _keys(case: Case, comparisons: Sequence[FamilyComparison]) -> Iterator[object]:
    """Points with a key in common are compared."""
    if any(case.varied.get(axis, values[0]) not in values for axis, values in case.family.turns.items()):
        yield case.name
        return
    yield case.family.name, tuple((axis, value) for axis, value in case.varied.items() if axis not in COMPARED_AXES)
    for comparison in comparisons:
        if case.family.name in comparison.families:
            yield comparison.title, tuple(case.varied.items())


def _group(cases: Sequence[Case], comparisons: Sequence[FamilyComparison], form: Form) -> CaseGroup:
    rounds = form.rounds if len(cases) > 1 else 1
    forms = [form.families[case.family.name] for case in cases]
    turn_ns = max(one.turn_ns(rounds) for one in forms)
    ramp_ns = max(one.ramp_ns for one in forms)
    bases = {case.name: _base(case, cases, comparisons).name for case in cases}
    return CaseGroup(tuple(_lasting(case, turn_ns) for case in cases), rounds, turn_ns, ramp_ns, bases)


def _base(case: Case, cases: Sequence[Case], comparisons: Sequence[FamilyComparison]) -> Case:
    """The first value of the compared axis; of that one the same point of the first family that it is compared with."""
    first = next(one for one in cases if one.family is case.family)
    if first is not case:
        return first
    bases = [one.families[0] for one in comparisons if case.family.name in one.families[1:]]
    found = [one for one in cases if one.family.name in bases[:1] and one.varied == case.varied]
    return found[0] if found else case


def _lasting(case: Case, runtime_ns: int) -> Case:
    return replace(case, job=case.job.changed(lambda said: said.but(runtime_ns=runtime_ns)))


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

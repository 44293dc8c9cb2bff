"""Groups the points of a scenario that are compared with each other, before anything is measured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from iocurve.analysis.load_names import COMPARED_AXES
from iocurve.measure.scenario.cases import Case
from iocurve.measure.scenario.document import Form
from iocurve.result.document import FamilyComparison


@dataclass(frozen=True)
class CaseGroup:
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

"""Groups the points of a scenario that are compared with each other, before anything is measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from iocurve.analysis.load_names import COMPARED_AXES
from iocurve.measure.scenario.cases import Case
from iocurve.measure.scenario.document import Form
from iocurve.result.document import Comparison


@dataclass(frozen=True)
class CaseGroup:
    """Points that take turns, or a single point that is compared with none."""

    cases: tuple[Case, ...]
    rounds: int
    """Turns of each point; 1 if there is nothing to compare."""
    turn_ns: int
    """Measured time of each turn."""
    ramp_ns: int

    @property
    def measured_ns(self) -> int:
        """Time of all turns with their ramps."""
        return len(self.cases) * self.rounds * (self.ramp_ns + self.turn_ns)


def groups_of(cases: Sequence[Case], comparisons: Sequence[Comparison], form: Form) -> list[CaseGroup]:
    """The groups in the order of their first points; their points differ only in a compared axis or family."""
    by_key: dict[object, list[Case]] = {}
    for case in cases:
        keys = list(_keys(case, comparisons))
        known = list({id(by_key[key]): by_key[key] for key in keys if key in by_key}.values())
        merged = [*(one for group in known for one in group), case]
        by_key |= {key: merged for one in merged for key in _keys(one, comparisons)}
    groups = list({id(group): group for group in by_key.values()}.values())
    ordered = sorted((sorted(group, key=cases.index) for group in groups), key=lambda group: cases.index(group[0]))
    return [_group(group, form) for group in ordered]


def _keys(case: Case, comparisons: Sequence[Comparison]) -> Iterator[object]:
    """Points with a key in common are compared."""
    yield case.family.name, tuple((axis, value) for axis, value in case.varied.items() if axis not in COMPARED_AXES)
    for comparison in comparisons:
        if case.family.name in comparison.families:
            yield comparison.title, tuple(case.varied.items())


def _group(cases: Sequence[Case], form: Form) -> CaseGroup:
    rounds = form.rounds if len(cases) > 1 else 1
    forms = [form.families[case.family.name] for case in cases]
    turn_ns = max(one.turn_ns(rounds) for one in forms)
    ramp_ns = max(one.ramp_ns for one in forms)
    return CaseGroup(tuple(_lasting(case, turn_ns) for case in cases), rounds, turn_ns, ramp_ns)


def _lasting(case: Case, runtime_ns: int) -> Case:
    return replace(case, job=case.job.changed(lambda said: said.but(runtime_ns=runtime_ns)))

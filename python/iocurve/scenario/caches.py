"""What is done about caches before a point."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from iocurve.model import Job
from iocurve.outcome import Outcome
from iocurve.result import CacheFacts
from iocurve.scenario.cases import Case, Cases
from iocurve.units import format_bytes

CarryOut = Callable[[Job, str], Outcome]
"""Runs a job that is not measured; the text says what for."""


@dataclass
class Caches:
    """Brings caches into the state that a scenario asks for."""

    cases: Cases
    carry_out: CarryOut

    def prepare(self, case: Case) -> CacheFacts:
        """Before a point. Raises ``TargetError`` or ``RunError`` where that fails."""
        policy = case.family.cache
        if policy == "cached":
            self.carry_out(case.job, "the same load before it is measured")
            return CacheFacts(policy=policy, preparation="the same load at the same offsets ran once before")
        if policy == "warmed":
            for target in case.on:
                self.carry_out(self.cases.whole(target), "filling caches")
            return CacheFacts(policy=policy, preparation="the data set was read once before")
        for target in case.on:
            self.carry_out(self.cases.unrelated(target), "reading unrelated data")
        read = format_bytes(self.cases.form.unrelated_bytes)
        return CacheFacts(policy=policy, preparation=f"{read} of unrelated data were read before; offsets are new")

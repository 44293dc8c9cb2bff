"""Carries out a plan on this machine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from iocurve import _native, host
from iocurve.outcome import Live, Outcome
from iocurve.plan import Plan
from iocurve.result import LayoutFacts, MachineUse

POLL_S = 0.1
"""How often a run is looked at: often enough for a smooth view, seldom enough to cost nothing."""


def run(plan: Plan, watch: Callable[[Live], None] = lambda _: None) -> Outcome:
    """Runs a plan to its end. ``watch`` is called several times a second with what runs now.

    Ctrl-C ends the run in order: what was measured comes back, marked interrupted. A second one abandons it.
    Raises ``TargetError`` or ``RunError`` when nothing could be measured.
    """
    handle = _native.Run(plan.model_dump_json())
    outcome = None
    stopped = False
    while outcome is None:
        try:
            outcome = handle.wait(POLL_S)
            watch(Live.model_validate_json(handle.live()))
        except KeyboardInterrupt:
            handle.stop()
            if stopped:
                raise
            stopped = True
        except BaseException:
            handle.stop()
            raise
    return Outcome.model_validate_json(outcome)


@dataclass(frozen=True)
class Measured:
    """An outcome, and what was seen from outside while it came about."""

    outcome: Outcome
    layout: LayoutFacts | None
    machine: MachineUse | None


def measure(plan: Plan, watch: Callable[[Live], None] = lambda _: None) -> Measured:
    """As ``run``, watching the layout and the machine as well."""
    observer = _Observer(watch)
    outcome = run(plan, observer.update)
    return Measured(outcome, observer.layout, observer.machine.use())


class _Observer:
    def __init__(self, watch: Callable[[Live], None]) -> None:
        self._watch = watch
        self.layout: LayoutFacts | None = None
        self.machine = host.MachineMeter()

    def update(self, live: Live) -> None:
        if live.phase == "layout" and live.layout_bytes:
            self.layout = LayoutFacts(bytes=live.layout_bytes, elapsed_ns=live.elapsed_ns)
        if live.phase in ("layout", "prepare"):
            # Only what is busy under the load counts.
            self.machine = host.MachineMeter()
        self._watch(live)

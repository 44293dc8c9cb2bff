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


Watch = Callable[[Live], bool | None]
"""Is told what runs now, several times a second; True: it is enough, the run ends here as finished."""


def run(plan: Plan, watch: Watch = lambda _: None) -> Outcome:
    """Runs a plan to its end.

    Ctrl-C ends the run in order: what was measured comes back, marked interrupted. A second one abandons it.
    Raises ``TargetError`` or ``RunError`` when nothing could be measured.
    """
    handle = _native.Run(plan.model_dump_json())
    outcome = None
    stopped = enough = False
    while outcome is None:
        try:
            outcome = handle.wait(POLL_S)
            if watch(Live.model_validate_json(handle.live())) and outcome is None and not enough:
                enough = True
                handle.stop()
        except KeyboardInterrupt:
            handle.stop()
            if stopped:
                raise
            stopped = True
        except BaseException:
            handle.stop()
            raise
    made = Outcome.model_validate_json(outcome)
    return _as_finished(made) if enough and not stopped else made


def _as_finished(outcome: Outcome) -> Outcome:
    """Workers that were stopped because it was enough have done all they should."""
    workers = tuple(
        worker.model_copy(update={"state": "finished"}) if worker.state == "interrupted" else worker
        for worker in outcome.workers
    )
    state = "finished" if outcome.state == "interrupted" else outcome.state
    return outcome.model_copy(update={"state": state, "workers": workers})


@dataclass(frozen=True)
class Measured:
    """An outcome, and what was seen from outside while it came about."""

    outcome: Outcome
    layout: LayoutFacts | None
    machine: MachineUse | None


def measure(plan: Plan, watch: Watch = lambda _: None) -> Measured:
    """As ``run``, watching the layout and the machine as well."""
    observer = _Observer(watch)
    outcome = run(plan, observer.update)
    return Measured(outcome, observer.layout, observer.machine.use())


class _Observer:
    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self.layout: LayoutFacts | None = None
        self.machine = host.MachineMeter()

    def update(self, live: Live) -> bool | None:
        if live.phase == "layout" and live.layout_bytes:
            self.layout = LayoutFacts(bytes=live.layout_bytes, elapsed_ns=live.elapsed_ns)
        if live.phase in ("layout", "prepare", "ramp"):
            # Only what is busy under the load that is measured counts.
            self.machine = host.MachineMeter()
        return self._watch(live)

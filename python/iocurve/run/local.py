"""Carries out a plan on this machine."""

from __future__ import annotations

from collections.abc import Callable

from iocurve import _native
from iocurve.outcome import Live, Outcome
from iocurve.plan import Plan

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

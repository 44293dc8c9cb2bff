"""iocurve measures how much I/O a volume carries, draws the curve, and says what limits it.

The names below are for other programs; everything else may change. Each is loaded when it is first used.

::

    result = iocurve.Result.read("iocurve-report/result.json")
    reading = iocurve.read(result)                # what limited each point, headlines, doubts
    records = result.to_records()                 # one flat dictionary a point
    outcome = iocurve.run(plan)                   # carries out an iocurve.Plan on this machine
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from iocurve.analysis.reading import Reading, read
    from iocurve.engine.outcome import Outcome
    from iocurve.engine.plan import Plan
    from iocurve.errors import IocurveError
    from iocurve.measure.local import run
    from iocurve.result.document import Point, Result

__all__ = ["IocurveError", "Outcome", "Plan", "Point", "Reading", "Result", "read", "run"]

_HOMES = {
    "IocurveError": "iocurve.errors",
    "Outcome": "iocurve.engine.outcome",
    "Plan": "iocurve.engine.plan",
    "Point": "iocurve.result.document",
    "Reading": "iocurve.analysis.reading",
    "Result": "iocurve.result.document",
    "read": "iocurve.analysis.reading",
    "run": "iocurve.measure.local",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'iocurve' has no attribute '{name}'")
    return getattr(import_module(_HOMES[name]), name)

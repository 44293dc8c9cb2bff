"""iocurve measures how much I/O a volume carries, draws the curve, and says what limits it.

The names below are the public API; everything else may change. Each is imported on first use.

::

    result = iocurve.Result.read("iocurve-report/result.json")
    reading = iocurve.read(result)                # what limited each point, headlines, doubts
    records = result.to_records()                 # one flat dictionary per point
    outcome = iocurve.run(plan)                   # runs an iocurve.Plan on this machine
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False
"""As in ``typing``, which takes longer to load than the rest of the entry."""

if TYPE_CHECKING:
    from typing import Any

    from iocurve.analysis.reading import Reading, read
    from iocurve.engine.outcome import Outcome
    from iocurve.engine.plan import Plan
    from iocurve.errors import IocurveError
    from iocurve.measure.local import run
    from iocurve.result.document import Point, Result

__all__ = ["IocurveError", "Outcome", "Plan", "Point", "Reading", "Result", "read", "run"]

_MODULES = {
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
    if name not in _MODULES:
        raise AttributeError(f"module 'iocurve' has no attribute '{name}'")
    return getattr(import_module(_MODULES[name]), name)

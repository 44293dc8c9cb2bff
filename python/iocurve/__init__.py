"""iocurve measures how much I/O a volume carries, draws the curve, and says what limits it.

The names below are the public API; everything else may change. Each is imported on first use. docs/python.md has
examples.

::

    with iocurve.Volume(profile="anf-ultra", quota="4TiB") as volume:
        result = iocurve.run("reads.fio", target=volume)       # or iocurve.knee(volume), iocurve.scenario("envelope")
    for point in result.points:
        print(point.name, point.figures.iops, point.figures.p99_us, point.limit)
    result.to_pandas()                                         # also to_polars(), to_arrow(), chart()
    result = iocurve.load("iocurve-report")                    # the result of an earlier run
    reading = iocurve.Reading(result)                          # limits, headlines, doubts
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False
"""As in ``typing``, which takes longer to load than the rest of the entry."""

if TYPE_CHECKING:
    from typing import Any

    from iocurve.analysis.checks import Checks
    from iocurve.analysis.compare import Comparison, Difference
    from iocurve.analysis.reading import Reading
    from iocurve.api.measure import ab, curve, knee, max_rate, run, scenario
    from iocurve.api.results import charts, check, compare, load, openmetrics
    from iocurve.api.running import Running, metrics, start
    from iocurve.cluster.session import load_clients
    from iocurve.engine.plan import Plan
    from iocurve.foundation.errors import (
        DialectError,
        Interrupted,
        IocurveError,
        PlanError,
        ResultError,
        RunError,
        TargetError,
    )
    from iocurve.imports.formats import import_results
    from iocurve.report.views import Snapshot
    from iocurve.result.document import Point, Result
    from iocurve.targets.opened_target import Volume

_NAMES = {
    "analysis.checks": "Checks",
    "analysis.compare": "Comparison Difference",
    "analysis.reading": "Reading",
    "api.measure": "ab curve knee max_rate run scenario",
    "api.results": "charts check compare load openmetrics",
    "api.running": "Running metrics start",
    "cluster.session": "load_clients",
    "engine.plan": "Plan",
    "foundation.errors": "DialectError Interrupted IocurveError PlanError ResultError RunError TargetError",
    "imports.formats": "import_results",
    "report.views": "Snapshot",
    "result.document": "Point Result",
    "targets.opened_target": "Volume",
}
"""The public names of each module."""
_MODULES = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = [
    "Checks", "Comparison", "DialectError", "Difference", "Interrupted", "IocurveError", "Plan", "PlanError",
    "Point", "Reading", "Result", "ResultError", "RunError", "Running", "Snapshot", "TargetError", "Volume",
    "ab", "charts", "check", "compare", "curve", "import_results", "knee", "load", "load_clients", "max_rate",
    "metrics", "openmetrics", "run", "scenario", "start",
]  # fmt: skip

__version__: str


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return import_module("iocurve._native").VERSION
    if name not in _MODULES:
        raise AttributeError(f"module 'iocurve' has no attribute '{name}'")
    return getattr(import_module(f"iocurve.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return [*_MODULES, "__version__"]

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

_MODULES = {
    "Checks": "analysis.checks",
    "Comparison": "analysis.compare",
    "DialectError": "foundation.errors",
    "Difference": "analysis.compare",
    "Interrupted": "foundation.errors",
    "IocurveError": "foundation.errors",
    "Plan": "engine.plan",
    "PlanError": "foundation.errors",
    "Point": "result.document",
    "Reading": "analysis.reading",
    "Result": "result.document",
    "ResultError": "foundation.errors",
    "RunError": "foundation.errors",
    "Running": "api.running",
    "Snapshot": "report.views",
    "TargetError": "foundation.errors",
    "Volume": "targets.opened_target",
    "ab": "api.measure",
    "charts": "api.results",
    "check": "api.results",
    "compare": "api.results",
    "curve": "api.measure",
    "import_results": "imports.formats",
    "knee": "api.measure",
    "load": "api.results",
    "load_clients": "cluster.session",
    "max_rate": "api.measure",
    "metrics": "api.running",
    "openmetrics": "api.results",
    "run": "api.measure",
    "scenario": "api.measure",
    "start": "api.running",
}
"""The module of each public name."""

__all__ = [
    "Checks",
    "Comparison",
    "DialectError",
    "Difference",
    "Interrupted",
    "IocurveError",
    "Plan",
    "PlanError",
    "Point",
    "Reading",
    "Result",
    "ResultError",
    "RunError",
    "Running",
    "Snapshot",
    "TargetError",
    "Volume",
    "ab",
    "charts",
    "check",
    "compare",
    "curve",
    "import_results",
    "knee",
    "load",
    "load_clients",
    "max_rate",
    "metrics",
    "openmetrics",
    "run",
    "scenario",
    "start",
]

__version__: str


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return import_module("iocurve._native").VERSION
    if name not in _MODULES:
        raise AttributeError(f"module 'iocurve' has no attribute '{name}'")
    return getattr(import_module(f"iocurve.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return [*_MODULES, "__version__"]

"""A planned run, of SDs or of file systems: everything that running and reporting need."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

import msgspec

from iocurve.dialects.vdbench.file_systems import Tree
from iocurve.dialects.vdbench.output.table import CURVE, MAXIMUM, Cell
from iocurve.dialects.vdbench.read.definitions import Definition
from iocurve.dialects.vdbench.runs import Run
from iocurve.engine.plan import Plan, Tolerance
from iocurve.foundation.units import SECOND_NS


class Share(msgspec.Struct, frozen=True):
    """The workload, target and host that a worker belongs to in the reports."""

    workload: str
    target: str
    """Name of the FSD or SD; concatenated SDs are joined by ``+``."""
    host: str
    luns: tuple[tuple[str, str], ...] = ()
    """SDs with their LUNs on this host."""


class Planned(msgspec.Struct, frozen=True):
    """The plan of a run, or of the format before it."""

    run: Run
    name: str
    """Name of the run, or ``format_for_`` and the name."""
    start: str
    """The line that announces it."""
    plan: Plan
    shares: tuple[Share, ...]
    """One per worker of the first group; other groups repeat them."""
    counted: frozenset[str]
    """Operations that the rate counts."""
    constants: Mapping[str, Cell]
    """Columns of the flat file that are constant within the run."""
    trees: tuple[Tree, ...] = ()
    """The trees of file systems."""

    @property
    def link(self) -> str:
        """Name of the run in the links of reports."""
        return f"{self.name} For loops: {'None' if self.is_format else self.run.loops_text}"

    @property
    def is_format(self) -> bool:
        """True for the format before a run."""
        return self.name != self.run.name


DATA_ERRORS_MAX = 50
"""vdbench's default of data_errors=."""


def tolerated(general: Definition) -> Tolerance:
    """Failures that do not end a run: reads and writes, as long as they are fewer than ``data_errors=``."""
    limit = general.get("dataerrors", DATA_ERRORS_MAX)
    most = limit if isinstance(limit, int) else DATA_ERRORS_MAX
    return Tolerance(kinds=("read", "write"), errors_max=most - 1)


def starting(run: Run, rate: float | None) -> str:
    """The line that announces a run; a point of a curve has a ``rate``."""
    warmup = f" warmup={run.timing.warmup_ns // SECOND_NS}" if run.timing.warmup_ns else ""
    elapsed = f"elapsed={run.timing.elapsed_ns // SECOND_NS}{warmup}"
    if run.is_of_files:
        number = rate if rate is not None else float(run.rate.per_second)
        word = f"{run.rate.kind}." if run.rate.kind in ("max", "curve") and rate is None else f"{number:g};"
        return f"Starting RD={run.name}; {elapsed}; fwdrate={word} For loops: {run.loops_text}"
    requested = f"{rate:g}" if rate is not None else str(run.rate)
    if run.curve_percent is not None and rate is None:
        requested = f"{run.curve_percent}% of the maximum"
    return f"Starting RD={run.name}; I/O rate: {requested}; {elapsed}; For loops: {run.loops_text}"


def saved_percent(ratio: Decimal | None) -> int:
    """Per cent of the data that a ratio of compression or deduplication saves."""
    return 0 if ratio is None or ratio <= 1 else round(100 * (1 - 1 / ratio))


def requested_rate(run: Run, rate: float | None) -> float:
    """The column reqrate of the flat file."""
    if rate is not None:
        return rate
    return float({"max": MAXIMUM, "curve": CURVE}.get(run.rate.kind, float(run.rate.per_second)))

"""The names in checks: figures of points and of kinds of operations, axes, and what searches find.

The names are those of ``iocurve.result.figures``; ``_us`` may be left out, and ``p`` takes any percent (``p99.5``).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Literal, get_args

import msgspec
from msgspec.structs import replace

from iocurve.engine.plan import OperationKind, Plan
from iocurve.foundation.errors import unknown
from iocurve.foundation.units import MIB, MICROSECOND_NS, parse_bandwidth, parse_bytes, parse_count, parse_time_ns
from iocurve.result import figures
from iocurve.result.document import Result
from iocurve.result.document_file import EARLIER_FIELDS

Measure = Literal["time", "rate", "throughput", "size", "count", "number", "share", "text"]
"""The unit of a value: µs, operations per second, MiB/s, bytes, a count, a plain number, per cent, or text."""

_LATENCY = re.compile(r"(response_|service_)?(min|mean|max|p(\d+(?:[._]\d+)?))(_us)?\Z")
_FIGURES: dict[str, Measure] = {
    "iops": "rate", "iops_low": "rate", "iops_high": "rate", "mib_per_s": "throughput", "bytes": "size",
    "operations": "count", "errors": "count", "short": "count", "drained": "count", "unfinished": "count",
    "missed": "count", "stall": "time", "cpu_us_per_operation": "time", "concurrency_achieved": "number",
    "speedup": "number", "limited_by": "text", "limited_by_confidence": "text",
}  # fmt: skip
_TEXTS = ("name", "series", "target", "state")
"""Texts that say which point it is."""
_UNITS: dict[str, Measure] = {"IOPS": "rate", "µs": "time", "%": "share"}
_OF_KINDS = ("iops", "mib_per_s", "bytes", "operations", "errors", "short", "drained", "unfinished", "missed")
SEARCHES: dict[str, dict[str, str]] = {
    "knee": {
        "knee": "in flight",
        "load at the knee": "IOPS",
        "latency at the knee": "µs",
        "capacity reached at the knee": "%",
        "capacity": "IOPS",
        "unloaded latency": "µs",
    },
    "max": {"capacity": "IOPS", "highest rate": "IOPS"},
    "curve": {"capacity": "IOPS"},
}
"""The findings of each search with their units, as far as they are known before it runs."""


class Name(msgspec.Struct, frozen=True):
    """A name in an expression."""

    text: str
    """As the user wrote it."""
    column: int
    """From 1."""
    measure: Measure
    kind: str | None = None
    """Kind of operation; None: all kinds."""
    figure: str = ""
    """Name of a figure, a text or an axis; of a latency ``response_``, ``service_`` or nothing, and a ``statistic``."""
    statistic: str = ""
    """``min``, ``mean``, ``max`` or ``percentile`` of a latency; ``finding`` of a search."""
    percent: float = 0.0
    is_change: bool = False
    """The relative change between two results."""

    @property
    def key(self) -> str:
        """The name in ``iocurve.result.figures``: ``p99_9_us``."""
        if not self.statistic:
            return self.figure
        which = f"p{self.percent:g}".replace(".", "_") if self.statistic == "percentile" else self.statistic
        return f"{self.figure}{which}_us"

    @property
    def is_of_result(self) -> bool:
        """True of a value of the whole result, such as the knee."""
        return self.statistic == "finding"

    def parsed(self, text: str) -> float:
        """A literal in the unit of the value. Raises ``ValueError`` with a message for the user."""
        is_plain = text.replace(".", "", 1).isdecimal()
        if self.is_change or self.measure == "share":
            return _percent(text)
        if self.measure == "time":
            if is_plain and "_us" in self.text:
                return float(text)
            return parse_time_ns(text) / MICROSECOND_NS
        if self.measure == "throughput":
            return float(text) if is_plain and "mib_per_s" in self.text else parse_bandwidth(text) / MIB
        if self.measure == "size":
            return float(parse_bytes(text))
        return parse_count(text)


def _percent(text: str) -> float:
    number = text.removesuffix("%")
    if number == text and number.removeprefix("-").replace(".", "", 1).isdecimal():
        raise ValueError(f"'{text}' has no unit; write {text}%")
    try:
        return float(number)
    except ValueError:
        raise ValueError(f"'{text}' is not a percentage such as 5%") from None


class Vocabulary(msgspec.Struct, frozen=True):
    """The names that the points of a run have."""

    kinds: frozenset[str] = frozenset(get_args(OperationKind))
    axes: frozenset[str] = frozenset()
    families: frozenset[str] | None = None
    """None: unknown."""
    findings: dict[str, str] = msgspec.field(default_factory=dict)
    """Units of the findings of a search, by name."""
    changes: frozenset[str] = frozenset()
    """Figures whose change between two results is known (``p99_us``)."""

    @classmethod
    def of(cls, result: Result) -> Vocabulary:
        """The names of a result."""
        return cls(
            kinds=frozenset(kind for point in result.points for kind in point.summary().kinds),
            axes=frozenset(axis for point in result.points for axis in point.axes),
            families=frozenset(point.family for point in result.points),
            findings={one.name: one.unit for one in result.search.findings} if result.search else {},
        )

    @classmethod
    def of_plans(cls, plans: Iterable[Plan]) -> Vocabulary:
        """The names that the points of plans without axes will have."""
        workers = [worker for plan in plans for group in plan.groups for worker in group.workers]
        return cls(kinds=frozenset(operation.kind for worker in workers for operation in worker.operations))

    def name(self, text: str, column: int) -> Name:
        """The meaning of a name. Raises ``ValueError`` where no point has it."""
        found = self._of_point(text, column) or self._of_kind(text, column) or self._of_search(text, column)
        if found is None:
            raise ValueError(str(unknown("value", text, self._known(), "docs/howto-pipeline.md lists the names")))
        return found

    def change(self, name: Name) -> Name:
        """The change of a value between two results. Raises ``ValueError`` where it is not known."""
        if not self.changes:
            raise ValueError("'change' compares two results: use it with iocurve compare or ab")
        if figures.plain(name.key) not in self.changes:
            known = ", ".join(sorted(change.removesuffix("_us") for change in self.changes))
            raise ValueError(f"the change of {name.text} is not known; there are those of {known}")
        return replace(name, is_change=True)

    def _of_point(self, text: str, column: int) -> Name | None:
        if found := _figure(text, column):
            return found
        if (named := EARLIER_FIELDS.get(text, text)) in _TEXTS:
            return Name(text, column, "text", figure=named)
        if text in self.axes:
            return Name(text, column, "size" if text.endswith("bytes") else "number", figure=text)
        return None

    def _of_kind(self, text: str, column: int) -> Name | None:
        """``read.p99``, or ``read_p99_us`` as in tables."""
        for kind in get_args(OperationKind):
            if not text.startswith((f"{kind}.", f"{kind}_")):
                continue
            found = _figure(text[len(kind) + 1 :], column)
            if found is None or not (found.statistic or found.figure in _OF_KINDS):
                continue
            if kind not in self.kinds:
                kinds = ", ".join(sorted(self.kinds)) or "none"
                raise ValueError(f"no point has operations of kind {kind}; there are {kinds}")
            return Name(text, column, found.measure, kind, found.figure, found.statistic, found.percent)
        return None

    def _of_search(self, text: str, column: int) -> Name | None:
        for name, unit in self.findings.items():
            if slug(name) == text:
                return Name(text, column, _UNITS.get(unit, "number"), figure=name, statistic="finding")
        return None

    def _known(self) -> Collection[str]:
        latencies = [name.removesuffix("_us") for name in ("mean_us", *figures.LATENCY_NAMES, "max_us")]
        return [*_FIGURES, *latencies, *_TEXTS, *sorted(self.axes), *map(slug, self.findings)]


def _figure(text: str, column: int) -> Name | None:
    figure = EARLIER_FIELDS.get(text, text)
    if figure in _FIGURES:
        return Name(text, column, _FIGURES[figure], figure=figure)
    found = _LATENCY.match(text)
    if found is None:
        return None
    if found[3] is None:
        return Name(text, column, "time", figure=found[1] or "", statistic=found[2])
    percent = float(found[3].replace("_", "."))
    if not 0 < percent < 100:
        raise ValueError(f"{text}: a percentile is above 0 and below 100")
    return Name(text, column, "time", figure=found[1] or "", statistic="percentile", percent=percent)


def slug(text: str) -> str:
    """A text as a name in expressions: ``highest_rate``, ``cpu_contention``."""
    return re.sub(r"[^a-z0-9]+", "_", text.lower().replace("'", "").replace("%", "percent")).strip("_")

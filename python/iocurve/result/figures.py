"""The figures of a point, under the names that they have everywhere: JSON, CSV, records, checks and comparisons.

They are computed from the outcome and are no second truth: a document carries them for readers such as jq, and
iocurve computes them again when it reads it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache
from typing import TypeAlias, get_args

from iocurve.engine.plan import OperationKind
from iocurve.foundation.structs import Struct
from iocurve.foundation.units import MIB
from iocurve.result.summary import PERCENTILES, Latency, Summary, Totals

Value: TypeAlias = int | float | str | None
RESPONSE = "response_"
"""Start of the names of response latencies."""


class KindFigures(Struct, omit_defaults=True):
    """The figures of one kind of operation.

    A latency is None where no operation completed. Any figure that an imported result does not state is None.
    """

    operations: int | None
    """Operations in the measured windows of all workers."""
    bytes: int | None
    """Bytes that they moved."""
    errors: int | None
    """Operations that failed."""
    short: int | None
    """Operations that moved fewer bytes than requested."""
    drained: int | None
    """Operations that were submitted in a window and completed after it: in the latencies, not in ``operations``."""
    unfinished: int | None
    """Operations that never completed: in the latencies with the age that they reached, a lower bound."""
    missed: int | None
    """Operations that were due in a window and never submitted: in the response latency with their age, likewise."""
    iops: float | None
    """Operations per second, over the time in which at least one worker that does them ran."""
    mib_per_s: float | None
    """Throughput over the same time, in MiB/s."""
    overlap_iops: float | None = None
    """Operations per second over the time in which all workers ran; left out where this is the whole time."""
    overlap_mib_per_s: float | None = None
    """Throughput over that time, in MiB/s."""
    min_us: float | None
    """Smallest service latency (from submission to completion), in µs."""
    mean_us: float | None
    """Mean service latency, in µs."""
    p50_us: float | None
    """Median service latency, in µs."""
    p90_us: float | None
    """90th percentile of the service latency, in µs."""
    p95_us: float | None
    """95th percentile of the service latency, in µs."""
    p99_us: float | None
    """99th percentile of the service latency, in µs."""
    p99_9_us: float | None
    """99.9th percentile of the service latency, in µs."""
    p99_99_us: float | None
    """99.99th percentile of the service latency, in µs."""
    max_us: float | None
    """Largest service latency, in µs."""
    response_min_us: float | None = None
    """Smallest response latency (from due time to completion), in µs; left out without a rate."""
    response_mean_us: float | None = None
    """Mean response latency, in µs."""
    response_p50_us: float | None = None
    """Median response latency, in µs."""
    response_p90_us: float | None = None
    """90th percentile of the response latency, in µs."""
    response_p95_us: float | None = None
    """95th percentile of the response latency, in µs."""
    response_p99_us: float | None = None
    """99th percentile of the response latency, in µs."""
    response_p99_9_us: float | None = None
    """99.9th percentile of the response latency, in µs."""
    response_p99_99_us: float | None = None
    """99.99th percentile of the response latency, in µs."""
    response_max_us: float | None = None
    """Largest response latency, in µs."""

    @classmethod
    def of(cls, totals: Totals) -> KindFigures:
        """The figures of the operations of one kind."""
        return cls.from_builtins(_totals(totals))

    def values(self) -> dict[str, Value]:
        """The figures by name; those of response latencies only under a rate."""
        values: dict[str, Value] = self.to_builtins()
        return values


class Figures(KindFigures):
    """The figures of a point: all kinds together, without flushes."""

    iops_low: float | None
    """Lower bound of the 95 % interval of ``iops``; None if it is not known."""
    iops_high: float | None
    """Upper bound of the 95 % interval of ``iops``; None if it is not known."""
    cpu_us_per_operation: float | None
    """CPU time of the workers' threads per operation, in µs; None without operations."""
    concurrency_achieved: float | None
    """Operations in flight on average: IOPS × mean service latency."""
    limited_by: str | None
    """Code of the verdict on the limit of the point; None until the run has ended."""
    limited_by_confidence: str | None
    """certain, likely, possible or none."""

    @classmethod
    def of_point(
        cls, summary: Summary, interval: tuple[float | None, float | None], limit: tuple[str | None, str | None]
    ) -> Figures:
        """The figures of a merged point, with the bounds of its IOPS, and code and confidence of its limit."""
        return cls.from_builtins(
            _totals(summary)
            | {
                "iops_low": interval[0],
                "iops_high": interval[1],
                "cpu_us_per_operation": summary.cpu_us_per_operation,
                "concurrency_achieved": _known(summary.concurrency_achieved),
                "limited_by": limit[0],
                "limited_by_confidence": limit[1],
            }
        )


KIND_NAMES = frozenset(KindFigures.__struct_fields__)
NAMES = frozenset(Figures.__struct_fields__)
_KINDS: tuple[str, ...] = get_args(OperationKind)
LATENCY_NAMES = {f"p{percent:g}_us".replace(".", "_"): percent for percent in PERCENTILES}
"""Percentiles by name: ``p99_9_us`` is the 99.9th percentile."""


@cache
def of_kind(name: str) -> tuple[str | None, str]:
    """Kind and figure of a name as tables have it: ``read_p99_us`` is ``p99_us`` of ``read``; None: of all kinds."""
    for kind in _KINDS:
        if name.removeprefix(f"{kind}_") in KIND_NAMES and name not in NAMES:
            return kind, name.removeprefix(f"{kind}_")
    return None, name


def plain(name: str) -> str:
    """The name of a latency without the mark of response latencies: ``read_p99_us`` for ``read_response_p99_us``."""
    return name.replace(RESPONSE, "", 1)


def nested(figures: Figures, kinds: Mapping[str, KindFigures]) -> dict[str, object]:
    """The form in JSON: the figures of a point, and those of each kind under its name (``.read.p99_us``)."""
    return {**figures.values(), **{kind: each.values() for kind, each in kinds.items()}}


def flat(figures: Figures, kinds: Mapping[str, KindFigures]) -> dict[str, Value]:
    """The form in tables: one dictionary, in which ``read_p99_us`` is the figure of one kind."""
    of_kinds = {f"{kind}_{name}": value for kind, each in kinds.items() for name, value in each.values().items()}
    return figures.values() | of_kinds


def is_computed(name: str, value: object) -> bool:
    """True for a key of a point in a document that holds figures, of the point or of one kind."""
    return name in NAMES or (isinstance(value, dict) and bool(value) and value.keys() <= KIND_NAMES)


def _totals(totals: Totals) -> dict[str, Value]:
    return {
        "operations": totals.operations,
        "bytes": totals.bytes,
        "errors": totals.errors,
        "short": totals.short,
        "drained": totals.drained,
        "unfinished": totals.unfinished,
        "missed": totals.missed,
        "iops": _known(totals.iops),
        "mib_per_s": _known(totals.mib_per_s),
        **_overlap(totals),
        **_latencies(totals.service),
        **({RESPONSE + name: value for name, value in _latencies(totals.response).items()} if totals.response else {}),
    }


def _overlap(totals: Totals) -> dict[str, Value]:
    if totals.overlap_iops in (0, totals.iops) or math.isnan(totals.overlap_iops):
        return {}
    return {"overlap_iops": totals.overlap_iops, "overlap_mib_per_s": totals.overlap_bytes_per_s / MIB}


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value


def _latencies(latency: Latency) -> dict[str, float | None]:
    """Latencies in µs, by name."""
    nanoseconds = {
        "min_us": latency.min_ns,
        "mean_us": latency.mean_ns,
        **{name: latency.percentile(percent) for name, percent in LATENCY_NAMES.items()},
        "max_us": latency.max_ns,
    }
    has_values = latency.count > 0 or latency.stated is not None
    return {name: _known(value / 1000) if has_values else None for name, value in nanoseconds.items()}

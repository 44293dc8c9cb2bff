"""The figures of a profile in words, each with its source."""

from __future__ import annotations

import math
from collections.abc import Iterator
from decimal import Decimal

from iocurve.foundation.units import GIB, format_bytes, format_duration
from iocurve.result.caps import CAPS, Scope
from iocurve.volume.profile import (
    BurstFigure,
    ExponentialFigure,
    Figure,
    Formula,
    LatencyFigure,
    LognormalFigure,
    Number,
    Profile,
    QuotaBounds,
    Settable,
    Term,
    load,
)

Row = tuple[str, str, str | None]
"""Name, value and source."""


def describe(name: str) -> list[tuple[str, str, str]]:
    """The figures of a profile: name, value, and where it was published."""
    profile = load(name)
    return [(label, value, profile.cite(source)) for label, value, source in _rows(profile)]


def quota_text(bounds: QuotaBounds) -> str:
    """``50 GiB to 100 TiB``."""
    return f"{format_bytes(bounds.at_least_gib * GIB)} to {format_bytes(bounds.at_most_gib * GIB)}"


def bounds_text(settable: Settable) -> str:
    """``3,000 to 102,400``."""
    text = f"{settable.at_least:,} to {settable.at_most:,}"
    if settable.pool_at_most_per_tib is not None:
        text += f", of the pool's {settable.pool_at_most_per_tib:,} × TiB"
        text += f" (at least {settable.pool_at_least:,})" if settable.pool_at_least else ""
    return text


def _rows(profile: Profile) -> Iterator[Row]:
    if profile.quota is not None:
        yield "quota", quota_text(profile.quota), profile.quota.source
    yield from _cap_rows(profile, "volume")
    yield from _burst_rows(profile.burst_iops)
    yield from _latency_rows(profile.latency_us)
    yield from _cap_rows(profile, "connection", "client")
    if (parallelism := profile.parallelism) is not None:
        text = f"{parallelism.servers:,} at once, {_time(parallelism.service_us)} each"
        yield "operations served", text, parallelism.source


def _cap_rows(profile: Profile, *scopes: Scope) -> Iterator[Row]:
    for cap in CAPS:
        figure: Formula | Number | None = getattr(profile, cap.figure)
        if cap.scope in scopes and figure is not None:
            yield from _figure_rows(cap.label, figure)


def _figure_rows(label: str, figure: Formula | Number) -> Iterator[Row]:
    yield label, formula_text(figure) if isinstance(figure, Formula) else f"{figure.value:,}", figure.source
    if isinstance(figure, Figure) and figure.settable is not None:
        yield f"{label}, set by hand", bounds_text(figure.settable), figure.settable.source


def _burst_rows(burst: BurstFigure | None) -> Iterator[Row]:
    if burst is not None:
        yield "burst IOPS", formula_text(burst), burst.source
        yield "burst credits", f"(burst − IOPS) × {burst.credits_for_s:,}", burst.source


def _latency_rows(latency: LatencyFigure | None) -> Iterator[Row]:
    if latency is None:
        return
    yield "latency, µs", f"{latency.value:,}", latency.source
    if latency.distribution is not None:
        yield "latency, random part", _distribution(latency.distribution), latency.source


def formula_text(figure: Formula) -> str:
    """``64 × TiB, at most 4,500``."""
    parts = [f"{figure.base:,}"] if figure.base or not figure.terms else []
    parts += [part for term in figure.terms for part in _term(term)]
    text = " + ".join(parts)
    text += f", at least {figure.at_least:,}" if figure.at_least else ""
    return text + (f", at most {figure.at_most:,}" if figure.at_most else "")


def _term(term: Term) -> Iterator[str]:
    for factor, unit in ((term.per_gib, "GiB"), (term.per_tib, "TiB"), (term.per_iops, "IOPS")):
        if factor:
            part = f"{factor:,} × {unit}"
            yield f"⌈{part}⌉" if term.round_up else part


def _distribution(distribution: ExponentialFigure | LognormalFigure) -> str:
    if isinstance(distribution, ExponentialFigure):
        return f"an exponential tail, mean {_time(distribution.mean_us)}"
    return f"lognormal, median {_time(distribution.median_us)}, 99 % below {_time(distribution.p99_us)}"


def _time(microseconds: Decimal) -> str:
    return format_duration(math.ceil(microseconds * 1000))

"""The limits that a profile gives a volume of some size, and the bounds of the settings that replace them.

``describe`` has the figures of a profile in words, each with its source.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction

from msgspec import UNSET
from msgspec.structs import replace

from iocurve.foundation.errors import Diagnostic, DialectError
from iocurve.foundation.units import GIB, MIB, MILLISECOND_NS, TIB, format_bytes, format_duration, format_number
from iocurve.result.caps import CAPS, THROUGHPUT, Burst, Cap, Scope, caps
from iocurve.volume import limits
from iocurve.volume import profile as profiles


def resolve(
    name: str,
    quota_bytes: int,
    *,
    throughput_bytes_per_s: int | None = None,
    iops: int | None = None,
    latency_ns: int | None = None,
    pool_bytes: int | None = None,
    stored_bytes: int | None = None,
) -> limits.Limits:
    """The limits that a profile gives a volume of this size; settings replace its own figures.

    ``stored_bytes`` is the data that it holds; by default it is full. ``pool_bytes`` is the size of the capacity pool
    of manual QoS; by default the quota. Raises ``DialectError`` for a size or a setting out of the profile's bounds.
    """
    profile = profiles.load(name)
    at = profiles.Sized(quota_bytes=quota_bytes, stored_bytes=quota_bytes if stored_bytes is None else stored_bytes)
    _check_quota(name, profile, quota_bytes)
    if throughput_bytes_per_s is not None:
        _check_throughput(name, profile, throughput_bytes_per_s, pool_bytes or quota_bytes)
    if iops is not None:
        _check_iops(name, profile, iops)
    if profile.iops is not None:
        at = replace(at, iops=math.floor(profile.iops.of(at)) if iops is None else iops)
    if (figure := profile.throughput_mib_per_s) is not None:
        rate = figure.of(at) * MIB if throughput_bytes_per_s is None else Fraction(throughput_bytes_per_s)
        at = replace(at, bytes_per_s=rate)
    values = {cap.name: _value(getattr(profile, cap.figure), cap, at) for cap in CAPS}
    settings = {"iops": iops, THROUGHPUT: throughput_bytes_per_s}
    values |= {name: value for name, value in settings.items() if value is not None}
    latency = limits.AddedLatency(base_ns=latency_ns) if latency_ns is not None else _latency(profile.latency_us)
    burst = _burst(profile.burst_iops, replace(at, iops=values["iops"] or 0), values["iops"], 1)
    data = _burst(profile.burst_throughput_mib_per_s, at, values[THROUGHPUT], MIB)
    weight = profile.reads_per_write.value if profile.reads_per_write else UNSET
    return limits.Limits(
        caps=tuple(cap for cap in caps(values, burst, data, weight) if not _is_idle(cap, values, burst)),
        latency=latency,
        write_latency=_latency(profile.write_latency_us) if profile.write_latency_us and latency_ns is None else None,
        parallelism=_parallelism(profile.parallelism) if profile.parallelism else None,
        window_ns=profile.window_ms.value * MILLISECOND_NS if profile.window_ms else 0,
        server_cache=_server_cache(profile.server_cache) if profile.server_cache else None,
    )


def next_tib_bytes_per_s(limits_at: Callable[[int], limits.Limits], quota_bytes: int) -> int | None:
    """The throughput that a quota 1 TiB larger adds, of reads where writes have another; None without such a limit.

    ``limits_at`` gives the limits of a quota, as ``resolve`` does, so that the answer follows the profile's formula. A
    quota beyond the profile's largest adds nothing.
    """
    limits_now = limits_at(quota_bytes)
    name = THROUGHPUT if limits_now.value(THROUGHPUT) is not None else "throughput_read_bytes_per_s"
    now = limits_now.value(name)
    if now is None:
        return None
    try:
        larger = limits_at(quota_bytes + TIB).value(name)
    except DialectError:
        return 0
    return None if larger is None else larger - now


# ---- the profile's own figures


def _value(figure: profiles.Formula | profiles.Number | None, cap: Cap, at: profiles.Sized) -> int | None:
    if figure is None:
        return None
    value = figure.of(at) if isinstance(figure, profiles.Formula) else figure.value
    return math.floor(value * (MIB if cap.quantity == "bytes_per_s" else 1))


def _is_idle(cap: Cap, values: dict[str, int | None], burst: Burst | None) -> bool:
    """A cap of the volume on one kind of operation that the cap on both kinds already keeps."""
    if cap.scope != "volume" or cap.kind == "any":
        return False
    both = values[cap.replace(kind="any").name]
    both = burst.value if burst and cap.quantity == "iops" else both
    return bool(both) and cap.value >= (both or 0)


def _burst(figure: profiles.BurstFigure | None, at: profiles.Sized, baseline: int | None, unit: int) -> Burst | None:
    """The burst above a baseline; both in operations per second, or bytes, in multiples of a unit."""
    if figure is None or baseline is None:
        return None
    burst = math.floor(figure.of(at) * unit)
    if burst <= baseline:
        return None
    saved = math.floor(figure.credits.of(at) * (1 if unit == 1 else GIB)) if figure.credits else 0
    return Burst(value=burst, credits=saved or (burst - baseline) * figure.credits_for_s)


def _latency(figure: profiles.LatencyFigure | None) -> limits.AddedLatency:
    if figure is None:
        return limits.AddedLatency()
    found = limits.AddedLatency(base_ns=_ns(figure.value), per_kib_ns=_ns(figure.per_kib))
    return found.replace(distribution=_distribution(figure.distribution)) if figure.distribution else found


def _distribution(
    distribution: profiles.ExponentialFigure | profiles.LognormalFigure,
) -> limits.Exponential | limits.Lognormal:
    if isinstance(distribution, profiles.ExponentialFigure):
        return limits.Exponential(mean_ns=_ns(distribution.mean_us))
    return limits.Lognormal(median_ns=_ns(distribution.median_us), p99_ns=_ns(distribution.p99_us))


def _parallelism(figure: profiles.ParallelismFigure) -> limits.Parallelism:
    write_us, write_per_kib_us = figure.write_service_us, figure.write_per_kib_us
    return limits.Parallelism(
        servers=figure.servers,
        service_ns=_ns(figure.service_us),
        per_kib_ns=_ns(figure.per_kib_us),
        write_service_ns=None if write_us is None else _ns(write_us),
        write_per_kib_ns=None if write_per_kib_us is None else _ns(write_per_kib_us),
    )


def _server_cache(figure: profiles.ServerCacheFigure) -> limits.ServerCache:
    """Costs are rounded up, so that none becomes 0."""
    costs = {
        name.replace("throughput", "bytes"): math.ceil(getattr(figure, name) * 1000) for name in profiles.HIT_COSTS
    }
    return limits.ServerCache(bytes=figure.mib * MIB, **costs)


def _ns(microseconds: Decimal) -> int:
    return math.ceil(microseconds * 1000)


# ---- bounds


def _check_quota(name: str, profile: profiles.Profile, quota_bytes: int) -> None:
    bounds = profile.quota
    if bounds and not bounds.at_least_gib * GIB <= quota_bytes <= bounds.at_most_gib * GIB:
        raise _refused(
            f"{name}: a quota of {format_bytes(quota_bytes)} is not within {quota_text(bounds)}"
            f"{_in_brackets(profile, bounds)}; choose another quota or profile"
        )


def _check_throughput(name: str, profile: profiles.Profile, throughput: int, pool_bytes: int) -> None:
    figure = profile.throughput_mib_per_s
    if figure is None:
        return
    if figure.settable is None:
        raise _not_settable(name, "throughput", _in_brackets(profile, figure))
    settable = figure.settable
    most = settable.bound(pool_bytes)
    if settable.mb_per_s and throughput not in [each * profiles.MB for each in settable.mb_per_s]:
        known = ", ".join(f"{each:,}" for each in settable.mb_per_s)
        raise _refused(
            f"{name}: a throughput of {format_number(throughput / profiles.MB, 6)} MB/s cannot be set; there are "
            f"{known} MB/s{_in_brackets(profile, settable)}"
        )
    if not settable.at_least <= Fraction(throughput, MIB) <= most:
        pool = f" in a pool of {format_bytes(pool_bytes)}" if settable.pool_at_most_per_tib else ""
        raise _refused(
            f"{name}: a throughput of {format_bytes(throughput)}/s is not within {settable.at_least:,} to "
            f"{float(most):,.6g} MiB/s{pool}{_in_brackets(profile, settable)}; "
            "choose another throughput, a larger pool, or the profile unlimited"
        )


def _check_iops(name: str, profile: profiles.Profile, iops: int) -> None:
    figure = profile.iops
    if figure is None:
        return
    if figure.settable is None:
        raise _not_settable(name, "IOPS", _in_brackets(profile, figure))
    if not figure.settable.at_least <= iops <= figure.settable.at_most:
        raise _refused(
            f"{name}: {iops:,} IOPS are not within {bounds_text(figure.settable)}"
            f"{_in_brackets(profile, figure.settable)}; choose another number, or the profile unlimited"
        )


def _not_settable(name: str, what: str, source: str) -> DialectError:
    return _refused(
        f"{name}: its {what} follows from the quota and cannot be set{source}; "
        "choose another quota, or the profile unlimited"
    )


def _refused(text: str) -> DialectError:
    return DialectError([Diagnostic(text)])


def _in_brackets(profile: profiles.Profile, figure: profiles.Cited) -> str:
    return f" ({cited})" if (cited := profile.cite(figure.source)) else ""


Row = tuple[str, str, str | None]
"""Name, value and source."""


def describe(name: str) -> list[tuple[str, str, str]]:
    """The figures of a profile: name, value, and where it was published."""
    profile = profiles.load(name)
    return [(label, value, profile.cite(source)) for label, value, source in _rows(profile)]


def quota_text(bounds: profiles.QuotaBounds) -> str:
    """``50 GiB to 100 TiB``."""
    return f"{format_bytes(bounds.at_least_gib * GIB)} to {format_bytes(bounds.at_most_gib * GIB)}"


def bounds_text(settable: profiles.Settable) -> str:
    """``3,000 to 102,400``."""
    if settable.mb_per_s:
        return ", ".join(f"{each:,}" for each in settable.mb_per_s) + " MB/s"
    text = f"{settable.at_least:,} to {settable.at_most:,}"
    if settable.pool_at_most_per_tib is not None:
        text += f", of the pool's {settable.pool_at_most_per_tib:,} × TiB"
        text += f" (at least {settable.pool_at_least:,})" if settable.pool_at_least else ""
    return text


def _rows(profile: profiles.Profile) -> Iterator[Row]:
    if profile.quota is not None:
        yield "quota", quota_text(profile.quota), profile.quota.source
    yield from _cap_rows(profile, "volume")
    yield from _burst_rows("IOPS", profile.burst_iops)
    yield from _burst_rows("throughput, MiB/s", profile.burst_throughput_mib_per_s)
    if (weight := profile.reads_per_write) is not None:
        yield "bytes of reads that count as one", f"{weight.value:,}", weight.source
    yield from _latency_rows("latency", profile.latency_us)
    yield from _latency_rows("latency of writes", profile.write_latency_us)
    if (window := profile.window_ms) is not None:
        yield "window of the limits, ms", f"{window.value:,}", window.source
    if (cache := profile.server_cache) is not None:
        costs = [
            f", {name.replace('_', ' ')} {cost}" for name in profiles.HIT_COSTS if (cost := getattr(cache, name)) != 1
        ]
        text = "; cost of hits:" + "".join(costs)[1:] if costs else ""
        yield "server cache", format_bytes(cache.mib * MIB) + text.replace("iops", "IOPS"), cache.source
    yield from _cap_rows(profile, "connection", "client")
    if (parallelism := profile.parallelism) is not None:
        text = f"{parallelism.servers:,} at once, {_service_text(parallelism.service_us, parallelism.per_kib_us)} each"
        of_any = parallelism.service_us, parallelism.per_kib_us
        of_writes = parallelism.write_service_us, parallelism.write_per_kib_us
        if of_writes != (None, None):
            own_us, own_per_kib_us = (us if own is None else own for us, own in zip(of_any, of_writes, strict=True))
            text += f", writes {_service_text(own_us, own_per_kib_us)}"
        yield "operations served", text, parallelism.source


def _cap_rows(profile: profiles.Profile, *scopes: Scope) -> Iterator[Row]:
    for cap in CAPS:
        figure: profiles.Formula | profiles.Number | None = getattr(profile, cap.figure)
        if cap.scope in scopes and figure is not None:
            yield from _figure_rows(cap.label, figure)


def _figure_rows(label: str, figure: profiles.Formula | profiles.Number) -> Iterator[Row]:
    yield label, formula_text(figure) if isinstance(figure, profiles.Formula) else f"{figure.value:,}", figure.source
    if isinstance(figure, profiles.Figure) and figure.settable is not None:
        yield f"{label}, set by hand", bounds_text(figure.settable), figure.settable.source


def _burst_rows(what: str, burst: profiles.BurstFigure | None) -> Iterator[Row]:
    if burst is not None:
        yield f"burst {what}", formula_text(burst), burst.source
        held = formula_text(burst.credits) + (", GiB" if "MiB" in what else "") if burst.credits else ""
        yield "burst credits", held or f"(burst − {what.partition(',')[0]}) × {burst.credits_for_s:,}", burst.source


def _latency_rows(label: str, latency: profiles.LatencyFigure | None) -> Iterator[Row]:
    if latency is None:
        return
    per_kib = f" + {latency.per_kib:,} × KiB" if latency.per_kib else ""
    yield f"{label}, µs", f"{latency.value:,}{per_kib}", latency.source
    if latency.distribution is not None:
        yield f"{label}, random part", _distribution_text(latency.distribution), latency.source


def formula_text(figure: profiles.Formula) -> str:
    """``64 × TiB, at most 4,500``."""
    settable = figure.settable if isinstance(figure, profiles.Figure) else None
    is_set = bool(settable and settable.mb_per_s) or bool(figure.steps)
    parts = [f"{figure.base:,}"] if figure.base or not (figure.terms or is_set) else []
    parts += [part for term in figure.terms for part in _term(term)]
    text = " + ".join(parts) or ("" if figure.steps else "as set")
    text += ("; at most " if text and figure.steps else "") + ", ".join(map(_step, figure.steps))
    text += f", at least {figure.at_least:,}" if figure.at_least else ""
    return text + (f", at most {figure.at_most:,}" if figure.at_most else "")


def _step(step: profiles.ThroughputStep) -> str:
    size = [f"{step.gib:,} GiB"] * (step.gib > 0) + [f"{step.mb_per_s:,} MB/s"] * (step.mb_per_s > 0)
    return f"{step.value:,}" + (f" from {' and '.join(size)}" if size else "")


def _term(term: profiles.Term) -> Iterator[str]:
    for factor, unit in (
        (term.per_gib, "GiB"),
        (term.per_tib, "TiB"),
        (term.per_tib_stored, "TiB stored"),
        (term.per_iops, "IOPS"),
    ):
        if factor:
            part = f"{factor:,} × {unit}"
            yield f"⌈{part}⌉" if term.round_up else part


def _distribution_text(distribution: profiles.ExponentialFigure | profiles.LognormalFigure) -> str:
    if isinstance(distribution, profiles.ExponentialFigure):
        return f"an exponential tail, mean {_time(distribution.mean_us)}"
    return f"lognormal, median {_time(distribution.median_us)}, 99 % below {_time(distribution.p99_us)}"


def _service_text(base_us: Decimal, per_kib_us: Decimal) -> str:
    return _time(base_us) + (f" + {_time(per_kib_us)} × KiB" if per_kib_us else "")


def _time(microseconds: Decimal) -> str:
    return format_duration(math.ceil(microseconds * 1000))

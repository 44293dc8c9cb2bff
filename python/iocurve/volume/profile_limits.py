"""The limits that a profile gives a volume of some size, and the bounds of the settings that replace them."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction

from iocurve.errors import Diagnostic, DialectError
from iocurve.units import GIB, MIB, TIB, format_bytes
from iocurve.volume import limits
from iocurve.volume.profile import (
    Cited,
    Exponential,
    Formula,
    LatencyFigure,
    Lognormal,
    Number,
    ParallelismFigure,
    Profile,
    load,
)
from iocurve.volume.profile_text import bounds_text, quota_text


def resolve(
    name: str,
    quota_bytes: int,
    *,
    throughput_bytes_per_s: int | None = None,
    iops: int | None = None,
    latency_ns: int | None = None,
    pool_bytes: int | None = None,
    client_egress_bytes_per_s: int | None = None,
    client_iops_read: int | None = None,
    client_iops_write: int | None = None,
) -> limits.Limits:
    """The limits that a profile gives a volume of this size; settings replace its own figures.

    ``pool_bytes`` is the size of the capacity pool of manual QoS; by default the quota. ``client_egress_bytes_per_s``
    and ``client_iops_write`` limit the writes of each client, ``client_iops_read`` its reads. Raises ``DialectError``
    for a size or a setting out of the profile's bounds.
    """
    profile = load(name)
    _check_quota(name, profile, quota_bytes)
    if throughput_bytes_per_s is not None:
        _check_throughput(name, profile, throughput_bytes_per_s, pool_bytes or quota_bytes)
    if iops is not None:
        _check_iops(name, profile, iops)
    found = _limits(profile, quota_bytes, iops if iops is not None else _value(profile.iops, quota_bytes))
    if throughput_bytes_per_s is not None:
        found = found.replace(throughput_bytes_per_s=throughput_bytes_per_s)
    if latency_ns is not None:
        found = found.replace(latency=limits.Latency(base_ns=latency_ns))
    client = {
        "bandwidth_write_bytes_per_s": client_egress_bytes_per_s,
        "iops_read": client_iops_read,
        "iops_write": client_iops_write,
    }
    found = found.replace(client=found.client.replace(**{name: rate for name, rate in client.items() if rate}))
    return _without_idle_caps(found)


def next_tib_bytes_per_s(limits_at: Callable[[int], limits.Limits], quota_bytes: int) -> int | None:
    """The throughput that a quota 1 TiB larger adds; None without a throughput limit.

    ``limits_at`` gives the limits of a quota, as ``resolve`` does, so that the answer follows the profile's formula. A
    quota beyond the profile's largest adds nothing.
    """
    now = limits_at(quota_bytes).throughput_bytes_per_s
    if now is None:
        return None
    try:
        larger = limits_at(quota_bytes + TIB).throughput_bytes_per_s
    except DialectError:
        return 0
    return None if larger is None else larger - now


# ---- the profile's own figures


def _limits(profile: Profile, quota_bytes: int, iops: int | None) -> limits.Limits:
    return limits.Limits(
        throughput_bytes_per_s=_value(profile.throughput_mib_per_s, quota_bytes, MIB),
        throughput_read_bytes_per_s=_value(profile.throughput_read_mib_per_s, quota_bytes, MIB),
        throughput_write_bytes_per_s=_value(profile.throughput_write_mib_per_s, quota_bytes, MIB),
        iops=iops,
        iops_read=_value(profile.iops_read, quota_bytes),
        iops_write=_value(profile.iops_write, quota_bytes),
        burst=_burst(profile, quota_bytes, iops),
        latency=_latency(profile.latency_us) if profile.latency_us else limits.Latency(),
        client=_client(profile),
        connection=_connection(profile),
        parallelism=_parallelism(profile.parallelism) if profile.parallelism else None,
    )


def _without_idle_caps(found: limits.Limits) -> limits.Limits:
    """The limits without those of one kind of operation that the limit of both already keeps."""
    total = {"throughput": found.throughput_bytes_per_s, "iops": found.burst.iops if found.burst else found.iops}
    of_kind = ("throughput_read_bytes_per_s", "throughput_write_bytes_per_s", "iops_read", "iops_write")
    pairs = ((name, getattr(found, name), total[name.split("_")[0]]) for name in of_kind)
    return found.replace(**{name: None for name, one, both in pairs if one is not None and both and one >= both})


def _value(figure: Formula | None, quota_bytes: int, unit: int = 1) -> int | None:
    return None if figure is None else math.floor(figure.of(quota_bytes) * unit)


def _burst(profile: Profile, quota_bytes: int, iops: int | None) -> limits.Burst | None:
    if profile.burst_iops is None or iops is None:
        return None
    burst = math.floor(profile.burst_iops.of(quota_bytes, iops))
    if burst <= iops:
        return None
    return limits.Burst(iops=burst, credits=(burst - iops) * profile.burst_iops.credits_for_s)


def _latency(figure: LatencyFigure) -> limits.Latency:
    base_ns = _ns(figure.value)
    if figure.distribution is None:
        return limits.Latency(base_ns=base_ns)
    return limits.Latency(base_ns=base_ns, distribution=_distribution(figure.distribution))


def _distribution(distribution: Exponential | Lognormal) -> limits.Exponential | limits.Lognormal:
    if isinstance(distribution, Exponential):
        return limits.Exponential(mean_ns=_ns(distribution.mean_us))
    return limits.Lognormal(median_ns=_ns(distribution.median_us), p99_ns=_ns(distribution.p99_us))


def _client(profile: Profile) -> limits.ClientLimits:
    return limits.ClientLimits(
        bandwidth_read_bytes_per_s=_number(profile.bandwidth_read_mib_per_s_per_client, MIB),
        bandwidth_write_bytes_per_s=_number(profile.bandwidth_write_mib_per_s_per_client, MIB),
        iops_read=_number(profile.iops_read_per_client),
        iops_write=_number(profile.iops_write_per_client),
    )


def _connection(profile: Profile) -> limits.ConnectionLimits:
    return limits.ConnectionLimits(
        requests_in_flight=_number(profile.requests_in_flight_per_connection),
        bandwidth_bytes_per_s=_number(profile.bandwidth_mib_per_s_per_connection, MIB),
        bandwidth_read_bytes_per_s=_number(profile.bandwidth_read_mib_per_s_per_connection, MIB),
        bandwidth_write_bytes_per_s=_number(profile.bandwidth_write_mib_per_s_per_connection, MIB),
        iops=_number(profile.iops_per_connection),
        iops_read=_number(profile.iops_read_per_connection),
        iops_write=_number(profile.iops_write_per_connection),
    )


def _number(figure: Number | None, unit: int = 1) -> int | None:
    return figure.value * unit if figure else None


def _parallelism(figure: ParallelismFigure) -> limits.Parallelism:
    return limits.Parallelism(servers=figure.servers, service_ns=_ns(figure.service_us))


def _ns(microseconds: Decimal) -> int:
    return math.ceil(microseconds * 1000)


# ---- bounds


def _check_quota(name: str, profile: Profile, quota_bytes: int) -> None:
    bounds = profile.quota
    if bounds and not bounds.at_least_gib * GIB <= quota_bytes <= bounds.at_most_gib * GIB:
        raise _refused(
            f"{name}: a quota of {format_bytes(quota_bytes)} is not within {quota_text(bounds)}"
            f"{_in_brackets(profile, bounds)}; choose another quota or profile"
        )


def _check_throughput(name: str, profile: Profile, throughput: int, pool_bytes: int) -> None:
    figure = profile.throughput_mib_per_s
    if figure is None:
        return
    if figure.settable is None:
        raise _not_settable(name, "throughput", _in_brackets(profile, figure))
    settable = figure.settable
    most = settable.bound(pool_bytes)
    if not settable.at_least <= Fraction(throughput, MIB) <= most:
        pool = f" in a pool of {format_bytes(pool_bytes)}" if settable.pool_at_most_per_tib else ""
        raise _refused(
            f"{name}: a throughput of {format_bytes(throughput)}/s is not within {settable.at_least:,} to "
            f"{float(most):,.6g} MiB/s{pool}{_in_brackets(profile, settable)}; "
            "choose another throughput, a larger pool, or --profile unlimited"
        )


def _check_iops(name: str, profile: Profile, iops: int) -> None:
    figure = profile.iops
    if figure is None:
        return
    if figure.settable is None:
        raise _not_settable(name, "IOPS", _in_brackets(profile, figure))
    if not figure.settable.at_least <= iops <= figure.settable.at_most:
        raise _refused(
            f"{name}: {iops:,} IOPS are not within {bounds_text(figure.settable)}"
            f"{_in_brackets(profile, figure.settable)}; choose another number, or --profile unlimited"
        )


def _not_settable(name: str, what: str, source: str) -> DialectError:
    return _refused(
        f"{name}: its {what} follows from the quota and cannot be set{source}; "
        "choose another quota, or --profile unlimited"
    )


def _refused(text: str) -> DialectError:
    return DialectError([Diagnostic(text)])


def _in_brackets(profile: Profile, figure: Cited) -> str:
    return f" ({cited})" if (cited := profile.cite(figure.source)) else ""

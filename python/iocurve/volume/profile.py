"""Service levels: published figures as data (``profiles/*.toml``), or a person's own, and what they make of a quota."""

from __future__ import annotations

import math
import tomllib
from decimal import Decimal
from fractions import Fraction
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from iocurve.errors import TargetError
from iocurve.units import GIB, MIB, TIB, format_bytes, format_duration
from iocurve.volume import limits

UNLIMITED = "unlimited"
FIGURE_MAX = (1 << 53) - 1
"""Largest number in a profile."""

Whole = Annotated[int, Field(ge=0, le=FIGURE_MAX)]
Positive = Annotated[int, Field(gt=0, le=FIGURE_MAX)]
Microseconds = Annotated[Decimal, Field(gt=0, le=3_600_000_000)]


class _Data(BaseModel):
    """Written by people: nothing is passed over."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Source(_Data):
    """Where a figure was published."""

    page: str
    """A page of learn.microsoft.com; of a person's own profile, whatever tells where a figure comes from."""
    date: str | None = None
    """State of the page, if it has one."""


class Term(_Data):
    """A part of a figure that grows with the size, or with the IOPS."""

    per_gib: Annotated[Decimal, Field(ge=0, le=FIGURE_MAX)] = Decimal(0)
    per_tib: Annotated[Decimal, Field(ge=0, le=FIGURE_MAX)] = Decimal(0)
    per_iops: Annotated[Decimal, Field(ge=0, le=FIGURE_MAX)] = Decimal(0)
    round_up: bool = False

    def of(self, quota_bytes: int, iops: int) -> Fraction:
        """Its value."""
        value = Fraction(self.per_gib) * quota_bytes / GIB + Fraction(self.per_tib) * quota_bytes / TIB
        value += Fraction(self.per_iops) * iops
        return Fraction(math.ceil(value)) if self.round_up else value


class _Cited(_Data):
    """A figure, and by which of the profile's sources."""

    source: str | None = None


class Settable(_Cited):
    """Bounds within which a figure can be set; of manual QoS also the pool's."""

    at_least: Whole
    at_most: Whole
    pool_at_most_per_tib: Whole | None = None
    """What a capacity pool has for each TiB of its size."""
    pool_at_least: Whole = 0
    """What a capacity pool has whatever its size."""

    def bound(self, pool_bytes: int) -> Fraction:
        """The most that can be set in a pool of this size."""
        if self.pool_at_most_per_tib is None:
            return Fraction(self.at_most)
        pool = max(Fraction(self.pool_at_most_per_tib * pool_bytes, TIB), Fraction(self.pool_at_least))
        return min(pool, Fraction(self.at_most))


class Formula(_Cited):
    """A base and terms, within bounds."""

    base: Whole = 0
    terms: tuple[Term, ...] = ()
    at_least: Whole = 0
    at_most: Positive | None = None

    def of(self, quota_bytes: int, iops: int = 0) -> Fraction:
        """Its value for a volume of this size."""
        value = max(
            self.base + sum((term.of(quota_bytes, iops) for term in self.terms), Fraction(0)), Fraction(self.at_least)
        )
        return value if self.at_most is None else min(value, Fraction(self.at_most))


class Figure(Formula):
    """A formula whose result can be replaced by hand, within bounds."""

    settable: Settable | None = None


class BurstFigure(Formula):
    """IOPS that can be had for a time."""

    credits_for_s: Whole
    """The bucket of credits lasts so long at the full burst."""


class Number(_Cited):
    """A figure that is the same for every size."""

    value: Positive


class Exponential(_Data):
    """An exponential tail."""

    kind: Literal["exponential"]
    mean_us: Microseconds

    def limit(self) -> limits.Exponential:
        """As the volume takes it."""
        return limits.Exponential(mean_ns=_ns(self.mean_us))

    def __str__(self) -> str:
        return f"an exponential tail, mean {_time(self.mean_us)}"


class Lognormal(_Data):
    """A logarithmic normal distribution, by its median and its 99th percentile."""

    kind: Literal["lognormal"]
    median_us: Microseconds
    p99_us: Microseconds

    @model_validator(mode="after")
    def _rises(self) -> Self:
        if self.p99_us < self.median_us:
            raise ValueError("p99_us must not be below median_us")
        return self

    def limit(self) -> limits.Lognormal:
        """As the volume takes it."""
        return limits.Lognormal(median_ns=_ns(self.median_us), p99_ns=_ns(self.p99_us))

    def __str__(self) -> str:
        return f"lognormal, median {_time(self.median_us)}, 99 % below {_time(self.p99_us)}"


class LatencyFigure(_Cited):
    """What is added to each read and write: the same for all, and what comes on top."""

    value: Annotated[Decimal, Field(ge=0, le=3_600_000_000)] = Decimal(0)
    distribution: Annotated[Exponential | Lognormal, Field(discriminator="kind")] | None = None

    def limit(self) -> limits.Latency:
        """As the volume takes it."""
        if self.distribution is None:
            return limits.Latency(base_ns=_ns(self.value))
        return limits.Latency(base_ns=_ns(self.value), distribution=self.distribution.limit())


class ParallelismFigure(_Cited):
    """The server's own speed: how many processors' worth of operations at once, and how long each takes."""

    servers: Annotated[int, Field(gt=0, le=65_536)]
    service_us: Microseconds

    def limit(self) -> limits.Parallelism:
        """As the volume takes it."""
        return limits.Parallelism(servers=self.servers, service_ns=_ns(self.service_us))


class QuotaBounds(_Cited):
    """Sizes that a volume can have."""

    at_least_gib: Whole
    at_most_gib: Positive


class Profile(_Data):
    """A service level as it was published. What is absent is not limited, or not stated."""

    title: str
    sources: dict[str, Source] = {}
    quota: QuotaBounds | None = None
    throughput_mib_per_s: Figure | None = None
    """Reads and writes together."""
    throughput_read_mib_per_s: Formula | None = None
    throughput_write_mib_per_s: Formula | None = None
    iops: Figure | None = None
    """Reads and writes together."""
    iops_read: Formula | None = None
    iops_write: Formula | None = None
    burst_iops: BurstFigure | None = None
    latency_us: LatencyFigure | None = None
    requests_in_flight_per_connection: Number | None = None
    bandwidth_mib_per_s_per_connection: Number | None = None
    bandwidth_read_mib_per_s_per_client: Number | None = None
    bandwidth_write_mib_per_s_per_client: Number | None = None
    """Of an IP address, over all its connections: what the egress cap of a virtual machine comes to."""
    parallelism: ParallelismFigure | None = None

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        for name in type(self).model_fields:
            figure = getattr(self, name)
            cited = [figure, getattr(figure, "settable", None)]
            for source in (part.source for part in cited if isinstance(part, _Cited)):
                if source is not None and source not in self.sources:
                    raise ValueError(f"{name}: there is no [sources.{source}]")
        if self.burst_iops is not None and self.iops is None:
            raise ValueError("burst_iops: a burst needs iops to go beyond")
        return self

    def cite(self, source: str | None) -> str:
        """Where a figure comes from, for people."""
        if source is None:
            return ""
        found = self.sources[source]
        return found.page if found.date is None else f"{found.page}, {found.date}"


def names() -> list[str]:
    """All profiles."""
    files = resources.files(__package__) / "profiles"
    return sorted(file.name.removesuffix(".toml") for file in files.iterdir() if file.name.endswith(".toml"))


def load(name: str) -> Profile:
    """A profile by its name, or a person's own by the path of its file, which ends in .toml. Raises ``TargetError``."""
    if not name.endswith(".toml"):
        return _published(name)
    try:
        return parse(Path(name).read_text(encoding="utf-8"), f"profile {name}")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise TargetError(f"profile {name}: {reason}") from None


def findable(name: str) -> str:
    """The same profile as another process would name it, whatever its working directory."""
    return str(Path(name).absolute()) if name.endswith(".toml") else name


@cache
def _published(name: str) -> Profile:
    if name not in names():
        raise TargetError(
            f"there is no profile '{name}'; there are: {', '.join(names())}, and files of your own, which end in .toml"
        )
    text = (resources.files(__package__) / "profiles" / f"{name}.toml").read_text(encoding="utf-8")
    return parse(text, f"profile {name}")


def parse(text: str, where: str) -> Profile:
    """A profile from TOML. Raises ``TargetError`` that says where it is wrong."""
    try:
        return Profile.model_validate(tomllib.loads(text, parse_float=Decimal))
    except tomllib.TOMLDecodeError as error:
        raise TargetError(f"{where}: {error}") from None
    except ValidationError as error:
        first = error.errors()[0]
        place = "".join(f"{part}." for part in first["loc"]).rstrip(".")
        raise TargetError(
            f"{where}: {place}{': ' if place else ''}{first['msg'].removeprefix('Value error, ')}"
        ) from None


def resolve(
    name: str,
    quota_bytes: int,
    *,
    throughput_bytes_per_s: int | None = None,
    iops: int | None = None,
    latency_ns: int | None = None,
    pool_bytes: int | None = None,
    client_egress_bytes_per_s: int | None = None,
) -> limits.Limits:
    """What a profile gives a volume of this size, with what is set instead. Raises ``TargetError`` beyond the bounds.

    ``pool_bytes`` is the size of the capacity pool of manual QoS; the quota if not given. ``client_egress_bytes_per_s``
    is what each client can send, and so write.
    """
    profile = load(name)
    _check_quota(name, profile, quota_bytes)
    if throughput_bytes_per_s is not None:
        _check_throughput(name, profile, throughput_bytes_per_s, pool_bytes or quota_bytes)
    if iops is None:
        iops = _value(profile.iops, quota_bytes)
    else:
        _check_iops(name, profile, iops)
    latency = profile.latency_us.limit() if profile.latency_us else limits.Latency()
    return limits.Limits(
        throughput_bytes_per_s=throughput_bytes_per_s or _value(profile.throughput_mib_per_s, quota_bytes, MIB),
        throughput_read_bytes_per_s=_value(profile.throughput_read_mib_per_s, quota_bytes, MIB),
        throughput_write_bytes_per_s=_value(profile.throughput_write_mib_per_s, quota_bytes, MIB),
        iops=iops,
        iops_read=_value(profile.iops_read, quota_bytes),
        iops_write=_value(profile.iops_write, quota_bytes),
        burst=_burst(profile, quota_bytes, iops),
        latency=latency if latency_ns is None else limits.Latency(base_ns=latency_ns),
        client=_client(profile, client_egress_bytes_per_s),
        connection=_connection(profile),
        parallelism=profile.parallelism.limit() if profile.parallelism else None,
    )


def describe(name: str) -> list[tuple[str, str, str]]:
    """The figures of a profile: what, how much, and where that was published."""
    profile = load(name)
    rows = []
    if profile.quota is not None:
        rows.append(("quota", _range(profile.quota), profile.quota.source))
    figures: tuple[tuple[str, Formula | None], ...] = (
        ("throughput, MiB/s", profile.throughput_mib_per_s),
        ("read throughput, MiB/s", profile.throughput_read_mib_per_s),
        ("write throughput, MiB/s", profile.throughput_write_mib_per_s),
        ("IOPS", profile.iops),
        ("read IOPS", profile.iops_read),
        ("write IOPS", profile.iops_write),
        ("burst IOPS", profile.burst_iops),
    )
    for label, figure in figures:
        if figure is None:
            continue
        rows.append((label, _formula(figure), figure.source))
        if isinstance(figure, BurstFigure):
            rows.append(("burst credits", f"(burst − IOPS) × {figure.credits_for_s:,}", figure.source))
        if isinstance(figure, Figure) and figure.settable is not None:
            rows.append((f"{label}, set by hand", _bounds(figure.settable), figure.settable.source))
    if (latency := profile.latency_us) is not None:
        rows.append(("latency, µs", f"{latency.value:,}", latency.source))
        if latency.distribution is not None:
            rows.append(("latency, on top of that", str(latency.distribution), latency.source))
    numbers = (
        ("requests in flight per connection", profile.requests_in_flight_per_connection),
        ("bandwidth per connection, MiB/s", profile.bandwidth_mib_per_s_per_connection),
        ("reads of a client, MiB/s", profile.bandwidth_read_mib_per_s_per_client),
        ("writes of a client, MiB/s", profile.bandwidth_write_mib_per_s_per_client),
    )
    rows.extend((label, f"{number.value:,}", number.source) for label, number in numbers if number is not None)
    if (parallelism := profile.parallelism) is not None:
        text = f"{parallelism.servers:,} at once, {_time(parallelism.service_us)} each"
        rows.append(("operations served", text, parallelism.source))
    return [(label, text, profile.cite(source)) for label, text, source in rows]


def _value(figure: Formula | None, quota_bytes: int, unit: int = 1) -> int | None:
    return None if figure is None else math.floor(figure.of(quota_bytes) * unit)


def _client(profile: Profile, egress: int | None) -> limits.ClientLimits:
    read, write = profile.bandwidth_read_mib_per_s_per_client, profile.bandwidth_write_mib_per_s_per_client
    return limits.ClientLimits(
        bandwidth_read_bytes_per_s=read.value * MIB if read else None,
        bandwidth_write_bytes_per_s=egress or (write.value * MIB if write else None),
    )


def _connection(profile: Profile) -> limits.ConnectionLimits:
    in_flight, bandwidth = profile.requests_in_flight_per_connection, profile.bandwidth_mib_per_s_per_connection
    return limits.ConnectionLimits(
        requests_in_flight=in_flight.value if in_flight else None,
        bandwidth_bytes_per_s=bandwidth.value * MIB if bandwidth else None,
    )


def _ns(microseconds: Decimal) -> int:
    return math.ceil(microseconds * 1000)


def _time(microseconds: Decimal) -> str:
    return format_duration(_ns(microseconds))


def _burst(profile: Profile, quota_bytes: int, iops: int | None) -> limits.Burst | None:
    if profile.burst_iops is None or iops is None:
        return None
    burst = math.floor(profile.burst_iops.of(quota_bytes, iops))
    if burst <= iops:
        return None
    return limits.Burst(iops=burst, credits=(burst - iops) * profile.burst_iops.credits_for_s)


def _check_quota(name: str, profile: Profile, quota_bytes: int) -> None:
    bounds = profile.quota
    if bounds and not bounds.at_least_gib * GIB <= quota_bytes <= bounds.at_most_gib * GIB:
        raise TargetError(
            f"{name}: a quota of {format_bytes(quota_bytes)} is not within {_range(bounds)}"
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
        raise TargetError(
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
        raise TargetError(
            f"{name}: {iops:,} IOPS are not within {_bounds(figure.settable)}"
            f"{_in_brackets(profile, figure.settable)}; choose another number, or --profile unlimited"
        )


def _not_settable(name: str, what: str, source: str) -> TargetError:
    return TargetError(
        f"{name}: its {what} follows from the quota and cannot be set{source}; "
        "choose another quota, or --profile unlimited"
    )


def _in_brackets(profile: Profile, figure: _Cited) -> str:
    return f" ({cited})" if (cited := profile.cite(figure.source)) else ""


def _range(bounds: QuotaBounds) -> str:
    return f"{format_bytes(bounds.at_least_gib * GIB)} to {format_bytes(bounds.at_most_gib * GIB)}"


def _formula(figure: Formula) -> str:
    parts = [f"{figure.base:,}"] if figure.base or not figure.terms else []
    for term in figure.terms:
        for factor, unit in ((term.per_gib, "GiB"), (term.per_tib, "TiB"), (term.per_iops, "IOPS")):
            if factor:
                part = f"{factor:,} × {unit}"
                parts.append(f"⌈{part}⌉" if term.round_up else part)
    text = " + ".join(parts)
    text += f", at least {figure.at_least:,}" if figure.at_least else ""
    return text + (f", at most {figure.at_most:,}" if figure.at_most else "")


def _bounds(settable: Settable) -> str:
    text = f"{settable.at_least:,} to {settable.at_most:,}"
    if settable.pool_at_most_per_tib is not None:
        text += f", of the pool's {settable.pool_at_most_per_tib:,} × TiB"
        text += f" (at least {settable.pool_at_least:,})" if settable.pool_at_least else ""
    return text

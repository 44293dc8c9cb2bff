"""Service levels: published figures as data (``profiles/*.toml``), and what they make of a quota."""

from __future__ import annotations

import math
import tomllib
from decimal import Decimal
from fractions import Fraction
from functools import cache
from importlib import resources
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from iocurve.errors import TargetError
from iocurve.units import GIB, MIB, TIB, format_bytes

UNLIMITED = "unlimited"


class _Data(BaseModel):
    """Written by people: nothing is passed over."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Source(_Data):
    """Where a figure was published."""

    page: str
    """A page of learn.microsoft.com."""
    date: str | None = None
    """State of the page, if it has one."""


class Term(_Data):
    """A part of a figure that grows with the size, or with the IOPS."""

    per_gib: Decimal = Decimal(0)
    per_tib: Decimal = Decimal(0)
    per_iops: Decimal = Decimal(0)
    round_up: bool = False

    def of(self, quota_bytes: int, iops: int) -> Fraction:
        """Its value."""
        value = Fraction(self.per_gib) * quota_bytes / GIB + Fraction(self.per_tib) * quota_bytes / TIB
        value += Fraction(self.per_iops) * iops
        return Fraction(math.ceil(value)) if self.round_up else value


class Settable(_Data):
    """Bounds within which a figure can be set; of manual QoS also the pool's."""

    at_least: int
    at_most: int
    pool_at_most_per_tib: int | None = None
    """What a capacity pool has for each TiB of its size."""
    pool_at_least: int = 0
    """What a capacity pool has whatever its size."""
    source: str

    def bound(self, pool_bytes: int) -> Fraction:
        """The most that can be set in a pool of this size."""
        if self.pool_at_most_per_tib is None:
            return Fraction(self.at_most)
        pool = max(Fraction(self.pool_at_most_per_tib * pool_bytes, TIB), Fraction(self.pool_at_least))
        return min(pool, Fraction(self.at_most))


class Figure(_Data):
    """A base and terms, within bounds."""

    base: int = 0
    terms: tuple[Term, ...] = ()
    at_least: int = 0
    at_most: int | None = None
    settable: Settable | None = None
    source: str

    def of(self, quota_bytes: int, iops: int = 0) -> Fraction:
        """Its value for a volume of this size."""
        value = max(
            self.base + sum((term.of(quota_bytes, iops) for term in self.terms), Fraction(0)), Fraction(self.at_least)
        )
        return value if self.at_most is None else min(value, Fraction(self.at_most))


class BurstFigure(Figure):
    """IOPS that can be had for a time."""

    credits_for_s: int
    """The bucket of credits lasts so long at the full burst."""


class Constant(_Data):
    """A figure that is the same for every size."""

    value: Annotated[int, Field(ge=0)]
    source: str


class QuotaBounds(_Data):
    """Sizes that a volume can have."""

    at_least_gib: int
    at_most_gib: int
    source: str


class Profile(_Data):
    """A service level as it was published. What is absent is not limited, or not stated."""

    title: str
    sources: dict[str, Source] = {}
    quota: QuotaBounds | None = None
    throughput_mib_per_s: Figure | None = None
    iops: Figure | None = None
    burst_iops: BurstFigure | None = None
    latency_us: Constant | None = None
    requests_in_flight_per_connection: Constant | None = None


class Burst(BaseModel):
    """IOPS beyond the baseline while credits last: each operation above the baseline costs one."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    iops: int
    credits: int


class Resolved(BaseModel):
    """What a profile makes of a quota. None is no limit."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    throughput_bytes_per_s: int | None = None
    """Reads and writes together."""
    iops: int | None = None
    """Reads and writes together."""
    burst: Burst | None = None
    latency_ns: int = 0
    """Added to each read and write."""
    requests_in_flight_per_connection: int | None = None


def names() -> list[str]:
    """All profiles."""
    files = resources.files("iocurve") / "profiles"
    return sorted(file.name.removesuffix(".toml") for file in files.iterdir() if file.name.endswith(".toml"))


@cache
def load(name: str) -> Profile:
    """A profile by its name. Raises ``TargetError``."""
    if name not in names():
        raise TargetError(f"there is no profile '{name}'; there are: {', '.join(names())}")
    text = (resources.files("iocurve") / "profiles" / f"{name}.toml").read_text(encoding="utf-8")
    return parse(text, f"profile {name}")


def parse(text: str, where: str) -> Profile:
    """A profile from TOML. Raises ``TargetError`` that says where it is wrong."""
    try:
        return Profile.model_validate(tomllib.loads(text, parse_float=Decimal))
    except tomllib.TOMLDecodeError as error:
        raise TargetError(f"{where}: {error}") from None
    except ValidationError as error:
        first = error.errors()[0]
        raise TargetError(f"{where}: {'.'.join(map(str, first['loc']))}: {first['msg']}") from None


def resolve(
    name: str,
    quota_bytes: int,
    *,
    throughput_bytes_per_s: int | None = None,
    iops: int | None = None,
    latency_ns: int | None = None,
    pool_bytes: int | None = None,
) -> Resolved:
    """What a profile gives a volume of this size, with what is set instead. Raises ``TargetError`` beyond the bounds.

    ``pool_bytes`` is the size of the capacity pool of manual QoS; the quota if not given.
    """
    profile = load(name)
    _check_quota(name, profile, quota_bytes)
    throughput = throughput_bytes_per_s
    if throughput is None and profile.throughput_mib_per_s is not None:
        throughput = math.floor(profile.throughput_mib_per_s.of(quota_bytes) * MIB)
    elif throughput is not None:
        _check_throughput(name, profile, throughput, pool_bytes or quota_bytes)
    if iops is None and profile.iops is not None:
        iops = math.floor(profile.iops.of(quota_bytes))
    elif iops is not None:
        _check_iops(name, profile, iops)
    latency = profile.latency_us.value * 1000 if profile.latency_us else 0
    in_flight = profile.requests_in_flight_per_connection
    return Resolved(
        throughput_bytes_per_s=throughput,
        iops=iops,
        burst=_burst(profile, quota_bytes, iops),
        latency_ns=latency if latency_ns is None else latency_ns,
        requests_in_flight_per_connection=in_flight.value if in_flight else None,
    )


def describe(name: str) -> list[tuple[str, str, str]]:
    """The figures of a profile: what, how much, and where that was published."""
    profile = load(name)
    rows = []
    if profile.quota is not None:
        rows.append(("quota", _range(profile.quota), profile.quota.source))
    figures = (
        ("throughput, MiB/s", profile.throughput_mib_per_s),
        ("IOPS", profile.iops),
        ("burst IOPS", profile.burst_iops),
    )
    for label, figure in figures:
        if figure is None:
            continue
        rows.append((label, _formula(figure), figure.source))
        if isinstance(figure, BurstFigure):
            rows.append(("burst credits", f"(burst − IOPS) × {figure.credits_for_s:,}", figure.source))
        if figure.settable is not None:
            rows.append((f"{label}, set by hand", _bounds(figure.settable), figure.settable.source))
    if profile.latency_us is not None:
        rows.append(("latency, µs", f"{profile.latency_us.value:,}", profile.latency_us.source))
    if profile.requests_in_flight_per_connection is not None:
        value = profile.requests_in_flight_per_connection
        rows.append(("requests in flight per connection", f"{value.value:,}", value.source))
    return [(label, text, _cite(profile.sources[source])) for label, text, source in rows]


def _burst(profile: Profile, quota_bytes: int, iops: int | None) -> Burst | None:
    if profile.burst_iops is None or iops is None:
        return None
    burst = math.floor(profile.burst_iops.of(quota_bytes, iops))
    return Burst(iops=burst, credits=(burst - iops) * profile.burst_iops.credits_for_s) if burst > iops else None


def _check_quota(name: str, profile: Profile, quota_bytes: int) -> None:
    bounds = profile.quota
    if bounds and not bounds.at_least_gib * GIB <= quota_bytes <= bounds.at_most_gib * GIB:
        source = _cite(profile.sources[bounds.source])
        raise TargetError(
            f"{name}: a quota of {format_bytes(quota_bytes)} is not within {_range(bounds)} ({source}); "
            "choose another quota or profile"
        )


def _check_throughput(name: str, profile: Profile, throughput: int, pool_bytes: int) -> None:
    figure = profile.throughput_mib_per_s
    if figure is None:
        return
    if figure.settable is None:
        raise _not_settable(name, "throughput", profile.sources[figure.source])
    settable = figure.settable
    most = settable.bound(pool_bytes)
    if not settable.at_least <= Fraction(throughput, MIB) <= most:
        pool = f" in a pool of {format_bytes(pool_bytes)}" if settable.pool_at_most_per_tib else ""
        raise TargetError(
            f"{name}: a throughput of {format_bytes(throughput)}/s is not within {settable.at_least:,} to "
            f"{float(most):,.6g} MiB/s{pool} ({_cite(profile.sources[settable.source])}); "
            "choose another throughput, a larger pool, or --profile unlimited"
        )


def _check_iops(name: str, profile: Profile, iops: int) -> None:
    figure = profile.iops
    if figure is None:
        return
    if figure.settable is None:
        raise _not_settable(name, "IOPS", profile.sources[figure.source])
    if not figure.settable.at_least <= iops <= figure.settable.at_most:
        raise TargetError(
            f"{name}: {iops:,} IOPS are not within {_bounds(figure.settable)} "
            f"({_cite(profile.sources[figure.settable.source])}); choose another number, or --profile unlimited"
        )


def _not_settable(name: str, what: str, source: Source) -> TargetError:
    return TargetError(
        f"{name}: its {what} follows from the quota and cannot be set ({_cite(source)}); "
        "choose another quota, or --profile unlimited"
    )


def _range(bounds: QuotaBounds) -> str:
    return f"{format_bytes(bounds.at_least_gib * GIB)} to {format_bytes(bounds.at_most_gib * GIB)}"


def _formula(figure: Figure) -> str:
    parts = [f"{figure.base:,}"] if figure.base else []
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


def _cite(source: Source) -> str:
    return source.page if source.date is None else f"{source.page}, {source.date}"

"""Volumes and shares that carry a load: the smallest of each service level, by the formulas of the profiles."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction

from iocurve.advice import facts
from iocurve.advice.demand import Alternative, Demand, Impossible
from iocurve.advice.links import binding, carries
from iocurve.foundation.errors import DialectError
from iocurve.foundation.units import GIB, MIB, TIB, format_bytes, format_duration, format_latency, format_number
from iocurve.model.links import LinkLimit, amount, volume_links
from iocurve.volume import profile as profiles
from iocurve.volume import profile_limits
from iocurve.volume.limits import Limits
from iocurve.volume.profile import MB, Figure, Profile, Settable
from iocurve.volume.profile_limits import bounds_text, formula_text

Found = Iterator[Alternative | Impossible]


def volumes(demand: Demand) -> Found:
    """The smallest volume of every published service level, or why the level does not carry the load."""
    for name in profiles.names():
        profile = profiles.load(name)
        if name == profiles.UNLIMITED:
            continue
        latency_ns = profile_limits.resolve(name, profile.sizes.at_least_gib * GIB).latency.mean_ns
        if demand.latency_ns is not None and latency_ns > demand.latency_ns:
            yield Impossible(name=name, why=f"an operation takes about {format_latency(latency_ns)} there")
            continue
        found = [
            one for way in (_by_quota, _bursting, _in_pool, _by_setting, _by_step) for one in way(name, profile, demand)
        ]
        yield from found
        if not found:
            yield _refused(name, profile, demand)


def volume_at(name: str, quota_bytes: int, **settings: int | None) -> tuple[Limits, list[LinkLimit]]:
    """The limits of a volume and its links. Raises ``DialectError`` for a size or a setting out of bounds."""
    limits = profile_limits.resolve(name, quota_bytes, **settings)
    return limits, list(volume_links(name, limits))


def _links_at(name: str, quota_bytes: int, **settings: int | None) -> list[LinkLimit]:
    return volume_at(name, quota_bytes, **settings)[1]


def _smallest(name: str, profile: Profile, demand: Demand) -> int | None:
    return facts.smallest_quota(
        lambda quota: carries(_links_at(name, quota), demand), _least_gib(profile, demand), profile.sizes.at_most_gib
    )


def _least_gib(profile: Profile, demand: Demand) -> int:
    return max(profile.sizes.at_least_gib, math.ceil(Fraction(demand.capacity_bytes, GIB)))


# ---- throughput and IOPS follow from the quota


def _by_quota(name: str, profile: Profile, demand: Demand) -> Iterator[Alternative]:
    """Auto QoS, and provisioned v1: the quota decides."""
    # A level that states reads and writes apart is described by its reads.
    figure = profile.throughput_mib_per_s or profile.throughput_read_mib_per_s
    is_whole = profile.throughput_mib_per_s is not None
    is_settable = isinstance(figure, Figure) and figure.settable is not None
    if figure is None or (is_whole and is_settable and not figure.terms) or _sets_iops(profile):
        return
    if (quota := _smallest(name, profile, demand)) is None:
        return
    limits, links = volume_at(name, quota)
    settable = profile.throughput_mib_per_s and profile.throughput_mib_per_s.settable
    is_pooled = bool(settable and settable.pool_at_most_per_tib)
    pool = max(facts.value("capacity-pools", "pool_at_least_tib"), math.ceil(Fraction(quota, TIB)))
    yield Alternative(
        name=name,
        kind="volume",
        how="auto QoS" if is_pooled else "",
        gib=quota // GIB,
        pool_gib=pool * TIB // GIB if is_pooled else None,
        provisioned=f"quota {_tib(quota)}" + (f" in a pool of {pool:,} TiB" if is_pooled else ""),
        formula=f"{'' if is_whole else 'read '}MiB/s = {formula_text(figure)}",
        binds_first=_binds(links, demand),
        next_step=_next_quota(name, profile, quota),
        notes=(*_measured_notes(links, demand), *_burst_notes(limits, demand)),
        source=profile.cite(figure.source),
    )


def _bursting(name: str, profile: Profile, demand: Demand) -> Iterator[Alternative]:
    """A smaller share whose burst carries the IOPS as long as its credits last."""
    if profile.burst_iops is None or _sets_iops(profile) or not demand.iops:
        return
    steady = _smallest(name, profile, demand)

    def bursts(quota: int) -> bool:
        limits, links = volume_at(name, quota)
        others = [link for link in links if link.quantity != "iops"]
        highest = max(limits.value("iops") or 0, limits.burst.value if limits.burst else 0)
        return highest >= demand.iops and carries(others, demand)

    quota = facts.smallest_quota(bursts, _least_gib(profile, demand), profile.sizes.at_most_gib)
    if quota is None or (steady is not None and quota >= steady):
        return
    limits, _ = volume_at(name, quota)
    yield Alternative(
        name=name,
        kind="volume",
        how="on burst credits",
        gib=quota // GIB,
        provisioned=f"quota {_tib(quota)}",
        formula=f"burst IOPS = {formula_text(profile.burst_iops)}",
        binds_first="burst credits",
        next_step=f"{_tib(steady)} carries the load without credits" if steady else "",
        notes=tuple(_burst_notes(limits, demand)),
        source=profile.cite(profile.burst_iops.source),
    )


def _burst_notes(limits: Limits, demand: Demand) -> Iterator[str]:
    if limits.burst is None:
        return
    baseline = limits.value("iops") or 0
    yield f"bursts to {limits.burst.value:,} IOPS; {limits.burst.credits:,} credits when full"
    if baseline < demand.iops <= limits.burst.value:
        lasts = format_duration(burst_ns(limits, demand.iops) or 0)
        yield f"{demand.iops:,} IOPS last {lasts} from full credits; then {baseline:,} IOPS"


def burst_ns(limits: Limits, iops: int) -> int | None:
    """The time for which full credits sustain a rate: credits / (rate - baseline); None where they never run out."""
    baseline = limits.value("iops") or 0
    if limits.burst is None or iops <= baseline:
        return None
    return limits.burst.credits * 1_000_000_000 // (min(iops, limits.burst.value) - baseline)


# ---- throughput and IOPS are set


def _in_pool(name: str, profile: Profile, demand: Demand) -> Iterator[Alternative]:
    """Manual QoS: a volume takes its throughput from a capacity pool of another size."""
    figure = profile.throughput_mib_per_s
    settable = figure.settable if figure else None
    if settable is None or settable.pool_at_most_per_tib is None or not demand.bytes_per_s:
        return
    wanted = max(math.ceil(Fraction(demand.bytes_per_s, MIB)), settable.at_least)
    volume = _least_gib(profile, demand) * GIB
    pool = facts.smallest(
        lambda tib: settable.bound(tib * TIB) >= wanted,
        max(facts.value("capacity-pools", "pool_at_least_tib"), math.ceil(Fraction(volume, TIB))),
        facts.value("capacity-pools", "pool_at_most_tib"),
    )
    if pool is None or volume > profile.sizes.at_most_gib * GIB:
        return
    try:
        links = _links_at(name, volume, throughput_bytes_per_s=wanted * MIB, pool_bytes=pool * TIB)
    except DialectError:
        return
    if not carries(links, demand):
        return
    yield Alternative(
        name=name,
        kind="volume",
        how="manual QoS",
        gib=pool * TIB // GIB,
        mib_per_s_set=wanted if settable.pool_at_least else None,
        provisioned=f"pool {pool:,} TiB, volume {_tib(volume)} set to {wanted:,} MiB/s",
        formula=_pool_formula(settable),
        binds_first=_binds(links, demand),
        next_step=f"the pool has {_pool_left(settable, pool, wanted)} left for other volumes",
        notes=tuple(_measured_notes(links, demand)),
        source=profile.cite(settable.source),
    )


def _pool_formula(settable: Settable) -> str:
    at_least = f", at least {settable.pool_at_least:,}" if settable.pool_at_least else ""
    return f"pool's MiB/s = {settable.pool_at_most_per_tib:,} × TiB{at_least}; a volume at most {settable.at_most:,}"


def _pool_left(settable: Settable, pool_tib: int, wanted: int) -> str:
    of_pool = max((settable.pool_at_most_per_tib or 0) * pool_tib, settable.pool_at_least)
    return f"{of_pool - wanted:,} MiB/s"


def _by_setting(name: str, profile: Profile, demand: Demand) -> Iterator[Alternative]:
    """Provisioned v2: size, IOPS and throughput are each set."""
    throughput, iops = profile.throughput_mib_per_s, profile.iops
    if not (throughput and throughput.settable and iops and iops.settable):
        return
    quota_gib = _least_gib(profile, demand)
    mib = max(math.ceil(Fraction(demand.bytes_per_s, MIB)), throughput.settable.at_least)
    count = max(demand.iops, iops.settable.at_least)
    try:
        limits, links = volume_at(name, quota_gib * GIB, throughput_bytes_per_s=mib * MIB, iops=count)
    except DialectError:
        return
    yield Alternative(
        name=name,
        kind="volume",
        how="set",
        gib=quota_gib,
        mib_per_s_set=mib,
        iops_set=count,
        provisioned=f"{_tib(quota_gib * GIB)} with {mib:,} MiB/s and {count:,} IOPS",
        formula=f"MiB/s {throughput.settable.at_least:,} to {throughput.settable.at_most:,}, "
        f"IOPS {iops.settable.at_least:,} to {iops.settable.at_most:,}, each set by itself",
        binds_first=_binds(links, demand),
        next_step=f"set more, up to {throughput.settable.at_most:,} MiB/s and {iops.settable.at_most:,} IOPS",
        notes=tuple(_burst_notes(limits, demand)),
        source=profile.cite(throughput.settable.source),
    )


def _by_step(name: str, profile: Profile, demand: Demand) -> Iterator[Alternative]:
    """A throughput of a list, with the smallest size that carries the load at it."""
    figure = profile.throughput_mib_per_s
    settable = figure.settable if figure else None
    for rate in settable.mb_per_s if settable else ():

        def links(quota: int, set_to: int = rate * MB) -> list[LinkLimit]:
            return _links_at(name, quota, throughput_bytes_per_s=set_to)

        quota = facts.smallest_quota(
            lambda size: carries(links(size), demand), _least_gib(profile, demand), profile.sizes.at_most_gib
        )
        if quota is None or settable is None:
            continue
        yield Alternative(
            name=name,
            kind="volume",
            how="set",
            gib=quota // GIB,
            mib_per_s_set=math.ceil(Fraction(rate * MB, MIB)),
            provisioned=f"{_tib(quota)} with {rate:,} MB/s",
            formula=f"one of {bounds_text(settable)}",
            binds_first=_binds(links(quota), demand),
            next_step="a higher throughput" if rate < settable.mb_per_s[-1] else "this service ends here",
            source=profile.cite(settable.source),
        )
        return


# ---- words


def _sets_iops(profile: Profile) -> bool:
    return profile.iops is not None and profile.iops.settable is not None


def _binds(links: list[LinkLimit], demand: Demand) -> str:
    link = binding(links, demand, published_only=True)
    if link is None:
        return "no published limit"
    return f"{link.text}, {format_number(float(link.use(demand.of)) * 100, 3)} % of it in use"


def _measured_notes(links: list[LinkLimit], demand: Demand) -> Iterator[str]:
    """Demands above what was ever measured, though no limit is published."""
    for link in links:
        if not link.is_published and link.use(demand.of) > 1:
            what = link.name.removeprefix("volume's ")
            yield f"no page measured more {what} than {amount(link.quantity, link.capacity)}"


def next_tib_gain(name: str, quota_bytes: int) -> int | None:
    """The throughput that 1 TiB more gives, in bytes per second."""
    return profile_limits.next_tib_bytes_per_s(lambda quota: profile_limits.resolve(name, quota), quota_bytes)


def _next_quota(name: str, profile: Profile, quota: int) -> str:
    gain = next_tib_gain(name, quota)
    figure = profile.throughput_mib_per_s or profile.throughput_read_mib_per_s
    if gain and figure:
        return f"1 TiB more gives {format_number(gain / MIB, 4)} MiB/s"
    most = f" at {figure.at_most:,} MiB/s" if figure and figure.at_most else ""
    return f"this level ends{most}: use a large volume, or several volumes"


def _refused(name: str, profile: Profile, demand: Demand) -> Impossible:
    """The limit of the largest volume of a level that the load does not keep."""
    largest = profile.sizes.at_most_gib * GIB
    if demand.capacity_bytes > largest:
        return Impossible(name=name, why=f"a volume has at most {format_bytes(largest)}")
    settings: dict[str, int | None] = {}
    throughput, iops = profile.throughput_mib_per_s, profile.iops
    if throughput and throughput.settable:
        most = math.floor(throughput.settable.bound(largest)) * MIB
        settings["throughput_bytes_per_s"] = (
            throughput.settable.mb_per_s[-1] * MB if throughput.settable.mb_per_s else most
        )
    if iops and iops.settable:
        settings["iops"] = iops.settable.at_most
    link = binding(_links_at(name, largest, **settings), demand, published_only=True)
    why = f"the largest has {link.text}" if link and link.use(demand.of) > 1 else "no size carries the load"
    return Impossible(name=name, why=why)


def _tib(size: int) -> str:
    """``70.3125 TiB``, ``50 GiB``: exact, as a quota is written."""
    unit, name = (TIB, "TiB") if size >= TIB else (GIB, "GiB")
    return f"{format_number(size / unit, 7)} {name}"

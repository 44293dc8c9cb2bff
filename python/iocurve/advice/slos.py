"""SLOs of a volume: from a service level and its quota, or from a contract on the command line.

An SLO is a load, a value, and a bound that the value must reach.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from iocurve.foundation.errors import Diagnostic, DialectError
from iocurve.foundation.structs import Struct
from iocurve.foundation.units import (
    KIB,
    MIB,
    format_bytes,
    format_count,
    format_duration,
    format_latency,
    format_number,
)
from iocurve.result.caps import Kind
from iocurve.volume import profile as profiles
from iocurve.volume import profile_limits
from iocurve.volume.limits import Limits
from iocurve.volume.profile import Profile

Measure = Literal["mib_per_s", "iops", "p99", "mean", "burst_iops", "burst_s"]
BLOCKS = (64 * KIB, 256 * KIB)
"""Block sizes that must reach the throughput."""
SMALL = 4 * KIB
"""Block size of SLOs on IOPS."""
ROOM = 0.9
"""A load must need at most this part of the other limit, or the SLO cannot be seen."""


class Slo(Struct):
    """One SLO."""

    name: str
    """``throughput, reads of 64 KiB``."""
    measure: Measure
    bound: float
    """MiB/s, IOPS, seconds of a burst, or µs of a latency."""
    workload: str
    """The load that decides it, in fio's words."""
    block_bytes: int
    kind: Literal["read", "write"]
    depth: int | None = None
    """Queue depth of a latency; None: as deep as the SLO needs."""
    burst_iops: float | None = None
    """The rate of a burst."""
    baseline_iops: float | None = None
    """The rate after it."""
    knows_bursts: bool = True
    """The source says whether the volume bursts; False of a contract, where credits may hide what is sustained."""
    source: str

    @property
    def is_least(self) -> bool:
        """True where the SLO is a lower bound, False where at most."""
        return self.measure not in ("p99", "mean")

    @property
    def bound_text(self) -> str:
        """``at least 128 MiB/s``."""
        return f"{'at least' if self.is_least else 'at most'} {value_text(self.measure, self.bound)}"


class Agreement(Struct):
    """All SLOs that are judged, and what is not."""

    title: str
    slos: tuple[Slo, ...]
    not_judged: tuple[str, ...] = ()


def value_text(measure: Measure, value: float) -> str:
    """``128 MiB/s``, ``4.02k IOPS``, ``30 min``, ``2 ms``."""
    if measure == "mib_per_s":
        return f"{format_number(value, 4)} MiB/s"
    if measure in ("iops", "burst_iops"):
        return f"{format_count(value)} IOPS"
    if measure == "burst_s":
        return format_duration(round(value * 1e9))
    return format_latency(value * 1000)


def of_profile(name: str, quota_bytes: int) -> Agreement:
    """The SLOs of a service level at a size: its published limits. Raises ``DialectError``."""
    profile = profiles.load(name)
    limits = profile_limits.resolve(name, quota_bytes)
    fitted = set(profile.fitted())
    caps = [cap for cap in limits.caps if cap.scope == "volume" and cap.figure not in fitted]
    throughput = {cap.kind: cap.value for cap in caps if cap.quantity == "bytes_per_s"}
    iops = {cap.kind: cap.value for cap in caps if cap.quantity == "iops"}
    sources = {cap.name: _source(name, profile, cap.figure) for cap in caps}
    not_judged: list[str] = []
    slos = [
        # The baseline shows only right after a burst, while no credits are left.
        *_burst(limits, throughput, _source(name, profile, "burst_iops")),
        *_rates(iops, throughput, sources, not_judged),
        # Bytes beyond the baseline are spent as credits, whose end no slo names.
        *(
            one.replace(knows_bursts=limits.throughput_burst is None)
            for one in _throughputs(throughput, iops, sources, not_judged)
        ),
    ]
    not_judged += [f"{figure} is fitted to results, not published" for figure in sorted(fitted) if _counts(figure)]
    if profile.latency_us is not None and profile.latency_us.value:
        page = profile.cite(profile.latency_us.source)
        about = f"latency: about {format_latency(limits.latency.mean_ns)}{f' ({page})' if page else ''}"
        not_judged.append(f"{about} is no bound; add --p99 or --mean")
    title = f"{name}, quota {format_bytes(quota_bytes)}: {profile.title}"
    if not slos:
        raise DialectError([Diagnostic(f"{name} states no SLO that can be measured; add --throughput or --iops")])
    return Agreement(title=title, slos=tuple(slos), not_judged=tuple(not_judged))


def of_contract(
    *,
    bytes_per_s: int | None,
    iops: int | None,
    p99_ns: int | None,
    mean_ns: int | None,
    depth: int,
    kinds: Sequence[Kind],
    source: str,
) -> list[Slo]:
    """The SLOs of a contract; each holds for reads and for writes, or for the kinds that are given."""
    both: dict[Kind, int] = {}
    found: list[Slo] = []
    for kind in kinds:
        if bytes_per_s is not None:
            found += _throughputs({kind: bytes_per_s}, both, {}, [], source)
        if iops is not None:
            found += _rates({kind: iops}, both, {}, [], source)
    for measure, bound_ns in (("p99", p99_ns), ("mean", mean_ns)):
        found += [
            _latency("p99" if measure == "p99" else "mean", bound_ns, one, depth, source)
            for one in _kinds(kinds)
            if bound_ns is not None
        ]
    return [one.replace(knows_bursts=False) if one.is_least else one for one in found]


def _kinds(kinds: Sequence[Kind]) -> list[Literal["read", "write"]]:
    both: tuple[Literal["read", "write"], ...] = ("read", "write")
    return [one for one in both if one in kinds or "any" in kinds]


def _counts(figure: str) -> bool:
    """A figure of the volume as a whole: those of connections and clients are no SLOs by themselves."""
    return not figure.endswith(("_per_connection", "_per_client"))


def _source(name: str, profile: Profile, figure: str) -> str:
    cited = getattr(profile, figure, None)
    page = profile.cite(cited.source) if cited is not None else ""
    return page or f"profile {name}"


def _throughputs(
    throughput: dict[Kind, int], iops: dict[Kind, int], sources: dict[str, str], not_judged: list[str], source: str = ""
) -> Iterator[Slo]:
    """Each cap of bytes, by block size and kind; of two caps on a kind the smaller one counts."""
    for kind in _kinds(list(throughput)):
        bound, of = _least(throughput, kind)
        most_iops, _ = _least(iops, kind)
        for block in BLOCKS:
            if most_iops and bound / block > ROOM * most_iops:
                not_judged.append(
                    f"throughput in {kind}s of {format_bytes(block)}: the IOPS limit is reached first in such blocks"
                )
                continue
            yield Slo(
                name=f"throughput, {kind}s of {format_bytes(block)}",
                measure="mib_per_s",
                bound=bound / MIB,
                workload=f"rw={kind} bs={block // KIB}k",
                block_bytes=block,
                kind=kind,
                source=source or sources[_cap_name("throughput", of, "_bytes_per_s")],
            )


def _rates(
    iops: dict[Kind, int], throughput: dict[Kind, int], sources: dict[str, str], not_judged: list[str], source: str = ""
) -> Iterator[Slo]:
    for kind in _kinds(list(iops)):
        bound, of = _least(iops, kind)
        most, _ = _least(throughput, kind)
        if most and bound * SMALL > ROOM * most:
            not_judged.append(f"IOPS of {kind}s: blocks of {format_bytes(SMALL)} reach the throughput limit first")
            continue
        yield _small("IOPS, ", "iops", float(bound), kind, source or sources[_cap_name("iops", of, "")])


def _small(what: str, measure: Measure, bound: float, kind: Literal["read", "write"], source: str) -> Slo:
    """An SLO on small random operations."""
    return Slo(
        name=f"{what}random {kind}s of {format_bytes(SMALL)}",
        measure=measure,
        bound=bound,
        workload=f"rw=rand{kind} bs={SMALL // KIB}k",
        block_bytes=SMALL,
        kind=kind,
        source=source,
    )


def _latency(
    measure: Literal["p99", "mean"], bound_ns: int, kind: Literal["read", "write"], depth: int, source: str
) -> Slo:
    noun = "99th percentile" if measure == "p99" else "mean latency"
    found = _small(f"{noun}, ", measure, bound_ns / 1000, kind, source)
    return found.replace(name=f"{found.name}, {depth} in flight", depth=depth)


def _burst(limits: Limits, throughput: dict[Kind, int], source: str) -> Iterator[Slo]:
    burst, baseline = limits.burst, limits.value("iops") or 0
    if burst is None:
        return
    most, _ = _least(throughput, "read")
    if most and burst.value * SMALL > ROOM * most:
        return
    lasts = burst.credits / (burst.value - baseline)
    rates = {"burst_iops": float(burst.value), "baseline_iops": float(baseline)}
    yield _small("burst, IOPS, ", "burst_iops", float(burst.value), "read", source).replace(**rates)
    yield _small("burst, length, ", "burst_s", lasts, "read", source).replace(**rates)


def _least(caps: dict[Kind, int], kind: Literal["read", "write"]) -> tuple[int, Kind]:
    """The smaller of the caps on a kind and on both kinds together; 0 where there is none."""
    options: list[tuple[int, Kind]] = [(caps[one], one) for one in (kind, "any") if one in caps]
    return min(options, default=(0, "any"))


def _cap_name(stem: str, kind: Kind, unit: str) -> str:
    return f"{stem}{'' if kind == 'any' else f'_{kind}'}{unit}"

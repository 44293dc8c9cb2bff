"""The changes for twice the throughput, or for half the latency: from the verdict on the fastest point.

Advice is given only for a verdict that is likely or certain.
"""

from __future__ import annotations

from dataclasses import dataclass

from iocurve.analysis.limit_kinds import is_sure, kind_of
from iocurve.result.document import Limit, Point, Result, TargetFacts
from iocurve.units import MIB, TIB, format_bytes, format_count, format_latency, format_number


@dataclass(frozen=True)
class Twice:
    """The changes for twice the rate, and for half the latency, of one point."""

    point: str
    for_rate: str
    for_latency: str

    @property
    def lines(self) -> list[str]:
        """``For twice the throughput: …``; empty where nothing is known."""
        rows = (("For twice the throughput", self.for_rate), ("For half the latency", self.for_latency))
        return [f"{what}: {change} (fastest point: {self.point})." for what, change in rows if change]


def twice_of(result: Result, verdicts: tuple[Limit | None, ...]) -> Twice | None:
    """The advice for the point with the highest throughput; None where its verdict is not sure."""
    pairs = [(point, limit) for point, limit in zip(result.points, verdicts, strict=True) if not point.imported]
    sure = [(point, limit) for point, limit in pairs if limit and is_sure(limit) and point.summary().iops > 0]
    if not sure:
        return None
    point, limit = max(sure, key=lambda pair: pair[0].summary().bytes_per_s)
    fastest = max((one for one, _ in pairs), key=lambda one: one.summary().bytes_per_s)
    if fastest is not point:
        return None
    target = result.target_of(point)
    found = Twice(point.name, _for_rate(point, limit, target), _for_latency(point, limit, target))
    return found if found.lines else None


def _connections(point: Point) -> int:
    axis = point.axes.get("nconnect")
    return axis if isinstance(axis, int) else 1


def _for_rate(point: Point, limit: Limit, target: TargetFacts) -> str:
    summary = point.summary()
    if limit.code == "volume_throughput":
        return _quota(target, summary.bytes_per_s)
    return kind_of(limit.code).twice.format(
        iops2=f"{format_count(2 * summary.iops)} IOPS",
        mib2=f"{format_number(2 * summary.bytes_per_s / MIB, 4)} MiB/s",
        connections2=f"{2 * _connections(point)} connections",
        depth2=format_number(round(2 * summary.concurrency_achieved), 4),
        latency=format_latency(summary.service.mean_ns),
    )


def _quota(target: TargetFacts, bytes_per_s: float) -> str:
    """The quota by the formula of the service level: each TiB more gives the same, up to the level's ceiling."""
    wanted = f"{format_number(2 * bytes_per_s / MIB, 4)} MiB/s"
    gain, quota, cap = target.next_tib_bytes_per_s, target.quota_bytes, target.throughput_bytes_per_s
    raised = f"raise the volume's limit to {wanted}"
    if gain is None or quota is None or cap is None or (target.speed or 1) != 1:
        return raised
    ceiling = _ceiling(target.service_level)
    is_beyond = gain <= 0 if ceiling is None else 2 * cap > ceiling
    if is_beyond:
        ends = f" at {format_number(ceiling / MIB, 4)} MiB/s" if ceiling else ""
        other = f"iocurve size --throughput {2 * bytes_per_s / MIB:.0f}MiB/s"
        return f"this service level ends{ends}: use another level or several volumes ({other})"
    if gain <= 0:
        # The limit was set by hand, below that of the quota.
        return raised
    needed = quota + round(cap / gain * TIB)
    step = f"{format_number(gain / MIB, 4)} MiB/s for each TiB"
    return f"{wanted} need a quota of {format_bytes(needed)} at this level ({step})"


def _ceiling(level: str | None) -> int | None:
    """The highest throughput of a published service level; None where it is not known."""
    # Only advice on a quota needs the profiles; a run loads this module to measure.
    from iocurve.volume import profile as profiles

    name = next((one for one in profiles.names() if level and one in (level, f"anf-{level}")), None)
    figure = profiles.load(name).throughput_mib_per_s if name else None
    return figure.at_most * MIB if figure and figure.at_most else None


def _for_latency(point: Point, limit: Limit, target: TargetFacts) -> str:
    summary = point.summary()
    flying, mean_ns = summary.concurrency_achieved, summary.service.mean_ns
    own_ns = target.latency_mean_ns or 0
    if kind_of(limit.code).has_queue and flying >= 2:
        if own_ns and mean_ns / 2 < own_ns:
            return f"the volume itself adds {format_latency(own_ns)}: half of {format_latency(mean_ns)} is below that"
        half = max(1, round(flying / 2))
        return (
            f"{half} in flight instead of {round(flying)} have the same rate and wait half as long, by Little's law "
            f"({format_number(summary.iops, 4)}/s × {format_latency(mean_ns / 2)} = {format_number(flying / 2, 3)})"
        )
    if limit.code == "depth":
        return "the target answers as fast as it does: nothing waits in a queue"
    return ""

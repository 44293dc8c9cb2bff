"""Fits the limits of a target to measured points, writes them as a profile, and checks it with other points."""

from __future__ import annotations

import math
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from statistics import median

import tomli_w
from msgspec.structs import replace

from iocurve.analysis.level_changes import levels
from iocurve.analysis.measured_load import MeasuredLoad
from iocurve.analysis.observations import ObservedPoint, observed
from iocurve.foundation.errors import Diagnostic, DialectError, ResultError
from iocurve.foundation.units import (
    KIB,
    MIB,
    MICROSECOND_NS,
    MILLISECOND_NS,
    SECOND_NS,
    counted,
    format_bytes,
    format_latency,
    format_number,
)
from iocurve.job.explain import unpredictable
from iocurve.measure.scenario import command as scenarios
from iocurve.measure.scenario import document as documents
from iocurve.measure.scenario.cases import scaled
from iocurve.measure.scenario.runner import Request
from iocurve.model.fit import Fit, ShownLimit, fitted
from iocurve.model.forward import ModelledTarget, forward
from iocurve.result.caps import Burst, Cap
from iocurve.result.document import Point, Result, TargetFacts
from iocurve.result.summary import Latency, Totals
from iocurve.targets import target as targets
from iocurve.targets.opened_target import is_ipv4_loopback
from iocurve.volume.limits import AddedLatency, Lognormal, Parallelism
from iocurve.volume.profile import UNLIMITED

CHECK = "check"
"""The series of the scenario from which nothing is fitted."""
BURST = "burst"
"""The series that spends what a burst saved up; without it, a twin that is checked would have more."""
PATIENCE_NS = 600 * SECOND_NS
"""The time of the scenario in full, with the check."""
ERROR_UNKNOWN = 0.015
"""Relative standard error of a rate whose point does not show it, as of one that another tool measured."""
SAME = 0.05
WITHIN = (0.05, 0.1, 0.3)
"""Errors of a rate, p50 and p99 that are small enough."""
SPREADS = 1.05
"""A latency varies if its 99th percentile is this multiple of its median."""
SHALLOW = 2
"""Depths up to this multiple of the least one show the latency of an idle target."""
SLOW_MAX, FAST = 0.8, 1 / 3
"""In windows at most this share of operations takes longer than the mean, and half of the others this part of it."""
WINDOWS_MIN, WINDOWS_DIFFER, WINDOWS_ALIKE = 3, 0.2, 0.6
"""Least number of points that show windows, and the share of them whose lengths differ by less than a fifth."""
QUOTA = "1TiB"
"""The size of the volume that is served for a check; no limit of a fit depends on it."""


# ---- measuring


def request(target: str, patience_ns: int, *, check: bool) -> Request:
    """The loads that show a target's limits, as a scenario. Raises ``DialectError`` and ``TargetError``."""
    asked = scenarios.requested(
        documents.load("twin"),
        [target],
        quick=False,
        full=True,
        scale=None,
        points=[],
        overwrite=False,
        keep_data=False,
    )
    named = next(iter(asked.targets.values()))
    # Only a server on this machine tells several addresses of this machine apart.
    has_clients = isinstance(named, targets.VolumeTarget) or (
        isinstance(named, targets.NfsTarget) and is_ipv4_loopback(named.url.host)
    )
    return replace(
        asked,
        form=scaled(asked.form, patience_ns / PATIENCE_NS, asked.form.size_bytes),
        form_name="full" if patience_ns == PATIENCE_NS else "scaled",
        # A load that is repeated finds the burst spent.
        repeats_max=0,
        is_wanted=lambda case: (
            (check or case.family.name != CHECK) and (has_clients or int(case.axes.get("clients", 1)) == 1)
        ),
    )


def measured_on_both(result: Result, fit: Fit, asked: Request, directory: Path, *, quiet: bool) -> Iterator[str]:
    """Serves the profile, measures the points of the check there too, and gives the error of each, a line each."""
    with tempfile.TemporaryDirectory() as made:
        path = Path(made) / "twin.toml"
        path.write_text(profile_text("twin", fit), encoding="utf-8")
        (name,) = asked.targets
        served = targets.parse(f"volume:{path}?quota={QUOTA}")
        twin = scenarios.run(
            replace(asked, targets={name: served}, is_wanted=lambda case: case.family.name in (CHECK, BURST)),
            directory,
            quiet=quiet,
        )
    yield from _errors(result, twin)


def errors(had: Totals, has: Totals) -> tuple[float, ...]:
    """The relative errors of a twin's rate, p50 and p99."""
    pairs = ((one.iops, *(one.service.percentile(percent) for percent in (50, 99))) for one in (had, has))
    return tuple(of_twin / of_target - 1 for of_target, of_twin in zip(*pairs, strict=True))


def _errors(result: Result, twin: Result) -> Iterator[str]:
    served = {point.name: point.summary() for point in twin.points if point.summary().iops}
    found = []
    for point in result.points:
        had, has = point.summary(), served.get(point.name)
        if point.family == CHECK and has is not None and had.iops:
            rate, middle, tail = errors(had, has)
            found.append((rate, middle, tail))
            yield (
                f"{point.name}: {format_number(had.iops, 4)} IOPS, twin {format_number(has.iops, 4)} ({rate:+.1%}); "
                f"p50 {format_latency(had.service.percentile(50))} ({middle:+.1%}), "
                f"p99 {format_latency(had.service.percentile(99))} ({tail:+.1%})"
            )
    counts = (sum(abs(one[each]) <= most for one in found) for each, most in enumerate(WITHIN))
    yield "of {} points: rate within 5 % {}, p50 within 10 % {}, p99 within 30 % {}".format(len(found), *counts)


# ---- fitting


def fitted_to(path: Path, points: Sequence[Point]) -> Fit:
    """The limits that explain the points of a result. Raises ``ResultError`` without points to fit."""
    fit = fit_of(points)
    if fit is None:
        raise ResultError(f"{path} has no reads or writes in a closed loop: nothing can be predicted from it")
    return fit


def fit_of(points: Iterable[Point]) -> Fit | None:
    """The limits that explain points, with bursts and the latency of an idle target; None without points to fit."""
    unknown = TargetFacts(kind="unknown", address="")
    loads = [MeasuredLoad(point, unknown) for point in points if point.family != CHECK]
    rows = observed([load for load in loads if _is_fitted(load)], ERROR_UNKNOWN)
    if not rows:
        return None
    credited = _on_credits(rows)
    fit = _with_burst(fitted([row for row in rows if row not in credited]), [row.point for row in rows])
    of_caps = {name for shown in fit.shown if shown.cap.scope == "volume" for name in shown.points}
    window_ns = _window_ns([row for row in rows if row.name in of_caps])
    idle = [row for row in rows if row.name in fit.idle]
    reads, writes = (_latency(idle, kind, fit.limits.parallelism) for kind in ("read", "write"))
    latency = reads or writes or fit.limits.latency
    if not idle and credited:
        latency = AddedLatency(base_ns=round(min(row.depth / row.iops for row in credited) * SECOND_NS))
    limits = fit.limits.replace(latency=latency, window_ns=window_ns)
    if reads and writes and _differ(reads, writes):
        limits = limits.replace(write_latency=writes)
    return fit.replace(limits=limits, idle=tuple(_idle_text(row.point) for row in idle))


def _on_credits(rows: Sequence[ObservedPoint]) -> list[ObservedPoint]:
    """Rates above the base of a burst, of which the operations or the bytes that explain more points are the base."""
    found: list[list[ObservedPoint]] = []
    for row in rows:
        if _is_whole(row.point) and (step := row.fall):
            bases = ("iops", step.after), ("bytes_per_s", step.after * row.block_bytes)
            above = (
                [one for one in rows if one.rate(quantity=quantity) > base * (1 + SAME)] for quantity, base in bases
            )
            found.append(min(above, key=len))
    return max(found, key=len, default=[])


def _is_whole(point: Point) -> bool:
    """True of a point that was measured from its first operation on."""
    return all(not worker.ramp_ns for group in point.plan.groups for worker in group.workers)


def _is_fitted(load: MeasuredLoad) -> bool:
    """False of a point with a rate, with other operations, or without any."""
    kinds = {kind for kind, totals in load.summary.kinds.items() if totals.operations}
    return not load.summary.paced and bool(kinds) and kinds <= {"read", "write"}


def _with_burst(fit: Fit, points: Sequence[Point]) -> Fit:
    """The fit with the burst that shows where a load falls to a limit on reads and writes together.

    Credits are those that were spent beyond the limit since the start of the load: those saved up may be more.
    """
    for shown in fit.shown:
        cap = shown.cap
        if cap.scope != "volume" or cap.kind != "any":
            continue
        bursts = [burst for point in points if (burst := _burst(point, cap))]
        if bursts:
            most = max(bursts, key=lambda burst: burst.credits)
            with_burst = cap.replace(burst=most)
            caps = tuple(with_burst if one == cap else one for one in fit.limits.caps)
            every = tuple(shown.replace(cap=with_burst) if one is shown else one for one in fit.shown)
            return fit.replace(limits=fit.limits.replace(caps=caps), shown=every)
    return fit


def _burst(point: Point, cap: Cap) -> Burst | None:
    """The burst of a point that was measured from its start on and falls to the limit."""
    course = point.course()
    rates = [interval.bytes_per_s if cap.quantity == "bytes_per_s" else interval.iops for interval in course]
    step = levels(rates)
    if step is None or not _is_whole(point) or abs(step.after / cap.value - 1) > SAME:
        return None
    spent = zip(rates[: step.index + 1], course, strict=False)
    credits = sum((rate - step.after) * interval.length_ns / SECOND_NS for rate, interval in spent)
    return Burst(value=round(step.before), credits=max(1, round(credits)))


def _window_ns(rows: Sequence[ObservedPoint]) -> int:
    """The length of the windows in which the points at a limit get what it allows; 0 where they show none.

    Of the operations of a window, those in flight at its end wait for the next one: so few that are so slow show its
    length, which is the same for all depths.
    """
    lengths = []
    # In a mix, one kind may be fast and the other wait for its own limit.
    for row in (one for one in rows if one.mix in (0, 1)):
        latency = row.point.summary().service
        mean_ns = row.depth / row.iops * SECOND_NS
        if latency.histogram is None:
            continue
        slow = 1 - latency.histogram.count_between(0, round(mean_ns)) / latency.count
        if 0 < slow < SLOW_MAX and latency.percentile(50 * (1 - slow)) < FAST * mean_ns:
            lengths.append((mean_ns / slow, row.depth))
    if len(lengths) < WINDOWS_MIN:
        return 0
    middle = median(length for length, _ in lengths)
    alike = [depth for length, depth in lengths if abs(length / middle - 1) < WINDOWS_DIFFER]
    if len(alike) <= len(lengths) * WINDOWS_ALIKE or max(alike) < 2 * min(alike):
        return 0
    return round(middle / MILLISECOND_NS) * MILLISECOND_NS


def _latency(idle: Sequence[ObservedPoint], kind: str, served: Parallelism | None) -> AddedLatency | None:
    """The latency of a kind on the idle target beyond its service: the part for each KiB, and the shape of the rest."""
    least = min((row.depth for row in idle), default=0)
    of_sizes: dict[int, Latency] = {}
    for row in idle:
        found = row.point.summary().kinds.get(kind)
        if found and found.service.count and row.depth <= SHALLOW * least:
            known = of_sizes.get(row.block_bytes)
            of_sizes[row.block_bytes] = known.merged(found.service) if known else found.service
    if not of_sizes:
        return None
    small, large = min(of_sizes), max(of_sizes)

    def own(size: int) -> float:
        return of_sizes[size].mean_ns - (served.takes_ns(kind, size) if served else 0.0)

    per_kib_ns = max(0.0, own(large) - own(small)) / (large - small) * KIB if large > small else 0.0
    if own(large) < own(small) * (1 + SAME):
        per_kib_ns = 0.0
    less_ns = of_sizes[small].mean_ns - max(0.0, own(small) - per_kib_ns * small / KIB)
    return _shaped(of_sizes[small], less_ns).replace(per_kib_ns=round(per_kib_ns))


def _shaped(found: Latency, less_ns: float) -> AddedLatency:
    """Latencies less a time: their median and their 99th percentile, and their mean as far as the shape allows."""
    middle, tail, mean = (each - less_ns for each in (found.percentile(50), found.percentile(99), found.mean_ns))
    if not middle > 0 or not tail > SPREADS * middle:
        return AddedLatency(base_ns=max(0, round(mean)))

    def shaped(base: float) -> AddedLatency:
        varying = Lognormal(median_ns=max(1, round(middle - base)), p99_ns=max(1, round(tail - base)))
        return AddedLatency(base_ns=round(base), distribution=varying)

    low, high = 0.0, 0.99 * middle
    for _ in range(40):
        base = (low + high) / 2
        low, high = (low, base) if shaped(base).mean_ns > mean else (base, high)
    return shaped(low)


def _differ(reads: AddedLatency, writes: AddedLatency) -> bool:
    sizes = (4, 64)
    read, write = ([one.mean_ns + one.per_kib_ns * kib for kib in sizes] for one in (reads, writes))
    return any(abs(other / max(1, one) - 1) > SAME for one, other in zip(read, write, strict=True))


def _idle_text(point: Point) -> str:
    found = point.summary()
    percentiles = ", ".join(f"p{percent} {format_latency(found.service.percentile(percent))}" for percent in (50, 99))
    return f"{point.name}: {percentiles}, mean {format_latency(found.service.mean_ns)}"


# ---- the profile


def fit_text(fit: Fit) -> Iterator[str]:
    """The points that a prediction rests on, and the questions that they leave open."""
    yield f"From {counted(fit.points, 'point')}, of which the fastest has {format_number(fit.iops_max, 4)} IOPS."
    yield from (f"Open: {text}." for text in fit.open)


def _shown_text(shown: ShownLimit) -> str:
    cap = shown.cap
    value = f"{format_bytes(cap.value)}/s" if cap.quantity == "bytes_per_s" else f"{cap.value:,}"
    burst = f", at least {cap.burst.credits:,} credits" if cap.burst else ""
    return f"{cap.text}: {value} ± {shown.half_width:.1%}{burst}, from {', '.join(shown.points)}"


def profile_text(title: str, fit: Fit, check: Sequence[str] = ()) -> str:
    """The profile as TOML (``iocurve volume serve --profile FILE``), with what it rests on as comments."""
    figures: dict[str, object] = {"title": title}
    for cap in fit.limits.caps:
        unit = MIB if cap.quantity == "bytes_per_s" else 1
        figures[cap.figure] = {"base" if cap.scope == "volume" else "value": max(1, round(cap.value / unit))}
        if burst := cap.burst:
            seconds = max(1, round(burst.credits / max(1, burst.value - cap.value)))
            credits = {"credits_for_s": seconds} if unit > 1 else {"credits": {"base": burst.credits}}
            figures[f"burst_{cap.figure}"] = {"base": max(1, round(burst.value / unit)), **credits}
    for name, latency in (("latency_us", fit.limits.latency), ("write_latency_us", fit.limits.write_latency)):
        if latency and (latency.mean_ns or latency.per_kib_ns or name.startswith("write")):
            figures[name] = _latency_figures(latency)
    if speed := fit.limits.parallelism:
        times = {name.replace("_ns", "_us"): getattr(speed, name) for name in speed.__struct_fields__ if "_ns" in name}
        figures["parallelism"] = {"servers": speed.servers, **_microseconds(times)}
    if fit.limits.window_ns:
        figures["window_ms"] = {"value": fit.limits.window_ns // MILLISECOND_NS}
    served = [f"The server's own speed, from {', '.join(fit.served)}."] if fit.served else []
    rests = (*fit_text(fit), *map(_shown_text, fit.shown), *served, *(f"Idle: {text}." for text in fit.idle))
    return "".join(f"# {line}\n" for line in (*rests, *check)) + tomli_w.dumps(figures)


def _latency_figures(latency: AddedLatency) -> dict[str, object]:
    found = _microseconds({"value": latency.base_ns, "per_kib": latency.per_kib_ns})
    if isinstance(varying := latency.distribution, Lognormal):
        times = {"median_us": varying.median_ns, "p99_us": varying.p99_ns}
        found["distribution"] = {"kind": "lognormal", **_microseconds(times)}
    return found


def _microseconds(times: Mapping[str, int | None]) -> dict[str, object]:
    return {name: time / MICROSECOND_NS for name, time in times.items() if time is not None}


_WHAT_IF = re.compile(r"(?:(read|write) )?(throughput|iops|latency) *[x×*] *(\d+(?:\.\d+)?)")


def changed(fit: Fit, texts: Iterable[str]) -> Fit:
    """The limits with some of them multiplied: ``throughput x2``, ``write iops x0.5``, ``latency x3``.

    Raises ``DialectError`` for a limit that the points do not show.
    """
    limits = fit.limits
    for text in texts:
        found = _WHAT_IF.fullmatch(text.strip())
        if found is None or not float(found[3]):
            raise DialectError(
                [Diagnostic(f"--what-if '{text}': write 'throughput x2', 'read iops x0.5' or 'latency x3'")]
            )
        times, quantity = float(found[3]), {"throughput": "bytes_per_s"}.get(found[2], found[2])
        if quantity == "latency":
            slower = limits.at_speed(1 / Fraction(found[3]))
            limits = limits.replace(latency=slower.latency, write_latency=slower.write_latency)
            continue
        caps = [
            cap.replace(value=max(1, round(cap.value * times)))
            if cap.quantity == quantity and found[1] in (None, cap.kind)
            else cap
            for cap in limits.caps
        ]
        if tuple(caps) == limits.caps and times != 1:
            raise DialectError([Diagnostic(f"--what-if '{text}': the points show no such limit")])
        limits = limits.replace(caps=tuple(caps))
    return fit.replace(limits=limits)


def checked(fit: Fit, result: Result) -> Iterator[str]:
    """The error of each point of another result of the same target, a line each, and their sum."""
    service = ModelledTarget(name=UNLIMITED, limits=fit.limits, standing="measured")
    errors = []
    for point in result.points:
        groups = point.plan.groups
        if point.imported or len(groups) != 1 or any(any(unpredictable(worker)) for worker in groups[0].workers):
            yield f"{point.name}: not predicted"
            continue
        rate_error, line = _compared(point, service)
        errors.append(abs(rate_error))
        yield line
    within = sum(error <= SAME for error in errors)
    yield f"rates within 5 %: {within} of {len(errors)} points"


def _compared(point: Point, service: ModelledTarget) -> tuple[float, str]:
    predicted, summary = forward(point.plan.groups[0], service), point.summary()
    error = predicted.iops / summary.iops - 1 if summary.iops else math.inf
    latency = "not known" if predicted.latency_ns is None else format_latency(predicted.latency_ns)
    return error, (
        f"{point.name}: predicted {format_number(predicted.iops, 4)} IOPS, measured "
        f"{format_number(summary.iops, 4)} ({error:+.1%}); mean latency {latency}, measured "
        f"{format_latency(summary.service.mean_ns)}"
    )

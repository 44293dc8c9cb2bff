"""Fits the limits of a target to measured points, writes them as a profile, and checks it with other points."""

from __future__ import annotations

import math
import re
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import tomli_w
from msgspec.structs import replace

from iocurve.analysis.level_changes import LevelStep, levels
from iocurve.analysis.measured_load import MeasuredLoad
from iocurve.analysis.observations import is_held_up
from iocurve.foundation.errors import Diagnostic, DialectError, ResultError
from iocurve.foundation.units import (
    MIB,
    MICROSECOND_NS,
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
from iocurve.model.fit import ERROR_MIN, NORMAL_95, Fit, LoadRate, ShownLimit, fitted
from iocurve.model.forward import ModelledTarget, forward
from iocurve.result.caps import Burst, Cap
from iocurve.result.document import Point, Result, TargetFacts
from iocurve.targets import target as targets
from iocurve.targets.opened_target import is_ipv4_loopback
from iocurve.volume.limits import AddedLatency, Lognormal
from iocurve.volume.profile import UNLIMITED

CHECK = "check"
"""The series of the scenario from which nothing is fitted."""
BURST = "burst"
"""The series that spends what a burst saved up; without it, a twin that is checked would have more."""
PATIENCE_NS = 600 * SECOND_NS
"""The time of the scenario in full, with the check."""
ERROR_UNKNOWN = 0.015
"""Relative standard error of a rate whose point does not show it, as of one that another tool measured."""
ERROR_OF_LEVEL = 0.01
"""The same of a rate after a burst."""
SAME = 0.05
SPREADS = 1.05
"""A latency varies if its 99th percentile is this multiple of its median."""
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


def _errors(result: Result, twin: Result) -> Iterator[str]:
    served = {point.name: point.summary() for point in twin.points if point.summary().iops}
    rates, medians, tails = [], [], []
    for point in result.points:
        had, has = point.summary(), served.get(point.name)
        if point.family != CHECK or has is None or not had.iops:
            continue
        rates.append(has.iops / had.iops - 1)
        medians.append(has.service.percentile(50) / had.service.percentile(50) - 1)
        tails.append(has.service.percentile(99) / had.service.percentile(99) - 1)
        yield (
            f"{point.name}: {format_number(had.iops, 4)} IOPS, twin {format_number(has.iops, 4)} ({rates[-1]:+.1%}); "
            f"p50 {format_latency(had.service.percentile(50))} ({medians[-1]:+.1%}), "
            f"p99 {format_latency(had.service.percentile(99))} ({tails[-1]:+.1%})"
        )
    within = ((rates, SAME), (medians, 2 * SAME), (tails, 6 * SAME))
    counts = (sum(abs(error) <= most for error in errors) for errors, most in within)
    yield "of {} points: rate within 5 % {}, p50 within 10 % {}, p99 within 30 % {}".format(len(rates), *counts)


# ---- fitting


def fitted_to(path: Path, points: Sequence[Point]) -> Fit:
    """The limits that explain the points of a result. Raises ``ResultError`` without points to fit."""
    fit = fit_of(points)
    if fit is None:
        raise ResultError(f"{path} has no reads or writes in a closed loop: nothing can be predicted from it")
    return fit


def fit_of(points: Iterable[Point]) -> Fit | None:
    """The limits that explain points, with bursts and the latency of an idle target; None without points to fit."""
    used = [(point, row) for point in points if point.family != CHECK and (row := _row(point))]
    if not used:
        return None
    credited = _on_credits(used)
    fit = _with_burst(fitted([row for _, row in used if row not in credited]), [point for point, _ in used])
    idle = [point for point, row in used if row.name in fit.idle]
    latency = _latency(idle, fit.limits.latency)
    if not idle and credited:
        latency = AddedLatency(base_ns=round(min(row.depth / row.iops for row in credited) * SECOND_NS))
    return fit.replace(limits=fit.limits.replace(latency=latency), idle=tuple(map(_idle_text, idle)))


def _on_credits(used: Sequence[tuple[Point, LoadRate]]) -> list[LoadRate]:
    """Rates above the base of a burst, of which the operations or the bytes that explain more points are the base."""
    found: list[list[LoadRate]] = []
    for point, row in used:
        if _is_whole(point) and (step := _step(point)):
            bases = ("iops", step.after), ("bytes_per_s", step.after * row.block_bytes)
            found.append(
                min(
                    (
                        [one for _, one in used if one.rate(quantity=quantity) > base * (1 + SAME)]
                        for quantity, base in bases
                    ),
                    key=len,
                )
            )
    return max(found, key=len, default=[])


def _step(point: Point) -> LevelStep | None:
    return levels([interval.iops for interval in point.course()])


def _is_whole(point: Point) -> bool:
    """True of a point that was measured from its first operation on."""
    return all(not worker.ramp_ns for group in point.plan.groups for worker in group.workers)


def _row(point: Point) -> LoadRate | None:
    """None for a point with a rate, with other operations, or without any; a burst is left out of a rate."""
    load = MeasuredLoad(point, TargetFacts(kind="unknown", address=""))
    summary = load.summary
    kinds = {kind for kind, totals in summary.kinds.items() if totals.operations}
    if summary.paced or not kinds or kinds - {"read", "write"}:
        return None
    rate, step = point.rate_interval(), _step(point)
    error = (
        ERROR_UNKNOWN if rate.low is None or rate.high is None else (rate.high - rate.low) / rate.value / 2 / NORMAL_95
    )
    reads = load.iops("read") / summary.iops
    return LoadRate(
        name=point.name,
        block_bytes=round(summary.bytes_per_s / summary.iops),
        mix=round(reads, 1),
        read_share=reads,
        order=" ".join(sorted({str(one.random_percent) for worker in load.workers for one in worker.plan.operations})),
        depth=summary.depth_requested,
        connections=load.connections,
        clients=len(load.clients) or 1,
        iops=step.after if step else summary.iops,
        error=math.hypot(ERROR_OF_LEVEL if step else error, ERROR_MIN),
        operations=summary.operations,
        is_held_up=is_held_up(load),
    )


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


def _latency(idle: Sequence[Point], known: AddedLatency) -> AddedLatency:
    """The latency of the idle target: its median and its 99th percentile, and its mean as far as the shape allows."""
    if not idle:
        return known
    shallow = min(idle, key=lambda point: (point.summary().depth_requested, point.summary().service.percentile(50)))
    found = shallow.summary().service
    middle, tail, mean = found.percentile(50), found.percentile(99), found.mean_ns
    if not middle or not tail > SPREADS * middle:
        return AddedLatency(base_ns=round(mean))

    def shaped(base: float) -> AddedLatency:
        varying = Lognormal(median_ns=max(1, round(middle - base)), p99_ns=max(1, round(tail - base)))
        return AddedLatency(base_ns=round(base), distribution=varying)

    low, high = 0.0, 0.99 * middle
    for _ in range(40):
        base = (low + high) / 2
        low, high = (low, base) if shaped(base).mean_ns > mean else (base, high)
    return shaped(low)


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
    latency = fit.limits.latency
    if latency.mean_ns:
        figures["latency_us"] = {"value": latency.base_ns / MICROSECOND_NS, **_distribution(latency)}
    rests = (*fit_text(fit), *map(_shown_text, fit.shown), *(f"Idle: {text}." for text in fit.idle))
    return "".join(f"# {line}\n" for line in (*rests, *check)) + tomli_w.dumps(figures)


def _distribution(latency: AddedLatency) -> dict[str, object]:
    varying = latency.distribution
    if not isinstance(varying, Lognormal):
        return {}
    times = {"median_us": varying.median_ns / MICROSECOND_NS, "p99_us": varying.p99_ns / MICROSECOND_NS}
    return {"distribution": {"kind": "lognormal", **times}}


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
            limits = limits.replace(latency=_times(limits.latency, times))
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


def _times(latency: AddedLatency, times: float) -> AddedLatency:
    varying = latency.distribution
    if isinstance(varying, Lognormal):
        varying = Lognormal(median_ns=round(varying.median_ns * times), p99_ns=round(varying.p99_ns * times))
    return latency.replace(base_ns=round(latency.base_ns * times), distribution=varying)


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

"""Predicts the runs of a command line on a service level, with the traps that change their figures most."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

from iocurve.advice.links import network_links
from iocurve.dialects.base import ParsedCommand, Step
from iocurve.engine.plan import FileOpen, Group, NfsEngine, UringEngine, Worker
from iocurve.foundation.errors import Diagnostic, DialectError
from iocurve.foundation.structs import Struct
from iocurve.foundation.units import (
    MIB,
    SECOND_NS,
    counted,
    format_bytes,
    format_duration,
    format_latency,
    format_number,
)
from iocurve.job.explain import layout_bytes, unpredictable
from iocurve.model.fit import Fit
from iocurve.model.forward import ModelledTarget, Prediction, forward, working_set
from iocurve.model.links import LinkLimit
from iocurve.result.document import Result
from iocurve.volume import profile as profiles
from iocurve.volume.limits import AddedLatency
from iocurve.volume.profile import UNLIMITED
from iocurve.volume.spec import spec_of

MATTERS = 1.01
"""A factor below this changes nothing that one would see."""
CACHE_CODES = ("page_cache", "offsets_repeat")
"""Warnings of a job whose effect no service level tells."""


class Trap(Struct):
    """Something about a job that changes its figures."""

    code: str
    text: str
    times: float | None
    """The factor by which it changes a figure; None where that is not known."""


class PredictedRun(Struct):
    """Workers of a command line that start together."""

    name: str
    figures: Prediction | None
    """None where the service level says nothing of the load."""
    not_known: tuple[str, ...] = ()
    """Why there are no figures."""
    laid_out_bytes: int
    """Bytes that are written before the run if the files are missing."""
    traps: tuple[Trap, ...] = ()
    """Those of which the effect is not known first, then by effect."""


def service(
    profile: str, quota: str | None, *, latency: str | None = None, vm: str | None = None, nconnect: int = 1
) -> ModelledTarget:
    """A volume of a profile and a quota (default 4 TiB), as people write them. Raises ``DialectError``."""
    said = {"profile": profile, "quota": quota, "latency": latency}
    spec = spec_of({name: value for name, value in said.items() if value is not None})
    return ModelledTarget(name=spec.profile_name, limits=spec.limits(), networks=_networks(vm), nconnect=nconnect)


def measured_service(
    path: Path, *, latency_ns: int | None = None, vm: str | None = None, nconnect: int = 1
) -> tuple[ModelledTarget, Fit]:
    """The target that a result measured, by the limits that explain its points. Raises ``ResultError``."""
    # Predictions for a service level need no fit.
    from iocurve.advice.twin import fitted_to

    fit = fitted_to(path, Result.read(path).points)
    limits = fit.limits if latency_ns is None else fit.limits.replace(latency=AddedLatency(base_ns=latency_ns))
    networks = _networks(vm)
    return ModelledTarget(name=UNLIMITED, limits=limits, networks=networks, nconnect=nconnect, standing="measured"), fit


def _networks(vm: str | None) -> tuple[LinkLimit, ...]:
    return tuple(network_links(vm, 1)) if vm else ()


def predicted(command: ParsedCommand, service: ModelledTarget) -> list[PredictedRun]:
    """The runs of a command line in their order, without access to what it names.

    Raises ``DialectError`` with the options of a command line of which nothing can be predicted.
    """
    runs = []
    for step in command.steps:
        plan = step.plan({})
        for number, group in enumerate(plan.groups if plan else ()):
            assert plan is not None
            place = f", group {number + 1} of {len(plan.groups)}" if len(plan.groups) > 1 else ""
            runs.append(_run(plan.name + place, group, service, step, command))
    if not any(run.figures for run in runs):
        reasons = dict.fromkeys(reason for run in runs for reason in run.not_known)
        raise DialectError([Diagnostic(f"cannot be predicted: {reason}") for reason in reasons or ["it runs nothing"]])
    return runs


def _run(name: str, group: Group, service: ModelledTarget, step: Step, command: ParsedCommand) -> PredictedRun:
    laid_out = sum(layout_bytes(group.workers, lambda _: 0))
    found = dict.fromkeys(reason for worker in group.workers for reason in unpredictable(worker))
    reasons = [f"{_option(field, step)}: {reason}" for field, reason in found]
    figures = None if reasons else forward(group, service)
    if figures and not math.isfinite(figures.iops):
        reasons, figures = [f"--latency: {service.name} states no limit and no latency for this load; give one"], None
    if not figures:
        return PredictedRun(name=name, figures=None, not_known=tuple(reasons), laid_out_bytes=laid_out)
    notes = [Trap(code=one.code, text=one.text, times=None) for one in command.notes if one.code in CACHE_CODES]
    # Workers that share the connections of a mount have those that a mount would have.
    has_own = any(one.code == "connections_per_job" for one in command.notes)
    traps = [*dict.fromkeys(notes), *_traps(group, service, figures, has_own=has_own)]
    traps.sort(key=lambda trap: math.inf if trap.times is None else trap.times, reverse=True)
    return PredictedRun(name=name, figures=figures, laid_out_bytes=laid_out, traps=tuple(traps))


def _option(field: str, step: Step) -> str:
    """The dialect's option for a field of the job."""
    return step.job().words.option(field) if step.job else field


# ---- traps


def _traps(group: Group, service: ModelledTarget, figures: Prediction, *, has_own: bool) -> Iterator[Trap]:
    yield from _queue(figures)
    yield from _connections(group, service, figures, has_own=has_own)
    wanted = figures.requested_iops
    if wanted and wanted > figures.iops * MATTERS:
        text = (
            f"{format_number(wanted, 4)} operations are due each second and {format_number(figures.iops, 4)} "
            "complete: there is no steady state, and response latency grows as long as the run lasts"
        )
        yield Trap(code="rate_above_limit", text=text, times=wanted / figures.iops)
    ramps = [worker for worker in group.workers if worker.end.runtime_ns and worker.ramp_ns > worker.end.runtime_ns]
    if ramps:
        first = ramps[0]
        length = format_duration(first.end.runtime_ns or 0)
        text = f"{format_duration(first.ramp_ns)} of ramp are not counted, and {length} of load are"
        yield Trap(code="ramp_longer", text=text, times=1 + first.ramp_ns / (first.end.runtime_ns or 1))
    yield from _caches(group, service, figures)


def _queue(figures: Prediction) -> Iterator[Trap]:
    if figures.knee is None or figures.latency_ns is None or figures.in_flight <= figures.knee * MATTERS:
        return
    times = figures.in_flight / figures.knee
    text = (
        f"{figures.in_flight:,} in flight ÷ {format_number(figures.iops, 4)}/s = {format_latency(figures.latency_ns)}: "
        f"all but {format_latency(figures.latency_ns / times)} is your queue; "
        f"{math.ceil(figures.knee)} in flight reach the same rate"
    )
    if not figures.requested_iops or figures.requested_iops > figures.iops * MATTERS:
        yield Trap(code="beyond_knee", text=text, times=times)


def _connections(group: Group, service: ModelledTarget, figures: Prediction, *, has_own: bool) -> Iterator[Trap]:
    """Workers that each have connections against a mount; and a mount with fewer connections than are advised."""
    remote = [worker for worker in group.workers if not worker.disk]
    advised = profiles.load(service.name).nconnect
    own = [worker.engine.mount.nconnect for worker in remote if isinstance(worker.engine, NfsEngine)]
    if has_own and len(own) > 1:
        mounted = forward(
            group.replace(workers=tuple(map(_on_a_mount, group.workers))), service.replace(nconnect=max(own))
        )
        text = (
            f"{counted(len(own), 'worker')} have {sum(own)} connections in all, where a mount with "
            f"nconnect={max(own)} has {max(own)}, and reaches {format_number(mounted.iops, 4)} IOPS"
        )
        yield Trap(code="connections_per_worker", text=text, times=figures.iops / mounted.iops)
    elif remote and not own and advised and advised > service.nconnect:
        more = forward(group, service.replace(nconnect=advised))
        if more.iops > figures.iops * MATTERS:
            text = f"with nconnect={advised}, which is advised, {format_number(more.iops, 4)} IOPS"
            yield Trap(code="few_connections", text=text, times=more.iops / figures.iops)


def _on_a_mount(worker: Worker) -> Worker:
    if not isinstance(worker.engine, NfsEngine):
        return worker
    return worker.replace(engine=UringEngine(open=FileOpen(direct=True, durability="none", invalidate=False)))


def _caches(group: Group, service: ModelledTarget, figures: Prediction) -> Iterator[Trap]:
    """Data that are read more than once, or fit into a cache."""
    fresh = forward(group, service.replace(is_fresh=True)).iops if service.limits.server_cache else figures.iops
    if figures.iops > fresh * MATTERS:
        text = f"the server's cache answers data that were used before; others reach {format_number(fresh, 4)} IOPS"
        yield Trap(code="server_cache", text=text, times=figures.iops / fresh)
    size = working_set(group.workers)
    cached = [worker.disk for worker in group.workers if worker.disk and worker.disk.cache != "none" and worker.disk.vm]
    if cached and cached[0].vm and size > cached[0].vm.cache_bytes:
        text = f"the figures are those of a warm host cache, and {format_bytes(size)} do not fit into it"
        yield Trap(code="larger_than_cache", text=text, times=None)
    moved = figures.bytes_per_s * (figures.seconds or 0)
    if not cached and size and moved > 2 * size and any(one.kind == "read" for one in figures.kinds):
        text = (
            f"{format_bytes(size)} of files are used {moved / size:.3g} times over: a cache that holds them changes all"
        )
        yield Trap(code="smaller_than_cache", text=text, times=None)


# ---- text


def text_of(runs: Sequence[PredictedRun]) -> str:
    """The runs as plain text."""
    return "\n".join("\n".join(_lines(run)) + "\n" for run in runs)


def short_text(runs: Sequence[PredictedRun]) -> Iterator[str]:
    """A line for each run: rate, mean latency, what binds."""
    for run in runs:
        if (figures := run.figures) is None:
            yield f"{run.name}: {'; '.join(run.not_known)}"
            continue
        most = "at most " if figures.is_upper_bound else ""
        latency = "" if figures.latency_ns is None else f", {_latency(figures)}"
        yield f"{run.name}: {most}{_rate(figures.iops, figures.bytes_per_s)}{latency}; binds: {_binds(figures)}"


def _lines(run: PredictedRun) -> Iterator[str]:
    yield run.name
    figures = run.figures
    if figures is None:
        yield from (f"  not known  {reason}" for reason in run.not_known)
        return
    most = "at most " if figures.is_upper_bound else ""
    yield f"  rate       {most}{_rate(figures.iops, figures.bytes_per_s)}"
    if len(figures.kinds) > 1:
        yield from (f"             {one.kind}s {_rate(one.iops, one.bytes_per_s)}" for one in figures.kinds)
    yield f"  latency    {_latency(figures)}"
    yield f"  binds      {_binds(figures)}"
    yield f"  in flight  {_in_flight(figures)}"
    if figures.credits_s is not None:
        rates = ", then ".join(f"{format_number(rate, 4)} IOPS for {_seconds(long)}" for long, rate in figures.phases)
        yield f"  credits    last {_seconds(figures.credits_s)}: {rates}"
    yield f"  ends       {_ending(figures)}"
    if run.laid_out_bytes:
        yield f"  layout     at most {format_bytes(run.laid_out_bytes)} before the run"
    yield from (f"  trap       {trap.text}{_effect(trap)}" for trap in run.traps)


def _rate(iops: float, bytes_per_s: float) -> str:
    return f"{format_number(iops, 4)} IOPS, {format_number(bytes_per_s / MIB, 4)} MiB/s"


def _latency(figures: Prediction) -> str:
    if figures.latency_ns is None:
        return "not known: the service level states none (--latency)"
    least = "at this rate " if figures.is_upper_bound else ""
    kinds = [(one.kind, one.latency_ns) for one in figures.kinds if one.latency_ns is not None]
    apart = ", ".join(f"{kind}s {format_latency(value)}" for kind, value in kinds) if len(kinds) > 1 else ""
    return f"{least}{format_latency(figures.latency_ns)} on average" + (f" ({apart})" if apart else "")


def _binds(figures: Prediction) -> str:
    near = f"; within 10 %: {', '.join(figures.near)}" if figures.near else ""
    if figures.binding is None:
        return figures.binds + near
    source = f" ({figures.binding.source})" if figures.binding.source else ""
    return f"{figures.binding.text}{source}{near}"


def _in_flight(figures: Prediction) -> str:
    if figures.knee is None:
        return f"{figures.in_flight:,}; how many the rate needs is not known without a latency"
    return f"{figures.in_flight:,}; {math.ceil(figures.knee * (1 - 1e-9)):,} reach this rate"


def _ending(figures: Prediction) -> str:
    if figures.seconds is None:
        return "when it is stopped"
    return f"after {_seconds(figures.seconds)}, by {figures.ends_by}"


def _effect(trap: Trap) -> str:
    if trap.times is None:
        return " [effect not known]"
    return f" [× {format_number(trap.times, 3)}]" if trap.times >= MATTERS else " [no effect here]"


def _seconds(seconds: float) -> str:
    return format_duration(round(seconds * SECOND_NS))

"""Writes a profile that behaves like a measured target, and checks it with points that it was not made from."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import tomli_w

from iocurve.advice.predict import fit_text
from iocurve.foundation.units import MIB, MICROSECOND_NS, format_latency, format_number
from iocurve.job.explain import unpredictable
from iocurve.model.fit import Fit
from iocurve.model.forward import ModelledTarget, forward
from iocurve.result.document import Point, Result
from iocurve.volume.profile import UNLIMITED


def profile_text(title: str, fit: Fit, check: Sequence[str] = ()) -> str:
    """The profile as TOML (``iocurve volume serve --profile FILE``), with what it rests on as comments."""
    figures: dict[str, object] = {"title": title}
    for cap in fit.limits.caps:
        value = max(1, round(cap.value / MIB)) if cap.quantity == "bytes_per_s" else cap.value
        figures[cap.figure] = {"base": value}
    if fit.limits.latency.base_ns:
        figures["latency_us"] = {"value": max(1, round(fit.limits.latency.base_ns / MICROSECOND_NS))}
    return "".join(f"# {line}\n" for line in (*fit_text(fit), *check)) + tomli_w.dumps(figures)


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
    within = sum(error <= 0.05 for error in errors)
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

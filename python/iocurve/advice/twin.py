"""Writes a profile that behaves like a measured target, and checks it with points that it was not made from."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence

import tomli_w

from iocurve.advice.predict import fit_text
from iocurve.foundation.errors import Diagnostic, DialectError
from iocurve.foundation.units import MIB, MICROSECOND_NS, format_latency, format_number
from iocurve.job.explain import unpredictable
from iocurve.model.fit import Fit
from iocurve.model.forward import ModelledTarget, forward
from iocurve.result.document import Point, Result
from iocurve.volume.limits import AddedLatency
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
            limits = limits.replace(latency=AddedLatency(base_ns=round(limits.latency.base_ns * times)))
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

"""The kinds of limits that can hold a point down: a row of ``limit_kinds.json`` has name, advice and experiment."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Literal

import msgspec

from iocurve.foundation.units import MIB, format_number
from iocurve.result.caps import Kind
from iocurve.result.document import Limit, RateName, TargetFacts

__all__ = ["LIMIT_KINDS", "UNKNOWN", "Confidence", "Limit", "LimitKind", "is_sure", "limit", "next_steps"]

Confidence = Literal["certain", "likely", "possible", "none"]
Counted = tuple[RateName, Kind, Literal["volume", "connection"]]
"""A quantity, the operations that count, and whether all of them count or those of each connection."""
UNKNOWN = "unknown"
"""The code of a verdict that names no limit."""
SURE: tuple[Confidence, ...] = ("certain", "likely")
"""The confidence of verdicts that give advice."""


class Experiment(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A change of a load, and how its rate responds if the limit is the one that was named."""

    change: str
    """The name of a ``Variation``."""
    expects: Literal["more", "same"]
    without: str | None = None
    """The change that takes a requested load away: the limit that is next shows without it."""


class LimitKind(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One kind of limit, and all that depends on nothing but the kind."""

    short_name: str
    next_step: str = ""
    """Advice in a sentence, with ``{throughput_lever}`` and ``{unlimited_hint}`` of the target; empty: no advice."""
    twice: str = ""
    """The change for twice the throughput, with the values of the point; empty: not known from the kind alone."""
    counts: Counted | None = None
    """The quantity that the limit counts: points at it have equal values. None: equal values show nothing."""
    experiment: Experiment | None = None
    """The experiment that would refute the verdict. None: all probes test it."""
    has_queue: bool = False
    """Operations wait in a queue: fewer in flight have the same rate and less latency."""
    is_of_client: bool = False
    """The limit is on the side of the client, and says nothing of the volume."""


LIMIT_KINDS = msgspec.json.decode(Path(__file__).with_suffix(".json").read_bytes(), type=dict[str, LimitKind])
"""All kinds, by code."""


def kind_of(code: str) -> LimitKind:
    """The row of a code. That of a kind that only a newer iocurve knows says nothing."""
    return LIMIT_KINDS.get(code) or LimitKind(short_name=code)


def limit(
    code: str, text: str, target: TargetFacts, *, confidence: Confidence = "certain", evidence: Iterable[str] = ()
) -> Limit:
    """A verdict, with the name and the next step of its kind; where others fit as well, the step that would tell."""
    return Limit(
        code=code,
        short_name=LIMIT_KINDS[code].short_name,
        text=text,
        confidence=confidence,
        evidence=tuple(evidence),
        next_step=_next_step(code if confidence in SURE else UNKNOWN, target),
    )


def is_sure(limit: Limit | None) -> bool:
    """True of a verdict that follows from the figures; others fit as well where it is false."""
    return limit is not None and limit.code != UNKNOWN and limit.confidence in SURE


def next_steps(target: TargetFacts, limits: Iterable[Limit]) -> list[str]:
    """The steps that get past the given limits of a target, each once; of one that is not sure, the step that tells."""
    codes = dict.fromkeys(limit.code if is_sure(limit) else UNKNOWN for limit in limits)
    steps = (_next_step(code, target) for code in codes)
    return [step for step in steps if step]


BURST_HINT = "If the service bursts, its sustained rate is not known yet: points of 3,600 s (--runtime 1h) would tell. "


def may_be_of_burst(code: str, target: TargetFacts) -> bool:
    """True of a limit of a service that states none: a burst looks the same until its credits end."""
    return code.startswith("volume_") and target.kind == "nfs" and not target.caps


def _next_step(code: str, target: TargetFacts) -> str:
    step = kind_of(code).next_step.format(
        throughput_lever=_throughput_lever(target), unlimited_hint=_unlimited_hint(target)
    )
    return BURST_HINT + step if may_be_of_burst(code, target) else step


def _throughput_lever(target: TargetFacts) -> str:
    gain = target.next_tib_bytes_per_s
    if gain is None:
        return "the volume's throughput limit"
    if gain <= 0:
        return "the service level (a larger quota gives no more at this level)"
    return f"the quota (each TiB more gives {format_number(gain / MIB, 4)} MiB/s at this level) or the service level"


def _unlimited_hint(target: TargetFacts) -> str:
    """The option that runs our own volume without its limits."""
    return " volume:unlimited shows what this machine itself carries." if target.kind == "embedded_volume" else ""

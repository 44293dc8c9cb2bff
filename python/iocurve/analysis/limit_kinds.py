"""The limits that can hold a point down: the short name of each, and the step that gets past it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from iocurve.result.document import TargetFacts
from iocurve.units import MIB, TIB, format_number


@dataclass(frozen=True)
class Limit:
    """The limit that held a point down."""

    code: str
    """A key of ``LIMIT_KINDS``; stable, for programs."""
    text: str
    """The limit with its value, without a full stop: ``at the volume's limit of 512 MiB/s``."""

    @property
    def short_name(self) -> str:
        """The name for narrow columns: ``MiB/s limit``."""
        return LIMIT_KINDS[self.code].short_name


@dataclass(frozen=True)
class LimitKind:
    """One kind of limit."""

    short_name: str
    next_step: str = ""
    """Advice in a sentence, with ``{throughput_lever}`` and ``{unlimited_hint}`` of the target; empty: no advice."""


LIMIT_KINDS = {
    "volume_throughput": LimitKind("MiB/s limit", "For more throughput, raise {throughput_lever}.{unlimited_hint}"),
    "volume_iops": LimitKind("IOPS limit", "For more IOPS, raise the volume's IOPS limit.{unlimited_hint}"),
    "client_egress": LimitKind(
        "client's egress",
        "Clients at their egress write more only together: use more of them, or larger machines.",
    ),
    "rate": LimitKind("rate asked"),
    "machine": LimitKind(
        "this machine",
        "This machine is used up, by the load, by what it measures or by something else: keep it quiet, or make the "
        "load elsewhere.",
    ),
    "generator": LimitKind(
        "load's thread", "The load's own thread is used up: for more, use more jobs, each a thread."
    ),
    "saturated": LimitKind(
        "saturation", "Where more depth only adds latency, more connections (nconnect) or clients may still give more."
    ),
    "depth": LimitKind(
        "depth", "Where the depth is the limit, a greater depth, more jobs or more connections may give more."
    ),
    "disk_iops": LimitKind(
        "disk's IOPS", "For more IOPS, use a larger disk, stripe several, or let a host cache serve the reads."
    ),
    "disk_throughput": LimitKind(
        "disk's MB/s", "For more throughput, use a larger disk, stripe several, or let a host cache serve the reads."
    ),
    "vm_uncached_iops": LimitKind(
        "VM's uncached IOPS", "The virtual machine lets no more IOPS through to its disks: use a larger one."
    ),
    "vm_uncached_throughput": LimitKind(
        "VM's uncached MB/s", "The virtual machine lets no more bytes through to its disks: use a larger one."
    ),
    "vm_cached_iops": LimitKind(
        "VM's cached IOPS", "The virtual machine serves no more IOPS with a host cache: use a larger one."
    ),
    "vm_cached_throughput": LimitKind(
        "VM's cached MB/s", "The virtual machine serves no more bytes with a host cache: use a larger one."
    ),
}
"""All kinds, by code."""


def next_steps(target: TargetFacts, limits: Iterable[Limit]) -> list[str]:
    """The steps that get past the given limits of a target, each once."""
    facts = {"throughput_lever": _throughput_lever(target), "unlimited_hint": _unlimited_hint(target)}
    kinds = (LIMIT_KINDS[code] for code in dict.fromkeys(limit.code for limit in limits))
    return [kind.next_step.format(**facts) for kind in kinds if kind.next_step]


def _throughput_lever(target: TargetFacts) -> str:
    if target.quota_bytes and target.throughput_bytes_per_s:
        per_tib = target.throughput_bytes_per_s / MIB / (target.quota_bytes / TIB)
        return f"the quota (each TiB more gives {format_number(per_tib, 4)} MiB/s at this level) or the service level"
    return "the volume's throughput limit"


def _unlimited_hint(target: TargetFacts) -> str:
    """The option that runs our own volume without its limits."""
    return " --unlimited shows what this machine itself carries." if target.kind == "embedded_volume" else ""

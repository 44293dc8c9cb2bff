"""The limits of a target as links of a chain: those of volumes, connections, networks, disks and virtual machines."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Literal

import msgspec

from iocurve.engine.plan import DiskPlan, IoLimits
from iocurve.foundation.units import MIB, format_number
from iocurve.result.caps import Cap, Kind, Scope
from iocurve.volume import profile as profiles
from iocurve.volume.limits import Limits

Quantity = Literal["bytes_per_s", "iops", "in_flight"]
Standing = Literal["published", "measured", "planned"]
"""published: a limit of a page. measured: the most that a page measured, or fitted to its results; more or less may be
possible. planned: no limit is published, and a plan should not count on more."""
_NOTES: dict[Standing, str] = {"published": "", "measured": " (measured, not promised)", "planned": " (for a plan)"}


class LinkLimit(msgspec.Struct, frozen=True):
    """One limit."""

    name: str
    quantity: Quantity
    kind: Kind
    capacity: int
    source: str = ""
    standing: Standing = "published"

    def use(self, of: Callable[[Quantity, Kind], Fraction]) -> Fraction:
        """The part of the capacity that a load takes; above 1 the link does not carry it.

        ``of`` gives the load's demand on a quantity by a kind of operation.
        """
        return of(self.quantity, self.kind) / self.capacity

    @property
    def text(self) -> str:
        """``volume's throughput: 1,907 MiB/s``."""
        return f"{self.name}: {amount(self.quantity, self.capacity)}{_NOTES[self.standing]}"

    @property
    def is_published(self) -> bool:
        """True of a limit that a page states."""
        return self.standing == "published"


def amount(quantity: Quantity, value: Fraction | float) -> str:
    """A number with its unit: ``4,500 MiB/s``, ``460,000 IOPS``, ``128 in flight``."""
    if quantity == "bytes_per_s":
        return f"{format_number(float(value) / MIB, 5)} MiB/s"
    return f"{format_number(float(value), 6)} {'IOPS' if quantity == 'iops' else 'in flight'}"


def service_level_throughput(level: str | None) -> int | None:
    """The highest throughput of a published service level, in bytes per second; None where it is not known."""
    name = next((one for one in profiles.names() if level and one in (level, f"anf-{level}")), None)
    figure = profiles.load(name).throughput_mib_per_s if name else None
    return figure.at_most * MIB if figure and figure.at_most else None


def volume_links(name: str, limits: Limits) -> Iterator[LinkLimit]:
    """The limits of a volume as a whole."""
    return scope_links(name, limits, "volume", 1)


def scope_links(name: str, limits: Limits, scope: Scope, count: int) -> Iterator[LinkLimit]:
    """The limits of a scope: of the volume, or of a number of clients or connections together.

    Those of connections that a profile does not state are what a page says of NFSv3.
    """
    prefix = f"{scope}'s " if scope == "volume" or (scope == "client" and count == 1) else f"{count} × {scope}'s "
    return (_of_cap(name, cap, count, prefix) for cap in limits.caps if cap.scope == scope)


def _of_cap(name: str, cap: Cap, times: int, prefix: str) -> LinkLimit:
    profile = profiles.load(name)
    source = getattr(profile, cap.figure).source if getattr(profile, cap.figure) else None
    quantity: Quantity = "in_flight" if cap.quantity == "requests" else cap.quantity
    label = cap.replace(scope="volume").text
    is_fitted = source is not None and profile.sources[source].fitted
    standing: Standing = "measured" if is_fitted else "published"
    return LinkLimit(f"{prefix}{label}", quantity, cap.kind, cap.value * times, profile.cite(source), standing)


def disk_links(disk: DiskPlan, source: str, vm_source: str) -> Iterator[LinkLimit]:
    """The limits of a disk and of its virtual machine; a host cache for reads is taken to be warm."""
    kind: Kind = "any" if disk.cache == "none" else "write"
    if disk.cache != "read_write":
        yield from speed_links("disks'", disk.limits, kind, source)
    if disk.vm and disk.vm.uncached and disk.cache != "read_write":
        yield from speed_links(f"{disk.vm.name}'s uncached", disk.vm.uncached, kind, vm_source)
    if disk.vm and disk.vm.cached and disk.cache != "none":
        cached: Kind = "read" if disk.cache == "read_only" else "any"
        yield from speed_links(f"{disk.vm.name}'s cached", disk.vm.cached, cached, vm_source)


def speed_links(name: str, limits: IoLimits, kind: Kind, source: str) -> Iterator[LinkLimit]:
    """Limits on IOPS and throughput as links."""
    yield LinkLimit(f"{name} IOPS", "iops", kind, limits.iops, source)
    yield LinkLimit(f"{name} throughput", "bytes_per_s", kind, limits.bytes_per_s, source)

"""A chain of limits between a load and its data: each link carries a rate, one binds first; and clients as links."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from typing import Literal

import msgspec

from iocurve.advice import facts
from iocurve.advice.demand import Demand, Quantity
from iocurve.engine.plan import DiskPlan, IoLimits
from iocurve.foundation.structs import Struct
from iocurve.foundation.units import MIB, counted, format_bytes, format_latency, format_number
from iocurve.result.caps import Cap, Kind
from iocurve.targets import disk as disks
from iocurve.volume import profile as profiles
from iocurve.volume.limits import Limits

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

    def use(self, demand: Demand) -> Fraction:
        """The part of the capacity that a load takes; above 1 the link does not carry it."""
        return demand.of(self.quantity, self.kind) / self.capacity

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


def binding(links: Iterable[LinkLimit], demand: Demand, *, published_only: bool = False) -> LinkLimit | None:
    """The link that a load uses most; None where no link is known for it."""
    considered = [link for link in links if link.is_published or not published_only]
    used = [link for link in considered if link.use(demand) > 0]
    return max(used, key=lambda link: link.use(demand), default=None)


def carries(links: Iterable[LinkLimit], demand: Demand) -> bool:
    """True if every published link carries the load."""
    return all(link.use(demand) <= 1 for link in links if link.is_published)


def most(links: Iterable[LinkLimit], quantity: Quantity, demand: Demand, *, published_only: bool) -> Fraction | None:
    """The most of a quantity that all links of it carry together in the mix of a load; None without such a link."""
    rates = [
        link.capacity / demand.share(link.kind)
        for link in links
        if link.quantity == quantity and demand.share(link.kind) and (link.is_published or not published_only)
    ]
    return min(rates, default=None)


# ---- links of the parts


def volume_links(name: str, limits: Limits) -> Iterator[LinkLimit]:
    """The limits of a volume as a whole."""
    for cap in limits.caps:
        if cap.scope == "volume":
            yield _of_cap(name, cap, 1, "volume's ")


def connection_links(name: str, limits: Limits, connections: int) -> Iterator[LinkLimit]:
    """The limits of all connections together; of those that a profile does not state, what a page says of NFSv3."""
    for cap in limits.caps:
        if cap.scope == "connection":
            yield _of_cap(name, cap, connections, f"{connections} × connection's ")


def _of_cap(name: str, cap: Cap, times: int, prefix: str) -> LinkLimit:
    profile = profiles.load(name)
    source = getattr(profile, cap.figure).source if getattr(profile, cap.figure) else None
    quantity: Quantity = "in_flight" if cap.quantity == "requests" else cap.quantity
    label = cap.replace(scope="volume").text
    is_fitted = source is not None and profile.sources[source].fitted
    standing: Standing = "measured" if is_fitted else "published"
    return LinkLimit(f"{prefix}{label}", quantity, cap.kind, cap.value * times, profile.cite(source), standing)


def network_links(vm: str, clients: int) -> Iterator[LinkLimit]:
    """The network of clients. Azure caps what a machine sends, which are writes; reads are planned at the same rate."""
    family, size = disks.vms()[vm]
    capacity = clients * size.network_bytes_per_s
    source = str(family.sources[size.source])
    name = f"network of {clients} × {vm.removeprefix('Standard_')}"
    yield LinkLimit(f"{name}, writes", "bytes_per_s", "write", capacity, source)
    yield LinkLimit(f"{name}, reads", "bytes_per_s", "read", capacity, source, "planned")


def disk_links(disk: DiskPlan, source: str, vm_source: str) -> Iterator[LinkLimit]:
    """The limits of a disk and of its virtual machine; a host cache for reads is taken to be warm."""
    kind: Kind = "any" if disk.cache == "none" else "write"
    if disk.cache != "read_write":
        yield from _speed_links("disks'", disk.limits, kind, source)
    if disk.vm and disk.vm.uncached and disk.cache != "read_write":
        yield from _speed_links(f"{disk.vm.name}'s uncached", disk.vm.uncached, kind, vm_source)
    if disk.vm and disk.vm.cached and disk.cache != "none":
        cached: Kind = "read" if disk.cache == "read_only" else "any"
        yield from _speed_links(f"{disk.vm.name}'s cached", disk.vm.cached, cached, vm_source)


def _speed_links(name: str, limits: IoLimits, kind: Kind, source: str) -> Iterator[LinkLimit]:
    yield LinkLimit(f"{name} IOPS", "iops", kind, limits.iops, source)
    yield LinkLimit(f"{name} throughput", "bytes_per_s", kind, limits.bytes_per_s, source)


CLIENTS_MAX = 4096


class Clients(Struct):
    """Machines of one size that carry a load together."""

    vm: str
    count: int
    nconnect: int
    """TCP connections of each."""
    vcpus: int
    """All machines together."""
    binds_first: str
    count_without_nconnect: int | None
    """Machines that the load needs with one connection each."""
    source: str


class InFlight(Struct):
    """The operations that must be in flight, and how they are divided."""

    operations: float | None
    """All clients together, by Little's law; None where the latency or the IOPS are not known."""
    low: float | None = None
    """Lower bound, where the latency was measured with an interval."""
    high: float | None = None
    per_client: int | None = None
    jobs: int | None = None
    """Of each client."""
    depth: int | None = None
    """Of each job."""
    window_bytes: int | None = None
    """The TCP window of each connection."""
    formulas: tuple[str, ...]


def machines(
    name: str, limits: Limits, demand: Demand, nconnect: int, vms: Sequence[str], count: int | None = None
) -> list[Clients]:
    """The machines of each size that carry a load, by their processors; those of ``count`` machines if it is given."""
    found = [one for vm in vms if (one := _of_size(name, limits, demand, nconnect, vm, count))]
    return sorted(found, key=lambda one: (one.vcpus, one.count, one.vm))


def client_links(name: str, limits: Limits, vm: str | None, clients: int, nconnect: int) -> list[LinkLimit]:
    """The links of clients: their networks and their connections."""
    networks = list(network_links(vm, clients)) if vm else []
    return [*networks, *connection_links(name, limits, clients * nconnect)]


def _of_size(name: str, limits: Limits, demand: Demand, nconnect: int, vm: str, count: int | None) -> Clients | None:
    def needed(connections: int) -> int | None:
        def carries(clients: int) -> bool:
            # The limits of connections are fitted to results, and still the best that is known.
            return all(link.use(demand) <= 1 for link in client_links(name, limits, vm, clients, connections))

        return facts.smallest(carries, 1, CLIENTS_MAX)

    clients = needed(nconnect)
    if clients is None or (count is not None and clients > count):
        return None
    clients = count or clients
    family, size = disks.vms()[vm]
    first = binding(client_links(name, limits, vm, clients, nconnect), demand)
    return Clients(
        vm=vm,
        count=clients,
        nconnect=nconnect,
        vcpus=clients * size.vcpus,
        binds_first=f"{first.text}, {float(first.use(demand)) * 100:.3g} % of it in use" if first else "",
        count_without_nconnect=needed(1),
        source=str(family.sources[size.source]),
    )


def in_flight(demand: Demand, clients: int, nconnect: int, latency_ns: tuple[float, float] | None = None) -> InFlight:
    """Operations in flight by Little's law, jobs and depth of each client, and the window of each connection.

    ``latency_ns`` are the bounds of a latency that was measured.
    """
    formulas: list[str] = []
    total, depth_max = demand.in_flight, facts.value("nfs-client", "depth_at_most")
    per_client = jobs = depth = window = None
    if total is not None and demand.latency_ns is not None:
        per_client = max(1, math.ceil(total / clients))
        jobs = math.ceil(Fraction(per_client, depth_max))
        depth = math.ceil(Fraction(per_client, jobs))
        latency = format_latency(demand.latency_ns)
        formulas.append(
            f"in flight = IOPS × latency = {demand.iops:,}/s × {latency} = {format_number(float(total), 4)}"
        )
        formulas.append(
            f"per client = ⌈{format_number(float(total), 4)} ÷ {clients}⌉ = {per_client} = "
            f"{counted(jobs, 'job')} × depth {depth} (depth ≤ {depth_max})"
        )
    round_trip_ns = demand.round_trip_ns or demand.latency_ns
    if demand.bytes_per_s and round_trip_ns:
        each = Fraction(demand.bytes_per_s, clients * nconnect)
        window = facts.window_bytes(each, round_trip_ns)
        formulas.append(
            f"TCP window = bandwidth of a connection × round trip = {format_bytes(round(each))}/s × "
            f"{format_latency(round_trip_ns)} = {format_bytes(window)}"
        )
    low, high = [float(demand.iops * bound / 1e9) for bound in latency_ns] if latency_ns and total else (None, None)
    return InFlight(
        operations=None if total is None else float(total),
        low=low,
        high=high,
        per_client=per_client,
        jobs=jobs,
        depth=depth,
        window_bytes=window,
        formulas=tuple(formulas),
    )

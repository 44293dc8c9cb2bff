"""A chain of links between a load and its data, one of which binds first; and the machines that a load needs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction

from iocurve.advice import facts
from iocurve.advice.demand import Demand
from iocurve.foundation.structs import Struct
from iocurve.foundation.units import counted, format_bytes, format_latency, format_number
from iocurve.model.links import LinkLimit, Quantity, scope_links
from iocurve.targets import disk as disks
from iocurve.volume.limits import Limits


def network_links(vm: str, clients: int) -> Iterator[LinkLimit]:
    """The network of clients. Azure caps what a machine sends, which are writes; reads are planned at the same rate."""
    family, size = disks.vms()[vm]
    capacity = clients * size.network_bytes_per_s
    source = str(family.sources[size.source])
    name = f"network of {clients} × {vm.removeprefix('Standard_')}"
    yield LinkLimit(f"{name}, writes", "bytes_per_s", "write", capacity, source)
    yield LinkLimit(f"{name}, reads", "bytes_per_s", "read", capacity, source, "planned")


def client_links(name: str, limits: Limits, vm: str | None, clients: int, nconnect: int) -> list[LinkLimit]:
    """The links of clients: their networks and their connections."""
    networks = list(network_links(vm, clients)) if vm else []
    return [*networks, *scope_links(name, limits, "connection", clients * nconnect)]


def binding(links: Iterable[LinkLimit], demand: Demand, *, published_only: bool = False) -> LinkLimit | None:
    """The link that a load uses most; None where no link is known for it."""
    considered = [link for link in links if link.is_published or not published_only]
    used = [link for link in considered if link.use(demand.of) > 0]
    return max(used, key=lambda link: link.use(demand.of), default=None)


def carries(links: Iterable[LinkLimit], demand: Demand) -> bool:
    """True if every published link carries the load."""
    return all(link.use(demand.of) <= 1 for link in links if link.is_published)


def most(links: Iterable[LinkLimit], quantity: Quantity, demand: Demand, *, published_only: bool) -> Fraction | None:
    """The most of a quantity that all links of it carry together in the mix of a load; None without such a link."""
    rates = [
        link.capacity / demand.share(link.kind)
        for link in links
        if link.quantity == quantity and demand.share(link.kind) and (link.is_published or not published_only)
    ]
    return min(rates, default=None)


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


def _of_size(name: str, limits: Limits, demand: Demand, nconnect: int, vm: str, count: int | None) -> Clients | None:
    def needed(connections: int) -> int | None:
        # The limits of connections are fitted to results, and still the best that is known.
        links = client_links(name, limits, vm, 1, connections)
        use = max((link.use(demand.of) for link in links), default=0)
        return found if (found := max(1, math.ceil(use))) <= CLIENTS_MAX else None

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
        binds_first=f"{first.text}, {float(first.use(demand.of)) * 100:.3g} % of it in use" if first else "",
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

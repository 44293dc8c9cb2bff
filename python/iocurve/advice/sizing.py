"""A sizing: what carries a load, from the data to the clients; and the reverse: the load of a configuration.

The terminal and Markdown show the same sections: a title, lines, and a table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

from iocurve.advice.demand import Alternative, Demand, Impossible, Prices
from iocurve.advice.disks import disks
from iocurve.advice.links import Clients, InFlight, binding, carries, client_links, in_flight, machines, most
from iocurve.advice.volumes import next_tib_gain, volume_at, volumes
from iocurve.engine.plan import DiskPlan
from iocurve.foundation.errors import Diagnostic, DialectError
from iocurve.foundation.structs import Struct
from iocurve.foundation.units import KIB, MIB, format_number, parse_bytes
from iocurve.model.links import LinkLimit, amount, disk_links
from iocurve.report.table import Table
from iocurve.targets import disk as published
from iocurve.targets.disk import parse_disk
from iocurve.volume import profile as profiles
from iocurve.volume import profile_limits
from iocurve.volume.limits import Limits

SECONDS_NS = 1_000_000_000
PREFIXES = ("", "anf-", "azure-")
"""Service levels may be written without them: ``premium``, ``large-ultra``, ``files-v1``."""


class Sizing(Struct):
    """The alternatives for a load, and its clients."""

    demand: Demand
    measured: str = ""
    """The measured load that the demand was taken from."""
    alternatives: tuple[Alternative, ...]
    """By their price where all have one, or else by capacity; volumes and disks."""
    impossible: tuple[Impossible, ...]
    clients_of: str = ""
    """The volume that the clients were sized for."""
    clients: tuple[Clients, ...] = ()
    """By processors."""
    in_flight: InFlight | None = None
    currency: str = ""
    warnings: tuple[str, ...] = ()


def sized(
    demand: Demand,
    *,
    vm: str | None = None,
    clients: int | None = None,
    nconnect: int | None = None,
    prices: Prices | None = None,
    kinds: Sequence[str] = ("volume", "disk"),
    latency_bounds_ns: tuple[float, float] | None = None,
) -> Sizing:
    """Everything that carries a load.

    ``vm``, ``clients`` and ``nconnect`` are decided already where they are given.
    """
    found: list[Alternative | Impossible] = []
    if "volume" in kinds:
        found += volumes(demand)
    if "disk" in kinds:
        found += disks(demand, vm)
    fitting = [prices.priced(one) if prices else one for one in found if isinstance(one, Alternative)]
    fitting.sort(key=lambda one: (one.month is None, one.month or 0.0, one.gib, one.count, one.name))
    levels = [one for one in fitting if one.kind == "volume"]
    # Machines are known of some clouds only.
    first = next(
        (one for one in levels if published.machines_of(profiles.load(one.name).cloud)), next(iter(levels), None)
    )
    of_volume = _clients_of(first, demand, vm, clients, nconnect) if first else []
    count = of_volume[0].count if of_volume else clients or 1
    each = of_volume[0].nconnect if of_volume else nconnect or 1
    return Sizing(
        demand=demand,
        alternatives=tuple(fitting),
        impossible=tuple(one for one in found if isinstance(one, Impossible)),
        clients_of=f"{first.name}, {first.provisioned}" if first else "",
        clients=tuple(of_volume),
        in_flight=in_flight(demand, count, each, latency_bounds_ns),
        currency=prices.currency if prices else "",
    )


def _clients_of(
    one: Alternative, demand: Demand, vm: str | None, clients: int | None, nconnect: int | None
) -> list[Clients]:
    profile = profiles.load(one.name)
    # The limits of connections are the same at every size.
    limits = profile_limits.resolve(one.name, profile.sizes.at_least_gib << 30)
    sizes = [vm] if vm else published.machines_of(profile.cloud)
    return machines(one.name, limits, demand, nconnect or profile.nconnect or 1, sizes, clients)


# ---- the reverse


class ChainLink(Struct):
    """A link of a chain and the load that it carries alone."""

    name: str
    capacity: float
    """In bytes per second, IOPS or operations in flight."""
    quantity: str
    kind: str
    carries: str
    """The capacity, and for a part of the mix the whole load that it allows."""
    standing: str
    """published, measured by a page, or planned where no limit is published."""
    source: str


class Chain(Struct):
    """The load that a configuration carries, and the link that binds."""

    have: str
    read_percent: float
    block_bytes: int | None
    bytes_per_s: float | None
    """By the published limits."""
    iops: float | None
    """By the published limits; with a block size those of it."""
    bytes_per_s_planned: float | None
    """By these, by the most that pages measured, and by what a plan counts on."""
    iops_planned: float | None
    binds: str
    """The link that a load reaches first, with a block size or by throughput."""
    next_binds: str
    """The link after that one."""
    links: tuple[ChainLink, ...]
    burst: str = ""
    next_step: str = ""
    demand: Demand | None = None
    """The load that was given; None without one."""
    verdict: str = ""
    """Says whether the published limits carry this load."""


def chain(
    have: str, *, demand: Demand, clients: int | None = None, vm: str | None = None, nconnect: int | None = None
) -> Chain:
    """The load that ``LEVEL:SIZE``, ``DISK:COUNT`` or ``disk:…`` carries, with the clients that are given.

    ``demand`` has the mix, the block size and the latency. Raises ``DialectError``.
    """
    links, next_step, burst = _have_links(have, clients, vm, nconnect)
    if demand.latency_ns is None:
        links = [link for link in links if link.quantity != "in_flight"]
    published = _carried(links, demand, published_only=True)
    planned = _carried(links, demand, published_only=False)
    probe = _probe(demand, planned)
    first = binding(links, probe)
    second = binding([link for link in links if link is not first], probe)
    return Chain(
        have=have,
        read_percent=demand.read_percent,
        block_bytes=demand.block_bytes,
        bytes_per_s=published[0],
        iops=published[1],
        bytes_per_s_planned=planned[0],
        iops_planned=planned[1],
        binds=first.text if first else "",
        next_binds=second.text if second else "",
        links=tuple(_chain_link(link, demand) for link in links),
        burst=burst,
        next_step=next_step,
        demand=demand if demand.bytes_per_s or demand.iops else None,
        verdict=_verdict(have, links, demand),
    )


def _verdict(have: str, links: Sequence[LinkLimit], demand: Demand) -> str:
    """``premium:4TiB does not carry 100,000 IOPS: 160 % of volume's throughput``; empty without a load."""
    link = binding(links, demand, published_only=True)
    if not (demand.bytes_per_s or demand.iops):
        return ""
    used = f": {float(link.use(demand.of)) * 100:.3g} % of {link.text}" if link else ": no limit is published for it"
    return f"{have} {'carries' if carries(links, demand) else 'does not carry'} {demand.text}{used}"


def _have_links(
    have: str, clients: int | None, vm: str | None, nconnect: int | None
) -> tuple[list[LinkLimit], str, str]:
    """The links of a configuration, its next step up, and its burst."""
    disk = _disk(have, vm)
    if disk is not None:
        return list(disk_links(disk, *_disk_sources(have, disk))), "", _disk_burst(disk)
    name, size = _level(have)
    limits, links = volume_at(name, size)
    profile = profiles.load(name)
    each = nconnect or (profile.nconnect if clients or vm else None)
    if each:
        links += client_links(name, limits, vm, clients or 1, each)
    gain = next_tib_gain(name, size)
    step = f"1 TiB more gives {amount('bytes_per_s', gain)}" if gain else "a larger quota gives no more at this level"
    return links, step, _burst(limits)


def _disk_sources(have: str, disk: DiskPlan) -> tuple[str, str]:
    """The pages of a disk and of its virtual machine."""
    family, size = published.find(have.removeprefix("disk:").partition("?")[0].partition(":")[0])
    of_disk = size.source if size else family.provisioned.source if family.provisioned else family.io_kib_source
    if disk.vm is None:
        return str(family.sources[of_disk]), ""
    machines_of, machine = published.vms()[disk.vm.name]
    return str(family.sources[of_disk]), str(machines_of.sources[machine.source])


def _burst(limits: Limits) -> str:
    if limits.burst is None:
        return ""
    return f"bursts to {limits.burst.value:,} IOPS; {limits.burst.credits:,} credits when full"


def _disk_burst(disk: DiskPlan) -> str:
    burst = disk.limits.burst
    return f"bursts to {burst.iops:,} IOPS and {burst.bytes_per_s // 1_000_000:,} MB/s" if burst else ""


def _level(text: str) -> tuple[str, int]:
    """``premium:70.31TiB`` as a profile and a size."""
    word, colon, size = text.rpartition(":")
    try:
        quota = parse_bytes(size)
    except ValueError as error:
        raise DialectError([Diagnostic(f"--have {text}: {error}")]) from None
    known = profiles.names()
    found = next((prefix + word for prefix in PREFIXES if prefix + word in known), word)
    if not colon:
        raise DialectError([Diagnostic(f"--have {text}: write a level and a size, as in premium:70.31TiB")])
    profiles.load(found)
    return found, quota


def _disk(text: str, vm: str | None) -> DiskPlan | None:
    """A disk of a configuration; None where the text is a service level."""
    name, _, count = text.partition(":")
    if text.startswith("disk:"):
        target = text
    elif name in published.disk_names() or any(name.startswith(family) for family in published.families()):
        target = f"disk:{name}?stripe={count or 1}"
    else:
        return None
    for key, value in (("vm", vm), ("path", ".")):
        if value and f"{key}=" not in target:
            target += f"{'&' if '?' in target else '?'}{key}={value}"
    try:
        return parse_disk(target).described
    except ValueError as error:
        raise DialectError([Diagnostic(f"--have {error}")]) from None


def _carried(links: Sequence[LinkLimit], demand: Demand, *, published_only: bool) -> tuple[float | None, float | None]:
    """Bytes and operations per second that all links carry; with a block size each follows from the other."""
    data = most(links, "bytes_per_s", demand, published_only=published_only)
    rate = most(links, "iops", demand, published_only=published_only)
    flying = most(links, "in_flight", demand, published_only=published_only)
    if flying is not None and demand.latency_ns:
        rate = min(filter(None, (rate, flying * SECONDS_NS / demand.latency_ns)))
    if demand.block_bytes and (data is not None or rate is not None):
        rates: list[Fraction] = [one for one in (data and data / demand.block_bytes, rate) if one is not None]
        rate = min(rates)
        data = rate * demand.block_bytes
    return (None if data is None else float(data)), (None if rate is None else float(rate))


def _probe(demand: Demand, carried: tuple[float | None, float | None]) -> Demand:
    """The load at which the first link is full."""
    data, rate = carried
    return demand.replace(bytes_per_s=round(data or 0), iops=round(rate or 0) if demand.block_bytes or not data else 0)


def _chain_link(link: LinkLimit, demand: Demand) -> ChainLink:
    share = demand.share(link.kind)
    text = amount(link.quantity, link.capacity)
    if share == 0:
        text += "; not in this mix"
    elif share < 1:
        text += f", which is {amount(link.quantity, link.capacity / share)} of the mix"
    if share and link.quantity == "bytes_per_s" and demand.block_bytes:
        text += f", {float(link.capacity / share / demand.block_bytes):,.0f} IOPS of {demand.block_bytes / KIB:g} KiB"
    if share and link.quantity == "iops" and demand.block_bytes:
        text += f", {float(link.capacity / share * demand.block_bytes) / MIB:,.0f} MiB/s"
    if link.quantity == "in_flight" and demand.latency_ns:
        text += f", {float(Fraction(link.capacity * SECONDS_NS, demand.latency_ns)):,.0f} IOPS"
    return ChainLink(
        name=link.name,
        capacity=float(link.capacity),
        quantity=link.quantity,
        kind=link.kind,
        carries=text,
        standing=link.standing,
        source=link.source,
    )


def sources() -> list[dict[str, str]]:
    """Every fact that sizings use: its subject, name, value, page and date."""
    from iocurve.advice import facts
    from iocurve.volume.profile_limits import describe

    rows: list[tuple[str, str, str, str]] = []
    for name in profiles.names():
        rows += [(name, *row) for row in describe(name)]
    for disk in published.disk_names():
        rows += [(disk, *row) for row in published.describe_disk(disk)]
    for machine in published.vms():
        rows += [(machine, *row) for row in published.describe_vm(machine)]
    for file, content in facts.files().items():
        for key, fact in content.facts.items():
            rows.append((file, fact.about, f"{fact.value:,} {fact.unit}".strip(), facts.cite(file, key)))
    return [dict(zip(("subject", "fact", "value", "source"), row, strict=True)) for row in rows]


CLIENTS_SHOWN = 6


SizingSection = tuple[str, Sequence[str], Table | None]
"""A part of the output: its title, lines, and a table."""


def sizing_sections(sizing: Sizing) -> Iterator[SizingSection]:
    """The sections of a sizing: data, then clients, then the load of each client."""
    about = [f"load: {sizing.demand.text}"]
    if sizing.measured:
        about.append(f"measured: {sizing.measured}")
    yield "", (*about, *sizing.warnings), None
    kinds = {"volume": "Volumes and shares", "disk": "Disks and their virtual machine"}
    for kind, title in kinds.items():
        found = [one for one in sizing.alternatives if one.kind == kind]
        if found:
            yield _alternatives(title, found, sizing.currency)
    if sizing.impossible:
        yield "Not enough", [f"{one.name}: {one.why}" for one in sizing.impossible], None
    yield from _clients(sizing)
    yield _in_flight(sizing)


def _alternatives(title: str, found: Sequence[Alternative], currency: str) -> SizingSection:
    has_price = any(one.month is not None for one in found)
    price = (f"{currency or 'price'} a month",) if has_price else ()
    rows = [
        (
            one.name,
            one.how,
            one.provisioned,
            *((f"{one.month:,.2f}" if one.month is not None else "no price",) if has_price else ()),
            one.binds_first,
            "; ".join(filter(None, (one.next_step, *one.notes))),
        )
        for one in found
    ]
    formulas = dict.fromkeys(f"{one.name}: {one.formula} ({one.source})" for one in found)
    columns = ("product", "how", "provisioned", *price, "binds first", "next step, notes")
    return title, tuple(formulas), Table(columns, rows, sentences=columns)


def _clients(sizing: Sizing) -> Iterator[SizingSection]:
    if not sizing.clients_of:
        return
    if not sizing.clients:
        none = "no machine that is known, in any number, carries the load with these connections"
        yield "Clients", (none,), None
        return
    rows = [
        (f"{one.count} × {one.vm}", str(one.vcpus), str(one.nconnect), one.binds_first, alone)
        for one in sizing.clients[:CLIENTS_SHOWN]
        for alone in ["–" if one.count_without_nconnect is None else f"{one.count_without_nconnect} clients"]
    ]
    more = len(sizing.clients) - len(rows)
    lines = [f"for {sizing.clients_of}"] + ([f"{more} other sizes are in --json"] if more else [])
    columns = ("clients", "vCPUs", "nconnect", "binds first", "without nconnect")
    yield "Clients", lines, Table(columns, rows, sentences=columns)


def _in_flight(sizing: Sizing) -> SizingSection:
    found = sizing.in_flight
    if found is None or not found.formulas:
        return "In flight", ("give --iops or --bs, and --latency, for Little's law and the TCP window",), None
    lines = list(found.formulas)
    if found.low is not None and found.high is not None:
        lines.append(f"by the measured latency: {found.low:,.1f} to {found.high:,.1f} in flight (95 %)")
    return "In flight", lines, None


def chain_sections(chain: Chain) -> Iterator[SizingSection]:
    """The sections of a chain."""
    lines = [chain.verdict] if chain.verdict else []
    lines += [f"{chain.have} carries {_rates(chain.bytes_per_s, chain.iops)} ({_load(chain)})"]
    if (chain.bytes_per_s_planned, chain.iops_planned) != (chain.bytes_per_s, chain.iops):
        lines.append(f"for a plan, with what pages measured: {_rates(chain.bytes_per_s_planned, chain.iops_planned)}")
    lines.append(f"binds first: {chain.binds or 'no limit is known'}")
    if chain.next_binds:
        lines.append(f"then: {chain.next_binds}")
    lines += [line for line in (chain.burst, chain.next_step) if line]
    rows = [(one.name, one.carries, one.standing, one.source) for one in chain.links]
    columns = ("link", "carries", "figure", "source")
    yield "", lines, Table(columns, rows, sentences=columns)


def _load(chain: Chain) -> str:
    block = f", blocks of {chain.block_bytes // 1024} KiB" if chain.block_bytes else ""
    return f"{chain.read_percent:g} % reads{block}"


def _rates(bytes_per_s: float | None, iops: float | None) -> str:
    parts = []
    if bytes_per_s is not None:
        parts.append(f"{format_number(bytes_per_s / MIB, 4)} MiB/s")
    if iops is not None:
        parts.append(f"{format_number(round(iops), 6)} IOPS")
    return " and ".join(parts) or "as much as its clients ask for: no limit is published"


def markdown(sections: Sequence[SizingSection]) -> str:
    """The sections as Markdown."""
    parts: list[str] = []
    for title, lines, table in sections:
        parts += [f"## {title}"] if title else []
        parts += ["\n".join(f"- {line}" for line in lines)] if lines else []
        parts += ["\n".join(table.markdown())] if table else []
    return "\n\n".join(parts) + "\n"

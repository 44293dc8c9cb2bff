"""The command that sizes volumes, shares, disks and clients for a load, and says what a configuration carries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from iocurve.advice import sizing
from iocurve.advice.demand import Demand, MeasuredDemand, measured_demand, read_prices
from iocurve.advice.sizing import SizingSection
from iocurve.cli import common
from iocurve.foundation.errors import Diagnostic, DialectError, unknown
from iocurve.report.table import Table
from iocurve.targets import disk as disks

Kind = Literal["volume", "disk"]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class DemandOptions:
    """The load that must be carried."""

    throughput: common.BandwidthBytes | None = None
    """Throughput, reads and writes together: 4500MiB/s."""
    iops: common.Count | None = None
    """Operations per second, reads and writes together: 100k."""
    mix: common.Mix | None = None
    """Per cent of reads and of writes: 70:30. Default: 100:0, or that of --from."""
    bs: common.SizeBytes | None = None
    """Size of an operation: 8k. Throughput and IOPS then follow from each other. Default: each counts by itself."""
    latency: common.TimeNs | None = None
    """Mean latency of an operation, for Little's law: 1ms. Service levels that are slower are left out."""
    round_trip: common.TimeNs | None = None
    """Network round trip, for the TCP window. Default: the latency."""
    capacity: common.SizeBytes = 0
    """Data that must fit."""
    from_: Annotated[Path | None, Parameter(name="--from")] = None
    """A result.json, its directory, or an observation (iocurve observe --out), for what is not given: mix, block size,
    mean latency and rates of the point that sustains the load."""


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class DecidedOptions:
    """The parts that are decided already."""

    have: str | None = None
    """Print what this delivers instead: premium:70.31TiB, large-ultra:100TiB, premium-ssd-p30:3 (disks in a stripe), or
    disk:NAME?cache=read-only&vm=NAME."""
    clients: common.AtLeast1 | None = None
    """Number of client machines."""
    vm: str | None = None
    """Size of the machines, e.g. D32s_v5 (iocurve disk list)."""
    nconnect: common.AtLeast1 | None = None
    """TCP connections of each client. Default: what the service level's pages advise."""
    only: Annotated[tuple[Kind, ...], common.Many] = ()
    """Size volumes or disks only."""
    prices: Path | None = None
    """Your prices, a TOML file (docs/sizing.md); alternatives are then sorted by price."""


DEMAND = DemandOptions()
DECIDED = DecidedOptions()


def machine_of(text: str | None) -> str | None:
    """The full name of a virtual machine as people write it. Raises ``DialectError``."""
    if text is None:
        return None
    try:
        return disks.vm_name(text)
    except KeyError:
        raise DialectError([unknown("virtual machine", text, disks.vms(), "iocurve disk list")]) from None


def size(
    *,
    demand: DemandOptions = DEMAND,
    decided: DecidedOptions = DECIDED,
    sources: common.Flag = False,
    json: common.JsonFlag = False,
    markdown: common.Flag = False,
) -> int:
    """Size volumes, shares, disks and clients for a load, or print what a configuration delivers.

    Parameters
    ----------
    sources
        Print every published fact that sizes follow from, with its page and date.
    markdown
        Print Markdown.
    """
    if json:
        common.refuse("--json prints the whole answer as JSON; choose one", markdown=markdown)
    if sources:
        common.refuse("--sources prints all facts; leave out the load and what is decided", demand, decided)
        return _sources(json=json, markdown=markdown)
    vm = machine_of(decided.vm)
    if decided.have is not None:
        reason = "--have prints what a configuration delivers; leave out one of them"
        common.refuse(reason, only=decided.only, prices=decided.prices, capacity=demand.capacity or None)
        common.refuse("--have counts connections by --latency; leave out the round trip", round_trip=demand.round_trip)
        if not (demand.iops or demand.throughput or demand.from_):
            common.refuse("the latency is that of a load: add --iops or --throughput", latency=demand.latency)
        wanted, _ = _wanted(demand)
        wanted = wanted.completed() if wanted.iops or wanted.bytes_per_s else wanted
        chain = sizing.chain(decided.have, demand=wanted, clients=decided.clients, vm=vm, nconnect=decided.nconnect)
        if json:
            common.show_json(chain.to_builtins())
            return 0
        return _show(list(sizing.chain_sections(chain)), markdown=markdown)
    found = _sized(demand, decided, vm)
    if json:
        common.show_json(found.to_builtins())
        return 0
    return _show(list(sizing.sizing_sections(found)), markdown=markdown)


def _wanted(options: DemandOptions) -> tuple[Demand, MeasuredDemand | None]:
    """The load of the options, and where it was measured."""
    iops, throughput, block = options.iops or 0, options.throughput or 0, options.bs
    start = None
    if options.from_:
        start = measured_demand(options.from_, iops=iops, bytes_per_s=throughput, block_bytes=block)
    mix = options.mix
    latency = options.latency
    if start:
        if not (iops or throughput):
            iops, throughput = start.iops, start.bytes_per_s
        block = block or start.block_bytes
        mix = start.read_percent if mix is None else mix
        latency = start.latency_ns if latency is None else latency
    wanted = Demand(
        bytes_per_s=throughput,
        iops=iops,
        read_percent=100.0 if mix is None else mix,
        block_bytes=block,
        latency_ns=latency,
        round_trip_ns=options.round_trip,
        capacity_bytes=options.capacity,
    )
    return wanted, start


def _sized(options: DemandOptions, decided: DecidedOptions, vm: str | None) -> sizing.Sizing:
    prices = read_prices(decided.prices) if decided.prices else None
    wanted, start = _wanted(options)
    found = sizing.sized(
        wanted.completed(),
        vm=vm,
        clients=decided.clients,
        nconnect=decided.nconnect,
        prices=prices,
        kinds=decided.only or ("volume", "disk"),
        latency_bounds_ns=start.latency_bounds_ns if start and options.latency is None else None,
    )
    if not found.alternatives and not found.impossible:
        raise DialectError([Diagnostic("nothing is sized: leave out --only")])
    return found.replace(measured=start.text, warnings=tuple(filter(None, [start.warning]))) if start else found


def _sources(*, json: bool, markdown: bool) -> int:
    rows = sizing.sources()
    if json:
        common.show_json(rows)
        return 0
    columns = ("subject", "fact", "value", "source")
    table = Table(columns, [tuple(row.values()) for row in rows], sentences=columns)
    return _show([("", (), table)], markdown=markdown)


def _show(sections: Sequence[SizingSection], *, markdown: bool) -> int:
    if markdown:
        print(sizing.markdown(sections), end="")
        return 0
    for number, (title, lines, table) in enumerate(sections):
        if number:
            print()
        if title:
            print(title)
        for line in lines:
            print(f"  {line}" if title else line)
        if table:
            common.show(table)
    return 0

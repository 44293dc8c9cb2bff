"""A sizing as sections: a title, lines, and a table. The terminal and Markdown show the same sections."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from iocurve.advice.demand import Alternative
from iocurve.advice.sizing import Chain, Sizing
from iocurve.foundation.units import MIB, format_number
from iocurve.report.table import Table

CLIENTS_SHOWN = 6


@dataclass(frozen=True)
class SizingSection:
    """A part of the output."""

    title: str
    lines: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()


def sizing_sections(sizing: Sizing) -> Iterator[SizingSection]:
    """The sections of a sizing: data, then clients, then the load of each client."""
    about = [f"load: {sizing.demand.text}"]
    if sizing.measured:
        about.append(f"measured: {sizing.measured}")
    yield SizingSection("", (*about, *sizing.warnings))
    kinds = {"volume": "Volumes and shares", "disk": "Disks and their virtual machine"}
    for kind, title in kinds.items():
        found = [one for one in sizing.alternatives if one.kind == kind]
        if found:
            yield _alternatives(title, found, sizing.currency)
    if sizing.impossible:
        yield SizingSection("Not enough", tuple(f"{one.name}: {one.why}" for one in sizing.impossible))
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
    return SizingSection(title, tuple(formulas), columns, tuple(rows))


def _clients(sizing: Sizing) -> Iterator[SizingSection]:
    if not sizing.clients_of:
        return
    if not sizing.clients:
        yield SizingSection(
            "Clients", ("no machine that is known, in any number, carries the load with these connections",)
        )
        return
    rows = [
        (
            f"{one.count} × {one.vm}",
            str(one.vcpus),
            str(one.nconnect),
            one.binds_first,
            _alone(one.count_without_nconnect),
        )
        for one in sizing.clients[:CLIENTS_SHOWN]
    ]
    more = len(sizing.clients) - len(rows)
    lines = [f"for {sizing.clients_of}"] + ([f"{more} other sizes are in --json"] if more else [])
    columns = ("clients", "vCPUs", "nconnect", "binds first", "without nconnect")
    yield SizingSection("Clients", tuple(lines), columns, tuple(rows))


def _alone(count: int | None) -> str:
    return "–" if count is None else f"{count} clients"


def _in_flight(sizing: Sizing) -> SizingSection:
    found = sizing.in_flight
    if found is None or not found.formulas:
        return SizingSection("In flight", ("give --iops or --bs, and --latency, for Little's law and the TCP window",))
    lines = list(found.formulas)
    if found.low is not None and found.high is not None:
        lines.append(f"by the measured latency: {found.low:,.1f} to {found.high:,.1f} in flight (95 %)")
    return SizingSection("In flight", tuple(lines))


def chain_sections(chain: Chain) -> Iterator[SizingSection]:
    """The sections of a chain."""
    lines = [f"{chain.have} carries {_rates(chain.bytes_per_s, chain.iops)} ({_load(chain)})"]
    if (chain.bytes_per_s_planned, chain.iops_planned) != (chain.bytes_per_s, chain.iops):
        lines.append(f"for a plan, with what pages measured: {_rates(chain.bytes_per_s_planned, chain.iops_planned)}")
    lines.append(f"binds first: {chain.binds or 'no limit is known'}")
    if chain.next_binds:
        lines.append(f"then: {chain.next_binds}")
    lines += [line for line in (chain.burst, chain.next_step) if line]
    rows = [(one.name, one.carries, one.standing, one.source) for one in chain.links]
    yield SizingSection("", tuple(lines), ("link", "carries", "figure", "source"), tuple(rows))


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
    for section in sections:
        if section.title:
            parts.append(f"## {section.title}")
        parts += ["\n".join(f"- {line}" for line in section.lines)] if section.lines else []
        if section.rows:
            parts.append("\n".join(Table(section.columns, section.rows).markdown()))
    return "\n\n".join(parts) + "\n"

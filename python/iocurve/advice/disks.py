"""Disks that carry a load: kinds, sizes and stripes, each with the smallest virtual machine that lets it through."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from fractions import Fraction

import msgspec

from iocurve.advice import facts
from iocurve.advice.demand import Alternative, Demand, Impossible
from iocurve.foundation.units import GIB, KIB, MB, format_duration
from iocurve.targets import disk as published
from iocurve.targets.disk import STRIPE_MAX, DiskFamily, DiskSize, Provisioned, Speed

FIXED_SHOWN = 4


class DiskLoad(msgspec.Struct, frozen=True):
    """A load as disks count it: an operation larger than the disk's unit counts as several."""

    iops: int
    mb_per_s: int
    gib: int

    @classmethod
    def of(cls, demand: Demand, io_kib: int) -> DiskLoad:
        """The load of a demand."""
        pieces = math.ceil(Fraction(demand.block_bytes or 1, io_kib * KIB))
        mb_per_s = math.ceil(Fraction(demand.bytes_per_s, MB))
        return cls(demand.iops * pieces, mb_per_s, math.ceil(Fraction(demand.capacity_bytes, GIB)))


def disks(demand: Demand, vm: str | None = None) -> Iterator[Alternative | Impossible]:
    """The smallest disks of every kind, or why the kind does not carry the load; on one machine, or the one given."""
    for name, family in published.families().items():
        load = DiskLoad.of(demand, family.io_kib)
        if family.provisioned is not None:
            found = list(_provisioned(name, family, family.provisioned, load, vm))
        else:
            found = _least([one for size in family.sizes for one in _fixed(name, family, size, load, vm)])
        yield from found
        if not found:
            machines = vm or "the machines that are known"
            why = f"no stripe of at most {STRIPE_MAX} disks and {machines} carries {load.iops:,} IOPS"
            yield Impossible(name=name, why=f"{why} and {load.mb_per_s:,} MB/s")


def smallest_vm(load: DiskLoad, count: int, vm: str | None = None) -> tuple[str, Speed] | None:
    """The machine with the fewest processors whose uncached limits carry a load on a number of disks."""
    sizes = {name: size for name, (_, size) in published.vms().items() if vm in (None, name)}
    fitting = [
        (size.vcpus, name, size.uncached)
        for name, size in sizes.items()
        if size.uncached
        and size.data_disks_at_most >= count
        and size.uncached.iops >= load.iops
        and size.uncached.mb_per_s >= load.mb_per_s
    ]
    # Of equal sizes the newest version of the first series.
    found = min(fitting, key=lambda one: (one[0], one[1][:10], -int(one[1][-1])), default=None)
    return found and (found[1], found[2])


def _fixed(name: str, family: DiskFamily, key: str, load: DiskLoad, vm: str | None) -> Iterator[Alternative]:
    size = family.sizes[key]
    needed = {
        "IOPS": Fraction(load.iops, size.iops),
        "MB/s": Fraction(load.mb_per_s, size.mb_per_s),
        "GiB": Fraction(load.gib, size.size_gib),
    }
    count = max(1, math.ceil(max(needed.values())))
    machine = smallest_vm(load, count, vm)
    if count > STRIPE_MAX or machine is None:
        return
    first = max(needed, key=lambda what: needed[what])
    yield Alternative(
        name=f"{name}-{key}",
        kind="disk",
        how=f"on {machine[0]}",
        gib=size.size_gib * count,
        count=count,
        provisioned=f"{count} × {key.upper()} ({size.size_gib:,} GiB each)",
        formula=f"disks = ⌈max({load.iops:,} IOPS ÷ {size.iops:,}, {load.mb_per_s:,} MB/s ÷ {size.mb_per_s:,}, "
        f"{load.gib:,} GiB ÷ {size.size_gib:,})⌉",
        vm=machine[0],
        binds_first=_binds(load, Speed(iops=size.iops * count, mb_per_s=size.mb_per_s * count), machine),
        next_step=_one_more(size, first),
        notes=tuple(_burst_note(size, count)),
        source=str(family.sources[size.source]),
    )


def _least(found: list[Alternative]) -> list[Alternative]:
    """Those that no other one beats in both disks and capacity, the smallest first."""
    kept = [one for one in found if not any(other.count <= one.count and other.gib < one.gib for other in found)]
    return sorted(kept, key=lambda one: (one.gib, one.count))[:FIXED_SHOWN]


def _provisioned(
    name: str, family: DiskFamily, how: Provisioned, load: DiskLoad, vm: str | None
) -> Iterator[Alternative]:
    by_throughput = (
        math.ceil(Fraction(load.mb_per_s, 1) / Fraction(how.mb_per_iops)) if load.mb_per_s > how.mb_per_s else 0
    )
    iops = max(load.iops, by_throughput)
    count = max(
        1,
        math.ceil(Fraction(iops, how.iops_at_most)),
        math.ceil(Fraction(load.mb_per_s, how.mb_per_s_at_most)),
        math.ceil(Fraction(load.gib, how.at_most_gib)),
    )
    each_mb = math.ceil(Fraction(load.mb_per_s, count))
    # A disk includes some IOPS and MB/s; throughput beyond what is included needs IOPS.
    own = math.ceil(each_mb / Fraction(how.mb_per_iops)) if each_mb > how.mb_per_s else 0
    each = max(how.iops, math.ceil(Fraction(load.iops, count)), own, 1)
    gib = facts.smallest(lambda size: how.most_iops(size) >= each, 1, how.at_most_gib)
    machine = smallest_vm(load, count, vm)
    if gib is None or machine is None or count > STRIPE_MAX:
        return
    gib = max(gib, math.ceil(Fraction(load.gib, count)))
    mb = max(how.mb_per_s, each_mb, 1)
    yield Alternative(
        name=name,
        kind="disk",
        how=f"on {machine[0]}",
        gib=gib * count,
        count=count,
        iops_set=each * count,
        mib_per_s_set=mb * count,
        provisioned=f"{count} × {gib:,} GiB with {each:,} IOPS and {mb:,} MB/s each",
        formula=f"IOPS ≤ {how.iops_per_gib:,} × GiB and {how.iops_at_most:,}; MB/s ≤ {how.mb_per_iops} × IOPS "
        f"and {how.mb_per_s_at_most:,}",
        vm=machine[0],
        binds_first=_binds(load, Speed(iops=each * count, mb_per_s=mb * count), machine),
        next_step=f"set more, up to {how.iops_at_most:,} IOPS and {how.mb_per_s_at_most:,} MB/s a disk",
        source=str(family.sources[how.source]),
    )


def _binds(load: DiskLoad, speed: Speed, machine: tuple[str, Speed]) -> str:
    """The limit that the load uses most."""
    name, uncached = machine
    rows: Iterable[tuple[Fraction, str]] = (
        (Fraction(load.iops, speed.iops), f"disks' IOPS: {speed.iops:,}"),
        (Fraction(load.mb_per_s, speed.mb_per_s), f"disks' throughput: {speed.mb_per_s:,} MB/s"),
        (Fraction(load.iops, uncached.iops), f"{name}'s uncached IOPS: {uncached.iops:,}"),
        (Fraction(load.mb_per_s, uncached.mb_per_s), f"{name}'s uncached throughput: {uncached.mb_per_s:,} MB/s"),
    )
    use, text = max(rows)
    return f"{text}, {float(use) * 100:.3g} % of it in use"


def _one_more(size: DiskSize, first: str) -> str:
    gain = {"IOPS": f"{size.iops:,} IOPS", "MB/s": f"{size.mb_per_s:,} MB/s", "GiB": f"{size.size_gib:,} GiB"}[first]
    return f"one disk more gives {gain}"


def _burst_note(size: DiskSize, count: int) -> Iterator[str]:
    if size.burst:
        lasts = format_duration(size.burst.minutes * published.MINUTE_NS)
        yield f"bursts to {size.burst.iops * count:,} IOPS and {size.burst.mb_per_s * count:,} MB/s for {lasts}"

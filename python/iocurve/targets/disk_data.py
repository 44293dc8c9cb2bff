"""Published figures of cloud disks and virtual machines, as data (``disks/``, ``vms/``).

1 MB is 10^6 bytes, as on the vendor's pages.
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Annotated, TypeVar

from msgspec import Meta

from iocurve.foundation.structs import Struct, bundled_names, read_bundled
from iocurve.foundation.units import MB

MINUTE_NS = 60_000_000_000
MBIT_BYTES = 125_000

Positive = Annotated[int, Meta(gt=0)]


class DataSource(Struct):
    """The page that a figure was published on."""

    page: str
    """A page of learn.microsoft.com."""
    date: str
    """Date of the page."""

    def __str__(self) -> str:
        return f"{self.page}, {self.date}"


class Speed(Struct):
    """Limits on IOPS and throughput, reads and writes together."""

    iops: Positive
    mb_per_s: Positive

    def __str__(self) -> str:
        return f"{self.iops:,} IOPS, {self.mb_per_s:,} MB/s"


class DiskBurst(Speed):
    """Limits while burst credits last."""

    minutes: Positive
    """Time for which a full bucket of credits sustains the full burst."""
    source: str


class SourcedNumber(Struct):
    """One figure."""

    value: Positive
    source: str


class DiskSize(Speed):
    """A disk of one size."""

    size_gib: Positive
    burst: DiskBurst | None = None
    source: str


class Provisioned(Struct):
    """A disk whose size, IOPS and throughput are provisioned independently."""

    at_most_gib: Positive
    iops: int = 0
    """Baseline included with each disk."""
    iops_per_gib: Positive
    iops_free_gib: int = 0
    """Disks up to this size have the baseline IOPS only."""
    iops_at_most: Positive
    mb_per_s: int = 0
    """Baseline included with each disk."""
    mb_per_iops: Decimal
    mb_per_s_at_most: Positive
    source: str

    def most_iops(self, size_gib: int) -> int:
        """The most IOPS of a disk of this size."""
        if size_gib <= self.iops_free_gib:
            return self.iops
        return min(max(self.iops, self.iops_per_gib * size_gib), self.iops_at_most)

    def most_bytes_per_s(self, iops: int) -> int:
        """The highest throughput of a disk with this number of IOPS."""
        by_iops = int(Fraction(self.mb_per_iops) * iops * MB)
        return min(max(self.mb_per_s * MB, by_iops), self.mb_per_s_at_most * MB)


class DiskFamily(Struct):
    """A type of disk: either sizes with fixed figures, or provisioned figures."""

    title: str
    host_cache: bool
    """True if a virtual machine can cache the disk."""
    io_kib: SourcedNumber
    """The largest operation that counts as one I/O."""
    sources: dict[str, DataSource]
    sizes: dict[str, DiskSize] = {}
    provisioned: Provisioned | None = None


class VmSize(Struct):
    """A size of virtual machine. None means not published."""

    vcpus: Positive
    uncached: Speed | None = None
    """None: the size takes no Premium SSD."""
    burst: DiskBurst | None = None
    """Burst limits of uncached disk I/O."""
    cached: Speed | None = None
    """Limits of disk I/O with a host cache."""
    cache_gib: int = 0
    data_disks_at_most: Positive
    network_mbit_per_s: Positive
    """Limit of the network, which disk I/O does not use; Azure limits what a machine sends."""
    source: str

    @property
    def network_bytes_per_s(self) -> int:
        """The limit of the network; an Mbit is 10^6 bits."""
        return self.network_mbit_per_s * MBIT_BYTES


class VmFamily(Struct):
    """Virtual machines of one cloud."""

    title: str
    sources: dict[str, DataSource]
    sizes: dict[str, VmSize]


@cache
def families() -> dict[str, DiskFamily]:
    """Types of disks by name."""
    return _read("disks", DiskFamily)


@cache
def disk_names() -> tuple[str, ...]:
    """All names of disks: ``premium-ssd-p30``, ``ultra-disk``."""
    return tuple(
        name for kind, family in families().items() for name in ([f"{kind}-{size}" for size in family.sizes] or [kind])
    )


@cache
def vms() -> dict[str, tuple[VmFamily, VmSize]]:
    """Virtual machines by name."""
    return {name: (family, size) for family in _read("vms", VmFamily).values() for name, size in family.sizes.items()}


def vm_name(text: str) -> str:
    """The full name of a virtual machine, which people write with and without ``Standard_``. Raises ``KeyError``."""
    names = {known.lower(): known for known in vms()}
    return names.get(text.lower()) or names[f"standard_{text.lower()}"]


def find(name: str) -> tuple[DiskFamily, DiskSize | None]:
    """A disk by its name; the size is None for provisioned disks. Raises ``KeyError``."""
    kind, _, size = name.rpartition("-")
    if kind in families() and size in families()[kind].sizes:
        return families()[kind], families()[kind].sizes[size]
    if name not in disk_names():
        raise KeyError(name)
    return families()[name], None


def describe_disk(name: str) -> list[tuple[str, str, str]]:
    """The figures of a disk: name, value and source. Raises ``KeyError``."""
    family, size = find(name)
    rows: list[tuple[str, str, str]] = []
    if size is not None:
        rows.append(("size", f"{size.size_gib:,} GiB", size.source))
        rows.append(("limits", str(size), size.source))
        if size.burst:
            rows.append(("burst", f"{size.burst}, for {size.burst.minutes} min", size.burst.source))
    if (how := family.provisioned) is not None:
        free = f" above {how.iops_free_gib} GiB" if how.iops_free_gib else ""
        rows.append(("size", f"1 to {how.at_most_gib:,} GiB", how.source))
        rows.append(("IOPS", f"at most {how.iops_per_gib:,} × GiB{free}, {how.iops_at_most:,}", how.source))
        text = f"at most {how.mb_per_iops} MB/s × IOPS, {how.mb_per_s_at_most:,} MB/s"
        rows.append(("throughput", text, how.source))
        if how.iops:
            rows.append(("included with each disk", f"{how.iops:,} IOPS, {how.mb_per_s:,} MB/s", how.source))
    rows.append(("one I/O", f"up to {family.io_kib.value} KiB", family.io_kib.source))
    return [(label, text, str(family.sources[source])) for label, text, source in rows]


def describe_vm(name: str) -> list[tuple[str, str, str]]:
    """The figures of a virtual machine: name, value and source. Raises ``KeyError``."""
    family, size = vms()[name]
    uncached = str(size.uncached) if size.uncached else "takes no Premium SSD"
    rows = [("uncached", uncached, size.source)]
    if size.burst:
        rows.append(("uncached, burst", f"{size.burst}, for {size.burst.minutes} min", size.burst.source))
    if size.cached:
        rows.append(("cached", str(size.cached), size.source))
        rows.append(("cache", f"{size.cache_gib:,} GiB", size.source))
    rows.append(("data disks", f"at most {size.data_disks_at_most}", size.source))
    rows.append(("network", f"{size.network_mbit_per_s:,} Mbit/s", size.source))
    return [(label, text, str(family.sources[source])) for label, text, source in rows]


_Family = TypeVar("_Family", bound=Struct)


def _read(directory: str, family: type[_Family]) -> dict[str, _Family]:
    files = Path(__file__).parent / directory
    return {name: family.from_builtins(read_bundled(files, name, Decimal)) for name in bundled_names(files)}

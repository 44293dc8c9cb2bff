"""Emulated disks: ``disk:premium-ssd-p30?stripe=3&cache=none&vm=Standard_D8ds_v4&path=DIR``.

Published figures of cloud disks and virtual machines are data (``disks/``, ``vms/``); 1 MB is 10^6 bytes, as on the
vendor's pages.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterable
from decimal import Decimal
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Annotated, TypeVar
from urllib.parse import parse_qsl

import msgspec
from msgspec import Meta

from iocurve.engine.plan import DiskPlan, HostCache, IoBurst, IoLimits, VmPlan
from iocurve.foundation.errors import TargetError, unknown
from iocurve.foundation.structs import Page, Struct, bundled_names, read_bundled
from iocurve.foundation.units import GIB, KIB, MB, parse_bandwidth, parse_bytes, parse_time_ns

MINUTE_NS = 60_000_000_000
MBIT_BYTES = 125_000

Positive = Annotated[int, Meta(gt=0)]


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
    io_kib: Positive
    """The largest operation that counts as one I/O."""
    io_kib_source: str
    sources: dict[str, Page]
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
    sources: dict[str, Page]
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


@cache
def machines_of(cloud: str) -> list[str]:
    """The names of the virtual machines of a cloud; none where none are known."""
    family = _read("vms", VmFamily).get(cloud)
    return list(family.sizes) if family else []


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
    rows.append(("one I/O", f"up to {family.io_kib} KiB", family.io_kib_source))
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
T = TypeVar("T")


def _read(directory: str, family: type[_Family]) -> dict[str, _Family]:
    files = Path(__file__).parent / directory
    return {name: family.from_builtins(read_bundled(files, name, Decimal)) for name in bundled_names(files)}


STATE_NAME = ".iocurve-disk.json"
"""File in the disk's directory with its state: cached blocks and burst credits."""
STRIPE_MAX = 64
_CACHES: dict[str, HostCache] = {"none": "none", "read-only": "read_only", "read-write": "read_write"}


class DiskSpec(msgspec.Struct, frozen=True):
    """A parsed disk with its published figures."""

    text: str
    """The text that the user wrote."""
    directory: Path
    """The directory that holds the disk's files."""
    described: DiskPlan
    """The plan of the disk, with ``state_path`` relative to ``directory``."""

    def plan(self, working_directory: Path) -> DiskPlan:
        """The plan of the disk; a relative ``directory`` starts from ``working_directory``."""
        state = working_directory.joinpath(self.directory).absolute() / STATE_NAME
        return self.described.replace(state_path=str(state))


def parse_disk(text: str) -> DiskSpec:
    """Reads ``disk:NAME?path=DIR&…``. Raises ``ValueError`` with all errors."""
    if not text.startswith("disk:"):
        raise ValueError(f"'{text}' is not a disk such as disk:premium-ssd-p30?path=DIR")
    reader = _DiskReader(text)
    spec = reader.spec()
    if spec is None or reader.errors:
        raise ValueError(f"{text}: {'; '.join(reader.errors)}")
    return spec


def restart(directory: Path) -> int:
    """Emulates a restart of the virtual machine: empties the host cache; burst credits and data stay.

    Returns the number of bytes that were cached. Raises ``TargetError``, also while a run uses the disk.
    """
    import json

    path = directory / STATE_NAME
    try:
        opened = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise TargetError(f"{directory}: {error.strerror}") from None
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        state = json.loads(path.read_text(encoding="utf-8"))
        lost = sum(_cached_bytes(file["blocks"]) for file in state["files"])
        new = path.with_suffix(".new")
        new.write_text(json.dumps(state | {"files": []}), encoding="utf-8")
        new.replace(path)
    except BlockingIOError:
        raise TargetError(f"{directory}: the emulated disk is in use by a run; wait until the run has ended") from None
    except FileNotFoundError:
        raise TargetError(
            f"{directory}: no emulated disk has been used in this directory; give the path= of one"
        ) from None
    except OSError as error:
        raise TargetError(f"{path}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError):
        raise TargetError(f"{path} is not the state of an emulated disk; remove it to start with a new disk") from None
    finally:
        os.close(opened)
    return lost


def _cached_bytes(blocks: str) -> int:
    import base64

    return int.from_bytes(base64.b64decode(blocks)).bit_count() * 4 * KIB


class _DiskReader:
    """Parses one disk and collects the errors."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.errors: list[str] = []
        name, _, query = text.removeprefix("disk:").partition("?")
        self.name = name
        self.said = dict(parse_qsl(query, keep_blank_values=True))
        if len(self.said) < len(parse_qsl(query, keep_blank_values=True)):
            self.errors.append("a setting is given twice")

    def spec(self) -> DiskSpec | None:
        """The disk; None if there is no disk of that name."""
        try:
            family, size = find(self.name)
        except KeyError:
            self.errors.append(str(unknown("disk", self.name, disk_names(), "iocurve disk list")))
            family, size = None, None
        self._check_keys(family)
        stripe = self._value("stripe", lambda word: _whole(word, STRIPE_MAX)) or 1
        cache: HostCache = self._value("cache", lambda word: _CACHES[_one_of(word, _CACHES)]) or "none"
        latency_ns = self._value("latency", parse_time_ns) or 0
        burst_ns = self._value("burst", parse_time_ns)
        vm = self._vm(cache)
        if not self.said.get("path"):
            self.errors.append("path=DIR is missing; name the directory for the files of the disk")
        if family is None:
            return None
        if cache != "none" and not family.host_cache:
            self.errors.append(f"{family.title} has no host cache: leave out cache={self.said['cache']}")
        limits = self._provisioned(family.provisioned) if family.provisioned else _sized(size, burst_ns)
        striped = f"{self.name} × {stripe}" if stripe > 1 else self.name
        described = DiskPlan(
            name=", ".join([striped, *([f"cache {cache.replace('_', '-')}"]), *([vm.name] if vm else [])]),
            state_path=STATE_NAME,
            limits=_times(limits, stripe),
            io_bytes=family.io_kib * KIB,
            cache=cache,
            latency_ns=latency_ns,
            vm=vm,
        )
        return DiskSpec(self.text, Path(self.said.get("path", "")), described)

    def _check_keys(self, family: DiskFamily | None) -> None:
        known = ["path", "stripe", "cache", "vm", "latency", "vm-burst"]
        if family is None or family.sizes:
            known.append("burst")
        if family is None or family.provisioned:
            known += ["size", "iops", "throughput"]
        self.errors += [str(unknown("setting", key, known, "docs/disks.md")) for key in self.said if key not in known]

    def _value(self, key: str, read: Callable[[str], T]) -> T | None:
        if key not in self.said:
            return None
        try:
            return read(self.said[key])
        except ValueError as error:
            self.errors.append(f"{key}: {error}")
            return None

    def _vm(self, cache: HostCache) -> VmPlan | None:
        burst_ns = self._value("vm-burst", parse_time_ns)
        name = self.said.get("vm")
        if name is None:
            if cache != "none":
                self.errors.append("cache: a host cache needs a virtual machine; add vm=Standard_D8ds_v4")
            if burst_ns is not None:
                self.errors.append("vm-burst: a burst needs a virtual machine; add vm=Standard_D8ds_v4")
            return None
        try:
            found = vm_name(name)
        except KeyError:
            self.errors.append(str(unknown("virtual machine", name, vms(), "iocurve disk list")))
            return None
        _, size = vms()[found]
        if size.uncached is None:
            self.errors.append(f"{found} takes no Premium SSD; use another vm")
            return None
        if cache != "none" and size.cached is None:
            self.errors.append(f"{found}: no cached limits are published for it; use cache=none or another vm")
        if burst_ns and size.burst is None:
            self.errors.append(f"vm-burst: {found} does not burst; leave it out")
        return VmPlan(
            name=found,
            uncached=_limits(size.uncached, size.burst if burst_ns else None, burst_ns),
            cached=_limits(size.cached, None, None) if size.cached else None,
            cache_bytes=size.cache_gib * GIB,
        )

    def _provisioned(self, how: Provisioned) -> IoLimits:
        size = self._value("size", parse_bytes) or 1024 * GIB
        if not GIB <= size <= how.at_most_gib * GIB:
            self.errors.append(f"size: a disk has 1 to {how.at_most_gib:,} GiB")
            size = GIB
        most = how.most_iops(size // GIB)
        iops = self._value("iops", lambda word: _whole(word, most)) or how.iops or most
        most = how.most_bytes_per_s(iops)
        throughput = self._value("throughput", parse_bandwidth) or how.mb_per_s * MB or most
        if throughput > most:
            self.errors.append(f"throughput: with {iops:,} IOPS it is at most {most // MB:,} MB/s")
        return IoLimits(iops=iops, bytes_per_s=throughput)


def _sized(size: DiskSize | None, burst_ns: int | None) -> IoLimits:
    assert size is not None, "a disk without a size has provisioned figures"
    return _limits(size, None if burst_ns == 0 else size.burst, burst_ns)


def _limits(speed: Speed, burst: DiskBurst | None, burst_ns: int | None) -> IoLimits:
    """Converts to plan limits; ``burst_ns`` replaces the published burst duration."""
    above = None
    if burst is not None:
        duration_ns = burst_ns or burst.minutes * MINUTE_NS
        above = IoBurst(iops=burst.iops, bytes_per_s=burst.mb_per_s * MB, duration_ns=duration_ns)
    return IoLimits(iops=speed.iops, bytes_per_s=speed.mb_per_s * MB, burst=above)


def _times(limits: IoLimits, stripe: int) -> IoLimits:
    burst = limits.burst and limits.burst.replace(
        iops=limits.burst.iops * stripe, bytes_per_s=limits.burst.bytes_per_s * stripe
    )
    return IoLimits(iops=limits.iops * stripe, bytes_per_s=limits.bytes_per_s * stripe, burst=burst)


def _whole(word: str, most: int) -> int:
    if not (word.isascii() and word.isdigit() and len(word) <= 12 and 1 <= int(word) <= most):
        raise ValueError(f"'{word}' is not a number from 1 to {most:,}")
    return int(word)


def _one_of(word: str, known: Iterable[str]) -> str:
    """Also accepts the spellings of the Azure portal and CLI: ``ReadOnly``, ``read_only``."""
    plain = {name.replace("-", ""): name for name in known}
    found = plain.get(word.lower().replace("-", "").replace("_", ""))
    if found is None:
        raise ValueError(f"'{word}' is none of {', '.join(plain.values())}")
    return found

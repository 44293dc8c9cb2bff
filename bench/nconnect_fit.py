"""``python -m bench.nconnect_fit``: fits the limits of a connection to published results, and prints what is left over.

No page states what one TCP connection carries. Pages state results of one client with and without ``nconnect``, or the
ratio of both. The model is the volume's own: a load reaches the least of what its depth, its connections, the volume
and the client allow. Two figures of it are fitted by least squares of the logarithms: IOPS and MiB/s of a connection.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

KIB_PER_MIB = 1024
STEP_MIN = 1e-4
"""The search ends at steps of this fraction of a figure."""


@dataclass(frozen=True)
class Load:
    """A load of one client."""

    kind: str
    block_kib: int
    depth: int
    nconnect: int


@dataclass(frozen=True)
class Service:
    """The limits around a connection. Rates are those of the profile, or results that a page states as the most."""

    title: str
    profiles: tuple[str, ...]
    nconnect: int
    latency_ms: float
    iops: dict[str, float]
    mib_per_s: dict[str, float]
    connection_iops: float = 10_000
    connection_mib_per_s: float = 1_000

    def result_iops(self, load: Load) -> float:
        """The IOPS that a load reaches."""
        by_bytes = min(self.mib_per_s[load.kind], load.nconnect * self.connection_mib_per_s)
        return min(
            load.depth / self.latency_ms * 1000,
            load.nconnect * self.connection_iops,
            self.iops[load.kind],
            by_bytes * KIB_PER_MIB / load.block_kib,
        )

    def gain(self, load: Load) -> float:
        """The IOPS of a load to those of the same load on one connection."""
        return self.result_iops(load) / self.result_iops(replace(load, nconnect=1))


@dataclass(frozen=True)
class Published:
    """A result that a page states: of one connection, or the gain of several."""

    load: Load
    value: float
    unit: str
    page: str

    def modelled(self, service: Service) -> float:
        """The same figure of the model."""
        if self.unit == "×":
            return service.gain(self.load)
        iops = service.result_iops(self.load)
        return iops if self.unit == "IOPS" else iops * self.load.block_kib / KIB_PER_MIB

    def residual(self, service: Service) -> float:
        """The logarithm of the model's figure to the published one."""
        return math.log(self.modelled(service) / self.value)


LARGE_PAGE = "performance-large-volumes-linux"
REGULAR_PAGE = "performance-benchmarks-linux, 2020-04"
FILES_PAGE = "nfs-performance, 2026-04"

LARGE = Service(
    title="Azure NetApp Files, large volumes: one E104id_v5",
    profiles=("anf-large-standard", "anf-large-premium", "anf-large-ultra"),
    nconnect=8,
    latency_ms=0.5,
    iops={"read": 709_000, "write": 474_000},
    mib_per_s={"read": 11_921, "write": 8_518},
)
REGULAR = Service(
    title="Azure NetApp Files, regular volumes: one D32s",
    profiles=("anf-standard", "anf-premium", "anf-ultra", "anf-flexible"),
    nconnect=8,
    latency_ms=0.5,
    iops={"read": 460_000, "write": 130_000},
    mib_per_s={"read": 4_500, "write": 1_907},
)
FILES = Service(
    title="NFS shares of Azure Files, 30 TiB: one D16_v4",
    profiles=("azure-files-v1", "azure-files-v2"),
    nconnect=4,
    latency_ms=2.0,
    iops={"read": 92_160, "write": 92_160},
    mib_per_s={"read": 3_173, "write": 1_490},
)


def _large() -> Iterator[Published]:
    for kind, block, gain, single, unit in (
        ("read", 8, 7.0, 426_000 / 7, "IOPS"),
        ("write", 8, 7.2, 405_000 / 7.2, "IOPS"),
        ("read", 256, 10.0, 1_000, "MiB/s"),
        ("write", 256, 4.0, 1_650, "MiB/s"),
    ):
        yield Published(Load(kind, block, 256, 1), single, unit, LARGE_PAGE)
        yield Published(Load(kind, block, 256, LARGE.nconnect), gain, "×", LARGE_PAGE)


def _regular() -> Iterator[Published]:
    for kind, block, gain, single, unit in (
        ("read", 4, 3.0, 200_000 / 3, "IOPS"),
        ("write", 4, 3.0, 135_000 / 3, "IOPS"),
        ("read", 64, 2.3, 3_500 / 2.3, "MiB/s"),
        ("write", 64, 1.0, 1_500, "MiB/s"),
    ):
        yield Published(Load(kind, block, 256, 1), single, unit, REGULAR_PAGE)
        yield Published(Load(kind, block, 256, REGULAR.nconnect), gain, "×", REGULAR_PAGE)


def _files() -> Iterator[Published]:
    """Reads gain 2 to 4 times, which counts as their geometric mean; 20 clients without nconnect reach 10,240 MiB/s."""
    for block in (4, 8, 64, 1024):
        yield Published(Load("read", block, 64, FILES.nconnect), math.sqrt(2 * 4), "×", FILES_PAGE)
    for block in (64, 1024):
        yield Published(Load("write", block, 64, FILES.nconnect), 3.0, "×", FILES_PAGE)
    yield Published(Load("read", 1024, 64, 1), 10_240 / 20, "MiB/s", FILES_PAGE)
    for kind in ("read", "write"):
        yield Published(Load(kind, 4, 8, FILES.nconnect), 1.0, "×", FILES_PAGE)


SERVICES = ((LARGE, tuple(_large())), (REGULAR, tuple(_regular())), (FILES, tuple(_files())))


def fitted(service: Service, published: Iterable[Published]) -> Service:
    """The service with the IOPS and MiB/s of a connection that leave the least squares of residuals.

    The figures are searched in turns, by steps that halve: the model is no smooth function of them.
    """
    results = tuple(published)
    step = 1.0
    while step > STEP_MIN:
        found = min(_neighbours(service, step), key=lambda one: _squares(one, results))
        step = step / 2 if found == service else step
        service = found
    return service


def _neighbours(service: Service, step: float) -> Iterator[Service]:
    yield service
    for factor in (math.exp(step), math.exp(-step)):
        yield replace(service, connection_iops=service.connection_iops * factor)
        yield replace(service, connection_mib_per_s=service.connection_mib_per_s * factor)


def _squares(service: Service, results: Iterable[Published]) -> float:
    return sum(one.residual(service) ** 2 for one in results)


def rounded(value: float) -> int:
    """Two significant digits: the data give no more."""
    digits: int = 10 ** (math.floor(math.log10(value)) - 1)
    return round(value / digits) * digits


def profile_figures() -> dict[str, tuple[int, int]]:
    """IOPS and MiB/s of a connection by profile, as the profiles have them."""
    found: dict[str, tuple[int, int]] = {}
    for service, published in SERVICES:
        best = fitted(service, published)
        figures = (rounded(best.connection_iops), rounded(best.connection_mib_per_s))
        found |= dict.fromkeys(service.profiles, figures)
    return found


def _rows(service: Service, published: Iterable[Published]) -> Iterator[str]:
    for one in published:
        load = one.load
        text = f"{load.block_kib} KiB {load.kind}s, depth {load.depth}, nconnect={load.nconnect}"
        figures = (f"{value:,.3g}" if value < 100 else f"{value:,.0f}" for value in (one.value, one.modelled(service)))
        yield f"| {text} | {' | '.join(figures)} | {one.unit} | {math.expm1(one.residual(service)):+.0%} | {one.page} |"


def main() -> int:
    """Prints the fit and its residuals of each service."""
    for service, published in SERVICES:
        best = fitted(service, published)
        iops, mib_per_s = rounded(best.connection_iops), rounded(best.connection_mib_per_s)
        used = replace(best, connection_iops=iops, connection_mib_per_s=mib_per_s)
        print(f"### {service.title}\n\nA connection: {iops:,} IOPS and {mib_per_s:,} MiB/s.\n")
        print("| load | published | fitted model | unit | residual | page |\n| --- | --- | --- | --- | --- | --- |")
        print("\n".join(_rows(used, published)), end="\n\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""``python -m bench.nconnect_fit``: fits the limits of a connection to published results, and prints what is left over.

No page states what one TCP connection carries. Pages state results of one client with and without ``nconnect``, or the
ratio of both. The model is the volume's own: a load reaches the least of what its depth, its connections, the volume
and the client allow. IOPS and MiB/s of a connection are fitted by least squares of the logarithms; for reads and for
writes where a page has results of both.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

KIB_PER_MIB = 1024
KINDS = ("read", "write")
TOGETHER = "reads and writes together"
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
    client_iops: dict[str, float] = field(default_factory=dict)
    """The most that the page reports of its one client, where that is less than the volume's."""
    connection_iops: dict[str, float] = field(default_factory=lambda: dict.fromkeys(KINDS, 10_000.0))
    connection_mib_per_s: dict[str, float] = field(default_factory=lambda: dict.fromkeys(KINDS, 1_000.0))
    """Fitted, as ``connection_iops``: by kind of operation, or for both together."""

    def result_iops(self, load: Load) -> float:
        """The IOPS that a load reaches."""
        kind = load.kind
        by_bytes = min(self.mib_per_s[kind], load.nconnect * _of_kind(self.connection_mib_per_s, kind))
        return min(
            load.depth / self.latency_ms * 1000,
            load.nconnect * _of_kind(self.connection_iops, kind),
            self.iops[kind],
            self.client_iops.get(kind, math.inf),
            by_bytes * KIB_PER_MIB / load.block_kib,
        )

    def gain(self, load: Load) -> float:
        """The IOPS of a load to those of the same load on one connection."""
        return self.result_iops(load) / self.result_iops(replace(load, nconnect=1))


def _of_kind(figures: dict[str, float], kind: str) -> float:
    return figures[kind] if kind in figures else figures[TOGETHER]


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
    nconnect=16,
    latency_ms=0.5,
    iops={"read": 709_000, "write": 474_000},
    mib_per_s={"read": 10_000, "write": 6_600},
    client_iops={"read": 426_000, "write": 405_000},
)
REGULAR = Service(
    title="Azure NetApp Files, regular volumes: one D32s",
    profiles=("anf-standard", "anf-premium", "anf-ultra", "anf-flexible"),
    nconnect=8,
    latency_ms=0.5,
    iops={"read": 460_000, "write": 130_000},
    mib_per_s={"read": 4_500, "write": 1_907},
    client_iops={"read": 200_000, "write": 135_000},
)
FILES = Service(
    title="NFS shares of Azure Files, 30 TiB: one D16_v4",
    profiles=("azure-files-v1", "azure-files-v2"),
    nconnect=4,
    latency_ms=2.0,
    iops={"read": 92_160, "write": 92_160},
    mib_per_s={"read": 3_173, "write": 1_490},
    connection_iops={TOGETHER: 10_000},
    connection_mib_per_s={TOGETHER: 1_000},
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
        for kind in service.connection_iops:
            yield replace(service, connection_iops=_scaled(service.connection_iops, kind, factor))
            yield replace(service, connection_mib_per_s=_scaled(service.connection_mib_per_s, kind, factor))


def _scaled(figures: dict[str, float], kind: str, factor: float) -> dict[str, float]:
    return figures | {kind: figures[kind] * factor}


def _squares(service: Service, results: Iterable[Published]) -> float:
    return sum(one.residual(service) ** 2 for one in results)


def rounded(value: float) -> int:
    """Two significant digits: the data give no more."""
    digits: int = 10 ** (math.floor(math.log10(value)) - 1)
    return round(value / digits) * digits


def in_profiles(service: Service, published: Iterable[Published]) -> Service:
    """The fitted service with figures of two digits, as its profiles have them."""
    best = fitted(service, published)
    return replace(
        best,
        connection_iops={kind: rounded(value) for kind, value in best.connection_iops.items()},
        connection_mib_per_s={kind: rounded(value) for kind, value in best.connection_mib_per_s.items()},
    )


def profile_figures(service: Service) -> dict[str, float]:
    """The figures of a connection by their names in profiles."""
    names = {TOGETHER: ""} | {kind: f"{kind}_" for kind in KINDS}
    iops = {f"iops_{names[kind]}per_connection": value for kind, value in service.connection_iops.items()}
    bandwidth = {
        f"bandwidth_{names[kind]}mib_per_s_per_connection": value
        for kind, value in service.connection_mib_per_s.items()
    }
    return iops | bandwidth


def _rows(service: Service, published: Iterable[Published]) -> Iterator[str]:
    for one in published:
        load = one.load
        text = f"{load.block_kib} KiB {load.kind}s, depth {load.depth}, nconnect={load.nconnect}"
        figures = (f"{value:,.3g}" if value < 100 else f"{value:,.0f}" for value in (one.value, one.modelled(service)))
        yield f"| {text} | {' | '.join(figures)} | {one.unit} | {math.expm1(one.residual(service)):+.0%} | {one.page} |"


def main() -> int:
    """Prints the fit and its residuals of each service."""
    for service, published in SERVICES:
        used = in_profiles(service, published)
        print(f"### {service.title}\n\nA connection:\n")
        print("\n".join(f"- `{name}`: {value:,}" for name, value in profile_figures(used).items()), end="\n\n")
        print("| load | published | fitted model | unit | residual | page |\n| --- | --- | --- | --- | --- | --- |")
        print("\n".join(_rows(used, published)), end="\n\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

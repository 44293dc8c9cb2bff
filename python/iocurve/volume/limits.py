"""The limits of an export, as the native module takes them. None is no limit."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TypeVar

from iocurve.foundation.structs import Struct, TaggedStruct
from iocurve.foundation.units import KIB, format_bytes
from iocurve.result.caps import CAPS, Burst, Cap, cap_value
from iocurve.result.document_file import Json

S = TypeVar("S", bound=Struct)
NORMAL_P99 = 2.3263478740408408
"""The 99th percentile of the normal distribution with mean 0 and variance 1."""


class Constant(TaggedStruct, tag="constant"):
    """The same latency for every operation."""


class Exponential(TaggedStruct, tag="exponential"):
    """A latency with an exponential tail."""

    mean_ns: int


class Lognormal(TaggedStruct, tag="lognormal"):
    """A lognormal latency: half of the operations take at most the median, 99 % at most ``p99_ns``."""

    median_ns: int
    p99_ns: int

    @property
    def sigma(self) -> float:
        """Standard deviation of the logarithm."""
        return math.log(self.p99_ns / self.median_ns) / NORMAL_P99


class AddedLatency(Struct):
    """The latency added to each read and write."""

    base_ns: int = 0
    per_kib_ns: int = 0
    """For each KiB."""
    distribution: Constant | Exponential | Lognormal = Constant()
    """Added to ``base_ns``."""
    seed: int = 0
    """The same seed gives the same latencies in the same order."""

    @property
    def mean_ns(self) -> int:
        """The mean latency, without the part for each KiB."""
        varying = self.distribution
        if isinstance(varying, Exponential):
            return self.base_ns + varying.mean_ns
        if isinstance(varying, Lognormal):
            return self.base_ns + round(varying.median_ns * math.exp(varying.sigma**2 / 2))
        return self.base_ns


class Parallelism(Struct):
    """The server's own speed: ``servers`` operations at a time, each of which takes a time by its kind and size."""

    servers: int
    service_ns: int
    per_kib_ns: int = 0
    write_service_ns: int | None = None
    """Of writes; None: as reads."""
    write_per_kib_ns: int | None = None

    def takes_ns(self, kind: str, block_bytes: float) -> float:
        """The time of an operation."""
        base_ns, per_kib_ns = self.service_ns, self.per_kib_ns
        if kind == "write":
            base_ns = base_ns if self.write_service_ns is None else self.write_service_ns
            per_kib_ns = per_kib_ns if self.write_per_kib_ns is None else self.write_per_kib_ns
        return base_ns + per_kib_ns * block_bytes / KIB


class ServerCache(Struct):
    """A cache of the server (LRU). Costs are thousandths of an operation, or of a byte, at the limits of the volume."""

    bytes: int
    read_iops: int
    read_bytes: int
    write_iops: int
    write_bytes: int

    def cost(self, kind: str, quantity: str, hits: float) -> float:
        """The mean cost of an operation, or of a byte, with this share of hits."""
        return 1 - hits * (1 - int(getattr(self, f"{kind}_{quantity.removesuffix('_per_s')}")) / 1000)


class Limits(Struct):
    """All limits of an export; an operation is answered once every limit allows it."""

    caps: tuple[Cap, ...] = ()
    latency: AddedLatency = AddedLatency()
    write_latency: AddedLatency | None = None
    """The latency of writes, where it is another."""
    parallelism: Parallelism | None = None
    window_ns: int = 0
    """Length of the windows in which the caps of the volume count, each from its start on; 0: at any time."""
    server_cache: ServerCache | None = None

    def unloaded_ns(self, kind: str, block_bytes: float) -> float:
        """The mean time of an operation that waits for no other; 0 where it is not known."""
        latency = (self.write_latency if kind == "write" else None) or self.latency
        served_ns = self.parallelism.takes_ns(kind, block_bytes) if self.parallelism else 0
        return latency.mean_ns + latency.per_kib_ns * block_bytes / KIB + served_ns

    def value(self, name: str) -> int | None:
        """The value of the cap of this name; None without one."""
        return cap_value(self.caps, name)

    @property
    def burst(self) -> Burst | None:
        """The burst of the volume's IOPS."""
        return next((cap.burst for cap in self.caps if cap.burst and cap.quantity == "iops"), None)

    @property
    def throughput_burst(self) -> Burst | None:
        """The burst of the volume's throughput."""
        return next((cap.burst for cap in self.caps if cap.burst and cap.quantity == "bytes_per_s"), None)

    def at_speed(self, speed: Fraction) -> Limits:
        """The limits of a volume that does everything ``speed`` times as fast: rates fall, times grow, depths stay.

        A load then keeps its shape (the depth of the knee, the gain of connections) at rates of a small machine.
        """
        return self.replace(
            caps=tuple(cap if cap.quantity == "requests" else _at_speed(cap, speed) for cap in self.caps),
            latency=_at_speed(self.latency, speed),
            write_latency=self.write_latency and _at_speed(self.write_latency, speed),
            window_ns=round(self.window_ns / speed),
            parallelism=self.parallelism and _at_speed(self.parallelism, speed),
        )

    @property
    def throughput(self) -> str:
        """The limits on throughput in words: ``128 MiB/s``, ``reads 70 MiB/s``; empty without one."""
        caps = (cap for cap in self.caps if cap.quantity == "bytes_per_s" and cap.scope != "connection")
        return ", ".join(f"{_whose(cap)}{format_bytes(cap.value)}/s" for cap in caps)

    def fields(self) -> Json:
        """The limits as JSON shows them to users: a field for each cap, those of clients and connections apart."""
        values = {cap.name: self.value(cap.name) for cap in CAPS}
        of_volume = {cap.name: values[cap.name] for cap in CAPS if cap.scope == "volume"}
        client, connection = (
            {name.removeprefix(f"{scope}."): value for name, value in values.items() if name.startswith(f"{scope}.")}
            for scope in ("client", "connection")
        )
        burst, latency = self.burst and self.burst.to_builtins(), self.latency.to_builtins()
        parallelism = self.parallelism and self.parallelism.to_builtins()
        apart = {"latency": latency, "client": client, "connection": connection, "parallelism": parallelism}
        data = self.throughput_burst
        more: dict[str, object] = (
            {"burst_throughput": {"bytes_per_s": data.value, "credits": data.credits}} if data else {}
        )
        weights = [cap.reads_per_write for cap in self.caps if cap.reads_per_write]
        more |= {"reads_per_write": weights[0]} if weights else {}
        more |= {"write_latency": self.write_latency.to_builtins()} if self.write_latency else {}
        more |= {"window_ns": self.window_ns} if self.window_ns else {}
        more |= {"server_cache": self.server_cache.to_builtins()} if self.server_cache else {}
        return {**of_volume, "burst": burst, **more, **apart}


def _whose(cap: Cap) -> str:
    operations = "" if cap.kind == "any" else f"{cap.kind}s "
    return operations if cap.scope == "volume" else f"each client's {operations}"


def _at_speed(part: S, speed: Fraction) -> S:
    """Rates and credits times the speed, times divided by it, and counts as they are; whole numbers, at least 1."""
    changes = {name: _field_at_speed(name, getattr(part, name), speed) for name in part.__struct_fields__}
    return part.replace(**changes)


def _field_at_speed(name: str, value: object, speed: Fraction) -> object:
    if isinstance(value, Struct):
        return _at_speed(value, speed)
    if not isinstance(value, int) or value == 0 or name in ("servers", "seed", "reads_per_write"):
        return value
    return max(1, round(value / speed if name.endswith("_ns") else value * speed))

"""The limits of an export, as the native module takes them. None is no limit."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TypeVar

from iocurve.structs import Struct, TaggedStruct
from iocurve.units import format_bytes

S = TypeVar("S", bound=Struct)
NORMAL_P99 = 2.3263478740408408
"""The 99th percentile of the normal distribution with mean 0 and variance 1."""


class Burst(Struct):
    """IOPS beyond the baseline while credits last: each operation above the baseline costs one credit."""

    iops: int
    credits: int


class Constant(TaggedStruct, tag="constant"):
    """The same latency for every operation."""


class Exponential(TaggedStruct, tag="exponential"):
    """A latency with an exponential tail."""

    mean_ns: int


class Lognormal(TaggedStruct, tag="lognormal"):
    """A lognormal latency: half of the operations take at most the median, 99 % at most ``p99_ns``."""

    median_ns: int
    p99_ns: int


class Latency(Struct):
    """The latency added to each read and write."""

    base_ns: int = 0
    distribution: Constant | Exponential | Lognormal = Constant()
    """Added to ``base_ns``."""
    seed: int = 0
    """The same seed gives the same latencies in the same order."""

    @property
    def mean_ns(self) -> int:
        """The mean latency."""
        varying = self.distribution
        if isinstance(varying, Exponential):
            return self.base_ns + varying.mean_ns
        if isinstance(varying, Lognormal):
            sigma = math.log(varying.p99_ns / varying.median_ns) / NORMAL_P99
            return self.base_ns + round(varying.median_ns * math.exp(sigma**2 / 2))
        return self.base_ns


class ClientLimits(Struct):
    """The limits of each client, which is an IP address, over all its connections.

    The egress cap of a virtual machine limits the data that it sends, which are its writes. Such caps are published in
    megabits: 16,000 Mb/s are 2,000 MB/s, or 1,907 MiB/s.
    """

    bandwidth_read_bytes_per_s: int | None = None
    bandwidth_write_bytes_per_s: int | None = None
    iops_read: int | None = None
    """The processors of a machine set it; pages show it where one client does not reach the volume's limit."""
    iops_write: int | None = None


class ConnectionLimits(Struct):
    """The limits of each connection."""

    requests_in_flight: int | None = None
    """Most requests in flight; further requests wait until one is answered."""
    bandwidth_bytes_per_s: int | None = None
    """Reads and writes together."""
    bandwidth_read_bytes_per_s: int | None = None
    bandwidth_write_bytes_per_s: int | None = None
    iops: int | None = None
    """Reads and writes together."""
    iops_read: int | None = None
    iops_write: int | None = None


class Parallelism(Struct):
    """The server's own speed: ``servers`` operations at a time, each of which takes ``service_ns``."""

    servers: int
    service_ns: int


class Limits(Struct):
    """All limits of an export; an operation is answered once every limit allows it."""

    throughput_bytes_per_s: int | None = None
    """Reads and writes together."""
    throughput_read_bytes_per_s: int | None = None
    throughput_write_bytes_per_s: int | None = None
    iops: int | None = None
    """Reads and writes together."""
    iops_read: int | None = None
    iops_write: int | None = None
    burst: Burst | None = None
    latency: Latency = Latency()
    client: ClientLimits = ClientLimits()
    connection: ConnectionLimits = ConnectionLimits()
    parallelism: Parallelism | None = None

    def at_speed(self, speed: Fraction) -> Limits:
        """The limits of a volume that does everything ``speed`` times as fast: rates fall, times grow, depths stay.

        A load then keeps its shape (the depth of the knee, the gain of connections) at rates of a small machine.
        """
        return _scaled(self, speed)

    @property
    def throughput(self) -> str:
        """The limits on throughput in words: ``128 MiB/s``, ``reads 70 MiB/s``; empty without one."""
        rates = (
            ("", self.throughput_bytes_per_s),
            ("reads ", self.throughput_read_bytes_per_s),
            ("writes ", self.throughput_write_bytes_per_s),
            ("each client's reads ", self.client.bandwidth_read_bytes_per_s),
            ("each client's writes ", self.client.bandwidth_write_bytes_per_s),
        )
        return ", ".join(f"{name}{format_bytes(rate)}/s" for name, rate in rates if rate is not None)


def _scaled(limits: S, speed: Fraction) -> S:
    """Rates and credits times the speed, times divided by it, and counts as they are; whole numbers, at least 1."""
    changes = {name: _scaled_field(name, getattr(limits, name), speed) for name in limits.__struct_fields__}
    return limits.replace(**changes)


def _scaled_field(name: str, value: object, speed: Fraction) -> object:
    if isinstance(value, Struct):
        return _scaled(value, speed)
    if not isinstance(value, int) or value == 0 or name in ("requests_in_flight", "servers", "seed"):
        return value
    return max(1, round(value / speed if name.endswith("_ns") else value * speed))

"""How fast an export of the embedded volume may be, as the native module takes it. None is no limit."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from iocurve.units import format_bytes


class _Data(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Burst(_Data):
    """IOPS beyond the baseline while credits last: each operation above the baseline costs one."""

    iops: int
    credits: int


class Constant(_Data):
    """Nothing varies."""

    kind: Literal["constant"] = "constant"


class Exponential(_Data):
    """An exponential tail."""

    kind: Literal["exponential"] = "exponential"
    mean_ns: int


class Lognormal(_Data):
    """A logarithmic normal distribution: half of the operations take less than the median, 99 % less than the other."""

    kind: Literal["lognormal"] = "lognormal"
    median_ns: int
    p99_ns: int


class Latency(_Data):
    """Added to each read and write."""

    base_ns: int = 0
    distribution: Annotated[Constant | Exponential | Lognormal, Field(discriminator="kind")] = Constant()
    """What comes on top of the base."""
    seed: int = 0
    """The same seed gives the same latencies in the same order."""


class ClientLimits(_Data):
    """What each client, which is an IP address, is limited to, over all its connections.

    The egress cap of a virtual machine binds what it sends, and that is writes. Such caps are published in megabits:
    16,000 Mb/s are 2,000 MB/s, or 1,907 MiB/s.
    """

    bandwidth_read_bytes_per_s: int | None = None
    bandwidth_write_bytes_per_s: int | None = None


class ConnectionLimits(_Data):
    """What each connection is limited to."""

    requests_in_flight: int | None = None
    """Further requests of the connection wait until one is answered."""
    bandwidth_bytes_per_s: int | None = None


class Parallelism(_Data):
    """The server's own speed: so many operations at once, each of which takes so long."""

    servers: int
    service_ns: int


class Limits(_Data):
    """All of them together; an operation is answered once each allows it."""

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

    @property
    def throughput(self) -> str:
        """How many bytes a second, for people."""
        rates = (
            ("", self.throughput_bytes_per_s),
            ("reads ", self.throughput_read_bytes_per_s),
            ("writes ", self.throughput_write_bytes_per_s),
            ("each client's reads ", self.client.bandwidth_read_bytes_per_s),
            ("each client's writes ", self.client.bandwidth_write_bytes_per_s),
        )
        return ", ".join(f"{what}{format_bytes(rate)}/s" for what, rate in rates if rate is not None)

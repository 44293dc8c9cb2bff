"""The limits of a target as rows: each has a scope, the quantity that it limits, and the operations that count."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import UNSET, UnsetType

from iocurve.foundation.structs import Struct

Scope = Literal["volume", "client", "connection"]
Quantity = Literal["bytes_per_s", "iops", "requests"]
Kind = Literal["any", "read", "write"]


class Burst(Struct, rename={"value": "iops"}):
    """A rate beyond the baseline while credits last: each operation or byte above the baseline costs one credit."""

    value: int
    """Operations or bytes per second. Documents call it ``iops``, as the first bursts were."""
    credits: int


class Cap(Struct):
    """One limit of a volume as a whole, of each client (an IP address), or of each connection."""

    scope: Scope
    quantity: Quantity
    """``requests`` are those of one connection that the server works on at once; further ones wait."""
    kind: Kind = "any"
    """The operations that count; ``any``: reads and writes together."""
    value: int
    burst: Burst | None = None
    """Only the volume's IOPS and its throughput for reads and writes together have one."""
    reads_per_write: int | UnsetType = UNSET
    """Bytes of reads that count as one, where they weigh less; only in the throughput for reads and writes together."""

    @property
    def name(self) -> str:
        """The name among a volume's limits and token buckets: ``iops_read``, ``client.bandwidth_write_bytes_per_s``."""
        return ("" if self.scope == "volume" else f"{self.scope}.") + self._stem + self._unit("_bytes_per_s")

    @property
    def figure(self) -> str:
        """The key in profiles: ``iops_read``, ``bandwidth_write_mib_per_s_per_client``."""
        return self._stem + self._unit("_mib_per_s") + ("" if self.scope == "volume" else f"_per_{self.scope}")

    @property
    def label(self) -> str:
        """The label of its figure in a profile: ``read IOPS``, ``writes of a client, MiB/s``."""
        of = {"volume": "", "client": " of a client", "connection": " per connection"}[self.scope]
        is_data = self.quantity == "bytes_per_s" and self.scope != "volume" and self.kind != "any"
        return (f"{self.kind}s" if is_data else self._noun) + of + self._unit(", MiB/s")

    @property
    def text(self) -> str:
        """The limit in words: ``read IOPS``, ``write bandwidth of a client``."""
        return self._noun + ("" if self.scope == "volume" else f" of a {self.scope}")

    @property
    def _noun(self) -> str:
        noun = {"bytes_per_s": self._data, "iops": "IOPS", "requests": "requests in flight"}[self.quantity]
        return noun if self.kind == "any" else f"{self.kind} {noun}"

    @property
    def _stem(self) -> str:
        stem = {"bytes_per_s": self._data, "iops": "iops", "requests": "requests_in_flight"}[self.quantity]
        return stem if self.kind == "any" else f"{stem}_{self.kind}"

    @property
    def _data(self) -> str:
        return "throughput" if self.scope == "volume" else "bandwidth"

    def _unit(self, text: str) -> str:
        return text if self.quantity == "bytes_per_s" else ""


_GROUPS: tuple[tuple[Scope, Quantity, tuple[Kind, ...]], ...] = (
    ("volume", "bytes_per_s", ("any", "read", "write")),
    ("volume", "iops", ("any", "read", "write")),
    ("connection", "requests", ("any",)),
    ("connection", "bytes_per_s", ("any", "read", "write")),
    ("connection", "iops", ("any", "read", "write")),
    ("client", "bytes_per_s", ("read", "write")),
    ("client", "iops", ("read", "write")),
)
CAPS = tuple(
    Cap(scope=scope, quantity=quantity, kind=kind, value=0) for scope, quantity, kinds in _GROUPS for kind in kinds
)
"""Every limit that a volume can have, without its value, in the order in which limits are listed."""

THROUGHPUT = "throughput_bytes_per_s"
"""The name of the cap on the bytes of a volume."""
INGRESS = "client.bandwidth_read_bytes_per_s"
"""The name of a client's cap on the data that it receives, which are its reads."""
EGRESS = "client.bandwidth_write_bytes_per_s"
"""The name of a client's cap on the data that it sends, which are its writes."""


def caps(
    values: Mapping[str, int | None],
    burst: Burst | None = None,
    throughput_burst: Burst | None = None,
    reads_per_write: int | UnsetType = UNSET,
) -> tuple[Cap, ...]:
    """The limits with these values by their names, in the order of ``CAPS``; the bursts are of both kinds together."""
    named = {cap.name: cap for cap in CAPS}
    bursts, weights = {"iops": burst, THROUGHPUT: throughput_burst}, {THROUGHPUT: reads_per_write}
    return tuple(
        named[name].replace(value=value, burst=bursts.get(name), reads_per_write=weights.get(name, UNSET))
        for name in sorted(values, key=list(named).index)
        if (value := values[name]) is not None
    )


def cap_value(limits: tuple[Cap, ...], name: str) -> int | None:
    """The value of the limit of this name; None without one."""
    return next((cap.value for cap in limits if cap.name == name), None)

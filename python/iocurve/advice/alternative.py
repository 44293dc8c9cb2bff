"""One way to carry a load, and the prices that a user gives for what it provisions."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta

from iocurve.engine.structs import Struct
from iocurve.errors import Diagnostic, DialectError
from iocurve.volume.validation import InvalidDocument, validated

Amount = Annotated[float, Meta(ge=0)]


class Alternative(Struct):
    """A volume, a share or disks that carry a load."""

    name: str
    """A profile, a disk or a disk size."""
    kind: Literal["volume", "disk"]
    how: str = ""
    """``auto QoS``, ``manual QoS``, ``set``, ``on burst credits``; of disks the virtual machine."""
    provisioned: str
    """The purchase in words: ``quota 70.3125 TiB``."""
    gib: int
    """Capacity that is paid for, all disks or the whole pool together."""
    count: int = 1
    """Disks in the stripe."""
    iops_set: int | None = None
    """IOPS that are paid for; None where they come with the size."""
    mib_per_s_set: int | None = None
    """Throughput that is paid for; None where it comes with the size."""
    vm: str | None = None
    formula: str = ""
    binds_first: str = ""
    next_step: str = ""
    notes: tuple[str, ...] = ()
    source: str = ""
    month: float | None = None
    """Price of a month by the user's prices; None without one."""


class Impossible(Struct):
    """A product that does not carry the load."""

    name: str
    why: str


class Price(Struct):
    """The price of a product for a month; what is left out costs nothing."""

    month: Amount = 0.0
    """Of each disk or machine."""
    gib_month: Amount = 0.0
    iops_month: Amount = 0.0
    """Of each provisioned operation per second."""
    mib_per_s_month: Amount = 0.0
    """Of each provisioned MiB/s."""


class Prices(Struct):
    """Prices by product: ``[prices.anf-premium]``, ``[prices.premium-ssd-p30]``, ``[prices.Standard_D32s_v5]``."""

    currency: str = ""
    prices: dict[str, Price]

    def priced(self, one: Alternative) -> Alternative:
        """The alternative with its price; without one if a product has no price."""
        own = self.prices.get(one.name)
        machine = self.prices.get(one.vm) if one.vm else Price()
        if own is None or machine is None:
            return one
        sizes = own.month * one.count + own.gib_month * one.gib
        rates = own.iops_month * (one.iops_set or 0) + own.mib_per_s_month * (one.mib_per_s_set or 0)
        return one.replace(month=round(sizes + rates + machine.month, 2))


def read_prices(path: Path) -> Prices:
    """Reads the prices of a user. Raises ``DialectError`` with every error and its place."""
    try:
        return validated(tomllib.loads(path.read_text(encoding="utf-8")), Prices)
    except InvalidDocument as error:
        raise DialectError([Diagnostic(f"--prices {path}: {error}")]) from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise DialectError([Diagnostic(f"--prices {path}: {reason}")]) from None

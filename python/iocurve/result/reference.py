"""Figures that others have published (``*.toml``), each with its source and conditions.

They are set beside what was measured and never mixed with it. Only figures that a page states are here; what lies
between them is not known and not made up.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Literal

from iocurve import bundled
from iocurve.errors import ResultError
from iocurve.structs import Struct

Unit = Literal["IOPS", "MiB/s", "ms", "×"]
Axis = int | float | str
FOLDER = Path(__file__).parent / "references"


class Conditions(Struct):
    """How the figures came about, as far as the page says. None is "not stated"."""

    service_level: str | None = None
    quota: str | None = None
    """``100 TiB``."""
    clients: int | None = None
    client: str | None = None
    """Size of the client machines: ``Standard_D32s_v5``."""
    client_egress_mib_per_s: float | None = None
    nconnect: int | None = None
    mount: str | None = None
    """Options of the mount."""
    operating_system: str | None = None
    data_set: str | None = None
    tool: str | None = None
    cache: Literal["cached", "uncached", "warmed"] | None = None
    remarks: tuple[str, ...] = ()
    """What else a reader must know: contradictions and slips of the page."""


class Figure(Struct):
    """One published figure."""

    family: str
    """Family of a scenario's points that it belongs beside."""
    axes: dict[str, Axis] = {}
    """Where on the family's axes."""
    kind: Literal["read", "write", "total"] = "total"
    """Operations that are counted."""
    unit: Unit
    value: float
    how: Literal["stated", "about", "derived"] = "stated"
    """about: the page rounds it ("approximately"). derived: worked out from stated figures."""
    text: str | None = None
    """What the page says of it, in our words, where the figure alone would mislead."""
    conditions: Conditions | None = None
    """Where they differ from those of the whole page."""


class Reference(Struct):
    """What one page says."""

    name: str = ""
    """Name of the file."""
    title: str
    source: str
    """Page it was published on."""
    date: str | None = None
    """State of the page, if it has one."""
    conditions: Conditions = Conditions()
    figures: tuple[Figure, ...] = ()

    def of(self, family: str, axes: dict[str, Axis]) -> list[Figure]:
        """Figures that belong to a point: those of its family whose axes are all among the point's."""
        return [
            figure
            for figure in self.figures
            if figure.family == family and all(axes.get(name) == value for name, value in figure.axes.items())
        ]


def names() -> list[str]:
    """All bundled references."""
    return bundled.names(FOLDER)


@cache
def load(name: str) -> Reference:
    """One of ``names()``. Raises ``ResultError``."""
    if name not in names():
        raise ResultError(f"there is no reference '{name}'; these are: {', '.join(names())}")
    document = bundled.read(FOLDER, name)
    return Reference.from_builtins(document | {"name": name, "figures": document.pop("figure", [])})

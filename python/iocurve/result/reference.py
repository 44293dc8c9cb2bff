"""Published figures (``*.toml``), each with its source and conditions.

Reports show them next to measured figures and never mix the two. Only figures that a page states are included; nothing
is interpolated.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Literal

import msgspec

from iocurve.foundation.errors import ResultError
from iocurve.foundation.structs import Struct, bundled_names, read_bundled

Unit = Literal["IOPS", "MiB/s", "ms", "×"]
Axis = int | float | str
DIRECTORY = Path(__file__).parent / "references"


class Conditions(Struct):
    """Test conditions that the page states. None means not stated."""

    service_level: str | None = None
    quota: str | None = None
    """``100 TiB``."""
    clients: int | None = None
    client: str | None = None
    """Size of the client machines: ``Standard_D32s_v5``."""
    client_egress_mib_per_s: float | None = None
    nconnect: int | None = None
    mount: str | None = None
    """Mount options."""
    operating_system: str | None = None
    data_set: str | None = None
    tool: str | None = None
    cache: Literal["cached", "uncached", "warmed"] | None = None
    remarks: tuple[str, ...] = ()
    """Caveats: contradictions and errors of the page."""


class PublishedFigure(Struct):
    """One published figure."""

    family: str = msgspec.field(name="series")
    """Series of scenario points that the figure is compared with."""
    axes: dict[str, Axis] = msgspec.field(name="parameters", default_factory=dict)
    """Values of the series' parameters."""
    kind: Literal["read", "write", "total"] = "total"
    """Operations that the figure counts."""
    unit: Unit
    value: float
    value_max: float | None = None
    """The upper end if the page states a range, which begins at ``value``."""
    how: Literal["stated", "about", "derived"] = "stated"
    """about: rounded by the page ("approximately"). derived: calculated from stated figures."""
    text: str | None = None
    """Paraphrase of the page, if the figure alone would mislead."""
    conditions: Conditions | None = None
    """Conditions that differ from those of the whole page."""


class Reference(Struct):
    """The published figures of one page."""

    name: str = ""
    """File name without suffix."""
    title: str
    source: str
    """The page that the figures were published on."""
    date: str | None = None
    """Date of the page, if it has one."""
    conditions: Conditions = Conditions()
    figures: tuple[PublishedFigure, ...] = ()

    charts_only: dict[str, str] = {}
    """By family: the part of the page that shows its results in a chart, as an image without figures."""

    def of(self, family: str, axes: dict[str, Axis]) -> list[PublishedFigure]:
        """Figures to compare with a point: same family, and every axis of the figure matches the point's."""
        return [
            figure
            for figure in self.figures
            if figure.family == family and all(axes.get(name) == value for name, value in figure.axes.items())
        ]


def names() -> list[str]:
    """The names of all bundled references."""
    return bundled_names(DIRECTORY)


@cache
def load(name: str) -> Reference:
    """Loads a bundled reference. Raises ``ResultError``."""
    if name not in names():
        raise ResultError(f"there is no reference '{name}'; choose one of: {', '.join(names())}")
    document = read_bundled(DIRECTORY, name)
    return Reference.from_builtins(document | {"name": name, "figures": document.pop("figure", [])})

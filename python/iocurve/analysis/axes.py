"""Places on the axes that points differ in, in words."""

from __future__ import annotations

from iocurve.result.document import Axis
from iocurve.units import format_bytes

COMPARED_AXES = ("nconnect", "target", "clients")
"""Axes along which points are compared with each other; of several, the first that varies names the bars."""


def axis_text(axis: str, value: Axis) -> str:
    """A place on an axis: ``nconnect 8``, ``4 KiB``, ``read``."""
    if axis == "block_bytes":
        return format_bytes(int(value))
    return str(value) if axis in ("kind", "order", "target") else f"{axis} {value}"

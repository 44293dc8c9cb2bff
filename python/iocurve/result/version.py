"""Which iocurve this is."""

from __future__ import annotations

from importlib.metadata import version


def iocurve_version() -> str:
    """Version of this package."""
    return version("iocurve")

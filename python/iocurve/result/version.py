"""The version of iocurve."""

from __future__ import annotations

from iocurve._native import VERSION


def iocurve_version() -> str:
    """The version, taken from the native module because importlib.metadata is slow."""
    return VERSION

"""Which iocurve this is."""

from __future__ import annotations

from iocurve import _native


def iocurve_version() -> str:
    """Version of this package; the native module knows it without a search for installed packages."""
    return _native.VERSION

"""Reads what the figures of a result mean: limits, headlines, findings, doubts, comparisons with published figures."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from iocurve.analysis.reading import Reading, read

__all__ = ["Reading", "read"]


def __getattr__(name: str) -> object:
    """Loads the reading on first use: a job that only prints its tool's output needs the names of loads alone."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from iocurve.analysis import reading

    return getattr(reading, name)

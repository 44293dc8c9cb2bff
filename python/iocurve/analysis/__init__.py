"""Reads what the figures of a result mean: limits, headlines, findings, doubts, comparisons with published figures."""

from iocurve.analysis.reading import Reading, read

__all__ = ["Reading", "read"]

"""Names of a section's fields in job files: without the unit, as values carry their unit."""

from __future__ import annotations

from iocurve.job.model import FIELDS
from iocurve.job.words import Words

_EXCEPTIONS = {
    "file_bytes": "file_size",
    "path_bytes": "path_sizes",
    "think_every_ns": "think_every_time",
    "rate_bytes": "rate_bytes",
    "rate_total_bytes": "rate_total_bytes",
    "payload_pool_bytes": "payload_pool_size",
}
"""Fields whose name without the unit is taken or unclear."""


def own_key(field: str) -> str:
    """The key of a field in job files: ``runtime`` for ``runtime_ns``."""
    return _EXCEPTIONS.get(field) or field.removesuffix("_ns").removesuffix("_bytes")


WORDS = Words(
    names={field: own_key(field) for field in FIELDS},
    joint=" = ",
    asks={
        "direct": "direct = true",
        "repeat": "repeatable = true",
        "no repeat": "repeatable = false",
        "no create": "create = false",
        "size": 'size = "1g"',
    },
    worker="worker",
)

"""What our own job files call the fields of a section: their names without the unit, which values carry themselves."""

from __future__ import annotations

from iocurve.job.model import FIELDS
from iocurve.job.words import Words

_OTHERWISE = {
    "file_bytes": "file_size",
    "path_bytes": "path_sizes",
    "think_every_ns": "think_every_time",
    "rate_bytes": "rate_bytes",
    "rate_total_bytes": "rate_total_bytes",
    "payload_pool_bytes": "payload_pool_size",
}
"""Where the name without its unit would be another field's, or say too little."""


def own_key(field: str) -> str:
    """A field of a section in our own job files: ``runtime`` for ``runtime_ns``."""
    return _OTHERWISE.get(field) or field.removesuffix("_ns").removesuffix("_bytes")


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
    clone="worker",
)

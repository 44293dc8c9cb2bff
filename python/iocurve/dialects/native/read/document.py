"""A job file as a whole: runs one after another, each with defaults and jobs; what is not said is as here."""

from __future__ import annotations

from typing import Any

from iocurve.dialects.defaults import COMMON
from iocurve.dialects.native.read.keys import FIELDS, KINDS
from iocurve.dialects.native.words import own_key
from iocurve.job.model import Section

DEFAULTS = Section(
    engine="uring",
    direct=True,
    file_name_pattern="{job}.{clone}.{file}",
    random=True,
    read_percent=50.0,
    cover="once",
    depth=1,
    time_based=True,
).over(COMMON)
"""What a job is where nothing is said."""


def table_of(section: Section, beside: Section | None = None) -> dict[str, Any]:
    """A section's fields as keys and TOML values; without those that ``beside`` says alike."""
    values = {name: getattr(section, name) for name in FIELDS}
    return {
        own_key(name): KINDS[name].write(value)
        for name, value in values.items()
        if value is not None and (beside is None or value != getattr(beside, name))
    }

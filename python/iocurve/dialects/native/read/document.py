"""Defaults of job files, and the conversion of sections to TOML tables."""

from __future__ import annotations

from typing import Any

from iocurve.dialects.native.read.keys import FIELDS, KINDS
from iocurve.dialects.native.words import own_key
from iocurve.job.model import Said, Section

DEFAULTS = Said.of(
    engine="uring",
    direct=True,
    random=True,
    read_percent=50.0,
    cover="once",
    depth=1,
    time_based=True,
)
"""Defaults of a job."""


def table_of(said: Said) -> dict[str, Any]:
    """The fields that are set in a section, as keys and TOML values."""
    return {own_key(name): KINDS[name].write(said.fields[name]) for name in FIELDS if name in said.fields}


def defaults_table(defaults: Said) -> dict[str, Any]:
    """Defaults that differ from those of job files, as keys and TOML values."""
    theirs, ours = Section.of(defaults), Section.of(DEFAULTS)
    values = {name: theirs.value(name) for name in FIELDS}
    return table_of(Said.of(**{name: value for name, value in values.items() if value != ours.value(name)}))

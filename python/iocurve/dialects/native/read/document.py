"""A job file as a whole: runs one after another, each with defaults and jobs; what is not said is as here."""

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
"""What a job is where nothing is said."""


def table_of(said: Said) -> dict[str, Any]:
    """What was said of a section as keys and TOML values."""
    return {own_key(name): KINDS[name].write(said.fields[name]) for name in FIELDS if name in said.fields}


def defaults_table(defaults: Said) -> dict[str, Any]:
    """Defaults as keys and TOML values, without those that job files have anyway."""
    theirs, ours = Section.of(defaults), Section.of(DEFAULTS)
    values = {name: theirs.value(name) for name in FIELDS}
    return table_of(Said.of(**{name: value for name, value in values.items() if value != ours.value(name)}))

"""Writes jobs of any dialect as a TOML job file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tomli_w

from iocurve.dialects.base import TimedJob
from iocurve.dialects.native.read.keys import DEFAULTS, FIELDS, KINDS
from iocurve.dialects.native.read.kinds import Time
from iocurve.dialects.native.words import own_key
from iocurve.job.model import Said, Section
from iocurve.units import SECOND_NS


def write(runs: Sequence[TimedJob], source: str) -> str:
    """A job file that resolves to the same plans. Its first line is a comment with ``source``."""
    head = f"# {_one_line(source)}\n\n"
    if len(runs) == 1:
        return head + tomli_w.dumps(_table(runs[0]))
    return head + tomli_w.dumps({"run": [_table(run) for run in runs]})


def _table(run: TimedJob) -> dict[str, Any]:
    table: dict[str, Any] = {"name": run.job.name}
    if run.interval_ns != SECOND_NS:
        table["interval"] = Time().write(run.interval_ns)
    defaults = _defaults(run.job.defaults)
    if defaults:
        table["defaults"] = defaults
    table["job"] = [table_of(section.said) for section in run.job.sections]
    return table


def table_of(said: Said) -> dict[str, Any]:
    """The fields that are set in a section, as keys and TOML values."""
    return {own_key(name): KINDS[name].write(said.fields[name]) for name in FIELDS if name in said.fields}


def _defaults(defaults: Said) -> dict[str, Any]:
    """Defaults that differ from those of job files, as keys and TOML values."""
    theirs, ours = Section.of(defaults), Section.of(DEFAULTS)
    values = {name: theirs.value(name) for name in FIELDS}
    return table_of(Said.of(**{name: value for name, value in values.items() if value != ours.value(name)}))


def _one_line(text: str) -> str:
    return "".join(letter if letter.isprintable() else "?" for letter in text)

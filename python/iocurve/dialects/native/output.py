"""Writes jobs of any dialect as a TOML job file, and the JSON schema of job files for editors."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import tomli_w

from iocurve.dialects.base import printable
from iocurve.dialects.native.kinds import DEFAULTS, FIELDS, KINDS, TEXT, TIME, Schema, own_key
from iocurve.foundation.structs import field_texts
from iocurve.foundation.units import SECOND_NS
from iocurve.job.model import PARTS, Job, Said, Section


def write(jobs: Sequence[Job], source: str) -> str:
    """A job file that resolves to the same plans. Its first line is a comment with ``source``."""
    head = f"# {printable(source)}\n\n"
    if len(jobs) == 1:
        return head + tomli_w.dumps(_table(jobs[0]))
    return head + tomli_w.dumps({"run": [_table(job) for job in jobs]})


def _table(job: Job) -> dict[str, object]:
    table: dict[str, object] = {"name": job.name}
    if job.interval_ns not in (None, SECOND_NS):
        table["interval"] = TIME.write(job.interval_ns)
    defaults = _defaults(job.defaults)
    if defaults:
        table["defaults"] = defaults
    shares = job.words.shares_mount
    table["job"] = [table_of(_sharing(section.said) if shares else section.said) for section in job.sections]
    return table


def _sharing(said: Said) -> Said:
    """A section of another tool's line, which shares the connections of its mount, where those of job files do not."""
    url = str(said.fields.get("nfs_url") or "")
    if not url or "shared_mount=" in url:
        return said
    return said.but(nfs_url=f"{url}{'&' if '?' in url else '?'}shared_mount=1")


def table_of(said: Said) -> dict[str, object]:
    """The fields that are set in a section, as keys and TOML values."""
    return {own_key(name): KINDS[name].write(said.fields[name]) for name in FIELDS if name in said.fields}


def _defaults(defaults: Said) -> dict[str, object]:
    """Defaults that differ from those of job files, as keys and TOML values."""
    theirs, ours = Section.of(defaults), Section.of(DEFAULTS)
    values = {name: theirs.value(name) for name in FIELDS}
    return table_of(Said.of(**{name: value for name, value in values.items() if value != ours.value(name)}))


# ---- the schema, generated from the fields of ``model.Section`` and their docstrings


def schema() -> Schema:
    """Schema of a job file."""
    definitions: Schema = {}
    parts: list[type] = [Section, *PARTS.values()]
    documents = {name: text for part in parts for name, text in field_texts(part).items()}
    properties: Schema = {}
    for name, kind in KINDS.items():
        property_schema = _lifted(kind.schema(), definitions)
        text = documents.get(name)
        properties[own_key(name)] = property_schema | ({"description": text} if text else {})
    section = {"type": "object", "properties": properties, "additionalProperties": False}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "iocurve job",
        "anyOf": [{"$ref": "#/$defs/run"}, _object({"run": _list("run")}, "run")],
        "$defs": {
            "section": section,
            "run": _object(
                {
                    "name": TEXT.schema(),
                    "interval": TIME.schema(),
                    "defaults": {"$ref": "#/$defs/section"},
                    "job": _list("section"),
                },
                "job",
            ),
            **definitions,
        },
    }


def schema_text() -> str:
    """The schema as text, as ``iocurve schema`` prints it."""
    return json.dumps(schema(), indent=1, ensure_ascii=False) + "\n"


def _object(properties: Schema, needed: str) -> Schema:
    return {"type": "object", "properties": properties, "required": [needed], "additionalProperties": False}


def _list(of: str) -> Schema:
    return {"type": "array", "minItems": 1, "items": {"$ref": f"#/$defs/{of}"}}


def _lifted(value: object, definitions: Schema) -> Any:
    """Moves nested ``$defs`` to ``definitions``; tuples become lists, as in JSON."""
    if isinstance(value, list | tuple):
        return [_lifted(one, definitions) for one in value]
    if not isinstance(value, dict):
        return value
    for name, definition in value.get("$defs", {}).items():
        definitions[name] = _lifted(definition, definitions)
    return {key: _lifted(one, definitions) for key, one in value.items() if key != "$defs"}

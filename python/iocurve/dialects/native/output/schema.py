"""The JSON schema of job files, for editors, generated from the fields of ``model.Section`` and their docstrings."""

from __future__ import annotations

import json
from typing import Any

from iocurve.dialects.native.read.keys import KINDS
from iocurve.dialects.native.read.kinds import TEXT, Schema, Time
from iocurve.dialects.native.words import own_key
from iocurve.engine.structs import field_texts
from iocurve.job.model import PARTS, Section


def schema() -> Schema:
    """Schema of a job file."""
    definitions: Schema = {}
    parts: list[type] = [Section, *PARTS.values()]
    documents = {name: text for part in parts for name, text in field_texts(part).items()}
    properties: Schema = {}
    for name, kind in KINDS.items():
        property_schema = _lifted(kind.schema, definitions)
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
                    "name": TEXT.schema,
                    "interval": Time().schema,
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


def _lifted(value: Any, definitions: Schema) -> Any:
    """Moves nested ``$defs`` to ``definitions``; tuples become lists, as in JSON."""
    if isinstance(value, list | tuple):
        return [_lifted(one, definitions) for one in value]
    if not isinstance(value, dict):
        return value
    for name, definition in value.get("$defs", {}).items():
        definitions[name] = _lifted(definition, definitions)
    return {key: _lifted(one, definitions) for key, one in value.items() if key != "$defs"}

"""The JSON Schema of ``result.json``, generated from the fields of ``document.Result`` and their docstrings."""

from __future__ import annotations

from typing import get_args, get_type_hints

import msgspec

from iocurve.foundation.structs import Struct, field_texts
from iocurve.result.document import SCHEMA_VERSION, STREAM_HASH, Json, Point, Result
from iocurve.result.figures import Figures, KindFigures

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def schema() -> Json:
    """Schema of a result of this version. ``$id`` ends with the version."""
    roots = (Result, Figures, KindFigures)
    definitions = msgspec.json.schema_components(roots, ref_template="#/$defs/{name}")[1]
    for kind in _structs(*roots):
        properties = definitions[kind.__name__]["properties"]
        for name, text in field_texts(kind).items():
            properties[name] |= {"description": text}
    point, figures = definitions[Point.__name__], definitions.pop(Figures.__name__)
    point["properties"] |= figures["properties"]
    point["properties"][STREAM_HASH] = {
        "anyOf": [{"type": "string", "pattern": "^[0-9a-f]{64}$"}, {"type": "null"}],
        "description": Point.stream_hash.__doc__,
    }
    point["required"] += [*figures["required"], STREAM_HASH]
    # Kinds of operations are data: ``read``, ``fsync``, and whatever an engine adds.
    point["additionalProperties"] = {"$ref": f"#/$defs/{KindFigures.__name__}"}
    return {
        "$schema": DIALECT,
        "$id": f"urn:iocurve:result:{SCHEMA_VERSION}",
        "title": f"iocurve result, version {SCHEMA_VERSION}",
        "$ref": f"#/$defs/{Result.__name__}",
        "$defs": definitions,
    }


def _structs(*roots: type[Struct]) -> set[type[Struct]]:
    """The structs, and those in their fields."""
    found: set[type[Struct]] = set()
    waiting: list[object] = list(roots)
    while waiting:
        kind = waiting.pop()
        if not (isinstance(kind, type) and issubclass(kind, Struct)):
            waiting += get_args(kind)
        elif kind not in found:
            found.add(kind)
            waiting += get_type_hints(kind).values()
    return found

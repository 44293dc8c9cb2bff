"""Golden files: the text that a test makes, beside the one that is kept.

``IOCURVE_UPDATE_GOLDEN=1`` writes what is there now; read the difference before you commit it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec

from iocurve.engine.plan import Plan
from iocurve.structs import Struct, TaggedStruct


def compare(path: Path, text: str) -> None:
    """``text`` is what ``path`` holds."""
    if os.environ.get("IOCURVE_UPDATE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


def plan_document(plan: Plan) -> Any:
    """A plan without what is as by default. Kinds are named; clones that differ in nothing else are one."""
    return _document(plan)


def _document(value: Any) -> Any:
    if isinstance(value, Struct):
        kind = {"kind": value.kind} if isinstance(value, TaggedStruct) else {}
        fields = msgspec.structs.fields(value)
        said = {field.name: getattr(value, field.name) for field in fields}
        return kind | {field.name: _document(said[field.name]) for field in fields if said[field.name] != field.default}
    return [_document(one) for one in value] if isinstance(value, tuple) else value

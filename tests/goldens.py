"""Golden files: compares the text that a test generates with a kept file.

``IOCURVE_UPDATE_GOLDEN=1`` rewrites the kept files; read the difference before you commit it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from iocurve.engine.plan import Plan
from iocurve.foundation.structs import Struct, TaggedStruct


def compare(path: Path, text: str) -> None:
    """Checks that ``path`` contains ``text``."""
    if os.environ.get("IOCURVE_UPDATE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


def plan_document(plan: Plan) -> Any:
    """A plan without its default values. Kinds are kept; further workers of a job list only their differences."""
    document = _document(plan)
    for group in document["groups"]:
        group["workers"] = _folded(group["workers"])
    return document


def _document(value: Any) -> Any:
    if isinstance(value, Struct):
        kind = {"kind": value.kind} if isinstance(value, TaggedStruct) else {}
        fields = msgspec.structs.fields(value)
        said = {field.name: getattr(value, field.name) for field in fields}
        return kind | {field.name: _document(said[field.name]) for field in fields if said[field.name] != field.default}
    return [_document(one) for one in value] if isinstance(value, tuple) else value


def _folded(workers: list[Any]) -> list[Any]:
    """The ``further`` of a job's first worker have the differences of further workers: ``{"jobnum": 1, "seed": 7}``."""
    folded: list[Any] = []
    for worker in workers:
        first = folded[-1] if folded else None
        if first and first["job"] == worker["job"] and worker["jobnum"] and (found := _differences(first, worker)):
            first.setdefault("further", []).append(found)
        else:
            folded.append(worker)
    return folded


def _differences(first: Any, other: Any) -> dict[str, Any] | None:
    """Leaves of ``other`` that differ from ``first``; None if their shapes differ."""
    known, leaves = (
        dict(_leaves({key: part for key, part in one.items() if key != "further"})) for one in (first, other)
    )
    if known.keys() != leaves.keys():
        return None
    return {path: leaf for path, leaf in leaves.items() if leaf != known[path]}


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, part in items:
            yield from _leaves(part, f"{path}.{key}" if path else str(key))
    else:
        yield path, value

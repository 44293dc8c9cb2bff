"""Paths of the fields of a JSON value, for removing one field at a time."""

import json
from typing import Any

Path = tuple[str | int, ...]


def paths(value: Any, path: Path = ()) -> list[Path]:
    """Paths of all fields below a JSON value."""
    if isinstance(value, dict):
        return [found for key, part in value.items() for found in [(*path, key), *paths(part, (*path, key))]]
    if isinstance(value, list):
        return [found for index, part in enumerate(value) for found in paths(part, (*path, index))]
    return []


def without(value: Any, path: Path) -> Any:
    """A copy of a JSON value without the field at ``path``."""
    copy = json.loads(json.dumps(value))
    parent = copy
    for step in path[:-1]:
        parent = parent[step]
    del parent[path[-1]]
    return copy

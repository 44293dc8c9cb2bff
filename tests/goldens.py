"""Golden files: texts that tests expect, and tables of their cases.

``IOCURVE_UPDATE_GOLDEN=1`` rewrites what is expected; read the difference before you commit it.
"""

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest

from iocurve.engine.derived import FIELDS
from iocurve.engine.plan import Plan
from iocurve.foundation.structs import Struct, TaggedStruct

T = TypeVar("T")
DATA = Path(__file__).parent / "data"


def compare(path: Path, text: str) -> None:
    """Checks that ``path`` contains ``text``."""
    if os.environ.get("IOCURVE_UPDATE_GOLDEN"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


def present(value: T | None) -> T:
    """A value that a test expects to be there."""
    assert value is not None
    return value


def expected(name: str, text: str) -> None:
    """Checks that ``tests/data/golden/NAME.txt`` contains ``text``; the name begins with the room that writes it."""
    compare(DATA / f"golden/{name}.txt", text)


def matches(name: str, found: Any) -> None:
    """Checks that ``tests/data/golden/NAME.json`` is ``found``; ``ROOM#KEY`` is one of the values of a room's file."""
    room, _, key = name.partition("#")
    path = DATA / f"golden/{room}.json"
    if not key:
        compare(path, json.dumps(document(found), indent=1, ensure_ascii=False) + "\n")
        return
    values = json.loads(path.read_text(encoding="utf-8"))
    found = json.loads(json.dumps(document(found)))
    if os.environ.get("IOCURVE_UPDATE_GOLDEN"):
        path.write_text(json.dumps(values | {key: found}, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    else:
        assert found == values[key]


def has(found: Any, expected: dict[str, Any]) -> None:
    """Checks fields of ``found`` by their dotted paths: fractions to nine digits, all else exactly."""
    values = {path: document(picked(found, path)) for path in expected}
    assert values == {
        path: pytest.approx(value, rel=1e-9) if isinstance(value, float) else value for path, value in expected.items()
    }


def picked(value: Any, path: str) -> Any:
    """The part of a value at ``groups.0.workers.*.files.0.path``; ``*`` is a list of all, None is below None."""
    name, _, rest = path.partition(".")
    if name == "*":
        return [picked(part, rest) for part in value]
    if not name or value is None:
        return value
    if isinstance(value, dict):
        return picked(value[name], rest)
    return picked(value[int(name)] if name.isdigit() else getattr(value, name), rest)


def data(name: str) -> str:
    """An input that is a file of ``tests/data``."""
    return (DATA / name).read_text(encoding="utf-8")


@dataclass(frozen=True)
class Golden:
    """The expectation of a row, which a run can write again."""

    path: Path
    line: int
    value: Any

    def check(self, found: Any) -> None:
        """Checks that ``found``, as JSON, is what the row expects."""
        found = json.loads(json.dumps(document(found)))
        if os.environ.get("IOCURVE_UPDATE_GOLDEN"):
            lines = self.path.read_text(encoding="utf-8").split("\n")
            lines[self.line] = json.dumps([*json.loads(lines[self.line])[:-1], found], ensure_ascii=False)
            self.path.write_text("\n".join(lines), encoding="utf-8")
        else:
            assert found == self.value


def cases(name: str) -> pytest.MarkDecorator:
    """Parametrizes a test by ``tests/data/cases/NAME.jsonl``: argument names, then a row a case; ``#`` opens a comment.

    An argument ``golden`` comes last and is a ``Golden``, any other is as it is in the file. A column ``title`` comes
    first and names the case.
    """
    (_, names), *found = _numbered(name)
    if names[-1] == "golden":
        found = [(line, [*row[:-1], Golden(_table(name), line, row[-1])]) for line, row in found]
    if names[0] == "title":
        return pytest.mark.parametrize(names[1:], [row[1:] for _, row in found], ids=[row[0] for _, row in found])
    return pytest.mark.parametrize(names, [row for _, row in found])


def rows(name: str) -> list[list[Any]]:
    """The rows of such a file, for a test that makes more of them."""
    return [row for _, row in _numbered(name)][1:]


def _table(name: str) -> Path:
    return DATA / f"cases/{name}.jsonl"


def _numbered(name: str) -> list[tuple[int, list[Any]]]:
    lines = enumerate(_table(name).read_text(encoding="utf-8").split("\n"))
    return [(number, json.loads(line)) for number, line in lines if line and not line.startswith("#")]


def plan_document(plan: Plan) -> Any:
    """A plan without its default values. Kinds are kept; further workers of a job list only their differences."""
    found = document(plan)
    for group in found["groups"]:
        group["workers"] = _folded(group["workers"])
    return found


def document(value: Any) -> Any:
    """A struct without its default values."""
    if isinstance(value, Struct):
        kind = {"kind": value.kind} if isinstance(value, TaggedStruct) else {}
        fields = FIELDS(type(value))
        said = {field.name: getattr(value, field.name) for field in fields}
        return kind | {field.name: document(said[field.name]) for field in fields if said[field.name] != field.default}
    return [document(one) for one in value] if isinstance(value, tuple | list) else value


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

"""Base classes of plans, outcomes and results: immutable, compared by value, written as JSON.

Types, bounds and unknown keys are checked when JSON or TOML is read, not when Python code builds a value. Values that
are bundled with the package (scenarios, disks, published results) are TOML files.
"""

from __future__ import annotations

import re
import sys
from functools import cache
from pathlib import Path
from typing import Any, Self, dataclass_transform

import msgspec

_CONFIG = {"frozen": True, "kw_only": True, "forbid_unknown_fields": True}


_TYPES = {
    "int": "an integer",
    "float": "a number",
    "decimal": "a number",
    "str": "a string",
    "bool": "a boolean",
    "object": "a table",
    "array": "an array",
    "null": "nothing",
}
"""msgspec's names of types, in the words of TOML."""


def refusal_text(error: Exception) -> tuple[str, str]:
    """The place and the text of msgspec's error: ``export.0.path`` and ``expected a string, got an integer``.

    The place is empty for the whole document.
    """
    message, _, place = str(error).partition(" - at `")
    text = re.sub("`(.*?)`", _type_name, message[:1].lower() + message[1:])
    path = place.rstrip("`").removeprefix("$").lstrip(".")
    return re.sub(r"\[(\d+|\.\.\.)\]", r".\1", path).lstrip("."), text


def refusal(error: Exception) -> str:
    """msgspec's error as ``place: text``."""
    return ": ".join(filter(None, refusal_text(error)))


def _type_name(quoted: re.Match[str]) -> str:
    names = [name for name in quoted.group(1).split(" | ") if name != "null"] or ["null"]
    return " or ".join(_TYPES.get(name, name) for name in names)


class _StructMeta(msgspec.StructMeta):
    """Gives every subclass the same configuration; msgspec inherits only a part of it."""

    def __new__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **config: Any) -> Any:
        return super().__new__(cls, name, bases, namespace, **(_CONFIG | config))


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
class Struct(msgspec.Struct, frozen=True, kw_only=True, metaclass=_StructMeta):
    """A part of a document; fields are keyword-only."""

    def replace(self, **changes: Any) -> Self:
        """Returns a copy with some fields changed."""
        return msgspec.structs.replace(self, **changes)

    def to_json(self) -> str:
        """Encodes as compact JSON."""
        return msgspec.json.encode(self).decode()

    def to_builtins(self) -> Any:
        """Converts to the dictionaries, lists, strings and numbers of the JSON form."""
        return msgspec.to_builtins(self)

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Parses the JSON form. Raises ``ValueError`` with the error and its path."""
        return msgspec.json.decode(text, type=cls)

    @classmethod
    def from_builtins(cls, value: Any) -> Self:
        """The inverse of ``to_builtins``. Raises ``ValueError`` with the error and its path."""
        return msgspec.convert(value, cls)


class TaggedStruct(Struct, tag_field="kind"):
    """One variant of a tagged union; the tag is the field ``kind`` in JSON."""

    @property
    def kind(self) -> str:
        """The tag of this variant."""
        return str(self.__struct_config__.tag)


class Page(Struct):
    """The page that a figure was published on."""

    page: str
    """A page of learn.microsoft.com, or of another site where it says so."""
    date: str | None = None
    """Date of the page, if it has one."""

    def __str__(self) -> str:
        return self.page if self.date is None else f"{self.page}, {self.date}"


def field_texts(kind: type) -> dict[str, str]:
    """The docstring of each field of a class and its bases; fields without one are left out."""
    bases = [part for part in kind.__mro__ if issubclass(part, Struct) and part.__module__ != __name__]
    return {
        name: text for part in reversed(bases) for name, text in _module_texts(part.__module__)[part.__name__].items()
    }


@cache
def _module_texts(module: str) -> dict[str, dict[str, str]]:
    """The docstrings of the fields of all classes of a module, by class."""
    # Imported here because only schemas need the source.
    import ast
    import inspect
    import itertools

    tree = ast.parse(inspect.getsource(sys.modules[module]))
    return {
        node.name: {
            statement.target.id: inspect.cleandoc(str(following.value.value))
            for statement, following in itertools.pairwise(node.body)
            if isinstance(statement, ast.AnnAssign)
            and isinstance(statement.target, ast.Name)
            and isinstance(following, ast.Expr)
            and isinstance(following.value, ast.Constant)
        }
        for node in tree.body
        if isinstance(node, ast.ClassDef)
    }


def bundled_names(directory: Path) -> list[str]:
    """The names of the TOML files in a directory of the package, without suffix."""
    return sorted(path.stem for path in directory.glob("*.toml"))


def read_bundled(directory: Path, name: str, parse_float: Any = float) -> dict[str, Any]:
    """Parses one TOML file of a directory of the package."""
    # Imported here because few commands need a TOML parser.
    import tomllib

    return tomllib.loads((directory / f"{name}.toml").read_text(encoding="utf-8"), parse_float=parse_float)

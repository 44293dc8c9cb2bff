"""Base of everything that programs exchange: plans, outcomes, results. Immutable, compared by value, written as JSON.

Types, bounds and unknown keys are checked where JSON or TOML is read, not where Python builds a value.
"""

from __future__ import annotations

from typing import Any, Self, dataclass_transform

import msgspec

_CONFIG = {"frozen": True, "kw_only": True, "forbid_unknown_fields": True}


class _StructMeta(msgspec.StructMeta):
    """Gives every subclass the same configuration, which msgspec hands down only in part."""

    def __new__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **config: Any) -> Any:
        return super().__new__(cls, name, bases, namespace, **(_CONFIG | config))


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
class Struct(msgspec.Struct, frozen=True, kw_only=True, metaclass=_StructMeta):
    """A part of a document; every field is given by name."""

    def replace(self, **changes: Any) -> Self:
        """A copy with other values in some fields."""
        return msgspec.structs.replace(self, **changes)

    def to_json(self) -> str:
        """The compact JSON form."""
        return msgspec.json.encode(self).decode()

    def to_builtins(self) -> Any:
        """Dictionaries, lists, texts and numbers: the JSON form before it is text."""
        return msgspec.to_builtins(self)

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Reads the JSON form. Raises ``ValueError`` that says what is wrong, and where."""
        return msgspec.json.decode(text, type=cls)

    @classmethod
    def from_builtins(cls, value: Any) -> Self:
        """Reads what ``to_builtins`` gives. Raises ``ValueError`` that says what is wrong, and where."""
        return msgspec.convert(value, cls)


class TaggedStruct(Struct, tag_field="kind"):
    """One of several forms that a field may have; ``kind`` tells them apart in JSON."""

    @property
    def kind(self) -> str:
        """The name of this form."""
        return str(self.__struct_config__.tag)

"""Validates documents that users write, and reports every error at once, each with its place."""

from __future__ import annotations

import typing
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from types import UnionType
from typing import Annotated, TypeVar

import msgspec

from iocurve.foundation.structs import refusal_text

T = TypeVar("T")
Found = Iterator[tuple[str, str]]
"""Places, ``export.0.quota``, and what is wrong there."""


class InvalidDocument(ValueError):  # noqa: N818 - the document is invalid, not the program
    """A document has errors; ``errors`` lists all of them, each as ``place: text``."""

    def __init__(self, errors: Sequence[str]) -> None:
        self.errors = tuple(errors)
        super().__init__("; ".join(errors))


class InvalidField(ValueError):  # noqa: N818 - the field is invalid, not the program
    """A struct raises it in ``__post_init__`` to refuse one of its fields."""

    def __init__(self, field: str, text: str) -> None:
        self.field, self.text = field, text
        super().__init__(f"{field}: {text}")


def validated(document: object, kind: type[T]) -> T:
    """Converts dictionaries, lists and scalars into structs. Raises ``InvalidDocument``.

    A number may be written as text, because on a command line everything is text.
    """
    errors = [f"{place}: {text}" if place else text for place, text in _errors(document, kind, "")]
    if errors:
        raise InvalidDocument(errors)
    return msgspec.convert(document, kind, strict=False)


def _errors(value: object, kind: object, place: str) -> Found:
    """The errors in the parts of a value; where there are none, the error in the whole."""
    parts = list(_errors_in_parts(value, kind, place))
    yield from parts
    if not parts:
        try:
            msgspec.convert(value, kind, strict=False)
        except msgspec.ValidationError as error:
            refused = error.__cause__
            if isinstance(refused, InvalidField):
                yield _below(place, refused.field), refused.text
            else:
                yield place, refusal_text(error)[1]


def _errors_in_parts(value: object, kind: object, place: str) -> Found:
    kind = typing.get_args(kind)[0] if typing.get_origin(kind) is Annotated else kind
    if isinstance(value, dict) and (structs := _structs(kind)):
        yield from _errors_in_table(value, structs, place)
    elif isinstance(value, dict) and typing.get_origin(kind) is dict:
        for key, part in value.items():
            yield from _errors(part, typing.get_args(kind)[1], _below(place, key))
    elif isinstance(value, list) and typing.get_origin(kind) is tuple:
        for index, part in enumerate(value):
            yield from _errors(part, typing.get_args(kind)[0], _below(place, index))


def _structs(kind: object) -> list[type[msgspec.Struct]]:
    """The structs that a type allows."""
    arms = typing.get_args(kind) if typing.get_origin(kind) in (typing.Union, UnionType) else (kind,)
    return [arm for arm in arms if isinstance(arm, type) and issubclass(arm, msgspec.Struct)]


def _errors_in_table(table: dict[str, object], structs: Sequence[type[msgspec.Struct]], place: str) -> Found:
    tag_field = structs[0].__struct_config__.tag_field
    struct = structs[0]
    if tag_field is not None:
        tags = {str(one.__struct_config__.tag): one for one in structs}
        said = table.get(tag_field)
        if not isinstance(said, str) or said not in tags:
            yield _below(place, tag_field), _unknown_tag(said, list(tags))
            return
        struct = tags[said]
    fields = {field.encode_name: field for field in msgspec.structs.fields(struct)}
    for key, value in table.items():
        if key in fields:
            yield from _errors(value, fields[key].type, _below(place, key))
        elif key != tag_field:
            close = get_close_matches(key, fields, n=1, cutoff=0.6)
            yield _below(place, key), f"there is no such key{f'; did you mean {close[0]}?' if close else ''}"
    for name, field in fields.items():
        if field.required and name not in table:
            yield _below(place, name), "missing"


def _unknown_tag(said: object, tags: Sequence[str]) -> str:
    choices = f"choose one of: {', '.join(tags)}"
    return f"missing; {choices}" if said is None else f"there is no '{said}'; {choices}"


def _below(place: str, key: str | int) -> str:
    return f"{place}.{key}" if place else str(key)

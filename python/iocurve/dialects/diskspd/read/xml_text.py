"""XML as text: read from untrusted files into a tree whose nodes know their line and column, and written by line."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar
from xml.parsers import expat
from xml.sax.saxutils import escape, quoteattr

import msgspec

from iocurve.foundation.errors import Diagnostic, DialectError, Where
from iocurve.job.model import PlanNote

MAX_FILE_BYTES = 16 << 20
MAX_DEPTH = 32
_UNSIGNED = re.compile(r"\+?\d{1,40}", re.ASCII)


class Node(msgspec.Struct):
    """An element of the tree."""

    name: str
    attributes: dict[str, str]
    where: Where
    children: list[Node] = msgspec.field(default_factory=list)
    text: str = ""

    def child(self, name: str) -> Node | None:
        """First child with this name, or None."""
        return next((node for node in self.children if node.name == name), None)


T = TypeVar("T")
Convert = Callable[[Node, list[PlanNote]], T]
"""Reads the value of an element, and may add a note. Raises ``ValueError`` with the message for the user."""


def text(node: Node, _notes: list[PlanNote]) -> str:
    """The text as it is written."""
    return node.text


def whole(largest: int, smallest: int = 0) -> Convert[int]:
    """A whole number."""
    return lambda node, _notes: number(node.text, largest, smallest)


def number(said: str, largest: int, smallest: int = 0) -> int:
    """Reads a whole number."""
    word = said.strip()
    if not _UNSIGNED.fullmatch(word) or not smallest <= int(word) <= largest:
        raise ValueError(f"'{word}' is not a whole number from {smallest} to {largest}")
    return int(word)


def boolean(node: Node, notes: list[PlanNote]) -> bool:
    """A boolean; notes the ``1`` that DiskSpd reads as false."""
    word = node.text.strip()
    if word not in ("true", "false", "1", "0"):
        raise ValueError(f"'{word}' is not true or false")
    if word == "1":
        said = (
            f"<{node.name}>1</{node.name}>: the schema allows it, but DiskSpd reads everything except 'true' as false"
        )
        notes.append(PlanNote("boolean_digit", said, node.where, "warning"))
    return word == "true"


def word(*words: str) -> Convert[str]:
    """One of some words."""

    def convert(node: Node, _notes: list[PlanNote]) -> str:
        if node.text not in words:
            raise ValueError(f"'{node.text}' is not one of {', '.join(words)}")
        return node.text

    return convert


def priority(node: Node, _notes: list[PlanNote]) -> int:
    """An I/O priority; 0 means not set, as in the schema."""
    return number(node.text, 3) or 3


def read(path: Path) -> Node:
    """Returns the root element. Raises ``DialectError`` if the file cannot be read as XML."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a valid file name"
        raise DialectError([Diagnostic(f"{path} cannot be read: {reason}")]) from None
    if len(content) > MAX_FILE_BYTES:
        raise DialectError([Diagnostic(f"{path} is larger than {MAX_FILE_BYTES} bytes, the limit for a profile")])
    return _NodeBuilder(str(path)).read(content)


class _NodeBuilder:
    def __init__(self, source: str) -> None:
        self._source = source
        self._open: list[Node] = []
        self._root: Node | None = None
        self._parser = expat.ParserCreate()
        self._parser.StartDoctypeDeclHandler = self._doctype
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._characters

    def read(self, content: bytes) -> Node:
        try:
            self._parser.Parse(content, True)
        except expat.ExpatError as error:
            where = Where(self._source, error.lineno, error.offset + 1)
            raise DialectError([Diagnostic(f"this is not XML: {expat.ErrorString(error.code)}", where)]) from None
        except (LookupError, ValueError) as error:
            raise DialectError([Diagnostic(f"this is not XML: {error}", self._where())]) from None
        assert self._root is not None, "a document without an element is not well-formed"
        return self._root

    def _where(self) -> Where:
        return Where(self._source, self._parser.CurrentLineNumber, self._parser.CurrentColumnNumber + 1)

    def _doctype(self, *_: object) -> None:
        raise DialectError(
            [Diagnostic("a document type (<!DOCTYPE …>) is not allowed in a profile; remove it", self._where())]
        )

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        if len(self._open) == MAX_DEPTH:
            raise DialectError([Diagnostic("elements are nested too deeply for a profile", self._where())])
        node = Node(name, attributes, self._where())
        if self._open:
            self._open[-1].children.append(node)
        else:
            self._root = node
        self._open.append(node)

    def _end(self, _name: str) -> None:
        self._open.pop()

    def _characters(self, text: str) -> None:
        self._open[-1].text += text


# -- writing -----------------------------------------------------------------------------------------------------------

_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 forbids."""


class XmlLines:
    """Collects the lines of an XML document as DiskSpd writes them: one element per line, two spaces per level."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._level = 0

    @contextmanager
    def element(self, name: str, **attributes: object) -> Iterator[None]:
        """Writes an element around the elements that the with-block writes."""
        self._line(f"<{name}{_attributes(attributes)}>")
        self._level += 1
        yield
        self._level -= 1
        self._line(f"</{name}>")

    def value(self, name: str, value: object, **attributes: object) -> None:
        """Writes an element with text; booleans become ``true`` and ``false``."""
        self._line(f"<{name}{_attributes(attributes)}>{escape(_clean(value))}</{name}>")

    def values(self, **values: object) -> None:
        """Writes an element per keyword, in order; None is omitted."""
        for name, value in values.items():
            if value is not None:
                self.value(name, value)

    def empty(self, name: str, **attributes: object) -> None:
        """Writes an element with attributes and no content."""
        self._line(f"<{name}{_attributes(attributes)}/>")

    def text(self) -> str:
        """The document."""
        return "".join(f"{line}\n" for line in self._lines)

    def _line(self, text: str) -> None:
        self._lines.append("  " * self._level + text)


def _attributes(attributes: dict[str, object]) -> str:
    return "".join(f" {name}={quoteattr(_clean(value))}" for name, value in attributes.items())


def _clean(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return _NO_XML.sub("?", str(value))

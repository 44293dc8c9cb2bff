"""Reads XML from untrusted files into a tree whose nodes know their line and column."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from xml.parsers import expat

from iocurve.errors import Diagnostic, Where

MAX_FILE_BYTES = 16 << 20
MAX_DEPTH = 32


@dataclass
class Node:
    """An element of the tree."""

    name: str
    attributes: dict[str, str]
    where: Where
    children: list[Node] = field(default_factory=list)
    text: str = ""

    def child(self, name: str) -> Node | None:
        """First child with this name, or None."""
        return next((node for node in self.children if node.name == name), None)


class XmlError(Exception):
    """Raised for a file that cannot be read as XML; ``error`` has the reason and the position."""

    def __init__(self, error: Diagnostic) -> None:
        self.diagnostic = error
        super().__init__(str(error))


def read(path: Path) -> Node:
    """Returns the root element. Raises ``XmlError``."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a valid file name"
        raise XmlError(Diagnostic(f"{path} cannot be read: {reason}")) from None
    if len(content) > MAX_FILE_BYTES:
        raise XmlError(Diagnostic(f"{path} is larger than {MAX_FILE_BYTES} bytes, the limit for a profile"))
    return _Builder(str(path)).read(content)


class _Builder:
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
            raise XmlError(Diagnostic(f"this is not XML: {expat.ErrorString(error.code)}", where)) from None
        except (LookupError, ValueError) as error:
            raise XmlError(Diagnostic(f"this is not XML: {error}", self._where())) from None
        assert self._root is not None, "a document without an element is not well-formed"
        return self._root

    def _where(self) -> Where:
        return Where(self._source, self._parser.CurrentLineNumber, self._parser.CurrentColumnNumber + 1)

    def _doctype(self, *_: object) -> None:
        raise XmlError(
            Diagnostic("a document type (<!DOCTYPE …>) is not allowed in a profile; remove it", self._where())
        )

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        if len(self._open) == MAX_DEPTH:
            raise XmlError(Diagnostic("elements are nested too deeply for a profile", self._where()))
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

"""XML as a tree whose nodes know where they stand, read from files that anybody may have written."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from xml.parsers import expat

from iocurve.errors import Mistake, Where

LARGEST_FILE_BYTES = 16 << 20
DEEPEST = 32


@dataclass
class Node:
    """An element."""

    name: str
    attributes: dict[str, str]
    where: Where
    children: list[Node] = field(default_factory=list)
    text: str = ""

    def child(self, name: str) -> Node | None:
        """The first child of this name."""
        return next((node for node in self.children if node.name == name), None)


class XmlError(Exception):
    """A file that is no XML that we read; ``mistake`` says why and where."""

    def __init__(self, mistake: Mistake) -> None:
        self.mistake = mistake
        super().__init__(str(mistake))


def read(path: Path) -> Node:
    """The root element. Raises ``XmlError``."""
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST_FILE_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "no file can have this name"
        raise XmlError(Mistake(f"{path} cannot be read: {reason}")) from None
    if len(content) > LARGEST_FILE_BYTES:
        raise XmlError(Mistake(f"{path} is larger than {LARGEST_FILE_BYTES} bytes; no profile is"))
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
            raise XmlError(Mistake(f"this is not XML: {expat.ErrorString(error.code)}", where)) from None
        except (LookupError, ValueError) as error:
            raise XmlError(Mistake(f"this is not XML: {error}", self._where())) from None
        assert self._root is not None, "a document without an element is not well-formed"
        return self._root

    def _where(self) -> Where:
        return Where(self._source, self._parser.CurrentLineNumber, self._parser.CurrentColumnNumber + 1)

    def _doctype(self, *_: object) -> None:
        raise XmlError(Mistake("a profile has no document type (<!DOCTYPE …>): remove it", self._where()))

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        if len(self._open) == DEEPEST:
            raise XmlError(Mistake("elements are nested too deeply for a profile", self._where()))
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

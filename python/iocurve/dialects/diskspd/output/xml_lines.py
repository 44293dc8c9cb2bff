"""Writes XML as DiskSpd does: one element per line, two spaces per level, no declaration."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from xml.sax.saxutils import escape, quoteattr

_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 forbids."""


class XmlLines:
    """Collects the lines of an XML document."""

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

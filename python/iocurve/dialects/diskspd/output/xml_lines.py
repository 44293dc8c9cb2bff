"""XML as DiskSpd writes it: an element a line, two spaces a level, no declaration."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from xml.sax.saxutils import escape, quoteattr

_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What no XML document may contain."""


class XmlLines:
    """Collects elements."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._level = 0

    @contextmanager
    def element(self, name: str, **attributes: object) -> Iterator[None]:
        """An element that holds those written inside the block."""
        self._line(f"<{name}{_attributes(attributes)}>")
        self._level += 1
        yield
        self._level -= 1
        self._line(f"</{name}>")

    def value(self, name: str, value: object, **attributes: object) -> None:
        """An element with a text; booleans are written as XML has them."""
        self._line(f"<{name}{_attributes(attributes)}>{escape(_clean(value))}</{name}>")

    def values(self, **values: object) -> None:
        """An element for each, in this order; None is left out."""
        for name, value in values.items():
            if value is not None:
                self.value(name, value)

    def empty(self, name: str, **attributes: object) -> None:
        """An element with attributes only."""
        self._line(f"<{name}{_attributes(attributes)}/>")

    def text(self) -> str:
        """All of it."""
        return "".join(f"{line}\n" for line in self._lines)

    def _line(self, text: str) -> None:
        self._lines.append("  " * self._level + text)


def _attributes(attributes: dict[str, object]) -> str:
    return "".join(f" {name}={quoteattr(_clean(value))}" for name, value in attributes.items())


def _clean(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return _NO_XML.sub("?", str(value))

"""Published facts about clients and protocols, as data (``facts/*.toml``), each with its page and the page's date.

Facts about service levels are in ``volume/profiles``, those about disks and virtual machines in ``targets``.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from iocurve.engine.structs import Struct, bundled_names, read_bundled

DIRECTORY = Path(__file__).parent / "facts"


class FactSource(Struct):
    """The page that a fact was published on."""

    page: str
    """A page of learn.microsoft.com, or of another site where it says so."""
    date: str | None = None

    def __str__(self) -> str:
        return self.page if self.date is None else f"{self.page}, {self.date}"


class Fact(Struct):
    """One number of a page."""

    about: str
    """The fact in words: ``connections of a mount, at most``."""
    value: int
    unit: str = ""
    source: str


class FactFile(Struct):
    """Facts about one subject."""

    title: str
    sources: dict[str, FactSource]
    facts: dict[str, Fact]


@cache
def files() -> dict[str, FactFile]:
    """All fact files by name."""
    return {name: FactFile.from_builtins(read_bundled(DIRECTORY, name)) for name in bundled_names(DIRECTORY)}


def value(file: str, name: str) -> int:
    """The number of a fact. Raises ``KeyError``."""
    return files()[file].facts[name].value


def cite(file: str, name: str) -> str:
    """The page of a fact and its date. Raises ``KeyError``."""
    return str(files()[file].sources[files()[file].facts[name].source])

"""The words of a dialect for the fields of a section, so that texts speak the words a job was written in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Words:
    """One dialect's."""

    names: Mapping[str, str]
    """Options by field; a field that is not here has its own name."""
    joint: str
    """Between an option and its value."""
    asks: Mapping[str, str]
    """How the dialect asks for what takes more than a number: ``direct``, ``repeat``, ``no repeat``, ``no create``,
    ``size``."""
    clone: str
    """What a person calls one of the workers of a job."""
    warns_about: frozenset[str] = frozenset()
    """Codes of warnings that concern users of this dialect alone."""
    silent_about: frozenset[str] = frozenset()
    """Codes of notes that this dialect makes by itself."""

    def option(self, field: str, value: object = None) -> str:
        """A field as the dialect names it: ``iodepth``, ``-o``; with a value ``iodepth=4``, ``-o4``."""
        name = self.names.get(field, field)
        return name if value is None else f"{name}{self.joint}{value}"

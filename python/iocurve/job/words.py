"""The names of a section's fields in a dialect: messages use the words that the job was written in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Words:
    """The words of one dialect."""

    names: Mapping[str, str]
    """Option names by field; a field that is absent keeps its own name."""
    joint: str
    """Separator of an option and its value."""
    asks: Mapping[str, str]
    """Options with their values in the dialect, for ``direct``, ``repeat``, ``no repeat``, ``no create``, ``size``."""
    worker: str
    """The dialect's name for one of the workers of a job."""
    warns_about: frozenset[str] = frozenset()
    """Codes of warnings that only this dialect needs."""
    silent_about: frozenset[str] = frozenset()
    """Codes of notes that the dialect's own reader adds."""

    def option(self, field: str, value: object = None) -> str:
        """The dialect's option for a field: ``iodepth``, ``-o``; with a value ``iodepth=4``, ``-o4``."""
        name = self.names.get(field, field)
        return name if value is None else f"{name}{self.joint}{value}"

"""What can go wrong, as one shallow tree.

::

    IocurveError            everything that iocurve says about itself
    ├── DialectError        a job file or command line has mistakes (all of them, with their places)
    ├── PlanError           a well-written job cannot be run here (all reasons)
    ├── TargetError         what is to be measured cannot be reached, read or written
    ├── RunError            a run ended before its time
    ├── Interrupted         a run was stopped before it measured anything
    └── ResultError         a result cannot be read or written

``str(error)`` is meant for people: what is wrong, where, and what to do.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


class IocurveError(Exception):
    """Base of all: its text is for people and needs no stack trace."""


@dataclass(frozen=True)
class Where:
    """A place in what a person wrote."""

    source: str
    """File name, or ``command line``."""
    line: int
    """From 1; for a command line the number of the argument."""
    column: int = 1
    """From 1, in characters."""
    option: str | None = None
    """The option as it was written."""

    def __str__(self) -> str:
        if self.source == COMMAND_LINE:
            return f"{COMMAND_LINE}, argument {self.line}"
        return f"{self.source}:{self.line}:{self.column}"


COMMAND_LINE = "command line"


@dataclass(frozen=True)
class Mistake:
    """One thing that is wrong."""

    text: str
    """What is wrong."""
    where: Where | None = None
    hint: str | None = None
    """What would be right."""

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where else ""
        hint = f" ({self.hint})" if self.hint else ""
        return f"{place}{self.text}{hint}"


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that ``name`` is most like, for "Did you mean …?"; None where none is."""
    # Only a mistake needs it.
    from difflib import get_close_matches

    found = get_close_matches(name, list(known), n=1, cutoff=0.6)
    return found[0] if found else None


def unknown(kind: str, name: str, known: Iterable[str], see: str) -> Mistake:
    """A name that does not exist; ``see`` is a command that lists the names."""
    names = {each.lower(): each for each in known}
    close = nearest(name.lower(), names)
    hint = f"did you mean {names[close]}?" if close else f"there are {', '.join(names.values())}"
    return Mistake(f"there is no {kind} '{name}'; {hint}", hint=see)


def in_order(mistakes: Iterable[Mistake]) -> list[Mistake]:
    """Each once, by file and line, so that a person can go through them."""
    unique = list(dict.fromkeys(mistakes))
    sources = list(dict.fromkeys(mistake.where.source for mistake in unique if mistake.where))

    def place(mistake: Mistake) -> tuple[int, int, int]:
        where = mistake.where
        return (sources.index(where.source), where.line, where.column) if where else (len(sources), 0, 0)

    return sorted(unique, key=place)


class _MistakesError(IocurveError):
    def __init__(self, mistakes: Sequence[Mistake]) -> None:
        self.mistakes = tuple(mistakes)
        super().__init__("\n".join(map(str, self.mistakes)))


class DialectError(_MistakesError):
    """A job file or a command line is wrong; ``mistakes`` lists everything that is."""


class PlanError(_MistakesError):
    """A job cannot be run on this machine as it is written; ``mistakes`` lists all reasons."""


class TargetError(IocurveError):
    """What is to be measured cannot be reached, read or written."""


class RunError(IocurveError):
    """A run ended before its time."""


class Interrupted(IocurveError):  # noqa: N818 - it is no fault
    """A run was stopped, by Ctrl-C, before it measured anything."""


class ResultError(IocurveError):
    """A result cannot be read (missing, not ours, cut short, of a newer version), or what is made of it not written."""

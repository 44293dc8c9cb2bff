"""The exceptions of iocurve, in one shallow tree.

::

    IocurveError            base of all
    ├── DialectError        a job file or a command line has errors (lists all, with file and line)
    ├── PlanError           a valid job cannot run on this machine (lists all reasons)
    ├── TargetError         the target cannot be reached, read or written
    ├── RunError            a run failed
    ├── Interrupted         a run was stopped before it measured anything
    └── ResultError         a result or a report cannot be read or written

``str(error)`` is a message for the user: what is wrong, where, and what to do.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import ParamSpec, TypeVar

import msgspec

P = ParamSpec("P")
T = TypeVar("T")


class IocurveError(Exception):
    """Base of all. Its text is a message for the user; no stack trace is shown."""

    ran = False
    """True if something was measured or written before: the default of a class, unless the error says otherwise."""

    def __init__(self, *args: object, ran: bool | None = None) -> None:
        super().__init__(*args)
        if ran is not None:
            self.ran = ran


class Where(msgspec.Struct, frozen=True):
    """A position in a job file or on a command line."""

    source: str
    """File name, or ``command line``."""
    line: int
    """From 1; on a command line the number of the argument."""
    column: int = 1
    """From 1, in characters."""
    option: str | None = None
    """The option as the user wrote it."""
    argument: str | None = None
    """The whole argument of a command line, where messages quote it."""

    @property
    def quoted(self) -> str:
        """The position with the argument; a long argument is cut short."""
        if self.source != COMMAND_LINE or not self.argument:
            return str(self)
        shown = "".join(letter if letter.isprintable() else "\ufffd" for letter in self.argument)
        return f"{self} ({shown if len(shown) <= _QUOTED_MAX else shown[: _QUOTED_MAX - 1] + '…'})"

    def __str__(self) -> str:
        if self.source == COMMAND_LINE:
            return f"{COMMAND_LINE}, argument {self.line}"
        return f"{self.source}:{self.line}:{self.column}"


COMMAND_LINE = "command line"
_FIELD = re.compile(r"\{(\w+)\}")
_QUOTED_MAX = 60
"""Letters of an argument that messages quote."""


class Diagnostic(msgspec.Struct, frozen=True):
    """One error in a job file, a command line or a plan."""

    text: str
    """The problem."""
    where: Where | None = None
    hint: str | None = None
    """The remedy."""

    def __str__(self) -> str:
        place = f"{self.where.quoted}: " if self.where else ""
        hint = f" ({self.hint})" if self.hint else ""
        return f"{place}{self.text}{hint}"


_OPTION_OF: ContextVar[Callable[[str], str | None]] = ContextVar(
    "option_of", default=lambda field: f"--{field.replace('_', '-')}"
)
"""The option of a field in the words of the caller, None where it takes none; by default those of a command line."""


def option(field: str) -> str:
    """A field of a request as its caller writes it: ``--iodepth-max`` on a command line, ``iodepth_max=`` in Python.

    The name alone where the caller has no such option: ``quota`` of a target.
    """
    return _OPTION_OF.get()(field) or field


def remedies(*ways: str) -> str:
    """The ways that a caller has instead: ``use --quick, or name a directory``, without those whose options it lacks.

    A way names options by their fields: ``use {quick} for a smaller data set``.
    """
    option_of = _OPTION_OF.get()
    open_ways = [way for way in ways if all(option_of(field) for field in _FIELD.findall(way))]
    said = [_FIELD.sub(lambda found: option(found[1]), way) for way in open_ways]
    return ", or ".join([", ".join(said[:-1]), *said[-1:]] if len(said) > 1 else said)


@contextmanager
def options_written_as(option_of: Callable[[str], str | None]) -> Iterator[None]:
    """While the context lasts, ``option`` writes fields in the words of another caller; None: it has no such option."""
    token = _OPTION_OF.set(option_of)
    try:
        yield
    finally:
        _OPTION_OF.reset(token)


_ARGUMENTS = {"short": "form='short'", "full": "form='full'"}
"""Options of commands that are values of an argument."""


def argument_of(field: str) -> str:
    """A field as the argument of a function: ``iodepth_max=``."""
    return _ARGUMENTS.get(field, f"{field}=")


def in_arguments(function: Callable[P, T]) -> Callable[P, T]:
    """The function, whose errors name arguments where those of commands name options: ``iodepth_max=``."""

    # Only the functions for programs need it.
    from inspect import signature

    @wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> T:
        with options_written_as(option_of):
            return function(*args, **kwargs)

    def option_of(field: str) -> str | None:
        name = argument_of(field).partition("=")[0]
        return argument_of(field) if name in names or takes_more else None

    parameters = signature(function).parameters
    names, takes_more = set(parameters), any(one.kind == one.VAR_KEYWORD for one in parameters.values())
    return called


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name most similar to ``name``, for "did you mean …?"; None if none is similar."""
    # Imported here because only error messages need it.
    from difflib import get_close_matches

    found = get_close_matches(name, list(known), n=1, cutoff=0.6)
    return found[0] if found else None


def unknown(kind: str, name: str, known: Iterable[str], see: str) -> Diagnostic:
    """A name that does not exist; ``see`` is a command that lists the names."""
    names = {each.lower(): each for each in known}
    close = nearest(name.lower(), names)
    hint = f"did you mean {names[close]}?" if close else f"there are {', '.join(names.values())}"
    return Diagnostic(f"there is no {kind} '{name}'; {hint}", hint=see)


def words_of(text: str, named: str = "") -> list[str]:
    """The words of a command line, as a shell splits it. Raises ``DialectError``, which begins with ``named``."""
    try:
        return shlex.split(text)
    except ValueError:
        raise DialectError([Diagnostic(f"{f'{named} ' if named else ''}{text}: a quote is not closed")]) from None


def in_order(errors: Iterable[Diagnostic]) -> list[Diagnostic]:
    """Removes duplicates and sorts by file and line."""
    unique = list(dict.fromkeys(errors))
    sources = list(dict.fromkeys(error.where.source for error in unique if error.where))

    def place(error: Diagnostic) -> tuple[int, int, int]:
        where = error.where
        return (sources.index(where.source), where.line, where.column) if where else (len(sources), 0, 0)

    return sorted(unique, key=place)


ERRORS_SHOWN = 20
"""Errors in the text of an error; the rest is counted."""


class _DiagnosticsError(IocurveError):
    def __init__(self, errors: Sequence[Diagnostic]) -> None:
        self.errors = tuple(errors)
        shown = [*map(str, self.errors[:ERRORS_SHOWN])]
        if len(self.errors) > ERRORS_SHOWN:
            shown.append(f"… and {len(self.errors) - ERRORS_SHOWN:,} more errors")
        super().__init__("\n".join(shown))


class DialectError(_DiagnosticsError):
    """A job file or a command line has errors; ``errors`` lists all of them."""


class PlanError(_DiagnosticsError):
    """A valid job cannot run on this machine; ``errors`` lists all reasons."""


class TargetError(IocurveError):
    """The target cannot be reached, read or written."""


class RunError(IocurveError):
    """A run failed."""

    ran = True


class Interrupted(IocurveError):  # noqa: N818 - an interrupt is not an error
    """Ctrl-C stopped a run before it measured anything."""


class ResultError(IocurveError):
    """A result cannot be read (missing, truncated, not of iocurve, newer schema), or a report cannot be written."""

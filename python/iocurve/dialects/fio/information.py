"""Answers to --version, --enghelp and --cmdhelp: fio's version, the I/O engines, and which options are supported."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iocurve.dialects.registry import help_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from iocurve.dialects.fio.read.draft import Option

FIO_VERSION = "fio-3.33"
"""Version shown in fio's output. Parsers derive the units from the number after ``fio-``, so it must be there."""


def information(arguments: Sequence[str]) -> str | None:
    """Output of the first option that only asks for information; None if the command line has none.

    Scripts grep it for a version, an engine or an option, so engines and options are listed one a line as in fio.
    Raises ``DialectError`` for an unknown engine or option.
    """
    # Scripts ask for the version before each run: nothing else is loaded for it.
    if tuple(arguments) in (("--help",), ("-h",)):
        return help_text("fio", 22, "=")
    if tuple(arguments) == ("--version",):
        return FIO_VERSION
    from iocurve.dialects.fio.read.parse import commands
    from iocurve.foundation.errors import Diagnostic, DialectError

    asked = next((command for command in commands(arguments) if command.name in _PRINTERS), None)
    if asked is None:
        return None
    try:
        return _PRINTERS[asked.name](asked.value or "")
    except ValueError as error:
        raise DialectError([Diagnostic(str(error), asked.where)]) from None


def _engines(asked: str) -> str:
    from iocurve.dialects.fio.read.effects import ENGINES, METADATA_ENGINES, SPACE_ENGINES
    from iocurve.dialects.fio.read.options import OPTIONS
    from iocurve.dialects.fio.read.values import either

    engines = (*ENGINES, *METADATA_ENGINES, *SPACE_ENGINES)
    if not asked:
        return "\n".join(["Available IO engines:", *(f"\t{name}" for name in engines)])
    name, _, option = asked.partition(",")
    if name not in engines:
        raise ValueError(f"ioengine '{name}' is not supported; use {either(engines)}")
    own = [known for known in OPTIONS if name in known.engines]
    if option:
        own = [known for known in own if option in (known.name, *known.aliases)]
        if not own:
            raise ValueError(f"ioengine={name} has no option '{option}'")
    return _table(own) or f"IO engine {name} has no options"


def _options(asked: str) -> str:
    from iocurve.dialects.fio.read.options import BY_NAME, OPTIONS
    from iocurve.dialects.fio.read.parse import closest

    if asked in ("", "all"):
        return _table(OPTIONS)
    if asked not in BY_NAME:
        raise ValueError(" ".join(filter(None, (f"unknown option '{asked}'.", closest(asked, BY_NAME)))))
    option = BY_NAME[asked]
    lines = [f"{option.name:>20}: {option.support}"]
    lines += [f"{'alias':>20}: {', '.join(option.aliases)}"] if option.aliases else []
    lines += [f"{'ioengine':>20}: {', '.join(option.engines)}"] if option.engines else []
    return "\n".join(lines)


def _table(options: Iterable[Option]) -> str:
    return "\n".join(f"{option.name:<24}: {option.support}" for option in options)


_PRINTERS: dict[str, Callable[[str], str]] = {
    "version": lambda _: FIO_VERSION,
    "enghelp": _engines,
    "cmdhelp": _options,
}

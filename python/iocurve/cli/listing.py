"""The commands as data, and ``iocurve --help``: it lists them without loading what parses and runs them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from iocurve.dialects.registry import REGISTRY

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

SUMMARY = "Measures how much I/O a volume sustains, plots latency against load, and finds the bottleneck."

EXIT_STATUS = """\
Exit status: 0 everything was done; 1 something could not be done, or a measurement is incomplete; \
2 an error in the command line, a job file or a target, nothing was run (iocurve fio: 1, as fio); \
3 the job that was explained cannot run on this machine; 4 a check of --fail-if failed, or a row of doctor is red; \
5 no check failed, and the interval of a checked value spans its bound, or doctor's worst row is yellow; \
130 Ctrl-C; 143 TERM; 129 HUP."""


class Command(NamedTuple):
    """An entry of ``iocurve --help``; a tuple, which loads nothing."""

    name: str
    implementation: str
    """Module and function or group below ``iocurve.cli``."""
    help: str
    """The action, in one sentence."""
    example: str
    """A command line; tests parse it."""
    takes: str
    """The arguments in the line of usage, where one may be left out; by default the parser writes it."""
    has_subcommands: bool
    """The implementation is an ``App`` with its own help text."""
    prints_help: bool
    """The implementation gets ``--help`` as an argument."""

    @property
    def path(self) -> str:
        """Import path for the parser."""
        return f"iocurve.cli.{self.implementation}"


def _read(text: str) -> dict[str, list[Command]]:
    """Reads ``listing.txt``: a title, then for each command its name and arguments, implementation, help and example.

    ``iocurve.cli`` runs dialects before this module is loaded; their help says what they run.
    """
    groups: dict[str, list[Command]] = {}
    lines = [line.strip() for line in text.splitlines() if line]
    while lines:
        if lines[0].startswith("# "):
            title = lines.pop(0).removeprefix("# ")
            groups[title] = []
            continue
        (name, _, takes), (path, *how) = lines[0].partition(" "), lines[1].split()
        help_text = lines[2].format(REGISTRY[name].runs) if name in REGISTRY else lines[2]
        flags = ("subcommands" in how, "prints_help" in how)
        groups[title].append(Command(name, path, help_text, lines[3], takes, *flags))
        del lines[:4]
    return groups


with open(f"{__file__.rpartition('/')[0]}/listing.txt", encoding="utf-8") as _listing:  # noqa: PTH123 - pathlib is slow
    GROUPS = _read(_listing.read())
"""The commands in the order of ``iocurve --help``, by purpose."""
COMMANDS = [command for commands in GROUPS.values() for command in commands]

_FLAGS = (("--help (-h)", "Display this message and exit."), ("--version", "Display application version."))
_COLUMNS_DEFAULT = 80
_NAME_COLUMNS = 10
"""Least width of the names of commands."""
_NAME, _EXAMPLE, _END = "\x1b[1;36m", "\x1b[2m", "\x1b[0m"


def overview(columns: int, *, styled: bool) -> str:
    """The text of ``iocurve --help``, with lines of this width, in the styles of a terminal or plain."""
    boxes = [
        (title, [(command.name, command.help, command.example) for command in commands])
        for title, commands in GROUPS.items()
    ]
    boxes.append(("Help", [(flag, text, "") for flag, text in _FLAGS]))
    lines = ["Usage: iocurve COMMAND", "", *_wrapped(SUMMARY, columns), ""]
    for title, entries in boxes:
        lines += _box(title, entries, columns, styled=styled)
    return "\n".join((*lines, "", *_wrapped(EXIT_STATUS, columns)))


def terminal() -> tuple[int, bool]:
    """The width of stdout, and True if it shows styles."""
    said = os.environ.get("COLUMNS", "")
    try:
        columns = os.get_terminal_size(1).columns
    except OSError:
        return int(said) if said.isdigit() else _COLUMNS_DEFAULT, False
    return int(said) if said.isdigit() else columns, not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _box(title: str, entries: Iterable[tuple[str, str, str]], columns: int, *, styled: bool) -> Iterator[str]:
    """A frame around names with what they do, and an example below each."""
    rows = list(entries)
    name_columns = max(_NAME_COLUMNS, *(len(name) for name, _, _ in rows))
    text_columns = max(columns - name_columns - 6, 1)

    def line(name: str, text: str, style: str) -> str:
        left, right = name.ljust(name_columns), text.ljust(text_columns)
        if styled:
            left, right = f"{_NAME}{left}{_END}", f"{style}{right}{_END}" if style else right
        return f"│ {left}  {right} │"

    yield f"╭─ {title} ".ljust(columns - 1, "─") + "╮"
    for name, text, example in rows:
        first, *others = _wrapped(text, text_columns)
        yield line(name, first, "")
        yield from (line("", each, "") for each in others)
        yield from (line("", each, _EXAMPLE) for each in _wrapped(example, text_columns))
    yield "╰".ljust(columns - 1, "─") + "╯"


def _wrapped(text: str, columns: int) -> list[str]:
    """Lines of at most ``width`` characters, broken at spaces; a longer word has a line."""
    lines: list[str] = []
    for word in text.split():
        if lines and len(lines[-1]) + 1 + len(word) <= columns:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines

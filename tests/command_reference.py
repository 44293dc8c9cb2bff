"""The generated part of ``docs/commands.md``: the help of every command, as Markdown.

``IOCURVE_UPDATE_GOLDEN=1 pytest tests/test_docs.py -k commands`` writes it into the page, below the marker.
"""

import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

from cyclopts import App

from iocurve.cli.commands import app
from iocurve.cli.common import OPTION_GROUPS
from iocurve.cli.listing import EXIT_STATUS, GROUPS, Command
from iocurve.dialects.registry import REGISTRY

MARKER = "<!-- Generated from the help of the commands by tests/command_reference.py. Do not edit below this line. -->"
OPTION = re.compile(r"^\* `(?P<names>[^`]+)`: *(?P<meaning>.*)$", re.MULTILINE)


SHARED_FROM = 2
"""Least number of commands that take an option with the same text, from which the page describes it once."""


def reference() -> str:
    """All commands by purpose, the options that several take, and the exit statuses."""
    helped = [one for commands in GROUPS.values() for command in commands for one in _helped(command)]
    takers: dict[Row, list[str]] = {}
    for one, name in helped:
        for row in _rows(one):
            takers.setdefault(row, []).append(name.removeprefix("iocurve "))
    shared = {row: names for row, names in takers.items() if len(names) >= SHARED_FROM}
    parts = [MARKER]
    first: dict[str, str] = {}
    for title, commands in GROUPS.items():
        parts.append(f"## {title}")
        for command in commands:
            if command.name in REGISTRY or command.prints_help:
                parts.append(f"### iocurve {command.name}\n\n```text\n{_printed_help(command.name)}\n```")
            parts += [_help(one, name, set(shared), first) for one, name in _helped(command)]
    parts += ["## Shared options", *_shared(shared), "## Exit status", _exit_status()]
    return "\n\n".join(parts) + "\n"


def _helped(command: Command) -> list[tuple[App, str]]:
    """The applications of a command that have options, with their names."""
    if command.name in REGISTRY or command.prints_help:
        return []
    found, name = app[command.name], f"iocurve {command.name}"
    if not command.has_subcommands:
        return [(found, name)]
    subcommands = [one for one in sorted(found) if not one.startswith("-") and one not in REGISTRY]
    own = [(found, name)] if command.name == "explain" else []
    return [*own, *((found[one], f"{name} {one}") for one in subcommands)]


FIO_DESCRIBES = re.compile(
    r"^  --(?:out|fail-if|metrics|hosts|serve|disk|profile|on)[= ].*\n(?: {6,}.*\n)*|^\nTo see what .*(?:\n|\Z)",
    re.MULTILINE,
)
"""Options and the sentence on ``explain`` that the help of ``iocurve fio`` has, and the page once."""
OTHERS_OPTIONS = re.compile(r"(?:^  +\S.*\n)+(?:^\n)?(?=^iocurve adds$)", re.MULTILINE)


def _printed_help(command: str) -> str:
    """The help of a command that parses its own arguments, without the options of the other tool."""
    words = [sys.executable, "-m", "iocurve", command, "--help"]
    text = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True).stdout.strip()
    text = OTHERS_OPTIONS.sub("  …\n", text, count=1)
    return text if command == "fio" else FIO_DESCRIBES.sub("", text).strip()


@dataclass(frozen=True)
class Row:
    """An argument or an option, with its text."""

    names: str
    meaning: str

    @property
    def is_option(self) -> bool:
        """False for an argument."""
        return self.names.startswith("-")

    @property
    def name(self) -> str:
        """Its name without the value."""
        return self.names.split()[0].rstrip(",")

    def __str__(self) -> str:
        return f"- `{self.names}`: {self.meaning}"


def _help(one: App, name: str, shared: Set[Row], first: dict[str, str]) -> str:
    """Description, arguments and options that other commands lack, and the example.

    ``first`` has the command that was the first with the same list of shared options.
    """
    text = one.generate_docs("markdown", recursive=False, usage_name=name)
    description = re.split(r"\n\*\*|\n#", text.partition("```\n")[2].partition("```")[0].strip())[0].strip()
    example = re.search(r"Example: (.*)", str(one.help_epilogue or ""))
    usage = f"`{one.usage.removeprefix('Usage: ')}`" if one.usage else ""
    rows = _rows(one)
    others = ", ".join(_named([row for row in rows if row in shared], shared))
    other = first.setdefault(others, name)
    others = others if other == name or len(others) < len(other) else f"as [{other}](#{other.replace(' ', '-')})"
    also = f"[Shared](#shared-options): {others}" if others else ""
    parts = [f"### {name}", usage, description, _listed(row for row in rows if row not in shared), also]
    if other != name and others.startswith("as [") and not any(row not in shared for row in rows):
        return f"### {name}\n\n{others[0].upper()}{others[1:]}."
    return "\n\n".join(
        part for part in (*parts, f"Example: `{example[1]}`" if example and example[1] != name else "") if part
    )


def _named(own: Sequence[Row], shared: Set[Row]) -> Iterator[str]:
    """The shared options of a command: those of a heading together where the command has them all."""
    headings = {heading: {row.name for row in shared if _heading(row) == heading} for heading in OPTION_GROUPS}
    whole = {heading for heading, names in headings.items() if len(names) > 1 and names <= {row.name for row in own}}
    yield from (f"`{row.name}`" for row in own if _heading(row) not in whole)
    yield from (f"[{heading}](#{heading.lower().replace(' ', '-')})" for heading in OPTION_GROUPS if heading in whole)


def _heading(row: Row) -> str:
    if not row.is_option:
        return "Arguments"
    return next((title for title, names in OPTION_GROUPS.items() if row.name[2:] in names.split()), "Others")


def _rows(one: App) -> list[Row]:
    text = re.sub(r"\n {2,}(?=\S)", " ", one.generate_docs("markdown", recursive=False))
    text = re.sub(r" *(?:\*\[default: (?:\(\)|\"\")\]\*|\*\*\[required\]\*\*)", "", text)
    return [Row(row["names"], row["meaning"].strip()) for row in OPTION.finditer(text)]


def _listed(rows: Iterable[Row]) -> str:
    return "\n".join(map(str, rows))


def _shared(takers: Mapping[Row, Sequence[str]]) -> Iterator[str]:
    """The arguments and options that several commands take, by purpose."""
    for title in ("Arguments", *OPTION_GROUPS, "Others"):
        if found := [row for row in takers if _heading(row) == title]:
            yield f"### {title}"
            yield "\n".join(_described(row, takers) for row in sorted(found, key=lambda row: (row.names, row.meaning)))


def _described(row: Row, takers: Mapping[Row, Sequence[str]]) -> str:
    """A row; with its commands where most of those that have the name describe it in other words.

    ``scenario run`` is the same command as ``run``.
    """
    names = [name for name in takers[row] if " " not in name or name.split()[-1] not in takers[row]]
    most = max((other for other in takers if other.name == row.name), key=lambda other: len(takers[other]))
    return str(row) if row == most else f"{row} ({', '.join(names)})"


def _exit_status() -> str:
    """The sentence at the end of ``iocurve --help`` as a list."""
    parts = EXIT_STATUS.removeprefix("Exit status: ").rstrip(".").split("; ")
    return "\n".join(f"- {status}: {meaning}" for status, meaning in (part.split(" ", 1) for part in parts)) + "."

"""The generated part of ``docs/commands.md``: the help of every command, as Markdown.

``IOCURVE_UPDATE_GOLDEN=1 pytest tests/test_docs.py -k commands`` writes it into the page, below the marker.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator

from cyclopts import App

from goldens import present
from iocurve.cli.commands import app
from iocurve.cli.listing import EXIT_STATUS, GROUPS, Command
from iocurve.dialects.registry import REGISTRY

MARKER = "<!-- Generated from the help of the commands by tests/command_reference.py. Do not edit below this line. -->"
OPTION = re.compile(r"^\* `(?P<names>[^`]+)`: *(?P<meaning>.*)$", re.MULTILINE)


def reference() -> str:
    """All commands by purpose, then the exit statuses."""
    sections = (part for title, commands in GROUPS.items() for part in (f"## {title}", *map(_command, commands)))
    return "\n\n".join((MARKER, *sections, "## Exit status", _exit_status())) + "\n"


def _command(command: Command) -> str:
    if command.name in REGISTRY or command.prints_help:
        return f"### iocurve {command.name}\n\n```text\n{_printed_help(command.name)}\n```"
    found = app[command.name]
    if not command.has_subcommands:
        return _help(found, f"iocurve {command.name}")
    subcommands = [name for name in sorted(found) if not name.startswith("-") and name not in REGISTRY]
    own = [_help(found, f"iocurve {command.name}")] if command.name == "explain" else []
    return "\n\n".join((*own, *(_help(found[name], f"iocurve {command.name} {name}") for name in subcommands)))


def _printed_help(command: str) -> str:
    """The help of a command that parses its own arguments."""
    words = [sys.executable, "-m", "iocurve", command, "--help"]
    return subprocess.run(words, capture_output=True, text=True, timeout=60, check=True).stdout.strip()


def _help(one: App, name: str) -> str:
    """Usage, description, a table of arguments and options, and the example."""
    text = one.generate_docs("markdown", recursive=False, usage_name=name)
    usage = present(re.search(r"^iocurve .*$", text, re.MULTILINE))
    description = re.split(r"\n\*\*|\n#", text.partition("```\n")[2].partition("```")[0].strip())[0].strip()
    example = re.search(r"Example: (.*)", str(one.help_epilogue or ""))
    line = one.usage.removeprefix("Usage: ") if one.usage else usage[0]
    parts = [f"### {name}", f"```text\n{line}\n```", description, "\n".join(_table(text))]
    return "\n\n".join(part for part in (*parts, f"Example: `{example[1]}`" if example else "") if part)


def _table(text: str) -> Iterator[str]:
    rows = list(OPTION.finditer(re.sub(r"\n {2,}(?=\S)", " ", text)))
    if rows:
        yield from ("| argument or option | meaning |", "| --- | --- |")
    for row in rows:
        yield f"| `{row['names']}` | {row['meaning'].strip().replace('|', chr(92) + '|')} |"


def _exit_status() -> str:
    """The sentence at the end of ``iocurve --help`` as a table."""
    parts = EXIT_STATUS.removeprefix("Exit status: ").rstrip(".").split("; ")
    rows = (f"| {status} | {meaning} |" for status, meaning in (part.split(" ", 1) for part in parts))
    return "\n".join(("| status | meaning |", "| --- | --- |", *rows))

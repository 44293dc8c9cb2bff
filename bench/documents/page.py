"""Writes docs/evidence/published.md from the directories of the commands."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.documents.commands import COMMANDS
from bench.documents.rows import DOCUMENTS, Row
from bench.documents.shown import reading_of
from iocurve.foundation.units import format_bytes
from iocurve.result.document_file import RESULT_NAME

HEAD = """# The published documents, statement by statement

Five published benchmark documents, and what iocurve shows of each of their statements and methods on a small machine.
`make documents` runs the commands and writes this page. A command that has run is not run again: `target/documents`
has the results and reports.

The embedded targets run at a fraction of the speed of the service that they emulate. A published rate with "× 0.1" is
compared at this fraction; speedups are the same at any speed. The ratio is the measured value over the published one,
and 1 within a published range. Ratios say how well the *emulated* targets are fitted, and that each method of the
documents runs: nothing here was measured on the services themselves. "noisy" and "CPU-starved" mark points during which
other programs held the processors of this machine; the table of commands says of how many points that is so,
and on which day a command ran. `{url}` is the export of an emulated volume that serves for one command.
"""
DONE = "command.json"
"""The file in a command's directory that says that the command has ended, when, and how long it took."""


def page(out: Path, before: str) -> str:
    """The page in Markdown. A statement whose command has not run in ``out`` has its row of the page ``before``."""
    kept = {tuple(row[:3]): line for line in before.splitlines() if len(row := line.strip("| ").split(" | ")) >= 3}
    counts = [len(rows) for _, rows in DOCUMENTS]
    lines = [HEAD, f"{sum(counts)} statements and methods. {_machine(out)}"]
    for title, rows in DOCUMENTS:
        lines += ["", f"## {title}", "", "| heading | statement | command | result | published | ratio |"]
        lines += ["| --- | --- | --- | --- | --- | --- |", *_table(rows, out, kept)]
    lines += [
        "",
        "## Commands",
        "",
        "| name | command | time | noisy points | day |",
        "| --- | --- | --- | --- | --- |",
    ]
    lines += [_command(name, words, out / name, before) for name, words in COMMANDS.items()]
    return "\n".join(lines) + "\n"


def _table(rows: Sequence[Row], out: Path, kept: dict[tuple[str, ...], str]) -> Iterator[str]:
    for heading, statement, command, show in rows:
        if (out / command / DONE).is_file():
            yield _row(heading, statement, command, *show(out / command))
        else:
            yield kept.get((heading, statement, command)) or _row(heading, statement, command, "not run", "", "")


def _row(*cells: str) -> str:
    return f"| {' | '.join(cell.replace('|', ',') for cell in cells)} |"


def _command(name: str, words: Sequence[str], directory: Path, before: str) -> str:
    """The row of a command: its time, its noisy points and its day, as they were when it ran."""
    text = f"`iocurve {_text(words)}`"
    path = directory / DONE
    if not path.is_file():
        rows = (line for line in before.splitlines() if line.startswith(f"| {name} | `"))
        return next(rows, _row(name, text, "not run", "", ""))
    ended = json.loads(path.read_text(encoding="utf-8"))
    has_result = (directory / "report" / RESULT_NAME).is_file()
    points = reading_of(directory).result.points if has_result else []
    noisy = f"{sum(bool(point.noise) for point in points)} of {len(points)}" if points else ""
    return _row(name, text, f"{ended['seconds']:.0f} s", noisy, ended.get("day", ""))


def _machine(out: Path) -> str:
    """The machine and the versions of the results."""
    found = [reading_of(out / name) for name in COMMANDS if (out / name / "report" / RESULT_NAME).is_file()]
    first = next((one.result.host for one in found if one.result.host), None)
    if first is None:
        return "Nothing has run."
    return f"Machine: {first.cpus} processors, {format_bytes(first.memory_bytes)} of memory, Linux {first.kernel}."


def _text(words: Sequence[str]) -> str:
    quoted = [f"'{word}'" if set(word) & set(" ?*") or "&" in word.replace("&&", "") else word for word in words]
    return " ".join(quoted).replace("{root}/", "").replace("&&", "&& iocurve")

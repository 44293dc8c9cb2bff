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
other programs held the processors of this machine.
"""


def page(out: Path) -> str:
    """The page in Markdown; statements whose command has not run are listed as such."""
    counts = [len(rows) for _, rows in DOCUMENTS]
    lines = [HEAD, f"{sum(counts)} statements and methods. {_machine(out)}"]
    for title, rows in DOCUMENTS:
        lines += ["", f"## {title}", "", "| heading | statement | command | result | published | ratio |"]
        lines += ["| --- | --- | --- | --- | --- | --- |", *_table(rows, out)]
    lines += ["", "## Commands", "", "| name | command | time |", "| --- | --- | --- |"]
    lines += [f"| {name} | `iocurve {_text(words)}` | {_seconds(out / name)} |" for name, words in COMMANDS.items()]
    return "\n".join(lines) + "\n"


def _table(rows: Sequence[Row], out: Path) -> Iterator[str]:
    for heading, statement, command, show in rows:
        directory = out / command
        cells = show(directory) if (directory / "command.json").is_file() else ("not run", "", "")
        yield f"| {' | '.join(cell.replace('|', ',') for cell in (heading, statement, command, *cells))} |"


def _machine(out: Path) -> str:
    """The machine and the versions of the results; their disturbances."""
    ended = [name for name in COMMANDS if (out / name / "command.json").is_file()]
    found = [reading_of(out / name) for name in ended if (out / name / "report" / RESULT_NAME).is_file()]
    hosts = [one.result.host for one in found if one.result.host]
    if not hosts:
        return "Nothing has run."
    first = hosts[0]
    points = [point for one in found for point in one.result.points]
    disturbed = sum(bool(point.noise) for point in points)
    return (
        f"Machine: {first.cpus} processors, {format_bytes(first.memory_bytes)} of memory, Linux {first.kernel}; "
        f"{disturbed} of {len(points)} points were noisy by other work."
    )


def _text(words: Sequence[str]) -> str:
    return " ".join(f"'{word}'" if set(word) & set(" ?&*") else word for word in words).replace("{root}/", "")


def _seconds(directory: Path) -> str:
    path = directory / "command.json"
    return f"{json.loads(path.read_text(encoding='utf-8'))['seconds']:.0f} s" if path.is_file() else "not run"

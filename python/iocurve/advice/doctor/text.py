"""Doctor's rows in the terminal, and as Markdown."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping

from iocurve.advice.doctor.checks import CHECKS, WORST_FIRST, Diagnosis, DoctorRow, TuningCheck
from iocurve.foundation.units import counted
from iocurve.report.table import Table, code, escaped

COLUMNS = ("state", "what", "where", "found")


def summary(diagnosis: Diagnosis) -> str:
    """``2 red, 3 yellow, 9 green``."""
    counts = {state: sum(row.state == state for row in diagnosis.rows) for state in WORST_FIRST}
    found = ", ".join(f"{number} {state}" for state, number in counts.items() if number)
    return f"{diagnosis.subject}: {found or 'nothing could be checked'}"


def ordered(diagnosis: Diagnosis) -> list[DoctorRow]:
    """The rows, the worst first."""
    return sorted(diagnosis.rows, key=lambda row: WORST_FIRST.index(row.state))


def cells(diagnosis: Diagnosis) -> list[tuple[str, str, str, str]]:
    """The rows of the table."""
    return [(row.state, row.title, row.subject, row.found) for row in ordered(diagnosis)]


def remedies(diagnosis: Diagnosis) -> Iterator[str]:
    """For each yellow and red row: why it matters, its source, the fix, and how to undo it."""
    for row in ordered(diagnosis):
        if row.state == "green":
            continue
        yield f"{row.state}: {row.title} of {row.subject}: {row.found}"
        for label, text in (("why", row.why), ("source", row.source), ("fix", row.fix), ("undo", row.undo)):
            if text:
                yield _labelled(label, text)
        yield ""


def unchecked(diagnosis: Diagnosis) -> Iterator[str]:
    """The checks that could not be made."""
    for name, reason in diagnosis.unchecked.items():
        yield f"not checked: {CHECKS[name].title}: {reason}"


def _labelled(label: str, text: str) -> str:
    # Commands stay on one line, so that they can be copied.
    if label in ("fix", "undo"):
        return f"  {label:<7} {text}"
    return "\n".join(textwrap.wrap(text, 110, initial_indent=f"  {label:<7} ", subsequent_indent=" " * 10))


def markdown(diagnosis: Diagnosis) -> bytes:
    """A heading with the counts, and all rows, for a ticket or a pull request."""
    rows = [
        (*line, f"{row.why} ({row.source})", row.fix or "", row.undo or "")
        for line, row in zip(cells(diagnosis), ordered(diagnosis), strict=True)
    ]
    parts = [f"### iocurve doctor: {escaped(summary(diagnosis))}", ""]
    parts += Table((*COLUMNS, "why, source", "fix", "undo"), rows).markdown()
    parts += ["", *unchecked(diagnosis)]
    return ("\n".join(parts).rstrip() + "\n").encode()


def checks_table(checks: Mapping[str, TuningCheck] = CHECKS) -> str:
    """The table of docs/doctor.md."""
    rows = [(code(one.name), one.title, one.rule, one.why, one.source) for one in checks.values()]
    columns = ("check", "what", "green, yellow, red", "why", "source")
    return "\n".join(Table(columns, rows).markdown()) + "\n"


def status(diagnosis: Diagnosis) -> int:
    """The exit status: 0 all green, 5 the worst row is yellow, 4 a row is red."""
    return {"green": 0, "yellow": 5, "red": 4}[diagnosis.state]


def closing(diagnosis: Diagnosis) -> str:
    """The line after the table."""
    ailing = [row for row in diagnosis.rows if row.state != "green"]
    lasting = {"nfs.read_ahead", "nfs.slots", "nfs.session_slots", "nfs.tcp_buffers", "disk.scheduler"}
    if not ailing:
        return "nothing to change"
    hints = ["iocurve doctor --fix shows the files that make fixes last"] if {r.check for r in ailing} & lasting else []
    hints += ["--measure measures the gain here"] if any(row.setting for row in ailing) else []
    return "; ".join([counted(len(ailing), "row") + " to look at", *hints])

"""``make truth``: measures how true iocurve's figures and conclusions are, and writes the tables of docs/truth.md.

Each section is a function that gives the rows of a table, which lies between two marks in the page, so that sections
can be measured by themselves: ``python -m bench.truth intervals steps``. A new section needs a function, a line in
``SECTIONS`` and its two marks in the page.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence

from bench.truth import comparisons, conclusions, curves, delayed, measured, searches, served
from bench.truth.table import PAGE, Section, with_table

SECTIONS = {
    "closed": Section(served.closed, measured.COLUMNS),
    "open": Section(served.opened, measured.COLUMNS),
    "queues": Section(served.theory, ("figure", "theory", "stub's log", "iocurve", "two standard errors")),
    "calls": Section(delayed.calls, measured.COLUMNS),
    "intervals": Section(conclusions.intervals),
    "stopping": Section(conclusions.stopping, conclusions.STOPPING_COLUMNS),
    "gains": Section(conclusions.gains),
    "compared": Section(comparisons.compared),
    "steps": Section(conclusions.steps),
    "law": Section(conclusions.law),
    "capacity": Section(curves.capacity, curves.COLUMNS),
    "most-load": Section(searches.most_load),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures sections and writes their tables."""
    parser = argparse.ArgumentParser(prog="make truth", description=__doc__)
    parser.add_argument("sections", nargs="*", choices=[*SECTIONS, []], help="all, if none is named")
    parser.add_argument("--scale", type=float, default=1.0, help="factor on the numbers of runs and operations")
    options = parser.parse_args(arguments)
    for name in options.sections or SECTIONS:
        section, began, rows = SECTIONS[name], time.monotonic(), []
        for row in section.rows(options.scale):
            print(f"{name}: {' | '.join(row)}", flush=True)
            rows.append(row)
        page = with_table(PAGE.read_text(encoding="utf-8"), name, section.columns, rows)
        PAGE.write_text(page, encoding="utf-8")
        print(f"{name}: {time.monotonic() - began:.0f} s", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())

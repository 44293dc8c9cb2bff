"""``make truth``: measures how true iocurve's figures and conclusions are, and writes the tables of
docs/evidence/accuracy.md.

Each section is a function that gives the rows of a table, which lies between two marks in the page, so that sections
can be measured by themselves: ``python -m bench.truth intervals steps``. Sections that measure in real time run first,
one by one; the simulated ones share the processors. No row starts after ``--seconds``: the rows that are left keep what
an earlier call measured. The last table has the time and the load of the machine for each section, and how many of its
rows are new. A new section needs a function, a line in ``SECTIONS`` and its two marks in the page.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass

from bench.truth import (
    comparisons,
    conclusions,
    curves,
    delayed,
    families,
    gap_shares,
    knees,
    measured,
    percentiles,
    searched,
    searches,
    served,
    slow_devices,
)
from bench.truth.table import PAGE, Row, Section, rows_of, with_table

QUEUES = ("figure", "theory", "stub's log", "iocurve", "two standard errors")
SECTIONS = {
    "closed": Section(served.closed, measured.COLUMNS, is_real_time=True),
    "open": Section(served.opened, measured.COLUMNS, is_real_time=True),
    "queues": Section(served.theory, QUEUES, is_real_time=True),
    "calls": Section(delayed.calls, measured.COLUMNS, is_real_time=True),
    "slow": Section(slow_devices.slow, slow_devices.COLUMNS, is_real_time=True),
    "knees": Section(knees.knees, knees.COLUMNS, is_real_time=True),
    "intervals": Section(conclusions.intervals),
    "stopping": Section(conclusions.stopping, conclusions.STOPPING_COLUMNS),
    "families": Section(families.scored, families.COLUMNS),
    "sampled": Section(families.sampled),
    "gains": Section(conclusions.gains),
    "shares": Section(gap_shares.shares, gap_shares.COLUMNS),
    "pairs": Section(gap_shares.pairs, gap_shares.LIVE_COLUMNS, is_real_time=True),
    "compared": Section(comparisons.compared),
    "power": Section(comparisons.power, comparisons.POWER_COLUMNS),
    "steps": Section(conclusions.steps),
    "histories": Section(conclusions.histories),
    "law": Section(conclusions.law),
    "percentiles": Section(percentiles.percentiles),
    "capacity": Section(curves.capacity, curves.COLUMNS),
    "drawn-knees": Section(searched.knees_drawn, searched.COLUMNS),
    "drawn-loads": Section(searches.loads_drawn, searches.DRAWN_COLUMNS),
    "most-load": Section(searches.most_load),
}
LONGEST_FIRST = (
    "compared",
    "steps",
    "percentiles",
    "most-load",
    "drawn-loads",
    "capacity",
    "drawn-knees",
    "families",
    "power",
    "histories",
    "stopping",
    "shares",
    "intervals",
    "sampled",
    "gains",
    "law",
)
"""Simulated sections, so that the processors finish together."""

MACHINE_COLUMNS = ("section", "rows", "scale", "began (UTC)", "seconds", "processes", "load average before", "after")


@dataclass(frozen=True)
class Measured:
    """The rows of a section, and the machine meanwhile."""

    name: str
    rows: Sequence[Row]
    machine: Row


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures sections and writes their tables."""
    parser = argparse.ArgumentParser(prog="make truth", description=__doc__)
    parser.add_argument("sections", nargs="*", choices=[*SECTIONS, []], help="all, if none is named")
    parser.add_argument("--scale", type=float, default=1.0, help="factor on the numbers of runs and operations")
    parser.add_argument("--processes", type=int, default=os.cpu_count(), help="for simulated sections")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="start no row after this time")
    options = parser.parse_args(arguments)
    names, until_s = options.sections or list(SECTIONS), time.monotonic() + options.seconds
    for name in names:
        if SECTIONS[name].is_real_time:
            _write(_measured(name, options.scale, 1, until_s))
    simulated = sorted((name for name in names if not SECTIONS[name].is_real_time), key=LONGEST_FIRST.index)
    if simulated:
        processes = min(options.processes, len(simulated))
        with ProcessPoolExecutor(processes) as pool:
            tasks = [pool.submit(_measured, name, options.scale, processes, until_s) for name in simulated]
            for task in as_completed(tasks):
                _write(task.result())
    return 0


def _measured(name: str, scale: float, processes: int, until_s: float) -> Measured:
    began, start, before = time.gmtime(), time.monotonic(), os.getloadavg()[0]
    rows: list[Row] = []
    found = SECTIONS[name].rows(scale)
    while time.monotonic() < until_s and (row := next(found, None)):
        print(f"{name}: {' | '.join(row)}", flush=True)
        rows.append(row)
    seconds = time.monotonic() - start
    when = time.strftime("%Y-%m-%d %H:%M", began)
    loads = f"{before:.1f}", f"{os.getloadavg()[0]:.1f}"
    print(f"{name}: {seconds:.0f} s", file=sys.stderr)
    return Measured(name, rows, (f"{scale:g}", when, f"{seconds:.0f}", str(processes), *loads))


def _write(found: Measured) -> None:
    if not found.rows:
        return
    text, measured = PAGE.read_text(encoding="utf-8"), len(found.rows)
    rows = [*found.rows, *rows_of(text, found.name)[measured:]]
    page = with_table(text, found.name, SECTIONS[found.name].columns, rows)
    machine = (found.name, f"{measured} of {len(rows)}", *found.machine)
    kept = {row[0]: row for row in rows_of(page, "machine")} | {found.name: machine}
    PAGE.write_text(
        with_table(page, "machine", MACHINE_COLUMNS, [kept[name] for name in SECTIONS if name in kept]),
        encoding="utf-8",
    )


if __name__ == "__main__":
    sys.exit(main())

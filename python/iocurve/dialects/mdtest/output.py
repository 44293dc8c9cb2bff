"""mdtest's text: the lines before a run and the table of rates."""

from __future__ import annotations

import math
import os
import shlex
from collections.abc import Mapping, Sequence
from datetime import datetime
from statistics import fmean

from iocurve.dialects.mdtest.options import Table
from iocurve.dialects.mdtest.phases import ROWS, Shape

VERSION = "4.1.0"
"""The version whose output this is."""
UNITS: Mapping[Table, str] = {"rate": "ops/sec", "time": "ms/op"}
"""The units that mdtest names; its times are seconds of the phase."""
HEADINGS = """
SUMMARY {} (in {}): (of {} iterations)
   Operation                     Max            Min           Mean        Std Dev
   ---------                     ---            ---           ----        -------
"""


def started(shape: Shape, at: datetime) -> str:
    """The lines before the first phase."""
    options = shape.options
    kinds = [
        word for word, tested in (("files", options.tests_files), ("directories", options.tests_directories)) if tested
    ]
    items = shape.items * options.ranks
    command = " ".join(shlex.quote(word) for word in options.arguments)
    lines = [
        f"-- started at {at:%m/%d/%Y %H:%M:%S} --",
        "",
        f"mdtest-{VERSION} (iocurve) was launched with {options.ranks} total task(s) on {options.clients} node(s)",
        f"Command line used: mdtest {command}",
        # A one for each task on the node of the first.
        "Nodemap: " + "".join("0" if options.client_of(rank) else "1" for rank in range(options.ranks)),
        *_sizes(options.paths[0]),
    ]
    if options.shift:
        lines.append(f"Shifting ranks by {options.shift} for each phase.")
    if options.in_random_order:
        lines.append(f"random seed: {options.random_seed}")
    return "\n".join([*lines, f"{options.ranks} tasks, {items} {'/'.join(kinds)}", ""])


def stonewall(done: Sequence[int]) -> str:
    """The line after a stonewall that some tasks reached before their last item; ``done`` are the items of each."""
    return f"Continue stonewall hit min: {min(done)} max: {max(done)} avg: {fmean(done):.1f} \n"


def finished(at: datetime, incomplete: str | None = None) -> str:
    """The last line; it says why a run is ``incomplete``."""
    if incomplete:
        return f"-- incomplete: {incomplete} --\n"
    return f"-- finished at {at:%m/%d/%Y %H:%M:%S} --\n"


def table(shape: Shape, kind: Table, rates: Mapping[str, Sequence[float]], *, is_complete: bool = True) -> str:
    """A table of rates or times: those of each phase, one for each iteration in which it ran to its end.

    The table of an incomplete run has the phases and iterations that ran.
    """
    options = shape.options
    rows = [
        name
        for name in ROWS
        if (options.tests_directories or not name.startswith("Directory"))
        and (options.tests_files or not name.startswith("File"))
    ]
    iterations = options.iterations if is_complete else max(map(len, rates.values()), default=0)
    lines = [
        _row(name, rates.get(name, ()), options.iterations if is_complete else len(rates[name]))
        for name in rows
        if is_complete or name in rates
    ]
    return "".join([HEADINGS.format(kind, UNITS[kind], iterations), *lines])


def _row(name: str, rates: Sequence[float], iterations: int) -> str:
    # A phase that did not run has the rate 0.
    values = [*rates, *[0.0] * (iterations - len(rates))]
    mean = fmean(values)
    deviation = math.sqrt(sum((value - mean) ** 2 for value in values) / (iterations - 1)) if iterations > 1 else 0.0
    figures = " ".join(f"{value:14.3f}" for value in (max(values), min(values), mean, deviation))
    return f"   {name:<22} {figures}\n"


def _sizes(path: str) -> list[str]:
    """Size and use of the file system; nothing of an export."""
    try:
        found = os.statvfs(path)
    except OSError:
        return []
    total, files = found.f_blocks * found.f_frsize, found.f_files
    used = 100 * (1 - found.f_bfree / found.f_blocks) if found.f_blocks else 0.0
    size = f"{total / 2**40:.1f} TiB" if total > 2**40 else f"{total / 2**30:.1f} GiB"
    used_files = 100 * (1 - found.f_ffree / files) if files else 0.0
    return [
        f"Path                : {path}",
        f"FS                  : {size}   Used FS: {used:.1f}%   Inodes: {files / 2**20:.1f} Mi   "
        f"Used Inodes: {used_files:.1f}%",
    ]

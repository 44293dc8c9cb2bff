"""mdtest's table of rates. Each operation is a point: mdtest runs them one after another."""

from __future__ import annotations

import re

from iocurve.foundation.units import SECOND_NS
from iocurve.imports.parsing import SourceFile, number, time_of, whole
from iocurve.imports.points import ImportedLoad, ImportedMeasurement
from iocurve.result.imported import ImportedKind

_RateTable = tuple[dict[str, str], dict[str, float], dict[str, float]]
"""Facts, the mean rates of the operations, and the mean seconds that an iteration took for them."""
KINDS = {
    "directory creation": "mkdir",
    "directory stat": "getattr",
    "directory rename": "rename",
    "directory removal": "rmdir",
    "file creation": "create",
    "file stat": "getattr",
    "file read": "open",
    "file rename": "rename",
    "file removal": "delete",
    "tree creation": "mkdir",
    "tree removal": "rmdir",
}
MEAN = "mdtest states rates only: the mean over its iterations. It states no latencies."
_HEADING = re.compile(r"SUMMARY(?: (rate|time))?(?: \(in [a-z/]+\))?:?\s*\(of (\d+) iterations?\)")
"""mdtest 1.9 has one table, of rates, with neither word. Times are in seconds, even where their heading in mdtest 4.1
says ``ops/sec`` or ``ms/op``."""
_ROW = re.compile(r"\s*([A-Z][a-z]+ [a-z]+)\s*:?((?:\s+-?[\d.]+){4,})\s*$")
_TASKS = re.compile(r"(\d+) tasks?, (\d+) (files/directories|files|directories)")
_STARTED = re.compile(r"started at (\d\d/\d\d/\d{4} \d\d:\d\d:\d\d)")
_VERSION = re.compile(r"mdtest-(\S+) was launched")


def is_mdtest(source: SourceFile) -> bool:
    """True of a text with a table of rates."""
    return bool(_HEADING.search(source.text))


def read(source: SourceFile) -> list[ImportedMeasurement]:
    """A point for each row of each table of rates. Raises ``ResultError``."""
    tables: list[_RateTable] = []
    facts: dict[str, str] = {}
    table = ""
    for line in source.text.splitlines():
        facts |= _facts(line)
        heading, row = _HEADING.search(line), _ROW.match(line)
        if heading:
            table = heading[1] or "rate"
            if table == "rate":
                tables.append((dict(facts), {}, {}))
        elif table and tables and row and row[1].lower() in KINDS:
            _, rates, seconds = tables[-1]
            (rates if table == "rate" else seconds)[row[1]] = number(row[2].split()[2]) or 0.0
        elif line.lstrip().startswith("--") and "finished" in line:
            table = ""
    found = [_point(source, name, rate, one) for one in tables for name, rate in one[1].items() if rate > 0]
    if not found:
        raise source.error("mdtest's table has no rate; was it truncated?")
    return found


def _facts(line: str) -> dict[str, str]:
    """Facts from a line above a table."""
    tasks, started, version = _TASKS.search(line), _STARTED.search(line), _VERSION.search(line)
    return {
        **({"tasks": tasks[1], "items": tasks[2]} if tasks else {}),
        **({"started": started[1]} if started else {}),
        **({"version": version[1]} if version else {}),
    }


def _point(source: SourceFile, name: str, rate: float, table: _RateTable) -> ImportedMeasurement:
    """The point of a row. A time limit (stone wall) ends an operation before all items had it."""
    (facts, _, times), kind = table, KINDS[name.lower()]
    seconds = times.get(name)
    # The tree is made by one task, and its size is not in the output.
    items = round(rate * seconds) if seconds else None if name.startswith("Tree") else whole(facts.get("items"))
    tasks = whole(facts.get("tasks"))
    stated = ImportedKind(operations=items, iops=rate)
    return ImportedMeasurement(
        tool=f"mdtest {facts.get('version', '')}".strip(),
        source=source.name,
        name=name,
        shape=ImportedLoad(kind=kind, depth=tasks),
        kinds={kind: stated},
        total=stated,
        window_ns=round(items / rate * SECOND_NS) if items else None,
        workers=tasks,
        created=time_of(facts.get("started", ""), "%m/%d/%Y %H:%M:%S"),
        notes=(("mdtest_rates", MEAN),),
    )

"""mdtest's table of rates. Each operation is a point: mdtest runs them one after another."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime

from iocurve.imports.measured import Load, Measured
from iocurve.imports.parsing import Source, number, whole
from iocurve.result.imported import ImportedKind
from iocurve.units import SECOND_NS

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
_HEADING = re.compile(r"SUMMARY rate(?: \(in ops/sec\))?:?\s*\(of (\d+) iterations?\)")
_ROW = re.compile(r"\s*([A-Z][a-z]+ [a-z]+)\s*:?((?:\s+-?[\d.]+){4,})\s*$")
_TASKS = re.compile(r"(\d+) tasks?, (\d+) (files/directories|files|directories)")
_STARTED = re.compile(r"started at (\d\d/\d\d/\d{4} \d\d:\d\d:\d\d)")
_VERSION = re.compile(r"mdtest-(\S+) was launched")


def is_mdtest(source: Source) -> bool:
    """True of a text with a table of rates."""
    return bool(_HEADING.search(source.text))


def read(source: Source) -> list[Measured]:
    """A point for each row of each table. Raises ``ResultError``."""
    found: list[Measured] = []
    facts: dict[str, str] = {}
    in_table = False
    for line in source.text.splitlines():
        facts |= _facts(line)
        row = _ROW.match(line)
        if _HEADING.search(line):
            in_table = True
        elif in_table and row and row[1].lower() in KINDS:
            found += _point(source, row[1], [number(value) or 0.0 for value in row[2].split()], facts)
        elif line.lstrip().startswith("--") and "finished" in line:
            in_table = False
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


def _point(source: Source, name: str, values: list[float], facts: Mapping[str, str]) -> list[Measured]:
    """The point of a row: largest, smallest and mean rate, and deviation; none where the rate is 0."""
    rate = values[2]
    if rate <= 0:
        return []
    kind = KINDS[name.lower()]
    # The tree is made by one task, and its size is not in the output.
    items = None if name.startswith("Tree") else whole(facts.get("items"))
    tasks = whole(facts.get("tasks"))
    stated = ImportedKind(operations=items, iops=rate)
    return [
        Measured(
            tool=f"mdtest {facts.get('version', '')}".strip(),
            source=source.name,
            name=name,
            load=Load(kind=kind, depth=tasks),
            kinds={kind: stated},
            total=stated,
            window_ns=round(items / rate * SECOND_NS) if items else None,
            workers=tasks,
            created=_time(facts.get("started", "")),
            notes=(("mdtest_rates", MEAN),),
        )
    ]


def _time(text: str) -> datetime | None:
    try:
        return datetime.strptime(text, "%m/%d/%Y %H:%M:%S").replace(tzinfo=UTC)
    except ValueError:
        return None

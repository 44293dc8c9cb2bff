"""vdbench's output folder: text in ``.html`` files, written when runs end."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from html import escape
from pathlib import Path
from typing import Any

from iocurve.dialects.vdbench.output import flatfile, histogram
from iocurve.dialects.vdbench.output.rows import Row, clock, header
from iocurve.engine.outcome import WorkerOutcome
from iocurve.errors import TargetError

MARK = ".iocurve-vdbench"
"""Lists the files written by iocurve. A folder without this file is not overwritten."""
LINKS_MAX = 1000
"""Limit of the links to runs at the top of a report."""


def choose(name: str, directory: Path, now: datetime) -> Path:
    """The folder for ``-o name``. For ``name+``, and if iocurve did not write the folder, the next free ``name001``, ….

    Raises ``TargetError`` if no number is free.
    """
    if name.endswith(".tod"):
        name = f"{name[:-4]}.{now:%y%m%d.%H%M%S}"
    counts = name.endswith("+")
    base = directory / name.rstrip("+")
    if not base.name:
        return base
    if not base.exists() or _is_empty(base) or (not counts and _is_ours(base)):
        return base
    for number in range(1, 1000):
        numbered = base.with_name(f"{base.name}{number:03}")
        if not numbered.exists():
            return numbered
    raise TargetError(f"{base} and {base}001 to {base}999 exist; use another folder with -o")


def _is_empty(path: Path) -> bool:
    return path.is_dir() and not any(path.iterdir())


def _is_ours(path: Path) -> bool:
    return (path / MARK).is_file()


class Folder:
    """The files of one invocation. Lines are written at once, so that they can be followed."""

    def __init__(
        self, path: Path, names: Sequence[str], now: datetime, hosts: Sequence[str] = (), sds: Sequence[str] = ()
    ) -> None:
        """Creates the folder, and removes the files of an earlier invocation. ``names`` are the names of all runs.

        Raises ``TargetError``.
        """
        self.path = path
        self._names = names
        self._written: set[str] = set()
        self._numbers = 0
        try:
            path.mkdir(parents=True, exist_ok=True)
            self._remove_old()
        except OSError as error:
            raise TargetError(f"{path} cannot be created: {error.strerror}") from None
        self._write("summary", [f"iocurve, vdbench's summary report, created {clock(now)} {now:%Y-%m-%d}", ""])
        reports = [*_part_links("Link to host report:", hosts), *_part_links("Link to SD report:", sds)]
        self._write("summary", [*_links(), *reports, "", *self._run_links()])
        for name, title in _TITLES.items():
            self._write(name, [title, "", *(self._run_links() if name in _BY_RUN else [])])
        self._write("flatfile", [*flatfile.INTRODUCTION, flatfile.heading()])

    def log(self, at: datetime, text: str) -> None:
        """Adds a line to ``logfile.html``."""
        self._write("logfile", [f"{clock(at)} {text}"])

    def echo(self, lines: Iterable[str]) -> None:
        """Adds the lines of stdout to ``logfile.html``."""
        self._write("logfile", lines)

    def error(self, at: datetime, text: str) -> None:
        """Adds a line to ``errorlog.html`` and ``logfile.html``."""
        self._write("errorlog", [f"{clock(at)} {text}"])
        self.log(at, text)

    def status(self, at: datetime, what: str, run: str) -> None:
        """Adds a line to ``status.html``."""
        self._write("status", [f"{at:%m/%d/%Y-%H:%M:%S}-{at.tzname() or 'UTC'} \t{what}\trd={run}"])

    def parameters(self, lines: Iterable[str], scan: Iterable[str]) -> None:
        """Writes the lines and the parameters of the parameter files."""
        self._write("parmfile", lines)
        self._write("parmscan", scan)

    def run_started(self, at: datetime, text: str, name: str) -> None:
        """Announces a run in all reports."""
        anchor = f'<a name="_{self._numbers}"></a><i><b>{escape(clock(at) + " " + text)}</b></i>'
        self._numbers += 1
        self._append_raw("summary", ["", anchor, "", *map(escape, header(at))])
        for report in ("totals", "histogram", "skew"):
            self._append_raw(report, ["", anchor, ""])
        self.status(at, "Starting", name)

    def rows(self, name: str, at: Sequence[datetime], rows: Sequence[Row]) -> None:
        """Adds intervals to a report."""
        self._write(name, [row.line(moment) for row, moment in zip(rows, at, strict=True)])

    def total(self, at: datetime, row: Row) -> None:
        """Adds the average of a run to ``totals.html``."""
        self._write("totals", [*header(at), row.line(at)])

    def flat(self, at: datetime, run: str, row: Row, settings: dict[str, Any]) -> None:
        """Adds a line to ``flatfile.html``."""
        self._write("flatfile", [flatfile.line(at, run, row, settings)])

    def histogram(self, workers: Sequence[WorkerOutcome]) -> None:
        """Adds the response times of a run to ``histogram.html``."""
        self._write("histogram", histogram.tables(workers))

    def sd_histogram(self, name: str, text: str, workers: Sequence[WorkerOutcome]) -> None:
        """Adds the response times of a run to ``NAME.histogram.html``."""
        self._write(f"{_file_name(name)}.histogram", ["", text, "", *histogram.tables(workers)])

    def skew(self, lines: Iterable[str]) -> None:
        """Adds lines to ``skew.html``."""
        self._write("skew", lines)

    def part(self, name: str, title: str, at: datetime, text: str, rows: Sequence[tuple[datetime, Row]]) -> None:
        """Adds a run to the report of an SD or a host."""
        safe = _file_name(name)
        if f"{safe}.html" not in self._written:
            self._write(safe, [title])
        begun = ["", f"{clock(at)} {text}", "", *header(at)]
        self._write(safe, [*begun, *(row.line(moment) for moment, row in rows)])

    def summary(self, lines: Iterable[str]) -> None:
        """Adds lines to ``summary.html``."""
        self._write("summary", lines)

    def _write(self, name: str, lines: Iterable[str]) -> None:
        self._append_raw(name, map(escape, lines)) if name not in _LINKED else self._append_raw(name, lines)

    def _append_raw(self, name: str, lines: Iterable[str]) -> None:
        file = f"{name}.html"
        is_new = file not in self._written
        try:
            if is_new:
                self._begin(file)
            with (self.path / file).open("a", encoding="utf-8", errors="backslashreplace") as opened:
                opened.write("".join(f"{line}\n" for line in lines))
        except OSError as error:
            raise TargetError(f"{self.path / file} cannot be written: {error.strerror}") from None

    def _begin(self, file: str) -> None:
        """Lists the file in ``MARK``, then creates it; it must not exist."""
        with (self.path / MARK).open("a", encoding="utf-8") as mark:
            mark.write(f"{file}\n")
        with (self.path / file).open("x", encoding="utf-8") as opened:
            opened.write("<pre>\n")
        self._written.add(file)

    def _remove_old(self) -> None:
        mark = self.path / MARK
        if not mark.is_file():
            return
        for name in mark.read_text(encoding="utf-8", errors="replace").splitlines():
            if name.endswith(".html") and "/" not in name:
                (self.path / name).unlink(missing_ok=True)
        mark.unlink()

    def _run_links(self) -> list[str]:
        lines = [
            f'{"Link to Run Definitions:" if number == 0 else "":<32} <A HREF="#_{number}">{escape(name)}</A>'
            for number, name in enumerate(self._names[:LINKS_MAX])
        ]
        return lines + ([f"… and {len(self._names) - LINKS_MAX} more"] if len(self._names) > LINKS_MAX else [])


_BY_RUN = ("totals", "histogram", "skew")
_LINKED = ("summary", *_BY_RUN)
"""Reports with links. Their other lines need no escaping."""
_TITLES = {
    "totals": "Run totals",
    "histogram": "Total response time histogram.",
    "skew": "Workload skew report",
    "errorlog": "Error log. If nothing follows, there were no I/O errors.",
    "logfile": "Log",
    "status": "Status: time, event and run, separated by tabs",
}


def _links() -> list[str]:
    texts = {
        "logfile": "Link to logfile:",
        "totals": "Run totals:",
        "status": "Status:",
        "parmfile": "Copy of input parameter files:",
        "parmscan": "Copy of parameter scan detail:",
        "errorlog": "Link to errorlog:",
        "flatfile": "Link to flatfile:",
        "histogram": "Link to response time histogram:",
        "skew": "Link to workload skew report:",
    }
    return [f'{text:<32} <A HREF="{name}.html">{name}</A>' for name, text in texts.items()]


def _part_links(label: str, names: Sequence[str]) -> list[str]:
    return [
        f'{label if number == 0 else "":<32} <A HREF="{_file_name(name)}.html">{escape(name)}</A>'
        for number, name in enumerate(names[:LINKS_MAX])
    ]


def _file_name(name: str) -> str:
    """Turns the name of an SD or host into a file name within the folder that no other report has."""
    safe = "".join(letter if letter.isalnum() or letter in "-_.+" else "_" for letter in name).lstrip(".")[:100]
    taken = {*_TITLES, "summary", "flatfile", "parmfile", "parmscan"}
    return f"sd_{safe}" if safe in taken or not safe else safe

"""vdbench's output directory: text in ``.html`` files, written when runs end, with links between the reports."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from html import escape
from pathlib import Path

import msgspec

from iocurve.dialects.vdbench.output.table import METADATA, MONTHS, Kind, OutputTable, Row, clock
from iocurve.engine.outcome import WorkerOutcome
from iocurve.foundation.errors import TargetError
from iocurve.foundation.structs import read_bundled
from iocurve.foundation.units import MICROSECOND_NS
from iocurve.result.summary import Latency, MergedOperations

LINKS_MAX = 1000
"""Limit of the links of one kind in a report."""
_ON_ONE_LINE = 8

TEXTS = read_bundled(Path(__file__).parent, "texts")
"""Links, titles and other texts of the reports."""


class Report(msgspec.Struct, frozen=True):
    """The report on one host, slave, SD or workload."""

    kind: Kind
    name: str
    file: str
    """Name of the file without ``.html``."""

    @property
    def title(self) -> str:
        """First line of the report."""
        return str(TEXTS["titles"][self.kind]).format(escape(self.name))

    @property
    def histogram_title(self) -> str | None:
        """First line of the file with the response times; None if the report has no such file."""
        title: str | None = TEXTS["histograms"].get(self.kind)
        return title and title.format(escape(self.name))

    def links(self) -> list[str]:
        """Links to the files that belong to the report."""
        if self.kind == "host":
            slave = f"{self.file}-0"
            summary, stdout = link(slave, f"{self.name}-0 summary"), link(f"{slave}.stdout", f"{self.name}-0 stdout")
            return [_labelled("Link to slave summary report:", f"{summary}   {stdout}")]
        if self.kind == "slave":
            return [_labelled("Console log:", link(f"{self.file}.stdout", "Slave stdout/stderr"))]
        return [_labelled("Link to response time histogram:", link(f"{self.file}.histogram", "histogram"))]


class Reports:
    """The reports of a directory. Each has a file name within the directory that no other report has."""

    def __init__(
        self,
        hosts: Iterable[str],
        storage: Iterable[str],
        workloads: Sequence[str],
        kinds: tuple[Kind, Kind] = ("sd", "wd"),
    ) -> None:
        """``kinds`` are those of storage and workloads."""
        self._kinds = kinds
        self._by_name: dict[tuple[Kind, str], Report] = {}
        self._taken = {"summary", *(file for links in TEXTS["links"].values() for file in links)}
        for host in hosts:
            self.find("host", host)
        for name in storage:
            self.find(kinds[0], name)
        for workload in workloads:
            self.find(kinds[1], workload)

    def find(self, kind: Kind, name: str) -> Report:
        """The report on ``name``; a new one if there is none yet."""
        if kind == "slave":
            host = self.find("host", name.removesuffix("-0"))
            return Report(kind, name, f"{host.file}-0")
        if (kind, name) not in self._by_name:
            self._by_name[kind, name] = Report(kind, name, self._free_name(kind, name))
        return self._by_name[kind, name]

    def all(self) -> Iterator[Report]:
        """Yields the reports that are linked; hosts with their slaves."""
        for kind in ("host", *self._kinds):
            for report in self._of(kind):
                yield report
                if kind == "host":
                    yield self.find("slave", f"{report.name}-0")

    def links(self) -> list[str]:
        """Links to all reports, for the summary."""
        links = TEXTS["links"]
        general = links["general"] | links.get(self._kinds[0], {})
        lines = [_labelled(label, link(file, file)) for file, label in general.items()]
        lines += ["", *_several("Link to HOST reports:", self._of("host"))]
        lines += [_labelled(label, link(file, file)) for file, label in links["further"].items()]
        lines += _several(f"Link to {self._kinds[0].upper()} reports:", self._of(self._kinds[0]))
        workloads = self._of(self._kinds[1])
        if self._kinds[1] == "fwd":
            return [*lines, *_several("Link to FWD reports:", workloads)]
        return [*lines, *(_labelled("Link to workload report:", link(one.file, one.name)) for one in workloads)]

    def _of(self, kind: str) -> list[Report]:
        return [report for report in self._by_name.values() if report.kind == kind][:LINKS_MAX]

    def _free_name(self, kind: str, name: str) -> str:
        safe = "".join(letter if letter.isalnum() or letter in "-_.+" else "_" for letter in name).lstrip(".")[:100]
        free = f"{kind}_{safe}" if not safe or safe in self._taken else safe
        while free in self._taken:
            free += "_"
        own = {free, f"{free}.histogram", f"{free}-0", f"{free}-0.stdout"}
        self._taken |= own
        return free


def run_links(names: Sequence[str]) -> list[str]:
    """Links to the runs within a report."""
    lines = [
        _labelled("Link to Run Definitions:" if number == 0 else "", f'<A HREF="#_{number}">{escape(name)}</A>')
        for number, name in enumerate(names[:LINKS_MAX])
    ]
    return lines + ([f"… and {len(names) - LINKS_MAX} more"] if len(names) > LINKS_MAX else [])


def link(file: str, text: str) -> str:
    """A link to another report."""
    return f'<A HREF="{file}.html">{escape(text)}</A>'


def _labelled(label: str, text: str) -> str:
    return f"{label:<32} {text}"


def _several(label: str, reports: Sequence[Report]) -> Iterator[str]:
    for start in range(0, len(reports), _ON_ONE_LINE):
        links = "   ".join(link(report.file, report.name) for report in reports[start : start + _ON_ONE_LINE])
        yield _labelled(label if start == 0 else "", links)


MARK = ".iocurve-vdbench"
"""Lists the files written by iocurve. A directory without this file is not overwritten."""


def choose(name: str, directory: Path, now: datetime) -> Path:
    """The directory for ``-o name``; for ``name+``, and where iocurve did not write it, the next free ``name001``, ….

    Raises ``TargetError`` if no number is free.
    """
    if name.endswith(".tod"):
        name = f"{name[:-4]}.{now:%y%m%d.%H%M%S}"
    counts = name.endswith("+")
    base = directory / name.rstrip("+")
    if not base.name:
        return base
    is_empty = base.is_dir() and not any(base.iterdir())
    if not base.exists() or is_empty or (not counts and (base / MARK).is_file()):
        return base
    for number in range(1, 1000):
        numbered = base.with_name(f"{base.name}{number:03}")
        if not numbered.exists():
            return numbered
    raise TargetError(f"{base} and {base}001 to {base}999 exist; use another directory with -o")


class OutputDirectory:
    """The files of one invocation. Lines are written at once, so that they can be followed."""

    def __init__(self, path: Path, runs: Sequence[str], now: datetime, reports: Reports, table: OutputTable) -> None:
        """Creates the directory with the first lines of each report, and removes the files of an earlier invocation.

        ``runs`` are the names of all runs. Raises ``TargetError``.
        """
        self.path = path
        self._runs = tuple(runs)
        self._links = run_links(runs)
        self._reports = reports
        self._table = table
        self._written: set[str] = set()
        self._next_run = 0
        self._anchor = ""
        try:
            path.mkdir(parents=True, exist_ok=True)
            self._remove_old()
        except OSError as error:
            raise TargetError(f"{path} cannot be created: {error.strerror}") from None
        self.write("summary", [f"Vdbench summary report, created {_created(now)} by iocurve", ""])
        self.write("summary", [*reports.links(), "", *self._links])
        for name, title in TEXTS["reports"].items():
            self.write(name, [title, "", *(self._links if name in _BY_RUN else [])])
        self.write("flatfile", [*TEXTS["flatfile"]["introduction"], table.heading()])
        if table.target == "fsd":
            self.write("anchors", ["Anchor status report", "", *ANCHORS_HEADING, "", *self._links])
        for report in reports.all():
            self._start_part(report)

    def log(self, at: datetime, text: str) -> None:
        """Adds a line to ``logfile.html``."""
        self.write("logfile", [f"{clock(at)} {text}"])

    def error(self, at: datetime, text: str) -> None:
        """Adds a line to ``errorlog.html`` and ``logfile.html``."""
        self.write("errorlog", [f"{clock(at)} {text}"])
        self.log(at, text)

    def status(self, at: datetime, event: str, *run: str) -> None:
        """Adds a line to ``status.html``: the event, and the name and loops of the run that it belongs to."""
        fields = (f"{at:%m/%d/%Y-%H:%M:%S}-{_zone(at)} ", event, *run)
        self.write("status", ["\t".join(fields)])

    def run_started(self, at: datetime, run: str, text: str) -> None:
        """Announces a run in all reports; ``run`` is its name in the links."""
        started = escape(f"{clock(at)} {text}")
        # A run that a stopcurve= skips is linked but not started; with loop= the runs start over.
        order = (*range(self._next_run, len(self._runs)), *range(self._next_run))
        number = next((number for number in order if self._runs[number] == run), self._next_run)
        self._anchor = f'<a name="_{number}"></a><i><b>{started}</b></i>'
        self._next_run = number + 1
        self._append_raw("summary", ["", self._anchor, "", *map(escape, self._table.header(at))])
        for report in _BY_RUN:
            self._append_raw(report, ["", self._anchor, ""])

    def histogram(self, workers: Sequence[WorkerOutcome]) -> None:
        """Adds the response times of a run to ``histogram.html``."""
        self.write("histogram", _histograms(workers))

    def anchors(self, lines: Iterable[str]) -> None:
        """Adds the trees of the current run to ``anchors.html``."""
        self._append_raw("anchors", ["", self._anchor, "", *map(escape, lines)])

    def part(
        self,
        kind: Kind,
        name: str,
        at: datetime,
        rows: Sequence[tuple[datetime, Row]],
        workers: Sequence[WorkerOutcome],
    ) -> None:
        """Adds the current run to the report on a host, a slave, an SD or a workload."""
        report = self._reports.find(kind, name)
        self._start_part(report)
        lines = (*self._table.header(at), *(self._table.line(moment, row) for moment, row in rows))
        self._append_raw(report.file, ["", self._anchor, "", *lines])
        if report.histogram_title:
            self._append_raw(f"{report.file}.histogram", ["", self._anchor, "", *_histograms(workers)])

    def console(self, host: str, at: datetime, lines: Iterable[str]) -> None:
        """Adds lines to the console log of the slave of a host, below the announcement of the current run."""
        file = f"{self._reports.find('slave', f'{host}-0').file}.stdout"
        # A slave's lines have its time and the time at which they reached the master.
        stamped = (f"{clock(at)} {clock(at)} {line}" for line in lines)
        self._append_raw(file, ["", self._anchor, "", *map(escape, stamped)])

    def _start_part(self, report: Report) -> None:
        if f"{report.file}.html" in self._written:
            return
        self._append_raw(report.file, [report.title, "", *report.links(), "", *self._links])
        if report.histogram_title:
            self._append_raw(f"{report.file}.histogram", [report.histogram_title, "", *self._links])
        if report.kind == "slave":
            title = f"stdout/stderr for slave={escape(report.name)}"
            self._append_raw(f"{report.file}.stdout", [title, "", *self._links])

    def write(self, name: str, lines: Iterable[str]) -> None:
        """Adds lines to a report: ``summary``, ``parmfile``."""
        self._append_raw(name, map(escape, lines)) if name not in _LINKED else self._append_raw(name, lines)

    def _append_raw(self, name: str, lines: Iterable[str]) -> None:
        file = f"{name}.html"
        is_new = file not in self._written
        try:
            if is_new:
                self._start(file)
            with (self.path / file).open("a", encoding="utf-8", errors="backslashreplace") as opened:
                opened.write("".join(f"{line}\n" for line in lines))
        except OSError as error:
            raise TargetError(f"{self.path / file} cannot be written: {error.strerror}") from None

    def _start(self, file: str) -> None:
        """Lists the file in ``MARK``, then creates it; it must not exist."""
        with (self.path / MARK).open("a", encoding="utf-8") as mark:
            mark.write(f"{file}\n")
        with (self.path / file).open("x", encoding="utf-8") as opened:
            opened.write(f"<title>Vdbench {escape(self.path.name)}/{file}</title><pre>\n")
        self._written.add(file)

    def _remove_old(self) -> None:
        mark = self.path / MARK
        if not mark.is_file():
            return
        for name in mark.read_text(encoding="utf-8", errors="replace").splitlines():
            if name.endswith(".html") and "/" not in name:
                (self.path / name).unlink(missing_ok=True)
        mark.unlink()


_BY_RUN = ("totals", "histogram", "skew")
_LINKED = ("summary", "anchors", *_BY_RUN)
"""Reports with links. Their other lines need no escaping."""
ANCHORS_HEADING = (
    f"{'anchor':<40} {'files':>12} {'dirs':>10} {'bytes':>18} {'total size':>18} {'working set':>18}",
    "(n/a: all files of the anchor)",
)


def _created(now: datetime) -> str:
    utc = now.astimezone(UTC)
    return f"{_moment(now)} {_zone(now)} ({_moment(utc)} UTC)"


def _moment(at: datetime) -> str:
    return f"{at:%H:%M:%S} {MONTHS[at.month - 1]} {at:%d %Y}"


def _zone(at: datetime) -> str:
    return at.tzname() or "UTC"


# -- histograms --------------------------------------------------------------------------------------------------------

_BOUNDS_US = (
    *(20, 40, 60, 80, 100, 200, 400, 600, 800),
    *(1_000, 2_000, 4_000, 6_000, 8_000, 10_000, 20_000, 40_000, 60_000, 80_000),
    *(100_000, 200_000, 400_000, 600_000, 800_000, 1_000_000, 2_000_000),
)
"""Upper bounds in microseconds; the last bucket has none."""
_WIDTH = 50
_HISTOGRAMS: dict[tuple[str, ...], str] = {
    ("read", "write"): "Reads and writes:",
    ("read",): "Reads:",
    ("write",): "Writes:",
    **{(kind,): f"Operation {kind}:" for kind in METADATA},
}


def _histograms(workers: Iterable[WorkerOutcome]) -> list[str]:
    """Tables of reads and writes, reads, writes, and each metadata operation; empty ones are omitted."""
    everyone = list(workers)
    lines: list[str] = []
    for kinds, title in _HISTOGRAMS.items():
        latency = MergedOperations(everyone, kinds).service
        if latency.count:
            lines += [title, *_histogram(latency), ""]
    return lines


def _histogram(latency: Latency) -> list[str]:
    """The table of one latency distribution."""
    assert latency.histogram is not None
    lines = ["  min(ms) <     max(ms)        count       %%    cum%%  '+': Individual%; '+-': Cumulative%", ""]
    low, below = 0, 0
    for bound in (*_BOUNDS_US, None):
        high = 2**62 if bound is None else bound * MICROSECOND_NS - 1
        count = latency.count - below if bound is None else latency.histogram.count_between(low, high)
        # A bucket of the recorded histogram may cross a bound.
        count = max(0, min(count, latency.count - below))
        below += count
        share, cumulative = 100 * count / latency.count, 100 * below / latency.count
        bar = "+" * int(share * _WIDTH / 100)
        bar += "-" * (int(cumulative * _WIDTH / 100) - len(bar))
        end = "max" if bound is None else f"{bound / 1000:.3f}"
        lines.append(f"{low / 1e6:>9.3f} <{end:>12} {count:>12,} {share:>8.4f} {cumulative:>8.4f}  {bar}")
        low = high + 1
    return lines

"""Reports on hosts, slaves, SDs and workloads: their files, titles and links, labelled as in vdbench."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Literal

import msgspec

from iocurve.foundation.structs import read_bundled

LINKS_MAX = 1000
"""Limit of the links of one kind in a report."""
_ON_ONE_LINE = 8

Kind = Literal["host", "slave", "sd", "wd", "fsd", "fwd"]
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

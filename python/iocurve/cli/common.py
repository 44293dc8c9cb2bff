"""Options and arguments that several commands share, and what they print."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

from cyclopts import Group, Parameter
from rich.console import Console, ConsoleOptions, RenderableType

from iocurve.cli.checks import CHECKS, CheckOptions
from iocurve.cli.quantities import Flag, MetricsAddress
from iocurve.foundation.errors import Diagnostic, DialectError

if TYPE_CHECKING:
    from cyclopts.help import HelpPanel

    from iocurve.result.document import Result

PIPE_COLUMNS = 10_000
"""The width where stdout is no terminal: no line is wrapped and no cell is cut."""

Words = Annotated[str, Parameter(allow_leading_hyphen=True, show=False)]
"""Arguments that follow another tool's rules."""
TargetText = Annotated[str | Path, Parameter(converter=lambda _, tokens: tokens[0].value)]
"""A target; shells complete it as a path."""
OUT = Path("iocurve-report")


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class OutputOptions:
    """The form of a measurement's output."""

    json: Flag = False
    """Print result.json to stdout instead of the table."""
    quiet: Flag = False
    """Print no progress and no table, only errors."""
    checks: CheckOptions = CHECKS


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class MeasuredOutput(OutputOptions):
    """The form of a measurement's output, also while it runs."""

    metrics: MetricsAddress | None = None
    """Serve OpenMetrics at http://HOST:PORT/metrics while the measurement runs, on 127.0.0.1 unless a host is given;
    port 0 takes a free one: 9100, 0.0.0.0:9100."""

    def observed(self) -> AbstractContextManager[None]:
        """Serves the metrics of runs while the context lasts. Raises ``TargetError``."""
        return served_metrics(self.metrics)


OUTPUT = OutputOptions()
MEASURED_OUTPUT = MeasuredOutput()


@contextmanager
def served_metrics(place: tuple[str, int] | None) -> Iterator[None]:
    """Serves the metrics of runs at a host and a port while the context lasts. Raises ``TargetError``."""
    if place is None:
        yield
        return
    # The library of metrics takes a while to load.
    from iocurve.report.metrics import RunMetrics
    from iocurve.report.view import observed_by
    from iocurve.result.openmetrics import metrics_server

    metrics = RunMetrics()
    with metrics_server(metrics, *place) as url, observed_by(metrics):
        print(f"metrics: {url}", file=sys.stderr)
        yield


def example(command: str) -> str:
    """The end of a command's help."""
    return f"Example: {command}"


def usage(command: str, arguments: str) -> str:
    """The line of usage of a command whose arguments may be left out: the parser writes [ARGS] for all of them."""
    return f"Usage: iocurve {command} [OPTIONS] {arguments}"


def shown_default(value: object) -> str | None:
    """A default in the help; none where there is nothing to show."""
    return None if value is None or value in ((), "") else str(value)


def given(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that were given: neither None nor a flag that is off nor an empty list."""
    return {option: value for option, value in options.items() if not (value is None or value is False or value == ())}


def refuse(reason: str, *groups: object, **options: object) -> None:
    """Refuses options that would have no effect. Raises ``DialectError`` where one of them was given.

    ``groups`` are dataclasses of options, ``options`` single ones; ``reason`` says when they have an effect.
    """
    known = [(group, each) for group in groups for each in fields(cast(Any, group))]
    changed = [each.name for group, each in known if getattr(group, each.name) != each.default]
    found = [*changed, *given(options)]
    if found:
        text = ", ".join(f"--{name.removesuffix('_').replace('_', '-')}" for name in found)
        raise DialectError([Diagnostic(f"{text}: {reason}")])


def show(rendered: RenderableType) -> None:
    """Prints to stdout: a terminal gets lines of its width, a file or a pipe gets whole figures."""
    if sys.stdout.isatty():
        Console().print(rendered)
        return
    console = Console(width=PIPE_COLUMNS, file=io.StringIO())
    with console.capture() as captured:
        console.print(rendered)
    print("\n".join(line.rstrip() for line in captured.get().splitlines()))


def show_tables(result: Result) -> None:
    """Prints the table of a result, and the one of its load clients where there are any."""
    from iocurve.analysis import read
    from iocurve.report.table import clients_table, result_table

    reading = read(result)
    show(result_table(reading))
    if trust := reading.trust[1]:
        print(f"\n{trust}")
    if found := reading.outcome:
        print("\n" + "\n".join(found))
    if of_clients := clients_table(result):
        print()
        show(of_clients)


def show_json(value: Any) -> None:
    """Prints a JSON document to stdout."""
    print(json.dumps(value, indent=2, ensure_ascii=False))


def records(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> list[dict[str, str]]:
    """The rows of a table as JSON objects."""
    return [dict(zip(columns, row, strict=True)) for row in rows]


def show_titles(titles: Mapping[str, str], *, json: bool) -> None:
    """Prints names with their titles: a table, or a JSON array."""
    from iocurve.report.table import Table

    columns, rows = ("name", "title"), list(titles.items())
    if json:
        show_json(records(columns, rows))
    else:
        show(Table(columns, rows, sentences=["title"], has_header=False))


# ---- help


OPTION_GROUPS = {
    "Target": "target unlimited timeout full-speed root from vm directory store export config",
    "Service level": "profile quota pool speed source kinds",
    "Rates and latencies": "throughput iops latency client-egress client-iops-read client-iops-write mean p50 p95 p99 "
    "p999 latency-depth round-trip mix bs",
    "Load": "workload iodepth iodepth-max numjobs size runtime ramp short full quick scale points",
    "Data safety": "create overwrite read-only resume keep-data",
    "Access": "allow secure-ports no-root-squash all-squash anonuid anongid suid dev async",
    "Precision": "precision repeats rounds runs margin patience tolerance burst-time no-probe",
    "Many machines": "clients on hosts ssh remote-dir tls allow-missing on-loss",
    "Connections": "listen address port max-connections metrics-address",
    "Faults": "fault fault-seed fault-log",
    "Output": "out json quiet html markdown metrics images parquet jsonl bundle",
    "Checks": "fail-if junit",
}
"""The options of a command that has many, by the heading above them in its help; others are above them all."""
GROUPED_FROM = 8
"""Least number of options that have headings."""


def _headed(console: Console, options: ConsoleOptions, panel: HelpPanel) -> None:
    """Prints a panel of the help: many options in a box for each heading."""
    from cyclopts.help import DefaultFormatter

    plain = DefaultFormatter()
    if len(panel.entries) < GROUPED_FROM or not panel.entries[0].names[0].startswith("--"):
        plain(console, options, panel)
        return
    heading_of = {f"--{name}": title for title, names in OPTION_GROUPS.items() for name in names.split()}
    for title in (panel.title, *OPTION_GROUPS):
        entries = [entry for entry in panel.entries if heading_of.get(entry.names[0], panel.title) == title]
        if entries:
            plain(console, options, panel.copy(title=title, entries=entries))


PARAMETERS = Group("Parameters", help_formatter=_headed)
"""The options of a command, by purpose where there are many."""

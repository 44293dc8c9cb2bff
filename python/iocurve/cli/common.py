"""Options, arguments and quantities that several commands share, and what they print."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

from cyclopts import Group, Parameter
from rich.console import Console, ConsoleOptions, RenderableType

from iocurve.cli.checks import CHECKS, CheckOptions
from iocurve.foundation.errors import Diagnostic, DialectError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance
    from cyclopts.help import HelpPanel

    from iocurve.result.document import Result
from collections.abc import Callable
from typing import TypeVar

from cyclopts import Token, validators

from iocurve.foundation.units import (
    format_bytes,
    format_duration,
    parse_bandwidth,
    parse_bytes,
    parse_count,
    parse_fraction,
    parse_time_ns,
)

T = TypeVar("T")
PORT_MAX = 65535


def _read(parse: Callable[[str], T]) -> Callable[[object, Sequence[Token]], T]:
    """A converter for the command parser, which reports a ``ValueError`` with the name of the option."""
    return lambda _, tokens: parse(tokens[0].value)


def _checked(parse: Callable[[str], object]) -> Callable[[object, Sequence[Token]], str]:
    """As ``_read``, but keeps the text: a volume's settings travel to its control socket as people write them."""

    def keep(_: object, tokens: Sequence[Token]) -> str:
        parse(tokens[0].value)
        return tokens[0].value

    return keep


def _fraction(text: str) -> float:
    return float(parse_fraction(text))


def _whole(text: str) -> int:
    return round(parse_count(text))


def _mix(text: str) -> float:
    from iocurve.advice.demand import parse_mix

    return parse_mix(text)


def parse_metrics_address(text: str) -> tuple[str, int]:
    """``9100``, ``10.0.0.4:9100`` or ``[::]:9100`` as a host and a port; loopback without a host.

    Raises ``ValueError`` with a message for the user.
    """
    host, colon, port = text.rpartition(":")
    is_bare_v6 = ":" in host and not (host.startswith("[") and host.endswith("]"))
    if not port.isdecimal() or int(port) > PORT_MAX or is_bare_v6 or (colon and not host):
        raise ValueError(f"'{text}' is not a port or HOST:PORT, such as 9100, 0.0.0.0:9100 or [::]:9100")
    return host.removeprefix("[").removesuffix("]") or "127.0.0.1", int(port)


def _percent(fraction: float) -> str:
    return f"{fraction * 100:g}%"


def _default(form: Callable[[T], str]) -> Callable[[T | None], str | None]:
    """Help shows a default in the form of the quantity, and none where an option has none."""
    return lambda value: None if value is None else form(value)


SizeBytes = Annotated[int, Parameter(converter=_read(parse_bytes), metavar="SIZE", show_default=_default(format_bytes))]
TimeNs = Annotated[
    int, Parameter(converter=_read(parse_time_ns), metavar="TIME", show_default=_default(format_duration))
]
Ratio = Annotated[float, Parameter(converter=_read(_fraction), metavar="FRACTION", show_default=_default(_percent))]
MetricsAddress = Annotated[
    tuple[str, int],
    Parameter(
        converter=_read(parse_metrics_address), metavar="[HOST:]PORT", n_tokens=1, negative="", show_default=False
    ),
]
BandwidthBytes = Annotated[int, Parameter(converter=_read(parse_bandwidth), metavar="BANDWIDTH", show_default=False)]
Count = Annotated[int, Parameter(converter=_read(_whole), metavar="N", show_default=False)]
Operations = Annotated[int, Parameter(converter=_read(_whole), validator=validators.Number(gte=1), metavar="N")]
"""Operations per second, at least 1: ``100k``."""
Mix = Annotated[float, Parameter(converter=_read(_mix), metavar="READS:WRITES", show_default=False)]
SizeText = Annotated[str, Parameter(converter=_checked(parse_bytes), metavar="SIZE")]
TimeText = Annotated[str, Parameter(converter=_checked(parse_time_ns), metavar="TIME")]
FractionText = Annotated[str, Parameter(converter=_checked(parse_fraction), metavar="FRACTION")]
BandwidthText = Annotated[str, Parameter(converter=_checked(parse_bandwidth), metavar="BANDWIDTH")]
Port = Annotated[int, Parameter(validator=validators.Number(gte=0, lte=PORT_MAX), metavar="PORT")]
AtLeast0 = Annotated[int, Parameter(validator=validators.Number(gte=0), metavar="N")]
AtLeast1 = Annotated[int, Parameter(validator=validators.Number(gte=1), metavar="N")]
Rounds = Annotated[int, Parameter(validator=validators.Number(gte=1, lte=100), metavar="N")]
Flag = Annotated[bool, Parameter(negative="", show_default=False)]
JsonFlag = Annotated[bool, Parameter(negative="", show_default=False, help="Print JSON instead of text.")]
QuietFlag = Annotated[
    bool, Parameter(negative="", show_default=False, help="Print no progress and no table, only errors.")
]
ResultPath = Annotated[Path, Parameter(help="A result.json, or its directory.")]
ReportOut = Annotated[Path, Parameter(help="Directory for report.html, result.json and points.csv.")]
Many = Parameter(consume_multiple=True, negative="", show_default=False)
"""An option that takes several values: ``--points A B`` or ``--points A --points B``."""


PIPE_COLUMNS = 10_000
"""The width where stdout is no terminal: no line is wrapped and no cell is cut."""

Words = Annotated[str, Parameter(allow_leading_hyphen=True, show=False)]
"""Arguments that follow another tool's rules."""
TargetText = Annotated[str | Path, Parameter(converter=lambda _, tokens: tokens[0].value)]
"""A target; shells complete it as a path."""
MeasuredTarget = Annotated[
    TargetText,
    Parameter(
        help="A directory, a file, a device, nfs://host/export?nconnect=8, volume:PROFILE?quota=4TiB or disk:NAME."
    ),
]
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
    """Serve OpenMetrics at http://HOST:PORT/metrics during the run, on 127.0.0.1 by default; port 0 takes a free one:
    9100, 0.0.0.0:9100."""
    serve: Port | None = None
    """Serve the measurement as a page at http://127.0.0.1:PORT, which becomes the report; 0 takes a free port."""
    live: Annotated[bool | None, Parameter(negative="--no-live", show_default=False)] = None
    """Show the measurement on the whole terminal, with charts. Default: if it takes more than 10 s."""

    def observed(self) -> AbstractContextManager[None]:
        """Shows runs as requested and serves their metrics while the context lasts.

        Raises ``TargetError`` and ``DialectError``.
        """
        if self.live and self.quiet:
            refuse("--quiet shows nothing", live=True)
        return observed(self.metrics, fills_screen=self.live, page_port=self.serve)


OUTPUT = OutputOptions()
MEASURED_OUTPUT = MeasuredOutput()


@contextmanager
def observed(
    metrics: tuple[str, int] | None, *, fills_screen: bool | None = None, page_port: int | None = None
) -> Iterator[None]:
    """Serves the metrics of runs at a host and a port while the context lasts, and decides which views show them.

    Raises ``TargetError``, and ``DialectError`` where there is no terminal to fill.
    """
    from iocurve.report.views import filling_screen, observed_by, served_progress

    if fills_screen and not sys.stderr.isatty():
        refuse("stderr is no terminal", live=True)
    with ExitStack() as stack:
        stack.enter_context(filling_screen(fills_screen))
        if metrics:
            # The library of metrics takes a while to load.
            from iocurve.report.metrics import RunMetrics
            from iocurve.result.openmetrics import metrics_server

            view = RunMetrics()
            print(f"metrics: {stack.enter_context(metrics_server(view, *metrics))}", file=sys.stderr)
            stack.enter_context(observed_by(view))
        if page_port is not None:
            print(f"progress: {stack.enter_context(served_progress(page_port))}", file=sys.stderr)
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


def given(options: Mapping[str, T | None]) -> dict[str, T]:
    """The options that were given: neither None nor a flag that is off nor an empty list."""
    return {
        option: value for option, value in options.items() if value is not None and value is not False and value != ()
    }


def refuse(reason: str, *groups: object, **options: object) -> None:
    """Refuses options that would have no effect. Raises ``DialectError`` where one of them was given.

    ``groups`` are dataclasses of options, ``options`` single ones; ``reason`` says when they have an effect.
    """
    known = [(group, each) for group in groups for each in fields(cast("DataclassInstance", group))]
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
    """Prints the table of a result, and the one of its agents where there are any."""
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


def show_json(value: object) -> None:
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
    "Target": "target timeout full-speed root from vm directory store export config",
    "Service level": "profile quota pool speed source kinds",
    "Rates and latencies": "throughput iops latency client-egress client-iops-read client-iops-write mean p50 p95 p99 "
    "p999 latency-depth round-trip mix bs",
    "Load": "workload rw rwmixread iodepth iodepth-max numjobs size runtime ramp-time full quick scale points",
    "Data safety": "create overwrite read-only resume keep-data",
    "Access": "allow secure-ports no-root-squash all-squash anonuid anongid suid dev async",
    "Precision": "precision retries runs margin search-time tolerance burst-time sustained no-confirm",
    "Many machines": "clients on hosts ssh remote-dir tls allow-missing on-loss",
    "Connections": "listen address port max-connections metrics-address",
    "Faults": "fault fault-seed fault-log",
    "Output": "out json quiet live serve html markdown metrics images parquet jsonl bundle",
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

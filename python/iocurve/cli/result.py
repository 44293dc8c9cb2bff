"""Commands of results that were kept: add records to one, import those of other tools, write a report again."""

from __future__ import annotations

import csv
import json
import sys
import webbrowser
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter, validators

from iocurve.analysis import read
from iocurve.analysis.check_names import Vocabulary
from iocurve.cli import checks
from iocurve.cli.common import (
    OUT,
    OUTPUT,
    Flag,
    OutputOptions,
    ReportOut,
    ResultPath,
    TimeNs,
    example,
    refuse,
    show_tables,
    usage,
)
from iocurve.cli.exits import status
from iocurve.cli.machines import ClusterOptions, SshOptions
from iocurve.foundation.errors import Diagnostic, DialectError, ResultError, RunError
from iocurve.foundation.units import counted, format_duration
from iocurve.report import page
from iocurve.result.course import coarser
from iocurve.result.document import Result
from iocurve.result.document_file import RESULT_NAME, make_writable

if TYPE_CHECKING:
    from iocurve.measure.group import ClientGroup

NO_PERCENTILES = (
    "a result keeps those of each of its intervals, and no histograms that --every could join; "
    "without --every, lines that the run itself joined have theirs"
)
"""The reason why percentiles of a time series are not known."""

app = App(
    name="result",
    help="Print a result over time or as metrics; add the records of lost agents to it.",
    help_epilogue=example("iocurve result series iocurve-report --every 10s"),
)


Every = Annotated[TimeNs, Parameter(validator=validators.Number(gt=0))]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class KeptFiles(SshOptions):
    """The machines that have local files of agents; hosts are reached as they were by the run."""

    on: str | None = None
    """The cluster whose machines have the files: auto (of this machine, default), or HOST:PORT of its head."""

    def machines(self) -> AbstractContextManager[ClientGroup]:
        """The machines while the context lasts. Raises ``RunError`` and ``PlanError``."""
        options = ClusterOptions(**vars(self) | {"on": self.on if self.on or self.hosts else "auto"})
        options.require_sense(names_cluster=options.on is not None)
        return options.agents()


KEPT_FILES = KeptFiles()


@app.command(
    name="merge",
    usage=usage("result merge", "RESULT [FILES...]"),
    help_epilogue=example("iocurve result merge iocurve-report --hosts vm[1-12]"),
)
def merge_records(result: ResultPath, files: tuple[Path, ...] = (), /, *, kept: KeptFiles = KEPT_FILES) -> int:
    """Add the local files of lost agents to a result, and write its report again.

    Without files they are fetched from the machines that --on or --hosts gives, and removed there. A client that ran to
    its end counts in the totals from then on; what another had measured is kept apart.

    Parameters
    ----------
    files
        Local files of clients. The result has the path of each lost client's file (journal).
    """
    from iocurve.measure.journals import Journal, merged

    source = result / RESULT_NAME if result.is_dir() else result
    found = Result.read(source)
    if files:
        refuse("this reaches machines that have the files; leave out the files, or this", kept)
        changed = merged(found, [Journal.read(file) for file in files])
        _write_merged(changed, source)
    else:
        changed = _merge_fetched(found, source, kept)
    show_tables(changed)
    return status(changed)


@app.command(name="recover", help_epilogue=example("iocurve result recover --hosts vm[1-12] --out recovered"))
def recover_result(*, out: ReportOut = OUT, kept: KeptFiles = KEPT_FILES) -> int:
    """Make a result of a run whose program was killed, from the local files of its agents.

    The files are fetched from the machines that --on or --hosts gives, and removed there. Each run that left files is
    a point, with what its clients had measured; the exit status is 1, as the run is incomplete."""
    from iocurve.measure.journals import recovered

    with page.ReportDirectory(out) as directory, kept.machines() as machines:
        found = machines.all_kept()
        if not found:
            raise RunError("no machine has a local file of a run that has ended")
        result = directory.finish(recovered(found))
        if not any(note.code == "result_not_written" for note in result.notes):
            for run, client in {(one.run, one.client) for point in result.points for one in point.clients}:
                machines.forget_kept(run, client)
    show_tables(result)
    return status(result)


def _merge_fetched(found: Result, source: Path, files: KeptFiles) -> Result:
    """Adds the files that machines have, writes the result, then removes the files there. Raises ``RunError``."""
    from iocurve.measure.journals import lost, merged, parsed

    wanted = lost(found)
    if not wanted:
        raise RunError(f"{source} lacks the records of no agent")
    with files.machines() as machines:
        kept = [(client, machines.kept(client.run, client.client)) for client in wanted]
        there = [(client, text) for client, text in kept if text is not None]
        if not there:
            raise RunError(f"{source}: no machine has a local file of this result")
        changed = merged(found, [parsed(client, text) for client, text in there])
        _write_merged(changed, source)
        for client, _ in there:
            machines.forget_kept(client.run, client.client)
    return changed


def _write_merged(changed: Result, source: Path) -> None:
    changed.write(source)
    page.write(read(changed), source.parent)


@app.command(name="metrics", help_epilogue=example("iocurve result metrics iocurve-report > metrics.prom"))
def print_metrics(result: ResultPath, /) -> int:
    """Print a result in OpenMetrics text format: for each point rates, a histogram of latencies and its limit."""
    from iocurve.report.metrics import ResultMetrics
    from iocurve.result import openmetrics

    print(openmetrics.text(ResultMetrics(Result.read(result))).decode(), end="")
    return 0


@app.command(name="series", help_epilogue=example("iocurve result series iocurve-report --every 10s"))
def print_series(
    result: ResultPath,
    /,
    *,
    every: Annotated[TimeNs | None, Parameter(validator=validators.Number(gt=0))] = None,
    jsonl: Flag = False,
) -> int:
    """Print rates and latencies over time as CSV: one line per point, interval and kind of operation.

    Service latencies are in µs, times in seconds since the start of the workers. Percentiles are empty where
    --every joins intervals.

    Parameters
    ----------
    every
        Join the intervals of this time, a multiple of theirs, e.g. 10s. Default: the intervals of the result.
    jsonl
        Print one JSON object per line instead.
    """
    source = result / RESULT_NAME if result.is_dir() else result
    points = Result.read(source).points
    for point in points if every else ():
        step_ns = point.plan.interval_ns
        if not point.imported and every and every % step_ns:
            near = format_duration(max(1, round(every / step_ns)) * step_ns)
            text = (
                f"--every: the intervals of {point.name} are {format_duration(step_ns)}; choose a multiple, as {near}"
            )
            raise DialectError([Diagnostic(text)])
    rows = [
        {"point": point.name, **interval.record()}
        for point in points
        for interval in (coarser(point.series(), every) if every else point.series())
    ]
    if not rows:
        raise ResultError(f"{source} has no intervals")
    if without := sum(bool(row["iops"]) and row["p99_us"] is None for row in rows):
        print(f"info: {counted(without, 'line')} without percentiles: {NO_PERCENTILES}", file=sys.stderr)
    if jsonl:
        sys.stdout.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    else:
        writer = csv.DictWriter(sys.stdout, fieldnames=list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return 0


def rewrite_report(
    result: ResultPath,
    /,
    *,
    out: Path | None = None,
    png: Path | None = None,
    svg: Path | None = None,
    images: Flag = False,
    parquet: Flag = False,
    markdown: Flag = False,
    open_: Annotated[Flag, Parameter(name="--open")] = False,
) -> int:
    """Write the report of a result again.

    Parameters
    ----------
    out
        Directory for the report. Default: the directory of the result.
    png
        Also write each chart as PNG to this directory.
    svg
        Also write each chart as SVG to this directory.
    images
        Also write the charts as PNG and SVG next to the report.
    parquet
        Also write the points as points.parquet; this needs iocurve[arrow].
    markdown
        Print the sentences and the table of the points in Markdown instead of the paths.
    open_
        Open the report in the browser.
    """
    source = result / RESULT_NAME if result.is_dir() else result
    reading, directory = read(Result.read(source)), out or source.parent
    make_writable(directory)
    written = page.write(reading, directory)
    with_page: tuple[tuple[Path | None, page.ImageFormat], ...] = ((directory, "png"), (directory, "svg"))
    for images_directory, form in (*(with_page if images else ()), (png, "png"), (svg, "svg")):
        if images_directory:
            make_writable(images_directory)
            written += page.write_images(reading, images_directory, (form,))
    written += [page.write_parquet(reading, directory)] if parquet else []
    if markdown:
        print("\n".join(page.markdown(reading)))
    else:
        print(*written, sep="\n")
    if open_ and not webbrowser.open(written[0].resolve().as_uri()):
        raise ResultError(f"no browser opens {written[0]}")
    return 0


def write_article(
    results: tuple[Path, ...],
    /,
    *,
    out: Path = Path("iocurve-article"),
    template: Path | None = None,
    tuning: Path | None = None,
) -> int:
    """Write a benchmark page of a volume from results: method, set-up, tests with commands and charts, limits found.

    Each value has its interval, and the appendix tells how to measure it again.

    Parameters
    ----------
    results
        Files result.json, or their directories.
    out
        Directory for article.md with its charts, and article.html.
    template
        A Markdown file with $title, $summary, $method, $setup, $tests, $limits and $appendix where these go.
    tuning
        The output of iocurve doctor --json on the same machine.
    """
    from iocurve.report import article

    readings = [read(Result.read(path)) for path in results]
    if not readings:
        refuse("an article needs a result", out=out)
    rows = []
    if tuning:
        from iocurve.advice.doctor.checks import Diagnosis

        try:
            found = Diagnosis.from_json(tuning.read_bytes())
        except ValueError as error:
            raise ResultError(f"{tuning} is no output of iocurve doctor --json: {error}") from None
        rows = [(one.title, one.subject, one.found, one.state) for one in found.rows]
    text = template.read_text(encoding="utf-8") if template else ""
    make_writable(out)
    print(*article.write(article.article(readings, rows), out, text), sep="\n")
    return 0


def import_results(files: tuple[Path, ...], /, *, out: ReportOut = OUT, output: OutputOptions = OUTPUT) -> int:
    """Import results of fio, vdbench, DiskSpd, elbencho and mdtest.

    The format is recognised from the content. The result has the values that the tool states; values that it does not
    state stay unknown.

    Parameters
    ----------
    files
        Files, or directories with such files.
    """
    from iocurve.imports.formats import imported

    result, left_out = imported(files)
    expressions = output.checks.parsed(Vocabulary.of(result))
    make_writable(out)
    result.write(out / RESULT_NAME)
    page.write(read(result), out)
    for name in left_out:
        print(f"iocurve: left out {name}: not an output that iocurve reads", file=sys.stderr)
    if output.json:
        print(result.document().decode(), end="")
    elif not output.quiet:
        show_tables(result)
    if result.incomplete_reason:
        print(f"iocurve: the measurement was incomplete: {result.incomplete_reason}", file=sys.stderr)
    return checks.report(result, expressions, output.checks, sys.stderr if output.json or output.quiet else None)

"""Commands of results that were kept: add records to one, import those of other tools, write a report again."""

from __future__ import annotations

import csv
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter, validators

from iocurve.analysis import read
from iocurve.analysis.check_names import Vocabulary
from iocurve.cli import checks
from iocurve.cli.common import OUT, OUTPUT, Flag, OutputOptions, TimeNs, example, refuse, show_tables, usage
from iocurve.cli.exits import status
from iocurve.cli.machines import SSH, ClusterOptions
from iocurve.foundation.errors import Diagnostic, DialectError, ResultError, RunError
from iocurve.foundation.units import counted, format_duration
from iocurve.report import page
from iocurve.result.course import coarser
from iocurve.result.document import RESULT_NAME, Result, make_writable

NO_PERCENTILES = (
    "a result keeps those of each of its intervals, and no histograms that --every could join; "
    "without --every, lines that the run itself joined have theirs"
)
"""The reason why percentiles of a time series are not known."""

app = App(
    name="result",
    help="Print a result over time or as metrics; add the records of lost load clients to it.",
    help_epilogue=example("iocurve result series iocurve-report --every 10s"),
)


Every = Annotated[TimeNs, Parameter(validator=validators.Number(gt=0))]


@app.command(
    name="merge",
    usage=usage("result merge", "RESULT [FILES...]"),
    help_epilogue=example("iocurve result merge iocurve-report --hosts vm[1-12]"),
)
def merge_records(
    result: Path,
    files: tuple[Path, ...] = (),
    /,
    *,
    on: str | None = None,
    hosts: str | None = None,
    ssh: str = SSH,
    remote_dir: str = "",
    tls: Flag = False,
    allow_missing: Flag = False,
) -> int:
    """Add the local files of load clients that were lost to a result, and write its report again.

    Without files they are fetched from the machines that --on or --hosts gives, and removed there. A client that ran to
    its end counts in the totals from then on; what another had measured is kept apart.

    Parameters
    ----------
    result
        A result.json, or its directory.
    files
        Local files of clients. The result has the path of each lost client's file (journal).
    on
        The cluster whose machines have the files: auto for the one that this machine belongs to, or HOST:PORT of its
        head. Default: auto.
    hosts
        The hosts that have the files, as they were given to the run: vm1,vm2, or vm[1-12], or a file with such lists.
    ssh
        The program that reaches the hosts, with options, such as 'ssh -F vms.conf'.
    remote_dir
        The --remote-dir of the run.
    tls
        With --hosts, encrypt the connections between the machines.
    allow_missing
        Fetch from the machines that can be reached.
    """
    cluster = ClusterOptions(on=on, hosts=hosts, ssh=ssh, remote_dir=remote_dir, tls=tls, allow_missing=allow_missing)
    from iocurve.measure.journals import Journal, merged

    source = result / RESULT_NAME if result.is_dir() else result
    found = Result.read(source)
    if files:
        refuse("this reaches machines that have the files; leave out the files, or this", cluster)
        changed = merged(found, [Journal.read(file) for file in files])
        _write_merged(changed, source)
    else:
        changed = _merge_fetched(found, source, cluster if on or hosts else replace(cluster, on="auto"))
    show_tables(changed)
    return status(changed)


def _merge_fetched(found: Result, source: Path, cluster: ClusterOptions) -> Result:
    """Adds the files that machines have, writes the result, then removes the files there. Raises ``RunError``."""
    from iocurve.measure.journals import lost, merged, parsed

    wanted = lost(found)
    if not wanted:
        raise RunError(f"{source} lacks the records of no load client")
    with cluster.machines() as machines:
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
def print_metrics(result: Path, /) -> int:
    """Print a result in OpenMetrics text format: for each point rates, a histogram of latencies and its limit.

    Parameters
    ----------
    result
        A result.json, or its directory.
    """
    from iocurve.report.metrics import ResultMetrics
    from iocurve.result import openmetrics

    source = result / RESULT_NAME if result.is_dir() else result
    print(openmetrics.text(ResultMetrics(Result.read(source))).decode(), end="")
    return 0


@app.command(name="series", help_epilogue=example("iocurve result series iocurve-report --every 10s"))
def print_series(
    result: Path,
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
    result
        A result.json, or its directory.
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


def rewrite_report(result: Path, /, *, out: Path | None = None, images: Flag = False, parquet: Flag = False) -> int:
    """Write the report of a result again.

    Parameters
    ----------
    result
        A result.json, or its directory.
    out
        Directory for the report. Default: the directory of the result.
    images
        Also write the charts as PNG and SVG.
    parquet
        Also write the points as points.parquet; this needs iocurve[arrow].
    """
    source = result / RESULT_NAME if result.is_dir() else result
    reading, directory = read(Result.read(source)), out or source.parent
    make_writable(directory)
    written = page.write(reading, directory)
    written += page.write_images(reading, directory) if images else []
    written += [page.write_parquet(reading, directory)] if parquet else []
    for path in written:
        print(path)
    return 0


def import_results(files: tuple[Path, ...], /, *, out: Path = OUT, output: OutputOptions = OUTPUT) -> int:
    """Import results of fio, vdbench, DiskSpd, elbencho and mdtest.

    The format is recognised from the content. The result has the values that the tool states; values that it does not
    state stay unknown.

    Parameters
    ----------
    files
        Files, or directories with such files.
    out
        Directory for result.json, points.csv and report.html.
    """
    from iocurve.imports.formats import read_all
    from iocurve.imports.points import result_of

    measured, left_out = read_all(files)
    result = result_of(measured, ", ".join(str(file) for file in files))
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

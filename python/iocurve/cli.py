"""The command line: one short function a command."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, NoReturn

from cyclopts import App, Parameter
from rich.console import Console

from iocurve import jobs
from iocurve import target as targets
from iocurve import volume as volumes
from iocurve.console import LiveView, result_table
from iocurve.envelope import FULL, QUICK, Envelope, measure
from iocurve.errors import DialectError, Interrupted, IocurveError, Mistake, TargetError
from iocurve.result import Result, TargetFacts, iocurve_version
from iocurve.units import format_bytes, parse_bytes, parse_time_ns

EXIT_INCOMPLETE = 1
EXIT_MISTAKE = 2
EXIT_INTERRUPTED = 130

app = App(
    name="iocurve",
    help="Measures how much I/O a volume carries, draws the curve, and says what limits it.",
    version=iocurve_version,
)
FIO_HELP = """\
Usage: iocurve fio [fio's options] [job files]

Runs fio's job files and command lines as they are; fio's manual describes the options. On top of them there are
  --nconnect=N        connections of each job to its NFS server (ioengine=nfs)
  --nfs_url=URL       also nfs://host:port/export?nconnect=8, NFS and MOUNT on one port
  --nfs_timeout=TIME  give up when the server has not answered for so long (60 s)
  --out=DIR           result.json, report.html and points.csv go there

What a job would do, and which traps are in it: iocurve explain fio ...
"""
Words = Annotated[str, Parameter(allow_leading_hyphen=True, show=False)]


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Runs a command and exits: 0 all measured, 1 cut short, 2 a mistake in what was asked, 130 Ctrl-C."""
    try:
        status = app(arguments, result_action="return_value")
    except TargetError as error:
        _complain(error)
        status = EXIT_INCOMPLETE
    except Interrupted as error:
        _complain(error)
        status = EXIT_INTERRUPTED
    except IocurveError as error:
        _complain(error)
        status = EXIT_MISTAKE
    except KeyboardInterrupt:
        status = EXIT_INTERRUPTED
    except BrokenPipeError:
        # Whoever read the output has seen enough.
        status = EXIT_INCOMPLETE
    sys.exit(status or 0)


@app.command
def envelope(
    target: str | None = None,
    /,
    *,
    quick: bool = False,
    out: Path = Path("iocurve-report"),
    unlimited: bool = False,
    size: str | None = None,
    timeout: str = "60s",
    overwrite: bool = False,
    read_only: bool = False,
) -> int:
    """Measure a target's mixes of reads and writes and its latency under load, and write the report.

    Parameters
    ----------
    target
        A directory, a file, a block device, or nfs://host[:port]/export?nconnect=8. Without one, the embedded
        NFS volume is started (ultra, 4 TiB) and measured.
    quick
        Short points and few depths: under 20 seconds.
    out
        Directory for report.html, result.json and points.csv.
    unlimited
        Without a target: the embedded volume without a service level, as fast as this machine is.
    size
        Data set, all files together (1GiB; with --quick 256MiB).
    timeout
        Give up when an NFS server has not answered for so long; until then it is waited for, as a hard mount does.
    overwrite
        Allow writes to a file or device that is already there. What is in it is lost.
    read_only
        Measure reads alone: nothing is written.
    """
    effort = (QUICK if quick else FULL).sized(None if size is None else _bytes("--size", size))
    timeout_ns = _time_ns("--timeout", timeout)

    def planned(text: str) -> Envelope:
        return Envelope(targets.parse(text), effort, timeout_ns, overwrite=overwrite, read_only=read_only)

    if target is not None:
        named = planned(target)
        return _measured(named, targets.facts_of(named.target), out)
    with volumes.served(["--unlimited"] if unlimited else []) as url:
        return _measured(planned(url), volumes.facts(url, unlimited=unlimited), out)


@app.command
def volume(
    *,
    level: volumes.Level = volumes.DEFAULT_LEVEL,
    quota: str = "4TiB",
    throughput: str | None = None,
    iops: int | None = None,
    latency: str = "0",
    unlimited: bool = False,
    store: str = "memory",
    address: str = "127.0.0.1",
    port: int = 0,
) -> int:
    """Serve an NFSv3 volume from this process until Ctrl-C; it needs no root and no portmapper.

    Parameters
    ----------
    level
        Service level: MiB/s per TiB of quota are 16 (standard), 64 (premium), 128 (ultra).
    quota
        Size of the volume; with the level it gives the throughput.
    throughput
        MiB/s instead of the level's: 512MiB, 1.5GiB (per second, reads and writes together).
    iops
        Most reads and writes per second, together.
    latency
        Added to each read and write: 500us, 2ms.
    unlimited
        No service level: as fast as this machine is.
    store
        "memory" or a directory whose files the volume serves.
    address
        Address to listen on. Whoever reaches it can read and write the volume.
    port
        TCP port of NFS and MOUNT; 0 takes a free one.
    """
    quota_bytes = _bytes("--quota", quota)
    given = _bytes("--throughput", throughput) if throughput is not None else None
    limit = None if unlimited and given is None else given or volumes.throughput_of(level, quota_bytes)
    limits = volumes.Limits(throughput_bytes_per_s=limit, iops=iops, latency_ns=_time_ns("--latency", latency))
    export = volumes.ExportConfig(store=volumes.store_of(store), quota_bytes=quota_bytes, limits=limits)
    config = volumes.VolumeConfig(address=address, port=port, exports=(export,))
    served = volumes.serve(config)
    speed = "no limit" if limit is None else f"{format_bytes(limit)}/s" + ("" if given else f" ({level}, {quota})")
    print(f"nfs://{address}:{served.port}{export.path}   {speed}; store: {store}", flush=True)
    print(f"mount it with: {volumes.mount_command(address, served.port, export.path)}", flush=True)
    print("Ctrl-C ends it", flush=True)
    _wait_for_the_end()
    served.stop()
    return 0


@app.command(help_flags=[], version_flags=[])
def fio(*arguments: Words) -> int:
    """Run fio job files and fio command lines as they are."""
    if arguments in (("--help",), ("-h",)):
        print(FIO_HELP)
        return 0
    result = jobs.run_fio(arguments)
    return 0 if result is None else _status(result)


explain = App(name="explain", help="Print what would run, and the traps in it, without running it.")
app.command(explain)


@explain.command(name="fio", help_flags=[], version_flags=[])
def explain_fio(*arguments: Words) -> int:
    """Explain fio job files and fio command lines."""
    print(jobs.explain_fio(arguments))
    return 0


@app.command(name="report")
def rewrite_report(result: Path, /, *, out: Path | None = None, images: bool = False) -> int:
    """Write the report of a result.json again.

    Parameters
    ----------
    result
        A result.json.
    out
        Directory for the report; where the result is, if not given.
    images
        Write the charts as PNG and SVG, too.
    """
    # The charts' library takes half a second to load; the other commands need not wait for it.
    from iocurve import report

    measured, directory = Result.read(result), out or result.parent
    directory.mkdir(parents=True, exist_ok=True)
    written = report.write(measured, directory)
    written += report.write_images(measured, directory) if images else []
    for path in written:
        print(path)
    return 0


def _measured(envelope: Envelope, facts: TargetFacts, out: Path) -> int:
    with LiveView() as view:
        result = measure(envelope, facts, out, view)
    Console().print(result_table(result))
    print(f"\nreport: {out / 'report.html'}")
    return _status(result)


def _status(result: Result) -> int:
    """The exit status of what was measured; why it is incomplete goes to stderr."""
    if result.state == "finished":
        return 0
    print(f"iocurve: incomplete: {result.incomplete_reason}", file=sys.stderr)
    return EXIT_INTERRUPTED if result.state == "interrupted" else EXIT_INCOMPLETE


def _complain(error: IocurveError) -> None:
    print(f"iocurve: {error}", file=sys.stderr)


def _bytes(option: str, text: str) -> int:
    try:
        return parse_bytes(text)
    except ValueError as error:
        raise DialectError([Mistake(f"{option}: {error}")]) from None


def _time_ns(option: str, text: str) -> int:
    try:
        return parse_time_ns(text)
    except ValueError as error:
        raise DialectError([Mistake(f"{option}: {error}")]) from None


def _wait_for_the_end() -> None:
    """Until Ctrl-C or a request to terminate."""
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    ended.wait()

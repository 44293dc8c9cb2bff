"""The command line: one short function a command."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any, NoReturn

from cyclopts import App, Parameter
from rich.console import Console
from rich.table import Table

from iocurve import control, disk_data, jobs, place, volume_view
from iocurve import disk as disks
from iocurve import profile as profiles
from iocurve import target as targets
from iocurve import volume as volumes
from iocurve.console import LiveView, result_table
from iocurve.dialects.diskspd.options import flag_lines
from iocurve.envelope import FULL, QUICK, Envelope, measure
from iocurve.errors import DialectError, Interrupted, IocurveError, Mistake, TargetError
from iocurve.result import Result, TargetFacts, iocurve_version
from iocurve.scenario import command as scenarios
from iocurve.scenario import document as documents
from iocurve.search import command as searches
from iocurve.search.loads import Effort
from iocurve.units import SECOND_NS, format_bytes, parse_bytes, parse_time_ns
from iocurve.volume_limits import Limits

EXIT_INCOMPLETE = 1
EXIT_MISTAKE = 2
EXIT_INTERRUPTED = 130
ENDING = (signal.SIGINT, signal.SIGTERM)

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
  --disk=MOUNT=DISK   files below the directory MOUNT lie on an emulated disk, as in
                      --disk '/mnt/data=disk:premium-ssd-p30?stripe=3&vm=Standard_D8ds_v4&path=DIR' (iocurve disks)
  --nfs_timeout=TIME  give up when the server has not answered for so long (60 s)
  --out=DIR           result.json, report.html and points.csv go there

--output-format=normal,terse,json,json+ answers as fio does; --enghelp[=ENGINE] and --cmdhelp[=OPTION] say what runs.
What a job would do, and which traps are in it: iocurve explain fio ...
"""
VDBENCH_HELP = """\
Usage: iocurve vdbench -f file [file ...] [vdbench's options] [variable=value ...]

Runs vdbench's parameter files as they are; vdbench's guide describes them. Of its options there are
  -f FILE ...         parameter files
  -o DIR              folder for the reports (output); DIR+ counts on, DIR.tod adds the time
  -e, -i, -w TIME     instead of every elapsed=, interval=, warmup=
  -l [TIME]           all runs again, for a time or without end
  -v[r|w], -j[r|ro]   data validation: what is read is compared; journals let a later run verify what this one wrote
  -r RD               begin with this run definition
  -s                  only print which runs there would be
  -t                  a sample: five seconds on a small file
On top of them there are
  --map-host FROM=TO  play host FROM (a label, a system, or a pattern) as TO; hosts with one name become one
  --map-lun FROM=TO   use TO instead of the LUN, directory or pattern FROM; {sd} and {host} are filled in
  --size SIZE         instead of every size=, to try a file out
  --report DIR        result.json, report.html and points.csv go there
A lun may be nfs://host[:port]/export/file?nconnect=8.

What a parameter file would do, and which traps are in it: iocurve explain vdbench ...
"""
DISKSPD_HELP = """\
Usage: iocurve diskspd [flags] target [targets]

Runs DiskSpd's command lines and XML profiles as they are, and answers in its text or XML. A value follows its letter at
once; flags are case-sensitive and come before the targets. A target is a file, a block device, or nfs://host/export/file.

{flags}

On top of them there are
  --disk=MOUNT=DISK  files below the directory MOUNT lie on an emulated disk: see iocurve fio --help
  --out=DIR          result.json, report.html and points.csv go there

What a command line would do, and which traps are in it: iocurve explain diskspd ...
"""
CONVERT_HELP = """\
Usage: iocurve convert [-o FILE] fio|vdbench|diskspd [the tool's own options]

Writes the job as a TOML file that iocurve run takes; the plan stays the same. Without -o it goes to stdout."""
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
    timeout: str | None = None,
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
        Give up when an NFS server has not answered for so long (60s, or the URL's timeo); until then it is waited for,
        as a hard mount does.
    overwrite
        Allow writes to a file or device that is already there. What is in it is lost.
    read_only
        Measure reads alone: nothing is written.
    """
    effort = (QUICK if quick else FULL).sized(None if size is None else _bytes("--size", size))
    timeout_ns = None if timeout is None else _time_ns("--timeout", timeout)

    named = targets.parse(target or ("volume:unlimited" if unlimited else "volume:anf-ultra?quota=4TiB"))
    with place.opened(named) as found:
        planned = Envelope(found.target, effort, timeout_ns, overwrite=overwrite, read_only=read_only)
        return _measured(planned, found.facts, out)


volume = App(
    name="volume", help="Serve an NFSv3 volume with a service level; change it and look at it while it serves."
)
app.command(volume)


@volume.default
def serve_volume(
    *,
    profile: str | None = None,
    level: volumes.Level | None = None,
    quota: str | None = None,
    throughput: str | None = None,
    iops: int | None = None,
    latency: str | None = None,
    pool: str | None = None,
    client_egress: str | None = None,
    unlimited: Annotated[bool, Parameter(negative="")] = False,
    store: str | None = None,
    export: Annotated[tuple[str, ...], Parameter(negative="", show_default=False)] = (),
    config: Path | None = None,
    address: str = "127.0.0.1",
    port: int = 0,
    metrics: int | None = None,
    metrics_address: str = "127.0.0.1",
) -> int:
    """Serve an NFSv3 volume from this process until Ctrl-C; it needs no root and no portmapper.

    Parameters
    ----------
    profile
        Service level (iocurve profiles), or a file of your own that ends in .toml; anf-ultra, or unlimited with a
        --throughput.
    level
        Short for --profile anf-standard, anf-premium or anf-ultra: 16, 64 or 128 MiB/s per TiB of quota.
    quota
        Size of the volume (4TiB); with the profile it gives the limits.
    throughput
        Per second, reads and writes together, instead of the profile's: 512MiB, 1.5GiB. With a profile of manual QoS
        at most what the pool has.
    iops
        Most reads and writes per second, together, instead of the profile's.
    latency
        Added to each read and write, instead of the profile's: 500us, 2ms.
    pool
        Size of the capacity pool that --throughput is taken from; the quota if not given.
    client_egress
        What each client (an IP address) can send, and so write, per second: 16000Mb, 16Gb, 1907MiB. A small b is bits.
    unlimited
        Short for --profile unlimited: as fast as this machine is.
    store
        "memory" (the default) or a directory whose files the volume serves.
    export
        Several exports, each with settings of its own: --export /a:profile=anf-premium,quota=2TiB
        --export /b:store=/srv.
    config
        A TOML file instead of these options: address, port, and for each export a table [[export]] with path, profile,
        quota, throughput, iops, latency, pool, client_egress, store.
    address
        Address to listen on. Whoever reaches it can read and write the volume.
    port
        TCP port of NFS and MOUNT; 0 takes a free one.
    metrics
        Port for OpenMetrics at /metrics; 0 takes a free one.
    metrics_address
        Address for --metrics.
    """
    one = _given(
        profile=_profile_of(profile, level, unlimited=unlimited),
        quota=quota,
        throughput=throughput,
        iops=iops,
        latency=latency,
        pool=pool,
        client_egress=client_egress,
        store=store,
    )
    spec = _volume_spec(one, export, config, address, port)
    _hold_the_end_back()
    served = volumes.serve(spec.config())
    answers = control.Control(served, spec.export)
    with ExitStack() as stack:
        stack.callback(served.stop)
        socket = stack.enter_context(control.served(answers, served.port))
        for line in volumes.greeting(spec, served.port):
            print(line)
        print(f"control: {socket}")
        if metrics is not None:
            # The library takes a while to load; who does not ask for it need not wait.
            from iocurve import metrics as openmetrics

            found = openmetrics.VolumeMetrics(lambda: answers.stats()["stats"])
            print(f"metrics: {stack.enter_context(openmetrics.served(found, metrics_address, metrics))}")
        print("Ctrl-C ends it", flush=True)
        _wait_for_the_end()
    return 0


@volume.command(name="set")
def set_volume(
    volume: str | None = None,
    /,
    *,
    export: str | None = None,
    profile: str | None = None,
    level: volumes.Level | None = None,
    quota: str | None = None,
    throughput: str | None = None,
    iops: int | None = None,
    latency: str | None = None,
    pool: str | None = None,
    client_egress: str | None = None,
) -> int:
    """Change the limits and the size of a running volume. Clients notice nothing but the speed.

    What is not named stays, but another profile begins anew. A quota below what is used lets no more be written.

    Parameters
    ----------
    volume
        Its port, nfs:// URL or control socket; not needed if one runs here.
    export
        Path of the export; not needed if there is one, or if the URL names it.
    profile
        Service level (iocurve profiles), or a file of your own that ends in .toml; named again, it is read again.
    level
        Short for --profile anf-standard, anf-premium or anf-ultra.
    quota
        Size.
    throughput
        Per second, reads and writes together, instead of the profile's.
    iops
        Most reads and writes per second, instead of the profile's.
    latency
        Added to each read and write, instead of the profile's.
    pool
        Size of the capacity pool that --throughput is taken from.
    client_egress
        What each client (an IP address) can send, and so write, per second: 16000Mb.
    """
    named = _profile_of(profile, level, unlimited=False)
    changes = _given(
        profile=named and profiles.findable(named),
        quota=quota,
        throughput=throughput,
        iops=iops,
        latency=latency,
        pool=pool,
        client_egress=client_egress,
    )
    if not changes:
        raise DialectError(
            [
                Mistake(
                    "nothing to set: name --quota, --profile, --level, --throughput, --iops, --latency, --client-egress"
                )
            ]
        )
    with control.Client(volume) as client:
        done = client.ask({"do": "set"} | _given(export=export or client.export) | changes)["set"]
    speed = Limits.model_validate(done["limits"]).throughput or "no limit"
    print(f"{done['export']}: {done['profile']}, {format_bytes(done['quota_bytes'])}, {speed}")
    return 0


@volume.command(name="stats")
def volume_stats(
    volume: str | None = None,
    /,
    *,
    interval: str = "1s",
    once: Annotated[bool, Parameter(negative="")] = False,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """Show what a running volume does, by export, client and connection, until Ctrl-C.

    Parameters
    ----------
    volume
        Its port, nfs:// URL or control socket; not needed if one runs here.
    interval
        Rates are over so long.
    once
        One interval, then end.
    json
        A line of JSON for each interval.
    """
    seconds = _time_ns("--interval", interval) / SECOND_NS
    if not 0.01 <= seconds <= control.IDLE_S_MAX / 2:
        raise DialectError([Mistake(f"--interval {interval}: choose 10ms to 30m")])
    with control.Client(volume) as client:
        volume_view.show(
            lambda: client.ask({"do": "stats"})["stats"], lambda: time.sleep(seconds), once=once, as_json=json
        )
    return 0


@app.command(name="profiles")
def list_profiles() -> int:
    """List the service levels that a volume can have; --profile takes a file of your own as well."""
    table = Table(box=None, pad_edge=False, show_header=False)
    for name in profiles.names():
        table.add_row(name, profiles.load(name).title)
    Console().print(table)
    return 0


profile_app = App(name="profile", help="Look at a service level.")
app.command(profile_app)


@profile_app.command(name="show")
def show_profile(name: str, /) -> int:
    """Print a service level's figures, each with the page it was published on.

    Parameters
    ----------
    name
        One of iocurve profiles, or a file of your own that ends in .toml.
    """
    print(f"{name}: {profiles.load(name).title}")
    table = Table(box=None, pad_edge=False)
    for column in ("figure", "value", "page of learn.microsoft.com" if name in profiles.names() else "source"):
        table.add_column(column, overflow="fold")
    for row in profiles.describe(name):
        table.add_row(*row)
    if table.row_count:
        Console().print(table)
    return 0


@app.command(name="disks")
def list_disks() -> int:
    """List the disks that can be emulated, and the virtual machines that they can be attached to.

    A target is disk:NAME?path=DIR, with any of stripe=3, cache=none|read-only|read-write, vm=NAME, latency=1ms,
    burst=TIME and vm-burst=TIME (how long full credits last: the disk's as published and the machine's none unless
    said); where size, iops and throughput are free, with these.
    """
    table = Table(box=None, pad_edge=False, show_header=False)
    for name in disk_data.disk_names():
        table.add_row(name, "; ".join(text for _, text, _ in disk_data.describe_disk(name)[:-1]))
    for name in disk_data.vms():
        table.add_row(f"vm={name}", "; ".join(f"{label} {text}" for label, text, _ in disk_data.describe_vm(name)))
    Console().print(table)
    return 0


disk_app = App(name="disk", help="Look at a disk that can be emulated; restart the virtual machine of one.")
app.command(disk_app)


@disk_app.command(name="show")
def show_disk(name: str, /) -> int:
    """Print the figures of a disk or a virtual machine, each with the page it was published on.

    Parameters
    ----------
    name
        One of iocurve disks.
    """
    is_vm = name in disk_data.vms()
    if not is_vm and name not in disk_data.disk_names():
        raise TargetError(f"there is no disk and no virtual machine '{name}'; iocurve disks lists them")
    table = Table(box=None, pad_edge=False)
    for column in ("figure", "value", "page of learn.microsoft.com"):
        table.add_column(column, overflow="fold")
    for row in disk_data.describe_vm(name) if is_vm else disk_data.describe_disk(name):
        table.add_row(*row)
    Console().print(table)
    return 0


@disk_app.command(name="restart")
def restart_disk(directory: Path, /) -> int:
    """Empty the host cache of an emulated disk, as a restart of its virtual machine does. Data and burst credits stay.

    Parameters
    ----------
    directory
        The path= of the disk.
    """
    lost = disks.restart(directory)
    print(f"{directory}: {format_bytes(lost)} were cached, and are no longer")
    return 0


@app.command(help_flags=[], version_flags=[])
def fio(*arguments: Words) -> int:
    """Run fio job files and fio command lines as they are."""
    if arguments in (("--help",), ("-h",)):
        print(FIO_HELP)
        return 0
    result = jobs.run_fio(arguments)
    return 0 if result is None else _status(result)


@app.command(help_flags=[], version_flags=[])
def vdbench(*arguments: Words) -> int:
    """Run vdbench parameter files and vdbench command lines as they are."""
    if arguments in (("--help",), ("-h",)):
        print(VDBENCH_HELP)
        return 0
    result = jobs.run_vdbench(arguments)
    return 0 if result is None else _status(result)


@app.command(help_flags=[], version_flags=[])
def diskspd(*arguments: Words) -> int:
    """Run DiskSpd command lines and XML profiles as they are."""
    if not arguments or "-?" in arguments or arguments in (("--help",), ("/?",)):
        print(DISKSPD_HELP.format(flags="\n".join(flag_lines())), end="")
        return 0
    result = jobs.run_diskspd(arguments)
    return 0 if result is None else _status(result)


@app.command
def run(
    job: str,
    /,
    *,
    target: Annotated[tuple[str, ...], Parameter(negative="", show_default=False)] = (),
    short: Annotated[bool, Parameter(negative="")] = False,
    full: Annotated[bool, Parameter(negative="")] = False,
    scale: str | None = None,
    points: Annotated[tuple[str, ...], Parameter(negative="", show_default=False)] = (),
    out: Path | None = None,
    resume: Annotated[bool, Parameter(negative="")] = False,
    overwrite: Annotated[bool, Parameter(negative="")] = False,
    keep_data: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """Run a scenario (iocurve scenarios), or a job file (TOML).

    Parameters
    ----------
    job
        A scenario's name, or a file: a scenario of your own (docs/scenarios.md) or a job file (docs/jobs.md).
    target
        Of a scenario: a directory, a file, a device, nfs://host/export, volume:PROFILE?quota=4TiB or disk:NAME; with
        several targets NAME=TARGET for each. Without one the embedded target plays, in the short form.
    short
        The scenario's short form: the same shape, smaller and shorter; the result says what was shortened.
    full
        The full form on the embedded target, too.
    scale
        Data and times cut to a part: 1/100.
    points
        Only these: families (random-4k*) and values of axes (read_percent=100,0).
    out
        Directory for report.html, result.json and points.csv (of a scenario: iocurve-report).
    resume
        Go on with the scenario in --out: points that are finished are not measured again.
    overwrite
        Allow writes to a file or device that is already there. What is in it is lost.
    keep_data
        Leave the scenario's data files where they are, for --resume.
    """
    path = Path(job)
    if path.suffix == ".toml" and not documents.is_scenario(path):
        result = jobs.run_job(path, out)
        Console().print(result_table(result))
        return _status(result)
    asked = scenarios.requested(
        documents.load(job),
        target,
        short=short,
        full=full,
        scale=scale,
        points=points,
        overwrite=overwrite,
        keep_data=keep_data,
    )
    directory = out or Path("iocurve-report")
    result = scenarios.run(asked, directory, resume=resume)
    Console().print(result_table(result))
    print(f"\nreport: {directory / 'report.html'}")
    return _status(result)


@app.command(name="knee")
def find_knee(
    target: str,
    /,
    *,
    workload: str = "rw=randread bs=4k",
    in_flight_max: int = 4096,
    precision: str = "2%",
    size: str = "1GiB",
    out: Path = Path("iocurve-report"),
    overwrite: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """Find how much must be in flight to have all that a target carries, and no more.

    Parameters
    ----------
    target
        A directory, a file, a device, nfs://host/export?nconnect=8, volume:PROFILE?quota=4TiB or disk:NAME.
    workload
        In fio's words: rw=randrw rwmixread=70 bs=8k.
    in_flight_max
        Most operations in flight that are tried.
    precision
        Each point ends when half of its confidence interval is so small a part of its rate.
    size
        Data set, all files together.
    out
        Directory for report.html, result.json and points.csv.
    overwrite
        Allow writes to a file or device that is already there. What is in it is lost.
    """
    asked = _question(target, workload, precision, size, overwrite=overwrite)
    return _found(searches.find_knee(asked, in_flight_max, out), out)


@app.command(name="max")
def find_max(
    target: str,
    /,
    *,
    p50: str | None = None,
    p95: str | None = None,
    p99: str | None = None,
    p999: str | None = None,
    workload: str = "rw=randread bs=4k",
    in_flight_max: int = 4096,
    precision: str = "2%",
    size: str = "1GiB",
    out: Path = Path("iocurve-report"),
    overwrite: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """Find the most load at which a latency limit holds, by an open loop: latencies are from when operations are due.

    Parameters
    ----------
    target
        A directory, a file, a device, nfs://host/export?nconnect=8, volume:PROFILE?quota=4TiB or disk:NAME.
    p50
        Half of the operations may take so long: 500us.
    p95
        95 % of them may.
    p99
        99 % of them may: 2ms.
    p999
        99.9 % of them may.
    workload
        In fio's words: rw=randrw rwmixread=70 bs=8k.
    in_flight_max
        Most operations in flight that are tried to find what the target carries.
    precision
        The search ends when the highest rate that held and the lowest that failed are so near.
    size
        Data set, all files together.
    out
        Directory for report.html, result.json and points.csv.
    overwrite
        Allow writes to a file or device that is already there. What is in it is lost.
    """
    said = [(50.0, "--p50", p50), (95.0, "--p95", p95), (99.0, "--p99", p99), (99.9, "--p999", p999)]
    limits = [(percent, _time_ns(option, text)) for percent, option, text in said if text is not None]
    if len(limits) != 1:
        raise DialectError([Mistake("name one latency limit: --p50, --p95, --p99 or --p999, as in --p99 2ms")])
    percent, limit_ns = limits[0]
    asked = _question(target, workload, precision, size, overwrite=overwrite)
    return _found(searches.find_max(asked, percent, limit_ns, in_flight_max, out), out)


@app.command(name="curve")
def draw_curve(
    target: str,
    /,
    *,
    steps: int = searches.CURVE_STEPS,
    workload: str = "rw=randread bs=4k",
    in_flight_max: int = 4096,
    precision: str = "2%",
    size: str = "1GiB",
    out: Path = Path("iocurve-report"),
    overwrite: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """Draw latency against IOPS at even steps of load up to all that a target carries, by an open loop.

    Parameters
    ----------
    target
        A directory, a file, a device, nfs://host/export?nconnect=8, volume:PROFILE?quota=4TiB or disk:NAME.
    steps
        Points of the curve.
    workload
        In fio's words: rw=randrw rwmixread=70 bs=8k.
    in_flight_max
        Most operations in flight that are tried to find what the target carries.
    precision
        Points of the closed loop end when half of their confidence interval is so small a part of their rate.
    size
        Data set, all files together.
    out
        Directory for report.html, result.json and points.csv.
    overwrite
        Allow writes to a file or device that is already there. What is in it is lost.
    """
    asked = _question(target, workload, precision, size, overwrite=overwrite)
    return _found(searches.draw_curve(asked, steps, in_flight_max, out), out)


@app.command(name="scenarios")
def list_scenarios() -> int:
    """List the scenarios: published methodologies, ready to run."""
    table = Table(box=None, pad_edge=False, show_header=False)
    for name in documents.names():
        table.add_row(name, documents.load(name).title)
    Console().print(table)
    return 0


scenario_app = App(name="scenario", help="Look at a scenario.")
app.command(scenario_app)


@scenario_app.command(name="show")
def show_scenario(name: str, /) -> int:
    """Print why a scenario is, what it measures, and how long it takes.

    Parameters
    ----------
    name
        One of iocurve scenarios, or a file that ends in .toml.
    """
    print(scenarios.shown(documents.load(name)))
    return 0


@app.command(help_flags=[], version_flags=[])
def convert(*arguments: Words) -> int:
    """Write a fio, vdbench or DiskSpd job as a job file (TOML)."""
    words = list(arguments)
    path = None
    if words[:1] == ["-o"] and len(words) > 1:
        path, words = Path(words[1]), words[2:]
    if not words or words[0] not in jobs.CONVERTERS:
        print(CONVERT_HELP)
        return 0 if words in ([], ["--help"], ["-h"]) else EXIT_MISTAKE
    jobs.convert(words[0], words[1:], path)
    return 0


@app.command
def schema() -> int:
    """Print the JSON schema of job files, for editors."""
    from iocurve.dialects.native.schema import schema_text

    print(schema_text(), end="")
    return 0


explain = App(name="explain", help="Print what would run, and the traps in it, without running it.")
app.command(explain)


@explain.default
def explain_job(job: Path, /) -> int:
    """Explain a job file (TOML).

    Parameters
    ----------
    job
        The file; docs/jobs.md describes it.
    """
    print(jobs.explain_job(job), end="")
    return 0


@explain.command(name="fio", help_flags=[], version_flags=[])
def explain_fio(*arguments: Words) -> int:
    """Explain fio job files and fio command lines."""
    print(jobs.explain_fio(arguments))
    return 0


@explain.command(name="vdbench", help_flags=[], version_flags=[])
def explain_vdbench(*arguments: Words) -> int:
    """Explain vdbench parameter files and command lines."""
    print(jobs.explain_vdbench(arguments), end="")
    return 0


@explain.command(name="diskspd", help_flags=[], version_flags=[])
def explain_diskspd(*arguments: Words) -> int:
    """Explain DiskSpd command lines and XML profiles."""
    print(jobs.explain_diskspd(arguments))
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


def _question(target: str, workload: str, precision: str, size: str, *, overwrite: bool) -> searches.Question:
    try:
        part = float(precision.removesuffix("%")) / (100 if precision.endswith("%") else 1)
        if not 0 < part < 1:
            raise ValueError
    except ValueError:
        raise DialectError([Mistake(f"--precision {precision}: write a part such as 2% or 0.02")]) from None
    effort = Effort(precision=part)
    return searches.Question(targets.parse(target), workload, _bytes("--size", size), effort, overwrite)


def _found(result: Result, out: Path) -> int:
    Console().print(result_table(result))
    if result.search:
        print(f"\n{searches.shown(result.search)}")
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


def _profile_of(profile: str | None, level: volumes.Level | None, *, unlimited: bool) -> str | None:
    """The profile that one of its options names."""
    named = _given(profile=profile, level=level and f"anf-{level}", unlimited=profiles.UNLIMITED if unlimited else None)
    if len(named) > 1:
        raise DialectError([Mistake(f"{' and '.join(f'--{option}' for option in named)}: choose one")])
    return next(iter(named.values()), None)


def _volume_spec(
    one: dict[str, Any], exports: tuple[str, ...], config: Path | None, address: str, port: int
) -> volumes.VolumeSpec:
    """The volume that is described in one of three ways: one export's options, --export, --config."""
    if config is not None:
        if one or exports or port or address != "127.0.0.1":
            raise DialectError([Mistake("--config: what is served stands in the file; leave out the other options")])
        return volumes.read_spec(config)
    if exports and one:
        raise DialectError([Mistake("--export: its settings follow its path, as in /a:quota=2TiB,profile=anf-premium")])
    specs = tuple(map(volumes.parse_export, exports)) or (volumes.spec_of(one),)
    return volumes.VolumeSpec(address=address, port=port, export=specs)


def _given(**options: Any) -> dict[str, Any]:
    return {option: value for option, value in options.items() if value is not None}


def _hold_the_end_back() -> None:
    """From here on Ctrl-C and requests to terminate wait for ``_wait_for_the_end``, in threads made later, too.

    A handler could run while the main thread is about to wait, and would then wait for itself.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)


def _wait_for_the_end() -> None:
    """Until Ctrl-C or a request to terminate."""
    signal.sigwait(ENDING)

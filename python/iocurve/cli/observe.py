"""The command that watches an application's own I/O."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from cyclopts import Parameter

from iocurve.advice import observe as observing
from iocurve.advice.doctor.host import HostFiles, azure_instance
from iocurve.advice.observation import KindObserved, Observation, job_file
from iocurve.advice.observe import CounterSample, Processes, find_subject, observation
from iocurve.advice.observe import interval as between
from iocurve.advice.observe import samples as watched
from iocurve.cli.checks import write_file
from iocurve.cli.common import JsonFlag, SizeBytes, TargetText, TimeNs, refuse, show, show_json
from iocurve.cli.doctor import may_be_azure
from iocurve.foundation.errors import Diagnostic, DialectError, TargetError
from iocurve.foundation.units import SECOND_NS, format_bytes, format_count, format_latency
from iocurve.measure.interrupts import exit_status
from iocurve.report.table import Table
from iocurve.result.caps import Cap
from iocurve.volume.profile_limits import resolve

COLUMNS = ("at", "kind", "IOPS", "MiB/s", "size", "latency", "in client", "server", "in flight")


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ExpectedLimitOptions:
    """The limits to compare with."""

    profile: str | None = None
    """Service level of the volume: anf-premium, azure-files-v2 (iocurve profile list)."""
    quota: SizeBytes | None = None
    """Size of the volume."""
    vm: str | None = None
    """Size of the virtual machine: D32s_v5. Default: what Azure's instance metadata says, where it can be reached."""

    def caps(self) -> tuple[Cap, ...]:
        """The limits of the profile. Raises ``DialectError``."""
        if (self.profile is None) != (self.quota is None):
            raise DialectError([Diagnostic("--profile and --quota belong together: --profile anf-ultra --quota 4TiB")])
        return resolve(self.profile, self.quota).caps if self.profile and self.quota else ()

    def vm_size(self, host: HostFiles) -> str | None:
        """The size of this machine, if it is known."""
        if self.vm is not None or not may_be_azure(host):
            return self.vm
        found = azure_instance()
        return found.vm_size if found else None


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class JobOptions:
    """The job file, and what counters do not tell."""

    job: Path | None = None
    """Write a job file (TOML) that makes a similar load: sizes, mix, rate and depth."""
    access: Literal["random", "sequential"] | None = None
    """With --job: counters do not tell it."""
    data: SizeBytes | None = None
    """With --job: size of the data that the application uses, which counters do not tell either."""

    def check(self) -> None:
        """Raises ``DialectError`` and ``TargetError`` if a job file cannot be written."""
        if self.job is None:
            refuse("this is an option of --job; add --job FILE", self)
            return
        missing = ["--access random|sequential"] if self.access is None else []
        missing += ["--data SIZE"] if self.data is None else []
        if missing:
            raise DialectError([Diagnostic(f"counters do not tell all that --job needs; add {' and '.join(missing)}")])
        if not self.job.parent.is_dir():
            raise TargetError(f"--job {self.job}: there is no directory {self.job.parent}")


LIMITS, JOB = ExpectedLimitOptions(), JobOptions()


INTERVAL_NS = 5 * SECOND_NS
"""Sampling interval where none is given."""


def observe(
    target: TargetText,
    /,
    *,
    runtime: TimeNs = 60 * SECOND_NS,
    interval: TimeNs | None = None,
    known: ExpectedLimitOptions = LIMITS,
    job: JobOptions = JOB,
    out: Path | None = None,
    json: JsonFlag = False,
) -> int:
    """Watch the I/O of applications on an NFS mount or a block device, without adding any.

    The kernel counts it: mountstats for NFS, where reads from the client's page cache are none; diskstats for
    devices, whose latency is not split into client and server. Ctrl-C ends early and prints what was seen.

    Parameters
    ----------
    target
        A mount, a directory on it, or a device.
    runtime
        Time to watch: 60s.
    interval
        Sampling interval. Default: 5 s, or the time to watch where that is shorter.
    out
        Save the observation as JSON to this file, for iocurve size --from.
    """
    interval = min(INTERVAL_NS, runtime) if interval is None else interval
    if not 0 < interval <= runtime:
        raise DialectError([Diagnostic("--interval must be longer than 0 and at most --runtime")])
    caps = known.caps()
    job.check()
    if out is not None and not out.parent.is_dir():
        raise TargetError(f"--out {out}: there is no directory {out.parent}")
    host = HostFiles()
    found, vm = find_subject(str(target), host), known.vm_size(host)
    samples: list[CounterSample] = []
    before, interrupted = Processes.now(), False
    try:
        for sample in watched(found, runtime / SECOND_NS, interval / SECOND_NS):
            samples.append(sample)
            if len(samples) > 1 and not json:
                _tell(samples[-2], sample, samples[0].time_s)
    except KeyboardInterrupt:
        interrupted = True
        samples.append(found.sample())
    observed = observation(found, samples, (before, Processes.now()))
    observed = observing.near(observed, found, host, caps, known.profile or "", vm)
    if out is not None:
        write_file("--out", out, (observed.to_json() + "\n").encode())
    if json:
        show_json(observed.to_builtins())
    else:
        _show(observed)
    if job.job is not None and job.access is not None and job.data is not None:
        write_file("--job", job.job, job_file(observed, job.access, job.data).encode())
        print(f"wrote {job.job}: iocurve run {job.job}", file=sys.stderr)
    return exit_status() if interrupted else 0


def _tell(earlier: CounterSample, later: CounterSample, start_s: float) -> None:
    """A line for an interval, while it is watched; stdout gets the tables at the end."""
    one = between(earlier, later, earlier.time_s - start_s)
    parts = [
        f"{kind} {format_count(each.iops)} IOPS, {each.mib_per_s:,.1f} MiB/s, {_latency(each.mean_us)}"
        for kind, each in (("read", one.read), ("write", one.write))
        if each.operations
    ]
    print(f"{one.start_s:6.1f} s  {'; '.join(parts) or 'no reads or writes'}", file=sys.stderr)


def _show(observed: Observation) -> None:
    rows = [row for each in observed.intervals for row in _rows(f"{each.start_s:.1f} s", each.read, each.write)]
    rows += [(), *_rows("all", observed.read, observed.write)]
    show(Table(COLUMNS, rows, numbers=COLUMNS[2:]))
    share = observed.read_share
    mix = "nothing was read or written" if share is None else f"{100 * share:.1f} % reads"
    other = f", {observed.other_operations:,} other operations" if observed.counters == "mountstats" else ""
    print(f"\n{observed.subject}: {mix}{other}, {observed.depth:,.2f} in flight on average")
    for process in observed.processes:
        where = "" if process.has_files_open else " (no file open there)"
        moved = f"{format_bytes(process.read_bytes)} read, {format_bytes(process.write_bytes)} written"
        print(f"  {process.name} ({process.pid}): {moved}{where}")
    advice = [observing.for_twice_the_rate(observed), observing.for_half_the_latency(observed)]
    for line in filter(None, [*observing.verdict(observed), *advice]):
        print(line)


def _rows(at: str, read: KindObserved, write: KindObserved) -> list[tuple[str, ...]]:
    return [
        (
            at,
            kind,
            format_count(each.iops),
            f"{each.mib_per_s:,.1f}",
            "" if each.mean_bytes is None else format_bytes(round(each.mean_bytes)),
            _latency(each.mean_us),
            _latency(each.client_wait_us),
            _latency(each.server_us),
            f"{each.depth:,.2f}",
        )
        for kind, each in (("read", read), ("write", write))
    ]


def _latency(microseconds: float | None) -> str:
    return "" if microseconds is None else format_latency(1_000 * microseconds)

"""``iocurve diskspd …`` and ``iocurve explain diskspd …``: turns a DiskSpd command line into plans and notes."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC
from pathlib import Path

from iocurve.dialects import base
from iocurve.dialects.base import Dialect, TimedJob, shared_help
from iocurve.dialects.diskspd.job import Built, PreparedSpan, build
from iocurve.dialects.diskspd.output import system
from iocurve.dialects.diskspd.output.profile_text import profile_text
from iocurve.dialects.diskspd.output.span_stats import span_stats
from iocurve.dialects.diskspd.output.text import results_text
from iocurve.dialects.diskspd.output.xml import results_xml
from iocurve.dialects.diskspd.read.linux_notes import linux_notes
from iocurve.dialects.diskspd.read.options import flag_lines
from iocurve.dialects.diskspd.read.parse import parse
from iocurve.dialects.diskspd.read.profile import Profile
from iocurve.dialects.diskspd.read.profile_xml import profile_xml
from iocurve.dialects.diskspd.read.rules import Findings, check
from iocurve.dialects.diskspd.words import WORDS
from iocurve.engine.plan import Plan
from iocurve.errors import Diagnostic, DialectError, PlanError, in_order
from iocurve.job.disk_mounts import MountedMachine, put_on_disks
from iocurve.job.explain import explain
from iocurve.job.resolve import Machine, ThisMachine, resolve
from iocurve.result.document import Result
from iocurve.units import MILLISECOND_NS, counted

HELP = """\
Usage: iocurve diskspd [flags] target [targets]

Runs DiskSpd command lines and XML profiles unchanged and prints results as DiskSpd's text or XML. Write a flag and its
value without a space (-b4K). Flags are case-sensitive and come before the targets. A target is a file, a block device
or nfs://host/export/file.

{flags}

iocurve adds
  --map-target=FROM=TO  use TO for the target, directory or pattern FROM: --map-target='H:\\*=/data'
  --disk=MOUNT=DISK     emulate a disk for the files below the directory MOUNT; see iocurve fio --help
  --clients=N           run the command line on N load clients of a cluster at the same instant; print their threads and
                        totals. Default with --on: on all
  --on=CLUSTER          the cluster: auto (the one of this machine, default), or HOST:PORT of its head
{shared}

To see what a command line would do, with warnings: iocurve explain diskspd ...
"""


@dataclass(frozen=True, kw_only=True)
class Prepared(base.Prepared):
    """A DiskSpd command line that was read: its profile, and a plan for each time span."""

    profile: Profile
    spans: tuple[PreparedSpan, ...]
    """In the order they run; empty with -Rp."""

    @property
    def plans(self) -> Sequence[Plan]:
        """One plan per time span."""
        return [span.plan for span in self.spans]

    @property
    def source(self) -> str:
        """The command line."""
        return self.profile.command_line

    @property
    def needs_intervals(self) -> bool:
        """The output lists intervals with -D only."""
        return any(span.span.measure_iops_deviation for span in self.spans)

    def output_without_run(self) -> str | None:
        """The profile with -Rp; None without it."""
        return None if self.spans else profile_output(self.profile)

    def explain(self) -> str:
        """Describes the time spans in words; with -Rp the profile."""
        if not self.spans:
            return profile_output(self.profile)
        texts = []
        for span in self.spans:
            notes, obstacles = (self.notes, self.obstacles) if span is self.spans[-1] else ((), ())
            parts = f"{counted(len(span.span.targets), 'target')}, {counted(len(span.threads), 'thread')}"
            # With -p a thread is several workers.
            called = "worker" if any(target.parallel for target in span.span.targets) else WORDS.worker
            texts.append(explain(span.plan, notes, obstacles, self.machine, called=called, parts=parts))
        return "\n".join(texts)

    def write_output(self, result: Result) -> Result:
        """Prints the result as text or XML (-R)."""
        sys.stdout.write(self._results(result))
        return result

    def _results(self, result: Result) -> str:
        points = [*result.points, *[None] * (len(self.spans) - len(result.points))]
        measured = [
            (
                span_stats(span, point.outcome if point else None, max(1, len(point.clients)) if point else 1),
                point.machine if point else None,
            )
            for span, point in zip(self.spans, points, strict=True)
        ]
        names = [client.name for client in result.points[0].clients] if result.points else []
        write = results_xml if self.profile.result_format == "xml" else results_text
        incomplete = None if result.state == "finished" else result.incomplete_reason
        return write(
            self.profile,
            system.collect(", ".join(names) or (result.host.hostname if result.host else "")),
            result.created.astimezone(UTC),
            measured,
            incomplete,
        )

    def jobs(self) -> list[TimedJob]:
        """One job per time span. Raises ``PlanError`` with -Rp."""
        if not self.spans:
            raise PlanError([Diagnostic("-Rp prints the profile and runs nothing; remove it")])
        return [TimedJob(span.job, span.plan.interval_ns) for span in self.spans]


def profile_output(profile: Profile) -> str:
    """The profile as text or XML (-Rp)."""
    return profile_xml(profile) if profile.result_format == "xml" else profile_text(profile)


def prepare(
    arguments: Sequence[str],
    *,
    cwd: Path | None = None,
    environment: Mapping[str, str] | None = None,  # noqa: ARG001 - no variables
    machine: Machine | None = None,
) -> Prepared:
    """Reads a DiskSpd command line (without ``diskspd``) and the XML profile it names.

    Raises ``DialectError`` with every error in the text, ``PlanError`` if a target cannot be used on this machine.
    """
    directory, machine = cwd or Path.cwd(), machine or ThisMachine()
    parsed = parse(arguments, directory, machine.fresh_seed)
    profile = parsed.profile
    findings = check(profile)
    errors = [*parsed.errors, *findings.errors]
    if errors:
        raise DialectError(in_order(errors))
    notes = [*parsed.notes, *findings.notes]
    if profile.profile_only:
        return Prepared(notes=tuple(notes), out=parsed.out, machine=machine, profile=profile, spans=())
    built, span_findings = _built(profile, MountedMachine(machine, tuple(parsed.disks), directory), directory)
    notes += [*linux_notes(profile), *span_findings.notes]
    spans: list[PreparedSpan] = []
    obstacles: list[Diagnostic] = []
    directories: list[str] = []
    for span, one in zip(profile.time_spans, built, strict=True):
        job, misplaced = put_on_disks(one.job, parsed.disks, directory)
        if misplaced:
            raise DialectError(in_order(misplaced))
        resolution = resolve(job, machine, directory)
        plan = resolution.plan.replace(interval_ns=span.bucket_ms * MILLISECOND_NS)
        spans.append(PreparedSpan(span, job, plan, one.threads))
        notes += resolution.notes
        obstacles += resolution.obstacles
        directories += resolution.directories
    return Prepared(
        notes=tuple(dict.fromkeys(notes)),
        obstacles=tuple(dict.fromkeys(obstacles)),
        directories=tuple(dict.fromkeys(directories)),
        out=parsed.out,
        machine=machine,
        profile=profile,
        spans=tuple(spans),
        cluster=parsed.cluster,
    )


def _built(profile: Profile, machine: Machine, directory: Path) -> tuple[list[Built], Findings]:
    """Builds one job per time span. Raises ``PlanError`` with the errors of all of them."""
    findings, built = Findings(), []
    for number, span in enumerate(profile.time_spans, start=1):
        span_findings = Findings()
        one = build(span, number if len(profile.time_spans) > 1 else None, machine, directory, span_findings)
        findings.errors += span_findings.errors
        findings.notes += span_findings.notes
        if one is not None:
            built.append(one)
    if findings.errors:
        raise PlanError(in_order(findings.errors))
    return built, findings


def _information(arguments: Sequence[str]) -> str | None:
    if arguments and "-?" not in arguments and tuple(arguments) not in (("--help",), ("/?",)):
        return None
    return HELP.format(flags="\n".join(flag_lines()), shared=shared_help(24, "=")).rstrip("\n")


DIALECT = Dialect("diskspd", prepare, _information, on_hosts=lambda hosts, _: [f"--clients={len(hosts)}"])

"""``iocurve diskspd …`` and ``iocurve explain diskspd …``: a command line becomes plans, notes and a form of answer."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from iocurve.dialects.base import Dialect, TimedJob
from iocurve.dialects.diskspd.invocation import Invocation, PreparedSpan
from iocurve.dialects.diskspd.job import Built, build
from iocurve.dialects.diskspd.output import forms
from iocurve.dialects.diskspd.read.options import flag_lines
from iocurve.dialects.diskspd.read.parse import parse
from iocurve.dialects.diskspd.read.profile import Profile
from iocurve.dialects.diskspd.read.remarks import remarks
from iocurve.dialects.diskspd.read.rules import Findings, check
from iocurve.errors import DialectError, Mistake, PlanError, in_order
from iocurve.job.disk_mounts import MountedMachine, put_on_disks
from iocurve.job.resolve import Machine, ThisMachine, resolve
from iocurve.result.document import Result
from iocurve.units import MILLISECOND_NS

HELP = """\
Usage: iocurve diskspd [flags] target [targets]

Runs DiskSpd's command lines and XML profiles as they are, and answers in its text or XML. A value follows its letter at
once; flags are case-sensitive and come before the targets. A target is a file, a block device, or nfs://host/export/file.

{flags}

On top of them there are
  --disk=MOUNT=DISK  files below the directory MOUNT lie on an emulated disk: see iocurve fio --help
  --out=DIR          result.json, report.html and points.csv go there

What a command line would do, and which traps are in it: iocurve explain diskspd ...
"""


@dataclass(frozen=True, kw_only=True)
class Prepared(Invocation):
    """A DiskSpd command line that can be run, explained and answered."""

    @property
    def source(self) -> str:
        """The command line."""
        return self.profile.command_line

    def output_without_run(self) -> str | None:
        """With -Rp the profile."""
        return None if self.spans else forms.profile(self.profile)

    def explain(self) -> str:
        """The time spans in words; with -Rp the profile."""
        return self.output_without_run() or forms.explain(self)

    def write_output(self, result: Result) -> Result:
        """Prints text or XML."""
        sys.stdout.write(forms.render(self, result))
        return result

    def jobs(self) -> list[TimedJob]:
        """A job for each time span."""
        if not self.spans:
            raise PlanError([Mistake("-Rp prints a profile and runs nothing: leave it out")])
        return [TimedJob(span.job, span.plan.interval_ns) for span in self.spans]


def prepare(
    arguments: Sequence[str],
    *,
    cwd: Path | None = None,
    environment: Mapping[str, str] | None = None,  # noqa: ARG001 - no variables
    machine: Machine | None = None,
) -> Prepared:
    """Reads a DiskSpd command line (without ``diskspd``) and the XML profile it names.

    Raises ``DialectError`` with every mistake in what was written, ``PlanError`` where it cannot be run here.
    """
    directory, machine = cwd or Path.cwd(), machine or ThisMachine()
    parsed = parse(arguments, directory, machine.fresh_seed)
    profile = parsed.profile
    findings = check(profile)
    mistakes = [*parsed.mistakes, *findings.mistakes]
    if mistakes:
        raise DialectError(in_order(mistakes))
    notes = [*parsed.notes, *findings.notes]
    if profile.profile_only:
        return Prepared(notes=tuple(notes), out=parsed.out, machine=machine, profile=profile, spans=())
    built, looked_at = _built(profile, MountedMachine(machine, tuple(parsed.disks), directory), directory)
    notes += [*remarks(profile), *looked_at.notes]
    spans: list[PreparedSpan] = []
    obstacles: list[Mistake] = []
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
    )


def _built(profile: Profile, machine: Machine, directory: Path) -> tuple[list[Built], Findings]:
    """A job for each time span. Raises ``PlanError`` with what is wrong in any of them."""
    findings, built = Findings(), []
    for number, span in enumerate(profile.time_spans, start=1):
        looked_at = Findings()
        one = build(span, number if len(profile.time_spans) > 1 else None, machine, directory, looked_at)
        findings.mistakes += looked_at.mistakes
        findings.notes += looked_at.notes
        if one is not None:
            built.append(one)
    if findings.mistakes:
        raise PlanError(in_order(findings.mistakes))
    return built, findings


def _information(arguments: Sequence[str]) -> str | None:
    if arguments and "-?" not in arguments and tuple(arguments) not in (("--help",), ("/?",)):
        return None
    return HELP.format(flags="\n".join(flag_lines())).rstrip("\n")


DIALECT = Dialect("diskspd", prepare, _information)

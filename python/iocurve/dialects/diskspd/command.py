"""``iocurve diskspd …`` and ``iocurve explain diskspd …``: a command line becomes plans, notes and a form of answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from iocurve.dialects.diskspd.job import Built, Row, build
from iocurve.dialects.diskspd.parse import parse
from iocurve.dialects.diskspd.profile import Profile, TimeSpan
from iocurve.dialects.diskspd.remarks import remarks
from iocurve.dialects.diskspd.rules import Findings, check
from iocurve.dialects.ready import Ready
from iocurve.engine.plan import Plan
from iocurve.errors import COMMAND_LINE, DialectError, Mistake, PlanError
from iocurve.job.disk_mounts import MountedMachine, put_on_disks
from iocurve.job.model import Job
from iocurve.job.resolve import Machine, ThisMachine, resolve
from iocurve.units import MILLISECOND_NS


@dataclass(frozen=True)
class PreparedSpan:
    """A time span that can be run."""

    span: TimeSpan
    job: Job
    plan: Plan
    threads: tuple[tuple[Row, ...], ...]
    """By thread of DiskSpd's: which workers of the plan it is."""


@dataclass(frozen=True)
class Prepared(Ready):
    """Everything that a run, an explanation and an answer in DiskSpd's form need."""

    profile: Profile
    spans: tuple[PreparedSpan, ...]
    """One after another; none where the profile is only to be printed."""


def prepare(arguments: Sequence[str], *, cwd: Path | None = None, machine: Machine | None = None) -> Prepared:
    """Reads a DiskSpd command line (without ``diskspd``) and the XML profile it names.

    Raises ``DialectError`` with every mistake in what was written, ``PlanError`` where it cannot be run here.
    """
    directory, machine = cwd or Path.cwd(), machine or ThisMachine()
    parsed = parse(arguments, directory, machine.fresh_seed)
    profile = parsed.profile
    findings = check(profile)
    mistakes = [*parsed.mistakes, *findings.mistakes]
    if mistakes:
        raise DialectError(_in_order(mistakes))
    notes = [*parsed.notes, *findings.notes]
    if profile.profile_only:
        return Prepared(tuple(notes), (), (), parsed.out, profile, ())
    built, looked_at = _built(profile, MountedMachine(machine, tuple(parsed.disks), directory), directory)
    notes += [*remarks(profile), *looked_at.notes]
    spans: list[PreparedSpan] = []
    obstacles: list[Mistake] = []
    directories: list[str] = []
    for span, one in zip(profile.time_spans, built, strict=True):
        job, misplaced = put_on_disks(one.job, parsed.disks, directory)
        if misplaced:
            raise DialectError(_in_order(misplaced))
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
        raise PlanError(_in_order(findings.mistakes))
    return built, findings


def _in_order(mistakes: Sequence[Mistake]) -> list[Mistake]:
    """By argument, then by line of the profile, so that a person can go through them."""

    def place(mistake: Mistake) -> tuple[int, int, int]:
        where = mistake.where
        if where is None:
            return 2, 0, 0
        return 0 if where.source == COMMAND_LINE else 1, where.line, where.column

    return sorted(dict.fromkeys(mistakes), key=place)

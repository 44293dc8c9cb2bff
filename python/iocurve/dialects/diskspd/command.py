"""``iocurve diskspd …`` and ``iocurve explain diskspd …``: turns a DiskSpd command line into plans and notes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from datetime import UTC
from functools import partial
from pathlib import Path
from typing import Unpack

import msgspec

from iocurve.dialects.base import ClusterRequest, Dialect, Needs, ParsedCommand, Step, Workplace
from iocurve.dialects.diskspd.job import WORDS, PreparedSpan, Threads, build
from iocurve.dialects.diskspd.output.profile_text import profile_text
from iocurve.dialects.diskspd.output.text import results_text, span_stats
from iocurve.dialects.diskspd.output.xml import results_xml
from iocurve.dialects.diskspd.read.parse import parse
from iocurve.dialects.diskspd.read.profile import Profile
from iocurve.dialects.diskspd.read.profile_xml import profile_xml
from iocurve.dialects.diskspd.read.rules import Findings, check, linux_notes
from iocurve.dialects.registry import help_text
from iocurve.foundation.errors import Diagnostic, DialectError, PlanError, in_order
from iocurve.foundation.units import MILLISECOND_NS, counted
from iocurve.job.disk_mounts import put_on_disks, stat_on
from iocurve.job.explain import explain
from iocurve.job.model import Job, PlanNote
from iocurve.job.resolve import Machine, PathFacts, resolve
from iocurve.machine.processes import topology_of
from iocurve.result.document import Result


class ReadProfile(msgspec.Struct, frozen=True, kw_only=True):
    """A DiskSpd command line that was read: its profile, and a plan for each time span."""

    notes: tuple[PlanNote, ...]
    obstacles: tuple[Diagnostic, ...] = ()
    directories: tuple[str, ...] = ()
    out: Path | None = None
    cluster: ClusterRequest | None = None
    profile: Profile
    spans: tuple[PreparedSpan, ...]
    """In the order they run; empty with -Rp."""


def parsed(read: ReadProfile, machine: Machine) -> ParsedCommand:
    """A step for each time span, and the function that writes DiskSpd's output."""
    profile, spans = read.profile, read.spans
    return ParsedCommand(
        title=spans[0].plan.name if spans else "",
        source=profile.command_line,
        steps=tuple(map(_step, spans)),
        notes=read.notes,
        obstacles=read.obstacles,
        needs=Needs(
            directories=read.directories,
            cluster=read.cluster,
            intervals=any(span.span.measure_iops_deviation for span in spans),
        ),
        out=read.out,
        explanation=lambda: explanation(read, machine),
        only_prints=None if spans else profile_output(profile),
        no_job_file=None if spans else Diagnostic("-Rp prints the profile and runs nothing; remove it"),
        finish=partial(_finish, profile, spans),
    )


def _step(span: PreparedSpan) -> Step:
    return Step(name=span.plan.name, plan=lambda _: span.plan, job=lambda: span.job)


def explanation(read: ReadProfile, machine: Machine) -> str:
    """Describes the time spans in words; with -Rp the profile."""
    if not read.spans:
        return profile_output(read.profile)
    texts = []
    for span in read.spans:
        notes, obstacles = (read.notes, read.obstacles) if span is read.spans[-1] else ((), ())
        parts = f"{counted(len(span.span.targets), 'target')}, {counted(len(span.threads), 'thread')}"
        # With -p a thread is several workers.
        called = "worker" if any(target.parallel for target in span.span.targets) else WORDS.worker
        texts.append(explain(span.plan, notes, obstacles, machine, called=called, parts=parts))
    return "\n".join(texts)


def _finish(profile: Profile, spans: Sequence[PreparedSpan], result: Result) -> Result:
    """Prints the result as text or XML (-R)."""
    points = [*result.points, *[None] * (len(spans) - len(result.points))]
    measured = [
        (
            span_stats(span, point.outcome if point else None, max(1, len(point.clients)) if point else 1),
            point.machine if point else None,
        )
        for span, point in zip(spans, points, strict=True)
    ]
    names = [client.name for client in result.points[0].clients] if result.points else []
    write = results_xml if profile.result_format == "xml" else results_text
    text = write(
        profile,
        topology_of(", ".join(names) or (result.host.hostname if result.host else "")),
        result.created.astimezone(UTC),
        measured,
        None if result.state == "finished" else result.incomplete_reason,
    )
    sys.stdout.write(text)
    return result


def profile_output(profile: Profile) -> str:
    """The profile as text or XML (-Rp)."""
    return profile_xml(profile) if profile.result_format == "xml" else profile_text(profile)


def prepare(arguments: Sequence[str], **place: Unpack[Workplace]) -> ParsedCommand:
    """Reads a DiskSpd command line (without ``diskspd``) and the XML profile it names. Raises as ``read_command``."""
    return parsed(read_command(arguments, **place), place.get("machine") or Machine())


def read_command(arguments: Sequence[str], **place: Unpack[Workplace]) -> ReadProfile:
    """Reads a DiskSpd command line (without ``diskspd``) and the XML profile it names.

    Raises ``DialectError`` with every error in the text, ``PlanError`` if a target cannot be used on this machine.
    """
    directory, machine = place.get("cwd") or Path.cwd(), place.get("machine") or Machine()
    parsed = parse(arguments, directory, machine.fresh_seed)
    profile = parsed.profile
    findings = check(profile)
    errors = [*parsed.errors, *findings.errors]
    if errors:
        raise DialectError(in_order(errors))
    notes = [*parsed.notes, *findings.notes]
    if profile.profile_only:
        return ReadProfile(notes=tuple(notes), out=parsed.out, profile=profile, spans=())
    built, span_findings = _built(profile, stat_on(parsed.disks, machine, directory), sorted(machine.cpus()), directory)
    notes += [*linux_notes(profile), *span_findings.notes]
    spans: list[PreparedSpan] = []
    obstacles: list[Diagnostic] = []
    directories: list[str] = []
    for span, (job, threads) in zip(profile.time_spans, built, strict=True):
        job, misplaced = put_on_disks(job, parsed.disks, directory)
        if misplaced:
            raise DialectError(in_order(misplaced))
        job = job.replace(interval_ns=span.bucket_ms * MILLISECOND_NS)
        resolution = resolve(job, machine, directory)
        spans.append(PreparedSpan(span, job, resolution.plan, threads))
        notes += resolution.notes
        obstacles += resolution.obstacles
        directories += resolution.directories
    return ReadProfile(
        notes=tuple(dict.fromkeys(notes)),
        obstacles=tuple(dict.fromkeys(obstacles)),
        directories=tuple(dict.fromkeys(directories)),
        out=parsed.out,
        profile=profile,
        spans=tuple(spans),
        cluster=parsed.cluster,
    )


def _built(
    profile: Profile, stat: Callable[[str], PathFacts], cpus: Sequence[int], directory: Path
) -> tuple[list[tuple[Job, Threads]], Findings]:
    """Builds one job per time span. Raises ``PlanError`` with the errors of all of them."""
    findings, built = Findings(), list[tuple[Job, Threads]]()
    for number, span in enumerate(profile.time_spans, start=1):
        span_findings = Findings()
        one = build(span, number if len(profile.time_spans) > 1 else None, stat, cpus, directory, span_findings)
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
    return help_text("diskspd", 24, "=").rstrip("\n")


DIALECT = Dialect("diskspd", prepare, _information, on_hosts=lambda hosts, _: [f"--clients={len(hosts)}"])

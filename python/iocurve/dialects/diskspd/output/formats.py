"""The output of ``iocurve diskspd``: results and profiles in DiskSpd's formats, and explanations in words."""

from __future__ import annotations

from datetime import UTC

from iocurve.dialects.diskspd.invocation import Invocation, PreparedSpan
from iocurve.dialects.diskspd.output import system
from iocurve.dialects.diskspd.output.profile_text import profile_text
from iocurve.dialects.diskspd.output.profile_to_xml import profile_xml
from iocurve.dialects.diskspd.output.span_stats import span_stats
from iocurve.dialects.diskspd.output.text import results_text
from iocurve.dialects.diskspd.output.xml import results_xml
from iocurve.dialects.diskspd.read.profile import Profile
from iocurve.dialects.diskspd.words import WORDS
from iocurve.job.explain import explain as explain_plan
from iocurve.result.document import Result
from iocurve.units import counted


def render(prepared: Invocation, result: Result) -> str:
    """Renders the result as text or XML (-R)."""
    points = [*result.points, *[None] * (len(prepared.spans) - len(result.points))]
    measured = [
        (
            span_stats(span, point.outcome if point else None, max(1, len(point.clients)) if point else 1),
            point.machine if point else None,
        )
        for span, point in zip(prepared.spans, points, strict=True)
    ]
    names = [client.name for client in result.points[0].clients] if result.points else []
    write = results_xml if prepared.profile.result_format == "xml" else results_text
    return write(
        prepared.profile,
        system.collect(", ".join(names) or result.host.hostname),
        result.created.astimezone(UTC),
        measured,
    )


def profile(profile: Profile) -> str:
    """Renders the profile as text or XML (-Rp)."""
    return profile_xml(profile) if profile.result_format == "xml" else profile_text(profile)


def explain(prepared: Invocation) -> str:
    """Describes what would run, one time span after another."""
    texts = []
    for number, span in enumerate(prepared.spans, start=1):
        is_last = number == len(prepared.spans)
        notes, obstacles = (prepared.notes, prepared.obstacles) if is_last else ((), ())
        called, parts = _words(span)
        texts.append(explain_plan(span.plan, notes, obstacles, prepared.machine, called=called, parts=parts))
    return "\n".join(texts)


def _words(prepared: PreparedSpan) -> tuple[str, str]:
    """The name of a worker, and the summary of a time span. With -p a thread is several workers."""
    targets, threads = len(prepared.span.targets), len(prepared.threads)
    parts = f"{counted(targets, 'target')}, {counted(threads, 'thread')}"
    return "worker" if any(target.parallel for target in prepared.span.targets) else WORDS.worker, parts

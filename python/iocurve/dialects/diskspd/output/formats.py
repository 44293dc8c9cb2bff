"""The output of ``iocurve diskspd``: results and profiles in DiskSpd's formats."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC

from iocurve.dialects.diskspd.job import PreparedSpan
from iocurve.dialects.diskspd.output import system
from iocurve.dialects.diskspd.output.profile_text import profile_text
from iocurve.dialects.diskspd.output.profile_to_xml import profile_xml
from iocurve.dialects.diskspd.output.span_stats import span_stats
from iocurve.dialects.diskspd.output.text import results_text
from iocurve.dialects.diskspd.output.xml import results_xml
from iocurve.dialects.diskspd.read.profile import Profile
from iocurve.result.document import Result


def render(profile: Profile, spans: Sequence[PreparedSpan], result: Result) -> str:
    """Renders the result as text or XML (-R)."""
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
    return write(
        profile,
        system.collect(", ".join(names) or result.host.hostname),
        result.created.astimezone(UTC),
        measured,
    )


def profile(profile: Profile) -> str:
    """Renders the profile as text or XML (-Rp)."""
    return profile_xml(profile) if profile.result_format == "xml" else profile_text(profile)

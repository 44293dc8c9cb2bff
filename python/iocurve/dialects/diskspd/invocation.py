"""A DiskSpd command line that was understood: its profile, and a plan for each time span."""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from dataclasses import dataclass

from iocurve.dialects.base import Prepared
from iocurve.dialects.diskspd.job import Row
from iocurve.dialects.diskspd.read.profile import Profile, TimeSpan
from iocurve.engine.plan import Plan
from iocurve.job.model import Job


@dataclass(frozen=True)
class PreparedSpan:
    """A time span that can be run."""

    span: TimeSpan
    job: Job
    plan: Plan
    threads: tuple[tuple[Row, ...], ...]
    """By thread of DiskSpd's: which workers of the plan it is."""


@dataclass(frozen=True, kw_only=True)
class Invocation(Prepared, ABC):
    """What an answer in DiskSpd's form needs to know."""

    profile: Profile
    spans: tuple[PreparedSpan, ...]
    """One after another; none where the profile is only to be printed."""

    @property
    def plans(self) -> Sequence[Plan]:
        """One for each time span."""
        return [span.plan for span in self.spans]

"""A DiskSpd command line that was read: its profile, and a plan for each time span."""

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
    """A time span with its job and plan."""

    span: TimeSpan
    job: Job
    plan: Plan
    threads: tuple[tuple[Row, ...], ...]
    """For each DiskSpd thread its rows; a row names the workers of the plan that make it up."""


@dataclass(frozen=True, kw_only=True)
class Invocation(Prepared, ABC):
    """The part of a prepared command line that DiskSpd's output needs."""

    profile: Profile
    spans: tuple[PreparedSpan, ...]
    """In the order they run; empty with -Rp."""

    @property
    def plans(self) -> Sequence[Plan]:
        """One plan per time span."""
        return [span.plan for span in self.spans]

"""The reading of a result: everything that its figures mean, for the page, the tables and programs to draw."""

from __future__ import annotations

from functools import cached_property

import msgspec
from msgspec.structs import force_setattr

from iocurve.analysis.answers import answer_of
from iocurve.analysis.doubts import doubts_of, remarks_of, trust_of
from iocurve.analysis.families import PointFamily, families_of
from iocurve.analysis.findings import KneeFinding, findings_of, found_knee
from iocurve.analysis.gains import gain_of
from iocurve.analysis.headlines import HEADLINES_MAX, Headline, headlines_of
from iocurve.analysis.limit_groups import LimitGroup, Twice, bought_of, limit_groups_of, sentences_of, twice_of
from iocurve.analysis.limit_kinds import Limit
from iocurve.analysis.limits import with_verdicts
from iocurve.analysis.published import PublishedComparison, comparisons_of, lines_of
from iocurve.result.document import Point, Result
from iocurve.result.stalls import Condition


def read(result: Result) -> Reading:
    """Reads a result: judges its points at once. The other parts of the reading are computed on first use, and once."""
    return Reading(result)


class Reading(msgspec.Struct, frozen=True, dict=True):
    """A result with its meaning."""

    result: Result
    """The result with the verdicts on all points."""

    def __post_init__(self) -> None:
        force_setattr(self, "result", with_verdicts(self.result))

    @property
    def verdicts(self) -> tuple[Limit | None, ...]:
        """The verdict on each point, in the order of the points; None where nothing was measured."""
        return tuple(point.limit for point in self.result.points)

    @cached_property
    def families(self) -> tuple[PointFamily, ...]:
        """The points that measured anything, by family."""
        return tuple(families_of(self.result))

    @cached_property
    def headlines(self) -> tuple[Headline, ...]:
        """The few figures that a reader came for; first the answer to the question of the scenario.

        An answer that lists the highest rates repeats those of the loads, and is left out.
        """
        others = headlines_of(self.result, self.families, self.published, HEADLINES_MAX - len(self._compared))
        return (*self._compared, *others)

    @property
    def _compared(self) -> tuple[Headline, ...]:
        """The answer where it is more than the highest rates."""
        return self.answer if self.result.scenario and self.result.scenario.answer else ()

    @cached_property
    def answer(self) -> tuple[Headline, ...]:
        """The answer to the question of the scenario; empty without a question."""
        return tuple(answer_of(self.result, self.families))

    @cached_property
    def sentences(self) -> tuple[str, ...]:
        """A sentence that answers the question, and at most three more: the limit of the target, knees and gains."""
        found = sentences_of(self._compared, self.headlines, self.limit_groups, self.findings, self.trust[0])
        return (self.bought, *found[:1]) if self.bought else tuple(found)

    @cached_property
    def bought(self) -> str:
        """The limits that were bought, the rate reached, its limit, and the change for twice; empty without them."""
        return bought_of(self.result, self.verdicts, self.twice)

    @cached_property
    def twice(self) -> Twice | None:
        """The changes for twice the throughput and for half the latency of the fastest point; None if they are open."""
        return twice_of(self.result, self.verdicts)

    @cached_property
    def limit_groups(self) -> tuple[LimitGroup, ...]:
        """The kinds of limits with their points and the next step, the kind with the most points first."""
        return tuple(limit_groups_of(self.result, self.families))

    @cached_property
    def knee(self) -> KneeFinding | None:
        """The knee that a search found; None where there was no such search."""
        return found_knee(self.result)

    @cached_property
    def findings(self) -> tuple[str, ...]:
        """Sentences on knees and gains."""
        return tuple(findings_of(self.families))

    @cached_property
    def trust(self) -> tuple[Condition, str]:
        """The condition of the machine during the points, and a sentence that counts those that others disturbed."""
        return trust_of([member for family in self.families for member in family.members])

    @cached_property
    def doubts(self) -> tuple[str, ...]:
        """Reasons to read the figures with care."""
        return tuple(doubts_of(self.result, self.families))

    @cached_property
    def remarks(self) -> tuple[str, ...]:
        """Facts that are worth knowing and cast no doubt on the figures."""
        return tuple(remarks_of(self.result))

    @cached_property
    def published(self) -> tuple[PublishedComparison, ...]:
        """Each measured figure for which a published one exists, with that one."""
        return tuple(comparisons_of(self.result))

    @cached_property
    def outcome(self) -> tuple[str, ...]:
        """The answer to the question of a scenario, and the published figures: a line each, for the end of a run."""
        question = self.result.scenario and self.result.scenario.question
        first = self.answer or self.headlines[:1] if question else ()
        answers = [f"{one.what}: {one.value} {one.unit}".rstrip() for one in first]
        return (*filter(None, [self.bought]), *answers, *lines_of(self.published))

    def gain_text(self, point: Point) -> str:
        """The gain of a point over the first of its turns, ``1.42 × [1.35, 1.50], faster``; may be empty."""
        if not point.compared_with or point.compared_with[0] == point.name:
            return ""
        members = {one.name: one for one in self.result.points}
        base = members.get(point.compared_with[0])
        if base is None:
            return ""
        gain = gain_of(members[point.name], base)
        return gain.full_text if gain else f"inconclusive: {base.name} had no operations"

"""Applies a distribution (-rd) to a target of a given size: zones of bytes with their share of the operations."""

from __future__ import annotations

from fractions import Fraction

import msgspec

from iocurve.dialects.diskspd.read.profile import TargetParameters
from iocurve.dialects.diskspd.read.values import OffsetZone


def zones_of(target: TargetParameters, region_bytes: int) -> list[OffsetZone]:
    """The zones of a target's distribution in a region; parts without operations are omitted.

    The rules are DiskSpd's. Percentages are rounded down to offsets that operations can start at; a part too small for
    one offset gives its share to its neighbour. Sizes are kept; parts beyond the end of the region are dropped.
    """
    if target.distribution == "Absolute":
        return _absolute(target, region_bytes)
    return _Percentages(target.step_bytes, aligned_bytes(target, region_bytes)).of(target.spans)


def aligned_bytes(target: TargetParameters, region_bytes: int) -> int:
    """Length of the range of possible start offsets: from 0 to one step after the last offset."""
    last = region_bytes - target.block_bytes
    return last - last % target.step_bytes + target.step_bytes


def shares(zones: list[OffsetZone]) -> list[Fraction]:
    """Shares of the zones in percent of the operations, scaled to a sum of 100."""
    total = sum(zone.io_percent for zone in zones)
    return [Fraction(100 * zone.io_percent, total) for zone in zones]


def _absolute(target: TargetParameters, region_bytes: int) -> list[OffsetZone]:
    zones = []
    for span in target.spans:
        if not span.io_percent:
            continue
        if span.start >= region_bytes:
            break
        length = span.length
        if not length or span.start + length > region_bytes:
            length = region_bytes - span.start
            if length < target.block_bytes:
                break
        zones.append(OffsetZone(span.io_percent, span.start, length))
    return zones


class _Percentages(msgspec.Struct):
    step: int
    whole: int
    """Length of the range of possible start offsets."""

    zones: list[OffsetZone] = msgspec.field(default_factory=list)
    carry: int = 0
    """Operations of parts without a possible offset, in percent; the next zone takes them."""

    def of(self, spans: tuple[OffsetZone, ...]) -> list[OffsetZone]:
        for span in spans:
            start, end = self._bounds(span)
            if span.io_percent and end < start:
                self._pass_on(span.io_percent, end)
            elif span.io_percent:
                self._add(span.io_percent, start - start % self.step, end)
        if self.carry and not self.zones:
            self.zones.append(OffsetZone(0, self.whole - self.step, self.step))
        if self.carry:
            self.zones[-1].io_percent += self.carry
            self.zones[-1].length = self.whole - self.zones[-1].start
        return self.zones

    def _pass_on(self, io_percent: int, end: int) -> None:
        """Gives the operations of a part without a possible offset to the neighbour."""
        if self.zones and self.zones[-1].start == end:
            self.zones[-1].io_percent += io_percent
        else:
            self.carry += io_percent

    def _add(self, io_percent: int, start: int, end: int) -> None:
        """Adds the zone of a part; the zone before keeps an offset that both would have."""
        if start < end and self.zones and self.zones[-1].start == start:
            start += self.step
            self.zones[-1].length += self.step
            if start == self.whole:
                self.carry += io_percent
                return
            if start == end:
                self.zones[-1].io_percent += io_percent
                return
        if self.carry and self.zones and self.zones[-1].io_percent < io_percent:
            self.zones[-1].io_percent += self.carry
            self.carry = 0
        self.zones.append(OffsetZone(io_percent + self.carry, start, end - start))
        self.carry = 0

    def _bounds(self, span: OffsetZone) -> tuple[int, int]:
        start = span.start * self.whole // 100
        is_last = span.start + span.length == 100
        end = self.whole if is_last else start + span.length * self.whole // 100
        return start, end - end % self.step

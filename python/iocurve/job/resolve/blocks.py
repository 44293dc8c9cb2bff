"""The kinds of operations of a section, and their block sizes."""

from __future__ import annotations

from iocurve.engine import plan as planned
from iocurve.job.model import Section


def kinds(section: Section) -> list[planned.OperationKind]:
    """The kinds, in the order of the plan; fio's trimwrite trims a block before it writes it."""
    used: dict[planned.OperationKind, bool | None] = {
        "read": section.load.reads,
        "trim": section.load.trims,
        "write": section.load.writes,
    }
    return [kind for kind, is_used in used.items() if is_used]


def smallest_block(section: Section) -> int:
    """Bytes of the smallest operation."""
    return min(blocks.smallest for blocks in _blocks(section))


def largest_block(section: Section) -> int:
    """Bytes of the largest operation."""
    return max(blocks.largest for blocks in _blocks(section))


def _blocks(section: Section) -> list[planned.Blocks]:
    blocks = section.load.blocks
    return [getattr(blocks, kind) for kind in kinds(section)]

"""Where a load stands on the axes that points differ in, and places on them in words."""

from __future__ import annotations

from iocurve.engine.plan import FixedBlocks
from iocurve.job.model import Section, settled
from iocurve.result.document import Axis
from iocurve.units import format_bytes


def axes_of(load: Section) -> dict[str, Axis]:
    """Order, block size and mix of a load whose fields are all settled; a block size only where it is one."""
    axes: dict[str, Axis] = {"order": "random" if load.random else "sequential"}
    blocks = settled(load.blocks).read if load.reads else settled(load.blocks).write
    if isinstance(blocks, FixedBlocks):
        axes["block_bytes"] = blocks.bytes
    percent = settled(load.read_percent) if load.reads and load.writes else 100.0 * bool(load.reads)
    axes["read_percent"] = int(percent) if percent == int(percent) else percent
    return axes


def axis_text(axis: str, value: Axis) -> str:
    """A place on an axis in words: ``nconnect 8``, ``4 KiB``, ``read``."""
    if axis == "block_bytes":
        return format_bytes(int(value))
    return str(value) if axis in ("kind", "order", "target") else f"{axis} {value}"

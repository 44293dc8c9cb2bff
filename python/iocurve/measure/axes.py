"""The axis values of a load."""

from __future__ import annotations

from iocurve.engine.plan import FixedBlocks
from iocurve.job.model import Load
from iocurve.result.document import Axis


def axes_of(load: Load) -> dict[str, Axis]:
    """Order, block size and mix of a load; the block size only if the load has a single one."""
    axes: dict[str, Axis] = {"order": "random" if load.random else "sequential"}
    blocks = load.blocks.read if load.reads else load.blocks.write
    if isinstance(blocks, FixedBlocks):
        axes["block_bytes"] = blocks.bytes
    percent = load.read_percent if load.reads and load.writes else 100.0 * load.reads
    axes["read_percent"] = int(percent) if percent == int(percent) else percent
    return axes

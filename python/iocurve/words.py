"""Parts of a plan in words, for whoever explains or reports one."""

from __future__ import annotations

from iocurve.plan import BlockRange, Blocks, FixedBlocks, OperationPlan
from iocurve.units import format_bytes


def block_text(blocks: Blocks) -> str:
    """``4 KiB``, ``4 KiB to 64 KiB``, ``4 KiB (50 %) or 64 KiB (50 %)``."""
    if isinstance(blocks, FixedBlocks):
        return format_bytes(blocks.bytes)
    if isinstance(blocks, BlockRange):
        return f"{format_bytes(blocks.low)} to {format_bytes(blocks.high)}"
    total = sum(part.weight for part in blocks.parts) or 1
    return " or ".join(f"{format_bytes(part.bytes)} ({100 * part.weight / total:.3g} %)" for part in blocks.parts)


def order_text(operation: OperationPlan) -> str:
    """``random``, ``sequential``, ``30 % random``."""
    if operation.random_percent in (0, 100):
        return "random" if operation.random_percent else "sequential"
    return f"{operation.random_percent} % random"

"""The facts of an emulated disk, for the result."""

from __future__ import annotations

from pathlib import Path

from iocurve.engine.plan import DiskPlan
from iocurve.result import host
from iocurve.result.caps import caps
from iocurve.result.document import TargetFacts


def disk_facts(disk: DiskPlan) -> TargetFacts:
    """The facts of an emulated disk, with its sustained limits (no burst)."""
    within = [disk.limits]
    if disk.vm and disk.cache != "none" and disk.vm.cached:
        within = [disk.vm.cached]
    elif disk.vm and disk.vm.uncached:
        within.append(disk.vm.uncached)
    directory = Path(disk.state_path).parent
    return TargetFacts(
        kind="emulated_disk",
        address=str(directory),
        service_level=disk.name,
        caps=caps(
            {
                "iops": min(limits.iops for limits in within),
                "throughput_bytes_per_s": min(limits.bytes_per_s for limits in within),
            }
        ),
        mount=host.mount_of(directory),
    )

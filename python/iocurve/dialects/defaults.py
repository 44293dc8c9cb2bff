"""What the dialects have in common where nothing is said; each says over it what it does otherwise."""

from __future__ import annotations

from iocurve.engine.plan import FixedBlocks
from iocurve.job.model import PerKind, Section
from iocurve.units import SECOND_NS

COMMON = Section(
    clones=1,
    nconnect=1,
    nfs_timeout_ns=60 * SECOND_NS,
    direct=False,
    durability="none",
    invalidate=False,
    file_count=1,
    offset=0,
    offset_increment=0,
    file_select="round_robin",
    create=True,
    overwrite=False,
    unlink=False,
    reads=True,
    writes=False,
    trims=False,
    random_percent=PerKind.same(100),
    blocks=PerKind.same(FixedBlocks(bytes=4096)),
    ramp_ns=0,
    cooldown_ns=0,
    start_delay_ns=(0, 0),
    loops=1,
    repeatable=True,
    payload_zero=False,
    payload_refill=False,
    cpus_split=False,
    barrier=False,
    new_report_group=False,
    report_as_group=False,
)

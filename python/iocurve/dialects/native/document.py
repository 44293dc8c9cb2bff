"""A job file as a whole: runs one after another, each with defaults and jobs; what is not said is as here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from iocurve.dialects.native.keys import FIELDS, KINDS
from iocurve.model import Job, PerKind, Section
from iocurve.option_names import own_key
from iocurve.plan import FixedBlocks
from iocurve.units import SECOND_NS

DEFAULTS = Section(
    clones=1,
    engine="uring",
    nconnect=1,
    nfs_timeout_ns=60 * SECOND_NS,
    direct=True,
    durability="none",
    invalidate=False,
    file_name_pattern="{job}.{clone}.{file}",
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
    random=True,
    read_percent=50.0,
    random_percent=PerKind.same(100),
    blocks=PerKind.same(FixedBlocks(bytes=4096)),
    cover="once",
    depth=1,
    time_based=True,
    ramp_ns=0,
    start_delay_ns=(0, 0),
    loops=1,
    repeatable=True,
    payload_zero=False,
    payload_refill=False,
    payload_scramble=True,
    cpus_split=False,
    barrier=False,
    new_report_group=False,
    report_as_group=False,
)
"""What a job is where nothing is said."""


@dataclass(frozen=True)
class Run:
    """One plan to be."""

    job: Job
    interval_ns: int


def table_of(section: Section, beside: Section | None = None) -> dict[str, Any]:
    """A section's fields as keys and TOML values; without those that ``beside`` says alike."""
    values = {name: getattr(section, name) for name in FIELDS}
    return {
        own_key(name): KINDS[name].write(value)
        for name, value in values.items()
        if value is not None and (beside is None or value != getattr(beside, name))
    }

"""vdbench's names for the fields of a section, used in messages."""

from __future__ import annotations

from iocurve.job.model import Words

WORDS = Words(
    names={
        "numjobs": "jvms",
        "direct": "openflags",
        "paths": "lun",
        "directories": "anchor",
        "file_count": "count",
        "file_bytes": "size",
        "size": "size",
        "offset": "offset",
        "reads": "rdpct",
        "writes": "rdpct",
        "random": "seekpct",
        "random_percent": "seekpct",
        "read_percent": "rdpct",
        "blocks": "xfersize",
        "align_bytes": "align",
        "gap_bytes": "stride",
        "rate_total_operations": "iorate",
        "depth": "threads",
        "runtime_ns": "elapsed",
        "ramp_ns": "warmup",
        "transfer": "maxdata",
    },
    joint="=",
    asks={
        "direct": "openflags=o_direct",
        "repeat": "a seed",
        "no repeat": "no seed",
        "no create": "formatsds=no",
        "size": "size=1g",
    },
    worker="worker",
    # vdbench's own notes (first_interval, ramp_added) say which intervals are not counted.
    silent_about=frozenset({"ramp_added"}),
)

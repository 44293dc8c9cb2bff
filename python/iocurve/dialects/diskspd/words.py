"""DiskSpd's names for the fields of a section, used in messages."""

from __future__ import annotations

from iocurve.job.model import Words

WORDS = Words(
    names={
        "engine": "-S",
        "numjobs": "-t",
        "direct": "-S",
        "paths": "the target",
        "size": "-f",
        "file_bytes": "-c",
        "offset": "-B",
        "start_increment_bytes": "-T",
        "reads": "-w",
        "writes": "-w",
        "random": "-r",
        "random_percent": "-rs",
        "distribution": "-rd",
        "read_percent": "-w",
        "blocks": "-b",
        "align_bytes": "-r",
        "gap_bytes": "-s",
        "rate_total_operations": "-g",
        "rate_total_bytes": "-g",
        "depth": "-o",
        "think_ns": "-j",
        "runtime_ns": "-d",
        "ramp_ns": "-W",
        "cooldown_ns": "-C",
        "seed": "-z",
        "repeatable": "-z",
        "payload_zero": "-Z",
        "payload_pool_bytes": "-Z",
        "cpus": "-a",
    },
    joint="",
    asks={
        "direct": "-Su",
        "repeat": "seed 0",
        "no repeat": "-z",
        "no create": "no -c",
        "size": "-c1G",
    },
    worker="thread",
)

"""What each dialect calls the fields of a section, so that texts speak the words a job was written in."""

from __future__ import annotations

from collections.abc import Mapping

from iocurve.job.model import Dialect

_FIO = {
    "engine": "ioengine",
    "clones": "numjobs",
    "nfs_url": "nfs_url",
    "disk": "--disk",
    "nconnect": "nconnect",
    "direct": "direct",
    "paths": "filename",
    "directories": "directory",
    "file_count": "nrfiles",
    "file_bytes": "filesize",
    "size": "size",
    "offset": "offset",
    "offset_increment": "offset_increment",
    "create": "allow_file_create",
    "append": "file_append",
    "until_full": "fill_device",
    "start_bytes": "offset",
    "reads": "rw",
    "writes": "rw",
    "trims": "rw",
    "random": "rw",
    "random_percent": "percentage_random",
    "distribution": "random_distribution",
    "read_percent": "rwmixread",
    "blocks": "bs",
    "align_bytes": "blockalign",
    "cover": "norandommap",
    "run_length": "rw",
    "zone_bytes": "zonesize",
    "zone_range_bytes": "zonerange",
    "zone_skip_bytes": "zoneskip",
    "rate_operations": "rate_iops",
    "rate_bytes": "rate",
    "depth": "iodepth",
    "think_ns": "thinktime",
    "fsync_every": "fsync",
    "fdatasync_every": "fdatasync",
    "sync_file_range_every": "sync_file_range",
    "runtime_ns": "runtime",
    "time_based": "time_based",
    "ramp_ns": "ramp_time",
    "transfer": "io_size",
    "operations": "number_ios",
    "loops": "loops",
    "wait_for": "wait_for",
    "repeatable": "randrepeat",
    "seed": "randseed",
    "payload_refill": "refill_buffers",
    "payload_zero": "zero_buffers",
    "verify": "verify",
    "cpus": "cpus_allowed",
    "cpus_split": "cpus_allowed_policy",
}
_VDBENCH = {
    "clones": "jvms",
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
}
_DISKSPD = {
    "engine": "-S",
    "clones": "-t",
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
}
_IOCURVE = {
    "file_bytes": "file_size",
    "path_bytes": "path_sizes",
    "think_every_ns": "think_every_time",
    "rate_bytes": "rate_bytes",
    "rate_total_bytes": "rate_total_bytes",
    "payload_pool_bytes": "payload_pool_size",
}
"""Our own jobs call a field as it is called here, without the unit: values carry it."""

_NAMES: Mapping[Dialect, Mapping[str, str]] = {
    "fio": _FIO,
    "vdbench": _VDBENCH,
    "diskspd": _DISKSPD,
    "iocurve": _IOCURVE,
}
_JOINTS: Mapping[Dialect, str] = {"fio": "=", "vdbench": "=", "diskspd": "", "iocurve": " = "}

_ASKS: Mapping[str, Mapping[Dialect, str]] = {
    "direct": {"fio": "direct=1", "vdbench": "openflags=o_direct", "diskspd": "-Su", "iocurve": "direct = true"},
    "repeat": {"fio": "randrepeat=1", "vdbench": "a seed", "diskspd": "seed 0", "iocurve": "repeatable = true"},
    "no repeat": {"fio": "randrepeat=0", "vdbench": "no seed", "diskspd": "-z", "iocurve": "repeatable = false"},
    "no create": {
        "fio": "allow_file_create=0",
        "vdbench": "formatsds=no",
        "diskspd": "no -c",
        "iocurve": "create = false",
    },
    "size": {"fio": "size=1g", "vdbench": "size=1g", "diskspd": "-c1G", "iocurve": 'size = "1g"'},
}
_CLONES: Mapping[Dialect, str] = {"fio": "clone", "vdbench": "worker", "diskspd": "thread", "iocurve": "worker"}


def option(dialect: Dialect, field: str, value: object = None) -> str:
    """A field of a section as the dialect names it: ``iodepth``, ``-o``; with a value ``iodepth=4``, ``-o4``."""
    name = own_key(field) if dialect == "iocurve" else _NAMES[dialect].get(field, field)
    return name if value is None else f"{name}{_JOINTS[dialect]}{value}"


def own_key(field: str) -> str:
    """A field of a section in our own job files: ``runtime`` for ``runtime_ns``."""
    return _IOCURVE.get(field) or field.removesuffix("_ns").removesuffix("_bytes")


def asks_for(dialect: Dialect, what: str) -> str:
    """How a dialect asks for something that takes more than a number: ``direct=1``, ``openflags=o_direct``."""
    return _ASKS[what][dialect]


def clone_word(dialect: Dialect) -> str:
    """What a person calls one of the workers of a job."""
    return _CLONES[dialect]

"""Effects of fio's options on a draft: general ones (set a field, refuse …) and those of options with special rules."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Literal

from iocurve.dialects.fio.read import splits, values
from iocurve.dialects.fio.read.draft import Draft, Effect, part_of
from iocurve.dialects.fio.read.values import Context, Reader
from iocurve.engine.plan import BlockRange, Blocks, FileSelect, FixedBlocks, MetadataKind
from iocurve.foundation.structs import Struct
from iocurve.job.model import FIELDS, Data, EngineName, Files, Level, Load, PerKind, SpaceCall, Target

NOT_YET = "ignoring it would change what is measured"

ENGINES: dict[str, EngineName] = {
    "psync": "sync",
    "sync": "sync",
    "vsync": "sync",
    "pvsync": "sync",
    "pvsync2": "sync",
    "libaio": "aio",
    "posixaio": "uring",
    "io_uring": "uring",
    "mmap": "mmap",
    "null": "null",
    "nfs": "nfs",
}
"""fio's I/O engines, each with iocurve's engine that runs instead."""
FOREIGN_ENGINES: dict[str, EngineName] = {"splice": "sync", "windowsaio": "aio"}
"""Engines of other systems, and of copies within this one, that run as the nearest: lines with them are accepted."""


METADATA_ENGINES: dict[str, MetadataKind] = {
    "filecreate": "create",
    "filestat": "getattr",
    "filedelete": "delete",
    "dircreate": "mkdir",
    "dirstat": "getattr",
    "dirdelete": "rmdir",
}
"""fio's engines that do one operation on each file or directory, each with that operation."""
DIRECTORIES_FIRST = ("dirstat", "dirdelete")
"""Those whose directories are created before the run."""
SPACE_ENGINES: dict[str, SpaceCall] = {"falloc": "fallocate", "ftruncate": "ftruncate"}
"""fio's engines that allocate or cut the space of files, each with its call."""
_REASONS = {
    "io_uring_cmd": "it sends NVMe commands to /dev/ng…; use ioengine=io_uring on the block device /dev/nvme…",
    "cpuio": "it does no I/O and keeps a processor busy; leave the job out",
    "sg": "it sends SCSI commands to /dev/sg…; use ioengine=libaio on the block device",
}
"""Reasons why engines are refused, with what to use instead."""
_OTHERS = (
    "cpuio net netsplice rdma rbd rados http gfapi gfapi_async libhdfs sg io_uring_cmd mtd e4defrag exec nbd "
    "libiscsi libblkio libcufile pmemblk libpmem dev-dax dfs xnvme solarisaio spdk spdk_bdev guasi external "
    "ime_psync ime_psyncv ime_aio libzbc libhipfile page_fault cpp_null"
)
OTHER_ENGINES = frozenset(_OTHERS.split())

# -- general effects ---------------------------------------------------------------------------------------------------


def sets(field: str, read: Reader[object]) -> Effect:
    """Sets a field of the section."""
    part: Callable[..., Struct] = part_of(field)

    def effect(draft: Draft, text: str, context: Context) -> None:
        draft.put(part, **{field: read(text, context)})

    return effect


def sets_per_kind(field: str, minimum: int = 1, maximum: int = 2**32 - 1) -> Effect:
    """Sets a field that has one value each for reads, writes and trims."""
    part: Callable[..., Struct] = part_of(field)

    def effect(draft: Draft, text: str, context: Context) -> None:
        before: PerKind[int | None] = getattr(getattr(draft, FIELDS[field]), field)
        draft.put(part, **{field: values.per_kind(text, context, before, minimum, maximum)})

    return effect


def keeps(part: str, name: str, read: Reader[object]) -> Effect:
    """Keeps a value in a part of the draft: output options, those of log files, or those that ``combine`` reads."""
    find = attrgetter(part)

    def effect(draft: Draft, text: str, context: Context) -> None:
        setattr(find(draft), name, read(text, context))

    return effect


def no_effect(
    reason: str, noop: tuple[str, ...] = (), level: Level = "info", read: Reader[object] = values.text_value
) -> Effect:
    """Ignores the option with a note. ``noop`` lists the values that ask for iocurve's own behaviour: no note."""

    def effect(_draft: Draft, text: str, context: Context) -> None:
        read(text, context)
        if text.strip() not in noop:
            context.note("no_effect", f"{context.option}={text.strip()} has no effect: {reason}", level)

    return effect


def unsupported(reason: str, noop: tuple[str, ...] = (), read: Reader[object] = values.text_value) -> Effect:
    """Refuses the option. ``noop`` lists the values that ask for iocurve's own behaviour: they are accepted."""

    def effect(_draft: Draft, text: str, context: Context) -> None:
        read(text, context)
        if text.strip() not in noop:
            raise ValueError(
                f"{context.option}={text.strip()} is not supported{' yet' if reason == NOT_YET else ''}: {reason}"
            )

    return effect


# -- engine and files --------------------------------------------------------------------------------------------------


def set_engine(draft: Draft, text: str, _context: Context) -> None:
    """Sets the engine from ioengine."""
    name = text.strip()
    # fio compares only the beginning of these two names of libaio.
    if name.startswith(("linuxaio", "aio")):
        name = "libaio"
    is_file = "/" in name or name.endswith(".so")
    draft.engine_refused = is_file or name.split(":")[0] in OTHER_ENGINES
    draft.put(Load, metadata=METADATA_ENGINES.get(name))
    draft.put(Files, are_directories=name in DIRECTORIES_FIRST)
    draft.put(Target, space_call=SPACE_ENGINES.get(name))
    if engine := ENGINES.get(name) or FOREIGN_ENGINES.get(name):
        draft.put(Target, engine=engine, engine_asked=name)
    elif name in (*METADATA_ENGINES, *SPACE_ENGINES):
        draft.put(Target, engine="sync", engine_asked=name)
    elif name.split(":")[0] in OTHER_ENGINES:
        reason = _REASONS.get(name.split(":")[0], "iocurve measures files, devices and NFS")
        raise ValueError(f"ioengine={name} is not supported: {reason}")
    elif is_file:
        raise ValueError(f"ioengine={name} is not supported: iocurve loads no external engines")
    else:
        close = values.did_you_mean(name, [*ENGINES, *METADATA_ENGINES, *SPACE_ENGINES, *OTHER_ENGINES])
        listed = f"{close} Supported:" if close else "; supported:"
        raise ValueError(
            f"unknown ioengine '{name}'{listed} {values.either([*ENGINES, *METADATA_ENGINES, *SPACE_ENGINES])}"
        )


def set_file_select(draft: Draft, text: str, context: Context) -> None:
    """Sets from file_service_type the order of files and the number of operations in a row on one file."""
    order, _, every = values.word("roundrobin", "sequential", "random", "zipf", "pareto", "normal", "gauss")(
        text, context
    ).partition(":")
    meanings: dict[str, FileSelect] = {"roundrobin": "round_robin", "sequential": "sequential", "random": "random"}
    order = order.strip()
    if order not in meanings:
        raise ValueError(f"file_service_type={text.strip()} is not supported yet; use roundrobin, sequential or random")
    draft.put(Files, file_select=meanings[order], file_run=values.integer(1)(every, context) if every else 1)


def add_paths(draft: Draft, text: str, context: Context) -> None:
    """Appends the files of filename to those before it."""
    draft.put(Files, paths=(*draft.files.paths, *values.names(text, context)))


# -- load --------------------------------------------------------------------------------------------------------------

_DIRECTIONS = {
    "read": (True, False, False, False),
    "write": (False, True, False, False),
    "trim": (False, False, True, False),
    "rw": (True, True, False, False),
    "readwrite": (True, True, False, False),
    "trimwrite": (False, True, True, False),
    "randread": (True, False, False, True),
    "randwrite": (False, True, False, True),
    "randtrim": (False, False, True, True),
    "randrw": (True, True, False, True),
    "randtrimwrite": (False, True, True, True),
}


def set_direction(draft: Draft, text: str, context: Context) -> None:
    """Reads rw: ``randread``, ``randread:8`` (a random offset every 8 operations), ``read:4k`` (skip 4k after each)."""
    direction, _, step = values.word(*_DIRECTIONS)(text, context).partition(":")
    reads, writes, trims, is_random = _DIRECTIONS[direction.strip()]
    draft.put(Load, reads=reads, writes=writes, trims=trims, random=is_random)
    draft.put(Load, run_length=1, gap_bytes=0, position="identical" if writes and trims else "kind")
    if step and is_random:
        draft.put(Load, run_length=values.integer(1, 2**32 - 1)(step, context))
    elif step:
        draft.put(Load, gap_bytes=values.signed_size(step, context))


def set_blocks(draft: Draft, text: str, context: Context) -> None:
    """Reads bs: one size each for reads, writes and trims."""
    draft.deferred.bs = values.per_kind(text, context, draft.deferred.bs)


def set_block_range(draft: Draft, text: str, context: Context) -> None:
    """Reads bsrange: ``4k-64k``, or with commas one range each for reads, writes and trims."""
    ranges = [values.size_range(sizes, context) for sizes in text.split(",")[:3]]
    if not all(low >= 1 and high < 2**32 for low, high in ranges):
        raise ValueError(f"{context.option} takes blocks of 1 byte to 4 GiB")
    blocks = [_blocks(low, high) for low, high in ranges]
    draft.deferred.blocks = PerKind(read=blocks[0], write=blocks[min(1, len(blocks) - 1)], trim=blocks[-1])


def _blocks(low: int, high: int) -> Blocks:
    return BlockRange(low=low, high=high, step=low) if high > low else FixedBlocks(bytes=low)


def set_block_split(draft: Draft, text: str, context: Context) -> None:
    """Reads bssplit: ``4k/10:64k/50:32k``, or with commas one split each for reads, writes and trims."""
    blocks = splits.or_else(splits.block_split(text, context), draft.deferred.blocks)
    draft.deferred.blocks = blocks


def set_trace(draft: Draft, text: str, context: Context) -> None:
    """Reads the file name of read_iolog."""
    name = values.text_value(text, context)
    if name == "-" or ":" in name:
        raise ValueError(f"read_iolog={name} is not supported yet; name a single file")
    draft.deferred.read_iolog = context.directory / name


def set_zone_mode(draft: Draft, text: str, context: Context) -> None:
    """Reads zonemode. Raises ``ValueError`` for zbd: zoned devices are not supported."""
    modes: dict[str, Literal["none", "strided", "zbd"]] = {"none": "none", "strided": "strided", "zbd": "zbd"}
    draft.deferred.zonemode = values.meaning(modes)(text, context)
    if draft.deferred.zonemode == "zbd":
        raise ValueError(
            "zonemode=zbd is not supported: iocurve neither reports nor resets the zones of a zoned device, and does "
            "not keep writes at their write pointers; zonemode=strided "
            "needs none of this, and fio itself refuses zbd on a file"
        )


def set_all_repeatable(draft: Draft, text: str, context: Context) -> None:
    """Reads allrandrepeat: 1 switches randrepeat on, 0 changes nothing."""
    if values.boolean(text, context):
        draft.put(Data, repeatable=True)


# -- payload and verification ------------------------------------------------------------------------------------------


def set_pattern(draft: Draft, text: str, context: Context) -> None:
    """Reads buffer_pattern. It resets zero_buffers, scramble_buffers and refill_buffers set before it."""
    pattern = values.pattern(text, context, with_offsets=False)
    draft.put(Data, payload_pattern=pattern, payload_zero=False, payload_scramble=False)
    if not draft.data.payload_compress_percent and not draft.load.reads:
        draft.put(Data, payload_refill=False)


def set_dedupe(draft: Draft, text: str, context: Context) -> None:
    """Reads dedupe_percentage. It switches refill_buffers on; a later refill_buffers=0 switches it off again."""
    draft.put(Data, payload_dedupe_percent=values.integer(0, 100)(text, context), payload_refill=True)


def set_kb_base(_draft: Draft, text: str, context: Context) -> None:
    """Sets how the size suffixes of the options that follow are read."""
    context.kb_base = values.meaning({"1000": 1000, "1024": 1024})(text, context)

"""Effects of fio's options on a draft: general ones (set a field, refuse …) and those of options with special rules."""

from __future__ import annotations

from iocurve.dialects.fio.read import patterns, splits, values
from iocurve.dialects.fio.read.draft import Draft, Effect, RefusedError
from iocurve.dialects.fio.read.values import Context, Reader
from iocurve.engine.plan import BlockRange, FixedBlocks, MetadataKind
from iocurve.job.model import EngineName, Level, PerKind, SpaceCall

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


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


METADATA_ENGINES: dict[str, MetadataKind] = {"filecreate": "create", "filestat": "getattr", "filedelete": "delete"}
"""fio's engines that do one operation on each file, each with that operation."""
SPACE_ENGINES: dict[str, SpaceCall] = {"falloc": "fallocate", "ftruncate": "ftruncate"}
"""fio's engines that allocate or cut the space of files, each with its call."""
LATER_ENGINES = _names("dircreate dirstat dirdelete")
"""Metadata engines that Debian's fio 3.33 does not have."""
OTHER_ENGINES = _names(
    "cpuio net netsplice splice rdma rbd rados http gfapi gfapi_async libhdfs sg io_uring_cmd mtd e4defrag exec nbd "
    "libiscsi libblkio libcufile pmemblk libpmem dev-dax dfs xnvme solarisaio windowsaio spdk spdk_bdev guasi external "
    "ime_psync ime_psyncv ime_aio libzbc libhipfile page_fault cpp_null"
)

# -- general effects ---------------------------------------------------------------------------------------------------


def sets(name: str, read: Reader) -> Effect:
    """Sets a field of the section."""

    def effect(draft: Draft, text: str, context: Context) -> None:
        draft.fields[name] = read(text, context)

    return effect


def sets_per_kind(name: str, minimum: int = 1, maximum: int = 2**32 - 1) -> Effect:
    """Sets a field that has one value each for reads, writes and trims."""
    read = values.per_kind(minimum, maximum)

    def effect(draft: Draft, text: str, context: Context) -> None:
        draft.fields[name] = read(text, context, draft.value(name))

    return effect


def reports(name: str, read: Reader) -> Effect:
    """Sets an output option."""

    def effect(draft: Draft, text: str, context: Context) -> None:
        draft.reporting[name] = read(text, context)

    return effect


def logs(name: str, read: Reader) -> Effect:
    """Sets an option of the log files."""

    def effect(draft: Draft, text: str, context: Context) -> None:
        draft.logs[name] = read(text, context)

    return effect


def defers(name: str, read: Reader) -> Effect:
    """Keeps a value whose meaning depends on other options, for ``combine``."""

    def effect(draft: Draft, text: str, context: Context) -> None:
        draft.deferred[name] = read(text, context)

    return effect


def no_effect(
    reason: str, noop: tuple[str, ...] = (), level: Level = "info", read: Reader = values.text_value
) -> Effect:
    """Ignores the option with a note. ``noop`` lists the values that ask for iocurve's own behaviour: no note."""

    def effect(_draft: Draft, text: str, context: Context) -> None:
        read(text, context)
        if text.strip() not in noop:
            context.note("no_effect", f"{context.option}={text.strip()} has no effect: {reason}", level)

    return effect


def unsupported(reason: str, noop: tuple[str, ...] = (), read: Reader = values.text_value) -> Effect:
    """Refuses the option. ``noop`` lists the values that ask for iocurve's own behaviour: they are accepted."""

    def effect(_draft: Draft, text: str, context: Context) -> None:
        read(text, context)
        if text.strip() not in noop:
            raise RefusedError(
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
    draft.engine_refused = is_file or name.split(":")[0] in LATER_ENGINES | OTHER_ENGINES
    draft.fields |= {"metadata": METADATA_ENGINES.get(name), "space_call": SPACE_ENGINES.get(name)}
    if name in ENGINES:
        draft.fields |= {"engine": ENGINES[name], "engine_asked": name}
    elif name in (*METADATA_ENGINES, *SPACE_ENGINES):
        draft.fields |= {"engine": "sync", "engine_asked": name}
    elif name in LATER_ENGINES:
        raise RefusedError(f"ioengine={name} is not supported yet; filecreate, filestat and filedelete are")
    elif name.split(":")[0] in OTHER_ENGINES:
        raise RefusedError(f"ioengine={name} is not supported: iocurve measures files, devices and NFS")
    elif is_file:
        raise RefusedError(f"ioengine={name} is not supported: iocurve loads no external engines")
    else:
        close = values.did_you_mean(name, [*ENGINES, *METADATA_ENGINES, *SPACE_ENGINES, *LATER_ENGINES, *OTHER_ENGINES])
        listed = f"{close} Supported:" if close else "; supported:"
        raise ValueError(
            f"unknown ioengine '{name}'{listed} {values.either([*ENGINES, *METADATA_ENGINES, *SPACE_ENGINES])}"
        )


def set_buffered(draft: Draft, text: str, context: Context) -> None:
    """Sets direct to the opposite of buffered."""
    draft.fields["direct"] = not values.boolean(text, context)


def set_durability(draft: Draft, text: str, context: Context) -> None:
    """Sets O_SYNC or O_DSYNC from sync."""
    meanings = {"none": "none", "0": "none", "sync": "file_sync", "1": "file_sync", "dsync": "data_sync"}
    draft.fields["durability"] = values.meaning(meanings)(text, context)


def set_file_select(draft: Draft, text: str, context: Context) -> None:
    """Sets from file_service_type the order of files and the number of operations in a row on one file."""
    order, _, every = values.word("roundrobin", "sequential", "random", "zipf", "pareto", "normal", "gauss")(
        text, context
    ).partition(":")
    meanings = {"roundrobin": "round_robin", "sequential": "sequential", "random": "random"}
    order = order.strip()
    if order not in meanings:
        raise RefusedError(
            f"file_service_type={text.strip()} is not supported yet; use roundrobin, sequential or random"
        )
    draft.fields["file_select"] = meanings[order]
    draft.fields["file_run"] = values.integer(1)(every, context) if every else 1


def add_paths(draft: Draft, text: str, context: Context) -> None:
    """Appends the files of filename to those before it."""
    draft.fields["paths"] = (*draft.fields.get("paths", ()), *values.names(text, context))


def set_file_name_pattern(draft: Draft, text: str, context: Context) -> None:
    """Translates the keywords of filename_format."""
    pattern = values.text_value(text, context).replace("{", "{{").replace("}", "}}")
    for keyword, ours in (("$jobname", "{job}"), ("$jobnum", "{jobnum}"), ("$filenum", "{file}")):
        pattern = pattern.replace(keyword, ours)
    if "$clientuid" in pattern:
        context.note("no_effect", "$clientuid is empty without a fio client, as in fio")
    draft.fields["file_name_pattern"] = pattern.replace("$clientuid", "")


def set_fallocate(_draft: Draft, text: str, context: Context) -> None:
    """Checks fallocate. iocurve always reserves space, in one way."""
    chosen = values.word("none", "posix", "keep", "native", "truncate", "0", "1")(text, context)
    if chosen not in {"native", "posix", "1"}:
        context.note("no_effect", f"fallocate={chosen} has no effect: space for written files is always reserved")


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
    draft.fields |= {"reads": reads, "writes": writes, "trims": trims, "random": is_random}
    draft.fields |= {"run_length": 1, "gap_bytes": 0, "position": "identical" if writes and trims else "kind"}
    if step and is_random:
        draft.fields["run_length"] = values.integer(1, 2**32 - 1)(step, context)
    elif step:
        draft.fields["gap_bytes"] = values.signed_size(step, context)


def set_read_percent(draft: Draft, text: str, context: Context) -> None:
    """Sets rwmixread. Of rwmixread and rwmixwrite the later one wins."""
    draft.fields["read_percent"] = float(values.integer(0, 100)(text, context))


def set_write_percent(draft: Draft, text: str, context: Context) -> None:
    """Sets rwmixread to the complement of rwmixwrite."""
    draft.fields["read_percent"] = 100.0 - values.integer(0, 100)(text, context)


def set_cover(draft: Draft, text: str, context: Context) -> None:
    """Sets the coverage from norandommap."""
    draft.fields["cover"] = "independent" if values.switch(text, context) else "once"


def set_blocks(draft: Draft, text: str, context: Context) -> None:
    """Reads bs: one size each for reads, writes and trims."""
    draft.deferred["bs"] = values.per_kind(1, 2**32 - 1)(text, context, draft.deferred.get("bs", PerKind.same(4096)))


def set_block_range(draft: Draft, text: str, context: Context) -> None:
    """Reads bsrange: ``4k-64k``, or with commas one range each for reads, writes and trims."""
    ranges = [values.size_range(sizes, context) for sizes in text.split(",")[:3]]
    if not all(low >= 1 and high < 2**32 for low, high in ranges):
        raise ValueError(f"{context.option} takes blocks of 1 byte to 4 GiB")
    for index, kind in enumerate(("read", "write", "trim")):
        low, high = ranges[min(index, len(ranges) - 1)]
        same = FixedBlocks(bytes=low)
        draft.deferred[f"blocks {kind}"] = BlockRange(low=low, high=high, step=low) if high > low else same


def set_block_split(draft: Draft, text: str, context: Context) -> None:
    """Reads bssplit: ``4k/10:64k/50:32k``, or with commas one split each for reads, writes and trims."""
    for kind, blocks in splits.block_split(text, context).items():
        draft.deferred[f"blocks {kind}"] = blocks


def set_distribution(draft: Draft, text: str, context: Context) -> None:
    """Reads random_distribution."""
    draft.fields["distribution"] = splits.distribution(text, context)


def set_think_counts(draft: Draft, text: str, context: Context) -> None:
    """Reads thinktime_blocks_type."""
    meanings = {"complete": "completed", "issue": "issued"}
    draft.fields["think_counts"] = values.meaning(meanings)(text, context)


def set_arrivals(draft: Draft, text: str, context: Context) -> None:
    """Reads rate_process."""
    meanings = {"linear": "even", "poisson": "poisson"}
    draft.fields["arrivals"] = values.meaning(meanings)(text, context)


def set_range_sync(draft: Draft, text: str, context: Context) -> None:
    """Reads sync_file_range: its steps (checked only) and the number of writes between two calls."""
    steps, _, every = values.text_value(text, context).partition(":")
    for step in steps.split(","):
        values.word("wait_before", "write", "wait_after")(step.strip(), context)
    draft.deferred["sync_file_range"] = values.integer(0)(every, context) if every else 1


def set_trace(draft: Draft, text: str, context: Context) -> None:
    """Reads the file name of read_iolog."""
    name = values.text_value(text, context)
    if name == "-" or ":" in name:
        raise ValueError(f"read_iolog={name} is not supported yet; name a single file")
    draft.deferred["read_iolog"] = context.directory / name


def set_skipped(draft: Draft, text: str, context: Context) -> None:
    """Reads replay_skip: kinds of operations separated by commas."""
    kind = values.word("read", "write", "trim", "sync")
    draft.deferred["replay_skip"] = frozenset(kind(word.strip(), context) for word in text.split(","))


def set_zone_mode(draft: Draft, text: str, context: Context) -> None:
    """Reads zonemode. Raises ``RefusedError`` for zbd: zoned devices are not supported."""
    mode = draft.deferred["zonemode"] = values.meaning({mode: mode for mode in ("none", "strided", "zbd")})(
        text, context
    )
    if mode == "zbd":
        raise RefusedError(
            "zonemode=zbd is not supported: iocurve neither reports nor resets the zones of a zoned device, and does "
            "not keep writes at their write pointers; zonemode=strided needs none of this"
        )


def set_wait_for(draft: Draft, text: str, context: Context) -> None:
    """Reads wait_for: the name of one job."""
    draft.fields["wait_for"] = (values.text_value(text, context),)


def set_seed(draft: Draft, text: str, context: Context) -> None:
    """Reads randseed."""
    draft.fields["seed"] = values.plain_integer(text, context)


def set_all_repeatable(draft: Draft, text: str, context: Context) -> None:
    """Reads allrandrepeat: 1 switches randrepeat on, 0 changes nothing."""
    if values.boolean(text, context):
        draft.fields["repeatable"] = True


# -- payload and verification ------------------------------------------------------------------------------------------


def set_pattern(draft: Draft, text: str, context: Context) -> None:
    """Reads buffer_pattern. It resets zero_buffers, scramble_buffers and refill_buffers set before it."""
    pattern = patterns.pattern(text, context, with_offsets=False)
    draft.fields |= {"payload_pattern": pattern, "payload_zero": False, "payload_scramble": False}
    if not draft.fields.get("payload_compress_percent") and not draft.value("reads"):
        draft.fields["payload_refill"] = False


def set_dedupe(draft: Draft, text: str, context: Context) -> None:
    """Reads dedupe_percentage. It switches refill_buffers on; a later refill_buffers=0 switches it off again."""
    draft.fields |= {"payload_dedupe_percent": values.integer(0, 100)(text, context), "payload_refill": True}


def set_verify_pattern(draft: Draft, text: str, context: Context) -> None:
    """Reads verify_pattern."""
    draft.deferred["verify_pattern"] = patterns.pattern(text, context, with_offsets=True)


_METHODS = {
    "0": None,
    "none": None,
    "md5": "md5",
    "crc7": "crc7",
    "crc16": "crc16",
    "crc32": "crc32",
    "crc32c": "crc32c",
    "crc32c-intel": "crc32c",
    "crc64": "crc64",
    "xxhash": "xxhash",
    "sha1": "sha1",
    "sha256": "sha256",
    "sha512": "sha512",
    "sha3-224": "sha3224",
    "sha3-256": "sha3256",
    "sha3-384": "sha3384",
    "sha3-512": "sha3512",
    "meta": "header",
    "pattern": "pattern",
    "pattern_hdr": "pattern_header",
    "null": "null",
}


def set_verify(draft: Draft, text: str, context: Context) -> None:
    """Reads the method of verify; 0 means none."""
    draft.deferred["verify"] = values.meaning(_METHODS)(text, context)


# -- reporting ---------------------------------------------------------------------------------------------------------


def sets_log_prefix(kind: str) -> Effect:
    """Reads write_…_log: the prefix of the file name, or 1 for the job's name."""

    def effect(draft: Draft, text: str, _context: Context) -> None:
        draft.logs[kind] = "" if text.strip() == "1" else text.strip()

    return effect


def set_window_value(draft: Draft, text: str, context: Context) -> None:
    """Reads log_window_value."""
    meanings = {"avg": "avg", "0": "avg", "max": "max", "1": "max", "both": "both"}
    draft.logs["window_value"] = values.meaning(meanings)(text, context)


def set_mixed(draft: Draft, text: str, context: Context) -> None:
    """Reads unified_rw_reporting."""
    meanings = {"none": "none", "0": "none", "mixed": "mixed", "1": "mixed", "both": "both", "2": "both"}
    draft.reporting["mixed"] = values.meaning(meanings)(text, context)


def set_steady_state(draft: Draft, text: str, context: Context) -> None:
    """Reads steadystate: the criterion and its limit."""
    draft.deferred["steadystate"] = splits.criterion(text, context)


def set_kb_base(_draft: Draft, text: str, context: Context) -> None:
    """Sets how the size suffixes of the options that follow are read."""
    context.kb_base = values.meaning({"1000": 1000, "1024": 1024})(text, context)

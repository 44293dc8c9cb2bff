"""fio's job options as a table: names, how a value is read, and what it does here.

Each option is honoured (it sets a field of a section), accepted with a note that says why it has no effect,
or refused with the reason. What is in none of the three is unknown.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from iocurve.dialects.fio import values
from iocurve.dialects.fio.values import Context, Reader
from iocurve.model import EngineName, PerKind, Section
from iocurve.plan import Blocks, FixedBlocks
from iocurve.units import SECOND_NS

FIO_PERCENTILES = (1.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.95, 99.99)

DEFAULTS = Section(
    clones=1,
    engine="sync",
    engine_asked="psync",
    nconnect=1,
    nfs_timeout_ns=60 * SECOND_NS,
    direct=False,
    durability="none",
    invalidate=True,
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
    random=False,
    read_percent=50,
    random_percent=PerKind.same(100),
    blocks=PerKind.same(FixedBlocks(bytes=4096)),
    cover="once",
    rate_operations=PerKind[int | None].same(None),
    rate_bytes=PerKind[int | None].same(None),
    depth=1,
    time_based=False,
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
"""What fio does where nothing is said."""


@dataclass(frozen=True)
class Reporting:
    """What a section says about its output."""

    percentiles: tuple[float, ...] = FIO_PERCENTILES
    completion_percentiles: bool = True
    """fio's clat_percentiles."""
    total_percentiles: bool = False
    """fio's lat_percentiles."""


@dataclass
class Draft:
    """A section while its options are read one after another; the last word counts."""

    fields: dict[str, Any] = field(default_factory=dict)
    reporting: dict[str, Any] = field(default_factory=dict)

    def value(self, name: str) -> Any:
        """A field as said so far, else fio's default."""
        return self.fields.get(name, getattr(DEFAULTS, name))


Effect = Callable[[Draft, str, Context], None]


@dataclass(frozen=True)
class Option:
    """One option."""

    name: str
    effect: Effect
    fields: tuple[str, ...] = ()
    """What it sets, for the places of later notes."""
    aliases: tuple[str, ...] = ()
    bare: bool = False
    """May stand without a value, which then is 1."""
    boolean: bool = False
    """Is 0 or 1."""
    engines: tuple[str, ...] = ()
    """Those of fio's engines it belongs to; none: all."""


class RefusedError(ValueError):
    """An option that is known and cannot be honoured."""


ENGINES: dict[str, EngineName] = {
    "psync": "sync",
    "sync": "sync",
    "vsync": "sync",
    "pvsync": "sync",
    "pvsync2": "sync",
    "libaio": "aio",
    "io_uring": "uring",
    "null": "null",
    "nfs": "nfs",
}
"""fio's engines, and what runs here instead."""


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


ENGINES_NOT_YET = _names(
    "posixaio mmap splice falloc ftruncate filecreate filestat filedelete dircreate dirstat dirdelete"
)
ENGINES_ELSEWHERE = _names(
    "cpuio net netsplice rdma rbd rados http gfapi gfapi_async libhdfs sg io_uring_cmd mtd e4defrag exec nbd libiscsi "
    "libblkio libcufile pmemblk libpmem dev-dax dfs xnvme solarisaio windowsaio spdk spdk_bdev guasi external "
    "ime_psync ime_psyncv ime_aio libzbc libhipfile"
)

# -- effects -----------------------------------------------------------------------------------------------------------


def _sets(name: str, read: Reader) -> Effect:
    def effect(draft: Draft, text: str, context: Context) -> None:
        draft.fields[name] = read(text, context)

    return effect


def _sets_per_kind(name: str, maximum: int = 2**32 - 1) -> Effect:
    read = values.per_kind(1, maximum)

    def effect(draft: Draft, text: str, context: Context) -> None:
        draft.fields[name] = read(text, context, draft.value(name))

    return effect


def _reports(name: str, read: Reader) -> Effect:
    def effect(draft: Draft, text: str, context: Context) -> None:
        draft.reporting[name] = read(text, context)

    return effect


def _accepted(reason: str, read: Reader = values.text_value, same: tuple[str, ...] = ()) -> Effect:
    """Without effect; ``same`` are the values that ask for what happens anyway, and need no note."""

    def effect(_draft: Draft, text: str, context: Context) -> None:
        read(text, context)
        if text.strip() not in same:
            context.note("no_effect", f"{context.option}={text.strip()} has no effect: {reason}")

    return effect


def _refused(reason: str, same: tuple[str, ...] = ()) -> Effect:
    """Refused, unless it asks for one of ``same``, which is what happens anyway."""

    def effect(_draft: Draft, text: str, context: Context) -> None:
        if text.strip() not in same:
            raise RefusedError(
                f"{context.option}={text.strip()} is not supported{' yet' if reason == NOT_YET else ''}: {reason}"
            )

    return effect


def _set_engine(draft: Draft, text: str, _context: Context) -> None:
    name = text.strip()
    if name in ENGINES:
        draft.fields |= {"engine": ENGINES[name], "engine_asked": name}
    elif name in ENGINES_NOT_YET:
        raise RefusedError(f"ioengine={name} is not supported yet; these are: {values.either(ENGINES)}")
    elif name.split(":")[0] in ENGINES_ELSEWHERE:
        raise RefusedError(f"ioengine={name} is not supported: iocurve measures files, devices and NFS")
    else:
        raise ValueError(f"there is no ioengine '{name}'; these are supported: {values.either(ENGINES)}")


_DIRECTIONS = {
    "read": (True, False, False),
    "write": (False, True, False),
    "rw": (True, True, False),
    "readwrite": (True, True, False),
    "randread": (True, False, True),
    "randwrite": (False, True, True),
    "randrw": (True, True, True),
}
_TRIMS = ("trim", "randtrim", "trimwrite", "randtrimwrite")


def _set_direction(draft: Draft, text: str, context: Context) -> None:
    direction, _, step = values.word(*_DIRECTIONS, *_TRIMS)(text, context).partition(":")
    if direction in _TRIMS:
        raise RefusedError(f"rw={direction} is not supported yet: iocurve reads and writes, it does not trim")
    reads, writes, is_random = _DIRECTIONS[direction]
    if step and step != ("1" if is_random else "0"):
        raise RefusedError(f"rw={text.strip()} is not supported yet: steps after the colon (':{step}') are missing")
    draft.fields |= {"reads": reads, "writes": writes, "random": is_random}


def _set_read_percent(draft: Draft, text: str, context: Context) -> None:
    draft.fields["read_percent"] = values.integer(0, 100)(text, context)


def _set_write_percent(draft: Draft, text: str, context: Context) -> None:
    draft.fields["read_percent"] = 100 - int(values.integer(0, 100)(text, context))


def _set_buffered(draft: Draft, text: str, context: Context) -> None:
    draft.fields["direct"] = not values.boolean(text, context)


def _set_cover(draft: Draft, text: str, context: Context) -> None:
    draft.fields["cover"] = "independent" if values.boolean(text, context) else "once"


def _set_durability(draft: Draft, text: str, context: Context) -> None:
    meanings = {"none": "none", "0": "none", "sync": "file_sync", "1": "file_sync", "dsync": "data_sync"}
    draft.fields["durability"] = meanings[values.word(*meanings)(text, context)]


def _set_file_select(draft: Draft, text: str, context: Context) -> None:
    order, _, every = values.word("roundrobin", "sequential", "random", "zipf", "pareto", "normal", "gauss")(
        text, context
    ).partition(":")
    meanings = {"roundrobin": "round_robin", "sequential": "sequential", "random": "random"}
    if order not in meanings or every not in {"", "1"}:
        raise RefusedError(
            f"file_service_type={text.strip()} is not supported yet: roundrobin, sequential and random are"
        )
    draft.fields["file_select"] = meanings[order]


def _add_paths(draft: Draft, text: str, context: Context) -> None:
    draft.fields["paths"] = (*draft.fields.get("paths", ()), *values.names(text, context))


def _set_file_name_pattern(draft: Draft, text: str, context: Context) -> None:
    pattern = values.text_value(text, context).replace("{", "{{").replace("}", "}}")
    for keyword, ours in (("$jobname", "{job}"), ("$jobnum", "{clone}"), ("$filenum", "{file}")):
        pattern = pattern.replace(keyword, ours)
    if "$clientuid" in pattern:
        raise RefusedError("$clientuid is not supported: there is no fio client here")
    draft.fields["file_name_pattern"] = pattern


def _set_seed(draft: Draft, text: str, context: Context) -> None:
    draft.fields["seed"] = values.plain_integer(text, context)


def _set_all_repeatable(draft: Draft, text: str, context: Context) -> None:
    if values.boolean(text, context):
        draft.fields["repeatable"] = True


def _set_fallocate(_draft: Draft, text: str, context: Context) -> None:
    chosen = values.word("none", "posix", "keep", "native", "truncate", "0", "1")(text, context)
    if chosen not in {"native", "posix", "1"}:
        context.note("no_effect", f"fallocate={chosen} has no effect: space for files to be written is always reserved")


def _set_blocks(draft: Draft, text: str, context: Context) -> None:
    before = draft.value("blocks")
    sizes: PerKind[int] = PerKind(read=before.read.smallest, write=before.write.smallest, trim=before.trim.smallest)
    said = values.per_kind(1, 2**32 - 1)(text, context, sizes)
    blocks = {kind: FixedBlocks(bytes=getattr(said, kind)) for kind in ("read", "write", "trim")}
    draft.fields["blocks"] = PerKind[Blocks](**blocks)


def _set_block_range(draft: Draft, text: str, context: Context) -> None:
    ranges = [values.size_range(part, context) for part in text.split(",")[:2]]
    if any(low != high for low, high in ranges):
        raise RefusedError(
            f"bsrange={text.strip()} is not supported yet: blocks of several sizes in one job are missing"
        )
    if not all(1 <= low < 2**32 for low, _ in ranges):
        raise ValueError("bsrange takes blocks of 1 byte to 4 GiB")
    read, write = (FixedBlocks(bytes=ranges[place][0]) for place in (0, -1))
    draft.fields["blocks"] = PerKind[Blocks](read=read, write=write, trim=write)


def _set_kb_base(_draft: Draft, text: str, context: Context) -> None:
    context.kb_base = int(values.word("1000", "1024")(text, context))


# -- the table ---------------------------------------------------------------------------------------------------------

NOT_YET = "it would change what is measured, and iocurve cannot do it"
_THREADS = "every clone is a thread of its own here"
_SLAT = "submission latency is not taken apart; latency is measured from submission to completion"
_LOGS = "the course over time is in result.json"
_GENERATOR = "iocurve has one generator; which blocks are visited follows norandommap and randrepeat"


def _honoured(name: str, read: Reader, sets: str, *aliases: str, bare: bool = False) -> Option:
    return Option(name, _sets(sets, read), (sets,), aliases, bare, boolean=read is values.boolean)


def _note(name: str, reason: str, *aliases: str, same: tuple[str, ...] = (), bare: bool = False) -> Option:
    return Option(name, _accepted(reason, same=same), (), aliases, bare)


def _notes(reason: str, names: str, same: tuple[str, ...] = ()) -> list[Option]:
    return [_note(name, reason, same=same) for name in names.split()]


def _no(name: str, *aliases: str, same: tuple[str, ...] = (), reason: str = NOT_YET, bare: bool = False) -> Option:
    return Option(name, _refused(reason, same), (), aliases, bare)


def _nos(names: str, same: tuple[str, ...] = (), reason: str = NOT_YET) -> list[Option]:
    return [_no(name, same=same, reason=reason) for name in names.split()]


def _of(engines: str, *options: Option) -> list[Option]:
    return [replace(option, engines=tuple(engines.split())) for option in options]


_BOOL, _TIME, _COUNT = values.boolean, values.time_ns, values.integer(1)

OPTIONS: tuple[Option, ...] = (
    # What it is
    _honoured("name", values.text_value, "name"),
    _honoured("description", values.text_value, "description"),
    _honoured("numjobs", _COUNT, "clones"),
    Option("kb_base", _set_kb_base),
    _note("unit_base", "bandwidth is shown in bytes", same=("0", "8")),
    # Engine
    Option("ioengine", _set_engine, ("engine", "engine_asked")),
    _honoured("iodepth", _COUNT, "depth"),
    _honoured("direct", _BOOL, "direct"),
    Option("buffered", _set_buffered, ("direct",), boolean=True),
    Option("sync", _set_durability, ("durability",)),
    _honoured("invalidate", _BOOL, "invalidate"),
    _note("iodepth_batch", "a worker hands over at once whatever is due", "iodepth_batch_submit"),
    _no("iodepth_batch_complete_min", "iodepth_batch_complete", same=("1",)),
    _no("iodepth_batch_complete_max", same=("0", "1")),
    _no("iodepth_low", same=("0",)),
    _no("io_submit_mode", same=("inline",)),
    _no("serialize_overlap", same=("0",)),
    _no("atomic", same=("0",)),
    # Files
    Option("filename", _add_paths, ("paths",)),
    _honoured("directory", values.names, "directories"),
    Option("filename_format", _set_file_name_pattern, ("file_name_pattern",)),
    _note("unique_filename", "it concerns fio's clients on other machines"),
    _honoured("nrfiles", _COUNT, "file_count", "nr_files"),
    _honoured("filesize", values.size_range, "file_bytes"),
    _honoured("size", values.amount_or_percent, "size"),
    _honoured("io_size", values.amount_or_percent, "transfer", "io_limit"),
    _honoured("offset", values.amount_or_percent, "offset", "fileoffset"),
    _honoured("offset_increment", values.amount_or_percent, "offset_increment"),
    _honoured("offset_align", values.size, "offset_align"),
    Option("file_service_type", _set_file_select, ("file_select",)),
    _honoured("allow_file_create", _BOOL, "create"),
    _no("allow_mounted_write", same=("0",), reason="iocurve never writes to a device that is mounted"),
    _honoured("overwrite", _BOOL, "overwrite"),
    _honoured("unlink", _BOOL, "unlink"),
    Option("fallocate", _set_fallocate),
    _note("openfiles", "all files of a worker stay open"),
    _note("fadvise_hint", "the kernel is given no hint"),
    _note("create_serialize", "files are laid out before any job starts", same=("1",)),
    _note("create_fsync", "files are on disk before any job starts", same=("1",)),
    _note("lockfile", "files are not locked", same=("none",)),
    _note("filetype", "what a file is, is looked up"),
    _no("create_on_open", same=("0",)),
    _no("create_only", same=("0",)),
    _no("file_append", same=("0",)),
    _no("fill_device", "fill_fs", same=("0",)),
    _no("opendir"),
    _no("pre_read", same=("0",)),
    _no("unlink_each_loop", same=("0",)),
    # Load
    Option("rw", _set_direction, ("reads", "writes", "random"), ("readwrite",)),
    Option("rwmixread", _set_read_percent, ("read_percent",)),
    Option("rwmixwrite", _set_write_percent, ("read_percent",)),
    Option("bs", _set_blocks, ("blocks",), ("blocksize",)),
    Option("bsrange", _set_block_range, ("blocks",), ("blocksize_range",)),
    Option("norandommap", _set_cover, ("cover",), bare=True),
    Option("rate", _sets_per_kind("rate_bytes", 2**63), ("rate_bytes",)),
    Option("rate_iops", _sets_per_kind("rate_operations"), ("rate_operations",)),
    _honoured("randrepeat", _BOOL, "repeatable"),
    Option("randseed", _set_seed, ("seed",)),
    Option("allrandrepeat", _set_all_repeatable, ("repeatable",)),
    _note("softrandommap", "the map of visited blocks takes no memory to speak of", bare=True),
    _note("random_generator", _GENERATOR, same=("tausworthe",)),
    _no("percentage_random", same=("100", "100,100", "100,100,100")),
    _no("random_distribution", same=("random",)),
    _no("rw_sequencer", same=("sequential",)),
    _no("num_range", same=("1",)),
    *_nos("sprandom percentage_sequential random_sequence_stride", same=("0",)),
    *_notes("it belongs to sprandom=1", "spr_num_regions spr_op spr_cs"),
    _note("rwmixcycle", "fio itself does not know it any more"),
    _no("rate_process", same=("linear",)),
    _no("rate_min", "ratemin"),
    _no("rate_iops_min"),
    _note("rate_cycle", "pacing is exact and has no window", "ratecycle"),
    _note("rate_ignore_thinktime", "there is no think time", same=("0",)),
    _no("bssplit"),
    _no("blockalign", "ba"),
    _no("bs_unaligned", "blocksize_unaligned", same=("0",), bare=True),
    _no("bs_is_seq_rand", same=("0",)),
    *_nos("thinktime thinktime_spin thinktime_iotime thinkcycles", same=("0",)),
    _note("thinktime_blocks", "there is no think time"),
    _note("thinktime_blocks_type", "there is no think time"),
    *_nos("fsync fdatasync end_fsync end_syncfs fsync_on_close write_barrier", same=("0",)),
    _no("sync_file_range"),
    *_nos("flow flow_watermark"),
    *_notes("there is no flow control without flow=", "flow_id flow_sleep"),
    # How long
    _honoured("runtime", _TIME, "runtime_ns", "timeout"),
    _honoured("time_based", _BOOL, "time_based", bare=True),
    _honoured("ramp_time", _TIME, "ramp_ns"),
    _no("ramp_size", same=("0",)),
    _honoured("startdelay", values.time_range_ns, "start_delay_ns"),
    _honoured("number_ios", values.integer(0, 2**63), "operations"),
    _honoured("loops", _COUNT, "loops"),
    _honoured("stonewall", _BOOL, "barrier", "wait_for_previous", bare=True),
    _no("wait_for"),
    _no("exitall", same=("0",), bare=True),
    _no("exit_what", same=("group",)),
    _note("exitall_on_error", "a worker's error does not stop the others", same=("0",), bare=True),
    _note("continue_on_error", "an error of the volume ends its worker", same=("none",)),
    _no("ignore_error"),
    _note("error_dump", "errors are shown in any case"),
    _no("steadystate", "ss"),
    *_notes("there is no steady-state test without ss=", "steadystate_duration ss_dur", same=("0",)),
    *_notes("there is no steady-state test without ss=", "steadystate_ramp_time ss_ramp", same=("0",)),
    *_notes("there is no steady-state test without ss=", "steadystate_check_interval ss_interval"),
    *_nos("latency_target latency_run max_latency", same=("0",)),
    *_notes("there is no latency target without latency_target=", "latency_window latency_percentile"),
    # What is written
    _honoured("zero_buffers", _BOOL, "payload_zero", bare=True),
    _honoured("refill_buffers", _BOOL, "payload_refill", bare=True),
    _honoured("scramble_buffers", _BOOL, "payload_scramble"),
    _no("buffer_pattern"),
    _no("buffer_compress_percentage", same=("0",)),
    _note("buffer_compress_chunk", "data are not made compressible"),
    _no("dedupe_percentage", same=("0",)),
    *_notes("data are not made to repeat", "dedupe_mode dedupe_working_set_percentage dedupe_global"),
    _no("verify", same=("0", "none")),
    *_notes(
        "there is no verification without verify=",
        "do_verify verify_interval verify_offset verify_pattern verify_fatal verify_dump verify_async "
        "verify_async_cpus verify_backlog verify_backlog_batch experimental_verify verify_state_load "
        "verify_state_save verify_header_seed verify_write_sequence trim_verify_zero trim_backlog "
        "trim_backlog_batch",
    ),
    *_notes(
        "there is no verification without verify=", "verify_policy verifysort verifysort_nr verify_pattern_interval"
    ),
    _no("verify_only", same=("0",), bare=True),
    _no("trim_percentage", same=("0",)),
    # Processors and memory
    _note("thread", _THREADS, bare=True, same=("1",)),
    _honoured("cpus_allowed", values.processors, "cpus"),
    _honoured("cpumask", values.processor_mask, "cpus"),
    Option(
        "cpus_allowed_policy",
        _sets("cpus_split", lambda text, context: values.word("shared", "split")(text, context) == "split"),
        ("cpus_split",),
    ),
    *_nos("numa_cpu_nodes numa_mem_policy prio prioclass priohint cgroup cgroup_weight"),
    _note("comm", "threads bear the names of their jobs"),
    _note("gpu_dev_id", "buffers are ordinary memory"),
    _note("cgroup_nodelete", "there is no control group"),
    _no("nice", same=("0",)),
    *_nos("uid gid", reason="a worker runs as who started iocurve"),
    *_notes("buffers are ordinary memory, aligned for direct I/O", "hugepage-size lockmem"),
    _note("mem", "buffers are ordinary memory, aligned for direct I/O", "iomem", same=("malloc",)),
    _note("mem_align", "buffers are aligned for direct I/O", "iomem_align"),
    _no("ioscheduler"),
    _note("write_hint", "the kernel is given no hint", same=("none",)),
    *(_no(name, reason="iocurve runs no commands of a job file") for name in ("exec_prerun", "exec_postrun")),
    _no("profile"),
    # Zones and traces
    _no("zonemode", same=("none",)),
    *_nos("zonesize zonerange zoneskip zonecapacity", same=("0",)),
    *_notes(
        "there are no zones without zonemode=",
        "read_beyond_wp max_open_zones job_max_open_zones ignore_zone_limits zone_reset_threshold zone_reset_frequency",
    ),
    *_nos("write_zone_remainder recover_zbd_write_error fdp", same=("0",)),
    _no("dataplacement", "data_placement", same=("none",)),
    *_notes(
        "there is no data placement without dataplacement=",
        "plid_select fdp_pli_select plids fdp_pli dp_scheme",
    ),
    *_nos("read_iolog write_iolog merge_blktrace_file"),
    *_notes(
        "there is no trace to replay without read_iolog=",
        "read_iolog_chunked replay_no_stall replay_redirect replay_scale replay_align replay_time_scale "
        "replay_skip merge_blktrace_scalars merge_blktrace_iters",
    ),
    # Reporting
    _honoured("group_reporting", _BOOL, "report_as_group", bare=True),
    _honoured("new_group", _BOOL, "new_report_group", bare=True),
    Option("percentile_list", _reports("percentiles", values.percentiles)),
    Option("clat_percentiles", _reports("completion_percentiles", _BOOL)),
    Option("lat_percentiles", _reports("total_percentiles", _BOOL)),
    _note("slat_percentiles", _SLAT, same=("0",)),
    *_notes("every latency is recorded, at no cost worth saving", "gtod_reduce gtod_cpu", same=("0",)),
    *(
        _note(name, "it is measured in any case", *aliases, same=("0",))
        for name, aliases in (
            ("disable_lat", ()),
            ("disable_clat", ()),
            ("disable_slat", ()),
            ("disable_bw_measurement", ("disable_bw",)),
        )
    ),
    _no("unified_rw_reporting", same=("none", "0")),
    _note("significant_figures", "normal output has a fixed number of digits", same=("4",)),
    _note("stats", "statistics are kept in any case", same=("1",)),
    _note("disk_util", "use of the disk is not looked up", same=("0",)),
    _note("job_start_clock_id", "times count from the start of the run"),
    _note("clocksource", "time comes from the monotonic clock"),
    _no("block_error_percentiles", same=("0",)),
    *(_no(name, bare=True) for name in ("write_bw_log", "write_lat_log", "write_iops_log", "write_hist_log")),
    *_notes(
        _LOGS,
        "per_job_logs bwavgtime iopsavgtime log_entries log_avg_msec log_hist_msec log_hist_coarseness "
        "log_max_value log_window_value log_offset log_prio log_issue_time log_compression "
        "log_compression_cpus log_store_compressed log_unix_epoch log_alternate_epoch "
        "log_alternate_epoch_clock_id",
    ),
    # Of single engines
    *_of(
        "nfs",
        _honoured("nfs_url", values.text_value, "nfs_url"),
        _honoured("nconnect", values.integer(1, 16), "nconnect"),
        _honoured("nfs_timeout", _TIME, "nfs_timeout_ns"),
    ),
    *_of("libaio", _note("userspace_reap", "events are reaped as the kernel offers them", bare=True)),
    *_of(
        "io_uring",
        _note("fixedbufs", "buffers are always registered", bare=True, same=("1",)),
        _note("registerfiles", "files are always registered", bare=True, same=("1",)),
        _note("nonvectored", "commands are never vectored", same=("1",)),
        _no("sqthread_poll", same=("0",), bare=True),
        _note("sqthread_poll_cpu", "there is no polling kernel thread"),
        _no("force_async", same=("0",)),
        _no("cmd_type", same=("nvme",)),
        *_nos(
            "readfua writefua write_mode verify_mode read_mode md_per_io_size pi_act pi_chk apptag apptag_mask deac "
            "cdb_len verify_bytchk",
            reason="it is for NVMe commands (io_uring_cmd)",
        ),
    ),
    *_of("io_uring pvsync2", _no("hipri", same=("0",), bare=True), _no("uncached", same=("0",))),
    *_of("pvsync2", _note("hipri_percentage", "there is no polled I/O")),
    *_of("io_uring pvsync2 libaio", _no("nowait", same=("0",))),
    *_of(
        "io_uring libaio",
        *_nos("cmdprio_percentage cmdprio_class cmdprio cmdprio_bssplit", same=("0",)),
    ),
)

BY_NAME = {name: option for option in OPTIONS for name in (option.name, *option.aliases)}

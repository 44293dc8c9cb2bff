"""fio's job options as a table: names, the reader of the value, and the effect in iocurve.

An option is supported (it sets a field of a section, alone or together with other options), has no effect (a note
gives the reason), or is refused with the reason. An option that is not in the table is unknown.
"""

from __future__ import annotations

from functools import partial

from msgspec.structs import replace

from iocurve.dialects.fio.read import effects, splits, values
from iocurve.dialects.fio.read.draft import Option
from iocurve.dialects.fio.read.effects import NOT_YET
from iocurve.dialects.fio.read.values import Context, Reader
from iocurve.job.model import Level

_THREADS = "every job runs as a thread"
_GENERATOR = "iocurve has one random generator; norandommap and randrepeat decide which blocks are visited"
_NO_LIMIT = "a job that misses the limit continues; the results show the value reached"
_POLLING = "iocurve does not poll for completions; latencies include the interrupt"
_ZBD_ONLY = "it applies only with zonemode=zbd"
_PRIORITY = "iocurve sets no I/O priorities"


def _sets(name: str, read: Reader[object], sets: str, *aliases: str, bare: bool = False) -> Option:
    return Option(name, effects.sets(sets, _bare(read, bare)), (sets,), aliases, bare, boolean=read is values.boolean)


def _defers(name: str, read: Reader[object], *aliases: str, bare: bool = False, fields: tuple[str, ...] = ()) -> Option:
    return Option(
        name, effects.keeps("deferred", name, _bare(read, bare)), fields, aliases, bare, boolean=read is values.boolean
    )


def _bare(read: Reader[object], bare: bool) -> Reader[object]:
    """The reader of an option. A 0/1 option that may be written without a value takes any number in fio."""
    return values.switch if bare and read is values.boolean else read


def _writes_log(name: str, kind: str) -> Option:
    """write_…_log: the prefix of the file name; without a value, the job's name."""

    def prefix(text: str, context: Context) -> str:
        return str(values.text_value(text, context)) if text else ""

    return Option(name, effects.keeps("reporting.logs", kind, prefix), ("log",), bare=True, bare_value="")


def _log_setting(name: str, read: Reader[object], sets: str, *aliases: str) -> Option:
    return Option(name, effects.keeps("reporting.logs", sets, read), (), aliases, boolean=read is values.boolean)


def _no_effect(
    names: str,
    reason: str,
    read: Reader[object] = values.text_value,
    noop: str = "",
    *,
    bare: bool = False,
    level: Level = "info",
) -> Option:
    """An option by its name and its aliases. The words ``noop`` ask for what iocurve does: no note."""
    name, *aliases = names.split()
    effect = effects.no_effect(reason, tuple(noop.split()), level, _bare(read, bare))
    return Option(name, effect, (), tuple(aliases), bare, support=f"no effect: {reason}")


_warned = partial(_no_effect, level="warning")


def _no_effects(
    names: str, reason: str, read: Reader[object] = values.text_value, noop: str = "", *, level: Level = "info"
) -> list[Option]:
    return [_no_effect(name, reason, read, noop, level=level) for name in names.split()]


_all_warned = partial(_no_effects, level="warning")


def _unsupported(
    names: str,
    reason: str = NOT_YET,
    read: Reader[object] = values.text_value,
    noop: str = "",
) -> Option:
    """An option by its name and its aliases. The words ``noop`` ask for what iocurve does: they are accepted."""
    name, *aliases = names.split()
    effect = effects.unsupported(reason, tuple(noop.split()), read)
    return Option(name, effect, (), tuple(aliases), support=f"not supported: {reason}")


def _all_unsupported(
    names: str, reason: str = NOT_YET, read: Reader[object] = values.text_value, noop: str = ""
) -> list[Option]:
    return [_unsupported(name, reason, read, noop) for name in names.split()]


def _only_for(engines: str, *options: Option) -> list[Option]:
    return [replace(option, engines=tuple(engines.split())) for option in options]


_METHODS = (
    "0=none none md5 crc7 crc16 crc32 crc32c crc32c-intel=crc32c crc64 xxhash sha1 sha256 sha512 sha3-224=sha3224 "
    "sha3-256=sha3256 sha3-384=sha3384 sha3-512=sha3512 meta=header pattern pattern_hdr=pattern_header null"
)
_BOOL, _COUNT, _NUMBER = values.boolean, values.integer(1), values.integer(0)
_TIME, _SHORT_TIME, _PERCENT = values.time_ns, values.short_time_ns, values.integer(0, 100)
_ANY_NUMBER = values.integer(0, 2**63 - 1)
_COVER = {True: "independent", False: "once"}


def _words(words: str) -> Reader[object]:
    return values.word(*words.split())


def _meaning(words: str) -> Reader[object]:
    """The reader of one of several words; ``0=none`` reads 0 as none."""
    pairs = (word.partition("=") for word in words.split())
    return values.meaning({word: value or word for word, _, value in pairs})


OPTIONS: tuple[Option, ...] = (
    # Name and number of jobs
    _sets("name", values.text_value, "name"),
    _sets("description", values.text_value, "description"),
    _sets("numjobs", _COUNT, "numjobs"),
    Option("kb_base", effects.set_kb_base),
    _no_effect("unit_base", "bandwidth is shown in bytes", _words("0 8 1"), "0 8"),
    # Engine
    Option("ioengine", effects.set_engine, ("engine", "engine_asked")),
    _sets("iodepth", _COUNT, "depth"),
    _sets("direct", _BOOL, "direct"),
    Option(
        "buffered", effects.sets("direct", lambda text, context: not _BOOL(text, context)), ("direct",), boolean=True
    ),
    _sets("sync", _meaning("none 0=none sync=file_sync 1=file_sync dsync=data_sync"), "durability"),
    _sets("invalidate", _BOOL, "invalidate"),
    _sets("iodepth_batch", _NUMBER, "batch_submit", "iodepth_batch_submit"),
    _sets("iodepth_batch_complete_min", _NUMBER, "batch_complete_min", "iodepth_batch_complete"),
    _sets("iodepth_batch_complete_max", _NUMBER, "batch_complete_max"),
    _sets("iodepth_low", _NUMBER, "depth_low"),
    _warned("io_submit_mode", "the worker itself submits its operations", _words("inline offload"), "inline"),
    _warned("serialize_overlap", "overlapping operations may be in flight at the same time", _BOOL, "0"),
    _unsupported("atomic", NOT_YET, _BOOL, "0"),
    # Files
    Option("filename", effects.add_paths, ("paths",)),
    _sets("directory", values.names, "directories"),
    _sets("filename_format", values.name_pattern, "file_name_pattern"),
    _no_effect("unique_filename", "it applies only to fio's clients on other machines", _BOOL),
    _sets("nrfiles", _COUNT, "file_count", "nr_files"),
    _sets("filesize", values.size_range, "file_bytes"),
    _sets("size", values.amount_or_percent, "size"),
    _sets("io_size", values.amount_or_percent, "transfer", "io_limit"),
    _sets("offset", values.amount_or_percent, "offset", "fileoffset"),
    _sets("offset_increment", values.amount_or_percent, "offset_increment"),
    _sets("offset_align", values.size, "offset_align"),
    Option("file_service_type", effects.set_file_select, ("file_select", "file_run")),
    _sets("allow_file_create", _BOOL, "create"),
    _no_effect("allow_mounted_write", "iocurve never writes to a mounted device", _BOOL, "0"),
    _sets("overwrite", _BOOL, "overwrite"),
    _sets("unlink", _BOOL, "unlink"),
    _defers("unlink_each_loop", _BOOL, fields=("unlink",)),
    _sets("fallocate", values.reserves_space, "preallocate"),
    _no_effect("openfiles", "each worker keeps all its files open", _NUMBER),
    _no_effect("fadvise_hint", "iocurve gives the kernel no access hints", _words("0 1 random sequential noreuse")),
    _no_effect("create_serialize", "files are laid out before any job starts", _BOOL, "1"),
    _no_effect("create_fsync", "laid-out files are on disk before any job starts", _BOOL, "1"),
    _no_effect("lockfile", "iocurve does not lock files", _words("none exclusive readwrite"), "none"),
    _no_effect("filetype", "iocurve looks up the type of each file"),
    _sets("create_on_open", _BOOL, "create_on_open"),
    _sets("create_only", _BOOL, "only_lays_out"),
    _sets("file_append", _BOOL, "append"),
    _sets("fill_device", _BOOL, "until_full", "fill_fs"),
    _unsupported("opendir"),
    _unsupported(
        "pre_read",
        "iocurve does not read files into the page cache before the run; invalidate=0 keeps cached pages",
        _BOOL,
        "0",
    ),
    # Load
    Option(
        "rw", effects.set_direction, ("reads", "writes", "trims", "random", "run_length", "gap_bytes"), ("readwrite",)
    ),
    _sets("rwmixread", lambda text, context: float(_PERCENT(text, context)), "read_percent"),
    _sets("rwmixwrite", lambda text, context: 100.0 - _PERCENT(text, context), "read_percent"),
    Option("bs", effects.set_blocks, ("blocks",), ("blocksize",)),
    Option("bsrange", effects.set_block_range, ("blocks",), ("blocksize_range",)),
    Option("bssplit", effects.set_block_split, ("blocks",)),
    _defers("bs_unaligned", _BOOL, "blocksize_unaligned", bare=True),
    Option("ba", effects.sets_per_kind("align_bytes"), ("align_bytes",), ("blockalign",)),
    _sets("norandommap", lambda text, context: _COVER[values.switch(text, context)], "cover", bare=True),
    Option("percentage_random", effects.sets_per_kind("random_percent", 0, 100), ("random_percent",)),
    _sets("random_distribution", splits.distribution, "distribution"),
    Option("rate", effects.sets_per_kind("rate_bytes", 0, 2**63), ("rate_bytes",)),
    Option("rate_iops", effects.sets_per_kind("rate_operations", 0), ("rate_operations",)),
    _sets("rate_process", _meaning("linear=even poisson"), "arrivals"),
    _sets("rate_ignore_thinktime", _BOOL, "think_moves_schedule"),
    _sets("randrepeat", _BOOL, "repeatable"),
    _sets("randseed", values.plain_integer, "seed"),
    Option("allrandrepeat", effects.set_all_repeatable, ("repeatable",)),
    _defers("rw_sequencer", _meaning("sequential identical")),
    _no_effect("softrandommap", "the random map takes almost no memory", _BOOL, bare=True),
    _no_effect("random_generator", _GENERATOR, _words("tausworthe lfsr tausworthe64"), "tausworthe"),
    _unsupported("num_range", "a trim has one range; leave it out for trims of one range each", noop="1"),
    _unsupported("bs_is_seq_rand", NOT_YET, _BOOL, "0"),
    _unsupported(
        "sprandom",
        "it orders the writes that prepare an SSD; run rw=write and then rw=randwrite over the device",
        noop="0",
    ),
    *_all_unsupported("percentage_sequential random_sequence_stride", noop="0"),
    *_no_effects("spr_num_regions spr_op spr_cs", "it applies only with sprandom=1"),
    _no_effect("rwmixcycle", "fio itself no longer has this option"),
    _warned("rate_min ratemin", _NO_LIMIT, values.list_of(values.size), "0"),
    _warned("rate_iops_min", _NO_LIMIT, values.list_of(values.size), "0"),
    _no_effect("rate_cycle ratecycle", "each operation is paced by itself, without an averaging window", _NUMBER),
    _sets("thinktime", _SHORT_TIME, "think_ns"),
    _sets("thinktime_spin", _SHORT_TIME, "think_spin_ns"),
    _sets("thinktime_blocks", _COUNT, "think_every"),
    _sets("thinktime_blocks_type", _meaning("complete=completed issue=issued"), "think_counts"),
    _sets("thinktime_iotime", _TIME, "think_every_ns"),
    _unsupported("thinkcycles", noop="0"),
    _defers("fsync", _NUMBER, fields=("fsync_every",)),
    _defers("fdatasync", _NUMBER, fields=("fdatasync_every",)),
    _defers("sync_file_range", values.range_sync, fields=("sync_file_range_every",)),
    _defers("end_fsync", _BOOL, fields=("sync_at_end",)),
    _defers("fsync_on_close", _BOOL, fields=("sync_at_end",)),
    _defers("end_syncfs", _BOOL, fields=("sync_at_end",)),
    _no_effect("write_barrier", "no engine has write barriers, nor do fio's engines for files", _NUMBER, "0"),
    _defers("flow", values.flow_weight, fields=("flow",)),
    _defers("flow_id", values.integer()),
    _no_effect("flow_sleep", "a job that is ahead waits for the others, not for a fixed time", _NUMBER),
    _unsupported("flow_watermark", "a job that is ahead waits at once; leave it out", noop="0"),
    # Runtime and end
    _sets("runtime", _TIME, "runtime_ns", "timeout"),
    _sets("time_based", _BOOL, "time_based", bare=True),
    _sets("ramp_time", _TIME, "ramp_ns"),
    _unsupported("ramp_size", noop="0"),
    _sets("startdelay", values.time_range_ns, "start_delay_ns"),
    _sets("number_ios", values.integer(0, 2**63), "operations"),
    _sets("loops", _COUNT, "loops"),
    _sets("stonewall", _BOOL, "barrier", "wait_for_previous", bare=True),
    _sets("wait_for", lambda text, context: (values.text_value(text, context),), "wait_for"),
    _defers("exitall", _BOOL, bare=True, fields=("ends_others",)),
    _defers("exit_what", _meaning("group stonewall all"), fields=("ends_run",)),
    _defers("exitall_on_error", _BOOL, bare=True, fields=("ends_others",)),
    _defers("continue_on_error", _meaning("none read write io verify all 0=none 1=all"), fields=("tolerates",)),
    _defers("ignore_error", values.error_lists, fields=("tolerates",)),
    _no_effect("error_dump", "errors are always shown", _BOOL),
    _defers("steadystate", splits.criterion, "ss", fields=("steady_state",)),
    _defers("steadystate_duration", _TIME, "ss_dur", fields=("steady_state",)),
    _defers("steadystate_ramp_time", _TIME, "ss_ramp", fields=("steady_state",)),
    _defers("steadystate_check_interval", _TIME, "ss_interval", fields=("steady_state",)),
    _sets("latency_target", _SHORT_TIME, "latency_target_ns"),
    _sets("latency_window", _SHORT_TIME, "latency_window_ns"),
    _sets("latency_percentile", values.percentage, "latency_percentile"),
    _sets("latency_run", _BOOL, "latency_run_on"),
    _warned("max_latency", _NO_LIMIT, values.list_of(values.short_time_ns), "0"),
    # Buffer contents
    _sets("zero_buffers", _BOOL, "payload_zero", bare=True),
    _sets("refill_buffers", _BOOL, "payload_refill", bare=True),
    _sets("scramble_buffers", _BOOL, "payload_scramble"),
    Option("buffer_pattern", effects.set_pattern, ("payload_pattern",)),
    _sets("buffer_compress_percentage", _PERCENT, "payload_compress_percent"),
    _sets("buffer_compress_chunk", values.integer(1, 2**32 - 1), "payload_compress_chunk_bytes"),
    Option("dedupe_percentage", effects.set_dedupe, ("payload_dedupe_percent",)),
    _defers("dedupe_mode", _words("repeat working_set"), fields=("payload_dedupe_set_percent",)),
    _unsupported(
        "dedupe_global",
        "jobs have separate duplicates; the jobs of one section with dedupe_mode=working_set are the nearest",
        _BOOL,
        "0",
    ),
    _defers("dedupe_working_set_percentage", values.integer(1, 100), fields=("payload_dedupe_set_percent",)),
    # Verification
    _defers("verify", _meaning(_METHODS), fields=("verify",)),
    _defers("do_verify", _BOOL),
    _defers("verify_interval", values.integer(80, 2**32 - 1)),
    _defers("verify_offset", values.integer(40, 2**32 - 1)),
    _defers("verify_pattern", partial(values.pattern, with_offsets=True), fields=("verify",)),
    _defers("verify_fatal", _BOOL),
    _defers("verify_dump", _BOOL),
    _defers("verify_backlog", values.integer(0, 2**32 - 1)),
    _defers("verify_backlog_batch", values.integer(0, 2**32 - 1)),
    _defers("verify_only", _BOOL, bare=True),
    _no_effect("verify_async", "each worker verifies its own reads", _NUMBER, "0"),
    _no_effect("verify_async_cpus", "each worker verifies its own reads", values.processors),
    Option("verify_state_save", effects.keeps("reporting", "state_save", _BOOL), boolean=True),
    Option("verify_state_load", effects.keeps("reporting", "state_load", _BOOL), boolean=True),
    _no_effect("experimental_verify", "offsets are always generated again from the seed", _BOOL, "0"),
    *_no_effects(
        "verify_header_seed verify_write_sequence", "it is checked in every block that has a header", _BOOL, "1"
    ),
    *_no_effects("verifysort verifysort_nr", "blocks are read back in the order in which they were written", _NUMBER),
    _warned("verify_policy", "completed writes are read back", _words("issued completed fsynced"), "completed"),
    _unsupported("verify_pattern_interval", noop="0"),
    _defers("trim_percentage", _PERCENT),
    _defers("trim_backlog", _NUMBER),
    _no_effect("trim_verify_zero", "it applies only with trim_percentage", _BOOL),
    _no_effect("trim_backlog_batch", "it applies only with trim_percentage", _NUMBER),
    # Processors and memory
    _no_effect("thread threads", _THREADS, _BOOL, "1", bare=True),
    _sets("cpus_allowed", values.processors, "cpus"),
    _sets("cpumask", values.processor_mask, "cpus"),
    _sets("cpus_allowed_policy", values.meaning({"shared": False, "split": True}), "cpus_split"),
    _warned(
        "numa_mem_policy",
        "the kernel decides which NUMA node memory comes from",
        _words("default prefer bind interleave local"),
    ),
    _warned("numa_cpu_nodes", "workers are not bound to NUMA nodes; use cpus_allowed to bind them to processors"),
    *_all_warned("prio priohint", "workers run with iocurve's own priority", _NUMBER, "0"),
    _warned("prioclass", "workers run with iocurve's own priority", values.integer(0, 3), "0"),
    _warned("nice", "workers run with iocurve's own priority", values.signed_integer(-20, 19), "0"),
    _warned("cgroup", "iocurve creates no control group; start iocurve in one"),
    _warned("cgroup_weight", "iocurve creates no control group; start iocurve in one", _NUMBER),
    _no_effect("cgroup_nodelete", "iocurve creates no control group", _BOOL),
    _no_effect("comm", "threads are named after their jobs"),
    _no_effect("gpu_dev_id", "buffers are in main memory"),
    *_all_unsupported("uid gid", "workers run as the user who started iocurve", _ANY_NUMBER),
    *_no_effects("hugepage-size lockmem", "buffers are ordinary memory, aligned for direct I/O", _ANY_NUMBER),
    _no_effect(
        "mem iomem",
        "buffers are ordinary memory, aligned for direct I/O",
        _words("malloc shm shmhuge mmap mmapshared mmaphuge cudamalloc"),
        "malloc",
    ),
    _no_effect("mem_align iomem_align", "buffers are aligned for direct I/O", _NUMBER),
    _warned("ioscheduler", "iocurve changes no device settings; set /sys/block/…/queue/scheduler"),
    _no_effect(
        "write_hint", "iocurve gives the kernel no write hints", _words("none short medium long extreme"), "none"
    ),
    *(
        _unsupported(name, reason="iocurve runs no commands from a job file")
        for name in ("exec_prerun", "exec_postrun")
    ),
    _unsupported("profile"),
    # Zones and traces
    Option("zonemode", effects.set_zone_mode),
    _defers("zonesize", values.size, fields=("zone_bytes",)),
    _defers("zonerange", values.size, fields=("zone_range_bytes",)),
    _defers("zoneskip", values.size, fields=("zone_skip_bytes",)),
    *_no_effects("read_beyond_wp ignore_zone_limits", _ZBD_ONLY, _BOOL, "0"),
    *_no_effects("max_open_zones job_max_open_zones", _ZBD_ONLY, _NUMBER, "0"),
    *_no_effects("zone_reset_threshold zone_reset_frequency", _ZBD_ONLY, values.fraction, "0"),
    _no_effect("zonecapacity", _ZBD_ONLY, values.size, "0"),
    *_all_unsupported("write_zone_remainder recover_zbd_write_error fdp", NOT_YET, _BOOL, "0"),
    _unsupported("dataplacement data_placement", noop="none"),
    *_no_effects("plid_select fdp_pli_select plids fdp_pli dp_scheme", "it applies only with dataplacement="),
    Option("read_iolog", effects.set_trace, ("replay", "paths")),
    _defers("replay_no_stall", _BOOL),
    _defers("replay_redirect", values.text_value),
    _defers("replay_align", values.size),
    _defers("replay_scale", values.integer(1)),
    _defers("replay_time_scale", values.integer(1)),
    _defers("replay_skip", values.words("read", "write", "trim", "sync")),
    _no_effect("read_iolog_chunked", "a trace is always read piece by piece", _BOOL),
    _log_setting("write_iolog", values.text_value, "iolog"),
    _unsupported("merge_blktrace_file"),
    *_no_effects("merge_blktrace_scalars merge_blktrace_iters", "it applies only with merge_blktrace_file="),
    # Reporting
    _sets("group_reporting", _BOOL, "report_as_group", bare=True),
    _sets("new_group", _BOOL, "new_report_group", bare=True),
    Option("percentile_list", effects.keeps("reporting", "percentiles", values.percentiles)),
    Option("clat_percentiles", effects.keeps("reporting", "completion_percentiles", _BOOL)),
    Option("lat_percentiles", effects.keeps("reporting", "total_percentiles", _BOOL)),
    Option("slat_percentiles", effects.keeps("reporting", "submission_percentiles", _BOOL)),
    _defers("disable_slat", _BOOL, fields=("submission_latency",)),
    _defers("gtod_reduce", _BOOL, fields=("submission_latency",)),
    _no_effect("gtod_cpu", "every latency is recorded, at negligible cost", _NUMBER, "0"),
    _log_setting("disable_lat", _BOOL, "without_latency"),
    _log_setting("disable_clat", _BOOL, "without_completion"),
    _log_setting("disable_bw_measurement", _BOOL, "without_bandwidth", "disable_bw"),
    Option(
        "unified_rw_reporting", effects.keeps("reporting", "mixed", _meaning("none 0=none mixed 1=mixed both 2=both"))
    ),
    _no_effect("significant_figures", "normal output has a fixed number of digits", values.integer(1, 10), "4"),
    _no_effect("stats", "statistics are always kept", _BOOL, "1"),
    _no_effect("disk_util", "the counters of the disks are always shown", _BOOL, "1"),
    _no_effect("job_start_clock_id", "times count from the start of the run"),
    _no_effect("clocksource", "iocurve always uses the monotonic clock", _words("gettimeofday clock_gettime cpu")),
    _no_effect("block_error_percentiles", "errors are not counted per block", _BOOL, "0"),
    _writes_log("write_bw_log", "bandwidth"),
    _writes_log("write_lat_log", "latency"),
    _writes_log("write_iops_log", "iops"),
    _writes_log("write_hist_log", "histogram"),
    _log_setting("log_avg_msec", _NUMBER, "window_ms"),
    _log_setting("log_hist_msec", _NUMBER, "histogram_window_ms"),
    _log_setting("log_hist_coarseness", values.integer(0, 6), "histogram_coarseness"),
    _log_setting("log_window_value", _meaning("avg 0=avg max 1=max both"), "window_value", "log_max_value"),
    _log_setting("log_offset", _BOOL, "offsets"),
    _no_effect("log_prio", _PRIORITY, _BOOL, "0"),
    _warned("log_issue_time", "a line of a log has the time of the completion alone", _BOOL, "0"),
    _log_setting("log_unix_epoch", _BOOL, "unix_epoch", "log_alternate_epoch"),
    _log_setting("per_job_logs", _BOOL, "per_job"),
    _no_effect("bwavgtime", "samples of the bandwidth are those of the reporting interval", _COUNT),
    _no_effect("iopsavgtime", "samples of the IOPS are those of the reporting interval", _COUNT),
    _no_effect("log_entries", "the log's memory grows as needed", values.integer(1024, 1 << 20)),
    _no_effect("log_compression", "logs are written after the run", values.integer(1024, 512 << 20)),
    _no_effect("log_compression_cpus", "logs are written after the run", values.processors),
    _unsupported("log_store_compressed", NOT_YET, _BOOL, "0"),
    _no_effect("log_alternate_epoch_clock_id", "times count from 1970 or from the start of the run", _NUMBER, "0"),
    # Options of one engine
    *_only_for(
        " ".join(("nfs", *effects.METADATA_ENGINES)),
        _sets("nfs_url", values.text_value, "nfs_url"),
        _sets("nconnect", values.integer(1, 16), "nconnect"),
        _sets("nfs_timeout", _TIME, "nfs_timeout_ns"),
    ),
    *_only_for(
        "libaio",
        _no_effect("userspace_reap", "events are reaped in user space wherever the kernel allows it", bare=True),
        _no_effect("libaio_vectored", "a request has one buffer, vectored or not", _BOOL, "0", bare=True),
    ),
    *_only_for(
        "io_uring",
        _no_effect("fixedbufs", "buffers are always registered", noop="1", bare=True),
        _no_effect("registerfiles", "files are always registered", noop="1", bare=True),
        _no_effect("nonvectored", "requests are never vectored", noop="1"),
        _warned("sqthread_poll", "the worker submits requests by system calls", noop="0", bare=True),
        _no_effect("sqthread_poll_cpu", "no kernel thread polls for submissions"),
        _warned("force_async", "the kernel decides which requests run asynchronously", noop="0"),
        _unsupported("cmd_type", noop="nvme"),
        *_all_unsupported(
            "readfua writefua write_mode verify_mode read_mode md_per_io_size pi_act pi_chk apptag apptag_mask deac "
            "cdb_len verify_bytchk",
            "it applies only to NVMe commands (io_uring_cmd)",
        ),
    ),
    *_only_for(
        "io_uring pvsync2",
        _warned("hipri", _POLLING, noop="0", bare=True),
        _warned("uncached", "data stays in the page cache", noop="0"),
    ),
    *_only_for(
        "mmap",
        _warned("thp", "the kernel decides whether a mapping has huge pages", _BOOL, "0"),
    ),
    *_only_for("pvsync2", _no_effect("hipri_percentage", "iocurve does no polled I/O")),
    *_only_for("io_uring pvsync2 libaio", _warned("nowait", "operations may block", noop="0")),
    *_only_for(
        "io_uring libaio",
        *_all_warned("cmdprio_percentage cmdprio cmdprio_bssplit", _PRIORITY, noop="0"),
        _warned("cmdprio_class", _PRIORITY, values.integer(0, 3), "0"),
    ),
)

BY_NAME = {name: option for option in OPTIONS for name in (option.name, *option.aliases)}

"""fio's job options as a table: names, how a value is read, and what it does here.

Each option is honoured (it sets a field of a section, alone or together with others), accepted with a note that says
why it has no effect, or refused with the reason. What is in none of the three is unknown.
"""

from __future__ import annotations

from dataclasses import replace

from iocurve.dialects.fio.read import effects, values
from iocurve.dialects.fio.read.draft import Option
from iocurve.dialects.fio.read.effects import NOT_YET
from iocurve.dialects.fio.read.values import Reader
from iocurve.job.model import Level

_THREADS = "every clone is a thread of its own here"
_GENERATOR = "iocurve has one generator; which blocks are visited follows norandommap and randrepeat"
_NO_LIMIT = "a job that misses it goes on; the results show what was reached"
_POLLING = "completions are not polled for, so latencies are those of interrupts"
_PRIORITY = "operations have no priorities of their own"


def _honoured(name: str, read: Reader, sets: str, *aliases: str, bare: bool = False) -> Option:
    return Option(name, effects.sets(sets, _bare(read, bare)), (sets,), aliases, bare, boolean=read is values.boolean)


def _part(name: str, read: Reader, *aliases: str, bare: bool = False, fields: tuple[str, ...] = ()) -> Option:
    return Option(name, effects.part(name, _bare(read, bare)), fields, aliases, bare, boolean=read is values.boolean)


def _bare(read: Reader, bare: bool) -> Reader:
    """What may stand without a value is a switch to fio, and takes any number."""
    return values.switch if bare and read is values.boolean else read


def _log(name: str, kind: str) -> Option:
    return Option(name, effects.asks_for_log(kind), ("log",), bare=True)


def _log_form(name: str, read: Reader, sets: str, *aliases: str) -> Option:
    return Option(name, effects.logs(sets, read), (), aliases, boolean=read is values.boolean)


def _note(
    name: str, reason: str, *aliases: str, same: tuple[str, ...] = (), bare: bool = False, level: Level = "info"
) -> Option:
    return Option(name, effects.accepted(reason, same, level), (), aliases, bare, fate=f"no effect: {reason}")


def _notes(reason: str, names: str, same: tuple[str, ...] = (), level: Level = "info") -> list[Option]:
    return [_note(name, reason, same=same, level=level) for name in names.split()]


def _no(name: str, *aliases: str, same: tuple[str, ...] = (), reason: str = NOT_YET, bare: bool = False) -> Option:
    return Option(name, effects.refused(reason, same), (), aliases, bare, fate=f"not supported: {reason}")


def _nos(names: str, same: tuple[str, ...] = (), reason: str = NOT_YET) -> list[Option]:
    return [_no(name, same=same, reason=reason) for name in names.split()]


def _of(engines: str, *options: Option) -> list[Option]:
    return [replace(option, engines=tuple(engines.split())) for option in options]


_BOOL, _COUNT, _NUMBER = values.boolean, values.integer(1), values.integer(0)
_TIME, _SHORT_TIME, _PERCENT = values.time_ns, values.short_time_ns, values.integer(0, 100)

OPTIONS: tuple[Option, ...] = (
    # What it is
    _honoured("name", values.text_value, "name"),
    _honoured("description", values.text_value, "description"),
    _honoured("numjobs", _COUNT, "clones"),
    Option("kb_base", effects.set_kb_base),
    _note("unit_base", "bandwidth is shown in bytes", same=("0", "8")),
    # Engine
    Option("ioengine", effects.set_engine, ("engine", "engine_asked")),
    _honoured("iodepth", _COUNT, "depth"),
    _honoured("direct", _BOOL, "direct"),
    Option("buffered", effects.set_buffered, ("direct",), boolean=True),
    Option("sync", effects.set_durability, ("durability",)),
    _honoured("invalidate", _BOOL, "invalidate"),
    _honoured("iodepth_batch", _NUMBER, "batch_submit", "iodepth_batch_submit"),
    _honoured("iodepth_batch_complete_min", _NUMBER, "batch_complete_min", "iodepth_batch_complete"),
    _honoured("iodepth_batch_complete_max", _NUMBER, "batch_complete_max"),
    _honoured("iodepth_low", _NUMBER, "depth_low"),
    _note("io_submit_mode", "operations are submitted by the worker itself", same=("inline",), level="warning"),
    _note("serialize_overlap", "operations may overlap others in flight", same=("0",), level="warning"),
    _no("atomic", same=("0",)),
    # Files
    Option("filename", effects.add_paths, ("paths",)),
    _honoured("directory", values.names, "directories"),
    Option("filename_format", effects.set_file_name_pattern, ("file_name_pattern",)),
    _note("unique_filename", "it concerns fio's clients on other machines"),
    _honoured("nrfiles", _COUNT, "file_count", "nr_files"),
    _honoured("filesize", values.size_range, "file_bytes"),
    _honoured("size", values.amount_or_percent, "size"),
    _honoured("io_size", values.amount_or_percent, "transfer", "io_limit"),
    _honoured("offset", values.amount_or_percent, "offset", "fileoffset"),
    _honoured("offset_increment", values.amount_or_percent, "offset_increment"),
    _honoured("offset_align", values.size, "offset_align"),
    Option("file_service_type", effects.set_file_select, ("file_select", "file_run")),
    _honoured("allow_file_create", _BOOL, "create"),
    _note("allow_mounted_write", "iocurve never writes to a device that is mounted", same=("0",)),
    _honoured("overwrite", _BOOL, "overwrite"),
    _honoured("unlink", _BOOL, "unlink"),
    _part("unlink_each_loop", _BOOL, fields=("unlink",)),
    Option("fallocate", effects.set_fallocate),
    _note("openfiles", "all files of a worker stay open"),
    _note("fadvise_hint", "the kernel is given no hint"),
    _note("create_serialize", "files are laid out before any job starts", same=("1",)),
    _note("create_fsync", "files are on disk before any job starts", same=("1",)),
    _note("lockfile", "files are not locked", same=("none",)),
    _note("filetype", "what a file is, is looked up"),
    _honoured("create_on_open", _BOOL, "create_on_open"),
    _no("create_only", same=("0",)),
    _honoured("file_append", _BOOL, "append"),
    _honoured("fill_device", _BOOL, "until_full", "fill_fs"),
    _no("opendir"),
    _no(
        "pre_read",
        same=("0",),
        reason="files are not read into the page cache before the run; invalidate=0 keeps what is there",
    ),
    # Load
    Option(
        "rw", effects.set_direction, ("reads", "writes", "trims", "random", "run_length", "gap_bytes"), ("readwrite",)
    ),
    Option("rwmixread", effects.set_read_percent, ("read_percent",)),
    Option("rwmixwrite", effects.set_write_percent, ("read_percent",)),
    Option("bs", effects.set_blocks, ("blocks",), ("blocksize",)),
    Option("bsrange", effects.set_block_range, ("blocks",), ("blocksize_range",)),
    Option("bssplit", effects.set_block_split, ("blocks",)),
    _part("bs_unaligned", _BOOL, "blocksize_unaligned", bare=True),
    Option("ba", effects.sets_per_kind("align_bytes"), ("align_bytes",), ("blockalign",)),
    Option("norandommap", effects.set_cover, ("cover",), bare=True),
    Option("percentage_random", effects.sets_per_kind("random_percent", 0, 100), ("random_percent",)),
    Option("random_distribution", effects.set_distribution, ("distribution",)),
    Option("rate", effects.sets_per_kind("rate_bytes", 0, 2**63), ("rate_bytes",)),
    Option("rate_iops", effects.sets_per_kind("rate_operations", 0), ("rate_operations",)),
    Option("rate_process", effects.set_arrivals, ("arrivals",)),
    _honoured("rate_ignore_thinktime", _BOOL, "think_moves_schedule"),
    _honoured("randrepeat", _BOOL, "repeatable"),
    Option("randseed", effects.set_seed, ("seed",)),
    Option("allrandrepeat", effects.set_all_repeatable, ("repeatable",)),
    _part("rw_sequencer", values.meaning({word: word for word in ("sequential", "identical")})),
    _note("softrandommap", "the map of visited blocks takes no memory to speak of", bare=True),
    _note("random_generator", _GENERATOR, same=("tausworthe",)),
    _no("num_range", same=("1",)),
    _no("bs_is_seq_rand", same=("0",)),
    *_nos("sprandom percentage_sequential random_sequence_stride", same=("0",)),
    *_notes("it belongs to sprandom=1", "spr_num_regions spr_op spr_cs"),
    _note("rwmixcycle", "fio itself does not know it any more"),
    _note("rate_min", _NO_LIMIT, "ratemin", same=("0",), level="warning"),
    _note("rate_iops_min", _NO_LIMIT, same=("0",), level="warning"),
    _note("rate_cycle", "pacing is exact and has no window", "ratecycle"),
    _honoured("thinktime", _SHORT_TIME, "think_ns"),
    _honoured("thinktime_spin", _SHORT_TIME, "think_spin_ns"),
    _honoured("thinktime_blocks", _COUNT, "think_every"),
    Option("thinktime_blocks_type", effects.set_think_counts, ("think_counts",)),
    _honoured("thinktime_iotime", _TIME, "think_every_ns"),
    _no("thinkcycles", same=("0",)),
    _part("fsync", _NUMBER, fields=("fsync_every",)),
    _part("fdatasync", _NUMBER, fields=("fdatasync_every",)),
    Option("sync_file_range", effects.set_range_sync, ("sync_file_range_every",)),
    _part("end_fsync", _BOOL, fields=("sync_at_end",)),
    _part("fsync_on_close", _BOOL, fields=("sync_at_end",)),
    _no("end_syncfs", same=("0",)),
    _note("write_barrier", "none of the engines has barriers; nor has any of fio's for files", same=("0",)),
    *_nos("flow flow_watermark", same=("0",)),
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
    Option("wait_for", effects.set_wait_for, ("wait_for",)),
    _part("exitall", _BOOL, bare=True, fields=("ends_others",)),
    _part("exit_what", values.meaning({word: word for word in ("group", "stonewall", "all")}), fields=("ends_run",)),
    _part("exitall_on_error", _BOOL, bare=True, fields=("ends_others",)),
    _note("continue_on_error", "an error of the volume ends its worker", same=("none", "0"), level="warning"),
    _note("ignore_error", "an error of the volume ends its worker", level="warning"),
    _note("error_dump", "errors are shown in any case"),
    Option("steadystate", effects.set_steady_state, ("steady_state",), ("ss",)),
    _part("steadystate_duration", _TIME, "ss_dur", fields=("steady_state",)),
    _part("steadystate_ramp_time", _TIME, "ss_ramp", fields=("steady_state",)),
    _part("steadystate_check_interval", _TIME, "ss_interval", fields=("steady_state",)),
    _honoured("latency_target", _SHORT_TIME, "latency_target_ns"),
    _honoured("latency_window", _SHORT_TIME, "latency_window_ns"),
    _honoured("latency_percentile", values.percentage, "latency_percentile"),
    _honoured("latency_run", _BOOL, "latency_run_on"),
    _note("max_latency", _NO_LIMIT, same=("0",), level="warning"),
    # What is written
    _honoured("zero_buffers", _BOOL, "payload_zero", bare=True),
    _honoured("refill_buffers", _BOOL, "payload_refill", bare=True),
    _honoured("scramble_buffers", _BOOL, "payload_scramble"),
    Option("buffer_pattern", effects.set_pattern, ("payload_pattern",)),
    _honoured("buffer_compress_percentage", _PERCENT, "payload_compress_percent"),
    _honoured("buffer_compress_chunk", values.integer(1, 2**32 - 1), "payload_compress_chunk_bytes"),
    Option("dedupe_percentage", effects.set_dedupe, ("payload_dedupe_percent",)),
    _no("dedupe_mode", same=("repeat",)),
    _no("dedupe_global", same=("0",)),
    _note("dedupe_working_set_percentage", "it belongs to dedupe_mode=working_set"),
    # What is compared
    Option("verify", effects.set_verify, ("verify",)),
    _part("do_verify", _BOOL),
    _part("verify_interval", values.integer(80, 2**32 - 1)),
    _part("verify_offset", values.integer(40, 2**32 - 1)),
    Option("verify_pattern", effects.set_verify_pattern, ("verify",)),
    _part("verify_fatal", _BOOL),
    _part("verify_dump", _BOOL),
    _part("verify_backlog", values.integer(0, 2**32 - 1)),
    _part("verify_backlog_batch", values.integer(0, 2**32 - 1)),
    _part("verify_only", _BOOL, bare=True),
    *_notes("a worker compares by itself what it reads", "verify_async verify_async_cpus", same=("0",)),
    _note("verify_state_save", "no state of the verification is kept", same=("0",)),
    _note("verify_state_load", "everything that the job would have written is compared", same=("0",), level="warning"),
    _note("experimental_verify", "offsets come again from the seed in any case", same=("0",)),
    *_notes("it is checked wherever blocks have a header", "verify_header_seed verify_write_sequence", same=("1",)),
    *_notes("blocks are read back in the order of writing", "verifysort verifysort_nr"),
    _note("verify_policy", "what is completed is read back", same=("completed",), level="warning"),
    _no("verify_pattern_interval", same=("0",)),
    _part("trim_percentage", _PERCENT),
    _part("trim_backlog", _NUMBER),
    *_notes("it belongs to trim_percentage", "trim_verify_zero trim_backlog_batch"),
    # Processors and memory
    _note("thread", _THREADS, "threads", bare=True, same=("1",)),
    _honoured("cpus_allowed", values.processors, "cpus"),
    _honoured("cpumask", values.processor_mask, "cpus"),
    Option(
        "cpus_allowed_policy",
        effects.sets("cpus_split", values.meaning({"shared": False, "split": True})),
        ("cpus_split",),
    ),
    *_notes("memory comes from where the kernel takes it", "numa_mem_policy", level="warning"),
    _note("numa_cpu_nodes", "workers are not bound to nodes; cpus_allowed binds them", level="warning"),
    *_notes("workers run with the priority of iocurve", "prio prioclass priohint nice", same=("0",), level="warning"),
    *_notes("iocurve makes no control groups; start it in one", "cgroup cgroup_weight", level="warning"),
    _note("cgroup_nodelete", "there is no control group"),
    _note("comm", "threads bear the names of their jobs"),
    _note("gpu_dev_id", "buffers are ordinary memory"),
    *_nos("uid gid", reason="a worker runs as who started iocurve"),
    *_notes("buffers are ordinary memory, aligned for direct I/O", "hugepage-size lockmem"),
    _note("mem", "buffers are ordinary memory, aligned for direct I/O", "iomem", same=("malloc",)),
    _note("mem_align", "buffers are aligned for direct I/O", "iomem_align"),
    _note("ioscheduler", "iocurve changes no setting of a device; /sys/block/…/queue/scheduler does", level="warning"),
    _note("write_hint", "the kernel is given no hint", same=("none",)),
    *(_no(name, reason="iocurve runs no commands of a job file") for name in ("exec_prerun", "exec_postrun")),
    _no("profile"),
    # Zones and traces
    Option("zonemode", effects.set_zone_mode),
    _part("zonesize", values.size, fields=("zone_bytes",)),
    _part("zonerange", values.size, fields=("zone_range_bytes",)),
    _part("zoneskip", values.size, fields=("zone_skip_bytes",)),
    *_notes(
        "it belongs to zonemode=zbd",
        "zonecapacity read_beyond_wp max_open_zones job_max_open_zones ignore_zone_limits zone_reset_threshold "
        "zone_reset_frequency",
        same=("0",),
    ),
    *_nos("write_zone_remainder recover_zbd_write_error fdp", same=("0",)),
    _no("dataplacement", "data_placement", same=("none",)),
    *_notes(
        "there is no data placement without dataplacement=",
        "plid_select fdp_pli_select plids fdp_pli dp_scheme",
    ),
    Option("read_iolog", effects.set_trace, ("replay", "paths")),
    _part("replay_no_stall", _BOOL),
    Option("replay_redirect", effects.part("replay_redirect", values.text_value)),
    _part("replay_align", values.size),
    _part("replay_scale", values.integer(1)),
    _part("replay_time_scale", values.integer(1)),
    Option("replay_skip", effects.set_skipped),
    _note("read_iolog_chunked", "a trace is never in memory as a whole"),
    *_nos("write_iolog merge_blktrace_file"),
    *_notes("there is no trace to merge without merge_blktrace_file=", "merge_blktrace_scalars merge_blktrace_iters"),
    # Reporting
    _honoured("group_reporting", _BOOL, "report_as_group", bare=True),
    _honoured("new_group", _BOOL, "new_report_group", bare=True),
    Option("percentile_list", effects.reports("percentiles", values.percentiles)),
    Option("clat_percentiles", effects.reports("completion_percentiles", _BOOL)),
    Option("lat_percentiles", effects.reports("total_percentiles", _BOOL)),
    Option("slat_percentiles", effects.reports("submission_percentiles", _BOOL)),
    _part("disable_slat", _BOOL, fields=("submission_latency",)),
    _part("gtod_reduce", _BOOL, fields=("submission_latency",)),
    _note("gtod_cpu", "every latency is recorded, at no cost worth saving", same=("0",)),
    *(
        _note(name, "it is measured in any case", *aliases, same=("0",))
        for name, aliases in (
            ("disable_lat", ()),
            ("disable_clat", ()),
            ("disable_bw_measurement", ("disable_bw",)),
        )
    ),
    Option("unified_rw_reporting", effects.set_mixed),
    _note("significant_figures", "normal output has a fixed number of digits", same=("4",)),
    _note("stats", "statistics are kept in any case", same=("1",)),
    _note("disk_util", "use of the disk is not looked up", same=("0",)),
    _note("job_start_clock_id", "times count from the start of the run"),
    _note("clocksource", "time comes from the monotonic clock"),
    _note("block_error_percentiles", "errors are not counted by block", same=("0",)),
    _log("write_bw_log", "bandwidth"),
    _log("write_lat_log", "latency"),
    _log("write_iops_log", "iops"),
    _log("write_hist_log", "histogram"),
    _log_form("log_avg_msec", _NUMBER, "window_ms"),
    _log_form("log_hist_msec", _NUMBER, "histogram_window_ms"),
    _log_form("log_hist_coarseness", values.integer(0, 6), "histogram_coarseness"),
    Option("log_window_value", effects.set_window_value, (), ("log_max_value",)),
    _log_form("log_offset", _BOOL, "offsets"),
    _log_form("log_prio", _BOOL, "priorities"),
    _log_form("log_issue_time", _BOOL, "issue_times"),
    _log_form("log_unix_epoch", _BOOL, "unix_epoch", "log_alternate_epoch"),
    _log_form("per_job_logs", _BOOL, "per_job"),
    _log_form("bwavgtime", _COUNT, "bandwidth_window_ms"),
    _log_form("iopsavgtime", _COUNT, "iops_window_ms"),
    _note("log_entries", "records take memory as they come"),
    *_notes("logs are written when the run is over", "log_compression log_compression_cpus"),
    _no("log_store_compressed", same=("0",)),
    _note("log_alternate_epoch_clock_id", "times count from 1970 or from the start of the run", same=("0",)),
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
        _note("sqthread_poll", "submissions are system calls", same=("0",), bare=True, level="warning"),
        _note("sqthread_poll_cpu", "there is no polling kernel thread"),
        _note("force_async", "the kernel decides which operations wait", same=("0",), level="warning"),
        _no("cmd_type", same=("nvme",)),
        *_nos(
            "readfua writefua write_mode verify_mode read_mode md_per_io_size pi_act pi_chk apptag apptag_mask deac "
            "cdb_len verify_bytchk",
            reason="it is for NVMe commands (io_uring_cmd)",
        ),
    ),
    *_of(
        "io_uring pvsync2",
        _note("hipri", _POLLING, same=("0",), bare=True, level="warning"),
        _note("uncached", "the page cache keeps what it was given", same=("0",), level="warning"),
    ),
    *_of("pvsync2", _note("hipri_percentage", "there is no polled I/O")),
    *_of("io_uring pvsync2 libaio", _note("nowait", "operations may wait", same=("0",), level="warning")),
    *_of(
        "io_uring libaio",
        *_notes(_PRIORITY, "cmdprio_percentage cmdprio_class cmdprio cmdprio_bssplit", same=("0",), level="warning"),
    ),
)

BY_NAME = {name: option for option in OPTIONS for name in (option.name, *option.aliases)}

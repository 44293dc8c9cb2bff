"""fio's job options as a table: names, the reader of the value, and the effect in iocurve.

An option is supported (it sets a field of a section, alone or together with other options), has no effect (a note
gives the reason), or is refused with the reason. ``options.txt`` lists them all; those that are supported have their
effect here. An option that is not listed is unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from iocurve.dialects.fio.read import effects, splits, values
from iocurve.dialects.fio.read.draft import Option
from iocurve.dialects.fio.read.values import Context, Reader


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


_METHODS = (
    "0=none none md5 crc7 crc16 crc32 crc32c crc32c-intel=crc32c crc64 xxhash sha1 sha256 sha512 sha3-224=sha3224 "
    "sha3-256=sha3256 sha3-384=sha3384 sha3-512=sha3512 meta=header pattern pattern_hdr=pattern_header null"
)
_BOOL, _COUNT, _NUMBER = values.boolean, values.integer(1), values.integer(0)
_TIME, _SHORT_TIME, _PERCENT = values.time_ns, values.short_time_ns, values.integer(0, 100)
_COVER = {True: "independent", False: "once"}


def _meaning(words: str) -> Reader[object]:
    """The reader of one of several words; ``0=none`` reads 0 as none."""
    pairs = (word.partition("=") for word in words.split())
    return values.meaning({word: value or word for word, _, value in pairs})


_SUPPORTED = (
    # Name and number of jobs
    _sets("name", values.text_value, "name"),
    _sets("description", values.text_value, "description"),
    _sets("numjobs", _COUNT, "numjobs"),
    Option("kb_base", effects.set_kb_base),
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
    # Files
    Option("filename", effects.add_paths, ("paths",)),
    _sets("directory", values.names, "directories"),
    _sets("filename_format", values.name_pattern, "file_name_pattern"),
    _sets("nrfiles", _COUNT, "file_count", "nr_files"),
    _sets("filesize", values.size_range, "file_bytes"),
    _sets("size", values.amount_or_percent, "size"),
    _sets("io_size", values.amount_or_percent, "transfer", "io_limit"),
    _sets("offset", values.amount_or_percent, "offset", "fileoffset"),
    _sets("offset_increment", values.amount_or_percent, "offset_increment"),
    _sets("offset_align", values.size, "offset_align"),
    Option("file_service_type", effects.set_file_select, ("file_select", "file_run")),
    _sets("allow_file_create", _BOOL, "create"),
    _sets("overwrite", _BOOL, "overwrite"),
    _sets("unlink", _BOOL, "unlink"),
    _defers("unlink_each_loop", _BOOL, fields=("unlink",)),
    _sets("fallocate", values.reserves_space, "preallocate"),
    _sets("create_on_open", _BOOL, "create_on_open"),
    _sets("create_only", _BOOL, "only_lays_out"),
    _sets("file_append", _BOOL, "append"),
    _sets("fill_device", _BOOL, "until_full", "fill_fs"),
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
    _sets("thinktime", _SHORT_TIME, "think_ns"),
    _sets("thinktime_spin", _SHORT_TIME, "think_spin_ns"),
    _sets("thinktime_blocks", _COUNT, "think_every"),
    _sets("thinktime_blocks_type", _meaning("complete=completed issue=issued"), "think_counts"),
    _sets("thinktime_iotime", _TIME, "think_every_ns"),
    _defers("fsync", _NUMBER, fields=("fsync_every",)),
    _defers("fdatasync", _NUMBER, fields=("fdatasync_every",)),
    _defers("sync_file_range", values.range_sync, fields=("sync_file_range_every",)),
    _defers("end_fsync", _BOOL, fields=("sync_at_end",)),
    _defers("fsync_on_close", _BOOL, fields=("sync_at_end",)),
    _defers("end_syncfs", _BOOL, fields=("sync_at_end",)),
    _defers("flow", values.flow_weight, fields=("flow",)),
    _defers("flow_id", values.integer()),
    # Runtime and end
    _sets("runtime", _TIME, "runtime_ns", "timeout"),
    _sets("time_based", _BOOL, "time_based", bare=True),
    _sets("ramp_time", _TIME, "ramp_ns"),
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
    _defers("steadystate", splits.criterion, "ss", fields=("steady_state",)),
    _defers("steadystate_duration", _TIME, "ss_dur", fields=("steady_state",)),
    _defers("steadystate_ramp_time", _TIME, "ss_ramp", fields=("steady_state",)),
    _defers("steadystate_check_interval", _TIME, "ss_interval", fields=("steady_state",)),
    _sets("latency_target", _SHORT_TIME, "latency_target_ns"),
    _sets("latency_window", _SHORT_TIME, "latency_window_ns"),
    _sets("latency_percentile", values.percentage, "latency_percentile"),
    _sets("latency_run", _BOOL, "latency_run_on"),
    # Buffer contents
    _sets("zero_buffers", _BOOL, "payload_zero", bare=True),
    _sets("refill_buffers", _BOOL, "payload_refill", bare=True),
    _sets("scramble_buffers", _BOOL, "payload_scramble"),
    Option("buffer_pattern", effects.set_pattern, ("payload_pattern",)),
    _sets("buffer_compress_percentage", _PERCENT, "payload_compress_percent"),
    _sets("buffer_compress_chunk", values.integer(1, 2**32 - 1), "payload_compress_chunk_bytes"),
    Option("dedupe_percentage", effects.set_dedupe, ("payload_dedupe_percent",)),
    _defers("dedupe_mode", values.word("repeat", "working_set"), fields=("payload_dedupe_set_percent",)),
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
    Option("verify_state_save", effects.keeps("reporting", "state_save", _BOOL), boolean=True),
    Option("verify_state_load", effects.keeps("reporting", "state_load", _BOOL), boolean=True),
    _defers("trim_percentage", _PERCENT),
    _defers("trim_backlog", _NUMBER),
    # Processors and memory
    _sets("cpus_allowed", values.processors, "cpus"),
    _sets("cpumask", values.processor_mask, "cpus"),
    _sets("cpus_allowed_policy", values.meaning({"shared": False, "split": True}), "cpus_split"),
    # Zones and traces
    Option("zonemode", effects.set_zone_mode),
    _defers("zonesize", values.size, fields=("zone_bytes",)),
    _defers("zonerange", values.size, fields=("zone_range_bytes",)),
    _defers("zoneskip", values.size, fields=("zone_skip_bytes",)),
    Option("read_iolog", effects.set_trace, ("replay", "paths")),
    _defers("replay_no_stall", _BOOL),
    _defers("replay_redirect", values.text_value),
    _defers("replay_align", values.size),
    _defers("replay_scale", values.integer(1)),
    _defers("replay_time_scale", values.integer(1)),
    _defers("replay_skip", values.words("read", "write", "trim", "sync")),
    _log_setting("write_iolog", values.text_value, "iolog"),
    # Reporting
    _sets("group_reporting", _BOOL, "report_as_group", bare=True),
    _sets("new_group", _BOOL, "new_report_group", bare=True),
    Option("percentile_list", effects.keeps("reporting", "percentiles", values.percentiles)),
    Option("clat_percentiles", effects.keeps("reporting", "completion_percentiles", _BOOL)),
    Option("lat_percentiles", effects.keeps("reporting", "total_percentiles", _BOOL)),
    Option("slat_percentiles", effects.keeps("reporting", "submission_percentiles", _BOOL)),
    _defers("disable_slat", _BOOL, fields=("submission_latency",)),
    _defers("gtod_reduce", _BOOL, fields=("submission_latency",)),
    _log_setting("disable_lat", _BOOL, "without_latency"),
    _log_setting("disable_clat", _BOOL, "without_completion"),
    _log_setting("disable_bw_measurement", _BOOL, "without_bandwidth", "disable_bw"),
    Option(
        "unified_rw_reporting", effects.keeps("reporting", "mixed", _meaning("none 0=none mixed 1=mixed both 2=both"))
    ),
    _writes_log("write_bw_log", "bandwidth"),
    _writes_log("write_lat_log", "latency"),
    _writes_log("write_iops_log", "iops"),
    _writes_log("write_hist_log", "histogram"),
    _log_setting("log_avg_msec", _NUMBER, "window_ms"),
    _log_setting("log_hist_msec", _NUMBER, "histogram_window_ms"),
    _log_setting("log_hist_coarseness", values.integer(0, 6), "histogram_coarseness"),
    _log_setting("log_window_value", _meaning("avg 0=avg max 1=max both"), "window_value", "log_max_value"),
    _log_setting("log_offset", _BOOL, "offsets"),
    _log_setting("log_unix_epoch", _BOOL, "unix_epoch", "log_alternate_epoch"),
    _log_setting("per_job_logs", _BOOL, "per_job"),
    # Options of one engine
    _sets("nfs_url", values.text_value, "nfs_url"),
    _sets("nconnect", values.integer(1, 16), "nconnect"),
    _sets("nfs_timeout", _TIME, "nfs_timeout_ns"),
)
_READERS: dict[str, Callable[..., Reader[object]]] = {
    "text": lambda: values.text_value,
    "boolean": lambda: values.boolean,
    "switch": lambda: values.switch,
    "size": lambda: values.size,
    "sizes": lambda: values.list_of(values.size),
    "times": lambda: values.list_of(values.short_time_ns),
    "processors": lambda: values.processors,
    "fraction": lambda: values.fraction,
    "integer": lambda *limits: values.integer(*map(int, limits)),
    "signed": lambda *limits: values.signed_integer(*map(int, limits)),
    "words": values.word,
}
"""Readers by their names in ``options.txt``, which are followed by limits or words."""


def _row(line: str) -> Option:
    """An option without an effect, or one that is refused: a line of ``options.txt``."""
    names, way, reader, same, reason = line.split(" | ", 4)
    kind, *arguments = reader.split()
    read = _READERS[kind](*arguments)
    noop = () if same == "-" else tuple(same.split())
    name, *aliases = names.split()
    way, _, bare = way.partition(" ")
    if way == "refused":
        effect, support = effects.unsupported(reason, noop, read), f"not supported: {reason}"
    else:
        effect = effects.no_effect(reason, noop, "warning" if way == "warned" else "info", read)
        support = f"no effect: {reason}"
    return Option(name, effect, (), tuple(aliases), bool(bare), support=support)


def _listed() -> Iterator[Option]:
    supported = {option.name: option for option in _SUPPORTED}
    engines: tuple[str, ...] = ()
    for line in (Path(__file__).parent / "options.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            engines = tuple(line.strip("[]").split())
        elif not line.startswith("#"):
            option = _row(line) if " | " in line else supported[line]
            yield replace(option, engines=engines) if engines else option


OPTIONS = tuple(_listed())
"""All options, in the order of --cmdhelp."""

BY_NAME = {name: option for option in OPTIONS for name in (option.name, *option.aliases)}

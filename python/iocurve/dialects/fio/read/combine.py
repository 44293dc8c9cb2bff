"""Combines a job's options: the rules that fio applies after it has read all of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from iocurve.dialects.fio.read import traces
from iocurve.dialects.fio.read.draft import Draft, Logs
from iocurve.engine.plan import BlockRange, Blocks, BlockSplit, FixedBlocks, Flow, LogPlan, SteadyState, Uniform, Verify
from iocurve.job.model import PerKind
from iocurve.units import MILLISECOND_NS, SECOND_NS

KINDS = ("read", "write", "trim")
VERIFY_HEADER_BYTES = 40
"""Size of fio's struct verify_header; verify_offset and verify_interval depend on it."""
MAX_LOG_RECORDS = 4_000_000
"""Limit of log records per worker."""


def combine(draft: Draft) -> None:
    """Completes a draft after all its options are read."""
    _blocks(draft)
    _runs(draft)
    _map(draft)
    _flow(draft)
    _depth(draft)
    _flushes(draft)
    _metadata(draft)
    _space(draft)
    _zones(draft)
    _payload(draft)
    _verify(draft)
    _trims(draft)
    _files(draft)
    _steady_state(draft)
    _latency_target(draft)
    _endings(draft)
    traces.replay(draft)
    _submission_latency(draft)
    _logs(draft)


def apply_exitall(drafts: Sequence[Draft]) -> None:
    """Applies exitall to the whole run, in whichever job it is set; exit_what selects the jobs that end."""
    if not any(_has(draft, "exitall") for draft in drafts):
        return
    for draft in drafts:
        draft.fields["ends_others"] = "always"
        # Without another group in the run, all jobs that are running are of the job's group.
        has_groups = any(other.value("new_report_group") for other in drafts[1:])
        if draft.deferred.get("exit_what", "group") == "group" and has_groups:
            draft.fields["ends_exit_group_only"] = True


def _has(draft: Draft, name: str) -> bool:
    return bool(draft.deferred.get(name))


# -- load --------------------------------------------------------------------------------------------------------------


def _blocks(draft: Draft) -> None:
    """bssplit and bsrange override bs in any order; of the two the later one wins."""
    sizes: PerKind[int] = draft.deferred.get("bs", PerKind.same(4096))
    blocks = {kind: draft.deferred.get(f"blocks {kind}") or FixedBlocks(bytes=getattr(sizes, kind)) for kind in KINDS}
    if _has(draft, "bs_unaligned"):
        blocks = {kind: part.replace(step=1) if isinstance(part, BlockRange) else part for kind, part in blocks.items()}
        if draft.value("direct"):
            text = "bs_unaligned: devices refuse unaligned sizes with direct=1"
            draft.note("bs_unaligned", "unaligned", text, "warning")
    draft.fields["blocks"] = PerKind[Blocks](**blocks)


def _map(draft: Draft) -> None:
    """Switches the random map off for distributions other than random and for blockalign other than the block size."""
    distribution: PerKind[Any] | None = draft.fields.get("distribution")
    not_uniform = distribution and any(not isinstance(getattr(distribution, kind), Uniform) for kind in KINDS)
    if not_uniform and draft.value("random"):
        draft.fields["cover"] = "independent"
    align: PerKind[int] = draft.value("align_bytes")
    blocks = draft.fields["blocks"]
    if not draft.value("random") or draft.value("cover") == "independent":
        return
    if any(getattr(align, kind) not in (0, getattr(blocks, kind).smallest) for kind in KINDS):
        draft.fields["cover"] = "independent"
        text = "blockalign other than the block size switches the random map off, as norandommap does"
        draft.note("ba", "map_off", text, "warning")


def _runs(draft: Draft) -> None:
    """Sets the run length of rw=rand…:N. For randtrimwrite fio counts the write after each trim, too."""
    length = int(draft.fields.get("run_length", 1))
    repeats = draft.deferred.get("rw_sequencer") == "identical" and length > 1
    if draft.value("trims") and draft.value("writes"):
        draft.fields["run_length"] = length if length % 2 else length // 2
        if repeats:
            draft.error("rw_sequencer", "rw_sequencer=identical is not supported yet with rw=randtrimwrite:N")
        _pace_pairs(draft)
    elif repeats:
        draft.fields["position"] = "repeated"


def _pace_pairs(draft: Draft) -> None:
    """Paces trimwrite: a write follows its trim at once, so the writes' rate paces the pairs."""
    for option, field in (("rate_iops", "rate_operations"), ("rate", "rate_bytes")):
        rates: PerKind[int | None] = draft.value(field)
        if rates.write or rates.trim:
            draft.fields[field] = PerKind[int | None](read=None, write=None, trim=rates.write)
            text = f"{option} of the writes applies to pairs of a trim and a write, as in fio"
            draft.note(option, "rate_of_pairs", text)


def _flow(draft: Draft) -> None:
    """Keeps jobs with flow= and the same flow_id in proportion."""
    if _has(draft, "flow"):
        draft.fields["flow"] = Flow(id=draft.deferred.get("flow_id", 0), weight=draft.deferred["flow"])
        text = "flow: a job that is ahead of the others by 1,000 operations or the sum of iodepths waits for them"
        draft.note("flow", "flow", text)
    elif "flow_id" in draft.option_positions:
        draft.note("flow_id", "no_effect", "flow_id has no effect without flow")


def _depth(draft: Draft) -> None:
    """Adjusts iodepth and the iodepth_… options to one another as fio does."""
    depth = draft.depth_asked = int(draft.value("depth"))
    if draft.fields.get("depth_low", 0) >= depth:
        draft.fields["depth_low"] = 0
    if draft.fields.get("batch_submit", 0) >= depth:
        draft.fields["batch_submit"] = 0
    least = draft.fields.get("batch_complete_min", 1)
    if least == 0 and draft.fields.get("batch_complete_max"):
        draft.fields["batch_complete_min"] = least = 1
    elif least == 0 and depth > 1:
        draft.fields |= {"depth": 1, "batch_complete_min": 1}
        text = f"iodepth_batch_complete_min=0 waits for each operation, as in fio: iodepth={depth} has no effect"
        draft.note("iodepth_batch_complete_min", "depth_capped", text, "warning")
    if least > depth:
        draft.fields["batch_complete_min"] = least = depth
        text = f"iodepth_batch_complete_min is lowered to iodepth={depth}"
        draft.note("iodepth_batch_complete_min", "batch_capped", text, "warning")
    most = draft.fields.get("batch_complete_max")
    if most is not None or least > 1:
        draft.fields["batch_complete_max"] = max(most or 0, least)
    for name in ("thinktime_spin", "thinktime_blocks", "thinktime_blocks_type", "thinktime_iotime"):
        if name in draft.option_positions and not draft.fields.get("think_ns"):
            draft.note(name, "no_effect", f"{name} has no effect without thinktime")


def _flushes(draft: Draft) -> None:
    for name in ("fsync", "fdatasync", "sync_file_range"):
        if not _has(draft, name):
            continue
        draft.fields[f"{name}_every"] = draft.deferred[name]
        if not draft.value("writes"):
            draft.note(name, "no_effect", f"{name} has no effect: the job writes nothing")
    if _has(draft, "end_fsync") or _has(draft, "fsync_on_close"):
        draft.fields["sync_at_end"] = True
    if _has(draft, "fsync_on_close"):
        text = "fsync_on_close: each file is flushed after its last operation, before it is closed"
        draft.note("fsync_on_close", "flushed_at_end", text)


def _metadata(draft: Draft) -> None:
    """Completes a job that does one operation on each file."""
    kind = draft.fields.get("metadata")
    if kind is None:
        return
    engine = draft.fields["engine_asked"]
    if draft.fields.get("nfs_url"):
        draft.fields["engine"] = "nfs"
    blocks: PerKind[Blocks] = draft.fields["blocks"]
    block = (blocks.read if draft.value("reads") else blocks.write).smallest
    sized = draft.fields.get("size") or draft.fields.get("file_bytes")
    if kind == "create" and not sized:
        draft.fields["file_bytes"] = (block, block)
    elif draft.fields.get("file_bytes") != (block, block):
        text = (
            f"{engine} does one operation on each file; fio counts an I/O for each block of the file, but does the "
            "operation once (set filesize to bs to have the same counts)"
        )
        draft.note("filesize" if "filesize" in draft.option_positions else "size", "one_per_file", text)
    for name in (
        "iodepth",
        "direct",
        "verify",
        "fsync",
        "end_fsync",
        "write_lat_log",
        "write_bw_log",
        "write_iops_log",
        "write_iolog",
    ):
        if name in draft.option_positions:
            draft.note(name, "no_effect", f"{name} has no effect with ioengine={engine}")
    draft.deferred = {name: value for name, value in draft.deferred.items() if not name.startswith("verify")}


def _space(draft: Draft) -> None:
    """Checks a job that allocates or cuts files instead of reading and writing them."""
    if draft.fields.get("space_call") is None:
        return
    engine = draft.fields["engine_asked"]
    if engine == "ftruncate" and (draft.value("reads") or draft.value("trims")):
        draft.error("ioengine", "ioengine=ftruncate only writes: fio fails on its reads and trims", "use rw=write")
    if _method(draft) is not None:
        draft.error("verify", f"ioengine={engine} moves no data that verify could compare", "leave verify out")


def _zones(draft: Draft) -> None:
    size = draft.deferred.get("zonesize", 0)
    if draft.deferred.get("zonemode") == "strided":
        if not size:
            draft.error("zonemode", "zonemode=strided needs zonesize", "add one, such as zonesize=1m")
        files = len(draft.fields.get("paths", ())) or int(draft.value("file_count"))
        if files > 1:
            text = "zonemode=strided has no effect with several files, as in fio"
            draft.note("zonemode", "no_effect", text, "warning")
            return
        draft.fields |= {
            "zone_bytes": size,
            "zone_range_bytes": draft.deferred.get("zonerange") or size,
            "zone_skip_bytes": draft.deferred.get("zoneskip", 0),
        }
        return
    if size and draft.deferred.get("zonemode") != "zbd":
        draft.error("zonesize", "zonesize needs a zonemode", "add zonemode=strided")
    for name in ("zonerange", "zoneskip"):
        if _has(draft, name):
            draft.note(name, "no_effect", f"{name} has no effect without zonemode=strided", "warning")


# -- payload and verification ------------------------------------------------------------------------------------------


def _payload(draft: Draft) -> None:
    refill_is_set = "refill_buffers" in draft.option_positions
    compress = draft.fields.get("payload_compress_percent", 0)
    if compress == 100:
        draft.fields |= {"payload_zero": True, "payload_compress_percent": 0, "payload_scramble": False}
    elif compress and not refill_is_set:
        draft.fields["payload_refill"] = True
    if compress or draft.fields.get("payload_dedupe_percent"):
        draft.fields["payload_scramble"] = False
    if compress:
        draft.fields.setdefault("payload_compress_chunk_bytes", 512)
    elif "buffer_compress_chunk" in draft.option_positions:
        text = "buffer_compress_chunk has no effect without buffer_compress_percentage"
        draft.note("buffer_compress_chunk", "no_effect", text)
    _dedupe_set(draft)
    if _method(draft):
        _verified_payload(draft, refills=not refill_is_set)


def _dedupe_set(draft: Draft) -> None:
    """Sets the working set that repeated blocks are drawn from."""
    dedupes = draft.fields.get("payload_dedupe_percent", 0)
    if draft.deferred.get("dedupe_mode") != "working_set" or not dedupes:
        for name in ("dedupe_mode", "dedupe_working_set_percentage"):
            if draft.deferred.get(name, "repeat") != "repeat":
                text = f"{name} has no effect without dedupe_percentage and dedupe_mode=working_set"
                draft.note(name, "no_effect", text)
        return
    share = draft.deferred.get("dedupe_working_set_percentage", 5)
    if dedupes + share > 100:
        text = f"dedupe_percentage={dedupes} and a working set of {share} % are above 100 %, which fio refuses, too"
        draft.error("dedupe_percentage", text)
    draft.fields["payload_dedupe_set_percent"] = share


def _verified_payload(draft: Draft, *, refills: bool) -> None:
    """Makes the payload of verified blocks random, as in fio, unless buffer_compress_percentage is set."""
    ignored = {"payload_zero": "zero_buffers", "payload_dedupe_percent": "dedupe_percentage"}
    if not draft.fields.get("payload_compress_percent"):
        ignored["payload_pattern"] = "buffer_pattern"
    for field, option in ignored.items():
        if draft.fields.pop(field, None) and option in draft.option_positions:
            draft.note(option, "no_effect", f"{option} has no effect with verify, as in fio", "warning")
    if refills:
        draft.fields["payload_refill"] = True


def _method(draft: Draft) -> str | None:
    """The verify method. verify_pattern alone implies verify=pattern."""
    if "verify" in draft.deferred:
        return draft.deferred["verify"]  # type: ignore[no-any-return]
    return "pattern" if _has(draft, "verify_pattern") else None


def _verify(draft: Draft) -> None:
    method = _method(draft)
    if method is None:
        _without_verify(draft)
        return
    write = draft.fields["blocks"].write if draft.value("writes") else draft.fields["blocks"].read
    interval = _interval(draft.deferred.get("verify_interval", 0), write)
    offset = draft.deferred.get("verify_offset", 0)
    if offset and offset + VERIFY_HEADER_BYTES > (interval or write.smallest):
        draft.error("verify_offset", "verify_offset moves the header past the end of the block or of verify_interval")
    pattern = draft.deferred.get("verify_pattern", "")
    if method == "pattern" and not pattern:
        draft.error("verify", "verify=pattern needs verify_pattern", "add one, such as verify_pattern=0xdeadbeef")
    backlog = draft.deferred.get("verify_backlog", 0)
    draft.fields["verify"] = Verify.from_builtins(
        {
            "method": method,
            "interval_bytes": interval,
            "header_offset": offset,
            "pattern": pattern,
            "read_back": draft.deferred.get("do_verify", True),
            "backlog": backlog or None,
            "backlog_batch": draft.deferred.get("verify_backlog_batch", 0) if backlog else 0,
            "only": _has(draft, "verify_only"),
            "fatal": _has(draft, "verify_fatal"),
            "dump": _has(draft, "verify_dump"),
        }
    )
    _verify_notes(draft)


def _interval(asked: int, write: Blocks) -> int:
    """Distance of headers in bytes: ``asked`` if it divides all block sizes, else their greatest common divisor.

    0 is one header per block.
    """
    sizes = [part.bytes for part in write.parts] if isinstance(write, BlockSplit) else [write.smallest, write.largest]
    if isinstance(write, BlockRange):
        sizes.append(write.low + write.step)
    if asked and asked <= write.smallest and not any(size % asked for size in sizes):
        return asked if asked != write.largest else 0
    common = math.gcd(*sizes)
    return 0 if common == write.largest else common


def _verify_notes(draft: Draft) -> None:
    has_backlog = draft.fields["verify"].backlog
    if draft.value("writes") and not draft.value("reads") and draft.value("time_based") and not has_backlog:
        text = "written blocks are not verified: time_based writes take the whole runtime (add verify_backlog=N)"
        draft.note("verify", "verify_never", text, "warning")
    if draft.value("cover") == "independent" and draft.value("random") and int(draft.value("depth")) > 1:
        text = "two writes to one offset may be in flight together and complete in any order; fio may report a mismatch"
        draft.note("verify", "verify_overlaps", text)
    if int(draft.value("numjobs")) > 1 and draft.fields.get("paths") and draft.value("writes"):
        text = "jobs write to the same files: verification may find another job's data"
        draft.note("verify", "verify_shared", text, "warning")


def _without_verify(draft: Draft) -> None:
    names = [name for name in draft.option_positions if name.startswith("verify_") or name == "do_verify"]
    for name in names:
        draft.note(name, "no_effect", f"{name} has no effect without verify=")


def _trims(draft: Draft) -> None:
    """Checks trim_percentage. fio trims written blocks only if verify and trim_backlog are set, too."""
    if _has(draft, "trim_percentage") and _has(draft, "trim_backlog") and "verify" in draft.fields:
        draft.error("trim_percentage", "trim_percentage is not supported: iocurve does not trim verified blocks")
        return
    for name in ("trim_percentage", "trim_backlog"):
        if _has(draft, name):
            text = f"{name} has no effect, as in fio: trimming needs verify, trim_percentage and trim_backlog together"
            draft.note(name, "no_effect", text, "warning")


def _files(draft: Draft) -> None:
    if draft.fields.get("append") and int(draft.value("loops")) > 1:
        draft.fields["loops"] = 1
        draft.note("file_append", "one_loop", "file_append runs one loop, as in fio", "warning")


# -- endings -----------------------------------------------------------------------------------------------------------


def _steady_state(draft: Draft) -> None:
    """Sets the steady state test. Without steadystate_duration there is none, even with a criterion."""
    duration = draft.deferred.get("steadystate_duration", 0)
    if not duration:
        if "steadystate" in draft.option_positions:
            text = "steadystate has no effect without steadystate_duration"
            draft.note("steadystate", "no_effect", text, "warning")
        return
    check = draft.deferred.get("steadystate_check_interval", SECOND_NS)
    if check < SECOND_NS or duration % check or duration <= check:
        text = "steadystate_duration must be a multiple of steadystate_check_interval, which must be 1 s or more"
        draft.error("steadystate_duration", text)
        return
    figure, criterion, limit, is_percent = draft.deferred.get("steadystate", ("iops", "slope", 0.01, True))
    draft.fields["steady_state"] = SteadyState(
        figure=figure,
        criterion=criterion,
        limit=limit,
        limit_is_percent=is_percent,
        duration_ns=duration,
        ramp_ns=draft.deferred.get("steadystate_ramp_time", 0),
        check_ns=check,
    )
    word = {"iops": "iops", "bandwidth": "bw", "latency": "lat"}[figure] + ("_slope" if criterion == "slope" else "")
    draft.reporting["steady_state_duration_s"] = duration // SECOND_NS
    draft.reporting["steady_state"] = f"{word}:{limit:f}{'%' if is_percent else ''}"


def _latency_target(draft: Draft) -> None:
    names = ("latency_window", "latency_percentile", "latency_run")
    if not draft.fields.get("latency_target_ns"):
        for name in names:
            if name in draft.option_positions:
                draft.note(name, "no_effect", f"{name} has no effect without latency_target")
    elif not draft.fields.get("latency_window_ns"):
        text = "latency_target without latency_window: each depth is measured for 1 s"
        draft.note("latency_target", "latency_window", text, "warning")


def _endings(draft: Draft) -> None:
    if _has(draft, "exitall_on_error"):
        draft.fields["ends_others"] = "on_error"
    if draft.deferred.get("exit_what") == "all":
        draft.fields["ends_run"] = True
    if _has(draft, "unlink_each_loop"):
        if int(draft.value("loops")) > 1:
            draft.error("unlink_each_loop", "unlink_each_loop=1 is not supported yet with several loops")
        draft.fields["unlink"] = True


def _wants_slat(draft: Draft) -> bool:
    return not (_has(draft, "disable_slat") or _has(draft, "gtod_reduce"))


def _submission_latency(draft: Draft) -> None:
    if _wants_slat(draft) and draft.value("engine") in ("aio", "uring", "nfs"):
        draft.fields["submission_latency"] = True
    if _has(draft, "gtod_reduce"):
        text = "gtod_reduce: slat is not measured; the other latencies are, at negligible cost"
        draft.note("gtod_reduce", "no_effect", text)


# -- logs --------------------------------------------------------------------------------------------------------------


def _logs(draft: Draft) -> None:
    """Sets the records that the engine keeps for fio's log files."""
    name = draft.fields["name"]
    kinds = ("bandwidth", "latency", "iops", "histogram")
    asked = {kind: draft.logs[kind] or name for kind in kinds if kind in draft.logs}
    logs = Logs(**(draft.logs | asked), submission=_wants_slat(draft))
    draft.reporting["logs"] = logs
    if not logs.any:
        for option in draft.option_positions:
            if option.startswith("log_") or option in ("per_job_logs", "bwavgtime", "iopsavgtime"):
                draft.note(option, "no_effect", f"{option} has no effect: the job writes no log")
        return
    windows = [logs.window_ms] if set(asked) - {"histogram"} else []
    windows += [logs.histogram_window_ms] if logs.histogram else []
    # An iolog needs each operation; the other logs add them up afterwards.
    is_windowed = all(windows) and not logs.iolog
    window_ns = math.gcd(*windows) * MILLISECOND_NS if is_windowed else None
    draft.fields["log"] = LogPlan(
        window_ns=window_ns,
        histograms=bool(logs.histogram and window_ns),
        records=MAX_LOG_RECORDS,
        files=bool(logs.iolog),
    )
    if logs.iolog:
        _check_iolog(draft)


def _check_iolog(draft: Draft) -> None:
    for name in ("ramp_time", "fsync", "fdatasync", "sync_file_range", "end_fsync", "fsync_on_close"):
        if name in draft.option_positions:
            text = f"write_iolog is not supported yet with {name}: iocurve records neither the ramp nor flushes"
            draft.error(name, text, "leave one of the two out")

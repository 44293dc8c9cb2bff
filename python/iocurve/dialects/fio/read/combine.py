"""Combines a job's options: the rules that fio applies after it has read all of them."""

from __future__ import annotations

import errno
import math
from collections.abc import Sequence

from iocurve.dialects.fio.read import iolog, splits
from iocurve.dialects.fio.read.draft import Draft
from iocurve.engine import plan as planned
from iocurve.engine.derived import block_bytes_max, block_bytes_min
from iocurve.foundation.units import MILLISECOND_NS, SECOND_NS
from iocurve.job import model
from iocurve.job.model import Data, Ending, Files, Load, Pace, PerKind, Target

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
    _pauses(draft)
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
    iolog.replay(draft)
    _tolerances(draft)
    _submission_latency(draft)
    _logs(draft)


def apply_exitall(drafts: Sequence[Draft]) -> None:
    """Applies exitall to the whole run, in whichever job it is set; exit_what selects the jobs that end."""
    if not any(draft.deferred.exitall for draft in drafts):
        return
    # Without another group in the run, all jobs that are running are of the job's group.
    has_groups = any(draft.report.new_report_group for draft in drafts[1:])
    for draft in drafts:
        draft.put(Ending, ends_others="always")
        if draft.deferred.exit_what == "group" and has_groups:
            draft.put(Ending, ends_exit_group_only=True)


# -- load --------------------------------------------------------------------------------------------------------------


def _blocks(draft: Draft) -> None:
    """bssplit and bsrange override bs in any order; of the two the later one wins."""
    sizes: PerKind[planned.Blocks] = draft.deferred.bs.map(lambda size: planned.FixedBlocks(bytes=size))
    blocks = splits.or_else(draft.deferred.blocks, sizes)
    if not draft.deferred.bs_unaligned:
        blocks = blocks.map(_in_multiples)
    if draft.deferred.bs_unaligned:
        blocks = blocks.map(lambda part: part.replace(step=1) if isinstance(part, planned.BlockRange) else part)
        if draft.target.direct:
            text = "bs_unaligned: devices refuse unaligned sizes with direct=1"
            draft.note("bs_unaligned", "unaligned", text, "warning")
    draft.put(Load, blocks=blocks)


def _in_multiples(blocks: planned.Blocks) -> planned.Blocks:
    """Sizes of a bssplit in whole multiples of the smallest, rounded down: fio needs bs_unaligned for others."""
    if not isinstance(blocks, planned.BlockSplit):
        return blocks
    smallest = block_bytes_min(blocks)
    weights: dict[int, int] = {}
    for part in blocks.parts:
        size = part.bytes - part.bytes % smallest
        weights[size] = weights.get(size, 0) + part.weight
    parts = tuple(planned.BlockShare(bytes=size, weight=weight) for size, weight in weights.items())
    return planned.BlockSplit(parts=parts) if len(parts) > 1 else planned.FixedBlocks(bytes=smallest)


def _map(draft: Draft) -> None:
    """Switches the random map off for distributions other than random and for blockalign other than the block size."""
    load = draft.load
    if not load.random or load.cover == "independent":
        return
    if not all(isinstance(each, planned.Uniform) for each in load.distribution.values()):
        draft.put(Load, cover="independent")
        return
    aligned = zip(load.align_bytes.values(), load.blocks.values(), strict=True)
    if any(align not in (0, block_bytes_min(blocks)) for align, blocks in aligned):
        draft.put(Load, cover="independent")
        text = "blockalign other than the block size switches the random map off, as norandommap does"
        draft.note("ba", "map_off", text, "warning")


def _runs(draft: Draft) -> None:
    """Sets the run length of rw=rand…:N. For randtrimwrite fio counts the write after each trim, too."""
    load = draft.load
    length = load.run_length
    repeats = draft.deferred.rw_sequencer == "identical" and length > 1
    if load.trims and load.writes:
        draft.put(Load, run_length=length if length % 2 else length // 2)
        if repeats:
            draft.error("rw_sequencer", "rw_sequencer=identical is not supported yet with rw=randtrimwrite:N")
        _pace_pairs(draft)
    elif repeats:
        draft.put(Load, position="repeated")


def _pace_pairs(draft: Draft) -> None:
    """Paces trimwrite: a write follows its trim at once, so the writes' rate paces the pairs."""
    pace = draft.pace
    text = "of the writes applies to pairs of a trim and a write, as in fio"
    if (rates := pace.rate_operations).write or rates.trim:
        draft.put(Pace, rate_operations=PerKind(read=None, write=None, trim=rates.write))
        draft.note("rate_iops", "rate_of_pairs", f"rate_iops {text}")
    if (rates := pace.rate_bytes).write or rates.trim:
        draft.put(Pace, rate_bytes=PerKind(read=None, write=None, trim=rates.write))
        draft.note("rate", "rate_of_pairs", f"rate {text}")


def _flow(draft: Draft) -> None:
    """Keeps jobs with flow= and the same flow_id in proportion."""
    deferred = draft.deferred
    if deferred.flow:
        draft.put(Load, flow=planned.Flow(id=deferred.flow_id, weight=deferred.flow))
        text = "flow: a job that is ahead of the others by 1,000 operations or the sum of iodepths waits for them"
        draft.note("flow", "flow", text)
    else:
        draft.note_unused(["flow_id"], "without flow")


def _depth(draft: Draft) -> None:
    """Adjusts iodepth and the iodepth_… options to one another as fio does."""
    pace = draft.pace
    depth = draft.depth_asked = pace.depth
    if pace.depth_low >= depth:
        draft.put(Pace, depth_low=0)
    if pace.batch_submit >= depth:
        draft.put(Pace, batch_submit=0)
    least = pace.batch_complete_min
    if least == 0 and pace.batch_complete_max:
        least = 1
        draft.put(Pace, batch_complete_min=least)
    elif least == 0 and depth > 1:
        draft.put(Pace, depth=1, batch_complete_min=1)
        text = f"iodepth_batch_complete_min=0 waits for each operation, as in fio: iodepth={depth} has no effect"
        draft.note("iodepth_batch_complete_min", "depth_capped", text, "warning")
    if least > depth:
        least = depth
        draft.put(Pace, batch_complete_min=least)
        text = f"iodepth_batch_complete_min is lowered to iodepth={depth}"
        draft.note("iodepth_batch_complete_min", "batch_capped", text, "warning")
    if "batch_complete_max" in draft.given or least > 1:
        draft.put(Pace, batch_complete_max=max(pace.batch_complete_max, least))


def _pauses(draft: Draft) -> None:
    if not draft.pace.think_ns:
        names = ("thinktime_spin", "thinktime_blocks", "thinktime_blocks_type", "thinktime_iotime")
        draft.note_unused(names, "without thinktime")


def _flushes(draft: Draft) -> None:
    deferred = draft.deferred
    if deferred.fsync:
        draft.put(Pace, fsync_every=deferred.fsync)
    if deferred.fdatasync:
        draft.put(Pace, fdatasync_every=deferred.fdatasync)
    if deferred.sync_file_range:
        draft.put(Pace, sync_file_range_every=deferred.sync_file_range)
    asked = {"fsync": deferred.fsync, "fdatasync": deferred.fdatasync, "sync_file_range": deferred.sync_file_range}
    if not draft.load.writes:
        for name in filter(asked.get, asked):
            draft.note(name, "no_effect", f"{name} has no effect: the job writes nothing")
    if deferred.end_fsync or deferred.end_syncfs or deferred.fsync_on_close:
        draft.put(Pace, sync_at_end=True)
    if deferred.end_syncfs:
        text = "end_syncfs: each file of the job is flushed by itself, not its whole file system"
        draft.note("end_syncfs", "flushed_at_end", text)
    if deferred.fsync_on_close:
        text = "fsync_on_close: each file is flushed after its last operation, before it is closed"
        draft.note("fsync_on_close", "flushed_at_end", text)


_NO_EFFECT_ON_NAMES = (
    "iodepth",
    "direct",
    "verify",
    "fsync",
    "end_fsync",
    "write_lat_log",
    "write_bw_log",
    "write_iops_log",
    "write_iolog",
)


def _metadata(draft: Draft) -> None:
    """Completes a job that does one operation on each file."""
    load, files, engine = draft.load, draft.files, draft.target.engine_asked
    if load.metadata is None:
        return
    if draft.target.nfs_url:
        draft.put(Target, engine="nfs")
    block = block_bytes_min(load.blocks.read if load.reads else load.blocks.write)
    if load.metadata == "create" and not (files.size or files.file_bytes):
        draft.put(Files, file_bytes=(block, block))
    elif files.file_bytes != (block, block):
        text = (
            f"{engine} does one operation on each file; fio counts an I/O for each block of the file, but does the "
            "operation once (set filesize to bs to have the same counts)"
        )
        draft.note("filesize" if "filesize" in draft.option_positions else "size", "one_per_file", text)
    draft.note_unused(_NO_EFFECT_ON_NAMES, f"with ioengine={engine}")
    draft.deferred.verify = "none"


def _space(draft: Draft) -> None:
    """Checks a job that allocates or cuts files instead of reading and writing them."""
    load, target = draft.load, draft.target
    if target.space_call is None:
        return
    if target.engine_asked == "ftruncate" and (load.reads or load.trims):
        draft.error("ioengine", "ioengine=ftruncate only writes: fio fails on its reads and trims", "use rw=write")
    if draft.deferred.method is not None:
        text = f"ioengine={target.engine_asked} moves no data that verify could compare"
        draft.error("verify", text, "leave verify out")


def _zones(draft: Draft) -> None:
    deferred = draft.deferred
    size = deferred.zonesize
    if deferred.zonemode == "strided":
        if not size:
            draft.error("zonemode", "zonemode=strided needs zonesize", "add one, such as zonesize=1m")
        if (len(draft.files.paths) or draft.files.file_count) > 1:
            text = "zonemode=strided has no effect with several files, as in fio"
            draft.note("zonemode", "no_effect", text, "warning")
            return
        zone_range = deferred.zonerange or size
        draft.put(Load, zone_bytes=size, zone_range_bytes=zone_range, zone_skip_bytes=deferred.zoneskip)
        return
    if size and deferred.zonemode != "zbd":
        draft.error("zonesize", "zonesize needs a zonemode", "add zonemode=strided")
    asked = {"zonerange": deferred.zonerange, "zoneskip": deferred.zoneskip}
    draft.note_unused(filter(asked.get, asked), "without zonemode=strided", "warning")


# -- payload and verification ------------------------------------------------------------------------------------------


def _payload(draft: Draft) -> None:
    refills = "refill_buffers" not in draft.option_positions
    data = draft.data
    compress = data.payload_compress_percent
    if compress == 100:
        draft.put(Data, payload_zero=True, payload_compress_percent=0, payload_scramble=False)
    elif compress and refills:
        draft.put(Data, payload_refill=True)
    if compress or data.payload_dedupe_percent:
        draft.put(Data, payload_scramble=False)
    if compress and not data.payload_compress_chunk_bytes:
        draft.put(Data, payload_compress_chunk_bytes=512)
    elif not compress:
        draft.note_unused(["buffer_compress_chunk"], "without buffer_compress_percentage")
    _dedupe_set(draft)
    if draft.deferred.method:
        _verified_payload(draft, refills=refills)


def _dedupe_set(draft: Draft) -> None:
    """Sets the working set that repeated blocks are drawn from."""
    dedupes, mode = draft.data.payload_dedupe_percent, draft.deferred.dedupe_mode
    share = draft.deferred.dedupe_working_set_percentage
    if mode == "working_set" and dedupes:
        share = 5 if share is None else share
        if dedupes + share > 100:
            text = f"dedupe_percentage={dedupes} and a working set of {share} % are above 100 %, which fio refuses, too"
            draft.error("dedupe_percentage", text)
        draft.put(Data, payload_dedupe_set_percent=share)
        return
    unused = ["dedupe_mode"] if mode != "repeat" else []
    why = "without dedupe_percentage and dedupe_mode=working_set"
    draft.note_unused([*unused, "dedupe_working_set_percentage"], why)


def _verified_payload(draft: Draft, *, refills: bool) -> None:
    """Makes the payload of verified blocks random, as in fio, unless buffer_compress_percentage is set."""
    ignored = {"payload_zero": "zero_buffers", "payload_dedupe_percent": "dedupe_percentage"}
    if not draft.data.payload_compress_percent:
        ignored["payload_pattern"] = "buffer_pattern"
    unused = [option for field, option in ignored.items() if getattr(draft.data, field)]
    draft.note_unused(unused, "with verify, as in fio", "warning")
    draft.reset(*ignored)
    if refills:
        draft.put(Data, payload_refill=True)


def _verify(draft: Draft) -> None:
    deferred, load = draft.deferred, draft.load
    method = deferred.method
    if method is None:
        names = (name for name in draft.option_positions if name.startswith("verify_") or name == "do_verify")
        draft.note_unused(names, "without verify=")
        return
    if not (load.reads or load.writes):
        draft.note_unused(["verify"], "in a job that only trims", "warning")
        return
    if load.trims:
        text = "verify is not supported in a job that trims: trimmed data cannot be read back and compared"
        draft.error("verify", text, "leave out the trims or the verification")
    write = load.blocks.write if load.writes else load.blocks.read
    align = load.align_bytes.write if load.writes else load.align_bytes.read
    interval, offset = _interval(deferred.verify_interval, write, align), deferred.verify_offset
    if offset and offset + VERIFY_HEADER_BYTES > (interval or block_bytes_min(write)):
        draft.error("verify_offset", "verify_offset moves the header past the end of the block or of verify_interval")
    if method == "pattern" and not deferred.verify_pattern:
        draft.error("verify", "verify=pattern needs verify_pattern", "add one, such as verify_pattern=0xdeadbeef")
    verify = planned.Verify(
        method=method,
        interval_bytes=interval,
        header_offset=offset,
        pattern=deferred.verify_pattern,
        read_back=deferred.do_verify,
        backlog=deferred.verify_backlog or None,
        backlog_batch=deferred.verify_backlog_batch if deferred.verify_backlog else 0,
        only=deferred.verify_only,
        fatal=deferred.verify_fatal,
        dump=deferred.verify_dump,
    )
    draft.put(Data, verify=verify)
    _verify_notes(draft, verify)


def _interval(asked: int, write: planned.Blocks, align: int) -> int:
    """Distance of headers in bytes: ``asked`` if it divides all block sizes, else their greatest common divisor.

    It divides blockalign, too (``align``, 0 without one), at whose multiples blocks begin. 0 is one header per block.
    """
    smallest, largest = block_bytes_min(write), block_bytes_max(write)
    sizes = [part.bytes for part in write.parts] if isinstance(write, planned.BlockSplit) else [smallest, largest]
    if isinstance(write, planned.BlockRange):
        sizes.append(write.low + write.step)
    sizes += [align] if align else []
    if asked and asked <= smallest and not any(size % asked for size in sizes):
        return asked if asked != largest else 0
    common = math.gcd(*sizes)
    return 0 if common == largest else common


def _verify_notes(draft: Draft, verify: planned.Verify) -> None:
    load = draft.load
    if load.writes and not load.reads and draft.ending.time_based and not verify.backlog:
        text = "written blocks are not verified: time_based writes take the whole runtime (add verify_backlog=N)"
        draft.note("verify", "verify_never", text, "warning")
    if load.cover == "independent" and load.random and draft.pace.depth > 1:
        text = "two writes to one offset may be in flight together and complete in any order; fio may report a mismatch"
        draft.note("verify", "verify_overlaps", text)
    if draft.section.numjobs > 1 and draft.files.paths and load.writes:
        text = "jobs write to the same files: verification may find another job's data"
        draft.note("verify", "verify_shared", text, "warning")


def _trims(draft: Draft) -> None:
    """Checks trim_percentage. fio trims written blocks only if verify and trim_backlog are set, too."""
    percent, backlog = draft.deferred.trim_percentage, draft.deferred.trim_backlog
    if percent and backlog and draft.data.verify:
        draft.error("trim_percentage", "trim_percentage is not supported: iocurve does not trim verified blocks")
        return
    for name, asked in (("trim_percentage", percent), ("trim_backlog", backlog)):
        if asked:
            text = f"{name} has no effect, as in fio: trimming needs verify, trim_percentage and trim_backlog together"
            draft.note(name, "no_effect", text, "warning")


def _files(draft: Draft) -> None:
    if draft.files.append and draft.ending.loops > 1:
        draft.put(Ending, loops=1)
        draft.note("file_append", "one_loop", "file_append runs one loop, as in fio", "warning")


# -- endings -----------------------------------------------------------------------------------------------------------


def _steady_state(draft: Draft) -> None:
    """Sets the steady state test. Without steadystate_duration there is none, even with a criterion."""
    deferred, asked = draft.deferred, draft.deferred.steadystate
    duration, check = deferred.steadystate_duration, deferred.steadystate_check_interval
    if not duration:
        draft.note_unused(["steadystate"], "without steadystate_duration", "warning")
        return
    if check < SECOND_NS or duration % check:
        text = "steadystate_duration must be a multiple of steadystate_check_interval, which must be 1 s or more"
        draft.error("steadystate_duration", text)
        return
    if duration < 2 * check:
        text = "steadystate_duration has one sample, which is always steady; choose at least two check intervals"
        draft.error("steadystate_duration", text)
        return
    steady_state = asked.replace(duration_ns=duration, ramp_ns=deferred.steadystate_ramp_time, check_ns=check)
    draft.put(Ending, steady_state=steady_state)
    word = {"iops": "iops", "bandwidth": "bw", "latency": "lat"}[asked.figure]
    word += "_slope" if asked.criterion == "slope" else ""
    draft.reporting.steady_state = f"{word}:{asked.limit:f}{'%' if asked.limit_is_percent else ''}"
    draft.reporting.steady_state_duration_s = duration // SECOND_NS


def _latency_target(draft: Draft) -> None:
    if not draft.pace.latency_target_ns:
        draft.note_unused(("latency_window", "latency_percentile", "latency_run"), "without latency_target")
    elif "latency_window_ns" not in draft.given:
        text = "latency_target without latency_window: each depth is measured for 1 s"
        draft.note("latency_target", "latency_window", text, "warning")


def _tolerances(draft: Draft) -> None:
    """continue_on_error counts EIO and EILSEQ; ignore_error gives other errors, and implies it for its kinds."""
    asked = draft.deferred.continue_on_error
    reads, writes, _ = draft.deferred.ignore_error
    ways: list[tuple[str, tuple[planned.OperationKind, ...], tuple[int, ...]]] = [
        ("read", ("read",), reads),
        ("write", ("write", "trim"), writes),
    ]
    tolerances = [
        planned.Tolerance(kinds=kinds, errnos=errnos or (errno.EIO, errno.EILSEQ), errors_max=None)
        for name, kinds, errnos in ways
        if errnos or asked in (name, "io", "all")
    ]
    draft.put(Ending, tolerates=tuple(tolerances), whole_transfers=draft.load.replay is None)


def _endings(draft: Draft) -> None:
    if draft.deferred.exitall_on_error:
        draft.put(Ending, ends_others="on_error")
    if draft.deferred.exit_what == "all":
        draft.put(Ending, ends_run=True)
    if draft.deferred.unlink_each_loop:
        if draft.ending.loops > 1:
            draft.error("unlink_each_loop", "unlink_each_loop=1 is not supported yet with several loops")
        draft.put(Files, unlink=True)


def _submission_latency(draft: Draft) -> None:
    if draft.deferred.measures_submission and draft.target.engine in ("aio", "uring", "nfs"):
        draft.put(model.Reporting, submission_latency=True)
    if draft.deferred.gtod_reduce:
        text = "gtod_reduce: slat is not measured; the other latencies are, at negligible cost"
        draft.note("gtod_reduce", "no_effect", text)


# -- logs --------------------------------------------------------------------------------------------------------------


def _logs(draft: Draft) -> None:
    """Sets the records that the engine keeps for fio's log files."""
    logs, job = draft.reporting.logs, draft.section.name
    logs.submission = draft.deferred.measures_submission
    logs.bandwidth = job if logs.bandwidth == "" else logs.bandwidth
    logs.latency = job if logs.latency == "" else logs.latency
    logs.iops = job if logs.iops == "" else logs.iops
    logs.histogram = job if logs.histogram == "" else logs.histogram
    if not logs.any:
        for option in draft.option_positions:
            if option.startswith("log_") or option == "per_job_logs":
                draft.note(option, "no_effect", f"{option} has no effect: the job writes no log")
        return
    windows = [logs.histogram_window_ms] if logs.histogram else []
    if any(prefix is not None for prefix in (logs.bandwidth, logs.latency, logs.iops)):
        windows.append(logs.window_ms)
    # An iolog needs each operation; the other logs add them up afterwards.
    is_windowed = all(windows) and not logs.iolog
    window_ns = math.gcd(*windows) * MILLISECOND_NS if is_windowed else None
    plan = planned.LogPlan(
        window_ns=window_ns,
        histograms=bool(logs.histogram and window_ns),
        records=MAX_LOG_RECORDS,
        files=bool(logs.iolog),
    )
    draft.put(model.Reporting, log=plan)
    if logs.iolog:
        _check_iolog(draft)


def _check_iolog(draft: Draft) -> None:
    for name in ("ramp_time", "fsync", "fdatasync", "sync_file_range", "end_fsync", "fsync_on_close"):
        if name in draft.option_positions:
            text = f"write_iolog is not supported yet with {name}: iocurve records neither the ramp nor flushes"
            draft.error(name, text, "leave one of the two out")

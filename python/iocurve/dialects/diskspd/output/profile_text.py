"""Writes a profile as text, as DiskSpd prints it above its results and with -Rp."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from iocurve.dialects.base import printable
from iocurve.dialects.diskspd.read.profile import TEMPLATE_PREFIX, Profile, TargetParameters, TimeSpan
from iocurve.dialects.diskspd.read.values import OffsetZone

_UNITS = ((40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB"))
_PRIORITIES = {1: "very low", 2: "low", 3: "normal"}
_FLUSHES = {
    None: "",
    "ViewOfFile": ", flush mode: FlushViewOfFile",
    "NonVolatileMemory": ", flush mode: FlushNonVolatileMemory",
    "NonVolatileMemoryNoDrain": ", flush mode: FlushNonVolatileMemory with no drain",
}


def profile_text(profile: Profile) -> str:
    """The command line and the parameters read from it."""
    lines = ["", f"Command Line: {printable(profile.command_line)}", ""]
    if profile.experiment_flags:
        lines += [f"Experiment Flags: 0x{profile.experiment_flags:x} ({profile.experiment_flags})", ""]
    lines += ["Input parameters:", ""]
    if profile.verbose:
        lines.append("\tusing verbose mode")
    for number, span in enumerate(profile.time_spans, start=1):
        lines += [f"\ttimespan: {number:3}", "\t-------------", *_time_span(span), ""]
    return "\n".join(lines) + "\n"


def size_text(size: int, width: int = 0) -> str:
    """Formats ``64KiB``, ``1.95MiB``, ``512``. ``width`` right-aligns the number, as in distributions."""
    for shift, name in _UNITS:
        unit = 1 << shift
        if size >= unit:
            number = str(size >> shift) if size % unit == 0 else f"{size / unit:.2f}"
            return f"{number:>{width}}{name}"
    return str(size)


def distribution_lines(zones: Sequence[OffsetZone], indent: str = "") -> Iterator[str]:
    """Yields the lines of a distribution in bytes."""
    whole = sum(zone.io_percent for zone in zones)
    # On a target too small for the whole distribution the remaining shares are scaled up to 100 %.
    scaled = whole < 100
    for zone in zones:
        share = f"    {100 * zone.io_percent / whole:0.1f}" if scaled else f"   {zone.io_percent:3}"
        start = size_text(zone.start, 6) if zone.start else "     0   "
        end = size_text(zone.end, 6) if zone.length else "      end"
        yield f"{indent}{share}% of IO => [{start} - {end})"


def _time_span(span: TimeSpan) -> Iterator[str]:
    yield f"\tduration: {span.duration_s}s"
    yield f"\twarm up time: {span.warmup_s}s"
    yield f"\tcool down time: {span.cooldown_s}s"
    if span.affinity_disabled:
        yield "\taffinity disabled"
    if span.measure_latency:
        yield "\tmeasuring latency"
    if span.measure_iops_deviation:
        yield f"\tgathering IOPS at intervals of {span.bucket_ms}ms"
    yield f"\trandom seed: {span.seed}"
    if span.threads:
        yield f"\tthread pool with {span.threads} threads"
        yield f"\tnumber of outstanding I/O operations per thread: {span.requests}"
    if span.affinity:
        pairs = ", ".join(f"{group}/{processor}" for group, processor in span.affinity)
        yield f"\tadvanced affinity round robin (group/core): {pairs}"
    if span.random_write_data:
        yield "\tgenerating random data for each write IO"
        yield "\t  WARNING: this increases the CPU cost of issuing writes and should only"
        yield "\t           be compared to other results using the -Zr flag"
    for target in span.targets:
        yield from (f"\t{line}" for line in _target(span, target))


def _target(span: TimeSpan, target: TargetParameters) -> Iterator[str]:
    if target.path.startswith(TEMPLATE_PREFIX):
        yield f"path: template target '{target.path[1:]}'"
    else:
        yield f"path: '{printable(target.path)}'"
    for part in (_caching, _buffers, _order):
        yield from (f"\t{line}" for line in part(target))
    yield from (f"\t{line}" for line in _region(span, target))
    yield from (f"\t{line}" for line in _threads(span, target))
    if target.spans:
        yield "\tIO Distribution:"
        yield from _distribution(target)


def _caching(target: TargetParameters) -> Iterator[str]:
    yield f"think time: {target.think_ms or 0}ms"
    yield f"burst size: {target.burst or 0}"
    yield {
        "cached": "using software cache",
        "local_disabled": "local software cache disabled, remote cache enabled",
        "disabled": "software cache disabled",
    }[target.cache]
    if not target.write_through:
        yield "using hardware write cache, writethrough off"
    elif target.cache == "disabled":
        yield "hardware write cache disabled, writethrough on"
    else:
        yield "hardware and software write caches disabled, writethrough on"
    if target.memory_mapped:
        yield f"memory mapped I/O enabled{_FLUSHES[target.flush]}"


def _buffers(target: TargetParameters) -> Iterator[str]:
    if target.zero_buffers:
        yield "zeroing write buffers"
    if target.buffer_bytes:
        yield f"write buffer size: {size_text(target.buffer_bytes)}"
        source = f"'{printable(target.buffer_path)}'" if target.buffer_path else "random fill"
        yield f"write buffer source: {source}"
    if target.parallel:
        yield "using parallel async I/O"


def _order(target: TargetParameters) -> Iterator[str]:
    writes = target.write_percent
    if writes in (0, 100):
        yield f"performing {'write' if writes else 'read'} test"
    else:
        yield f"performing mix test (read/write ratio: {100 - writes}/{writes})"
    yield f"block size: {size_text(target.block_bytes)}"
    step = size_text(target.step_bytes)
    if target.random_percent == 100:
        yield f"using random I/O (alignment: {step})"
    elif target.random_percent:
        share = f"{target.random_percent}% random"
        yield f"using mixed random/sequential I/O ({share}) (alignment/stride: {step})"
    else:
        yield f"using{' interlocked' if target.interlocked else ''} sequential I/O (stride: {step})"


def _region(span: TimeSpan, target: TargetParameters) -> Iterator[str]:
    if span.shares_requests:
        yield f"relative IO weight in thread pool: {target.weight}"
    else:
        yield f"number of outstanding I/O operations per thread: {target.requests}"
    for size, name in (
        (target.base_bytes, "base file offset"),
        (target.end_bytes, "max file size"),
        (target.thread_stride_bytes, "thread stride size"),
    ):
        if size:
            yield f"{name}: {size_text(size)}"
    for is_set, hint in (
        (target.sequential_hint, "FILE_FLAG_SEQUENTIAL_SCAN"),
        (target.random_hint, "FILE_FLAG_RANDOM_ACCESS"),
        (target.temporary_hint, "FILE_ATTRIBUTE_TEMPORARY"),
    ):
        if is_set:
            yield f"using {hint} hint"


def _threads(span: TimeSpan, target: TargetParameters) -> Iterator[str]:
    if not span.threads:
        yield f"threads per file: {target.threads}"
        if target.requests > 1:
            routines = "completion routines (ReadFileEx/WriteFileEx)"
            yield f"using {routines if span.completion_routines else 'I/O Completion Ports'}"
    yield f"IO priority: {_PRIORITIES[target.io_priority]}"
    if target.iops:
        yield f"throughput rate-limited to {target.iops} IOPS"
    elif target.bytes_per_ms:
        yield f"throughput rate-limited to {target.bytes_per_ms} B/ms"


def _distribution(target: TargetParameters) -> Iterator[str]:
    if target.distribution == "Absolute":
        yield from distribution_lines(target.spans, "\t")
        return
    for span in target.spans:
        part = f"[{span.start:2}% - {span.start + span.length:3}%)"
        yield f"\t   {span.io_percent:3}% of IO => {part} of target"

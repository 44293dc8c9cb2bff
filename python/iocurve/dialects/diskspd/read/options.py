"""DiskSpd's flags as data: the effect of each flag on the profile, and the flags without a meaning on Linux.

An effect raises ``ValueError`` with the message for the user if DiskSpd refuses the flag.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from iocurve.dialects.diskspd.read import values
from iocurve.dialects.diskspd.read.profile import CacheMode, FlushMode, Profile, Target, TimeSpan
from iocurve.errors import Where
from iocurve.job.model import Level, PlanNote


@dataclass
class Draft:
    """The profile under construction while flags are read."""

    fresh_seed: Callable[[], int]
    profile: Profile = field(default_factory=Profile)
    span: TimeSpan = field(default_factory=TimeSpan)
    target: Target = field(default_factory=Target)
    """Load of all targets of the command line."""
    xml_path: str | None = None
    overrides: dict[str, Any] = field(default_factory=dict)
    """Fields of time spans set on the command line; they override those of an XML profile (-X)."""
    profile_overrides: dict[str, Any] = field(default_factory=dict)
    """Fields of the profile set on the command line; they override those of an XML profile."""
    profile_positions: dict[str, Where] = field(default_factory=dict)
    """Positions of ``profile_overrides``."""
    cache: CacheMode | None = None
    write_through: bool = False
    where: Where | None = None
    notes: list[PlanNote] = field(default_factory=list)

    def note(self, code: str, text: str, level: Level = "info") -> None:
        """Adds a note about the current flag."""
        self.notes.append(PlanNote(code, text, self.where, level))

    def set_target(self, name: str, value: object) -> None:
        """Sets a field of all targets, and its position."""
        setattr(self.target, name, value)
        self._record_position(self.target.positions, name)

    def set_span(self, name: str, value: object) -> None:
        """Sets a field of the time span, and its position."""
        setattr(self.span, name, value)
        self._record_position(self.span.positions, name)

    def set_profile(self, name: str, value: object) -> None:
        """Sets a field of the profile, and its position."""
        self.profile_overrides[name] = value
        self._record_position(self.profile_positions, name)

    def override(self, name: str, value: object) -> None:
        """Sets a field of the time span that also overrides an XML profile."""
        self.overrides[name] = value
        self.set_span(name, value)

    def size(self, text: str) -> int:
        """Reads a size; the suffix b counts blocks of -b."""
        return values.size(text, self.target.block_bytes)

    def _record_position(self, positions: dict[str, Where], name: str) -> None:
        if self.where is not None:
            positions[name] = self.where


Effect = Callable[[Draft, str], None]


@dataclass(frozen=True)
class Option:
    """A flag: its effect and its line of help."""

    effect: Effect
    meaning: str
    with_profile: bool = False
    """True if the flag is allowed together with -X."""


# -- numbers -----------------------------------------------------------------------------------------------------------


def _number(draft: Draft, text: str) -> int:
    """Reads a number as C's atoi does, and notes the text that atoi ignores."""
    value, rest = values.leading_integer(text)
    if rest:
        draft.note("passed_over", f"DiskSpd reads {value} and ignores '{rest}'", "warning")
    return value


def _positive(field_name: str, quantity: str, *, of_span: bool = False) -> Effect:
    def effect(draft: Draft, text: str) -> None:
        value = _number(draft, text)
        if value < 1:
            raise ValueError(f"needs a whole number above 0 ({quantity})")
        (draft.set_span if of_span else draft.set_target)(field_name, value)

    return effect


def _seconds(field_name: str, default: int) -> Effect:
    def effect(draft: Draft, text: str) -> None:
        if not text:
            draft.note("bare_seconds", f"without a number it is 0 s, not DiskSpd's default of {default} s", "warning")
        value = _number(draft, text)
        if value < 0:
            raise ValueError("needs a whole number of seconds, 0 or more")
        draft.override(field_name, value)

    return effect


def _switch(field_name: str, *, of_span: bool = False) -> Effect:
    def effect(draft: Draft, text: str) -> None:
        if text:
            draft.note("passed_over", f"DiskSpd ignores '{text}'", "warning")
        (draft.set_span if of_span else draft.set_target)(field_name, True)

    return effect


# -- the load ----------------------------------------------------------------------------------------------------------


def _block(draft: Draft, text: str) -> None:
    value = draft.size(text)
    if not 0 < value < values.U32_MAX:
        raise ValueError(f"a block has 1 to {values.U32_MAX - 1} bytes")
    draft.set_target("block_bytes", value)


def _base(draft: Draft, text: str) -> None:
    if "base_bytes" in draft.target.positions:
        raise ValueError("the base offset can be given only once")
    base, rest = values.leading_size(text, draft.target.block_bytes)
    if rest and not rest.startswith(":"):
        raise ValueError(f"'{rest}' after the base offset; write -Bbase or -Bbase:length")
    draft.set_target("base_bytes", base)
    if rest:
        length = draft.size(rest[1:])
        _set_end(draft, base + length)


def _set_end(draft: Draft, end: int) -> None:
    if "end_bytes" in draft.target.positions:
        raise ValueError("the largest offset can be given only once, as -Bbase:length or as -f<size>")
    if end > values.U64_MAX:
        raise ValueError("the sum of base and length exceeds 64 bits")
    draft.set_target("end_bytes", end)


def _file(draft: Draft, text: str) -> None:
    if text[:1].isascii() and text[:1].isdigit():
        _set_end(draft, draft.size(text))
        return
    hints = {"r": "random_hint", "s": "sequential_hint", "t": "temporary_hint"}
    if not text or set(text) - set(hints):
        raise ValueError("needs a size (-f10G), or hints of the letters r, s, t (-frs); files come after all flags")
    for letter in text:
        draft.set_target(hints[letter], True)


def _create(draft: Draft, text: str) -> None:
    draft.set_target("create_bytes", draft.size(text))


def _random(draft: Draft, text: str) -> None:
    if text.startswith("s"):
        _random_share(draft, text[1:])
    elif text.startswith("d"):
        kind, spans = values.distribution(text[1:], draft.target.block_bytes)
        draft.target.set_spans(kind, spans)
        draft.set_target("spans", draft.target.spans)
    else:
        _random_alignment(draft, text)


def _random_share(draft: Draft, text: str) -> None:
    target = draft.target
    value = _number(draft, text)
    if not 0 < value <= 100:
        raise ValueError("needs a percentage of random operations, 1 to 100")
    if not target.random_percent and target.alignment_bytes:
        raise ValueError("conflicts with -s: give the alignment of mixed random and sequential I/O with -r")
    if target.random_percent not in (0, 100):
        raise ValueError("the share of random operations can be given only once")
    draft.set_target("random_percent", value)


def _random_alignment(draft: Draft, text: str) -> None:
    target = draft.target
    alignment = draft.size(text) if text else target.block_bytes
    if not alignment:
        raise ValueError("needs an alignment above 0")
    if target.random_percent == 100 and target.alignment_bytes:
        raise ValueError("random I/O (-r) can be given only once")
    if target.alignment_bytes:
        raise ValueError("conflicts with sequential I/O (-s): keep one of them")
    draft.set_target("random_percent", target.random_percent or 100)
    draft.set_target("alignment_bytes", alignment)


def _sequential(draft: Draft, text: str) -> None:
    target = draft.target
    if text.startswith("i"):
        draft.set_target("interlocked", True)
        text = text[1:]
    if target.random_percent == 100:
        raise ValueError("conflicts with random I/O (-r or -rs): keep one of them")
    if target.random_percent:
        raise ValueError("conflicts with -rs: give the alignment with -r")
    if target.alignment_bytes:
        raise ValueError("sequential I/O (-s) can be given only once")
    draft.set_target("alignment_bytes", draft.size(text) if text else target.block_bytes)


def _write_percent(draft: Draft, text: str) -> None:
    if not text:
        raise ValueError("needs the percentage of writes: -w0 for none")
    value = _number(draft, text)
    if not 0 <= value <= 100:
        raise ValueError("needs a percentage of writes, 0 to 100")
    draft.set_target("write_percent", value)


def _thread_stride(draft: Draft, text: str) -> None:
    stride = draft.size(text)
    if not stride:
        raise ValueError("needs a distance above 0")
    draft.set_target("thread_stride_bytes", stride)


def _throughput(draft: Draft, text: str) -> None:
    if not (text[-1:].isascii() and text[-1:].isdigit()) and not text.endswith("i"):
        raise ValueError("needs bytes per millisecond (-g1000), or operations per second (-g500i)")
    value = _number(draft, text.removesuffix("i"))
    if value < 1:
        raise ValueError("needs a throughput above 0")
    draft.set_target("bytes_per_ms", 0)
    draft.set_target("iops", 0)
    draft.set_target("iops" if text.endswith("i") else "bytes_per_ms", value)


def _buffers(draft: Draft, text: str) -> None:
    if not text:
        draft.set_target("zero_buffers", True)
    elif text == "r":
        draft.set_span("random_write_data", True)
    elif text == "z":
        draft.note("for_linux", "zeros, a flag of diskspd-for-linux; DiskSpd's is -Z")
        draft.set_target("zero_buffers", True)
    elif text == "s":
        draft.note("for_linux", "bytes 0 to 255 repeated, a flag of diskspd-for-linux; it is DiskSpd's default")
    else:
        length, path = values.buffer_source(text, draft.target.block_bytes)
        draft.set_target("buffer_bytes", length)
        draft.set_target("buffer_path", path)


# -- caching -----------------------------------------------------------------------------------------------------------


_FOR_LINUX = {"d": "u", "s": "w"}
"""Letters of -S in diskspd-for-linux and those of DiskSpd with the same meaning."""


def _caching(draft: Draft, text: str) -> None:
    for letter in text or "u":
        known = _FOR_LINUX.get(letter, letter)
        if known not in _CACHING:
            raise ValueError(f"-S does not take '{letter}'; it takes b, h, m, r, u and w")
        if known != letter:
            draft.note("for_linux", f"'{letter}' is a flag of diskspd-for-linux; it runs as DiskSpd's -S{known}")
        _CACHING[known](draft)


def _cache_mode(mode: CacheMode) -> Callable[[Draft], None]:
    def effect(draft: Draft) -> None:
        if draft.cache is not None or (mode == "disabled" and draft.target.memory_mapped):
            raise ValueError("conflicts with the cache mode (-S, -h) given before")
        draft.cache = mode
        draft.set_target("cache", mode)

    return effect


def _write_through(draft: Draft) -> None:
    if draft.write_through:
        raise ValueError("conflicts with the write-through given before")
    draft.write_through = True
    draft.set_target("write_through", True)


def _all_off(draft: Draft) -> None:
    if draft.cache is not None or draft.write_through or draft.target.memory_mapped:
        raise ValueError("conflicts with the caching (-S, -h) given before")
    _cache_mode("disabled")(draft)
    _write_through(draft)


def _memory_mapped(draft: Draft) -> None:
    if draft.target.memory_mapped or draft.cache == "disabled":
        raise ValueError("memory-mapped I/O (-Sm) conflicts with the caching given before")
    draft.set_target("memory_mapped", True)


_CACHING: dict[str, Callable[[Draft], None]] = {
    "b": _cache_mode("cached"),
    "h": _all_off,
    "m": _memory_mapped,
    "r": _cache_mode("local_disabled"),
    "u": _cache_mode("disabled"),
    "w": _write_through,
}


def _old_caching(draft: Draft, text: str) -> None:
    if text:
        draft.note("passed_over", f"DiskSpd ignores '{text}'", "warning")
    if draft.cache is not None or draft.write_through:
        raise ValueError("conflicts with the caching (-S) given before; -h is the same as -Sh")
    _cache_mode("disabled")(draft)
    _write_through(draft)


def _flush(draft: Draft, text: str) -> None:
    modes: dict[str, FlushMode] = {
        "v": "ViewOfFile",
        "n": "NonVolatileMemory",
        "i": "NonVolatileMemoryNoDrain",
    }
    if text.lower() not in modes:
        raise ValueError("needs one of the letters v, n, i")
    draft.set_target("flush", modes[text.lower()])


# -- threads, output, Windows ------------------------------------------------------------------------------------------


def _affinity(draft: Draft, text: str) -> None:
    draft.set_span("affinity", draft.span.affinity + values.affinity(text))


def _deviation(draft: Draft, text: str) -> None:
    draft.set_span("measure_iops_deviation", True)
    value = _number(draft, text)
    if value > 0:
        draft.set_span("bucket_ms", value)


def _seed(draft: Draft, text: str) -> None:
    draft.override("seed", values.seed(text) if text else draft.fresh_seed() % (values.U32_MAX + 1))


def _result_format(draft: Draft, text: str) -> None:
    if text.startswith("p"):
        draft.set_profile("profile_only", True)
        text = text[1:]
        if not text:
            return
    if text == "text":
        draft.set_profile("result_format", "text")
    elif text == "xml":
        draft.set_profile("result_format", "xml")
    else:
        raise ValueError("needs text or xml, such as -Rtext; p before it prints the profile and runs nothing: -Rpxml")


def _verbose(draft: Draft, text: str) -> None:
    if text not in ("", "s"):
        raise ValueError("takes no value or s")
    draft.set_profile("verbose_stats" if text else "verbose", True)


def _progress(draft: Draft, text: str) -> None:
    value = _number(draft, text) if text else 0
    draft.set_profile("progress", value if value > 0 else 65536)


def _priority(draft: Draft, text: str) -> None:
    value = _number(draft, text)
    if not 0 < value < 4:
        raise ValueError("needs a priority: 1 (very low), 2 (low) or 3 (normal)")
    draft.set_target("io_priority", value)


def _experiment(draft: Draft, text: str) -> None:
    draft.set_profile("experiment_flags", _number(draft, text) % (values.U32_MAX + 1))


ETW_EVENTS = {
    "PROCESS": "Process",
    "THREAD": "Thread",
    "IMAGE_LOAD": "ImageLoad",
    "DISK_IO": "DiskIO",
    "MEMORY_PAGE_FAULTS": "MemoryPageFaults",
    "MEMORY_HARD_FAULTS": "MemoryHardFaults",
    "NETWORK": "Network",
    "REGISTRY": "Registry",
    "p": "UsePagedMemory",
    "q": "UsePerfTimer",
    "s": "UseSystemTimer",
    "c": "UseCyclesCounter",
}
"""Flags of -e and their names in XML profiles."""


def _etw(draft: Draft, text: str) -> None:
    name = text if text in ETW_EVENTS else text[:1] if text[:1] in ("p", "q", "s", "c") else ""
    if not name:
        raise ValueError(f"unknown event; -e takes {', '.join(list(ETW_EVENTS)[:8])}")
    draft.profile.etw[ETW_EVENTS[name]] = True
    draft.note("windows_only", "event tracing (ETW) exists only on Windows: nothing is traced", "warning")


def _events(_draft: Draft, text: str) -> None:
    if text[:1] not in ("s", "f", "r", "p", "e"):
        raise ValueError("needs one of -ys, -yf, -yr, -yp, -ye with the name of an event")
    raise ValueError(
        "named events exist only on Windows: remove the flag, and start programs that wait for the run from a script"
    )


def _profile_path(draft: Draft, text: str) -> None:
    if draft.xml_path is not None:
        raise ValueError("only one XML profile can be run at once")
    if not text:
        raise ValueError("needs a file name: -Xprofile.xml")
    draft.xml_path = text


def _nothing(_draft: Draft, _text: str) -> None:
    """-? prints the help before any flag is read."""


OPTIONS: dict[str, Option] = {
    "?": Option(_nothing, "print this help"),
    ":": Option(_experiment, "experiment flags (no effect)", with_profile=True),
    "a": Option(_affinity, "bind threads to processors round robin: -a0,1 or -ag0,0,1; all processors by default"),
    "b": Option(_block, "block size, 64K by default"),
    "B": Option(_base, "base offset, and length of the region: -B1G or -B1G:4G"),
    "c": Option(_create, "create the file with this size; an existing file is replaced"),
    "C": Option(_seconds("cooldown_s", 0), "cool down time in seconds, not measured, 0 by default", with_profile=True),
    "d": Option(
        _seconds("duration_s", 10), "duration of the measured time in seconds, 10 by default", with_profile=True
    ),
    "D": Option(
        _deviation, "print the standard deviation of IOPS over intervals of this length in ms, 1000 by default"
    ),
    "e": Option(_etw, "event tracing (Windows only)"),
    "f": Option(_file, "end of the region (-f10G), or access hints (-frst)"),
    "F": Option(_positive("threads", "threads in all", of_span=True), "total number of threads; each uses all targets"),
    "g": Option(
        _throughput, "limit the throughput of each thread on each target: bytes per ms, or IOPS with i (-g500i)"
    ),
    "h": Option(_old_caching, "same as -Sh"),
    "i": Option(_positive("burst", "operations in a burst"), "operations per burst, with -j"),
    "I": Option(_priority, "I/O priority 1, 2 or 3 (no effect)"),
    "j": Option(_positive("think_ms", "milliseconds between bursts"), "think time between bursts in ms, with -i"),
    "l": Option(_switch("large_pages"), "large pages for buffers (no effect)"),
    "L": Option(_switch("measure_latency", of_span=True), "print latencies"),
    "n": Option(_switch("affinity_disabled", of_span=True), "do not bind threads to processors"),
    "N": Option(_flush, "flush memory-mapped files after each write: v, n or i"),
    "o": Option(_positive("requests", "operations in flight"), "queue depth per thread and target, 2 by default"),
    "O": Option(
        _positive("requests", "operations in flight per thread", of_span=True),
        "queue depth per thread over all targets, with -F",
    ),
    "p": Option(_switch("parallel"), "start all operations in flight of a thread at the same offset"),
    "P": Option(_progress, "print progress (stderr always has it)"),
    "r": Option(_random, "random, aligned to a size (-r4K); -rs<percent> random; -rdpct…, -rdabs… distribution"),
    "R": Option(_result_format, "print results as text or xml; -Rpxml prints only the profile", with_profile=True),
    "s": Option(_sequential, "sequential with a stride; -si shares one position between threads"),
    "S": Option(
        _caching, "caching: b on, u off, w write-through, h off and write-through, m memory-mapped, r remote only"
    ),
    "t": Option(_positive("threads", "threads per target"), "threads per target, 1 by default"),
    "T": Option(_thread_stride, "offset between the starts of consecutive threads in a target"),
    "v": Option(_verbose, "verbose (-v); wait statistics (-vs, no effect)", with_profile=True),
    "w": Option(_write_percent, "percentage of writes, 0 by default"),
    "W": Option(_seconds("warmup_s", 5), "warm up time in seconds, 5 by default", with_profile=True),
    "x": Option(_switch("completion_routines", of_span=True), "completion routines (no effect)"),
    "X": Option(_profile_path, "run an XML profile; targets replace its *1, *2, …", with_profile=True),
    "y": Option(_events, "named events (Windows only)"),
    "z": Option(_seed, "random seed, 0 by default; -z alone: a new seed in every run", with_profile=True),
    "Z": Option(_buffers, "write zeros (-Z), random data (-Zr), or from a buffer (-Z1M or -Z1M,file)"),
}
"""Flags by letter; case matters."""


def flag_lines() -> list[str]:
    """One line of help per flag."""
    return [f"  -{letter}  {option.meaning}" for letter, option in OPTIONS.items()]

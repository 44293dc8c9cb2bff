"""DiskSpd's flags: those of one field, as ``profile`` defines them, and those that set several fields or none.

An effect raises ``ValueError`` with the message for the user if DiskSpd refuses the flag.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from iocurve.dialects.diskspd.read import values
from iocurve.dialects.diskspd.read.profile import CacheMode, Part, Profile, TargetParameters, TimeSpan, flags
from iocurve.dialects.diskspd.read.values import Given, Reader


class ProfileDraft(Given):
    """The profile under construction while flags are read."""

    profile: Profile = msgspec.field(default_factory=Profile)
    span: TimeSpan = msgspec.field(default_factory=TimeSpan)
    target: TargetParameters = msgspec.field(default_factory=TargetParameters)
    """Load of all targets of the command line."""
    xml_path: str | None = None

    @property
    def caches(self) -> bool:
        """True if a flag has set the cache mode."""
        return "cache" in self.target.positions

    def set(self, of: Part, name: str, value: object) -> None:
        """Sets a field, and its position."""
        setattr(of, name, value)
        if self.where is not None:
            of.positions[name] = self.where


Effect = Callable[[ProfileDraft], None]


WITH_PROFILE = frozenset(":CdRvWXz")
"""Flags that may be given together with -X, and override the profile."""


def _sets(kind: type[Part], name: str, read: Reader) -> Effect:
    """The effect of a flag that sets one field."""
    part = {Profile: "profile", TimeSpan: "span", TargetParameters: "target"}[kind]
    return lambda draft: draft.set(getattr(draft, part), name, read(draft))


# -- the load ----------------------------------------------------------------------------------------------------------


def _base(draft: ProfileDraft) -> None:
    if "base_bytes" in draft.target.positions:
        raise ValueError("the base offset can be given only once")
    base, rest = values.leading_size(draft.text, draft.target.block_bytes)
    if rest and not rest.startswith(":"):
        raise ValueError(f"'{rest}' after the base offset; write -Bbase or -Bbase:length")
    draft.set(draft.target, "base_bytes", base)
    if rest:
        length = draft.size(rest[1:])
        _set_end(draft, base + length)


def _set_end(draft: ProfileDraft, end: int) -> None:
    if "end_bytes" in draft.target.positions:
        raise ValueError("the largest offset can be given only once, as -Bbase:length or as -f<size>")
    if end > values.U64_MAX:
        raise ValueError("the sum of base and length exceeds 64 bits")
    draft.set(draft.target, "end_bytes", end)


def _file(draft: ProfileDraft) -> None:
    text = draft.text
    if text[:1].isascii() and text[:1].isdigit():
        _set_end(draft, draft.size(text))
        return
    hints = {"r": "random_hint", "s": "sequential_hint", "t": "temporary_hint"}
    if not text or set(text) - set(hints):
        raise ValueError("needs a size (-f10G), or hints of the letters r, s, t (-frs); files come after all flags")
    for letter in text:
        draft.set(draft.target, hints[letter], True)


def _random(draft: ProfileDraft) -> None:
    text = draft.text
    if text.startswith("s"):
        _random_share(draft, text[1:])
    elif text.startswith("d"):
        kind, spans = values.distribution(text[1:], draft.block_bytes)
        draft.target.set_spans(kind, spans)
        draft.set(draft.target, "spans", draft.target.spans)
    else:
        _random_alignment(draft)


def _random_share(draft: ProfileDraft, text: str) -> None:
    target = draft.target
    value = draft.number(text)
    if not 0 < value <= 100:
        raise ValueError("needs a percentage of random operations, 1 to 100")
    if not target.random_percent and target.alignment_bytes:
        raise ValueError("conflicts with -s: give the alignment of mixed random and sequential I/O with -r")
    if target.random_percent not in (0, 100):
        raise ValueError("the share of random operations can be given only once")
    draft.set(draft.target, "random_percent", value)


def _random_alignment(draft: ProfileDraft) -> None:
    target = draft.target
    alignment = draft.size() if draft.text else target.block_bytes
    if not alignment:
        raise ValueError("needs an alignment above 0")
    if target.random_percent == 100 and target.alignment_bytes:
        raise ValueError("random I/O (-r) can be given only once")
    if target.alignment_bytes:
        raise ValueError("conflicts with sequential I/O (-s): keep one of them")
    draft.set(draft.target, "random_percent", target.random_percent or 100)
    draft.set(draft.target, "alignment_bytes", alignment)


def _sequential(draft: ProfileDraft) -> None:
    text = draft.text
    target = draft.target
    if text.startswith("i"):
        draft.set(draft.target, "interlocked", True)
        text = text[1:]
    if target.random_percent == 100:
        raise ValueError("conflicts with random I/O (-r or -rs): keep one of them")
    if target.random_percent:
        raise ValueError("conflicts with -rs: give the alignment with -r")
    if target.alignment_bytes:
        raise ValueError("sequential I/O (-s) can be given only once")
    draft.set(draft.target, "alignment_bytes", draft.size(text) if text else target.block_bytes)


def _throughput(draft: ProfileDraft) -> None:
    text = draft.text
    if not (text[-1:].isascii() and text[-1:].isdigit()) and not text.endswith("i"):
        raise ValueError("needs bytes per millisecond (-g1000), or operations per second (-g500i)")
    value = draft.number(text.removesuffix("i"))
    if value < 1:
        raise ValueError("needs a throughput above 0")
    draft.set(draft.target, "bytes_per_ms", 0)
    draft.set(draft.target, "iops", 0)
    draft.set(draft.target, "iops" if text.endswith("i") else "bytes_per_ms", value)


def _buffers(draft: ProfileDraft) -> None:
    text = draft.text
    if not text:
        draft.set(draft.target, "zero_buffers", True)
    elif text == "r":
        draft.set(draft.span, "random_write_data", True)
    elif text == "z":
        draft.note("for_linux", "zeros, a flag of diskspd-for-linux; DiskSpd's is -Z")
        draft.set(draft.target, "zero_buffers", True)
    elif text == "s":
        draft.note("for_linux", "bytes 0 to 255 repeated, a flag of diskspd-for-linux; it is DiskSpd's default")
    else:
        length, path = values.buffer_source(text, draft.target.block_bytes)
        draft.set(draft.target, "buffer_bytes", length)
        draft.set(draft.target, "buffer_path", path)


# -- caching -----------------------------------------------------------------------------------------------------------


_FOR_LINUX = {"d": "u", "s": "w"}
"""Letters of -S in diskspd-for-linux and those of DiskSpd with the same meaning."""


def _caching(draft: ProfileDraft) -> None:
    for letter in draft.text or "u":
        known = _FOR_LINUX.get(letter, letter)
        if known not in _CACHING:
            raise ValueError(f"-S does not take '{letter}'; it takes b, h, m, r, u and w")
        if known != letter:
            draft.note("for_linux", f"'{letter}' is a flag of diskspd-for-linux; it runs as DiskSpd's -S{known}")
        _CACHING[known](draft)


def _cache_mode(mode: CacheMode) -> Callable[[ProfileDraft], None]:
    def effect(draft: ProfileDraft) -> None:
        if draft.caches or (mode == "disabled" and draft.target.memory_mapped):
            raise ValueError("conflicts with the cache mode (-S, -h) given before")
        draft.set(draft.target, "cache", mode)

    return effect


def _write_through(draft: ProfileDraft) -> None:
    if draft.target.write_through:
        raise ValueError("conflicts with the write-through given before")
    draft.set(draft.target, "write_through", True)


def _all_off(draft: ProfileDraft) -> None:
    if draft.caches or draft.target.write_through or draft.target.memory_mapped:
        raise ValueError("conflicts with the caching (-S, -h) given before")
    _cache_mode("disabled")(draft)
    _write_through(draft)


def _memory_mapped(draft: ProfileDraft) -> None:
    if draft.target.memory_mapped or draft.target.cache == "disabled":
        raise ValueError("memory-mapped I/O (-Sm) conflicts with the caching given before")
    draft.set(draft.target, "memory_mapped", True)


_CACHING: dict[str, Callable[[ProfileDraft], None]] = {
    "b": _cache_mode("cached"),
    "h": _all_off,
    "m": _memory_mapped,
    "r": _cache_mode("local_disabled"),
    "u": _cache_mode("disabled"),
    "w": _write_through,
}


def _old_caching(draft: ProfileDraft) -> None:
    if draft.text:
        draft.note("passed_over", f"DiskSpd ignores '{draft.text}'", "warning")
    if draft.caches or draft.target.write_through:
        raise ValueError("conflicts with the caching (-S) given before; -h is the same as -Sh")
    _cache_mode("disabled")(draft)
    _write_through(draft)


# -- threads, output, Windows ------------------------------------------------------------------------------------------


def _affinity(draft: ProfileDraft) -> None:
    draft.set(draft.span, "affinity", draft.span.affinity + values.affinity(draft.text))


def _deviation(draft: ProfileDraft) -> None:
    draft.set(draft.span, "measure_iops_deviation", True)
    value = draft.number()
    if value > 0:
        draft.set(draft.span, "bucket_ms", value)


def _result_format(draft: ProfileDraft) -> None:
    text = draft.text
    if text.startswith("p"):
        draft.set(draft.profile, "profile_only", True)
        text = text[1:]
        if not text:
            return
    if text == "text":
        draft.set(draft.profile, "result_format", "text")
    elif text == "xml":
        draft.set(draft.profile, "result_format", "xml")
    else:
        raise ValueError("needs text or xml, such as -Rtext; p before it prints the profile and runs nothing: -Rpxml")


def _verbose(draft: ProfileDraft) -> None:
    if draft.text not in ("", "s"):
        raise ValueError("takes no value or s")
    draft.set(draft.profile, "verbose_stats" if draft.text else "verbose", True)


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


def _etw(draft: ProfileDraft) -> None:
    text = draft.text
    name = text if text in ETW_EVENTS else text[:1] if text[:1] in ("p", "q", "s", "c") else ""
    if not name:
        raise ValueError(f"unknown event; -e takes {', '.join(list(ETW_EVENTS)[:8])}")
    draft.profile.etw[ETW_EVENTS[name]] = True
    draft.note("windows_only", "event tracing (ETW) exists only on Windows: nothing is traced", "warning")


def _events(draft: ProfileDraft) -> None:
    if draft.text[:1] not in ("s", "f", "r", "p", "e"):
        raise ValueError("needs one of -ys, -yf, -yr, -yp, -ye with the name of an event")
    raise ValueError(
        "named events exist only on Windows: remove the flag, and start programs that wait for the run from a script"
    )


def _profile_path(draft: ProfileDraft) -> None:
    if draft.xml_path is not None:
        raise ValueError("only one XML profile can be run at once")
    if not draft.text:
        raise ValueError("needs a file name: -Xprofile.xml")
    draft.xml_path = draft.text


def _nothing(_draft: ProfileDraft) -> None:
    """-? prints the help before any flag is read."""


OPTIONS: dict[str, Effect] = {
    "?": _nothing,
    "a": _affinity,
    "B": _base,
    "D": _deviation,
    "e": _etw,
    "f": _file,
    "g": _throughput,
    "h": _old_caching,
    "r": _random,
    "R": _result_format,
    "s": _sequential,
    "S": _caching,
    "v": _verbose,
    "X": _profile_path,
    "y": _events,
    "Z": _buffers,
    **{letter: _sets(kind, name, read) for kind, name, letter, read in flags()},
}
"""Effects of the flags by letter; case matters."""

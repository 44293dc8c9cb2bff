"""What cannot be together in a profile, and what DiskSpd warns of; the rules are DiskSpd's own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from iocurve.dialects.diskspd.read.profile import TEMPLATE_PREFIX, Profile, Target, TimeSpan
from iocurve.errors import Mistake, Where
from iocurve.job.model import Level, PlanNote

SECTOR_BYTES = 512
"""Unbuffered operations begin and end at multiples of it."""


@dataclass
class Findings:
    """What is wrong, and what is to be said."""

    mistakes: list[Mistake] = field(default_factory=list)
    notes: list[PlanNote] = field(default_factory=list)

    def mistake(self, text: str, where: Where | None, hint: str | None = None) -> None:
        """Something that keeps the profile from running."""
        self.mistakes.append(Mistake(text, where, hint))

    def note(self, code: str, text: str, where: Where | None, level: Level = "info") -> None:
        """Something to tell."""
        self.notes.append(PlanNote(code, text, where, level))


def check(profile: Profile) -> Findings:
    """Everything in a profile that cannot be run, and everything to be said about it."""
    findings = Findings()
    for span in profile.time_spans:
        _check_span(span, findings, is_run=not profile.profile_only)
    findings.mistakes = list(dict.fromkeys(findings.mistakes))
    findings.notes = list(dict.fromkeys(findings.notes))
    return findings


def _check_span(span: TimeSpan, findings: Findings, *, is_run: bool) -> None:
    if span.affinity_disabled and span.affinity:
        findings.mistake("-n and -a exclude one another", span.where("affinity", "affinity_disabled"), "keep one")
    if not span.duration_s:
        findings.mistake("-d0 measures nothing", span.where("duration_s", "time_span"), "measure 1 s or longer")
    if span.requests and not span.threads:
        text = "-O has no effect without -F: DiskSpd takes -o then"
        findings.note("no_effect", text, span.where("requests"), "warning")
    for target in span.targets:
        for text, fields, hint in _conflicts(span, target):
            findings.mistake(text, target.where(*fields) or span.where(*fields) or target.where("target"), hint)
        for text, fields, hint in _distribution(target):
            findings.mistake(text, target.where(*fields, "Distribution", "target"), hint)
        if is_run and target.path.startswith(TEMPLATE_PREFIX):
            text = f"nothing replaces the template target {target.path}"
            findings.mistake(
                text, target.where("path"), "name targets on the command line, as in -Xprofile.xml file.dat"
            )
        _warn(span, target, findings)


_Conflict = tuple[str, Sequence[str], str | None]
"""What is wrong, the fields that say it, what to do."""


def _conflicts(span: TimeSpan, target: Target) -> Iterator[_Conflict]:
    many = span.threads > 1 or target.threads > 1
    if span.threads and target.threads > 1:
        yield "-F and -t exclude one another", ("threads",), "-F counts all threads, -t those of each target: keep one"
    if target.is_paced and span.completion_routines:
        yield "-g cannot be together with -x", ("bytes_per_ms", "iops", "completion_routines"), "leave out -x"
    if bool(target.burst) != bool(target.think_ms):
        text = "a burst needs a pause after it: -i and -j go together"
        yield text, ("burst", "think_ms"), "-i100 -j10 pauses for 10 ms after 100 operations"
    yield from _pool(span, target)
    yield from _order(target, many=many)
    yield from _caching(span, target)
    if target.end_bytes and target.end_bytes <= target.base_bytes:
        text = f"the end of the region (-f, {target.end_bytes}) must be behind its base (-B, {target.base_bytes})"
        yield text, ("end_bytes",), None
    if 0 < target.buffer_bytes < target.block_bytes:
        text = f"the write buffer (-Z, {target.buffer_bytes} bytes) is smaller than a block (-b, {target.block_bytes})"
        yield text, ("buffer_bytes",), None


def _pool(span: TimeSpan, target: Target) -> Iterator[_Conflict]:
    if not span.shares_requests:
        if target.thread_weights:
            text = "<ThreadTargets> need a <ThreadCount> and a <RequestCount> of the time span"
            yield text, ("ThreadTargets",), None
        return
    for is_said, flag, fields in (
        (target.is_paced, "-g", ("bytes_per_ms", "iops", "Throughput")),
        (bool(target.think_ms), "-j", ("think_ms",)),
        (target.parallel, "-p", ("parallel",)),
    ):
        if is_said:
            yield f"{flag} cannot be together with -O", fields, "say the operations in flight with -o"
    if not target.weight:
        yield "the weight of a target must be above 0", ("weight",), None
    if any(thread >= span.threads for thread, _ in target.thread_weights):
        yield f"there are {span.threads} threads, numbered from 0", ("ThreadTargets",), None


def _order(target: Target, *, many: bool) -> Iterator[_Conflict]:
    stride = target.thread_stride_bytes
    if target.random_percent:
        for is_said, flag, fields in (
            (stride, "-T", ("thread_stride_bytes",)),
            (target.interlocked, "-si", ("interlocked",)),
            (target.parallel, "-p", ("parallel",)),
        ):
            if is_said:
                yield f"{flag} conflicts with random I/O (-r, -rs)", fields, f"leave out {flag}, or -r"
        return
    if target.spans:
        yield "-rd needs random I/O", ("spans", "Distribution"), "add -r"
    if target.interlocked:
        for is_said, flag, fields in (
            (stride, "-T", ("thread_stride_bytes",)),
            (target.parallel, "-p", ("parallel",)),
        ):
            if is_said:
                yield f"-si and {flag} exclude one another", fields, "keep one"
    elif stride and not many:
        text = "-T has no effect on one thread, and DiskSpd refuses it"
        yield text, ("thread_stride_bytes",), "add -t or -F with more than one thread, or leave out -T"


def _caching(span: TimeSpan, target: Target) -> Iterator[_Conflict]:
    if target.memory_mapped:
        if span.completion_routines:
            yield "-x cannot be together with memory-mapped I/O (-Sm)", ("completion_routines",), "leave out -x"
        if target.cache == "disabled":
            yield "memory-mapped I/O (-Sm) goes through the cache: -Su and -Sh exclude it", ("memory_mapped",), None
    elif target.flush:
        yield "-N is for memory-mapped I/O", ("flush",), "add -Sm"
    if target.cache != "disabled" or target.memory_mapped:
        return
    for value, flag, fields in (
        (target.block_bytes, "-b", ("block_bytes",)),
        (target.base_bytes, "-B", ("base_bytes",)),
        (target.alignment_bytes, "-r or -s", ("alignment_bytes",)),
        (target.thread_stride_bytes, "-T", ("thread_stride_bytes",)),
    ):
        if value % SECTOR_BYTES:
            text = f"{flag} ({value} bytes) is not a multiple of {SECTOR_BYTES}, as unbuffered I/O (-Su, -Sh) needs it"
            yield text, (*fields, "cache"), None


def _distribution(target: Target) -> Iterator[_Conflict]:
    operations, length = 0, 0
    for number, span in enumerate(target.spans, start=1):
        is_open_end = not span.length and number == len(target.spans)
        if target.distribution == "Absolute" and span.length < target.block_bytes and not is_open_end:
            text = f"-rd: a part of {span.length} bytes is smaller than a block (-b, {target.block_bytes} bytes)"
            yield text, ("spans",), None
            return
        operations, length = operations + span.io_percent, length + span.length
        if operations > 100:
            yield f"-rd: the parts get {operations} % of the operations; there are 100", ("spans",), None
            return
        if target.distribution == "Percent" and (length > 100 or (length == 100 and operations < 100)):
            text = f"-rd: {length} % of the target are taken, with {operations} % of the operations"
            yield text, ("spans",), "each must come to 100, and the target not before the operations"
            return
    if target.spans and target.distribution == "Percent" and length != 100:
        text = f"-rd: all operations are taken, but only {length} % of the target"
        yield text, ("spans",), "add a part without operations, such as :0/10, or give the last one the rest"


def _warn(span: TimeSpan, target: Target, findings: Findings) -> None:
    many = span.threads > 1 or target.threads > 1
    if target.random_percent:
        return
    if target.parallel and target.requests == 1:
        text = "-p has no effect on one operation at a time; add -o2 or more"
        findings.note("no_effect", text, target.where("parallel"), "warning")
    if target.interlocked and not many:
        findings.note("no_effect", "-si has no effect on one thread", target.where("interlocked"), "warning")
    elif many and not target.interlocked and not target.thread_stride_bytes:
        text = "each thread goes through the target by itself; -si shares one position, -T sets their starts apart"
        findings.note("side_by_side", text, target.where("threads") or span.where("threads"))

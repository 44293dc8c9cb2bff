"""DiskSpd's rules on options that exclude each other, and DiskSpd's warnings.

Notes are on flags that Linux maps, ignores, or gives an unexpected meaning.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from iocurve.dialects.diskspd.read.profile import TEMPLATE_PREFIX, Profile, TargetParameters, TimeSpan
from iocurve.foundation.errors import Diagnostic, Where
from iocurve.job.model import Level, PlanNote

SECTOR_BYTES = 512
"""Offset and length of unbuffered I/O must be multiples of it."""


class Findings(msgspec.Struct):
    """Errors and notes about a profile."""

    errors: list[Diagnostic] = msgspec.field(default_factory=list)
    notes: list[PlanNote] = msgspec.field(default_factory=list)

    def error(self, text: str, where: Where | None, hint: str | None = None) -> None:
        """Adds an error; the profile cannot run."""
        self.errors.append(Diagnostic(text, where, hint))

    def note(self, code: str, text: str, where: Where | None, level: Level = "info") -> None:
        """Adds a note."""
        self.notes.append(PlanNote(code, text, where, level))


def check(profile: Profile) -> Findings:
    """Returns all errors and notes of a profile."""
    findings = Findings()
    for span in profile.time_spans:
        _check_span(span, findings, is_run=not profile.profile_only)
    findings.errors = list(dict.fromkeys(findings.errors))
    findings.notes = list(dict.fromkeys(findings.notes))
    return findings


def _check_span(span: TimeSpan, findings: Findings, *, is_run: bool) -> None:
    if span.affinity_disabled and span.affinity:
        findings.error("-n and -a exclude each other", span.where("affinity", "affinity_disabled"), "keep one")
    if not span.duration_s:
        findings.error("-d0 leaves no measured time", span.where("duration_s", "time_span"), "measure 1 s or longer")
    if span.requests and not span.threads:
        text = "-O has no effect without -F: DiskSpd then uses -o"
        findings.note("no_effect", text, span.where("requests"), "warning")
    for target in span.targets:
        for text, fields, hint in _conflicts(span, target):
            findings.error(text, target.where(*fields) or span.where(*fields) or target.where("target"), hint)
        for text, fields, hint in _distribution(target):
            findings.error(text, target.where(*fields, "Distribution", "target"), hint)
        if is_run and target.path.startswith(TEMPLATE_PREFIX):
            text = f"no target replaces the template {target.path}"
            findings.error(
                text, target.where("path"), "add the targets to the command line, as in -Xprofile.xml file.dat"
            )
        _warn(span, target, findings)


_Conflict = tuple[str, Sequence[str], str | None]
"""Message, names of the fields in conflict, hint."""


def _conflicts(span: TimeSpan, target: TargetParameters) -> Iterator[_Conflict]:
    many = span.threads > 1 or target.threads > 1
    if span.threads and target.threads > 1:
        yield (
            "-F and -t exclude each other",
            ("threads",),
            "-F is the total number of threads, -t the number per target: keep one",
        )
    if target.is_paced and span.completion_routines:
        yield "-g cannot be combined with -x", ("bytes_per_ms", "iops", "completion_routines"), "remove -x"
    if bool(target.burst) != bool(target.think_ms):
        text = "-i (burst) and -j (think time) need each other"
        yield text, ("burst", "think_ms"), "-i100 -j10 pauses for 10 ms after 100 operations"
    yield from _pool(span, target)
    yield from _order(target, many=many)
    yield from _caching(span, target)
    if target.end_bytes and target.end_bytes <= target.base_bytes:
        text = f"the end of the region (-f, {target.end_bytes}) must be above its base offset (-B, {target.base_bytes})"
        yield text, ("end_bytes",), None
    if 0 < target.buffer_bytes < target.block_bytes:
        text = f"the write buffer (-Z, {target.buffer_bytes} bytes) is smaller than a block (-b, {target.block_bytes})"
        yield text, ("buffer_bytes",), None


def _pool(span: TimeSpan, target: TargetParameters) -> Iterator[_Conflict]:
    if not span.shares_requests:
        if target.thread_weights:
            text = "<ThreadTargets> need a <ThreadCount> and a <RequestCount> of the time span"
            yield text, ("ThreadTargets",), None
        return
    for is_set, flag, fields in (
        (target.is_paced, "-g", ("bytes_per_ms", "iops", "Throughput")),
        (bool(target.think_ms), "-j", ("think_ms",)),
        (target.parallel, "-p", ("parallel",)),
    ):
        if is_set:
            yield f"{flag} cannot be combined with -O", fields, "set the queue depth with -o"
    if not target.weight:
        yield "the weight of a target must be above 0", ("weight",), None
    if any(thread >= span.threads for thread, _ in target.thread_weights):
        yield f"there are {span.threads} threads, numbered from 0", ("ThreadTargets",), None


def _order(target: TargetParameters, *, many: bool) -> Iterator[_Conflict]:
    stride = target.thread_stride_bytes
    if target.random_percent:
        for is_set, flag, fields in (
            (stride, "-T", ("thread_stride_bytes",)),
            (target.interlocked, "-si", ("interlocked",)),
            (target.parallel, "-p", ("parallel",)),
        ):
            if is_set:
                yield f"{flag} conflicts with random I/O (-r, -rs)", fields, f"remove {flag} or -r"
        return
    if target.spans:
        yield "-rd needs random I/O", ("spans", "Distribution"), "add -r"
    if target.interlocked:
        for is_set, flag, fields in ((stride, "-T", ("thread_stride_bytes",)), (target.parallel, "-p", ("parallel",))):
            if is_set:
                yield f"-si and {flag} exclude each other", fields, "keep one"
    elif stride and not many:
        text = "-T has no effect on one thread, and DiskSpd refuses it"
        yield text, ("thread_stride_bytes",), "add -t or -F with more than one thread, or remove -T"


def _caching(span: TimeSpan, target: TargetParameters) -> Iterator[_Conflict]:
    if target.memory_mapped:
        if span.completion_routines:
            yield "-x cannot be combined with memory-mapped I/O (-Sm)", ("completion_routines",), "remove -x"
        if target.cache == "disabled":
            yield "memory-mapped I/O (-Sm) uses the page cache and excludes -Su and -Sh", ("memory_mapped",), None
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
            text = f"{flag} ({value} bytes) is not a multiple of {SECTOR_BYTES}; unbuffered I/O (-Su, -Sh) requires it"
            yield text, (*fields, "cache"), None


def _distribution(target: TargetParameters) -> Iterator[_Conflict]:
    operations, length = 0, 0
    for number, span in enumerate(target.spans, start=1):
        is_open_end = not span.length and number == len(target.spans)
        if target.distribution == "Absolute" and span.length < target.block_bytes and not is_open_end:
            text = f"-rd: a part of {span.length} bytes is smaller than a block (-b, {target.block_bytes} bytes)"
            yield text, ("spans",), None
            return
        operations, length = operations + span.io_percent, length + span.length
        if operations > 100:
            yield f"-rd: the shares of the operations add up to {operations} %, more than 100 %", ("spans",), None
            return
        if target.distribution == "Percent" and (length > 100 or (length == 100 and operations < 100)):
            text = f"-rd: the parts cover {length} % of the target with {operations} % of the operations"
            yield text, ("spans",), "both must add up to 100 %, and the target not before the operations"
            return
    if target.spans and target.distribution == "Percent" and length != 100:
        text = f"-rd: the parts have all operations but cover only {length} % of the target"
        yield text, ("spans",), "add a part without operations, such as :0/10, or give the last one the rest"


def _warn(span: TimeSpan, target: TargetParameters, findings: Findings) -> None:
    many = span.threads > 1 or target.threads > 1
    if target.random_percent:
        return
    if target.parallel and target.requests == 1:
        text = "-p has no effect with a queue depth of 1; add -o2 or more"
        findings.note("no_effect", text, target.where("parallel"), "warning")
    if target.interlocked and not many:
        findings.note("no_effect", "-si has no effect on one thread", target.where("interlocked"), "warning")
    elif many and not target.interlocked and not target.thread_stride_bytes:
        text = "every thread accesses the whole target from its start; -si shares one position, -T spreads the starts"
        findings.note("side_by_side", text, target.where("threads") or span.where("threads"))


def linux_notes(profile: Profile) -> list[PlanNote]:
    """The notes that apply to a profile, without duplicates."""
    return list(dict.fromkeys(_all(profile)))


def _all(profile: Profile) -> Iterator[PlanNote]:
    yield from _of_profile(profile)
    for span in profile.time_spans:
        yield from _of_span(span)
        for target in span.targets:
            yield from _linux_caching(target)
            yield from _without_effect(target)
            if target.weight != 1 and not span.shares_requests:
                text = "<Weight> has no effect without a <ThreadCount> and a <RequestCount> of the time span"
                yield PlanNote("no_effect", text, target.where("weight"), "warning")
            yield from _load(span, target)


def _of_profile(profile: Profile) -> Iterator[PlanNote]:
    if profile.progress:
        text = f"-P{profile.progress}: progress appears on stderr every second, not as dots per number of operations"
        yield PlanNote("progress", text, profile.where("progress"))
    if profile.verbose_stats:
        text = "-vs has no effect: wait statistics belong to Windows' completion ports"
        yield PlanNote("no_effect", text, profile.where("verbose_stats"))
    if profile.experiment_flags:
        text = f"-:{profile.experiment_flags} has no effect: iocurve has none of DiskSpd's experiments"
        yield PlanNote("no_effect", text, profile.where("experiment_flags"))
    if profile.precreate_files and len(profile.time_spans) > 1:
        text = "<PrecreateFiles>: each time span creates its files just before it runs"
        yield PlanNote("precreate", text, profile.where("precreate_files"))


def _of_span(span: TimeSpan) -> Iterator[PlanNote]:
    if span.completion_routines:
        text = "-x has no effect: completion routines exist only on Windows; operations complete through io_uring"
        yield PlanNote("no_effect", text, span.where("completion_routines"))
    if not span.affinity_disabled and not span.affinity:
        text = "threads are bound to the processors round robin, as in DiskSpd; -n leaves them to the scheduler"
        yield PlanNote("affinity", text, None)


def _linux_caching(target: TargetParameters) -> Iterator[PlanNote]:
    where = target.where("cache", "write_through")
    if target.path.startswith("nfs://"):
        stability = (
            "stable when they complete" if target.write_through else "unstable: the server may hold them in memory"
        )
        writes = f"; writes are {stability}" if target.write_percent else ""
        yield PlanNote("caching", f"iocurve's NFS client has no cache{writes}", where)
        return
    if target.memory_mapped:
        return
    through = "O_DSYNC: a write is on stable storage when it completes"
    if target.cache == "local_disabled":
        text = "-Sr opens the files with O_DIRECT; in DiskSpd it affects only remote file systems"
        yield PlanNote("caching", text, where, "warning")
    elif target.cache == "disabled" and target.write_through:
        yield PlanNote("caching", f"-Sh opens the files with O_DIRECT (bypassing the page cache) and {through}", where)
    elif target.cache == "disabled":
        yield PlanNote("caching", "-Su opens the files with O_DIRECT, which bypasses the page cache", where)
    if target.write_through and target.cache != "disabled":
        yield PlanNote("caching", f"-Sw opens the files with {through}", where)


def _without_effect(target: TargetParameters) -> Iterator[PlanNote]:
    if target.random_hint or target.sequential_hint or target.temporary_hint:
        text = "access hints (-frst) have no effect: iocurve gives the page cache no advice"
        yield PlanNote("no_effect", text, target.where("random_hint", "sequential_hint", "temporary_hint"))
    if target.large_pages:
        text = "-l has no effect: buffers use pages of the normal size"
        yield PlanNote("no_effect", text, target.where("large_pages"))
    if target.io_priority != 3:
        text = f"-I{target.io_priority} has no effect: all operations have normal priority"
        yield PlanNote("no_effect", text, target.where("io_priority"), "warning")
    if target.flush and not target.write_percent:
        yield PlanNote("no_effect", "-N has no effect without writes", target.where("flush"))
    elif target.flush:
        text = f"-N ({target.flush}) runs as msync after each write"
        yield PlanNote("flush", text, target.where("flush"))


def _load(span: TimeSpan, target: TargetParameters) -> Iterator[PlanNote]:
    mixed = 0 < target.write_percent < 100
    if mixed and 0 < target.random_percent < 100:
        text = "-rs with -w: each operation is a read or a write at random; in DiskSpd a sequential run has one kind"
        yield PlanNote("mixed_runs", text, target.where("random_percent"))
    where = span.where("seed")
    is_new_seed = where is not None and where.option is not None and where.option[1:] == "z"
    if target.random_percent and target.write_percent < 100 and not is_new_seed:
        text = (
            f"every run with seed {span.seed} visits the same blocks in the same order: a second run may be answered "
            "from a cache; -z takes a new seed in every run"
        )
        yield PlanNote("offsets_repeat", text, where or target.where("random_percent"), "warning")
    if target.parallel:
        text = f"-p: each of the {target.requests} operations in flight of a thread runs as a separate worker"
        yield PlanNote("parallel", text, target.where("parallel"))
    if target.burst and target.is_paced:
        text = "-i and -j have no effect with -g, as in DiskSpd"
        yield PlanNote("no_effect", text, target.where("burst", "think_ms"), "warning")
    elif target.burst and max(span.threads, target.threads) > 1:
        text = f"-i{target.burst} counts the operations of all threads: each thread pauses after its share"
        yield PlanNote("burst_of_all", text, target.where("burst"))

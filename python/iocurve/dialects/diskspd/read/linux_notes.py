"""Notes on DiskSpd's flags on Linux: flags that are mapped, have no effect, or mean something unexpected."""

from __future__ import annotations

from collections.abc import Iterator

from iocurve.dialects.diskspd.read.profile import Profile, TargetParameters, TimeSpan
from iocurve.foundation.errors import Where
from iocurve.job.model import Level, PlanNote


def linux_notes(profile: Profile) -> list[PlanNote]:
    """The notes that apply to a profile, without duplicates."""
    notes = [PlanNote(code, text, where, level) for code, text, where, level in _all(profile)]
    return list(dict.fromkeys(notes))


_Note = tuple[str, str, Where | None, Level]


def _all(profile: Profile) -> Iterator[_Note]:
    yield from _of_profile(profile)
    for span in profile.time_spans:
        yield from _of_span(span)
        for target in span.targets:
            yield from _caching(target)
            yield from _without_effect(target)
            if target.weight != 1 and not span.shares_requests:
                text = "<Weight> has no effect without a <ThreadCount> and a <RequestCount> of the time span"
                yield "no_effect", text, target.where("weight"), "warning"
            yield from _load(span, target)


def _of_profile(profile: Profile) -> Iterator[_Note]:
    if profile.progress:
        text = f"-P{profile.progress}: progress appears on stderr every second, not as dots per number of operations"
        yield "progress", text, profile.positions.get("progress"), "info"
    if profile.verbose_stats:
        text = "-vs has no effect: wait statistics belong to Windows' completion ports"
        yield "no_effect", text, profile.positions.get("verbose_stats"), "info"
    if profile.experiment_flags:
        text = f"-:{profile.experiment_flags} has no effect: iocurve has none of DiskSpd's experiments"
        yield "no_effect", text, profile.positions.get("experiment_flags"), "info"
    if profile.precreate_files and len(profile.time_spans) > 1:
        text = "<PrecreateFiles>: each time span creates its files just before it runs"
        yield "precreate", text, profile.positions.get("precreate_files"), "info"


def _of_span(span: TimeSpan) -> Iterator[_Note]:
    if span.completion_routines:
        text = "-x has no effect: completion routines exist only on Windows; operations complete through io_uring"
        yield "no_effect", text, span.where("completion_routines"), "info"
    if not span.affinity_disabled and not span.affinity:
        text = "threads are bound to the processors round robin, as in DiskSpd; -n leaves them to the scheduler"
        yield "affinity", text, None, "info"


def _caching(target: TargetParameters) -> Iterator[_Note]:
    where = target.where("cache", "write_through")
    if target.path.startswith("nfs://"):
        stability = (
            "stable when they complete" if target.write_through else "unstable: the server may hold them in memory"
        )
        writes = f"; writes are {stability}" if target.write_percent else ""
        yield "caching", f"iocurve's NFS client has no cache{writes}", where, "info"
        return
    if target.memory_mapped:
        return
    through = "O_DSYNC: a write is on stable storage when it completes"
    if target.cache == "local_disabled":
        text = "-Sr opens the files with O_DIRECT; in DiskSpd it affects only remote file systems"
        yield "caching", text, where, "warning"
    elif target.cache == "disabled" and target.write_through:
        yield "caching", f"-Sh opens the files with O_DIRECT (bypassing the page cache) and {through}", where, "info"
    elif target.cache == "disabled":
        yield "caching", "-Su opens the files with O_DIRECT, which bypasses the page cache", where, "info"
    if target.write_through and target.cache != "disabled":
        yield "caching", f"-Sw opens the files with {through}", where, "info"


def _without_effect(target: TargetParameters) -> Iterator[_Note]:
    if target.random_hint or target.sequential_hint or target.temporary_hint:
        text = "access hints (-frst) have no effect: iocurve gives the page cache no advice"
        yield "no_effect", text, target.where("random_hint", "sequential_hint", "temporary_hint"), "info"
    if target.large_pages:
        text = "-l has no effect: buffers use pages of the normal size"
        yield "no_effect", text, target.where("large_pages"), "info"
    if target.io_priority != 3:
        text = f"-I{target.io_priority} has no effect: all operations have normal priority"
        yield "no_effect", text, target.where("io_priority"), "warning"
    if target.flush and not target.write_percent:
        yield "no_effect", "-N has no effect without writes", target.where("flush"), "info"
    elif target.flush:
        text = f"-N ({target.flush}) runs as msync after each write"
        yield "flush", text, target.where("flush"), "info"


def _load(span: TimeSpan, target: TargetParameters) -> Iterator[_Note]:
    mixed = 0 < target.write_percent < 100
    if mixed and 0 < target.random_percent < 100:
        text = "-rs with -w: each operation is a read or a write at random; in DiskSpd a sequential run has one kind"
        yield "mixed_runs", text, target.where("random_percent"), "info"
    if target.random_percent and target.write_percent < 100:
        text = (
            f"every run with seed {span.seed} visits the same blocks in the same order: a second run may be answered "
            "from a cache; -z takes a new seed in every run"
        )
        yield "offsets_repeat", text, span.where("seed") or target.where("random_percent"), "warning"
    if target.parallel:
        text = f"-p: each of the {target.requests} operations in flight of a thread runs as a separate worker"
        yield "parallel", text, target.where("parallel"), "info"
    if target.burst and target.is_paced:
        text = "-i and -j have no effect with -g, as in DiskSpd"
        yield "no_effect", text, target.where("burst", "think_ms"), "warning"
    elif target.burst and max(span.threads, target.threads) > 1:
        text = f"-i{target.burst} counts the operations of all threads: each thread pauses after its share"
        yield "burst_of_all", text, target.where("burst"), "info"

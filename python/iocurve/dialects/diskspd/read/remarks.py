"""What DiskSpd's words come to on Linux: what is mapped, what has no effect, what is not what one may think."""

from __future__ import annotations

from collections.abc import Iterator

from iocurve.dialects.diskspd.read.profile import Profile, Target, TimeSpan
from iocurve.errors import Where
from iocurve.job.model import Level, PlanNote


def remarks(profile: Profile) -> list[PlanNote]:
    """Those that apply, each once."""
    notes = [PlanNote(code, text, where, level) for code, text, where, level in _all(profile)]
    return list(dict.fromkeys(notes))


_Remark = tuple[str, str, Where | None, Level]


def _all(profile: Profile) -> Iterator[_Remark]:
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


def _of_profile(profile: Profile) -> Iterator[_Remark]:
    if profile.progress:
        text = f"-P{profile.progress}: progress is shown on stderr every second, not as a dot for so many operations"
        yield "progress", text, profile.said.get("progress"), "info"
    if profile.verbose_stats:
        text = "-vs has no effect: wait statistics are those of Windows' completion ports"
        yield "no_effect", text, profile.said.get("verbose_stats"), "info"
    if profile.experiment_flags:
        text = f"-:{profile.experiment_flags} has no effect: rates are exact without DiskSpd's experiments"
        yield "no_effect", text, profile.said.get("experiment_flags"), "info"
    if profile.precreate_files and len(profile.time_spans) > 1:
        text = "<PrecreateFiles>: each time span makes its files right before it runs"
        yield "precreate", text, profile.said.get("precreate_files"), "info"


def _of_span(span: TimeSpan) -> Iterator[_Remark]:
    if span.completion_routines:
        text = "-x has no effect: completion routines are Windows'; operations complete through io_uring"
        yield "no_effect", text, span.where("completion_routines"), "info"
    if not span.affinity_disabled and not span.affinity:
        text = "threads are bound to the processors in turn, as in DiskSpd; -n leaves them to the scheduler"
        yield "affinity", text, None, "info"


def _caching(target: Target) -> Iterator[_Remark]:
    where = target.where("cache", "write_through")
    if target.path.startswith("nfs://"):
        stable = "stable when they complete" if target.write_through else "unstable: the server may hold them in memory"
        writes = f"; writes are {stable}" if target.write_percent else ""
        yield "caching", f"iocurve's NFS client has no cache{writes}", where, "info"
        return
    if target.memory_mapped:
        return
    through = "O_DSYNC: a write is on stable storage when it completes"
    if target.cache == "local_disabled":
        text = "-Sr opens the files with O_DIRECT; DiskSpd takes it on remote file systems only"
        yield "caching", text, where, "warning"
    elif target.cache == "disabled" and target.write_through:
        yield "caching", f"-Sh opens the files with O_DIRECT (past the page cache) and {through}", where, "info"
    elif target.cache == "disabled":
        yield "caching", "-Su opens the files with O_DIRECT: past the page cache", where, "info"
    if target.write_through and target.cache != "disabled":
        yield "caching", f"-Sw opens the files with {through}", where, "info"


def _without_effect(target: Target) -> Iterator[_Remark]:
    if target.random_hint or target.sequential_hint or target.temporary_hint:
        text = "access hints (-frst) have no effect: the page cache is left as it is"
        yield "no_effect", text, target.where("random_hint", "sequential_hint", "temporary_hint"), "info"
    if target.large_pages:
        text = "-l has no effect: buffers are in pages of the usual size"
        yield "no_effect", text, target.where("large_pages"), "info"
    if target.io_priority != 3:
        text = f"-I{target.io_priority} has no effect: all operations have the usual priority"
        yield "no_effect", text, target.where("io_priority"), "warning"
    if target.flush and not target.write_percent:
        yield "no_effect", "-N has no effect without writes", target.where("flush"), "info"
    elif target.flush:
        text = f"-N ({target.flush}) runs as msync after each write"
        yield "flush", text, target.where("flush"), "info"


def _load(span: TimeSpan, target: Target) -> Iterator[_Remark]:
    mixed = 0 < target.write_percent < 100
    if mixed and 0 < target.random_percent < 100:
        text = "-rs with -w: each operation reads or writes by chance; in DiskSpd a sequential run does one of the two"
        yield "mixed_runs", text, target.where("random_percent"), "info"
    if target.random_percent and target.write_percent < 100:
        text = (
            f"every run with seed {span.seed} visits the same blocks in the same order: a second run may be answered "
            "by caches; -z takes another seed in every run"
        )
        yield "offsets_repeat", text, span.where("seed") or target.where("random_percent"), "warning"
    if target.parallel:
        text = f"-p: each of the {target.requests} operations in flight of a thread runs as a worker of its own"
        yield "parallel", text, target.where("parallel"), "info"
    if target.burst and target.is_paced:
        text = "-i and -j have no effect with -g: DiskSpd passes over them"
        yield "no_effect", text, target.where("burst", "think_ms"), "warning"
    elif target.burst and max(span.threads, target.threads) > 1:
        text = f"-i{target.burst} counts the operations of all threads: each pauses after its part of them"
        yield "burst_of_all", text, target.where("burst"), "info"

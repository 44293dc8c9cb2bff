"""Warnings about jobs whose load may differ from the user's expectation, in the words of the job's dialect.

Each check takes one section and the workers made from it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from iocurve.engine import plan as planned
from iocurve.engine.derived import block_bytes_min
from iocurve.foundation.units import format_bytes
from iocurve.job.model import Level, PlanNote, Section, Words, paths_text
from iocurve.targets.nfs_url import parse_nfs_urls


class _Case(msgspec.Struct, frozen=True):
    words: Words
    section: Section
    workers: Sequence[planned.Worker]

    def option(self, field: str, value: object = None) -> str:
        return self.words.option(field, value)

    def note(self, code: str, text: str, *fields: str, level: Level = "info") -> PlanNote:
        return PlanNote(code, text, self.section.where(*fields), level)

    @property
    def each(self) -> str:
        """``4 jobs``."""
        return f"{len(self.workers)} {self.words.worker}s"


def warnings_of(words: Words, section: Section, workers: Sequence[planned.Worker]) -> list[PlanNote]:
    """All notes that apply to a section."""
    case = _Case(words, section, workers)
    notes = [note for check in _checks_of(section) if (note := check(case)) is not None]
    return [
        note
        for note in notes
        if note.code not in words.silent_about and (note.code not in _OF_ONE_DIALECT or note.code in words.warns_about)
    ]


def _checks_of(section: Section) -> Sequence[Callable[[_Case], PlanNote | None]]:
    """The checks that apply: most are about the reads and writes of a load."""
    if section.ending.only_lays_out:
        return (_only_lays_out,)
    moves_whole_files = section.load.metadata in ("read_file", "write_file")
    if moves_whole_files or (section.load.tasks is not None and section.load.task_shares):
        return (_page_cache,)
    is_of_data = section.load.metadata is None and section.load.tree is None and section.load.tasks is None
    return _CHECKS if is_of_data else (_ends_after_size,)


def _only_lays_out(case: _Case) -> PlanNote | None:
    text = f"{case.option('only_lays_out', 1)}: the files are laid out, and nothing is measured"
    return case.note("only_lays_out", text, "only_lays_out")


def _engine_mapped(case: _Case) -> PlanNote | None:
    if case.section.target.engine_asked is None:
        return None
    runs = {
        "sync": "pread and pwrite, one at a time",
        "aio": "Linux native AIO",
        "uring": "io_uring with registered files and buffers",
        "mmap": "copies from and to mapped files, one at a time",
        "nfs": "iocurve's own NFS client",
        "null": "no I/O: the cost of the loop itself",
    }
    target = case.section.target
    runs_as = f"{target.space_call}, one at a time" if target.space_call else runs[target.engine]
    text = f"{case.option('engine', target.engine_asked)} runs as {runs_as}"
    return case.note("engine", text, "engine")


def _depth_capped(case: _Case) -> PlanNote | None:
    section = case.section
    if section.target.engine not in ("sync", "mmap") or section.pace.depth == 1:
        return None
    engine = section.target.engine_asked or section.target.engine
    text = (
        f"{case.option('depth', section.pace.depth)} has no effect: "
        f"{case.option('engine', engine)} does one operation at a time"
    )
    return case.note("depth_capped", text, "depth", "engine", level="warning")


def _page_cache(case: _Case) -> PlanNote | None:
    section = case.section
    if section.target.direct or section.target.engine in ("null", "nfs"):
        return None
    direct = case.words.asks.get("direct")
    without = f"without {direct} " if direct else ""
    text = f"{without}I/O goes through the page cache: the figures may be those of memory"
    if section.target.engine == "aio" and section.pace.depth > 1:
        text = (
            f"{section.target.engine_asked or 'Linux native AIO'} {without}blocks on "
            "submission: the queue depth stays near 1, and I/O goes through the page cache"
        )
    return case.note("page_cache", text, "direct", "engine", level="warning")


def _ends_after_size(case: _Case) -> PlanNote | None:
    section = case.section
    if section.ending.time_based and not section.ending.runtime_ns:
        word = case.option("time_based")
        text = f"{word} without a runtime has no effect: each worker ends when its size is transferred"
        return case.note("time_based_without_runtime", text, "time_based", level="warning")
    if section.ending.time_based or not section.ending.runtime_ns:
        return None
    text = (
        f"{case.option('runtime_ns')} is only a limit: without {case.option('time_based')} a worker ends as soon as "
        "its size is transferred"
    )
    return case.note("runtime_caps", text, "runtime_ns", level="warning")


def _ramp(case: _Case) -> PlanNote | None:
    if not case.section.ending.ramp_ns:
        return None
    text = f"{case.option('ramp_ns')} comes before the {case.option('runtime_ns')} and is not part of it"
    return case.note("ramp_added", text, "ramp_ns")


def _mix_lost(case: _Case) -> PlanNote | None:
    section = case.section
    if not (section.load.reads and section.load.writes) or not _is_paced(case.workers):
        return None
    text = f"under a rate each direction is paced by itself: the mix of {section.load.read_percent:g} % reads is lost"
    return case.note("mix_lost", text, "read_percent", "rate_operations", "rate_bytes", level="warning")


def _rate_per_job(case: _Case) -> PlanNote | None:
    if not _is_paced(case.workers):
        return None
    workers = case.workers
    totals = [_rate_total(one.rate, one.kind, len(workers)) for one in workers[0].operations if one.rate]
    text = f"a rate applies per direction and per {case.words.worker}: {' and '.join(totals)} in all"
    return case.note("rate_per_job", text, "rate_operations", "rate_bytes")


def _rate_total(rate: planned.Rate, kind: str, workers: int) -> str:
    total = rate.count * workers
    if rate.unit == "operations":
        return f"{total:,} {kind}s per second"
    return f"{kind}s of {format_bytes(total)} per second"


def _size_per_job(case: _Case) -> PlanNote | None:
    section, workers = case.section, case.workers
    if len(workers) == 1:
        return None
    if section.files.paths:
        apart = section.files.offset_increment or section.load.start_increment_bytes or section.load.position == "job"
        text = f"all {case.each} share {paths_text(section.files.paths)}"
        is_trap = not section.load.random and not apart
        if is_trap:
            text += " and go through it in step, block by block: a cache may serve most of the I/O"
        return case.note("file_shared", text, "paths", level="warning" if is_trap else "info")
    total = sum(file.bytes for worker in workers for file in worker.files)
    text = (
        f"{case.option('size')} applies per {case.words.worker}: {case.each} have separate files, "
        f"{format_bytes(total)} in all"
    )
    return case.note("size_per_job", text, "size", "file_bytes", "numjobs")


def _connections_per_job(case: _Case) -> PlanNote | None:
    engine = case.workers[0].engine
    if not isinstance(engine, planned.NfsEngine) or engine.mount.nconnect == 1 or len(case.workers) == 1:
        return None
    said = parse_nfs_urls(case.section.target.nfs_url or "")[0].shared_mount
    if case.words.shares_mount if said is None else said:
        return None
    each, total = engine.mount.nconnect, engine.mount.nconnect * len(case.workers)
    text = (
        f"{case.option('nconnect')} applies per {case.words.worker}: {total} connections in all, where a kernel mount "
        f"has {each} (shared_mount=1 in the URL)"
    )
    return case.note("connections_per_job", text, "nconnect", "nfs_url")


def _addresses_in_turn(case: _Case) -> PlanNote | None:
    mounts = [worker.engine.mount.host for worker in case.workers if isinstance(worker.engine, planned.NfsEngine)]
    hosts = list(dict.fromkeys(mounts))
    if not hosts or len(parse_nfs_urls(case.section.target.nfs_url or "")) < 2:
        return None
    used = f"{case.words.worker}s use {len(hosts)} addresses of the server in turn, {hosts[0]} first"
    if len(hosts) > 1:
        return case.note("addresses_in_turn", used, "nfs_url")
    text = f"one {case.words.worker} uses one address, {hosts[0]}: {case.option('numjobs')} spreads the load"
    return case.note("addresses_in_turn", text, "nfs_url", level="warning")


def _repeated_offsets(case: _Case) -> PlanNote | None:
    section = case.section
    repeats = section.load.random and section.load.reads and section.data.repeatable and section.data.seed is None
    if not repeats or section.target.engine == "null":
        return None
    text = (
        f"every run visits the same blocks in the same order ({case.words.asks['repeat']}): a second run may be "
        f"answered by caches; {case.words.asks['no repeat']} excludes that"
    )
    return case.note("offsets_repeat", text, "repeatable", "random", level="warning")


def _visits(case: _Case) -> PlanNote | None:
    section = case.section
    if not section.load.random:
        return None
    if section.load.cover == "independent":
        said = f"{case.option('cover')}: " if "cover" in case.section.positions else ""
        text = f"{said}offsets are drawn independently, so some blocks come twice and some never"
        return case.note("offsets_independent", text, "cover", "random")
    return case.note("offsets_once", "each block is visited once per pass, in random order", "random")


def _payload_repeats(case: _Case) -> PlanNote | None:
    section = case.section
    if not section.load.writes or section.data.payload_refill or section.target.engine == "null":
        return None
    if isinstance(case.workers[0].payload.content, planned.ZeroContent):
        text = "zeros are written: volumes that compress or skip zeros will look fast"
        return case.note("payload_zero", text, "payload_zero", level="warning")
    said = case.words.asks.get("keep buffers")
    how = f" ({said})" if said else ""
    text = f"written data repeat between operations{how}: volumes that deduplicate may look fast"
    return case.note("payload_repeats", text, "payload_refill", "writes")


def _cpus_not_bound(case: _Case) -> PlanNote | None:
    if len(case.section.cpus) < 2 or case.section.cpus_split:
        return None
    text = (
        f"{case.option('cpus')} with several processors leaves the choice to the scheduler; "
        f"{case.option('cpus_split', 'split')} binds"
    )
    return case.note("cpus_not_bound", text, "cpus", level="warning")


def _block_misfit(case: _Case) -> PlanNote | None:
    blocks = [block_bytes_min(operation.blocks) for operation in case.workers[0].operations]
    left = [file.bytes % block for worker in case.workers for file in worker.files for block in blocks]
    if not any(left):
        return None
    text = f"the last {format_bytes(max(left))} of a file stay unused: its size is not a multiple of the block size"
    return case.note("block_misfit", text, "size", "file_bytes", "blocks")


_CHECKS: tuple[Callable[[_Case], PlanNote | None], ...] = (
    _engine_mapped,
    _depth_capped,
    _page_cache,
    _ends_after_size,
    _ramp,
    _mix_lost,
    _rate_per_job,
    _size_per_job,
    _connections_per_job,
    _addresses_in_turn,
    _visits,
    _repeated_offsets,
    _payload_repeats,
    _block_misfit,
    _cpus_not_bound,
)
_OF_ONE_DIALECT = frozenset({"cpus_not_bound"})
"""Codes of warnings that are given only if a dialect asks for them."""


def _is_paced(workers: Sequence[planned.Worker]) -> bool:
    return any(operation.rate for operation in workers[0].operations)

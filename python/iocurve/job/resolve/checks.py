"""The diagnostics of a job, and the checks that do not depend on its files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from iocurve.foundation.errors import Diagnostic, PlanError
from iocurve.foundation.units import MILLISECOND_NS, counted
from iocurve.job.model import Job, PlanNote, Section
from iocurve.job.resolve.machine import Machine


class Diagnostics(msgspec.Struct):
    """The diagnostics of one job. All are collected; none is raised."""

    job: Job
    errors: list[Diagnostic] = msgspec.field(default_factory=list)
    obstacles: list[Diagnostic] = msgspec.field(default_factory=list)
    notes: list[PlanNote] = msgspec.field(default_factory=list)
    directories: list[str] = msgspec.field(default_factory=list)

    def error(self, section: Section, text: str, fields: Sequence[str], hint: str | None = None) -> None:
        """Adds an error at the position of the first of ``fields`` that was set."""
        where = section.where(*fields, "name")
        self.errors.append(Diagnostic(f"{section.name or self.job.name}: {text}", where, hint))

    def option(self, field: str, value: object = None) -> str:
        """The option for a field, in the words of the job's dialect."""
        return self.job.words.option(field, value)


MAX_WORKERS = 4096
MAX_FILES = 1_000_000
SLOWEST_PER_S = 1e-6
"""The lowest rate above 0."""


def amounts(sections: Sequence[Section]) -> None:
    """Checks the numbers of workers and files before any are made. Raises ``PlanError``."""
    workers = max((sum(numbers) for numbers in _together(sections)), default=0)
    files = sum(section.numjobs * (len(section.files.paths) or section.files.file_count) for section in sections)
    if workers > MAX_WORKERS:
        raise PlanError([Diagnostic(f"{workers} workers are too many; {MAX_WORKERS} can run at once")])
    if files > MAX_FILES:
        raise PlanError([Diagnostic(f"{files} files are too many; {MAX_FILES} can be open at once")])


def _together(sections: Sequence[Section]) -> list[list[int]]:
    """Numbers of workers, grouped by the sections that run at the same time."""
    groups: list[list[int]] = [[]]
    for section in sections:
        if section.report.barrier:
            groups.append([])
        groups[-1].append(section.numjobs)
    return groups


def waits(sections: Sequence[Section], diagnostics: Diagnostics) -> None:
    """Checks that each job waits only for earlier jobs with unique names."""
    names = [section.name for section in sections]
    for index, section in enumerate(sections):
        word = diagnostics.option("wait_for")
        for name in section.ending.wait_for:
            text = None
            if name == section.name:
                text = f"{word} makes the job wait for itself"
            elif names.count(name) > 1:
                text = f"{word}: {names.count(name)} jobs are named '{name}'"
            elif name not in names:
                text = f"{word}: there is no job '{name}'"
            elif name not in names[:index]:
                text = f"{word}: '{name}' comes after this job"
            if text:
                diagnostics.error(section, text, ("wait_for",))


def section(section: Section, machine: Machine, diagnostics: Diagnostics) -> None:
    """Checks a section for settings that exclude each other or that this machine cannot fulfil."""
    if not section.load.kinds():
        text = "the job has no operations: neither reads nor writes nor trims"
        diagnostics.error(section, text, ("reads", "writes", "trims", "name"))
        return
    _rates(section, diagnostics)
    _growth(section, diagnostics)
    read_only(section, diagnostics)
    _trees(section, diagnostics)
    paths, sizes = section.files.paths, section.files.path_bytes
    if sizes is not None and (not sizes or len(sizes) != len(paths)):
        text = f"{diagnostics.option('path_bytes')} has {counted(len(sizes), 'size')} for {counted(len(paths), 'file')}"
        diagnostics.error(section, text, ("path_bytes",), "give one size for each path")
    smallest = section.load.smallest_block()
    if isinstance(section.files.size, int) and 0 < section.files.size < smallest:
        text = f"{diagnostics.option('size')} ({section.files.size} bytes) is smaller than one block ({smallest} bytes)"
        diagnostics.error(section, text, ("size", "blocks"))
    if section.load.zone_skip_bytes and not section.load.zone_bytes:
        text = f"{diagnostics.option('zone_skip_bytes')} needs {diagnostics.option('zone_bytes')}"
        diagnostics.error(section, text, ("zone_skip_bytes",))
    if section.ending.cooldown_ns and not section.ending.runtime_ns:
        text = f"{diagnostics.option('cooldown_ns')} needs {diagnostics.option('runtime_ns')}"
        diagnostics.error(section, text, ("cooldown_ns",))
    steady = section.ending.steady_state
    if steady and steady.check_ns % MILLISECOND_NS:
        text = f"{diagnostics.option('steady_state')}: the time between samples, {steady.check_ns} ns, is not whole ms"
        diagnostics.error(section, text, ("steady_state",))
    # The processors of agents are not those of this machine.
    unknown = sorted(set(section.cpus) - machine.cpus()) if not section.clients else []
    if unknown:
        text = f"processor {unknown[0]} does not exist, or this process may not use it"
        diagnostics.error(section, text, ("cpus",), f"available: {_ranges(sorted(machine.cpus()))}")


def _growth(section: Section, diagnostics: Diagnostics) -> None:
    if section.files.append and section.target.engine == "nfs":
        text = (
            f"{diagnostics.option('append')} is not supported over NFS: iocurve does not look up the length of a file"
        )
        diagnostics.error(section, text, ("append",), f"give an {diagnostics.option('offset')}")
    is_sized = section.files.size or section.files.file_bytes
    if section.target.engine == "mmap" and (
        section.files.create_on_open or (section.files.until_full and not is_sized)
    ):
        field = "create_on_open" if section.files.create_on_open else "until_full"
        diagnostics.error(section, f"{diagnostics.option(field)}: a mapped file cannot grow", (field,), "leave it out")
    if not section.files.until_full:
        return
    name = diagnostics.option("until_full")
    if section.load.reads:
        text = f"{name} is not supported in a job that reads: the layout before the run does not fill a device"
        diagnostics.error(section, text, ("until_full", "reads"), "fill the device with a write job before this one")
    elif section.target.engine == "null":
        diagnostics.error(section, f"{name}: the null engine does no I/O and never fills a device", ("until_full",))
    elif (section.load.random or section.data.verify) and not section.files.size and not section.files.file_bytes:
        what = "random offsets" if section.load.random else "verification"
        diagnostics.error(section, f"{name} with {what} needs {diagnostics.option('size')}", ("until_full", "random"))


def read_only(section: Section, diagnostics: Diagnostics) -> None:
    """Checks that a section which must not change files changes none."""
    if not section.files.read_only:
        return
    name = diagnostics.option("read_only")
    if section.load.changes_files or section.target.space_call:
        fields = ("writes", "trims", "engine", "name")
        diagnostics.error(section, f"this {diagnostics.job.words.worker} writes, which {name} forbids", fields)
    if section.files.unlink or section.files.recreate:
        field = "unlink" if section.files.unlink else "recreate"
        diagnostics.error(section, f"{diagnostics.option(field)} removes files, which {name} forbids", (field,))


def _trees(section: Section, diagnostics: Diagnostics) -> None:
    tree = section.load.tree
    if tree is None:
        return
    said = {"mix": tree.mix.values(), "sizes": [size.weight for size in tree.sizes]}
    for name in (name for name, shares in said.items() if not any(shares)):
        diagnostics.error(section, f"tree: {name} has no share above 0", ("tree", "name"))
    if len(section.files.paths) > 1:
        text = f"{diagnostics.option('paths')} of a tree is its root, and only one"
        diagnostics.error(section, text, ("paths",), "give each tree a job")
    if section.data.verify is None:
        return
    verify = section.data.verify
    counted_writes = verify.map
    if counted_writes is None or counted_writes.before_write or counted_writes.after_write or verify.only:
        text = "verification of a tree needs a map, and compares what is read, without further reads"
        hint = (
            'verify = { method = "crc32c", map = { paths = ["tree.map"], '
            "before_write = false, after_write = false, take_over = false } }"
        )
        diagnostics.error(section, f"verify: {text}", ("verify", "name"), hint)


def _rates(section: Section, diagnostics: Diagnostics) -> None:
    said = {
        "rate_operations": any(section.pace.rate_operations.values()),
        "rate_bytes": any(section.pace.rate_bytes.values()),
        "rate_total_operations": bool(section.pace.rate_total_operations),
        "rate_total_bytes": bool(section.pace.rate_total_bytes),
    }
    used = [name for name, is_used in said.items() if is_used]
    if len(used) > 1:
        text = f"{diagnostics.option(used[1])} and {diagnostics.option(used[0])} exclude one another"
        diagnostics.error(section, text, used, "keep one")
    if 0 < section.pace.rate_total_operations < SLOWEST_PER_S:
        name, period_s = diagnostics.option("rate_total_operations"), 1 / SLOWEST_PER_S
        text = f"{name}: the lowest rate is one operation in {period_s:,.0f} s"
        diagnostics.error(section, text, ("rate_total_operations",))


def _ranges(numbers: Sequence[int]) -> str:
    """``0-3, 6``."""
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in consecutive(numbers))


def consecutive(numbers: Iterable[int]) -> list[list[int]]:
    """Ascending numbers in runs without a gap."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return runs

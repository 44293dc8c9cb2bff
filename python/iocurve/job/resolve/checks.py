"""What cannot be planned, before files are looked at."""

from __future__ import annotations

from collections.abc import Sequence

from iocurve.errors import Mistake, PlanError
from iocurve.job.model import PerKind, Section
from iocurve.job.resolve.blocks import kinds, smallest_block
from iocurve.job.resolve.findings import Findings
from iocurve.job.resolve.machine import Machine
from iocurve.units import MILLISECOND_NS

MAX_WORKERS = 4096
MAX_FILES = 1_000_000
SLOWEST_PER_S = 1e-6
"""The lowest rate; one that is not 0."""


def amounts(sections: Sequence[Section]) -> None:
    """Before anything is built from them. Raises ``PlanError``."""
    workers = max((sum(clones) for clones in _together(sections)), default=0)
    files = sum(section.clones * (len(section.files.paths) or section.files.file_count) for section in sections)
    if workers > MAX_WORKERS:
        raise PlanError([Mistake(f"{workers} workers are too many; {MAX_WORKERS} can run at once")])
    if files > MAX_FILES:
        raise PlanError([Mistake(f"{files} files are too many; {MAX_FILES} can be open at once")])


def _together(sections: Sequence[Section]) -> list[list[int]]:
    """Clones of the sections that run at the same time."""
    groups: list[list[int]] = [[]]
    for section in sections:
        if section.report.barrier:
            groups.append([])
        groups[-1].append(section.clones)
    return groups


def waits(sections: Sequence[Section], findings: Findings) -> None:
    """Who waits for whom: for jobs that are there, once each, and come before."""
    names = [section.name for section in sections]
    for index, section in enumerate(sections):
        word = findings.option("wait_for")
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
                findings.mistake(section, text, ("wait_for",))


def section(section: Section, machine: Machine, findings: Findings) -> None:
    """What excludes one another in a section, or is not there on this machine."""
    if not kinds(section):
        text = "there is nothing to do: neither reads nor writes nor trims"
        findings.mistake(section, text, ("reads", "writes", "trims", "name"))
        return
    _rates(section, findings)
    _growth(section, findings)
    paths, sizes = section.files.paths, section.files.path_bytes
    if sizes is not None and len(sizes) != len(paths):
        text = f"{findings.option('path_bytes')} has {len(sizes)} sizes for {len(paths)} files"
        findings.mistake(section, text, ("path_bytes",), "give one for each of the paths")
    smallest = smallest_block(section)
    if isinstance(section.files.size, int) and 0 < section.files.size < smallest:
        text = f"{findings.option('size')} ({section.files.size} bytes) is smaller than one block ({smallest} bytes)"
        findings.mistake(section, text, ("size", "blocks"))
    if section.load.zone_skip_bytes and not section.load.zone_bytes:
        text = f"{findings.option('zone_skip_bytes')} needs {findings.option('zone_bytes')}"
        findings.mistake(section, text, ("zone_skip_bytes",))
    if section.ending.cooldown_ns and not section.ending.runtime_ns:
        text = f"{findings.option('cooldown_ns')} needs {findings.option('runtime_ns')}"
        findings.mistake(section, text, ("cooldown_ns",))
    steady = section.ending.steady_state
    if steady and steady.check_ns % MILLISECOND_NS:
        text = f"{findings.option('steady_state')}: samples every {steady.check_ns} ns are not whole ms"
        findings.mistake(section, text, ("steady_state",))
    unknown = sorted(set(section.cpus) - machine.cpus())
    if unknown:
        text = f"processor {unknown[0]} is not there, or not for this process"
        findings.mistake(section, text, ("cpus",), f"there are {_ranges(sorted(machine.cpus()))}")


def _growth(section: Section, findings: Findings) -> None:
    if section.files.append and section.target.engine == "nfs":
        text = f"{findings.option('append')} is not supported over NFS: how long a file is, is not looked up"
        findings.mistake(section, text, ("append",), f"give an {findings.option('offset')}")
    if not section.files.until_full:
        return
    name = findings.option("until_full")
    if section.load.reads:
        text = f"{name} is not supported where a job reads: files do not fill a device before the run"
        findings.mistake(section, text, ("until_full", "reads"), "fill it by a job that writes, before this one")
    elif section.target.engine == "null":
        findings.mistake(section, f"{name}: without I/O nothing is ever full", ("until_full",))
    elif (section.load.random or section.data.verify) and not section.files.size and not section.files.file_bytes:
        what = "random places" if section.load.random else "verification"
        findings.mistake(section, f"{name} with {what} needs {findings.option('size')}", ("until_full", "random"))


def _rates(section: Section, findings: Findings) -> None:
    said = {
        "rate_operations": any(_values(section.pace.rate_operations)),
        "rate_bytes": any(_values(section.pace.rate_bytes)),
        "rate_total_operations": bool(section.pace.rate_total_operations),
        "rate_total_bytes": bool(section.pace.rate_total_bytes),
    }
    used = [name for name, is_used in said.items() if is_used]
    if len(used) > 1:
        text = f"{findings.option(used[1])} and {findings.option(used[0])} exclude one another"
        findings.mistake(section, text, used, "keep one")
    if 0 < section.pace.rate_total_operations < SLOWEST_PER_S:
        text = f"{findings.option('rate_total_operations')}: one operation in {1 / SLOWEST_PER_S:,.0f} s is the slowest"
        findings.mistake(section, text, ("rate_total_operations",))


def _values(values: PerKind[int | None]) -> tuple[int | None, ...]:
    return values.read, values.write, values.trim


def _ranges(numbers: Sequence[int]) -> str:
    """``0-3, 6``."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)

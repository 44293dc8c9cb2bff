"""What cannot be planned, before files are looked at."""

from __future__ import annotations

from collections.abc import Sequence

from iocurve.errors import Mistake, PlanError
from iocurve.job.model import PerKind, Section, settled
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
    files = sum(
        settled(section.clones) * (len(section.paths or ()) or settled(section.file_count)) for section in sections
    )
    if workers > MAX_WORKERS:
        raise PlanError([Mistake(f"{workers} workers are too many; {MAX_WORKERS} can run at once")])
    if files > MAX_FILES:
        raise PlanError([Mistake(f"{files} files are too many; {MAX_FILES} can be open at once")])


def _together(sections: Sequence[Section]) -> list[list[int]]:
    """Clones of the sections that run at the same time."""
    groups: list[list[int]] = [[]]
    for section in sections:
        if section.barrier:
            groups.append([])
        groups[-1].append(settled(section.clones))
    return groups


def waits(sections: Sequence[Section], findings: Findings) -> None:
    """Who waits for whom: for jobs that are there, once each, and come before."""
    names = [section.name for section in sections]
    for index, section in enumerate(sections):
        word = findings.option("wait_for")
        for name in section.wait_for or ():
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
    if section.path_bytes is not None and len(section.path_bytes) != len(section.paths or ()):
        text = (
            f"{findings.option('path_bytes')} has {len(section.path_bytes)} sizes for {len(section.paths or ())} files"
        )
        findings.mistake(section, text, ("path_bytes",), "give one for each of the paths")
    smallest = smallest_block(section)
    if isinstance(section.size, int) and 0 < section.size < smallest:
        text = f"{findings.option('size')} ({section.size} bytes) is smaller than one block ({smallest} bytes)"
        findings.mistake(section, text, ("size", "blocks"))
    if section.zone_skip_bytes and not section.zone_bytes:
        text = f"{findings.option('zone_skip_bytes')} needs {findings.option('zone_bytes')}"
        findings.mistake(section, text, ("zone_skip_bytes",))
    if section.cooldown_ns and not section.runtime_ns:
        text = f"{findings.option('cooldown_ns')} needs {findings.option('runtime_ns')}"
        findings.mistake(section, text, ("cooldown_ns",))
    if section.steady_state and section.steady_state.check_ns % MILLISECOND_NS:
        text = f"{findings.option('steady_state')}: samples every {section.steady_state.check_ns} ns are not whole ms"
        findings.mistake(section, text, ("steady_state",))
    unknown = sorted(set(section.cpus or ()) - machine.cpus())
    if unknown:
        text = f"processor {unknown[0]} is not there, or not for this process"
        findings.mistake(section, text, ("cpus",), f"there are {_ranges(sorted(machine.cpus()))}")


def _growth(section: Section, findings: Findings) -> None:
    if section.append and section.engine == "nfs":
        text = f"{findings.option('append')} is not supported over NFS: how long a file is, is not looked up"
        findings.mistake(section, text, ("append",), f"give an {findings.option('offset')}")
    if not section.until_full:
        return
    name = findings.option("until_full")
    if section.reads:
        text = f"{name} is not supported where a job reads: files do not fill a device before the run"
        findings.mistake(section, text, ("until_full", "reads"), "fill it by a job that writes, before this one")
    elif section.engine == "null":
        findings.mistake(section, f"{name}: without I/O nothing is ever full", ("until_full",))
    elif (section.random or section.verify) and not section.size and not section.file_bytes:
        what = "random places" if section.random else "verification"
        findings.mistake(section, f"{name} with {what} needs {findings.option('size')}", ("until_full", "random"))


def _rates(section: Section, findings: Findings) -> None:
    said = {
        "rate_operations": any(_values(section.rate_operations)),
        "rate_bytes": any(_values(section.rate_bytes)),
        "rate_total_operations": bool(section.rate_total_operations),
        "rate_total_bytes": bool(section.rate_total_bytes),
    }
    used = [name for name, is_used in said.items() if is_used]
    if len(used) > 1:
        text = f"{findings.option(used[1])} and {findings.option(used[0])} exclude one another"
        findings.mistake(section, text, used, "keep one")
    if section.rate_total_operations and section.rate_total_operations < SLOWEST_PER_S:
        text = f"{findings.option('rate_total_operations')}: one operation in {1 / SLOWEST_PER_S:,.0f} s is the slowest"
        findings.mistake(section, text, ("rate_total_operations",))


def _values(values: PerKind[int | None] | None) -> tuple[int | None, ...]:
    return (values.read, values.write, values.trim) if values else ()


def _ranges(numbers: Sequence[int]) -> str:
    """``0-3, 6``."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)

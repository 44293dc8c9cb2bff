"""Looks whether a cluster is fit to measure: what each load client has, and what is wrong with it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from iocurve.cluster import session
from iocurve.measure.group.link import Member, clock_offset
from iocurve.measure.machines import ERROR_SHARE
from iocurve.measure.records import Survey
from iocurve.units import MILLISECOND_NS, format_bytes, format_duration

CLOCK_ERROR_NS_MAX = round(ERROR_SHARE * 1000) * MILLISECOND_NS
"""A tenth of an interval of a second."""


@dataclass(frozen=True)
class Checked:
    """A load client as the check found it."""

    name: str
    iocurve: str
    python: str
    cpus: int
    memory_bytes: int
    offset_ns: int
    error_ns: int
    survey: Survey


@dataclass(frozen=True)
class Problem:
    """Something that makes figures wrong or a run fail, and its remedy."""

    clients: tuple[str, ...]
    text: str
    remedy: str

    def __str__(self) -> str:
        return f"{', '.join(self.clients)}: {self.text} ({self.remedy})"


def check(address: str, clients: int | None, path: PurePosixPath | None) -> tuple[list[Checked], list[Problem]]:
    """Asks every load client; ``path`` is a directory of the volume. Raises ``RunError`` and ``PlanError``."""
    with session.opened(address, clients) as group:
        checked = group.asked(lambda member: _checked(member, path))
    return checked, problems(checked, path)


async def _checked(member: Member, path: PurePosixPath | None) -> Checked:
    offset_ns, error_ns = await clock_offset(member.link)
    survey = Survey.from_json(await asyncio.wait_for(member.link.call("survey", str(path or "")), 30))
    host = member.introduction.host
    return Checked(
        member.link.name,
        member.introduction.iocurve,
        host.python,
        host.cpus,
        host.memory_bytes,
        offset_ns,
        error_ns,
        survey,
    )


def problems(checked: Sequence[Checked], path: PurePosixPath | None) -> list[Problem]:
    """The problem, with its remedy."""
    found = [
        *_differing(checked, "Python", lambda one: one.python, "install the same version on all"),
        *_differing(checked, "processors", lambda one: str(one.cpus), "use machines of one size"),
        *_differing(
            checked, "network interface", lambda one: _speed(one.survey.nic_mbit_per_s), "use machines of one size"
        ),
        *_clocks(checked),
    ]
    if path is not None:
        found += _mounts(checked, path)
    return found


def _clocks(checked: Sequence[Checked]) -> list[Problem]:
    wrong = tuple(one.name for one in checked if one.error_ns > CLOCK_ERROR_NS_MAX)
    if not wrong:
        return []
    text = f"the clock is known only to within more than {format_duration(CLOCK_ERROR_NS_MAX)}"
    return [Problem(wrong, text, "the path to the head is slow; move the head nearer")]


def _mounts(checked: Sequence[Checked], path: PurePosixPath) -> list[Problem]:
    absent = tuple(one.name for one in checked if not one.survey.exists)
    found = [Problem(absent, f"there is no {path}", "mount the volume there")] if absent else []
    there = [one for one in checked if one.survey.exists and one.survey.mount]
    found += _differing(
        there, f"mount of {path}", lambda one: one.survey.mount.device if one.survey.mount else "", "mount one volume"
    )
    # The options of an NFS mount include the client's own address.
    found += _differing(there, f"mount options of {path}", _options, "mount with the same options on all")
    return found


def _options(one: Checked) -> str:
    assert one.survey.mount is not None
    options = one.survey.mount.options.split(",")
    return ",".join(option for option in options if not option.startswith("clientaddr="))


def _differing(checked: Sequence[Checked], what: str, fact: Callable[[Checked], str], remedy: str) -> list[Problem]:
    """A problem for each group of clients that differs from most others."""
    facts = {one.name: fact(one) for one in checked}
    if len(set(facts.values())) < 2:
        return []
    usual = Counter(facts.values()).most_common(1)[0][0]
    odd: dict[str, list[str]] = {}
    for name, value in facts.items():
        if value != usual:
            odd.setdefault(value, []).append(name)
    return [Problem(tuple(names), f"{what} {value}, others {usual}", remedy) for value, names in odd.items()]


COLUMNS = ("client", "iocurve", "Python", "CPUs", "memory", "NIC", "clock offset", "mount", "free")


def row(one: Checked) -> tuple[str, ...]:
    """A client as a row of ``COLUMNS``."""
    survey = one.survey
    mount = f"{survey.mount.device} on {survey.mount.mount_point} ({survey.mount.file_system})" if survey.mount else ""
    return (
        one.name,
        one.iocurve,
        one.python,
        str(one.cpus),
        format_bytes(one.memory_bytes),
        _speed(survey.nic_mbit_per_s),
        f"{one.offset_ns / MILLISECOND_NS:+.3f} ms ± {one.error_ns / MILLISECOND_NS:.3f} ms",
        mount,
        format_bytes(survey.free_bytes) if survey.free_bytes is not None else "",
    )


def _speed(mbit_per_s: int | None) -> str:
    return "unknown" if mbit_per_s is None else f"{mbit_per_s:,} Mb/s"

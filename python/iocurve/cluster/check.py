"""Looks whether a cluster is fit to measure: what each agent has, and what is wrong with it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import PurePosixPath

import msgspec

from iocurve._native import VERSION
from iocurve.cluster import session
from iocurve.foundation.errors import IocurveError
from iocurve.foundation.units import MILLISECOND_NS, SECOND_NS, format_bytes, format_duration
from iocurve.measure.group.client import ClientLostError, Member, clock_offset
from iocurve.measure.machines import ERROR_SHARE
from iocurve.measure.records import Introduction, Survey

CLOCK_ERROR_NS_MAX = round(ERROR_SHARE * 1000) * MILLISECOND_NS
"""A tenth of an interval of a second."""
CLOCK_OFFSET_NS_MAX = SECOND_NS
ASK_S = 10


class Checked(msgspec.Struct, frozen=True):
    """An agent as the check found it."""

    name: str
    found: Introduction
    offset_ns: int
    error_ns: int
    survey: Survey


class Problem(msgspec.Struct, frozen=True):
    """Something that makes figures wrong or a run fail, and its remedy."""

    clients: tuple[str, ...]
    text: str
    remedy: str

    def __str__(self) -> str:
        return f"{', '.join(self.clients)}: {self.text} ({self.remedy})"


def check(address: str, clients: int | None, path: PurePosixPath | None) -> tuple[list[Checked], list[Problem]]:
    """Asks every agent by itself; ``path`` is a directory of the volume.

    Raises ``RunError`` where the head does not answer.
    """
    with session.opened_each(address, clients) as (group, failed, missing):
        asked = dict(zip(group.names, group.asked(lambda member: _checked(member, path)), strict=True))
    checked = [one for one in asked.values() if isinstance(one, Checked)]
    failed |= {name: one for name, one in asked.items() if isinstance(one, str)}
    silent = [Problem((name,), why, "see that the machine is up and reaches the head") for name, why in failed.items()]
    absent = [Problem((name,), "missing", "start it, or iocurve cluster down and up again") for name in missing]
    return checked, [*absent, *silent, *problems(checked, path)]


async def _checked(member: Member, path: PurePosixPath | None) -> Checked | str:
    """The client, or why it cannot be judged."""
    try:
        offset_ns, error_ns = await asyncio.wait_for(clock_offset(member.link), ASK_S)
        survey = Survey.from_json(await asyncio.wait_for(member.link.call("survey", str(path or "")), ASK_S))
    except TimeoutError:
        # A hard mount of a server that is away holds the client up.
        return f"it does not answer for {ASK_S} s" + (f" about {path}: is its server reachable?" if path else "")
    except (ClientLostError, IocurveError) as error:
        return str(error)
    return Checked(member.link.name, member.introduction, offset_ns, error_ns, survey)


def problems(checked: Sequence[Checked], path: PurePosixPath | None) -> list[Problem]:
    """The problem, with its remedy."""
    own = VERSION
    found = [
        *(
            Problem(
                (one.name,), f"iocurve {one.found.iocurve}, this machine has {own}", "install the same version on all"
            )
            for one in checked
            if one.found.iocurve != own
        ),
        *_differing(checked, "Python", lambda one: one.found.host.python, "install the same version on all"),
        *_differing(checked, "processors", lambda one: str(one.found.host.cpus), "use machines of one size"),
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
    text = f"the clock is known only to within more than {format_duration(CLOCK_ERROR_NS_MAX)}"
    found = [Problem(wrong, text, "the path to the head is slow; move the head nearer")] if wrong else []
    off = [one for one in checked if abs(one.offset_ns) > CLOCK_OFFSET_NS_MAX]
    remedy = "set it by NTP; a run corrects it, logs and the time stamps of files do not"
    return [
        *found,
        *(Problem((one.name,), f"the clock is off by {one.offset_ns / SECOND_NS:+.1f} s", remedy) for one in off),
    ]


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
        one.found.iocurve,
        one.found.host.python,
        str(one.found.host.cpus),
        format_bytes(one.found.host.memory_bytes),
        _speed(survey.nic_mbit_per_s),
        f"{one.offset_ns / MILLISECOND_NS:+.3f} ms ± {one.error_ns / MILLISECOND_NS:.3f} ms",
        mount,
        format_bytes(survey.free_bytes) if survey.free_bytes is not None else "",
    )


def _speed(mbit_per_s: int | None) -> str:
    return "unknown" if mbit_per_s is None else f"{mbit_per_s:,} Mb/s"

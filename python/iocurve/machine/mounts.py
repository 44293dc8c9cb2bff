"""The mounts of a machine, from ``mountinfo`` (proc(5), "/proc/pid/mountinfo")."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path, PurePath
from typing import TypeVar

import msgspec

from iocurve.machine.files import text_of

MOUNTINFO = "proc/self/mountinfo"


class Mount(msgspec.Struct, frozen=True):
    """One line of mountinfo."""

    number: str
    """``MAJOR:MINOR``."""
    source: str
    point: str
    kind: str
    option_text: str
    """The mount options, then those of the file system, without repeats: ``rw,relatime,vers=3``."""
    options: dict[str, str]
    """As names and values; a value of the mount replaces one of the file system."""


AnyMount = TypeVar("AnyMount", bound=Mount)


def mounts_in(mountinfo: str) -> list[Mount]:
    """The mounts that can be seen: a later mount on the same mount point hides the earlier one."""
    found: dict[str, Mount] = {}
    for line in mountinfo.splitlines():
        mount = _mount(line)
        if mount is not None:
            found[mount.point] = mount
    return list(found.values())


def mounts(root: Path = Path("/")) -> list[Mount]:
    """The mounts of this machine that can be seen."""
    return mounts_in(text_of(root / MOUNTINFO))


def nearest(path: PurePath, known: Iterable[AnyMount]) -> AnyMount | None:
    """The mount that a path without symbolic links is on."""
    inside = [mount for mount in known if path.is_relative_to(mount.point)]
    return max(inside, key=lambda mount: len(mount.point), default=None)


def options_of(text: str) -> dict[str, str]:
    """``rw,vers=3`` as names and values."""
    pairs = (option.partition("=") for option in text.split(",") if option)
    return {name: value for name, _, value in pairs}


def unescaped(text: str) -> str:
    r"""Tables of mounts write space, tab, newline and backslash as octal (``\040``)."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)


def _mount(line: str) -> Mount | None:
    before, _, after = line.partition(" - ")
    fields, rest = before.split(), after.split(maxsplit=2)
    if len(fields) < 6 or len(rest) < 3:
        return None
    # The options of the file system repeat ro or rw.
    words = dict.fromkeys([*fields[5].split(","), *rest[2].split(",")])
    return Mount(
        number=fields[2],
        source=unescaped(rest[1]),
        point=unescaped(fields[4]),
        kind=rest[0],
        option_text=",".join(map(unescaped, words)),
        options=options_of(rest[2]) | options_of(fields[5]),
    )

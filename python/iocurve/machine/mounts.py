"""The mounts of a machine, from ``mountinfo`` (proc(5), "/proc/pid/mountinfo"), and its block devices."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator
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


SECTOR_BYTES = 512
"""The unit of the counters, whatever the device's own sector size."""
READ_SECTORS, WRITTEN_SECTORS = 2, 6
"""Fields of ``stat``, from 0."""


class DeviceMeter:
    """Counts what the devices beneath files move from now on."""

    def __init__(self, paths: Iterable[str], root: Path = Path("/")) -> None:
        blocks = root / "sys/dev/block"
        numbers = {number for path in paths if (number := _device_number(Path(path), root)) is not None}
        self._devices = sorted({leaf for number in numbers for leaf in _leaves(blocks / number)})
        self._start = _sectors(self._devices)

    def moved(self) -> tuple[tuple[str, ...], int, int] | None:
        """Names of the devices (``sda``), and the bytes read and written since the meter was made.

        None if the files are on no block device, or the system does not tell.
        """
        now = _sectors(self._devices)
        if not self._devices or self._start is None or now is None:
            return None
        read, written = (SECTOR_BYTES * max(0, late - early) for early, late in zip(self._start, now, strict=True))
        return tuple(device.name for device in self._devices), read, written


def _device_number(path: Path, root: Path) -> str | None:
    """``MAJOR:MINOR`` of the device that a file, or else its nearest parent, is on."""
    real = path.resolve()
    found = nearest_status(real)
    if found is None:
        return None
    number = found.st_rdev if stat.S_ISBLK(found.st_mode) else found.st_dev
    if os.major(number) == 0:
        # A file system with its own number, such as btrfs: the source of its mount is the device.
        mount = nearest(real, mounts(root))
        source = _stat(Path(mount.source)) if mount else None
        if source is None or not stat.S_ISBLK(source.st_mode):
            return None
        number = source.st_rdev
    return device_name(number)


def device_name(number: int) -> str:
    """``MAJOR:MINOR``, the name of a device in ``/sys/dev/block``."""
    return f"{os.major(number)}:{os.minor(number)}"


def nearest_status(path: Path) -> os.stat_result | None:
    """The status of a file, or else of its nearest parent."""
    return next((known for each in (path, *path.parents) if (known := _stat(each))), None)


def counters(device: Path) -> list[int] | None:
    """The fields of ``stat`` in the directory of a device in ``/sys``; None if the system does not tell."""
    try:
        return [int(word) for word in (device / "stat").read_text(encoding="ascii").split()]
    except (OSError, ValueError):
        return None


def _stat(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except OSError:
        return None


def _leaves(device: Path) -> Iterator[Path]:
    """The directories in ``/sys`` of the devices that a device consists of: itself, if it has no parts."""
    try:
        real = device.resolve(strict=True)
        parts = sorted((real / "slaves").iterdir()) if (real / "slaves").is_dir() else []
    except OSError:
        return
    if not parts:
        yield real
    for part in parts:
        yield from _leaves(part)


def _sectors(devices: Iterable[Path]) -> tuple[int, int] | None:
    """Sectors read and written by all devices; None if one of them does not tell."""
    read = written = 0
    for device in devices:
        fields = counters(device)
        if fields is None or len(fields) <= WRITTEN_SECTORS:
            return None
        read += fields[READ_SECTORS]
        written += fields[WRITTEN_SECTORS]
    return read, written

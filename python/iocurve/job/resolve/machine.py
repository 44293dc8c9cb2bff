"""The facts of a machine that a plan depends on."""

from __future__ import annotations

import errno
import os
import stat
from functools import cache
from pathlib import Path
from typing import Literal

import msgspec

PathKind = Literal["missing", "file", "directory", "block", "endless", "null", "other"]
"""``endless`` is one of the kernel's devices without a length and without data to lose, such as /dev/zero; ``null`` is
/dev/null, which has no data to read either."""
ENDLESS: tuple[PathKind, ...] = ("endless", "null")
_KERNEL_DEVICES: dict[int, PathKind] = {os.makedev(1, minor): "endless" for minor in (5, 7, 8, 9)}
_KERNEL_DEVICES[os.makedev(1, 3)] = "null"
"""By number: /dev/null, zero, full, random and urandom (Linux, admin-guide/devices.txt)."""


class PathFacts(msgspec.Struct, frozen=True):
    """Kind and size of the file at a path."""

    kind: PathKind
    bytes: int = 0


class Machine:
    """The parts of this machine that plans depend on; tests have others."""

    def stat(self, path: str) -> PathFacts:
        """Kind and size of the file at ``path`` now; a path that cannot be read counts as missing."""
        try:
            status = os.stat(path)  # noqa: PTH116 - a job may name a million files
        except (OSError, ValueError):
            return PathFacts("missing")
        if stat.S_ISREG(status.st_mode):
            return PathFacts("file", status.st_size)
        if stat.S_ISBLK(status.st_mode):
            return PathFacts("block", _device_bytes(path))
        if stat.S_ISCHR(status.st_mode) and status.st_rdev in _KERNEL_DEVICES:
            return PathFacts(_KERNEL_DEVICES[status.st_rdev])
        return PathFacts("directory" if stat.S_ISDIR(status.st_mode) else "other")

    def is_mounted(self, device: str) -> bool:
        """True if the mount table has the device, under any of its names."""
        # Loaded here: most jobs name no block device.
        from iocurve.targets.places import is_mounted

        return is_mounted(device)

    def cpus(self) -> frozenset[int]:
        """Processors that this process may run on, and workers be bound to."""
        return frozenset(os.sched_getaffinity(0))

    def user(self) -> tuple[int, int]:
        """User and group of this process, for NFS servers (AUTH_SYS)."""
        return os.getuid(), os.getgid()

    def has_io_uring(self) -> bool:
        """True unless the kernel or a seccomp filter refuses io_uring."""
        return _has_io_uring()

    def fresh_seed(self) -> int:
        """A new seed of 64 bits from the operating system."""
        return int.from_bytes(os.urandom(8))


IO_URING_SETUP = 425
"""The system call's number on every architecture."""


@cache
def _has_io_uring() -> bool:
    """Asks the kernel, by a call whose arguments it refuses where it has io_uring."""
    # Loaded here: most jobs of other tools name their engine.
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall(ctypes.c_long(IO_URING_SETUP), ctypes.c_long(0), None)
    return ctypes.get_errno() not in (errno.ENOSYS, errno.EPERM, errno.EACCES)


def _device_bytes(path: str) -> int:
    try:
        with Path(path).open("rb") as device:
            return device.seek(0, os.SEEK_END)
    except OSError:
        return 0

"""What a plan depends on besides the job."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

PathKind = Literal["missing", "file", "directory", "block", "other"]


@dataclass(frozen=True)
class PathFacts:
    """What is at a path."""

    kind: PathKind
    bytes: int = 0


class Machine(Protocol):
    """A machine as far as plans look at it."""

    def look(self, path: str) -> PathFacts:
        """What is at ``path`` now."""

    def is_mounted(self, device: str) -> bool:
        """Whether a block device holds a mounted file system."""

    def cpus(self) -> frozenset[int]:
        """Processors that workers may be bound to."""

    def user(self) -> tuple[int, int]:
        """User and group to be for an NFS server."""

    def fresh_seed(self) -> int:
        """64 bits that no other run has."""


class ThisMachine:
    """The machine we are on."""

    def look(self, path: str) -> PathFacts:
        """What is at ``path`` now; what cannot be looked at counts as missing."""
        try:
            status = os.stat(path)  # noqa: PTH116 - a job may name a million files
        except (OSError, ValueError):
            return PathFacts("missing")
        if stat.S_ISREG(status.st_mode):
            return PathFacts("file", status.st_size)
        if stat.S_ISBLK(status.st_mode):
            return PathFacts("block", _device_bytes(path))
        return PathFacts("directory" if stat.S_ISDIR(status.st_mode) else "other")

    def is_mounted(self, device: str) -> bool:
        """Whether the mount table names it, under any of its names."""
        real = os.path.realpath(device)
        try:
            mounts = Path("/proc/self/mounts").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return False
        sources = {line.split(" ", 1)[0] for line in mounts.splitlines()}
        return any(os.path.realpath(source) == real for source in sources if source.startswith("/"))

    def cpus(self) -> frozenset[int]:
        """Those this process may run on."""
        return frozenset(os.sched_getaffinity(0))

    def user(self) -> tuple[int, int]:
        """Ours."""
        return os.getuid(), os.getgid()

    def fresh_seed(self) -> int:
        """From the operating system."""
        return int.from_bytes(os.urandom(8))


def _device_bytes(path: str) -> int:
    try:
        with Path(path).open("rb") as device:
            return device.seek(0, os.SEEK_END)
    except OSError:
        return 0

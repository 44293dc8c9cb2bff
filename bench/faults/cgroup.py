"""A group of processes with a limit on their memory (cgroup version 2, or version 1). Needs root."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from bench.faults.seen import CannotRunError

_ROOT = Path("/sys/fs/cgroup")
_STEP_BYTES = 256 << 10
_LIMITS = ("memory.max", "memory.limit_in_bytes")


@dataclass(frozen=True)
class MemoryGroup:
    """A group, by the directory that stands for it."""

    directory: Path

    @property
    def prefix(self) -> tuple[str, ...]:
        """Comes before a command that is to run in the group."""
        return ("sh", "-c", 'echo $$ >"$0" && exec "$@"', str(self.directory / "cgroup.procs"))

    def allow_no_growth(self) -> None:
        """Lowers the limit as far as memory can be freed; version 2 kills at once, version 1 refuses the limit."""
        if (swap := self.directory / "memory.swap.max").exists():
            swap.write_text("0")
        [limit] = [self.directory / name for name in _LIMITS if (self.directory / name).exists()]
        usage = self.directory / ("memory.current" if limit.name == "memory.max" else "memory.usage_in_bytes")
        with suppress(OSError):
            while (bytes_left := int(usage.read_text()) - _STEP_BYTES) > 0:
                limit.write_text(str(bytes_left))

    def kills(self) -> int:
        """Processes that the kernel has killed."""
        for name in ("memory.events", "memory.oom_control"):
            if (file := self.directory / name).exists():
                return int((re.search(r"^oom_kill (\d+)", file.read_text(), re.MULTILINE) or ["0", "0"])[1])
        return 0


@contextmanager
def memory() -> Iterator[MemoryGroup]:
    """A group that exists while the context lasts."""
    first = _ROOT / "memory"
    group = MemoryGroup((first if first.is_dir() else _ROOT) / f"iocurve-faults-{os.getpid()}")
    try:
        group.directory.mkdir()
    except OSError as error:
        raise CannotRunError(f"no memory group can be made: {error.strerror}") from None
    try:
        if not any((group.directory / name).exists() for name in _LIMITS):
            raise CannotRunError("the kernel limits no memory of groups")
        yield group
    finally:
        # A process that was killed leaves the group a moment later.
        for _ in range(50):
            with suppress(OSError):
                group.directory.rmdir()
                break
            time.sleep(0.1)

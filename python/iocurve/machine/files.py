"""Files that Linux publishes, and the directories in which iocurve keeps its own (XDG Base Directory)."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

UNKNOWN = "unknown"


def text_of(path: Path) -> str:
    """The content of a file; empty if it is not there or cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def names_in(directory: Path) -> list[str]:
    """The names in a directory; none if it is not there or cannot be read."""
    try:
        return [entry.name for entry in directory.iterdir()]
    except OSError:
        return []


def cpu_model(root: Path) -> str:
    """The model in cpuinfo (x86, s390), otherwise the architecture."""
    match = re.search(r"^model name\s*:\s*(.+)$", text_of(root / "proc/cpuinfo"), re.MULTILINE)
    return match[1].strip() if match else os.uname().machine or UNKNOWN


def memory(meminfo: str) -> dict[str, int]:
    """The values of ``/proc/meminfo``: KiB, or pages where the name counts pages."""
    return {name: int(value) for name, value in re.findall(r"^(\w+):\s+(\d+)", meminfo, re.MULTILINE)}


def memory_available(root: Path = Path("/")) -> int:
    """The bytes that this process can still take: the machine's, or fewer if a control group (v1, v2) has a limit."""
    found = memory(text_of(root / "proc/meminfo")).get("MemAvailable")
    available = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2 if found is None else found * 1024
    return min([available, *_left_in_groups(root)])


def _left_in_groups(root: Path) -> Iterator[int]:
    """The bytes that are left of the limits of this process's control groups, the groups above them included.

    A container sees its group as the topmost one, and may find its path missing.
    """
    for line in text_of(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers not in ("", "memory"):
            continue
        top = root / "sys/fs/cgroup" / controllers
        limit, usage = (
            ("memory.limit_in_bytes", "memory.usage_in_bytes") if controllers else ("memory.max", "memory.current")
        )
        group = Path(path.lstrip("/"))
        for directory in (top / group, *(top / parent for parent in group.parents)):
            most, used = text_of(directory / limit).strip(), text_of(directory / usage).strip()
            if most.isdecimal() and used.isdecimal():
                file_cache = re.search(
                    r"^(?:total_)?inactive_file (\d+)", text_of(directory / "memory.stat"), re.MULTILINE
                )
                yield max(0, int(most) - int(used) + (int(file_cache[1]) if file_cache else 0))


def distribution(root: Path) -> str:
    """The name of the Linux distribution."""
    match = re.search(r'^PRETTY_NAME="?(.*?)"?$', text_of(root / "etc/os-release"), re.MULTILINE)
    return match[1] if match else UNKNOWN


def boot_id(root: Path = Path("/")) -> str:
    """Identity of this boot of this machine; empty if the system does not publish it."""
    return text_of(root / "proc/sys/kernel/random/boot_id").strip()


def state_directory() -> Path:
    """``~/.local/state/iocurve``: what later commands need."""
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state") / "iocurve"


def cache_directory() -> Path:
    """``~/.cache/iocurve``: what can be made again."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "iocurve"


def runtime_directory() -> Path:
    """``/run/user/UID/iocurve``, or a directory of this user in /tmp: sockets of programs that run."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    return Path(runtime) / "iocurve" if runtime else Path("/tmp") / f"iocurve-{os.getuid()}"

"""Files that Linux publishes, and the directories in which iocurve keeps its own (XDG Base Directory)."""

from __future__ import annotations

import os
import re
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

"""Facts of the machine that makes the load, read from where Linux publishes them.

What a system does not publish is ``unknown``: a missing fact never keeps a measurement from running.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from iocurve.result.document import HostFacts, MachineUse, MountFacts, ProcessorUse

UNKNOWN = "unknown"


def collect(root: Path = Path("/")) -> HostFacts:
    """The machine as it is now; ``root`` is where its ``proc`` and ``etc`` are."""
    return HostFacts(
        hostname=os.uname().nodename or UNKNOWN,
        cpu_model=_cpu_model(root),
        cpus=len(os.sched_getaffinity(0)),
        memory_bytes=_memory_bytes(root),
        kernel=_text(root / "proc/sys/kernel/osrelease") or UNKNOWN,
        distribution=_distribution(root),
        tcp_congestion_control=_text(root / "proc/sys/net/ipv4/tcp_congestion_control") or None,
        python=".".join(map(str, sys.version_info[:3])),
    )


def mount_of(path: Path, root: Path = Path("/")) -> MountFacts | None:
    """The mounted file system that ``path`` (or, where it does not exist yet, its nearest parent) is on."""
    real = path.resolve()
    found = None
    for line in _text(root / "proc/self/mountinfo").splitlines():
        mount = _mount(line)
        # A later mount on the same place hides the earlier one.
        if real.is_relative_to(mount.mount_point) and (
            found is None or len(mount.mount_point) >= len(found.mount_point)
        ):
            found = mount
    return found


class MachineMeter:
    """How busy the machine is from now on, everything on it counted."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._stat = root / "proc/stat"
        self._start = _ticks(self._stat)

    def use(self) -> MachineUse | None:
        """Since the meter was made; None where the system does not tell."""
        now = _ticks(self._stat)
        shares = {name: _shares(self._start[name], ticks) for name, ticks in now.items() if name in self._start}
        whole = shares.pop(_ALL, None)
        if whole is None:
            return None
        processors = [
            ProcessorUse(processor=int(name[3:]), user_share=share.user / 100, system_share=share.system / 100)
            for name, share in shares.items()
            if share is not None
        ]
        return MachineUse(busy_share=min(1.0, whole.used / 100), cpus=os.cpu_count() or 1, processors=tuple(processors))


@dataclass(frozen=True)
class Processors:
    """What all processors together did, in per cent."""

    user: float
    system: float
    """Interrupts included."""
    wait: float
    """Idle while I/O was outstanding."""
    idle: float

    @property
    def used(self) -> float:
        """User and system."""
        return self.user + self.system

    @classmethod
    def mean(cls, several: Sequence[Processors]) -> Processors:
        """Over times of the same length."""
        sums = (sum(getattr(one, name) for one in several) for name in ("user", "system", "wait", "idle"))
        return cls(*(total / max(1, len(several)) for total in sums))


class ProcessorMeter:
    """What the processors do between one look and the next."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._stat = root / "proc/stat"
        self._before = _ticks(self._stat)

    def look(self) -> Processors | None:
        """Since the last look, or since the meter was made; None where the system does not tell."""
        before, self._before = self._before, _ticks(self._stat)
        return _shares(before[_ALL], self._before[_ALL]) if _ALL in before and _ALL in self._before else None


_ALL = "cpu"
"""What the system calls all processors together; one is ``cpu0``."""


def _ticks(stat: Path) -> dict[str, list[int]]:
    """Clock ticks since the machine started: user, nice, system, idle, iowait, irq, softirq, steal.

    Guest time after them is part of user.
    """
    lines = (line.split() for line in _text(stat).splitlines() if re.match(r"cpu\d*\s", line))
    return {name: [int(word) for word in words[:8]] for name, *words in lines if len(words) >= 8}


def _shares(then: Sequence[int], now: Sequence[int]) -> Processors | None:
    """What a processor did in between; None if no time has passed."""
    # The kernel may take back idle ticks that it had counted.
    passed = [max(0, late - early) for late, early in zip(now, then, strict=True)]
    total = sum(passed)
    if total <= 0:
        return None
    user, nice, system, idle, wait, irq, softirq, steal = (100 * ticks / total for ticks in passed)
    return Processors(user + nice, system + irq + softirq + steal, wait, idle)


def _cpu_model(root: Path) -> str:
    """x86 and s390 name the model in cpuinfo; elsewhere the architecture has to do."""
    match = re.search(r"^model name\s*:\s*(.+)$", _text(root / "proc/cpuinfo"), re.MULTILINE)
    return match[1].strip() if match else os.uname().machine or UNKNOWN


def _memory_bytes(root: Path) -> int:
    match = re.search(r"^MemTotal:\s*(\d+) kB$", _text(root / "proc/meminfo"), re.MULTILINE)
    return int(match[1]) * 1024 if match else 0


def _distribution(root: Path) -> str:
    match = re.search(r'^PRETTY_NAME="?(.*?)"?$', _text(root / "etc/os-release"), re.MULTILINE)
    return match[1] if match else UNKNOWN


def _mount(line: str) -> MountFacts:
    """One line of mountinfo: proc(5), "/proc/pid/mountinfo"."""
    before, _, after = line.partition(" - ")
    fields, (file_system, device, super_options) = before.split(), after.split(maxsplit=2)
    # The mount's own options come first; the file system's repeat ro or rw and add the rest.
    options = dict.fromkeys([*fields[5].split(","), *super_options.split(",")])
    return MountFacts(
        device=_unescaped(device),
        mount_point=_unescaped(fields[4]),
        file_system=file_system,
        options=",".join(_unescaped(option) for option in options),
    )


def _unescaped(text: str) -> str:
    r"""Mountinfo writes space, tab, newline and backslash as octal (``\040``)."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""

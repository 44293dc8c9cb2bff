"""Facts of the machine that generates the load, from Linux's ``/proc`` and ``/etc``.

Facts that the system does not publish are ``unknown``: a missing fact never stops a measurement.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from iocurve.result import processes
from iocurve.result.document import HostFacts, MachineUse, MountFacts, ProcessorUse
from iocurve.result.servers import NONE, Servers

UNKNOWN = "unknown"


def collect(root: Path = Path("/")) -> HostFacts:
    """Collects the facts of this machine; ``root`` is the directory with ``proc`` and ``etc``."""
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


def boot_id(root: Path = Path("/")) -> str:
    """Identity of this boot of this machine; empty if the system does not publish it."""
    return _text(root / "proc/sys/kernel/random/boot_id")


def mount_of(path: Path, root: Path = Path("/")) -> MountFacts | None:
    """The mounted file system that ``path`` (or, if it does not exist yet, its nearest parent) is on."""
    real = path.resolve()
    found = None
    for line in _text(root / "proc/self/mountinfo").splitlines():
        mount = _mount(line)
        # A later mount on the same mount point hides the earlier one.
        if real.is_relative_to(mount.mount_point) and (
            found is None or len(mount.mount_point) >= len(found.mount_point)
        ):
            found = mount
    return found


class MachineMeter:
    """Measures the CPU use of the machine from now on, all processes included, with the share of this one."""

    def __init__(self, root: Path = Path("/"), servers: Servers = NONE) -> None:
        self._root, self._stat = root, root / "proc/stat"
        self._start = _ticks(self._stat)
        self._processes = processes.ProcessMeter(root, servers)

    def poll(self) -> None:
        """Reads the threads' counters, which are gone once a thread has ended."""
        self._processes.poll()

    def use(self) -> MachineUse | None:
        """CPU use since the meter was created; None if the system does not publish it."""
        now = _ticks(self._stat)
        shares = {name: _shares(self._start[name], ticks) for name, ticks in now.items() if name in self._start}
        whole = shares.pop(_ALL, None)
        if whole is None:
            return None
        each = [
            ProcessorUse(processor=int(name[3:]), user_share=share.user / 100, system_share=share.system / 100)
            for name, share in shares.items()
            if share is not None
        ]
        cpus = os.cpu_count() or 1
        busy_share, steal_share = min(1.0, whole.used / 100), whole.steal / 100
        return self._processes.added(
            MachineUse(busy_share=busy_share, cpus=cpus, processors=tuple(each), steal_share=steal_share)
        )


@dataclass(frozen=True)
class Processors:
    """Time of all processors together by state, in per cent."""

    user: float
    system: float
    """Includes interrupts and steal time."""
    wait: float
    """Idle while I/O was outstanding."""
    idle: float
    steal: float = 0.0
    """Taken by the hypervisor for other machines; a part of ``system``."""

    @property
    def used(self) -> float:
        """User and system."""
        return self.user + self.system

    @classmethod
    def mean(cls, several: Sequence[Processors]) -> Processors:
        """The mean over intervals of the same length."""
        sums = (sum(getattr(one, name) for one in several) for name in ("user", "system", "wait", "idle", "steal"))
        return cls(*(total / max(1, len(several)) for total in sums))


class ProcessorMeter:
    """Measures the CPU use between successive samples."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._stat = root / "proc/stat"
        self._before = _ticks(self._stat)

    def sample(self) -> Processors | None:
        """CPU use since the last sample or since the start; None if the system does not publish it."""
        before, self._before = self._before, _ticks(self._stat)
        return _shares(before[_ALL], self._before[_ALL]) if _ALL in before and _ALL in self._before else None


_ALL = "cpu"
"""Name of all processors together in ``/proc/stat``; a single processor is ``cpu0``."""


def _ticks(stat: Path) -> dict[str, list[int]]:
    """Clock ticks since boot: user, nice, system, idle, iowait, irq, softirq, steal.

    The guest columns that follow are left out, because user includes them.
    """
    lines = (line.split() for line in _text(stat).splitlines() if re.match(r"cpu\d*\s", line))
    return {name: [int(word) for word in words[:8]] for name, *words in lines if len(words) >= 8}


def _shares(then: Sequence[int], now: Sequence[int]) -> Processors | None:
    """Shares of the ticks between two readings; None if no time has passed."""
    # The kernel may take back idle ticks that it had counted.
    passed = [max(0, late - early) for late, early in zip(now, then, strict=True)]
    total = sum(passed)
    if total <= 0:
        return None
    user, nice, system, idle, wait, irq, softirq, steal = (100 * ticks / total for ticks in passed)
    return Processors(user + nice, system + irq + softirq + steal, wait, idle, steal)


def _cpu_model(root: Path) -> str:
    """The model in cpuinfo (x86, s390), otherwise the architecture."""
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
    # Mount options come first; the super options repeat ro or rw and add the file system's options.
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

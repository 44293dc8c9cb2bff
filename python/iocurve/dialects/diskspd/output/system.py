"""The processor topology of this machine for DiskSpd's <System> part, read from Linux's sysfs."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

_CPUS = "sys/devices/system/cpu"
_NODES = "sys/devices/system/node"


class Processor(msgspec.Struct, frozen=True):
    """A logical processor with its core, socket and NUMA node."""

    number: int
    core: int
    """Core number, unique over all sockets."""
    socket: int
    node: int


class System(msgspec.Struct, frozen=True):
    """This machine as DiskSpd's output describes it."""

    name: str
    processors: tuple[Processor, ...]
    power_scheme: str
    """The CPU frequency governor; empty if there is none."""

    @property
    def cores(self) -> int:
        """Number of physical cores."""
        return len({processor.core for processor in self.processors})

    @property
    def sockets(self) -> int:
        """Number of sockets in use."""
        return len({processor.socket for processor in self.processors})

    @property
    def nodes(self) -> int:
        """Number of NUMA nodes in use."""
        return len({processor.node for processor in self.processors})

    @property
    def has_threads(self) -> bool:
        """True if a core has several logical processors."""
        return self.cores < len(self.processors)


def collect(name: str, root: Path = Path("/")) -> System:
    """Reads the topology of this machine, called ``name``, from ``root``/sys."""
    numbers = _numbers(_text(root / _CPUS / "online")) or [0]
    nodes = _nodes(root)
    cores: dict[tuple[int, int], int] = {}
    processors = []
    for number in numbers:
        topology = root / _CPUS / f"cpu{number}" / "topology"
        socket = _integer(_text(topology / "physical_package_id"), 0)
        core = (socket, _integer(_text(topology / "core_id"), number))
        processors.append(Processor(number, cores.setdefault(core, len(cores)), max(0, socket), nodes.get(number, 0)))
    return System(name, tuple(processors), _text(root / _CPUS / "cpu0/cpufreq/scaling_governor"))


def _nodes(root: Path) -> dict[int, int]:
    """NUMA node by processor number."""
    return {
        number: node
        for node in _numbers(_text(root / _NODES / "online"))
        for number in _numbers(_text(root / _NODES / f"node{node}" / "cpulist"))
    }


def _numbers(text: str) -> list[int]:
    """Expands ``0-3,6`` to a list."""
    numbers: list[int] = []
    for word in filter(None, text.split(",")):
        first, _, last = word.partition("-")
        if not re.fullmatch(r"\d{1,6}", first, re.ASCII) or not re.fullmatch(r"\d{0,6}", last, re.ASCII):
            return []
        numbers += range(int(first), int(last or first) + 1)
    return numbers


def _integer(text: str, default: int) -> int:
    return int(text) if re.fullmatch(r"-?\d{1,9}", text, re.ASCII) else default


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""

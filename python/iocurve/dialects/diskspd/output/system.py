"""The processors of this machine, as DiskSpd reports those of a system; read from where Linux publishes them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

_CPUS = "sys/devices/system/cpu"
_NODES = "sys/devices/system/node"


@dataclass(frozen=True)
class Processor:
    """A logical processor and where it is."""

    number: int
    core: int
    """Numbered over all sockets."""
    socket: int
    node: int


@dataclass(frozen=True)
class System:
    """The machine."""

    name: str
    processors: tuple[Processor, ...]
    power_scheme: str
    """The frequency governor; empty where there is none."""

    @property
    def cores(self) -> int:
        """Physical cores."""
        return len({processor.core for processor in self.processors})

    @property
    def sockets(self) -> int:
        """Sockets in use."""
        return len({processor.socket for processor in self.processors})

    @property
    def nodes(self) -> int:
        """NUMA nodes in use."""
        return len({processor.node for processor in self.processors})

    @property
    def has_threads(self) -> bool:
        """Whether cores have several logical processors."""
        return self.cores < len(self.processors)


def collect(name: str, root: Path = Path("/")) -> System:
    """This machine, called ``name``; ``root`` is where its ``sys`` is."""
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
    """The node of each processor."""
    return {
        number: node
        for node in _numbers(_text(root / _NODES / "online"))
        for number in _numbers(_text(root / _NODES / f"node{node}" / "cpulist"))
    }


def _numbers(text: str) -> list[int]:
    """``0-3,6`` as a list."""
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

"""A machine that the test holds: what is on it does not depend on where the tests run."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from iocurve.job.resolve import Machine, PathFacts, PathKind


@dataclass
class HeldMachine(Machine):
    """Paths that are not listed do not exist."""

    paths: Mapping[str, tuple[PathKind, int]] = field(default_factory=dict)
    mounted: frozenset[str] = frozenset()
    processors: frozenset[int] = frozenset(range(4))
    seed: int = 7
    directories: frozenset[str] = frozenset({"/mnt/nocache", "/mnt/readcache"})

    def stat(self, path: str) -> PathFacts:
        if path in self.paths:
            return PathFacts(*self.paths[path])
        return PathFacts("directory" if path in self.directories else "missing")

    def is_mounted(self, device: str) -> bool:
        return device in self.mounted

    def cpus(self) -> frozenset[int]:
        return self.processors

    def user(self) -> tuple[int, int]:
        return 1000, 1001

    def has_io_uring(self) -> bool:
        return True

    def fresh_seed(self) -> int:
        return self.seed


GOLDEN = Path(__file__).parent / "golden"
GOLDEN_MACHINE = HeldMachine(
    paths={
        "/dev/sdx": ("block", 1 << 30),
        "/dev/null": ("null", 0),
        "/dev/zero": ("endless", 0),
        "/d/there": ("file", 1 << 20),
        str(GOLDEN / "fio/existing"): ("file", 3 << 20),
        str(GOLDEN / "diskspd/old.dat"): ("file", 4 << 20),
    },
    directories=frozenset({"/d", "/data", "/mnt/nocache", "/mnt/readcache", *map(str, GOLDEN.iterdir())}),
)
"""The files and devices that the golden jobs of all dialects name."""

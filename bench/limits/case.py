"""A case of the limits bench: a server with limits, a load on it, and the names that are right."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

Share = Literal["binding", "together", "free"]


@dataclass(frozen=True)
class Load:
    """A job on the server: closed loops of random operations unless it has a rate or thinks."""

    depth: int = 16
    block_kib: int = 4
    connections: int = 1
    read_percent: int = 100
    workers: int = 1
    runtime_s: float = 1.0
    ramp_s: float = 0.15
    size_mib: int = 16
    keys: str = ""
    """Further keys of the job, in TOML."""
    others: tuple[str, ...] = ()
    """Keys of further jobs that run at the same time."""

    @property
    def in_flight(self) -> int:
        """Requests in flight in a closed loop."""
        return self.depth * self.workers

    def job(self, port: int, seed: int) -> str:
        """The job file."""
        jobs = "".join(self._section(each, keys, port, seed) for each, keys in enumerate((self.keys, *self.others)))
        return f'name = "load"\ninterval = "50ms"\n{jobs}'

    def _section(self, number: int, keys: str, port: int, seed: int) -> str:
        return f"""
[[job]]
name = "load{number}"
engine = "nfs"
nfs_url = "nfs://127.0.0.1/stub?nfsport={port}&mountport={port}"
nconnect = {self.connections}
numjobs = {self.workers}
size = "{self.size_mib}MiB"
bs = "{self.block_kib}KiB"
iodepth = {self.depth}
reads = {str(self.read_percent > 0).lower()}
writes = {str(self.read_percent < 100).lower()}
{f"read_percent = {self.read_percent}" if 0 < self.read_percent < 100 else ""}
time_based = true
runtime = "{self.runtime_s}s"
ramp_time = "{self.ramp_s}s"
seed = {seed}
{keys}
"""


@dataclass(frozen=True)
class Case:
    """One drawn server and load. The server's own account must confirm that the limit was binding."""

    limits: tuple[str, ...]
    """As the stub server reads them; requests pass them in this order."""
    binding: tuple[int, ...]
    """Places of the limits that hold the load down; none for a load that holds itself down."""
    right: frozenset[str]
    """Codes of verdicts that are right."""
    load: Load = field(default_factory=Load)
    rate: float = 0.0
    """Operations per second that the load asks for, if it is the load that binds."""


Draw = Callable[[random.Random], Case]


@dataclass(frozen=True)
class Kind:
    """A kind of server, from which cases are drawn."""

    name: str
    note: str
    """Why the right names are right."""
    draw: Draw


KINDS: dict[str, Kind] = {}
"""The kinds that the rules may be changed for, by name."""
HELD_OUT: dict[str, Kind] = {}
"""The kinds that no rule is changed for, by name."""


def kind(note: str, kinds: dict[str, Kind] = KINDS) -> Callable[[Draw], Draw]:
    """Registers a function as a kind; its name is the kind's."""

    def register(draw: Draw) -> Draw:
        name = draw.__name__.replace("_", " ")
        kinds[name] = Kind(name, note, draw)
        return draw

    return register


def held_out(note: str) -> Callable[[Draw], Draw]:
    """Registers a function as a kind that no rule is changed for."""
    return kind(note, HELD_OUT)


def drawn(name: str, seed: int) -> Case:
    """The case that a seed gives, of a kind."""
    return {**KINDS, **HELD_OUT}[name].draw(random.Random(f"{name} {seed}"))


def logarithmic(draw: random.Random, low: float, high: float) -> float:
    """A number between two, evenly on a logarithmic scale, with three digits."""
    value = math.exp(draw.uniform(math.log(low), math.log(high)))
    return float(f"{value:.3g}")


def service(draw: random.Random, low_us: float, high_us: float, shapes: str = "celb") -> tuple[str, float]:
    """A service time by a random distribution, and its mean in seconds."""
    mean = logarithmic(draw, low_us, high_us)
    texts = {
        "c": f"constant:{mean}",
        "e": f"exponential:{mean}",
        "l": f"lognormal:{mean}:{draw.uniform(0.3, 1.2):.2f}",
        "b": f"bimodal:{mean * 0.6:.1f}:{mean * 4.6:.1f}:0.1",
        "p": f"pareto:{mean}:{draw.uniform(2.2, 3.5):.2f}",
    }
    return texts[draw.choice(shapes)], mean / 1e6

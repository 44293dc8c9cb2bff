"""``python -m bench.cluster_idle``: what Ray's daemons cost a machine while no load runs.

Starts a cluster with one agent on this machine, as ``iocurve cluster up`` does, and measures the CPU time of the
daemons of the head and of the node, and the gaps of a thread that spins on the processor of the daemons and on another
one. Rounds without and with the cluster take turns, so that the gaps of everything else on the machine are known.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from statistics import median

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from bench.processes import session_cpu_s
from iocurve.cluster import started
from iocurve.foundation.units import SECOND_NS
from iocurve.measure import spin

SETTLE_S = 15
"""Time after the start of the cluster until its daemons are idle."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures and prints the tables."""
    options = _parser().parse_args(arguments)
    processors = sorted(os.sched_getaffinity(0))
    shared, other = processors[0], processors[-1]
    found: dict[tuple[bool, int], list[tuple[int, int]]] = {}
    cpu: list[dict[str, float]] = []
    with tempfile.TemporaryDirectory() as state:
        os.environ["XDG_STATE_HOME"] = state
        for _ in range(options.rounds):
            for processor in dict.fromkeys((shared, other)):
                found.setdefault((False, processor), []).append(spin.gaps(options.seconds, processor))
            started.up(1)
            try:
                time.sleep(SETTLE_S)
                for processor in dict.fromkeys((shared, other)):
                    found.setdefault((True, processor), []).append(spin.gaps(options.seconds, processor))
                cpu.append(_daemons(options.cpu_seconds))
            finally:
                started.down()
    console = Console(width=120)
    for name in cpu[0]:
        spent = [60 * one[name] for one in cpu]
        console.print(f"{name}: {median(spent):.2f} CPU seconds a minute, {min(spent):.2f} to {max(spent):.2f}")
    console.print(_table(found, shared, options.seconds))
    return 0


def _daemons(seconds: float) -> dict[str, float]:
    """CPU seconds per second of the head and of the node."""
    names = ("head", "node")
    known = started.StartedCluster.known()
    groups = [process.pid for process in known.alive] if known else []
    before = [session_cpu_s(group) for group in groups]
    time.sleep(seconds)
    after = [session_cpu_s(group) for group in groups]
    return {name: (late - early) / seconds for name, early, late in zip(names, before, after, strict=True)}


def _table(found: dict[tuple[bool, int], list[tuple[int, int]]], shared: int, seconds: float) -> Table:
    table = Table(title=f"Gaps of a spinning thread, {seconds:g} s a round", title_justify="left", box=SIMPLE)
    for heading in ("processor", "cluster", "longest gap ms (each round)", "in gaps, % (each round)"):
        table.add_column(heading)
    for (with_cluster, processor), rounds in sorted(found.items(), key=lambda item: (item[0][1], item[0][0])):
        table.add_row(
            "of the daemons" if processor == shared else "another",
            "idle" if with_cluster else "none",
            ", ".join(f"{longest / 1e6:.2f}" for longest, _ in rounds),
            ", ".join(f"{100 * lost / seconds / SECOND_NS:.2f}" for _, lost in rounds),
        )
    return table


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.cluster_idle", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=15, help="time of each spin")
    parser.add_argument("--cpu-seconds", type=float, default=60, help="time for the CPU time of the daemons")
    return parser


if __name__ == "__main__":
    sys.exit(main())

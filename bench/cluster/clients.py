"""``python -m bench.cluster.clients 10 25 50``: the processor time that real agents cost the head.

The agents are processes on two nodes of a cluster on this machine; each issues 20 operations per second of the
null engine and sends an interval each second. An agent takes about 100 MiB of memory.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from iocurve.cluster import session, started
from iocurve.cluster.session import RayLink
from iocurve.cluster.started import StartedCluster
from iocurve.dialects.fio.command import read_command
from iocurve.engine.outcome import Live
from iocurve.measure import local
from iocurve.measure.deployment import replicated
from iocurve.measure.group import ClientGroup, loop_in_thread

JOB = "--name=a --ioengine=null --size=1g --bs=4k --rw=randread --rate_iops=20 --time_based --thread"
NODES = 2
INTRODUCE_S = 600.0
"""Processes that all start at once on few processors take their time."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints a line for each number of agents."""
    parser = argparse.ArgumentParser(prog="python -m bench.cluster.clients", description=__doc__)
    parser.add_argument("clients", nargs="+", type=int, help="numbers of agents, one run each")
    parser.add_argument("--seconds", type=int, default=30, help="length of a run (default: %(default)s)")
    options = parser.parse_args(arguments)
    started.up(NODES)
    try:
        for count in options.clients:
            with _clients(count) as group:
                program, daemons = _cost(group, options.seconds)
            each_us = 1e6 * (program + daemons) / count
            print(
                f"{count} clients: {program:.3f} of a processor for the program, {daemons:.3f} for the head's daemons, "
                f"{each_us:,.0f} µs per client and second; load average {os.getloadavg()[0]:.0f}",
                flush=True,
            )
    finally:
        started.down()
    return 0


@contextmanager
def _clients(count: int) -> Iterator[ClientGroup]:
    """Agents, several on each node; a run of a user has one on each."""
    with session._reached(None) as (head, expected):
        found, _ = session._awaited(head, expected, NODES, 60)
        with session._joined(head) as ray, loop_in_thread() as loop:
            links = []
            for number in range(count):
                remote = session._remote(ray, {f"node:{found[number % NODES].address}": 0.001})
                links.append(RayLink(ray, remote.remote(is_under_daemons=True), f"client{number}"))
            try:
                asked = asyncio.run_coroutine_threadsafe(session._introductions(links, INTRODUCE_S), loop).result()
                yield ClientGroup(session._introduced(links, asked), loop, "Ray")
            finally:
                session._end(links)


def _cost(group: ClientGroup, seconds: int) -> tuple[float, float]:
    """Processors that this program and the daemons of the head take from the first interval to the last."""
    plan = replicated(read_command([*JOB.split(), f"--runtime={seconds}"]).plan, group.count)
    cluster = StartedCluster.known()
    assert cluster is not None, "it was started above"
    host = cluster.address.rpartition(":")[0]
    daemons = [one for one in _tree(cluster.processes[0].pid) if "gcs_server" in _words(one) or host in _words(one)]
    marks: list[tuple[float, float, float]] = []

    def mark(live: Live) -> bool:
        if live.phase == "run":
            marks.append((time.monotonic(), time.process_time(), sum(map(_cpu_s, daemons))))
        return False

    point, _ = local.measure(plan, mark, machines=group)
    states = {client.state for client in point.clients}
    assert states == {"finished"}, f"agents {states}"
    (start_s, program_s, daemons_s), (end_s, program_end_s, daemons_end_s) = marks[0], marks[-1]
    return (program_end_s - program_s) / (end_s - start_s), (daemons_end_s - daemons_s) / (end_s - start_s)


def _tree(process: int) -> list[int]:
    """A process and its descendants."""
    children = [one for task in Path(f"/proc/{process}/task").glob("*/children") for one in task.read_text().split()]
    return [process, *(one for child in children for one in _tree(int(child)))]


def _words(process: int) -> str:
    return Path(f"/proc/{process}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")


def _cpu_s(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    raise SystemExit(main())

"""A cluster on this machine, to try it: a head and some nodes on loopback addresses, with separate processes.

Ray listens on all addresses of the machine, so the ports can be reached from outside; the token keeps others out. It
would not for a node at 127.0.0.1, but ``ray start`` replaces that by the own address of the machine.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, suppress
from ipaddress import IPv4Address
from pathlib import Path

from iocurve.cluster import ray_options, session
from iocurve.cluster.ray_options import made_token, state_directory
from iocurve.errors import RunError
from iocurve.units import counted

FIRST_ADDRESS = IPv4Address("127.0.0.10")
"""Address of the head; the nodes have the next ones. Ray replaces 127.0.0.1 by the machine's own address."""
PORT = 6379
UP_S = 180
DOWN_S = 20


def up(nodes: int) -> str:
    """Starts a cluster; gives the address of its head. Raises ``RunError``."""
    session.load_ray()
    if process_groups():
        raise RunError("a local cluster is up; iocurve cluster down ends it")
    address = f"{FIRST_ADDRESS}:{PORT}"
    environment = os.environ | ray_options.ENVIRONMENT | ray_options.HEAD_ENVIRONMENT
    environment |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(made_token())}
    started: list[int] = []
    try:
        started.append(_started([*ray_options.head(PORT), f"--node-ip-address={FIRST_ADDRESS}"], environment, 0))
        _remember(started)
        _wait_for(address, 0)
        for number in range(1, nodes + 1):
            at = f"--node-ip-address={FIRST_ADDRESS + number}"
            started.append(_started([*ray_options.node(address), at], environment, number))
            _remember(started)
        _wait_for(address, nodes)
    except BaseException:
        down()
        raise
    return address


def down() -> int:
    """Ends the local cluster; gives the number of its nodes and heads that were ended."""
    processes = process_groups()
    for process in reversed(processes):
        with suppress(ProcessLookupError):
            os.killpg(process, signal.SIGTERM)
    until = time.monotonic() + DOWN_S
    while any(map(_is_alive, processes)) and time.monotonic() < until:
        time.sleep(0.1)
    for process in filter(_is_alive, processes):
        with suppress(ProcessLookupError):
            os.killpg(process, signal.SIGKILL)
    _memory().unlink(missing_ok=True)
    return len(processes)


def process_groups() -> list[int]:
    """The process groups of the local cluster that are alive."""
    return [process for process in _known() if _is_alive(process)]


def _started(options: list[str], environment: dict[str, str], number: int) -> int:
    """Starts a node in a separate session; returns its process group."""
    ray = shutil.which("ray", path=f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}")
    if ray is None:
        raise RunError("the command ray is missing: pip install 'iocurve[scale]'")
    first = min(os.sched_getaffinity(0))
    words = [*ray_options.bound(first), ray, "start", *options, *ray_options.common(_free_ports()), "--block"]
    log = state_directory() / f"node-{number}.log"
    with log.open("w") as output:
        process = subprocess.Popen(
            words, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
        )
    return process.pid


def _free_ports() -> dict[str, int]:
    """Ports for the agents of a node, which are several on this machine."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in ray_options.AGENT_PORTS]
        return {name: one.getsockname()[1] for name, one in zip(ray_options.AGENT_PORTS, sockets, strict=True)}


def _wait_for(address: str, nodes: int) -> None:
    """Returns once the cluster has that many load clients. Raises ``RunError``, also if one of its processes ends."""
    started = len(_known())
    until = time.monotonic() + UP_S
    while True:
        found = _nodes_at(address)
        if found is not None and found >= nodes:
            return
        ended = len(process_groups()) < started
        if ended or time.monotonic() > until:
            why = "a process of the local cluster has ended" if ended else f"it is not up after {UP_S} s"
            there = f"{found or 0} of {counted(nodes, 'node')}"
            raise RunError(f"{why}; {there} joined; see {state_directory()}/node-*.log")
        time.sleep(0.5)


def _nodes_at(address: str) -> int | None:
    """Load clients of the cluster; None while it does not answer."""
    code = (
        "import sys; from iocurve.cluster import session\n"
        "ray = session.connect(sys.argv[1]); print(len(session.load_nodes(ray)))"
    )
    asked = subprocess.run([sys.executable, "-c", code, address], capture_output=True, text=True, check=False)
    return int(asked.stdout.split()[-1]) if asked.returncode == 0 and asked.stdout.strip() else None


def _memory() -> Path:
    return state_directory() / "local.json"


def _remember(processes: list[int]) -> None:
    _memory().write_text(json.dumps(processes))


def _known() -> list[int]:
    """The process groups that were started."""
    try:
        return [int(process) for process in json.loads(_memory().read_text())]
    except (OSError, ValueError):
        return []


def _is_alive(process: int) -> bool:
    """True for a node that this module started, and not for another process that got its number."""
    try:
        text = Path(f"/proc/{process}/cmdline").read_bytes().decode(errors="replace")
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z" and "start" in text and "ray" in text

"""A cluster on this machine, to try it: a head and some nodes on loopback addresses, with separate processes.

Ray listens on all addresses of the machine, so the ports can be reached from outside; the token keeps others out. It
would not for a node at 127.0.0.1, but ``ray start`` replaces that by the own address of the machine.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, suppress
from ipaddress import IPv4Address
from pathlib import Path

import msgspec

from iocurve.cluster import ray_options, session
from iocurve.cluster.ray_options import made_token, state_directory
from iocurve.errors import RunError
from iocurve.units import counted

FIRST_ADDRESS = IPv4Address("127.0.0.10")
"""Address of the head; the nodes have the next ones. Ray replaces 127.0.0.1 by the machine's own address."""
PORT = 6379
UP_S = 180
DOWN_S = 20
ERROR = re.compile(r"Check failed|\bbind\b|^\w*(?:Error|Exception): | [CF] \d+ \d+\] ")
"""A line of Ray's logs that says why a process ends."""


class LocalCluster(msgspec.Struct):
    """The processes of a local cluster and their files, as kept for the commands that come later."""

    directory: str
    """Holds a directory for each node."""
    processes: list[int] = []
    """Process groups of the head and of the nodes, in their order."""

    @classmethod
    def known(cls) -> LocalCluster | None:
        """The cluster that was started last; None if it was taken down."""
        try:
            return msgspec.json.decode(_memory().read_bytes(), type=cls)
        except (OSError, msgspec.DecodeError):
            return None

    @property
    def alive(self) -> list[int]:
        """The process groups that have not ended."""
        return [process for process in self.processes if _is_alive(process)]

    def start(self, options: list[str], environment: dict[str, str]) -> None:
        """Starts the head, or the next node, in a separate session."""
        ray = shutil.which("ray", path=f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}")
        if ray is None:
            raise RunError("the command ray is missing: pip install 'iocurve[scale]'")
        number = len(self.processes)
        # Nodes that share a directory choose the names of their sockets by what is there: two that start at once take
        # the same.
        common = [*ray_options.common(_free_ports()), f"--temp-dir={self.directory}/{number}"]
        words = [*ray_options.bound(min(os.sched_getaffinity(0))), ray, "start", *options, *common, "--block"]
        with _log(number).open("w") as output:
            process = subprocess.Popen(
                words, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
            )
        self.processes.append(process.pid)
        _memory().write_bytes(msgspec.json.encode(self))

    def wait_for(self, address: str, nodes: int) -> None:
        """Returns once the cluster has that many load clients. Raises ``RunError``, also if a process ends."""
        until = time.monotonic() + UP_S
        while True:
            found = _nodes_at(address)
            if found is not None and found >= nodes:
                return
            ended = len(self.alive) < len(self.processes)
            if ended or time.monotonic() > until:
                why = "a process of the local cluster has ended" if ended else f"it is not up after {UP_S} s"
                raise RunError(f"{why}; {found or 0} of {counted(nodes, 'node')} joined{self.cause()}")
            time.sleep(0.5)

    def cause(self) -> str:
        """The last error of the first process that has ended, and its log; nothing while all are alive."""
        for number, process in enumerate(self.processes):
            if not _is_alive(process):
                logs = [*Path(self.directory, str(number)).glob("session_latest/logs/raylet*.out"), _log(number)]
                lines = [line.strip() for log in logs for line in log.read_text(errors="replace").splitlines()]
                told = [line for line in lines if ERROR.search(line)] or lines[-1:] or ["it wrote nothing"]
                return f"; {f'node {number}' if number else 'the head'}: {told[0]} ({_log(number)})"
        return ""

    def end(self) -> int:
        """Ends the processes and removes their files; gives the number of those that were alive."""
        alive = self.alive
        for process in reversed(alive):
            with suppress(ProcessLookupError):
                os.killpg(process, signal.SIGTERM)
        until = time.monotonic() + DOWN_S
        while any(map(_is_alive, alive)) and time.monotonic() < until:
            time.sleep(0.1)
        for process in filter(_is_alive, alive):
            with suppress(ProcessLookupError):
                os.killpg(process, signal.SIGKILL)
        _memory().unlink(missing_ok=True)
        shutil.rmtree(self.directory, ignore_errors=True)
        return len(alive)


def up(nodes: int) -> str:
    """Starts a cluster; gives the address of its head. Raises ``RunError``."""
    session.load_ray()
    known = LocalCluster.known()
    if known and known.alive:
        raise RunError("a local cluster is up; iocurve cluster down ends it")
    address = f"{FIRST_ADDRESS}:{PORT}"
    environment = os.environ | ray_options.ENVIRONMENT | ray_options.HEAD_ENVIRONMENT
    environment |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(made_token())}
    cluster = LocalCluster(tempfile.mkdtemp(prefix="iocurve-"))
    try:
        cluster.start([*ray_options.head(PORT), f"--node-ip-address={FIRST_ADDRESS}"], environment)
        cluster.wait_for(address, 0)
        for number in range(1, nodes + 1):
            at = f"--node-ip-address={FIRST_ADDRESS + number}"
            cluster.start([*ray_options.node(address), at], environment)
        cluster.wait_for(address, nodes)
    except BaseException:
        cluster.end()
        raise
    return address


def down() -> int:
    """Ends the local cluster; gives the number of its nodes and heads that were ended."""
    known = LocalCluster.known()
    return known.end() if known else 0


def _free_ports() -> dict[str, int]:
    """Ports for the agents of a node, which are several on this machine."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in ray_options.AGENT_PORTS]
        return {name: one.getsockname()[1] for name, one in zip(ray_options.AGENT_PORTS, sockets, strict=True)}


def _nodes_at(address: str) -> int | None:
    """Load clients of the cluster; None while it does not answer."""
    code = (
        "import sys; from iocurve.cluster import session\n"
        "ray = session.connect(sys.argv[1]); print(len(session.load_nodes(ray)))"
    )
    asked = subprocess.run([sys.executable, "-c", code, address], capture_output=True, text=True, check=False)
    return int(asked.stdout.split()[-1]) if asked.returncode == 0 and asked.stdout.strip() else None


def _log(number: int) -> Path:
    return state_directory() / f"node-{number}.log"


def _memory() -> Path:
    return state_directory() / "local.json"


def _is_alive(process: int) -> bool:
    """True for a node that this module started, and not for another process that got its number."""
    try:
        text = Path(f"/proc/{process}/cmdline").read_bytes().decode(errors="replace")
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z" and "start" in text and "ray" in text

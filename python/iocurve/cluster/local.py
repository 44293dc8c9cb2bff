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
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from importlib.util import find_spec
from ipaddress import IPv4Address
from pathlib import Path
from typing import Literal

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
ASK_S = 60
ERROR = re.compile(r"Check failed|\bbind\b|^\w*(?:Error|Exception): | [CF] \d+ \d+\] ")
"""A line of Ray's logs that says why a process ends."""


class Process(msgspec.Struct, frozen=True):
    """The leader of a process group that belongs to the cluster."""

    pid: int
    role: Literal["ray", "ssh", "holder"]
    """The holder keeps the inputs of all connections open; without it the hosts end their nodes."""
    started: int
    """Start in clock ticks after boot (proc_pid_stat(5)), which tells it from another process of the same number."""

    @classmethod
    def of(cls, pid: int, role: Literal["ray", "ssh", "holder"]) -> Process:
        """A process that was started just now."""
        return cls(pid, role, _started(pid) or 0)

    @property
    def is_alive(self) -> bool:
        """False for a zombie, too."""
        return _started(self.pid) == self.started

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal to the group if its leader is alive."""
        if self.is_alive:
            with suppress(ProcessLookupError):
                os.killpg(self.pid, number)


class LocalCluster(msgspec.Struct):
    """The processes of a local cluster and their files, as kept for the commands that come later."""

    directory: str
    """Holds a directory for each node."""
    processes: list[Process] = []
    """The head and the nodes on this machine, and the connections to hosts."""

    @classmethod
    def known(cls) -> LocalCluster | None:
        """The cluster that was started last; None if it was taken down."""
        try:
            return msgspec.json.decode(_memory().read_bytes(), type=cls)
        except (OSError, msgspec.DecodeError):
            return None

    @classmethod
    def require_none(cls) -> None:
        """Raises ``RunError`` while a cluster is up, or where there is no Ray."""
        # Ray reads its mode of authentication when it is loaded, and there may be no token yet.
        if find_spec("ray") is None:
            session.load_ray()
        known = cls.known()
        if known and known.alive:
            raise RunError("a cluster is up; iocurve cluster down ends it")

    @property
    def alive(self) -> list[Process]:
        """The processes that have not ended."""
        return [process for process in self.processes if process.is_alive]

    def start(self, options: list[str], environment: Mapping[str, str]) -> None:
        """Starts the head, or the next node, in a separate session."""
        environment = {**os.environ, **ray_options.ENVIRONMENT, **environment}
        environment |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(made_token())}
        ray = shutil.which("ray", path=f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}")
        if ray is None:
            raise RunError("the command ray is missing: pip install 'iocurve[scale]'")
        number = len(self._rays())
        # Nodes that share a directory choose the names of their sockets by what is there: two that start at once take
        # the same.
        common = [*ray_options.common(_free_ports()), f"--temp-dir={self.directory}/{number}"]
        words = [*ray_options.bound(min(os.sched_getaffinity(0))), ray, "start", *options, *common, "--block"]
        with _log(number).open("w") as output:
            process = subprocess.Popen(
                words, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
            )
        self.adopt(process.pid, "ray")

    def start_head(self, address: str) -> None:
        """Starts the head at HOST:PORT of this machine, and returns when it answers. Raises ``RunError``."""
        host, _, port = address.rpartition(":")
        self.start([*ray_options.head(int(port)), f"--node-ip-address={host}"], ray_options.HEAD_ENVIRONMENT)
        self.wait_for(address, 0)

    def _rays(self) -> list[Process]:
        return [process for process in self.processes if process.role == "ray"]

    def adopt(self, pid: int, role: Literal["ray", "ssh", "holder"]) -> None:
        """Adds the leader of a process group that ends with the cluster."""
        self.processes.append(Process.of(pid, role))
        state_directory().mkdir(parents=True, exist_ok=True)
        _memory().write_bytes(msgspec.json.encode(self))

    def wait_for(self, address: str, nodes: int) -> None:
        """Returns once the cluster has that many load clients. Raises ``RunError``, also if a process ends."""
        until = time.monotonic() + UP_S
        while True:
            found = nodes_at(address)
            if found is not None and len(found) >= nodes:
                return
            ended = len(self.alive) < len(self.processes)
            if ended or time.monotonic() > until:
                why = "a process of the local cluster has ended" if ended else f"it is not up after {UP_S} s"
                raise RunError(f"{why}; {len(found or ())} of {counted(nodes, 'node')} joined{self.cause()}")
            time.sleep(0.5)

    def cause(self) -> str:
        """The last error of the first process that has ended, and its log; nothing while all are alive."""
        for number, process in enumerate(self._rays()):
            if not process.is_alive:
                logs = [*Path(self.directory, str(number)).glob("session_latest/logs/raylet*.out"), _log(number)]
                lines = [line for log in logs for line in log.read_text(errors="replace").splitlines()]
                told = last_error(lines) or "it wrote nothing"
                return f"; {f'node {number}' if number else 'the head'}: {told} ({_log(number)})"
        return ""

    def end(self) -> int:
        """Ends the processes and removes their files; gives the number of those that were alive."""
        alive = self.alive
        hosts = [process for process in alive if process.role == "ssh"]
        # Without the holder each host ends its node, and then the connection.
        for process in alive:
            if process.role == "holder":
                process.signal(signal.SIGTERM)
        _wait(hosts)
        for process in reversed(alive):
            process.signal(signal.SIGTERM)
        _wait(alive)
        for process in alive:
            process.signal(signal.SIGKILL)
        _memory().unlink(missing_ok=True)
        shutil.rmtree(self.directory, ignore_errors=True)
        return len(alive)


def up(nodes: int) -> str:
    """Starts a cluster; gives the address of its head. Raises ``RunError``."""
    LocalCluster.require_none()
    address = f"{FIRST_ADDRESS}:{PORT}"
    cluster = LocalCluster(tempfile.mkdtemp(prefix="iocurve-"))
    try:
        cluster.start_head(address)
        for number in range(1, nodes + 1):
            at = f"--node-ip-address={FIRST_ADDRESS + number}"
            cluster.start([*ray_options.node(address), at], ray_options.HEAD_ENVIRONMENT)
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


def last_error(lines: Sequence[str]) -> str | None:
    """The line of Ray's logs that says why a process has ended; otherwise the last line."""
    told = [line for line in lines if ERROR.search(line)] or [line for line in lines if line.strip()][-1:]
    return told[0].strip() if told else None


def nodes_at(address: str) -> list[str] | None:
    """Addresses of the cluster's load clients; None while it does not answer."""
    code = (
        "import sys; from iocurve.cluster import session\n"
        "nodes = session.load_nodes(session.connect(sys.argv[1]))\n"
        "print('nodes', *(node['NodeManagerAddress'] for node in nodes))"
    )
    words = [sys.executable, "-c", code, address]
    try:
        asked = subprocess.run(words, capture_output=True, text=True, check=False, timeout=ASK_S)
    except subprocess.TimeoutExpired:
        return None
    lines = [line.split()[1:] for line in asked.stdout.splitlines() if line.startswith("nodes")]
    return lines[-1] if asked.returncode == 0 and lines else None


def _log(number: int) -> Path:
    return state_directory() / f"node-{number}.log"


def _memory() -> Path:
    return state_directory() / "local.json"


def _wait(processes: Sequence[Process]) -> None:
    until = time.monotonic() + DOWN_S
    while any(process.is_alive for process in processes) and time.monotonic() < until:
        time.sleep(0.1)


def _started(pid: int) -> int | None:
    """Start of a process in clock ticks after boot; None for one that has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else int(fields[19])

"""Clusters that iocurve starts: their processes on this machine, and their files, which end together.

Ray listens on all addresses of a machine, whatever the address of a node, so its ports can be reached from outside; the
token keeps others out. It would not for a node at 127.0.0.1, but ``ray start`` replaces that by the own address of the
machine.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from ipaddress import IPv4Address
from pathlib import Path
from typing import Literal

import msgspec

from iocurve.cluster import nodes, ray_options
from iocurve.cluster.keeper import RAY
from iocurve.cluster.ray_options import cluster_directory
from iocurve.foundation.errors import RunError
from iocurve.foundation.units import counted
from iocurve.machine.files import text_of
from iocurve.machine.processes import Process, start_ticks

FIRST_ADDRESS = IPv4Address("127.0.0.10")
"""Address of the head of a cluster on this machine; the nodes have the next ones. Ray replaces 127.0.0.1 by the
machine's own address."""
PORT = 6379
PORTS = range(20_000, 32_000)
"""Ports of agents: below those that the kernel gives to connections, which would keep an agent from listening."""
UP_S = 180
DOWN_S = 20
POLL_S = 0.3
ASK_S = 3.0
ERROR = re.compile(r"Check failed|\bbind\b|^\w*(?:Error|Exception): | [CF] \d+ \d+\] ")
"""A line of Ray's logs that says why a process ends."""
LEASE_S = 30
"""A host whose lease was not renewed for this long ends its node. The agent there stops by itself then."""
HOLD = f"""
import os, sys, time
owner, directory, *inputs = sys.argv[1:]
inputs = list(map(int, inputs))
while owner == "0" or os.getppid() == int(owner):
    for one in inputs:
        try:
            os.set_blocking(one, False)
            os.write(one, b'{{"lease": {LEASE_S}}}\\n')
        except OSError:
            pass
    time.sleep({LEASE_S} / 15)
for one in inputs:
    os.close(one)
ended = "import sys; from iocurve.cluster.started import StartedCluster; StartedCluster.end_left(sys.argv[1])"
os.execv(sys.executable, [sys.executable, "-c", ended, directory])
"""
"""Renews leases while the owner runs; when the owner was killed, ends what is left of its cluster."""
Role = Literal["ray", "ssh", "holder"]


class GroupLeader(msgspec.Struct, frozen=True):
    """The leader of a process group that belongs to the cluster."""

    pid: int
    role: Role
    """The holder keeps the inputs of all connections open; without it the hosts end their nodes."""
    started: int
    """Start in clock ticks after boot (proc_pid_stat(5)), which tells it from another process of the same number."""
    host: str = ""
    """The host of a connection."""

    @property
    def is_alive(self) -> bool:
        """False for a zombie, too."""
        return start_ticks(self.pid) == self.started

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal to the group if its leader is alive."""
        if self.is_alive:
            with suppress(ProcessLookupError):
                os.killpg(self.pid, number)


class StartedCluster(msgspec.Struct):
    """A cluster that iocurve started, as kept for the commands that come later."""

    directory: str
    """Holds the credentials and a directory for each node that runs here."""
    address: str = ""
    """HOST:PORT of its head."""
    hosts: dict[str, str] = {}
    """Addresses of its agents by the names of their machines."""
    processes: list[GroupLeader] = []
    """The head and the nodes on this machine, and the connections to hosts."""

    owner: Process | None = None
    """The program with which the cluster ends; None for one that stays until it is taken down."""

    @classmethod
    def made(cls, owner: Process | None = None) -> StartedCluster:
        """An empty cluster with its own token. Raises ``RunError`` while another is up, or where there is no Ray.

        A cluster whose owner was killed is ended first.
        """
        known = cls.known()
        if known and known.alive:
            if known.owner is None:
                raise RunError("a cluster is up; iocurve cluster down ends it")
            if known.owner.is_running:
                raise RunError(f"process {known.owner.pid} has a cluster with --hosts; one runs at a time")
            known.end()
        cluster = cls(tempfile.mkdtemp(prefix="iocurve-"), owner=owner)
        ray_options.make_token(Path(cluster.directory))
        return cluster

    @classmethod
    def end_left(cls, directory: str) -> None:
        """Ends the cluster with this directory if it is the one that was started last and its owner was killed."""
        known = cls.known()
        if known and known.directory == directory and known.owner and not known.owner.is_running:
            known.end()

    @classmethod
    def known(cls) -> StartedCluster | None:
        """The cluster that was started last; None if it was taken down."""
        try:
            return msgspec.json.decode(_memory().read_bytes(), type=cls)
        except (OSError, msgspec.DecodeError):
            return None

    @property
    def alive(self) -> list[GroupLeader]:
        """The processes that have not ended."""
        return [process for process in self.processes if process.is_alive]

    def environment(self) -> dict[str, str]:
        """Ray's variables for processes that use the cluster."""
        return ray_options.ENVIRONMENT | ray_options.environment(Path(self.directory))

    def start(self, options: Sequence[str], ports: Mapping[str, int]) -> None:
        """Starts the head, or the next node, in a separate session."""
        environment = {**os.environ, **self.environment(), **ray_options.HEAD_ENVIRONMENT}
        number = len(self._rays())
        # Nodes that share a directory choose the names of their sockets by what is there: two that start at once take
        # the same.
        common = [*ray_options.common(ports), f"--temp-dir={self.directory}/{number}"]
        words = [
            *ray_options.bound(min(os.sched_getaffinity(0))),
            sys.executable,
            "-P",
            "-c",
            RAY,
            "start",
            *options,
            *common,
        ]
        cluster_directory().mkdir(parents=True, exist_ok=True)
        with _log(number).open("w") as output:
            process = subprocess.Popen(
                words, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
            )
        self.adopt(process.pid, "ray")

    def start_head(self, address: str, ports: Mapping[str, int] = ray_options.HEAD_PORTS) -> None:
        """Starts the head at HOST:PORT of this machine, and returns when it answers. Raises ``RunError``."""
        self.address = address
        host, _, port = address.rpartition(":")
        with socket.socket() as probe:
            if probe.connect_ex((host, int(port))) == 0:
                raise RunError(f"port {port} of this machine is in use, and the head of a cluster needs it (ss -ltnp)")
        self.start([*ray_options.head(int(port)), f"--node-ip-address={host}"], ports)
        self.wait_for(0)

    def _rays(self) -> list[GroupLeader]:
        return [process for process in self.processes if process.role == "ray"]

    def adopt(self, pid: int, role: Role, host: str = "") -> None:
        """Adds the leader of a process group, started just now, that ends with the cluster."""
        self.processes.append(GroupLeader(pid, role, start_ticks(pid) or 0, host))
        self.keep()

    def hold(self, inputs: Sequence[int] = ()) -> None:
        """Renews the leases of hosts, by the inputs of their keepers, in a process that ends with the owner."""
        owner = self.owner.pid if self.owner else 0
        nothing = subprocess.DEVNULL
        holder = subprocess.Popen(
            [sys.executable, "-S", "-c", HOLD, str(owner), self.directory, *map(str, inputs)],
            pass_fds=inputs,
            start_new_session=True,
            stdin=nothing,
            stdout=nothing,
            stderr=nothing,
        )
        self.adopt(holder.pid, "holder")

    def keep(self) -> None:
        """Writes the cluster down for later commands."""
        cluster_directory().mkdir(parents=True, exist_ok=True)
        _memory().write_bytes(msgspec.json.encode(self))

    def joined(self) -> set[str] | None:
        """Addresses of the agents that have joined; None while the head does not answer.

        Raises ``RunError`` if the head or a node on this machine has ended.
        """
        if not all(process.is_alive for process in self._rays()):
            raise RunError(f"a process of the cluster has ended{self.cause()}")
        try:
            return {node.address for node in nodes.listed(self.address, ASK_S) if node.is_load_client}
        except RunError:
            # Daemons that start at once on few processors keep it waiting.
            return None

    def wait_for(self, count: int) -> None:
        """Returns once the cluster has that many agents. Raises ``RunError``, also if a process ends."""
        until = time.monotonic() + UP_S
        joined: set[str] = set()
        while True:
            found = self.joined()
            joined = joined if found is None else found
            if found is not None and len(joined) >= count:
                return
            if time.monotonic() > until:
                raise RunError(
                    f"the cluster is not up after {UP_S} s; {len(joined)} of {counted(count, 'node')} joined"
                )
            time.sleep(POLL_S)

    def cause(self) -> str:
        """The last error of the first process that has ended, and its log; nothing while all are alive."""
        for number, process in enumerate(self._rays()):
            if not process.is_alive:
                logs = [*Path(self.directory, str(number)).glob("session_latest/logs/raylet*.out"), _log(number)]
                lines = [line for log in logs for line in log.read_text(errors="replace").splitlines()]
                told = last_error(lines) or "it wrote nothing"
                return f"; {f'node {number}' if number else 'the head'}: {told} ({_log(number)})"
        return ""

    def ended_connection(self, address: str) -> str | None:
        """How the ssh connection to the host at an address ended; None while it is there."""
        names = {name for name, at in self.hosts.items() if at == address}
        ended = [one for one in self.processes if one.role == "ssh" and one.host in names and not one.is_alive]
        if not ended:
            return None
        lines = text_of(Path(self.directory) / f"{ended[0].host}.err").split("\n")
        told = next((line.strip() for line in reversed(lines) if line.strip()), "")
        return "its ssh connection has ended" + (f": {told}" if told else "")

    def end(self) -> int:
        """Ends the processes and removes their files; gives the number of those that were alive."""
        # The holder itself calls this when the owner was killed.
        alive = [process for process in self.alive if process.pid != os.getpid()]
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
        _wait(alive)
        _memory().unlink(missing_ok=True)
        shutil.rmtree(self.directory, ignore_errors=True)
        return len(alive)


def up(count: int, *, tls: bool = False) -> str:
    """Starts a cluster on this machine; gives the address of its head. Raises ``RunError``."""
    return _up(count, None, tls=tls).address


@contextmanager
def running_here(count: int) -> Iterator[str]:
    """A cluster on this machine while the context lasts, by the address of its head. Raises ``RunError``."""
    cluster = _up(count, Process.this())
    try:
        yield cluster.address
    finally:
        cluster.end()


def _up(count: int, owner: Process | None, *, tls: bool = False) -> StartedCluster:
    cluster = StartedCluster.made(owner)
    addresses = [str(FIRST_ADDRESS + number) for number in range(count + 1)]
    cluster.hosts = {address: address for address in addresses[1:]}
    try:
        if tls:
            ray_options.make_certificate(Path(cluster.directory), addresses)
        with ray_options.applied(cluster.environment()):
            nodes.load_ray()
            if owner:
                cluster.hold()
            cluster.start_head(f"{FIRST_ADDRESS}:{PORT}", _free_ports())
            for address in cluster.hosts:
                cluster.start([*ray_options.node(cluster.address), f"--node-ip-address={address}"], _free_ports())
            cluster.wait_for(count)
    except BaseException:
        cluster.end()
        raise
    return cluster


def down() -> int:
    """Ends the cluster that was started last; gives the number of its processes that were alive."""
    known = StartedCluster.known()
    return known.end() if known else 0


def _free_ports() -> dict[str, int]:
    """Ports for the agents of a node, which are several on this machine."""
    with ExitStack() as stack:

        def is_free(port: int) -> bool:
            with suppress(OSError):
                stack.enter_context(socket.create_server(("127.0.0.1", port)))
                return True
            return False

        drawn = filter(is_free, random.sample(PORTS, len(PORTS)))
        return dict(zip(ray_options.AGENT_PORTS, drawn, strict=False))


def last_error(lines: Sequence[str]) -> str | None:
    """The line of Ray's logs that says why a process has ended; otherwise the last line."""
    told = [line for line in lines if ERROR.search(line)] or [line for line in lines if line.strip()][-1:]
    return told[0].rpartition("and we'll work with you to fix it. ")[2].strip() if told else None


def _log(number: int) -> Path:
    return cluster_directory() / f"node-{number}.log"


def _memory() -> Path:
    return cluster_directory() / "started.json"


def _wait(processes: Sequence[GroupLeader]) -> None:
    until = time.monotonic() + DOWN_S
    while any(process.is_alive for process in processes) and time.monotonic() < until:
        time.sleep(0.1)

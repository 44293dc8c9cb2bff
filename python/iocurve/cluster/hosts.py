"""A cluster on hosts that ssh reaches: they need only sshd and Python, and nothing runs there afterwards.

The head runs on this machine. A keeper (``keeper.py``) on each host holds its node while the connection is open.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import IO, TypeVar

import msgspec

from iocurve.cluster import ray_options, session
from iocurve.cluster.host_lists import Host
from iocurve.cluster.local import LocalCluster, last_error, nodes_at
from iocurve.cluster.packages import Packages, needed
from iocurve.errors import RunError
from iocurve.measure.group import ClientGroup
from iocurve.units import counted, format_bytes

CONNECT_S = 15
"""Time in which a host must accept the connection."""
GREET_S = 30
"""Time from the start of ssh in which the keeper must answer."""
CARRY_S = 600
JOIN_S = 120
STARTS = 3
"""A node that has ended so often before it joined will not join."""
POLL_S = 0.1
FREE_BYTES_MIN = 1 << 30
NO_PYTHON = 127
"""Exit status of a shell that does not find a command."""
Report = Callable[[Host, str], None]
"""Called with each step of a host."""
T = TypeVar("T")


class Greeting(msgspec.Struct):
    """A host as its keeper tells about it."""

    machine: str
    connection: list[str]
    """Addresses and ports of the client and of the server of the connection, as sshd has them."""
    free_bytes: int
    has: bool
    """The packages are there from an earlier time."""


class Answer(msgspec.Struct):
    """A later line of the keeper."""

    unpacked: str | None = None
    error: str | None = None
    ended: int | None = None
    lines: list[str] = []


@dataclass(frozen=True)
class Reached:
    """A cluster on hosts."""

    cluster: LocalCluster
    address: str
    """HOST:PORT of its head."""
    nodes: dict[str, str]
    """Addresses of the nodes by the names of their hosts, in the order of the list."""


class HostError(Exception):
    """The cause for which one host cannot take part."""


class Connection:
    """The connection to the keeper of a host. Raises ``RunError`` where the program that connects does not start."""

    def __init__(self, host: Host, ssh: Sequence[str], directory: Path) -> None:
        self.host = host
        self._log = directory / f"{host.name}.log"
        self._errors = directory / f"{host.name}.err"
        self._read = 0
        words = [*ssh, "-T", "-o", "BatchMode=yes", "-o", f"ConnectTimeout={CONNECT_S}"]
        words += ["-p", str(host.port)] if host.port else []
        words += ["-l", host.user] if host.user else []
        words += ["--", host.name, _remote_command()]
        pipe = subprocess.PIPE
        try:
            with self._log.open("wb") as answers, self._errors.open("wb") as errors:
                self.process = subprocess.Popen(
                    words, stdin=pipe, stdout=answers, stderr=errors, start_new_session=True
                )
        except OSError as error:
            raise RunError(f"--ssh {' '.join(ssh)}: the program does not start: {error.strerror}") from None
        assert self.process.stdin is not None
        self.input: IO[bytes] = self.process.stdin

    def send(self, message: Mapping[str, object]) -> None:
        """Sends a message. Raises ``HostError``."""
        try:
            self.input.write(msgspec.json.encode(message) + b"\n")
            self.input.flush()
        except OSError:
            raise HostError(self._why_ended()) from None

    def answer(self, seconds: float, kind: type[T]) -> T:
        """The next line of the keeper. Raises ``HostError`` after that time, and if the connection ends."""
        until = time.monotonic() + seconds
        while True:
            line = self.next_line()
            if line:
                return msgspec.json.decode(line, type=kind)
            if self.process.poll() is not None:
                raise HostError(self._why_ended())
            if time.monotonic() > until:
                raise HostError(f"no answer for {seconds:g} s")
            time.sleep(POLL_S)

    def next_line(self) -> bytes:
        """The next line of the keeper; empty while there is none."""
        with self._log.open("rb") as log:
            log.seek(self._read)
            line = log.readline()
        if not line.endswith(b"\n"):
            return b""
        self._read += len(line)
        return line

    def _why_ended(self) -> str:
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(1)
        lines = [line.strip() for line in self._errors.read_text(errors="replace").splitlines() if line.strip()]
        if self.process.returncode == NO_PYTHON:
            return f"no Python {_own_python()} there: install python{_own_python()}"
        return lines[-1] if lines else f"ssh ended with status {self.process.returncode}"

    def carry(self, archive: Path) -> None:
        """Sends the packages. Raises ``HostError``."""
        self.send({"carry": archive.stat().st_size})
        try:
            with archive.open("rb") as content:
                while part := content.read(1 << 20):
                    self.input.write(part)
            self.input.flush()
        except OSError:
            raise HostError(self._why_ended()) from None
        answer = self.answer(CARRY_S, Answer)
        if answer.error:
            raise HostError(answer.error)


def _own_python() -> str:
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def _remote_command() -> str:
    """Starts the keeper by the Python of the same minor version, which modules in machine code need."""
    text = files("iocurve.cluster").joinpath("keeper.py").read_text(encoding="utf-8")
    own = f"python{_own_python()}"
    check = shlex.quote(f"import sys; sys.exit('{own}' != 'python%d.%d' % sys.version_info[:2])")
    tried = (
        f"for p in {own} /usr/local/bin/{own} python3; do command -v $p >/dev/null && $p -c {check} && exec $p -u -c"
    )
    script = f"{tried} {shlex.quote(text)}; done; exit {NO_PYTHON}"
    return f"sh -c {shlex.quote(script)}"


@contextmanager
def opened(hosts: Sequence[Host], ssh: str, report: Report, names: Sequence[str] = ()) -> Iterator[ClientGroup]:
    """Load clients on these hosts while the context lasts, in the order of ``names``, or of the hosts without names.

    Raises ``RunError``, and ``PlanError`` for a name that is no host.
    """
    reached = up(hosts, ssh, report)
    nodes = [reached.nodes.get(name, name) for name in names] or list(reached.nodes.values())
    try:
        with session.opened(reached.address, len(nodes), nodes) as group:
            yield group
    finally:
        reached.cluster.end()


def up(hosts: Sequence[Host], ssh: str, report: Report) -> Reached:
    """Starts a load client on every host, and the head here. Raises ``RunError`` with a line for each failing host."""
    LocalCluster.require_none()
    packages = needed()
    directory = Path(tempfile.mkdtemp(prefix="iocurve-"))
    cluster = LocalCluster(str(directory))
    connections: list[Connection] = []
    try:
        for host in hosts:
            connections.append(Connection(host, shlex.split(ssh), directory))
            cluster.adopt(connections[-1].process.pid, "ssh")
        greetings = _on_all(connections, partial(_greeted, key=packages.key))
        _carry(packages, [one for one in connections if not greetings[one.host].has], report)
        address = f"{_own_address(greetings)}:{ray_options.HEAD_PORT}"
        cluster.start_head(address)
        token = ray_options.made_token().read_text()
        _on_all(connections, partial(_start, address=address, token=token, greetings=greetings))
        _wait_for(connections, address, greetings, report)
        # The inputs of all connections stay open for as long as this process lives, also when this command has ended.
        inputs = [connection.input.fileno() for connection in connections]
        nothing = subprocess.DEVNULL
        holder = subprocess.Popen(
            ["sleep", "infinity"],
            pass_fds=inputs,
            start_new_session=True,
            stdin=nothing,
            stdout=nothing,
            stderr=nothing,
        )
        cluster.adopt(holder.pid, "holder")
        for connection in connections:
            connection.input.close()
    except BaseException:
        for connection in connections:
            with suppress(OSError):
                connection.input.close()
        cluster.end()
        raise
    return Reached(cluster, address, {host.name: greeting.connection[2] for host, greeting in greetings.items()})


def _on_all(connections: Sequence[Connection], step: Callable[[Connection], T]) -> dict[Host, T]:
    """Runs a step for all hosts at once. Raises ``RunError`` with a line for each that fails."""
    with ThreadPoolExecutor(len(connections)) as pool:
        running = {connection.host: pool.submit(step, connection) for connection in connections}
    failed = {host: error for host, one in running.items() if isinstance(error := one.exception(), HostError)}
    if failed:
        raise RunError(_told(failed, len(connections)))
    return {host: one.result() for host, one in running.items()}


def _told(failed: Mapping[Host, HostError], hosts: int) -> str:
    lines = "".join(f"\n  {host}: {error}" for host, error in failed.items())
    return f"{len(failed)} of {counted(hosts, 'host')} cannot take part:{lines}"


def _greeted(connection: Connection, key: str) -> Greeting:
    connection.send({"key": key})
    greeting = connection.answer(GREET_S, Greeting)
    own = os.uname().machine
    if greeting.machine != own:
        raise HostError(f"its processor is {greeting.machine}, that of this machine {own}")
    if len(greeting.connection) < 4:
        raise HostError("sshd does not tell the addresses of the connection (SSH_CONNECTION)")
    if not greeting.has and greeting.free_bytes < FREE_BYTES_MIN:
        free, needs = format_bytes(greeting.free_bytes), format_bytes(FREE_BYTES_MIN)
        raise HostError(f"its home has {free} free, and iocurve needs {needs}")
    return greeting


def _carry(packages: Packages, connections: Sequence[Connection], report: Report) -> None:
    """Sends the packages to hosts that lack them."""
    if not connections:
        return
    archive = packages.archive()
    for connection in connections:
        report(connection.host, f"gets iocurve ({format_bytes(archive.stat().st_size)})")
    _on_all(connections, lambda connection: connection.carry(archive))


def _own_address(greetings: Mapping[Host, Greeting]) -> str:
    """The address of this machine that the hosts see. Raises ``RunError`` if they see several."""
    seen = Counter(greeting.connection[0] for greeting in greetings.values())
    if len(seen) > 1:
        each = ", ".join(f"{address} ({counted(number, 'host')})" for address, number in seen.most_common())
        raise RunError(f"the hosts see this machine at several addresses: {each}; a head has one")
    return next(iter(seen))


def _start(connection: Connection, address: str, token: str, greetings: Mapping[Host, Greeting]) -> None:
    at = f"--node-ip-address={greetings[connection.host].connection[2]}"
    environment = ray_options.ENVIRONMENT | {"RAY_AUTH_MODE": "token"}
    options = [*ray_options.node(address), *ray_options.common(), at]
    connection.send({"start": options, "environment": environment, "token": token})


def _wait_for(
    connections: Sequence[Connection], address: str, greetings: Mapping[Host, Greeting], report: Report
) -> None:
    """Returns when every host has joined. Raises ``RunError`` with a line for each that has not."""
    missing = {greetings[connection.host].connection[2]: connection for connection in connections}
    why: dict[Host, HostError] = {}
    ends: Counter[Host] = Counter()
    until = time.monotonic() + JOIN_S
    while missing:
        for at in set(nodes_at(address) or ()) & missing.keys():
            report(missing.pop(at).host, "has joined")
        for connection in missing.values():
            while line := connection.next_line():
                answer = msgspec.json.decode(line, type=Answer)
                ends[connection.host] += 1
                why[connection.host] = HostError(
                    last_error(answer.lines) or f"its node ended with status {answer.ended}"
                )
        if missing and (time.monotonic() > until or max(ends.values(), default=0) >= STARTS):
            nothing = HostError(f"it has not joined {address}")
            raise RunError(_told({one.host: why.get(one.host, nothing) for one in missing.values()}, len(connections)))
        if missing:
            time.sleep(POLL_S)

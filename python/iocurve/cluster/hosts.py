"""A cluster on hosts that ssh reaches: they need only sshd and Python, and nothing runs there afterwards.

The head runs on this machine. A keeper (``keeper.py``) on each host holds its node while the connection is open.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import IO, TypeVar

import msgspec

from iocurve.cluster import nodes, ray_options
from iocurve.cluster.host_lists import Host
from iocurve.cluster.packages import Packages, interpreter, needed, own_version
from iocurve.cluster.started import StartedCluster, last_error
from iocurve.foundation.errors import RunError, words_of
from iocurve.foundation.units import SECOND_NS, counted, format_bytes, format_duration
from iocurve.machine.processes import Process

CONNECT_S = 15
"""Time in which a host must accept the connection."""
GREET_S = 30
"""Time from the start of ssh in which the keeper must answer."""
CARRY_S = 600
JOIN_S = 120
JOINING_MAX = 8
"""Hosts that join at once: each start of a node takes seconds of a processor, where hosts share one."""
STARTS = 3
"""A node that has ended so often before it joined will not join."""
POLL_S = 0.1
FREE_BYTES_MIN = 1 << 30
NODE_BYTES_MIN = 1 << 26
"""Room for the sockets and logs of a node."""
MEMORY_BYTES_MIN = 1 << 29
CLOCK_NS_MAX = 60 * SECOND_NS
"""A clock that is further off is reported. A run corrects it; logs and the time stamps of files it does not."""
MARK = "iocurve-keeper"
"""The line after which a host prints what the keeper says; a shell's start-up files may print before it."""
REMEDIES = {
    "Host key verification failed": "its key is not known here: connect once by hand, ssh {host}, or accept new keys "
    "with --ssh 'ssh -o StrictHostKeyChecking=accept-new'",
    "Permission denied": "ssh {host} must log in without a password: add USER@, or the key with --ssh 'ssh -i KEY'",
    "Could not resolve hostname": "no name server knows it: list its address, or --ssh 'ssh -F FILE' with its HostName",
    "Connection refused": "no sshd listens at this port: HOST:PORT takes another one",
    "No space left on device": "--remote-dir DIR names another directory of the host",
    "failed to map segment": "--remote-dir DIR: a directory from which the host runs programs",
}
"""Advice by a part of the last line that ssh prints."""
ANOTHER_DIRECTORY = "--remote-dir DIR names another directory of the host"
ALLOW_MISSING = "\n--allow-missing goes on without them"
Report = Callable[[Host, str], None]
"""Called with each step of a host."""
T = TypeVar("T")


class Greeting(msgspec.Struct):
    """A host as its keeper tells about it."""

    machine: str
    connection: list[str] = []
    """Addresses and ports of the client and of the server of the connection, as sshd has them."""
    identity: str = ""
    """The same for two names of one machine: its boot, and its network."""
    cache: str = ""
    """The directory for packages."""
    free_bytes: int = 0
    is_executable: bool = True
    """Programs may be run from that directory."""
    directory: str = ""
    """The directory for the node."""
    node_free_bytes: int = NODE_BYTES_MIN
    memory_bytes: int = 0
    time_ns: int = 0
    has: bool = False
    """The packages are there from an earlier time."""
    lacks: str | None = None
    """The Python of a host that has none of this minor version. There is no keeper yet, so nothing else is known."""


class HostAnswer(msgspec.Struct):
    """A later line of the keeper."""

    unpacked: str | None = None
    error: str | None = None
    ended: int | None = None
    lines: list[str] = []


class HostError(Exception):
    """The cause for which one host cannot take part."""


class Connection:
    """The connection to the keeper of a host. Raises ``RunError`` where the program that connects does not start."""

    def __init__(self, host: Host, ssh: Sequence[str], directory: Path, remote_directory: str = "") -> None:
        self.host = host
        self._log = directory / f"{host.name}.log"
        self._errors = directory / f"{host.name}.err"
        self._read = 0
        self._is_marked = False
        self._before = b""
        words = [*ssh, "-T", "-o", "BatchMode=yes", "-o", f"ConnectTimeout={CONNECT_S}"]
        words += ["-p", str(host.port)] if host.port else []
        words += ["-l", host.user] if host.user else []
        words += ["--", host.name, remote_command(remote_directory)]
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

    def send(self, message: Mapping[str, object] | int) -> None:
        """Sends a message. Raises ``HostError``."""
        try:
            self.input.write(msgspec.json.encode(message) + b"\n")
            self.input.flush()
        except OSError:
            raise HostError(self.why_ended()) from None

    def answer(self, seconds: float, kind: type[T]) -> T:
        """The next line of the keeper. Raises ``HostError`` after that time, and if the connection ends."""
        until = time.monotonic() + seconds
        while True:
            # A process that has ended prints no more, so one read after that misses nothing.
            has_ended = self.process.poll() is not None
            if (reply := self.next_reply(kind)) is not None:
                return reply
            if has_ended:
                raise HostError(self.why_ended())
            if time.monotonic() > until:
                raise HostError(f"no answer for {seconds:g} s")
            time.sleep(POLL_S)

    def next_reply(self, kind: type[T]) -> T | None:
        """The next line of the keeper; None while there is none. Raises ``HostError`` for a line that is none."""
        while line := self._next_line():
            if self._is_marked:
                try:
                    return msgspec.json.decode(line, type=kind)
                except msgspec.DecodeError:
                    shown = line.decode(errors="replace").strip()
                    raise HostError(f"it prints a line that is not the keeper's: {shown}") from None
            self._is_marked = line.strip() == MARK.encode()
            self._before = line.strip() or self._before
        return None

    def _next_line(self) -> bytes:
        with self._log.open("rb") as log:
            log.seek(self._read)
            line = log.readline()
        if not line.endswith(b"\n"):
            return b""
        self._read += len(line)
        return line

    def why_ended(self) -> str:
        """The last line of ssh, with advice where there is some."""
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(1)
        lines = [line.strip() for line in self._errors.read_text(errors="replace").splitlines() if line.strip()]
        if not lines and not self._is_marked and self._before:
            lines = [self._before.decode(errors="replace")]
        told = lines[-1] if lines else f"ssh ended with status {self.process.returncode}"
        remedy = next((remedy for cause, remedy in REMEDIES.items() if cause in told), None)
        return f"{told} ({remedy.format(host=self.host.name)})" if remedy else told

    def carry(self, archive: Path) -> None:
        """Sends the packages. Raises ``HostError``."""
        self.send({"carry": archive.stat().st_size})
        self._send_file(archive)
        answer = self.answer(CARRY_S, HostAnswer)
        if answer.error:
            raise HostError(answer.error)

    def carry_interpreter(self, archive: Path | None) -> None:
        """Sends a Python to the shell that waits for one, or no Python. Raises ``HostError``."""
        self.send(archive.stat().st_size if archive else 0)
        if archive:
            self._send_file(archive)

    def _send_file(self, path: Path) -> None:
        try:
            with path.open("rb") as content:
                shutil.copyfileobj(content, self.input, 1 << 20)
            self.input.flush()
        except OSError:
            raise HostError(self.why_ended()) from None


def remote_command(directory: str = "") -> str:
    """Runs ``templates/start.sh`` in the shell of a host; ``directory`` is that of --remote-dir."""
    own = files("iocurve.cluster")
    keeper = own.joinpath("keeper.py").read_text(encoding="utf-8")
    start = own.joinpath("templates/start.sh").read_text(encoding="utf-8")
    version = own_version()
    check = f"import sys; sys.exit('{version}' != '%d.%d' % sys.version_info[:2])"
    values = {
        "keeper": keeper,
        "version": version,
        "python": f"python{version}",
        "check": check,
        "mark": MARK,
        "directory": directory,
    }
    given = "".join(f"{name}={shlex.quote(value)}\n" for name, value in values.items())
    return f"sh -c {shlex.quote(given + start)}"


@contextmanager
def started(
    hosts: Sequence[Host],
    ssh: str,
    report: Report,
    *,
    allow_missing: bool = False,
    tls: bool = False,
    remote_dir: str = "",
) -> Iterator[tuple[StartedCluster, tuple[str, ...]]]:
    """A cluster on these hosts while the context lasts, and the hosts that take no part. Raises ``RunError``."""
    own = Process.this()
    cluster, missing, _ = up(hosts, ssh, report, own, allow_missing=allow_missing, tls=tls, remote_dir=remote_dir)
    try:
        yield cluster, missing
    finally:
        cluster.end()


def up(
    hosts: Sequence[Host],
    ssh: str,
    report: Report,
    owner: Process | None = None,
    *,
    allow_missing: bool = False,
    tls: bool = False,
    remote_dir: str = "",
) -> tuple[StartedCluster, tuple[str, ...], dict[str, float]]:
    """Starts an agent on every host, and the head here. Raises ``RunError`` with a line for each failing host.

    The cluster ends with its ``owner``; without one it stays until it is taken down.
    With ``allow_missing`` the hosts that can take part suffice. ``remote_dir`` is the directory of the hosts for
    packages and files of the nodes; empty: their caches and temporary directories. Gives the cluster, the hosts that
    take no part with the cause of each, and the seconds of each step.
    """
    cluster = StartedCluster.made(owner)
    starting = _Starting(cluster, report, allow_missing)
    try:
        with ray_options.applied(cluster.environment()), nodes.messages_kept():
            starting.connect(hosts, words_of(ssh, "--ssh"), remote_dir)
            if tls:
                starting.make_certificate()
                os.environ.update(cluster.environment())
            starting.start_head()
            starting.hold()
            starting.start_nodes()
            starting.drop()
    except BaseException:
        starting.drop()
        cluster.end()
        raise
    return cluster, tuple(f"{host}: {error}" for host, error in starting.failed.items()), starting.seconds


class _Joining(msgspec.Struct):
    """A host whose node was started."""

    connection: Connection
    until: float
    is_again: bool = False
    ends: int = 0
    """Times that its node has ended."""
    why: HostError | None = None


class _Starting:
    """A cluster on hosts that is being started."""

    def __init__(self, cluster: StartedCluster, report: Report, allow_missing: bool) -> None:
        self._cluster, self._report, self._allow_missing = cluster, report, allow_missing
        self._directory = Path(cluster.directory)
        self._connections: list[Connection] = []
        self._greetings: dict[Host, Greeting] = {}
        self.failed: dict[Host, HostError] = {}
        self.seconds: dict[str, float] = {}

    def connect(self, hosts: Sequence[Host], ssh: Sequence[str], remote_dir: str) -> None:
        """Reaches the hosts, and gives the packages to those that lack them."""
        packages = needed()
        with self._timed("connect"):
            for host in hosts:
                self._connections.append(Connection(host, ssh, self._directory, remote_dir))
                self._cluster.adopt(self._connections[-1].process.pid, "ssh", host.name)
            self._greetings = self._greeted(packages.key)
            self._drop(_same_machines(self._greetings))
        for host, greeting in self._greetings.items():
            if (off_ns := abs(greeting.time_ns - time.time_ns())) > CLOCK_NS_MAX:
                self._report(host, f"its clock is off by {format_duration(off_ns)}: set it by NTP")
        lacking = {one.host for one in self._connections if not self._greetings[one.host].has}
        if lacking:
            with self._timed("copy"):
                self._carry(packages, lacking)

    def _greeted(self, key: str) -> dict[Host, Greeting]:
        """The greetings of the hosts; those without a Python of this version get one."""
        replies = self._on_all(partial(_reply, key=key))
        lacks = {host: reply.lacks for host, reply in replies.items() if reply.lacks}
        archive = interpreter() if lacks else None
        for host, other in lacks.items():
            source = f"gets it ({format_bytes(archive.stat().st_size)})" if archive else "its own uv is tried"
            self._report(host, f"has {other} and needs Python {own_version()}: {source}")

        def greet(connection: Connection) -> Greeting:
            reply = replies[connection.host]
            if reply.lacks:
                reply = _after_python(connection, reply.lacks, archive, key)
            return _fit(reply)

        return self._on_all(greet)

    def _carry(self, packages: Packages, lacking: Set[Host]) -> None:
        archive = packages.archive()
        for host in lacking:
            self._report(host, f"gets iocurve ({format_bytes(archive.stat().st_size)})")

        def carry(connection: Connection) -> None:
            if connection.host in lacking:
                connection.carry(archive)

        self._on_all(carry)

    def make_certificate(self) -> None:
        """Makes the key and the certificate of the session."""
        addresses = {greeting.connection[2] for greeting in self._greetings.values()}
        ray_options.make_certificate(self._directory, sorted({_own_address(self._greetings), *addresses}))

    def start_head(self) -> None:
        """Starts the head at the address of this machine that the hosts see."""
        with self._timed("head"):
            nodes.load_ray()
            self._cluster.start_head(f"{_own_address(self._greetings)}:{ray_options.HEAD_PORT}")

    def start_nodes(self) -> None:
        """Starts the nodes, and waits until every host has joined."""
        environment = ray_options.ENVIRONMENT | ray_options.environment(Path("{directory}"), self._directory)
        files = ray_options.files(self._directory)

        def start(connection: Connection) -> None:
            at = f"--node-ip-address={self._address(connection)}"
            options = [*ray_options.node(self._cluster.address), *ray_options.common(), at]
            connection.send({"start": options, "environment": environment, "files": files})

        with self._timed("join"):
            self._drop(self._not_joined(start))
        self._cluster.hosts = {one.host.name: self._address(one) for one in self._connections}
        self._cluster.keep()

    def _address(self, connection: Connection) -> str:
        return self._greetings[connection.host].connection[2]

    def _not_joined(self, start: Callable[[Connection], None]) -> dict[Host, HostError]:
        """Starts the nodes, some at once, and waits for them; gives the hosts that have not joined, with the cause."""
        waiting = list(self._connections)
        joining: dict[str, _Joining] = {}
        failed: dict[Host, HostError] = {}
        while waiting or joining:
            while waiting and len(joining) < JOINING_MAX:
                one = _Joining(waiting.pop(0), time.monotonic() + JOIN_S)
                joining[self._address(one.connection)] = one
                # The end of the connection gives the reason.
                with suppress(HostError):
                    start(one.connection)
            for at in (self._cluster.joined() or set()) & joining.keys():
                self._report(joining.pop(at).connection.host, "has joined")
            for at, one in list(joining.items()):
                if error := self._failure(one):
                    failed[joining.pop(at).connection.host] = error
            time.sleep(POLL_S)
        return failed

    def _failure(self, one: _Joining) -> HostError | None:
        """Why a host will not join; None while it may. One that is late is started once more: Ray may hang."""
        has_ended = one.connection.process.poll() is not None
        while answer := _next_end(one.connection):
            one.ends += 1
            told = answer.error or last_error(answer.lines) or f"its node ended with status {answer.ended}"
            one.why = HostError(told)
        if one.ends >= STARTS or has_ended:
            return one.why or HostError(one.connection.why_ended())
        if time.monotonic() < one.until:
            return None
        if one.is_again:
            late = f"it has not joined {self._cluster.address} within {2 * JOIN_S} s, started twice"
            return one.why or HostError(late)
        self._report(one.connection.host, f"has not joined within {JOIN_S} s and is started once more")
        one.until, one.is_again = one.until + JOIN_S, True
        with suppress(HostError):
            one.connection.send({"again": True})
        return None

    def hold(self) -> None:
        """Renews the leases of all hosts from now on."""
        self._cluster.hold([connection.input.fileno() for connection in self._connections])

    def drop(self) -> None:
        """Closes the inputs here."""
        for connection in self._connections:
            with suppress(OSError):
                connection.input.close()

    def _on_all(self, step: Callable[[Connection], T]) -> dict[Host, T]:
        """Runs a step for all hosts at once; those that fail are dropped."""
        with ThreadPoolExecutor(len(self._connections)) as pool:
            running = {connection.host: pool.submit(step, connection) for connection in self._connections}
            try:
                wait(running.values())
            except BaseException:
                # The pool waits for the steps, which end with their connections.
                for connection in self._connections:
                    connection.process.terminate()
                raise
        self._drop({host: error for host, one in running.items() if isinstance(error := one.exception(), HostError)})
        return {host: one.result() for host, one in running.items() if host not in self.failed}

    def _drop(self, failed: Mapping[Host, HostError]) -> None:
        """Goes on without hosts. Raises ``RunError`` where that is not allowed, or where none is left."""
        left = [connection for connection in self._connections if connection.host not in failed]
        if failed and not (self._allow_missing and left):
            text = _failures_text(failed, len(self._connections)) + (ALLOW_MISSING if left else "")
            raise RunError(text, ran=False)
        for connection in self._connections:
            if connection.host in failed:
                self._report(connection.host, f"takes no part: {failed[connection.host]}")
                connection.process.terminate()
        self._connections = left
        self.failed |= failed

    @contextmanager
    def _timed(self, step: str) -> Iterator[None]:
        started = time.monotonic()
        yield
        self.seconds[step] = time.monotonic() - started


def _failures_text(failed: Mapping[Host, HostError], hosts: int) -> str:
    lines = "".join(f"\n  {host}: {error}" for host, error in failed.items())
    return f"{len(failed)} of {counted(hosts, 'host')} cannot take part:{lines}"


def _next_end(connection: Connection) -> HostAnswer | None:
    """The next end of a node that the keeper tells; a line that is none ends the host's part."""
    try:
        return connection.next_reply(HostAnswer)
    except HostError as error:
        return HostAnswer(error=str(error))


def _reply(connection: Connection, key: str, seconds: float = GREET_S) -> Greeting:
    connection.send({"key": key})
    reply = connection.answer(seconds, Greeting)
    own = os.uname().machine
    if reply.machine != own:
        raise HostError(f"its processor is {reply.machine}, that of this machine {own}")
    return reply


def _after_python(connection: Connection, lacks: str, archive: Path | None, key: str) -> Greeting:
    """The greeting of a host that gets a Python from here, or by its own uv."""
    own = own_version()
    try:
        connection.carry_interpreter(archive)
        return _reply(connection, key, CARRY_S)
    except HostError as error:
        remedy = f"install python{own} or uv there, or uv on this machine, which then carries it (pip install uv)"
        raise HostError(f"it has {lacks} and needs Python {own}, as this machine has: {remedy}; {error}") from None


def _fit(greeting: Greeting) -> Greeting:
    """The greeting of a host that can take part."""
    if len(greeting.connection) < 4:
        raise HostError("sshd does not tell the addresses of the connection (SSH_CONNECTION)")
    if not greeting.is_executable:
        raise HostError(f"no program may be run from its {greeting.cache} (noexec): {ANOTHER_DIRECTORY}")
    if not greeting.has:
        _require_room(greeting.cache, greeting.free_bytes, FREE_BYTES_MIN)
    _require_room(greeting.directory, greeting.node_free_bytes, NODE_BYTES_MIN)
    if greeting.memory_bytes < MEMORY_BYTES_MIN:
        available, needs = format_bytes(greeting.memory_bytes), format_bytes(MEMORY_BYTES_MIN)
        raise HostError(f"it has {available} of memory available, and iocurve needs {needs}")
    return greeting


def _require_room(directory: str, free_bytes: int, needs_bytes: int) -> None:
    if free_bytes < needs_bytes:
        free, needs = format_bytes(free_bytes), format_bytes(needs_bytes)
        raise HostError(f"its {directory} has {free} free, and iocurve needs {needs}: {ANOTHER_DIRECTORY}")


def _same_machines(greetings: Mapping[Host, Greeting]) -> dict[Host, HostError]:
    """The hosts that are another name of a machine that is listed before."""
    first: dict[str, Host] = {}
    for host, greeting in greetings.items():
        first.setdefault(greeting.identity, host)
    return {
        host: HostError(f"it is the machine that {first[greeting.identity]} names, too; list it once")
        for host, greeting in greetings.items()
        if greeting.identity and first[greeting.identity] != host
    }


def _own_address(greetings: Mapping[Host, Greeting]) -> str:
    """The address of this machine that the hosts see. Raises ``RunError`` if they see several."""
    seen = Counter(greeting.connection[0] for greeting in greetings.values())
    if len(seen) > 1:
        each = ", ".join(f"{address} ({counted(number, 'host')})" for address, number in seen.most_common())
        raise RunError(f"the hosts see this machine at several addresses: {each}; a head has one")
    return next(iter(seen))

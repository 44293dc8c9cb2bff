"""The control socket of a volume: a Unix socket with JSON lines, one request and one answer per line."""

from __future__ import annotations

import os
import re
import socket
import socketserver
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import cast
from urllib.parse import parse_qsl, urlsplit

import msgspec

from iocurve._native import Volume
from iocurve.foundation.errors import DialectError, IocurveError, TargetError
from iocurve.foundation.serving import serving
from iocurve.machine.files import runtime_directory, state_directory
from iocurve.volume.messages import (
    Answer,
    ExportStats,
    NewSettings,
    Request,
    ServedExportStats,
    ServedStats,
    SetRequest,
    StatsRequest,
    VolumeStats,
)
from iocurve.volume.spec import ExportSpec, follows_stored
from iocurve.volume.validation import validated

REQUEST_BYTES_MAX = 64 << 10
NFS_PORT = 2049
CONNECTIONS_MAX = 32
IDLE_S_MAX = 3600
ANSWER_S_MAX = 10

# msgspec prepares the types of a struct on first use, and crashes if several threads do so at once: prepare them here.
_REQUESTS: msgspec.json.Decoder[Request] = msgspec.json.Decoder(Request, strict=False)
_STATS = msgspec.json.Decoder(VolumeStats)


class Control:
    """Answers requests about a volume."""

    def __init__(self, served: Volume, exports: tuple[ExportSpec, ...]) -> None:
        self._served = served
        self._exports = {export.path: export for export in exports}
        self._following = {export.path for export in exports if follows_stored(export)}
        self._lock = threading.Lock()

    def answer(self, line: bytes) -> Answer:
        """Answers a request; an invalid one with ``error``."""
        try:
            request = _request(line)
            if isinstance(request, StatsRequest):
                return Answer(stats=self.stats())
            return Answer(set=self._set(request))
        except (IocurveError, ValueError) as error:
            return Answer(error=str(error))

    def stats(self) -> ServedStats:
        """The counters of the volume. Raises ``TargetError`` after its end."""
        if (text := self._served.stats()) is None:
            raise TargetError("the volume has ended")
        stats = _STATS.decode(text)
        exports = tuple(map(self._with_profile, stats.exports))
        return ServedStats(**(msgspec.structs.asdict(stats) | {"exports": exports}))

    def _with_profile(self, export: ExportStats) -> ServedExportStats:
        return ServedExportStats(**msgspec.structs.asdict(export), profile=self._exports[export.path].profile_name)

    def _set(self, request: SetRequest) -> NewSettings:
        with self._lock:
            # Work out everything first, so that an error changes nothing.
            new = self._named(request.export).changed(request.changes)
            quota_bytes, limits, follows = new.quota_bytes(), new.limits(), follows_stored(new)
            self._served.set_limits(new.path, limits.to_json())
            self._served.set_quota(new.path, quota_bytes)
            self._exports[new.path] = new
            (self._following.add if follows else self._following.discard)(new.path)
        return NewSettings(export=new.path, profile=new.profile_name, quota_bytes=quota_bytes, limits=limits)

    def count_stored(self) -> None:
        """Renews the limits that grow with stored data by what each export holds now."""
        with self._lock:
            text = self._served.stats() if self._following else None
            exports = _STATS.decode(text).exports if text else ()
            for export in (one for one in exports if one.path in self._following):
                # A profile file that cannot be read any more leaves the limits as they are.
                with suppress(DialectError):
                    limits = self._exports[export.path].limits(stored_bytes=export.used_bytes)
                    if limits != export.limits:
                        self._served.set_limits(export.path, limits.to_json())

    def _named(self, path: str | None) -> ExportSpec:
        if path is None and len(self._exports) == 1:
            return next(iter(self._exports.values()))
        if path is None or path not in self._exports:
            problem = "the volume has several exports" if path is None else f"there is no export {path}"
            raise TargetError(f"{problem}; choose one of: {', '.join(self._exports)}")
        return self._exports[path]


def _request(line: bytes) -> Request:
    """Reads a request. Raises ``ValueError`` with all errors."""
    try:
        return _REQUESTS.decode(line)
    except msgspec.ValidationError:
        return validated(_document(line), cast("type[Request]", Request))


def _document(line: bytes) -> object:
    try:
        document: object = msgspec.json.decode(line)
    except RecursionError:
        raise ValueError("the request is nested too deeply") from None
    return document


@contextmanager
def control_socket(control: Control, port: int) -> Iterator[Path]:
    """Answers on the control socket of a port while the context lasts; yields its path. Raises ``TargetError``."""
    path = _made_directory() / f"{port}.sock"
    _remove_stale(path)
    before = os.umask(0o177)
    try:
        server = _Server(str(path), control)
    except OSError as error:
        raise TargetError(f"cannot create the control socket {path}: {error.strerror}") from None
    finally:
        os.umask(before)
    try:
        with serving(server, "control"):
            yield path
    finally:
        path.unlink(missing_ok=True)


class Client:
    """A connection to the control socket of a running volume."""

    def __init__(self, target: str | None) -> None:
        """``target`` is a port, an ``nfs://`` URL or the path of a socket; None if one volume runs."""
        path, self.export = find(target)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(ANSWER_S_MAX)
        try:
            self._socket.connect(str(path))
        except OSError as error:
            raise TargetError(f"no volume answers at {path}: {error.strerror}") from None
        self._answers = self._socket.makefile("rb")

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self._answers.close()
        self._socket.close()

    def stats(self) -> ServedStats:
        """The counters of the volume. Raises ``TargetError``."""
        answer = self._ask(StatsRequest())
        assert answer.stats is not None, "the answer to a stats request has the counters or an error"
        return answer.stats

    def set(self, request: SetRequest) -> NewSettings:
        """Changes the settings of an export. Raises ``TargetError`` with the volume's message if it refuses."""
        answer = self._ask(request)
        assert answer.set is not None, "the answer to a set request has the new settings or an error"
        return answer.set

    def _ask(self, request: Request) -> Answer:
        try:
            self._socket.sendall(msgspec.json.encode(request) + b"\n")
            line = self._answers.readline()
        except OSError as error:
            raise TargetError(f"the volume does not answer: {error.strerror or error}") from None
        if not line:
            raise TargetError("the volume has ended")
        answer = Answer.from_json(line)
        if answer.error is not None:
            raise TargetError(answer.error)
        return answer


def stats_of(port: int) -> ServedStats | None:
    """The counters of this user's volume at a port of this machine; None if no such volume answers."""
    try:
        with Client(str(port)) as client:
            return client.stats()
    except (TargetError, ValueError):
        # ValueError: a volume of another version of iocurve.
        return None


def find(target: str | None) -> tuple[Path, str | None]:
    """The control socket of a running volume, and the export that the target names. Raises ``TargetError``."""
    if target is None or (target.startswith("/") and not target.endswith(".sock")):
        return _only_volume(), target
    if target.endswith(".sock"):
        return Path(target), None
    if target.isdigit():
        return _socket_of(target), None
    return _of_url(target)


def _only_volume() -> Path:
    """The control socket of this user's only volume. Raises ``TargetError`` with a list if there are several."""
    running = [path for directory in _directories() for path in _own_sockets(directory) if _is_alive(path)]
    if len(running) == 1:
        return running[0]
    if not running:
        raise TargetError("no volume is running on this machine; start one with 'iocurve volume serve'")
    volumes = ", ".join(f"{path.stem} ({_exports_of(path)})" for path in running)
    raise TargetError(f"several volumes are running; name one by its port: {volumes}")


def _own_sockets(directory: Path) -> Iterator[Path]:
    """This user's control sockets; none if others could have made them."""
    if not _is_private(directory):
        return
    for path in sorted(directory.glob("*.sock"), key=lambda path: path.stem.zfill(5)):
        with suppress(OSError):
            status = path.lstat()
            if stat.S_ISSOCK(status.st_mode) and status.st_uid == os.getuid():
                yield path


def _exports_of(path: Path) -> str:
    """The exports of a volume, to tell it from others."""
    try:
        with Client(str(path)) as client:
            return ", ".join(export.path for export in client.stats().exports)
    except TargetError:
        return "does not answer"


def _of_url(target: str) -> tuple[Path, str | None]:
    try:
        url = urlsplit(target)
        if url.scheme == "nfs":
            port = dict(parse_qsl(url.query)).get("nfsport") or url.port or NFS_PORT
            return _socket_of(int(port)), re.sub(r"/+\Z", "", url.path) or None
    except ValueError:
        pass
    raise TargetError(f"'{target}' does not name a volume; give its port, its nfs:// URL or its control socket")


def _directories() -> tuple[Path, Path]:
    """The directories of control sockets: the second is for users in whose place another made the first, in /tmp."""
    return runtime_directory(), state_directory() / "run"


def _made_directory() -> Path:
    """A directory in which only this user can create sockets. Raises ``TargetError``."""
    for path in _directories():
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
        except FileExistsError:
            continue
        except OSError as error:
            raise TargetError(f"cannot create the control socket in {path}: {error.strerror}") from None
        if _is_private(path):
            return path
    raise TargetError(f"cannot create the control socket in {path}: other users may write there; remove it")


def _socket_of(port: int | str) -> Path:
    """The control socket of a port; in the first directory if there is none."""
    paths = [directory / f"{port}.sock" for directory in _directories()]
    return next(filter(Path.exists, paths), paths[0])


def _is_private(directory: Path) -> bool:
    """True if only this user can create files in the directory."""
    try:
        status = directory.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o022


def _remove_stale(path: Path) -> None:
    """Removes the socket that a killed volume left behind. Raises ``TargetError`` if a volume answers there."""
    if _is_alive(path):
        raise TargetError(f"another volume is running at {path}; stop it, or choose another port")
    path.unlink(missing_ok=True)


def _is_alive(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1)
        return probe.connect_ex(str(path)) == 0


class _Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 2 * CONNECTIONS_MAX

    def __init__(self, path: str, control: Control) -> None:
        super().__init__(path, _Handler)
        self.control = control
        self.free_connections = threading.BoundedSemaphore(CONNECTIONS_MAX)

    def handle_error(self, *_: object) -> None:
        """Ignores peers that disconnect."""


class _Handler(socketserver.StreamRequestHandler):
    timeout = IDLE_S_MAX
    server: _Server

    def handle(self) -> None:
        if not self.server.free_connections.acquire(blocking=False):
            return self._write(Answer(error="too many connections"))
        try:
            while line := self.rfile.readline(REQUEST_BYTES_MAX + 1):
                if len(line) > REQUEST_BYTES_MAX:
                    return self._write(Answer(error=f"the request is longer than {REQUEST_BYTES_MAX} bytes"))
                self._write(self.server.control.answer(line))
        except OSError:
            # The peer disconnected, or was silent for IDLE_S_MAX.
            return None
        finally:
            self.server.free_connections.release()

    def _write(self, answer: Answer) -> None:
        self.wfile.write(msgspec.json.encode(answer) + b"\n")

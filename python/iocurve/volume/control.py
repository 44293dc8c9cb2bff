"""Talking to a volume while it serves: a Unix socket with JSON lines, one request and one answer a line."""

from __future__ import annotations

import json
import os
import re
import socket
import socketserver
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import parse_qsl, urlsplit

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from iocurve import _native
from iocurve.errors import IocurveError, TargetError
from iocurve.volume.spec import ExportSpec, mistakes

REQUEST_BYTES_MAX = 64 << 10
NFS_PORT = 2049
CONNECTIONS_MAX = 32
IDLE_S_MAX = 3600
ANSWER_S_MAX = 10


class Stats(BaseModel):
    """What the volume has done."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    do: Literal["stats"]


class Set(BaseModel):
    """Other settings for an export; what is not named stays. Another profile begins anew."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    do: Literal["set"]
    export: str | None = None
    """Its path; not needed if there is one."""
    profile: str | None = None
    quota: str | None = None
    throughput: str | None = None
    iops: Annotated[int | None, Field(gt=0, lt=1 << 53)] = None
    latency: str | None = None
    pool: str | None = None
    client_egress: str | None = None


_REQUEST: TypeAdapter[Stats | Set] = TypeAdapter(Annotated[Stats | Set, Field(discriminator="do")])


class Control:
    """Answers requests about a volume."""

    def __init__(self, served: _native.Volume, exports: tuple[ExportSpec, ...]) -> None:
        self._served = served
        self._exports = {export.path: export for export in exports}
        self._lock = threading.Lock()

    def answer(self, line: bytes) -> dict[str, Any]:
        """Answers a request; a wrong one with ``error``."""
        try:
            request = _REQUEST.validate_json(line)
            return self.stats() if isinstance(request, Stats) else self._set(request)
        except ValidationError as error:
            return {"error": "; ".join(mistakes(error))}
        except IocurveError as error:
            return {"error": str(error)}

    def stats(self) -> dict[str, Any]:
        """What the volume has done, with the profile of each export. Raises ``TargetError`` after its end."""
        if (text := self._served.stats()) is None:
            raise TargetError("the volume has ended")
        stats: dict[str, Any] = json.loads(text)
        for export in stats["exports"]:
            export["profile"] = self._exports[export["path"]].profile_name
        return {"stats": stats}

    def _set(self, request: Set) -> dict[str, Any]:
        changes = request.model_dump(exclude={"do", "export"}, exclude_none=True)
        with self._lock:
            # All is worked out before anything changes.
            new = self._named(request.export).changed(changes)
            quota_bytes, limits = new.quota_bytes(), new.limits()
            self._served.set_limits(new.path, limits.model_dump_json())
            self._served.set_quota(new.path, quota_bytes)
            self._exports[new.path] = new
        described = {"export": new.path, "profile": new.profile_name, "quota_bytes": quota_bytes}
        return {"set": described | {"limits": limits.model_dump()}}

    def _named(self, path: str | None) -> ExportSpec:
        if path is None and len(self._exports) == 1:
            return next(iter(self._exports.values()))
        if path is None or path not in self._exports:
            wanted = "which export?" if path is None else f"there is no export {path};"
            raise TargetError(f"{wanted} there are: {', '.join(self._exports)}")
        return self._exports[path]


@contextmanager
def served(control: Control, port: int) -> Iterator[Path]:
    """Answers on the control socket of a port while the context lasts; gives its path. Raises ``TargetError``."""
    path = _directory(make=True) / f"{port}.sock"
    _remove_stale(path)
    before = os.umask(0o177)
    try:
        server = _Server(str(path), control)
    except OSError as error:
        raise TargetError(f"the control socket {path} cannot be made: {error.strerror}") from None
    finally:
        os.umask(before)
    thread = threading.Thread(target=server.serve_forever, name="control", daemon=True)
    thread.start()
    try:
        yield path
    finally:
        server.shutdown()
        server.server_close()
        path.unlink(missing_ok=True)


class Client:
    """Asks a running volume."""

    def __init__(self, target: str | None) -> None:
        """``target`` is a port, an ``nfs://`` URL or the path of a socket; not needed if one volume runs."""
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

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """The answer to a request. Raises ``TargetError`` with the volume's own words if it refuses."""
        try:
            self._socket.sendall(json.dumps(request).encode() + b"\n")
            line = self._answers.readline()
        except OSError as error:
            raise TargetError(f"the volume does not answer: {error.strerror or error}") from None
        if not line:
            raise TargetError("the volume has ended")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise TargetError(answer["error"])
        return answer


def find(target: str | None) -> tuple[Path, str | None]:
    """The control socket of a running volume, and the export that the target names. Raises ``TargetError``."""
    directory = _directory(make=False)
    if target is None or (target.startswith("/") and not target.endswith(".sock")):
        running = [path for path in sorted(directory.glob("*.sock")) if _is_alive(path)]
        if len(running) == 1:
            return running[0], target
        ports = ", ".join(path.stem for path in running)
        raise TargetError(f"which volume? There are, by port: {ports}" if running else "no volume is running here")
    if target.endswith(".sock"):
        return Path(target), None
    if target.isdigit():
        return directory / f"{target}.sock", None
    return _of_url(target, directory)


def _of_url(target: str, directory: Path) -> tuple[Path, str | None]:
    try:
        url = urlsplit(target)
        if url.scheme == "nfs":
            port = dict(parse_qsl(url.query)).get("nfsport") or url.port or NFS_PORT
            return directory / f"{int(port)}.sock", re.sub(r"/+\Z", "", url.path) or None
    except ValueError:
        pass
    raise TargetError(f"'{target}' is no volume: name its port, its nfs:// URL or its control socket")


def _directory(*, make: bool) -> Path:
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    path = Path(runtime) / "iocurve" if runtime else Path("/tmp") / f"iocurve-{os.getuid()}"
    if make:
        try:
            path.mkdir(mode=0o700, exist_ok=True)
            found = path.lstat()
        except OSError as error:
            raise TargetError(f"the control socket cannot be in {path}: {error.strerror}") from None
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
            raise TargetError(f"the control socket cannot be in {path}: others may write there; remove it")
    return path


def _remove_stale(path: Path) -> None:
    """A volume that was killed leaves its socket behind."""
    if _is_alive(path):
        raise TargetError(f"another volume answers at {path}; end it, or choose another port")
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
        self.places = threading.BoundedSemaphore(CONNECTIONS_MAX)

    def handle_error(self, *_: object) -> None:
        """A peer that breaks off is no news."""


class _Handler(socketserver.StreamRequestHandler):
    timeout = IDLE_S_MAX
    server: _Server

    def handle(self) -> None:
        if not self.server.places.acquire(blocking=False):
            return self._write({"error": "too many connections"})
        try:
            while line := self.rfile.readline(REQUEST_BYTES_MAX + 1):
                if len(line) > REQUEST_BYTES_MAX:
                    return self._write({"error": f"a request is at most {REQUEST_BYTES_MAX} bytes"})
                self._write(self.server.control.answer(line))
        except OSError:
            # The peer has gone, or has said nothing for too long.
            return None
        finally:
            self.server.places.release()

    def _write(self, answer: dict[str, Any]) -> None:
        self.wfile.write(json.dumps(answer).encode() + b"\n")

"""The processes that are killed, stopped and started again: a volume on a fixed port, and the client that loads it."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.servers import IOCURVE, free_ports


class VolumeProcess:
    """``iocurve volume serve`` on one port, over one directory (or memory), however often it is started."""

    def __init__(
        self, directory: Path, options: Sequence[str] = (), prefix: Sequence[str] = (), address: str = "127.0.0.1"
    ) -> None:
        self._address = address
        self.files = directory / "files"
        self.files.mkdir()
        self._environment = runtime_environment(directory)
        self.port = free_ports()
        squash = () if "--all-squash" in options else ("--no-root-squash",)
        store = () if "--store" in options else ("--store", str(self.files), *squash)
        serve = ("volume", "serve", "--profile=unlimited", "--port", str(self.port), "--listen", address)
        self._command = (*prefix, str(IOCURVE), *serve, *store, *options)
        self._process: subprocess.Popen[str] | None = None

    @property
    def pid(self) -> int:
        """The process that serves now."""
        assert self._process
        return self._process.pid

    def url(self, port: int | None = None) -> str:
        """The export, at the volume's own port or at that of a relay."""
        return f"nfs://{self._address}:{port or self.port}/vol"

    def start(self, *options: str) -> None:
        """Starts to serve, with further options, and returns when it does. Raises ``RuntimeError``."""
        self._process = subprocess.Popen(
            (*self._command, *options),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=self._environment,
        )
        assert self._process.stdout
        for line in self._process.stdout:
            if "Ctrl-C ends it" in line:
                return
        raise RuntimeError("the volume did not start")

    def kill(self) -> None:
        """Kills it with SIGKILL."""
        if self._process:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal: SIGSTOP, SIGCONT."""
        os.kill(self.pid, number)


@contextmanager
def volume_process(
    directory: Path, options: Sequence[str] = (), prefix: Sequence[str] = (), address: str = "127.0.0.1"
) -> Iterator[VolumeProcess]:
    """A volume that serves while the context lasts, unless it is killed."""
    made = VolumeProcess(directory, options, prefix, address)
    made.start()
    try:
        yield made
    finally:
        made.kill()


@dataclass(frozen=True)
class Ended:
    """The end of a client."""

    status: int
    output: str
    error: str
    seconds: float
    seconds_after_signal: float = 0.0

    @property
    def last_line(self) -> str:
        """The last line that it wrote to stderr, else to stdout."""
        lines = [line for line in (self.error.strip() or self.output.strip()).splitlines() if line.strip()]
        return lines[-1] if lines else ""

    @property
    def has_stack_trace(self) -> bool:
        """True if a user saw the inside of a program."""
        return any(trace in self.error + self.output for trace in ("Traceback (most", "panicked at"))


class Client:
    """A run of ``iocurve`` in a separate directory."""

    def __init__(
        self,
        directory: Path,
        arguments: Sequence[str],
        environment: Mapping[str, str] | None = None,
        prefix: Sequence[str] = (),
    ) -> None:
        self._began = self._signalled = time.monotonic()
        self._process = subprocess.Popen(
            [*prefix, str(IOCURVE), *arguments],
            cwd=directory,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
            env={**runtime_environment(directory), **(environment or {})},
        )

    @property
    def is_running(self) -> bool:
        """True until it ends."""
        return self._process.poll() is None

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal, unless it has ended."""
        self._signalled = time.monotonic()
        self._process.send_signal(number)

    def wait(self, timeout_seconds: float = 120) -> Ended:
        """Waits for the end. One that does not come is status 124, and the process is killed."""
        try:
            output, error = self._process.communicate(timeout=timeout_seconds)
            status = self._process.returncode
        except subprocess.TimeoutExpired:
            self._process.kill()
            output, error = self._process.communicate()
            status = 124
        now = time.monotonic()
        return Ended(status, output, error, now - self._began, now - self._signalled)


def runtime_environment(directory: Path) -> dict[str, str]:
    """The environment with control sockets and keys apart from those of other volumes of this machine."""
    own = {"XDG_RUNTIME_DIR": str(directory / "run"), "XDG_STATE_HOME": str(directory / "state")}
    for path in own.values():
        Path(path).mkdir(exist_ok=True)
    return {**os.environ, **own}

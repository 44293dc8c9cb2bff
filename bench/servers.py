"""NFS servers on loopback: the embedded volume and nfs-ganesha, each as a context manager."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TextIO

IOCURVE = Path(sys.executable).with_name("iocurve")
RIG = Path(__file__).parents[1] / "tests" / "rig"
STOP_TIMEOUT_SECONDS = 30


@dataclass(frozen=True)
class Server:
    """An NFS server that answers on loopback."""

    pid: int
    port: int
    mount_port: int
    export: str
    address: str = "127.0.0.1"
    control: str = ""
    """Socket of a volume's control; empty if its port says it."""

    @property
    def url(self) -> str:
        """The URL, in the form that both libnfs and iocurve read."""
        return f"nfs://{self.address}{self.export}?nfsport={self.port}&mountport={self.mount_port}"

    def url_of(self, version: str) -> str:
        """The URL for iocurve with the version of NFS, ``3`` or ``4.1``."""
        return f"{self.url}&vers={version}"

    @property
    def libnfs_url(self) -> str:
        """The URL for libnfs alone: ``timeo`` (tenths of a second) limits an occasional hang at unmounting."""
        return f"{self.url}&timeo=100"


@contextmanager
def volume(*options: str, prefix: Sequence[str] = (), port: int = 0) -> Iterator[Server]:
    """Runs ``iocurve volume serve``, by default on a free port; ``prefix`` comes before the command (``taskset …``)."""
    process = subprocess.Popen(
        [*prefix, IOCURVE, "volume", "serve", "--port", str(port), *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        yield _announced_server(process)
    finally:
        _stop(process)


def _stop(process: subprocess.Popen[str]) -> None:
    """Stops the volume as Ctrl-C does; a volume that does not end is an error."""
    process.send_signal(signal.SIGINT)
    try:
        process.communicate(timeout=STOP_TIMEOUT_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise


def _announced_server(process: subprocess.Popen[str]) -> Server:
    assert process.stdout is not None
    printed = ""
    for line in process.stdout:
        printed += line
        if url := re.search(r"nfs://(?:[\w.-]+|\[[\da-f:.]+\]):(\d+)(/[\w./-]*)", line):
            return Server(pid=process.pid, port=int(url[1]), mount_port=int(url[1]), export=url[2])
    raise RuntimeError(f"the volume ended without printing its URL:\n{printed}")


@contextmanager
def ganesha(
    kind: Literal["mem", "vfs"], directory: Path, prefix: Sequence[str] = (), settings: Mapping[str, str] | None = None
) -> Iterator[Server]:
    """Runs nfs-ganesha: ``mem`` is fastest and keeps only 2 MiB of a file, ``vfs`` serves ``directory``. Needs root.

    ``settings`` are environment variables of ``tests/rig/ganesha``, which describes them.
    """
    server = start_ganesha(kind, directory, prefix, settings)
    try:
        yield server
    finally:
        stop_ganesha()


def start_ganesha(
    kind: Literal["mem", "vfs"], directory: Path, prefix: Sequence[str] = (), settings: Mapping[str, str] | None = None
) -> Server:
    """Starts nfs-ganesha on free ports; if it was killed, on those that it had."""
    environment = {**os.environ, **(settings or {})}
    started = subprocess.run(
        [*prefix, RIG / "ganesha", "start", kind, directory],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        timeout=90,
        check=False,
        env=environment,
    )
    up = re.search(r"ganesha up, pid (\d+); nfs://([^/]+)(/\w+)\?nfsport=(\d+)&mountport=(\d+)", started.stdout)
    if up is None:
        raise RuntimeError(f"nfs-ganesha did not start:\n{started.stdout}")
    return Server(pid=int(up[1]), port=int(up[4]), mount_port=int(up[5]), export=up[3], address=up[2])


def stop_ganesha() -> None:
    """Stops nfs-ganesha and the portmapper it registered with."""
    subprocess.run([RIG / "ganesha", "stop"], stdout=subprocess.DEVNULL, timeout=60, check=True)


_HELD_PORTS: list[TextIO] = []


def free_ports() -> int:
    """The first of two ports, below those that the kernel gives to others, which this process keeps until it ends."""
    for port in range(20_000 + os.getpid() % 5_000 * 2, 32_000, 2):
        lock = (Path(tempfile.gettempdir()) / f"iocurve-port-{port}.lock").open("w")
        with contextlib.suppress(OSError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with socket.create_server(("127.0.0.1", port)), socket.create_server(("127.0.0.1", port + 1)):
                _HELD_PORTS.append(lock)
                return port
        lock.close()
    raise AssertionError("no two ports are free")


def guest_command(
    server: Server, script: str, options: str, timeout_seconds: float, added: Sequence[str] = ()
) -> list[str]:
    """The command that boots a Linux kernel, mounts a server there, and runs a shell script.

    ``added`` names programs and files of this host for the guest, ``SOURCE`` or ``SOURCE:DESTINATION``. Needs root.
    """
    return [
        *(str(RIG / "kernel-nfs"), "--timeout", str(timeout_seconds)),
        *("--port", str(server.port), "--mountport", str(server.mount_port)),
        *(argument for one in added for argument in ("--add", one)),
        *("--export", server.export, "--opts", options, "--", script),
    ]

"""Keeps a node of a cluster on a host for as long as its lease is renewed. It runs there, on Python 3.8 or later.

Its text is sent over ssh, so it uses the standard library alone. It reads lines of JSON and writes lines of JSON:

- ``{"key": …}`` selects the packages of the node; the answer describes the host, and says if it has them.
- ``{"carry": BYTES}`` is followed by a tar archive with the packages, compressed by gzip.
- ``{"start": [OPTIONS], "environment": {…}, "files": {…}}`` starts a node of Ray, again and again while it ends. The
  files are written to a directory that only this user can read; ``{directory}`` in a variable stands for it.
- ``{"again": true}`` ends the node, which then is started again.
- ``{"lease": SECONDS}`` lets the node live that long; without another one the keeper ends it, and itself.

The end of the input ends the node at once.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import io
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
import zlib
from pathlib import Path
from types import FrameType
from typing import BinaryIO

END_S = 10
AGAIN_S = 2
LINES = 30
KEPT = 3
"""Number of versions whose packages stay."""
BROKEN_S = 86_400
"""Half unpacked packages of this age belong to no keeper that still runs."""
IDLE_S = 600
"""Lease of a keeper to which no lease was sent."""
PREFIX = "iocurve_"
"""Directories of nodes; those that no keeper has locked are left of machines that lost their power, or of a kill."""
FRESH_S = 60
"""A directory of this age may not be locked yet."""
PR_SET_PDEATHSIG = 1
PLACE_MAX = 16
REMOTE_DIR = os.environ.get("IOCURVE_REMOTE_DIR", "")
"""The directory of --remote-dir for packages and the files of the node; empty without it."""
RAY = """
import os, sys
from ray._private import services
from ray._raylet import persist_port
from ray.scripts.scripts import main

start = services.start_ray_process
ports = ("metrics_agent_port", "metrics_export_port", "runtime_env_agent_port", "dashboard_agent_listen_port")

def start_without_agents(command, kind, fate_share, **options):
    if any("_agent_command=" in word for word in command):
        pairs = [word.lstrip("-").split("=", 1) for word in command if "=" in word]
        values = {name.replace("-", "_"): value for name, value in pairs}
        # The daemon waits until its agents have written their ports: 30 s, which many that start at once exceed.
        for name in ports:
            persist_port(values["session_dir"], values["node_id"], name, int(values.get(name) or 1))
    idle = "=/bin/sh -c 'exec sleep infinity'"
    words = [word.split("=")[0] + idle if "_agent_command=" in word else word for word in command]
    # The daemon ends with this process, which becomes its waiter.
    return start(words, kind, True, **options)

services.start_ray_process = start_without_agents
sys.argv[0] = "ray"
try:
    main()
except SystemExit as end:
    if end.code:
        raise
# A signal for the group ends the daemon, which the waiter then reports.
waiter = "import os, signal; signal.signal(15, signal.SIG_IGN); raise SystemExit(os.WEXITSTATUS(os.wait()[1]))"
os.execv(sys.executable, [sys.executable, "-S", "-c", waiter])
"""
"""Starts a node, and then waits for its end in a process of few bytes.

It has none of Ray's agents, which serve a dashboard and install packages: 160 MiB and 40 threads.
"""


class Keeper:
    """The node, its files, and the way to end both."""

    def __init__(self) -> None:
        self.over = threading.Event()
        self.starting = threading.Lock()
        place = REMOTE_DIR or tempfile.gettempdir()
        # The path of a socket has at most 107 characters (unix(7)), and Ray adds 70.
        if len(REMOTE_DIR) > PLACE_MAX:
            raise SystemExit(f"--remote-dir {place}: paths of sockets need one of at most {PLACE_MAX} characters")
        Path(place).mkdir(parents=True, exist_ok=True)
        self.directory = tempfile.mkdtemp(prefix=PREFIX, dir=place if len(place) <= PLACE_MAX else "/tmp")
        self.lock = os.open(self.directory, os.O_RDONLY)
        fcntl.flock(self.lock, fcntl.LOCK_EX)
        self.packages = Path()
        self.node: subprocess.Popen[bytes] | None = None
        self.until = time.monotonic() + IDLE_S

    def serve(self) -> None:
        """Carries out messages until the input ends."""
        self.remove_left()
        threading.Thread(target=self.watch, daemon=True).start()
        for line in sys.stdin.buffer:
            message = json.loads(line)
            self.until = time.monotonic() + message.get("lease", IDLE_S)
            if "key" in message:
                self.greet(message["key"])
            elif "carry" in message:
                self.unpack(message["carry"])
            elif "start" in message:
                threading.Thread(
                    target=self.keep, args=(message["start"], message["environment"], message["files"]), daemon=True
                ).start()
            elif "again" in message:
                self.kill()

    def watch(self) -> None:
        """Ends the keeper when its lease has run out."""
        was_late = False
        while not self.over.wait(1):
            is_late = time.monotonic() > self.until
            # One that was stopped has messages to read first.
            if is_late and was_late:
                os.kill(os.getpid(), signal.SIGTERM)
            was_late = is_late

    def remove_left(self) -> None:
        """Removes the directories of nodes whose keeper was killed; its node has ended with it."""
        for path in Path(self.directory).parent.glob(PREFIX + "*"):
            with contextlib.suppress(OSError):
                found = path.stat()
                if found.st_uid != os.getuid() or found.st_mtime > time.time() - FRESH_S:
                    continue
                descriptor = os.open(path, os.O_RDONLY)
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(path, ignore_errors=True)
                finally:
                    os.close(descriptor)

    def greet(self, key: str) -> None:
        """Tells about the host."""
        cache = Path(REMOTE_DIR or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "iocurve")
        self.packages = cache / key
        cache.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(OSError):
            os.utime(self.packages)
        say(
            machine=platform.machine(),
            connection=os.environ.get("SSH_CONNECTION", "").split(),
            identity=identity(),
            cache=str(cache),
            free_bytes=shutil.disk_usage(cache).free,
            is_executable=not os.statvfs(cache).f_flag & os.ST_NOEXEC,
            directory=str(Path(self.directory).parent),
            node_free_bytes=shutil.disk_usage(self.directory).free,
            memory_bytes=available_memory(),
            time_ns=time.time_ns(),
            has=self.packages.is_dir(),
        )

    def unpack(self, length: int) -> None:
        """Unpacks the packages. Of hosts that share a home the first gives its directory the name."""
        made = Path(tempfile.mkdtemp(prefix=".unpacked-", dir=self.packages.parent))
        stream = Counted(sys.stdin.buffer, length)
        try:
            with tarfile.open(fileobj=stream, mode="r|gz") as archive:
                # The argument for the filter is unknown before Python 3.11.4.
                archive.extraction_filter = getattr(tarfile, "data_filter", None)
                archive.extractall(made)
            stream.skip()
            if stream.left:
                raise EOFError("the connection has ended")
            made.rename(self.packages)
        except (OSError, EOFError, tarfile.TarError, zlib.error) as error:
            stream.skip()
            if not self.packages.is_dir():
                say(error=f"the packages cannot be unpacked in {self.packages.parent}: {error}")
                return
        finally:
            shutil.rmtree(made, ignore_errors=True)
        self.remove_older()
        say(unpacked=str(self.packages))

    def remove_older(self) -> None:
        """Keeps the packages that were used last: a run of another version may have one of them."""
        used = {}
        for path in self.packages.parent.iterdir():
            with contextlib.suppress(OSError):
                used[path] = path.stat().st_mtime
        packages = sorted((path for path in used if path.name.startswith("packages-")), key=lambda path: used[path])
        broken = [path for path in used if path.name.startswith(".unpacked-") and used[path] < time.time() - BROKEN_S]
        for path in [*packages[:-KEPT], *broken]:
            shutil.rmtree(path, ignore_errors=True)

    def keep(self, options: list[str], environment: dict[str, str], files: dict[str, str]) -> None:
        """Starts the node again whenever it ends, as it does after a long cut of the network."""
        for name, text in files.items():
            path = Path(self.directory) / name
            path.touch(0o600)
            path.write_text(text)
        here = {name: value.replace("{directory}", self.directory) for name, value in environment.items()}
        environment = dict(os.environ, PYTHONPATH=str(self.packages), **here)
        words = [sys.executable, "-c", RAY, "start", *options, "--temp-dir=" + self.directory + "/ray"]
        processor, prctl = {min(os.sched_getaffinity(0))}, ctypes.CDLL(None).prctl

        def prepare() -> None:
            """Binds the daemons to a processor, and ends them with this keeper, even where kill -9 ends it."""
            os.sched_setaffinity(0, processor)
            prctl(PR_SET_PDEATHSIG, signal.SIGKILL)

        log = Path(self.directory) / "node.log"
        while True:
            with self.starting:
                if self.over.is_set():
                    return
                with log.open("w") as output:
                    self.node = subprocess.Popen(
                        words,
                        env=environment,
                        stdin=subprocess.DEVNULL,
                        stdout=output,
                        stderr=output,
                        start_new_session=True,
                        preexec_fn=prepare,
                    )
            self.node.wait()
            logs = [*Path(self.directory).glob("ray/session_latest/logs/raylet*.out"), log]
            lines = [line for one in logs for line in one.read_text(errors="replace").splitlines()[-LINES:]]
            if not self.over.is_set():
                say(ended=self.node.returncode, lines=lines)
            self.over.wait(AGAIN_S)

    def kill(self) -> None:
        """Kills the node and what it has started."""
        with self.starting, contextlib.suppress(ProcessLookupError):
            if self.node is not None and self.node.poll() is None:
                os.killpg(self.node.pid, signal.SIGKILL)

    def end(self) -> None:
        """Ends the node and removes its files."""
        # A node runs before its starter has it as an object: without the lock it would stay.
        with self.starting:
            self.over.set()
        if self.node is not None and self.node.poll() is None:
            for number in (signal.SIGTERM, signal.SIGKILL):
                try:
                    os.killpg(self.node.pid, number)
                    self.node.wait(END_S)
                except (ProcessLookupError, subprocess.TimeoutExpired):
                    pass
        shutil.rmtree(self.directory, ignore_errors=True)


class Counted(io.BufferedIOBase):
    """The next bytes of a stream, and no byte after them."""

    def __init__(self, stream: BinaryIO, length: int) -> None:
        self.stream, self.left = stream, length

    def read(self, size: int | None = -1, /) -> bytes:
        """As a stream does; nothing at the end."""
        found = self.stream.read(self.left if size is None or size < 0 else min(size, self.left))
        self.left -= len(found)
        return found

    def skip(self) -> None:
        """Reads what is left."""
        while self.left and self.read(1 << 20):
            pass


def identity() -> str:
    """The same for two names of one machine: the boot of its kernel, and its network."""
    with contextlib.suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {Path('/proc/self/ns/net').stat().st_ino}"
    return ""


def available_memory() -> int:
    """Bytes of memory that programs can take (proc_meminfo(5))."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return 0


def say(**facts: object) -> None:
    """Writes a line; to a connection that was cut it writes nothing, and the node goes on."""
    with contextlib.suppress(OSError):
        print(json.dumps(facts), flush=True)


def main() -> None:
    """Serves until the input ends or a signal comes."""
    keeper = Keeper()

    def stop(number: int, _: FrameType | None) -> None:
        raise SystemExit(128 + number)

    ends = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
    for number in ends:
        signal.signal(number, stop)
    try:
        keeper.serve()
    finally:
        # A second signal would leave the files, of which one is the token.
        for number in ends:
            signal.signal(number, signal.SIG_IGN)
        keeper.end()


if __name__ == "__main__":
    main()

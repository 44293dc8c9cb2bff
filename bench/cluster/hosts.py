"""Hosts on one machine: namespaces, each with an own link, processes, hostname and home. Needs root.

All links end at a bridge in one more namespace, so nothing listens on, or passes through, the network of the machine.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from bench.faults.network import run_command

NETWORK = "198.18.78"
"""Addresses from the network that RFC 2544 reserves for benchmarks."""
LINK_RATE = "1gbit"
_REAPER = """
import os, time
print('up', flush=True)
while True:
    try:
        os.wait()
    except ChildProcessError:
        time.sleep(0.1)
"""
"""The first process of a host: it adopts daemons and reaps them."""


class Host:
    """A host of a network; it can be killed, and its link can be cut."""

    def __init__(self, network: str, number: int, name: str, directory: Path) -> None:
        self.name, self.address = name, f"{NETWORK}.{number}"
        self.home = directory / name
        for made in (self.home, self.home / "run", self.home / "state"):
            made.mkdir(mode=0o700)
        self.environment: dict[str, str] = {}
        """Environment variables of all its processes, added to those of this one."""
        self._network, self._namespace, self._port = network, f"{network}-{number}", f"{network}-p{number}"
        self._init: subprocess.Popen[str] | None = None
        self._pid = 0

    def start(self) -> None:
        """Makes its link and its namespaces."""
        switch, inside = f"ip -n {self._network}", f"ip -n {self._namespace}"
        run_command(f"ip netns add {self._namespace}")
        run_command(f"{switch} link add {self._port} type veth peer name eth0 netns {self._namespace}")
        run_command(f"{switch} link set {self._port} master bridge up")
        run_command(f"{inside} addr add {self.address}/24 dev eth0")
        run_command(f"{inside} link set lo up")
        run_command(f"{inside} link set eth0 up")
        # Ray takes the address of the default route for its own.
        run_command(f"{inside} route add default dev eth0")
        shaped = f"root tbf rate {LINK_RATE} burst 256kb latency 50ms"
        run_command(f"tc -n {self._namespace} qdisc add dev eth0 {shaped}")
        run_command(f"tc -n {self._network} qdisc add dev {self._port} {shaped}")
        with (self.home / "first-process.log").open("w") as log:
            self._init = subprocess.Popen(self._first_process(), stdout=subprocess.PIPE, stderr=log, text=True)
        assert self._init.stdout
        if self._init.stdout.readline() != "up\n":
            raise RuntimeError(f"host {self.name} did not start")
        children = Path(f"/proc/{self._init.pid}/task/{self._init.pid}/children").read_text()
        self._pid = int(children.split()[0])

    def _first_process(self) -> list[str]:
        boot = self.home / "boot_id"
        boot.write_text(f"{uuid.uuid4()}\n")
        setup = (
            f"hostname {self.name}; mkdir -p /tmp/ray; mount -t tmpfs tmpfs /dev/shm; mount -t tmpfs tmpfs /tmp/ray; "
            f"mount --bind {shlex.quote(str(boot))} /proc/sys/kernel/random/boot_id; "
            f"exec {shlex.join([sys.executable, '-c', _REAPER])}"
        )
        unshare = ["unshare", "--fork", "--kill-child", "--pid", "--mount", "--uts", "--mount-proc"]
        return ["ip", "netns", "exec", self._namespace, *unshare, "sh", "-ec", setup]

    @property
    def pid(self) -> int:
        """Its first process, by the number on this machine; 0 once it was killed."""
        return self._pid if self._init else 0

    @property
    def prefix(self) -> tuple[str, ...]:
        """Comes before a command that is to run on the host."""
        own = {"HOME": self.home, "XDG_STATE_HOME": self.home / "state", "XDG_RUNTIME_DIR": self.home / "run"}
        words = [f"{name}={value}" for name, value in ({**own, **self.environment}).items()]
        # nsenter forks, to have a process in the namespace; who kills nsenter kills that process, too.
        enter = ("nsenter", f"--target={self._pid}", "--net", "--pid", "--mount", "--uts")
        return (*enter, "setpriv", "--pdeathsig=KILL", "env", *words)

    def run(self, command: Sequence[str], timeout_s: float = 120) -> subprocess.CompletedProcess[str]:
        """Runs a command on the host."""
        return subprocess.run(
            [*self.prefix, *command],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout_s,
        )

    def kill(self) -> None:
        """Kills all its processes with SIGKILL; its link stays."""
        if self._init is None:
            return
        with suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGKILL)
        self._init.wait()
        assert self._init.stdout
        self._init.stdout.close()
        self._init = None

    def cut(self) -> None:
        """Nothing passes its link any more, in either direction."""
        run_command(f"ip -n {self._network} link set {self._port} down")

    def mend(self) -> None:
        """Ends a cut."""
        run_command(f"ip -n {self._network} link set {self._port} up")

    def drop_all_to(self, other: Host) -> None:
        """Nothing it sends reaches one other host any more."""
        run_command(f"ip -n {self._namespace} route add blackhole {other.address}/32")

    def drop_nothing_to(self, other: Host) -> None:
        """Ends ``drop_all_to``."""
        run_command(f"ip -n {self._namespace} route del blackhole {other.address}/32")

    def processes(self, title: str) -> list[int]:
        """Its processes whose command line begins with ``title``, by their numbers on this machine."""
        if self._init is None:
            return []
        namespace = Path(f"/proc/{self._pid}/ns/pid").readlink()
        found = []
        for directory in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                is_here = (directory / "ns/pid").readlink() == namespace
                if is_here and (directory / "cmdline").read_bytes().startswith(title.encode()):
                    found.append(int(directory.name))
        return found

    def remove(self) -> None:
        """Ends it and its link."""
        self.kill()
        subprocess.run(["ip", "netns", "del", self._namespace], check=False, capture_output=True)


@contextmanager
def hosts(
    names: Sequence[str], directory: Path, environment: Mapping[str, Mapping[str, str]] | None = None
) -> Iterator[list[Host]]:
    """Hosts with these names on one network, while the context lasts; ``environment`` has variables by host."""
    network = f"ioh{os.getpid() % 100_000}"
    made = [Host(network, number, name, directory) for number, name in enumerate(names, start=1)]
    run_command(f"ip netns add {network}")
    try:
        run_command(f"ip -n {network} link add bridge type bridge")
        run_command(f"ip -n {network} link set bridge up")
        for host in made:
            host.environment |= (environment or {}).get(host.name, {})
            host.start()
        yield made
    finally:
        for host in made:
            host.remove()
        subprocess.run(["ip", "netns", "del", network], check=False)

"""Hosts as a user's fresh machines are: a real sshd, a bare PATH, an empty home; and a run that uses them over ssh."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bench.cluster.hosts import Host, hosts
from bench.faults.victims import Ended, VolumeProcess, runtime_environment, volume_process
from bench.servers import IOCURVE

SSHD = "/usr/sbin/sshd"
TMP_BYTES = 256 << 20
STATE_BYTES = 32 << 20
SSH_CONFIG = """Host {name}
 HostName {address}
 User root
 IdentityFile {key}
 StrictHostKeyChecking no
 UserKnownHostsFile /dev/null
 LogLevel ERROR
"""
SSHD_CONFIG = """HostKey /root/host_key
AuthorizedKeysFile /root/.ssh/authorized_keys
PidFile none
PermitRootLogin prohibit-password
StrictModes no
UsePAM no
MaxStartups 100
SetEnv {variables}
"""


@dataclass
class FreshHosts:
    """A head, from which ssh reaches the hosts, and a volume on a separate host."""

    directory: Path
    head: Host
    hosts: list[Host]
    volume_host: Host
    volume: VolumeProcess
    ssh: str
    idle: dict[str, int] = field(default_factory=dict)
    """Processes of each host while nothing of iocurve runs there."""

    @property
    def listed(self) -> str:
        """The hosts as an option takes them."""
        return f"vm[1-{len(self.hosts)}]"

    def left(self) -> list[str]:
        """Leavings of iocurve on the hosts: processes, files below /tmp."""
        found = []
        for host in self.hosts:
            processes = len(host.processes("")) - self.idle[host.name]
            files = [path.name for path in Path(f"/proc/{host.pid}/root/tmp").glob("iocurve-*")] if host.pid else []
            found += [f"{host.name}: {processes} processes"] if processes > 0 else []
            found += [f"{host.name}: {name}" for name in files]
        return found


Variables = Mapping[str, Mapping[str, str]]
"""Variables of the logins of hosts, by the hosts' names; files that they name are in the hosts' homes."""


@contextmanager
def fresh_hosts(count: int, directory: Path, variables: Variables | None = None) -> Iterator[FreshHosts]:
    """Hosts vm1 and so on while the context lasts."""
    key = directory / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    names = ("head", *(f"vm{number}" for number in range(1, count + 1)), "volume")
    Path("/run/sshd").mkdir(exist_ok=True)
    (directory / "store").mkdir()
    with hosts(names, directory) as (head, *fresh, server):
        for host in fresh:
            _serve_ssh(host, key, (variables or {}).get(host.name, {}))
        config = directory / "ssh_config"
        config.write_text(
            "".join(SSH_CONFIG.format(name=host.name, address=host.address, key=key) for host in fresh),
            encoding="utf-8",
        )
        with volume_process(directory / "store", ("--store", "memory"), server.prefix, server.address) as volume:
            made = FreshHosts(directory, head, fresh, server, volume, f"ssh -F {config}")
            made.idle = {host.name: len(host.processes("")) for host in fresh}
            yield made


def _serve_ssh(host: Host, key: Path, variables: Mapping[str, str]) -> None:
    """Gives a host its own /root and /tmp, and starts sshd there. Raises ``RuntimeError``."""
    (host.home / ".ssh").mkdir(mode=0o700)
    (host.home / ".ssh/authorized_keys").write_text(key.with_suffix(".pub").read_text())
    (host.home / ".local").mkdir()
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", host.home / "host_key"], check=True)
    for name, value in variables.items():
        if Path(value).is_file():
            shutil.copy(value, host.home)
            variables = {**variables, name: f"/root/{Path(value).name}"}
    told = {"PATH": "/usr/bin:/bin", **variables}
    config = SSHD_CONFIG.format(variables=" ".join(f"{name}={value}" for name, value in told.items()))
    (host.home / "sshd_config").write_text(config, encoding="utf-8")
    lines = (
        f"mount --bind {shlex.quote(str(host.home))} /root",
        f"mount -t tmpfs -o size={TMP_BYTES} tmpfs /tmp",
        f"mount -t tmpfs -o size={STATE_BYTES} tmpfs /root/.local",
        f"exec {SSHD} -f /root/sshd_config -E /root/sshd.log",
    )
    ran = host.run(["sh", "-ec", "\n".join(lines)])
    if ran.returncode:
        raise RuntimeError(f"{host.name}: {ran.stderr}")


@dataclass(frozen=True)
class Line:
    """A line that a program wrote to stderr, and when."""

    at: float
    text: str


class TimedRun:
    """A run of iocurve on the head, of which each line is kept with its time."""

    def __init__(self, made: FreshHosts, arguments: Sequence[str]) -> None:
        self.lines: list[Line] = []
        self.began = time.monotonic()
        self.process = subprocess.Popen(
            [*made.head.prefix, str(IOCURVE), *arguments],
            cwd=made.directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=runtime_environment(made.directory),
        )
        self._output: list[str] = []
        self._readers = [threading.Thread(target=self._read_errors), threading.Thread(target=self._read_output)]
        for reader in self._readers:
            reader.start()

    def _read_errors(self) -> None:
        assert self.process.stderr
        self.lines.extend(Line(time.monotonic(), line.rstrip("\n")) for line in self.process.stderr)

    def _read_output(self) -> None:
        assert self.process.stdout
        self._output.extend(self.process.stdout)

    @property
    def is_running(self) -> bool:
        """True until it ends."""
        return self.process.poll() is None

    def first(self, text: str, since: float = 0) -> Line | None:
        """The first line with a text from a time on."""
        return next((line for line in self.lines if line.at >= since and text in line.text), None)

    def wait(self, seconds: float = 300) -> Ended:
        """Waits for its end; one that does not come is status 124."""
        try:
            status = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            status = 124
        for reader in self._readers:
            reader.join(10)
        errors = "\n".join(line.text for line in self.lines)
        return Ended(status, "".join(self._output), errors, time.monotonic() - self.began)

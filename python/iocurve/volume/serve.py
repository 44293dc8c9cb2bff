"""Starts volumes: in threads of this process, or in a separate process."""

from __future__ import annotations

import contextlib
import ctypes
import re
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from ipaddress import ip_address
from itertools import permutations
from pathlib import Path
from typing import IO
from urllib.parse import quote

from iocurve._native import Volume
from iocurve.foundation.errors import TargetError
from iocurve.foundation.units import format_bytes
from iocurve.machine.processes import counted_as_target
from iocurve.volume import profile
from iocurve.volume.config import ExportRules, TlsFiles, VolumeConfig, is_loopback, reachable_host
from iocurve.volume.spec import MEMORY, ExportSpec, VolumeSpec

NCONNECT_DEFAULT = 8
"""TCP connections of a mount, where a profile advises none."""


def serve(config: VolumeConfig) -> Volume:
    """Starts a volume in threads of this process. Raises ``TargetError``."""
    return Volume(config.to_json())


def greeting(spec: VolumeSpec, port: int) -> Iterator[str]:
    """The lines that announce a volume: for each export its URL, limits and clients, and the commands that mount it."""
    address = spec.listen_address
    host = reachable_host(address)
    tls = spec.tls_files()
    for export in spec.export:
        limits, rules = export.limits(), export.rules()
        speed, cache = limits.throughput or "no limit", limits.server_cache
        level = f"{export.profile_name}, {format_bytes(export.quota_bytes())}"
        level += f", server cache {format_bytes(cache.bytes)}" if cache else ""
        yield f"nfs://{host}:{port}{export.path}{_trusting(tls)}   {speed} ({level}); store: {export.store}"
        yield f"clients: {rules.who_may()}"
        if not is_loopback(address) and not rules.clients:
            yield f"warning: anyone who can reach {address} may use {export.path}; name the clients with --allow"
        if (warning := _not_writable(export, rules)) is not None:
            yield warning
        if export.store != MEMORY and not export.sync:
            yield f"warning: a crash of this machine may undo changes of names and attributes in {export.path}: --async"
        yield f"mount it with: {mount_command(host, port, export, tls)}"
        yield f"or with NFSv4.1: {mount_command_v4(host, port, export, tls)}"
    if not is_loopback(address):
        every = ", every address of this machine," if ip_address(address).is_unspecified else ""
        encrypted = "connections are" if tls else "nothing is"
        yield f"warning: on {address}{every} {encrypted} encrypted, and clients state who they are; trust the network"
    yield from _stores_inside_others(spec.export)
    if (faults := spec.faults()) is not None:
        yield faults.announcement()


def _stores_inside_others(exports: Sequence[ExportSpec]) -> Iterator[str]:
    """Warnings of directories that two exports serve, each by its rules."""
    stores = [(export.path, Path(export.store).resolve()) for export in exports if export.store != MEMORY]
    for inner, outer in permutations(stores, 2):
        if inner[1] != outer[1] and inner[1].is_relative_to(outer[1]):
            yield (
                f"warning: {inner[1]} of {inner[0]} is inside {outer[1]} of {outer[0]}: the rules and quotas of both "
                "lead to its files"
            )


def _not_writable(export: ExportSpec, rules: ExportRules) -> str | None:
    """A warning if those who are squashed cannot create files in the directory of an export."""
    if export.store == MEMORY or rules.squash == "none" or rules.read_only:
        return None
    status = Path(export.store).stat()
    shift = 6 if status.st_uid == rules.anonuid else 3 if status.st_gid == rules.anongid else 0
    if rules.anonuid == 0 or stat.S_IMODE(status.st_mode) >> shift & 0o3 == 0o3:
        return None
    return (
        f"warning: user {rules.anonuid}, which root's calls are executed as, cannot write to {export.store} "
        f"({stat.filemode(status.st_mode)}, owner {status.st_uid}:{status.st_gid}); change its owner, or choose "
        "--anonuid and --anongid, or trust the clients with --no-root-squash"
    )


def _trusting(tls: TlsFiles | None) -> str:
    """The parameters of a URL that trusts a volume's certificate."""
    return f"?tls&ca={quote(tls.certificate)}" if tls else ""


def mount_command(host: str, port: int, export: ExportSpec, tls: TlsFiles | None = None) -> str:
    """The command that mounts an export on a Linux client, with the connections that its profile advises."""
    options = f"vers=3,proto=tcp,port={port},mountport={port},nolock,{_common(export, tls)}"
    return f"sudo mount -t nfs -o {options} {host}:{export.path} /mnt"


def mount_command_v4(host: str, port: int, export: ExportSpec, tls: TlsFiles | None = None) -> str:
    """The command that mounts an export with NFSv4.1, which brings locks and needs no mount protocol."""
    options = f"vers=4.1,proto=tcp,port={port},{_common(export, tls)}"
    return f"sudo mount -t nfs -o {options} {host}:{export.path} /mnt"


def _common(export: ExportSpec, tls: TlsFiles | None) -> str:
    """Options of both versions."""
    connections = profile.load(export.profile_name).nconnect or NCONNECT_DEFAULT
    security = f",xprtsec={'mtls' if tls.clients else 'tls'}" if tls else ""
    return f"nconnect={connections},nosuid,nodev{security}"


@contextmanager
def volume_process(export: ExportSpec) -> Iterator[str]:
    """Runs ``iocurve volume serve`` with one export while the context lasts; yields the URL.

    Raises ``TargetError`` if the volume does not come up.
    """
    command = [sys.executable, "-m", "iocurve", "volume", "serve", "--config", "/dev/stdin"]
    # In a separate session, so that Ctrl-C ends the load first and the volume after it.
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=_end_with_parent(),
    )
    assert process.stdin is not None
    try:
        with contextlib.suppress(BrokenPipeError), process.stdin:
            process.stdin.write(VolumeSpec(export=(export,)).to_json())
        with counted_as_target(process.pid):
            yield _url_of(process)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


PR_SET_PDEATHSIG = 1
"""``prctl(2)``: a signal for this process when its parent ends."""


def _end_with_parent() -> Callable[[], object]:
    """Ends the volume with the thread that starts it, even where kill -9 ends the program.

    The function is found before the fork: in the child of a program with several threads no lock may be taken.
    """
    return partial(ctypes.CDLL(None).prctl, PR_SET_PDEATHSIG, signal.SIGTERM)


def _url_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    assert process.stderr is not None
    for line in process.stdout:
        if found := re.search(r"nfs://\S+", line):
            # Drain the pipes: a full one would block the volume.
            for stream in (process.stdout, process.stderr):
                threading.Thread(target=_drain, args=(stream,), daemon=True).start()
            return found.group()
    reason = process.stderr.read().strip() or f"it ended with status {process.wait()}"
    raise TargetError(f"the embedded volume did not start: {reason}")


def _drain(stream: IO[str]) -> None:
    with stream:
        stream.read()

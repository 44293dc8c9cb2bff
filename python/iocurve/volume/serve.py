"""Starts volumes: in threads of this process, or in a process of their own."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from iocurve import _native
from iocurve.errors import TargetError
from iocurve.result.processes import counted_as_target
from iocurve.units import format_bytes
from iocurve.volume.config import VolumeConfig
from iocurve.volume.spec import VolumeSpec


def serve(config: VolumeConfig) -> _native.Volume:
    """Starts a volume in threads of this process. Raises ``TargetError``."""
    return _native.Volume(config.to_json())


def greeting(spec: VolumeSpec, port: int) -> Iterator[str]:
    """The lines that announce a volume: for each export its URL, its limits, and the commands that mount it."""
    for export in spec.export:
        speed = export.limits().throughput or "no limit"
        level = f"{export.profile_name}, {format_bytes(export.quota_bytes())}"
        yield f"nfs://{spec.address}:{port}{export.path}   {speed} ({level}); store: {export.store}"
        yield f"mount it with: {mount_command(spec.address, port, export.path)}"
        yield f"or with NFSv4.1: {mount_command_v4(spec.address, port, export.path)}"


def mount_command(host: str, port: int, export: str) -> str:
    """The command that mounts an export on a Linux client."""
    options = f"vers=3,proto=tcp,port={port},mountport={port},nolock,nconnect=8"
    return f"sudo mount -t nfs -o {options} {host}:{export} /mnt"


def mount_command_v4(host: str, port: int, export: str) -> str:
    """The command that mounts an export with NFSv4.1, which brings locks and needs no mount protocol."""
    return f"sudo mount -t nfs -o vers=4.1,proto=tcp,port={port},nconnect=8 {host}:{export} /mnt"


@contextmanager
def volume_process(arguments: Sequence[str]) -> Iterator[str]:
    """Runs ``iocurve volume serve`` with the given arguments while the context lasts; yields the URL.

    Raises ``TargetError`` if the volume does not come up.
    """
    command = [sys.executable, "-m", "iocurve", "volume", "serve", "--port", "0", *arguments]
    # In a session of its own, so that Ctrl-C ends the load first and the volume after it.
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        with counted_as_target(process.pid):
            yield _url_of(process)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _url_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    assert process.stderr is not None
    for line in process.stdout:
        if found := re.search(r"nfs://\S+", line):
            # Drain the pipes: a full one would block the volume.
            for stream in (process.stdout, process.stderr):
                threading.Thread(target=stream.read, daemon=True).start()
            return found.group()
    reason = process.stderr.read().strip() or f"it ended with status {process.wait()}"
    raise TargetError(f"the embedded volume did not start: {reason}")

"""The embedded NFS volume: service levels as numbers, and the volume as a process of its own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from iocurve import _native
from iocurve.errors import TargetError
from iocurve.result import TargetFacts
from iocurve.units import MIB, TIB

Level = Literal["standard", "premium", "ultra"]

MIB_PER_S_PER_TIB: dict[Level, int] = {"standard": 16, "premium": 64, "ultra": 128}
"""Azure NetApp Files service levels (learn.microsoft.com, azure-netapp-files-service-levels, 2025)."""
DEFAULT_LEVEL: Level = "ultra"
DEFAULT_QUOTA_BYTES = 4 * TIB
MEMORY_SHARE = 0.75
"""Part of the memory that is free at the start which a volume in memory may take."""


class MemoryStore(BaseModel):
    """Data are kept in memory and gone with the volume."""

    kind: Literal["memory"] = "memory"
    limit_bytes: int


class DirectoryStore(BaseModel):
    """Data are files of a directory."""

    kind: Literal["directory"] = "directory"
    path: str


class Limits(BaseModel):
    """How fast an export may be. None is no limit."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    throughput_bytes_per_s: int | None = None
    """Reads and writes together."""
    iops: int | None = None
    """Reads and writes together."""
    latency_ns: int = 0
    """Added to each read and write."""


class ExportConfig(BaseModel):
    """What clients mount."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    path: str = "/vol"
    store: Annotated[MemoryStore | DirectoryStore, Field(discriminator="kind")]
    quota_bytes: int
    limits: Limits = Limits()


class VolumeConfig(BaseModel):
    """What a volume serves, and where."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    address: str = "127.0.0.1"
    port: int = 0
    """0 takes any free one."""
    exports: tuple[ExportConfig, ...]


def serve(config: VolumeConfig) -> _native.Volume:
    """Starts a volume in threads of this process. Raises ``TargetError``."""
    return _native.Volume(config.model_dump_json())


def throughput_of(level: Level, quota_bytes: int) -> int:
    """Bytes per second of a service level: quota in TiB x the level's MiB/s per TiB."""
    return MIB_PER_S_PER_TIB[level] * MIB * quota_bytes // TIB


def store_of(text: str) -> MemoryStore | DirectoryStore:
    """``memory``, or a directory that is there. Raises ``TargetError``."""
    if text == "memory":
        return MemoryStore(limit_bytes=int(_memory_available() * MEMORY_SHARE))
    if not Path(text).is_dir():
        raise TargetError(f"--store {text}: there is no such directory; create it, or use --store memory")
    return DirectoryStore(path=str(Path(text).resolve()))


def mount_command(host: str, port: int, export: str) -> str:
    """What a Linux client types to mount the volume."""
    options = f"vers=3,proto=tcp,port={port},mountport={port},nolock,nconnect=8"
    return f"sudo mount -t nfs -o {options} {host}:{export} /mnt"


def facts(url: str, *, unlimited: bool) -> TargetFacts:
    """Facts of the volume that an envelope starts by itself."""
    if unlimited:
        return TargetFacts(kind="embedded_volume", address=url, store="memory")
    return TargetFacts(
        kind="embedded_volume",
        address=url,
        service_level=DEFAULT_LEVEL,
        quota_bytes=DEFAULT_QUOTA_BYTES,
        throughput_bytes_per_s=throughput_of(DEFAULT_LEVEL, DEFAULT_QUOTA_BYTES),
        store="memory",
    )


@contextmanager
def served(arguments: Sequence[str]) -> Iterator[str]:
    """A volume in a process of its own, with the arguments of ``iocurve volume``; gone with the context; gives its URL.

    Raises ``TargetError`` if it does not come up.
    """
    command = [sys.executable, "-m", "iocurve", "volume", "--port", "0", *arguments]
    # A session of its own, so that Ctrl-C ends the load first and the volume after it.
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
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
            # What it prints further on must not fill the pipes.
            for stream in (process.stdout, process.stderr):
                threading.Thread(target=stream.read, daemon=True).start()
            return found.group()
    reason = process.stderr.read().strip() or f"it ended with status {process.wait()}"
    raise TargetError(f"the embedded volume did not start: {reason}")


def _memory_available() -> int:
    for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2

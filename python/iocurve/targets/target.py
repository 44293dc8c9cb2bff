"""Parses targets as users name them.

A target is a directory, a file, a block device, an export (``nfs://host[:port]/export?nconnect=8``), an embedded
volume that is started for the measurement (``volume:anf-ultra?quota=4TiB&latency=500us``), or an emulated disk over a
local directory (``disk:premium-ssd-p30?stripe=3&cache=none&vm=Standard_D8ds_v4&path=DIR``).
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal
from urllib.parse import parse_qsl, quote, urlencode

import msgspec

from iocurve.engine.plan import DiskPlan, NfsMount
from iocurve.foundation.errors import Diagnostic, DialectError, TargetError, remedies
from iocurve.result import host
from iocurve.result.caps import caps
from iocurve.result.document import TargetFacts
from iocurve.targets.disk import DiskSpec, parse_disk
from iocurve.targets.nfs_url import NfsUrl, parse_nfs_url
from iocurve.volume.serve import volume_process
from iocurve.volume.spec import ExportSpec, spec_of
from iocurve.volume.spec import facts as volume_facts

MOUNT = ("vers", "nconnect", "slots", "rsize", "wsize")
"""Parameters of an embedded volume that say how it is mounted, and not what it carries."""


class NfsTarget(msgspec.Struct, frozen=True):
    """An export of an NFS server."""

    text: str
    """The URL that the user wrote."""
    url: NfsUrl

    @classmethod
    def of(cls, text: str) -> NfsTarget:
        """Reads a URL. Raises ``DialectError``."""
        try:
            return cls(text, parse_nfs_url(text))
        except ValueError as error:
            raise DialectError([Diagnostic(str(error))]) from None

    @property
    def nconnect(self) -> int:
        """TCP connections; 1 unless the URL sets them."""
        return self.url.nconnect or 1

    def mount(self, nconnect: int, timeout_ns: int | None = None) -> NfsMount:
        """The mount for a plan; READ payload may be discarded, since nothing verifies it.

        ``timeout_ns`` defaults to the URL's, or else to a minute.
        """
        return self.url.mount((os.getuid(), os.getgid()), nconnect, timeout_ns)


class LocalTarget(msgspec.Struct, frozen=True):
    """A local directory, file or block device."""

    path: Path
    kind: Literal["directory", "file", "device"]
    bytes: int
    """Size of a device or of an existing file; otherwise 0."""
    exists: bool = True
    """False for a file that does not exist yet."""

    @classmethod
    def of(cls, text: str, *, create: bool = False) -> LocalTarget:
        """Looks at a path, which may be missing where a file is to be created. Raises ``TargetError``."""
        path = Path(text)
        try:
            status = path.stat()
        except FileNotFoundError:
            if create and path.parent.is_dir():
                return cls(path, "file", 0, exists=False)
            missing = path if path.parent.is_dir() else path.parent
            hint = remedies("check the path", *(["add {create} to measure a new file"] if missing == path else []))
            if re.match(r"nfs:|[\w.-]+:/|\[[\da-fA-F:]+\]:/", text):
                hint = "write an NFS export as nfs://HOST/EXPORT"
            raise TargetError(f"{text}: {missing} does not exist; {hint}") from None
        except OSError as error:
            raise TargetError(f"{text}: {error.strerror}") from None
        if stat.S_ISDIR(status.st_mode):
            return cls(path, "directory", 0)
        if stat.S_ISBLK(status.st_mode):
            return cls(path, "device", _device_bytes(path))
        if stat.S_ISREG(status.st_mode):
            return cls(path, "file", status.st_size)
        raise TargetError(f"{text}: neither a file nor a directory nor a block device")


def _device_bytes(path: Path) -> int:
    try:
        with path.open("rb") as device:
            return device.seek(0, os.SEEK_END)
    except OSError as error:
        raise TargetError(f"{path}: {error.strerror}; run as a user who may read the device") from None


class VolumeTarget(msgspec.Struct, frozen=True):
    """An embedded volume, which runs only during the measurement or was started before."""

    text: str
    export: ExportSpec
    mount: str = ""
    """How the load mounts it, as parameters of an NFS URL: ``vers=4.1``."""
    url: str | None = None
    """URL of a volume that serves this export already; None starts one for the measurement."""

    @classmethod
    def of(cls, text: str) -> VolumeTarget:
        """Reads ``volume:PROFILE?quota=4TiB&vers=4.1``. Raises ``DialectError`` or ``TargetError``."""
        profile, _, query = text.removeprefix("volume:").partition("?")
        said: dict[str, str | int] = dict(parse_qsl(query, keep_blank_values=True))
        mount = urlencode([(name, said.pop(name)) for name in MOUNT if name in said])
        try:
            parse_nfs_url(f"nfs://volume/?{mount}")
        except ValueError as error:
            raise DialectError([Diagnostic(f"{text}: {str(error).partition(': ')[2]}")]) from None
        try:
            export = spec_of(said | ({"profile": profile} if profile else {}))
            export.limits()
        except DialectError as error:
            errors = [Diagnostic(f"{text}: {error.text.lstrip('-')}") for error in error.errors]
            raise DialectError(errors) from None
        return cls(text, export, mount)

    @contextmanager
    def opened(self) -> Iterator[NfsTarget]:
        """Runs the volume while the context lasts. Raises ``TargetError`` if it does not start."""
        running = volume_process(self.export.for_own_runs()) if self.url is None else nullcontext(self.url)
        with running as url:
            yield NfsTarget.of(f"{url}?{self.mount}" if self.mount else url)


class DiskTarget(msgspec.Struct, frozen=True):
    """An emulated disk over a local directory."""

    text: str
    spec: DiskSpec

    @classmethod
    def of(cls, text: str) -> DiskTarget:
        """Reads ``disk:NAME?path=DIR&…``. Raises ``DialectError`` or ``TargetError``."""
        try:
            spec = parse_disk(text)
        except ValueError as error:
            raise DialectError([Diagnostic(str(error))]) from None
        if not spec.directory.is_dir():
            raise TargetError(f"{text}: there is no directory {spec.directory}; create it or check the path")
        return cls(text, spec)

    @property
    def path(self) -> Path:
        """The directory that holds the disk's files."""
        return self.spec.directory

    @property
    def plan(self) -> DiskPlan:
        """The disk for a plan."""
        return self.spec.plan(Path.cwd())


class NewDiskTarget(msgspec.Struct, frozen=True):
    """An emulated disk that exists only during the measurement."""

    text: str
    """The text that the user wrote, without ``path=``."""

    @classmethod
    def of(cls, text: str) -> NewDiskTarget:
        """Reads ``disk:NAME?…``. Raises ``DialectError``."""
        target = cls(text)
        placed = target._placed(Path())
        try:
            parse_disk(placed)
        except ValueError as error:
            raise DialectError([Diagnostic(str(error).replace(placed, text, 1))]) from None
        return target

    def in_directory(self, directory: Path) -> DiskTarget:
        """The same disk, with its files in ``directory``."""
        return DiskTarget.of(self._placed(directory))

    def _placed(self, directory: Path) -> str:
        return f"{self.text}{'&' if '?' in self.text else '?'}path={quote(str(directory))}"

    @contextmanager
    def opened(self) -> Iterator[DiskTarget]:
        """Creates the disk in a temporary directory below the current one. Raises ``TargetError``."""
        try:
            directory = TemporaryDirectory(prefix="iocurve-disk-", dir=Path.cwd())
        except OSError as error:
            raise TargetError(
                f"{self.text}: {Path.cwd()}: {error.strerror}; name another directory with path=DIR"
            ) from None
        with directory as path:
            yield self.in_directory(Path(path))


Target = NfsTarget | LocalTarget | VolumeTarget | DiskTarget | NewDiskTarget


def parse(text: str, *, create: bool = False) -> Target:
    """Reads a target as people name it; with ``create`` a path may name a file that does not exist yet.

    Raises ``DialectError`` for an error in the text, and ``TargetError`` for a path that cannot be measured.
    """
    if text.startswith("nfs://"):
        return NfsTarget.of(text)
    if text.startswith("volume:"):
        return VolumeTarget.of(text)
    if text.startswith("disk:"):
        return DiskTarget.of(text) if re.search(r"[?&]path=", text) else NewDiskTarget.of(text)
    if "://" in text:
        raise DialectError(
            [Diagnostic(f"{text}: only nfs:// URLs, directories, files and block devices can be measured")]
        )
    return LocalTarget.of(text, create=create)


def facts_of(target: Target) -> TargetFacts:
    """The facts of a target that are known before it is measured."""
    if isinstance(target, NfsTarget):
        return TargetFacts(kind="nfs", address=target.text)
    if isinstance(target, VolumeTarget):
        return volume_facts(target.text, target.export)
    if isinstance(target, DiskTarget):
        return disk_facts(target.plan)
    if isinstance(target, NewDiskTarget):
        return disk_facts(target.in_directory(Path()).plan).replace(address=target.text)
    return TargetFacts(kind=target.kind, address=str(target.path.resolve()), mount=host.mount_of(target.path))


def disk_facts(disk: DiskPlan) -> TargetFacts:
    """The facts of an emulated disk, with its sustained limits (no burst)."""
    within = [disk.limits]
    if disk.vm and disk.cache != "none" and disk.vm.cached:
        within = [disk.vm.cached]
    elif disk.vm and disk.vm.uncached:
        within.append(disk.vm.uncached)
    directory = Path(disk.state_path).parent
    return TargetFacts(
        kind="emulated_disk",
        address=str(directory),
        service_level=disk.name,
        caps=caps(
            {
                "iops": min(limits.iops for limits in within),
                "throughput_bytes_per_s": min(limits.bytes_per_s for limits in within),
            }
        ),
        mount=host.mount_of(directory),
    )

"""Opens a target for a load: starts an embedded volume or an emulated disk first, and removes it afterwards.

``Volume`` is an embedded volume that a program starts itself.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from ipaddress import AddressValueError, IPv4Address
from pathlib import Path
from typing import Self

import msgspec

from iocurve.foundation.errors import TargetError, in_arguments, remedies
from iocurve.foundation.units import MIB, format_bytes
from iocurve.result.document import TargetFacts
from iocurve.targets import target as targets
from iocurve.targets.places import LocalPlace, NfsPlace, Place
from iocurve.targets.target import DiskTarget, LocalTarget, NewDiskTarget, NfsTarget, Target, VolumeTarget
from iocurve.volume import control
from iocurve.volume.control import stats_of
from iocurve.volume.messages import ServedStats, SetRequest, VolumeStats
from iocurve.volume.serve import volume_process
from iocurve.volume.spec import memory_limit_bytes, spec_of


class OpenedTarget(msgspec.Struct, frozen=True):
    """A target that is ready for a load."""

    target: NfsTarget | LocalTarget | DiskTarget
    """The target to connect to; for an embedded volume its NFS URL."""
    facts: TargetFacts
    path: str | None = None
    """The file or device to load; None if the load creates its own files."""
    bytes: int | None = None
    """Size of the file or device if it existed before; None otherwise."""

    @property
    def nconnect(self) -> int | None:
        """The ``nconnect`` of the URL; None if the target is not an NFS export."""
        return self.target.nconnect if isinstance(self.target, NfsTarget) else None

    @property
    def allows_many_clients(self) -> bool:
        """True if the load can use any source address in 127.0.0.0/8, so that the server sees many clients."""
        return isinstance(self.target, NfsTarget) and is_ipv4_loopback(self.target.url.host)

    def place(self, timeout_ns: int | None = None) -> Place | None:
        """The directory in which loads create their files; None for a file or a device.

        ``timeout_ns`` limits the time for which a silent server is waited for; it defaults to that of the target.
        """
        if self.path is not None:
            return None
        if isinstance(self.target, NfsTarget):
            return NfsPlace(self.target.mount(1, timeout_ns))
        return LocalPlace(self.target.path if isinstance(self.target, LocalTarget) else self.target.spec.directory)


UNOPENED = OpenedTarget(NfsTarget.of("nfs://unopened/export"), TargetFacts(kind="nfs", address=""))
"""Placeholder for points that are only counted and shown, not run."""


@contextmanager
def opened(target: Target) -> Iterator[OpenedTarget]:
    """Opens the target while the context lasts. Raises ``TargetError``."""
    if isinstance(target, VolumeTarget):
        with target.opened() as served:
            yield OpenedTarget(served, targets.facts_of(target))
    elif isinstance(target, NewDiskTarget):
        with target.opened() as disk:
            yield OpenedTarget(disk, targets.facts_of(target))
    elif not isinstance(target, LocalTarget) or target.kind == "directory":
        yield OpenedTarget(target, targets.facts_of(target))
    elif target.exists:
        yield OpenedTarget(target, targets.facts_of(target), str(target.path), target.bytes or None)
    else:
        with _new_file(target.path):
            yield OpenedTarget(target, targets.facts_of(target), str(target.path))


@contextmanager
def _new_file(path: Path) -> Iterator[None]:
    """Creates the file, so that the run may fill and remove it; removes it at the end if it is empty."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    except FileExistsError:
        raise TargetError(f"{path}: another program created this file just now; nothing was written to it") from None
    except OSError as error:
        raise TargetError(f"{path}: {error.strerror}") from None
    try:
        yield
    finally:
        # A file with data is kept or removed by the code that wrote the data.
        if path.exists() and not path.stat().st_size:
            path.unlink()


def check_overwrites(target: Target, *, overwrite: bool, writes: bool) -> None:
    """Refuses writes to an existing file or device unless the user allows them. Raises ``TargetError``."""
    if not isinstance(target, LocalTarget) or target.kind == "directory":
        return
    path, exists = target.path, target.path.exists()
    if exists and writes and not overwrite:
        ways = ("use {read_only} to measure reads alone", "add {overwrite} to allow the writes", "name a directory")
        raise TargetError(f"{path} already exists and writes would destroy its data; {remedies(*ways)}")
    if not exists and not writes:
        raise TargetError(f"{path} does not exist, so there is nothing to read; name an existing file")
    if exists and target.bytes < MIB:
        raise TargetError(f"{path}: {format_bytes(target.bytes)} is too small; a target needs at least 1 MiB")


def check_space(sizes: Iterable[tuple[Target, int]]) -> None:
    """Checks that the files of a run fit, those of one file system together, if the room is known.

    ``sizes`` has the bytes of all files on each target. Raises ``TargetError``.
    """
    needed: dict[object, int] = {}
    for target, size_bytes in sizes:
        room = _room(target)
        if room is None:
            continue
        place, available_bytes, where = room
        needed[place] = needed.get(place, 0) + size_bytes
        if needed[place] > available_bytes:
            name = target.path if isinstance(target, LocalTarget) else target.text
            data, available = format_bytes(needed[place]), format_bytes(available_bytes)
            raise TargetError(f"{name}: the run needs {data} for its files, and {available} are available {where}")


def _room(target: Target) -> tuple[object, int, str] | None:
    """The place of the run's files, the same for all targets that share it, and its bytes; None if unknown."""
    if isinstance(target, VolumeTarget) and target.export.store == "memory":
        return target, min(memory_limit_bytes(), target.export.quota_bytes()), "in memory"
    if isinstance(target, VolumeTarget):
        return _room_in(target.export.store)
    if isinstance(target, NewDiskTarget):
        return _room_in(Path.cwd())
    if isinstance(target, DiskTarget) or (isinstance(target, LocalTarget) and target.kind == "directory"):
        return _room_in(target.path)
    return None


def _room_in(directory: str | Path) -> tuple[object, int, str]:
    try:
        return Path(directory).stat().st_dev, shutil.disk_usage(directory).free, f"in {directory}"
    except OSError as error:
        raise TargetError(f"{directory} can no longer be used: {error.strerror}") from None


def is_ipv4_loopback(host: str) -> bool:
    """True if a host is this machine's, with all the addresses of 127.0.0.0/8 to call from."""
    try:
        return host == "localhost" or IPv4Address(host).is_loopback
    except AddressValueError:
        return False


def starved_share_since(ports: Iterable[int]) -> Callable[[], float | None]:
    """A function of the volumes of this user at ports of this machine.

    It gives the largest share of the time since now in which a volume waited for processors; None without a volume.
    """
    before = _counters(ports)

    def starved_share() -> float | None:
        now = _counters(before)
        return max((stats.starved_share(before[port]) for port, stats in now.items()), default=None)

    return starved_share


def _counters(ports: Iterable[int]) -> dict[int, VolumeStats]:
    return {port: stats for port in ports if (stats := stats_of(port))}


class Volume:
    """An NFS volume with a service level, in a separate process of this machine, while a ``with`` block lasts.

    As a ``target`` it brings its limits, so that verdicts are measured against them; its ``url`` is for other programs.
    It listens on loopback only. Leave the block in the thread that entered it: the volume ends with that thread.
    """

    @in_arguments
    def __init__(
        self,
        profile: str | None = None,
        quota: str | None = None,
        *,
        throughput: str | None = None,
        iops: int | None = None,
        latency: str | None = None,
        speed: str | None = None,
        store: str | None = None,
    ) -> None:
        """The settings are those of ``iocurve volume serve``, as text with a unit.

        ``profile`` is a service level (``iocurve profile list``; default ``anf-ultra``, with ``throughput``
        ``unlimited``), ``quota`` its size (default ``4TiB``). ``throughput`` (``512MiB`` per second), ``iops`` and
        ``latency`` (``500us``) replace those of the profile; ``speed`` (``10%``) slows everything down; ``store`` is
        ``memory`` (the default) or a directory. Raises ``DialectError`` and ``TargetError``.
        """
        said = {"profile": profile, "quota": quota, "throughput": throughput, "iops": iops, "latency": latency}
        said |= {"speed": speed, "store": store}
        self._export = spec_of({name: value for name, value in said.items() if value is not None})
        self._export.limits()
        self._url: str | None = None
        self._stack = ExitStack()

    @in_arguments
    def __enter__(self) -> Self:
        if self._url is not None:
            raise TargetError(f"the volume serves already, at {self._url}")
        self._url = self._stack.enter_context(volume_process(self._export.for_own_runs()))
        return self

    def __exit__(self, *_: object) -> None:
        self._url = None
        self._stack.close()

    @property
    def url(self) -> str:
        """``nfs://127.0.0.1:PORT/vol``. Raises ``TargetError`` outside of the ``with`` block."""
        if self._url is None:
            raise TargetError("the volume does not serve; use it in a block: with iocurve.Volume() as volume")
        return self._url

    @property
    def target(self) -> VolumeTarget:
        """The target of measurements. Raises ``TargetError`` outside of the ``with`` block."""
        return VolumeTarget(self.url, self._export, url=self.url)

    def set(
        self,
        *,
        profile: str | None = None,
        quota: str | None = None,
        throughput: str | None = None,
        iops: int | None = None,
        latency: str | None = None,
    ) -> None:
        """Changes settings while clients stay connected; a new profile resets the others.

        Raises ``TargetError`` if the volume refuses, or outside of the ``with`` block.
        """
        request = SetRequest(profile=profile, quota=quota, throughput=throughput, iops=iops, latency=latency)
        with control.Client(self.url) as client:
            client.set(request.replace(export=client.export))
        self._export = self._export.changed(request.changes)

    def stats(self) -> ServedStats:
        """The counters since the start, by export, client and connection.

        Raises ``TargetError``, also outside of the ``with`` block.
        """
        with control.Client(self.url) as client:
            return client.stats()

    def __repr__(self) -> str:
        return f"<Volume {self._export.profile_name}, {self._export.quota}: {self._url or 'not started'}>"

"""Doctor's examination: finds the subject on a host, and runs the checks that fit it."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path, PurePath

import msgspec

from iocurve.advice.doctor import local, machine, nfs
from iocurve.advice.doctor.checks import Diagnosis, Finding, Judgement, State, TunedSetting, diagnosis
from iocurve.advice.doctor.host import ClientMount, HostFiles, fstab_options, mounts
from iocurve.foundation.errors import TargetError
from iocurve.machine.mounts import nearest
from iocurve.result.caps import Cap
from iocurve.targets.nfs_url import parse_nfs_url

ROWS_OF_ALL = "all mounts and disks"
PSEUDO_DISKS = ("loop", "ram", "zram", "sr", "fd", "nbd")


def _with_option(url: str, option: str) -> str:
    """An ``nfs://`` URL with an option (``nconnect=8``) in place of the one of that name."""
    base, _, query = url.partition("?")
    others = [each for each in query.split("&") if each and not each.startswith(f"{option.partition('=')[0]}=")]
    return f"{base}?{'&'.join([*others, option])}"


class Known(msgspec.Struct, frozen=True):
    """Facts about the server and the machine that the user gave."""

    profile: str | None = None
    """A service level (iocurve profile list)."""
    nconnect: int | None = None
    """The connections that the profile advises."""
    limits: tuple[Cap, ...] = ()
    """The limits of the profile at the user's quota."""
    vm: str | None = None
    """The size of the virtual machine. Default: what the instance metadata says."""


def diagnose(host: HostFiles, subject: str | None, known: Known) -> Diagnosis:
    """Examines a mount, directory, device or ``nfs://`` URL; None: all NFS mounts and disks.

    Raises ``TargetError`` if the subject is not on the host.
    """
    vm = known.vm or (host.instance.vm_size if host.instance else None)
    examination = _Examination(host, known, machine.network_bytes_per_s(vm))
    if subject is None:
        found = examination.everything()
    elif subject.startswith("nfs://"):
        found = examination.url(subject)
    else:
        found = examination.one(subject)
    return diagnosis(
        subject or ROWS_OF_ALL, nfs.joined([*found, *machine.check(host, vm, known.limits, examination.connections)])
    )


class _Examination:
    """The checks of one subject."""

    def __init__(self, host: HostFiles, known: Known, bytes_per_s: float | None) -> None:
        self.host, self.known, self.bytes_per_s = host, known, bytes_per_s
        self.mounts = mounts(host)
        self.devices = local.devices(host)
        self.nfs = [mount for mount in self.mounts if isinstance(mount, ClientMount)]

    @property
    def connections(self) -> int | None:
        """The fewest connections of an NFS mount; None without one."""
        return min((len(one.transports) or one.nconnect for one in self.nfs), default=None)

    def everything(self) -> Iterator[Finding]:
        """All NFS mounts, and the disks that file systems are on."""
        for one in self.nfs:
            yield from self._nfs(one)
        seen = set()
        for mount in self.mounts:
            device = local.device_of(mount, self.devices)
            if device is not None and device.name not in seen and not device.name.startswith(PSEUDO_DISKS):
                seen.add(device.name)
                yield from local.check(device, mount, self.devices, self.host)

    def one(self, subject: str) -> Iterator[Finding]:
        """A mount point, a path on one, or a device."""
        by_name = {device.name: device for device in self.devices.values()}
        if subject in by_name or subject.startswith("/dev/"):
            device = by_name.get(subject) or self._device_node(subject, by_name)
            if device is None:
                raise TargetError(f"{subject}: /sys/block lists no such device")
            mount = next((one for one in self.mounts if local.device_of(one, self.devices) == device), None)
            return local.check(device, mount, self.devices, self.host)
        if self.host.is_live and not Path(subject).exists():
            raise TargetError(f"{subject}: there is no such file, directory or device; see iocurve doctor --help")
        path = str(Path(subject).resolve()) if self.host.is_live else subject.rstrip("/") or "/"
        mount = nearest(PurePath(path), self.mounts)
        if mount is None or (not self.host.is_live and mount.point == "/" and path != "/"):
            points = ", ".join(one.point for one in self.nfs) or "none"
            raise TargetError(f"{subject}: no mount of the captured machine; its NFS mounts: {points}")
        if isinstance(mount, ClientMount):
            return self._nfs(mount)
        device = local.device_of(mount, self.devices)
        if device is None:
            return iter([("disk.file_system", mount.point, local.file_system(mount))])
        return local.check(device, mount, self.devices, self.host)

    def url(self, subject: str) -> Iterator[Finding]:
        """An export that iocurve's own client uses, with the connections of the URL."""
        try:
            connections = parse_nfs_url(subject).nconnect or 1
        except ValueError as error:
            raise TargetError(str(error)) from None
        wanted = self.known.nconnect
        is_good = connections == wanted or (wanted is None and connections > 1)
        text = f"nconnect={connections} in the URL" + (f"; {wanted} advised" if wanted else "")
        options = [f"nconnect={number}" for number in (connections, wanted or 8)]
        now, better = (_with_option(subject, option) for option in options)
        setting = TunedSetting(
            now=str(connections), wanted=str(wanted or 8), load=nfs.CONNECTIONS_LOAD, urls=(now, better)
        )
        state: State = "green" if is_good else "yellow"
        yield "nfs.nconnect", subject, Judgement(state, text, fix=options[1], undo=options[0], setting=setting)
        yield "nfs.tcp_buffers", subject, nfs.windows(connections, None, self.host, self.bytes_per_s)

    def _nfs(self, mount: ClientMount) -> Iterator[Finding]:
        yield "nfs.udev_rules", mount.point, nfs.check_rules(self.host)
        service = nfs.service_of(mount, self.known.profile, self.known.nconnect)
        yield from nfs.check(mount, self.host, service, self.bytes_per_s)
        yield from nfs.check_connections(mount, self.nfs, fstab_options(self.host), self.host, service)

    def _device_node(self, subject: str, by_name: dict[str, local.Device]) -> local.Device | None:
        """A device by its node; a link such as /dev/mapper/x is followed on a live machine."""
        if not self.host.is_live:
            return by_name.get(subject.removeprefix("/dev/"))
        try:
            status = Path(subject).stat()
        except OSError as error:
            raise TargetError(f"{subject}: {error.strerror}") from None
        if not stat.S_ISBLK(status.st_mode):
            raise TargetError(f"{subject} is not a block device")
        return self.devices.get(f"{os.major(status.st_rdev)}:{os.minor(status.st_rdev)}")

"""The rows of local file systems and block devices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from iocurve.advice.doctor.checks import Findings, Setting, State
from iocurve.advice.doctor.host import Host
from iocurve.advice.doctor.mounts import Mount
from iocurve.units import KIB, MIB, format_bytes

SECTOR_BYTES = 512
REQUESTS_MIN = 64
QUEUE_DEPTH_MIN = 32
RANDOM_READS = "rw=randread bs=4k"
GOOD_SCHEDULERS = ("none", "mq-deadline")
GOOD_FILE_SYSTEMS = ("ext3", "ext4", "xfs")
COSTLY_FILE_SYSTEMS = ("btrfs", "zfs", "bcachefs", "overlay", "ecryptfs", "ntfs", "ntfs3", "vfat", "exfat", "ext2")


@dataclass(frozen=True)
class Device:
    """A block device: a disk, or a partition of one."""

    name: str
    path: str
    """Its directory below /sys."""
    disk: str
    """The directory of the whole disk, which has the queue."""

    @property
    def is_partition(self) -> bool:
        """True for a part of a disk."""
        return self.path != self.disk


def devices(host: Host) -> dict[str, Device]:
    """All block devices by number (``MAJOR:MINOR``)."""
    found = {}
    for name in host.names("sys/block"):
        disk = f"sys/block/{name}"
        found[host.word(f"{disk}/dev")] = Device(name, disk, disk)
        for part in host.names(disk):
            if part.startswith(name) and (number := host.word(f"{disk}/{part}/dev")):
                found[number] = Device(part, f"{disk}/{part}", disk)
    return {number: device for number, device in found.items() if number}


def device_of(mount: Mount, known: dict[str, Device]) -> Device | None:
    """The device of a mount; file systems with their own number, such as btrfs, are found by their source."""
    by_name = {device.name: device for device in known.values()}
    return known.get(mount.number) or by_name.get(mount.source.removeprefix("/dev/"))


def members(device: Device, known: dict[str, Device], host: Host) -> Iterator[Device]:
    """The devices that a device consists of: itself, if it has no parts."""
    by_name = {one.name: one for one in known.values()}
    parts = [by_name[name] for name in host.names(f"{device.path}/slaves") if name in by_name]
    if not parts:
        yield device
    for part in parts:
        yield from members(part, known, host)


def check(device: Device, mount: Mount | None, known: dict[str, Device], host: Host, found: Findings) -> None:
    """Adds the rows of a device, of its members, and of the file system on it."""
    leaves = list(dict.fromkeys(members(device, known, host)))
    for disk in dict.fromkeys(leaf.disk for leaf in leaves):
        _scheduler(disk, host, found)
        _requests(disk, host, found)
        _queue_depth(disk, host, found)
        _host_cache(disk, host, found)
    _stripe(device, leaves, mount, host, found)
    for leaf in leaves:
        _alignment(leaf, host, found)
    if mount is not None:
        _mount_options(mount, found)
        _file_system(mount, found)


def _name(disk: str) -> str:
    return disk.rpartition("/")[2]


def _scheduler(disk: str, host: Host, found: Findings) -> None:
    path = f"{disk}/queue/scheduler"
    offered = host.word(path).split()
    now = next((word.strip("[]") for word in offered if word.startswith("[")), offered[0] if len(offered) == 1 else "")
    if not now:
        return found.leave_out("disk.scheduler", f"/{path} is not there")
    rotates, is_nvme = host.word(f"{disk}/queue/rotational") == "1", _name(disk).startswith("nvme")
    is_good = now == "none" if is_nvme else now in (*GOOD_SCHEDULERS, "bfq") if rotates else now in GOOD_SCHEDULERS
    names = [word.strip("[]") for word in offered]
    wanted = "none" if "none" in names and not rotates else "mq-deadline"
    kind = "NVMe" if is_nvme else "rotating" if rotates else "does not rotate"
    return found.add(
        "disk.scheduler",
        "green" if is_good else "yellow",
        f"{now} ({kind})",
        subject=_name(disk),
        fix=None if is_good else f"echo {wanted} > /{path}; for later boots the udev rule of iocurve doctor --fix",
        undo=f"echo {now} > /{path}; rm /etc/udev/rules.d/60-iocurve-scheduler.rules",
        setting=Setting(path=path, now=now, wanted=wanted, load=RANDOM_READS),
    )


def _requests(disk: str, host: Host, found: Findings) -> None:
    path = f"{disk}/queue/nr_requests"
    now, depth = host.number(path), host.number(f"{disk}/device/queue_depth") or 0
    if now is None:
        return found.leave_out("disk.requests", f"/{path} is not there")
    wanted = max(REQUESTS_MIN, depth)
    is_good = now >= wanted
    return found.add(
        "disk.requests",
        "green" if is_good else "yellow",
        f"{now} requests" + (f"; the device takes {depth}" if depth else ""),
        subject=_name(disk),
        fix=None if is_good else f"echo {wanted} > /{path} (devices without a scheduler take at most their own depth)",
        undo=f"echo {now} > /{path}",
        setting=Setting(path=path, now=str(now), wanted=str(wanted), load=RANDOM_READS),
    )


def _queue_depth(disk: str, host: Host, found: Findings) -> None:
    path = f"{disk}/device/queue_depth"
    now = host.number(path)
    if now is None:
        return found.leave_out("disk.queue_depth", f"/{path} is not there: only SCSI devices state it")
    is_good = now >= QUEUE_DEPTH_MIN
    return found.add(
        "disk.queue_depth",
        "green" if is_good else "yellow",
        f"{now} commands",
        subject=_name(disk),
        fix=None if is_good else f"echo {QUEUE_DEPTH_MIN} > /{path} (as far as its driver allows)",
        undo=f"echo {now} > /{path}",
        setting=Setting(path=path, now=str(now), wanted=str(QUEUE_DEPTH_MIN), load=RANDOM_READS),
    )


def _host_cache(disk: str, host: Host, found: Findings) -> None:
    if host.instance is None:
        return found.leave_out(
            "disk.host_cache", "a guest cannot see it, and Azure's instance metadata was not reached"
        )
    # Azure's data disks have the LUN of their SCSI address, HOST:CHANNEL:TARGET:LUN.
    address = next(iter(host.names(f"{disk}/device/scsi_device")), "")
    lun = address.rpartition(":")[2]
    caching = next((one.caching for one in host.instance.data_disks if str(one.lun) == lun), "")
    if not caching:
        return found.leave_out("disk.host_cache", f"{_name(disk)} is no data disk of the virtual machine")
    is_good = caching != "ReadWrite"
    return found.add(
        "disk.host_cache",
        "green" if is_good else "yellow",
        f"{caching} (LUN {lun})",
        subject=_name(disk),
        fix=None
        if is_good
        else f"az vm update -g GROUP -n VM --disk-caching {lun}=ReadOnly, or {lun}=None for logs and heavy writes",
        undo=f"az vm update -g GROUP -n VM --disk-caching {lun}=ReadWrite",
    )


def _stripe(device: Device, leaves: Sequence[Device], mount: Mount | None, host: Host, found: Findings) -> None:
    if len(leaves) < 2:
        return found.leave_out("disk.stripe", f"{device.name} is one disk")
    sizes = {host.number(f"{leaf.path}/size") or 0 for leaf in leaves}
    chunk, width = (host.number(f"{device.disk}/queue/{name}") or 0 for name in ("minimum_io_size", "optimal_io_size"))
    options = mount.options if mount else {}
    # XFS states sunit and swidth in sectors of 512 bytes; ext4 states stripe in blocks of 4 KiB.
    stated = int(options.get("swidth", 0)) * SECTOR_BYTES or int(options.get("stripe", 0)) * 4 * KIB
    problems = []
    if len(sizes) > 1:
        problems.append(
            f"members of {format_bytes(min(sizes) * SECTOR_BYTES)} and {format_bytes(max(sizes) * SECTOR_BYTES)}"
        )
    if mount is not None and width > chunk and stated != width:
        problems.append(f"the file system knows {format_bytes(stated) if stated else 'no stripe'}")
    text = f"{len(leaves)} members, chunk {format_bytes(chunk)}, stripe {format_bytes(width)}"
    fix = (
        f"mkfs.xfs -d su={chunk},sw={max(1, width // max(1, chunk))}, or mke2fs -E stride={chunk // 4096},"
        f"stripe_width={width // 4096}: this makes a new file system; members of equal size"
    )
    return found.add(
        "disk.stripe",
        "yellow" if problems else "green",
        "; ".join([text, *problems]),
        subject=device.name,
        fix=fix if problems else None,
        undo="none: a new file system replaces the old one, so back up its data first",
    )


def _alignment(device: Device, host: Host, found: Findings) -> None:
    block = host.number(f"{device.disk}/queue/physical_block_size") or SECTOR_BYTES
    offset = host.number(f"{device.path}/alignment_offset") or 0
    start = (host.number(f"{device.path}/start") or 0) * SECTOR_BYTES if device.is_partition else 0
    if not device.is_partition and host.number(f"{device.path}/size") is None:
        return found.leave_out("disk.alignment", f"/{device.path}/size is not there")
    state: State = "red" if offset > 0 or start % max(4 * KIB, block) else "yellow" if start % MIB else "green"
    text = f"starts at {start:,} bytes" if device.is_partition else "the whole device"
    text += f", alignment_offset {offset}" if offset else ""
    return found.add(
        "disk.alignment",
        state,
        f"{text}; physical blocks of {block:,} bytes",
        subject=device.name,
        fix=None
        if state == "green"
        else f"back up, then make the partition again: parted -a optimal /dev/{_name(device.disk)}",
        undo="none: the partition's data is written again",
    )


def _mount_options(mount: Mount, found: Findings) -> None:
    options = mount.options
    bad: list[str] = [name for name in ("sync", "dirsync", "nobarrier") if name in options]
    bad += ["barrier=0"] if options.get("barrier") == "0" else []
    costly: list[str] = [name for name in ("discard", "strictatime") if name in options]
    costly += ["data=journal"] if options.get("data") == "journal" else []
    has_atime = not {"noatime", "relatime"} & options.keys()
    costly += ["atime"] if has_atime and "ro" not in options and "strictatime" not in costly else []
    state: State = "red" if bad else "yellow" if costly else "green"
    remedies = {
        "sync": "async",
        "dirsync": "async",
        "nobarrier": "barrier",
        "barrier=0": "barrier=1",
        "discard": "nodiscard",
        "strictatime": "relatime",
        "atime": "relatime",
        "data=journal": "data=ordered",
    }
    wanted = ",".join(dict.fromkeys(remedies[name] for name in (*bad, *costly)))
    fix = f"mount -o remount,{wanted} {mount.point}; the same in /etc/fstab"
    fix += "; fstrim.timer instead of discard" if "discard" in costly else ""
    found.add(
        "disk.mount_options",
        state,
        ", ".join([*bad, *costly]) or ("noatime" if "noatime" in options else "relatime"),
        subject=mount.point,
        fix=None if state == "green" else fix,
        undo=f"mount -o remount,{','.join((*bad, *costly))} {mount.point}",
    )


def _file_system(mount: Mount, found: Findings) -> None:
    kind = mount.kind
    is_costly = kind in COSTLY_FILE_SYSTEMS or kind.startswith("fuse")
    state: State = "red" if kind in ("tmpfs", "ramfs") else "yellow" if is_costly else "green"
    found.add(
        "disk.file_system",
        state,
        kind,
        subject=mount.point,
        fix=None if state == "green" else "use a directory on ext4 or xfs",
        undo="use the former directory",
    )


def check_file_system(mount: Mount, found: Findings) -> None:
    """Adds the rows of a file system that is on no block device."""
    _file_system(mount, found)

"""The checks of local file systems and block devices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from iocurve.advice.doctor.checks import Finding, Judgement, TunedSetting
from iocurve.advice.doctor.host import HostFiles
from iocurve.foundation.units import KIB, MIB, format_bytes
from iocurve.machine.mounts import Mount

SECTOR_BYTES = 512
REQUESTS_MIN = 64
QUEUE_DEPTH_MIN = 32
RANDOM_READS = "rw=randread bs=4k"
BUFFERED_RANDOM_READS = "rw=randread bs=16k direct=0"
READ_AHEAD_KIB, LARGE_READ_AHEAD_KIB = 128, 4_096
"""Linux's default until 6.16, and what rotating disks get since."""
GOOD_SCHEDULERS = ("none", "mq-deadline")
COSTLY_FILE_SYSTEMS = ("btrfs", "zfs", "bcachefs", "overlay", "ecryptfs", "ntfs", "ntfs3", "vfat", "exfat", "ext2")


class Device(msgspec.Struct, frozen=True):
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


def devices(host: HostFiles) -> dict[str, Device]:
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


def members(device: Device, known: dict[str, Device], host: HostFiles) -> Iterator[Device]:
    """The devices that a device consists of: itself, if it has no parts."""
    by_name = {one.name: one for one in known.values()}
    parts = [by_name[name] for name in host.names(f"{device.path}/slaves") if name in by_name]
    if not parts:
        yield device
    for part in parts:
        yield from members(part, known, host)


def check(device: Device, mount: Mount | None, known: dict[str, Device], host: HostFiles) -> Iterator[Finding]:
    """The checks of a device, of its members, and of the file system on it."""
    leaves = list(dict.fromkeys(members(device, known, host)))
    for disk in dict.fromkeys(leaf.disk for leaf in leaves):
        yield "disk.scheduler", _name(disk), _scheduler(disk, host)
        yield "disk.read_ahead", _name(disk), _read_ahead(disk, host)
        yield "disk.requests", _name(disk), _requests(disk, host)
        yield "disk.queue_depth", _name(disk), _queue_depth(disk, host)
        yield "disk.host_cache", _name(disk), _host_cache(disk, host)
    yield "disk.stripe", device.name, _stripe(device, leaves, mount, host)
    for leaf in leaves:
        yield "disk.alignment", leaf.name, _alignment(leaf, host)
    if mount is not None:
        yield "disk.mount_options", mount.point, _mount_options(mount)
        yield "disk.file_system", mount.point, file_system(mount)


def _name(disk: str) -> str:
    return disk.rpartition("/")[2]


def _scheduler(disk: str, host: HostFiles) -> Judgement | str:
    path = f"{disk}/queue/scheduler"
    offered = host.word(path).split()
    now = next((word.strip("[]") for word in offered if word.startswith("[")), offered[0] if len(offered) == 1 else "")
    if not now:
        return f"/{path} is not there"
    rotates, is_nvme = host.word(f"{disk}/queue/rotational") == "1", _name(disk).startswith("nvme")
    is_good = now == "none" if is_nvme else now in (*GOOD_SCHEDULERS, "bfq") if rotates else now in GOOD_SCHEDULERS
    names = [word.strip("[]") for word in offered]
    wanted = "none" if "none" in names and not rotates else "mq-deadline"
    kind = "NVMe" if is_nvme else "rotating" if rotates else "does not rotate"
    return Judgement(
        "green" if is_good else "yellow",
        f"{now} ({kind})",
        fix=f"echo {wanted} > /{path}; for later boots the udev rule of iocurve doctor --fix",
        undo=f"echo {now} > /{path}; rm /etc/udev/rules.d/60-iocurve-scheduler.rules, if it was written",
        setting=TunedSetting(path=path, now=now, wanted=wanted, load=RANDOM_READS),
    )


def _read_ahead(disk: str, host: HostFiles) -> Judgement | str:
    path = f"{disk}/queue/read_ahead_kb"
    now, rotates = host.number(path), host.word(f"{disk}/queue/rotational") == "1"
    if now is None:
        return f"/{path} is not there"
    is_large = rotates and now >= LARGE_READ_AHEAD_KIB
    found = f"{now:,} KiB ({'states that it rotates' if rotates else 'does not rotate'})"
    setting = TunedSetting(path=path, now=str(now), wanted=str(READ_AHEAD_KIB), load=BUFFERED_RANDOM_READS)
    hint = ", unless long sequential reads are all that it serves"
    return _of_file(found, setting, hint, is_good=now > 0 and not is_large)


def _requests(disk: str, host: HostFiles) -> Judgement | str:
    path = f"{disk}/queue/nr_requests"
    now, depth = host.number(path), host.number(f"{disk}/device/queue_depth") or 0
    if now is None:
        return f"/{path} is not there"
    wanted = max(REQUESTS_MIN, depth)
    found = f"{now} requests" + (f"; the device takes {depth}" if depth else "")
    setting = TunedSetting(path=path, now=str(now), wanted=str(wanted), load=RANDOM_READS)
    hint = " (devices without a scheduler take at most their own depth)"
    return _of_file(found, setting, hint, is_good=now >= wanted)


def _queue_depth(disk: str, host: HostFiles) -> Judgement | str:
    path = f"{disk}/device/queue_depth"
    now = host.number(path)
    if now is None:
        return f"/{path} is not there: only SCSI devices state it"
    setting = TunedSetting(path=path, now=str(now), wanted=str(QUEUE_DEPTH_MIN), load=RANDOM_READS)
    return _of_file(f"{now} commands", setting, " (as far as its driver allows)", is_good=now >= QUEUE_DEPTH_MIN)


def _of_file(found: str, setting: TunedSetting, hint: str, *, is_good: bool) -> Judgement:
    """The judgement of a setting that a file of /sys holds; ``hint`` follows its fix."""
    fix, undo = f"echo {setting.wanted} > /{setting.path}{hint}", f"echo {setting.now} > /{setting.path}"
    return Judgement("green" if is_good else "yellow", found, fix=fix, undo=undo, setting=setting)


def _host_cache(disk: str, host: HostFiles) -> Judgement | str:
    if host.instance is None:
        return "a guest cannot see it, and Azure's instance metadata was not reached"
    # Azure's data disks have the LUN of their SCSI address, HOST:CHANNEL:TARGET:LUN.
    address = next(iter(host.names(f"{disk}/device/scsi_device")), "")
    lun = address.rpartition(":")[2]
    caching = next((one.caching for one in host.instance.data_disks if str(one.lun) == lun), "")
    if not caching:
        return f"{_name(disk)} is no data disk of the virtual machine"
    return Judgement(
        "green" if caching != "ReadWrite" else "yellow",
        f"{caching} (LUN {lun})",
        fix=f"az vm update -g GROUP -n VM --disk-caching {lun}=ReadOnly, or {lun}=None for logs and heavy writes",
        undo=f"az vm update -g GROUP -n VM --disk-caching {lun}=ReadWrite",
    )


def _stripe(device: Device, leaves: Sequence[Device], mount: Mount | None, host: HostFiles) -> Judgement | str:
    if len(leaves) < 2:
        return f"{device.name} is one disk"
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
    return Judgement(
        "yellow" if problems else "green",
        "; ".join([text, *problems]),
        fix=f"mkfs.xfs -d su={chunk},sw={max(1, width // max(1, chunk))}, or mke2fs -E stride={chunk // 4096},"
        f"stripe_width={width // 4096}: this makes a new file system; members of equal size",
    )


def _alignment(device: Device, host: HostFiles) -> Judgement | str:
    block = host.number(f"{device.disk}/queue/physical_block_size") or SECTOR_BYTES
    offset = host.number(f"{device.path}/alignment_offset") or 0
    start = (host.number(f"{device.path}/start") or 0) * SECTOR_BYTES if device.is_partition else 0
    if not device.is_partition and host.number(f"{device.path}/size") is None:
        return f"/{device.path}/size is not there"
    text = f"starts at {start:,} bytes" if device.is_partition else "the whole device"
    text += f", alignment_offset {offset}" if offset else ""
    return Judgement(
        "red" if offset > 0 or start % max(4 * KIB, block) else "yellow" if start % MIB else "green",
        f"{text}; physical blocks of {block:,} bytes",
        fix=f"back up, then make the partition again: parted -a optimal /dev/{_name(device.disk)}",
    )


BAD_OPTIONS = {"sync": "async", "dirsync": "async", "nobarrier": "barrier", "barrier=0": "barrier=1"}
COSTLY_OPTIONS = {
    "discard": "nodiscard", "strictatime": "relatime", "data=journal": "data=ordered", "atime": "relatime",
}  # fmt: skip
"""Mount options, each with the one that should be there instead."""


def _mount_options(mount: Mount) -> Judgement:
    options = mount.options
    stated = {name if not value else f"{name}={value}" for name, value in options.items()}
    # Tables of mounts state atime as the absence of the others.
    if not {"noatime", "relatime", "strictatime", "ro"} & stated:
        stated.add("atime")
    bad, costly = ([name for name in names if name in stated] for names in (BAD_OPTIONS, COSTLY_OPTIONS))
    wanted = ",".join(dict.fromkeys((BAD_OPTIONS | COSTLY_OPTIONS)[name] for name in (*bad, *costly)))
    fix = f"mount -o remount,{wanted} {mount.point}; the same in /etc/fstab"
    return Judgement(
        "red" if bad else "yellow" if costly else "green",
        ", ".join([*bad, *costly]) or ("noatime" if "noatime" in options else "relatime"),
        fix=fix + ("; fstrim.timer instead of discard" if "discard" in costly else ""),
        undo=f"mount -o remount,{','.join((*bad, *costly))} {mount.point}",
    )


def file_system(mount: Mount) -> Judgement:
    """Judges the kind of file system of a mount."""
    kind = mount.kind
    is_costly = kind in COSTLY_FILE_SYSTEMS or kind.startswith("fuse")
    return Judgement("red" if kind in ("tmpfs", "ramfs", "rootfs") else "yellow" if is_costly else "green", kind)

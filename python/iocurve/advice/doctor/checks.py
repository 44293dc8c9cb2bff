"""Doctor's checks as data, each with its reason and source, and the rows that they give."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec

from iocurve.foundation.structs import Struct

State = Literal["green", "yellow", "red"]
WORST_FIRST: tuple[State, ...] = ("red", "yellow", "green")
LEARN = "learn.microsoft.com"


class TuningCheck(msgspec.Struct, frozen=True):
    """One thing that doctor looks at."""

    name: str
    """``nfs.read_ahead``: the part of the machine, and the setting."""
    title: str
    rule: str
    """When its row is green, yellow or red."""
    why: str
    source: str


class TunedSetting(Struct):
    """A setting whose gain can be measured while a target is in use."""

    now: str
    wanted: str
    load: str
    """The load that shows the gain, in fio's words."""
    path: str | None = None
    """The file in /proc or /sys that holds it, without the leading slash. None: a mount takes it when it is made."""
    urls: tuple[str, str] | None = None
    """Without a path: the export with the setting as it is and as wanted, for iocurve's own NFS client."""


class DoctorRow(Struct):
    """One finding."""

    check: str
    title: str
    subject: str
    """A mount point, a device, or ``this machine``."""
    state: State
    found: str
    why: str
    source: str
    fix: str | None = None
    """Commands, or what to change; None where nothing needs to change."""
    undo: str | None = None
    setting: TunedSetting | None = None
    """Set where the gain can be measured (--measure)."""


class Diagnosis(Struct):
    """All rows for one subject."""

    subject: str
    rows: tuple[DoctorRow, ...]
    unchecked: dict[str, str] = {}
    """Checks that could not be made, with the reason."""

    @property
    def state(self) -> State:
        """The worst state of all rows."""
        states = {row.state for row in self.rows}
        return next((state for state in WORST_FIRST if state in states), "green")


MACHINE = "this machine"


class Judgement(msgspec.Struct, frozen=True):
    """The judgement of one check on one subject."""

    state: State
    found: str
    fix: str
    """The fix if the state is not green."""
    undo: str = "none needed"
    setting: TunedSetting | None = None


Finding = tuple[str, str, Judgement | str]
"""A check, its subject, and the judgement or the reason why there is none."""


def diagnosis(subject: str, findings: Iterable[Finding]) -> Diagnosis:
    """The rows, each check's together, in the order of ``CHECKS``. Green rows have neither fix nor undo."""
    rows: dict[str, list[DoctorRow]] = {name: [] for name in CHECKS}
    reasons: dict[str, str] = {}
    for name, where, judged in findings:
        if isinstance(judged, str):
            reasons[name] = judged
            continue
        check, is_good = CHECKS[name], judged.state == "green"
        rows[name].append(
            DoctorRow(
                check=name,
                title=check.title,
                subject=where,
                state=judged.state,
                found=judged.found,
                why=check.why,
                source=check.source,
                fix=None if is_good else judged.fix,
                undo=None if is_good else judged.undo,
                setting=None if is_good else judged.setting,
            )
        )
    return Diagnosis(
        subject=subject,
        rows=tuple(row for each in rows.values() for row in each),
        unchecked={name: why for name, why in reasons.items() if not rows[name]},
    )


def _all(checks: Iterable[TuningCheck]) -> dict[str, TuningCheck]:
    return {check.name: check for check in checks}


CHECKS = _all(
    (
        TuningCheck(
            "nfs.read_ahead",
            "read-ahead",
            "green from 15,360 KiB, or from 15 × rsize on kernels before 5.4; red below rsize",
            "Linux reads ahead 128 KiB on NFS since 5.4. That is less than one READ, so a sequential reader waits for "
            "each.",
            f"{LEARN} nfs-performance (2026-04): read_ahead_kb 15360",
        ),
        TuningCheck(
            "nfs.nconnect",
            "connections",
            "green with the advised number open; yellow with another, or one where none is advised; red with one where "
            "more are advised",
            "One TCP connection carries a part of a volume: Azure publishes gains of 2 to 4 times (Azure Files) and "
            "up to 10 times (large ANF volumes) for nconnect.",
            f"{LEARN} performance-linux-mount-options: 8 for Azure NetApp Files; nfs-performance: 4 for Azure Files; "
            "kernel 5.3 or later",
        ),
        TuningCheck(
            "nfs.nconnect_shared",
            "shared connections",
            "green where the mount has what it asks for; yellow where the sharing is not guaranteed; red where it lost "
            "its nconnect",
            "All mounts of one server share the connections of the first: a later mount's nconnect is ignored without "
            "a message.",
            f"{LEARN} nfs-performance (2026-04), scenarios 1 to 3; nfs(5), nconnect",
        ),
        TuningCheck(
            "nfs.transfer_size",
            "rsize, wsize",
            "green from 256 KiB, yellow from 64 KiB, red below",
            "Larger requests are split into requests of this size, each with its own round trip and CPU time.",
            f"{LEARN} performance-linux-mount-options: 262144",
        ),
        TuningCheck(
            "nfs.version",
            "version, protocol",
            "green for 3, 4.1 and 4.2 over TCP; yellow for 4.0; red for 2 and UDP",
            "NFS 4.0 has no sessions and serialises opens; UDP loses data under load. Azure Files serves 4.1 only.",
            f"nfs(5); {LEARN} files-nfs-protocol",
        ),
        TuningCheck(
            "nfs.hard",
            "hard or soft",
            "green for hard, yellow for softerr, red for soft",
            "A soft mount fails I/O when the server is slow for a moment; applications may lose data without notice.",
            "nfs(5), soft / softerr / hard",
        ),
        TuningCheck(
            "nfs.attributes",
            "attribute caching",
            "green with the defaults or longer; yellow where more than 30 % of all operations ask for attributes; red "
            "with noac, sync or actimeo=0",
            "Without cached attributes each open and stat asks the server. nocto and actimeo=600 save most of these "
            "calls, for data that no other client changes.",
            f"{LEARN} performance-linux-mount-options: nocto, actimeo=600",
        ),
        TuningCheck(
            "nfs.slots",
            "requests in flight (NFSv3)",
            "green up to 128 slots; yellow above; red above where the server is known to be Azure NetApp Files",
            "The server works on 128 requests of a connection; Linux sends up to 65,536. The rest waits in the "
            "server's receive window and delays all others.",
            f"{LEARN} performance-linux-concurrency-session-slots",
        ),
        TuningCheck(
            "nfs.session_slots",
            "session slots (NFSv4.1)",
            "green from 180 slots, yellow below",
            "All connections of an NFSv4.1 mount share the slots of one session: Linux asks for 64; the server "
            "gives 180.",
            f"{LEARN} performance-linux-concurrency-session-slots",
        ),
        TuningCheck(
            "nfs.depth",
            "queue depth",
            "green up to 64 requests in flight, yellow above; for Azure Files only",
            "Beyond 64 requests in flight a share of Azure Files gains no rate, only latency.",
            f"{LEARN} nfs-performance (2026-04): queue depth 64 or less",
        ),
        TuningCheck(
            "nfs.tcp_buffers",
            "TCP windows",
            "green where window × connections / round trip carries the network, or 1 GiB/s if it is not known; yellow "
            "from half of it; red below, or without window scaling",
            "A connection carries at most one window per round trip.",
            f"{LEARN} azure-netapp-files-performance-benchmarks (2019-08): rmem_max, tcp_rmem; RFC 7323",
        ),
        TuningCheck(
            "nfs.retransmissions",
            "requests sent again",
            "green below 0.01 % of all requests, yellow below 1 %, red above, or with timeouts",
            "A request that is sent again waited for a timeout first, 60 s by default: the server or network lost it.",
            "nfsstat(8); nfs(5), timeo",
        ),
        TuningCheck(
            "disk.scheduler",
            "I/O scheduler",
            "green for none or mq-deadline (NVMe: none), or bfq on rotating disks; yellow for others",
            "Schedulers that order requests cost CPU time and latency on devices that order them themselves.",
            "Red Hat Enterprise Linux 9, Managing storage devices: setting the disk scheduler",
        ),
        TuningCheck(
            "disk.requests",
            "nr_requests",
            "green from 64 requests and from the device's queue depth; yellow below",
            "Requests beyond nr_requests wait where neither scheduler nor device see them.",
            "Linux, Documentation/ABI/stable/sysfs-block: queue/nr_requests",
        ),
        TuningCheck(
            "disk.queue_depth",
            "queue depth of the device",
            "green from 32 commands, yellow below",
            "The device works on this many commands at once. By Little's law it limits IOPS to depth / latency.",
            "Linux, Documentation/scsi/scsi_mid_low_api: queue depth",
        ),
        TuningCheck(
            "disk.stripe",
            "stripe",
            "green where members are equal and the file system knows the stripe; yellow otherwise",
            "A file system that does not know the stripe starts files within a stripe, so one write loads two members; "
            "the smallest member limits all.",
            "mkfs.xfs(8), su and sw; mke2fs(8), stride and stripe_width",
        ),
        TuningCheck(
            "disk.host_cache",
            "host cache",
            "green for None and ReadOnly, yellow for ReadWrite",
            "A host's write cache loses data that the application did not flush; cached disks have other limits than "
            "uncached ones.",
            f"{LEARN} disks-performance, premium-storage-performance: disk caching",
        ),
        TuningCheck(
            "disk.mount_options",
            "mount options",
            "green; yellow with atime, discard or data=journal; red with sync or without barriers",
            "sync turns each write into a flush, strictatime each read into a write; without barriers a power failure "
            "destroys the file system.",
            "mount(8); ext4(5); xfs(5)",
        ),
        TuningCheck(
            "disk.file_system",
            "file system",
            "green for ext4, xfs and ext3; yellow for copy-on-write, stacked and user-space ones; red for tmpfs",
            "Copy-on-write and stacked file systems do more I/O than was requested; tmpfs is memory, not a disk.",
            "btrfs(5), NOTES ON GENERIC MOUNT OPTIONS; overlayfs.rst",
        ),
        TuningCheck(
            "disk.alignment",
            "alignment",
            "green where partitions start at a multiple of 1 MiB, yellow at a multiple of the physical block, red "
            "otherwise",
            "Each block of a misaligned partition lies in two physical blocks: writes become read-modify-write.",
            "Linux, Documentation/ABI/stable/sysfs-block: alignment_offset; parted(8), align-check",
        ),
        TuningCheck(
            "machine.vm_size",
            "VM size",
            "green; yellow where the profile's limits exceed what the size carries, or the size is not in the list",
            "The size caps what the machine sends over the network (an NFS client's writes) and its disks' IOPS "
            "and MB/s.",
            f"{LEARN} virtual-machines/sizes (iocurve disk list)",
        ),
        TuningCheck(
            "machine.governor",
            "CPU governor",
            "green for performance, yellow for others",
            "At low load other governors slow the processors down, which adds to each I/O's latency.",
            "Linux, Documentation/admin-guide/pm/cpufreq.rst",
        ),
        TuningCheck(
            "machine.steal",
            "CPU time taken by the host",
            "green below 1 % since boot, yellow below 5 %, red above",
            "Time that the hypervisor gives to other machines shows as latency of the storage.",
            "proc(5), /proc/stat: steal",
        ),
        TuningCheck(
            "machine.interrupts",
            "interrupts",
            "green where devices with several queues use several CPUs; yellow where one CPU handles over 80 % of them",
            "One processor that handles all interrupts of a network card or disk limits its rate.",
            "Linux, Documentation/core-api/irq/irq-affinity.rst",
        ),
        TuningCheck(
            "machine.huge_pages",
            "huge pages",
            "green; yellow where page faults compact memory (defrag always), or over half of memory is reserved",
            "Compaction in a page fault stalls the application; reserved huge pages are lost to the page cache.",
            "Linux, Documentation/admin-guide/mm/transhuge.rst",
        ),
        TuningCheck(
            "machine.load",
            "other load",
            "green below 0.7 runnable or waiting tasks per CPU (1 min), yellow below 1.5, red above",
            "Other work on this machine takes CPU time and bandwidth from what is measured or tuned.",
            "proc(5), /proc/loadavg",
        ),
    )
)
"""All checks by name, in the order of the rows."""

"""Hosts that could not be captured, composed from the documented formats of /proc and /sys."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass

from iocurve.advice.doctor.host import Bundle, DataDisk, Instance

FILES = "contoso.file.core.windows.net"
FILES_TOO = "fabrikam.file.core.windows.net"


@dataclass(frozen=True)
class Mounted:
    """An NFS mount: its options, and the source ports of its connections."""

    point: str
    server: str
    address: str
    ports: Sequence[int]
    nconnect: int = 1
    version: str = "4.1"
    fstab: int | None = None
    """nconnect in /etc/fstab; None: the mount is not there."""
    is_open: bool = True
    getattr_share: float = 0.0
    timeouts: int = 0
    round_trip_ms: int = 1


def network_host(
    mounts: Sequence[Mounted],
    *,
    kernel: str = "6.8.0",
    read_ahead: int = 15_360,
    rmem: int = 16 << 20,
    slots: int = 128,
) -> Bundle:
    """A machine with NFS mounts and sane settings."""
    texts = machine_texts(kernel)
    texts["proc/sys/sunrpc/tcp_max_slot_table_entries"] = f"{slots}\n"
    texts["sys/module/nfs/parameters/max_session_slots"] = "180\n"
    texts |= {f"proc/sys/net/ipv4/{name}": f"4096\t131072\t{rmem}\n" for name in ("tcp_rmem", "tcp_wmem")}
    texts["proc/sys/net/ipv4/tcp_window_scaling"] = "1\n"
    connections = dict.fromkeys((one.address, port) for one in mounts if one.is_open for port in one.ports)
    texts["proc/net/tcp"] = "  sl  local_address rem_address   st\n" + "".join(
        f"   {number}: 0100000A:{port:04X} {_hex(address)}:0801 01\n"
        for number, (address, port) in enumerate(connections)
    )
    texts["proc/self/mountinfo"] = "22 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw\n"
    texts["proc/self/mountstats"] = texts["etc/fstab"] = ""
    for number, one in enumerate(mounts):
        kind = "nfs" if one.version == "3" else "nfs4"
        options = f"rw,vers={one.version},rsize=1048576,wsize=1048576,hard,proto=tcp"
        options += f",nconnect={one.nconnect}" if one.nconnect > 1 else ""
        source = f"{one.server}:/share{number}"
        place = f"{30 + number} 22 0:{40 + number} / {one.point} rw,relatime"
        texts["proc/self/mountinfo"] += f"{place} - {kind} {source} {options},addr={one.address}\n"
        texts["proc/self/mountstats"] += _statistics(one, kind, source)
        texts[f"sys/class/bdi/0:{40 + number}/read_ahead_kb"] = f"{read_ahead}\n"
        if one.fstab is not None:
            texts["etc/fstab"] += f"{source} {one.point} {kind} vers={one.version},nconnect={one.fstab} 0 0\n"
    return Bundle(about="composed", texts=texts, directories={})


def machine_texts(
    kernel: str, *, cpus: int = 8, load: float = 0.5, steal: int = 0, defrag: str = "madvise"
) -> dict[str, str]:
    """The files of an idle machine."""
    enabled = "[always] madvise" if defrag == "always" else "always [madvise]"
    ticks = f"1000 0 1000 {98_000 - steal} 0 0 0 {steal} 0 0\n"
    return {
        "proc/sys/kernel/osrelease": f"{kernel}\n",
        "proc/loadavg": f"{load:.2f} 0.40 0.30 1/300 4000\n",
        "proc/stat": f"cpu  {ticks}" + "".join(f"cpu{number} {ticks}" for number in range(cpus)),
        "proc/meminfo": "MemTotal:       32000000 kB\nHugePages_Total:       0\nHugepagesize:       2048 kB\n",
        "sys/kernel/mm/transparent_hugepage/enabled": f"{enabled} never\n",
        "sys/kernel/mm/transparent_hugepage/defrag": f"[{defrag}] never\n",
    }


def _statistics(one: Mounted, kind: str, source: str) -> str:
    operations = 10_000
    asked = round(operations * one.getattr_share / (1 - one.getattr_share))
    again = operations + 2 * one.timeouts
    lines = [
        f"device {source} mounted on {one.point} with fstype {kind} statvers=1.1",
        f"\topts:\trw,vers={one.version}",
        "\tbytes:\t0 0 0 0 40960000 40960000 0 0 ",
        *(f"\txprt:\ttcp {port} 0 2 0 0 5000 5000 0 20000 0 16 100 900" for port in one.ports),
        "\tper-op statistics",
        f"\t        READ: {operations} {again} {one.timeouts} 100 100 1000 9000 10100 0",
        f"\t     GETATTR: {asked} {asked} 0 100 100 10 {asked * one.round_trip_ms} {asked * one.round_trip_ms + 20} 0",
    ]
    return "\n".join(lines) + "\n"


def _hex(address: str) -> str:
    return ipaddress.ip_address(address).packed[::-1].hex().upper()


def scenario_1() -> Bundle:
    """Two storage accounts with a private endpoint each: one nconnect each."""
    return network_host(
        [
            Mounted("/mnt/a", FILES, "10.10.10.10", (700, 701, 702, 703), 4, fstab=4),
            Mounted("/mnt/b", FILES_TOO, "10.10.10.11", (800,), fstab=1),
        ]
    )


def scenario_2() -> Bundle:
    """Public endpoints: the second share of the first account shares its connections, and another account may."""
    ports = (700, 701, 702, 703)
    return network_host(
        [
            Mounted("/mnt/a", FILES, "52.239.238.8", ports, 4, fstab=4),
            Mounted("/mnt/b", FILES, "52.239.238.8", ports, 4, fstab=1),
            Mounted("/mnt/c", FILES_TOO, "52.239.238.7", (800,), fstab=1),
        ]
    )


def scenario_3() -> Bundle:
    """Several shares of one account over its private endpoint: all have the nconnect of the first."""
    ports = (700, 701, 702, 703)
    return network_host([Mounted(f"/mnt/{name}", FILES, "10.10.10.10", ports, 4, fstab=4) for name in "abc"])


def tunnelled() -> Bundle:
    """A mount through stunnel on this machine, and one that the kernel encrypts."""
    found = network_host(
        [
            Mounted("/mnt/a", "127.0.0.1", "127.0.0.1", (700, 701), 2, fstab=2),
            Mounted("/mnt/b", "10.1.0.5", "10.1.0.5", (800, 801), 2, fstab=2),
        ]
    )
    found.texts["proc/self/mountinfo"] = found.texts["proc/self/mountinfo"].replace("addr=10", "xprtsec=tls,addr=10")
    texts = found.texts | {"proc/77/comm": "stunnel4\n", "proc/78/comm": "secret\n"}
    return Bundle(about="composed", texts=texts, directories={"proc": ("77", "78", "self")})


def trunked() -> Bundle:
    """A second address of one NFSv4.1 server: it joins the session of the first, and its nconnect is lost."""
    return network_host(
        [
            Mounted("/mnt/a", "10.1.0.4", "10.1.0.4", (700,), fstab=1),
            Mounted("/mnt/b", "10.1.0.5", "10.1.0.5", (700,), fstab=8),
        ]
    )


def idle() -> Bundle:
    """A mount whose connections the client has closed."""
    ports = (700, 701, 702, 703)
    return network_host([Mounted("/mnt/a", FILES, "10.10.10.10", ports, 4, fstab=4, is_open=False)])


def old_kernel() -> Bundle:
    """A kernel before nconnect, which reads ahead 15 × rsize by itself."""
    return network_host([Mounted("/mnt/a", "10.1.0.4", "10.1.0.4", (700,), version="3")], kernel="4.18.0")


def lossy() -> Bundle:
    """Requests time out, attributes are most of the load, and windows are small for the round trip."""
    mount = Mounted(
        "/mnt/a", "10.1.0.4", "10.1.0.4", (700,), version="3", getattr_share=0.6, timeouts=30, round_trip_ms=4
    )
    return network_host([mount], rmem=1 << 20, slots=65_536)


def nvme() -> Bundle:
    """A well set up NVMe disk with XFS on an aligned partition."""
    disk = {"dev": "259:0", "size": "1000000000", "queue/scheduler": "[none] mq-deadline", "queue/nr_requests": "1023"}
    disk |= {"queue/rotational": "0", "queue/physical_block_size": "4096", "alignment_offset": "0"}
    part = {"dev": "259:1", "start": "2048", "size": "999000000", "alignment_offset": "0"}
    texts = machine_texts("6.8.0") | {f"sys/block/nvme0n1/{name}": text for name, text in disk.items()}
    texts |= {f"sys/block/nvme0n1/nvme0n1p1/{name}": text for name, text in part.items()}
    texts |= {f"sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor": "performance" for cpu in range(8)}
    texts["proc/self/mountinfo"] = "22 1 259:1 / /data rw,noatime - xfs /dev/nvme0n1p1 rw,attr2\n"
    spread = "".join(
        f" {100 + cpu}: " + " ".join("9000" if at == cpu else "0" for at in range(8)) + f" PCI-MSI nvme0q{cpu}\n"
        for cpu in range(8)
    )
    texts["proc/interrupts"] = " ".join(f"CPU{cpu}" for cpu in range(8)) + "\n" + spread
    directories = {
        "sys/block": ("nvme0n1",),
        "sys/block/nvme0n1": ("dev", "nvme0n1p1", "queue", "size"),
        "sys/devices/system/cpu": (*(f"cpu{cpu}" for cpu in range(8)), "online"),
    }
    return Bundle(about="composed", texts=texts, directories=directories)


def bond(mode: str, policy: str) -> str:
    members = "".join(f"\nSlave Interface: eth{number}\nSpeed: 25000 Mbps\n" for number in range(2))
    return f"Bonding Mode: IEEE {mode} Dynamic link aggregation\nTransmit Hash Policy: {policy}\n{members}"


def ruled() -> Bundle:
    """A rule for Lustre sets read-ahead of all devices, and one connection shares a bond of two members."""
    found = network_host([Mounted("/mnt/a", "10.1.0.4", "10.1.0.4", (700,), version="3")])
    rule = 'SUBSYSTEM=="bdi", ACTION=="add", ATTR{read_ahead_kb}="15380"\n'
    texts = {"etc/udev/rules.d/99-lustre.rules": f"# of another product\n{rule}"}
    texts |= {"proc/net/bonding/bond0": bond("802.3ad", "layer3+4 (1)")}
    directories = {"etc/udev/rules.d": ("99-lustre.rules",), "proc/net/bonding": ("bond0",)}
    return Bundle(
        about=found.about,
        texts=found.texts | texts,
        directories=found.directories | directories,
        instance=found.instance,
    )


def bad_stripe() -> Bundle:
    """Two unequal SCSI disks of an Azure machine in a stripe that ext4 does not know; most settings are wrong."""
    texts = machine_texts("5.15.0", cpus=4, load=7.0, steal=8_000, defrag="always")
    directories: dict[str, tuple[str, ...]] = {"sys/block": ("md0", "sdc", "sdd")}
    for lun, (name, size) in enumerate((("sdc", 1_000_000), ("sdd", 2_000_000))):
        disk = {"size": str(size), "dev": f"8:{32 + 16 * lun}", "queue/scheduler": "none mq-deadline [bfq]"}
        disk |= {"queue/nr_requests": "32", "queue/rotational": "0", "queue/physical_block_size": "4096"}
        disk |= {"device/queue_depth": "16"}
        # Kernels from 6.17 read this much ahead of a disk that states that it rotates.
        disk |= {"queue/read_ahead_kb": "4096" if lun else "128"} | ({"queue/rotational": "1"} if lun else {})
        part = {"dev": f"8:{33 + 16 * lun}", "start": "63", "size": str(size - 63)}
        texts |= {f"sys/block/{name}/{key}": text for key, text in disk.items()}
        texts |= {f"sys/block/{name}/{name}1/{key}": text for key, text in part.items()}
        directories[f"sys/block/{name}"] = (f"{name}1", "queue")
        directories[f"sys/block/{name}/device/scsi_device"] = (f"3:0:0:{lun}",)
    array = {"dev": "9:0", "size": "3000000", "queue/minimum_io_size": "65536", "queue/optimal_io_size": "131072"}
    texts |= {f"sys/block/md0/{key}": text for key, text in array.items()}
    directories["sys/block/md0"] = ("dev", "md", "queue", "slaves")
    directories["sys/block/md0/slaves"] = ("sdc1", "sdd1")
    directories["sys/devices/system/cpu"] = tuple(f"cpu{cpu}" for cpu in range(4))
    texts |= {f"sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor": "powersave" for cpu in range(4)}
    texts["proc/self/mountinfo"] = "22 1 9:0 / /data rw,sync - ext4 /dev/md0 rw,barrier=0\n"
    queues = "".join(f" {30 + number}: 90000 0 0 0 PCI-MSI mlx5_comp{number}@pci:0001:00:02.0\n" for number in range(4))
    texts["proc/interrupts"] = "CPU0 CPU1 CPU2 CPU3\n" + queues
    disks = (DataDisk(lun=0, caching="ReadWrite", size_gib=1024), DataDisk(lun=1, caching="ReadOnly", size_gib=2048))
    instance = Instance(vm_size="Standard_D8s_v5", data_disks=disks)
    texts["proc/net/bonding/bond0"] = bond("802.3ad", "layer2 (0)")
    directories["proc/net/bonding"] = ("bond0",)
    return Bundle(about="composed", texts=texts, directories=directories, instance=instance)

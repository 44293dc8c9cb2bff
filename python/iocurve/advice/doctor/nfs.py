"""The checks of NFS mounts, without those of their connections (``nconnect``).

Connections: their number, those that mounts of one server share, and mounts that lost their nconnect. Linux gives all
mounts of a server (address, port, version) the connections of the first: nfs_get_client, fs/nfs/client.c. With NFSv4.1
two addresses of one server share as well (session trunking, RFC 5661 2.10.5). The scenarios 1 to 3 are those of
Microsoft's page on nconnect for Azure Files.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from urllib.parse import quote, urlencode

import msgspec
from msgspec.structs import replace

from iocurve.advice.doctor.checks import AGAIN, OPTIONS_FILE, Finding, Judgement, State, TunedSetting
from iocurve.advice.doctor.host import ClientMount, HostFiles
from iocurve.foundation.units import GIB, KIB, MIB, counted, format_bytes
from iocurve.machine.mounts import options_of
from iocurve.machine.processes import NFS_PORT

READ_AHEAD_KIB = 15_360
"""Azure's advice for its services."""
READ_AHEADS_KIB = (128, 256, 512, 1_024, 2_048, 4_096, 8_192, READ_AHEAD_KIB)
"""Values among which --measure searches."""
READ_AHEADS_OF_OLD_KERNELS = 15
"""Kernels before 5.4 read ahead this many times rsize."""
SERVER_SLOTS = 128
SESSION_SLOTS, SESSION_SLOTS_DEFAULT = 180, 64
DEPTH_MAX = 64
TRANSFER_BYTES = 256 * KIB
TRANSFER_LOADS = {"rsize": "rw=read bs=1m iodepth=4", "wsize": "rw=write bs=1m iodepth=4"}
"""The loads that show what larger requests gain."""
SEQUENTIAL_READS = "rw=read bs=1m direct=0"
ROUND_TRIP_US = 1_000.0
"""Assumed where no operations tell it."""
BYTES_PER_S_UNKNOWN = GIB
AZURE_FILES = (".file.core.windows.net", ".file.storage.azure.net")
MODPROBE = "/etc/modprobe.d/iocurve-nfs.conf"
UDEV_DIRECTORIES = ("etc/udev/rules.d", "run/udev/rules.d", "usr/lib/udev/rules.d", "lib/udev/rules.d")
"""A file of an earlier one replaces those of its name in later ones."""
UDEV_NFS = "etc/udev/rules.d/99-nfs.rules"
READ_AHEAD_VALUE = re.compile(r'^[^#\n]*read_ahead_kb}\s*:?=\s*"([^"]*)"', re.MULTILINE)


class Service(msgspec.Struct, frozen=True):
    """The service behind a mount, from the server's name or from the profile that the user gave."""

    name: str
    """``Azure Files``, ``Azure NetApp Files`` or empty."""
    nconnect: int | None
    """The advised number of connections."""

    @property
    def is_azure_files(self) -> bool:
        """True for a share of Azure Files."""
        return self.name == "Azure Files"

    @property
    def read_ahead_kib(self) -> int | None:
        """The advised read-ahead; None where no source has one."""
        return READ_AHEAD_KIB if self.is_azure_files or self.is_anf else None

    @property
    def is_anf(self) -> bool:
        """True for a volume of Azure NetApp Files."""
        return self.name == "Azure NetApp Files"


def service_of(mount: ClientMount, profile: str | None, nconnect: int | None) -> Service:
    """The server's service; ``nconnect`` is the profile's advice."""
    if profile and profile.startswith("azure-files"):
        return Service("Azure Files", nconnect)
    if profile and profile.startswith("anf-"):
        return Service("Azure NetApp Files", nconnect)
    if mount.server.endswith(AZURE_FILES):
        return Service("Azure Files", 4)
    return Service("", nconnect)


def check(mount: ClientMount, host: HostFiles, service: Service, bytes_per_s: float | None) -> Iterator[Finding]:
    """The checks of one mount; ``bytes_per_s`` is what the machine's network carries, if that is known."""
    point, connections = mount.point, len(mount.transports) or mount.nconnect
    yield "nfs.read_ahead", point, _read_ahead(mount, host, service)
    yield "nfs.transfer_size", point, _transfer_size(mount)
    yield "nfs.version", point, _version(mount, service)
    yield "nfs.hard", point, _hard(mount)
    yield "nfs.attributes", point, _attributes(mount)
    if mount.is_tunnelled or "xprtsec" in mount.options:
        yield "nfs.encryption", point, _encryption(mount, host)
    if mount.version.startswith("4") and mount.version not in ("4", "4.0"):
        yield "nfs.session_slots", point, _session_slots(mount, host, service)
    else:
        yield "nfs.slots", point, _slots(mount, host, service)
    if service.is_azure_files and mount.transports:
        yield "nfs.depth", point, _depth(mount)
    yield "nfs.tcp_buffers", point, windows(connections, round_trip_us(mount), host, bytes_per_s)
    yield "nfs.retransmissions", point, _retransmissions(mount)


KEPT_VALUES = {
    "vers": (), "proto": (), "nconnect": ("1",), "port": ("0", "2049"), "mountport": ("0", "2049"), "sec": ("sys",),
    "rsize": (), "wsize": (), "timeo": ("600",), "retrans": ("2",), "lookupcache": ("all",),
    "xprtsec": ("none",), "acregmin": ("3",), "acregmax": ("60",), "acdirmin": ("30",), "acdirmax": ("60",),
}  # fmt: skip
"""Options that a new mount must repeat, with the values that need no option."""
KEPT_FLAGS = {
    "ro": "rw", "nosuid": "suid", "nodev": "dev", "noexec": "exec", "nolock": "lock", "noresvport": "resvport",
    "nocto": "cto", "soft": "hard", "softerr": "hard", "noac": "ac", "sync": "async", "nosharecache": "sharecache",
    "fsc": "nofsc",
}  # fmt: skip
"""Flags that it must repeat, with those that replace them."""


MODULE_OPTIONS = {
    "nfs.slots": f"options sunrpc tcp_max_slot_table_entries={SERVER_SLOTS}",
    "nfs.session_slots": f"options nfs max_session_slots={SESSION_SLOTS}",
}
"""The lines of ``MODPROBE``, by the checks that need them."""


def options_file(checks: Iterable[str]) -> str:
    """The file of module options that the yellow and red checks need; empty if they need none."""
    needed = set(checks)
    lines = [line for check, line in MODULE_OPTIONS.items() if check in needed]
    return "\n".join(["# iocurve doctor --fix", *lines, ""]) if lines else ""


def joined(findings: Iterable[Finding]) -> list[Finding]:
    """The findings with fixes that agree: each mounts again with the options of all rows, and writes all of a file."""
    found = list(findings)
    ailing = [(check, one) for check, _, one in found if isinstance(one, Judgement) and one.state != "green"]
    options: dict[str, dict[str, str]] = {}
    together: dict[str, dict[str, ClientMount]] = {}
    for _, judged in ailing:
        points = {mount.point: mount for mount, _ in judged.again}
        for mount, added in judged.again:
            wanted = options.setdefault(mount.point, {})
            more = options_of(added) if added else {}
            if "nconnect" in wanted and "nconnect" in more:
                more["nconnect"] = str(max(int(wanted["nconnect"]), int(more["nconnect"])))
            wanted |= more
            together.setdefault(mount.point, {}).update(points)
    lines = options_file(check for check, _ in ailing).splitlines()
    write = f"printf '%s\\n' {' '.join(map(shlex.quote, lines))} > {MODPROBE}"

    def agreed(judged: Judgement) -> Judgement:
        if judged.state == "green":
            return judged
        mounts = [one for point in (mount.point for mount, _ in judged.again) for one in together[point].values()]
        every = list({mount.point: mount for mount in (*(mount for mount, _ in judged.again), *mounts)}.values())
        text = mount_again({mount.point: options[mount.point] for mount in every}, every) if every else ""
        return replace(judged, fix=judged.fix.replace(AGAIN, text).replace(OPTIONS_FILE, write))

    return [(check, where, agreed(one) if isinstance(one, Judgement) else one) for check, where, one in found]


def mount_again(options: Mapping[str, Mapping[str, str]], mounts: Sequence[ClientMount]) -> str:
    """Commands that mount again with further options of each mount point, after all were unmounted, and /etc/fstab."""
    commands = [f"umount {' '.join(one.point for one in mounts)}"]
    lasting: dict[str, list[str]] = {}
    for one in mounts:
        changed = options[one.point]
        values = {
            name: value
            for name, plain in KEPT_VALUES.items()
            if (value := one.options.get(name)) is not None and value not in plain
            # Times of the attribute cache follow from these options, and other versions have other sizes.
            if not (name.startswith("ac") and {"ac", "actimeo"} & changed.keys())
            and not (name in ("rsize", "wsize") and "vers" in changed)
        }
        words = [name if not value else f"{name}={value}" for name, value in ({**values, **changed}).items()]
        flags = [flag for flag, other in KEPT_FLAGS.items() if flag in one.options and other not in changed]
        commands.append(f"mount -t nfs -o {','.join([*words, *flags])} {one.source} {one.point}")
        if changed:
            added = ",".join(name if not value else f"{name}={value}" for name, value in changed.items())
            lasting.setdefault(added, []).append(one.point)
    for added, points in lasting.items():
        which = "" if len(points) == len(mounts) else f" for {' and '.join(points)}"
        commands.append(f"{added} in /etc/fstab{which} as well")
    return "; ".join(commands)


def url(mount: ClientMount, **settings: int) -> str:
    """The export for iocurve's own NFS client, with the mount's version and connections unless ``settings`` differ."""
    version = "4.1" if mount.version.startswith("4") else "3"
    values: dict[str, object] = {"vers": version, "nconnect": len(mount.transports) or mount.nconnect}
    mount_port = mount.number_option("mountport") or 0
    if version == "3" and mount_port not in (0, mount.port):
        values["mountport"] = mount_port
    host = f"[{mount.address}]" if ":" in mount.address else mount.address
    # A URL's port is that of MOUNT as well: nfsport leaves MOUNT to the portmapper.
    port = f":{mount.port}" if mount_port == mount.port or version == "4.1" else ""
    if not port and mount.port != NFS_PORT:
        values["nfsport"] = mount.port
    if mount.options.get("xprtsec") == "tls":
        values["tls"] = ""
    export = mount.source.rpartition(":/")[2]
    return f"nfs://{host}{port}/{quote(export)}?{urlencode(values | settings)}"


def _read_ahead(mount: ClientMount, host: HostFiles, service: Service) -> Judgement | str:
    path = f"sys/class/bdi/{mount.number}/read_ahead_kb"
    now, rsize = host.number(path), mount.number_option("rsize") or MIB
    if now is None:
        return f"/{path} cannot be read"
    advised = service.read_ahead_kib or -(-rsize // KIB)
    old = host.kernel < (5, 4) and now * KIB >= READ_AHEADS_OF_OLD_KERNELS * rsize
    state: State = "green" if now >= advised or old else "red" if now * KIB < rsize else "yellow"
    text = f"{now:,} KiB (rsize {format_bytes(rsize)})"
    return Judgement(
        state,
        text if service.read_ahead_kib else f"{text}; no source states the best for this server",
        fix=f"echo {advised} > /{path}; for later mounts the udev rule of iocurve doctor --fix",
        undo=f"echo {now} > /{path}; rm /etc/udev/rules.d/99-nfs.rules and udevadm control --reload, if it was written",
        setting=TunedSetting(
            path=path,
            now=str(now),
            wanted=str(advised),
            load=SEQUENTIAL_READS,
            candidates=tuple(str(size) for size in READ_AHEADS_KIB if size != now),
        ),
    )


def check_rules(host: HostFiles) -> Judgement:
    """Judges the udev rules of other products that set read-ahead; those of files with one name in two places once."""
    found: dict[str, str] = {}
    for directory in reversed(UDEV_DIRECTORIES):
        for name in host.names(directory):
            values = READ_AHEAD_VALUE.findall(host.text(f"{directory}/{name}")) if name.endswith(".rules") else []
            if values and name != UDEV_NFS.rpartition("/")[2]:
                found[name] = f"/{directory}/{name} sets {', '.join(dict.fromkeys(values))} KiB"
    return Judgement(
        "yellow" if found else "green", "; ".join(found[name] for name in sorted(found)) or "none of another product"
    )


def _transfer_size(mount: ClientMount) -> Judgement | str:
    sizes = {name: size for name in ("rsize", "wsize") if (size := mount.number_option(name))}
    if not sizes:
        return f"{mount.point}: its options state no rsize"
    name, least = min(sizes.items(), key=lambda pair: pair[1])
    small = [name for name, size in sizes.items() if size < TRANSFER_BYTES]
    urls = (url(mount, **{name: least}), url(mount, **{name: TRANSFER_BYTES}))
    return Judgement(
        "green" if not small else "yellow" if least >= 64 * KIB else "red",
        ", ".join(f"{name} {format_bytes(size)}" for name, size in sizes.items()),
        fix=AGAIN,
        again=((mount, ",".join(f"{name}={TRANSFER_BYTES}" for name in small)),),
        undo=f"mount again with {','.join(f'{name}={size}' for name, size in sizes.items())}",
        setting=TunedSetting(now=str(least), wanted=str(TRANSFER_BYTES), load=TRANSFER_LOADS[name], urls=urls),
    )


def _version(mount: ClientMount, service: Service) -> Judgement:
    version, protocol = mount.version, mount.options.get("proto", "tcp")
    is_bad = version.startswith("2") or protocol.startswith("udp")
    better = "4.1" if version.startswith("4") or service.is_azure_files else "3"
    return Judgement(
        "red" if is_bad else "yellow" if version in ("4", "4.0") else "green",
        f"NFS {version} over {protocol.upper()}",
        fix=AGAIN,
        again=((mount, f"vers={better},proto=tcp"),),
        undo=f"mount again with vers={version},proto={protocol}",
    )


def _hard(mount: ClientMount) -> Judgement:
    kind = next((kind for kind in ("softerr", "soft", "hard") if kind in mount.options), "hard")
    states: dict[str, State] = {"softerr": "yellow", "soft": "red", "hard": "green"}
    timeout = mount.number_option("timeo")
    text = kind if kind == "hard" or timeout is None else f"{kind}, timeo {timeout / 10:g} s"
    return Judgement(states[kind], text, fix=AGAIN, undo=f"mount again with {kind}", again=((mount, "hard"),))


ATTRIBUTE_OPERATIONS = ("GETATTR", "ACCESS", "LOOKUP")
ATTRIBUTE_SHARE = 0.3
OPERATIONS_MIN = 1_000
"""Fewer operations tell nothing of the load."""


def _attributes(mount: ClientMount) -> Judgement:
    options = mount.options
    off: list[str] = [name for name in ("noac", "sync") if name in options]
    # acregmax=0 is noac or actimeo=0; mountinfo leaves out the defaults.
    off += ["actimeo=0"] if not off and options.get("acregmax") == "0" else []
    total = sum(one.operations for one in mount.operations.values())
    asked = sum(mount.operations[name].operations for name in ATTRIBUTE_OPERATIONS if name in mount.operations)
    share = asked / total if total >= OPERATIONS_MIN else None
    kept = f"acregmax {options.get('acregmax', '60')} s{', nocto' if 'nocto' in options else ''}"
    text = ", ".join(off) or kept
    text += f"; {share:.0%} of {total:,} operations ask for attributes" if share is not None else ""
    longer = "if no other client changes the data, add nocto,actimeo=600 to the options of the mount and of /etc/fstab"
    return Judgement(
        "red" if off else "yellow" if share is not None and share > ATTRIBUTE_SHARE else "green",
        text,
        fix=AGAIN if off else longer,
        undo=f"mount again with {','.join(off) or 'the options as they were'}",
        again=((mount, "ac,async"),) if off else (),
    )


TUNNELS = ("stunnel", "stunnel4", "stunnel5", "efs-proxy", "ghostunnel", "haproxy", "ssh", "socat")
"""Programs through which a mount is encrypted: Azure Files' and Amazon EFS's encryption in transit, and others."""


def _encryption(mount: ClientMount, host: HostFiles) -> Judgement:
    names = (host.text(f"proc/{number}/comm").strip() for number in host.names("proc") if number.isdigit())
    running = sorted(set(names) & set(TUNNELS)) if mount.is_tunnelled else []
    through = f"a tunnel: {' or '.join(running)}" if running else "a server of this machine"
    kernel = f"xprtsec={mount.options.get('xprtsec')}: encrypted by the kernel's client"
    return Judgement(
        "yellow" if running else "green", f"{mount.address}:{mount.port} is {through}" if mount.is_tunnelled else kernel
    )


def _session_slots(mount: ClientMount, host: HostFiles, service: Service) -> Judgement | str:
    slots = host.number("sys/module/nfs/parameters/max_session_slots")
    if slots is None:
        return "the module nfs states no max_session_slots"
    return Judgement(
        "green" if slots >= SESSION_SLOTS or not service.is_anf else "yellow",
        f"max_session_slots {slots}{_slots_used(mount)}",
        fix=f"{OPTIONS_FILE}; load the module nfs again, or reboot",
        undo=f"rm {MODPROBE}; reboot",
        setting=TunedSetting(
            now=str(slots),
            wanted=str(SESSION_SLOTS),
            load=f"rw=randread bs=4k iodepth={2 * SESSION_SLOTS}",
            urls=(url(mount, slots=max(1, slots)), url(mount, slots=SESSION_SLOTS)),
        ),
    )


def _slots(mount: ClientMount, host: HostFiles, service: Service) -> Judgement | str:
    slots = host.number("proc/sys/sunrpc/tcp_max_slot_table_entries")
    if slots is None:
        return "/proc/sys/sunrpc is not there"
    return Judgement(
        "red" if slots > SERVER_SLOTS and service.is_anf else "green",
        f"up to {slots:,} requests for each connection{_slots_used(mount)}",
        fix=f"sysctl -w sunrpc.tcp_max_slot_table_entries={SERVER_SLOTS}; {AGAIN}; for later boots {OPTIONS_FILE}",
        again=((mount, ""),),
        undo=f"sysctl -w sunrpc.tcp_max_slot_table_entries={slots}; rm {MODPROBE}; mount again",
    )


def _slots_used(mount: ClientMount) -> str:
    used = max((one.slots_max for one in mount.transports), default=0)
    waited, sends = (sum(getattr(one, name) for one in mount.transports) for name in ("backlog_total", "sends"))
    text = f"; most in use at once {used}" if used else ""
    return text + (f"; on average {waited / sends:.1f} waited for one" if sends and waited else "")


def _depth(mount: ClientMount) -> Judgement:
    most = sum(one.slots_max for one in mount.transports)
    return Judgement(
        "green" if most <= DEPTH_MAX else "yellow",
        f"slots for up to {most} requests in flight have been in use, all connections together",
    )


def round_trip_us(mount: ClientMount) -> float | None:
    """The smallest mean time of network and server of an operation that moves no data, in µs; None if none ran."""
    small = [one for name, one in mount.operations.items() if name not in ("READ", "WRITE", "COMMIT", "NULL")]
    times = [1_000 * one.rtt_ms / one.operations for one in small if one.operations >= OPERATIONS_MIN]
    return min((time for time in times if time > 0), default=None)


def windows(connections: int, round_trip: float | None, host: HostFiles, bytes_per_s: float | None) -> Judgement | str:
    """Judges the TCP windows of ``connections`` together against what the network carries."""
    limits = {name: host.text(f"proc/sys/net/ipv4/{name}").split() for name in ("tcp_rmem", "tcp_wmem")}
    if any(len(words) != 3 for words in limits.values()):
        return "/proc/sys/net/ipv4/tcp_rmem is not there"
    # Half of a receive buffer is window by default (tcp_adv_win_scale 1, ip-sysctl.rst).
    window = min(int(limits["tcp_rmem"][2]) // 2, int(limits["tcp_wmem"][2]) // 2)
    time_us = round_trip or ROUND_TRIP_US
    carried, wanted = window * connections * 1e6 / time_us, bytes_per_s or BYTES_PER_S_UNKNOWN
    scaling = host.word("proc/sys/net/ipv4/tcp_window_scaling") != "0"
    state: State = "green" if carried >= wanted else "yellow" if carried >= wanted / 2 else "red"
    text = f"{format_bytes(window)} for each of {counted(connections, 'connection')}: {carried / MIB:,.0f} MiB/s"
    text += (
        f" at {time_us / 1_000:.3g} ms ({'measured' if round_trip else 'assumed'}), {wanted / MIB:,.0f} MiB/s wanted"
    )
    text += "" if scaling else "; window scaling is off, windows end at 64 KiB"
    needed = int(wanted * time_us / 1e6 / connections) * 2
    size = max(16 * MIB, 1 << max(0, needed - 1).bit_length())
    wanted_limits = {"tcp_rmem": f"4096 1048576 {size}", "tcp_wmem": f"4096 1048576 {size}", "tcp_window_scaling": "1"}
    undo = {name: " ".join(words) for name, words in limits.items()} | ({} if scaling else {"tcp_window_scaling": "0"})
    return Judgement(state if scaling else "red", text, fix=_sysctl(wanted_limits), undo=_sysctl(undo))


def _sysctl(values: Mapping[str, str]) -> str:
    return "; ".join(f"sysctl -w net.ipv4.{name}='{value}'" for name, value in values.items())


def _retransmissions(mount: ClientMount) -> Judgement | str:
    requests = sum(one.operations for one in mount.operations.values())
    again = sum(max(0, one.transmissions - one.operations) for one in mount.operations.values())
    timeouts = sum(one.timeouts for one in mount.operations.values())
    if not requests:
        return f"{mount.point} has had no operations"
    share = again / requests
    return Judgement(
        "red" if timeouts or share >= 0.01 else "yellow" if share >= 0.0001 else "green",
        f"{again:,} of {requests:,} requests sent again, {counted(timeouts, 'timeout')}",
    )


NCONNECT_SINCE = (5, 3)
CONNECTIONS_LOAD = "rw=randread bs=64k iodepth=64"
"""The load that shows what further connections carry."""


def check_connections(
    mount: ClientMount,
    every: Sequence[ClientMount],
    asked: Mapping[str, Mapping[str, str]],
    host: HostFiles,
    service: Service,
) -> Iterator[Finding]:
    """The checks of one mount's connections; ``asked`` has the options in /etc/fstab by mount point."""
    sharing = [other for other in every if other is not mount and shares(mount, other)]
    yield "nfs.nconnect", mount.point, _connections(mount, sharing, host, service)
    yield "nfs.nconnect_shared", mount.point, _shared(mount, sharing, every, asked.get(mount.point))


def _connections(mount: ClientMount, sharing: Sequence[ClientMount], host: HostFiles, service: Service) -> Judgement:
    count, wanted = len(mount.transports) or mount.nconnect, service.nconnect
    state: State = "yellow"
    if wanted is None:
        state = "green" if count > 1 else "yellow"
    elif count in (1, wanted):
        state = "green" if count == wanted else "red"
    text = counted(count, "connection")
    if mount.open_connections is not None and mount.transports:
        # Linux opens connections as calls need them (xprt_connect), and closes idle ones after 5 min (XS_IDLE_DISC_TO).
        idle = (
            " (idle mounts close theirs after 5 min)"
            if mount.open_connections == 0
            else " (the others open under load)"
        )
        text += f", {mount.open_connections} open{idle if mount.open_connections < count else ''}"
    text += f"; {wanted} advised for {service.name}" if wanted and service.name else ""
    if host.kernel != (0, 0) and host.kernel < NCONNECT_SINCE:
        text += f"; kernel {host.kernel[0]}.{host.kernel[1]} has no nconnect, which came with 5.3"
        return Judgement("yellow", text, fix="a kernel of 5.3 or later, then nconnect")
    again = tuple((one, f"nconnect={wanted or 8}") for one in (mount, *sharing))
    urls = (url(mount, nconnect=count), url(mount, nconnect=wanted or 8))
    setting = TunedSetting(now=str(count), wanted=str(wanted or 8), load=CONNECTIONS_LOAD, urls=urls)
    undo = f"mount again with nconnect={count}"
    return Judgement(state, text, fix=AGAIN, undo=undo, setting=setting, again=again)


def _shared(
    mount: ClientMount, sharing: Sequence[ClientMount], every: Sequence[ClientMount], asked: Mapping[str, str] | None
) -> Judgement:
    wanted = int(asked.get("nconnect", 1) or 1) if asked is not None else None
    have = len(mount.transports) or mount.nconnect
    most = max(wanted or 1, mount.nconnect)
    has_lost = (wanted is not None and wanted != have) or (bool(mount.transports) and mount.nconnect != have)
    scenario, is_guaranteed = _scenario(mount, every)
    parts = [f"has {counted(have, 'connection')}"]
    parts += [f"/etc/fstab asks for {wanted}"] if wanted is not None and wanted != have else []
    parts += [f"its options state {mount.nconnect}"] if mount.transports and mount.nconnect != have else []
    parts += (
        [f"shares with {', '.join(other.point for other in sharing)}"] if sharing else ["shares with no other mount"]
    )
    trunked = [other.point for other in sharing if other.address != mount.address]
    parts += [f"{', '.join(trunked)} is mounted by another address of this server"] if trunked else []
    parts += [scenario] if scenario else []
    private = "" if is_guaranteed else "; or use a private endpoint for each storage account"
    return Judgement(
        "red" if has_lost and have < most else "yellow" if has_lost or not is_guaranteed else "green",
        "; ".join(parts),
        fix=f"{AGAIN}: the first decides{private}",
        again=tuple((one, f"nconnect={most}") for one in (mount, *sharing)),
        undo=f"mount all of them again, first one with nconnect={have}",
    )


def shares(one: ClientMount, other: ClientMount) -> bool:
    """True if two mounts use the same connections.

    A connection has the same source port and counters in all mounts that use it. Where the kernel states no port
    (NFSv4.1), and the counters moved on between two mounts, address, port and version decide.
    """
    ours, theirs = ({transport.source_port for transport in mount.transports} - {0} for mount in (one, other))
    if ours and theirs:
        return bool(ours & theirs)
    busy, busy_there = (
        {transport.counters for transport in mount.transports if transport.sends} for mount in (one, other)
    )
    same_client = (one.address, one.port, one.version) == (other.address, other.port, other.version)
    return bool(busy & busy_there) or same_client


def _scenario(mount: ClientMount, every: Sequence[ClientMount]) -> tuple[str, bool]:
    """The scenario of Microsoft's page, for shares of Azure Files; False if nothing is guaranteed there."""
    shares_there = [other for other in every if other.server.endswith(AZURE_FILES)]
    if mount not in shares_there or len(shares_there) < 2:
        return "", True
    if not all(other.is_private for other in shares_there):
        return "scenario 2: a public endpoint, where separate settings may not last", False
    accounts = {other.server for other in shares_there}
    if len(accounts) == 1:
        return "scenario 3: several shares of one storage account over its private endpoint, which share", True
    if len({other.address for other in shares_there}) == len(accounts):
        return "scenario 1: each storage account has its private endpoint, and its own setting", True
    return "several storage accounts behind one private address share their connections", False

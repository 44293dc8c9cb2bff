"""The rows of NFS mounts, without those on shared connections (``nconnect``)."""

from __future__ import annotations

from dataclasses import dataclass

from iocurve.advice.doctor.checks import Findings, Setting, State
from iocurve.advice.doctor.host import Host
from iocurve.advice.doctor.mounts import NfsMount
from iocurve.units import GIB, KIB, MIB, counted, format_bytes

READ_AHEAD_KIB = 15_360
READ_AHEADS_OF_OLD_KERNELS = 15
"""Kernels before 5.4 read ahead this many times rsize."""
NCONNECT_SINCE = (5, 3)
SERVER_SLOTS = 128
SESSION_SLOTS, SESSION_SLOTS_DEFAULT = 180, 64
DEPTH_MAX = 64
SEQUENTIAL_READS = "rw=read bs=1m direct=0"
ROUND_TRIP_US = 1_000.0
"""Assumed where no operations tell it."""
BYTES_PER_S_UNKNOWN = GIB
AZURE_FILES = (".file.core.windows.net", ".file.storage.azure.net")
MODPROBE = "/etc/modprobe.d/iocurve-nfs.conf"


@dataclass(frozen=True)
class Service:
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
    def is_anf(self) -> bool:
        """True for a volume of Azure NetApp Files."""
        return self.name == "Azure NetApp Files"


def service_of(mount: NfsMount, profile: str | None, nconnect: int | None) -> Service:
    """The server's service; ``nconnect`` is the profile's advice."""
    if profile and profile.startswith("azure-files"):
        return Service("Azure Files", nconnect)
    if profile and profile.startswith("anf-"):
        return Service("Azure NetApp Files", nconnect)
    if mount.server.endswith(AZURE_FILES):
        return Service("Azure Files", 4)
    return Service("", nconnect)


def check(mount: NfsMount, host: Host, service: Service, bytes_per_s: float | None, found: Findings) -> None:
    """Adds the rows of one mount; ``bytes_per_s`` is what the machine's network carries, if that is known."""
    _read_ahead(mount, host, found)
    _connections(mount, host, service, found)
    _transfer_size(mount, found)
    _version(mount, service, found)
    _hard(mount, found)
    _attributes(mount, found)
    _slots(mount, host, service, found)
    _depth(mount, service, found)
    buffers(mount.point, _connection_count(mount), round_trip_us(mount), host, bytes_per_s, found)
    _retransmissions(mount, found)


def _remount(mount: NfsMount, options: str) -> str:
    """Commands that mount again with further options."""
    return f"umount {mount.point}; mount -o {options} {mount.source} {mount.point}; the same options in /etc/fstab"


def _connection_count(mount: NfsMount) -> int:
    return len(mount.transports) or mount.nconnect


def _read_ahead(mount: NfsMount, host: Host, found: Findings) -> None:
    path = f"sys/class/bdi/{mount.number}/read_ahead_kb"
    now, rsize = host.number(path), mount.number_option("rsize") or MIB
    if now is None:
        return found.leave_out("nfs.read_ahead", f"/{path} cannot be read")
    old = host.kernel < (5, 4) and now * KIB >= READ_AHEADS_OF_OLD_KERNELS * rsize
    state: State = "green" if now >= READ_AHEAD_KIB or old else "red" if now * KIB < rsize else "yellow"
    fix = f"echo {READ_AHEAD_KIB} > /{path}; for later mounts the udev rule of iocurve doctor --fix"
    return found.add(
        "nfs.read_ahead",
        state,
        f"{now:,} KiB (rsize {format_bytes(rsize)})",
        subject=mount.point,
        fix=None if state == "green" else fix,
        undo=f"echo {now} > /{path}; rm /etc/udev/rules.d/99-nfs.rules; udevadm control --reload",
        setting=Setting(path=path, now=str(now), wanted=str(READ_AHEAD_KIB), load=SEQUENTIAL_READS),
    )


def _connections(mount: NfsMount, host: Host, service: Service, found: Findings) -> None:
    count, wanted = _connection_count(mount), service.nconnect
    state: State
    if wanted is None:
        state = "green" if count > 1 else "yellow"
    elif count == wanted:
        state = "green"
    else:
        state = "red" if count == 1 else "yellow"
    text = counted(count, "connection")
    if mount.open_connections is not None and mount.transports:
        text += f", {mount.open_connections} open"
        text += " (idle mounts close theirs after 5 min)" if mount.open_connections == 0 else ""
    text += f"; {wanted} advised for {service.name}" if wanted and service.name else ""
    if host.kernel != (0, 0) and host.kernel < NCONNECT_SINCE:
        text += f"; kernel {host.kernel[0]}.{host.kernel[1]} has no nconnect, which came with 5.3"
        fix = "a kernel of 5.3 or later, then nconnect"
        return found.add("nfs.nconnect", "yellow", text, subject=mount.point, fix=fix, undo="none needed")
    advised = wanted or 8
    fix = f"umount all mounts of {mount.server}, then {_remount(mount, f'nconnect={advised}')}"
    return found.add(
        "nfs.nconnect",
        state,
        text,
        subject=mount.point,
        fix=None if state == "green" else fix,
        undo=f"mount again with nconnect={count}",
    )


def _transfer_size(mount: NfsMount, found: Findings) -> None:
    sizes = [mount.number_option(name) for name in ("rsize", "wsize")]
    known = [size for size in sizes if size]
    if not known:
        return found.leave_out("nfs.transfer_size", f"{mount.point}: its options state no rsize")
    least = min(known)
    state: State = "green" if least >= 256 * KIB else "yellow" if least >= 64 * KIB else "red"
    text = ", ".join(
        f"{name} {format_bytes(size)}" for name, size in zip(("rsize", "wsize"), sizes, strict=True) if size
    )
    return found.add(
        "nfs.transfer_size",
        state,
        text,
        subject=mount.point,
        fix=None if state == "green" else _remount(mount, "rsize=262144,wsize=262144"),
        undo=f"mount again with rsize={sizes[0]},wsize={sizes[1]}",
    )


def _version(mount: NfsMount, service: Service, found: Findings) -> None:
    version, protocol = mount.version, mount.options.get("proto", "tcp")
    is_bad = version.startswith("2") or protocol.startswith("udp")
    state: State = "red" if is_bad else "yellow" if version in ("4", "4.0") else "green"
    better = "4.1" if version.startswith("4") or service.is_azure_files else "3"
    found.add(
        "nfs.version",
        state,
        f"NFS {version} over {protocol.upper()}",
        subject=mount.point,
        fix=None if state == "green" else _remount(mount, f"vers={better},proto=tcp"),
        undo=f"mount again with vers={version},proto={protocol}",
    )


def _hard(mount: NfsMount, found: Findings) -> None:
    kind = next((kind for kind in ("softerr", "soft", "hard") if kind in mount.options), "hard")
    states: dict[str, State] = {"softerr": "yellow", "soft": "red", "hard": "green"}
    timeout = mount.number_option("timeo")
    text = kind if kind == "hard" or timeout is None else f"{kind}, timeo {timeout / 10:g} s"
    found.add(
        "nfs.hard",
        states[kind],
        text,
        subject=mount.point,
        fix=None if kind == "hard" else _remount(mount, "hard"),
        undo=f"mount again with {kind}",
    )


ATTRIBUTE_OPERATIONS = ("GETATTR", "ACCESS", "LOOKUP")
ATTRIBUTE_SHARE = 0.3
OPERATIONS_MIN = 1_000
"""Fewer operations tell nothing of the load."""


def _attributes(mount: NfsMount, found: Findings) -> None:
    options = mount.options
    off: list[str] = [name for name in ("noac", "sync") if name in options]
    # acregmax=0 is noac or actimeo=0; mountinfo leaves out the defaults.
    off += ["actimeo=0"] if not off and options.get("acregmax") == "0" else []
    total = sum(one.operations for one in mount.operations.values())
    asked = sum(mount.operations[name].operations for name in ATTRIBUTE_OPERATIONS if name in mount.operations)
    share = asked / total if total >= OPERATIONS_MIN else None
    state: State = "red" if off else "yellow" if share is not None and share > ATTRIBUTE_SHARE else "green"
    kept = f"acregmax {options.get('acregmax', '60')} s{', nocto' if 'nocto' in options else ''}"
    text = ", ".join(off) or kept
    text += f"; {share:.0%} of {total:,} operations ask for attributes" if share is not None else ""
    fix = _remount(mount, "ac,async" if off else "nocto,actimeo=600") + (
        "" if off else ", if no other client changes the data"
    )
    found.add(
        "nfs.attributes",
        state,
        text,
        subject=mount.point,
        fix=None if state == "green" else fix,
        undo=f"mount again with {','.join(off) or 'the options as they were'}",
    )


def _slots(mount: NfsMount, host: Host, service: Service, found: Findings) -> None:
    used = max((one.slots_max for one in mount.transports), default=0)
    waited = sum(one.backlog_total for one in mount.transports)
    seen = f"; most in use at once {used}" if used else ""
    seen += f"; on average {waited / sends:.1f} waited for one" if (sends := _sends(mount)) and waited else ""
    if mount.version.startswith("4") and mount.version not in ("4", "4.0"):
        slots = host.number("sys/module/nfs/parameters/max_session_slots")
        if slots is None:
            return found.leave_out("nfs.session_slots", "the module nfs states no max_session_slots")
        state: State = "green" if slots >= SESSION_SLOTS else "yellow"
        fix = f"echo 'options nfs max_session_slots={SESSION_SLOTS}' > {MODPROBE}; load the module nfs again, or reboot"
        return found.add(
            "nfs.session_slots",
            state,
            f"max_session_slots {slots}{seen}",
            subject=mount.point,
            fix=None if state == "green" else fix,
            undo=f"rm {MODPROBE}; reboot",
        )
    slots = host.number("proc/sys/sunrpc/tcp_max_slot_table_entries")
    if slots is None:
        return found.leave_out("nfs.slots", "/proc/sys/sunrpc is not there")
    state = "green" if slots <= SERVER_SLOTS else "red" if service.is_anf else "yellow"
    fix = (
        f"sysctl -w sunrpc.tcp_max_slot_table_entries={SERVER_SLOTS}, and mount again; for later boots "
        f"echo 'options sunrpc tcp_max_slot_table_entries={SERVER_SLOTS}' > {MODPROBE}"
    )
    return found.add(
        "nfs.slots",
        state,
        f"up to {slots:,} requests for each connection{seen}",
        subject=mount.point,
        fix=None if state == "green" else fix,
        undo=f"sysctl -w sunrpc.tcp_max_slot_table_entries={slots}; rm {MODPROBE}; mount again",
    )


def _sends(mount: NfsMount) -> int:
    return sum(one.sends for one in mount.transports)


def _depth(mount: NfsMount, service: Service, found: Findings) -> None:
    most = sum(one.slots_max for one in mount.transports)
    if not service.is_azure_files or not most:
        return
    state: State = "green" if most <= DEPTH_MAX else "yellow"
    found.add(
        "nfs.depth",
        state,
        f"slots for up to {most} requests in flight have been in use, all connections together",
        subject=mount.point,
        fix=None if state == "green" else f"let the application keep at most {DEPTH_MAX} requests in flight per share",
        undo="the application's former queue depth",
    )


def round_trip_us(mount: NfsMount) -> float | None:
    """The smallest mean time of network and server of an operation that moves no data, in µs; None if none ran."""
    small = [one for name, one in mount.operations.items() if name not in ("READ", "WRITE", "COMMIT", "NULL")]
    times = [1_000 * one.rtt_ms / one.operations for one in small if one.operations >= OPERATIONS_MIN]
    return min((time for time in times if time > 0), default=None)


def buffers(
    subject: str,
    connections: int,
    round_trip: float | None,
    host: Host,
    bytes_per_s: float | None,
    found: Findings,
) -> None:
    """Adds the row of TCP windows: those of ``connections`` together against what the network carries."""
    limits = {name: host.text(f"proc/sys/net/ipv4/{name}").split() for name in ("tcp_rmem", "tcp_wmem")}
    if any(len(words) != 3 for words in limits.values()):
        return found.leave_out("nfs.tcp_buffers", "/proc/sys/net/ipv4/tcp_rmem is not there")
    # Half of a receive buffer is window by default (tcp_adv_win_scale 1, ip-sysctl.rst).
    window = min(int(limits["tcp_rmem"][2]) // 2, int(limits["tcp_wmem"][2]) // 2)
    time_us = round_trip or ROUND_TRIP_US
    carried, wanted = window * connections * 1e6 / time_us, bytes_per_s or BYTES_PER_S_UNKNOWN
    scaling = host.word("proc/sys/net/ipv4/tcp_window_scaling") != "0"
    state: State = "green" if carried >= wanted else "yellow" if carried >= wanted / 2 else "red"
    if not scaling:
        state = "red"
    needed = int(wanted * time_us / 1e6 / connections) * 2
    basis = "measured" if round_trip else "assumed"
    text = f"{format_bytes(window)} for each of {counted(connections, 'connection')}: {carried / MIB:,.0f} MiB/s"
    text += f" at {time_us / 1_000:.3g} ms ({basis}), {wanted / MIB:,.0f} MiB/s wanted"
    text += "" if scaling else "; window scaling is off, windows end at 64 KiB"
    size = max(16 * MIB, 1 << max(0, needed - 1).bit_length())
    names = ("net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem")
    fix = (
        "; ".join(f"sysctl -w {name}='4096 1048576 {size}'" for name in names)
        + "; sysctl -w net.ipv4.tcp_window_scaling=1"
    )
    undo = "; ".join(
        f"sysctl -w {name}='{' '.join(words)}'" for name, words in zip(names, limits.values(), strict=True)
    )
    return found.add("nfs.tcp_buffers", state, text, subject=subject, fix=None if state == "green" else fix, undo=undo)


def _retransmissions(mount: NfsMount, found: Findings) -> None:
    requests = sum(one.operations for one in mount.operations.values())
    again = sum(max(0, one.transmissions - one.operations) for one in mount.operations.values())
    timeouts = sum(one.timeouts for one in mount.operations.values())
    if not requests:
        return found.leave_out("nfs.retransmissions", f"{mount.point} has had no operations")
    share = again / requests
    state: State = "red" if timeouts or share >= 0.01 else "yellow" if share >= 0.0001 else "green"
    fix = "look for packet loss (nstat -az TcpRetransSegs, ethtool -S) and for pauses of the server; timeo=600,hard"
    return found.add(
        "nfs.retransmissions",
        state,
        f"{again:,} of {requests:,} requests sent again, {counted(timeouts, 'timeout')}",
        subject=mount.point,
        fix=None if state == "green" else fix,
        undo="none needed",
    )

"""The files that make doctor's fixes last: a udev rule, a sysctl file, and options of the modules sunrpc and nfs."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from iocurve.advice.doctor.checks import Diagnosis
from iocurve.advice.doctor.host import HostFiles
from iocurve.advice.doctor.nfs import READ_AHEAD_KIB, SERVER_SLOTS, SESSION_SLOTS
from iocurve.foundation.errors import TargetError
from iocurve.foundation.units import MIB

UDEV_NFS = "etc/udev/rules.d/99-nfs.rules"
UDEV_SCHEDULER = "etc/udev/rules.d/60-iocurve-scheduler.rules"
SYSCTL = "etc/sysctl.d/90-iocurve.conf"
MODPROBE = "etc/modprobe.d/iocurve-nfs.conf"
BUFFER_BYTES = 16 * MIB

# udev writes a dollar as two: with one it warns of an invalid substitution.
_IS_NFS = "BEGIN{ret=1} {if ($$4 == bdi) {ret=0}} END{exit ret}"
READ_AHEAD_RULE = f"""# Read-ahead of NFS mounts (learn.microsoft.com, nfs-performance). iocurve doctor --fix
SUBSYSTEM=="bdi" \\
, ACTION=="add" \\
, PROGRAM="/usr/bin/awk -v bdi=$kernel '{_IS_NFS}' /proc/fs/nfsfs/volumes" \\
, ATTR{{read_ahead_kb}}="{READ_AHEAD_KIB}"
"""


def files(diagnosis: Diagnosis) -> dict[str, str]:
    """The files that fix the yellow and red rows, by path without the leading slash."""
    ailing = [row for row in diagnosis.rows if row.state != "green"]
    checks = {row.check for row in ailing}
    found = {}
    if "nfs.read_ahead" in checks:
        found[UDEV_NFS] = READ_AHEAD_RULE
    rules = [
        f'ACTION=="add|change", KERNEL=="{row.subject}", ATTR{{queue/scheduler}}="{row.setting.wanted}"'
        for row in ailing
        if row.check == "disk.scheduler" and row.setting
    ]
    if rules:
        found[UDEV_SCHEDULER] = "\n".join(["# iocurve doctor --fix", *rules, ""])
    settings = []
    if "nfs.tcp_buffers" in checks:
        settings += [f"net.ipv4.{name} = 4096 1048576 {BUFFER_BYTES}" for name in ("tcp_rmem", "tcp_wmem")]
        settings += ["net.ipv4.tcp_window_scaling = 1"]
    if "nfs.slots" in checks:
        settings += [f"sunrpc.tcp_max_slot_table_entries = {SERVER_SLOTS}"]
    if settings:
        found[SYSCTL] = "\n".join(["# iocurve doctor --fix", *settings, ""])
    options = [f"options sunrpc tcp_max_slot_table_entries={SERVER_SLOTS}"] if "nfs.slots" in checks else []
    options += [f"options nfs max_session_slots={SESSION_SLOTS}"] if "nfs.session_slots" in checks else []
    if options:
        found[MODPROBE] = "\n".join(["# iocurve doctor --fix", *options, ""])
    return found


def diff(host: HostFiles, wanted: Mapping[str, str]) -> str:
    """The changes as a unified diff; empty if all files have this content."""
    return "".join(
        line
        for path, text in wanted.items()
        for line in difflib.unified_diff(
            host.text(path).splitlines(keepends=True),
            text.splitlines(keepends=True),
            f"/{path}" if host.text(path) else "/dev/null",
            f"/{path}",
        )
    )


def write(root: Path, wanted: Mapping[str, str]) -> Sequence[Path]:
    """Writes the files, each in one step; a file that was there is kept as ``NAME.before-iocurve``.

    Raises ``TargetError``.
    """
    written = []
    for path, text in wanted.items():
        file = root / path
        kept = file.with_name(f"{file.name}.before-iocurve")
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            if file.exists() and file.read_text(encoding="utf-8", errors="replace") == text:
                continue
            new = file.with_name(f".{file.name}.new")
            new.write_text(text, encoding="utf-8")
            # The first state is the user's own; later runs of doctor must not replace it.
            if file.exists() and not kept.exists():
                os.link(file, kept)
            new.replace(file)
        except OSError as error:
            raise TargetError(
                f"{error.filename or file} cannot be written: {error.strerror}; --fix --yes needs root"
            ) from None
        written.append(file)
    return written


APPLY = {
    UDEV_NFS: "udevadm control --reload; mount again",
    UDEV_SCHEDULER: "udevadm control --reload; udevadm trigger --subsystem-match=block",
    SYSCTL: "sysctl --system",
    MODPROBE: "reboot, or load the modules again; a mount keeps the values of its time",
}
"""The command that puts each file into effect."""

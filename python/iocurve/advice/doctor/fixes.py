"""Doctor in words: its rows, its remedies, its fixes.

The files that make fixes last are a udev rule, a sysctl file, and options of the modules sunrpc and nfs.
"""

from __future__ import annotations

import difflib
import os
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from iocurve.advice.doctor.checks import CHECKS, WORST_FIRST, Diagnosis, DoctorRow
from iocurve.advice.doctor.host import HostFiles
from iocurve.advice.doctor.nfs import SERVER_SLOTS, UDEV_NFS, options_file
from iocurve.foundation.errors import TargetError
from iocurve.foundation.units import MIB, counted
from iocurve.report.table import Table, escaped

UDEV_SCHEDULER = "etc/udev/rules.d/60-iocurve-scheduler.rules"
SYSCTL = "etc/sysctl.d/90-iocurve.conf"
MODPROBE = "etc/modprobe.d/iocurve-nfs.conf"
BUFFER_BYTES = 16 * MIB

# udev writes a dollar as two: with one it warns of an invalid substitution.
_IS_NFS = "BEGIN{ret=1} {if ($$4 == bdi) {ret=0}} END{exit ret}"
READ_AHEAD_RULE = """# Read-ahead of NFS mounts. iocurve doctor --fix
SUBSYSTEM=="bdi" \\
, ACTION=="add" \\
, PROGRAM="/usr/bin/awk -v bdi=$kernel '%s' /proc/fs/nfsfs/volumes" \\
, ATTR{read_ahead_kb}="%s"
"""


def files(diagnosis: Diagnosis) -> dict[str, str]:
    """The files that fix the yellow and red rows, by path without the leading slash."""
    ailing = [row for row in diagnosis.rows if row.state != "green"]
    checks = {row.check for row in ailing}
    found = {}
    if "nfs.read_ahead" in checks:
        wanted = [int(row.setting.wanted) for row in ailing if row.check == "nfs.read_ahead" and row.setting]
        found[UDEV_NFS] = READ_AHEAD_RULE % (_IS_NFS, max(wanted))
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
    if text := options_file(checks):
        found[MODPROBE] = text
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


COLUMNS = ("state", "what", "where", "found")


def summary(diagnosis: Diagnosis) -> str:
    """``2 red, 3 yellow, 9 green``."""
    counts = {state: sum(row.state == state for row in diagnosis.rows) for state in WORST_FIRST}
    found = ", ".join(f"{number} {state}" for state, number in counts.items() if number)
    return f"{diagnosis.subject}: {found or 'nothing could be checked'}"


def ordered(diagnosis: Diagnosis) -> list[DoctorRow]:
    """The rows, the worst first."""
    return sorted(diagnosis.rows, key=lambda row: WORST_FIRST.index(row.state))


def cells(diagnosis: Diagnosis) -> list[tuple[str, str, str, str]]:
    """The rows of the table."""
    return [(row.state, row.title, row.subject, row.found) for row in ordered(diagnosis)]


def remedies(diagnosis: Diagnosis) -> Iterator[str]:
    """For each yellow and red row: why it matters, its source, the fix, and how to undo it."""
    for row in ordered(diagnosis):
        if row.state == "green":
            continue
        yield f"{row.state}: {row.title} of {row.subject}: {row.found}"
        for label, text in (("why", row.why), ("source", row.source), ("fix", row.fix), ("undo", row.undo)):
            if text:
                yield _labelled(label, text)
        yield ""


def unchecked(diagnosis: Diagnosis) -> Iterator[str]:
    """The checks that could not be made."""
    for name, reason in diagnosis.unchecked.items():
        yield f"not checked: {CHECKS[name].title}: {reason}"


def _labelled(label: str, text: str) -> str:
    # Commands stay on one line, so that they can be copied.
    if label in ("fix", "undo"):
        return f"  {label:<7} {text}"
    return "\n".join(textwrap.wrap(text, 110, initial_indent=f"  {label:<7} ", subsequent_indent=" " * 10))


def markdown(diagnosis: Diagnosis) -> bytes:
    """A heading with the counts, and all rows, for a ticket or a pull request."""
    rows = [
        (*line, f"{row.why} ({row.source})", row.fix or "", row.undo or "")
        for line, row in zip(cells(diagnosis), ordered(diagnosis), strict=True)
    ]
    table = Table((*COLUMNS, "why, source", "fix", "undo"), rows).markdown()
    parts = [f"### iocurve doctor: {escaped(summary(diagnosis))}", "", *table, "", *unchecked(diagnosis)]
    return ("\n".join(parts).rstrip() + "\n").encode()


def status(diagnosis: Diagnosis) -> int:
    """The exit status: 0 all green, 5 the worst row is yellow, 4 a row is red. Other load does not count."""
    rows = tuple(row for row in diagnosis.rows if row.check != "machine.load")
    return {"green": 0, "yellow": 5, "red": 4}[diagnosis.replace(rows=rows).state]


def closing(diagnosis: Diagnosis) -> str:
    """The line after the table."""
    ailing = [row for row in diagnosis.rows if row.state != "green"]
    lasting = {"nfs.read_ahead", "nfs.slots", "nfs.session_slots", "nfs.tcp_buffers", "disk.scheduler"}
    if not ailing:
        return "nothing to change"
    hints = ["iocurve doctor --fix shows the files that make fixes last"] if {r.check for r in ailing} & lasting else []
    hints += ["--measure measures the speedup here"] if any(row.setting for row in diagnosis.rows) else []
    return "; ".join([counted(len(ailing), "row") + " to look at", *hints])

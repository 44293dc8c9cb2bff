"""The command that checks the client's tuning."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from iocurve.advice.doctor import fixes, gain
from iocurve.advice.doctor.bundle import bundle as bundled
from iocurve.advice.doctor.checks import Diagnosis
from iocurve.advice.doctor.diagnose import Known, diagnose
from iocurve.advice.doctor.host import Bundle, HostFiles, azure_instance
from iocurve.cli.checks import write_file
from iocurve.cli.common import Flag, JsonFlag, Rounds, SizeBytes, TargetText, TimeNs, refuse, show, show_json
from iocurve.cli.exits import status
from iocurve.foundation.errors import Diagnostic, DialectError, TargetError
from iocurve.foundation.units import GIB, MIB, SECOND_NS
from iocurve.report.table import Table
from iocurve.volume import profile as profiles
from iocurve.volume.profile_limits import resolve


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class HostOptions:
    """The source of the machine's files."""

    root: Path = Path("/")
    """Directory with another machine's proc, sys and etc, as captured."""
    bundle_read: Annotated[Path | None, Parameter(name="--from")] = None
    """A bundle (--bundle) instead of this machine."""
    vm: str | None = None
    """Size of the virtual machine: D32s_v5. Default: what Azure's instance metadata says, where it can be reached."""
    profile: str | None = None
    """Service level of the volume: anf-premium, azure-files-v2 (iocurve profile list)."""
    quota: SizeBytes | None = None
    """Size of the volume."""

    def host(self) -> HostFiles:
        """The machine. Raises ``ResultError`` and ``TargetError``."""
        if self.bundle_read is not None:
            refuse("--from reads a bundle; choose one", root=None if self.root == Path("/") else self.root)
            return HostFiles.of_bundle(Bundle.load(self.bundle_read))
        if not (self.root / "proc").is_dir():
            raise TargetError(f"--root {self.root}: there is no directory {self.root / 'proc'}")
        host = HostFiles(self.root)
        # Only the live machine has a metadata service, and only machines of Azure are asked.
        if host.is_live and self.vm is None and may_be_azure(host):
            host.instance = azure_instance()
        return host

    @property
    def subject(self) -> str | None:
        """The subject of a bundle. Raises ``ResultError``."""
        return None if self.bundle_read is None else Bundle.load(self.bundle_read).subject

    def known(self) -> Known:
        """Facts that the user gave. Raises ``DialectError``."""
        if self.profile is None:
            if self.quota is not None:
                raise DialectError([Diagnostic("--quota needs --profile, such as --profile anf-premium")])
            return Known(vm=self.vm)
        found = profiles.load(self.profile)
        limits = resolve(self.profile, self.quota).caps if self.quota is not None else ()
        return Known(self.profile, found.nconnect, limits, self.vm)


def may_be_azure(host: HostFiles) -> bool:
    """Azure's machines state Microsoft as their vendor; a machine without that table may be anything."""
    vendor = host.word("sys/class/dmi/id/sys_vendor")
    return not vendor or "Microsoft" in vendor


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class MeasureOptions:
    """Options of --measure."""

    directory: Path | None = None
    """With --measure: directory on the mount or device for the data file. Default: the directory that was given."""
    size: SizeBytes = GIB
    """With --measure: size of the data file."""
    runtime: TimeNs = 5 * SECOND_NS
    """With --measure: time of each run at most; sequential reads end after one pass over the file."""
    runs: Rounds = 5
    """With --measure: runs of each setting; at least 3 for an interval."""
    bs: SizeBytes = MIB
    """With --measure: block size of the application's sequential reads."""
    out: Path = Path("iocurve-doctor")
    """With --measure: directory for the results and reports."""


HOST, MEASURE = HostOptions(), MeasureOptions()


def doctor(
    target: TargetText | None = None,
    /,
    *,
    host: HostOptions = HOST,
    json: JsonFlag = False,
    markdown: Path | None = None,
    bundle: Path | None = None,
    fix: Flag = False,
    yes: Flag = False,
    measure: Flag = False,
    measured: MeasureOptions = MEASURE,
) -> int:
    """Check the tuning of this client: NFS mounts, disks and the machine. docs/doctor.md lists all checks.

    Exit status: 0 all rows are green; 5 the worst row is yellow; 4 a row is red.

    Parameters
    ----------
    target
        A mount, a directory, a device or nfs://host/export. Default: all NFS mounts and disks.
    markdown
        Write all rows to this file as Markdown.
    bundle
        Write the files that were read to this file, without names and addresses.
    fix
        Show the changes to udev rules, sysctl and modprobe files that make the fixes last, as a diff.
    yes
        With --fix: write these files. A file that was there is kept as NAME.before-iocurve.
    measure
        Measure the speedup of each setting that is not green by interleaved runs, and put the settings back.
        Read-ahead: the best of 128 to 15,360 KiB. Settings of a mount (nconnect, rsize, session slots): by iocurve's
        own NFS client.
    """
    if not fix:
        refuse("this writes what --fix shows; add --fix", yes=yes)
    elif host.bundle_read is not None:
        raise DialectError([Diagnostic("--fix needs a machine's files; leave out --from")])
    if not measure:
        refuse("this is an option of --measure; add --measure", measured)
    machine, name = host.host(), host.subject if target is None else str(target)
    if measure and not machine.is_live:
        raise DialectError([Diagnostic("--measure measures on this machine; leave out --root and --from")])
    found = diagnose(machine, name, host.known())
    if bundle is not None:
        # The files that --fix compares are a part of what a colleague needs.
        fixes.diff(machine, fixes.files(found))
        write_file("--bundle", bundle, bundled(machine, name).pretty())
    if markdown is not None:
        write_file("--markdown", markdown, fixes.markdown(found))
    if json:
        show_json(found.to_builtins())
    else:
        _show(found)
    if fix:
        _fix(machine, found, write=yes)
    return (_measured(found, measured, name) if measure else 0) or fixes.status(found)


def _show(found: Diagnosis) -> None:
    print(fixes.summary(found))
    if found.rows:
        show(Table(fixes.COLUMNS, fixes.cells(found), sentences=["found"]))
    print()
    for line in fixes.remedies(found):
        print(line)
    for line in fixes.unchecked(found):
        print(line)
    print(fixes.closing(found))


def _fix(machine: HostFiles, found: Diagnosis, *, write: bool) -> None:
    wanted = fixes.files(found)
    changes = fixes.diff(machine, wanted)
    # --json keeps stdout for the document.
    print(changes or "--fix: no file needs to change", file=sys.stderr if not changes else sys.stdout)
    if not write or not changes:
        return
    assert machine.root is not None, "a bundle has no files to write"
    for file in fixes.write(machine.root, wanted):
        print(f"wrote {file}", file=sys.stderr)
    for path in wanted:
        print(f"to apply /{path}: {fixes.APPLY[path]}", file=sys.stderr)


def _measured(found: Diagnosis, options: MeasureOptions, target: str | None) -> int:
    """Measures each setting that is not green; gives the exit status, 0 if all were measured."""
    rows = gain.measurable(found.rows)
    if not rows:
        print("--measure: no row has a setting whose speedup can be measured", file=sys.stderr)
        return 0
    is_url = target is not None and target.startswith("nfs://")
    directory = None if is_url else options.directory or Path(target or ".")
    if directory is not None and not directory.is_dir():
        raise TargetError(
            f"--measure needs a directory on the target for its data file; {directory} is none: --directory DIR"
        )
    load = gain.DoctorLoad(directory, options.size, options.runtime, options.runs, options.bs)
    print(gain.plan_text(rows, load), file=sys.stderr)
    for number, row in enumerate(rows, 1):
        out = options.out if len(rows) == 1 else options.out / f"{number}-{row.check}"
        one = gain.search(row, load, out) if row.setting and row.setting.candidates else gain.measure(row, load, out)
        print(one.text)
        last = one.gains[-1] if isinstance(one, gain.BestSetting) else one
        if undone := status(last.result):
            return undone
    return 0

"""The command that removes what earlier runs left on a target."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from iocurve.cli.common import Flag, TargetText
from iocurve.cli.exits import EXIT_INCOMPLETE
from iocurve.foundation.errors import Diagnostic, DialectError
from iocurve.foundation.units import counted, format_bytes
from iocurve.measure.run_files import remove_tree
from iocurve.targets import opened_target
from iocurve.targets import target as targets
from iocurve.targets.places import Leftover, Manifest, Place, described, leftover, manifests
from iocurve.targets.target import NewDiskTarget, VolumeTarget


def remove_leftovers(target: TargetText, /, *, yes: Flag = False, kept: Flag = False) -> int:
    """Remove the files that interrupted runs left on a target.

    A run names its files in a manifest beside them. Only files that a manifest names are removed, and only while they
    are still the run's.

    Parameters
    ----------
    target
        A directory, nfs://host/export or disk:NAME?path=DIR.
    yes
        Remove without asking.
    kept
        Remove also what runs kept on purpose (--keep-data).
    """
    place = _place(str(target))
    found, is_done = _found(place, kept=kept)
    amount, size = _amount(found), sum(file.bytes for one in found for file in one.files)
    if not found:
        print("no earlier run left files here" if is_done else "nothing can be removed")
    elif yes or _agreed(f"Remove {amount} ({format_bytes(size)})?"):
        for one in found:
            for tree in one.manifest.trees:
                remove_tree(place, tree)
            own = [] if one.strange else [one.manifest.name]
            place.remove([*(file.name for file in one.files), *own])
        print(f"removed {amount}")
    else:
        print("nothing is removed")
        is_done = False
    return 0 if is_done else EXIT_INCOMPLETE


def _place(text: str) -> Place:
    parsed = targets.parse(text)
    if not isinstance(parsed, VolumeTarget | NewDiskTarget):
        with opened_target.opened(parsed) as opened:
            if (place := opened.place()) is not None:
                return place
    raise DialectError(
        [Diagnostic(f"{text}: runs leave files in directories, NFS exports and disk:NAME?path=DIR only")]
    )


def _found(place: Place, *, kept: bool) -> tuple[list[Leftover], bool]:
    """Prints what can be removed and what cannot. Returns False if something cannot."""
    found, is_done = [], True
    for manifest in manifests(place):
        if not isinstance(manifest, Manifest):
            print(f"iocurve: {manifest}", file=sys.stderr)
            is_done = False
        elif manifest.is_running:
            print(f"{described([manifest])}: in use by process {manifest.pid}, which still runs")
        elif manifest.kept and not kept:
            print(f"{described([manifest])}: kept on purpose; --kept removes them, too")
        else:
            one = leftover(place, manifest)
            print(described([manifest]))
            for name in (*(file.name for file in one.files), *(f"{tree}/" for tree in one.manifest.trees)):
                print(f"  {name}")
            for name in one.strange:
                print(f"iocurve: {name} is not the file that the run made; it stays", file=sys.stderr)
            is_done = is_done and not one.strange
            found.append(one)
    return found, is_done


def _amount(found: Sequence[Leftover]) -> str:
    """``4 files and 1 directory tree``."""
    files, roots = (sum(len(one.files) for one in found), sum(len(one.manifest.trees) for one in found))
    return counted(files, "file") + (f" and {counted(roots, 'directory tree')}" if roots else "")


def _agreed(question: str) -> bool:
    """Asks where someone can answer."""
    if not sys.stdin or not sys.stdin.isatty():
        print(f"{question} Say so with --yes.")
        return False
    return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")

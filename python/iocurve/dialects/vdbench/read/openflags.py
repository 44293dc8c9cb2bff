"""Reads ``openflags=``, with the meaning vdbench gives them on Linux."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from iocurve.engine.plan import Durability
from iocurve.errors import Diagnostic, Where
from iocurve.job.model import PlanNote

_DSYNC, _SYNC, _DIRECT = 0x1000, 0x101000, 0x4000
"""Flag bits of open(2) on Linux x86."""


@dataclass(frozen=True)
class Opening:
    """Open flags of a file, and its flush at the end."""

    direct: bool
    durability: Durability
    flushed: bool
    """True if the file is flushed (fsync) at the end."""


def opening(flags: Sequence[str], where: Where, errors: list[Diagnostic], notes: list[PlanNote]) -> Opening:
    """Combines the flags. On Linux vdbench uses the same bit for o_sync, o_dsync and o_rsync."""
    bits, flushed = 0, False
    for flag in flags:
        lower = flag.lower()
        if lower in ("o_direct", "directio"):
            bits |= _DIRECT
        elif lower in ("o_sync", "o_dsync", "o_rsync"):
            bits |= _DSYNC
            if lower == "o_sync":
                notes.append(PlanNote("o_sync", "o_sync opens files with O_DSYNC, as vdbench does on Linux", where))
        elif lower == "fsync":
            flushed = True
        elif lower in ("directio_off", "clear_cache"):
            notes.append(PlanNote("no_effect", f"openflags={flag} has no effect: it applies to Solaris only", where))
        elif lower.startswith("0x"):
            bits |= _hexadecimal(lower, where, errors)
        else:
            known = "use o_direct, directio, o_dsync, o_rsync, o_sync, fsync or 0x…"
            errors.append(Diagnostic(f"openflags={flag[:40]} is not supported on Linux", where, known))
    durability: Durability = "file_sync" if bits & _SYNC == _SYNC else "data_sync" if bits & _DSYNC else "none"
    return Opening(bool(bits & _DIRECT), durability, flushed)


def _hexadecimal(word: str, where: Where, errors: list[Diagnostic]) -> int:
    try:
        bits = int(word, 16)
    except ValueError:
        errors.append(Diagnostic(f"openflags={word[:40]} is not a hexadecimal number", where))
        return 0
    if bits & ~(_SYNC | _DIRECT):
        text = f"openflags={word[:40]} has bits other than O_DIRECT (0x4000), O_DSYNC (0x1000) and O_SYNC (0x101000)"
        errors.append(Diagnostic(text, where))
    return bits & (_SYNC | _DIRECT)

"""Doctor's checks as data (``checks.toml``), each with reason, source and constant remedy, and the rows they give."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Literal

import msgspec

from iocurve.advice.doctor.host import ClientMount
from iocurve.foundation.structs import Struct, read_bundled

State = Literal["green", "yellow", "red"]
WORST_FIRST: tuple[State, ...] = ("red", "yellow", "green")


class TuningCheck(msgspec.Struct, frozen=True):
    """One thing that doctor looks at."""

    name: str
    """``nfs.read_ahead``: the part of the machine, and the setting."""
    title: str
    rule: str
    """When its row is green, yellow or red."""
    why: str
    source: str
    fix: str = ""
    """The fix where it is the same on all subjects; else the judgement has it, as with ``undo``."""
    undo: str = "none needed"


class TunedSetting(Struct):
    """A setting whose gain can be measured while a target is in use."""

    now: str
    wanted: str
    load: str
    """The load that shows the gain, in fio's words."""
    path: str | None = None
    """The file in /proc or /sys that holds it, without the leading slash. None: a mount takes it when it is made."""
    candidates: tuple[str, ...] = ()
    """Values among which --measure searches the best; measured where the row is green, too."""
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
    fix: str = ""
    """The fix if the state is not green; ``AGAIN`` and ``OPTIONS_FILE`` in it stand for commands of all rows. Empty:
    that of the check, as with ``undo``."""
    undo: str = ""
    setting: TunedSetting | None = None
    again: tuple[tuple[ClientMount, str], ...] = ()
    """The mounts that the fix mounts again, each with the options that it adds."""


AGAIN = "{again}"
"""In a fix: the commands that mount again with the options of all rows, so that no fix undoes another."""
OPTIONS_FILE = "{options}"
"""In a fix: the command that writes the file of module options with those of all rows."""


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
                fix=None if is_good else judged.fix or check.fix,
                undo=None if is_good else judged.undo or check.undo,
                setting=judged.setting if not is_good or (judged.setting and judged.setting.candidates) else None,
            )
        )
    return Diagnosis(
        subject=subject,
        rows=tuple(row for each in rows.values() for row in each),
        unchecked={name: why for name, why in reasons.items() if not rows[name]},
    )


CHECKS = {name: TuningCheck(name, **texts) for name, texts in read_bundled(Path(__file__).parent, "checks").items()}
"""All checks by name, in the order of the rows."""

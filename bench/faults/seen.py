"""Findings of a row: how the run ended, what it left, and each expectation that it missed."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.faults.victims import Ended, VolumeProcess

REPORT = ("result.json", "report.html", "points.csv")


class CannotRunError(Exception):
    """This machine, or this user, cannot break what the row breaks; the text says why."""


@dataclass
class Seen:
    """Findings of one row."""

    end: str
    files_left: str = "none"
    data_lost: str = "none"
    faults: list[str] = field(default_factory=list)
    """Expectations that the run missed."""
    not_run: str = ""
    """The reason, if the row could not be run."""

    @classmethod
    def of(cls, ended: Ended, files: Path) -> Seen:
        """The end of a client, and what is left in the directory of the target."""
        seen = cls(f"exit {ended.status} after {ended.seconds:.0f} s", files_left=", ".join(left_in(files)) or "none")
        seen.expect(not ended.has_stack_trace, "a stack trace")
        return seen

    def expect(self, holds: bool, otherwise: str) -> None:
        """Notes a fault unless it holds."""
        if not holds:
            self.faults.append(otherwise)

    def expect_success(self, ended: Ended) -> None:
        """Notes a fault unless the client ended with 0."""
        self.expect(ended.status == 0, f"exit {ended.status}: {ended.last_line}")

    def expect_error(self, ended: Ended, *names: str) -> None:
        """Notes a fault unless the client ended with an error, of which stderr has one of these texts."""
        named = not names or any(name in ended.error for name in names)
        self.expect(ended.status not in (0, 124) and named, f"exit {ended.status}: {ended.last_line}")

    def expect_report(self, directory: Path, ended: Ended, report: tuple[str, ...] = REPORT) -> None:
        """Notes a fault unless the report is there, with at least one point."""
        for name in report:
            self.expect((directory / "report" / name).exists(), f"{name} is missing")
        points = points_of(directory / "report" / "result.json")
        self.end += f"; {len(points)} points kept"
        self.expect(len(points) > 0, f"no point was kept: {ended.last_line}")


def left_in(files: Path) -> list[str]:
    """Names that are left on the target; a job's own data file belongs there, as in fio."""
    known = ("data", "lost+found")
    return sorted(path.name for path in files.iterdir() if not path.name.startswith(".") and path.name not in known)


def left_on(volume: VolumeProcess) -> list[str]:
    """Names that are left on a volume."""
    return left_in(volume.files)


def job_of(directory: Path) -> dict[str, Any] | None:
    """The only job in the output of fio."""
    try:
        found: dict[str, Any] = json.loads((directory / "result.json").read_text())["jobs"][0]
    except (OSError, ValueError, LookupError):
        return None
    return found


def points_of(result: Path) -> list[Any]:
    """The points of a result; none while there is no result."""
    try:
        return list(json.loads(result.read_text()).get("points", []))
    except (OSError, ValueError):
        return []


def fault_log(directory: Path) -> list[dict[str, Any]]:
    """The faults that a volume has injected."""
    return [json.loads(line) for line in (directory / "log").read_text().splitlines()]

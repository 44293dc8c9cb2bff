"""What every dialect prepares before a run: what keeps it from running, and what is to be made first."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from iocurve.errors import Mistake, PlanError, TargetError
from iocurve.job.model import Note


@dataclass(frozen=True)
class Ready:
    """What was written, understood and looked at."""

    notes: tuple[Note, ...]
    obstacles: tuple[Mistake, ...]
    """What keeps the plans from running here as things are."""
    directories: tuple[str, ...]
    """To be made before the run, as the tools do: file names lead into them."""
    out: Path | None
    """Directory for result.json and the report (--out, iocurve's own)."""

    def require_runnable(self) -> None:
        """Raises ``PlanError`` where something keeps a plan from running here."""
        if self.obstacles:
            raise PlanError(self.obstacles)

    def make_directories(self) -> None:
        """Makes the directories that file names lead into. Raises ``TargetError``."""
        for directory in self.directories:
            try:
                Path(directory).mkdir(mode=0o700, parents=True, exist_ok=True)
            except OSError as error:
                raise TargetError(f"directory {directory} cannot be made: {error.strerror}") from None

"""What a dialect is: it reads another tool's command line, and answers in that tool's form.

A dialect prepares plans. Whoever carries them out knows nothing of the words they were written in: it prints the notes,
runs what ``Prepared.measure`` asks for, and gives the result to ``Prepared.answer``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from iocurve.engine.outcome import Live, Outcome
from iocurve.engine.plan import Plan
from iocurve.errors import Mistake, PlanError, TargetError
from iocurve.job.model import Job, PlanNote
from iocurve.job.resolve import Machine
from iocurve.result.document import Result

RunPlan = Callable[[Plan, Callable[[Live], bool]], Outcome]
"""Runs one plan to its end; the second argument is called with its state, and says whether that is enough."""


@dataclass(frozen=True)
class TimedJob:
    """A job, and the interval that its plan reports at."""

    job: Job
    interval_ns: int


@dataclass(frozen=True, kw_only=True)
class Prepared(ABC):
    """Everything that a run, an explanation and an answer in the tool's form need."""

    notes: tuple[PlanNote, ...]
    obstacles: tuple[Mistake, ...] = ()
    """What keeps the plans from running on this machine as it is now."""
    directories: tuple[str, ...] = ()
    """To be made before the run, as the tools do: file names lead into them."""
    out: Path | None = None
    """Directory for result.json and the report; None where none is wanted."""
    machine: Machine

    @property
    @abstractmethod
    def plans(self) -> Sequence[Plan]:
        """What runs, one after another; of runs that depend on earlier ones the first."""

    @abstractmethod
    def explain(self) -> str:
        """What would run, in words. Raises ``PlanError``."""

    @abstractmethod
    def answer(self, result: Result) -> Result:
        """Answers as the tool does, to stdout and files; the result comes back with what there is to note about that.

        Raises ``TargetError`` where a file cannot be written.
        """

    @abstractmethod
    def jobs(self) -> list[TimedJob]:
        """Jobs that make the same plans. Raises ``PlanError`` where no job can say what runs."""

    @property
    def source(self) -> str:
        """The command line, for the first line of a job file that is made of it."""
        return ""

    @property
    def shows_progress(self) -> bool:
        """Whether a live view belongs to the run; not where the dialect prints its own."""
        return True

    @property
    def answers_from_result(self) -> bool:
        """Whether the answer is made of all points; not where the dialect has answered each as it ran."""
        return True

    def printed(self) -> str | None:
        """The whole answer where nothing is to be run; None where something is."""
        return None

    def outputs(self) -> Sequence[Path]:
        """Files that the answer goes to, which must be writable before the run."""
        return ()

    def checked(self) -> tuple[Sequence[PlanNote], Sequence[Mistake]]:
        """All notes and obstacles, those that take a closer look included. Raises ``PlanError``."""
        return self.notes, self.obstacles

    def measure(self, run: RunPlan) -> None:
        """Runs the plans; one that does not finish is the last."""
        for plan in self.plans:
            if run(plan, lambda _: False).state != "finished":
                return

    def require_runnable(self) -> Sequence[PlanNote]:
        """All notes. Raises ``PlanError`` where something keeps a plan from running here."""
        notes, obstacles = self.checked()
        if obstacles:
            raise PlanError(obstacles)
        return notes

    def make_directories(self) -> None:
        """Makes the directories that file names lead into. Raises ``TargetError``."""
        for directory in self.directories:
            try:
                Path(directory).mkdir(mode=0o700, parents=True, exist_ok=True)
            except OSError as error:
                raise TargetError(f"directory {directory} cannot be made: {error.strerror}") from None


class Prepare(Protocol):
    """Reads a command line (without the tool's name) and the files it names.

    Without ``cwd``, ``environment`` and ``machine`` they are those of this process.
    Raises ``DialectError`` with every mistake in what was written, ``PlanError`` where no plan can be made of it.
    """

    def __call__(
        self,
        arguments: Sequence[str],
        *,
        cwd: Path | None = None,
        environment: Mapping[str, str] | None = None,
        machine: Machine | None = None,
    ) -> Prepared:
        """Reads it."""


@dataclass(frozen=True)
class Dialect:
    """A dialect as the command line knows it."""

    name: str
    """Of the tool, and of the subcommand that runs it."""
    prepare: Prepare
    question: Callable[[Sequence[str]], str | None]
    """The answer where a command line only asks, for help or a version; None where it is to be prepared.

    Raises ``DialectError`` where it asks for what is not there.
    """

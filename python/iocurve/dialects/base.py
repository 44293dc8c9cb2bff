"""The interface of a dialect: it reads another tool's command line and writes that tool's output.

A dialect prepares plans. Its caller (``iocurve.measure.jobs``) knows none of the tool's options: it prints the notes,
calls ``Prepared.measure`` to run the plans, and passes the result to ``Prepared.write_output``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from textwrap import shorten
from typing import Protocol, TypeVar

from iocurve.engine.outcome import Live, Outcome
from iocurve.engine.plan import Plan
from iocurve.errors import COMMAND_LINE, Diagnostic, DialectError, PlanError, TargetError
from iocurve.job.model import Job, PlanNote
from iocurve.job.resolve import Machine
from iocurve.result.document import Result

RunPlan = Callable[[Plan, Callable[[Live], bool]], Outcome]
"""Runs one plan to its end. The second argument is called with the live state; the run stops when it returns True."""


CLIENTS_MAX = 4096
"""Most load clients of a cluster."""

SHARED_HELP = (
    ("--out", "DIR", "write result.json, report.html and points.csv to DIR"),
    ("--fail-if", "EXPR", "exit with status 4 if it holds ('p99 > 2ms'), 5 if that cannot be told;"),
    ("", "", "--junit{0}FILE and --markdown{0}FILE write the checks: docs/howto-pipeline.md"),
    ("--metrics", "PORT", "serve OpenMetrics while it runs; HOST:PORT serves other machines"),
    ("--hosts", "LIST", "run on these hosts, over ssh: vm1,vm2 or vm[1-12] or a file;"),
    ("", "", "--ssh{0}PROGRAM, --tls and --allow-missing: docs/howto-many-machines.md"),
)
"""Options of iocurve that every dialect has: name, value, description."""

TEXT_BYTES_MAX = 2 << 20
"""Largest job file or parameter file, which is read within a second or two."""


def read_job_file(path: Path, encoding: str, errors: str) -> str:
    """Reads a job file. Raises ``OSError``, and ``ValueError`` if it is too large or the path is no file name."""
    with path.open("rb") as file:
        data = file.read(TEXT_BYTES_MAX + 1)
    if len(data) > TEXT_BYTES_MAX:
        raise ValueError(f"it is larger than {TEXT_BYTES_MAX >> 20} MiB")
    return data.decode(encoding, errors).replace("\r\n", "\n").replace("\r", "\n")


TITLE_LENGTH = 100
"""Most characters of a command line in a title."""


class AddedWord(str):
    """A word for hosts on a tool's command line, which the user did not type."""

    __slots__ = ()


def typed(arguments: Sequence[str]) -> tuple[str, ...]:
    """The words that the user typed, for titles and for output that shows the command line."""
    return tuple(word for word in arguments if not isinstance(word, AddedWord))


def command_title(command: str) -> str:
    """Title of a report that a command line made: the command line, shortened."""
    return shorten(command, TITLE_LENGTH, placeholder=" …")


def shared_help(column: int, mark: str = " ") -> str:
    """Help of the options that every dialect has: descriptions start in ``column``, ``mark`` is before a value."""
    lines = ((f"  {name}{mark if name else ''}{value}", text.format(mark)) for name, value, text in SHARED_HELP)
    return "\n".join(f"{option:<{column}}{text}" for option, text in lines)


@dataclass(frozen=True)
class ClusterRequest:
    """The machines of a cluster that a command line selects."""

    address: str | None = None
    """HOST:PORT of the head; None or ``auto``: the cluster that this machine belongs to."""
    names: tuple[str, ...] = ()
    """Names or addresses of the machines, in the order of the clients; empty: any."""
    count: int | None = None
    """Number of machines if ``names`` is empty; None: all."""


@dataclass(frozen=True)
class TimedJob:
    """A job and the reporting interval of its plan."""

    job: Job
    interval_ns: int


@dataclass(frozen=True, kw_only=True)
class Prepared(ABC):
    """A command line that was read: holds everything to run it, to explain it and to write the tool's output."""

    notes: tuple[PlanNote, ...]
    obstacles: tuple[Diagnostic, ...] = ()
    """Reasons why the plans cannot run on this machine."""
    directories: tuple[str, ...] = ()
    """Directories of the target files, to be created before the run, as the tools do."""
    out: Path | None = None
    """Directory for result.json and the report; None: neither is written."""
    machine: Machine
    cluster: ClusterRequest | None = None
    """The machines that run the plans at the same instant; None: this machine."""

    def client_path(self, path: str, client: int) -> str:
        """The path on a client for a path of a plan: the same, unless the tool gives each client separate files."""
        del client
        return path

    def runs_on(self, group: int, worker: int, client: int) -> bool:
        """True if a client runs this worker of the plan: each does, unless the tool selects its clients."""
        del group, worker, client
        return True

    @property
    def places_workers(self) -> bool:
        """True if the plans say which client runs each worker; False if every client runs the whole plan."""
        return False

    @property
    @abstractmethod
    def plans(self) -> Sequence[Plan]:
        """The plans in the order they run. If a run depends on the results before it, only the first plan."""

    @abstractmethod
    def explain(self) -> str:
        """Describes in words what would run. Raises ``PlanError``."""

    @abstractmethod
    def write_output(self, result: Result) -> Result:
        """Writes the tool's output to stdout and files. Returns the result, with notes about that output added.

        Raises ``TargetError`` if a file cannot be written.
        """

    @abstractmethod
    def jobs(self) -> list[TimedJob]:
        """Jobs that resolve to the same plans. Raises ``PlanError`` if a job file cannot express what runs."""

    @property
    def source(self) -> str:
        """The command line, for the first line of the job file converted from it."""
        return ""

    @property
    def title(self) -> str:
        """Title of the report; empty: the name of the first plan."""
        return ""

    @property
    def shows_progress(self) -> bool:
        """True if a live view accompanies the run; False if the dialect prints its own progress."""
        return True

    @property
    def writes_output_at_end(self) -> bool:
        """True if the output is made from all points of the result; False if it is written while the points are run."""
        return True

    @property
    def needs_intervals(self) -> bool:
        """True if the output needs every interval of each worker, for as long as the run takes."""
        return True

    def output_without_run(self) -> str | None:
        """The complete output of a command line that runs nothing; None if there is something to run."""
        return None

    def output_paths(self) -> Sequence[Path]:
        """Files that the output goes to. They must be writable before the run starts."""
        return ()

    def check(self) -> tuple[Sequence[PlanNote], Sequence[Diagnostic]]:
        """Returns all notes and obstacles, including those that take a slower check. Raises ``PlanError``."""
        return self.notes, self.obstacles

    def measure(self, run: RunPlan) -> None:
        """Runs the plans in order, and stops after the first that does not finish."""
        for plan in self.plans:
            if run(plan, lambda _: False).state != "finished":
                return

    def require_runnable(self) -> Sequence[PlanNote]:
        """Returns all notes. Raises ``PlanError`` if a plan cannot run on this machine."""
        notes, obstacles = self.check()
        if obstacles:
            raise PlanError(obstacles)
        return notes

    def make_directories(self) -> None:
        """Creates ``directories``. Raises ``TargetError``."""
        for directory in self.directories:
            try:
                Path(directory).mkdir(mode=0o700, parents=True, exist_ok=True)
            except OSError as error:
                raise TargetError(f"directory {directory} cannot be created: {error.strerror}") from None


class Prepare(Protocol):
    """Reads a command line (without the tool's name) and the files it names.

    ``cwd``, ``environment`` and ``machine`` default to those of this process.
    Raises ``DialectError`` with every error in the text, ``PlanError`` if the text cannot be turned into a plan.
    """

    def __call__(
        self,
        arguments: Sequence[str],
        *,
        cwd: Path | None = None,
        environment: Mapping[str, str] | None = None,
        machine: Machine | None = None,
    ) -> Prepared:
        """Reads a command line; see the class."""


@dataclass(frozen=True)
class Dialect:
    """A dialect as the registry and the command line know it."""

    name: str
    """Name of the tool and of the subcommand that runs it."""
    prepare: Prepare
    information: Callable[[Sequence[str]], str | None]
    """Text for a command line that only asks for help or a version; None for one that is to be prepared.

    Raises ``DialectError`` if the command line asks about an unknown option or engine.
    """
    on_hosts: Callable[[Sequence[str], Sequence[str]], list[str]] = lambda _hosts, _arguments: []
    """The tool's own words for a run on these hosts; none where the command line or its files name the hosts."""


_Said = TypeVar("_Said", Diagnostic, PlanNote)


@contextmanager
def numbered(dialect: Dialect, numbers: Sequence[int]) -> Iterator[Dialect]:
    """The dialect, whose errors and notes get the numbers of the whole command line; 0 is a word that is not there."""

    def moved(said: _Said) -> _Said:
        where = said.where
        if where is None or where.source != COMMAND_LINE or not 1 <= where.line <= len(numbers):
            return said
        number = numbers[where.line - 1]
        return replace(said, where=replace(where, line=number) if number else None)

    def prepare(
        arguments: Sequence[str],
        *,
        cwd: Path | None = None,
        environment: Mapping[str, str] | None = None,
        machine: Machine | None = None,
    ) -> Prepared:
        prepared = dialect.prepare(arguments, cwd=cwd, environment=environment, machine=machine)
        return replace(prepared, notes=tuple(map(moved, prepared.notes)))

    try:
        yield replace(dialect, prepare=prepare)
    except DialectError as error:
        raise DialectError(list(map(moved, error.errors))) from None

"""The interface of a dialect: it reads another tool's command line and writes that tool's output.

A dialect returns a ``ParsedCommand``: steps, and functions that write the tool's output. Its callers
(``iocurve.measure.jobs``, ``ab``, ``programs``) know none of the tool's options: they walk the steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from textwrap import shorten
from typing import Protocol, TypedDict, TypeVar, Unpack

import msgspec
from msgspec.structs import replace

from iocurve.engine.outcome import Live, Outcome
from iocurve.engine.plan import Plan
from iocurve.foundation.errors import COMMAND_LINE, Diagnostic, DialectError, PlanError, TargetError, Where
from iocurve.job.model import Job, PlanNote
from iocurve.job.resolve import Machine
from iocurve.result.document import Axis, Result

CLIENTS_MAX = 4096
"""Most agents of a cluster."""

TEXT_BYTES_MAX = 2 << 20
"""Largest job file or parameter file, which is read within a second or two."""


def read_job_file(path: Path, encoding: str, errors: str) -> str:
    """Reads a job file. Raises ``OSError``, and ``ValueError`` if it is too large or the path is no file name."""
    with path.open("rb") as file:
        data = file.read(TEXT_BYTES_MAX + 1)
    if len(data) > TEXT_BYTES_MAX:
        raise ValueError(f"it is larger than {TEXT_BYTES_MAX >> 20} MiB")
    return data.decode(encoding, errors).replace("\r\n", "\n").replace("\r", "\n")


def printable(text: str, most: int | None = None) -> str:
    """One line of text: what cannot be printed is ``?``, and a text of more than ``most`` letters is cut short."""
    clean = "".join(letter if letter.isprintable() else "?" for letter in text)
    return clean if most is None or len(clean) <= most else clean[: most - 3] + "…"


DASHES = "\u2010\u2011\u2012\u2013\u2014\u2212"
"""Dashes that word processors put in place of a hyphen."""


def typographic_dash(word: str, hyphens: str = "-") -> str | None:
    """The error of a word that begins with such a dash, where options begin with ``hyphens``; None without one."""
    dash = word[:1]
    return f"this begins with the dash '{dash}'; options begin with '{hyphens}'" if dash and dash in DASHES else None


def is_predictable(plan: Plan) -> bool:
    """True if a service level tells the rate of a part of the plan."""
    # Jobs that run need nothing of this.
    from iocurve.job.explain import unpredictable

    return any(not any(any(unpredictable(worker)) for worker in group.workers) for group in plan.groups)


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


class ClusterRequest(msgspec.Struct, frozen=True):
    """The machines of a cluster that a command line selects."""

    address: str | None = None
    """HOST:PORT of the head; None or ``auto``: the cluster that this machine belongs to."""
    names: tuple[str, ...] = ()
    """Names or addresses of the machines, in the order of the clients; empty: any."""
    count: int | None = None
    """Number of machines if ``names`` is empty; None: all."""


class PathMapping(msgspec.Struct, frozen=True):
    """``FROM=TO`` of an option of iocurve that maps names of another machine: --map-lun, --map-host, --map-target."""

    origin: str
    goal: str
    where: Where

    @classmethod
    def of(cls, text: str, where: Where) -> PathMapping | None:
        """Reads ``FROM=TO``; None if one of them is missing."""
        origin, _, goal = text.partition("=")
        return cls(origin, goal, where) if origin and goal else None


Measured = Mapping[int, Outcome]
"""Outcomes of earlier steps that are ``kept``, by number of the step."""


def nothing() -> None:
    """Does nothing."""


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One plan of a command line, and one point of its result; a point for each phase where it names phases."""

    name: str
    """Name of the plan."""
    title: str = ""
    """Name of the point. Default: the name of the plan."""
    phases: tuple[str, ...] = ()
    """Names of the groups of the plan, each a point; empty where the tool reports all of them as one run."""
    axes: Mapping[str, Axis] | None = None
    """Parameters in which the tool varies the point, in addition to those of its plan; None: it does not vary it."""
    plan: Callable[[Measured], Plan | None]
    """The plan, from what earlier steps measured; None leaves the step out.

    From nothing it is the plan as far as it is known before a run. Raises ``PlanError`` or ``RunError``.
    """
    job: Callable[[], Job] | None = None
    """Makes the job of a job file that resolves to the same plan. Default: the job of a later step makes it."""
    kept: bool = False
    """Later steps depend on the outcome."""
    is_timed_phase: bool = False
    """The tool reports each step and no time between them: what passes there belongs to no row."""
    optional: bool = False
    """True if the step may be left out, after what earlier steps measured."""
    pause_ns: int = 0
    """Pause before the step, unless it is the first one."""
    before: Callable[[], None] = nothing
    """Called before the plan is made. Raises ``TargetError``."""
    enough: Callable[[], Callable[[Live], bool]] = lambda: lambda _: False
    """Makes the function that is called with the live state; a run stops when it returns True."""
    after: Callable[[Outcome], None] = lambda _: None
    """Called after a run that finished. Raises ``TargetError``."""
    follow: Callable[[Plan], Callable[[Live], None]] = lambda _: lambda _: None
    """Called before the run: writes what the tool prints then; gives the function that writes during the run."""
    answer: Callable[[Outcome], None] = lambda _: None
    """Writes what the tool prints after a step."""
    goes_on: Callable[[Outcome], bool] = lambda _: True
    """False ends the command after this step. Raises ``TargetError`` or ``RunError``."""


class Replicas(msgspec.Struct, frozen=True):
    """Plans that name no client are run by each: every worker, on the same paths by default."""

    path: Callable[[str, int], str] = lambda path, _client: path
    """The path on a client for a path of a plan."""
    runs_on: Callable[[int, int, int], bool] = lambda _group, _worker, _client: True
    """True if a client runs the worker of this number in the group of this number."""


class Needs(msgspec.Struct, frozen=True, kw_only=True):
    """Requirements of a command line."""

    directories: tuple[str, ...] = ()
    """Directories of the target files, to be created before the run, as the tools do."""
    output_paths: tuple[Path, ...] = ()
    """Files that the output goes to. They must be writable before the run starts."""
    cluster: ClusterRequest | None = None
    """The machines that run the plans at the same instant; None: this machine."""
    replicas: Replicas | None = Replicas()
    """None: the plans say which client runs each worker."""
    intervals: bool = True
    """True if the output needs every interval of each worker, for as long as the run takes."""
    operations: bool = True
    """True if a run in which nothing completed is an error; False where the tool ends well after one."""
    points: bool = True
    """True if ``finish`` needs the points; False where the output is written after each step."""
    progress: bool = True
    """True if a live view accompanies the run; False if the tool prints its own progress."""

    def make_directories(self) -> None:
        """Creates ``directories``. Raises ``TargetError``."""
        for directory in self.directories:
            try:
                Path(directory).mkdir(mode=0o700, parents=True, exist_ok=True)
            except OSError as error:
                raise TargetError(f"directory {directory} cannot be created: {error.strerror}") from None


class ParsedCommand(msgspec.Struct, frozen=True, kw_only=True):
    """A command line that was read: steps, and functions that write the tool's output."""

    title: str
    """Title of the report."""
    source: str = ""
    """The command line, for the first line of the job file converted from it."""
    steps: Sequence[Step]
    """The plans in the order they run; of a tool that repeats all of them, those of the first round."""
    again: Sequence[Step] = ()
    """The steps of every round after the first."""
    rounds: int | None = 1
    """None: no limit."""
    seconds: float | None = None
    """No round starts later than this after the start of the first."""
    notes: tuple[PlanNote, ...] = ()
    obstacles: tuple[Diagnostic, ...] = ()
    """Reasons why the plans cannot run on this machine."""
    needs: Needs = Needs()
    out: Path | None = None
    """Directory for result.json and the report; None: neither is written."""
    explanation: Callable[[], str]
    """Describes in words what would run."""
    only_prints: str | None = None
    """The complete output of a command line that runs nothing; None if there is something to run."""
    no_job_file: Diagnostic | None = None
    """Why a job file cannot express what runs."""
    running: Callable[[], AbstractContextManager[None]] = nullcontext
    """Surrounds the steps, with or without output. Raises ``TargetError``."""
    writing: Callable[[Sequence[PlanNote]], AbstractContextManager[None]] = lambda _: nullcontext()
    """Surrounds steps whose output is written: opens files of output, and writes there how the steps ended."""
    finish: Callable[[Result], Result] = lambda result: result
    """Writes the rest of the output. Returns the result, with notes about that output added. Raises ``TargetError``."""

    @property
    def count(self) -> int | None:
        """Number of points in all rounds; None without a limit."""
        if self.rounds is None or self.seconds is not None:
            return None
        first, again = (sum(len(step.phases) or 1 for step in steps) for steps in (self.steps, self.again))
        return first + (self.rounds - 1) * again

    def plans(self) -> Iterator[Plan]:
        """The plans of the first round as far as they are known before a run, each made when it is taken.

        Raises ``PlanError``.
        """
        return (plan for step in self.steps if (plan := step.plan({})) is not None)

    def jobs(self) -> list[Job]:
        """Jobs that resolve to the same plans. Raises ``PlanError`` if a job file cannot express what runs."""
        if self.no_job_file:
            raise PlanError([self.no_job_file])
        return [step.job() for step in self.steps if step.job]

    def require_runnable(self) -> None:
        """Raises ``PlanError`` if a plan cannot run on this machine."""
        if self.obstacles:
            raise PlanError(self.obstacles)


class Workplace(TypedDict, total=False):
    """The place where a command line is read; what is absent or None is that of this process."""

    cwd: Path | None
    environment: Mapping[str, str] | None
    machine: Machine | None


class Prepare(Protocol):
    """Reads a command line (without the tool's name) and the files it names.

    Raises ``DialectError`` with every error in the text, ``PlanError`` if the text cannot be turned into a plan.
    """

    def __call__(self, arguments: Sequence[str], **place: Unpack[Workplace]) -> ParsedCommand:
        """Reads a command line; see the class."""


class Dialect(msgspec.Struct, frozen=True):
    """A dialect as the registry and the command line know it."""

    name: str
    """Name of the tool and of the subcommand that runs it."""
    prepare: Prepare
    information: Callable[[Sequence[str]], str | None] = lambda _: None
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

    def prepare(arguments: Sequence[str], **place: Unpack[Workplace]) -> ParsedCommand:
        prepared = dialect.prepare(arguments, **place)
        return replace(prepared, notes=tuple(map(moved, prepared.notes)))

    try:
        yield replace(dialect, prepare=prepare)
    except DialectError as error:
        raise DialectError(list(map(moved, error.errors))) from None

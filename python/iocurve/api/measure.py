"""Measures for programs: jobs, scenarios and searches, each a function that gives a ``Result``.

Ctrl-C ends a run in order: the result has what was measured, with the state ``interrupted``. To follow a run, to stop
it, or to await it, start the function with ``iocurve.start``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Literal, TypeAlias, TypedDict, TypeVar, Unpack

from msgspec.structs import replace

from iocurve.api.running import measured
from iocurve.foundation.errors import Diagnostic, DialectError, in_arguments
from iocurve.foundation.units import GIB, parse_bytes, parse_time_ns
from iocurve.measure import ab as turns
from iocurve.measure import programs
from iocurve.measure.jobs import require_no_overwrites
from iocurve.measure.machines import CONTEXT_MACHINES
from iocurve.measure.scenario import command as scenarios
from iocurve.measure.scenario import document as documents
from iocurve.measure.scenario import runner
from iocurve.measure.search import command as searches
from iocurve.measure.search.loads import Effort
from iocurve.result.document import Result
from iocurve.result.paired import MARGIN

Out: TypeAlias = Path | str | None
"""Directory for result.json, report.html and points.csv; None writes nothing."""
Size: TypeAlias = int | str
"""Bytes, or a text: ``4GiB``."""
T = TypeVar("T")


class ScenarioOptions(TypedDict, total=False):
    """Further arguments of ``scenario``."""

    full_speed: bool
    """Run the embedded target at the full speed of its service."""
    runs: int | None
    """Interleaved runs of each compared point, 1 to 100; default: the scenario's."""
    margin: float | None
    """Smallest difference between them that matters: 0.05 is 5 %; default: the scenario's."""
    retries: int
    """Times that a noisy point is measured again; default 3."""
    keep_data: bool
    """Keep the data files, for ``resume``."""
    resume: bool
    """Keep the points that the result in ``out`` has; measure the others."""
    confirm: bool
    """Run perturbation tests for bottlenecks that the points leave open, after the last of them; default True."""


class LoadOptions(TypedDict, total=False):
    """The load of ``ab`` on two targets."""

    workload: str
    """In fio's words; default ``rw=randread bs=4k``."""
    iodepth: int
    """Queue depth of each job; default 32."""
    numjobs: int
    """Default 1."""
    size: Size
    """Data set of each target; default 1 GiB."""
    runtime: str
    """Measured time of each run; default ``5s``."""
    ramp_time: str
    """Time before it that is not measured; default ``1s``."""


WORKLOAD = "rw=randread bs=4k"
ROUNDS_MAX = scenarios.ROUNDS_MAX
# ---- jobs


@in_arguments
def run(
    job: programs.JobLike,
    *,
    dialect: programs.DialectName | None = None,
    target: programs.TargetLike | None = None,
    out: Out = None,
    create: bool = False,
    overwrite: bool = False,
) -> Result:
    """Runs a job: the text or the path of a job file, a command line (``--name=a --rw=read …``), or a plan.

    ``dialect`` says whose job it is; by default iocurve's own where the file ends in ``.toml``, else fio's. ``target``
    moves the job there: files keep their names, without directories. ``create`` creates a target that is a missing
    file, ``overwrite`` allows writes to an existing one, and those of a job file (TOML) to files that exist. The tool's
    own output and logs are not written.
    Raises ``DialectError`` with every error in the job, ``PlanError`` if it cannot run here, and ``TargetError``,
    ``RunError`` or ``Interrupted`` when nothing could be measured.
    """
    if not isinstance(job, str | Path):
        if target is not None or dialect is not None:
            raise DialectError([Diagnostic("a plan has targets and no dialect; leave out target= and dialect=")])
        planned, machines = programs.of_plans([job]), CONTEXT_MACHINES.get()
        return measured(partial(programs.measure_command, "run", planned, machines=machines), out)
    dialect = dialect or ("iocurve" if str(job).endswith(".toml") else "fio")
    if target is None:
        if create:
            raise DialectError([Diagnostic("create=True creates a target; add target=, or leave it out")])
        command = programs.prepared(job, dialect)
        if dialect == "iocurve":
            require_no_overwrites(command, overwrite=overwrite)
        return measured(programs.as_written(programs.kind_of(dialect), command, CONTEXT_MACHINES.get()), out)
    # fio's --parse-only opens none of the files that the job names: they may not exist here.
    command = programs.prepared(job, dialect, ["--parse-only"] if dialect == "fio" else [])
    found, kind = programs.target_of(target, create=create), programs.kind_of(dialect)
    machines = CONTEXT_MACHINES.get()
    return measured(partial(programs.measured_on, found, kind, command, overwrite=overwrite, machines=machines), out)


# ---- scenarios


@in_arguments
def scenario(
    name: str | Path,
    *,
    target: programs.TargetLike | Mapping[str, programs.TargetLike] | None = None,
    form: Literal["short", "full"] | None = None,
    scale: float | None = None,
    points: Sequence[str] = (),
    out: Out = None,
    create: bool = False,
    overwrite: bool = False,
    **more: Unpack[ScenarioOptions],
) -> Result:
    """Runs a scenario: a name of ``iocurve scenario list``, such as ``envelope``, or a file.

    ``target`` is for all targets of the scenario, or gives each by its name; by default the embedded one is measured.
    ``form`` is ``full`` where a target is given, else ``short``; ``scale`` scales the data and the times of the full
    form down. ``points`` selects families (``random-4k*``) and values of axes (``read_percent=100,0``).
    ``ScenarioOptions`` has further arguments: ``resume=True`` does not measure again what ``out`` has.
    Raises ``DialectError``, ``PlanError``, and ``TargetError``, ``RunError`` or ``Interrupted`` when nothing could be
    measured.
    """
    if form not in (None, "short", "full"):
        raise DialectError([Diagnostic(f"form={form!r}: choose short or full")])
    if form and scale is not None:
        raise DialectError([Diagnostic("form and scale: choose one")])
    _require_fraction(scale=scale)
    _require_known(more, ScenarioOptions)
    _require_between(1, ROUNDS_MAX, runs=more.get("runs"))
    _require_at_least(0, retries=more.get("retries"))
    _require_fraction(margin=more.get("margin"))
    found = documents.load(str(name))
    request = scenarios.requested(
        found,
        programs.named_targets(found, target, create=create),
        quick=form == "short",
        full=form == "full",
        scale=scale,
        points=points,
        full_speed=more.get("full_speed", False),
        overwrite=overwrite,
        keep_data=more.get("keep_data", False),
    )
    request = replace(
        request.in_rounds(more.get("runs")),
        probe=request.probe and more.get("confirm", True),
        margin=more.get("margin"),
        repeats_max=more.get("retries", runner.REPEATS_MAX),
        machines=CONTEXT_MACHINES.get(),
    )
    if more.get("resume") and out is None:
        raise DialectError([Diagnostic("resume=True: name the directory of the earlier run by out=")])
    earlier = scenarios.earlier(request, Path(out)) if more.get("resume") and out is not None else None
    return measured(partial(runner.carry_out, request, earlier=earlier), out)


# ---- searches


@in_arguments
def knee(
    target: programs.TargetLike,
    *,
    workload: str = WORKLOAD,
    size: Size = GIB,
    iodepth_max: int = 4096,
    precision: float = 0.02,
    percent_of_capacity: float | None = None,
    out: Out = None,
    create: bool = False,
    overwrite: bool = False,
) -> Result:
    """Finds the smallest queue depth that reaches full throughput (the knee); ``Result.search`` has the findings.

    ``workload`` is in fio's words, ``size`` is that of the data set. Each point is measured until its 95 % interval is
    about ``precision`` of the mean. ``percent_of_capacity`` finds the depth for this share of the capacity instead.
    Raises ``DialectError``, ``PlanError``, and ``TargetError``, ``RunError`` or ``Interrupted`` when nothing could be
    measured.
    """
    _require_at_least(1, iodepth_max=iodepth_max)
    _require_percentage(percent_of_capacity=percent_of_capacity)
    question = _question(target, workload, size, precision, create=create, overwrite=overwrite)
    question = replace(question, iodepth_max=iodepth_max, percent_of_capacity=percent_of_capacity)
    return measured(searches.knee_search(question), out)


@in_arguments
def max_rate(
    target: programs.TargetLike,
    latency: str,
    *,
    percentile: float = 99.0,
    workload: str = WORKLOAD,
    size: Size = GIB,
    precision: float = 0.02,
    patience: str = "2m",
    out: Out = None,
    create: bool = False,
    overwrite: bool = False,
) -> Result:
    """Finds the highest rate at which a percentile of the response time meets ``latency`` (``2ms``).

    Open loop: the response time counts from the scheduled time of each request. The search ends after ``patience`` with
    the bracket that it has. The rest is as for ``knee``.
    """
    _require_percentage(percentile=percentile)
    limit_ns, patience_ns = _read("latency", latency, parse_time_ns), _read("patience", patience, parse_time_ns)
    _require_at_least(1, latency=limit_ns, patience=patience_ns)
    question = _question(target, workload, size, precision, create=create, overwrite=overwrite)
    question = replace(question, effort=replace(question.effort, patience_ns=patience_ns))
    return measured(searches.max_search(question, percentile, limit_ns), out)


@in_arguments
def curve(
    target: programs.TargetLike,
    *,
    steps: int = 10,
    workload: str = WORKLOAD,
    size: Size = GIB,
    precision: float = 0.02,
    out: Out = None,
    create: bool = False,
    overwrite: bool = False,
) -> Result:
    """Measures latency in even steps of load up to the target's maximum (open loop). The rest is as for ``knee``."""
    _require_between(1, 100, steps=steps)
    question = _question(target, workload, size, precision, create=create, overwrite=overwrite)
    return measured(searches.curve_search(question, steps), out)


def _question(
    target: programs.TargetLike, workload: str, size: Size, precision: float, *, create: bool, overwrite: bool
) -> searches.Question:
    _require_fraction(precision=precision)
    return searches.Question(
        target=programs.target_of(target, create=create),
        workload=workload,
        size_bytes=size if isinstance(size, int) else _read("size", size, parse_bytes),
        effort=Effort(precision=precision),
        overwrite=overwrite,
        machines=CONTEXT_MACHINES.get(),
    )


# ---- two in turns


@in_arguments
def ab(
    *commands: str,
    targets: Sequence[programs.TargetLike] = (),
    runs: int | None = None,
    margin: float = MARGIN,
    retries: int = runner.REPEATS_MAX,
    out: Out = None,
    create: bool = False,
    overwrite: bool = False,
    **load: Unpack[LoadOptions],
) -> Result:
    """Runs two command lines (``"fio a.fio"``), or one load on two ``targets``, in turns, as ``iocurve ab``.

    ``compare(result)`` compares them by their turns. Each runs ``runs`` times, 1 to 100, at least 3 for an interval, by
    default 5 to 20 times, until a difference of half the margin would be seen in 8 of 10 comparisons. A run that others
    disturb is measured again, ``retries`` times at most. ``margin`` is the smallest difference
    that matters. ``LoadOptions`` has the arguments of the load on targets. Raises ``DialectError``, ``PlanError``, and
    ``TargetError``, ``RunError`` or ``Interrupted`` when nothing could be measured.
    """
    if (len(commands), len(targets)) not in ((2, 0), (0, 2)):
        raise DialectError([Diagnostic("ab compares two commands, or two targets (targets=)")])
    _require_between(1, ROUNDS_MAX, runs=runs)
    _require_at_least(0, retries=retries)
    _require_fraction(margin=margin)
    _require_known(load, LoadOptions)
    if commands:
        if load:
            raise DialectError([Diagnostic(f"{next(iter(load))}= is for the load on two targets (targets=)")])
        return measured(turns.of_commands(commands, runs, margin, retries, overwrite=overwrite), out)
    named = [programs.target_of(target, create=create) for target in targets]
    request = turns.of_targets(named, _target_load(load), runs, overwrite=overwrite)
    request = replace(request, margin=margin, repeats_max=retries, machines=CONTEXT_MACHINES.get())
    return measured(partial(runner.carry_out, request), out)


def _target_load(load: LoadOptions) -> turns.TargetLoad:
    depth, numjobs, size = load.get("iodepth", 32), load.get("numjobs", 1), load.get("size", GIB)
    _require_at_least(1, iodepth=depth, numjobs=numjobs)
    return turns.TargetLoad(
        workload=load.get("workload", WORKLOAD),
        depth=depth,
        numjobs=numjobs,
        size_bytes=size if isinstance(size, int) else _read("size", size, parse_bytes),
        runtime_ns=_read("runtime", load.get("runtime", "5s"), parse_time_ns),
        ramp_ns=_read("ramp_time", load.get("ramp_time", "1s"), parse_time_ns),
    )


# ---- arguments


def _require_known(found: Mapping[str, object], known: type) -> None:
    for name in found.keys() - known.__annotations__.keys():
        raise TypeError(f"got an unexpected keyword argument '{name}'; there are {', '.join(known.__annotations__)}")


def _require(choice: str, is_right: Callable[[float], bool], **values: float | None) -> None:
    """Raises ``DialectError`` for the first value that was given and is not right."""
    for name, value in values.items():
        if value is not None and not is_right(value):
            raise DialectError([Diagnostic(f"{name}={value}: choose {choice}")])


def _require_fraction(**values: float | None) -> None:
    _require("a fraction above 0, at most 1", lambda value: 0 < value <= 1, **values)


def _require_between(least: int, most: int, **values: int | None) -> None:
    _require(f"{least} to {most}", lambda value: least <= value <= most, **values)


def _require_at_least(least: int, **values: int | None) -> None:
    _require(f"at least {least}", lambda value: value >= least, **values)


def _require_percentage(**values: float | None) -> None:
    _require("a number from 0 to 100", lambda value: 0 < value < 100, **values)


def _read(name: str, text: str, parse: Callable[[str], T]) -> T:
    try:
        return parse(text)
    except ValueError as error:
        raise DialectError([Diagnostic(f"{name}: {error}")]) from None

"""Measures for programs: jobs, scenarios and searches, each a function that gives a ``Result``.

Ctrl-C ends a run in order: the result has what was measured, with the state ``interrupted``. To follow a run, to stop
it, or to await it, start the function with ``iocurve.start``.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal, TypeAlias, TypeVar

from iocurve.api.running import measured
from iocurve.api.volume import Volume
from iocurve.dialects import registry
from iocurve.dialects.base import Dialect, Prepared
from iocurve.engine.plan import Plan
from iocurve.errors import Diagnostic, DialectError
from iocurve.measure import programs
from iocurve.measure.programs import Program
from iocurve.measure.scenario import command as scenarios
from iocurve.measure.scenario import document as documents
from iocurve.measure.scenario import runner
from iocurve.measure.search import command as searches
from iocurve.measure.search.loads import Effort
from iocurve.result.document import Result
from iocurve.targets import target as targets
from iocurve.units import GIB, parse_bytes, parse_time_ns

Out: TypeAlias = Path | str | None
"""Directory for result.json, report.html and points.csv; None writes nothing."""
TargetLike: TypeAlias = str | Path | Volume
"""A directory, a file, a device, ``nfs://host/export``, ``volume:PROFILE?quota=4TiB``, ``disk:NAME``, or a running
``Volume``."""
DialectName = Literal["iocurve", "fio", "vdbench", "diskspd"]
Size: TypeAlias = int | str
"""Bytes, or a text: ``4GiB``."""
T = TypeVar("T")

WORKLOAD = "rw=randread bs=4k"
FILE_ARGUMENTS: Mapping[DialectName, Callable[[str], list[str]]] = {
    "iocurve": lambda path: [path],
    "fio": lambda path: [path],
    "vdbench": lambda path: ["-f", path],
    "diskspd": lambda path: [f"-X{path}"],
}
"""The command line that runs a job file."""
JOB_TEXT = "job text"
"""The source in messages about a job that is in no file."""


# ---- jobs


def run(
    job: str | Path | Plan,
    *,
    dialect: DialectName | None = None,
    target: TargetLike | None = None,
    out: Out = None,
    create: bool = False,
    overwrite: bool = False,
) -> Result:
    """Runs a job: the text or the path of a job file, a command line (``--name=a --rw=read …``), or a plan.

    ``dialect`` says whose job it is; by default iocurve's own where the file ends in ``.toml``, else fio's. ``target``
    moves the job there: files keep their names, without directories. ``create`` creates a target that is a missing
    file, ``overwrite`` allows writes to an existing one. The tool's own output and logs are not written.
    Raises ``DialectError`` with every error in the job, ``PlanError`` if it cannot run here, and ``TargetError``,
    ``RunError`` or ``Interrupted`` when nothing could be measured.
    """
    if isinstance(job, Plan):
        if target is not None or dialect is not None:
            raise DialectError([Diagnostic("a plan has targets and no dialect; leave out target= and dialect=")])
        return measured(Program("run", (job,)).measure, out)
    dialect = dialect or ("iocurve" if str(job).endswith(".toml") else "fio")
    if target is None:
        prepared = _prepared(job, dialect)
        return measured(programs.as_written(_kind(dialect), prepared).measure, out)
    # fio's --parse-only opens none of the files that the job names: they may not exist here.
    prepared = _prepared(job, dialect, ["--parse-only"] if dialect == "fio" else [])
    found = target_of(target, create=create)
    return measured(partial(programs.measured_on, found, _kind(dialect), prepared, overwrite=overwrite), out)


def _kind(dialect: DialectName) -> str:
    return "run" if dialect == "iocurve" else dialect


def _prepared(job: str | Path, dialect: DialectName, options: Sequence[str] = ()) -> Prepared:
    known = _dialect(dialect)
    text = str(job)
    if isinstance(job, Path) or not ("\n" in text or text.startswith("-")):
        if dialect == "iocurve" and documents.is_scenario(Path(text)):
            raise DialectError([Diagnostic(f"{text} is a scenario; run it with iocurve.scenario")])
        return known.prepare([*options, *FILE_ARGUMENTS[dialect](text)])
    if "\n" not in text:
        try:
            words = shlex.split(text)
        except ValueError as error:
            raise DialectError([Diagnostic(f"{text}: {error}")]) from None
        if known.information(words) is not None:
            raise DialectError([Diagnostic(f"{text}: this runs nothing; ask on the command line: iocurve {dialect}")])
        return known.prepare([*options, *words])
    with TemporaryDirectory(prefix="iocurve-") as directory:
        path = Path(directory) / "job"
        # A lone surrogate is an error of the text, which its reader finds.
        path.write_text(text, encoding="utf-8", errors="surrogatepass")
        try:
            return known.prepare([*options, *FILE_ARGUMENTS[dialect](str(path))])
        except DialectError as error:
            raise DialectError([_in_text(one, str(path)) for one in error.errors]) from None


def _dialect(name: DialectName) -> Dialect:
    if name == "iocurve":
        # Loaded here, as the registry loads the others.
        from iocurve.dialects.native.command import DIALECT

        return DIALECT
    if name not in registry.REGISTRY:
        raise DialectError([Diagnostic(f"there is no dialect '{name}'; choose one of: {', '.join(FILE_ARGUMENTS)}")])
    return registry.load(name)


def _in_text(error: Diagnostic, path: str) -> Diagnostic:
    """The error without the name of the file that held the text."""
    where = error.where and replace(error.where, source=error.where.source.replace(path, JOB_TEXT))
    return replace(error, text=error.text.replace(path, JOB_TEXT), where=where)


# ---- scenarios


def scenario(
    name: str | Path,
    *,
    target: TargetLike | Mapping[str, TargetLike] | None = None,
    form: Literal["short", "full"] | None = None,
    scale: float | None = None,
    points: Sequence[str] = (),
    rounds: int | None = None,
    out: Out = None,
    create: bool = False,
    overwrite: bool = False,
    probe: bool = True,
) -> Result:
    """Runs a scenario: a name of ``iocurve scenario list``, such as ``envelope``, or a file.

    ``target`` is for all targets of the scenario, or gives each by its name; by default the embedded one is measured.
    ``form`` is ``full`` where a target is given, else ``short``; ``scale`` scales the data and the times of the full
    form down. ``points`` selects families (``random-4k*``) and values of axes (``read_percent=100,0``), ``rounds``
    sets the turns of compared points; ``probe=False`` looks for no limits after the last point.
    Raises ``DialectError``, ``PlanError``, and ``TargetError``, ``RunError`` or ``Interrupted`` when nothing could be
    measured.
    """
    if form not in (None, "short", "full"):
        raise DialectError([Diagnostic(f"form={form!r}: choose short or full")])
    if form and scale is not None:
        raise DialectError([Diagnostic("form and scale: choose one")])
    if scale is not None and not 0 < scale <= 1:
        raise DialectError([Diagnostic(f"scale={scale}: choose a fraction above 0, at most 1")])
    _require_at_least(1, rounds=rounds)
    found = documents.load(str(name))
    request = scenarios.requested(
        found,
        _named_targets(found, target, create=create),
        short=form == "short",
        full=form == "full",
        scale=scale,
        points=points,
        rounds=rounds,
        overwrite=overwrite,
        keep_data=False,
    )
    request = replace(request, probe=request.probe and probe)
    return measured(partial(runner.carry_out, request), out)


def _named_targets(
    found: documents.Scenario, target: TargetLike | Mapping[str, TargetLike] | None, *, create: bool
) -> Mapping[str, targets.Target] | Sequence[str]:
    if target is None:
        return ()
    names = [need.name for need in found.targets]
    said = target if isinstance(target, Mapping) else dict.fromkeys(names, target)
    if said.keys() != set(names):
        raise DialectError(
            [Diagnostic(f"target: {found.name} has {', '.join(names)}; give one target, or each by its name")]
        )
    return {name: target_of(said[name], create=create) for name in names}


# ---- searches


def knee(
    target: TargetLike,
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
    if percent_of_capacity is not None and not 0 < percent_of_capacity < 100:
        raise DialectError([Diagnostic(f"percent_of_capacity={percent_of_capacity}: choose a number from 0 to 100")])
    question = _question(target, workload, size, precision, create=create, overwrite=overwrite)
    question = replace(question, iodepth_max=iodepth_max, percent_of_capacity=percent_of_capacity)
    return measured(searches.knee_search(question), out)


def max_rate(
    target: TargetLike,
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
    if not 0 < percentile < 100:
        raise DialectError([Diagnostic(f"percentile={percentile}: choose a number from 0 to 100")])
    limit_ns, patience_ns = _read("latency", latency, parse_time_ns), _read("patience", patience, parse_time_ns)
    _require_at_least(1, latency=limit_ns, patience=patience_ns)
    question = _question(target, workload, size, precision, create=create, overwrite=overwrite)
    question = replace(question, effort=replace(question.effort, patience_ns=patience_ns))
    return measured(searches.max_search(question, percentile, limit_ns), out)


def curve(
    target: TargetLike,
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
    if not 1 <= steps <= 100:
        raise DialectError([Diagnostic(f"steps={steps}: choose 1 to 100")])
    question = _question(target, workload, size, precision, create=create, overwrite=overwrite)
    return measured(searches.curve_search(question, steps), out)


def _question(
    target: TargetLike, workload: str, size: Size, precision: float, *, create: bool, overwrite: bool
) -> searches.Question:
    if not 0 < precision <= 1:
        raise DialectError([Diagnostic(f"precision={precision}: choose a fraction above 0, at most 1")])
    return searches.Question(
        target=target_of(target, create=create),
        workload=workload,
        size_bytes=size if isinstance(size, int) else _read("size", size, parse_bytes),
        effort=Effort(precision=precision),
        overwrite=overwrite,
    )


def _require_at_least(least: int, **values: int | None) -> None:
    """Raises ``DialectError`` for the first value that is too small."""
    for name, value in values.items():
        if value is not None and value < least:
            raise DialectError([Diagnostic(f"{name}={value}: choose at least {least}")])


def _read(name: str, text: str, parse: Callable[[str], T]) -> T:
    try:
        return parse(text)
    except ValueError as error:
        raise DialectError([Diagnostic(f"{name}: {error}")]) from None


def target_of(target: TargetLike, *, create: bool = False) -> targets.Target:
    """The target that a caller gave. Raises ``DialectError`` and ``TargetError``."""
    return target.target if isinstance(target, Volume) else targets.parse(str(target), create=create)

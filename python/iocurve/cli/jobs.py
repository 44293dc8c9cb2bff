"""Commands about jobs that run nothing: explain, predict, convert, schema."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, get_args, get_type_hints

import msgspec
from cyclopts import App, Parameter

from iocurve.cli import common, dialects
from iocurve.cli.exits import EXIT_USAGE, status
from iocurve.dialects.native.command import DIALECT as NATIVE
from iocurve.dialects.registry import REGISTRY, as_printed, load
from iocurve.foundation.errors import Diagnostic, DialectError, TargetError
from iocurve.foundation.structs import Struct, field_texts
from iocurve.foundation.units import SECOND_NS, parse_time_ns
from iocurve.measure import jobs
from iocurve.result.document import STREAM_HASH, Point, Result
from iocurve.result.document_file import RESULT_NAME, SCHEMA_VERSION, Json
from iocurve.result.figures import Figures, KindFigures

CONVERTED = "|".join(name for name, entry in REGISTRY.items() if entry.converts)
CONVERT_HELP = f"""\
Usage: iocurve convert [-o FILE] {CONVERTED} [the tool's own options]

Converts the job to a TOML file for iocurve run, with the same plan. Default of -o: stdout.

Example: iocurve convert -o job.toml fio job.fio"""

explain = App(
    name="explain",
    help="Print the plan of a job and its warnings without running it.",
    help_epilogue=common.example("iocurve explain fio job.fio"),
)


@explain.default
def explain_job(job: Path, /) -> int:
    """Explain a job file (TOML).

    Parameters
    ----------
    job
        A job file (docs/jobs.md).
    """
    return dialects.print_explanation(NATIVE.prepare([str(job)]), [str(job)])


def _explains(name: str) -> Callable[..., int]:
    def explain_words(*arguments: common.Words) -> int:
        return dialects.explain(name, arguments)

    return explain_words


for _name, _entry in REGISTRY.items():
    explain.command(_explains(_name), name=_name, help=f"Explain {_entry.runs}.", help_flags=[], version_flags=[])


def predict(
    command: Annotated[tuple[str, ...], Parameter(allow_leading_hyphen=True)],
    /,
    *,
    profile: Annotated[str | None, Parameter(name=["--profile", "--twin"])] = None,
    quota: common.SizeText | None = None,
    from_: Annotated[Path | None, Parameter(name="--from")] = None,
    vm: str | None = None,
    nconnect: common.AtLeast1 = 1,
    latency: common.TimeText | None = None,
    json: common.JsonFlag = False,
) -> int:
    """Predict what a service level makes of a job, with its traps, without running it.

    Parameters
    ----------
    command
        A command line of another tool, or a job file (TOML).
    profile
        A service level (iocurve profile list), or a profile file that ends in .toml.
    quota
        Size of the volume. Default: 4TiB for a profile file.
    from_
        Take the limits and the latency from a result.json, or its directory, in place of a service level.
    vm
        Size of the machines, e.g. D32s_v5 (iocurve disk list).
    nconnect
        TCP connections of a mount. A target nfs://… says its own.
    latency
        Mean latency of an operation on the idle volume. Default: the profile's, if it states one.
    """
    from iocurve.advice import predict as prediction
    from iocurve.cli import shared
    from iocurve.cli.size import machine_of

    first, *words = as_printed(command)
    if first not in REGISTRY and command[:-1] not in ((), ("run",)):
        known = ", ".join([*REGISTRY, "run JOB.toml"])
        raise DialectError([Diagnostic(f"'{command[0]}' is no command to predict; it starts with one of {known}")])
    dialect, words = (load(first), words) if first in REGISTRY else (NATIVE, [*command[-1:]])
    fit = None
    if from_ is not None:
        common.refuse("--from takes the limits of a result; leave out the service level", profile=profile, quota=quota)
        latency_ns = None if latency is None else parse_time_ns(latency)
        service, fit = prediction.measured_service(from_, latency_ns=latency_ns, vm=machine_of(vm), nconnect=nconnect)
    elif profile is None or (quota is None and not profile.endswith(".toml")):
        raise DialectError([Diagnostic("give --profile and --quota, --twin FILE, or a result with --from")])
    else:
        service = prediction.service(profile, quota, latency=latency, vm=machine_of(vm), nconnect=nconnect)
    runs = prediction.predicted(shared.prepared(dialect, words), service)
    if json:
        common.show_json([run.to_builtins() for run in runs])
    else:
        print(prediction.text_of(runs), end="")
        if fit:
            from iocurve.advice.twin import fit_text

            print("\n".join(fit_text(fit)))
    return 0


TWIN = Path("iocurve-twin")


def write_twin(
    target: common.TargetText,
    /,
    *,
    out: Annotated[Path | None, Parameter(name=["--out", "-o"])] = None,
    check: common.Flag = False,
    against: Path | None = None,
    what_if: Annotated[tuple[str, ...], common.Many] = (),
    patience: common.TimeNs = 600 * SECOND_NS,
    report: Path = TWIN,
    quiet: common.QuietFlag = False,
) -> int:
    """Write a profile that behaves like a target, for iocurve volume serve and predict.

    Parameters
    ----------
    target
        A directory, a file, a device, nfs://host/export or volume:PROFILE, which is measured on files that are removed
        afterwards; or a result.json or its directory, of points that differ in mix, block size and depth.
    out
        Write the profile to this file. Default: stdout.
    check
        Measure loads that are not fitted on the target and on its twin, and write the errors into the profile.
    against
        Compare the predictions of the profile with the points of this other result.
    what_if
        Multiply a limit: 'throughput x2', 'read iops x0.5', 'latency x3'.
    patience
        Time for all points; shorter ones show less. What runs is said first.
    report
        Directory for result.json and report.html of the measurement; iocurve twin reads it again.
    """
    from iocurve.advice import twin
    from iocurve.measure.scenario import command as scenarios

    if out and out.exists():
        raise TargetError(f"{out} exists; remove it, or choose another name")
    named = Path(str(target))
    asked = None
    if named.name.endswith(".json") or (named / RESULT_NAME).exists():
        common.refuse("a result is not measured again; name a target", check=check or None)
        measured = Result.read(named)
    else:
        asked = twin.request(str(target), patience, check=check)
        measured = scenarios.run(asked, report, quiet=quiet)
        if measured.state != "finished":
            return status(measured)
    fit = twin.fitted_to(named, measured.points)
    lines = list(twin.checked(fit, Result.read(against))) if against else []
    if asked and check:
        lines += twin.measured_on_both(measured, fit, asked, report / "served", quiet=quiet)
    lines += [f"with {text}" for text in what_if]
    _write(twin.profile_text(f"like {measured.target.address}", twin.changed(fit, what_if), lines), out)
    if out and lines:
        print("\n".join(lines))
    return 0


def convert(*arguments: common.Words) -> int:
    """Convert a fio, vdbench or DiskSpd job to a job file (TOML)."""
    words = list(arguments)
    path = None
    if words[:1] == ["-o"] and len(words) > 1:
        path, words = Path(words[1]), words[2:]
    if not words or words[0] not in REGISTRY:
        print(CONVERT_HELP)
        return 0 if words in ([], ["--help"], ["-h"]) else EXIT_USAGE
    from iocurve.cli import shared

    _write(jobs.convert(shared.prepared(load(words[0]), words[1:])), path)
    return 0


def print_schema(*, result: common.Flag = False) -> int:
    """Print the JSON schema of job files.

    Parameters
    ----------
    result
        Print the schema of result.json instead.
    """
    if result:
        common.show_json(result_schema())
        return 0
    from iocurve.dialects.native.output import schema_text

    print(schema_text(), end="")
    return 0


def _write(text: str, path: Path | None) -> None:
    """To a file or to stdout; a file that is there stays as it is. Raises ``TargetError``."""
    if path is None:
        sys.stdout.write(text)
        return
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise TargetError(f"{path} exists; remove it, or choose another name") from None
    except OSError as error:
        raise TargetError(f"{path} cannot be written: {error.strerror}") from None


SCHEMA_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def result_schema() -> Json:
    """Schema of a result of this version. ``$id`` ends with the version."""
    roots = (Result, Figures, KindFigures)
    definitions = msgspec.json.schema_components(roots, ref_template="#/$defs/{name}")[1]
    for kind in _structs(*roots):
        properties = definitions[kind.__name__]["properties"]
        named = dict(zip(kind.__struct_fields__, kind.__struct_encode_fields__, strict=True))
        for name, text in field_texts(kind).items():
            properties[named[name]] |= {"description": text}
    point, figures = definitions[Point.__name__], definitions.pop(Figures.__name__)
    point["properties"] |= figures["properties"]
    point["properties"][STREAM_HASH] = {
        "anyOf": [{"type": "string", "pattern": "^[0-9a-f]{64}$"}, {"type": "null"}],
        "description": Point.stream_hash.__doc__,
    }
    point["required"] += [*figures["required"], STREAM_HASH]
    # Kinds of operations are data: ``read``, ``fsync``, and whatever an engine adds.
    point["additionalProperties"] = {"$ref": f"#/$defs/{KindFigures.__name__}"}
    return {
        "$schema": SCHEMA_DIALECT,
        "$id": f"urn:iocurve:result:{SCHEMA_VERSION}",
        "title": f"iocurve result, version {SCHEMA_VERSION}",
        "$ref": f"#/$defs/{Result.__name__}",
        "$defs": definitions,
    }


def _structs(*roots: type[Struct]) -> set[type[Struct]]:
    """The structs, and those in their fields."""
    found: set[type[Struct]] = set()
    waiting: list[object] = list(roots)
    while waiting:
        kind = waiting.pop()
        if not (isinstance(kind, type) and issubclass(kind, Struct)):
            waiting += get_args(kind)
        elif kind not in found:
            found.add(kind)
            waiting += get_type_hints(kind).values()
    return found

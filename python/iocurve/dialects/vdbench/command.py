"""``iocurve vdbench …`` and ``iocurve explain vdbench …``: turns a vdbench command line into runs and notes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import Unpack

from msgspec.structs import replace

from iocurve.dialects.base import ClusterRequest, Dialect, Needs, ParsedCommand, Replicas, Workplace
from iocurve.dialects.registry import help_text
from iocurve.dialects.vdbench import explanation, file_systems, steps
from iocurve.dialects.vdbench.parameter_file import ParameterFile, check, distinct
from iocurve.dialects.vdbench.planned import DATA_ERRORS_MAX
from iocurve.dialects.vdbench.read import lines, options
from iocurve.dialects.vdbench.read.keywords import Definitions, define
from iocurve.dialects.vdbench.read.options import Options, ValidationRequest, read_words
from iocurve.dialects.vdbench.runner import Writer, simulate
from iocurve.dialects.vdbench.runs import Run, expand, timing_notes
from iocurve.dialects.vdbench.topology import Topology, TopologyMaker
from iocurve.dialects.vdbench.validation import errors as validation_errors
from iocurve.dialects.vdbench.validation import validation
from iocurve.foundation.errors import COMMAND_LINE, Diagnostic, DialectError, PlanError, Where, in_order
from iocurve.job.model import PlanNote
from iocurve.job.resolve import Machine


def prepare(arguments: Sequence[str], **place: Unpack[Workplace]) -> ParsedCommand:
    """Reads a vdbench command line (without ``vdbench``) and its parameter files. Raises as ``read_command``."""
    file = read_command(arguments, **place)
    return parsed(file, Writer(file))


def parsed(file: ParameterFile, writer: Writer) -> ParsedCommand:
    """The steps of a parameter file, and the functions that write vdbench's output."""
    first, again = steps.rounds(file, writer)
    writer.links = steps.links(file, first)
    of_first_run = [step.name for step in first if step.name.removeprefix("format_for_") == file.runs[0].name]
    return ParsedCommand(
        title=of_first_run[-1] if of_first_run else file.runs[0].name,
        source=" ".join(("vdbench", *file.arguments)),
        steps=first,
        again=again,
        rounds=file.loop.times if again else 1,
        seconds=file.loop.seconds,
        notes=file.notes,
        obstacles=file.obstacles,
        needs=Needs(
            cluster=file.cluster,
            # On a cluster a host is an agent.
            replicas=Replicas() if file.cluster is None else None,
            # The report of a run is written when the run ends, as a file may have thousands of runs.
            points=False,
            # vdbench leaves out its first interval, finds no file, recovers an empty journal, and ends well.
            operations=False,
            # Every interval is a line on stdout.
            progress=False,
        ),
        out=file.out,
        explanation=lambda: explanation.explain(file),
        only_prints="".join(f"{line}\n" for line in simulate(file.runs)) if file.options.simulate else None,
        no_job_file=_no_job_file(file),
        running=partial(steps.validation_maps, file),
        writing=writer.written,
    )


def _no_job_file(file: ParameterFile) -> Diagnostic | None:
    if file.definitions.is_file_system:
        return Diagnostic("file system workloads (FSD, FWD) cannot be written as a job file yet")
    for run in file.runs:
        if run.curve_percent is not None:
            text = f"{run.name}: the rates of a curve depend on its first run's result; run it with iocurve vdbench"
            return Diagnostic(text)
    return None


def read_command(arguments: Sequence[str], **place: Unpack[Workplace]) -> ParameterFile:
    """Reads a vdbench command line (without ``vdbench``) and its parameter files.

    Raises ``DialectError`` with every error in the text, ``PlanError`` if a run cannot be planned.
    """
    directory, machine = place.get("cwd") or Path.cwd(), place.get("machine") or Machine()
    cli = options.parse(arguments, directory)
    text = lines.read_text(cli.text, cli.sample, cli.variables) if cli.text else lines.read(cli.files, cli.variables)
    definitions = define(text.statements)
    errors = [*cli.errors, *text.errors, *definitions.errors]
    if not text.is_whole:
        raise DialectError(in_order(errors))
    topology = TopologyMaker(
        definitions=definitions,
        host_maps=cli.host_maps,
        lun_maps=cli.lun_maps,
        is_directory=lambda path: machine.stat(str(directory / path)).kind == "directory",
        size=cli.size,
        on_cluster=cli.cluster is not None,
    ).make()
    runs, run_errors = expand(definitions, list(topology.storage), cli, Random(machine.fresh_seed()))
    errors += [*topology.errors, *run_errors]
    errors += _loop_errors(definitions) + _missing_runs(runs, errors) + _missing_first_run(cli, definitions)
    request = _validation_request(cli, definitions, errors)
    errors += validation_errors(definitions, topology, request)
    errors += _cluster_errors(cli, definitions, request)
    trees = file_systems.read(definitions, topology.host_of, runs, errors, topology.anchors)
    file = ParameterFile(
        notes=(*cli.notes, *_notes(cli, definitions, topology, request, runs)),
        out=cli.out,
        machine=machine,
        options=cli,
        text=text,
        definitions=definitions,
        file_systems=trees,
        topology=topology,
        runs=tuple(_from(cli.first_run, runs)),
        directory=directory,
        validation=validation(definitions, topology, trees, runs, request, directory),
        arguments=tuple(arguments),
        cluster=_cluster(cli, topology),
    )
    if not definitions.is_file_system:
        errors += _first_errors(file)
    if errors:
        raise DialectError(in_order(errors))
    if not cli.simulate:
        notes, obstacles = check(file)
        file.notes, file.obstacles = tuple(dict.fromkeys([*file.notes, *notes])), tuple(obstacles)
    return file


def _notes(
    cli: Options, definitions: Definitions, topology: Topology, request: ValidationRequest, runs: Sequence[Run]
) -> Iterator[PlanNote]:
    if (cli.cleans or cli.format) and not definitions.is_file_system:
        text = "-c, -co, -cy and -cn have no effect: they are for file systems"
        yield PlanNote("no_effect", text, Where(COMMAND_LINE, 1))
    if isinstance(definitions.general.get("dataerrors"), str):
        where = definitions.general.position_of("dataerrors")
        text = f"data_errors= has no effect: iocurve does not run commands; the run ends after {DATA_ERRORS_MAX} errors"
        yield PlanNote("no_effect", text, where, "warning")
    yield from (*definitions.notes, *topology.notes, *request.notes)
    yield from dict.fromkeys(note for run in runs for note in timing_notes(run))
    yield from file_systems.notes(definitions)


def _cluster(cli: Options, topology: Topology) -> ClusterRequest | None:
    if cli.cluster is None:
        return None
    return ClusterRequest(cli.cluster, tuple(dict.fromkeys(topology.nodes.values())))


def _first_errors(file: ParameterFile) -> list[Diagnostic]:
    """Builds the first run of each definition to find errors: undefined names, wrong flags and skews."""
    errors: list[Diagnostic] = []
    builder = file.builder()
    for run in distinct(file.first_runs()):
        try:
            builder.build(run)
        except PlanError as error:
            errors += error.errors
    return errors


def _cluster_errors(cli: Options, definitions: Definitions, request: ValidationRequest) -> list[Diagnostic]:
    """Finds what a cluster cannot run."""
    if cli.cluster is None:
        return []
    errors = []
    if not definitions.hosts:
        hint = "add hd=NAME,system=ADDRESS for each agent, or leave out --on"
        errors.append(Diagnostic("--on: the parameter file has no hosts", None, hint))
    if request.active or request.recover:
        text = "--on: data validation keeps its maps on this machine, and does not run on a cluster"
        errors.append(Diagnostic(text, None, "leave out -v and -j, or --on"))
    return errors


def _validation_request(cli: Options, definitions: Definitions, errors: list[Diagnostic]) -> ValidationRequest:
    """Combines data validation on the command line and in the general parameters."""
    request, general = cli.validation, definitions.general
    for keyword in ("validate", "journal"):
        request = read_words(request, keyword, general.get(keyword, ()), general.position_of(keyword), errors)
    if request.recover and (cli.loop or general.get("loop")):
        where = general.position_of("journal", "loop")
        text = "a journal can be recovered only once; remove -l and loop="
        errors.append(Diagnostic(text, where if where.source else None))
    return replace(request, recover=request.recover or request.recover_only)


def _loop_errors(definitions: Definitions) -> list[Diagnostic]:
    written = definitions.general.get("loop")
    try:
        if written:
            options.loop(written)
    except ValueError as error:
        return [Diagnostic(f"loop: {error}", definitions.general.position_of("loop"))]
    return []


def _missing_runs(runs: Sequence[Run], errors: Sequence[Diagnostic]) -> list[Diagnostic]:
    if runs or errors:
        return []
    return [Diagnostic("there is nothing to run", None, "add rd=rd1,wd=…,iorate=max,elapsed=60")]


def _missing_first_run(cli: Options, definitions: Definitions) -> list[Diagnostic]:
    if cli.first_run is None or any(rd.name == cli.first_run for rd in definitions.by_kind["rd"]):
        return []
    return [Diagnostic(f"-r: there is no rd={cli.first_run[:40]}")]


def _from(name: str | None, runs: Sequence[Run]) -> Sequence[Run]:
    number = next((index for index, run in enumerate(runs) if run.rd.name == name), 0)
    return runs[number:]


def _information(arguments: Sequence[str]) -> str | None:
    return help_text("vdbench", 22) if tuple(arguments) in (("--help",), ("-h",)) else None


DIALECT = Dialect("vdbench", prepare, _information, on_hosts=lambda _hosts, _: ["--on=auto"])

"""``iocurve fio …`` and ``iocurve explain fio …``: turns a fio command line into a plan, notes and output settings."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Unpack, get_args

import msgspec

from iocurve.dialects.base import ClusterRequest, Dialect, Needs, ParsedCommand, Replicas, Step, Workplace
from iocurve.dialects.fio import information, verify_state
from iocurve.dialects.fio.job import FioCommand, Format, Output, build
from iocurve.dialects.fio.output import formats, logs
from iocurve.dialects.fio.output.disk_util import disk_paths
from iocurve.dialects.fio.read.combine import MAX_LOG_RECORDS
from iocurve.dialects.fio.read.parse import Parsed, RawSection, Setting, Surroundings, commands, parse
from iocurve.engine.outcome import Live
from iocurve.engine.plan import Plan
from iocurve.foundation.errors import Diagnostic, DialectError, PlanError, TargetError, Where, in_order
from iocurve.foundation.units import SECOND_NS
from iocurve.job.disk_mounts import DiskMount, put_on_disks
from iocurve.job.model import Job, PlanNote
from iocurve.job.resolve import Machine, Resolution, read_only_errors, resolve
from iocurve.result.document import Result
from iocurve.result.turns import phase_names, whole_run


def parsed(read: FioCommand) -> ParsedCommand:
    """The step of a command line, and the functions that write fio's output."""
    has_replay = any(section.load.replay for section in read.job.sections)
    text = "a replayed trace (read_iolog) cannot be written as a job file; run it with iocurve fio"
    step = Step(
        name=read.plan.name,
        phases=phase_names(read.plan),
        plan=lambda _: read.plan,
        job=lambda: read.job.replace(interval_ns=read.plan.interval_ns),
        follow=partial(_watch_disks, read),
        answer=lambda _: read.disks.end(),
    )
    return ParsedCommand(
        title=read.plan.name,
        source=" ".join(("fio", *read.arguments)),
        steps=(step,),
        notes=read.notes,
        obstacles=read.obstacles,
        needs=Needs(
            directories=read.directories,
            output_paths=(*filter(None, [read.output.path]), *logs.planned(read)),
            cluster=read.cluster,
            replicas=Replicas(read.client_path, read.runs_on),
            # The spread of the rates needs no single intervals; logs are kept apart.
            intervals=False,
            progress=read.output.eta != "never",
        ),
        out=read.out,
        explanation=partial(_explanation, read),
        only_prints="".join(f"{line}\n" for line in read.command_lines) if read.check_only else None,
        no_job_file=Diagnostic(text) if has_replay else None,
        finish=partial(_finish, read),
    )


def _watch_disks(read: FioCommand, plan: Plan) -> Callable[[Live], None]:
    """Reads the counters of the disks before the load."""
    paths = disk_paths(plan)

    def watch(live: Live) -> None:
        if live.phase in ("layout", "prepare"):
            read.disks.start(paths)

    read.disks.start(paths)
    return watch


def _explanation(read: FioCommand) -> str:
    from iocurve.job.explain import explain

    return explain(read.plan, read.notes, read.obstacles, read.machine)


def _finish(read: FioCommand, result: Result) -> Result:
    """Writes the log files, then the result in each format of --output-format. fio reports all phases as one run."""
    run = result.replace(points=whole_run(result.points, read.plan.name))
    logs.write(read, run)
    workers = [worker for point in run.points for worker in point.outcome.workers]
    verify_state.write(read.job, read.sections, workers, read.plan, read.output.state_directory)
    if lost := logs.lost_records(result):
        text = f"the logs lack {lost:,} records: each job keeps up to {MAX_LOG_RECORDS:,}; log_avg_msec= logs fewer"
        result = result.with_note("log_full", text, "warning")
    _print(read.output, formats.render(read, run))
    return result


def _print(output: Output, text: str) -> None:
    if output.path is None:
        sys.stdout.write(text)
        return
    try:
        output.path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise TargetError(f"--output={output.path}: {error.strerror}") from None


def prepare(arguments: Sequence[str], **place: Unpack[Workplace]) -> ParsedCommand:
    """Reads a fio command line (without ``fio``) and the job files it names. Raises as ``read_command``."""
    return parsed(read_command(arguments, **place))


def read_command(arguments: Sequence[str], **place: Unpack[Workplace]) -> FioCommand:
    """Reads a fio command line (without ``fio``) and the job files it names.

    Raises ``DialectError`` with every error in the text, ``PlanError`` if the text cannot be turned into a plan.
    """
    machine, environment = place.get("machine") or Machine(), place.get("environment")
    surroundings = _surroundings(place.get("cwd") or Path.cwd(), os.environ if environment is None else environment)
    parsed = parse(arguments, surroundings)
    settings = _Settings()
    for command in parsed.commands:
        settings.apply(command)
    written, reports = build(parsed, surroundings.directory)
    job, misplaced = put_on_disks(settings.of(written), settings.disks, surroundings.directory)
    errors = [*dict.fromkeys(parsed.errors), *settings.errors, *misplaced, *settings.missing_clients()]
    errors += [] if errors else [*_missing_job(parsed), *settings.misplaced(parsed.sections)]
    errors += read_only_errors(job)
    if errors:
        raise DialectError(in_order(errors))
    check_only = settings.check_only or settings.shows_commands
    try:
        resolution = resolve(job, machine, surroundings.directory)
    except PlanError:
        # fio's --parse-only opens no file: a missing device or size is no error there.
        if not check_only:
            raise
        resolution = _unresolved(job)
    states = surroundings.directory / settings.output.state_directory
    plan, errors, obstacles = verify_state.limited(job, reports, resolution.plan, states)
    if errors:
        raise PlanError(errors)
    if settings.clients and any(worker.log for group in plan.groups for worker in group.workers):
        text = "--client: logs of single operations (write_bw_log= and others) of several hosts are not supported yet"
        raise DialectError([Diagnostic(text)])
    notes = (*dict.fromkeys(parsed.notes), *settings.notes, *resolution.notes)
    if settings.warnings_are_fatal and any(note.level == "warning" for note in notes):
        raise DialectError([Diagnostic(note.text, note.where) for note in notes if note.level == "warning"])
    return FioCommand(
        machine=machine,
        arguments=tuple(arguments),
        job=job,
        plan=plan,
        notes=notes,
        obstacles=(*resolution.obstacles, *dict.fromkeys(obstacles)),
        directories=resolution.directories,
        output=settings.output,
        sections=reports,
        report_groups=resolution.report_groups,
        check_only=check_only,
        command_lines=tuple(parsed.command_lines) if settings.shows_commands else (),
        out=settings.out,
        cluster=settings.cluster(),
        placement=settings.placement(parsed.sections),
    )


def _unresolved(job: Job) -> Resolution:
    plan = Plan(name=job.name, interval_ns=SECOND_NS, groups=())
    return Resolution(plan=plan, notes=(), obstacles=(), directories=(), report_groups=())


class _Settings(msgspec.Struct):
    """Command-line options that belong to no job."""

    output: Output = msgspec.field(default_factory=Output)
    check_only: bool = False
    shows_commands: bool = False
    read_only: bool = False
    warnings_are_fatal: bool = False
    out: Path | None = None
    clients: list[str] = msgspec.field(default_factory=list)
    hosts: dict[str, list[int]] = msgspec.field(default_factory=dict)
    """Positions in ``clients`` of the hosts of each --client."""
    cluster_address: str | None = None
    disks: list[DiskMount] = msgspec.field(default_factory=list)
    notes: list[PlanNote] = msgspec.field(default_factory=list)
    errors: list[Diagnostic] = msgspec.field(default_factory=list)
    where: Where | None = None
    """The option that is applied."""

    def apply(self, command: Setting) -> None:
        """Applies one option of the command line."""
        name, value = command.name, command.value or ""
        self.where = command.where
        if name in _EFFECTS:
            try:
                _EFFECTS[name](self, value)
            except ValueError as error:
                self.errors.append(Diagnostic(str(error), command.where))
        elif name in _NO_EFFECT:
            self.notes.append(PlanNote("no_effect", f"--{name} has no effect: {_NO_EFFECT[name]}", command.where))
        else:
            hint = _INSTEAD.get(name)
            self.errors.append(Diagnostic(f"--{name} is not supported{'' if hint else ' yet'}", command.where, hint))

    def of(self, job: Job) -> Job:
        """The job with the settings that apply to each section."""
        if not self.read_only:
            return job
        return job.replace(sections=tuple(section.as_read_only() for section in job.sections))

    def cluster(self) -> ClusterRequest | None:
        """The hosts of ``--client``, on the cluster of this machine unless ``--on`` names another."""
        if not self.clients:
            return None
        return ClusterRequest(self.cluster_address, tuple(self.clients))

    def placement(self, sections: Sequence[RawSection]) -> tuple[frozenset[int], ...]:
        """The hosts of each section: those of the --client that its file follows, or all that have no such file."""
        taken = {value for section in sections for value in section.clients}
        others = [value for value in self.hosts if value not in taken]
        if not self.clients:
            return ()
        return tuple(
            frozenset(host for value in section.clients or others for host in self.hosts.get(value, ()))
            for section in sections
        )

    def misplaced(self, sections: Sequence[RawSection]) -> list[Diagnostic]:
        """The errors of hosts without a job, and of jobs without a host."""
        placement = self.placement(sections)
        if not placement:
            return []
        hint = "a job file after --client=HOST is for that host, one before the first --client for those without"
        return [
            *(
                Diagnostic(f"--client={name}: no job is for this host", None, hint)
                for number, name in enumerate(self.clients)
                if not any(number in hosts for hosts in placement)
            ),
            *(
                Diagnostic(f"no host is left for job '{section.name}': each has another job file", section.where, hint)
                for section, hosts in zip(sections, placement, strict=True)
                if not hosts
            ),
        ]

    def missing_clients(self) -> list[Diagnostic]:
        """The error of a cluster without hosts."""
        if self.cluster_address is None or self.clients:
            return []
        return [Diagnostic("--on: no host is named", None, "add --client=HOST for each agent, or leave out --on")]

    def add_clients(self, value: str) -> None:
        path = Path(value) if value and "\0" not in value else None
        hosts = path.read_text(encoding="utf-8").split() if path and path.is_file() else [value]
        # fio takes a port after a comma; it belongs to fio's protocol.
        for host in [host.partition(",")[0] for host in hosts]:
            if not host:
                raise ValueError("--client needs a host or a file of hosts")
            if host in self.clients:
                raise ValueError(f"--client={host}: the host is there twice")
            self.hosts.setdefault(value, []).append(len(self.clients))
            self.clients.append(host)


def _sets(name: str, read: Callable[[str], object] = lambda _: True) -> Callable[[_Settings, str], None]:
    """Sets a field of the settings or of their output. Default: to True."""

    def effect(settings: _Settings, value: str) -> None:
        setattr(settings.output if name in Output.__struct_fields__ else settings, name, read(value))

    return effect


def _path(refusal: str) -> Callable[[str], Path]:
    def read(value: str) -> Path:
        if not value or "\0" in value:
            raise ValueError(refusal)
        return Path(value)

    return read


def _cluster(value: str) -> str:
    if not value:
        raise ValueError("--on needs a cluster: --on=auto, --on=10.0.0.4:6379")
    return value


def _formats(value: str) -> tuple[Format, ...]:
    wanted: list[Format] = []
    for name in [name.strip() for name in value.split(",")]:
        if name not in _FORMATS:
            raise ValueError(f"unknown output format '{name}'; --output-format takes normal, terse, json and json+")
        wanted.append(_FORMATS[name])
    # json+ includes everything in json.
    return tuple(dict.fromkeys(form for form in wanted if form != "json" or "json+" not in wanted))


def _terse_version(value: str) -> int:
    if value.strip() not in ("2", "3", "4", "5"):
        raise ValueError(f"unknown terse version '{value}'; --terse-version takes 2, 3, 4 or 5")
    return int(value)


def _check_section(_settings: _Settings, value: str) -> None:
    if value.startswith("global") or not value:
        raise ValueError("--section needs the name of a job; [global] applies to every job anyway")


def _append_terse(settings: _Settings, _value: str) -> None:
    settings.output.formats = tuple(dict.fromkeys((*settings.output.formats, "terse")))


_FORMATS: dict[str, Format] = {"minimal": "terse", **{name: name for name in get_args(Format)}}
_EFFECTS: dict[str, Callable[[_Settings, str], None]] = {
    "out": _sets("out", _path("--out needs a directory name")),
    "aux-path": _sets("state_directory", _path("--aux-path needs a directory name")),
    "client": _Settings.add_clients,
    "disk": lambda settings, value: settings.disks.append(DiskMount.of(value, settings.where)),
    "on": _sets("cluster_address", _cluster),
    "output": _sets("path", _path("--output needs a file name")),
    "output-format": _sets("formats", _formats),
    "minimal": _sets("formats", lambda _: ("terse",)),
    "append-terse": _append_terse,
    "terse-version": _sets("terse_version", _terse_version),
    # fio reads any other word as auto.
    "eta": _sets("eta", lambda value: value if value in ("always", "never") else "auto"),
    "showcmd": _sets("shows_commands"),
    "parse-only": _sets("check_only"),
    "readonly": _sets("read_only"),
    "warnings-fatal": _sets("warnings_are_fatal"),
    "section": _check_section,
}
_NO_EFFECT = {
    "alloc-size": "memory is allocated when it is needed",
    "eta-interval": "progress is updated every second",
    "eta-newline": "progress stays on one line",
    "max-jobs": "the number of jobs has no fixed limit",
    "bandwidth-log": "write_bw_log= in a job writes a log for each job, and result.json has the rates of every second",
    "status-interval": "result.json has the figures of every second",
    "idle-prof": "iocurve does not measure how idle the processors are; every output has each job's processor time",
    "debug": "iocurve has no debug messages",
}

_INSTEAD = {
    "help": "iocurve fio --help",
    "crctest": "it tests the processor, not I/O; use fio",
    "cpuclock-test": "it tests the processor, not I/O; use fio",
    "memcpytest": "it tests memory, not I/O; use fio",
    "latency-log": "fio itself refuses it; write_lat_log= in a job writes a latency log",
    "server": "iocurve cluster commands prints how to start agents",
    "remote-config": "put the job file on this machine",
    "profile": "put the options of the profile into a job",
}


def _surroundings(directory: Path, environment: Mapping[str, str]) -> Surroundings:
    page_bytes, pages = os.sysconf("SC_PAGE_SIZE"), os.sysconf("SC_PHYS_PAGES")
    return Surroundings(directory, environment, page_bytes, page_bytes * pages, os.cpu_count() or 1)


def _missing_job(parsed: Parsed) -> list[Diagnostic]:
    if parsed.sections:
        return []
    wanted = [command for command in parsed.commands if command.name == "section"]
    if wanted:
        return [
            Diagnostic(
                f"--section={wanted[-1].value}: no job file has a section [{wanted[-1].value}]", wanted[-1].where
            )
        ]
    if parsed.only_globals:
        hint = "add a job section such as [job1] below it"
        return [Diagnostic("[global] alone defines no job", parsed.only_globals, hint)]
    hint = "give a job file, or options such as --name=test --rw=randread --size=1g"
    return [Diagnostic("there is no job to run", None, hint)]


def _on_hosts(hosts: Sequence[str], arguments: Sequence[str]) -> list[str]:
    """All hosts, unless the command line itself has --client for each job file."""
    named = any(command.name == "client" for command in commands(arguments))
    return [] if named else [f"--client={host}" for host in hosts]


DIALECT = Dialect("fio", prepare, information.information, on_hosts=_on_hosts)

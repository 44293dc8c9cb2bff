"""Turns fio's settings into a job: applies the effect of each option in the order in which fio reads them.

``WORDS`` has fio's names for the fields of a section.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Literal, TypeVar

import msgspec
from msgspec.structs import replace

from iocurve.dialects.base import ClusterRequest
from iocurve.dialects.fio.output.disk_util import DiskWatch
from iocurve.dialects.fio.read.combine import apply_exitall, combine
from iocurve.dialects.fio.read.draft import DEFAULTS, Draft, Option, Reporting
from iocurve.dialects.fio.read.options import BY_NAME, OPTIONS
from iocurve.dialects.fio.read.parse import Parsed, RawSection, Setting, closest, in_reading_order
from iocurve.dialects.fio.read.values import Context
from iocurve.engine.plan import Plan
from iocurve.foundation.errors import COMMAND_LINE, Diagnostic, Where
from iocurve.job import model
from iocurve.job.model import Files, Job, Load, PlanNote, Section, Words
from iocurve.job.resolve import Machine, ReportGroup

Value = TypeVar("Value")
WORDS = Words(
    names={
        # The first option that sets a field names it.
        **{field: option.name for option in reversed(OPTIONS) for field in option.fields},
        "align_bytes": "blockalign",
        "disk": "--disk",
        "read_only": "--readonly",
        "start_bytes": "offset",
    },
    joint="=",
    asks={
        "direct": "direct=1",
        "repeat": "randrepeat=1",
        "no repeat": "randrepeat=0",
        "no create": "allow_file_create=0",
        "size": "size=1g",
        "keep buffers": "refill_buffers=0",
    },
    worker="job",
    warns_about=frozenset({"cpus_not_bound"}),
)


class SectionReport(msgspec.Struct, frozen=True):
    """Facts about a section that fio's output shows and the plan does not hold."""

    name: str
    description: str | None
    options: dict[str, str]
    """Options as written in the section."""
    global_options: dict[str, str]
    """Options as written in the [global] sections that it inherits."""
    depth: int
    """iodepth as written."""
    direction: str
    """Value of rw= in fio's words: ``randread``."""
    reporting: Reporting
    only_lays_out: bool = False
    """create_only."""


def by_worker(job: Job, plan: Plan, of_sections: Sequence[Value]) -> dict[tuple[int, int], Value]:
    """The value of a section for each of its workers, in order, by group and number in the group."""
    workers = ((group, index) for group, one in enumerate(plan.groups) for index in range(len(one.workers)))
    values = (value for section, value in zip(job.sections, of_sections, strict=True) for _ in range(section.numjobs))
    # The plan of a job that is only parsed may have no workers.
    return dict(zip(workers, values, strict=False))


def build(parsed: Parsed, directory: Path) -> tuple[Job, tuple[SectionReport, ...]]:
    """Builds the job's sections from the parsed settings, and adds errors and notes to them.

    Relative file names start from ``directory``.
    """
    reader = _SectionReader(directory, parsed.errors, parsed.notes)
    drafts = [reader.draft(raw) for raw in parsed.sections]
    if not any(draft.engine_refused for draft in drafts):
        parsed.errors += parsed.unknown
    apply_exitall(drafts)
    for draft in drafts:
        parsed.errors += draft.errors
        parsed.notes += draft.notes
    sections = tuple(draft.finished() for draft in drafts)
    reports = tuple(
        _report(raw, draft, inherited)
        for raw, draft, inherited in zip(parsed.sections, drafts, reader.inherited, strict=True)
    )
    name = "+".join(dict.fromkeys(report.name for report in reports)) or "fio"
    return Job(name=name, words=WORDS, sections=sections, defaults=DEFAULTS), reports


class _Reading(msgspec.Struct):
    """Settings applied one after another: the globals of a section, or all of its settings."""

    draft: Draft
    context: Context
    engine_errors: list[Diagnostic]
    """Errors in options that may belong to an engine that iocurve refuses; the refusal is reported once."""
    last: tuple[str, str | None] | None = None
    """The last setting applied."""

    def copy(self) -> _Reading:
        return _Reading(self.draft.copy(), replace(self.context, notes=[]), list(self.engine_errors), self.last)


class _SectionReader(msgspec.Struct):
    """Reads sections; adds their errors and notes to the lists."""

    directory: Path
    errors: list[Diagnostic]
    notes: list[PlanNote]
    inherited: list[dict[str, str]] = msgspec.field(default_factory=list)
    """The options of the [global] sections that each section inherits, as written."""
    _globals: tuple[tuple[Setting, ...], _Reading, dict[str, str]] | None = None
    """The globals of the section before, applied: thousands of sections may inherit the same ones."""

    def draft(self, raw: RawSection) -> Draft:
        """The draft of a section, with all its options applied."""
        reading = self._after_globals(raw.global_settings).copy()
        draft = reading.draft
        draft.field_positions.setdefault("name", raw.where)
        self._apply_all(raw.settings, reading)
        self.errors += [] if draft.engine_refused else reading.engine_errors
        if draft.section.name is None:
            draft.put(Section, name=raw.name)
        elif draft.section.name != raw.name:
            draft.put(Files, file_name_pattern=_with_name(draft.files.file_name_pattern, raw.name))
        if raw.begins_file:
            draft.put(model.Reporting, barrier=True)
        if raw.implicit:
            self.notes.append(_implicit_job(raw))
        self.notes += _misplaced_engine_options(raw, draft)
        combine(draft)
        return draft

    def _after_globals(self, settings: tuple[Setting, ...]) -> _Reading:
        # stonewall in [global] applies to every section, as in fio.
        if self._globals is None or self._globals[0] != settings:
            reading = _Reading(Draft(), Context(directory=self.directory), [])
            for setting in settings:
                if setting.name == "name":
                    text = "name has no effect in [global]: each job is named after its section, as in fio"
                    self.notes.append(PlanNote("no_effect", text, setting.where))
            self._apply_all([setting for setting in settings if setting.name != "name"], reading)
            self._globals = settings, reading, _as_written(settings)
        self.inherited.append(self._globals[2])
        return self._globals[1]

    def _apply_all(self, settings: Sequence[Setting], reading: _Reading) -> None:
        draft = reading.draft
        for setting in _in_order_of_effect(settings):
            if (setting.name, setting.value) == reading.last:
                # Generated files repeat lines.
                continue
            reading.last = setting.name, setting.value
            option = BY_NAME.get(setting.name)
            if option is None:
                reading.engine_errors.append(_unknown(setting))
            elif _apply(
                option, setting, draft, reading.context, reading.engine_errors if option.engines else self.errors
            ):
                draft.option_positions[option.name] = setting.where
                draft.field_positions |= dict.fromkeys(option.fields, setting.where)
        self.notes += reading.context.notes


def _with_name(pattern: str, name: str) -> str:
    """fio names files after the [section] even if name= renames the job."""
    name = name.replace("{", "{{").replace("}", "}}")
    return re.sub(r"\{\{|\}\}|\{job\}", lambda found: name if found[0] == "{job}" else found[0], pattern)


def _in_order_of_effect(settings: Sequence[Setting]) -> list[Setting]:
    """Settings of the command line in their own order, then those of the job file in fio's reading order."""
    on_command_line = [setting for setting in settings if setting.where.source == COMMAND_LINE]
    return on_command_line + in_reading_order(item for item in settings if item.where.source != COMMAND_LINE)


def _apply(option: Option, setting: Setting, draft: Draft, context: Context, errors: list[Diagnostic]) -> bool:
    """Applies one option to the draft. Returns False if the option was rejected with an error."""
    context.where, context.option = setting.where, setting.name
    value = setting.value
    if value is None and option.boolean and not option.bare:
        text = f"'{setting.name}' without a value is read as {setting.name}=1; fio itself requires the value"
        context.note("bare_boolean", text, "warning")
    if value is None and not (option.bare or option.boolean):
        hint = setting.unset_hint or f"write {setting.name}=…"
        errors.append(Diagnostic(f"{setting.name} needs a value", setting.where, hint))
        return False
    try:
        option.effect(draft, _clean(option.bare_value if value is None else value), context)
    except ValueError as error:
        text = str(error) if value or not setting.unset_hint else f"{setting.name} needs a value"
        errors.append(Diagnostic(text, setting.value_where, setting.unset_hint))
        return False
    return True


def _clean(value: str) -> str:
    """Rejects what a plan (Unicode text) or a file name (no zero byte) cannot hold."""
    if "\0" in value or any("\ud800" <= letter <= "\udfff" for letter in value):
        shown = "".join(letter if letter.isprintable() else "\ufffd" for letter in value)
        raise ValueError(f"'{shown}' is not UTF-8 text")
    return value.strip()


def _unknown(setting: Setting) -> Diagnostic:
    if not setting.name.isprintable() or len(setting.name) > 80:
        return Diagnostic("this line is not a fio option", setting.where)
    lower = setting.name.lower()
    hint = f"Did you mean {lower}? Option names are lower case" if lower in BY_NAME else closest(setting.name, BY_NAME)
    return Diagnostic(f"unknown option '{setting.name}'", setting.where, hint)


def _implicit_job(raw: RawSection) -> PlanNote:
    text = (
        "the command line has no --name=…; fio itself refuses it ('No job(s) defined'), "
        f"iocurve runs one job named '{raw.name}' with its files in the current directory"
    )
    return PlanNote("no_job_name", text, Where(COMMAND_LINE, 1), "warning")


def _misplaced_engine_options(raw: RawSection, draft: Draft) -> Iterable[PlanNote]:
    engine = draft.target.engine_asked
    for setting in (*raw.global_settings, *raw.settings):
        option = BY_NAME.get(setting.name)
        if option is not None and option.engines and engine not in option.engines:
            owners = " and ".join(option.engines)
            text = f"{setting.name} has no effect with ioengine={engine}; it is an option of {owners}"
            yield PlanNote("no_effect", text, setting.where, "warning")


def _report(raw: RawSection, draft: Draft, global_options: dict[str, str]) -> SectionReport:
    return SectionReport(
        name=draft.section.name or raw.name,
        description=draft.section.description,
        options=_as_written(raw.settings),
        global_options=global_options,
        depth=draft.depth_asked,
        direction=_direction(draft.load),
        reporting=draft.reporting,
        only_lays_out=draft.ending.only_lays_out,
    )


def _direction(load: Load) -> str:
    mixed = "rw" if load.reads and load.writes else "trimwrite" if load.trims and load.writes else ""
    direction = mixed or ("read" if load.reads else "write" if load.writes else "trim")
    return f"rand{direction}" if load.random else direction


def _as_written(settings: Iterable[Setting]) -> dict[str, str]:
    """Options by fio's main name for them; an option without a value has an empty one, as in fio's output."""
    known = ((BY_NAME.get(setting.name), setting.value) for setting in settings)
    return {option.name: (value or "").strip() for option, value in known if option is not None}


Format = Literal["normal", "json", "json+", "terse"]


class Output(msgspec.Struct):
    """Settings from fio's output options."""

    path: Path | None = None
    """File of --output; None: standard output."""
    formats: tuple[Format, ...] = ("normal",)
    terse_version: Literal[2, 3, 4, 5] = 3
    eta: Literal["auto", "always", "never"] = "auto"
    """Value of --eta: when progress is shown."""
    state_directory: Path = Path()
    """Value of --aux-path: directory of verify state files."""


class FioCommand(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A fio command line that was read."""

    arguments: tuple[str, ...] = ()
    notes: tuple[PlanNote, ...]
    obstacles: tuple[Diagnostic, ...] = ()
    directories: tuple[str, ...] = ()
    out: Path | None = None
    check_only: bool = False
    """True with --parse-only or --showcmd: nothing runs."""
    command_lines: tuple[str, ...] = ()
    """Output of --showcmd, a line for each job file."""
    cluster: ClusterRequest | None = None
    machine: Machine
    job: Job
    plan: Plan
    output: Output
    sections: tuple[SectionReport, ...]
    report_groups: tuple[ReportGroup, ...]
    placement: tuple[frozenset[int], ...] = ()
    """The clients that run each section, by their position in the command line; empty without clients."""
    disks: DiskWatch = msgspec.field(default_factory=DiskWatch)
    """Counters of the disks during the run."""

    def runs_on(self, group: int, worker: int, client: int) -> bool:
        """True if a client runs this worker of the plan: one of a job file that follows its --client, as in fio."""
        return not self.placement or client in self._hosts_of_workers[group, worker]

    @cached_property
    def _hosts_of_workers(self) -> dict[tuple[int, int], frozenset[int]]:
        return self.by_worker(self.placement)

    def client_path(self, path: str, client: int) -> str:
        """A file that the job does not name gets the client's name, as in fio."""
        if self.cluster is None or path not in self._unnamed_paths:
            return path
        directory, slash, name = path.rpartition("/")
        return f"{directory}{slash}{self.cluster.names[client]}.{name}"

    @cached_property
    def _unnamed_paths(self) -> set[str]:
        """Paths that the job does not name."""
        return {
            file.path
            for (group, worker), section in self.by_worker(self.job.sections).items()
            for file in self.plan.groups[group].workers[worker].files
            if not section.files.paths
        }

    def by_worker(self, of_sections: Sequence[Value]) -> dict[tuple[int, int], Value]:
        """The value of a section for each of its workers, by group and number in the group."""
        return by_worker(self.job, self.plan, of_sections)

"""``Draft``: a section of a fio job while its options are read. ``Option``: a fio option and its effect on a draft."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from copy import copy
from pathlib import Path
from typing import Literal, ParamSpec

import msgspec
from msgspec.structs import replace

from iocurve.dialects.fio.read.values import Context
from iocurve.engine.plan import Blocks, SteadyCriterion, SteadyFigure, SteadyState, VerifyMethod
from iocurve.foundation.errors import Diagnostic, Where
from iocurve.foundation.structs import Struct
from iocurve.foundation.units import SECOND_NS
from iocurve.job import model

P = ParamSpec("P")

FIO_PERCENTILES = (1.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.95, 99.99)

DEFAULTS = model.Said.of(
    engine="sync",
    engine_asked="psync",
    file_name_pattern="{job}.{jobnum}.{file}",
    invalidate=True,
    random=False,
    read_percent=50.0,
    cover="once",
    depth=1,
    time_based=False,
)
"""fio's defaults where they differ from those of ``iocurve.job.model``."""
_FILLED = model.Section.of(model.Said(), DEFAULTS)


class Logs(msgspec.Struct):
    """Log files of a section: file name prefixes by kind of log (default: the job's name) and their format."""

    bandwidth: str | None = None
    latency: str | None = None
    """Prefix of fio's lat, slat and clat logs."""
    submission: bool = True
    """Writes the slat log; False with disable_slat."""
    without_latency: bool = False
    """Leaves out the lat log (disable_lat)."""
    without_completion: bool = False
    """Leaves out the clat log (disable_clat)."""
    without_bandwidth: bool = False
    """Leaves the bw log empty (disable_bw_measurement)."""
    iops: str | None = None
    histogram: str | None = None
    iolog: str | None = None
    """File of write_iolog."""
    window_ms: int = 0
    """log_avg_msec; 0 writes a line for each operation."""
    histogram_window_ms: int = 0
    """log_hist_msec."""
    histogram_coarseness: int = 0
    window_value: Literal["avg", "max", "both"] = "avg"
    """log_window_value: the latency written for a window of several operations."""
    offsets: bool = False
    """Adds the offset to each line (log_offset)."""
    unix_epoch: bool = False
    """Writes Unix time instead of time since the start (log_unix_epoch)."""
    per_job: bool = True
    """Writes separate files for each job (per_job_logs)."""

    @property
    def any(self) -> bool:
        """True if the section writes a log."""
        return any((self.bandwidth, self.latency, self.iops, self.histogram, self.iolog))


class Reporting(msgspec.Struct):
    """Output options of a section."""

    percentiles: tuple[float, ...] = FIO_PERCENTILES
    submission_percentiles: bool = False
    """slat_percentiles."""
    completion_percentiles: bool = True
    """clat_percentiles."""
    total_percentiles: bool = False
    """lat_percentiles."""
    mixed: Literal["none", "mixed", "both"] = "none"
    """unified_rw_reporting."""
    logs: Logs = msgspec.field(default_factory=Logs)
    state_save: bool = True
    """verify_state_save."""
    state_load: bool = False
    """verify_state_load."""
    steady_state: str | None = None
    """Criterion of steadystate as fio's JSON writes it: ``iops_slope:0.300000%``."""
    steady_state_duration_s: int = 0


def steady_state(figure: SteadyFigure, criterion: SteadyCriterion, limit: float, *, is_percent: bool) -> SteadyState:
    """The value of steadystate, whose times are those of other options."""
    return SteadyState(
        figure=figure,
        criterion=criterion,
        limit=limit,
        limit_is_percent=is_percent,
        duration_ns=0,
        ramp_ns=0,
        check_ns=SECOND_NS,
    )


_4_KIB = model.PerKind.same(4096)
_NO_BLOCKS = model.PerKind[Blocks | None].same(None)
_IOPS_SLOPE = steady_state("iops", "slope", 0.01, is_percent=True)


class Deferred(msgspec.Struct):
    """Values of options whose meaning depends on other options; ``combine`` turns them into fields of the section."""

    bs: model.PerKind[int] = _4_KIB
    blocks: model.PerKind[Blocks | None] = _NO_BLOCKS
    """Values of bsrange and bssplit."""
    bs_unaligned: bool = False
    rw_sequencer: Literal["sequential", "identical"] = "sequential"
    unlink_each_loop: bool = False
    flow: int = 0
    flow_id: int = 0
    # Flushes and the end of the run
    fsync: int = 0
    fdatasync: int = 0
    sync_file_range: int = 0
    end_fsync: bool = False
    end_syncfs: bool = False
    fsync_on_close: bool = False
    exitall: bool = False
    exitall_on_error: bool = False
    continue_on_error: Literal["none", "read", "write", "io", "verify", "all"] = "none"
    ignore_error: tuple[tuple[int, ...], ...] = ((), (), ())
    """Error numbers of reads, writes and verification."""
    exit_what: Literal["group", "stonewall", "all"] = "group"
    steadystate: SteadyState = _IOPS_SLOPE
    steadystate_duration: int = 0
    steadystate_ramp_time: int = 0
    steadystate_check_interval: int = SECOND_NS
    # Buffer contents and verification
    dedupe_mode: Literal["repeat", "working_set"] = "repeat"
    dedupe_working_set_percentage: int | None = None
    verify: VerifyMethod | Literal["none"] | None = None
    do_verify: bool = True
    verify_interval: int = 0
    verify_offset: int = 0
    verify_pattern: str = ""
    verify_fatal: bool = False
    verify_dump: bool = False
    verify_backlog: int = 0
    verify_backlog_batch: int = 0
    verify_only: bool = False
    trim_percentage: int = 0
    trim_backlog: int = 0
    # Zones and traces
    zonemode: Literal["none", "strided", "zbd"] | None = None
    zonesize: int = 0
    zonerange: int = 0
    zoneskip: int = 0
    read_iolog: Path | None = None
    replay_no_stall: bool = False
    replay_redirect: str | None = None
    replay_align: int = 0
    replay_scale: int = 1
    replay_time_scale: int = 100
    replay_skip: frozenset[str] = frozenset()
    # Latencies
    disable_slat: bool = False
    gtod_reduce: bool = False

    @property
    def method(self) -> VerifyMethod | None:
        """The verify method. verify_pattern alone implies verify=pattern."""
        if self.verify is None:
            return "pattern" if self.verify_pattern else None
        return None if self.verify == "none" else self.verify

    @property
    def measures_submission(self) -> bool:
        """False if slat is switched off."""
        return not (self.disable_slat or self.gtod_reduce)


class Draft(msgspec.Struct):
    """A section while its options are read one after another; a later option overrides an earlier one."""

    section: model.Section = _FILLED
    """The section's own fields; its parts are those below, with fio's defaults for what is not set."""
    target: model.Target = _FILLED.target
    files: model.Files = _FILLED.files
    load: model.Load = _FILLED.load
    pace: model.Pace = _FILLED.pace
    ending: model.Ending = _FILLED.ending
    data: model.Data = _FILLED.data
    report: model.Reporting = _FILLED.report
    given: set[str] = msgspec.field(default_factory=set)
    """Names of the fields that are set so far."""
    reporting: Reporting = msgspec.field(default_factory=Reporting)
    deferred: Deferred = msgspec.field(default_factory=Deferred)
    option_positions: dict[str, Where] = msgspec.field(default_factory=dict)
    """Position of the last setting of each option."""
    field_positions: dict[str, Where] = msgspec.field(default_factory=dict)
    """Position of the last setting of each field."""
    depth_asked: int = 1
    """iodepth as written; fio may run with less."""
    engine_refused: bool = False
    """True if fio has the section's ioengine and iocurve does not. Errors in that engine's options are dropped."""
    notes: list[model.PlanNote] = msgspec.field(default_factory=list)
    errors: list[Diagnostic] = msgspec.field(default_factory=list)

    def copy(self) -> Draft:
        """A draft that continues from here."""
        return replace(
            self,
            given=set(self.given),
            reporting=replace(self.reporting, logs=copy(self.reporting.logs)),
            deferred=copy(self.deferred),
            option_positions=dict(self.option_positions),
            field_positions=dict(self.field_positions),
            notes=list(self.notes),
            errors=list(self.errors),
        )

    def put(self, part: Callable[P, Struct], /, *_: P.args, **fields: P.kwargs) -> None:
        """Sets fields of one of the section's parts: ``draft.put(Load, random=True)``."""
        name = _ATTRIBUTES[part]
        setattr(self, name, getattr(self, name).replace(**fields))
        self.given.update(fields)

    def reset(self, *fields: str) -> None:
        """Gives fields their defaults again, as if they had not been set."""
        for name in self.given.intersection(fields):
            part: Callable[..., Struct] = part_of(name)
            self.put(part, **{name: _FILLED.value(name)})
        self.given.difference_update(fields)

    def finished(self) -> model.Section:
        """The section with its parts."""
        parts = {name: getattr(self, name) for name in model.PARTS}
        return self.section.replace(**parts, given=frozenset(self.given), positions=self.field_positions)

    def note(self, option: str, code: str, text: str, level: model.Level = "info") -> None:
        """Adds a note at the position of ``option``. Call it after all options are read."""
        self.notes.append(model.PlanNote(code, text, self.option_positions.get(option), level))

    def note_unused(self, options: Iterable[str], why: str, level: model.Level = "info") -> None:
        """Adds a note for each of the options that is set: it has no effect. ``why`` follows these words."""
        for option in options:
            if option in self.option_positions:
                self.note(option, "no_effect", f"{option} has no effect {why}", level)

    def error(self, option: str, text: str, hint: str | None = None) -> None:
        """Adds an error at the position of ``option``. Call it after all options are read."""
        self.errors.append(Diagnostic(text, self.option_positions.get(option), hint))


def part_of(field: str) -> type[Struct]:
    """The class that has a field of a section."""
    return model.PARTS[model.FIELDS[field]] if model.FIELDS[field] else model.Section


_ATTRIBUTES: Mapping[Callable[..., Struct], str] = {model.Section: "section"} | {
    part: name for name, part in model.PARTS.items()
}
"""The attribute of a draft that holds each part."""


Effect = Callable[[Draft, str, Context], None]


class Option(msgspec.Struct, frozen=True):
    """One fio option."""

    name: str
    effect: Effect
    fields: tuple[str, ...] = ()
    """Fields that the option sets; later notes on such a field point at the option's position."""
    aliases: tuple[str, ...] = ()
    bare: bool = False
    """True if the option may be written without a value."""
    bare_value: str = "1"
    """Value of the option where none is written."""
    boolean: bool = False
    """True if the value is 0 or 1."""
    engines: tuple[str, ...] = ()
    """fio's I/O engines that have the option; empty: all."""
    support: str = "supported"
    """Text for --cmdhelp: ``supported``, ``no effect: REASON`` or ``not supported: REASON``."""

"""``Draft``: a section of a fio job while its options are read. ``Option``: a fio option and its effect on a draft."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from iocurve.dialects.fio.read.values import Context
from iocurve.errors import Diagnostic, Where
from iocurve.job.model import Level, PlanNote, Said, Section

FIO_PERCENTILES = (1.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.95, 99.99)

DEFAULTS = Said.of(
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
_FILLED = Section.of(DEFAULTS)


@dataclass(frozen=True)
class Logs:
    """Log files of a section: file name prefixes by kind of log (default: the job's name) and their format."""

    bandwidth: str | None = None
    latency: str | None = None
    """Prefix of fio's lat, slat and clat logs."""
    submission: bool = True
    """Writes the slat log; False with disable_slat."""
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
    priorities: bool = False
    issue_times: bool = False
    unix_epoch: bool = False
    """Writes Unix time instead of time since the start (log_unix_epoch)."""
    per_job: bool = True
    """Writes separate files for each job (per_job_logs)."""
    bandwidth_window_ms: int = 500
    """bwavgtime."""
    iops_window_ms: int = 500
    """iopsavgtime."""

    @property
    def any(self) -> bool:
        """True if the section writes a log."""
        return any((self.bandwidth, self.latency, self.iops, self.histogram, self.iolog))


@dataclass(frozen=True)
class Reporting:
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
    logs: Logs = Logs()
    state_save: bool = True
    """verify_state_save."""
    state_load: bool = False
    """verify_state_load."""
    steady_state: str | None = None
    """Criterion of steadystate as fio's JSON writes it: ``iops_slope:0.300000%``."""
    steady_state_duration_s: int = 0


@dataclass
class Draft:
    """A section while its options are read one after another; a later option overrides an earlier one."""

    fields: dict[str, Any] = field(default_factory=dict)
    """Fields of the section that are set so far."""
    reporting: dict[str, Any] = field(default_factory=dict)
    logs: dict[str, Any] = field(default_factory=dict)
    deferred: dict[str, Any] = field(default_factory=dict)
    """Values by option whose meaning depends on other options; ``combine`` turns them into fields."""
    option_positions: dict[str, Where] = field(default_factory=dict)
    """Position of the last setting of each option."""
    field_positions: dict[str, Where] = field(default_factory=dict)
    """Position of the last setting of each field."""
    depth_asked: int = 1
    """iodepth as written; fio may run with less."""
    engine_refused: bool = False
    """True if fio has the section's ioengine and iocurve does not. Errors in that engine's options are dropped."""
    notes: list[PlanNote] = field(default_factory=list)
    errors: list[Diagnostic] = field(default_factory=list)

    def copy(self) -> Draft:
        """A draft that continues from here."""
        return replace(
            self,
            fields=dict(self.fields),
            reporting=dict(self.reporting),
            logs=dict(self.logs),
            deferred=dict(self.deferred),
            option_positions=dict(self.option_positions),
            field_positions=dict(self.field_positions),
            notes=list(self.notes),
            errors=list(self.errors),
        )

    def value(self, name: str) -> Any:
        """The field's value so far, else fio's default."""
        return self.fields[name] if name in self.fields else _FILLED.value(name)

    def note(self, option: str, code: str, text: str, level: Level = "info") -> None:
        """Adds a note at the position of ``option``. Call it after all options are read."""
        self.notes.append(PlanNote(code, text, self.option_positions.get(option), level))

    def error(self, option: str, text: str, hint: str | None = None) -> None:
        """Adds an error at the position of ``option``. Call it after all options are read."""
        self.errors.append(Diagnostic(text, self.option_positions.get(option), hint))


Effect = Callable[[Draft, str, Context], None]


@dataclass(frozen=True)
class Option:
    """One fio option."""

    name: str
    effect: Effect
    fields: tuple[str, ...] = ()
    """Fields that the option sets; later notes on such a field point at the option's position."""
    aliases: tuple[str, ...] = ()
    bare: bool = False
    """True if the option may be written without a value, which means 1."""
    boolean: bool = False
    """True if the value is 0 or 1."""
    engines: tuple[str, ...] = ()
    """fio's I/O engines that have the option; empty: all."""
    support: str = "supported"
    """Text for --cmdhelp: ``supported``, ``no effect: REASON`` or ``not supported: REASON``."""


class RefusedError(ValueError):
    """A value or an option that fio has and iocurve does not support."""

"""A section of a fio job while its options are read, and what an option is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from iocurve.dialects.fio.read.values import Context
from iocurve.errors import Mistake, Where
from iocurve.job.model import Level, PlanNote, Said, Section

FIO_PERCENTILES = (1.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.95, 99.99)

DEFAULTS = Said.of(
    engine="sync",
    engine_asked="psync",
    file_name_pattern="{job}.{clone}.{file}",
    invalidate=True,
    random=False,
    read_percent=50.0,
    cover="once",
    depth=1,
    time_based=False,
)
"""What fio does where nothing is said and it differs from the model's own defaults."""
_FILLED = Section.of(DEFAULTS)


@dataclass(frozen=True)
class Logs:
    """Log files that a section asks for. Their names begin with the text given, or with the job's name."""

    bandwidth: str | None = None
    latency: str | None = None
    """fio's lat, slat and clat logs."""
    submission: bool = True
    """Whether slat is among them: not with disable_slat."""
    iops: str | None = None
    histogram: str | None = None
    window_ms: int = 0
    """fio's log_avg_msec; 0 is a line for each operation."""
    histogram_window_ms: int = 0
    """fio's log_hist_msec."""
    histogram_coarseness: int = 0
    window_value: Literal["avg", "max", "both"] = "avg"
    """fio's log_window_value: what a line of several operations says."""
    offsets: bool = False
    """Whether lines have the offset (log_offset)."""
    priorities: bool = False
    issue_times: bool = False
    unix_epoch: bool = False
    """Whether times count from 1970 (log_unix_epoch)."""
    per_job: bool = True
    """Whether each clone has files of its own (per_job_logs)."""
    bandwidth_window_ms: int = 500
    """fio's bwavgtime."""
    iops_window_ms: int = 500
    """fio's iopsavgtime."""

    @property
    def any(self) -> bool:
        """Whether there are any."""
        return any((self.bandwidth, self.latency, self.iops, self.histogram))


@dataclass(frozen=True)
class Reporting:
    """What a section says about its output."""

    percentiles: tuple[float, ...] = FIO_PERCENTILES
    submission_percentiles: bool = False
    """fio's slat_percentiles."""
    completion_percentiles: bool = True
    """fio's clat_percentiles."""
    total_percentiles: bool = False
    """fio's lat_percentiles."""
    mixed: Literal["none", "mixed", "both"] = "none"
    """fio's unified_rw_reporting."""
    logs: Logs = Logs()
    steady_state: str | None = None
    """fio's criterion, as in its JSON: ``iops_slope:0.300000%``."""
    steady_state_duration_s: int = 0


@dataclass
class Draft:
    """A section while its options are read one after another; the last word counts."""

    fields: dict[str, Any] = field(default_factory=dict)
    """Of the section."""
    reporting: dict[str, Any] = field(default_factory=dict)
    logs: dict[str, Any] = field(default_factory=dict)
    parts: dict[str, Any] = field(default_factory=dict)
    """By option: what means something only together with other options."""
    places: dict[str, Where] = field(default_factory=dict)
    """Where each option was said last."""
    positions: dict[str, Where] = field(default_factory=dict)
    """Where each field was said last."""
    depth_asked: int = 1
    """iodepth as said, where fio runs with less."""
    engine_refused: bool = False
    """Whether its engine is known and cannot run here; that is said once, not for each of its own options."""
    notes: list[PlanNote] = field(default_factory=list)
    mistakes: list[Mistake] = field(default_factory=list)

    def value(self, name: str) -> Any:
        """A field as said so far, else fio's default."""
        return self.fields[name] if name in self.fields else _FILLED.value(name)

    def note(self, option: str, code: str, text: str, level: Level = "info") -> None:
        """Something to say about an option, once all are read."""
        self.notes.append(PlanNote(code, text, self.places.get(option), level))

    def mistake(self, option: str, text: str, hint: str | None = None) -> None:
        """Something that is wrong with an option, once all are read."""
        self.mistakes.append(Mistake(text, self.places.get(option), hint))


Effect = Callable[[Draft, str, Context], None]


@dataclass(frozen=True)
class Option:
    """One option."""

    name: str
    effect: Effect
    fields: tuple[str, ...] = ()
    """What it sets, for the places of later notes."""
    aliases: tuple[str, ...] = ()
    bare: bool = False
    """May stand without a value, which then is 1."""
    boolean: bool = False
    """Is 0 or 1."""
    engines: tuple[str, ...] = ()
    """Those of fio's engines it belongs to; none: all."""
    fate: str = "honoured"
    """What comes of it here, for --cmdhelp."""


class RefusedError(ValueError):
    """An option that is known and cannot be honoured."""

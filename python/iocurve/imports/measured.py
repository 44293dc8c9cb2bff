"""A load and its values as a reader finds them, before they become a point."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import msgspec

from iocurve.engine.outcome import State
from iocurve.result.document import Axis
from iocurve.result.imported import ImportedInterval, ImportedJob, ImportedKind


class ImportedLoad(msgspec.Struct, frozen=True):
    """The load as far as a tool tells it. None is not known."""

    kind: str | None = None
    """read, write, or mixed."""
    order: str | None = None
    """random or sequential."""
    block_bytes: int | None = None
    read_percent: float | None = None
    depth: float | None = None
    """Operations in flight, all jobs together."""

    def axes(self) -> dict[str, Axis]:
        """The axes that are known."""
        named = {
            "kind": self.kind,
            "order": self.order,
            "block_bytes": self.block_bytes,
            "read_percent": self.read_percent,
            "depth": self.depth,
        }
        return {
            name: int(value) if isinstance(value, float) and value.is_integer() else value
            for name, value in named.items()
            if value is not None
        }


class ImportedMeasurement(msgspec.Struct, frozen=True):
    """One load with its figures."""

    tool: str
    """``fio 3.33``."""
    source: str
    name: str
    load: ImportedLoad
    kinds: Mapping[str, ImportedKind]
    total: ImportedKind
    jobs: tuple[ImportedJob, ...] = ()
    intervals: tuple[ImportedInterval, ...] = ()
    window_ns: int | None = None
    workers: int | None = None
    cpu_ns_per_operation: float | None = None
    state: State = "finished"
    errors_text: tuple[str, ...] = ()
    created: datetime | None = None
    target: str | None = None
    """The file, directory or device that was loaded."""
    notes: tuple[tuple[str, str], ...] = msgspec.field(default=())
    """Codes and sentences on what the tool does not tell, or tells otherwise than iocurve measures it."""

"""The messages of the control socket: one JSON object per line; ``do`` is the kind of request."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta

from iocurve.engine.structs import Struct
from iocurve.volume.limits import Limits
from iocurve.volume.stats import ExportStats, VolumeStats

IOPS_MAX = (1 << 53) - 1

Iops = Annotated[int, Meta(ge=1, le=IOPS_MAX)]


class StatsRequest(Struct, tag_field="do", tag="stats"):
    """Asks for the counters."""


class SetRequest(Struct, tag_field="do", tag="set"):
    """Changes the settings of an export. Settings that are left out keep their values; a new profile resets them."""

    export: str | None = None
    """The path of the export; may be left out if the volume has only one."""
    profile: str | None = None
    quota: str | None = None
    throughput: str | None = None
    iops: Iops | None = None
    latency: str | None = None
    pool: str | None = None
    client_egress: str | None = None
    client_iops_read: Iops | None = None
    client_iops_write: Iops | None = None

    @property
    def changes(self) -> dict[str, str | int]:
        """The settings to change."""
        settings = {name: getattr(self, name) for name in self.__struct_fields__ if name != "export"}
        return {name: value for name, value in settings.items() if value is not None}


Request = StatsRequest | SetRequest


class ServedExportStats(ExportStats):
    """An export with the profile that it was given; the volume itself knows only limits."""

    profile: str

    def to_builtins(self) -> Any:
        """The JSON form for users, in which each limit is a field."""
        return super().to_builtins() | {"limits": self.limits.fields()}


class ServedStats(VolumeStats):
    """A volume with the profiles of its exports."""

    exports: tuple[ServedExportStats, ...]

    def to_builtins(self) -> Any:
        """The JSON form for users."""
        return super().to_builtins() | {"exports": [export.to_builtins() for export in self.exports]}


class NewSettings(Struct):
    """The settings of an export after a change."""

    export: str
    profile: str
    quota_bytes: int
    limits: Limits

    def to_builtins(self) -> Any:
        """The JSON form for users, in which each limit is a field."""
        return super().to_builtins() | {"limits": self.limits.fields()}


class Answer(Struct, omit_defaults=True):
    """The answer to a request: one of the three."""

    stats: ServedStats | None = None
    set: NewSettings | None = None
    error: str | None = None

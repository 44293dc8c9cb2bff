"""The messages of the control socket: one JSON object per line; ``do`` is the kind of request."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta

from iocurve.foundation.structs import Struct
from iocurve.volume.limits import Limits
from iocurve.volume.stats import ExportStats, VolumeStats

IOPS_MAX = (1 << 53) - 1

Iops = Annotated[int, Meta(ge=1, le=IOPS_MAX)]


class StatsRequest(Struct, tag_field="do", tag="stats"):
    """Asks for the counters."""


class LimitSettings(Struct):
    """The service level of an export, its size, and settings that replace its limits."""

    profile: str | None = None
    """A service level (``iocurve profile list``) or a TOML file. Default: anf-ultra; with a throughput, unlimited."""
    quota: str | None = None
    """Size: ``4TiB``."""
    throughput: str | None = None
    """Bytes per second, instead of the profile's: ``512MiB``."""
    iops: Iops | None = None
    """Instead of the profile's."""
    latency: str | None = None
    """Added to each read and write, instead of the profile's: ``500us``."""
    pool: str | None = None
    """Size of the capacity pool that a throughput is taken from. Default: the quota."""
    client_egress: str | None = None
    """Bandwidth limit on the writes of each client (an IP address): ``16000Mb``, which is 1,907 MiB/s."""
    client_iops_read: Iops | None = None
    """Reads per second of each client (an IP address)."""
    client_iops_write: Iops | None = None


class SetRequest(LimitSettings, tag_field="do", tag="set"):
    """Changes the settings of an export. Settings that are left out keep their values; a new profile resets them."""

    export: str | None = None
    """The path of the export; may be left out if the volume has only one."""

    @property
    def changes(self) -> dict[str, str | int]:
        """The settings to change."""
        settings = {name: getattr(self, name) for name in LimitSettings.__struct_fields__}
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

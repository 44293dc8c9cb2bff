"""The messages of the control socket: one JSON object per line; ``do`` is the kind of request.

The counters in them are those of the native module since the start of the volume.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from iocurve.foundation.structs import Struct
from iocurve.volume.limits import Limits


class IoStats(Struct):
    """The READs and WRITEs of an export, a client or a connection."""

    reads: int
    """READs answered."""
    read_bytes: int
    writes: int
    """WRITEs answered."""
    write_bytes: int
    throttled_operations: int
    """READs and WRITEs that waited for a limit or the added latency."""
    throttled_ns: int
    """The sum of their waits."""


class BucketStats(Struct):
    """A token bucket of a limit."""

    limit: str
    """The name of the limit in ``Limits``."""
    client: str | None
    """The address of the client that the bucket is for; None if it is for a connection or for the whole export."""
    connection: int | None
    """The id of the connection that the bucket is for; None if it is for a client or for the whole export."""
    level: int
    """Tokens in the bucket, in bytes or operations; negative while in debt."""
    capacity: int
    """Most tokens that the bucket holds."""
    rate_per_s: int


class ExportStats(IoStats):
    """An export."""

    path: str
    quota_bytes: int
    used_bytes: int
    limits: Limits
    burst_credits: int | None
    """None without a burst."""
    buckets: tuple[BucketStats, ...]
    catch_up_ns: int
    """Time for which buckets now keep what they gain on top of their capacities, because a thread was starved within
    the last second; at most 250 ms."""
    faults: dict[str, int] | None
    """The faults injected so far, by kind (``flip_bit`` counts bits); None if the volume injects none."""


class ClientStats(IoStats):
    """All connections from one address."""

    address: str | None
    """None is the sum over the clients beyond the number that the volume keeps apart."""
    connections: int
    """Open connections."""


class ConnectionStats(IoStats):
    """An open connection."""

    id: int
    """Unique over the life of the volume."""
    peer: str
    """Address and port of the client."""
    in_flight: int
    """Requests that wait for a limit or the added latency."""


class VolumeStats(IoStats):
    """A volume; its READs and WRITEs are those of all exports."""

    uptime_ns: int
    commits: int
    """COMMITs answered."""
    other_operations: int
    """Other calls answered, of all programs."""
    nfs3_procedures: dict[str, int]
    """NFSv3 calls by procedure (``LOOKUP``), without READ and WRITE; those that were called."""
    nfs4_operations: dict[str, int]
    """Operations of NFSv4.1 COMPOUNDs by name, in the same way."""
    connections_accepted: int
    connections_closed: int
    protocol_errors: int
    """Connections closed because the peer broke the protocol."""
    connections_refused: int
    """Connections closed at once: no export admits their address, or all are open and their address has its share."""
    connections_timed_out: int
    """Connections closed because a record did not arrive in time, or because others needed their memory or place."""
    threads_starved_ns: tuple[int, ...]
    """Of each thread the time for which it was starved: ready to run, and without a processor for more than 1/64 s at a
    time. Limits then give up to 250 ms of what was missed later; a closed loop without enough in flight gets less."""
    connection_memory_bytes: int
    """Memory that connections hold for records in part, replies not taken and calls that wait."""
    nfs4: dict[str, int]
    """The state of NFSv4.1 clients: ``clients`` (those without a session included), ``slots`` of their sessions,
    ``states`` (opens and lock owners), locked ``ranges`` of bytes."""
    exports: tuple[ExportStats, ...]
    """In the order of the configuration."""
    clients: tuple[ClientStats, ...]
    """Includes clients that have disconnected."""
    connections: tuple[ConnectionStats, ...]

    @property
    def operations(self) -> dict[tuple[str, str], int]:
        """Calls by version of NFS and name."""
        versions = {"3": self.nfs3_procedures, "4.1": self.nfs4_operations}
        return {(version, name): count for version, counts in versions.items() for name, count in counts.items()}

    def starved_share(self, before: VolumeStats | None = None) -> float:
        """The time for which the most starved thread was starved, of the time since ``before`` or since the start."""
        if before and before.uptime_ns > self.uptime_ns:
            # The volume was restarted.
            before = None
        elapsed_ns = self.uptime_ns - (before.uptime_ns if before else 0)
        known = before.threads_starved_ns if before else (0,) * len(self.threads_starved_ns)
        starved = (now - then for now, then in zip(self.threads_starved_ns, known, strict=True))
        return min(1.0, max(starved, default=0) / max(elapsed_ns, 1))


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
    stored: str | None = None
    """Data that limits which grow with stored data count. Default: what the volume holds."""
    client_ingress: str | None = None
    """Bandwidth limit on the reads of each client, as ``client_egress``."""
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

    def to_builtins(self) -> dict[str, object]:
        """The JSON form for users, in which each limit is a field."""
        return {**super().to_builtins(), "limits": self.limits.fields()}


class ServedStats(VolumeStats):
    """A volume with the profiles of its exports."""

    exports: tuple[ServedExportStats, ...]

    def to_builtins(self) -> dict[str, object]:
        """The JSON form for users."""
        return {**super().to_builtins(), "exports": [export.to_builtins() for export in self.exports]}


class NewSettings(Struct):
    """The settings of an export after a change."""

    export: str
    profile: str
    quota_bytes: int
    limits: Limits

    def to_builtins(self) -> dict[str, object]:
        """The JSON form for users, in which each limit is a field."""
        return {**super().to_builtins(), "limits": self.limits.fields()}


class Answer(Struct, omit_defaults=True):
    """The answer to a request: one of the three."""

    stats: ServedStats | None = None
    set: NewSettings | None = None
    error: str | None = None

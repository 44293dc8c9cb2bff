"""The configuration of a volume, as the native module takes it."""

from __future__ import annotations

import secrets

from msgspec import field

from iocurve.structs import Struct, TaggedStruct
from iocurve.volume.faults import Faults
from iocurve.volume.limits import Limits
from iocurve.volume.rules import ExportRules

CONNECTIONS_MAX = 8192
CONNECTION_MEMORY_BYTES = 128 << 20


class MemoryStore(TaggedStruct, tag="memory"):
    """Keeps the data in memory, for as long as the volume serves."""

    limit_bytes: int


class DirectoryStore(TaggedStruct, tag="directory"):
    """Keeps the data in the files of a directory."""

    path: str


class ExportConfig(Struct):
    """A directory tree that clients mount."""

    path: str = "/vol"
    store: MemoryStore | DirectoryStore
    quota_bytes: int
    limits: Limits = Limits()
    rules: ExportRules = ExportRules()


class VolumeConfig(Struct):
    """The exports of a volume, and the address it listens on."""

    address: str = "127.0.0.1"
    port: int = 0
    """TCP port of NFS and MOUNT; 0 takes a free port."""
    exports: tuple[ExportConfig, ...]
    connections_max: int = CONNECTIONS_MAX
    """Further connections are closed at once."""
    connection_memory_bytes: int = CONNECTION_MEMORY_BYTES
    """For records in part, replies not taken and calls that wait, over all connections."""
    handle_key: str = field(default_factory=lambda: secrets.token_hex(16))
    """32 hexadecimal digits. With the same key, handles of directories outlive a restart."""
    faults: Faults | None = None
    """Faults that all stores inject."""

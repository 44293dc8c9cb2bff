"""The configuration of a volume, as the native module takes it."""

from __future__ import annotations

from iocurve.structs import Struct, TaggedStruct
from iocurve.volume.limits import Limits


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


class VolumeConfig(Struct):
    """The exports of a volume, and the address it listens on."""

    address: str = "127.0.0.1"
    port: int = 0
    """TCP port of NFS and MOUNT; 0 takes a free port."""
    exports: tuple[ExportConfig, ...]

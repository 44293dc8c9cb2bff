"""The configuration of a volume, as the native module takes it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from iocurve.volume.limits import Limits


class MemoryStore(BaseModel):
    """Keeps the data in memory, for as long as the volume serves."""

    kind: Literal["memory"] = "memory"
    limit_bytes: int


class DirectoryStore(BaseModel):
    """Keeps the data in the files of a directory."""

    kind: Literal["directory"] = "directory"
    path: str


class ExportConfig(BaseModel):
    """A directory tree that clients mount."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    path: str = "/vol"
    store: Annotated[MemoryStore | DirectoryStore, Field(discriminator="kind")]
    quota_bytes: int
    limits: Limits = Limits()


class VolumeConfig(BaseModel):
    """The exports of a volume, and the address it listens on."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    address: str = "127.0.0.1"
    port: int = 0
    """0 takes a free one."""
    exports: tuple[ExportConfig, ...]

"""The configuration of a volume, as the native module takes it."""

from __future__ import annotations

import os
import re
import secrets
from pathlib import Path

from msgspec import field

from iocurve.foundation.structs import Struct, TaggedStruct
from iocurve.machine.files import state_directory
from iocurve.volume.faults import Faults
from iocurve.volume.limits import Limits
from iocurve.volume.rules import ExportRules

CONNECTIONS_MAX = 8192
CONNECTION_MEMORY_BYTES = 128 << 20


class MemoryStore(TaggedStruct, tag="memory"):
    """Keeps the data in memory, for as long as the volume serves."""

    limit_bytes: int


class DirectoryStore(TaggedStruct, tag="directory", omit_defaults=True):
    """Keeps the data in the files of a directory."""

    path: str
    is_async: bool = False
    """Changes of names and attributes are answered before they are on stable storage."""


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


# ---- the key that proves file handles of directories

KEY_DIGITS = 32


def handle_key() -> str:
    """This user's key, made at first use, so that clients stay mounted over a restart of the volume.

    Where it cannot be kept it is another one at each start: then clients of directories must mount again.
    """
    path = state_directory() / "handle-key"
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _make_key(path)
        key = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return secrets.token_hex(KEY_DIGITS // 2)
    return key if re.fullmatch(rf"[0-9a-f]{{{KEY_DIGITS}}}", key) else secrets.token_hex(KEY_DIGITS // 2)


def _make_key(path: Path) -> None:
    """Makes the key in one step, so that two volumes that start at once have the same one."""
    if path.exists():
        return
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
            file.write(secrets.token_hex(KEY_DIGITS // 2) + "\n")
        os.link(draft, path)
    except FileExistsError:
        pass
    finally:
        draft.unlink(missing_ok=True)

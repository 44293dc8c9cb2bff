"""The key that proves file handles of directories: one that was not given out names no file."""

from __future__ import annotations

import os
import re
import secrets
from pathlib import Path

KEY_DIGITS = 32


def handle_key() -> str:
    """This user's key, made at first use, so that clients stay mounted over a restart of the volume.

    Where it cannot be kept it is another one at each start: then clients of directories must mount again.
    """
    path = _state_directory() / "handle-key"
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _make(path)
        key = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return secrets.token_hex(KEY_DIGITS // 2)
    return key if re.fullmatch(rf"[0-9a-f]{{{KEY_DIGITS}}}", key) else secrets.token_hex(KEY_DIGITS // 2)


def _make(path: Path) -> None:
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


def _state_directory() -> Path:
    state = os.environ.get("XDG_STATE_HOME")
    return (Path(state) if state else Path.home() / ".local" / "state") / "iocurve"

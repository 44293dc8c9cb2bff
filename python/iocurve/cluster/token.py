"""The token that lets a machine into a cluster: without one, whoever reaches its ports can run code on it."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from pathlib import Path


def state_directory() -> Path:
    """``~/.local/state/iocurve/cluster``."""
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state") / "iocurve/cluster"


def token_path() -> Path:
    """The file with the token of this user's clusters."""
    return state_directory() / "token"


def made_token() -> Path:
    """The file with the token, made if there is none; only its owner can read it."""
    path = token_path()
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(secrets.token_hex(32))
    return path


def authentication(environment: Mapping[str, str]) -> dict[str, str]:
    """Ray's variables for the mode of authentication: as the environment says, otherwise the token if there is one.

    The mode is always set: without it Ray makes a token in the home directory and then asks every node for it.
    """
    if environment.get("RAY_AUTH_MODE"):
        return {}
    if token_path().exists():
        return {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(token_path())}
    return {"RAY_AUTH_MODE": "disabled"}

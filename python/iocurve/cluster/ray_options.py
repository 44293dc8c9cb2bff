"""How iocurve starts Ray: fixed ports, no dashboard, quick detection of dead nodes.

Ports, all TCP: every node reaches the head at 6379; all nodes reach each other at 6380, 6381 and 6400 to 6500 (the head
program listens there, too); 6382 to 6385 are used within a node.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Mapping
from pathlib import Path

HEAD_PORT = 6379
PORTS = {
    "node-manager-port": 6380,
    "object-manager-port": 6381,
    "runtime-env-agent-port": 6382,
    "dashboard-agent-listen-port": 6383,
    "metrics-export-port": 6384,
    "dashboard-agent-grpc-port": 6385,
    "min-worker-port": 6400,
    "max-worker-port": 6500,
}
OBJECT_STORE_BYTES = 100_000_000
LOAD_CLIENT = json.dumps({"load_client": 1})
ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    # Machines may differ in the patch level of Python; modules in machine code fit all of a minor version.
    "RAY_DEFAULT_PYTHON_VERSION_MATCH_LEVEL": "minor",
    # Ray would wait 30 s for work to move away from a node that ends; a load client has none.
    "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S": "0",
}
HEAD_ENVIRONMENT = {
    "RAY_health_check_initial_delay_ms": "1000",
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_timeout_ms": "1000",
    "RAY_health_check_failure_threshold": "10",
}
"""Ray gives up a node that is cut off after 10 to 20 s, instead of a minute: later than iocurve, which lets a client
return after a short cut."""

_COMMON = ["--include-log-monitor=false", f"--object-store-memory={OBJECT_STORE_BYTES}", "--disable-usage-stats"]


AGENT_PORTS = tuple(name for name in PORTS if "agent" in name or "export" in name)


def common(ports: Mapping[str, int] = PORTS) -> list[str]:
    """Options of every node. Ray gives up on a node whose agents are slow to choose ports, so they are always given."""
    return [*_COMMON, *(f"--{name}={port}" for name, port in ports.items())]


def bound(processor: int = 0) -> list[str]:
    """Binds daemons to one processor, which loads leave to them where they need fewer than there are."""
    return ["taskset", "-c", str(processor)]


def head(port: int = HEAD_PORT) -> list[str]:
    """Options of the head, which generates no load."""
    return ["--head", f"--port={port}", "--num-cpus=0", "--include-dashboard=false"]


def node(address: str) -> list[str]:
    """Options of a node that offers a load client."""
    return [f"--address={address}", "--num-cpus=1", f"--resources={LOAD_CLIENT}"]


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

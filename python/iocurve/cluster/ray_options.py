"""Options and variables of Ray: fixed ports, no dashboard, time for a machine that was cut off to return; credentials.

Ports, all TCP: every node reaches the head at 6379; all nodes reach each other at 6380, 6381 and 6400 to 6500, and the
head at 6390, 6391 and 6500 to 6600 (the coordinator listens there, too); 6382 to 6385 and 6392 to 6395 are used within
a node. Credentials are a token, and with TLS a certificate that all machines of a cluster share.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from iocurve.foundation.serving import make_certificate as make_certificate_of
from iocurve.foundation.serving import write_private
from iocurve.machine.files import state_directory

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
HEAD_PORTS = {name: port + (100 if "worker" in name else 10) for name, port in PORTS.items()}
"""Ports of the head, whose machine may be an agent, too."""
OBJECT_STORE_BYTES = 100_000_000
LOAD_CLIENT = json.dumps({"load_client": 1})
ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    # No metrics and no events of tasks: no program reads them.
    "RAY_enable_metrics_collection": "0",
    "RAY_task_events_report_interval_ms": "0",
    # Machines may differ in the patch level of Python; modules in machine code fit all of a minor version.
    "RAY_DEFAULT_PYTHON_VERSION_MATCH_LEVEL": "minor",
    # Ray would wait 30 s for work to move away from a node that ends; an agent has none.
    "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S": "0",
    # Ray would start a Python process for each processor at the first run; an agent is one process.
    "RAY_enable_worker_prestart": "0",
    "RAY_prestart_worker_first_driver": "0",
    # Ray would kill agents while other programs use 95 % of the memory of a machine.
    "RAY_memory_monitor_refresh_ms": "0",
    # Ray would start agents at niceness 15: other programs of the machine would slow them down as a server does.
    "RAY_worker_niceness": "0",
}
HEAD_ENVIRONMENT = {
    "RAY_health_check_initial_delay_ms": "1000",
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_timeout_ms": "1000",
    "RAY_health_check_failure_threshold": "30",
}
"""Ray gives up a node that is cut off after 30 to 60 s: later than a run, which lets a client return after a cut. It
would end the processes of a node that returns after it was given up."""

_COMMON = ["--include-log-monitor=false", f"--object-store-memory={OBJECT_STORE_BYTES}", "--disable-usage-stats"]


AGENT_PORTS = tuple(name for name in PORTS if "agent" in name or "export" in name)


def common(ports: Mapping[str, int] = PORTS) -> list[str]:
    """Options of every node. Ray gives up on a node whose agents are slow to choose ports, so they are always given."""
    return [*_COMMON, *(f"--{name}={port}" for name, port in ports.items())]


def bound(processor: int = 0) -> list[str]:
    """Binds daemons to one processor, which loads leave to them where they need fewer than there are."""
    return ["taskset", "-c", str(processor)]


def head(port: int = HEAD_PORT) -> list[str]:
    """Options of the head, which generates no load. Ray's monitor would listen at port 44217 and scale nothing."""
    return ["--head", f"--port={port}", "--num-cpus=0", "--include-dashboard=false", "--no-monitor"]


def node(address: str) -> list[str]:
    """Options of a node that offers an agent."""
    return [f"--address={address}", f"--resources={LOAD_CLIENT}"]


def cluster_directory() -> Path:
    """``~/.local/state/iocurve/cluster``."""
    return state_directory() / "cluster"


TOKEN = "token"
KEY = "tls-key.pem"
CERTIFICATE = "tls-certificate.pem"


def make_token(directory: Path) -> None:
    """Makes the token of a cluster; only its owner can read it."""
    write_private(directory / TOKEN, secrets.token_hex(32))


def make_certificate(directory: Path, addresses: Iterable[str]) -> None:
    """Makes a key and a certificate for these addresses, which also is its own authority. Raises ``RunError``."""
    make_certificate_of(directory / KEY, directory / CERTIFICATE, [f"IP:{address}" for address in addresses])


def files(directory: Path) -> dict[str, str]:
    """The files by name, for a machine that is to join."""
    found = (directory / name for name in (TOKEN, KEY, CERTIFICATE))
    return {path.name: path.read_text(encoding="utf-8") for path in found if path.exists()}


def environment(directory: Path, made_in: Path | None = None) -> dict[str, str]:
    """Ray's variables for a cluster whose files are in ``directory``, where ``made_in`` has the same files here."""
    variables = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(directory / TOKEN)}
    if ((made_in or directory) / CERTIFICATE).exists():
        certificate = str(directory / CERTIFICATE)
        variables |= {"RAY_USE_TLS": "1", "RAY_TLS_SERVER_CERT": certificate, "RAY_TLS_CA_CERT": certificate}
        variables |= {"RAY_TLS_SERVER_KEY": str(directory / KEY)}
    return variables


def user_token_path() -> Path:
    """The file with the token of the clusters that this user starts by the printed commands."""
    return cluster_directory() / TOKEN


def made_user_token() -> Path:
    """The file, made if there is none."""
    path = user_token_path()
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        make_token(path.parent)
    return path


def user_environment(variables: Mapping[str, str]) -> dict[str, str]:
    """Ray's variables for a cluster that iocurve did not start: the user's own, otherwise the token if there is one.

    The mode is always set: without it Ray makes a token in the home directory and then asks every node for it.
    """
    if variables.get("RAY_AUTH_MODE"):
        return {}
    if user_token_path().exists():
        return {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(user_token_path())}
    return {"RAY_AUTH_MODE": "disabled"}


@contextmanager
def applied(variables: Mapping[str, str]) -> Iterator[None]:
    """Sets variables of the environment while the context lasts. Ray reads some of them when it is loaded."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value

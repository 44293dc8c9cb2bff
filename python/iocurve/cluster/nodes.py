"""The nodes of a cluster, as its head lists them; no question waits for longer than its limit."""

from __future__ import annotations

import os
import socket
import ssl
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib import import_module
from ipaddress import ip_address
from types import ModuleType
from typing import NamedTuple, cast

from iocurve.cluster.packages import installation
from iocurve.cluster.ray_options import cluster_directory
from iocurve.foundation.errors import RunError

RESOURCE = "load_client"
"""Each node offers one of it; the node of the coordinator offers none unless it is to generate load, too."""
REACH_S = 5.0
"""Time in which the head must answer."""
ANSWER_S = 5.0
"""Time in which the daemon of a node must answer."""
_HTTP2_START = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
"""The preface and empty settings."""
_ALIVE = 0
"""``GcsNodeInfo.GcsNodeState.ALIVE``."""


class ClusterNode(NamedTuple):
    """A node that the head takes for alive."""

    address: str
    hostname: str
    is_load_client: bool
    answers: bool
    """Its daemon answers this machine."""


def load_ray() -> ModuleType:
    """The module ``ray``. Raises ``RunError`` if it is not installed."""
    try:
        import ray
    except ImportError:
        raise RunError(f"many machines need Ray, which is not installed: {installation()}") from None
    return cast("ModuleType", ray)


def listed(head: str, seconds: float = REACH_S) -> list[ClusterNode]:
    """The nodes in the order of their addresses. Raises ``RunError`` if the head does not answer in that time."""
    load_ray()
    host, _, port = head.rpartition(":")
    silent = RunError(f"the head does not answer for {seconds:g} s")
    # Ray tries again for a minute before it gives up, and none of its limits ends that.
    if not answers(host, int(port), seconds):
        raise silent
    alive: list[tuple[str, int, str, bool]] | Exception = silent

    def ask() -> None:
        nonlocal alive
        try:
            alive = _asked(head, seconds)
        except Exception as error:  # noqa: BLE001 - Ray fails in many ways
            alive = RunError(reason_of(error))

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(seconds)
    if isinstance(alive, Exception):
        raise alive
    with ThreadPoolExecutor(max(1, len(alive))) as pool:
        heard = pool.map(lambda one: answers(one[0], one[1], ANSWER_S), alive)
        found = [
            ClusterNode(address, hostname, is_load_client, is_heard)
            for (address, _, hostname, is_load_client), is_heard in zip(alive, heard, strict=True)
        ]
    return sorted(found, key=lambda node: int(ip_address(node.address)))


def reason_of(error: Exception) -> str:
    """The first line of an error of Ray, or its type where the line advises what users of Ray write."""
    first = (str(error).strip().splitlines() or [""])[0]
    is_advice = not first or any(word in first for word in ("--address", "RAY_ADDRESS", "ray start", "ray.init"))
    return f"Ray ended with {type(error).__name__}" if is_advice else f"Ray says: {first}"


def _asked(head: str, seconds: float) -> list[tuple[str, int, str, bool]]:
    """Address, port and hostname of each live node, and whether it is an agent, as the head has them."""
    _raylet = import_module("ray._raylet")
    # The token of an earlier cluster of this process.
    _raylet.AuthenticationTokenLoader.instance().reset_cache()
    return [
        (
            one.node_manager_address,
            one.node_manager_port,
            one.node_manager_hostname,
            one.resources_total.get(RESOURCE, 0) >= 1,
        )
        for one in _raylet.GcsClient(address=head).get_all_node_info(timeout=seconds).values()
        if one.state == _ALIVE
    ]


def answers(host: str, port: int, seconds: float) -> bool:
    """True if a server of gRPC answers there: each side of HTTP/2 starts with its settings (RFC 9113, 3.4).

    A daemon that is stopped or hangs accepts connections all the same.
    """
    until = time.monotonic() + seconds
    try:
        with socket.create_connection((host, port), seconds) as plain, _encrypted(plain) as connection:
            connection.settimeout(max(0.1, until - time.monotonic()))
            connection.sendall(_HTTP2_START)
            return bool(connection.recv(9))
    except OSError:
        return False


def _encrypted(connection: socket.socket) -> socket.socket:
    """The connection, with TLS if Ray's variables say so."""
    if os.environ.get("RAY_USE_TLS") != "1":
        return connection
    context = ssl.create_default_context(cafile=os.environ["RAY_TLS_CA_CERT"])
    context.load_cert_chain(os.environ["RAY_TLS_SERVER_CERT"], os.environ["RAY_TLS_SERVER_KEY"])
    context.check_hostname = False
    context.set_alpn_protocols(["h2"])
    return context.wrap_socket(connection)


@contextmanager
def messages_kept() -> Iterator[None]:
    """Sends to ``ray.log`` in the state directory whatever Ray writes to standard error past Python.

    Whoever runs a measurement hears of a lost machine from iocurve.
    """
    if sys.__stderr__ is None or sys.stderr is not sys.__stderr__:
        yield
        return
    cluster_directory().mkdir(parents=True, exist_ok=True)
    sys.__stderr__.flush()
    with (cluster_directory() / "ray.log").open("a") as log, os.fdopen(os.dup(2), "w", buffering=1) as shown:
        log.truncate(0)
        os.dup2(log.fileno(), 2)
        sys.stderr = shown
        try:
            yield
        finally:
            sys.stderr = sys.__stderr__
            os.dup2(shown.fileno(), 2)

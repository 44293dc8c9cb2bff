"""Metrics in OpenMetrics text format, over HTTP."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from prometheus_client import CollectorRegistry
from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from iocurve.foundation.errors import TargetError, option
from iocurve.foundation.serving import serving


def text(metrics: Collector) -> bytes:
    """The metrics in OpenMetrics text format."""
    registry = CollectorRegistry()
    registry.register(metrics)
    written: bytes = generate_latest(registry)  # type: ignore[no-untyped-call]  # the library has no types here
    return written


# Not prometheus_client's server: it chooses the format by the Accept header, answers on every path, and a silent peer
# blocks its thread for ever.
@contextmanager
def metrics_server(metrics: Collector, address: str, port: int) -> Iterator[str]:
    """Answers ``GET /metrics`` while the context lasts; yields the URL. Raises ``TargetError``."""
    try:
        server = (_Server6 if ":" in address else _MetricsServer)((address, port), _handler(metrics))
    except OSError as error:
        raise TargetError(f"{option('metrics')} {port}: cannot listen on {address}: {error.strerror}") from None
    host = f"[{address}]" if ":" in address else address
    with serving(server, "metrics"):
        yield f"http://{host}:{server.server_address[1]}/metrics"


class _MetricsServer(ThreadingHTTPServer):
    daemon_threads = True


class _Server6(_MetricsServer):
    address_family = socket.AF_INET6


def _handler(metrics: Collector) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = 10

        def do_GET(self) -> None:
            if self.path.partition("?")[0] != "/metrics":
                self.send_error(404, "There is only /metrics")
                return
            body = text(metrics)
            self.send_response(200)
            self.send_header("Content-Type", CONTENT_TYPE_LATEST)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Logs nothing."""

    return Handler

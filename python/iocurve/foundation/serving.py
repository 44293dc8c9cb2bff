"""Servers of the standard library that run in a thread, and the certificates of servers."""

from __future__ import annotations

import os
import selectors
import socket
import subprocess
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from socketserver import TCPServer

from iocurve.foundation.errors import RunError

Answer = Callable[[str], tuple[str, Iterable[bytes]] | None]
"""The content type and the parts of what is at a path; None where nothing is."""
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
CLIENT_TIMEOUT_S = 10


@contextmanager
def http_served(answer: Answer, address: str, port: int, *, is_page: bool = False) -> Iterator[str]:
    """Answers GET while the context lasts; yields the URL of the root. Raises ``OSError``.

    A page is refused to requests that name another host than this machine, so that no web site reads it through the
    user's browser; at the end of the context what browsers have requested is sent.
    """
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

    class Handler(BaseHTTPRequestHandler):
        timeout = CLIENT_TIMEOUT_S

        def do_GET(self) -> None:
            if is_page and self.headers.get("Host", "").rpartition(":")[0] not in LOOPBACK:
                self.send_error(403, "This page is for this machine")
            elif (found := answer(self.path.partition("?")[0])) is None:
                self.send_error(404, "There is nothing here")
            else:
                self.send_response(200)
                self.send_header("Content-Type", found[0])
                self.end_headers()
                with suppress(OSError):
                    for part in found[1]:
                        self.wfile.write(part)

        def log_message(self, *_: object) -> None:
            """Logs nothing."""

    class Server(ThreadingHTTPServer):
        address_family = socket.AF_INET6 if ":" in address else socket.AF_INET
        daemon_threads = not is_page

    host = f"[{address}]" if ":" in address else address
    server = Server((address, port), Handler)
    with serving(server, "http"):
        yield f"http://{host}:{server.server_address[1]}/"


@contextmanager
def serving(server: TCPServer, name: str) -> Iterator[None]:
    """Serves in a thread of this name while the context lasts, and closes the server.

    The thread learns of the end at once: ``serve_forever`` looks for it every half second.
    """
    end, told = socket.socketpair()
    thread = threading.Thread(target=_serve, args=(server, told), name=name, daemon=True)
    thread.start()
    try:
        yield
    finally:
        end.close()
        thread.join()
        told.close()
        server.server_close()


def _serve(server: TCPServer, told: socket.socket) -> None:
    # A peer that has gone before it is accepted does not block.
    server.timeout = 0
    with selectors.DefaultSelector() as selector:
        selector.register(server, selectors.EVENT_READ, data=False)
        selector.register(told, selectors.EVENT_READ, data=True)
        while not any(key.data for key, _ in selector.select()):
            server.handle_request()


def write_private(path: Path, text: str) -> None:
    """Makes a new file that only its owner can read."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)


_DAYS = "36500"
"""Machines whose clock is wrong must accept a certificate, too."""


def make_certificate(key: Path, certificate: Path, names: Iterable[str], *extensions: str) -> None:
    """Makes a key and a certificate that it signs, for names such as ``IP:10.0.0.1``. Raises ``RunError``."""
    words = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    words += ["-days", _DAYS, "-subj", "/CN=iocurve", "-keyout", str(key), "-out", str(certificate)]
    for extension in (f"subjectAltName={','.join(names)}", *extensions):
        words += ["-addext", extension]
    write_private(key, "")
    try:
        made = subprocess.run(words, capture_output=True, text=True, check=False)
    except OSError:
        raise RunError("--tls needs the program openssl: apt-get install openssl") from None
    if made.returncode:
        raise RunError(f"--tls: openssl made no certificate: {made.stderr.strip().splitlines()[-1]}")

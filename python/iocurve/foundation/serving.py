"""Servers of the standard library that run in a thread."""

from __future__ import annotations

import selectors
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from socketserver import TCPServer


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

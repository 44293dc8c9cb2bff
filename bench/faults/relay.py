"""A TCP relay that breaks what goes through it: delays, hangs, resets, peers that vanish."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

_CHUNK_BYTES = 1 << 18
_ACCEPT_POLL_SECONDS = 0.2
_RESET = struct.pack("ii", 1, 0)
"""SO_LINGER with no time: closing sends a reset."""


class Relay:
    """Forwards connections from its own port to another. The settings may change while it runs."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(_ACCEPT_POLL_SECONDS)
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._ended = False
        self.flows = threading.Event()
        """Cleared, nothing is forwarded; connections stay."""
        self.flows.set()
        self.delay_seconds = 0.0
        """Added to each direction."""
        self.look: Callable[[bytes], None] | None = None
        """Called with what clients send, before it is forwarded."""
        self.accepted = 0
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def port(self) -> int:
        """The port to connect to."""
        return int(self._listener.getsockname()[1])

    @property
    def connections(self) -> int:
        """Connections that are open."""
        return len(self._pairs)

    def reset_oldest(self) -> None:
        """Resets the connection that has been open longest, towards both ends."""
        if self._pairs:
            pair = self._pairs.pop(0)
            _LEFT_ALONE.extend(pair)
            for end in pair:
                with suppress(OSError):
                    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                    # A plain close would wait for the thread that reads from the socket.
                    end.shutdown(socket.SHUT_RD)
                    end.close()

    def vanish(self) -> None:
        """Lets the server's end of all connections vanish without a word to the client. New connections work."""
        pairs, self._pairs = self._pairs, []
        for client, server in pairs:
            _LEFT_ALONE.append(client)
            with suppress(OSError):
                server.shutdown(socket.SHUT_RDWR)

    def end(self) -> None:
        """Closes everything."""
        self._ended = True
        self.flows.set()
        while self._pairs:
            self.reset_oldest()
        self._listener.close()

    def _accept(self) -> None:
        while not self._ended:
            try:
                client, _ = self._listener.accept()
            except TimeoutError:
                continue
            except OSError:
                return
            try:
                server = socket.create_connection(("127.0.0.1", self._target), timeout=5)
            except OSError:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                client.close()
                continue
            for end in (client, server):
                end.settimeout(None)
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.accepted += 1
            self._pairs.append((client, server))
            for ends in ((client, server, True), (server, client, False)):
                threading.Thread(target=self._forward, args=ends, daemon=True).start()

    def _forward(self, source: socket.socket, sink: socket.socket, is_sent: bool) -> None:
        pair = (source, sink)
        with suppress(OSError):
            while data := source.recv(_CHUNK_BYTES):
                if self.delay_seconds:
                    time.sleep(self.delay_seconds)
                self.flows.wait()
                if is_sent and self.look:
                    self.look(data)
                sink.sendall(data)
        if not any(end in pair for end in _LEFT_ALONE):
            for end in pair:
                with suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
            for known in [known for known in self._pairs if source in known]:
                with suppress(ValueError):
                    self._pairs.remove(known)


_LEFT_ALONE: list[socket.socket] = []
"""Ends that the threads that forward leave as they are: those to be reset, which must not be ended in order before, and
client ends that stay open although nobody is behind them."""


@contextmanager
def relay(port: int) -> Iterator[Relay]:
    """Relays connections to a port while the context lasts."""
    made = Relay(port)
    try:
        yield made
    finally:
        made.end()

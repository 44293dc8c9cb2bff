"""An NFSv4.1 client that opens a file, locks it, and is never heard of again."""

from __future__ import annotations

from bench.nfs4 import CURRENT, GRACE, ROOT, Peer, Session, lookup


def vanish(port: int, owner: bytes, file: bytes) -> None:
    """Makes a client, a session, an open and a lock, and closes the connection. Raises ``OSError``, ``RuntimeError``.

    In a grace period the client goes without the open.
    """
    with Peer(port) as peer:
        session = Session.of(peer, owner)
        # Each client locks another byte: none waits for one that has gone.
        lock = session.lock(CURRENT, b"lock", session.client)
        reply = session.call(ROOT, lookup(b"vol"), session.open(b"open", file), lock)
        if reply.status not in (0, GRACE):
            raise RuntimeError(f"a client that is to vanish got status {reply.status}")

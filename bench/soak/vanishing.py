"""An NFSv4.1 client that opens a file, locks it, and is never heard of again."""

from __future__ import annotations

import socket
import struct

NFS_PROGRAM, NFS_V4, COMPOUND = 100003, 4, 1
SLOTS = 8
TIMEOUT_SECONDS = 300
GRACE_STATUS = 10013


def vanish(port: int, owner: bytes, file: bytes) -> None:
    """Makes a client, a session, an open and a lock, and closes the connection. Raises ``OSError``, ``RuntimeError``.

    In a grace period the client goes without the open.
    """
    with socket.create_connection(("127.0.0.1", port), TIMEOUT_SECONDS) as connection:
        exchange = _word(42) + bytes(8) + _opaque(owner) + _word(0) + _word(0) + _word(0)
        client, sequence = struct.unpack_from(">QI", _result(connection, [exchange]))
        channel = struct.pack(">6I", 0, 1 << 20, 1 << 20, 1024, 64, SLOTS) + _word(0)
        create = struct.pack(">IQII", 43, client, sequence, 0) + channel * 2 + _word(0) + _word(1) + _word(0)
        session = _result(connection, [create])[:16]
        used = struct.pack(">I16sIIII", 53, session, 1, 0, SLOTS - 1, 0)
        _result(connection, [used, _word(58) + _word(0)])
        used = struct.pack(">I16sIIII", 53, session, 2, 0, SLOTS - 1, 0)
        names = [_word(24), _word(15) + _opaque(b"vol")]
        open_it = struct.pack(">4IQ", 18, 0, 3, 0, client) + _opaque(b"open") + struct.pack(">4I", 1, 0, 0, 0)
        open_it += _word(0) + _opaque(file)
        current = struct.pack(">I12x", 1)
        locker = struct.pack(">II16sIQ", 1, 0, current, 0, client) + _opaque(b"lock")
        # Each client locks another byte: none waits for one that has gone.
        lock = struct.pack(">IIIQQ", 12, 2, 0, client, 1) + locker
        _result(connection, [used, *names, open_it, lock], (0, GRACE_STATUS))


def _result(connection: socket.socket, operations: list[bytes], allowed: tuple[int, ...] = (0,)) -> bytes:
    """Sends a COMPOUND, and returns its first result behind the status."""
    user = struct.pack(">I", 0) + _opaque(b"soak") + struct.pack(">III", 0, 0, 0)
    call = struct.pack(">6I", 7, 0, 2, NFS_PROGRAM, NFS_V4, COMPOUND) + _word(1) + _opaque(user) + bytes(8)
    call += _opaque(b"") + _word(1) + _word(len(operations)) + b"".join(operations)
    connection.sendall(_word(1 << 31 | len(call)) + call)
    (mark,) = struct.unpack(">I", _exactly(connection, 4))
    reply = _exactly(connection, mark & 0x7FFF_FFFF)
    status, tag, _count = struct.unpack_from(">III", reply, 24)
    if status not in allowed or tag:
        raise RuntimeError(f"a client that is to vanish got status {status}")
    return reply[44:]


def _exactly(connection: socket.socket, count: int) -> bytes:
    received = b""
    while len(received) < count:
        if not (part := connection.recv(count - len(received))):
            raise OSError("the volume closed the connection")
        received += part
    return received


def _word(value: int) -> bytes:
    return struct.pack(">I", value)


def _opaque(content: bytes) -> bytes:
    return _word(len(content)) + content + bytes(-len(content) % 4)

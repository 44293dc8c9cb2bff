"""NFSv4.1 calls by hand, for clients that do not behave as ours (RFC 8881)."""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass, field

NFS_PROGRAM, NFS_V4, COMPOUND = 100003, 4, 1
TIMEOUT_SECONDS = 300
NO_ENTRY, DELAY, GRACE, BAD_SESSION, FALSE_RETRY = 2, 10008, 10013, 10052, 10076
"""``NFS4ERR_NOENT``, ``NFS4ERR_DELAY``, ``NFS4ERR_GRACE``, ``NFS4ERR_BADSESSION``, ``NFS4ERR_SEQ_FALSE_RETRY``."""
COMPLETE_ALREADY = 10054
"""``NFS4ERR_COMPLETE_ALREADY``: the client of this name was there before."""
ROOT, RECLAIM_COMPLETE = struct.pack(">I", 24), struct.pack(">II", 58, 0)
"""PUTROOTFH, and RECLAIM_COMPLETE of all file systems."""
HANDLE, SAVE = struct.pack(">I", 10), struct.pack(">I", 32)
"""GETFH and SAVEFH."""
DIRECTORY, LINK, FIFO = 2, 5, 7
"""``NF4DIR``, ``NF4LNK``, ``NF4FIFO``."""
CURRENT = struct.pack(">I12x", 1)
"""The state id that the operation before has returned."""
TYPE = struct.pack(">III", 9, 1, 2)
"""GETATTR of the type."""


def word(value: int) -> bytes:
    """An integer of 32 bits."""
    return struct.pack(">I", value)


def opaque(content: bytes) -> bytes:
    """Bytes with their length, padded."""
    return word(len(content)) + content + bytes(-len(content) % 4)


def lookup(name: bytes) -> bytes:
    """LOOKUP of a name."""
    return word(15) + opaque(name)


def put(handle: bytes) -> bytes:
    """PUTFH."""
    return word(22) + opaque(handle)


def create(kind: int, name: bytes, target: bytes = b"") -> bytes:
    """CREATE of a directory, a FIFO, or a symbolic link with its target, without attributes."""
    return word(6) + word(kind) + (opaque(target) if kind == LINK else b"") + opaque(name) + word(0) * 2


def link(name: bytes) -> bytes:
    """LINK of the saved file."""
    return word(11) + opaque(name)


def rename(old: bytes, new: bytes) -> bytes:
    """RENAME from the saved directory."""
    return word(29) + opaque(old) + opaque(new)


def remove(name: bytes) -> bytes:
    """REMOVE."""
    return word(28) + opaque(name)


def readdir(size: int) -> bytes:
    """READDIR from the first name, with the type of each file."""
    return word(26) + bytes(16) + word(size) * 2 + word(1) + word(2)


def read(size: int) -> bytes:
    """READ from the start of the file, with the state of the operation before or of no open."""
    return word(25) + bytes(16) + bytes(8) + word(size)


def write(content: bytes) -> bytes:
    """WRITE to the start of the file with the state of the operation before, not on stable storage."""
    return word(38) + CURRENT + bytes(8) + word(0) + opaque(content)


def bind(session: bytes) -> bytes:
    """BIND_CONN_TO_SESSION of the fore channel."""
    return word(41) + session + word(1) + word(0)


def destroy(session: bytes) -> bytes:
    """DESTROY_SESSION."""
    return word(44) + session


@dataclass
class Reply:
    """The reply to a COMPOUND."""

    status: int
    count: int
    """Number of results."""
    body: bytes
    """The results: of each the operation, the status, and what it returned."""


class Peer:
    """A connection of a client."""

    def __init__(self, port: int, source: str = "127.0.0.1", address: str = "127.0.0.1") -> None:
        self._socket = socket.create_connection((address, port), TIMEOUT_SECONDS, source_address=(source, 0))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __enter__(self) -> Peer:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def compound(self, *operations: bytes, user: int = 0) -> Reply:
        """Sends a COMPOUND and waits for the reply. Raises ``OSError`` if the connection ends."""
        credential = struct.pack(">I", 0) + opaque(b"peer") + struct.pack(">III", user, user, 0)
        call = struct.pack(">6I", 7, 0, 2, NFS_PROGRAM, NFS_V4, COMPOUND) + word(1) + opaque(credential) + bytes(8)
        call += opaque(b"") + word(1) + word(len(operations)) + b"".join(operations)
        self._socket.sendall(word(1 << 31 | len(call)) + call)
        (mark,) = struct.unpack(">I", self._exactly(4))
        reply = self._exactly(mark & 0x7FFF_FFFF)
        status, tag, count = struct.unpack_from(">III", reply, 24)
        assert not tag, "the tag of the call is empty"
        return Reply(status, count, reply[36:])

    def exchange_id(self, owner: bytes, user: int = 0) -> tuple[int, int, int]:
        """The status; if it is 0 the client's id and its first sequence number."""
        reply = self.compound(word(42) + bytes(8) + opaque(owner) + word(0) * 3, user=user)
        return (reply.status, 0, 0) if reply.status else (0, *struct.unpack_from(">QI", reply.body, 8))

    def create_session(self, client: int, sequence: int, slots: int, user: int = 0) -> tuple[int, bytes]:
        """The status; if it is 0 the session's id."""
        channel = struct.pack(">6I", 0, 1 << 20, 1 << 20, 1024, 64, slots) + word(0)
        create = struct.pack(">IQII", 43, client, sequence, 0) + channel * 2 + word(0) + word(1) + word(0)
        reply = self.compound(create, user=user)
        return reply.status, reply.body[8:24]

    def _exactly(self, count: int) -> bytes:
        received = bytearray()
        while len(received) < count:
            if not (part := self._socket.recv(count - len(received))):
                raise OSError("the volume closed the connection")
            received += part
        return bytes(received)


@dataclass
class Session:
    """A session, of which one slot is used."""

    peer: Peer
    id: bytes
    client: int
    sequence: int = field(default=0)

    @classmethod
    def of(cls, peer: Peer, owner: bytes, slots: int = 8) -> Session:
        """A new client with a session. Raises ``RuntimeError`` with the status if it gets none."""
        status, client, sequence = peer.exchange_id(owner)
        if not status:
            status, session = peer.create_session(client, sequence, slots)
        if status:
            raise RuntimeError(f"a client got status {status}")
        found = cls(peer, session, client)
        status = found.call(RECLAIM_COMPLETE).status
        if status not in (0, COMPLETE_ALREADY):
            raise RuntimeError(f"a client got status {status} for RECLAIM_COMPLETE")
        return found

    def call(self, *operations: bytes, user: int = 0, keep: bool = False, again: bool = False) -> Reply:
        """The operations after a SEQUENCE, whose result is left out.

        ``keep`` tells the server to keep the reply, ``again`` repeats the sequence number.
        """
        self.sequence += not again
        used = struct.pack(">I16sIIII", 53, self.id, self.sequence, 0, 7, keep)
        reply = self.peer.compound(used, *operations, user=user)
        reply.body = reply.body[44:]
        return reply

    def open(self, owner: bytes, file: bytes) -> bytes:
        """OPEN for reading and writing, which creates the file; the current file handle is the directory's."""
        opened = struct.pack(">4IQ", 18, 0, 3, 0, self.client) + opaque(owner) + struct.pack(">4I", 1, 0, 0, 0)
        return opened + word(0) + opaque(file)

    def lock(self, opened: bytes, owner: bytes, offset: int) -> bytes:
        """LOCK of a byte for a new lock owner, with the state of an open."""
        locker = struct.pack(">II16sIQ", 1, 0, opened, 0, self.client) + opaque(owner)
        return struct.pack(">IIIQQ", 12, 2, 0, offset, 1) + locker

    def unlock(self, locked: bytes, offset: int) -> bytes:
        """LOCKU of a byte."""
        return struct.pack(">III16sQQ", 14, 2, 0, locked, offset, 1)

"""Reclaims of an NFSv4.1 client after a restart of its server, whose session is lost meanwhile (RFC 8881 §8.4)."""

import os
import struct
from dataclasses import dataclass, field

from bench.nfs4 import Peer, bind, destroy

SEQUENCE, PUTFH, OPEN, RECLAIM_COMPLETE = 53, 22, 18, 58
CLAIM_PREVIOUS = 1
FILES = 4
COMPLETED_IN_THE_NEXT_SESSION = ["open 1", "open 1", *["open 2"] * FILES, "complete 2"]
"""The calls of a client with four files whose first session ends before its second reclaim."""


@dataclass
class Reclaims:
    """Reads what a client sends, and ends its session before its second reclaim."""

    port: int
    """The server's port on 127.0.0.1."""
    calls: list[str] = field(default_factory=list)
    """Reclaims of opens and RECLAIM_COMPLETE from the first reclaim on, with the numbers of their sessions."""
    _sessions: list[bytes] = field(default_factory=list)

    def look(self, sent: bytes) -> None:
        """Reads the call in what a client has sent. While it reclaims it sends one call at a time."""
        try:
            name, session = _call(sent)
        except struct.error:
            return
        if not name or not (self.calls or name == "open"):
            return
        if session not in self._sessions:
            self._sessions.append(session)
        self.calls.append(f"{name} {self._sessions.index(session) + 1}")
        if self.calls == ["open 1", "open 1"]:
            with Peer(self.port) as other:
                for operation in (bind(session), destroy(session)):
                    assert other.compound(operation, user=os.getuid()).status == 0


def _call(sent: bytes) -> tuple[str, bytes]:
    """``open`` for a reclaim, ``complete`` for RECLAIM_COMPLETE, nothing for other calls; and the session."""
    _, _, kind, _, program, version, procedure = struct.unpack_from(">7I", sent)
    if (kind, program, version, procedure) != (0, 100003, 4, 1):
        return "", b""
    at = 28
    for _ in range(2):
        at = _after(sent, at + 4)
    at = _after(sent, at) + 8
    sequence, session, following = struct.unpack_from(">I16s16xI", sent, at)
    if sequence != SEQUENCE:
        return "", b""
    at += 40
    if following == RECLAIM_COMPLETE:
        return "complete", session
    if following != PUTFH:
        return "", b""
    at = _after(sent, at)
    # The sequence id, access and deny bits, and the client precede the owner; whether to create and the claim follow.
    (operation,) = struct.unpack_from(">I", sent, at)
    if operation != OPEN:
        return "", b""
    creates, claim = struct.unpack_from(">II", sent, _after(sent, at + 24))
    return ("open" if (creates, claim) == (0, CLAIM_PREVIOUS) else ""), session


def _after(sent: bytes, at: int) -> int:
    """The offset behind opaque bytes with their length."""
    length: int = struct.unpack_from(">I", sent, at)[0]
    return at + 4 + (length + 3) // 4 * 4

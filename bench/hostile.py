"""``python -m bench.hostile``: what hostile NFSv4.1 clients can do to others, on a new volume.

Attackers call from other addresses of the loopback network than their victims. Each row is what a victim saw; the exit
status is 1 if one was kept from its work.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.nfs4 import BAD_SESSION, CURRENT, FALSE_RETRY, NO_ENTRY, ROOT, TYPE, Peer, Session, destroy, lookup
from bench.servers import Server, volume
from iocurve.volume.control import Client as ControlClient

VICTIM, NEWCOMER = "127.0.0.1", "127.0.0.3"
ATTACKER = "127.0.0.2"
WORKS = (ROOT, lookup(b"vol"), TYPE)
PER_CALL = 10
LOCKS_PER_CALL = 20


@dataclass
class Row:
    """An attack, and what the others saw of it."""

    attack: str
    seen: str
    holds: bool


Attack = Callable[[Server], Iterator[Row]]


def clients(server: Server, count: int) -> Iterator[Row]:
    """Makes twice as many clients with sessions, all from one address, as there is room for."""
    with _victim(server) as works, Peer(server.port, ATTACKER) as peer:
        started = time.monotonic()
        found = Counter(_client(peer, b"c%d" % number) for number in range(count))
        took = time.monotonic() - started
        yield _row(server, f"{count:,} × EXCHANGE_ID and CREATE_SESSION from one address in {took:.1f} s", found, works)


def unconfirmed(server: Server, count: int) -> Iterator[Row]:
    """Clients that never make a session."""
    with _victim(server) as works, Peer(server.port, ATTACKER) as peer:
        found = Counter(peer.exchange_id(b"u%d" % number)[0] for number in range(count))
        yield _row(server, f"{count:,} × EXCHANGE_ID from one address", found, works)


def slots(server: Server, count: int) -> Iterator[Row]:
    """Clients with 64 slots each that vanish without DESTROY_SESSION."""
    with _victim(server) as works:
        found: Counter[int] = Counter()
        for number in range(count):
            with Peer(server.port, ATTACKER) as peer:
                found[_client(peer, b"s%d" % number, 64)] += 1
        yield _row(server, f"{count:,} clients of 64 slots that vanish", found, works)


def lock_owners(server: Server, count: int) -> Iterator[Row]:
    """LOCK and LOCKU, each with a lock owner that is new. Another client's calls are timed meanwhile."""
    with _victim(server) as works, Peer(server.port, ATTACKER) as peer, Peer(server.port, NEWCOMER) as other:
        attacker, watcher = Session.of(peer, b"locks"), Session.of(other, b"watcher")
        opened = _opened(attacker, b"locked")
        with _timed(watcher) as times:
            found: Counter[int] = Counter()
            for first in range(0, count, LOCKS_PER_CALL):
                pairs = [
                    part
                    for number in range(first, first + LOCKS_PER_CALL)
                    for part in (
                        attacker.lock(opened, b"o%d" % number, number % 64),
                        attacker.unlock(CURRENT, number % 64),
                    )
                ]
                found[attacker.call(ROOT, lookup(b"vol"), lookup(b"locked"), *pairs).status] += 1
        states = _state(server)["states"]
        attack = f"{count:,} × LOCK and LOCKU, each with a new owner"
        opens = watcher.call(ROOT, lookup(b"vol"), watcher.open(b"w", b"other")).status
        row = _row(server, attack, found, works)
        row.seen += f"; states left {states:,}; another client's OPEN {opens}; its GETATTR p99 {_p99(times)}"
        row.holds &= opens == 0
        yield row


def opens(server: Server, count: int) -> Iterator[Row]:
    """Opens of one file by as many owners, and of as many files: the server's time."""
    for attack, name in (("of one file", b"one"), ("of as many files", b"f%d")):
        with _victim(server) as works, Peer(server.port, ATTACKER) as peer, Peer(server.port, NEWCOMER) as other:
            attacker, watcher = Session.of(peer, b"opens " + name), Session.of(other, b"watches " + name)
            before = _cpu_seconds(server.pid)
            with _timed(watcher) as times:
                found = Counter(
                    attacker.call(
                        ROOT, lookup(b"vol"), attacker.open(b"%d" % number, name % number if b"%" in name else name)
                    ).status
                    for number in range(count)
                )
            spent = _cpu_seconds(server.pid) - before
            row = _row(server, f"{count:,} opens {attack}, each by its own owner", found, works)
            row.seen += f"; {spent:.2f} s of the server's CPU time, GETATTR of another client p99 {_p99(times)}"
            yield row


def session_ids(server: Server, count: int) -> Iterator[Row]:
    """Guesses of another client's session, from the attacker's: its id with some bytes changed, and its neighbours."""
    draw = random.Random(1)
    with Peer(server.port) as victim, Peer(server.port, ATTACKER) as peer:
        session, own = Session.of(victim, b"victim"), Session.of(peer, b"attacker")
        value = int.from_bytes(own.id)
        near = [value + step * (1 << shift) for shift in range(0, 128, 8) for step in range(-count // 64, count // 64)]
        guesses = {(guess % (1 << 128)).to_bytes(16) for guess in near} - {own.id}
        guesses |= {own.id[:8] + draw.randbytes(8) for _ in range(count // 2)}
        found = Counter(peer.compound(destroy(guess)).status for guess in guesses)
        works = session.call(*WORKS).status
        same = sum(a == b for a, b in zip(session.id, own.id, strict=True))
        yield Row(
            f"{len(guesses):,} guesses of another client's session id in DESTROY_SESSION",
            f"statuses {_text(found)}; the victim's next call {works}; {same} of 16 bytes of the two ids are the same",
            set(found) == {BAD_SESSION} and works == 0,
        )


def replays(server: Server, count: int) -> Iterator[Row]:
    """A call is repeated in its slot: by the same user, then by another one."""
    del count
    with Peer(server.port) as peer:
        session = Session.of(peer, b"replays")
        first = session.call(*WORKS, user=1000, keep=True)
        again = session.call(*WORKS, user=1000, keep=True, again=True)
        other = session.call(*WORKS, user=1001, keep=True, again=True)
        yield Row(
            "a slot's call again, with another user",
            f"the same user {again.status} and the kept reply, the other one {other.status}",
            (again.status, again.body, other.status) == (0, first.body, FALSE_RETRY),
        )


def other_exports(server: Server, count: int) -> Iterator[Row]:
    """LOOKUP of an export that the client may not use."""
    del count
    with Peer(server.port, ATTACKER) as peer, Peer(server.port) as allowed:
        attacker, victim = Session.of(peer, b"looks"), Session.of(allowed, b"may")
        found = {name: attacker.call(ROOT, lookup(name)).status for name in (b"vol", b"other", b"no such")}
        theirs = victim.call(ROOT, lookup(b"vol")).status
        yield Row(
            "LOOKUP of an export that denies the client",
            f"{found[b'vol']}, as of a name that does not exist ({found[b'no such']}); the client it allows {theirs}",
            (found, theirs) == ({b"vol": NO_ENTRY, b"other": 0, b"no such": NO_ENTRY}, 0),
        )


ATTACKS: dict[str, tuple[Attack, Sequence[str]]] = {
    "clients": (lambda server: clients(server, 8192), ()),
    "unconfirmed": (lambda server: unconfirmed(server, 8192), ()),
    "slots": (lambda server: slots(server, 2048), ()),
    "lock-owners": (lambda server: lock_owners(server, 307_200), ()),
    "opens": (lambda server: opens(server, 10_000), ()),
    "session-ids": (lambda server: session_ids(server, 20_000), ()),
    "replays": (lambda server: replays(server, 1), ()),
    "other-exports": (
        lambda server: other_exports(server, 1),
        ("--export", f"/vol:allow={VICTIM}/32", "--export", f"/other:allow={ATTACKER}/32"),
    ),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Attacks volumes, a new one for each attack, and prints a table."""
    known = " ".join(ATTACKS)
    parser = argparse.ArgumentParser(prog="python -m bench.hostile", description=__doc__)
    parser.add_argument("attacks", nargs="*", default=[*ATTACKS], metavar="ATTACK", help=f"default: {known}")
    rows: list[Row] = []
    print("| attack | seen |\n| --- | --- |")
    for name in parser.parse_args(arguments).attacks:
        attack, options = ATTACKS[name]
        with volume(*(options or ("--unlimited",))) as server:
            for row in attack(server):
                rows.append(row)
                print(f"| {row.attack} | {row.seen}{'' if row.holds else ' **(must not be)**'} |", flush=True)
    return 0 if all(row.holds for row in rows) else 1


# ---- what others see


def _row(server: Server, attack: str, found: Counter[int], works: Callable[[], int]) -> Row:
    """Calls as a client that was there before, and as one from an address that has nothing yet."""
    after = works()
    started = time.monotonic()
    with Peer(server.port, NEWCOMER) as peer:
        newcomer = _client(peer, b"newcomer %d" % time.monotonic_ns())
    took = 1000 * (time.monotonic() - started)
    state = _state(server)
    return Row(
        attack,
        f"statuses {_text(found)}; clients left {state['clients']:,}, slots {state['slots']:,}; "
        f"the client that was there {after}, a newcomer {newcomer} after {took:.1f} ms",
        (after, newcomer) == (0, 0),
    )


@contextmanager
def _victim(server: Server) -> Iterator[Callable[[], int]]:
    """A client that was there first; yields what its next call returns."""
    with Peer(server.port, VICTIM) as peer:
        session = Session.of(peer, b"victim %d" % time.monotonic_ns())
        yield lambda: session.call(*WORKS).status


def _client(peer: Peer, owner: bytes, slots: int = 8) -> int:
    """The status of a new client's first operations."""
    status, client, sequence = peer.exchange_id(owner)
    return status or peer.create_session(client, sequence, slots)[0]


def _opened(session: Session, file: bytes) -> bytes:
    reply = session.call(ROOT, lookup(b"vol"), session.open(b"opener", file))
    assert reply.status == 0, reply
    # The results of PUTROOTFH and LOOKUP, and the head of OPEN's, have eight bytes each.
    return reply.body[24:40]


@contextmanager
def _timed(session: Session) -> Iterator[list[float]]:
    """Times the calls of a client, in milliseconds, while the context lasts."""
    times: list[float] = []
    ended = threading.Event()

    def work() -> None:
        while not ended.wait(0.002):
            started = time.monotonic()
            assert session.call(*WORKS).status == 0
            times.append(1000 * (time.monotonic() - started))

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield times
    finally:
        ended.set()
        thread.join()


def _p99(times: Sequence[float]) -> str:
    return f"{sorted(times)[len(times) * 99 // 100]:.1f} ms"


def _state(server: Server) -> dict[str, int]:
    with ControlClient(str(server.port)) as control:
        found: dict[str, int] = control.stats().nfs4.to_builtins()
        return found


def _cpu_seconds(pid: int) -> float:
    words = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def _text(found: Counter[int]) -> str:
    return ", ".join(f"{status} × {count:,}" for status, count in sorted(found.items()))


if __name__ == "__main__":
    sys.exit(main())

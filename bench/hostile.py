"""``python -m bench.hostile``: what hostile NFSv4.1 clients can do to others, on a new volume.

Attackers call from other addresses of the loopback network than their victims. Each row is what a victim saw; the exit
status is 1 if one was kept from its work. A bystander in another process times its calls before and during each attack.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import resource
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

from bench.nfs4 import (
    BAD_SESSION,
    CURRENT,
    DIRECTORY,
    FALSE_RETRY,
    FIFO,
    HANDLE,
    LINK,
    NO_ENTRY,
    ROOT,
    SAVE,
    TYPE,
    Peer,
    Reply,
    Session,
    create,
    destroy,
    link,
    lookup,
    put,
    read,
    readdir,
    remove,
    rename,
    write,
)
from bench.servers import Server, volume
from iocurve.volume.control import Client as ControlClient

VICTIM, NEWCOMER = "127.0.0.1", "127.0.0.3"
ATTACKER = "127.0.0.2"
VOLUME = (ROOT, lookup(b"vol"))
WORKS = (*VOLUME, TYPE)
PER_CALL = 20
ATTACK_S = 3.0
"""Length of an attack that has no number of calls."""
QUIET_S = 1.0
RATIO_MAX = 3.0
"""The p99 that a bystander may have under attack."""
SAMPLES_MIN = 300
"""Calls of each kind that a p99 takes."""
STOP_S = 30
MUST_NOT = " **(must not be)**"


@dataclass
class Row:
    """An attack, and what the others saw of it."""

    attack: str
    seen: str
    holds: bool


Attack = Callable[[Server, int], Iterator[Row]]


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
    """LOCK and LOCKU, each with a lock owner that is new."""
    with _victim(server) as works, Peer(server.port, ATTACKER) as peer, Peer(server.port, NEWCOMER) as other:
        attacker, watcher = Session.of(peer, b"locks"), Session.of(other, b"watcher")
        opened = _opened(attacker, b"locked")
        found: Counter[int] = Counter()
        for first in range(0, count, PER_CALL):
            pairs = [
                part
                for number in range(first, first + PER_CALL)
                for part in (
                    attacker.lock(opened, b"o%d" % number, number % 64),
                    attacker.unlock(CURRENT, number % 64),
                )
            ]
            found[attacker.call(*VOLUME, lookup(b"locked"), *pairs).status] += 1
        states = _state(server)["states"]
        attack = f"{count:,} × LOCK and LOCKU, each with a new owner"
        opens = watcher.call(*VOLUME, watcher.open(b"w", b"other")).status
        row = _row(server, attack, found, works)
        row.seen += f"; states left {states:,}; another client's OPEN {opens}"
        row.holds &= opens == 0
        yield row


def opens(server: Server, count: int) -> Iterator[Row]:
    """Opens of one file by as many owners, and of as many files: the server's time."""
    for attack, name in (("of one file", b"one"), ("of as many files", b"f%d")):
        with _victim(server) as works, Peer(server.port, ATTACKER) as peer:
            attacker = Session.of(peer, b"opens " + name)
            before = _cpu_seconds(server.pid)
            found = Counter(
                attacker.call(*VOLUME, attacker.open(b"%d" % number, name % number if b"%" in name else name)).status
                for number in range(count)
            )
            spent = _cpu_seconds(server.pid) - before
            row = _row(server, f"{count:,} opens {attack}, each by its own owner", found, works)
            row.seen += f"; {spent:.2f} s of the server's CPU time"
            yield row


def connections(server: Server, count: int) -> Iterator[Row]:
    """Connections that send nothing."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(count + 500, most), most))
    with _victim(server) as works, ExitStack() as stack:
        for _ in range(count):
            place = ("127.0.0.1", server.port)
            stack.enter_context(socket.create_connection(place, source_address=(ATTACKER, 0)))
        yield _row(server, f"{count:,} connections of one address that send nothing", Counter({0: count}), works)


def users(server: Server, count: int) -> Iterator[Row]:
    """Sessions of 256 slots, by another user of the address at which the others are."""
    with _victim(server) as works, Peer(server.port, VICTIM) as peer, Peer(server.port, VICTIM) as other:
        found = Counter(_client(peer, b"u%d" % number, 256, 1000) for number in range(count))
        newcomer = _client(other, b"another user", 8, 1001)
        row = _row(server, f"{count:,} sessions of 256 slots by one user, at the address of the others", found, works)
        row.seen += f"; another user of the address {newcomer}"
        row.holds &= newcomer == 0
        yield row


def links(server: Server, count: int) -> Iterator[Row]:
    """A file with many names, then its attributes and its directory again and again."""
    with _victim(server) as works, Peer(server.port, ATTACKER) as peer:
        attacker = Session.of(peer, b"links")
        _opened(attacker, b"linked")
        attacker.call(*VOLUME, create(DIRECTORY, b"names"))
        found: Counter[int] = Counter()
        for first in range(0, count, PER_CALL):
            names = [link(b"n%d" % number) for number in range(first, first + PER_CALL)]
            there = (*VOLUME, lookup(b"linked"), SAVE, *VOLUME, lookup(b"names"))
            found[attacker.call(*there, *names).status] += 1
        kinds = ((*VOLUME, lookup(b"linked"), TYPE), (*VOLUME, lookup(b"names"), readdir(65_536)))
        found += _again_and_again(attacker, kinds)
        yield _row(server, f"a file of {count:,} names: GETATTR of it and READDIR of 64 KiB of them", found, works)


def levels(server: Server, count: int) -> Iterator[Row]:
    """Directories below one another, of which the highest is renamed again and again."""
    with _victim(server) as works, Peer(server.port, ATTACKER) as peer:
        attacker = Session.of(peer, b"levels")
        made = attacker.call(*VOLUME, create(DIRECTORY, b"top"), HANDLE)
        depth, found = 1, Counter({made.status: 1})
        while depth < count and made.status == 0:
            made = attacker.call(put(_handle(made)), *[create(DIRECTORY, b"d")] * PER_CALL, HANDLE)
            found[made.status] += 1
            depth += PER_CALL
        there = (*VOLUME, SAVE)
        found += _again_and_again(attacker, ((*there, rename(b"top", b"pot")), (*there, rename(b"pot", b"top"))))
        yield _row(server, f"RENAME of a directory with up to {count:,} levels below it ({depth:,} made)", found, works)


def symbolic_links(server: Server, count: int) -> Iterator[Row]:
    """Symbolic links of 4,095 bytes, until there is no room."""
    with _victim(server) as works, Peer(server.port, ATTACKER) as peer:
        attacker = Session.of(peer, b"symbolic links")
        before, found = _resident_mib(server.pid), Counter[int]()
        for first in range(0, count, PER_CALL):
            names = [create(LINK, b"s%d" % number, b"x" * 4095) for number in range(first, first + PER_CALL)]
            both = [part for name in names for part in (*VOLUME, name)]
            found[attacker.call(*both).status] += 1
        row = _row(server, f"{count:,} symbolic links of 4,095 bytes", found, works)
        row.seen += f"; the server's memory grew by {_resident_mib(server.pid) - before:,.0f} MiB"
        yield row


def pipes(server: Server, count: int) -> Iterator[Row]:
    """A FIFO takes a file's name while the file is opened."""
    del count
    with _victim(server) as works, Peer(server.port, ATTACKER) as peer:
        attacker = Session.of(peer, b"pipes")
        for name in (b"file", b"pipe", b"x"):
            # An earlier attack may have left them exchanged.
            attacker.call(*VOLUME, remove(name))
        _opened(attacker, b"file")
        attacker.call(*VOLUME, create(FIFO, b"pipe"))
        there = (*VOLUME, SAVE)
        swap = (rename(b"file", b"x"), rename(b"pipe", b"file"), rename(b"x", b"pipe"))
        kinds = ((*there, *swap), (*VOLUME, attacker.open(b"o", b"file")), (*VOLUME, attacker.open(b"p", b"pipe")))
        yield _row(
            server, "a file and a FIFO exchange their names, and are opened", _again_and_again(attacker, kinds), works
        )


def removes(server: Server, count: int) -> Iterator[Row]:
    """Files that are written and removed while they are looked up: what they took is given back."""
    del count
    with _victim(server) as works, Peer(server.port, ATTACKER) as peer:
        attacker = Session.of(peer, b"removes")
        before = _used_bytes(server)
        written = (*VOLUME, attacker.open(b"o", b"f"), write(bytes(65_536)))
        kinds = (written, (*VOLUME, lookup(b"f"), TYPE), (*VOLUME, remove(b"f")), (*VOLUME, lookup(b"f"), TYPE))
        found = _again_and_again(attacker, kinds)
        attacker.call(*VOLUME, remove(b"f"))
        row = _row(server, "a file is written, looked up and removed, again and again", found, works)
        row.seen += f"; space taken afterwards {_used_bytes(server) - before:,} bytes"
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


ATTACKS: dict[str, tuple[Attack, int, Sequence[str]]] = {
    "clients": (clients, 8192, ()),
    "unconfirmed": (unconfirmed, 8192, ()),
    "slots": (slots, 2048, ()),
    "lock-owners": (lock_owners, 307_200, ()),
    "opens": (opens, 10_000, ()),
    "connections": (connections, 9_000, ()),
    "users": (users, 512, ()),
    "links": (links, 20_000, ()),
    "levels": (levels, 100_000, ()),
    "symbolic-links": (symbolic_links, 40_000, ("--profile=unlimited", "--quota", "128MiB")),
    "pipes": (pipes, 1, ()),
    "removes": (removes, 1, ()),
    "session-ids": (session_ids, 20_000, ()),
    "replays": (replays, 1, ()),
    "other-exports": (
        other_exports,
        1,
        ("--export", f"/vol:allow={VICTIM}/32", "--export", f"/other:allow={ATTACKER}/32"),
    ),
}
"""Attacks with their number of calls, and the options of the volume that they need."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Attacks volumes, a new one for each attack, and prints a table."""
    known = " ".join(ATTACKS)
    parser = argparse.ArgumentParser(prog="python -m bench.hostile", description=__doc__)
    parser.add_argument("attacks", nargs="*", default=[*ATTACKS], metavar="ATTACK", help=f"default: {known}")
    parser.add_argument("--directory", action="store_true", help="volumes of directories, not in memory")
    options = parser.parse_args(arguments)
    rows: list[Row] = []
    print("| attack | seen | a bystander's p99, before → during |\n| --- | --- | --- |")
    for name in options.attacks:
        attack, count, settings = ATTACKS[name]
        with _store() as store:
            stored = ("--store", store) if options.directory and "--export" not in settings else ()
            with volume(*(settings or ("--profile=unlimited",)), *stored) as server, _bystander(server) as timed:
                time.sleep(QUIET_S)
                before = timed()
                for row in attack(server, count):
                    rows.append(row)
                    bystander = _compared(before, timed())
                    print(f"| {row.attack} | {row.seen}{'' if row.holds else MUST_NOT} | {bystander} |", flush=True)
    return 0 if all(row.holds for row in rows) else 1


@contextmanager
def _store() -> Iterator[str]:
    """A directory that everyone may write to. Python removes no tree of more levels than it has stack frames."""
    store = tempfile.mkdtemp()
    Path(store).chmod(0o777)
    try:
        yield store
    finally:
        subprocess.run(["rm", "-rf", store], check=True)


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


def _client(peer: Peer, owner: bytes, slots: int = 8, user: int = 0) -> int:
    """The status of a new client's first operations."""
    status, client, sequence = peer.exchange_id(owner, user)
    return status or peer.create_session(client, sequence, slots, user)[0]


def _again_and_again(attacker: Session, calls: Sequence[Sequence[bytes]]) -> Counter[int]:
    """The statuses of calls that are made by turns for some seconds."""
    found: Counter[int] = Counter()
    until = time.monotonic() + ATTACK_S
    while time.monotonic() < until:
        found.update(attacker.call(*call).status for call in calls)
    return found


def _handle(reply: Reply) -> bytes:
    """The handle that GETFH, the last operation of a call, has returned: opaque, of at most 128 bytes."""
    for length in range(4, 132, 4):
        if reply.body[-length - 4 : -length] == length.to_bytes(4):
            return reply.body[-length:]
    raise RuntimeError(f"no handle in a reply of status {reply.status}")


def _opened(session: Session, file: bytes) -> bytes:
    reply = session.call(ROOT, lookup(b"vol"), session.open(b"opener", file))
    assert reply.status == 0, reply
    # The results of PUTROOTFH and LOOKUP, and the head of OPEN's, have eight bytes each.
    return reply.body[24:40]


@contextmanager
def _bystander(server: Server) -> Iterator[Callable[[], list[list[float]]]]:
    """A client in another process; yields what gives the times of its GETATTRs and READs since the last call."""
    ours, theirs = multiprocessing.get_context("spawn").Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_stand_by, args=(server.port, theirs), daemon=True)
    process.start()
    ours.recv()

    def timed() -> list[list[float]]:
        ours.send(True)
        found: list[list[float]] = ours.recv()
        return found

    try:
        yield timed
    finally:
        ours.send(False)
        process.join(STOP_S)


def _stand_by(port: int, pipe: Connection) -> None:
    """Calls a volume by turns, in a process for this alone; sends times in milliseconds."""
    with Peer(port, VICTIM) as peer:
        session = Session.of(peer, b"bystander")
        for name in (b"vol", b"other"):
            there = (ROOT, lookup(name))
            status = session.call(*there, session.open(b"b", b"bystander's"), write(bytes(4096))).status
            if status == 0:
                break
        calls = ((*there, TYPE), (*there, lookup(b"bystander's"), read(4096)))
        times: list[list[float]] = [[], []]
        pipe.send(status)
        while True:
            time.sleep(0.001)
            for kind, call in enumerate(calls):
                started = time.monotonic()
                session.call(*call)
                times[kind].append(1000 * (time.monotonic() - started))
            if pipe.poll():
                if not pipe.recv():
                    return
                pipe.send(times)
                times = [[], []]


def _compared(before: list[list[float]], during: list[list[float]]) -> str:
    """The p99 of both kinds of calls, and by how much they grew; a dash where there are too few calls."""
    told = []
    for kind, first, then in zip(("GETATTR", "READ"), before, during, strict=True):
        if min(len(first), len(then)) < SAMPLES_MIN:
            return "–"
        slow, slower = _p99(first), _p99(then)
        told.append(f"{kind} {slow:.2f} → {slower:.2f} ms{MUST_NOT if slower > RATIO_MAX * slow else ''}")
    return ", ".join(told)


def _p99(times: Sequence[float]) -> float:
    return sorted(times)[len(times) * 99 // 100]


def _used_bytes(server: Server) -> int:
    with ControlClient(server.control or str(server.port)) as control:
        return sum(export.used_bytes for export in control.stats().exports)


def _resident_mib(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="utf-8").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def _state(server: Server) -> dict[str, int]:
    with ControlClient(server.control or str(server.port)) as control:
        return control.stats().nfs4


def _cpu_seconds(pid: int) -> float:
    words = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def _text(found: Counter[int]) -> str:
    return ", ".join(f"{status} × {count:,}" for status, count in sorted(found.items()))


if __name__ == "__main__":
    sys.exit(main())

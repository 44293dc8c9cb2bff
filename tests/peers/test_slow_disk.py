"""A directory store whose disk is slow, or whose server is out of descriptors: what other clients see of it."""

import os
import shutil
import signal
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from bench.nfs4 import DELAY, DIRECTORY, ROOT, TYPE, Peer, Session, create, lookup, read
from bench.servers import Server, volume

pytestmark = pytest.mark.slow
VOLUME = (ROOT, lookup(b"vol"))
DELAY_US = 1_500_000
STUCK_US = 60_000_000
DESCRIPTORS, FEW = 128, 6
SLOW_READ = (*VOLUME, lookup(b"slow"), read(4096))


@contextmanager
def slow_disk(store: Path, calls: str, delay_us: int, *options: str) -> Iterator[Server]:
    """A volume of a directory in which some system calls take a while."""
    strace = shutil.which("strace")
    if strace is None or os.geteuid() != 0:
        pytest.skip("needs Debian's strace, and root")
    store.chmod(0o777)
    (store / "slow").write_bytes(bytes(4096))
    prefix = [strace, "-Dfqq", "-o/dev/null", f"-einject={calls}:delay_enter={delay_us}", *options]
    with volume("--profile=unlimited", "--store", str(store), prefix=prefix) as server:
        tracer = _status(server.pid, "TracerPid")
        try:
            yield server
        finally:
            # A thread that strace delays ends no sooner.
            os.kill(int(tracer), signal.SIGKILL)


@contextmanager
def clients(port: int) -> Iterator[tuple[Session, list[Session]]]:
    """A client, and eight others; no two have the same address."""
    with ExitStack() as stack:
        slow, *others = [
            Session.of(stack.enter_context(Peer(port, f"127.0.0.{number + 2}")), b"client %d" % number)
            for number in range(9)
        ]
        yield slow, others


def _descriptors(pid: int) -> int:
    return sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())


def _status(pid: int, name: str) -> str:
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    return next(line.split()[1] for line in lines if line.startswith(f"{name}:"))


def _call_until_the_end(session: Session) -> None:
    with suppress(OSError):
        session.call(*SLOW_READ)


def _waiting(work: Callable[[], object]) -> threading.Thread:
    """A thread that works now, and keeps no test from ending."""
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def test_others_are_served_while_a_client_waits_for_the_disk(tmp_path: Path) -> None:
    with slow_disk(tmp_path, "fsync,fdatasync", DELAY_US) as server, clients(server.port) as (slow, others):
        assert slow.call(*VOLUME, create(DIRECTORY, b"first")).status == 0
        made: list[int] = []
        waits = _waiting(lambda: made.append(slow.call(*VOLUME, create(DIRECTORY, b"next")).status))
        served = [other.call(*VOLUME, TYPE).status for _ in range(25) for other in others]
        assert (served, made) == ([0] * 25 * 8, []), "the call that waits is still on its way"
        waits.join()
        assert made == [0]


def test_others_are_served_while_the_first_call_that_waits_does(tmp_path: Path) -> None:
    only_that_file = f"-P{tmp_path / 'slow'}"
    with slow_disk(tmp_path, "pread64", 2 * DELAY_US, only_that_file) as server, clients(server.port) as (slow, others):
        found: list[int] = []
        waits = _waiting(lambda: found.extend(slow.call(*SLOW_READ).status for _ in range(2)))
        served = [other.call(*VOLUME, TYPE).status for _ in range(25) for other in others]
        assert (served, found) == ([0] * 25 * 8, []), "the call that waits is still on its way"
        waits.join()
        assert found == [0, 0], "it is answered in the end, and so is the next one"
        assert [other.call(*VOLUME, TYPE).status for other in others] == [0] * 8


def test_a_volume_ends_while_calls_wait_for_ever(tmp_path: Path) -> None:
    only_that_file = f"-P{tmp_path / 'slow'}"
    with (
        slow_disk(tmp_path, "pread64", STUCK_US, only_that_file) as server,
        clients(server.port) as (slow, (other, *_)),
    ):
        _waiting(lambda: _call_until_the_end(slow))
        assert [other.call(*VOLUME, TYPE).status for _ in range(25)] == [0] * 25
        os.kill(server.pid, signal.SIGTERM)
        until = time.monotonic() + STUCK_US / 2_000_000
        while _status(server.pid, "State")[0] != "Z" and time.monotonic() < until:
            time.sleep(0.02)
        assert _status(server.pid, "State")[0] == "Z", "it has ended, but for the thread that strace holds"


def test_without_descriptors_a_client_is_asked_to_wait_and_no_file_fails(tmp_path: Path) -> None:
    prlimit = shutil.which("prlimit")
    assert prlimit, "it is a part of util-linux"
    tmp_path.chmod(0o777)
    names = [b"%d" % number for number in range(DESCRIPTORS)]
    for name in names:
        (tmp_path / name.decode()).write_bytes(b"there")
        (tmp_path / name.decode()).chmod(0o666)
    limit = [prlimit, f"--nofile={DESCRIPTORS}:{DESCRIPTORS}"]
    with volume("--profile=unlimited", "--store", str(tmp_path), prefix=limit) as server, Peer(server.port) as peer:
        session = Session.of(peer, b"reads")
        with ExitStack() as stack:
            # Counted again for each: a server that has just started still opens some.
            while (there := _descriptors(server.pid)) < DESCRIPTORS - FEW:
                place = ("127.0.0.1", server.port)
                stack.enter_context(socket.create_connection(place, source_address=("127.0.0.2", 0)))
                while _descriptors(server.pid) == there:
                    time.sleep(0.001)
            found = Counter(
                session.call(*VOLUME, session.open(name, name), read(100)).status for name in names for _ in range(2)
            )
            assert set(found) == {0, DELAY}, "none is called stale or broken"
            assert found[0] > len(names), "those that are kept open make room"

"""A call that waits for the disk of a directory store keeps its own client waiting, and no other."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from bench.nfs4 import DIRECTORY, ROOT, TYPE, Peer, Session, create, lookup
from bench.servers import Server, volume

pytestmark = pytest.mark.slow
VOLUME = (ROOT, lookup(b"vol"))
SYNC_US = 1_500_000


@pytest.fixture
def slow_disk(tmp_path: Path) -> Iterator[Server]:
    """A volume of a directory in which each fsync takes a while."""
    strace = shutil.which("strace")
    if strace is None or os.geteuid() != 0:
        pytest.skip("needs Debian's strace, and root")
    tmp_path.chmod(0o777)
    with volume(
        "--unlimited",
        "--store",
        str(tmp_path),
        prefix=[strace, "-Dfqq", "-o/dev/null", f"-einject=fsync,fdatasync:delay_enter={SYNC_US}"],
    ) as server:
        yield server


def test_others_are_served_while_a_client_waits_for_the_disk(slow_disk: Server) -> None:
    with ExitStack() as stack:
        slow, *others = [
            Session.of(stack.enter_context(Peer(slow_disk.port, f"127.0.0.{number + 2}")), b"client %d" % number)
            for number in range(9)
        ]
        assert slow.call(*VOLUME, create(DIRECTORY, b"first")).status == 0
        made: list[int] = []
        waits = threading.Thread(target=lambda: made.append(slow.call(*VOLUME, create(DIRECTORY, b"next")).status))
        waits.start()
        served = [other.call(*VOLUME, TYPE).status for _ in range(25) for other in others]
        assert (served, made) == ([0] * 25 * 8, []), "the call that waits is still on its way"
        waits.join()
        assert made == [0]

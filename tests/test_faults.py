"""The matrix of faults is run by hand (``make faults``); here is what of it takes seconds."""

import socket
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from bench.faults import journals
from bench.faults.relay import relay
from bench.faults.rows import rows
from bench.faults.victims import volume_process

pytestmark = pytest.mark.slow


def test_journals_survive_kills_of_client_and_volume_and_a_lost_write_is_reported(tmp_path: Path) -> None:
    """A volume that takes its time has a write of each thread in flight whenever the kill comes."""
    with volume_process(tmp_path, ("--latency", "2ms")) as volume:
        kills = list(journals.kills(volume, tmp_path, count=7))
        (volume.files / "data").write_bytes(bytes((volume.files / "data").stat().st_size))
        fault = journals.recover(tmp_path)
    victims = [*["client", "volume", "both"] * 2, "client"]
    assert [(kill.victim, kill.fault) for kill in kills] == [(victim, "") for victim in victims]
    assert kills[0].status != 0
    assert "the recovery ended with" in fault
    assert "verification of" in fault


@pytest.mark.parametrize("row", ["torn-writes", "stale-reads"])
def test_a_row_of_the_matrix_ends_as_expected(row: str, tmp_path: Path) -> None:
    [found] = [one for one in rows(kill_count=1) if one.name == row]
    assert found.run(tmp_path).faults == []


def _echo(listener: socket.socket) -> None:
    while True:
        try:
            peer, _ = listener.accept()
        except OSError:
            return
        threading.Thread(target=_answer, args=(peer,), daemon=True).start()


def _answer(peer: socket.socket) -> None:
    with suppress(ConnectionError):
        while data := peer.recv(100):
            peer.sendall(data)


def test_a_relay_forwards_stops_resets_and_forgets() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, relay(listener.getsockname()[1]) as between:
        threading.Thread(target=_echo, args=(listener,), daemon=True).start()
        one, other = (socket.create_connection(("127.0.0.1", between.port)) for _ in range(2))
        for client in (one, other):
            client.sendall(b"ping")
            assert client.recv(100) == b"ping"
        assert (between.accepted, between.connections) == (2, 2)
        between.flows.clear()
        other.settimeout(0.3)
        other.sendall(b"held")
        with pytest.raises(TimeoutError):
            other.recv(100)
        between.flows.set()
        other.settimeout(10)
        assert other.recv(100) == b"held"
        between.reset_oldest()
        with pytest.raises(ConnectionResetError):
            one.recv(100)
        between.vanish()
        other.settimeout(0.3)
        other.sendall(b"lost")
        with pytest.raises(TimeoutError):
            other.recv(100)

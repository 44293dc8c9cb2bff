"""The benches with tiny inputs, so that they keep working. No test depends on the size of a figure."""

import json
import os
import shutil
from pathlib import Path

import pytest

from bench import comparisons, hostile, metadata, peers
from bench.__main__ import main
from bench.documents import rows as documents
from bench.documents.commands import COMMANDS
from bench.documents.page import page
from bench.faults.victims import volume_process
from bench.measure import parse_fio_json
from bench.soak.crowd import Crowd, attack
from goldens import cases, data

pytestmark = pytest.mark.slow

KINDS = ("randread", "write")
"""Loads of one kind differ in block size and depth alone."""


def test_output_of_fio_is_parsed() -> None:
    reported = parse_fio_json(data("bench/fio_output.txt"))
    assert (reported.operations, reported.iops, reported.mib_per_s) == (1000, 500.5, 2.0)
    assert (reported.latency_us_p50, reported.latency_us_p99) == (1.5, 9.0)
    ring = peers.RingLoop("ring", ()).parse(
        "submitter=0\nIOPS=40.50K, BW=1MiB/s\nIOPS=41500, BW=1MiB/s\nMaximum IOPS=41.5K"
    )
    assert (ring.operations, ring.iops) == (82000, 41000)


@pytest.mark.parametrize(
    ("comparison", "sides"), [("null", ["fio", "iocurve"]), ("uring", ["fio", "iocurve", "fio, registered"])]
)
def test_iocurve_is_compared_with_fio(tmp_path: Path, comparison: str, sides: list[str]) -> None:
    if shutil.which("fio") is None:
        pytest.skip("needs Debian's fio")
    assert _measured_sides(tmp_path, comparison) == sides


TINY = "--rounds 1 --seconds 0.1 --file-mib 1 --out {0} --directory {0}"


def test_aims_are_measured_next_to_peers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(metadata, "SOCKET_MS", 100)
    assert peers.main(["creates", "logs", *TINY.format(tmp_path).split()]) == 0
    rows = [line.split(" | ") for line in capsys.readouterr().out.splitlines() if line.startswith("| ")]
    assert [row[0] for row in rows[2:]] == ["| NFSv4.1 creates, depth 32", "| logs of every operation, CPU"]


@cases("bench/aims")
def test_a_row_says_whether_its_aim_is_met(measured: list[float], aim: float, cells: list[str]) -> None:
    assert peers.Row("loop", "fio", aim, [peers.Round(*measured)]).line.split(" | ")[2:] == cells


def test_nfs_is_measured_on_every_installed_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("IOCURVE_PEER_FIO_NFS", raising=False)
    has_ganesha = shutil.which("ganesha.nfsd") is not None and os.geteuid() == 0
    servers = ["ganesha", "volume"] if has_ganesha else ["volume"]
    expected = [*(f"iocurve → {server}" for server in servers), "randread 4k, sockets alone"]
    assert _measured_sides(tmp_path, "nfs") == expected


def test_the_volume_is_measured_and_its_data_are_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loads = comparisons.VOLUME_LOADS
    monkeypatch.setattr(comparisons, "VOLUME_LOADS", [next(one for one in loads if one[0] == kind) for kind in KINDS])
    has_ganesha = shutil.which("ganesha.nfsd") is not None and os.geteuid() == 0
    sides = _measured_sides(tmp_path, "volume")
    assert sides[0] == ("randread 4k → ganesha" if has_ganesha else "randread 4k → volume")
    assert "write 256k → volume" in sides
    assert sides[-2:] == ["write 256k, sockets that store", "write 256k, sockets alone"]
    (result,) = tmp_path.glob("*.json")
    first = json.loads(result.read_text())["comparisons"][0]["sides"][0]
    assert first["ratio_to_limit"]["iops"] > 0
    checked = first["data_checked"]
    assert [line.partition(" ")[2] for line in checked] == [
        f"bytes written in blocks of {block}, read back and compared: all equal" for block in (4096, 262144)
    ]


def test_clients_that_attack_a_volume_keep_no_other_client_out(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hostile, "QUIET_S", 0)
    monkeypatch.setattr(hostile, "ATTACK_S", 0.2)
    attacks = {
        "clients": (hostile.clients, 4_200, ()),
        "session-ids": (hostile.session_ids, 2_000, ()),
        "symbolic-links": (hostile.symbolic_links, 4_000, ("--profile=unlimited", "--quota", "12MiB")),
        **{name: hostile.ATTACKS[name] for name in ("users", "replays", "other-exports", "pipes", "removes")},
    }
    monkeypatch.setattr(hostile, "ATTACKS", attacks)
    assert hostile.main([]) == 0
    shown = capsys.readouterr().out
    assert "another user of the address 0 |" in shown
    assert "69 × " in shown, "the quota is full"
    assert "space taken afterwards 0 bytes" in shown
    assert "statuses 0 × 4,094, 10008 × 106; clients left 4,096" in shown
    assert "the same user 0 and the kept reply, the other one 10076" in shown


@pytest.mark.parametrize("seed", [1, 2])
def test_a_crowd_has_attackers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    monkeypatch.setattr(hostile, "ATTACK_S", 0.2)
    with volume_process(tmp_path) as volume:
        everything = Crowd(volume, tmp_path, seed, seconds=60)
        random = everything.random("attackers")
        for _ in range(6):
            attack(everything, random)
        assert everything.faults == []
        assert everything.counts.total() >= 6
        assert len(everything.counts) >= 4, "by seed, not the same again and again"


def test_a_missing_peer_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("IOCURVE_PEER_FIO_NFS", "/nonexistent/fio")
    assert main(["nfs", "--out", str(tmp_path)]) == 1
    assert "IOCURVE_PEER_FIO_NFS names /nonexistent/fio, which is not an executable file" in capsys.readouterr().out


def test_an_unknown_comparison_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["speed"])
    assert (
        "there is no comparison 'speed'; choose one of: null, uring, nfs, nfs-deep, nfs41, volume"
        in capsys.readouterr().err
    )


def _measured_sides(directory: Path, comparison: str) -> list[str]:
    """Names of the sides that completed operations, from the result of a tiny run."""
    # Long enough for an operation of a starved machine.
    assert main([comparison, *TINY.format(directory).split(), "--seconds=0.8"]) == 0
    (result,) = directory.glob("*.json")
    (measured,) = json.loads(result.read_text())["comparisons"]
    assert measured["name"] == comparison
    return [side["name"] for side in measured["sides"] if side["median"]["iops"] > 0]


def test_every_statement_of_the_published_documents_has_its_command(tmp_path: Path) -> None:
    rows = [row for _, of_document in documents.DOCUMENTS for row in of_document]
    assert len(rows) == 116
    assert {command for _, _, command, _ in rows} == COMMANDS.keys()
    assert page(tmp_path, "").count("| not run |") == len(rows) + len(COMMANDS), "a page without any result"

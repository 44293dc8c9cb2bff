"""Volumes that are changed and observed while they serve, and volumes with several exports."""

import io
import json
import os
import random
import re
import shutil
import signal
import socket
import stat
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from rich.console import Console

from bench.servers import Server, free_ports
from bench.servers import volume as serve
from goldens import DATA, Golden, cases, data, has, matches, present, rows
from iocurve.cli.commands import run
from iocurve.foundation.errors import DialectError, TargetError
from iocurve.foundation.units import GIB, MIB, SECOND_NS, TIB
from iocurve.result import openmetrics
from iocurve.result.caps import EGRESS, Burst, caps
from iocurve.result.document import Result
from iocurve.volume import control
from iocurve.volume import serve as volumes
from iocurve.volume import view as volume_view
from iocurve.volume.limits import AddedLatency, Limits
from iocurve.volume.messages import ServedStats
from iocurve.volume.metrics import VolumeMetrics
from iocurve.volume.spec import ExportSpec, VolumeSpec, parse_export, read_spec
from programs import awaited, completed, fio_jobs, iocurve, started, stopped, volume_here

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("runtime")]


@pytest.fixture
def served(runtime: Path) -> Iterator[Server]:  # noqa: ARG001  # the volume is to find it
    with volume_here(profile="anf-ultra", quota="1TiB") as server:
        yield server


def load(server: Server, *options: str, name: str = "t") -> list[str]:
    return [
        *("fio", f"--name={name}", "--rw=randread", "--bs=64k", "--size=16m", "--iodepth=8"),
        *("--ioengine=nfs", f"--nfs_url={server.url}", "--output-format=json", *options),
    ]


def loaded(server: Server, *options: str, name: str = "t") -> None:
    """A load that runs to its end without an error."""
    done = iocurve(*load(server, *options, name=name))
    assert done.returncode == 0, done.stderr


def volume(command: str, server: Server, *options: str) -> str:
    """The output of a command for a running volume."""
    done = iocurve("volume", command, str(server.port), *options)
    assert done.returncode == 0, done.stderr
    return done.stdout


SOON = ("--interval", "10ms")


def stats(server: Server) -> dict[str, Any]:
    with control.Client(str(server.port)) as client:
        found: dict[str, Any] = json.loads(json.dumps(client.stats().to_builtins()))
        return found


def test_limits_change_while_a_load_runs_without_errors(served: Server) -> None:
    with started(*load(served, "--time_based", "--runtime=6")) as process:
        wait_for_reads(served)
        fast = rate_over(served, 0.3)
        limited = volume("set", served, "--profile", "unlimited", "--throughput", "1MiB")
        assert limited == "/vol: unlimited, 1 TiB, 1 MiB/s\n"
        connected = stats(served)["connections_accepted"]
        rate_over(served, 0.5)
        slow = rate_over(served, 1)
        # At 16 operations a second most of the eight submitted at once wait.
        assert 1 <= sum(connection["in_flight"] for connection in stats(served)["connections"]) <= 8
        ended = stopped(process)
    assert ended.returncode == 0, ended.stderr
    assert fio_jobs(ended.stdout)[0]["error"] == 0
    # Before, the limit was a hundred times as high. The edges of the second are 64 KiB; a volume that had no processor
    # makes up for a quarter of a second.
    assert slow <= 1.4 * MIB < fast
    after = stats(served)
    assert (after["connections_accepted"], after["protocol_errors"]) == (connected, 0)


def test_a_smaller_quota_keeps_existing_data_and_blocks_writes() -> None:
    with volume_here(quota="64MiB") as server:
        write = ("--rw=write", "--size=8m")
        loaded(server, *write)
        assert iocurve("volume", "set", server.url, "--quota", "4MiB").returncode == 0
        export = stats(server)["exports"][0]
        assert (export["quota_bytes"], export["used_bytes"] > 4 * MIB) == (4 * MIB, True)
        loaded(server, "--size=8m")
        more = iocurve(*load(server, *write, name="more"))
        assert more.returncode == 1
        assert "use a smaller size" in more.stderr
        assert iocurve("volume", "set", server.url, "--quota", "64MiB").returncode == 0
        loaded(server, *write, name="more")


def test_stats_are_shown_by_export_client_and_connection(served: Server) -> None:
    loaded(served)
    found = json.loads(volume("stats", served, *SOON, "--json"))
    [export] = found["exports"]
    assert (export["path"], export["profile"], export["quota_bytes"]) == ("/vol", "anf-ultra", TIB)
    assert export["limits"]["throughput_bytes_per_s"] == 128 * MIB
    assert export["reads"] == found["reads"] == found["clients"][0]["reads"] == 256
    assert export["read_bytes"] == 16 * MIB
    assert (found["clients"][0]["address"], found["clients"][0]["connections"]) == ("127.0.0.1", 0)
    assert found["connections"] == []
    with socket.create_connection(("127.0.0.1", served.port)) as connection:
        connections = wait_for_connection(served)
        host, port = connection.getsockname()
        assert [(one["peer"], one["in_flight"], one["reads"]) for one in connections] == [(f"{host}:{port}", 0, 0)]
    assert "128 MiB/s" in volume("stats", served, *SOON)


def test_stats_show_the_burst_bucket() -> None:
    with volume_here(profile="azure-files-v1", quota="1TiB") as server:
        [export] = stats(server)["exports"]
        assert export["limits"]["burst"] == {"iops": 10_000, "credits": 21_513_600}
        assert export["burst_credits"] == 21_513_600
        assert "21,513,600" in volume("stats", server, *SOON)


def test_stats_show_bucket_levels() -> None:
    with metrics_of("--profile", str(DATA / "volume/own_buckets.toml")) as (server, url):
        rested = [
            {"limit": "throughput_bytes_per_s", "level": MIB, "capacity": MIB, "rate_per_s": 64 * MIB},
            {"limit": "iops_read", "level": 100, "capacity": 100, "rate_per_s": 6400},
        ]
        assert stats(server)["exports"][0]["buckets"] == [
            bucket | {"client": None, "connection": None} for bucket in rested
        ]
        shown = [line.split() for line in volume("stats", server, *SOON).splitlines()]
        assert ["/vol", "iops_read", "100", "100", "6,400"] in shown
        written = scraped(url)
    assert 'iocurve_volume_bucket_level{export="/vol",limit="iops_read"} 100' in written
    assert 'iocurve_volume_bucket_capacity{export="/vol",limit="throughput_bytes_per_s"} 1.048576e+06' in written


def test_a_user_s_profile_is_set_while_the_volume_serves(
    served: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own.toml").write_text(data("volume/own_latency.toml"))
    monkeypatch.chdir(tmp_path)
    assert volume("set", served, "--profile", "own.toml") == f"/vol: {tmp_path}/own.toml, 1 TiB, reads 70 MiB/s\n"
    limits = stats(served)["exports"][0]["limits"]
    assert (limits["throughput_bytes_per_s"], limits["throughput_read_bytes_per_s"]) == (None, 70 * MIB)
    assert limits["latency"] == {
        "base_ns": 10_000,
        "per_kib_ns": 0,
        "distribution": {"kind": "exponential", "mean_ns": 5000},
        "seed": 0,
    }
    of_writes = {"write_service_ns": None, "write_per_kib_ns": None}
    assert limits["parallelism"] == {"servers": 3, "service_ns": 2000, "per_kib_ns": 0, **of_writes}
    assert "an exponential tail" in iocurve("profile", "show", "own.toml").stdout


def wait_for_connection(server: Server) -> list[dict[str, Any]]:
    return awaited(lambda: list(stats(server)["connections"]), "the connection is not there")


def test_rates_cover_the_time_between_two_readings() -> None:
    before, after = json.loads(data("volume/two_readings.json"))
    found = volume_view.rates(*map(ServedStats.from_builtins, (before, after)))
    shown = io.StringIO()
    Console(width=200, file=shown).print(volume_view.tables(found))
    assert shown.getvalue().startswith("The volume was CPU-starved for 30.0% of 3 s, 25.0% since its start\n")
    metrics = openmetrics.text(VolumeMetrics(lambda: found.stats)).decode()
    assert 'iocurve_volume_thread_starved_seconds_total{thread="1"} 1.0' in metrics
    assert 'iocurve_volume_nfs_operations_total{operation="OPEN",version="4.1"} 3.0' in metrics
    matches("volume#rates cover time", [line.split() for line in shown.getvalue().splitlines()[-3:]])
    matches("volume#rates between readings", found.to_builtins())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_a_volume_in_order(runtime: Path, number: signal.Signals) -> None:
    with serve("--profile=unlimited") as server:
        os.kill(server.pid, number)
        assert status_of(server.pid) == 0
    assert list((runtime / "iocurve").iterdir()) == []


def test_a_volume_that_ignores_hang_ups_goes_on() -> None:
    with serve("--profile=unlimited", prefix=("nohup",)) as server:
        os.kill(server.pid, signal.SIGHUP)
        assert stats(server)["connections"] == []
        assert not os.waitid(os.P_PID, server.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)


def status_of(pid: int) -> int:
    """The exit status of a process, which is left for its parent to collect; -1 if a signal ended it."""
    ended = present(os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT))
    return ended.si_status if ended.si_code == os.CLD_EXITED else -1


def test_a_volume_that_was_restarted_counts_from_its_start(served: Server) -> None:
    with control.Client(str(served.port)) as client:
        now = client.stats().replace(uptime_ns=10**9, threads_starved_ns=(3 * 10**8,))
    assert now.starved_share(now.replace(uptime_ns=5 * 10**8, threads_starved_ns=(10**8,))) == 0.4
    assert now.starved_share(now.replace(uptime_ns=10**10, threads_starved_ns=(10**9,))) == 0.3


def test_a_run_says_that_its_volume_was_starved(tmp_path: Path) -> None:
    """A volume that is stopped shows as one without a processor: its timers end late."""
    for attempt in range(5):
        out = tmp_path / str(attempt)
        with serve("--profile=unlimited", "--throughput", "8MiB") as server:
            with started(*load(server, "--size=2m", "--time_based", "--runtime=2", f"--out={out}")) as process:
                wait_for_reads(server, 1)
                os.kill(server.pid, signal.SIGSTOP)
                time.sleep(0.8)
                os.kill(server.pid, signal.SIGCONT)
                # The thread that stood still notices within a moment; then it may make up for a quarter of a second.
                # On a busy machine it was late before, by less.
                found, looks = set[int](), [time.monotonic()]
                while 250_000_000 not in found and process.poll() is None and looks[-1] < looks[0] + 10:
                    found.add(stats(server)["exports"][0]["catch_up_ns"])
                    looks.append(time.monotonic())
                ended = stopped(process)
            now = stats(server)
        # It shows for a second: a test that itself had no processor for that long has missed it, and looks again.
        if 250_000_000 in found or max(later - earlier for earlier, later in pairwise(looks)) < 1:
            break
    assert ended.returncode == 0, ended.stderr
    assert max(found) == 250_000_000
    [point] = Result.read(out).points
    assert point.machine is not None
    share = present(point.machine.volume_starved_share)
    # A timer that was due a moment after the stop was late by less.
    assert 0.7 * SECOND_NS / now["uptime_ns"] <= share <= max(now["threads_starved_ns"]) / (2 * SECOND_NS)
    text = f"the volume had no processor, or was stopped, for up to {100 * share:.0f} % of the time (t): "
    assert f"warning: {text}" in ended.stderr
    assert f"T{text[1:]}" in (out / "report.html").read_text()


def test_a_run_on_another_server_asks_no_volume(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        assert control.stats_of(other.getsockname()[1]) is None
    load = ("--name=t", "--size=1m", "--time_based", "--runtime=1", f"--directory={tmp_path}")
    ran = iocurve("fio", *load, f"--out={tmp_path}/out")
    assert ran.returncode == 0, ran.stderr
    [point] = Result.read(tmp_path / "out").points
    assert present(point.machine).volume_starved_share is None


def test_openmetrics_can_be_parsed() -> None:
    with metrics_of("--level", "premium", "--quota", "1TiB") as (server, url):
        loaded(server)
        written = scraped(url)
    families = {family.name: family for family in text_string_to_metric_families(written)}  # type: ignore[no-untyped-call]
    done = families["iocurve_volume_export_operations"].samples
    (reads,) = (one for one in done if one.labels["operation"] == "read")
    assert (reads.name, reads.labels["export"], reads.value) == ("iocurve_volume_export_operations_total", "/vol", 256)
    limit = families["iocurve_volume_throughput_limit_bytes_per_second"]
    assert (limit.type, limit.unit, limit.samples[0].value) == ("gauge", "bytes_per_second", 64 * MIB)
    assert families["iocurve_volume_bucket_catch_up_seconds"].samples[0].labels == {"export": "/vol"}
    data = families["iocurve_volume_client_data_bytes"]
    assert (data.type, data.unit, data.samples[0].value) == ("counter", "bytes", 16 * MIB)
    assert data.documentation == "Bytes of data read and written, by client"


@contextmanager
def metrics_of(*options: str) -> Iterator[tuple[Server, str]]:
    port = free_ports()
    with serve(*options, "--metrics", str(port)) as server:
        # The control socket exists before the metrics server starts; the test waits for the last one.
        awaited(lambda: socket.socket().connect_ex(("127.0.0.1", port)) == 0, "no metrics")
        yield server, f"http://127.0.0.1:{port}/metrics"


def scraped(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10) as answer:
        assert answer.headers["Content-Type"].startswith("application/openmetrics-text; version=1.0.0")
        written: str = answer.read().decode()
    assert written.endswith("# EOF\n")
    return written


def test_exports_have_separate_files_and_limits(tmp_path: Path) -> None:
    second = f"/a/b:profile=unlimited,root_squash=false,store={tmp_path}"
    with serve("--export", "/a:profile=anf-premium,quota=2TiB", "--export", second) as server:
        a, b = (Server(server.pid, server.port, server.port, path) for path in ("/a", "/a/b"))
        for export in (a, b):
            loaded(export, "--rw=write", "--size=1m")
        assert [(path.name, path.stat().st_size) for path in tmp_path.iterdir()] == [("t.0.0", MIB)]
        found = {export["path"]: export for export in stats(server)["exports"]}
        assert [found[path]["writes"] for path in ("/a", "/a/b")] == [16, 16]
        assert found["/a"]["limits"]["throughput_bytes_per_s"] == 128 * MIB
        assert found["/a/b"]["limits"]["throughput_bytes_per_s"] is None
        which = iocurve("volume", "set", str(server.port), "--quota", "1TiB")
        matches("volume#exports separate", (which.returncode, which.stderr))
        assert iocurve("volume", "set", f"nfs://127.0.0.1:{server.port}/a", "--quota", "1TiB").returncode == 0
        assert [export["quota_bytes"] for export in stats(server)["exports"]] == [TIB, 4 * TIB]


@pytest.mark.skipif(shutil.which("nfs-ls") is None, reason="needs Debian's libnfs-utils")
def test_libnfs_sees_each_export_with_its_own_files() -> None:
    with serve("--export", "/a:profile=unlimited", "--export", "/b:profile=unlimited") as server:
        a, b = (Server(server.pid, server.port, server.port, path) for path in ("/a", "/b"))
        loaded(a, "--rw=write", "--size=1m")
        assert ["t.0.0" in completed(["nfs-ls", one.libnfs_url]).stdout for one in (a, b)] == [True, False]


HOSTILE = [text.encode("latin-1") for (text,) in rows("volume/hostile")]
HOSTILE += [b"[" * 60_000, b'{"do":"set","iops":' + b"9" * 5000 + b"}"]


def test_bad_requests_are_answered_and_change_nothing(served: Server, runtime: Path) -> None:
    before = stats(served)["exports"]
    with connect(runtime, served) as peer, peer.makefile("rb") as answers:
        for line in HOSTILE:
            peer.sendall(line + b"\n")
            answer = json.loads(answers.readline())
            assert (list(answer), answer["error"] != "") == (["error"], True), line[:80]
    assert stats(served)["exports"] == before


def test_invalid_input_and_disconnects_affect_only_their_connection(served: Server, runtime: Path) -> None:
    noise = random.Random(7)
    for _ in range(20):
        with connect(runtime, served) as peer:
            peer.sendall(noise.randbytes(1000))
    with connect(runtime, served) as peer, peer.makefile("rb") as answers:
        peer.sendall(b"x" * (control.REQUEST_BYTES_MAX + 1))
        assert json.loads(answers.readline()) == {"error": "the request is longer than 65536 bytes"}
        assert answers.readline() == b"", "the rest of it would be no request"
    assert stats(served)["protocol_errors"] == 0


def test_too_many_connections_are_refused(served: Server, runtime: Path) -> None:
    def first_word(peer: socket.socket) -> dict[str, Any]:
        with peer.makefile("rb") as answers:
            # The volume refuses the connection without reading its request.
            with suppress(BrokenPipeError):
                peer.sendall(b'{"do":"stats"}\n')
            answer: dict[str, Any] = json.loads(answers.readline())
            return answer

    with ExitStack() as stack:
        peers = [stack.enter_context(connect(runtime, served)) for _ in range(control.CONNECTIONS_MAX + 1)]
        with ThreadPoolExecutor(len(peers)) as pool:
            answers = list(pool.map(first_word, peers))
    assert [list(answer) for answer in answers].count(["error"]) == 1
    assert {"error": "too many connections"} in answers


def connect(runtime: Path, server: Server) -> socket.socket:
    peer = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    peer.settimeout(30)
    peer.connect(str(socket_of(runtime, server)))
    return peer


def socket_of(runtime: Path, server: Server) -> Path:
    """The control socket of a volume, which appears shortly after its start."""
    path = runtime / "iocurve" / f"{server.port}.sock"
    awaited(path.exists, "no control socket")
    return path


NO_VOLUME = "^no volume is running on this machine; start one with 'iocurve volume serve'$"


def test_the_control_socket_is_private_and_removed_with_the_volume(runtime: Path) -> None:
    with serve("--profile=unlimited") as server:
        path = socket_of(runtime, server)
        assert (stat.S_IMODE(path.stat().st_mode), stat.S_IMODE(path.parent.stat().st_mode)) == (0o600, 0o700)
        assert control.find(None) == (path, None)
        assert control.find(f"nfs://127.0.0.1:{server.port}/vol/") == (path, "/vol")
    assert not path.exists()
    with pytest.raises(TargetError, match=NO_VOLUME):
        control.find(None)


def test_of_several_volumes_one_must_be_named(runtime: Path) -> None:
    with volume_here() as one, serve("--export", "/a", "/b") as other:
        for server in (one, other):
            socket_of(runtime, server)
        running = ", ".join(sorted([f"{one.port} (/vol)", f"{other.port} (/a, /b)"]))
        listed = f"several volumes are running; name one by its port: {running}"
        with pytest.raises(TargetError, match=re.escape(listed)):
            control.find(None)
        assert listed in iocurve("volume", "stats").stderr


def test_volumes_that_others_could_have_made_are_not_found(runtime: Path) -> None:
    with volume_here() as server:
        path = socket_of(runtime, server)
        path.parent.chmod(0o777)
        with pytest.raises(TargetError, match=NO_VOLUME):
            control.find(None)
        path.parent.chmod(0o700)
        assert control.find(None) == (path, None)


def test_a_stale_socket_is_replaced(runtime: Path, tmp_path: Path) -> None:
    (runtime / "iocurve").mkdir(mode=0o700)
    port = free_ports()
    stale = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    stale.bind(str(runtime / "iocurve" / f"{port}.sock"))
    stale.close()
    (tmp_path / "volumes.toml").write_text(f'port = {port}\n[[export]]\nprofile = "unlimited"\n')
    with serve("--config", str(tmp_path / "volumes.toml")) as server:
        assert stats(server)["reads"] == 0


def test_a_directory_that_others_may_write_is_not_used(
    runtime: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    directories = runtime / "iocurve", tmp_path / "iocurve" / "run"
    directories[0].mkdir()
    directories[0].chmod(0o777)
    with serve("--profile=unlimited") as server:
        awaited((path := directories[1] / f"{server.port}.sock").exists, "no control socket")
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        assert control.find(None) == control.find(str(server.port)) == (path, None)
    directories[1].chmod(0o777)
    ran = iocurve("volume", "serve", "--profile=unlimited")
    assert ran.returncode == 2
    assert "other users may write there" in ran.stderr


@cases("volume/control_errors")
def test_errors_are_reported(arguments: tuple[str, ...], status: int, text: str) -> None:
    ran = iocurve("volume", *arguments)
    assert ran.returncode == status, ran.stderr
    assert text in ran.stderr
    assert "Traceback" not in ran.stderr


def test_profiles_are_listed_and_shown_with_their_sources() -> None:
    assert "azure-files-v1" in iocurve("profile", "list").stdout
    shown = iocurve("profile", "show", "anf-premium").stdout
    assert ("64 × TiB" in shown, "azure-netapp-files" in shown) == (True, True)


@cases("volume/described")
def test_a_file_describes_a_volume(text: str, fields: dict[str, Any], limits: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text('title = "x"\n[iops_write]\nbase = 70\n')
    (tmp_path / "volumes.toml").write_text(text.replace("OWN", str(tmp_path / "own.toml")))
    spec = read_spec(tmp_path / "volumes.toml")
    has(spec, fields)
    found = spec.export[0].limits()
    assert ({name: found.value(name) for name in limits}, spec.config().exports[0].limits) == (limits, found)


def test_a_profile_and_settings_describe_an_export(tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text('title = "x"\n[iops_write]\nbase = 70\n')
    expected = Limits(caps=caps({"iops_write": 70}), latency=AddedLatency(base_ns=1000))
    assert parse_export(f"/a:profile={tmp_path}/own.toml,latency=1us").limits() == expected


@cases("volume/description_errors")
def test_all_errors_of_a_file_are_reported_at_once(text: str, golden: Golden, tmp_path: Path) -> None:
    (path := tmp_path / "volumes.toml").write_text(text)
    with pytest.raises(DialectError) as refused:
        read_spec(path)
    golden.check([str(error).removeprefix(f"--config {path}: ") for error in refused.value.errors])


def test_a_new_profile_resets_the_settings() -> None:
    export = parse_export("/a:profile=anf-ultra,quota=1TiB,throughput=64MiB,latency=1ms,client_egress=100Mb")
    limits = export.limits()
    assert [cap.name for cap in limits.caps if cap.scope == "client"] == [EGRESS]
    assert (limits.value(EGRESS), limits.value("throughput_bytes_per_s")) == (12_500_000, 64 * MIB)
    larger, other = export.changed({"quota": "2TiB"}), export.changed({"profile": "anf-premium"})
    assert (larger.quota_bytes(), larger.throughput) == (2 * TIB, "64MiB")
    assert other == ExportSpec(path="/a", profile="anf-premium", quota="1TiB")
    assert ExportSpec(throughput="1GiB").limits().value("throughput_bytes_per_s") == GIB


def wait_for_reads(server: Server, reads: int = 100) -> None:
    awaited(lambda: stats(server)["reads"] >= reads, "the load does not start")


def rate_over(server: Server, seconds: float) -> float:
    with control.Client(str(server.port)) as client:
        before = client.stats()
        time.sleep(seconds)
        after = volume_view.rates(before, client.stats())
    return after.exports[0][1].read_bytes_per_s


def test_a_volume_that_does_not_start_leaves_signals_as_they_were() -> None:
    with pytest.raises(TargetError, match="port"), socket.create_server(("127.0.0.1", 0)) as taken:
        run(["volume", "serve", "--profile=unlimited", "--port", str(taken.getsockname()[1])])
    assert not signal.pthread_sigmask(signal.SIG_BLOCK, []) & {signal.SIGINT, signal.SIGTERM}


class Held:
    """The server of a volume that holds 4 TiB, and the limits that it was given."""

    def __init__(self, spec: VolumeSpec) -> None:
        self.renewed: list[tuple[str, Limits]] = []
        served = volumes.serve(spec.config())
        try:
            self._stats = str(served.stats()).replace('"used_bytes":0', f'"used_bytes":{4 * TIB}')
        finally:
            served.stop()

    def stats(self) -> str:
        return self._stats

    def set_limits(self, path: str, to: str) -> None:
        self.renewed.append((path, Limits.from_json(to)))


def test_a_profile_file_that_goes_away_leaves_the_limits_as_they_are(tmp_path: Path) -> None:
    named = tmp_path / "mine.toml"
    published = Path(control.__file__).parent / "profiles" / "efs-bursting.toml"
    named.write_text(published.read_text(encoding="utf-8"), encoding="utf-8")
    spec = VolumeSpec(export=(ExportSpec(profile=str(named), quota="8TiB"),))
    held: Any = Held(spec)
    answers = control.Control(held, spec.export)
    answers.count_stored()
    named.unlink()
    answers.count_stored()
    assert [path for path, _ in held.renewed] == ["/vol"]


def test_limits_by_stored_data_follow_what_the_volume_holds() -> None:
    spec = VolumeSpec(export=(ExportSpec(profile="efs-bursting", quota="8TiB"), ExportSpec(path="/b", stored="1TiB")))
    held: Any = Held(spec)
    control.Control(held, spec.export).count_stored()
    ((path, limits),) = held.renewed
    burst = Burst(value=400 * MIB, credits=4 * 21504 * GIB // 10)
    assert (path, limits.value("throughput_bytes_per_s"), limits.throughput_burst) == ("/vol", 200 * MIB, burst)

"""The command line as users see it: messages and exit statuses."""

import json
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from bench.servers import Server, free_ports, volume
from goldens import cases, data, present
from iocurve.result.document import Result
from iocurve.volume import control
from programs import IOCURVE, awaited, completed, iocurve, printed, started, stopped, volume_here

pytestmark = pytest.mark.slow

READS = ("--name=t", "--rw=randread", "--bs=4k", "--size=1m", "--eta=never")
PACED = ("--time_based", "--iodepth=4", "--rate_iops=400")


def wait_for_reads(port: int) -> None:
    """Waits until a volume has answered some operations."""
    with control.Client(str(port)) as client:
        awaited(lambda: sum(export.reads for export in client.stats().exports) > 200, "nothing is read")


def on(server: Server, *more: str) -> tuple[str, ...]:
    return (*READS, "--ioengine=nfs", f"--nfs_url={server.url}", *more)


def test_stdout_has_nothing_but_the_json(shared_volume: Server) -> None:
    out = printed("fio", *on(shared_volume, "--output-format=json", "--iodepth=8", "--nconnect=2"))
    read = json.loads(out)["jobs"][0]["read"]
    assert (read["total_ios"], read["io_bytes"]) == (256, 1 << 20)


def test_a_job_file_runs_unmodified_in_its_directory(tmp_path: Path) -> None:
    (tmp_path / "mnt").mkdir()
    (tmp_path / "fiowrite.ini").write_text(data("fio/write_here.fio").format(tmp_path))
    out = printed("fio", "--runtime", "30", "--output-format=json", "fiowrite.ini", cwd=tmp_path)
    assert sum(job["write"]["total_ios"] for job in json.loads(out)["jobs"]) == 4 * 256
    assert sorted(path.name for path in (tmp_path / "mnt").iterdir()) == [f"writer1.{jobnum}.0" for jobnum in range(4)]


def test_a_command_line_without_a_name_runs_and_says_that_fio_would_not(tmp_path: Path) -> None:
    ran = iocurve("fio", "--rw=randread", "--bs=4k", "--filesize=64k", "--nrfiles=4", "--eta=never", cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert "fio itself refuses it" in ran.stderr


def test_a_report_is_written_to_the_given_directory(tmp_path: Path) -> None:
    printed("fio", *READS, "--ioengine=null", f"--out={tmp_path}/out")
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"result.json", "report.html", "points.csv"}
    assert Result.read(tmp_path / "out/result.json").kind == "fio"
    printed("report", str(tmp_path / "out/result.json"), "--out", str(tmp_path / "again"))
    assert (tmp_path / "again/report.html").read_bytes() == (tmp_path / "out/report.html").read_bytes()


def test_explaining_runs_nothing(tmp_path: Path) -> None:
    assert "t.0.0: 1 MiB, will be created" in printed("explain", "fio", *READS, cwd=tmp_path)
    assert not list(tmp_path.iterdir())


@cases("cli/errors")
def test_an_error_has_a_message_and_a_status(arguments: tuple[str, ...], status: int, text: str) -> None:
    ran = iocurve(*arguments)
    assert ran.returncode == status
    assert text.lower() in (ran.stderr + ran.stdout).lower()
    assert "Traceback" not in ran.stderr


def test_a_refused_connection_is_reported_with_the_address() -> None:
    port = free_ports()
    ran = iocurve("envelope", f"nfs://127.0.0.1:{port}/vol")
    assert ran.returncode == 2
    assert f"127.0.0.1:{port} refused the connection" in ran.stderr


def test_an_unknown_export_is_reported_with_the_exports(shared_volume: Server) -> None:
    ran = iocurve("fio", *READS, "--ioengine=nfs", f"--nfs_url=nfs://127.0.0.1:{shared_volume.port}/other")
    assert ran.returncode == 1
    assert "/other" in ran.stderr
    assert "/vol" in ran.stderr


def test_an_unreadable_file_is_reported(tmp_path: Path) -> None:
    (secret := tmp_path / "secret").write_bytes(bytes(1 << 20))
    secret.chmod(0)
    # Root may read anything, unless it has dropped that capability.
    prefix = ("setpriv", "--bounding-set=-all", "--inh-caps=-all") if os.geteuid() == 0 else ()
    ran = completed([*prefix, *IOCURVE, "fio", *READS, f"--filename={secret}"])
    assert ran.returncode == 1, ran.stderr
    assert "Permission denied" in ran.stderr
    assert "Traceback" not in ran.stderr


def test_a_full_volume_ends_the_run_with_a_message_and_keeps_nothing() -> None:
    with volume_here(quota="8MiB", throughput="1GiB") as small:
        ran = iocurve("fio", *on(small, "--size=64m", "--rw=write"))
        assert ran.returncode == 1
        assert "use a smaller size" in ran.stderr


def test_ctrl_c_keeps_the_measurements(tmp_path: Path) -> None:
    reads = [option for option in READS if option != "--eta=never"]
    options = ("--ioengine=null", "--time_based", "--runtime=60", f"--out={tmp_path}")
    with started("fio", *reads, *options) as process:
        assert any(" left), running" in line for line in present(process.stderr))
        ran = stopped(process, signal.SIGINT)
    assert ran.returncode == 130, ran.stderr
    result = Result.read(tmp_path / "result.json")
    assert (result.state, result.incomplete_reason) == ("interrupted", "interrupted")
    assert result.points[0].summary().operations > 0
    assert "incomplete" in (tmp_path / "report.html").read_text(encoding="utf-8").lower()


def test_ctrl_c_in_an_envelope_removes_its_files(tmp_path: Path, shared_volume: Server) -> None:
    options = ("--out", str(tmp_path / "out"), "--size", "16MiB", "--quick", "--retries", "0")
    with started("envelope", shared_volume.url, *options) as process:
        awaited((tmp_path / "out/result.json").exists, "no point is measured")
        ran = stopped(process, signal.SIGINT)
    assert ran.returncode == 130, ran.stderr
    result = Result.read(tmp_path / "out/result.json")
    assert (result.state, result.points[0].outcome.state) == ("interrupted", "finished")
    assert "iocurve-envelope" not in completed(["nfs-ls", shared_volume.libnfs_url]).stdout


def test_a_server_that_restarts_is_waited_for(tmp_path: Path) -> None:
    """Like a hard mount: the load continues over new connections, with the same handles."""
    (store := tmp_path / "store").mkdir()
    port = free_ports()
    # The user who runs this owns the directory.
    options = ("--profile=unlimited", "--no-root-squash", "--store", str(store))
    url = f"--nfs_url=nfs://127.0.0.1:{port}/vol"
    with (
        volume(*options, port=port) as server,
        started("fio", *READS, "--ioengine=nfs", url, *PACED, "--runtime=4", f"--out={tmp_path}/out") as process,
    ):
        wait_for_reads(port)
        os.kill(server.pid, signal.SIGKILL)
        time.sleep(0.5)
        with volume(*options, port=port):
            ran = stopped(process)
    assert ran.returncode == 0, ran.stderr
    (only,) = Result.read(tmp_path / "out/result.json").points[0].outcome.workers
    assert only.reconnects >= 1
    assert only.operations["read"].errors == 0


def test_a_server_that_stays_away_fails_the_run_in_time(tmp_path: Path) -> None:
    with volume("--profile=unlimited") as server:
        words = on(server, *PACED, "--runtime=60", "--nfs_timeout=2", f"--out={tmp_path}")
        with started("fio", *words) as process:
            wait_for_reads(server.port)
            # Two intervals, so that the window is not empty.
            time.sleep(2)
            os.kill(server.pid, signal.SIGKILL)
            ran = stopped(process)
    assert ran.returncode == 1, ran.stderr
    assert f"127.0.0.1:{server.port}" in ran.stderr
    result = Result.read(tmp_path / "result.json")
    assert result.state == "failed"
    assert result.points[0].summary().operations > 0


def test_a_removed_current_directory_is_named(tmp_path: Path) -> None:
    (gone := tmp_path / "gone").mkdir()
    script = f"cd {gone} && rmdir {gone} && exec {sys.executable} -m iocurve explain fio --name=a --size=1m"
    done = completed(["sh", "-c", script])
    assert (done.returncode, done.stderr) == (1, "iocurve: the current directory was removed; change to another one\n")

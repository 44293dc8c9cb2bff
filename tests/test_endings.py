"""Runs in which something goes wrong: the files they write, their messages, their exit status."""

import os
import re
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from bench.servers import Server, free_ports, volume
from data import synthetic
from goldens import cases, data
from iocurve.engine.outcome import Live, Outcome
from iocurve.foundation.errors import TargetError
from iocurve.foundation.units import SECOND_NS
from iocurve.machine.processes import start_ticks
from iocurve.measure import local
from iocurve.report import page
from iocurve.report.page import ReportDirectory
from iocurve.result.document import Result
from plans import file_plan, nfs_engine, plan_of, worker
from programs import IOCURVE, awaited, completed, iocurve, started, stopped, volume_here

pytestmark = pytest.mark.slow

LOADED = ("iocurve.cli", "iocurve._native", "iocurve.job.model", "iocurve.measure.local")
REPORT = {"points.csv", "report.html", "result.json"}
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def run_of_points(
    tmp_path: Path, target: str | Path, points: int = 20, runtime: str = "400ms", **how: Any
) -> Iterator[subprocess.Popen[str]]:
    """A run of some points that writes its result to ``tmp_path/out``, in which at least one point is measured."""
    scenario = tmp_path / "depths.toml"
    scenario.write_text(
        data("scenarios/endings.toml").format(depths=list(range(1, points + 1)), runtime=runtime), encoding="utf-8"
    )
    options = ["--target", str(target), "--out", str(tmp_path / "out"), "--retries", "0"]
    with started("run", str(scenario), *options, **how) as process:
        awaited(lambda: process.poll() is not None or (tmp_path / "out/result.json").exists(), "no point is measured")
        yield process


def data_directory(tmp_path: Path) -> Path:
    directory = tmp_path / "data"
    directory.mkdir()
    return directory


def ended(
    tmp_path: Path, process: subprocess.Popen[str], number: int = 0, status: int | None = None
) -> tuple[Result, str, str]:
    """The result, stdout and stderr of such a run, after a signal, whose status it has unless another one is given."""
    ran = stopped(process, number or None)
    assert ran.returncode == (128 + number if status is None else status), ran.stderr
    return Result.read(tmp_path / "out/result.json"), ran.stdout, ran.stderr


def written(tmp_path: Path) -> set[str]:
    return {path.name for path in (tmp_path / "out").iterdir()}


# ---- errors


def test_a_directory_that_goes_away_costs_nothing_that_was_measured(tmp_path: Path) -> None:
    data = data_directory(tmp_path)
    with run_of_points(tmp_path, data) as process:
        awaited(lambda: Result.read(tmp_path / "out/result.json").points, "no point is measured")
        # At once: the run may make a file while a tree is removed.
        data.rename(tmp_path / "gone")
        result, stdout, stderr = ended(tmp_path, process, status=1)
    assert result.state == "failed"
    # A point finds that before it starts, or when it makes or opens its files.
    assert str(data) in (result.incomplete_reason or "")
    assert stderr.splitlines()[-1] == f"iocurve: incomplete: {result.incomplete_reason}"
    assert written(tmp_path) == REPORT
    assert [line.split("  ")[0] for line in stdout.splitlines()[1:2]] == ["depths depth 1"]


def test_a_server_that_goes_away_costs_nothing_that_was_measured(tmp_path: Path) -> None:
    with volume("--profile=unlimited") as server, run_of_points(tmp_path, f"{server.libnfs_url}&timeo=100") as process:
        os.kill(server.pid, signal.SIGKILL)
        result, stdout, stderr = ended(tmp_path, process, status=1)
    assert result.state == "failed"
    assert f"127.0.0.1:{server.port}" in (result.incomplete_reason or "")
    assert stderr.splitlines()[-1] == f"iocurve: incomplete: {result.incomplete_reason}"
    (left,) = [note.text for note in result.notes if note.code == "files_left"]
    assert left.startswith("files of this run are left on the target: ")
    assert f"iocurve: {left}" in stderr.splitlines()
    assert written(tmp_path) == REPORT
    assert "depths depth 1" in stdout


# ---- a server that restarts


def stored_volume(directory: Path, port: int) -> AbstractContextManager[Server]:
    """Serves a directory on a port."""
    return volume("--profile=unlimited", "--no-root-squash", "--store", str(directory), port=port)


def loaded(port: int, **how: Any) -> Outcome:
    engine = nfs_engine(f"nfs://127.0.0.1:{port}/vol")
    return local.run(plan_of(worker(engine, "", files=(file_plan("f"),))), **how)


def test_a_restart_between_two_runs_is_waited_for_and_told(tmp_path: Path) -> None:
    data, port = data_directory(tmp_path), free_ports()
    with stored_volume(data, port):
        first = loaded(port)
    assert (first.state, first.stalls) == ("finished", ())

    def restart() -> None:
        assert waits.wait(60)
        with stored_volume(data, port):
            over.wait(60)

    waits, over = threading.Event(), threading.Event()
    server = threading.Thread(target=restart)
    server.start()
    notices: list[tuple[float, str]] = []

    def watch(live: Live) -> bool:
        if live.waiting:
            notices.append((time.monotonic(), live.waiting))
            waits.set()
        return False

    try:
        second = loaded(port, enough=watch)
    finally:
        over.set()
        server.join()
    assert second.state == "finished"
    (stall,) = second.stalls
    refused = "Connection refused (os error 111)"
    assert (stall.server, stall.phase, stall.reason) == (f"127.0.0.1:{port}", "layout", refused)
    (first_s, notice), (last_s, _) = notices[0], notices[-1]
    assert stall.duration_ns >= (last_s - first_s) * SECOND_NS > 0
    assert re.match(rf"waiting for NFS server 127\.0\.0\.1:{port} for \d+ s: Connection refused", notice)


def test_a_server_that_never_answered_is_an_error_at_once() -> None:
    """Its address is probably wrong."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        with pytest.raises(TargetError, match=f"MOUNT server 127.0.0.1:{port} refused the connection"):
            loaded(port)


def test_a_restart_during_a_scenario_is_survived_and_noted(tmp_path: Path) -> None:
    data, port = data_directory(tmp_path), free_ports()
    url = f"nfs://127.0.0.1:{port}/vol"
    # A point lasts longer than the server is away, so that each has operations in its measured time.
    with stored_volume(data, port) as server, run_of_points(tmp_path, url, points=3, runtime="3s") as process:
        # After the first point the run reads the numbers of its new files.
        awaited(lambda: len(Result.read(tmp_path / "out/result.json").points) >= 2, "no second point is measured")
        os.kill(server.pid, signal.SIGKILL)
        time.sleep(1)
        with stored_volume(data, port):
            result, _, _ = ended(tmp_path, process, status=0)
    assert (result.state, len(result.points)) == ("finished", 3)
    stalls = [note.text for note in result.notes if note.code == "server_stalled"]
    # A connection that was idle meanwhile tells a separate wait when it is used again.
    assert stalls
    assert all(f": NFS server 127.0.0.1:{port} did not answer for " in text for text in stalls)
    assert list(data.iterdir()) == []


# ---- signals


@pytest.mark.parametrize("number", ENDING)
def test_a_signal_keeps_what_was_measured_and_removes_the_files(tmp_path: Path, number: signal.Signals) -> None:
    data = data_directory(tmp_path)
    with run_of_points(tmp_path, data) as process:
        result, stdout, stderr = ended(tmp_path, process, number)
    assert ("Traceback" in stderr, result.state, written(tmp_path)) == (False, "interrupted", REPORT)
    assert "depths depth 1" in stdout
    assert list(data.iterdir()) == []


def test_a_second_signal_still_writes_the_result(tmp_path: Path) -> None:
    with run_of_points(tmp_path, data_directory(tmp_path)) as process:
        process.send_signal(signal.SIGTERM)
        ran = stopped(process, signal.SIGINT)
    assert ran.returncode in (128 + signal.SIGTERM, 128 + signal.SIGINT), ran.stderr
    assert "Traceback" not in ran.stderr
    assert Result.read(tmp_path / "out/result.json").state == "interrupted"
    assert written(tmp_path) == REPORT


def signalled(directory: Path, number: int, module: str, *words: str) -> tuple[int, str]:
    """The exit status and the errors of a command that receives a signal when it imports a module."""
    command = [sys.executable, "-c", data("scripts/signal_in_an_import.txt"), str(int(number)), module, *words]
    ran = completed(command, cwd=directory)
    return ran.returncode, ran.stderr


@pytest.mark.parametrize(("module", "number"), [*product(["datetime"], ENDING), *product(LOADED, ENDING[:1])])
def test_a_signal_while_modules_are_loaded_ends_the_process(
    tmp_path: Path, module: str, number: signal.Signals
) -> None:
    """Python drops exceptions in some imports; msgspec drops one in that of datetime, and ended with SIGSEGV."""
    job = ("fio", "--name=t", "--ioengine=null", "--size=1m", "--time_based", "--runtime=5")
    assert signalled(tmp_path, number, module, *job) == (-number, "")


@pytest.mark.parametrize("number", ENDING)
def test_a_signal_before_the_first_point_gives_its_own_status(tmp_path: Path, number: signal.Signals) -> None:
    words = ("knee", str(data_directory(tmp_path)), "--size", "1MiB")
    assert signalled(tmp_path, number, "iocurve.report.page", *words) == (128 + number, "")


def test_a_run_that_ignores_hang_ups_goes_on(tmp_path: Path) -> None:
    def ignore() -> None:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    with run_of_points(tmp_path, data_directory(tmp_path), points=3, preexec_fn=ignore) as process:
        result, _, _ = ended(tmp_path, process, signal.SIGHUP, status=0)
    assert len(result.points) == 3


def test_an_embedded_volume_ends_with_a_run_that_is_killed(tmp_path: Path) -> None:
    with run_of_points(tmp_path, "volume:unlimited") as process:
        (child,) = map(int, Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text("utf-8").split())
        began = start_ticks(child)
        stopped(process, signal.SIGKILL)
    awaited(lambda: start_ticks(child) != began, "the volume goes on")


# ---- places to write to


def limited(kib: int) -> Callable[[], None]:
    """A limit on the size of files stands for a full disk."""
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (kib << 10, kib << 10))


def test_a_page_that_does_not_fit_costs_only_itself(tmp_path: Path) -> None:
    """The page is by far the largest file."""
    with run_of_points(tmp_path, "volume:unlimited", points=3, preexec_fn=limited(360)) as process:
        result, stdout, stderr = ended(tmp_path, process, status=1)
    assert stderr.splitlines()[-1] == f"iocurve: {tmp_path}/out/report.html cannot be written: File too large"
    assert (result.state, len(result.points)) == ("finished", 3)
    assert written(tmp_path) == REPORT - {"report.html"}
    assert "depths depth 3" in stdout
    assert "report:" not in stdout


def test_a_directory_that_is_full_is_an_error_before_anything_runs(tmp_path: Path) -> None:
    command = [*IOCURVE, "envelope", str(data_directory(tmp_path)), "--out", str(tmp_path / "out")]
    ran = completed(command, preexec_fn=limited(1))
    told = f"iocurve: --out {tmp_path}/out: File too large; name a directory that you can write to\n"
    assert (ran.returncode, ran.stderr) == (2, told)


def test_libraries_that_cannot_be_loaded_cost_only_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> str:
        raise MemoryError

    monkeypatch.setattr(page, "load_libraries", fail)
    monkeypatch.setattr(page, "DOCUMENTS", {"report.html": fail, "points.csv": page.points_csv})
    directory = ReportDirectory(tmp_path)
    assert capsys.readouterr().err == "warning: there will be no report.html: MemoryError\n"
    result = directory.finish(synthetic.envelope())
    (note,) = [note for note in result.notes if note.level == "error"]
    assert (note.code, note.text) == ("report_not_written", f"{tmp_path}/report.html is not written: MemoryError")
    assert {path.name for path in tmp_path.iterdir()} == REPORT - {"report.html"}
    assert Result.read(tmp_path / "result.json") == result


def test_a_result_that_cannot_be_written_ends_no_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = ReportDirectory(tmp_path / "out")
    (tmp_path / "out/result.json").mkdir()
    for _ in range(2):
        directory.keep(synthetic.envelope())
    why = f"{tmp_path}/out/result.json cannot be written: Is a directory"
    assert capsys.readouterr().err == f"warning: {why}; iocurve tries again after each point\n"
    result = directory.finish(synthetic.envelope())
    assert [note.text for note in result.notes if note.level == "error"] == [why]
    assert written(tmp_path) == REPORT


@pytest.mark.parametrize(("place", "why"), [("/dev/full", "No space left on device"), ("&-", "Bad file descriptor")])
def test_stdout_that_cannot_be_written_is_an_error(tmp_path: Path, place: str, why: str) -> None:
    for command in ("scenario list", f"fio --name=t --size=64k --directory={tmp_path} --out={tmp_path}/out"):
        ran = completed(["sh", "-c", f"'{sys.executable}' -m iocurve {command} >{place}"])
        told = f"iocurve: stdout cannot be written: {why}"
        assert (ran.returncode, ran.stderr.splitlines()[-1]) == (1, told)
    assert written(tmp_path) == REPORT


def test_a_plain_locale_gets_characters_that_it_has() -> None:
    environment = os.environ | {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"}
    ran = completed([*IOCURVE, "scenario", "show", "envelope"], env=environment)
    assert (ran.returncode, ran.stdout.isascii()) == (0, True), ran.stderr
    assert ran.stdout.startswith("envelope: ")


# ---- errors in the middle of a run


@cases("measure/an_error_of_the_server")
def test_an_error_of_the_server_is_named_by_operation_file_and_offset(tmp_path: Path, fault: str, error: str) -> None:
    with volume_here({"fault": [fault], "fault_seed": 1}) as server:
        job = ("--name=e", "--ioengine=nfs", f"--nfs_url={server.url}", "--rw=write", "--bs=4k", "--size=1m")
        ran = iocurve("fio", *job, cwd=tmp_path)
    assert ran.returncode == 1
    told = rf"iocurve: incomplete: e: write of 4096 bytes at offset \d+ of e\.0\.0: {re.escape(error)}"
    assert re.fullmatch(told, ran.stderr.splitlines()[-1])


def test_ten_columns_hold_every_word(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "10")
    synthetic.envelope().write(tmp_path / "result.json")
    for command in (["scenario", "list"], ["why", str(tmp_path)], ["profile", "show", "anf-ultra"]):
        ran = iocurve(*command)
        assert (ran.returncode, ran.stderr) == (0, "")
        assert "\u2026" not in ran.stdout, "nothing is cut"


# ---- several signals


@pytest.mark.parametrize("at", ["flush", "exit", "never"])
def test_a_second_signal_at_the_end_changes_nothing(at: str) -> None:
    script = data("scripts/second_signal.txt").format(at=repr(at))
    ended = completed((sys.executable, "-c", script, "explain"))
    assert (ended.returncode, ended.stderr) == (143, "")


def test_signals_wait_while_a_file_is_written(tmp_path: Path) -> None:
    ended = completed((sys.executable, "-c", data("scripts/signals_while_writing.txt"), str(tmp_path / "file")))
    assert (ended.returncode, ended.stderr) == (143, "")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"file": b"whole"}

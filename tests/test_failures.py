"""Operations that fail under a load: no space, no permission, names too long, a directory that vanishes, short reads.

They are counted by kind and named by path, and the run goes on or ends as its dialect says.
"""

import io
import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bench.servers import Server
from goldens import cases, present
from iocurve.dialects import registry
from iocurve.engine import plan
from iocurve.engine.outcome import Live, Outcome, WorkerOutcome
from iocurve.foundation.errors import IocurveError
from iocurve.foundation.units import KIB
from iocurve.measure import local
from iocurve.measure.jobs import walk
from plans import READ, file_plan, local_engine, nfs_engine, plan_of, worker
from programs import volume_here
from vdbench_runs import read_here, run_file

pytestmark = pytest.mark.slow

TREE = "fsd=fsd1,anchor={anchor},depth=1,width=2,files=4,size=8k\n"


@pytest.fixture(scope="module")
def full_volume() -> Iterator[Server]:
    """A volume on which a few dozen small files have room."""
    with volume_here(quota="256KiB") as server:
        yield server


class Runs:
    """Runs the plans of a dialect. ``mischief`` is done once a run has measured its first interval."""

    def __init__(self, mischief: Callable[[], object] | None = None) -> None:
        self.mischief = mischief
        self.outcomes: dict[str, Outcome] = {}

    def carry_out(self, _step: object, made: plan.Plan, enough: Callable[[Live], bool]) -> Outcome:
        def watch(live: Live) -> bool:
            mischief, self.mischief = (self.mischief, None) if live.intervals else (None, self.mischief)
            if mischief:
                mischief()
            return enough(live)

        is_format = made.name.startswith("format")
        self.outcomes[made.name] = outcome = local.run(made, enough if is_format else watch)
        return outcome

    def failures(self, run: str) -> list[tuple[str, str, int]]:
        """Kind, path and number of the failures of a run that did not end it."""
        workers = self.outcomes[run].workers
        return [(failed.kind, failed.path, failed.count) for one in workers for failed in one.failures]

    def errors(self, run: str) -> list[str]:
        """Errors that ended a worker of a run."""
        return [one.error for one in self.outcomes[run].workers if one.error]


def vdbench(directory: Path, text: str, runs: Runs) -> tuple[str, str]:
    """Runs a parameter file: what it printed with the error that it ended with, and its errorlog.html."""
    out = io.StringIO()
    try:
        run_file(read_here(directory, text), runs.carry_out, out)
    except IocurveError as error:
        out.write(f"raised: {error}")
    return out.getvalue(), (directory / "output/errorlog.html").read_text(encoding="utf-8")


def fwd(operation: str, anchor: object, general: str = "", rate: int = 300) -> str:
    """A format, and two runs of 0.3 s."""
    return (
        f"{general}{TREE.format(anchor=anchor)}fwd=fwd1,fsd=fsd1,operation={operation},xfersize=4k,threads=1\n"
        f"rd=rd1,fwd=fwd1,fwdrate={rate},format=yes,elapsed=3,interval=1\nrd=rd2,fwd=fwd1,fwdrate={rate},elapsed=2,interval=1\n"
    )


# -- short reads and data errors ---------------------------------------------------------------------------------------


def short_reads(engine: plan.EnginePlan, path: str, **changes: object) -> WorkerOutcome:
    """Reads four blocks of a file that has two."""
    file = file_plan(path, 16 * KIB, layout="create", keep=True)
    end = plan.End(runtime_ns=None, bytes=16 * KIB, operations=None)
    sequential = READ.replace(random_percent=0)
    reader = worker(engine, "", files=(file,), operations=(sequential,), depth=1, end=end, **changes)
    return local.run(plan_of(reader)).workers[0]


@pytest.fixture(params=["sync", "uring", "nfs"])
def short_file(request: pytest.FixtureRequest, tmp_path: Path, volume: Server) -> tuple[plan.EnginePlan, str]:
    """An engine, and a file of 8 KiB."""
    if request.param != "nfs":
        (tmp_path / "short").write_bytes(bytes(8 * KIB))
        return local_engine(request.param), str(tmp_path / "short")
    writer = worker(nfs_engine(volume.url), "", files=(file_plan("short", 8 * KIB, keep=True),))
    local.run(plan_of(writer.replace(end=plan.End(runtime_ns=None, bytes=4 * KIB, operations=None))))
    return nfs_engine(volume.url), "short"


def test_a_read_of_fewer_bytes_than_requested_fails_where_the_plan_says_so(
    short_file: tuple[plan.EnginePlan, str],
) -> None:
    engine, path = short_file
    accepted = short_reads(engine, path)
    read = accepted.operations["read"]
    assert (accepted.error, read.operations, read.bytes) == (None, 4, 8 * KIB)
    ended = short_reads(engine, path, whole_transfers=True)
    assert ended.error == f"read of 4096 bytes at offset 8192 of {path}: 0 of 4096 bytes were moved"
    assert (ended.errno, ended.operations["read"].operations) == (5, 2)


def test_a_transfer_of_too_few_bytes_ends_a_job_whatever_it_tolerates(short_file: tuple[plan.EnginePlan, str]) -> None:
    engine, path = short_file
    tolerates = (plan.Tolerance(kinds=("read",), errnos=(5,), errors_max=2),)
    done = short_reads(engine, path, whole_transfers=True, tolerates=tolerates)
    assert (done.error or "").endswith("0 of 4096 bytes were moved")
    assert (done.errno, done.operations["read"].operations) == (5, 2)


def test_vdbench_counts_read_errors_and_ends_after_the_run(tmp_path: Path) -> None:
    # As vdbench 5.04.07: the run goes on to its end, and no other follows.
    anchor = tmp_path / "tree"
    path = anchor / "vdb.1_1.dir/vdb_f0001.file"
    runs = Runs(lambda: os.truncate(path, 100))
    printed, log = vdbench(tmp_path, fwd("read", anchor), runs)
    # The file is not used again.
    assert runs.failures("rd1") == [("read", str(path), 1)]
    assert runs.outcomes["rd1"].workers[0].window_end_ns > 2_000_000_000
    assert "raised: rd=rd1: 1 I/O error: see errorlog.html" in printed
    assert f"1 read operation failed, first of {path}" in log
    assert "rd2" not in runs.outcomes


def test_data_errors_ends_a_run_at_that_number(tmp_path: Path) -> None:
    (tmp_path / "sd").write_bytes(bytes(1 << 20))
    sds = f"data_errors=5\nsd=sd1,lun={tmp_path}/sd,size=1m\nwd=wd1,sd=sd1,xfersize=4k\n"
    runs = Runs(lambda: os.truncate(tmp_path / "sd", 0))
    _, log = vdbench(tmp_path, f"{sds}rd=rd1,wd=wd1,iorate=500,elapsed=3,interval=1\n", runs)
    assert runs.failures("rd1") == [("read", f"{tmp_path}/sd", 4)]
    (error,) = runs.errors("rd1")
    assert "0 of 4096 bytes were moved" in error
    assert error in log


@pytest.mark.parametrize("operation", ["getattr", "access"])
def test_vdbench_goes_on_after_a_failed_getattr_or_access(operation: str, tmp_path: Path) -> None:
    anchor = tmp_path / "tree"
    path = anchor / "vdb.1_1.dir/vdb_f0001.file"
    text = fwd(operation, anchor).rpartition("rd=rd2")[0]
    runs = Runs(path.unlink)
    printed, log = vdbench(tmp_path, text, runs)
    ((kind, named, count),) = runs.failures("rd1")
    assert (kind, named) == (operation, str(path))
    assert count > 1
    assert f"{count} {operation} operations failed, first of {path}: No such file" in log
    assert "completed successfully" in printed


def test_a_directory_that_is_deleted_under_a_run_ends_it_at_the_failed_open(tmp_path: Path) -> None:
    anchor = tmp_path / "tree"
    runs = Runs(lambda: shutil.rmtree(anchor / "vdb.1_2.dir"))
    _, log = vdbench(tmp_path, fwd("read", anchor), runs)
    (error,) = runs.errors("rd1")
    assert re.fullmatch(rf"open {anchor}/vdb\.1_2\.dir/vdb_f000\d\.file: No such file .*", error)
    assert error in log
    assert "rd2" not in runs.outcomes


# -- trees that cannot be made -----------------------------------------------------------------------------------------


def test_a_format_without_space_goes_on_and_names_the_first_file(tmp_path: Path, full_volume: Server) -> None:
    anchor = full_volume.url.replace("?", "/vdbench?")
    text = fwd("read", anchor).replace("size=8k", "size=64k").replace("files=4", "files=8")
    runs = Runs()
    printed, log = vdbench(tmp_path, text, runs)
    ((kind, path, count),) = runs.failures("format_for_rd1")
    assert (kind, "vdb_f00" in path) == ("write", True)
    assert f"raised: rd=rd1: {count} I/O errors: see errorlog.html" in printed
    assert f"{count} write operations failed, first of {path}: Disk quota exceeded" in log
    assert "rd1" not in runs.outcomes


def test_a_format_without_permission_for_a_directory_ends_there(tmp_path: Path) -> None:
    shut = tmp_path / "served/tree/vdb.1_2.dir"
    shut.mkdir(parents=True)
    (tmp_path / "served/tree").chmod(0o777)
    shut.chmod(0o555)
    with volume_here(store=str(tmp_path / "served")) as server:
        anchor = server.url.replace("?", "/tree?")
        text = fwd("read", anchor).replace("format=yes", "format=restart")
        runs = Runs()
        _, log = vdbench(tmp_path, text, runs)
    (error,) = runs.errors("format_for_rd1")
    assert re.search(r"create .*vdb\.1_2\.dir/vdb_f000\d\.file: Permission denied", error)
    assert error in log


def test_a_name_that_is_too_long_is_named(tmp_path: Path) -> None:
    made = read_here(tmp_path, fwd("read", tmp_path / ("x" * 300)))
    format_ = present(made.file_plans.formats(made.runs[0], already=False))
    with pytest.raises(IocurveError, match=r"x{300}.*File name too long"):
        local.run(format_.plan)


@cases("measure/mdtest_and_elbencho_end")
def test_mdtest_and_elbencho_end_at_the_first_error(
    dialect: str, command: str, expected: str, tmp_path: Path, full_volume: Server
) -> None:
    url = full_volume.url.replace("?", "/e?") if dialect == "elbencho" else full_volume.url
    prepared = registry.load(dialect).prepare(command.format(url=url).split(), cwd=tmp_path)
    runs = Runs()
    walk(prepared, runs.carry_out)
    (name,) = [name for name in runs.outcomes if runs.errors(name)]
    assert name == list(runs.outcomes)[-1]
    assert any(re.search(expected, error) for error in runs.errors(name))


def test_mdtest_warns_of_a_missing_file_until_it_is_opened(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # As mdtest 4.1.0.
    def ran(phase: str) -> str:
        prepared = registry.load("mdtest").prepare(["-F", "-n", "10", phase, "-d", str(tmp_path)], cwd=tmp_path)
        walk(prepared, Runs().carry_out)
        return capsys.readouterr().out

    ran("-C")
    (path,) = tmp_path.rglob("*.3")
    path.unlink()
    failed = f"{path}: No such file or directory"
    for phase, text in (
        ("-T", f"WARNING: File stat: 1 getattr failed, the first of {failed}"),
        ("-E", f"ERROR: File read: open {failed}"),
        ("-r", f"WARNING: File removal: 1 delete failed, the first of {failed}"),
    ):
        printed = ran(phase)
        assert (text in printed, "ERROR" in printed) == (True, phase == "-E")


# -- fio ---------------------------------------------------------------------------------------------------------------


@cases("fio/ignored_errors")
def test_fio_counts_the_errors_that_it_is_told_to_ignore(
    options: str, counted: int, error: str | None, tmp_path: Path
) -> None:
    with volume_here(quota="256KiB") as server:
        words = f"--name=w --ioengine=nfs --nfs_url={server.url} --rw=write --bs=64k --size=1m --create_on_open=1"
        prepared = registry.load("fio").prepare([*words.split(), *options.split()], cwd=tmp_path)
        (done,) = local.run(next(prepared.plans())).workers
    assert [(failed.kind, failed.count) for failed in done.failures] == ([("write", counted)] if counted else [])
    assert (error or "") in (done.error or "")
    assert bool(done.error) == bool(error)


def test_fios_engines_on_names_end_at_the_first_error(tmp_path: Path) -> None:
    # As fio 3.33, also with continue_on_error=all.
    words = f"--name=c --directory={tmp_path} --ioengine=filecreate --nrfiles=4 --filesize=4k --continue_on_error=all"
    made = next(registry.load("fio").prepare(words.split(), cwd=tmp_path).plans())
    path = Path(made.groups[0].workers[0].files[2].path)
    path.mkdir()
    (done,) = local.run(made).workers
    assert str(path) in present(done.error)
    assert not done.failures

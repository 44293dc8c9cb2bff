"""Metadata operations on local files and over NFS."""

import errno
from pathlib import Path
from typing import Any

import pytest

import iocurve
from bench.servers import Server
from iocurve.engine import plan
from iocurve.engine.outcome import Outcome
from iocurve.foundation.errors import RunError, TargetError
from iocurve.measure import local
from plans import READ, WRITE, end, file_plan, in_groups, nfs_engine, plan_of, worker

FILES = 5
FILE_KINDS: tuple[plan.MetadataKind, ...] = ("create", "getattr", "setattr", "access", "open", "delete")


def local_engine(*, keep_open: bool = False) -> plan.MetadataEngine:
    how = plan.FileOpen(direct=False, durability="none", invalidate=False)
    return plan.MetadataEngine(open=how, keep_open=keep_open)


VERSIONS = pytest.mark.parametrize("version", ["3", "4.1"])


def nfs_metadata(volume: Server, version: str = "3", *, keep_open: bool = False) -> plan.NfsMetadataEngine:
    """The metadata engine on the embedded volume, by a version of NFS."""
    return plan.NfsMetadataEngine(mount=nfs_engine(f"{volume.url}&vers={version}").mount, keep_open=keep_open)


@pytest.fixture(params=["local", "3", "4.1"])
def place(request: pytest.FixtureRequest, shared_volume: Server, tmp_path: Path) -> tuple[plan.EnginePlan, str]:
    """An engine that keeps files open, and a root on its file system."""
    if request.param == "local":
        return local_engine(keep_open=True), str(tmp_path)
    return nfs_metadata(shared_volume, request.param, keep_open=True), f"{request.node.name}"


def each(engine: plan.EnginePlan, kind: plan.MetadataKind, paths: list[str], **changes: Any) -> plan.Worker:
    operation = plan.OperationPlan(kind=kind, share=1, blocks=plan.FixedBlocks(bytes=1), random_percent=0, rate=None)
    files = tuple(file_plan(path, 1, layout="nothing", keep=True) for path in paths)
    base = {"job": kind, "files": files, "file_select": "sequential", "operations": (operation,), "depth": 1}
    return worker(engine, "", **{**base, "end": end(operations=len(paths)), **changes})


def one_after_another(*workers: plan.Worker) -> Outcome:
    """Runs each worker in a separate group."""
    return local.run(in_groups(*((worker,) for worker in workers)))


def counts(outcome: Outcome) -> list[tuple[str, int, int, int]]:
    """Kind, operations, bytes and short operations of each worker."""
    kinds = [(kind, done) for worker in outcome.workers for kind, done in worker.operations.items()]
    return [(kind, done.operations, done.bytes, done.short) for kind, done in kinds]


def all_kinds(engine: plan.EnginePlan, root: str) -> Outcome:
    """Makes a directory and files, does everything with them, and removes them."""
    paths = [f"{root}/d/{number}" for number in range(FILES)]
    done = [each(engine, kind, paths) for kind in FILE_KINDS]
    return one_after_another(each(engine, "mkdir", [f"{root}/d"]), *done, each(engine, "rmdir", [f"{root}/d"]))


EXPECTED = [("mkdir", 1, 0, 0), *[(kind, FILES, 0, 0) for kind in FILE_KINDS], ("rmdir", 1, 0, 0)]


def test_every_kind_is_counted_once_per_local_file(tmp_path: Path) -> None:
    outcome = all_kinds(local_engine(), str(tmp_path))
    assert counts(outcome) == EXPECTED
    assert [worker.operations[worker.job].service.count for worker in outcome.workers] == [1, *[FILES] * 6, 1]
    assert list(tmp_path.iterdir()) == []


@VERSIONS
@pytest.mark.parametrize("keep_open", [False, True])
def test_every_kind_is_counted_once_per_file_over_nfs(shared_volume: Server, version: str, keep_open: bool) -> None:
    outcome = all_kinds(nfs_metadata(shared_volume, version, keep_open=keep_open), "")
    assert counts(outcome) == EXPECTED
    assert outcome.workers[0].engine.startswith(f"metadata operations over user-space NFSv{version} over 1 TCP")


def data_of(engine: plan.EnginePlan, root: str) -> Outcome:
    """Creates, writes, renames, opens and reads a file, then removes it."""
    path, other = f"{root}/a", f"{root}/b"

    def with_data(kind: plan.MetadataKind, name: str, then: plan.OperationPlan) -> plan.Worker:
        made = each(engine, kind, [name], access=plan.Access(position="identical"), end=end(operations=2))
        first = made.operations[0].replace(blocks=then.blocks)
        return made.replace(operations=(first, then), files=(made.files[0].replace(bytes=4096),))

    moved = each(engine, "rename", [path, other], end=end(operations=1))
    moved = moved.replace(files=(moved.files[0].replace(offset_bytes=1), moved.files[1]))
    mix = with_data("create", path, WRITE.replace(random_percent=0, share=1))
    return one_after_another(mix, moved, with_data("open", other, READ), each(engine, "delete", [other]))


def test_an_open_file_is_written_and_read(place: tuple[plan.EnginePlan, str]) -> None:
    engine, root = place
    one_after_another(each(engine, "mkdir", [f"{root}-new"]))
    expected = [("create", 1, 0, 0), ("write", 1, 4096, 0), ("rename", 1, 0, 0), ("open", 1, 0, 0)]
    assert counts(data_of(engine, f"{root}-new")) == [*expected, ("read", 1, 4096, 0), ("delete", 1, 0, 0)]


@pytest.mark.slow
def test_an_operation_that_fails_says_which_file_and_why(place: tuple[plan.EnginePlan, str]) -> None:
    engine, root = place
    (ended,) = one_after_another(each(engine, "delete", [f"{root}/missing"])).workers
    told = f"delete {root}/missing: No such file or directory (os error 2); check the path"
    assert (ended.errno, ended.error) == (errno.ENOENT, told)


@pytest.mark.slow
def test_files_that_are_not_kept_are_removed_unless_they_were_there(tmp_path: Path, volume: Server) -> None:
    (tmp_path / "0").write_text("mine")
    paths = [str(tmp_path / str(number)) for number in range(FILES)]
    files = tuple(file_plan(path, 1, layout="nothing", keep=False) for path in paths)
    made = each(local_engine(), "create", paths, files=files)
    assert counts(local.run(plan_of(made))) == [("create", FILES, 0, 0)]
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"0": "mine"}

    remote = nfs_metadata(volume, "4.1")
    one_after_another(each(remote, "create", ["there"]))
    files = tuple(file_plan(path, 1, layout="nothing", keep=False) for path in ("there", "gone"))
    one_after_another(each(remote, "create", ["there", "gone"], files=files))
    assert one_after_another(each(remote, "getattr", ["there"])).workers[0].error is None
    assert one_after_another(each(remote, "getattr", ["gone"])).workers[0].errno == errno.ENOENT


def test_plans_that_mix_the_two_kinds_of_engine_are_refused(tmp_path: Path) -> None:
    engine = plan.SyncEngine(open=local_engine().open)
    with pytest.raises(RunError, match="this engine has files open from start to end; use a metadata engine"):
        local.run(plan_of(each(engine, "create", [str(tmp_path / "a")])))
    trims = each(local_engine(), "create", [str(tmp_path / "a")])
    trims = trims.replace(operations=(trims.operations[0].replace(kind="trim"),))
    with pytest.raises(RunError, match="a metadata engine does not trim"):
        local.run(plan_of(trims))
    unprepared = worker(engine, "", files=(file_plan(tmp_path / "a", layout="nothing"),))
    with pytest.raises(RunError, match="a file that is not prepared needs a metadata engine"):
        local.run(plan_of(unprepared))


# ---- directories of fio's jobs


@pytest.mark.parametrize(("engine", "left"), [("dirstat", 3), ("dirdelete", 0)])
def test_directories_of_a_fio_job_are_created_before_the_run(engine: str, left: int, tmp_path: Path) -> None:
    """Both count as fio 3.42 does: an I/O of a block for each directory."""
    job = f"--name=a --ioengine={engine} --nrfiles=3 --filesize=4k --directory={tmp_path}"
    operations = iocurve.run(job).points[0].outcome.workers[0].operations
    (kind,) = operations
    assert (kind, operations[kind].operations) == ("getattr" if left else "rmdir", 3)
    assert [path.is_dir() for path in tmp_path.iterdir()] == [True] * left


def test_a_file_in_the_place_of_a_directory_ends_the_job_and_no_directory_stays(tmp_path: Path) -> None:
    (tmp_path / "a.0.2").write_text("data")
    job = f"--name=a --ioengine=dirdelete --nrfiles=4 --filesize=4k --directory={tmp_path}"
    with pytest.raises(TargetError, match=f"{tmp_path}/a.0.2 is not a directory; use another name"):
        iocurve.run(job)
    assert [path.name for path in tmp_path.iterdir()] == ["a.0.2"]


@VERSIONS
def test_directories_of_an_export_are_created_before_the_run(shared_volume: Server, version: str) -> None:
    url = f"{shared_volume.url}&vers={version}"
    job = f"--name=d{version} --ioengine=dirdelete --nrfiles=3 --filesize=4k --iodepth=2 --nfs_url={url}"
    worker_outcome = iocurve.run(job).points[0].outcome.workers[0]
    assert (worker_outcome.state, worker_outcome.operations["rmdir"].operations) == ("finished", 3)

"""Files that a run leaves behind: manifests, the note of a later run, and ``iocurve clean``."""

import os
import signal
import time
from pathlib import Path

import pytest

from bench.servers import Server
from goldens import cases, present
from goldens import data as text_of
from iocurve.engine.plan import NfsEngine
from iocurve.foundation.errors import TargetError
from iocurve.measure.machines import THIS_MACHINE
from iocurve.measure.run_files import RunFiles, tell_leftovers_of_plans
from iocurve.targets.places import (
    SUFFIX,
    LocalPlace,
    Manifest,
    ManifestFile,
    NfsPlace,
    Place,
    described,
    leftover,
    manifests,
)
from iocurve.targets.target import NfsTarget
from load_clients import LocalLink, group_of
from plans import file_plan, local_engine, nfs_engine, plan_of, worker
from programs import awaited, iocurve, printed, started, stopped

pytestmark = pytest.mark.slow

RUN = "iocurve-test-0123abcd"
DEAD_PROCESS = 2**22 + 1
"""Above the largest process number that Linux gives."""


def cleaned(target: str | Path, *options: str, status: int = 0) -> list[str]:
    """The lines of a clean-up with ``--yes``."""
    return printed("clean", str(target), "--yes", *options, status=status).splitlines()


def left(directory: Path, *names: str, size: int = 4096, pid: int = DEAD_PROCESS, kept: bool = False) -> Manifest:
    """Files of a run that was killed, with their manifest."""
    files = tuple(ManifestFile(name=name, bytes=size) for name in names)
    manifest = Manifest.of(RUN).replace(pid=pid, files=files, kept=kept)
    (directory / manifest.name).write_bytes(manifest.encoded())
    for name in names:
        (directory / name).write_bytes(bytes(size))
    return manifest


def signalled(place: Place, target: str | Path, out: Path, number: int, *more: str) -> list[str]:
    """The stderr of an envelope of small files that gets a signal once it has laid them out."""
    before = laid_out(place)
    options = ("--quick", "--no-confirm", "--retries", "0", "--size", "8MiB", "--out", str(out), *more)
    with started("envelope", str(target), *options) as process:
        awaited(lambda: laid_out(place) > before, "no file is laid out")
        return stopped(process, number).stderr.splitlines()


def laid_out(place: Place) -> int:
    """The number of runs whose files are there."""
    return sum(any(file.id for file in one.files) for one in manifests_of(place))


# ---- after kill -9


def note_of(manifest: Manifest, directory: Path) -> str:
    left = described([manifest])
    return f"note: left on the target by an earlier run, {left}; to remove: iocurve clean '{directory}'"


def manifests_of(place: Place) -> list[Manifest]:
    return [one for one in manifests(place) if isinstance(one, Manifest)]


def test_what_a_killed_run_left_is_told_and_removed(tmp_path: Path) -> None:
    (data := tmp_path / "data").mkdir()
    (data / "precious").write_text("data")
    signalled(LocalPlace(data), data, tmp_path / "out", signal.SIGKILL)
    (manifest,) = [Manifest.read(LocalPlace(data), name) for name in LocalPlace(data).names(SUFFIX)]
    names = [file.name for file in manifest.files]
    assert {path.name for path in data.iterdir()} == {"precious", manifest.name, *names}
    assert [file.bytes for file in manifest.files] == [2 << 20] * 4
    assert note_of(manifest, data) in signalled(LocalPlace(data), data, tmp_path / "again", signal.SIGINT)
    asked = printed("clean", str(data), status=1).splitlines()
    assert asked[-2:] == ["Remove 4 files (8 MiB)? Say so with --yes.", "nothing is removed"]
    assert cleaned(data)[-1] == "removed 4 files"
    assert [path.name for path in data.iterdir()] == ["precious"]
    assert printed("clean", str(data)) == "no earlier run left files here\n"


@pytest.mark.parametrize("version", ["3", "4.1"])
def test_an_export_is_cleaned_without_a_mount(tmp_path: Path, volume: Server, version: str) -> None:
    url = volume.url_of(version)
    place = NfsPlace(NfsTarget.of(url).mount(1))
    signalled(place, url, tmp_path / "out", signal.SIGKILL)
    assert cleaned(url)[-1] == "removed 4 files"
    assert [name for name in place.names("") if name.startswith("iocurve-envelope")] == []


def test_a_new_file_that_the_user_named_is_cleaned_too(tmp_path: Path) -> None:
    named = tmp_path / "named"
    signalled(LocalPlace(tmp_path), named, tmp_path / "out", signal.SIGKILL, "--create")
    assert named.exists()
    assert cleaned(tmp_path)[-2:] == ["  named", "removed 1 file"]
    assert not list(tmp_path.glob("named*"))


FIO = ("fio", "--name=j", "--bs=4k", "--size=1m", "--iodepth=1", "--time_based", "--runtime=60", "--unlink=1")


def unlinked(directory: Path, number: int) -> None:
    """Sends a signal to a job of fio that has laid out its file, and removes the file at the end."""
    place = LocalPlace(directory)
    with started(*FIO, cwd=directory) as process:
        awaited(lambda: laid_out(place), "no file is laid out")
        stopped(process, number)


def test_a_job_names_the_files_that_it_does_not_keep(tmp_path: Path) -> None:
    unlinked(tmp_path, signal.SIGKILL)
    assert len(list(tmp_path.iterdir())) == 2
    assert cleaned(tmp_path)[-2:] == ["  j.0.0", "removed 1 file"]
    unlinked(tmp_path, signal.SIGINT)
    assert list(tmp_path.iterdir()) == []


def test_a_job_does_not_name_a_file_that_was_there(tmp_path: Path, volume: Server) -> None:
    (tmp_path / "old").write_bytes(bytes(1 << 20))
    load = worker(local_engine("sync"), "", files=(file_plan(tmp_path / "old"), file_plan(tmp_path / "new")))
    far = worker(nfs_engine(volume.url), "", files=(file_plan("d/f"),))
    files = RunFiles(RUN, unkept=True)
    files.announce(plan_of(load, far))
    root = NfsPlace(NfsTarget.of(volume.url).mount(1))
    for place, name in ((LocalPlace(tmp_path), "new"), (root, "d/f")):
        assert [file.name for file in Manifest.read(place, f"{RUN}{SUFFIX}").files] == [name]
    assert root.facts(["d/f"]) == [None]
    files.remove()
    assert [path.name for path in tmp_path.iterdir()] == ["old"]
    assert root.names(SUFFIX) == []


CREATES = (
    *("fio", "--name=j", "--ioengine=filecreate", "--rw=write", "--nrfiles=1000", "--filesize=4k", "--rate_iops=100"),
    "--unlink=1",
)


def created_in(place: Place) -> int:
    return sum(facts is not None for facts in place.facts([f"j.0.{number}" for number in range(1000)]))


@pytest.mark.parametrize("where", ["local", "3", "4.1"])
def test_files_that_a_killed_load_created_are_told_and_removed(tmp_path: Path, volume: Server, where: str) -> None:
    export = NfsPlace(NfsTarget.of(volume.url_of(where)).mount(1)) if where != "local" else None
    place = export or LocalPlace(tmp_path)
    target = [f"--nfs_url={volume.url_of(where)}"] if export else []
    with started(*CREATES, *target, cwd=tmp_path) as process:
        awaited(lambda: place.facts(["j.0.9"]) != [None], "no file is created")
        stopped(process, signal.SIGKILL)
    # The server may still carry out the last call when its client has ended.
    created, before = created_in(place), -1
    while created != before:
        time.sleep(0.1)
        created, before = created_in(place), created
    assert 10 <= created < 1000
    assert sum(len(one.files) for one in manifests_of(place)) == 1000
    assert max(len(one.encoded()) for one in manifests_of(place)) < 64 << 10
    place.write("j.0.3", b"data", new=False)

    removed = iocurve("clean", volume.url_of(where) if export else str(tmp_path), "--yes")
    assert (removed.returncode, removed.stderr) == (1, "iocurve: j.0.3 is not the file that the run made; it stays\n")
    assert removed.stdout.splitlines()[-1] == f"removed {created - 1} files"
    assert [name for name in place.names("") if not name.startswith(("iocurve-fio", "."))] == ["j.0.3"]
    assert place.read("j.0.3", 10) == b"data"


def test_a_load_that_creates_files_names_those_that_it_does_not_keep(tmp_path: Path) -> None:
    (tmp_path / "j.0.1").write_text("data")
    words = ("fio", "--name=j", "--ioengine=filecreate", "--nrfiles=3", "--filesize=4k")
    for unlink, files in (("--unlink=1", ["j.0.1"]), ("--unlink=0", ["j.0.0", "j.0.1", "j.0.2"])):
        printed(*words, unlink, cwd=tmp_path)
        assert sorted(path.name for path in tmp_path.iterdir()) == files
    assert (tmp_path / "j.0.1").read_text() == "data"


@cases("measure/jobs_of_dialects")
def test_a_job_of_a_dialect_tells_what_an_earlier_run_left(tmp_path: Path, line: str) -> None:
    (data := tmp_path / "data").mkdir()
    for name in ("parameters", "trees"):
        (tmp_path / name).write_text(text_of(f"vdbench/left_{name}.parm").format(data))
    manifest = left(data, f"{RUN}-data.0")
    ran = iocurve(*line.format(data).split(), cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    note = note_of(manifest, data)
    assert (ran.stderr.splitlines().count(note), note in ran.stdout) == (1, False)
    assert (data / f"{RUN}-data.0").exists()


@pytest.mark.parametrize("version", ["3", "4.1"])
def test_a_job_on_an_export_tells_what_an_earlier_run_left(
    volume: Server, version: str, capsys: pytest.CaptureFixture[str]
) -> None:
    place = NfsPlace(NfsTarget.of(volume.url_of(version)).mount(1))
    manifest = Manifest.of(RUN).replace(pid=DEAD_PROCESS, files=(ManifestFile(name=f"{RUN}-data.0", bytes=4096),))
    place.write(manifest.name, manifest.encoded(), new=True)
    plan = plan_of(*(worker(nfs_engine(volume.url_of(version), nconnect), "f") for nconnect in (1, 2)))
    tell_leftovers_of_plans([plan], THIS_MACHINE)
    note, address = capsys.readouterr().err.rsplit(" ", 1)
    assert note == f"note: left on the target by an earlier run, {described([manifest])}; to remove: iocurve clean"
    place.write(f"{RUN}-data.0", b"data", new=True)
    assert cleaned(address.strip().strip("'"))[-1] == "removed 1 file"


def test_each_load_client_has_a_manifest_on_its_own_machine(tmp_path: Path) -> None:
    """Here they share the directory, as clients with one mount do."""
    place, names = LocalPlace(tmp_path), [f"{RUN}-data.{number}" for number in range(2)]
    workers = [
        worker(local_engine("sync"), "", files=(file_plan(tmp_path / name),), client=client)
        for client, name in enumerate(names)
    ]
    with group_of([LocalLink("a"), LocalLink("b")]) as machines:
        files = RunFiles(RUN, machines=machines)
        files.announce(plan_of(*workers))
        assert place.names(SUFFIX) == [f"{RUN}.client-{client}{SUFFIX}" for client in range(2)]
        told = [(one.client, [file.name for file in one.files]) for one in manifests_of(place)]
        assert told == [(0, names[:1]), (1, names[1:])]
        for name in names:
            (tmp_path / name).write_bytes(b"data")
        files.identify()
        assert [file.name for one in manifests_of(place) for file in leftover(place, one).files] == names
        files.remove()
    assert list(tmp_path.iterdir()) == []


# ---- nothing else is touched


def test_only_files_of_the_run_are_removed(tmp_path: Path) -> None:
    names = [f"{RUN}-data.{number}" for number in range(5)]
    manifest = left(tmp_path, *names)
    (victim := tmp_path / "victim").write_text("data")
    longer, link, hard, gone, own = (tmp_path / name for name in names)
    longer.write_bytes(bytes(4097))
    for path in (link, hard, gone):
        path.unlink()
    link.symlink_to(victim)
    hard.hardlink_to(victim)
    ran = iocurve("clean", str(tmp_path), "--yes")
    assert ran.returncode == 1
    assert ran.stderr.splitlines() == [
        f"iocurve: {path.name} is not the file that the run made; it stays" for path in (longer, link, hard)
    ]
    assert not own.exists()
    assert {path.name for path in tmp_path.iterdir()} == {"victim", longer.name, link.name, hard.name, manifest.name}
    assert victim.read_text() == "data"


def test_a_file_with_another_number_or_older_than_its_manifest_is_another_file(tmp_path: Path) -> None:
    place, (first, second) = LocalPlace(tmp_path), (f"{RUN}-data.0", f"{RUN}-data.1")
    manifest = left(tmp_path, first, second)
    number = (tmp_path / first).stat().st_ino
    known = manifest.replace(files=(manifest.files[0].replace(id=number), manifest.files[1].replace(id=number)))
    found = leftover(place, known)
    assert ([file.name for file in found.files], found.strange) == ([first], (second,))
    os.utime(tmp_path / second, (1, 1))
    found = leftover(place, manifest)
    assert ([file.name for file in found.files], found.strange) == ([first], (second,))


@cases("measure/forged_manifests")
def test_a_manifest_that_names_other_files_is_not_believed(tmp_path: Path, name: str, run: str, text: str) -> None:
    forged = Manifest.of(run).replace(files=(ManifestFile(name=name, bytes=4),))
    (tmp_path / forged.name).write_bytes(forged.encoded())
    with pytest.raises(TargetError, match=text.replace(".", r"\.")):
        Manifest.read(LocalPlace(tmp_path), forged.name)
    ran = iocurve("clean", str(tmp_path), "--yes")
    assert (ran.returncode, ran.stdout) == (1, "nothing can be removed\n")
    assert ran.stderr.endswith("nothing that it names is touched\n")


@pytest.mark.parametrize("owner", ["same", "another"])
@pytest.mark.parametrize("number", ["right", "none", "wrong"])
def test_a_file_that_a_user_named_is_removed_only_if_it_is_surely_the_run_s(
    tmp_path: Path, number: str, owner: str
) -> None:
    if owner == "another" and os.geteuid() != 0:
        pytest.skip("files of two owners need root")
    (victim := tmp_path / "victim").write_bytes(b"data")
    number_there = victim.stat().st_ino
    number_named = {"right": number_there, "none": None, "wrong": number_there + 1}[number]
    named = ManifestFile(name="victim", bytes=4, id=number_named)
    manifest = Manifest.of(RUN).replace(pid=DEAD_PROCESS, files=(named,))
    (tmp_path / manifest.name).write_bytes(manifest.encoded())
    if owner == "another":
        os.chown(tmp_path / manifest.name, 65534, 65534)
    ran = iocurve("clean", str(tmp_path), "--yes")
    is_own = (number, owner) == ("right", "same")
    assert (ran.returncode, victim.exists()) == ((0, False) if is_own else (1, True))
    assert is_own or ran.stderr == "iocurve: victim is not the file that the run made; it stays\n"


@pytest.mark.parametrize("text", ["", "{}", "[1]", "not JSON", "\udcff"])
def test_what_is_no_manifest_is_left_alone(tmp_path: Path, text: str) -> None:
    (tmp_path / f"{RUN}{SUFFIX}").write_bytes(text.encode(errors="surrogateescape"))
    (error,) = manifests(LocalPlace(tmp_path))
    assert str(error).startswith(f"{RUN}{SUFFIX} is not a manifest of iocurve")


def test_a_run_that_goes_on_and_files_kept_on_purpose_stay(tmp_path: Path) -> None:
    name = f"{RUN}-data.0"
    running = Manifest.of(RUN)
    left(tmp_path, name, pid=running.pid)
    assert f"in use by process {running.pid}, which still runs" in "\n".join(cleaned(tmp_path))
    left(tmp_path, name, kept=True)
    assert "kept on purpose; --kept removes them, too" in "\n".join(cleaned(tmp_path))
    assert (tmp_path / name).exists()
    assert cleaned(tmp_path, "--kept")[-1] == "removed 1 file"
    assert list(tmp_path.iterdir()) == []


def test_a_target_without_a_directory_is_an_error() -> None:
    ran = iocurve("clean", "volume:unlimited")
    assert ran.returncode == 2
    assert "runs leave files in directories, NFS exports and disk:NAME?path=DIR only" in ran.stderr


# ---- manifests


@pytest.fixture(params=["local", "3", "4.1"])
def place(request: pytest.FixtureRequest, tmp_path: Path, volume: Server) -> Place:
    if request.param == "local":
        return LocalPlace(tmp_path)
    return NfsPlace(NfsTarget.of(volume.url_of(request.param)).mount(1))


def test_a_manifest_is_there_before_the_files_and_goes_with_them(place: Place, tmp_path: Path) -> None:
    name = f"{RUN}-data.0"
    file = file_plan(name if isinstance(place, NfsPlace) else tmp_path / name)
    engine = NfsEngine(mount=place.mount) if isinstance(place, NfsPlace) else local_engine("sync")
    files = RunFiles(RUN, [])
    files.announce(plan_of(worker(engine, "", files=(file,))))
    files.identify()
    assert [file.id for file in Manifest.read(place, f"{RUN}{SUFFIX}").files] == [None]
    place.write(name, b"data", new=True)
    files.identify()
    facts = present(place.facts([name])[0])
    manifest = Manifest.read(place, f"{RUN}{SUFFIX}")
    assert manifest.is_running
    assert manifest.files == (ManifestFile(name=name, bytes=1 << 20, id=facts.id),)
    assert leftover(place, manifest).files == manifest.files
    files.keep()
    assert Manifest.read(place, manifest.name) == manifest.replace(kept=True)
    files.remove()
    assert place.facts([name, manifest.name]) == [None, None]


def test_a_place_keeps_what_is_there(place: Place) -> None:
    place.write("a", b"1", new=True)
    with pytest.raises(TargetError):
        place.write("a", b"2", new=True)
    assert place.read("a", 10) == b"1"
    assert "a" in place.names("")
    place.remove(["a", "not there"])
    with pytest.raises(TargetError):
        place.read("a", 10)

"""Files that a run leaves behind: manifests, the note of a later run, and ``iocurve clean``."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bench.servers import Server
from iocurve.errors import TargetError
from iocurve.measure.run_files import RunFiles
from iocurve.targets.manifest import SUFFIX, Manifest, ManifestFile, leftover, manifests
from iocurve.targets.places import LocalPlace, NfsPlace, Place
from iocurve.targets.target import NfsTarget
from plans import file_plan, local_engine, nfs_engine, plan_of, worker

IOCURVE = (sys.executable, "-m", "iocurve")
RUN = "iocurve-test-0123abcd"
DEAD_PROCESS = 2**22 + 1
"""Above the largest process number that Linux gives."""


def clean(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [*IOCURVE, "clean", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, stdin=subprocess.DEVNULL)


def left(directory: Path, *names: str, size: int = 4096, pid: int = DEAD_PROCESS, kept: bool = False) -> Manifest:
    """Files of a run that was killed, with their manifest."""
    files = tuple(ManifestFile(name=name, bytes=size) for name in names)
    manifest = Manifest.of(RUN).replace(pid=pid, files=files, kept=kept)
    (directory / manifest.name).write_bytes(manifest.encoded())
    for name in names:
        (directory / name).write_bytes(bytes(size))
    return manifest


@contextmanager
def measuring(target: str, out: Path) -> Iterator[subprocess.Popen[str]]:
    """An envelope of small files that has measured a point."""
    command = [*IOCURVE, "envelope", target, "--quick", "--size", "8MiB", "--out", str(out)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + 60
        while not (out / "result.json").exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        yield process


# ---- after kill -9


def test_what_a_killed_run_left_is_told_and_removed(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "precious").write_text("data")
    with measuring(str(data), tmp_path / "out") as process:
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=60)
    (manifest,) = [Manifest.read(LocalPlace(data), name) for name in LocalPlace(data).names(SUFFIX)]
    assert {path.name for path in data.iterdir()} == {
        "precious",
        manifest.name,
        *(file.name for file in manifest.files),
    }
    assert [file.bytes for file in manifest.files] == [2 << 20] * 4

    with measuring(str(data), tmp_path / "again") as process:
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=60)
    note = f"note: left on the target by an earlier run, {manifest.described()}; to remove: iocurve clean '{data}'"
    assert note in stderr.splitlines()

    asked = clean(str(data))
    assert asked.returncode == 1
    assert asked.stdout.splitlines()[-2:] == ["Remove 4 files (8 MiB)? Say so with --yes.", "nothing is removed"]
    removed = clean(str(data), "--yes")
    assert (removed.returncode, removed.stdout.splitlines()[-1]) == (0, "removed 4 files")
    assert [path.name for path in data.iterdir()] == ["precious"]
    assert clean(str(data)).stdout == "no earlier run left files here\n"


def test_an_export_is_cleaned_without_a_mount(tmp_path: Path, volume: Server) -> None:
    with measuring(volume.url, tmp_path / "out") as process:
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=60)
    removed = clean(volume.url, "--yes")
    assert (removed.returncode, removed.stdout.splitlines()[-1]) == (0, "removed 4 files")
    place = NfsPlace(NfsTarget.of(volume.url).mount(1))
    assert [name for name in place.names("") if name.startswith("iocurve-envelope")] == []


# ---- nothing else is touched


def test_only_files_of_the_run_are_removed(tmp_path: Path) -> None:
    names = [f"{RUN}-data.{number}" for number in range(5)]
    manifest = left(tmp_path, *names)
    victim = tmp_path / "victim"
    victim.write_text("data")
    longer, link, hard, gone, own = (tmp_path / name for name in names)
    longer.write_bytes(bytes(4097))
    link.unlink()
    link.symlink_to(victim)
    hard.unlink()
    hard.hardlink_to(victim)
    gone.unlink()
    ran = clean(str(tmp_path), "--yes")
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


@pytest.mark.parametrize(
    ("name", "run", "text"),
    [
        ("../victim", RUN, "names '../victim', which no run makes"),
        (f"{RUN}/../../victim", RUN, "which no run makes"),
        ("victim", RUN, "names 'victim', which no run makes"),
        (f"{RUN}{SUFFIX}", RUN, "which no run makes"),
        ("victim-0123abcd-0", "victim-0123abcd", "is the manifest of another run"),
    ],
)
def test_a_manifest_that_names_other_files_is_not_believed(tmp_path: Path, name: str, run: str, text: str) -> None:
    forged = Manifest.of(run).replace(files=(ManifestFile(name=name, bytes=4),))
    (tmp_path / forged.name).write_bytes(forged.encoded())
    with pytest.raises(TargetError, match=text.replace(".", r"\.")):
        Manifest.read(LocalPlace(tmp_path), forged.name)
    ran = clean(str(tmp_path), "--yes")
    assert ran.returncode == 1
    assert ran.stderr.endswith("nothing that it names is touched\n")
    assert ran.stdout == "nothing can be removed\n"


@pytest.mark.parametrize("text", ["", "{}", "[1]", "not JSON", "\udcff"])
def test_what_is_no_manifest_is_left_alone(tmp_path: Path, text: str) -> None:
    (tmp_path / f"{RUN}{SUFFIX}").write_bytes(text.encode(errors="surrogateescape"))
    (error,) = manifests(LocalPlace(tmp_path))
    assert str(error).startswith(f"{RUN}{SUFFIX} is not a manifest of iocurve")


def test_a_run_that_goes_on_and_files_kept_on_purpose_stay(tmp_path: Path) -> None:
    name = f"{RUN}-data.0"
    running = Manifest.of(RUN)
    left(tmp_path, name, pid=running.pid)
    ran = clean(str(tmp_path), "--yes")
    assert ran.returncode == 0
    assert f"in use by process {running.pid}, which still runs" in ran.stdout
    left(tmp_path, name, kept=True)
    assert "kept on purpose; --kept removes them, too" in clean(str(tmp_path), "--yes").stdout
    assert (tmp_path / name).exists()
    assert clean(str(tmp_path), "--yes", "--kept").stdout.splitlines()[-1] == "removed 1 file"
    assert list(tmp_path.iterdir()) == []


def test_a_target_without_a_directory_is_a_mistake() -> None:
    ran = clean("volume:unlimited")
    assert ran.returncode == 2
    assert "runs leave files in directories, NFSv3 exports and disk:NAME?path=DIR only" in ran.stderr


# ---- manifests


@pytest.fixture(params=["local", "nfs"])
def place(request: pytest.FixtureRequest, tmp_path: Path, volume: Server) -> Place:
    return LocalPlace(tmp_path) if request.param == "local" else NfsPlace(NfsTarget.of(volume.url).mount(1))


def test_a_manifest_is_there_before_the_files_and_goes_with_them(place: Place, tmp_path: Path, volume: Server) -> None:
    name = f"{RUN}-data.0"
    if isinstance(place, NfsPlace):
        load = worker(nfs_engine(volume.url), name, files=(file_plan(name),))
    else:
        load = worker(local_engine("sync"), str(tmp_path / name), files=(file_plan(tmp_path / name),))
    files = RunFiles(RUN, [])
    files.announce(plan_of(load))
    files.identify()
    assert [file.id for file in Manifest.read(place, f"{RUN}{SUFFIX}").files] == [None]
    place.write(name, b"data", new=True)
    files.identify()
    facts = place.facts([name])[0]
    assert facts is not None
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

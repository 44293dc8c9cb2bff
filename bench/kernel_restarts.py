"""``python -m bench.kernel_restarts``: a tree unpacked and a repository cloned while the volume is killed (SIGKILL).

The Linux kernel's NFS client, in a guest (``tests/rig/kernel-nfs``), reads an archive or a repository from a volume
with ``--store`` and writes what is in it to the same volume. The volume is killed and started again several times
meanwhile. Afterwards the store's directory is compared with the archive, or checked by git. Needs root and git.
"""

from __future__ import annotations

import argparse
import io
import os
import random
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from bench.faults.victims import VolumeProcess, volume_process
from bench.servers import Server, guest_command

MOUNT_OPTIONS = "nconnect=4,rsize=262144,wsize=262144,hard"
GUEST_TIMEOUT_SECONDS = 2_400
DOWN_SECONDS = 1.0
MOUNTED = "mounted"
"""The guest prints it before it works: mounting gives up on the first reset."""
SEED = 1
FILE_BYTES_MEAN = 15_000
FILES_PER_DIRECTORY = 16
DIRECTORIES_PER_DIRECTORY = 20
MODIFIED_AT = 1_700_000_000
FILES_PER_COMMIT = 4
COMMITS_PER_DIRECTORY = 50

UNPACK = "mkdir $MNT/tree && tar -C $MNT/tree -xf $MNT/tree.tar && sync"

CLONE = """
mkdir -p /usr/lib/git-core
ln -s /usr/bin/git /usr/lib/git-core/git; ln -s /usr/bin/git /usr/lib/git-core/git-upload-pack
git clone --no-local --quiet $MNT/origin.git $MNT/clone && sync
"""


@dataclass(frozen=True)
class Work:
    """Work of the client while the volume is killed."""

    name: str
    prepare: Callable[[Path], None]
    script: str
    differences: Callable[[Path], list[str]]
    """Compares the store with its source: what was lost or changed."""
    seconds_between: float
    """From a start of the volume to its next kill."""
    added: tuple[str, ...] = ()
    """Programs of the host that the guest needs."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs each work over each version of NFS, and prints what was lost. The exit status is 1 if anything was."""
    options = _parser().parse_args(arguments)
    works = {"unpack": unpacking(options.files), "clone": cloning(options.commits)}
    faults = 0
    for name in options.works:
        for nfs in options.versions:
            with tempfile.TemporaryDirectory(prefix="iocurve-bench-", dir=options.directory) as directory:
                faults += _survived(works[name], nfs, options.kills, Path(directory))
    return 1 if faults else 0


def unpacking(files: int) -> Work:
    """An archive of many files, as large as a kernel's by default."""
    return Work(
        name=f"an archive of {files:,} files is unpacked",
        prepare=lambda store: _write_archive(store / "tree.tar", files),
        script=UNPACK,
        differences=_tree_differences,
        seconds_between=15,
    )


def cloning(commits: int) -> Work:
    """A repository with many commits."""
    return Work(
        name=f"a repository of {commits:,} commits is cloned",
        prepare=lambda store: _write_repository(store / "origin.git", commits),
        script=CLONE,
        differences=_clone_differences,
        seconds_between=4,
        added=("git",),
    )


def _survived(work: Work, nfs: str, kills_max: int, directory: Path) -> int:
    """Returns the number of faults, and prints them."""
    start = time.monotonic()
    with volume_process(directory) as volume:
        work.prepare(volume.files)
        prepared = time.monotonic()
        status, errors, kills = _disturbed(work, volume, nfs, kills_max)
        ended = time.monotonic()
    found = work.differences(volume.files) if status == 0 else [f"the guest ended with {status}: {errors}"]
    seconds = f"{ended - prepared:.0f} s (prepared in {prepared - start:.0f} s)"
    print(f"NFSv{nfs}: {work.name} in {seconds}; {kills} kills; {len(found)} differences", flush=True)
    for difference in found[:20]:
        print(f"  {difference}")
    return len(found)


def _disturbed(work: Work, volume: VolumeProcess, nfs: str, kills_max: int) -> tuple[int, str, int]:
    """Exit status and errors of the guest, and how often the volume was killed while it worked."""
    server = Server(os.getpid(), volume.port, volume.port, "/vol")
    options = f"vers={nfs},{MOUNT_OPTIONS}"
    command = guest_command(server, f"echo {MOUNTED}\n{work.script}", options, GUEST_TIMEOUT_SECONDS, work.added)
    kills = 0
    with ExitStack() as stack:
        errors = stack.enter_context(tempfile.TemporaryFile("w+"))
        guest = stack.enter_context(
            subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors)
        )
        assert guest.stdout is not None
        is_mounted = guest.stdout.readline().decode().strip() == MOUNTED
        while is_mounted and kills < kills_max and not _ends_within(guest, work.seconds_between):
            volume.kill()
            kills += 1
            time.sleep(DOWN_SECONDS)
            volume.start()
        status = guest.wait()
        errors.seek(0)
        return status, errors.read()[-2000:], kills


def _ends_within(guest: subprocess.Popen[bytes], seconds: float) -> bool:
    try:
        guest.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


def _write_archive(path: Path, files: int) -> None:
    content = random.Random(SEED)
    with tarfile.open(path, "w") as archive:
        for number in range(files):
            directory = number // FILES_PER_DIRECTORY
            entry = tarfile.TarInfo(f"{directory // DIRECTORIES_PER_DIRECTORY}/{directory}/{number}")
            entry.size = round(content.expovariate(1 / FILE_BYTES_MEAN))
            entry.mode, entry.mtime = 0o755 if number % 10 == 0 else 0o644, MODIFIED_AT + number
            archive.addfile(entry, io.BytesIO(content.randbytes(entry.size)))


def _tree_differences(store: Path) -> list[str]:
    """Compares every file's data, mode and time with the archive's."""
    tree = store / "tree"
    with tarfile.open(store / "tree.tar") as archive:
        entries = list(archive)
        found = [f"{entry.name}: {fault}" for entry in entries for fault in _entry_faults(archive, entry, tree)]
    more = sum(len(files) for _, _, files in os.walk(tree)) - len(entries)
    return [*found, *([f"{more} files more than in the archive"] if more else [])]


def _entry_faults(archive: tarfile.TarFile, entry: tarfile.TarInfo, tree: Path) -> Iterator[str]:
    file = tree / entry.name
    if not file.is_file():
        yield "missing"
        return
    packed = archive.extractfile(entry)
    assert packed is not None
    if file.read_bytes() != packed.read():
        yield "other data"
    status = file.stat()
    if (status.st_mode & 0o7777, int(status.st_mtime)) != (entry.mode, entry.mtime):
        yield f"mode {status.st_mode & 0o7777:o}, modified at {status.st_mtime}"


def _write_repository(path: Path, commits: int) -> None:
    content = random.Random(SEED)
    subprocess.run(("git", "init", "--quiet", "--bare", "--initial-branch=main", str(path)), check=True)
    stream = b"".join(_commit(number, content) for number in range(commits))
    subprocess.run(("git", "-C", str(path), "fast-import", "--quiet"), input=stream, check=True)


def _commit(number: int, content: random.Random) -> bytes:
    """A commit in git's stream format, with some new files and a changed one."""
    who = f"Someone <someone@example.com> {MODIFIED_AT + number} +0000"
    message = f"Change {number}"
    head = f"commit refs/heads/main\ncommitter {who}\ndata {len(message)}\n{message}\n"
    names = (*(f"{number // COMMITS_PER_DIRECTORY}/{number}-{part}" for part in range(FILES_PER_COMMIT)), "changed")
    return head.encode() + b"".join(_file(name, content) for name in names)


def _file(name: str, content: random.Random) -> bytes:
    data = content.randbytes(content.randrange(1, 2_000)).hex().encode()
    return f"M 644 inline {name}\ndata {len(data)}\n".encode() + data + b"\n"


def _clone_differences(store: Path) -> list[str]:
    """Asks git: every object is whole, every file is the commit's, and the commit is the origin's."""
    clone = store / "clone"
    found = [_git(clone, "fsck", "--full", "--strict"), _git(clone, "status", "--porcelain")]
    heads = {_git(repository, "rev-parse", "HEAD") for repository in (clone, store / "origin.git")}
    return [fault for fault in (*found, " ".join(heads) if len(heads) > 1 else "") if fault]


def _git(repository: Path, *arguments: str) -> str:
    command = ("git", "-C", str(repository), *arguments)
    ended = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return ended.stdout.strip() or (f"git {arguments[0]}: exit {ended.returncode}" if ended.returncode else "")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.kernel_restarts", description=__doc__)
    parser.add_argument(
        "works", nargs="*", choices=("unpack", "clone"), default=["unpack", "clone"], help="default: both"
    )
    parser.add_argument("--versions", nargs="+", choices=("3", "4.1"), default=("3", "4.1"), help="versions of NFS")
    parser.add_argument("--kills", type=int, default=10, help="most kills of the volume in one work")
    parser.add_argument("--files", type=int, default=80_000, help="files of the archive, 15 kB in the mean")
    parser.add_argument("--commits", type=int, default=3_000, help="commits of the repository, 4 new files each")
    parser.add_argument(
        "--directory", type=Path, default=None, help="where the store is made; default: the temporary one"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())

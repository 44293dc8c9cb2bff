"""``--readonly``: no job of the corpora writes to a file, whatever it asks for."""

import json
import os
import shlex
import shutil
import sys
from pathlib import Path

import pytest
from test_fio_equivalence import CASES

from goldens import cases, data
from programs import completed, fio_of

GOLDEN = Path(__file__).parents[1] / "golden/fio"
LINES = [case.options for case in CASES] + [
    path.read_text(encoding="utf-8").strip() for path in sorted(GOLDEN.glob("*.args"))
]
SHORT, LONG = 10_340, 1 << 20
CHILD = data("scripts/run_read_only.txt")
"""Runs the command lines of a file, each with a few operations, and prints the number of plans that ran."""
WRITES = "openat,creat,truncate,ftruncate,fallocate,mkdir,mkdirat,rename,unlink,unlinkat,write,pwrite64,pwritev"


def states(directory: Path) -> dict[str, tuple[int, int, int]]:
    """Number, size and time of the last change of all below a directory: no write leaves the time as it is."""
    found = {str(path.relative_to(directory)): path.lstat() for path in directory.rglob("*")}
    return {name: (state.st_ino, state.st_size, state.st_ctime_ns) for name, state in found.items()}


def run_all(directory: Path, bytes_each: int) -> int:
    """Runs every line in a directory with files of this size; 0 is none. Returns the number of plans that ran."""
    volume = directory / "volume"
    files = shutil.copytree(GOLDEN, directory / "files")
    for number in range(len(LINES)):
        home = shutil.copytree(files, volume / str(number), copy_function=os.link)
        for name in ("a.0.0", "a.1.0", "a.0.1", "there", "x", "y", "fio.0.0") if bytes_each else ():
            (home / name).touch()
            os.truncate(home / name, bytes_each)
    (directory / "lines").write_text(json.dumps(LINES), encoding="utf-8")
    before = states(volume)
    trace = ["strace", "-f", "--seccomp-bpf", "-qq", "-y", "-e", f"trace={WRITES}", "-o", str(directory / "calls")]
    command = [*trace, sys.executable, "-c", CHILD, str(directory / "lines"), str(volume)]
    done = completed(command, timeout=110)
    assert done.returncode == 0, done.stderr
    assert states(volume) == before
    calls = [call for call in (directory / "calls").read_text().splitlines() if f"{volume}/" in call]
    assert calls
    assert [
        call for call in calls if "openat(" not in call or any(how in call for how in ("O_CREAT", "O_WRONLY", "O_RDWR"))
    ] == []
    return int(done.stdout)


@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace to see the calls")
@pytest.mark.parametrize("bytes_each", [0, SHORT, LONG])
def test_no_line_of_the_corpora_writes(bytes_each: int, tmp_path: Path) -> None:
    ran = run_all(tmp_path, bytes_each)
    assert ran > 20 if bytes_each == LONG else ran < 20


@pytest.mark.skipif(shutil.which("fio") is None, reason="needs Debian's fio")
@cases("fio/read_only")
def test_iocurve_reads_and_refuses_what_fio_does(options: str, status: int, tmp_path: Path) -> None:
    words = shlex.split(f"--readonly --name=a --rw=read {options}")
    for tool in ("fio", "iocurve"):
        (tmp_path / "there").write_bytes(bytes(SHORT))
        done = fio_of(tool, words, tmp_path)
        assert bool(done.returncode) == bool(status), (tool, done.stdout, done.stderr)
        assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"there": bytes(SHORT)}

"""Journals of file systems (vdbench's -j and -jr): a later run verifies what a run wrote that may have been killed."""

import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from goldens import data, present
from programs import iocurve, started
from vdbench_runs import anchor, report

__all__ = ["anchor"]

pytestmark = pytest.mark.slow

PARAMETERS = data("vdbench/journals.parm")
MIXED = "mixed,fwd=(fwd1,fwd2,fwd3,fwd4)"
WRITES = "writes,fwd=fwd1"
READS = "reads,fwd=fwd5"
KILLED_AFTER_S = 0.3
"""Hundreds of operations at full rate."""
FIRST, SECOND = "vdb.1_1.dir/vdb_f0000.file", "vdb.1_3.dir/vdb_f0009.file"


def command(directory: Path, option: str, anchor: str, rd: str, format_: str, **values: str | int) -> list[str]:
    """The command line of a run, whose parameter file it writes."""
    wanted = {"anchor": anchor, "rd": rd, "format": format_, "rate": 500, "elapsed": 2, **values}
    (directory / "p").write_text(PARAMETERS.format(**wanted))
    return ["vdbench", option, "-f", "p", "-o", "output"]


def run(
    directory: Path, option: str, anchor: str, rd: str = READS, format_: str = "no"
) -> subprocess.CompletedProcess[str]:
    return iocurve(*command(directory, option, anchor, rd, format_), cwd=directory)


def killed(directory: Path, anchor: str, rd: str, format_: str = "yes") -> None:
    """A run with a journal that is killed in its first interval."""
    line = command(directory, "-j", anchor, rd, format_, rate="max", elapsed=60)
    with started(*line, cwd=directory) as process:
        assert any("Starting RD=" in printed and "format" not in printed for printed in present(process.stdout))
        time.sleep(KILLED_AFTER_S)


@pytest.mark.parametrize("rd", [MIXED, WRITES])
def test_a_run_that_was_killed_is_recovered_without_a_false_error(anchor: str, rd: str, tmp_path: Path) -> None:
    killed(tmp_path, anchor, rd)
    for attempt in range(2):
        ended = run(tmp_path, "-jro", anchor)
        assert ended.returncode == 0, (attempt, ended.stderr)
        assert "read and verified, no differences" in ended.stdout
        assert "Starting RD=reads" not in ended.stdout
    ended = run(tmp_path, "-jr", anchor, MIXED)
    assert ended.returncode == 0, ended.stderr
    assert "Starting RD=mixed" in ended.stdout
    assert run(tmp_path, "-jro", anchor).returncode == 0


def test_a_format_that_was_killed_is_recovered(tmp_path: Path) -> None:
    anchor = str(tmp_path / "tree")
    line = command(tmp_path, "-j", anchor, WRITES, "yes", elapsed=60)
    for number in range(6):
        with started(*line, cwd=tmp_path) as process:
            # The run ends at another place of the format each time, and at last after it.
            while not list(Path(anchor).rglob(f"vdb_f*{2 * number:02}.file")) and process.poll() is None:
                time.sleep(0.001)
        ended = run(tmp_path, "-jro", anchor)
        assert ended.returncode == 0, (number, ended.stderr)


Change = Callable[[bytes, bytes], tuple[bytes, bytes | None]]
CHANGES: dict[str, tuple[Change, list[str]]] = {
    "a block that no run wrote": (
        lambda first, second: (first, second[:4096] + b"x" * 4096 + second[8192:]),
        [f"verification of 4096 bytes at offset 4096 of {{tree}}/{SECOND} failed: it has no header"],
    ),
    "a block of a file whose contents are valid by themselves": (
        lambda first, second: (first, first[:4096] + second[4096:]),
        [f"at offset 0 of {{tree}}/{SECOND} failed: it holds data of offset 0 of {{tree}}/{FIRST}"],
    ),
    "each other's contents": (
        lambda first, second: (second, first),
        [f"misdirected write: 4096 bytes at offset 0 of {{tree}}/{name}: it holds" for name in (FIRST, SECOND)],
    ),
    "a shorter file": (
        lambda first, second: (first, second[:8192]),
        [f"wrong size: {{tree}}/{SECOND}: its size is 8192 bytes instead of 12288"],
    ),
    "no file": (lambda first, _: (first, None), [f"missing: {{tree}}/{SECOND}: it was created, and is not there"]),
}
"""New contents of two files by the old ones, and the errors that name them."""


@pytest.mark.parametrize("changed", CHANGES)
@pytest.mark.parametrize("is_killed", [False, True])
def test_a_change_behind_the_journal_is_named(changed: str, *, is_killed: bool, tmp_path: Path) -> None:
    tree, (change, expected) = tmp_path / "tree", CHANGES[changed]
    if is_killed:
        killed(tmp_path, str(tree), WRITES)
    else:
        assert run(tmp_path, "-j", str(tree), WRITES, "yes").returncode == 0
    paths = (tree / FIRST, tree / SECOND)
    for path, content in zip(paths, change(*(path.read_bytes() for path in paths)), strict=True):
        path.unlink() if content is None else path.write_bytes(content)
    for _ in range(2):
        ended = run(tmp_path, "-jr", str(tree))
        assert ended.returncode != 0
        assert "Starting RD=reads" not in ended.stdout
        errors = ended.stderr + report(tmp_path, "errorlog")
        assert [text for text in expected if text.format(tree=tree) not in errors] == []


def test_a_file_that_was_deleted_and_is_there_again_is_named(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    assert run(tmp_path, "-j", str(tree), WRITES, "yes").returncode == 0
    kept = (tree / FIRST).read_bytes()
    assert run(tmp_path, "-jr", str(tree), "deletes,fwd=fwd3").returncode == 0
    assert run(tmp_path, "-jro", str(tree)).returncode == 0
    (tree / FIRST).write_bytes(kept)
    ended = run(tmp_path, "-jro", str(tree))
    assert ended.returncode != 0
    assert f"unexpected: {tree}/{FIRST}: it is there, and should not be" in report(tmp_path, "errorlog")


def test_a_journal_is_of_one_tree(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    assert "there is no journal to recover" in run(tmp_path, "-jr", str(tree)).stderr
    assert run(tmp_path, "-j", str(tree), WRITES, "yes").returncode == 0
    line = command(tmp_path, "-jr", str(tree), READS, "no")
    (tmp_path / "p").write_text((tmp_path / "p").read_text().replace("files=4", "files=5"))
    ended = iocurve(*line, cwd=tmp_path)
    assert "(journal of a tree): was created for a tree of other directories, files or sizes" in ended.stderr
    (tmp_path / "fsd1.iocurve-tree").write_text("another program's data" * 9)
    ended = run(tmp_path, "-j", str(tree), WRITES, "yes")
    assert "(journal of a tree): is not a journal of a tree; name another file" in ended.stderr
    assert (tmp_path / "fsd1.iocurve-tree").read_text() == "another program's data" * 9

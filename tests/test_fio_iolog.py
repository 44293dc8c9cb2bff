"""fio's traces: what of them is replayed, when, and what is wrong with them."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from goldens import cases, data
from iocurve.dialects.fio.command import prepare, read_command
from iocurve.dialects.fio.invocation import FioCommand
from iocurve.dialects.fio.read.iolog import ReplayOptions, read
from iocurve.engine import plan
from iocurve.foundation.errors import DialectError, PlanError
from iocurve.job.explain import load_text
from programs import status_of

MS = 1_000_000
READ, WRITE, FSYNC, FDATASYNC = 0, 1, 22, 23

VERSION_2 = data("fio/iolog_2.log")
VERSION_3 = data("fio/iolog_3.log")


AS_IT_IS = ReplayOptions()


def records(text: str, tmp_path: Path, options: ReplayOptions = AS_IT_IS) -> list[tuple[int, ...]]:
    """Due time in ms, offset, bytes, file, kind."""
    (tmp_path / "trace").write_text(text)
    packed = Path(read(tmp_path / "trace", options).path).read_bytes()
    return [(row[0] // MS, *row[1:]) for row in struct.iter_unpack("<QQIIIxxxx", packed)]


def test_version_2_waits_until_times_since_the_start(tmp_path: Path) -> None:
    assert records(VERSION_2, tmp_path) == [
        (0, 0, 4096, 0, WRITE),
        (300, 65536, 8192, 1, WRITE),
        (300, 0, 0, 0, FSYNC),
        (300, 0, 0, 1, FDATASYNC),
        (300, 5000, 512, 0, READ),
    ]


def test_version_3_keeps_distances_and_goes_on_where_time_goes_back(tmp_path: Path) -> None:
    """The first has none: the time before it is 0."""
    assert records(VERSION_3, tmp_path) == [
        (0, 0, 4096, 0, READ),
        (20, 9000, 4096, 0, WRITE),
        (20, 4096, 4096, 0, READ),
        (50, 0, 0, 0, FSYNC),
    ]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (ReplayOptions(stalls=False), [(0, 0, 0), (0, 9000, 1), (0, 4096, 0), (0, 0, FSYNC)]),
        (ReplayOptions(time_percent=50), [(0, 0, 0), (40, 9000, 1), (40, 4096, 0), (100, 0, FSYNC)]),
        (ReplayOptions(scale=2, align_bytes=4096), [(0, 0, 0), (20, 4096, 1), (20, 0, 0), (50, 0, FSYNC)]),
        # The time of what is left out is left out, too.
        (ReplayOptions(skipped_actions=frozenset({"write", "sync"})), [(0, 0, 0), (0, 4096, 0)]),
        (ReplayOptions(redirect="other"), [(0, 0, 0), (20, 9000, 1), (20, 4096, 0), (50, 0, FSYNC)]),
    ],
)
def test_a_trace_is_replayed_as_it_is_said(
    options: ReplayOptions, expected: list[tuple[int, ...]], tmp_path: Path
) -> None:
    assert [(row[0], row[1], row[4]) for row in records(VERSION_3, tmp_path, options)] == expected


def test_lines_that_mean_nothing_are_counted(tmp_path: Path) -> None:
    (tmp_path / "trace").write_text(f"{VERSION_2}a jump 0 1\n\nc read 0 1\na read x 1\na read 0\na read 0 0\na what\n")
    trace = read(tmp_path / "trace", ReplayOptions())
    assert (trace.records, trace.skipped_lines, trace.first_skipped_line) == (5, 7, 13)


def test_the_plan_has_the_kinds_sizes_and_files_of_the_trace(tmp_path: Path) -> None:
    worker = prepared(VERSION_2, "--numjobs=2 --size=1m --fsync=4", tmp_path).plan.groups[0].workers[1]
    assert [(file.path, file.bytes, file.layout) for file in worker.files] == [
        (f"{tmp_path}/a", 73728, "create"),
        (f"{tmp_path}/b", 73728, "create"),
    ]
    assert [operation.kind for operation in worker.operations] == ["read", "write", "fsync", "fdatasync"]
    parts = (plan.BlockShare(bytes=4096, weight=1), plan.BlockShare(bytes=8192, weight=1))
    assert worker.operations[1].blocks == plan.BlockSplit(parts=parts)
    assert load_text(worker) == "5 operations of a trace (reads, writes, fsyncs, fdatasyncs), at the recorded times"
    assert worker.replay is not None
    assert (worker.replay.records, worker.replay.paced, worker.end.operations, worker.syncs) == (5, True, 5, ())


def prepared(text: str, options: str, tmp_path: Path) -> FioCommand:
    (tmp_path / "trace").write_text(text)
    return read_command(["--name=r", "--read_iolog=trace", *options.split()], cwd=tmp_path, environment={})


@cases("fio/iolog_errors")
def test_what_cannot_be_replayed_is_told(text: str, options: str, error: str, tmp_path: Path) -> None:
    with pytest.raises(DialectError) as caught:
        prepared(text, options, tmp_path)
    assert error in str(caught.value)


def test_a_replay_is_no_job_file(tmp_path: Path) -> None:
    (tmp_path / "trace").write_text(VERSION_2)
    with pytest.raises(PlanError, match="a replayed trace"):
        prepare(["--name=r", "--read_iolog=trace"], cwd=tmp_path).jobs()


def test_options_of_a_replay_need_one(tmp_path: Path) -> None:
    notes = read_command(["--name=a", "--size=1m", "--replay_scale=2"], cwd=tmp_path, environment={}).notes
    assert "replay_scale has no effect without read_iolog" in [note.text for note in notes]


@pytest.mark.parametrize("options", ["--rw=write --size=12k", "--rw=read --size=16k --nrfiles=2 --numjobs=2"])
def test_a_trace_that_was_written_has_every_operation(
    options: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert status_of("fio", "--name=a", *options.split(), "--write_iolog=x", "--eta=never", "--output=out") == 0
    lines = (tmp_path / "x").read_text().splitlines()
    actions = [line.split(maxsplit=1)[1] for line in lines if not line.startswith("fio")]
    assert sorted(actions) == sorted(
        expected_actions(2 if "numjobs" in options else 1, 2 if "nrfiles" in options else 1)
    )


def expected_actions(numjobs: int, files: int) -> list[str]:
    names = [f"a.{jobnum}.{file}" for jobnum in range(numjobs) for file in range(files)]
    kind, blocks = ("write", 3) if files == 1 else ("read", 2)
    moved = [f"{name} {kind} {4096 * block} 4096" for name in names for block in range(blocks)]
    return moved + [f"{name} {action}" for name in names for action in ("add", "open", "close")]


def test_a_trace_has_no_flushes() -> None:
    with pytest.raises(DialectError, match="write_iolog is not supported yet with fsync"):
        read_command(["--name=a", "--size=1m", "--rw=write", "--fsync=1", "--write_iolog=x"])

"""The same small jobs, run by fio and by iocurve: operations, bytes, addresses and files are the same.

``docs/evidence/equivalence.md`` is the table of the comparisons; ``make compatibility`` rewrites it.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

import pytest

from goldens import cases, data, present, rows
from iocurve.dialects.fio.command import parsed, read_command
from iocurve.engine.derived import unpack
from iocurve.engine.outcome import WorkerOutcome
from iocurve.engine.plan import LogPlan, Plan, SyncKind
from iocurve.measure import local
from programs import FIO, IOCURVE, completed, fio_jobs

pytestmark = pytest.mark.skipif(shutil.which("fio") is None, reason="needs Debian's fio")

TABLE = Path(__file__).parents[2] / "docs/evidence/equivalence.md"
UPDATES = bool(os.environ.get("IOCURVE_UPDATE_GOLDEN"))
ROWS: list[str] = []
HEAD = data("fio/equivalence_head.txt").splitlines()
KINDS = ("read", "write", "trim")
Addresses = Literal["order", "set", "cover", "chance"]


@dataclass(frozen=True)
class Operation:
    kind: str
    offset: int
    bytes: int


@dataclass(frozen=True)
class Done:
    """The observed effects of a job."""

    workers: tuple[tuple[Operation, ...], ...]
    operations: int
    bytes: int
    syncs: int
    """Operations that fio counts: of the flushes only fsync."""
    timed_syncs: int
    """Operations with latencies in fio: every flush after writes."""
    files: dict[str, int]
    """Size by name."""


@dataclass(frozen=True)
class Case:
    """A job, and the degree to which chance determines its addresses."""

    name: str
    options: str
    addresses: Addresses
    """order: the same sequence. set: the same, in another order. cover: the same bytes, in blocks of other
    sizes. chance: the same number, inside the same region, at multiples of the same alignment."""
    unit: int = 4096
    """Alignment and smallest block."""

    @property
    def every(self) -> int:
        """Writes per flush; 0 without a flush, or with several kinds."""
        found = re.findall(r"--(?:fsync|fdatasync|sync_file_range)=(?:write:)?(\d+)", self.options)
        return int(found[0]) if len(found) == 1 else 0

    @property
    def is_mix(self) -> bool:
        """True if the tool decides which operation is a read and which a write."""
        words = set(self.options.split())
        return bool({"--rw=rw", "--rw=randrw"} & words) and "--rwmixread=0" not in words


CASES = [Case(name, f"--name=a {options}", *how) for name, options, *how in rows("fio/equivalence")]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_iocurve_does_what_fio_does(case: Case, tmp_path: Path) -> None:
    ours, theirs = by_iocurve(case, tmp_path / "ours"), by_fio(case, tmp_path / "theirs")
    assert (ours.files, ours.bytes) == (theirs.files, theirs.bytes)
    for done in (ours, theirs):
        if case.every:
            assert done.timed_syncs == sum(flushes_by_rule(worker, case.every) for worker in done.workers)
    if not case.is_mix:
        assert (ours.syncs, ours.timed_syncs) == (theirs.syncs, theirs.timed_syncs)
    if case.addresses != "cover":
        assert ours.operations == theirs.operations
    assert len(ours.workers) == len(theirs.workers)
    for mine, fios in zip(ours.workers, theirs.workers, strict=True):
        assert ADDRESSES[case.addresses](mine, case) == ADDRESSES[case.addresses](fios, case)
    if UPDATES:
        ROWS.append(row(case, ours))
    else:
        assert row(case, ours) in TABLE.read_text(encoding="utf-8").splitlines()


@pytest.mark.skipif(os.geteuid() != 0, reason="a file system of 1 MiB needs root to be mounted")
@cases("fio/filled_devices")
def test_iocurve_fills_a_device_as_fio_does(options: str, files: dict[str, int], tmp_path: Path) -> None:
    filling = Case("until it is full", f"--name=a --rw=write --fill_device=1 --verify_state_save=0 {options}", "order")
    done = []
    for run, directory in ((by_iocurve, tmp_path / "ours"), (by_fio, tmp_path / "theirs")):
        directory.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", directory], check=True)
        try:
            done.append(run(filling, directory))
        finally:
            subprocess.run(["umount", directory], check=True)
    ours, theirs = done
    # fio counts writes that failed for lack of space as operations.
    assert (ours.workers, ours.bytes, ours.files) == (theirs.workers, theirs.bytes, theirs.files)
    assert ours.files == files | {"there": 256 << 10}


BLOCKS = 64
"""The size of a job whose drops of cached pages are counted."""
needs_strace = pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace to see the calls")


@needs_strace
@cases("fio/cached_passes")
def test_cached_pages_are_dropped_at_each_pass_as_in_fio(options: str, drops: int, tmp_path: Path) -> None:
    for tool in TOOLS:
        assert dropped_by(tool, options, tmp_path)[0] == drops


@needs_strace
@cases("fio/timed_passes")
def test_cached_pages_are_dropped_at_each_timed_pass_as_in_fio(options: str, files: int | None, tmp_path: Path) -> None:
    """Each pass drops files, or the start alone does. The machine decides how many passes a tool makes in a time."""
    for tool in TOOLS:
        drops, reads = dropped_by(tool, f"--runtime=550ms --rate_iops=400 {options}", tmp_path)
        assert reads > BLOCKS, "one pass shows nothing"
        # The last pass, or the one that was to follow it, may have begun with some of the files.
        passes = reads // BLOCKS
        least = files * passes + (reads % BLOCKS > 0) if files else 1
        assert least <= drops <= (files * (passes + 1) if files else 1)


TOOLS = (FIO, (*IOCURVE, "fio"))


def dropped_by(tool: tuple[str, ...], options: str, directory: Path) -> tuple[int, int]:
    """Number of times that the pages of a file are dropped, and of reads."""
    words = f"--name=a --size=256k {options}".split()
    if "filename" not in options:
        words.append("--filename=there")
    half = bytes(128 << 10)
    (directory / "there").write_bytes(half if "other" in options else half + half)
    (directory / "other").write_bytes(half)
    trace = ["strace", "-f", "--seccomp-bpf", "-qq", "-y", "-e", "trace=fadvise64,pread64"]
    command = [*trace, "-o", str(directory / "calls"), *tool, *words]
    done = completed(command, cwd=directory, timeout=100)
    assert done.returncode == 0, done.stderr
    calls = [call for call in (directory / "calls").read_text().splitlines() if f"{directory}/" in call]
    return sum("POSIX_FADV_DONTNEED" in call for call in calls), sum("pread64(" in call for call in calls)


@cases("fio/traces")
def test_iocurve_replays_as_fio_does(trace: str, options: str, tmp_path: Path) -> None:
    replayed = Case("a trace", f"--name=a --read_iolog={tmp_path}/trace {options}", "order")
    (tmp_path / "trace").write_text(trace.replace(":", "\n") + "\n")
    assert by_iocurve(replayed, tmp_path / "ours") == by_fio(replayed, tmp_path / "theirs")


def test_the_table_has_every_job() -> None:
    table, heading, rest = TABLE.read_text(encoding="utf-8").partition("\n## ")
    if UPDATES:
        table = "\n".join([*HEAD, *ROWS]) + "\n"
        TABLE.write_text(table + heading + rest, encoding="utf-8")
    assert len(table.splitlines()) == len(HEAD) + len(CASES)


def row(case: Case, done: Done) -> str:
    operations = "by chance" if case.addresses == "cover" else f"{done.operations:,}"
    created = ", ".join(f"{name} ({size:,})" for name, size in sorted(done.files.items()) if name != "there") or "none"
    flushes = f", {done.timed_syncs} flushes" if done.timed_syncs else ""
    if case.is_mix and case.every:
        flushes = ", flushes by the same rule"
    cells = (case.name, f"`{case.options}`", operations + flushes, f"{done.bytes:,}", WORDS[case.addresses], created)
    return f"| {' | '.join(cells)} |"


def flushes_by_rule(operations: Iterable[Operation], every: int) -> int:
    """fio's rule: a flush before each operation while the number of writes is a multiple of ``every``."""
    writes = count = 0
    for operation in operations:
        count += writes > 0 and writes % every == 0
        writes += operation.kind == "write"
    return count


def by_order(operations: Iterable[Operation], _case: Case) -> list[Operation]:
    return list(operations)


def by_set(operations: Iterable[Operation], _case: Case) -> list[tuple[int, int]]:
    """Without the kind: chance decides which operation of a mix goes to an address."""
    return sorted((operation.offset, operation.bytes) for operation in operations)


def by_cover(operations: Iterable[Operation], case: Case) -> list[tuple[str, int]]:
    """Each accessed unit, once for each access."""
    return sorted(
        (operation.kind, place)
        for operation in operations
        for place in range(operation.offset, operation.offset + operation.bytes, case.unit)
    )


def by_chance(operations: Iterable[Operation], case: Case) -> tuple[int, bool]:
    done = list(operations)
    return len(done), all(operation.offset % case.unit == 0 for operation in done)


ADDRESSES = {"order": by_order, "set": by_set, "cover": by_cover, "chance": by_chance}
WORDS = {
    "order": "the same, in the same order",
    "set": "the same, in another order",
    "cover": "the same bytes, in blocks of other sizes",
    "chance": "as many, equally aligned",
}


def prepared_directory(directory: Path) -> Path:
    directory.mkdir(exist_ok=True)
    (directory / "there").write_bytes(bytes(256 << 10))
    return directory


def by_iocurve(case: Case, directory: Path) -> Done:
    prepared = read_command(case.options.split(), cwd=prepared_directory(directory), environment={})
    parsed(prepared).require_runnable()
    outcome = local.run(logged(prepared.plan))
    kinds = [kind for worker in outcome.workers for name, kind in worker.operations.items() if name in KINDS]
    return Done(
        workers=tuple(tuple(operations_of(worker)) for worker in outcome.workers),
        operations=sum(kind.operations for kind in kinds),
        bytes=sum(kind.bytes for kind in kinds),
        syncs=flushes(outcome.workers, ("fsync",)),
        timed_syncs=flushes(outcome.workers, get_args(SyncKind)),
        files=sizes(directory),
    )


def flushes(workers: Iterable[WorkerOutcome], kinds: Iterable[str]) -> int:
    return sum(worker.operations[kind].operations for worker in workers for kind in kinds if kind in worker.operations)


def logged(plan: Plan) -> Plan:
    log = LogPlan(window_ns=None, histograms=False, records=1 << 20)
    logs = [tuple(worker.replace(log=log) for worker in group.workers) for group in plan.groups]
    return plan.replace(groups=tuple(group.replace(workers=w) for group, w in zip(plan.groups, logs, strict=True)))


def operations_of(worker: WorkerOutcome) -> Iterator[Operation]:
    log = present(worker.log)
    assert log.lost == 0
    found = unpack(log)
    yield from (
        Operation(*each) for each in zip(found.kind, found.offset, found.bytes, strict=True) if each[0] in KINDS
    )


def by_fio(case: Case, directory: Path) -> Done:
    prepared_directory(directory)
    logs = directory.with_name("logs")
    logs.mkdir()
    command = [*FIO, *case.options.split(), "--output-format=json", f"--write_lat_log={logs}/l", "--log_offset=1"]
    command += [f"--aux-path={logs}"]
    done = completed(command, cwd=directory, timeout=100)
    assert done.returncode == 0, done.stderr
    jobs = fio_jobs(done.stdout)
    return Done(
        workers=tuple(tuple(fio_log(logs / f"l_lat.{number + 1}.log")) for number in range(len(jobs))),
        operations=sum(job[kind]["total_ios"] for job in jobs for kind in KINDS),
        bytes=sum(job[kind]["io_bytes"] for job in jobs for kind in KINDS),
        syncs=sum(job["sync"]["total_ios"] for job in jobs),
        timed_syncs=sum(job["sync"]["lat_ns"].get("N", 0) for job in jobs),
        files=sizes(directory),
    )


def fio_log(path: Path) -> Iterator[Operation]:
    """Lines of milliseconds, nanoseconds, direction, block size, offset, priority."""
    for line in path.read_text().splitlines():
        _, _, direction, size, offset, *_ = line.split(",")
        yield Operation(KINDS[int(direction)], int(offset), int(size))


def sizes(directory: Path) -> dict[str, int]:
    found = (path for path in directory.rglob("*") if path.is_file() and not path.name.endswith("verify.state"))
    return {str(path.relative_to(directory)): path.stat().st_size for path in found}

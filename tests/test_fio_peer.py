"""fio itself and the plan agree: which files there are afterwards, how large, and how much was transferred."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from goldens import cases
from iocurve.dialects.fio.command import parsed, read_command
from iocurve.dialects.fio.read.draft import Draft
from iocurve.dialects.fio.read.options import BY_NAME
from iocurve.dialects.fio.read.values import Context
from iocurve.engine.derived import block_bytes_min
from iocurve.engine.outcome import WorkerOutcome
from iocurve.engine.plan import Plan, Worker
from iocurve.measure import local
from programs import completed, fio_jobs, fio_of

pytestmark = [pytest.mark.slow, pytest.mark.skipif(shutil.which("fio") is None, reason="needs Debian's fio")]


@cases("fio/peer")
def test_fio_does_what_the_plan_says_and_iocurve_what_fio_does(options: str, tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    for name in ("one", "two"):
        (ours / name).mkdir(parents=True)
        (theirs / name).mkdir(parents=True)
    prepared = read_command(options.split(), cwd=ours, environment={})
    parsed(prepared).needs.make_directories()
    outcome = local.run(prepared.plan)
    done = fio_of("fio", [*options.split(), "--output-format=json"], theirs)
    assert done.returncode == 0, done.stderr
    measured = fio_jobs(done.stdout)
    assert [counted(worker) for worker in outcome.workers] == [counted_by_fio(entry) for entry in measured]
    assert sizes(ours) == sizes(theirs)
    plan = read_command(options.split(), cwd=theirs, environment={}).plan
    transfers = [transferred_by_fio(entry) for entry in measured]
    assert [transferred(worker) for group in plan.groups for worker in group.workers] == transfers
    assert files(plan) == {str(theirs / name): size for name, size in sizes(theirs).items()}


def test_every_option_of_fio_has_an_answer() -> None:
    listed = completed(["fio", "--cmdhelp=all"], timeout=20).stdout
    names = [line.split(":")[0].strip() for line in listed.splitlines() if " : " in line]
    assert len(names) > 150
    assert [name for name in names if name not in BY_NAME] == []


def test_a_wrong_value_is_an_error_wherever_fio_has_a_list_or_a_number() -> None:
    accepted = []
    for name, option in BY_NAME.items():
        try:
            option.effect(Draft(), "wrong?", Context(option=name))
        except ValueError:
            continue
        described = completed(["fio", f"--cmdhelp={name}"], timeout=20)
        if any(word in described.stdout for word in ("valid values:", "type: integer", "type: boolean")):
            accepted.append(name)
    assert accepted == []


def transferred(worker: Worker) -> int:
    """The engine stops at the operation that reaches the limit."""
    block = min(block_bytes_min(operation.blocks) for operation in worker.operations)
    limits = [-(-worker.end.bytes // block) * block] if worker.end.bytes is not None else []
    limits += [worker.end.operations * block] if worker.end.operations is not None else []
    return min(limits)


def counted(worker: WorkerOutcome) -> tuple[int, int]:
    """Operations and bytes, reads and writes together: which come first in a mix is chance."""
    kinds = worker.operations.values()
    return sum(kind.operations for kind in kinds), sum(kind.bytes for kind in kinds)


def counted_by_fio(entry: dict[str, Any]) -> tuple[int, int]:
    return int(entry["read"]["total_ios"] + entry["write"]["total_ios"]), transferred_by_fio(entry)


def sizes(directory: Path) -> dict[str, int]:
    found = (path for path in directory.rglob("*") if path.is_file())
    return {str(path.relative_to(directory)): path.stat().st_size for path in found}


def transferred_by_fio(entry: dict[str, Any]) -> int:
    return int(entry["read"]["io_bytes"] + entry["write"]["io_bytes"])


def files(plan: Plan) -> dict[str, int]:
    ends: dict[str, int] = {}
    for file in (file for group in plan.groups for worker in group.workers for file in worker.files if file.keep):
        ends[file.path] = max(ends.get(file.path, 0), file.offset_bytes + file.bytes)
    return ends

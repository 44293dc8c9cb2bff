"""Traps of fio's language: fio 3.33 and the plan take the same text for the same jobs, groups and amounts."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from goldens import rows
from iocurve.dialects.fio.command import read_command
from iocurve.dialects.fio.invocation import FioCommand
from iocurve.engine.derived import block_bytes_min
from iocurve.engine.plan import Worker
from iocurve.foundation.errors import DialectError, PlanError

pytestmark = [pytest.mark.slow, pytest.mark.skipif(shutil.which("fio") is None, reason="needs Debian's fio")]


@dataclass(frozen=True)
class Case:
    """Job files by name, the arguments and the environment."""

    files: dict[str, str]
    arguments: str
    environment: dict[str, str]


CASES = {name: Case(*case) for name, *case in rows("fio/same_jobs")}


def prepared(case: Case, directory: Path) -> FioCommand:
    for name, text in case.files.items():
        (directory / name).write_text(text, encoding="utf-8")
    return read_command(case.arguments.split(), cwd=directory, environment=case.environment)


def amount(worker: Worker) -> tuple[int, int]:
    """Operations and bytes of a worker whose blocks have one size."""
    block = block_bytes_min(worker.operations[0].blocks)
    ends = [worker.end.bytes // block] if worker.end.bytes else []
    ends += [worker.end.operations] if worker.end.operations else []
    return min(ends), min(ends) * block


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_fio_and_the_plan_have_the_same_jobs(case: Case, tmp_path: Path) -> None:
    result = prepared(case, tmp_path)
    workers = [worker for group in result.plan.groups for worker in group.workers]
    said = []
    for number, group in enumerate(result.report_groups):
        amounts = [amount(worker) for worker in workers if worker.report_group == number]
        name = result.sections[group.section].name
        said.append((name, group.number, sum(count for count, _ in amounts), sum(size for _, size in amounts)))
    assert said == [
        (entry["jobname"], entry["groupid"], total(entry, "total_ios"), total(entry, "io_bytes"))
        for entry in run_fio(case, tmp_path)["jobs"]
    ]


SHOWN = {name: Case(*case) for name, *case in rows("fio/shown")}


@pytest.mark.parametrize("case", SHOWN.values(), ids=SHOWN.keys())
def test_showcmd_shows_what_fio_shows(case: Case, tmp_path: Path) -> None:
    showing = Case(case.files, f"--showcmd {case.arguments}", case.environment)
    lines = prepared(showing, tmp_path).command_lines
    assert "".join(f"{line}\n" for line in lines) == called(showing, tmp_path).stdout


REFUSED = {name: Case(*case) for name, *case in rows("fio/refused_by_both")}


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED.keys())
def test_both_refuse(case: Case, tmp_path: Path) -> None:
    with pytest.raises((DialectError, PlanError)):
        prepared(case, tmp_path)
    assert called(case, tmp_path).returncode != 0


def total(entry: dict[str, Any], figure: str) -> int:
    return int(sum(entry[kind][figure] for kind in ("read", "write", "trim")))


def run_fio(case: Case, directory: Path) -> dict[str, Any]:
    done = called(case, directory, "--output-format=json")
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout[done.stdout.index("{") :])
    return document


def called(case: Case, directory: Path, *more: str) -> subprocess.CompletedProcess[str]:
    command = ["fio", *case.arguments.split(), *more]
    environment = os.environ | case.environment
    return subprocess.run(
        command, cwd=directory, env=environment, capture_output=True, text=True, check=False, timeout=60
    )

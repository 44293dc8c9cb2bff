"""Command lines of fio and DiskSpd (``name.args``, next to their job files) and their plans (``name.json``).

``IOCURVE_UPDATE_GOLDEN=1`` writes what is there now; read the difference before you commit it.
"""

import json
import os
import shlex
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from fio_machine import GOLDEN, GOLDEN_MACHINE
from goldens import compare, plan_document
from iocurve.dialects.diskspd import command as diskspd
from iocurve.dialects.fio.command import read_command
from iocurve.dialects.fio.job import FioCommand
from iocurve.job.explain import explain

COMMANDS = sorted([*GOLDEN.glob("fio/*.args"), *GOLDEN.glob("diskspd/*.args")])


@pytest.fixture(autouse=True)
def _processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 4)


def prepared(command: Path) -> FioCommand | diskspd.ReadProfile:
    words = shlex.split(command.read_text(encoding="utf-8"))
    if command.parent.name == "diskspd":
        return diskspd.read_command(words, cwd=command.parent, machine=GOLDEN_MACHINE)
    return read_command(words, cwd=command.parent, environment={"BLOCK": "64k"}, machine=GOLDEN_MACHINE)


def document(result: FioCommand | diskspd.ReadProfile) -> dict[str, Any]:
    said = {
        "notes": [f"{note.level}: {note.code}" for note in result.notes],
        "obstacles": [obstacle.text for obstacle in result.obstacles],
    }
    if isinstance(result, diskspd.ReadProfile):
        threads = [[[list(row.workers) for row in rows] for rows in span.threads] for span in result.spans]
        return {"plans": [plan_document(span.plan) for span in result.spans], "threads": threads} | said
    sizes = Counter(worker.report_group for group in result.plan.groups for worker in group.workers)
    groups = [[group.section, group.number, sizes[at]] for at, group in enumerate(result.report_groups)]
    said |= {"directories": list(result.directories)}
    return {"plan": plan_document(result.plan)} | said | {"report_groups": groups}


def check(command: Path, ending: str, text: str) -> None:
    compare(command.with_suffix(ending), text.replace(str(command.parent), "/data"))


def ids(command: Path) -> str:
    return f"{command.parent.name}-{command.stem}"


@pytest.mark.parametrize("command", COMMANDS, ids=ids)
def test_a_command_becomes_plans(command: Path) -> None:
    check(command, ".json", json.dumps(document(prepared(command)), indent=1) + "\n")


@pytest.mark.parametrize("command", COMMANDS, ids=ids)
def test_a_command_is_explained(command: Path) -> None:
    made = prepared(command)
    if isinstance(made, diskspd.ReadProfile):
        text = diskspd.explanation(made, GOLDEN_MACHINE)
    else:
        text = explain(made.plan, made.notes, made.obstacles, GOLDEN_MACHINE)
    check(command, ".txt", text)


def test_all_commands_of_the_source_documents_are_here() -> None:
    names = {command.stem for command in COMMANDS}
    assert {f"document-c-{rw}-{bs}" for rw in ("randread", "randwrite") for bs in ("4k", "8k", "64k", "1024k")} <= names
    assert {f"document-e-{name}" for name in ("fiowrite", "fioread", "fioreadwrite")} <= names


def test_plans_repeat_exactly() -> None:
    first, second = (prepared(GOLDEN / "fio/document-e-fioreadwrite.args") for _ in range(2))
    assert (isinstance(first, FioCommand), document(first)) == (True, document(second))

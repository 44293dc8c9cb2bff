"""Pairs: a fio command line (``name.args``, with its job files beside it) and the plan it becomes (``name.json``).

``IOCURVE_UPDATE_GOLDEN=1`` writes what is there now; read the difference before you commit it.
"""

from __future__ import annotations

import json
import os
import shlex
from collections import Counter
from pathlib import Path

import pytest

from fio_machine import HeldMachine
from goldens import compare, plan_document
from iocurve.dialects.fio.command import read_command
from iocurve.dialects.fio.job import FioCommand
from iocurve.job.explain import explain

GOLDEN = Path(__file__).parent / "golden" / "fio"
COMMANDS = sorted(GOLDEN.glob("*.args"))
MACHINE = HeldMachine(
    paths={"/dev/sdx": ("block", 1 << 30), str(GOLDEN / "existing"): ("file", 3 << 20)},
    directories=frozenset({"/mnt/nocache", "/mnt/readcache", str(GOLDEN)}),
)


def prepared(command: Path) -> FioCommand:
    arguments = shlex.split(command.read_text(encoding="utf-8"))
    return read_command(arguments, cwd=GOLDEN, environment={"BLOCK": "64k"}, machine=MACHINE)


def document(result: FioCommand) -> str:
    sizes = Counter(worker.report_group for group in result.plan.groups for worker in group.workers)
    content = {
        "plan": plan_document(result.plan),
        "notes": [f"{note.level}: {note.code}" for note in result.notes],
        "obstacles": [obstacle.text for obstacle in result.obstacles],
        "directories": list(result.directories),
        "report_groups": [[group.section, group.number, sizes[at]] for at, group in enumerate(result.report_groups)],
    }
    return json.dumps(content, indent=1).replace(str(GOLDEN), "/data") + "\n"


@pytest.mark.parametrize("command", COMMANDS, ids=lambda path: path.stem)
def test_command_becomes_plan(command: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    compare(command.with_suffix(".json"), document(prepared(command)))


@pytest.mark.parametrize("command", COMMANDS, ids=lambda path: path.stem)
def test_command_is_explained(command: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    result = prepared(command)
    text = explain(result.plan, result.notes, result.obstacles, MACHINE)
    compare(command.with_suffix(".txt"), text.replace(str(GOLDEN), "/data"))


def test_all_commands_of_the_source_documents_are_here() -> None:
    names = {command.stem for command in COMMANDS}
    assert {f"document-c-{rw}-{bs}" for rw in ("randread", "randwrite") for bs in ("4k", "8k", "64k", "1024k")} <= names
    assert {f"document-e-{name}" for name in ("fiowrite", "fioread", "fioreadwrite")} <= names


def test_plans_repeat_exactly() -> None:
    command = GOLDEN / "document-e-fioreadwrite.args"
    assert prepared(command).plan == prepared(command).plan

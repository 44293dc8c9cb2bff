"""Pairs: a DiskSpd command line (``name.args``) and the plans it becomes (``name.json``), with what is said of it.

``IOCURVE_UPDATE_GOLDEN=1`` writes what is there now; read the difference before you commit it.
"""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from fio_machine import HeldMachine
from goldens import compare, plan_document
from iocurve.dialects.diskspd.command import ReadProfile, explanation, read_command

GOLDEN = Path(__file__).parent / "golden" / "diskspd"
COMMANDS = sorted(GOLDEN.glob("*.args"))
MACHINE = HeldMachine(
    paths={"/dev/sdx": ("block", 1 << 30), str(GOLDEN / "old.dat"): ("file", 4 << 20)},
    directories=frozenset({str(GOLDEN)}),
)


def prepared(command: Path) -> ReadProfile:
    return read_command(shlex.split(command.read_text(encoding="utf-8")), cwd=GOLDEN, machine=MACHINE)


def document(result: ReadProfile) -> str:
    content = {
        "plans": [plan_document(span.plan) for span in result.spans],
        "threads": [[[list(row.workers) for row in rows] for rows in span.threads] for span in result.spans],
        "notes": [f"{note.level}: {note.code}" for note in result.notes],
        "obstacles": [obstacle.text for obstacle in result.obstacles],
    }
    return json.dumps(content, indent=1).replace(str(GOLDEN), "/data") + "\n"


@pytest.mark.parametrize("command", COMMANDS, ids=lambda path: path.stem)
def test_command_becomes_plans(command: Path) -> None:
    compare(command.with_suffix(".json"), document(prepared(command)))


@pytest.mark.parametrize("command", COMMANDS, ids=lambda path: path.stem)
def test_command_is_explained(command: Path) -> None:
    text = explanation(prepared(command), MACHINE)
    compare(command.with_suffix(".txt"), text.replace(str(GOLDEN), "/data"))

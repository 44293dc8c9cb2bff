"""A parameter file (``name.parm``) with its explanation (``name.txt``) and the plans of its runs (``name.json``).

``IOCURVE_UPDATE_GOLDEN=1`` writes what is there now; read the difference before you commit it.
"""

import json
from pathlib import Path

import pytest

from fio_machine import GOLDEN_MACHINE
from goldens import compare, plan_document
from iocurve.dialects.vdbench.command import read_command
from iocurve.dialects.vdbench.explanation import explain
from iocurve.dialects.vdbench.parameter_file import ParameterFile

GOLDEN = Path(__file__).parent / "golden" / "vdbench"
FILES = sorted(GOLDEN.glob("*.parm"))


def prepared(file: Path) -> ParameterFile:
    return read_command(["-f", file.name], cwd=GOLDEN, machine=GOLDEN_MACHINE)


def plans(result: ParameterFile) -> str:
    """A curve's points as if 1,000 operations a second had been reached, the same by every section."""
    made = []
    for run in result.runs:
        sections = len(result.resolve(run).built.placements)
        shares, total = ([1 / sections] * sections, 10.0 * run.curve_percent) if run.curve_percent else (None, None)
        plan = result.resolve(run, shares, total).resolution.plan
        made.append({"loops": run.loops_text, **plan_document(plan)})
    return json.dumps(made, indent=1) + "\n"


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_parameter_file_is_explained(file: Path) -> None:
    # Messages that apply to plans of any dialect are tested with another dialect.
    said = explain(prepared(file)).partition("\nWarnings:")[0].partition("\nNotes:")[0]
    compare(file.with_suffix(".txt"), said.replace(str(GOLDEN), "/golden"))


@pytest.mark.parametrize("file", [file for file in FILES if file.stem != "files"], ids=lambda file: file.stem)
def test_a_parameter_file_becomes_plans(file: Path) -> None:
    compare(file.with_suffix(".json"), plans(prepared(file)))

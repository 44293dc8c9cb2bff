"""The engine refuses no plan that a dialect accepts and ``explain`` shows."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fio_machine import HeldMachine
from goldens import rows
from iocurve import _native
from iocurve.cli import dialects
from iocurve.dialects.base import ParsedCommand
from iocurve.dialects.registry import load
from iocurve.foundation.errors import DialectError, PlanError, RunError

GOLDEN = Path(__file__).parent / "golden"
MACHINE = HeldMachine(
    paths={
        "/dev/sdx": ("block", 1 << 30),
        "/dev/null": ("null", 0),
        "/dev/zero": ("endless", 0),
        "/d/there": ("file", 1 << 20),
        str(GOLDEN / "fio/existing"): ("file", 3 << 20),
        str(GOLDEN / "diskspd/old.dat"): ("file", 4 << 20),
    },
    directories=frozenset({"/d", "/data", "/mnt/nocache", "/mnt/readcache", *map(str, GOLDEN.iterdir())}),
)  # fmt: skip


def corpora() -> Iterator[tuple[str, list[str]]]:
    for name in ("fio", "diskspd"):
        for path in sorted((GOLDEN / name).glob("*.args")):
            yield name, shlex.split(path.read_text(encoding="utf-8"))
    for path in sorted((GOLDEN / "vdbench").glob("*.parm")):
        yield "vdbench", ["-f", path.name]
    for line in (GOLDEN / "mdtest/tasks.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("$"):
            yield "mdtest", line[1:].replace("-np", "--np").split()


def accepted(name: str, words: list[str]) -> ParsedCommand:
    return load(name).prepare(words, cwd=GOLDEN / name, environment={"BLOCK": "64k"}, machine=MACHINE)


@pytest.mark.parametrize(
    ("name", "words"), list(corpora()), ids=lambda value: value if isinstance(value, str) else " ".join(value)[:60]
)
def test_the_engine_refuses_no_line_of_the_corpora(name: str, words: list[str]) -> None:
    plans = list(accepted(name, words).plans())
    assert plans
    for plan in plans:
        _native.check_plan(plan.to_json())


OPTIONS: dict[str, str] = dict(rows("fio/words"))
LINES = st.lists(
    st.sampled_from([(name, value) for name, values in OPTIONS.items() for value in (values.split() or [""])]),
    min_size=1,
    max_size=6,
    unique_by=lambda pair: pair[0],
)


@settings(max_examples=300, deadline=None)
@given(LINES)
def test_the_engine_refuses_no_line_of_fio_that_is_accepted(pairs: list[tuple[str, str]]) -> None:
    words = [f"--{name}={value}" if value else f"--{name}" for name, value in pairs]
    try:
        plans = list(accepted("fio", ["--name=a", *([] if "size" in dict(pairs) else ["--size=1m"]), *words]).plans())
    except (DialectError, PlanError):
        return
    for plan in plans:
        _native.check_plan(plan.to_json())


def test_explain_ends_with_the_refusal_of_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_plan: str) -> None:
        raise RunError("refused")

    monkeypatch.setattr(_native, "check_plan", refuse)
    command = accepted("fio", ["--name=a", "--size=1m", "--directory=/d"])
    with pytest.raises(RunError, match="refused"):
        dialects.print_explanation(command)

"""Whatever is written, the vdbench dialect answers with runs or with its own errors."""

import contextlib
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fio_machine import HeldMachine
from goldens import rows
from iocurve.dialects.vdbench.command import read_command
from iocurve.dialects.vdbench.explanation import explain
from iocurve.dialects.vdbench.read.keywords import TABLE
from iocurve.dialects.vdbench.runner import simulate
from iocurve.foundation.errors import DialectError, PlanError

pytestmark = pytest.mark.slow

MACHINE = HeldMachine(
    paths={"/dev/sdx": ("block", 1 << 30), "/d/old": ("file", 1 << 20)}, directories=frozenset({"/d"})
)
SETTINGS = settings(max_examples=150, deadline=None)
KEYWORDS = sorted({keyword.name for keywords in TABLE.values() for keyword in keywords})
WORDS: dict[str, list[str]] = dict(rows("vdbench/fuzz"))
VALUES = st.one_of(st.sampled_from(WORDS["values"]), st.text(max_size=10), st.integers(-3, 2**70).map(str))
PAIRS = st.tuples(st.one_of(st.sampled_from(KEYWORDS), st.text(max_size=5)), VALUES).map("=".join)
STARTS = st.sampled_from(WORDS["starts"])
LINES = st.one_of(
    st.tuples(STARTS, st.lists(PAIRS, max_size=3)).map(lambda parts: ",".join([parts[0], *parts[1]])),
    PAIRS,
    st.text(max_size=20),
)
GOOD = ["sd=sd1,lun=/d/a,size=1g", "wd=wd1,sd=sd1", "rd=rd1,wd=wd1,iorate=max,elapsed=10,interval=1"]


def attempt(content: bytes, *arguments: str) -> None:
    with tempfile.TemporaryDirectory() as directory:
        (Path(directory) / "p").write_bytes(content)
        with contextlib.suppress(DialectError, PlanError):
            prepared = read_command(["-f", "p", *arguments], cwd=Path(directory), machine=MACHINE)
            assert explain(prepared).endswith("\n")
            assert list(simulate(prepared.runs))


@SETTINGS
@given(st.lists(LINES, max_size=8), st.booleans())
def test_any_parameter_file(lines: list[str], starts_well: bool) -> None:
    attempt("\n".join([*(GOOD if starts_well else []), *lines]).encode(errors="surrogateescape"))


@SETTINGS
@given(st.sampled_from(sorted(TABLE)), PAIRS)
def test_any_parameter_of_each_definition(kind: str, pair: str) -> None:
    lines = {"general": "", "sd": GOOD[0], "wd": GOOD[1], "rd": GOOD[2]}
    good = [f"{pair}" if kind == "general" else "", *GOOD]
    text = [f"{line},{pair}" if line == lines.get(kind) and line else line for line in good]
    attempt("\n".join(text).encode(errors="surrogateescape"))


@SETTINGS
@given(st.binary(max_size=200))
def test_any_bytes(content: bytes) -> None:
    attempt(content)


ARGUMENTS = st.one_of(st.sampled_from(WORDS["arguments"]), st.text(max_size=8))


@SETTINGS
@given(st.lists(ARGUMENTS, max_size=6))
def test_any_command_line(arguments: list[str]) -> None:
    attempt("\n".join(GOOD).encode(), *arguments)

"""Whatever is written, the fio dialect answers with a plan or with its own errors."""

import contextlib
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fio_machine import HeldMachine
from goldens import rows
from iocurve.dialects.fio.command import read_command
from iocurve.dialects.fio.read.effects import ENGINES
from iocurve.dialects.fio.read.options import BY_NAME
from iocurve.dialects.fio.read.parse import COMMANDS
from iocurve.foundation.errors import DialectError, PlanError
from iocurve.job.explain import explain

pytestmark = pytest.mark.slow

MACHINE = HeldMachine(
    paths={"/dev/sdx": ("block", 1 << 30), "/d/old": ("file", 1 << 20)}, directories=frozenset({"/d"})
)
SETTINGS = settings(max_examples=150, deadline=None)

TEXTS: dict[str, list[str]] = dict(rows("fio/fuzz"))
VALUES = st.sampled_from(TEXTS["values"] + [*ENGINES]) | st.text(max_size=12) | st.integers(-3, 2**70).map(str)
COMPOUNDS = st.lists(st.sampled_from(TEXTS["parts"]), min_size=1, max_size=9).map("".join)
"""Texts that look like bssplit=4k/50:8k, zipf:1.2:0.5, iops:0.3%, "ab"0xff, write:4."""
NAMES = st.one_of(st.sampled_from(sorted(BY_NAME)), st.sampled_from(sorted(COMMANDS)), st.text(max_size=8))
PAIRS = st.tuples(NAMES, VALUES).map("=".join)
LINES = st.one_of(PAIRS, NAMES, st.sampled_from(TEXTS["lines"]), st.text(max_size=20))
ARGUMENTS = st.one_of(PAIRS.map("--{}".format), NAMES.map("--{}".format), st.sampled_from(TEXTS["arguments"]), VALUES)


def attempt(arguments: list[str], directory: Path) -> None:
    with contextlib.suppress(DialectError, PlanError):
        result = read_command(arguments, cwd=directory, environment={"HOME": "/d"}, machine=MACHINE)
        assert explain(result.plan, result.notes, result.obstacles, MACHINE).endswith("\n")


@SETTINGS
@given(st.lists(ARGUMENTS, max_size=8))
def test_any_command_line(arguments: list[str]) -> None:
    safe = [argument for argument in arguments if argument != "-"]
    attempt(safe, Path("/d"))


@SETTINGS
@given(st.lists(LINES, max_size=12), st.booleans())
def test_any_job_file(lines: list[str], begins_well: bool) -> None:
    text = "\n".join([*(["[a]", "size=1m", "ioengine=null"] if begins_well else []), *lines])
    with tempfile.TemporaryDirectory() as directory:
        (Path(directory) / "job.fio").write_text(text, encoding="utf-8", errors="surrogateescape")
        attempt(["job.fio"], Path(directory))


@SETTINGS
@given(st.binary(max_size=200))
def test_any_bytes(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as directory:
        (Path(directory) / "job.fio").write_bytes(content)
        attempt(["job.fio"], Path(directory))


@SETTINGS
@given(st.sampled_from(sorted(BY_NAME)), VALUES)
def test_any_value_of_each_option(name: str, value: str) -> None:
    attempt(["--name=a", "--size=1m", "--ioengine=null", f"--{name}={value}"], Path("/d"))


SAID_TOGETHER = st.lists(st.tuples(st.sampled_from(sorted(BY_NAME)), VALUES | COMPOUNDS), min_size=1, max_size=6)


@SETTINGS
@given(st.sampled_from(["read", "randrw", "write", "randtrimwrite"]), SAID_TOGETHER)
def test_any_options_together(direction: str, said: list[tuple[str, str]]) -> None:
    options = [f"--{name}={value}" for name, value in said if name != "name"]
    attempt(["--name=a", "--size=1m", "--ioengine=null", f"--rw={direction}", "--verify=md5", *options], Path("/d"))


@SETTINGS
@given(st.sampled_from(TEXTS["options with parts"]), COMPOUNDS)
def test_any_value_with_parts(name: str, value: str) -> None:
    attempt(["--name=a", "--size=1m", "--ioengine=null", "--rw=randrw", "--ss_dur=4", f"--{name}={value}"], Path("/d"))

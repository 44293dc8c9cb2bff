"""Whatever is written, the vdbench dialect answers with runs or with its own errors."""

import contextlib
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fio_machine import HeldMachine
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
VALUES = st.one_of(
    st.sampled_from(["", "0", "1", "-1", "4k", "100", "1t", "(1,2)", "(1-10,1)", "(1-64,d)", "(0-1,d)", "(9-1,2)"]),
    st.sampled_from(["(4k,50,8k,50)", "(1k,4k,1k)", "(10,20)", "(90,110)", "(1g,2g)", "max", "curve", "eof", "seqnz"]),
    st.sampled_from(["sd*", "(sd1-sd9)", "(sd1-sd99999999)", "*", "default", "h1", "single", "setsof0", "setsof1"]),
    st.sampled_from(
        ["9" * 30, ".", "-", "1.5g", '"a b', "(", "()", "(,)", "$x", "$host", "#host", "p", "(e,variable)"]
    ),
    st.sampled_from(["/d/a", "/dev/sdx", "/dev/none", "nfs://h/e/f", "nfs://[", "nfs://h:99999/x", "\\\\.\\d:", "/d"]),
    st.text(max_size=10),
    st.integers(-3, 2**70).map(str),
)
PAIRS = st.tuples(st.one_of(st.sampled_from(KEYWORDS), st.text(max_size=5)), VALUES).map("=".join)
STARTS = st.one_of(
    st.sampled_from(["hd=h1", "hd=h2,clients=3", "sd=sd1,lun=/d/a,size=1g", "sd=sd2,lun=/dev/sdx", "sd=default"]),
    st.sampled_from(["wd=wd1,sd=sd*", "wd=default", "rd=rd1,wd=wd*,iorate=max,elapsed=10,interval=1", "rd=default"]),
    st.sampled_from(["rd=rd2,sd=*,io=curve", "rg=a", "fsd=f,anchor=/d/x,depth=1,width=1,files=1", "fwd=w,fsd=f"]),
    st.sampled_from(["rd=r,fwd=*,fwdrate=max", "include=p", "concat=yes"]),
)
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


ARGUMENTS = st.one_of(
    st.sampled_from(
        ["-f", "p", "-fp", "-o", "-t", "-tf", "-e", "-i2", "-w", "-m", "-v", "-jr", "-s", "-k", "-co", "-l"]
    ),
    st.sampled_from(["-r", "rd1", "x=1", "--map-host", "h=x", "--map-lun=/d=/e", "--out", "--", "-", "2h", "\0"]),
    st.text(max_size=8),
)


@SETTINGS
@given(st.lists(ARGUMENTS, max_size=6))
def test_any_command_line(arguments: list[str]) -> None:
    attempt("\n".join(GOOD).encode(), *arguments)

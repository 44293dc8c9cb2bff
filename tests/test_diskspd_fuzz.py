"""Whatever is written, the DiskSpd dialect answers with plans or with its own errors."""

from __future__ import annotations

import contextlib
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from fio_machine import HeldMachine
from iocurve.dialects.diskspd.command import prepare
from iocurve.dialects.diskspd.options import OPTIONS
from iocurve.dialects.diskspd.output import explain, profile
from iocurve.errors import DialectError, PlanError

MACHINE = HeldMachine(paths={"/dev/sdx": ("block", 1 << 30), "/d/f": ("file", 1 << 20)}, directories=frozenset({"/d"}))
VALUES = st.one_of(
    st.sampled_from(
        ["", "0", "1", "2", "8", "64K", "4b", "1M:2M", "100i", "-1", "+3", "1e9", "K", "9" * 30, "9" * 5000]
    ),
    st.sampled_from(
        ["s50", "dpct90/10:5/20", "dabs10/64K:5/128K", "dpct", "dabs0/1:", "i64K", "i", "uw", "h", "m", "bmr"]
    ),
    st.sampled_from(
        ["p", "xml", "pxml", "text", "g0,1", "g1,0", "1,2", "g", ",", "PROCESS", "rst", "1M,f", "r", "f", "\0"]
    ),
    st.integers(-5, 2**70).map(str),
    st.text(max_size=10),
)
FLAGS = st.tuples(st.sampled_from("-/"), st.sampled_from(sorted(OPTIONS)), VALUES).map("".join)
WORDS = st.one_of(
    FLAGS,
    st.sampled_from(
        ["f", "/d/f", "/dev/sdx", "#0", "E:", "nfs://h/v/f", "nfs://", "--out=x", "--out", "-", "/", "", "*1"]
    ),
    st.text(max_size=12),
)


@settings(max_examples=400, deadline=None)
@given(st.lists(WORDS, max_size=7), st.sampled_from([[], ["f"], ["-c1M", "g", "h"]]))
def test_no_command_line_breaks_the_dialect(words: list[str], targets: list[str]) -> None:
    with contextlib.suppress(DialectError, PlanError):
        prepared = prepare([*words, *targets], cwd=Path("/d"), machine=MACHINE)
        assert explain(prepared, MACHINE).endswith("\n") or not prepared.spans
        assert profile(prepared.profile).endswith("\n")

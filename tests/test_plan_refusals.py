"""The engine refuses no plan that a dialect accepts and ``explain`` shows."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fio_machine import HeldMachine
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


OPTIONS = {
    "rw": "read write randread randwrite randrw rw randtrim trimwrite randread:4 read:8k",
    "bs": "4k 8k,16k 512",
    "bsrange": "4k-16k 8k-16k 1k-3k",
    "bssplit": "4k/50:16k/50 5k/50:9k/50",
    "blockalign": "4k 512 16k 3k",
    "verify": "crc32c md5 pattern meta",
    "verify_pattern": "0xdeadbeef",
    "verify_interval": "1k 4k 512",
    "verify_offset": "64",
    "verify_backlog": "16",
    "ioengine": "psync libaio io_uring mmap null falloc ftruncate filecreate filestat filedelete dircreate posixaio",
    "iodepth": "1 8 64",
    "iodepth_low": "4",
    "direct": "1",
    "numjobs": "2",
    "nrfiles": "3",
    "norandommap": "1",
    "rate_iops": "100 100,200",
    "rate": "1m",
    "rate_process": "poisson",
    "thinktime": "100",
    "thinktime_blocks": "4",
    "thinktime_iotime": "1ms",
    "fsync": "4",
    "fdatasync": "2",
    "end_fsync": "1",
    "fallocate": "none native",
    "create_on_open": "1",
    "create_only": "1",
    "fill_device": "1",
    "file_append": "1",
    "unlink": "1",
    "overwrite": "1",
    "flow": "8",
    "loops": "3",
    "io_size": "100k 3m",
    "number_ios": "10",
    "runtime": "5",
    "time_based": "1",
    "ramp_time": "1",
    "zonemode": "strided",
    "zonesize": "64k",
    "zoneskip": "64k",
    "random_distribution": "zipf:1.2 pareto:0.2 normal:20 zoned:50/10:50/90",
    "percentage_random": "50",
    "buffer_compress_percentage": "50",
    "dedupe_percentage": "30",
    "write_lat_log": "l",
    "log_avg_msec": "100",
    "latency_target": "1ms",
    "latency_window": "1s",
    "ss": "iops:5%",
    "ss_dur": "4",
    "rw_sequencer": "identical",
    "offset": "64k",
    "offset_increment": "64k",
    "filename": "/d/there /dev/sdx /dev/null /dev/zero x",
    "size": "1m 1000k 50%",
    "filesize": "64k-128k",
    "readonly": "",
}
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

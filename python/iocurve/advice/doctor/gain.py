"""Measures what a setting gains: before and after take turns, and the setting is put back whatever happens."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from iocurve.advice.doctor.checks import Row, Setting
from iocurve.analysis.compare import Difference, compare_turns
from iocurve.errors import TargetError
from iocurve.measure import ab, interrupts
from iocurve.measure import campaign as campaigns
from iocurve.result.document import Result
from iocurve.result.paired import MARGIN
from iocurve.units import SECOND_NS, format_duration

GUARDIAN = """\
import json, sys
settings = json.loads(sys.argv[1])
if b"done" not in sys.stdin.buffer.read():
    for path, value in settings:
        with open(path, "w") as file:
            file.write(value)
"""
"""Puts settings back if this process ends without doing so, for example by SIGKILL."""


REPEATS = 1
"""A run that others disturb is measured again at most this many times."""


@dataclass(frozen=True)
class Load:
    """The load that shows a gain."""

    directory: Path
    """A directory on the mount or device; a data file is made there and removed."""
    size_bytes: int
    runtime_ns: int
    """Measured time of each run; through the page cache a run ends after one pass over the file."""
    runs: int
    """Runs of each setting."""

    def command(self, load: str) -> str:
        """The command line of a load, in fio's words."""
        words = ["fio", "--name=doctor", f"--directory={self.directory}", *(f"--{word}" for word in load.split())]
        words += [f"--size={self.size_bytes}", f"--runtime={self.runtime_ns / SECOND_NS:g}", "--unlink=1"]
        # The page cache has the file after one pass; fio drops it from there before each run (invalidate).
        words += (
            [] if "direct=0" in load.split() else ["--direct=1", "--ioengine=libaio", "--iodepth=32", "--time_based"]
        )
        return shlex.join(words)


@dataclass(frozen=True)
class Gain:
    """The gain of one setting."""

    row: Row
    result: Result
    difference: Difference | None
    """The rate with the wanted setting against that before; None if the measurement did not finish."""

    @property
    def text(self) -> str:
        """``read-ahead 15360 instead of 128: +212 % (95 % interval +180 to +240 %), faster``."""
        setting = self.row.setting
        assert setting is not None, "only settings are measured"
        what = f"{self.row.title} of {self.row.subject}, {setting.wanted} instead of {setting.now}"
        if self.difference is None:
            return f"{what}: not measured: {self.result.incomplete_reason or 'the turns are incomplete'}"
        one = self.difference
        low, high = ("unknown" if bound is None else f"{bound:+.1f}" for bound in (one.low_percent, one.high_percent))
        is_bounded = one.low_percent is not None or one.high_percent is not None
        interval = f"95 % interval {low} to {high} %" if is_bounded else "no interval"
        return f"{what}: {one.change_percent:+.1f} % IOPS ({interval}): {one.verdict_text}"


@contextmanager
def kept(settings: Sequence[tuple[Path, str]]) -> Iterator[None]:
    """Puts settings back at the end of the context, also after signals; a second process does so if this one is killed.

    Raises ``TargetError`` if a setting cannot be put back.
    """
    told = json.dumps([(str(path), value) for path, value in settings])
    guardian = subprocess.Popen(
        [sys.executable, "-I", "-c", GUARDIAN, told], stdin=subprocess.PIPE, start_new_session=True
    )
    try:
        yield
    finally:
        with interrupts.deferred():
            for path, value in settings:
                apply(path, value)
            guardian.communicate(b"done")


def apply(path: Path, value: str) -> None:
    """Writes a setting. Raises ``TargetError``."""
    try:
        path.write_text(value, encoding="ascii")
    except OSError as error:
        raise TargetError(f"{path} cannot be set to {value}: {error.strerror}; --measure needs root") from None


def measure(row: Row, load: Load, directory: Path, root: Path = Path("/"), *, quiet: bool = False) -> Gain:
    """Measures the gain of a row's setting; ``directory`` gets result.json and the report.

    Raises ``TargetError`` if the setting cannot be written, and as ``ab.of_commands``.
    """
    setting = row.setting
    assert setting is not None, "only settings are measured"
    path, values = root / setting.path, (setting.now, setting.wanted)
    command = load.command(setting.load)
    with kept([(path, setting.now)]):
        # A setting that the kernel refuses must fail before anything is laid out.
        apply(path, setting.wanted)
        measured = ab.of_commands(
            [command, command], load.runs, MARGIN, REPEATS, lambda member: apply(path, values[member])
        )
        result = campaigns.into_directory(directory, measured, quiet=quiet)
    differences = compare_turns(result).differences if result.state == "finished" else ()
    return Gain(row, result, next((one for one in differences if one.name == "iops"), None))


def measurable(rows: Sequence[Row]) -> list[Row]:
    """The rows whose gain can be measured while the target is in use: one for each setting."""
    by_path: dict[str, Row] = {}
    for row in rows:
        if isinstance(row.setting, Setting):
            by_path.setdefault(row.setting.path, row)
    return list(by_path.values())


def plan_text(rows: Sequence[Row], load: Load) -> str:
    """The settings that --measure is about to measure, and the time that takes."""
    seconds = format_duration(2 * load.runs * load.runtime_ns * len(rows))
    names = ", ".join(f"{row.title} of {row.subject}" for row in rows)
    return f"measuring {names}: {load.runs} runs of each setting, {seconds} in all"

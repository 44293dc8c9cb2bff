"""Measures what a setting gains: before and after take turns, and the setting is put back whatever happens."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import msgspec

from iocurve.advice.doctor.checks import DoctorRow, TunedSetting
from iocurve.analysis.compare import Difference, compare_turns
from iocurve.foundation.errors import TargetError
from iocurve.foundation.units import MIB, SECOND_NS, format_duration
from iocurve.measure import ab, interrupts
from iocurve.measure import campaign as campaigns
from iocurve.result.document import Result
from iocurve.result.paired import MARGIN

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


class DoctorLoad(msgspec.Struct, frozen=True):
    """The load that shows a gain."""

    directory: Path | None
    """A directory on the mount or device; a data file is made there and removed. None: the export of a URL."""
    size_bytes: int
    runtime_ns: int
    """Measured time of each run; through the page cache a run ends after one pass over the file."""
    runs: int
    """Runs of each setting."""
    block_bytes: int = MIB
    """Block size of the application's sequential reads."""

    def commands(self, row: DoctorRow) -> tuple[str, str]:
        """The command lines with a row's setting as it is and as wanted, in fio's words."""
        setting = setting_of(row)
        before, after = (self._command(self._at(row, url), setting.load) for url in setting.urls or ("", ""))
        return before, after

    def _at(self, row: DoctorRow, url: str) -> list[str]:
        """The place of the data file: the directory, or the same one below an export."""
        if not url:
            return [f"--directory={self.directory}"]
        base, _, query = url.partition("?")
        if self.directory is not None and not row.subject.startswith("nfs://"):
            below = self.directory.resolve().relative_to(row.subject)
            base = base.rstrip("/") + "".join(f"/{quote(part)}" for part in below.parts)
        return ["--ioengine=nfs", f"--nfs_url={base}?{query}"]

    def _command(self, place: Sequence[str], load: str) -> str:
        words = ["fio", "--name=doctor", *place, *(f"--{word}" for word in load.split())]
        if {"rw=read", "direct=0"} <= {*load.split()}:
            words.append(f"--bs={self.block_bytes}")
        words += [f"--size={self.size_bytes}", f"--runtime={self.runtime_ns / SECOND_NS:g}", "--unlink=1"]
        is_own_client = "--ioengine=nfs" in place
        # The page cache has the file after one pass; fio drops it from there before each run (invalidate).
        if is_own_client or "direct=0" not in load.split():
            words.append("--time_based")
        if not is_own_client and "direct=0" not in load.split():
            words += ["--direct=1", "--ioengine=libaio", "--iodepth=32"]
        return shlex.join(words)


class TuningGain(msgspec.Struct, frozen=True):
    """The gain of one setting."""

    row: DoctorRow
    result: Result
    difference: Difference | None
    """The throughput with the wanted setting against that before; None if the measurement did not finish."""

    @property
    def text(self) -> str:
        """``read-ahead 15360 instead of 128: +212 % throughput (95 % interval +180 to +240 %), faster``."""
        what = gain_of(self.row)
        if self.difference is None:
            return f"{what}: not measured: {self.result.incomplete_reason or 'the runs are incomplete'}"
        one = self.difference
        low, high = ("unknown" if bound is None else f"{bound:+.1f}" for bound in (one.low_percent, one.high_percent))
        is_bounded = one.low_percent is not None or one.high_percent is not None
        interval = f"95 % interval {low} to {high} %" if is_bounded else "no interval"
        return f"{what}: {one.change_percent:+.1f} % throughput ({interval}): {one.verdict_text}"


def setting_of(row: DoctorRow) -> TunedSetting:
    """The setting of a row whose gain can be measured."""
    assert row.setting is not None, "only settings are measured"
    return row.setting


def gain_of(row: DoctorRow) -> str:
    """``connections of /mnt/a, 8 instead of 1, by iocurve's own NFS client``."""
    setting = setting_of(row)
    is_mount = not row.subject.startswith("nfs://")
    how = ", by iocurve's own NFS client" + (" (the mount stays as it is)" if is_mount else "") if setting.urls else ""
    return f"{row.title} of {row.subject}, {setting.wanted} instead of {setting.now}{how}"


@contextmanager
def put_back_at_end(settings: Sequence[tuple[Path, str]]) -> Iterator[None]:
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


def measure(
    row: DoctorRow, load: DoctorLoad, directory: Path, root: Path = Path("/"), *, quiet: bool = False
) -> TuningGain:
    """Measures the gain of a row's setting; ``directory`` gets result.json and the report.

    Raises ``TargetError`` if the setting cannot be written, and as ``ab.of_commands``.
    """
    setting = setting_of(row)
    commands = load.commands(row)
    if setting.path is None:
        measured = ab.of_commands(commands, load.runs, MARGIN, REPEATS)
        return _gain(row, campaigns.into_directory(directory, measured, quiet=quiet))
    path, values = root / setting.path, (setting.now, setting.wanted)
    with put_back_at_end([(path, setting.now)]):
        # A setting that the kernel refuses must fail before anything is laid out.
        apply(path, setting.wanted)
        measured = ab.of_commands(commands, load.runs, MARGIN, REPEATS, lambda member: apply(path, values[member]))
        return _gain(row, campaigns.into_directory(directory, measured, quiet=quiet))


class BestSetting(msgspec.Struct, frozen=True):
    """The best of several values of a setting."""

    row: DoctorRow
    gains: tuple[TuningGain, ...]
    """The gain of each value over the present one, in the order of the values."""

    @property
    def value(self) -> str:
        """The smallest value whose gain is within the margin of the largest; the present one where none is faster."""
        setting = setting_of(self.row)
        faster = {
            one.row.setting.wanted: one.difference.change_percent
            for one in self.gains
            if one.row.setting and one.difference and one.difference.verdict == "faster"
        }
        most = max(faster.values(), default=0.0)
        near = (value for value, percent in faster.items() if 100 + percent >= (100 + most) / (1 + MARGIN))
        return next(near, setting.now)

    @property
    def text(self) -> str:
        """A line for each value, then the best one."""
        setting, what = setting_of(self.row), f"{self.row.title} of {self.row.subject}"
        kept = " (as it is)" if self.value == setting.now else f": echo {self.value} > /{setting.path}"
        return "\n".join([*(one.text for one in self.gains), f"the best {what} for this load: {self.value}{kept}"])


def search(
    row: DoctorRow, load: DoctorLoad, directory: Path, root: Path = Path("/"), *, quiet: bool = False
) -> BestSetting:
    """Measures each candidate of a row's setting against the present value, from the smallest; raises as ``measure``.

    A value that did not finish ends the search.
    """
    setting = setting_of(row)
    gains: list[TuningGain] = []
    for value in setting.candidates:
        tried = row.replace(setting=setting.replace(wanted=value))
        gains.append(measure(tried, load, directory / value, root, quiet=quiet))
        if gains[-1].result.state != "finished":
            break
    return BestSetting(row, tuple(gains))


def _gain(row: DoctorRow, result: Result) -> TuningGain:
    differences = compare_turns(result).differences if result.state == "finished" else ()
    return TuningGain(row, result, next((one for one in differences if one.name == "iops"), None))


def measurable(rows: Sequence[DoctorRow]) -> list[DoctorRow]:
    """The rows whose gain can be measured while the target is in use: one for each setting."""
    found: dict[object, DoctorRow] = {}
    for row in rows:
        if row.setting is not None:
            found.setdefault(row.setting.path or (row.check, row.setting.urls), row)
    return list(found.values())


def plan_text(rows: Sequence[DoctorRow], load: DoctorLoad) -> str:
    """The settings that --measure is about to measure, and the time that takes."""
    comparisons = sum(len(row.setting.candidates) or 1 for row in rows if row.setting)
    seconds = format_duration(2 * load.runs * load.runtime_ns * comparisons)
    names = ", ".join(f"{row.title} of {row.subject}" for row in rows)
    return f"measuring {names}: {load.runs} runs of each setting, {seconds} in all"

"""Runs parameter files of vdbench on an engine of the test."""

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import TextIO

import pytest
from msgspec.structs import replace

from bench.servers import Server
from fio_machine import HeldMachine
from iocurve.dialects.base import ParsedCommand
from iocurve.dialects.vdbench.command import parsed, read_command
from iocurve.dialects.vdbench.parameter_file import ParameterFile
from iocurve.dialects.vdbench.runner import Writer
from iocurve.foundation.errors import DialectError
from iocurve.measure.jobs import RunPlan, walk

MACHINE = HeldMachine(paths={"/dev/sdx": ("block", 1 << 30)}, directories=frozenset({"/d"}))


def read_text(directory: Path, text: str, *options: str, machine: HeldMachine = MACHINE) -> ParameterFile:
    """Reads a parameter file on a machine that has the directory ``/d``."""
    (directory / "p").write_text(text, encoding="utf-8")
    return read_command(["-f", str(directory / "p"), *options], cwd=Path("/d"), machine=machine)


def read_here(directory: Path, text: str, *options: str) -> ParameterFile:
    """Reads a parameter file on this machine; runs write their reports to ``output`` in the directory."""
    (directory / "p").write_text(text, encoding="utf-8")
    return read_command(["-f", str(directory / "p"), "-o", str(directory / "output"), *options], cwd=directory)


def refused(directory: Path, text: str, *options: str) -> list[str]:
    """Line, column and text of every error of a parameter file."""
    with pytest.raises(DialectError) as caught:
        read_text(directory, text, *options)
    positions = [(error.where, error.text) for error in caught.value.errors]
    return [f"{where.line}:{where.column} {text}" if where else text for where, text in positions]


def command_of(file: ParameterFile) -> ParsedCommand:
    """The steps of a parameter file."""
    return parsed(file, Writer(file))


def run_file(
    file: ParameterFile,
    run_plan: RunPlan,
    out: TextIO,
    now: Callable[[], datetime] = lambda: datetime.now().astimezone(),
    sleep: Callable[[float], None] = lambda _: None,
) -> None:
    """Runs all runs, and writes what vdbench prints to ``out``, without notes. ``now`` is the clock."""
    command = replace(parsed(file, Writer(file, out, now)), notes=())
    walk(command, run_plan, clock=lambda: now().timestamp(), sleep=sleep)


def report(directory: Path, name: str) -> str:
    """A report of a run in a directory."""
    return (directory / "output" / f"{name}.html").read_text()


def flat_rows(directory: Path) -> list[dict[str, str]]:
    """The rows of the flat file, by the names of its columns."""
    lines = [line.split() for line in report(directory, "flatfile").splitlines() if line[:1] not in ("", "*", "<")]
    names = next(line for line in lines if line[0] == "tod")
    return [dict(zip(names, line, strict=True)) for line in lines if len(line) == len(names) and line != names]


@pytest.fixture(params=["local", "3", "4.1"])
def anchor(request: pytest.FixtureRequest, tmp_path: Path, shared_volume: Server) -> str:
    """The place of a tree: a directory, or one on the embedded volume by a version of NFS."""
    if request.param == "local":
        return str(tmp_path / "tree")
    return shared_volume.url_of(request.param).replace("?", f"/{tmp_path.name}?")

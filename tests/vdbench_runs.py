"""Runs parameter files of vdbench on an engine of the test."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TextIO

from msgspec.structs import replace

from iocurve.dialects.base import ParsedCommand
from iocurve.dialects.vdbench.command import parsed
from iocurve.dialects.vdbench.parameter_file import ParameterFile
from iocurve.dialects.vdbench.runner import Writer
from iocurve.measure.jobs import RunPlan, walk


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

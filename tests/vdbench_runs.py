"""Runs parameter files of vdbench on an engine of the test."""

import io
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

import pytest
from msgspec.structs import replace

from bench.servers import Server
from data import synthetic
from fio_machine import HeldMachine
from iocurve.dialects.base import ParsedCommand
from iocurve.dialects.vdbench.command import parsed, read_command
from iocurve.dialects.vdbench.parameter_file import ParameterFile
from iocurve.dialects.vdbench.runner import Writer
from iocurve.engine.outcome import Live, Outcome, State
from iocurve.engine.plan import Plan
from iocurve.foundation.errors import DialectError
from iocurve.foundation.units import SECOND_NS
from iocurve.measure.jobs import RunPlan, walk

NOON = datetime(2016, 12, 2, 10, 12, 43, 103_000, UTC)
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


class Engine:
    """Returns outcomes as if each worker of a plan had done these operations in each second, or those of a format."""

    def __init__(self, done: Mapping[str, int], formats: Mapping[str, int] | None = None, state: State = "finished"):
        self.done, self.formats, self.state = done, formats or done, state
        self.plans: list[Plan] = []
        self.stopped: list[str] = []

    def carry_out(self, _step: object, plan: Plan, watch: Callable[[Live], bool]) -> Outcome:
        self.plans.append(plan)
        workers, done = plan.groups[0].workers, self.formats if plan.name.startswith("format") else self.done
        seconds = (workers[0].ramp_ns + (workers[0].end.runtime_ns or 2 * SECOND_NS)) // SECOND_NS
        intervals = synthetic.intervals([done] * seconds)
        for index, part in enumerate(intervals, 1):
            if watch(synthetic.live(elapsed_ns=part.end_ns, intervals=index, operations=part.operations)):
                self.stopped.append(plan.name)
                break
        values = {name: synthetic.kind({450_000: count * seconds}, 4096) for name, count in done.items()}
        numbers = range(len(workers))
        made = [synthetic.worker_outcome(values, number=one, intervals=intervals, state=self.state) for one in numbers]
        return Outcome(state=self.state, workers=tuple(made))

    def printed(self, made: ParameterFile) -> str:
        """The output of vdbench for the runs of a file."""
        out = io.StringIO()
        run_file(made, self.carry_out, out, lambda: NOON)
        return out.getvalue()


def report(directory: Path, name: str) -> str:
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

"""The main job: how much a target carries over read and write mixes, and how latency grows with load.

4 KiB random and 64 KiB sequential mixes from pure reads to pure writes, then a depth series of 4 KiB random reads with
one and with several connections. All points use the same files, which are made first and removed at the end.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from iocurve import _native
from iocurve.analysis.limits import volume_description
from iocurve.engine.plan import (
    Access,
    End,
    EnginePlan,
    FileOpen,
    FilePlan,
    FixedBlocks,
    Group,
    Layout,
    NfsEngine,
    OperationKind,
    OperationPlan,
    Payload,
    Plan,
    RandomContent,
    UringEngine,
    Worker,
)
from iocurve.measure import local
from iocurve.report.console import LiveView
from iocurve.result import host
from iocurve.result.document import RESULT_NAME, Axis, Result, TargetFacts, make_writable
from iocurve.targets import opened_target as place
from iocurve.targets.target import DiskTarget, LocalTarget, NfsTarget
from iocurve.units import GIB, KIB, MIB, MILLISECOND_NS, SECOND_NS

NULL_CEILING_S = 0.2
READ_PERCENTS = (100, 75, 50, 25, 0)
NCONNECT_COMPARED = 8
"""Connections beside one, where the target names no other number."""


@dataclass(frozen=True)
class Effort:
    """How long and how large; the shape of the envelope is the same."""

    ramp_ns: int
    runtime_ns: int
    interval_ns: int
    bytes: int
    """All files together."""
    depths: tuple[int, ...]

    def sized(self, size: int | None) -> Effort:
        """The same with another data set."""
        return self if size is None else replace(self, bytes=size)

    @property
    def point_s(self) -> float:
        """Expected length of a point."""
        return (self.ramp_ns + self.runtime_ns) / SECOND_NS


FULL = Effort(500 * MILLISECOND_NS, 2500 * MILLISECOND_NS, 500 * MILLISECOND_NS, GIB, (1, 4, 16, 64, 256))
QUICK = Effort(100 * MILLISECOND_NS, 500 * MILLISECOND_NS, 100 * MILLISECOND_NS, 256 * MIB, (1, 8, 64))


@dataclass(frozen=True)
class Step:
    """One point before it is measured."""

    family: str
    name: str
    axes: dict[str, Axis]
    random: bool
    block_bytes: int
    read_percent: int
    depth: int
    """In flight, all workers together."""
    workers: int
    nconnect: int | None
    """Connections of all workers together; None for local files."""


def measure(envelope: Envelope, facts: TargetFacts, directory: Path, view: LiveView) -> Result:
    """Measures an envelope, keeps ``result.json`` in ``directory`` after every point, and writes the report.

    Raises ``TargetError`` or ``RunError`` when nothing could be measured.
    """
    envelope.check()
    make_writable(directory)
    ceiling = _native.null_ceiling(NULL_CEILING_S)
    result = Result.start("envelope", f"Envelope of {_name(facts)}", host.collect(), facts, ceiling)
    result = envelope.run(result, view, lambda so_far: so_far.write(directory / RESULT_NAME))
    # The charts' library takes half a second to load, which nobody should wait for before the run.
    from iocurve.report import page as report

    report.write_all(result, directory)
    return result


def _name(facts: TargetFacts) -> str:
    """What people call the target."""
    if facts.kind != "embedded_volume":
        return facts.address
    described = volume_description(facts) or "no limits"
    return f"the embedded volume ({described})"


@dataclass
class Envelope:
    """The envelope of one target: what to measure, decided before anything runs."""

    target: NfsTarget | LocalTarget | DiskTarget
    effort: Effort = FULL
    timeout_ns: int | None = None
    """How long a server may be silent before the run gives up; what its URL says, or a minute, if not given."""
    overwrite: bool = False
    """Allow writes to a file or device that is already there."""
    read_only: bool = False
    """Leave writes out."""
    _tag: str = field(default_factory=lambda: secrets.token_hex(4))

    def steps(self) -> list[Step]:
        """All points, in the order in which they are measured."""
        return [*self._mixes("random", 4 * KIB, 32), *self._mixes("sequential", 64 * KIB, 8), *self._depths()]

    def run(self, result: Result, view: LiveView, keep: Callable[[Result], None]) -> Result:
        """Measures all points; ``keep`` is given the result after each one, so that a late failure loses little.

        A point that fails or is interrupted ends the run; what was measured until then is in the result.
        """
        steps = self.steps()
        try:
            for index, step in enumerate(steps):
                plan = self.plan(step, first=index == 0)
                view.point_started(index, len(steps), step.name, self.effort.point_s, self.effort.interval_ns)
                result = self._measure(result, step, plan, view)
                keep(result)
                state = result.points[-1].outcome.state
                if state != "finished":
                    return result.ended(state, self._reason(result, index, len(steps)))
            return result.ended("finished")
        finally:
            self._clean_up(steps[0], result)

    def _measure(self, result: Result, step: Step, plan: Plan, view: LiveView) -> Result:
        point = local.measure(plan, view.update).point(step.family, step.axes, step.name)
        view.point_finished(point.summary())
        return result.with_point(point)

    def check(self) -> None:
        """Nothing is written to what was there before unless the user said so. Raises ``TargetError``."""
        place.check_overwrites(self.target, overwrite=self.overwrite, writes=not self.read_only)

    def _reason(self, result: Result, index: int, count: int) -> str:
        errors = [worker.error for worker in result.points[-1].outcome.workers if worker.error]
        why = errors[0] if errors else "interrupted"
        return f"point {index + 1} of {count} ({result.points[-1].name}) was cut short: {why}"

    def _mixes(self, order: str, block_bytes: int, depth: int) -> Iterator[Step]:
        workers = self._workers()
        nconnect = self.target.nconnect * workers if isinstance(self.target, NfsTarget) else None
        for read_percent in (100,) if self.read_only else READ_PERCENTS:
            axes: dict[str, Axis] = {"order": order, "block_bytes": block_bytes, "read_percent": read_percent}
            axes |= {"depth": depth * workers} | ({} if nconnect is None else {"nconnect": nconnect})
            yield Step(
                family=f"{order}-{block_bytes // KIB}k-mix",
                name=f"{block_bytes // KIB} KiB {order} {read_percent}:{100 - read_percent}",
                axes=axes,
                random=order == "random",
                block_bytes=block_bytes,
                read_percent=read_percent,
                depth=depth * workers,
                workers=workers,
                nconnect=nconnect,
            )

    def _depths(self) -> Iterator[Step]:
        """One worker, so that it is one client over one mount."""
        for nconnect in self._connections():
            for depth in self.effort.depths:
                axes: dict[str, Axis] = {"order": "random", "block_bytes": 4 * KIB, "read_percent": 100, "depth": depth}
                axes |= {} if nconnect is None else {"nconnect": nconnect}
                yield Step(
                    family="depth",
                    name=f"depth {depth}" + (f" nconnect {nconnect}" if nconnect else ""),
                    axes=axes,
                    random=True,
                    block_bytes=4 * KIB,
                    read_percent=100,
                    depth=depth,
                    workers=1,
                    nconnect=nconnect,
                )

    def _connections(self) -> tuple[int | None, ...]:
        if not isinstance(self.target, NfsTarget):
            return (None,)
        return (1, self.target.nconnect if self.target.nconnect > 1 else NCONNECT_COMPARED)

    def _workers(self) -> int:
        return min(len(os.sched_getaffinity(0)), 4)

    def _worker_bytes(self) -> int:
        """Region of one worker, a multiple of the largest block."""
        total = self.effort.bytes
        if isinstance(self.target, LocalTarget) and self.target.bytes:
            total = min(total, self.target.bytes)
        return total // self._workers() // (64 * KIB) * (64 * KIB)

    def plan(self, step: Step, *, first: bool) -> Plan:
        """What runs for a point; the first one makes the files."""
        cpus = sorted(os.sched_getaffinity(0))
        workers = [self._worker(step, number, cpus[number % len(cpus)], first) for number in range(step.workers)]
        return Plan(name=step.name, interval_ns=self.effort.interval_ns, groups=(Group(workers=tuple(workers)),))

    def _worker(self, step: Step, number: int, cpu: int, first: bool) -> Worker:
        kinds: tuple[tuple[OperationKind, int], ...] = (("read", step.read_percent), ("write", 100 - step.read_percent))
        return Worker(
            job="envelope",
            clone=number,
            report_group=0,
            engine=self._engine(step),
            disk=self.target.plan if isinstance(self.target, DiskTarget) else None,
            files=self._files(step, number, first),
            file_select="round_robin",
            operations=tuple(
                OperationPlan(
                    kind=kind,
                    share=share,
                    blocks=FixedBlocks(bytes=step.block_bytes),
                    random_percent=100 if step.random else 0,
                    rate=None,
                )
                for kind, share in kinds
                if share
            ),
            access=Access(cover="once", passes="fresh"),
            depth=step.depth // step.workers,
            start_delay_ns=0,
            ramp_ns=self.effort.ramp_ns,
            end=End(runtime_ns=self.effort.runtime_ns, bytes=None, operations=None),
            seed=secrets.randbits(64),
            payload=Payload(content=RandomContent(), renew="scramble"),
            cpus=(cpu,) if isinstance(self.target, NfsTarget) else (),
        )

    def _engine(self, step: Step) -> EnginePlan:
        if isinstance(self.target, NfsTarget):
            assert step.nconnect is not None
            return NfsEngine(mount=self.target.mount(max(step.nconnect // step.workers, 1), self.timeout_ns))
        is_real = not isinstance(self.target, DiskTarget)
        return UringEngine(open=FileOpen(direct=is_real, durability="none", invalidate=is_real))

    def _files(self, step: Step, number: int, first: bool) -> tuple[FilePlan, ...]:
        """Each of several workers has its own region; a single worker has them all."""
        numbers = [number] if step.workers == self._workers() else list(range(self._workers()))
        return tuple(self._file(index, first) for index in numbers)

    def _file(self, number: int, first: bool) -> FilePlan:
        layout: Layout = "new" if first and self._creates() else "existing"
        size = self._worker_bytes()
        if isinstance(self.target, LocalTarget) and self.target.kind != "directory":
            offset = number * size
            return FilePlan(path=str(self.target.path), offset_bytes=offset, bytes=size, layout=layout, keep=True)
        name = f"iocurve-envelope-{self._tag}.{number}"
        path = name if isinstance(self.target, NfsTarget) else str(self.target.path / name)
        return FilePlan(path=path, offset_bytes=0, bytes=size, layout=layout, keep=True)

    def _creates(self) -> bool:
        return not (isinstance(self.target, LocalTarget) and self.target.bytes)

    def _clean_up(self, first: Step, result: Result) -> None:
        """Removes what was made. A file that the user named is ours only once the first point has made it."""
        named = isinstance(self.target, LocalTarget) and self.target.kind == "file"
        if self._creates() and (result.points or not named):
            _native.remove_files(self.plan(first, first=True).to_json())

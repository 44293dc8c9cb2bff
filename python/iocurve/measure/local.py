"""Runs a plan on this machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from iocurve.engine.outcome import Live, Outcome
from iocurve.engine.plan import NfsEngine, Plan, Worker
from iocurve.machine.mounts import DeviceMeter
from iocurve.machine.processes import NFS_PORT, Servers, is_local, servers_of
from iocurve.measure.machines import THIS_MACHINE, Machines, RunningPlan
from iocurve.result import host
from iocurve.result.document import LayoutFacts, MachineUse, Point

POLL_S = 0.1
"""Time between two polls of a run: short enough for a smooth view, long enough to cost no measurable CPU time."""

ABANDONED_S = 0.3
"""Time that a run has to end after it was stopped twice."""

Enough = Callable[[Live], bool]
"""Called with the state of a run at every poll; True ends the load, as the end of its time would."""


def run_to_the_end(_live: Live) -> bool:
    """Never ends a run: it ends as its plan says."""
    return False


def run(plan: Plan, enough: Enough = run_to_the_end, poll_s: float = POLL_S) -> Outcome:
    """Runs a plan to its end, or until ``enough`` returns True.

    Ctrl-C stops the run cleanly: the outcome has everything measured so far, marked interrupted. After a second Ctrl-C
    the run has ``ABANDONED_S`` left to end. Raises ``TargetError`` or ``RunError`` if nothing could be measured.
    """
    return finished(THIS_MACHINE.start(plan, plan.name), enough, poll_s)


def finished(running: RunningPlan, enough: Enough = run_to_the_end, poll_s: float = POLL_S) -> Outcome:
    """Waits for the end of a run, as ``run`` does."""
    outcome = None
    interrupted = satisfied = False
    while outcome is None:
        try:
            outcome = running.wait(poll_s)
            if enough(running.live()) and outcome is None and not satisfied:
                satisfied = True
                running.finish()
        except KeyboardInterrupt:
            running.stop()
            if interrupted and (outcome := outcome or running.wait(ABANDONED_S)) is None:
                raise
            interrupted = True
        except BaseException:
            running.stop()
            raise
    if interrupted and outcome.state == "finished":
        # Ctrl-C came after the last operation: nothing is missing here, but nothing more is wanted.
        return outcome.replace(state="interrupted")
    return outcome


def measure(
    plan: Plan,
    enough: Enough = run_to_the_end,
    poll_s: float = POLL_S,
    machines: Machines = THIS_MACHINE,
    by_phase: bool = False,
) -> tuple[Point, Sequence[MachineUse | None]]:
    """As ``run``, as a point of no series, with the layout and the CPU use of the machine.

    With ``by_phase`` also the CPU use in each phase; empty where only that of the whole run is known.
    """
    observer = Observer(plan, enough, by_phase=by_phase)
    running = machines.start(plan, plan.name)
    outcome = finished(running, observer.update, poll_s)
    point = Point(name=plan.name, family="", axes={}, plan=plan, outcome=outcome)
    facts = running.facts()
    if facts is None:
        return point.replace(layout=observer.layout, machine=observer.machine()), observer.phases()
    clients, layout, machine = facts
    return point.replace(clients=clients, layout=layout, machine=machine), ()


class Observer:
    """Records the layout and the CPU use of the machine from the live view of a run."""

    def __init__(self, plan: Plan, enough: Enough, *, by_phase: bool = False) -> None:
        """With ``by_phase`` each group of the plan has a use, and ``machine`` is that of the last."""
        self._enough = enough
        self._by_phase, self._group = by_phase, 0
        self._ended: list[MachineUse | None] = []
        """The use in the phases that have ended."""
        self._ramp_ends = [max(map(_ramp_end, group.workers), default=0) for group in plan.groups]
        self._window_end = _cooled_down(plan)
        self._files = _local_files(plan)
        endpoints = _endpoints(plan, self._files)
        self._servers = servers_of(endpoints)
        self._ports = [port or NFS_PORT for address, port in endpoints if is_local(address)]
        self._meter = self._new_meter()
        self._use: MachineUse | None = None
        self.layout: LayoutFacts | None = None

    def machine(self) -> MachineUse | None:
        """CPU use during the measured window: until now, or until the cool-down began."""
        return self._use or self._meter.use()

    def phases(self) -> tuple[MachineUse | None, ...]:
        """CPU use of each phase until now; empty if they are not told apart."""
        return (*self._ended, self.machine()) if self._by_phase else ()

    def update(self, live: Live) -> bool:
        """Called at every poll; returns what ``enough`` does."""
        if self._by_phase and live.group > self._group:
            self._ended += [self.machine(), *[None] * (live.group - self._group - 1)]
            self._group, self._meter, self._use = live.group, self._new_meter(), None
        if live.phase == "layout" and live.layout_bytes:
            self.layout = LayoutFacts(bytes=live.layout_bytes, elapsed_ns=live.elapsed_ns)
        # The phase changes when an interval is over, so it is "ramp" in the first interval after the ramp, too.
        ramps = live.phase == "ramp" and live.elapsed_ns < self._ramp_ends[live.group]
        if live.phase in ("layout", "prepare", "ready") or ramps:
            # Only the CPU use in the measured window counts.
            self._meter, self._use = self._new_meter(), None
        else:
            self._meter.poll()
            if (live.group, live.elapsed_ns) == self._window_end and self._use is None:
                self._use = self._meter.use()
        return self._enough(live)

    def _new_meter(self) -> _Meter:
        return _Meter(self._files, self._servers, self._ports)


class _Meter:
    """The use of this machine, with what the devices beneath the files move and how volumes are starved."""

    def __init__(self, files: Sequence[str], servers: Servers, ports: Sequence[int]) -> None:
        self._machine = host.MachineMeter(servers=servers)
        self._devices = DeviceMeter(files)
        self._starved_share = _starved_share_since(ports)

    def poll(self) -> None:
        self._machine.poll()

    def use(self) -> MachineUse | None:
        use, moved = self._machine.use(), self._devices.moved()
        if use is not None:
            use = use.replace(volume_starved_share=self._starved_share())
        if use is None or moved is None:
            return use
        devices, read_bytes, write_bytes = moved
        return use.replace(block_devices=devices, block_read_bytes=read_bytes, block_write_bytes=write_bytes)


def _starved_share_since(ports: Sequence[int]) -> Callable[[], float | None]:
    if not ports:
        return lambda: None
    # A load on local files needs nothing of volumes.
    from iocurve.targets.opened_target import starved_share_since

    return starved_share_since(ports)


def _local_files(plan: Plan) -> list[str]:
    """Paths of the files and devices of this machine that a plan uses."""
    workers = [worker for group in plan.groups for worker in group.workers if hasattr(worker.engine, "open")]
    return sorted({file.path for worker in workers for file in worker.files})


def _endpoints(plan: Plan, files: Sequence[str]) -> set[tuple[str, int | None]]:
    """Host and port of each NFS server of a plan: of exports, and of mounts that hold files."""
    workers = [worker for group in plan.groups for worker in group.workers]
    mounts = [worker.engine.mount for worker in workers if isinstance(worker.engine, NfsEngine)]
    found = {(mount.host, mount.port) for mount in mounts}
    for mounted in filter(None, (host.mount_of(directory) for directory in {Path(file).parent for file in files})):
        options = dict(option.partition("=")[::2] for option in mounted.options.split(","))
        if mounted.file_system.startswith("nfs") and "addr" in options:
            found.add((options["addr"], int(options.get("port") or 0) or None))
    return found


def _cooled_down(plan: Plan) -> tuple[int, int] | None:
    """Index of the last group, and the end of its measured window; None without a cool-down."""
    last = len(plan.groups) - 1
    workers = plan.groups[last].workers
    if not any(worker.cooldown_ns for worker in workers):
        return None
    return last, max(_ramp_end(worker) + (worker.end.runtime_ns or 0) for worker in workers)


def _ramp_end(worker: Worker) -> int:
    return worker.start_delay_ns + worker.ramp_ns

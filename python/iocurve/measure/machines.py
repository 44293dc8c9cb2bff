"""The machines that run plans: this machine, or the agents of a cluster.

The measuring code does not know which: it starts a plan, polls it, and gets one outcome.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from iocurve._native import Run
from iocurve.engine.outcome import Live, Outcome, Stall
from iocurve.engine.plan import Plan
from iocurve.foundation.units import format_duration
from iocurve.result.document import ClientOutcome, ClusterFacts, LayoutFacts, MachineUse, Point

if TYPE_CHECKING:
    from iocurve.targets.places import Place


ClientFacts = tuple[tuple[ClientOutcome, ...], LayoutFacts | None, MachineUse | None]
"""The agents of a run that has ended, the layout of all together, and the CPU use of the busiest."""


class RunningPlan(Protocol):
    """A plan that runs."""

    def wait(self, seconds: float) -> Outcome | None:
        """Waits up to ``seconds`` for the outcome; raises ``TargetError`` or ``RunError`` if nothing was measured."""

    def live(self) -> Live:
        """The progress so far."""

    def stop(self) -> None:
        """Requests a clean stop; the outcome keeps everything measured so far."""

    def finish(self) -> None:
        """Ends the load as if its time were over: operations in flight are waited for, and the outcome is finished."""

    def facts(self) -> ClientFacts | None:
        """The agents, once the run has ended; None where this machine is the only one."""


class Machines(Protocol):
    """Machines that run plans together."""

    @property
    def count(self) -> int:
        """Number of agents."""

    @property
    def are_here(self) -> bool:
        """True if all clients run on this machine."""

    def cluster_facts(self) -> ClusterFacts | None:
        """The cluster, measured while no load runs; None without one."""

    def start(self, plan: Plan, name: str) -> RunningPlan:
        """Starts a plan; the workers' ``client`` says where each runs. Raises ``RunError``."""

    def directory(self, client: int, path: Path) -> Place:
        """A directory of the machine of an agent."""


class ThisProcess:
    """One agent: this process."""

    count = 1
    are_here = True

    def cluster_facts(self) -> None:
        """There is no cluster."""

    def start(self, plan: Plan, name: str) -> RunningPlan:
        """Starts a plan. Raises ``RunError``."""
        del name
        return _Here(plan)

    def directory(self, client: int, path: Path) -> Place:
        """A directory of this machine."""
        # Loaded here: a job that keeps all its files has no use for it.
        from iocurve.targets.places import LocalPlace

        del client
        return LocalPlace(path)


class _Here:
    def __init__(self, plan: Plan) -> None:
        self._run = Run(plan.to_json())

    def wait(self, seconds: float) -> Outcome | None:
        outcome = self._run.wait(seconds)
        return None if outcome is None else Outcome.from_json(outcome)

    def live(self) -> Live:
        return Live.from_json(self._run.live())

    def stop(self) -> None:
        self._run.stop()

    def finish(self) -> None:
        self._run.finish()

    def facts(self) -> None:
        return None


THIS_MACHINE = ThisProcess()
CONTEXT_MACHINES: ContextVar[Machines] = ContextVar("machines", default=THIS_MACHINE)
"""The machines that generate the loads of a program's context."""


ERROR_SHARE = 0.1
"""A clock error or a late start above this fraction of an interval is reported."""
MUCH = "more than a tenth of an interval; do not compare its intervals with those of other clients"


_STALLED = {
    "layout": "while files were laid out",
    "prepare": "before the load began",
    "load": "under the load",
    "cleanup": "while files were removed",
}
"""Names of the phases of a run in which a stall can lie."""


def stall_text(stall: Stall) -> str:
    """The server that was waited for, and for how long."""
    waited = format_duration(stall.duration_ns)
    reason = "" if stall.reason == "it does not answer" else f" ({stall.reason})"
    return f"NFS server {stall.server} did not answer for {waited} {_STALLED[stall.phase]}{reason}"


def client_notes(point: Point) -> Iterator[tuple[str, str]]:
    """Code and text of each remark."""
    most_ns = ERROR_SHARE * point.plan.interval_ns
    for client in point.clients:
        if client.clock and client.clock.error_ns > most_ns:
            yield "clock_error", f"agent {client.name}: its clock is known only to within {MUCH}"
        if client.clock and abs(client.clock.drift_ns or 0) > most_ns + client.clock.error_ns:
            yield "clock_drift", f"agent {client.name}: its clock moved by {MUCH} during a point"
        if client.local_file_error:
            why = client.local_file_error
            yield ("local_file", f"agent {client.name}: its local file lacks records ({why}); all have arrived here")
        for stall in client.stalls:
            yield "server_stalled", f"agent {client.name}: {stall_text(stall)}"
        if client.late_ns > most_ns:
            yield "late_start", f"agent {client.name}: it started late, by {MUCH}"

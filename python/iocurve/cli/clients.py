"""The options that name the machines which generate the load."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from cyclopts import Parameter

from iocurve.cli.quantities import AtLeast1
from iocurve.measure.machines import THIS_MACHINE, Machines


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ClusterOptions:
    """Load clients on a cluster."""

    clients: AtLeast1 | None = None
    """Generate the load on this many machines of a Ray cluster, all at the same instant; files, workers and queue depth
    are for each client. Default: this machine alone; with --on every node of the cluster."""
    on: str | None = None
    """The cluster: auto for the one that this machine belongs to, or HOST:PORT of its head. Default with --clients:
    auto."""

    @contextmanager
    def machines(self) -> Iterator[Machines]:
        """The machines while the context lasts. Raises ``RunError`` and ``PlanError``."""
        if self.clients is None and self.on is None:
            yield THIS_MACHINE
            return
        from iocurve.cluster import session

        with session.opened(self.on, self.clients) as group:
            yield group


CLUSTER = ClusterOptions()

"""Contexts of measurements for programs: agents of a cluster, served metrics; and errors in a program's words."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from functools import wraps
from inspect import signature
from typing import ParamSpec, TypeVar

from iocurve.foundation.errors import Diagnostic, DialectError, options_written_as
from iocurve.measure.machines import THIS_MACHINE, Machines
from iocurve.report.views import observed_by

P = ParamSpec("P")
T = TypeVar("T")
_FORMS = {"short": "form='short'", "full": "form='full'"}
"""Options of commands that are values of an argument."""
_MACHINES: ContextVar[Machines] = ContextVar("machines", default=THIS_MACHINE)


def machines() -> Machines:
    """The machines that generate the loads of this context."""
    return _MACHINES.get()


@contextmanager
def load_clients(on: str = "auto", clients: int | None = None) -> Iterator[int]:
    """Runs jobs, scenarios and searches that start in the block on the agents of a Ray cluster.

    Gives the number of clients. ``on`` is HOST:PORT of the cluster's head, or ``auto`` for the cluster of this machine;
    ``clients`` is None for one on every node. Files, workers and queue depth are for each client; all start at the same
    instant. Raises ``RunError`` where the cluster cannot be reached or has too few nodes, ``PlanError`` where versions
    differ.
    """
    if clients is not None and clients < 1:
        raise DialectError([Diagnostic(f"clients={clients}: choose at least 1")])
    # Only a cluster needs Ray.
    from iocurve.cluster import session

    with ExitStack() as stack:
        with options_written_as(_argument):
            group = stack.enter_context(session.opened(on, clients))
        token = _MACHINES.set(group)
        try:
            yield group.count
        finally:
            _MACHINES.reset(token)


@contextmanager
def metrics(port: int = 0, host: str = "127.0.0.1") -> Iterator[str]:
    """Serves OpenMetrics of all measurements that start in the block; gives the URL. Port 0 is any free one.

    Raises ``TargetError`` if the port cannot be listened on.
    """
    # The library of metrics takes a while to load.
    from iocurve.report.metrics import RunMetrics
    from iocurve.result.openmetrics import metrics_server

    seen = RunMetrics()
    with ExitStack() as stack:
        with options_written_as(_argument):
            url = stack.enter_context(metrics_server(seen, host, port))
        stack.enter_context(observed_by(seen))
        yield url


def in_arguments(function: Callable[P, T]) -> Callable[P, T]:
    """The function, whose errors name arguments where those of commands name options: ``iodepth_max=``."""

    @wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> T:
        with options_written_as(option_of):
            return function(*args, **kwargs)

    def option_of(field: str) -> str | None:
        name = _argument(field).partition("=")[0]
        return _argument(field) if name in names or takes_more else None

    parameters = signature(function).parameters
    names, takes_more = set(parameters), any(one.kind == one.VAR_KEYWORD for one in parameters.values())
    return called


def _argument(field: str) -> str:
    return _FORMS.get(field, f"{field}=")

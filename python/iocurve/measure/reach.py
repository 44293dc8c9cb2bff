"""Targets that load clients on other machines cannot reach."""

from __future__ import annotations

from iocurve.errors import TargetError
from iocurve.measure.machines import Machines
from iocurve.targets.target import Target, VolumeTarget


def require_reachable(target: Target, machines: Machines) -> None:
    """Raises ``TargetError`` for an embedded volume, which only this machine reaches, with clients elsewhere."""
    if isinstance(target, VolumeTarget) and not machines.are_here:
        raise TargetError(
            "the embedded volume listens on this machine only, and the load clients are elsewhere; name an NFS URL "
            "or a directory that is mounted on each of them"
        )

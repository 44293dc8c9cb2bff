"""The connections that mounts of one server share, and mounts that lost their nconnect.

Linux gives all mounts of a server (address, port, version) the connections of the first: nfs_get_client,
fs/nfs/client.c. With NFSv4.1 two addresses of one server share as well (session trunking, RFC 5661 2.10.5). The
scenarios 1 to 3 are those of Microsoft's page on nconnect for Azure Files.
"""

from __future__ import annotations

from collections.abc import Sequence

from iocurve.advice.doctor.checks import Findings, State
from iocurve.advice.doctor.mounts import NfsMount
from iocurve.advice.doctor.nfs import AZURE_FILES
from iocurve.units import counted


def check(mount: NfsMount, every: Sequence[NfsMount], asked: dict[str, dict[str, str]], found: Findings) -> None:
    """Adds the row of one mount; ``asked`` has the options in /etc/fstab by mount point."""
    sharing = [other for other in every if other is not mount and shares(mount, other)]
    wanted = int(asked.get(mount.point, {}).get("nconnect", 1) or 1) if mount.point in asked else None
    have = len(mount.transports) or mount.nconnect
    has_lost = (wanted is not None and wanted != have) or (bool(mount.transports) and mount.nconnect != have)
    state: State = "red" if has_lost and have < max(wanted or 1, mount.nconnect) else "yellow" if has_lost else "green"
    scenario, is_guaranteed = _scenario(mount, every)
    if not is_guaranteed and state == "green":
        state = "yellow"
    parts = [f"has {counted(have, 'connection')}"]
    parts += [f"/etc/fstab asks for {wanted}"] if wanted is not None and wanted != have else []
    parts += [f"its options state {mount.nconnect}"] if mount.transports and mount.nconnect != have else []
    parts += (
        [f"shares with {', '.join(other.point for other in sharing)}"] if sharing else ["shares with no other mount"]
    )
    trunked = [other.point for other in sharing if other.address != mount.address]
    parts += [f"{', '.join(trunked)} is mounted by another address of this server"] if trunked else []
    parts += [scenario] if scenario else []
    found.add(
        "nfs.nconnect_shared",
        state,
        "; ".join(parts),
        subject=mount.point,
        fix=None if state == "green" else _fix(mount, sharing, max(wanted or 1, mount.nconnect), is_guaranteed),
        undo=f"mount all of them again, first one with nconnect={have}",
    )


def shares(one: NfsMount, other: NfsMount) -> bool:
    """True if two mounts use the same connections.

    A connection has the same source port and counters in all mounts that use it. Where the kernel states no port
    (NFSv4.1), and the counters moved on between two mounts, address, port and version decide.
    """
    ours, theirs = ({transport.source_port for transport in mount.transports} - {0} for mount in (one, other))
    if ours and theirs:
        return bool(ours & theirs)
    busy, busy_there = (
        {transport.counters for transport in mount.transports if transport.sends} for mount in (one, other)
    )
    same_client = (one.address, one.port, one.version) == (other.address, other.port, other.version)
    return bool(busy & busy_there) or same_client


def _scenario(mount: NfsMount, every: Sequence[NfsMount]) -> tuple[str, bool]:
    """The scenario of Microsoft's page, for shares of Azure Files; False if nothing is guaranteed there."""
    shares_there = [other for other in every if other.server.endswith(AZURE_FILES)]
    if mount not in shares_there or len(shares_there) < 2:
        return "", True
    if not all(other.is_private for other in shares_there):
        return "scenario 2: a public endpoint, where separate settings may not last", False
    accounts = {other.server for other in shares_there}
    if len(accounts) == 1:
        return "scenario 3: several shares of one storage account over its private endpoint, which share", True
    if len({other.address for other in shares_there}) == len(accounts):
        return "scenario 1: each storage account has its private endpoint, and its own setting", True
    return "several storage accounts behind one private address share their connections", False


def _fix(mount: NfsMount, sharing: Sequence[NfsMount], wanted: int, is_guaranteed: bool) -> str:
    points = " ".join([mount.point, *(other.point for other in sharing)])
    text = f"umount {points}; mount all of them again with nconnect={wanted}, in /etc/fstab as well: the first decides"
    return text if is_guaranteed else f"{text}; or use a private endpoint for each storage account"

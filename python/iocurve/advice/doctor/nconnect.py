"""The checks of connections: their number, those that mounts of one server share, and mounts that lost their nconnect.

Linux gives all mounts of a server (address, port, version) the connections of the first: nfs_get_client,
fs/nfs/client.c. With NFSv4.1 two addresses of one server share as well (session trunking, RFC 5661 2.10.5). The
scenarios 1 to 3 are those of Microsoft's page on nconnect for Azure Files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from iocurve.advice.doctor.checks import Finding, Judgement, State, TunedSetting
from iocurve.advice.doctor.host import HostFiles
from iocurve.advice.doctor.mounts import ClientMount
from iocurve.advice.doctor.nfs import AZURE_FILES, Service, remount, url
from iocurve.foundation.units import counted

NCONNECT_SINCE = (5, 3)
CONNECTIONS_LOAD = "rw=randread bs=64k iodepth=64"
"""The load that shows what further connections carry."""


def check(
    mount: ClientMount,
    every: Sequence[ClientMount],
    asked: Mapping[str, Mapping[str, str]],
    host: HostFiles,
    service: Service,
) -> Iterator[Finding]:
    """The checks of one mount's connections; ``asked`` has the options in /etc/fstab by mount point."""
    sharing = [other for other in every if other is not mount and shares(mount, other)]
    yield "nfs.nconnect", mount.point, _connections(mount, sharing, host, service)
    yield "nfs.nconnect_shared", mount.point, _shared(mount, sharing, every, asked.get(mount.point))


def _connections(mount: ClientMount, sharing: Sequence[ClientMount], host: HostFiles, service: Service) -> Judgement:
    count, wanted = len(mount.transports) or mount.nconnect, service.nconnect
    state: State = "yellow"
    if wanted is None:
        state = "green" if count > 1 else "yellow"
    elif count in (1, wanted):
        state = "green" if count == wanted else "red"
    text = counted(count, "connection")
    if mount.open_connections is not None and mount.transports:
        # Linux opens connections as calls need them (xprt_connect), and closes idle ones after 5 min (XS_IDLE_DISC_TO).
        idle = (
            " (idle mounts close theirs after 5 min)"
            if mount.open_connections == 0
            else " (the others open under load)"
        )
        text += f", {mount.open_connections} open{idle if mount.open_connections < count else ''}"
    text += f"; {wanted} advised for {service.name}" if wanted and service.name else ""
    if host.kernel != (0, 0) and host.kernel < NCONNECT_SINCE:
        text += f"; kernel {host.kernel[0]}.{host.kernel[1]} has no nconnect, which came with 5.3"
        return Judgement("yellow", text, fix="a kernel of 5.3 or later, then nconnect")
    fix = remount(mount, f"nconnect={wanted or 8}", *sharing)
    urls = (url(mount, nconnect=count), url(mount, nconnect=wanted or 8))
    setting = TunedSetting(now=str(count), wanted=str(wanted or 8), load=CONNECTIONS_LOAD, urls=urls)
    return Judgement(state, text, fix=fix, undo=f"mount again with nconnect={count}", setting=setting)


def _shared(
    mount: ClientMount, sharing: Sequence[ClientMount], every: Sequence[ClientMount], asked: Mapping[str, str] | None
) -> Judgement:
    wanted = int(asked.get("nconnect", 1) or 1) if asked is not None else None
    have = len(mount.transports) or mount.nconnect
    most = max(wanted or 1, mount.nconnect)
    has_lost = (wanted is not None and wanted != have) or (bool(mount.transports) and mount.nconnect != have)
    scenario, is_guaranteed = _scenario(mount, every)
    parts = [f"has {counted(have, 'connection')}"]
    parts += [f"/etc/fstab asks for {wanted}"] if wanted is not None and wanted != have else []
    parts += [f"its options state {mount.nconnect}"] if mount.transports and mount.nconnect != have else []
    parts += (
        [f"shares with {', '.join(other.point for other in sharing)}"] if sharing else ["shares with no other mount"]
    )
    trunked = [other.point for other in sharing if other.address != mount.address]
    parts += [f"{', '.join(trunked)} is mounted by another address of this server"] if trunked else []
    parts += [scenario] if scenario else []
    private = "" if is_guaranteed else "; or use a private endpoint for each storage account"
    return Judgement(
        "red" if has_lost and have < most else "yellow" if has_lost or not is_guaranteed else "green",
        "; ".join(parts),
        fix=f"{remount(mount, f'nconnect={most}', *sharing)}: the first decides{private}",
        undo=f"mount all of them again, first one with nconnect={have}",
    )


def shares(one: ClientMount, other: ClientMount) -> bool:
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


def _scenario(mount: ClientMount, every: Sequence[ClientMount]) -> tuple[str, bool]:
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

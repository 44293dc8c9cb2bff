"""The known limits of a mount or device next to what was observed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from iocurve.advice.doctor import machine, nfs
from iocurve.advice.doctor.host import HostFiles
from iocurve.advice.observation import LimitNear, Observation, ObservedInterval
from iocurve.advice.observe.counters import Subject
from iocurve.foundation.units import MB, counted, format_latency
from iocurve.result.caps import Cap
from iocurve.targets.disk import vms

REACHED = 0.95
"""Share of a limit from which the load counts as limited by it; published results lie 1 to 2 % around their caps."""
WAIT_SHARE = 0.5
DEPTH_MIN = 2
"""Fewer operations in flight do not wait for one another."""
SESSIONS = "max_session_slots=180, as far as the server gives them: iocurve doctor has the command"
QUEUE = "a larger nr_requests, as far as the device takes it"

Rate = Callable[[Observation | ObservedInterval], float]


KnownLimit = tuple[str, float, str, Rate, str, str]
"""Name, value, unit, the rate that it limits, source, and the change that raises it."""


def near(
    observed: Observation, subject: Subject, host: HostFiles, caps: Sequence[Cap], profile: str, vm: str | None
) -> Observation:
    """Adds the known limits to an observation, those of which most is used first."""
    known = [*_of_caps(caps, profile, observed.connections or 1), *_of_vm(vm, subject), *_of_client(subject, host)]
    found = [
        LimitNear(
            name=name,
            value=value,
            unit=unit,
            observed=rate(observed),
            peak=max(map(rate, observed.intervals), default=rate(observed)),
            source=source,
            next_step=next_step,
        )
        for name, value, unit, rate, source, next_step in known
        if value > 0
    ]
    return observed.replace(limits=tuple(sorted(found, key=lambda one: -one.share)))


def verdict(observed: Observation) -> list[str]:
    """The limits that the load runs into, and where its latency is spent."""
    lines: list[str] = []
    if not observed.read.operations + observed.write.operations:
        return lines
    reached = [one for one in observed.limits if one.share >= REACHED]
    for one in reached:
        how = "runs into" if one.observed / one.value >= REACHED else "reaches at times"
        lines.append(f"{how} the limit on {one.name}: {_amounts(one)} ({one.source})")
    if observed.limits and not reached:
        one = observed.limits[0]
        lines.append(f"no known limit is reached; the nearest is {one.name}: {_amounts(one)} ({one.source})")
    if not observed.limits:
        lines.append("no limit is known: give --profile and --quota, or --vm")
    waits = [(kind, part) for kind, part in (("reads", observed.read), ("writes", observed.write)) if part.operations]
    for kind, part in waits:
        waited = part.client_wait_us_total
        if waited is not None and part.latency_us_total and waited / part.latency_us_total > WAIT_SHARE:
            share = waited / part.latency_us_total
            lines.append(
                f"{share:.0%} of the latency of {kind} is spent waiting in the client, for a slot or a connection: "
                "more connections (nconnect) help, a faster server does not"
            )
    return lines


def for_twice_the_rate(observed: Observation) -> str:
    """The change for twice the rate: that of the limit that is reached, or else more operations in flight."""
    reached = [one for one in observed.limits if one.observed / one.value >= REACHED]
    if reached:
        return f"for twice the rate: {reached[0].next_step}"
    if not observed.read.operations + observed.write.operations:
        return ""
    latency_ns = 1e9 * observed.depth / observed.iops
    return (
        f"for twice the rate at this mean latency of {format_latency(latency_ns)} the application must keep "
        f"{2 * observed.depth:,.3g} in flight instead of {observed.depth:,.3g} (Little's law)"
    )


def for_half_the_latency(observed: Observation) -> str:
    """The change for half the latency: of the waits that the counters tell; empty where they tell none."""
    total = observed.read.latency_us_total + observed.write.latency_us_total
    waited = (observed.read.client_wait_us_total or 0.0) + (observed.write.client_wait_us_total or 0.0)
    if total and waited / total >= WAIT_SHARE:
        return (
            f"for half the latency: no wait in the client, which is {waited / total:.0%} of it; more connections help"
        )
    if any(one.observed / one.value >= REACHED for one in observed.limits) and observed.depth >= DEPTH_MIN:
        return (
            f"for half the latency at the same rate: {observed.depth / 2:,.3g} in flight instead of "
            f"{observed.depth:,.3g}; the others wait for the limit (Little's law)"
        )
    return ""


def _amounts(one: LimitNear) -> str:
    observed, value, peak = (
        f"{each:,.0f}" if each >= 1_000 else f"{each:.4g}" for each in (one.observed, one.value, one.peak)
    )
    return f"{observed} of {value} {one.unit}, {peak} at most ({one.share:.0%})"


def _mib_per_s(one: Observation | ObservedInterval) -> float:
    return one.read.mib_per_s + one.write.mib_per_s


def _iops(one: Observation | ObservedInterval) -> float:
    return one.read.iops + one.write.iops


def _depth(one: Observation | ObservedInterval) -> float:
    return one.read.depth + one.write.depth


def _server_depth(one: Observation | ObservedInterval) -> float:
    """Requests between client and server: by Little's law from the time without the wait in the client."""
    return sum(part.server_us_total or 0.0 for part in (one.read, one.write)) / 1e6 / one.read.seconds


_RATES: dict[tuple[str, str], Rate] = {
    ("bytes_per_s", "any"): _mib_per_s,
    ("bytes_per_s", "read"): lambda one: one.read.mib_per_s,
    ("bytes_per_s", "write"): lambda one: one.write.mib_per_s,
    ("iops", "any"): _iops,
    ("iops", "read"): lambda one: one.read.iops,
    ("iops", "write"): lambda one: one.write.iops,
    ("requests", "any"): _server_depth,
}
_STEPS = {
    "volume": "twice the limit of the volume: iocurve size has the quota for it",
    "connection": "twice as many connections: iocurve doctor shows those of the mount",
    "client": "a second client, or a machine with twice the limit",
}
_UNITS = {"bytes_per_s": "MiB/s", "iops": "IOPS", "requests": "in flight"}


def _of_caps(caps: Sequence[Cap], profile: str, connections: int) -> Iterator[KnownLimit]:
    """The limits of the volume, and those of a connection times the connections."""
    for cap in caps:
        times = connections if cap.scope == "connection" else 1
        name = f"{cap.text}, {counted(connections, 'connection')}" if cap.scope == "connection" else cap.text
        value = cap.value * times / ((1 << 20) if cap.quantity == "bytes_per_s" else 1)
        rate = _RATES[cap.quantity, cap.kind]
        yield name, value, _UNITS[cap.quantity], rate, f"profile {profile}", _STEPS[cap.scope]


def _of_vm(vm: str | None, subject: Subject) -> Iterator[KnownLimit]:
    found = machine.find_vm(vm) if vm else None
    if found is None:
        return
    name, size = found
    family = vms()[name][0]
    source = f"{name}: {family.sources[size.source]}"
    network = machine.network_bytes_per_s(name)
    if subject.mount is not None:
        if network:
            rate = _RATES["bytes_per_s", "write"]
            yield "data sent by the machine", network / (1 << 20), "MiB/s", rate, source, _STEPS["client"]
        return
    if size.uncached is None:
        return
    yield "IOPS of the machine's disks", size.uncached.iops, "IOPS", _iops, source, _STEPS["client"]
    mib_per_s = size.uncached.mb_per_s * MB / (1 << 20)
    yield "throughput of the machine's disks", mib_per_s, "MiB/s", _mib_per_s, source, _STEPS["client"]


def _of_client(subject: Subject, host: HostFiles) -> Iterator[KnownLimit]:
    """The limits of the client's own queues and slots."""
    mount, device = subject.mount, subject.device
    if mount is not None:
        connections = len(mount.transports) or mount.nconnect
        if mount.version.startswith("4"):
            slots = host.number("sys/module/nfs/parameters/max_session_slots") or nfs.SESSION_SLOTS_DEFAULT
            yield "session slots", slots, "in flight", _server_depth, "max_session_slots", SESSIONS
        else:
            slots = host.number("proc/sys/sunrpc/tcp_max_slot_table_entries") or 0
            name = f"slots of {counted(connections, 'connection')}"
            source = "tcp_max_slot_table_entries"
            yield name, slots * connections, "in flight", _server_depth, source, _STEPS["connection"]
    if device is not None:
        requests = host.number(f"{device.disk}/queue/nr_requests") or 0
        yield "requests of the device's queue", requests, "in flight", _depth, "nr_requests", QUEUE

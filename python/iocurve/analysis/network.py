"""Reads what the kernel says of a load's TCP connections: losses, and who held the sender back.

The kernel tells of what this machine sends, which are the writes of an NFS load. A sender that waits for the receiver's
window is no proof of a small window: a server that limits a load stops reading, which closes the window as well.
"""

from __future__ import annotations

from collections.abc import Iterator

from iocurve.analysis.measured_load import MeasuredLoad
from iocurve.engine.outcome import ConnectionOutcome
from iocurve.units import format_latency

LOSSY = 0.005
"""Connections that send more than this fraction of their segments again are congested."""
HELD_BACK = 0.1
"""A smaller share of the time in which a sender was held back is left out."""


def is_lossy(load: MeasuredLoad) -> bool:
    """True if the connections lose enough segments for congestion control to hold them back."""
    return _lost_share(load) >= LOSSY


def network_evidence(load: MeasuredLoad) -> Iterator[str]:
    """Round-trip time, losses, and the time in which the sender was held back."""
    connections = _connections(load)
    if not connections:
        return
    rtt = format_latency(max(one.rtt_ns for one in connections))
    retransmits = sum(one.retransmits for one in connections)
    yield f"TCP: round trip {rtt}, {retransmits:,} segments sent again ({_lost_share(load):.2%})"
    busy_ns = sum(one.busy_ns for one in connections)
    for name, held_ns in (
        ("the receiver's window", sum(one.receive_window_limited_ns for one in connections)),
        ("the send buffer", sum(one.send_buffer_limited_ns for one in connections)),
    ):
        if busy_ns and held_ns >= HELD_BACK * busy_ns:
            share = f"{held_ns / busy_ns:.0%}"
            yield f"TCP: {name} held the sender back for {share} of the time in which it had data to send"


def _lost_share(load: MeasuredLoad) -> float:
    """Retransmitted segments to those that the written bytes need; requests of reads are one segment each."""
    connections = _connections(load)
    written = load.kind("write")
    segment_bytes = max((one.segment_bytes for one in connections), default=0)
    if not segment_bytes:
        return 0.0
    sent = load.summary.operations + (written.bytes / segment_bytes if written else 0.0)
    return sum(one.retransmits for one in connections) / sent if sent else 0.0


def _connections(load: MeasuredLoad) -> list[ConnectionOutcome]:
    return [one for worker in load.workers for one in worker.outcome.connections]

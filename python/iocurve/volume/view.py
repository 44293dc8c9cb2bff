"""What a volume does, as tables: rates between two looks at its counters."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table

from iocurve.units import SECOND_NS, format_bytes, format_count, format_duration
from iocurve.volume.limits import Limits

Stats = dict[str, Any]
_PARTS = (("exports", "path"), ("clients", "address"), ("connections", "id"))


def rates(before: Stats, after: Stats) -> Stats:
    """``after`` with what each part did a second since ``before``. A part that was not there before began with 0."""
    seconds = max(after["uptime_ns"] - before["uptime_ns"], 1) / SECOND_NS
    result = after | {"interval_s": seconds, **_rate({**before}, after, seconds)}
    for group, name in _PARTS:
        old = {part[name]: part for part in before[group]}
        result[group] = [part | _rate(old.get(part[name], {}), part, seconds) for part in after[group]]
    return result


def tables(stats: Stats) -> RenderableType:
    """Exports, clients and connections as tables."""
    levels = _table("export", "profile", "used", "quota", "limit", "burst credits")
    exports = _table("export", *_RATES)
    buckets = _table("bucket of", "limit", "level", "capacity", "a second")
    peers = {part["id"]: part["peer"] for part in stats["connections"]}
    for part in stats["exports"]:
        limit = Limits.model_validate(part["limits"]).throughput or "none"
        sizes = (format_bytes(part["used_bytes"]), format_bytes(part["quota_bytes"]), limit)
        credits = "none" if part["burst_credits"] is None else f"{part['burst_credits']:,}"
        levels.add_row(part["path"], part["profile"], *sizes, credits)
        exports.add_row(part["path"], *_cells(part))
        for bucket in part["buckets"]:
            of = part["path"] if bucket["connection"] is None else peers.get(bucket["connection"], "gone")
            of = bucket["client"] or of
            amounts = (bucket["level"], bucket["capacity"], bucket["rate_per_s"])
            buckets.add_row(of, bucket["limit"], *(f"{amount:,}" for amount in amounts))
    clients = _table("client", *_RATES, "open")
    for part in stats["clients"]:
        clients.add_row(part["address"] or "other", *_cells(part), str(part["connections"]))
    connections = _table("connection", *_RATES, "waiting")
    for part in stats["connections"]:
        connections.add_row(part["peer"], *_cells(part), str(part["in_flight"]))
    return Group(levels, exports, *([buckets] if buckets.rows else []), clients, connections)


def show(look: Callable[[], Stats], pause: Callable[[], None], *, once: bool, as_json: bool) -> None:
    """Prints rates over each pause until interrupted, or once."""
    before = look()
    if once or as_json:
        while True:
            pause()
            after = look()
            found = rates(before, after)
            if as_json:
                print(json.dumps(found), flush=True)
            else:
                Console().print(tables(found))
            if once:
                return
            before = after
    with Live(auto_refresh=False) as live:
        while True:
            pause()
            after = look()
            live.update(tables(rates(before, after)), refresh=True)
            before = after


_RATES = ("read IOPS", "write IOPS", "read MiB/s", "write MiB/s", "mean wait")


def _rate(before: Stats, after: Stats, seconds: float) -> Stats:
    def per_s(name: str) -> float:
        return float(after[name] - before.get(name, 0)) / seconds

    throttled = after["throttled_operations"] - before.get("throttled_operations", 0)
    waited_ns = after["throttled_ns"] - before.get("throttled_ns", 0)
    return {
        "read_iops": per_s("reads"),
        "write_iops": per_s("writes"),
        "read_bytes_per_s": per_s("read_bytes"),
        "write_bytes_per_s": per_s("write_bytes"),
        "throttled_mean_ns": waited_ns // throttled if throttled else 0,
    }


def _cells(part: Stats) -> tuple[str, ...]:
    return (
        format_count(part["read_iops"]),
        format_count(part["write_iops"]),
        f"{part['read_bytes_per_s'] / (1 << 20):,.1f}",
        f"{part['write_bytes_per_s'] / (1 << 20):,.1f}",
        format_duration(part["throttled_mean_ns"]),
    )


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    for number, column in enumerate(columns):
        table.add_column(column, justify="left" if number == 0 else "right", no_wrap=True)
    return table

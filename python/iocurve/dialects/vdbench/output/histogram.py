"""``histogram.html``: response times in vdbench's buckets."""

from __future__ import annotations

from collections.abc import Iterable

from iocurve.dialects.vdbench.output.file_rows import METADATA
from iocurve.engine.outcome import WorkerOutcome
from iocurve.result.summary import Latency, View
from iocurve.units import MICROSECOND_NS

BOUNDS_US = (
    *(20, 40, 60, 80, 100, 200, 400, 600, 800),
    *(1_000, 2_000, 4_000, 6_000, 8_000, 10_000, 20_000, 40_000, 60_000, 80_000),
    *(100_000, 200_000, 400_000, 600_000, 800_000, 1_000_000, 2_000_000),
)
"""Upper bounds in microseconds; the last bucket has none."""
WIDTH = 50
_TITLES: dict[tuple[str, ...], str] = {
    ("read", "write"): "Reads and writes:",
    ("read",): "Reads:",
    ("write",): "Writes:",
    **{(kind,): f"Operation {kind}:" for kind in METADATA},
}


def tables(workers: Iterable[WorkerOutcome]) -> list[str]:
    """Tables of reads and writes, reads, writes, and each metadata operation; empty ones are omitted."""
    everyone = list(workers)
    lines: list[str] = []
    for kinds, title in _TITLES.items():
        latency = View(everyone, kinds).service
        if latency.count:
            lines += [title, *table(latency), ""]
    return lines


def table(latency: Latency) -> list[str]:
    """The table of one latency distribution."""
    assert latency.histogram is not None
    lines = ["  min(ms) <     max(ms)        count       %%    cum%%  '+': Individual%; '+-': Cumulative%", ""]
    low, below = 0, 0
    for bound in (*BOUNDS_US, None):
        high = 2**62 if bound is None else bound * MICROSECOND_NS - 1
        count = latency.count - below if bound is None else latency.histogram.count_between(low, high)
        # A bucket of the recorded histogram may cross a bound.
        count = max(0, min(count, latency.count - below))
        below += count
        share, cumulative = 100 * count / latency.count, 100 * below / latency.count
        bar = "+" * int(share * WIDTH / 100)
        bar += "-" * (int(cumulative * WIDTH / 100) - len(bar))
        end = "max" if bound is None else f"{bound / 1000:.3f}"
        lines.append(f"{low / 1e6:>9.3f} <{end:>12} {count:>12,} {share:>8.4f} {cumulative:>8.4f}  {bar}")
        low = high + 1
    return lines

"""``python -m bench.twins --profiles N --seed S``: fits hidden service levels, and predicts loads that were not used.

A seed draws a service level; another process serves it in simulated time. Loads of four mixes, two block sizes and
three depths, on more connections, and from a standstill are measured there and fitted. Six others, with other mixes,
block sizes and depths, are measured there and on the served fit, and their mean latency is predicted.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import product
from pathlib import Path
from typing import NamedTuple

from bench.limits.simulated import ADDRESS, simulated
from bench.limits.strangers import ROWS, Opened
from bench.predict import FAMILIES, Drawn, case_of, drawn_limits, on_export, planned
from iocurve.advice.twin import WITHIN, errors, fit_of
from iocurve.engine.plan import Group, Plan
from iocurve.foundation.units import MICROSECOND_NS, MILLISECOND_NS, SECOND_NS
from iocurve.model.fit import Fit
from iocurve.model.forward import ModelledTarget, forward
from iocurve.result.caps import caps
from iocurve.result.document import Point
from iocurve.volume.limits import AddedLatency, Limits, Lognormal, Parallelism

GRID = tuple(product((100, 75, 25, 0), (4, 64), (1, 8, 48)))
"""Per cent of reads, KiB and depth of the loads that are fitted."""
MORE = tuple(product((100, 0), (4, 256), (48,)))
"""... of those that are measured with four connections, too."""
INTERVAL_NS = SECOND_NS // 10
HELD_OUT = ((70, 16, 12), (30, 8, 24), (100, 32, 2), (0, 16, 32), (80, 4, 6), (20, 32, 40))
SAME = 0.05
"""A cap is right if it is within this part of the hidden one."""
DRAWN = (*FAMILIES, "latency by kind", "latency that varies", "windows", "one server")
PAGE = Path("docs/evidence/twins.md")


class Twin(NamedTuple):
    """A hidden service level and its fit."""

    family: str
    hidden: Limits
    fit: Fit | None
    errors: tuple[tuple[float, ...], ...]
    """Of each load that was held out: of the predicted rate and mean latency, then of the served p50 and p99."""

    def caps(self) -> tuple[int, int, int]:
        """Caps of the fit that are hidden ones, those that are none, and hidden ones that no cap of the fit is.

        One client cannot tell the scopes apart; a burst that lasts is a cap, and so is the rate of the server's own
        speed.
        """
        found = list(self.fit.limits.caps) if self.fit else []
        hidden: list[tuple[tuple[str, str], list[int]]] = [
            ((cap.quantity, cap.kind), [cap.value]) for cap in self.hidden.caps if cap.quantity != "requests"
        ]
        # Requests in flight on a connection allow this rate at the latency.
        latency_ns = self.hidden.latency.mean_ns
        hidden += [
            (("iops", "any"), [round(cap.value * SECOND_NS / latency_ns)])
            for cap in self.hidden.caps
            if cap.quantity == "requests"
        ]
        hidden += [((cap.quantity, cap.kind), [cap.burst.value]) for cap in self.hidden.caps if cap.burst]
        if (speed := self.hidden.parallelism) and not speed.per_kib_ns:
            hidden.append((("iops", "any"), [round(speed.servers / speed.service_ns * SECOND_NS)]))
        right = [
            cap
            for cap in found
            if any(key == (cap.quantity, cap.kind) and abs(cap.value / value - 1) <= SAME for key, (value,) in hidden)
        ]
        windows = bool(self.fit and self.fit.limits.window_ns) and not self.hidden.window_ns
        return len(right), len(found) - len(right) + windows, len(hidden) - len(right)


def hidden_limits(family: str, rng: random.Random) -> Limits:
    """The limits of a family, of those that jobs are predicted for and of those that only twins have."""
    if family in FAMILIES:
        return drawn_limits(family, rng)
    base_ns = rng.randrange(1, 5) * MILLISECOND_NS
    latency = AddedLatency(base_ns=base_ns, per_kib_ns=rng.randrange(10, 40) * MICROSECOND_NS)
    slow = AddedLatency(base_ns=rng.randrange(2, 4) * base_ns, per_kib_ns=rng.randrange(40, 80) * MICROSECOND_NS)
    varying = Lognormal(median_ns=base_ns, p99_ns=rng.randrange(3, 8) * base_ns)
    kinds: dict[str, int | None] = {"iops_read": rng.randrange(500, 3000), "iops_write": rng.randrange(300, 1500)}
    window_ns = rng.choice([50, 100, 200]) * MILLISECOND_NS
    of_family = {
        "latency by kind": Limits(latency=latency, write_latency=slow),
        "latency that varies": Limits(latency=AddedLatency(base_ns=base_ns // 2, distribution=varying)),
        "windows": Limits(caps=caps(kinds), latency=AddedLatency(base_ns=base_ns), window_ns=window_ns),
        "one server": Limits(
            parallelism=Parallelism(servers=1, service_ns=rng.randrange(200, 900) * MICROSECOND_NS, per_kib_ns=20_000)
        ),
    }
    return of_family[family]


def load(reads: int, kib: int, depth: int, *, rested: str = "") -> Group:
    """A load; one that is measured from its first operation on, for a time, shows what a burst saved up."""
    ramp, runtime = ("0s", rested) if rested else ("1s", "4s")
    job = (
        f'[[job]]\nname = "load"\nengine = "uring"\ndirect = true\npaths = ["load"]\nsize = "8MiB"\n'
        f'bs = "{kib}KiB"\n'
        f"iodepth = {depth}\nreads = {str(reads > 0).lower()}\nwrites = {str(reads < 100).lower()}\n"
        f'read_percent = {reads}\ntime_based = true\nruntime = "{runtime}"\nramp_time = "{ramp}"\n'
    )
    return planned("native", job)


def measured(limits: Limits) -> tuple[list[Point], list[Point]]:
    """The points that are fitted, one after another on one server, and those that are held out."""

    def plan(group: Group, nconnect: int, name: str) -> Plan:
        return on_export(Drawn("", limits, "native", group, nconnect), ADDRESS).replace(
            name=name, interval_ns=INTERVAL_NS
        )

    first = [("idle", load(100, 4, 1, rested="1s"), 1)]
    first += [(f"burst {kib}", load(50, kib, 48, rested="10s"), 1) for kib in (4, 256)]
    mixes = [(f"mix {one}", load(*one), 1) for one in GRID]
    more = [(f"connections {one}", load(*one), 4) for one in MORE]
    with simulated(case_of(limits), 1, beside_hogs=False) as server:
        fits = [server.run(plan(group, nconnect, name)) for name, group, nconnect in (*first, *mixes, *more)]
    held = []
    for one in HELD_OUT:
        with simulated(case_of(limits), 1, beside_hogs=False) as server:
            held.append(server.run(plan(load(*one), 1, f"held {one}")))
    return fits, held


def without_own(limits: Limits, own_ns: float) -> Limits:
    """The limits to serve, less the latency that serving adds."""

    def less(latency: AddedLatency) -> AddedLatency:
        return latency.replace(base_ns=max(0, round(latency.base_ns - own_ns)))

    return limits.replace(
        latency=less(limits.latency), write_latency=limits.write_latency and less(limits.write_latency)
    )


def twin_of(family: str, limits: Limits) -> Twin:
    """The fit of a hidden service level, and its errors on the loads that were held out."""
    points, held = measured(limits)
    fit = fit_of(points)
    limits_of_fit = fit.limits if fit else Limits()
    service = ModelledTarget(name="unlimited", limits=limits_of_fit)
    served = without_own(limits_of_fit, own_ns())
    found = []
    for point in held:
        predicted = forward(point.plan.groups[0], service)
        with simulated(case_of(served), 2, beside_hogs=False) as server:
            _, *percentiles = errors(point.summary(), server.run(point.plan).summary())
        rate = predicted.iops / (point.figures.iops or 1) - 1
        latency = (predicted.latency_ns or 0) / ((point.figures.mean_us or 1) * 1000) - 1
        found.append((rate, latency, *percentiles))
    return Twin(family, limits, fit, tuple(found))


@cache
def own_ns() -> float:
    """The latency of a served twin without limits: that of the client and the network."""
    plan = on_export(Drawn("", Limits(), "native", load(100, 4, 1), 1), ADDRESS)
    with simulated(case_of(Limits()), 1, beside_hogs=False) as server:
        return server.run(plan).summary().service.mean_ns


def table(found: Sequence[Twin]) -> Iterator[str]:
    """The results by family as Markdown."""
    yield (
        "| service level | profiles | rate within 5 % | mean latency within 10 % | p50 within 10 % | p99 within 30 % "
        "| caps found | invented | not found |"
    )
    yield f"| --- |{' ---: |' * 8}"
    limits = (WITHIN[0], WITHIN[1], *WITHIN[1:])
    for family in (*DRAWN, "all"):
        ours = [one for one in found if family in (one.family, "all")]
        rows = [errors for one in ours for errors in one.errors]
        shares = [sum(abs(row[each]) <= most for row in rows) / len(rows) for each, most in enumerate(limits)]
        cells = [f"{share:.0%}" for share in shares]
        counts = map(sum, zip(*(one.caps() for one in ours), strict=True))
        yield f"| {' | '.join([family, str(len(ours)), *cells, *map(str, counts)])} |"


def worst(found: Sequence[Twin]) -> Iterator[str]:
    """The profiles with the largest errors of a rate."""
    yield "| service level | hidden caps | fitted caps | largest error of a rate | what the fit leaves open |"
    yield "| --- | --- | --- | ---: | --- |"
    for one in sorted(found, key=lambda one: -max(abs(row[0]) for row in one.errors))[:10]:
        caps = [", ".join(f"{cap.name} {cap.value:,}" for cap in limits.caps) for limits in (one.hidden, _of(one.fit))]
        error = max((row[0] for row in one.errors), key=abs)
        yield f"| {one.family} | {' | '.join(caps)} | {error:+.1%} | {'; '.join(one.fit.open) if one.fit else ''} |"


def _of(fit: Fit | None) -> Limits:
    return fit.limits if fit else Limits()


INTRODUCTION = """# Twins of hidden service levels

`python -m bench.twins --page` writes this page. A seed draws a service level, and a process that shares no code with
the model serves it in simulated time. {grid} loads are measured one after another and fitted, as `iocurve twin` does:
one operation at a time and two deep loads from a standstill, mixes, block sizes and depths on one connection, and
some of them on four. {held} others (other mixes, block sizes and depths) are then measured: rates and mean latencies
are predicted from the fit, and p50 and p99 compared with those of the same load on the served fit.
A cap is found if one of the fit has its quantity, its kind and, within 5 %, its value; it is invented if there is none
such, and so are windows of a target that has none.
Caps that no load reached are not found; nor are requests in flight on a connection and a cap on operations of the
same connection told apart, if one of them is always reached first. One client cannot tell its own limits from those of
the volume, and the rate of a number of servers is a cap on operations.
"""


# ---- targets of others


@contextmanager
def _disk(directory: Path) -> Iterator[Opened]:
    yield Opened(f"disk:premium-ssd-p15?path={directory}")


PEERS = {
    "nfs-ganesha, no limit": ROWS["ganesha"].opened,
    "ext4 on a loop device, blkio.throttle: 1,500 reads and as many writes per second": ROWS["ext4-iops"].opened,
    "ext4 on a loop device, blkio.throttle: 40 MiB/s of reads and as many of writes": ROWS["ext4-bytes"].opened,
    "the emulated disk premium-ssd-p15 on a file": _disk,
}
LEVEL = re.compile(r"of (\d+) points: rate within 5 % (\d+), p50 within 10 % (\d+), p99 within 30 % (\d+)")
PEERS_TITLE = "## Targets of others"


def peers(patience: str, wanted: str) -> Iterator[str]:
    """Twins of real targets, each checked with loads that were not fitted, as Markdown."""
    yield f"{PEERS_TITLE}\n"
    yield f"`python -m bench.twins --peers --patience {patience}`: `iocurve twin TARGET --check`, as root.\n"
    yield "| target | what the twin has | loads | rate within 5 % | p50 within 10 % | p99 within 30 % | load average |"
    yield f"| --- | --- |{' ---: |' * 5}"
    for name, opened in PEERS.items():
        if wanted not in name:
            continue
        with tempfile.TemporaryDirectory(prefix="iocurve-twins-") as made, opened(Path(made)) as target:
            path, load_average = Path(made) / "twin.toml", os.getloadavg()[0]
            words = ("twin", target.target, f"--out={path}", "--check", f"--patience={patience}", "--quiet")
            command = [*target.prefix, sys.executable, "-m", "iocurve", *words, f"--report={made}/report"]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            text = path.read_text(encoding="utf-8")
        found = LEVEL.search(text)
        counts = found.groups() if found else ("", "", "", "")
        keys = tomllib.loads(text)
        has = ", ".join(f"{key} {_values(value)}" for key, value in keys.items() if key != "title")
        yield f"| {name} | {has} | {' | '.join(counts)} | {load_average:.1f} |"


def _values(figure: dict[str, object]) -> str:
    """A figure of a profile in words, without names that say nothing: ``1500``, ``800.0 lognormal median_us 40.1``."""
    shown = [
        _values(value) if isinstance(value, dict) else f"{'' if key in ('base', 'value', 'kind') else f'{key} '}{value}"
        for key, value in figure.items()
        if value
    ]
    return " ".join(shown)


def main() -> None:
    """The command line above."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--profiles", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--page", action="store_true", help="write the tables to docs/evidence")
    parser.add_argument("--peers", nargs="?", const="", help="real targets, or those whose name has this text, as root")
    parser.add_argument("--patience", default="100s", help="of each real target")
    options = parser.parse_args()
    kept = PAGE.read_text(encoding="utf-8").partition(PEERS_TITLE)
    if options.peers is not None:
        text = "\n".join(peers(options.patience, options.peers))
        print(text)
        if options.page:
            PAGE.write_text(f"{kept[0].rstrip()}\n\n{text}\n", encoding="utf-8")
        return
    rng = random.Random(options.seed)
    families = [DRAWN[number % len(DRAWN)] for number in range(options.profiles)]
    found = [twin_of(family, hidden_limits(family, rng)) for family in families]
    text = "\n".join((*table(found), "\nThe ten with the largest errors:\n", *worst(found)))
    if options.page:
        head = INTRODUCTION.format(grid=3 + len(GRID) + len(MORE), held=len(HELD_OUT))
        first = f"{head}\n{options.profiles} profiles, seed {options.seed}.\n\n{text}\n"
        PAGE.write_text(first + "".join(("\n", *kept[1:]) if kept[1] else ()), encoding="utf-8")
    else:
        print(text)


if __name__ == "__main__":
    main()

"""``python -m bench.twins --profiles N --seed S``: fits hidden service levels, and predicts loads that were not used.

A seed draws a service level; another process serves it in simulated time. Loads of four mixes, two block sizes and
three depths, on more connections, and from a standstill are measured there and fitted. Six others, with other mixes,
block sizes and depths, are predicted from the fit and then measured.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import NamedTuple

from bench.limits.simulated import ADDRESS, simulated
from bench.predict import FAMILIES, Drawn, case_of, drawn_limits, on_export, planned
from iocurve.advice.twin import fit_of
from iocurve.engine.plan import Group, Plan
from iocurve.foundation.units import SECOND_NS
from iocurve.model.fit import Fit
from iocurve.model.forward import ModelledTarget, forward
from iocurve.result.document import Point
from iocurve.volume.limits import Limits

GRID = tuple(product((100, 75, 25, 0), (4, 64), (1, 8, 48)))
"""Per cent of reads, KiB and depth of the loads that are fitted."""
MORE = tuple(product((100, 0), (4, 256), (48,)))
"""... of those that are measured with four connections, too."""
INTERVAL_NS = SECOND_NS // 10
HELD_OUT = ((70, 16, 12), (30, 8, 24), (100, 32, 2), (0, 16, 32), (80, 4, 6), (20, 32, 40))
SAME = 0.05
"""A cap is right if it is within this part of the hidden one."""
PAGE = Path("docs/evidence/twins.md")


class Twin(NamedTuple):
    """A hidden service level and its fit."""

    family: str
    hidden: Limits
    fit: Fit | None
    rate_errors: tuple[float, ...]
    latency_errors: tuple[float, ...]

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
        if speed := self.hidden.parallelism:
            hidden.append((("iops", "any"), [round(speed.servers / speed.service_ns * SECOND_NS)]))
        right = [
            cap
            for cap in found
            if any(key == (cap.quantity, cap.kind) and abs(cap.value / value - 1) <= SAME for key, (value,) in hidden)
        ]
        return len(right), len(found) - len(right), len(hidden) - len(right)


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


def twin_of(family: str, limits: Limits) -> Twin:
    """The fit of a hidden service level, and its errors on the loads that were held out."""
    points, held = measured(limits)
    fit = fit_of(points)
    service = ModelledTarget(name="unlimited", limits=fit.limits if fit else Limits())
    rates, latencies = [], []
    for point in held:
        predicted = forward(point.plan.groups[0], service)
        rates.append(predicted.iops / (point.figures.iops or 1) - 1)
        latencies.append((predicted.latency_ns or 0) / ((point.figures.mean_us or 1) * 1000) - 1)
    return Twin(family, limits, fit, tuple(rates), tuple(latencies))


def table(found: Sequence[Twin]) -> Iterator[str]:
    """The results by family as Markdown."""
    yield "| service level | profiles | rate within 5 % | latency within 10 % | caps found | invented | not found |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: | ---: |"
    for family in (*FAMILIES, "all"):
        ours = [one for one in found if family in (one.family, "all")]
        rates = [abs(error) <= SAME for one in ours for error in one.rate_errors]
        latencies = [abs(error) <= 2 * SAME for one in ours for error in one.latency_errors]
        right, invented, untold = map(sum, zip(*(one.caps() for one in ours), strict=True))
        yield (
            f"| {family} | {len(ours)} | {sum(rates) / len(rates):.0%} | {sum(latencies) / len(latencies):.0%} | "
            f"{right} | {invented} | {untold} |"
        )


def worst(found: Sequence[Twin]) -> Iterator[str]:
    """The profiles with the largest errors of a rate."""
    yield "| service level | hidden caps | fitted caps | largest error of a rate | what the fit leaves open |"
    yield "| --- | --- | --- | ---: | --- |"
    for one in sorted(found, key=lambda one: -max(map(abs, one.rate_errors)))[:10]:
        caps = [", ".join(f"{cap.name} {cap.value:,}" for cap in limits.caps) for limits in (one.hidden, _of(one.fit))]
        error = max(one.rate_errors, key=abs)
        yield f"| {one.family} | {' | '.join(caps)} | {error:+.1%} | {'; '.join(one.fit.open) if one.fit else ''} |"


def _of(fit: Fit | None) -> Limits:
    return fit.limits if fit else Limits()


INTRODUCTION = """# Twins of hidden service levels

`python -m bench.twins --page` writes this page. A seed draws a service level, and a process that shares no code with
the model serves it in simulated time. {grid} loads are measured one after another and fitted, as `iocurve twin` does:
one operation at a time and two deep loads from a standstill, mixes, block sizes and depths on one connection, and
some of them on four. {held} others (other mixes, block sizes and depths) are predicted from the fit and then measured.
A cap is found if one of the fit has its quantity, its kind and, within 5 %, its value; it is invented if there is none
such.
Caps that no load reached are not found; nor are requests in flight on a connection and a cap on operations of the
same connection told apart, if one of them is always reached first. One client cannot tell its own limits from those of
the volume, and the rate of a number of servers is a cap on operations.
"""


def main() -> None:
    """The command line above."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--profiles", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--page", action="store_true", help="write the tables to docs/evidence")
    options = parser.parse_args()
    rng = random.Random(options.seed)
    families = [FAMILIES[number % len(FAMILIES)] for number in range(options.profiles)]
    found = [twin_of(family, drawn_limits(family, rng)) for family in families]
    text = "\n".join((*table(found), "\nThe ten with the largest errors:\n", *worst(found)))
    if options.page:
        head = INTRODUCTION.format(grid=3 + len(GRID) + len(MORE), held=len(HELD_OUT))
        PAGE.write_text(f"{head}\n{options.profiles} profiles, seed {options.seed}.\n\n{text}\n", encoding="utf-8")
    else:
        print(text)


if __name__ == "__main__":
    main()

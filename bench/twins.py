"""``python -m bench.twins --profiles N --seed S``: fits hidden service levels, and predicts loads that were not used.

A seed draws a service level; another process serves it in simulated time. Loads of three mixes, two block sizes and
three depths are measured there and fitted. Six others, with other mixes, block sizes and depths, are predicted from the
fit and then measured.
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
from iocurve.foundation.units import SECOND_NS
from iocurve.model.fit import Fit, fitted
from iocurve.model.forward import ModelledTarget, forward
from iocurve.result.document import Point
from iocurve.volume.limits import Limits

GRID = tuple(product((100, 50, 0), (4, 64), (1, 8, 48)))
"""Per cent of reads, KiB and depth of the loads that are fitted."""
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

        One client on one connection cannot tell the scopes apart; a burst that lasts is a cap, and so is the rate of
        the server's own speed.
        """
        found = list(self.fit.limits.caps) if self.fit else []
        hidden = [((cap.quantity, cap.kind), [cap.value]) for cap in self.hidden.caps]
        hidden += [((cap.quantity, cap.kind), [cap.burst.value]) for cap in self.hidden.caps if cap.burst]
        if speed := self.hidden.parallelism:
            hidden.append((("iops", "any"), [round(speed.servers / speed.service_ns * SECOND_NS)]))
        right = [
            cap
            for cap in found
            if any(key == (cap.quantity, cap.kind) and abs(cap.value / value - 1) <= SAME for key, (value,) in hidden)
        ]
        return len(right), len(found) - len(right), len(hidden) - len(right)


def measured(limits: Limits, loads: Sequence[tuple[int, int, int]]) -> Iterator[Point]:
    """The loads on a service level, each on a fresh server."""
    for reads, kib, depth in loads:
        job = (
            f'[[job]]\nname = "load"\nengine = "uring"\ndirect = true\npaths = ["load"]\nsize = "8MiB"\n'
            f'bs = "{kib}KiB"\n'
            f"iodepth = {depth}\nreads = {str(reads > 0).lower()}\nwrites = {str(reads < 100).lower()}\n"
            f'read_percent = {reads}\ntime_based = true\nruntime = "4s"\nramp_time = "1s"\n'
        )
        plan = on_export(Drawn("", limits, "native", planned("native", job), 1), ADDRESS)
        with simulated(case_of(limits), 1, beside_hogs=False) as server:
            yield server.run(plan)


def twin_of(family: str, limits: Limits) -> Twin:
    """The fit of a hidden service level, and its errors on the loads that were held out."""
    fit = fitted(measured(limits, GRID))
    service = ModelledTarget(name="unlimited", limits=fit.limits if fit else Limits())
    rates, latencies = [], []
    for point in measured(limits, HELD_OUT):
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
the model serves it in simulated time. {grid} loads are measured and fitted, as `iocurve twin` does with a result;
{held} others (other mixes, block sizes and depths) are predicted from the fit and then measured. A cap is found if
one of the fit has its quantity, its kind and, within 5 %, its value; it is invented if there is none such. Caps that
no load reached are not found. The fit knows no scopes, bursts and numbers of servers: one client on one connection
cannot tell them apart.
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
        head = INTRODUCTION.format(grid=len(GRID), held=len(HELD_OUT))
        PAGE.write_text(f"{head}\n{options.profiles} profiles, seed {options.seed}.\n\n{text}\n", encoding="utf-8")
    else:
        print(text)


if __name__ == "__main__":
    main()

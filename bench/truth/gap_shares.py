"""Shares of a gap among the fields in which two commands differ, on targets with known factors."""

from __future__ import annotations

import math
import random
import tempfile
from collections.abc import Callable, Iterator, Mapping
from itertools import combinations
from pathlib import Path

import iocurve
from bench.predict import profile_of, served_limits, service_of
from bench.truth.table import Row
from iocurve.advice import differ
from iocurve.advice.differ import Design, RunLength, Switched, expected, share, sides
from iocurve.foundation.units import MIB, MILLISECOND_NS, SECOND_NS
from iocurve.result.caps import Cap
from iocurve.result.paired import RateRatio
from iocurve.targets import target as targets
from iocurve.volume.limits import AddedLatency, Limits

COLUMNS = ("case", "a field's factor held", "rest held", "whole gap held", "interactions found", "false ones", "pairs")
ROUNDS, MARGIN = 7, 0.05
SEEDS = 300
Noise = Callable[[random.Random], Iterator[float]]
"""Gives the logarithm of the noise of each run."""


def _independent(drawn: random.Random) -> Iterator[float]:
    while True:
        yield drawn.gauss(0, 0.04)


def _correlated(drawn: random.Random) -> Iterator[float]:
    value = drawn.gauss(0, 0.04)
    while True:
        yield value
        value = 0.7 * value + drawn.gauss(0, 0.04 * math.sqrt(1 - 0.7**2))


def _drift(drawn: random.Random) -> Iterator[float]:
    for number in range(1_000_000):
        yield -0.004 * number + drawn.gauss(0, 0.03)


def _dips(drawn: random.Random) -> Iterator[float]:
    while True:
        yield drawn.gauss(0, 0.02) - (0.5 if drawn.random() < 0.05 else 0.0)


NOISES: Mapping[str, Noise] = {
    "independent, 4 %": _independent,
    "AR(1) 0.7, 4 %": _correlated,
    "drift of 0.4 % a run": _drift,
    "2 %, one run of 20 at 0.6 ×": _dips,
}


def shares(scale: float) -> Iterator[Row]:
    """Pairs of commands with one to six differences, with and without interactions, under each noise."""
    for count in (1, 2, 3, 4, 6):
        for name, noise in NOISES.items():
            yield _row(f"{count} fields, {name}", count, noise, max(10, round(SEEDS * scale)))


def _row(case: str, count: int, noise: Noise, seeds: int) -> Row:
    held = {"field": [0, 0], "rest": [0, 0], "total": [0, 0]}
    found, false, true_pairs = 0, 0, 0
    for seed in range(seeds):
        drawn = random.Random(f"{case} {seed}")
        fields = [f"f{number}" for number in range(count)]
        truth = _Truth.drawn(fields, drawn)
        design = Design.of(fields, str(seed))
        wanted = {one: truth.rate(one) for one in design.combinations}
        rest = drawn.choice([1.0, 1.0, 1.1])
        rounds, last = _measured(design, wanted, rest * wanted[frozenset(fields)], noise(drawn), drawn)
        answer = differ.factors(design, rounds, last, MARGIN)
        for one in answer.shares:
            _count(held["field"], one.ratio, math.exp(share(design, one.name, wanted)))
        _count(held["rest"], answer.rest, rest)
        _count(held["total"], answer.total, rest * wanted[frozenset(fields)] / wanted[frozenset()])
        named = {one.names for one in answer.interactions}
        true_pairs += len(truth.pairs)
        found += len(named & truth.pairs.keys())
        false += bool(named - truth.pairs.keys())
    shares_held = [f"{100 * yes / of:.1f} %" for yes, of in held.values()]
    told = f"{found} of {true_pairs}" if count <= differ.WHOLE_MAX else "not looked for"
    return case, *shares_held, told, f"{100 * false / seeds:.1f} %", f"{seeds:,}"


class _Truth:
    """Factors of fields and of pairs of them."""

    def __init__(self, factors: Mapping[str, float], pairs: Mapping[tuple[str, str], float]) -> None:
        self.factors, self.pairs = factors, pairs

    @classmethod
    def drawn(cls, fields: list[str], drawn: random.Random) -> _Truth:
        factors = {one: drawn.choice([1.0, drawn.uniform(0.5, 2.0)]) for one in fields}
        pairs = {pair: drawn.choice([0.7, 1.4]) for pair in combinations(fields, 2) if drawn.random() < 0.2}
        return cls(factors, pairs)

    def rate(self, switched: Switched) -> float:
        value = 10_000 * math.prod(self.factors[one] for one in switched)
        return value * math.prod(factor for pair, factor in self.pairs.items() if set(pair) <= switched)


def _measured(
    design: Design, wanted: Mapping[Switched, float], last: float, noise: Iterator[float], drawn: random.Random
) -> tuple[list[dict[Switched, float]], list[float]]:
    """Turns in rounds of a drawn order, as a campaign takes them."""
    rounds, lasts = [], []
    for _ in range(ROUNDS):
        order: list[Switched | None] = [*design.combinations, None]
        drawn.shuffle(order)
        turns = {one: (last if one is None else wanted[one]) * math.exp(next(noise)) for one in order}
        lasts.append(turns.pop(None))
        rounds.append({one: rate for one, rate in turns.items() if one is not None})
    return rounds, lasts


def _count(counts: list[int], ratio: RateRatio, truth: float) -> None:
    counts[0] += (ratio.low or 0.0) <= truth <= (ratio.high or math.inf)
    counts[1] += 1


# ---- pairs on the embedded volume

LIVE_COLUMNS = ("fields that differ", "pairs", "a field's factor held", "rest held", "whole gap held", "largest error")
PAIRS = 40
VALUES: Mapping[str, tuple[str, ...]] = {
    "bs": ("4k", "16k", "64k"),
    "iodepth": ("1", "4", "16"),
    "rw": ("randread", "randwrite"),
    "numjobs": ("1", "2", "4"),
    "rate_iops": ("150", "200", "250"),
}
RUN = RunLength(runtime_ns=SECOND_NS, ramp_ns=300 * MILLISECOND_NS, rounds=5, margin=MARGIN, repeats=1)
LINE = "fio --name=a --size=8m --ioengine=libaio --direct=1"
IDLE = "--name=a --size=8m --ioengine=nfs --rw=randread --bs=4k --runtime=2 --time_based"
NEAR = 0.02
"""The part by which the expected factor may be wrong: the latency of loopback, and the counting of one second."""


def pairs(scale: float) -> Iterator[Row]:
    """Drawn pairs of fio lines on drawn volumes, whose factors are those of the volume's limits and latency."""
    for count in (1, 2, 3):
        found: list[tuple[str, RateRatio, float]] = []
        number = max(2, round(PAIRS * scale / 3))
        for seed in range(number):
            found += _pair(count, random.Random(f"pair {count} {seed}"))
        held = [
            [
                (ratio.low or 0) / (1 + NEAR) <= truth <= (ratio.high or math.inf) * (1 + NEAR)
                for one, ratio, truth in found
                if one == part
            ]
            for part in ("field", "rest", "B / A")
        ]
        worst = max(abs(ratio.value / truth - 1) for _, ratio, truth in found)
        yield str(count), str(number), *(f"{sum(one)} of {len(one)}" for one in held), f"{100 * worst:.1f} %"


def _pair(count: int, drawn: random.Random) -> Iterator[tuple[str, RateRatio, float]]:
    """Each factor: its part of the gap, as measured, and as the limits make it."""
    limits = served_limits(
        Limits(
            caps=(
                Cap(scope="volume", quantity="iops", value=drawn.randrange(400, 1500)),
                Cap(scope="volume", quantity="bytes_per_s", value=drawn.randrange(5, 40) * MIB),
            ),
            latency=AddedLatency(base_ns=drawn.randrange(5, 20) * MILLISECOND_NS),
        )
    )
    first = {name: drawn.choice(values) for name, values in VALUES.items() if name != "rate_iops"}
    changed = drawn.sample(list(VALUES), count)
    second = first | {name: drawn.choice([one for one in VALUES[name] if one != first.get(name)]) for name in changed}
    lines = tuple(" ".join([LINE, *(f"--{name}={value}" for name, value in one.items())]) for one in (first, second))
    with tempfile.TemporaryDirectory() as made:
        path = Path(made) / "drawn.toml"
        path.write_text(profile_of(limits.replace(caps=())), encoding="utf-8")
        with iocurve.Volume(profile=str(path), quota="1TiB") as volume:
            line = f"{IDLE} --nfs_url={volume.url}"
            idle = iocurve.run(line, dialect="fio").points[0]
        path.write_text(profile_of(limits), encoding="utf-8")
        target = targets.parse(f"volume:{path}?quota=1TiB")
        both = sides(lines)
        _, found = differ.measured(both, target, RUN, Path(made) / "out", quiet=True)
        assert found is not None, lines
        wanted = expected(*both, service_of(limits, idle))
    parts = [
        *((one.name, one.ratio) for one in found.factors.shares),
        ("rest", found.factors.rest),
        ("B / A", found.factors.total),
    ]
    for name, ratio in parts:
        yield (name if name in ("rest", "B / A") else "field"), ratio, wanted[name]

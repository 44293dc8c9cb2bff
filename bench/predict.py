"""``python -m bench.predict --jobs N --seed S``: predicts drawn jobs on drawn service levels, then measures them.

The embedded volume serves each service level. A binding limit is named rightly if the rate rises once that limit alone
is raised by a quarter; a rate that was requested binds if it is reached.
"""

from __future__ import annotations

import argparse
import random
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import iocurve
from iocurve.foundation.units import GIB, MIB, MILLISECOND_NS
from iocurve.model.forward import IN_FLIGHT, REQUESTED, Prediction, Service, forward
from iocurve.result.caps import Burst, Cap, caps
from iocurve.volume import profile_limits
from iocurve.volume.limits import AddedLatency, Limits

RAISED = 1.25
ROSE = 1.05
"""A rate that rises by less has not followed its limit."""


class Drawn(NamedTuple):
    family: str
    limits: Limits
    dialect: str
    job: str


class Compared(NamedTuple):
    drawn: Drawn
    predicted: Prediction
    iops: float
    latency_ns: float
    is_named_right: bool | None
    """None where another limit is so near that the model expects no rise."""

    @property
    def rate_error(self) -> float:
        return self.predicted.iops / self.iops - 1

    @property
    def latency_error(self) -> float:
        return (self.predicted.latency_ns or 0) / self.latency_ns - 1


# ---- drawing


def drawn(seed: int, count: int) -> Iterator[Drawn]:
    """Jobs on service levels, both by the seed."""
    rng = random.Random(seed)
    for number in range(count):
        family = FAMILIES[number % len(FAMILIES)]
        dialect = rng.choice(list(DIALECTS))
        yield Drawn(family, _limits(family, rng), dialect, DIALECTS[dialect](rng))


def _limits(family: str, rng: random.Random) -> Limits:
    latency = AddedLatency(base_ns=rng.choice([1, 2, 4]) * MILLISECOND_NS)
    if family in PUBLISHED:
        found = profile_limits.resolve(family, rng.choice(PUBLISHED[family]) * GIB)
        return found.replace(latency=latency)
    values: dict[str, int | None] = {}
    if family == "by kind":
        values = {"iops_read": rng.randrange(500, 3000), "iops_write": rng.randrange(300, 1500)}
        values["throughput_bytes_per_s"] = rng.randrange(20, 100) * MIB
    elif family == "connection":
        values = {"connection.iops": rng.randrange(400, 2000), "connection.requests_in_flight": rng.choice([4, 8])}
    burst = Burst(iops=rng.randrange(2000, 3000), credits=2000) if family == "burst" else None
    if burst:
        values = {"iops": rng.randrange(400, 1000)}
    elif not values:
        values = {"iops": rng.randrange(800, 4000), "throughput_bytes_per_s": rng.randrange(20, 100) * MIB}
    return Limits(caps=caps(values, burst), latency=latency)


PUBLISHED = {"anf-standard": (1024, 2048, 4096), "anf-premium": (256, 512, 1024), "azure-files-v1": (100, 500)}
FAMILIES = (*PUBLISHED, "joint", "by kind", "connection", "burst")


def _fio(rng: random.Random) -> str:
    words = [
        "--name=drawn --size=4m --ioengine=libaio --direct=1 --time_based --runtime=2 --ramp_time=1 --group_reporting",
        f"--rw={rng.choice(['randread', 'randwrite', 'randrw', 'read', 'write', 'rw'])}",
        f"--rwmixread={rng.choice([30, 50, 70])} --bs={rng.choice(['4k', '8k', '16k', '64k'])}",
        f"--iodepth={rng.choice([1, 2, 4, 8, 16, 32])} --numjobs={rng.choice([1, 1, 2, 4])}",
    ]
    if rng.random() < 0.25:
        words.append(f"--rate_iops={rng.choice([50, 100, 200, 800])}")
    return " ".join(words)


def _vdbench(rng: random.Random) -> str:
    rate = rng.choice(["max", "max", "300", "900"])
    return (
        f"sd=sd1,lun=/tmp/drawn-vdbench,size=8m,threads={rng.choice([1, 4, 8, 16])}\n"
        f"wd=wd1,sd=sd1,xfersize={rng.choice(['4k', '8k', '64k'])},rdpct={rng.choice([0, 50, 70, 100])},seekpct=100\n"
        f"rd=rd1,wd=wd1,iorate={rate},elapsed=2,interval=1,warmup=1\n"
    )


def _diskspd(rng: random.Random) -> str:
    return (
        f"-c8M -b{rng.choice(['4K', '8K', '64K'])} -o{rng.choice([1, 4, 16])} -t{rng.choice([1, 2, 4])} "
        f"-w{rng.choice([0, 30, 100])} -r -d2 -W1 -Sh -L drawn.dat"
    )


DIALECTS: dict[str, Callable[[random.Random], str]] = {"fio": _fio, "vdbench": _vdbench, "diskspd": _diskspd}


# ---- measuring


def _profile(limits: Limits) -> str:
    """The limits as a profile."""
    lines = ['title = "drawn"']
    for cap in limits.caps:
        key = "base" if cap.scope == "volume" else "value"
        value = cap.value // MIB if cap.quantity == "bytes_per_s" else cap.value
        lines += [f"[{cap.figure}]", f"{key} = {value}"]
    if limits.burst:
        iops = limits.value("iops") or 0
        seconds = max(1, round(limits.burst.credits / (limits.burst.iops - iops)))
        lines += ["[burst_iops]", f"base = {limits.burst.iops}", f"credits_for_s = {seconds}"]
    return "\n".join([*lines, "[latency_us]", f"value = {limits.latency.base_ns // 1000}"])


def _served(limits: Limits) -> Limits:
    """The limits that the profile really has: whole MiB/s, whole seconds of credits."""
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
        file.write(_profile(limits))
        file.flush()
        return profile_limits.resolve(file.name, 1024 * GIB)


def measured(one: Drawn, limits: Limits) -> tuple[Prediction, float, float]:
    """The prediction, and the rate and the mean latency of a run."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "drawn.toml"
        path.write_text(_profile(limits), encoding="utf-8")
        with iocurve.Volume(profile=str(path), quota="1TiB") as volume:
            result = iocurve.run(one.job, dialect=one.dialect, target=volume)  # type: ignore[arg-type]
    point = result.points[0]
    group = point.plan.groups[0]
    service = Service(name="unlimited", limits=_served(limits))
    figures = point.figures
    return forward(group, service), figures.iops or 0, (figures.mean_us or 0) * 1000


def compared(one: Drawn) -> Compared:
    """One job, predicted and measured."""
    predicted, iops, latency_ns = measured(one, one.limits)
    if predicted.binds == REQUESTED:
        return Compared(one, predicted, iops, latency_ns, iops >= (predicted.requested_iops or 0) * 0.98)
    raised, raised_iops, _ = measured(one, _relaxed(one.limits, predicted))
    if raised.iops < predicted.iops * ROSE * ROSE:
        return Compared(one, predicted, iops, latency_ns, None)
    return Compared(one, predicted, iops, latency_ns, raised_iops >= iops * ROSE)


def _relaxed(limits: Limits, predicted: Prediction) -> Limits:
    """The limits, with the one that binds a quarter higher."""
    if predicted.binds == IN_FLIGHT:
        return limits.replace(latency=AddedLatency(base_ns=round(limits.latency.base_ns / RAISED)))

    def raised(cap: Cap) -> Cap:
        is_it = predicted.binds.endswith(f"{cap.scope}'s {cap.replace(scope='volume').text}")
        burst = cap.burst and cap.burst.replace(iops=round(cap.burst.iops * RAISED))
        return cap.replace(value=round(cap.value * RAISED), burst=burst) if is_it else cap

    return limits.replace(caps=tuple(map(raised, limits.caps)))


# ---- the table


def table(found: list[Compared]) -> Iterator[str]:
    """The results as Markdown."""
    columns = "predicted IOPS | measured | error | predicted latency | measured | error | name"
    yield f"| service level | dialect | binds | {columns} |"
    yield "| --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | --- |"
    for one in found:
        latency = (one.predicted.latency_ns or 0) / MILLISECOND_NS
        named = {True: "right", False: "wrong", None: "open"}[one.is_named_right]
        yield (
            f"| {one.drawn.family} | {one.drawn.dialect} | {one.predicted.binds} | {one.predicted.iops:,.0f} | "
            f"{one.iops:,.0f} | {one.rate_error:+.1%} | {latency:.2f} ms | {one.latency_ns / MILLISECOND_NS:.2f} ms | "
            f"{one.latency_error:+.1%} | {named} |"
        )
    names = Counter(one.is_named_right for one in found)
    rates = sum(abs(one.rate_error) <= 0.05 for one in found)
    latencies = sum(abs(one.latency_error) <= 0.15 for one in found)
    yield ""
    yield (
        f"{len(found)} jobs: rate within 5 % in {rates / len(found):.0%}, mean latency within 15 % in "
        f"{latencies / len(found):.0%}; the binding limit named right in {names[True]}, wrong in {names[False]}, and "
        f"in {names[None]} another limit is too near to tell."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    print("\n".join(table([compared(one) for one in drawn(options.seed, options.jobs)])))


if __name__ == "__main__":
    main()

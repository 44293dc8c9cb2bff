"""``python -m bench.predict --jobs N --seed S``: predicts drawn jobs on drawn service levels, then measures them.

Each service level is served in simulated time by ``simulated_load.c``, which shares no code with the model: no other
program's work changes what is measured. With ``--live`` the embedded volume serves it, and iocurve's engine runs the
job, several jobs at once (``--at-once``). A thread that waits for a processor adds to latencies: a job of which one
waited for too long is measured again with fewer jobs at once, and stays in the tables as CPU-starved if that does not
help. The latency of an idle target is measured first, by one operation at a time, and given to the prediction.
A binding limit is named rightly if the rate rises once that limit is raised by a quarter, together with those that are
named as near; a rate that was requested binds if it is reached.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import os
import random
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import iocurve
from bench.limits.case import Case
from bench.limits.simulated import ADDRESS, simulated
from iocurve.dialects.base import Dialect
from iocurve.dialects.native.command import DIALECT as NATIVE
from iocurve.dialects.registry import load
from iocurve.engine.derived import block_bytes_mean
from iocurve.engine.plan import End, FilePlan, Group, NfsEngine, Plan, Worker
from iocurve.foundation.errors import IocurveError
from iocurve.foundation.units import GIB, MIB, MILLISECOND_NS, SECOND_NS
from iocurve.job.explain import unpredictable
from iocurve.model.forward import IN_FLIGHT, REQUESTED, SERVERS, ModelledTarget, Prediction, forward
from iocurve.result.caps import Burst, Cap, caps
from iocurve.result.document import Point
from iocurve.targets.target import NfsTarget
from iocurve.volume import profile_limits
from iocurve.volume.limits import AddedLatency, Limits, Lognormal, Parallelism

RAISED = 1.25
ROSE = 1.05
"""A rate that rises by less has not followed its limit."""
COUNTED_MAX = 64
ARRIVALS = 2_000
"""Operations that are due at random times in a run: chance changes their number by 2 % (standard deviation)."""
SAVED = 64
"""A bucket of the embedded volume saves up this part of a second."""
STARVED = 0.05
"""Share of the time for which threads of load and volume waited for a processor: it adds at most this share to each
latency, as much as a rate may be off."""


class Drawn(NamedTuple):
    family: str
    limits: Limits
    dialect: str
    group: Group
    """The load, on any target."""
    nconnect: int


class Compared(NamedTuple):
    drawn: Drawn
    predicted: Prediction
    iops: float
    latency_ns: float
    is_named_right: bool | None
    """None where another limit is so near that the model expects no rise."""
    delay: float
    """The share of the time for which a thread of the load and one of its target waited for a processor."""

    @property
    def rate_error(self) -> float:
        return self.predicted.iops / self.iops - 1

    @property
    def latency_error(self) -> float:
        return (self.predicted.latency_ns or 0) / self.latency_ns - 1

    @property
    def error(self) -> float:
        """The larger error, in parts of what is allowed."""
        return max(abs(self.rate_error) / 0.05, abs(self.latency_error) / 0.15)

    @property
    def is_starved(self) -> bool:
        """True if the machine, and not the service level, may have made the error."""
        return self.delay > STARVED


# ---- drawing


def drawn(seed: int, count: int) -> Iterator[Drawn]:
    """Jobs on service levels, both by the seed."""
    rng = random.Random(seed)
    for number in range(count):
        family = FAMILIES[number % len(FAMILIES)]
        dialect = rng.choice(list(DIALECTS))
        limits, job = drawn_limits(family, rng), DIALECTS[dialect](rng)
        yield Drawn(family, limits, dialect, planned(dialect, job), rng.choice([1, 1, 2, 4]))


def planned(dialect: str, job: str) -> Group:
    with tempfile.TemporaryDirectory() as directory:
        words = job.split()
        if dialect in ("vdbench", "native"):
            path = Path(directory) / "job"
            path.write_text(job, encoding="utf-8")
            words = ["-f", str(path)] if dialect == "vdbench" else [str(path)]
        (plan,) = _dialect(dialect).prepare(words, cwd=Path(directory)).plans()
    return plan.groups[0]


def _dialect(name: str) -> Dialect:
    return NATIVE if name == "native" else load(name)


def drawn_limits(family: str, rng: random.Random) -> Limits:
    latency = AddedLatency(base_ns=rng.choice([4, 8, 16, 32]) * MILLISECOND_NS)
    if family in PUBLISHED:
        found = profile_limits.resolve(family, rng.choice(PUBLISHED[family]) * GIB)
        return found.replace(latency=latency)
    iops, data = rng.randrange(800, 4000), rng.randrange(20, 100) * MIB
    read, write = rng.randrange(500, 3000), rng.randrange(300, 1500)
    named: dict[str, dict[str, int | None]] = {
        "joint": {"iops": iops, "throughput_bytes_per_s": data},
        "by kind": {"iops_read": read, "iops_write": write, "throughput_bytes_per_s": data},
        "bytes by kind": {"throughput_read_bytes_per_s": data, "throughput_write_bytes_per_s": data // 3},
        "connection": {"connection.iops": iops // 2, "connection.requests_in_flight": rng.choice([4, 8])},
        "client": {"client.iops_read": read, "client.bandwidth_write_bytes_per_s": data // 2},
        "burst": {"iops": rng.randrange(400, 1000)},
        "servers": {},
    }
    burst = Burst(value=rng.randrange(2000, 3000), credits=2000) if family == "burst" else None
    servers = Parallelism(servers=rng.choice([2, 4, 8]), service_ns=rng.choice([1, 2, 4]) * MILLISECOND_NS)
    parallelism = servers if family == "servers" else None
    return Limits(caps=caps(named[family], burst), latency=latency, parallelism=parallelism)


PUBLISHED = {"anf-standard": (1024, 2048, 4096), "anf-premium": (256, 512, 1024), "azure-files-v1": (100, 500)}
FAMILIES = (*PUBLISHED, "joint", "by kind", "bytes by kind", "connection", "client", "burst", "servers")


def _fio(rng: random.Random) -> str:
    words = [
        "--name=drawn --size=4m --ioengine=libaio --direct=1 --time_based --runtime=2 --ramp_time=1 --group_reporting",
        f"--rw={rng.choice(['randread', 'randwrite', 'randrw', 'read', 'write', 'rw'])}",
        f"--rwmixread={rng.choice([30, 50, 70])} --bs={rng.choice(['4k', '8k', '16k', '64k'])}",
        f"--iodepth={rng.choice([1, 2, 4, 8, 16, 32])} --numjobs={rng.choice([1, 1, 2, 4])}",
    ]
    if "rw=rand" in words[1] and "rw=randrw" not in words[1] and rng.random() < 0.5:
        words.append(rng.choice(["--rate_process=poisson", "--rate_process=linear"]))
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


def _native(rng: random.Random) -> str:
    reads = rng.choice([20, 40, 60, 80])
    return (
        f'[[job]]\nname = "drawn"\nengine = "uring"\ndirect = true\npaths = ["drawn"]\nsize = "8MiB"\n'
        f'bs = "{rng.choice([4, 8, 32])}KiB"\niodepth = {rng.choice([2, 8, 24])}\nnumjobs = {rng.choice([1, 2, 3])}\n'
        f'reads = true\nwrites = true\nread_percent = {reads}\ntime_based = true\nruntime = "2s"\nramp_time = "1s"\n'
    )


def _elbencho(rng: random.Random) -> str:
    return (
        f"-w --rand -t {rng.choice([1, 2, 4])} --iodepth {rng.choice([1, 4, 16])} --direct "
        f"-b {rng.choice(['4k', '16k', '64k'])} -s 8m --infloop --timelimit 2 drawn"
    )


DIALECTS: dict[str, Callable[[random.Random], str]] = {
    "fio": _fio,
    "vdbench": _vdbench,
    "diskspd": _diskspd,
    "native": _native,
    "elbencho": _elbencho,
}


# ---- lines that were written by others


GOLDEN, DATA = Path("tests/golden").resolve(), Path("tests/data").resolve()
SHORT_NS, IDLE_NS = 2 * SECOND_NS, SECOND_NS // 2
FILE_BYTES = 8 * MIB
WORKERS_MAX = 16


STAND_INS = ("old.dat", "existing", "sdx")
"""Files that the lines expect, or that stand for devices."""


def corpus(directory: Path) -> Iterator[tuple[str, list[str]]]:
    """Dialect and words of each command line of the tests' data and of the examples in docs, in an empty directory."""
    for source in (GOLDEN / "fio", GOLDEN / "diskspd"):
        shutil.copytree(source, directory, dirs_exist_ok=True)
    for name in STAND_INS:
        with (directory / name).open("wb") as file:
            file.truncate(8 * FILE_BYTES)
    for dialect in ("fio", "diskspd"):
        for path in sorted((GOLDEN / dialect).glob("*.args")):
            yield dialect, shlex.split(_placed(path.read_text(encoding="utf-8")))
    for path in sorted([*(GOLDEN / "vdbench").glob("*.parm"), *(DATA / "vdbench").glob("*.parm")]):
        yield "vdbench", ["-f", str(path)]
    for path in sorted((DATA / "fio").rglob("*.fio")):
        yield "fio", [str(path)]
    yield "native", [str(DATA / "native" / "job.toml")]
    for page in sorted(Path("docs").glob("*.md")):
        for line in page.read_text(encoding="utf-8").replace("\\\n", " ").splitlines():
            found = re.match(r"(?:\$ )?iocurve (fio|vdbench|diskspd|elbencho) (.*)", line)
            if found and not re.search(r"[<>|…$&]", found[2]):
                yield found[1], shlex.split(_placed(found[2]), comments=True)


def _placed(words: str) -> str:
    """A command line on files of the directory."""
    return re.sub(r"/dev/\w+", "sdx", re.sub(r"/mnt/\w+/?", "./", words))


def loads() -> tuple[list[tuple[str, Group]], Counter[str]]:
    """The loads of the corpus that are predicted, shrunk; and why others are not, with their number."""
    found, reasons = [], Counter[str]()
    with tempfile.TemporaryDirectory() as made:
        os.environ["BLOCK"] = "64k"
        lines = list(corpus(Path(made)))
        planned = [_plans(dialect, words, Path(made)) for dialect, words in lines]
    for (dialect, _), plans in zip(lines, planned, strict=True):
        reasons.update(["files, hosts or processors that are not here"] if plans is None else [])
        for group in (group for plan in plans or () for group in plan.groups):
            refused = {reason for worker in group.workers for _, reason in unpredictable(worker)}
            if refused or len(group.workers) > WORKERS_MAX:
                reasons.update(refused or {f"more than {WORKERS_MAX} workers"})
            else:
                found.append((dialect, group.replace(workers=tuple(map(shrunk, group.workers)))))
    return found, reasons


def _plans(dialect: str, words: list[str], directory: Path) -> tuple[Plan, ...] | None:
    """None for a line that needs what is not on this machine."""
    try:
        return tuple(_dialect(dialect).prepare(words, cwd=directory).plans())
    except IocurveError:
        return None


def shrunk(worker: Worker) -> Worker:
    """The same load on small files, for two seconds."""
    files = tuple(
        file.replace(bytes=min(file.bytes, FILE_BYTES), offset_bytes=0, layout="fill", keep=False)
        for file in worker.files[:1]
    )
    end = End(runtime_ns=SHORT_NS, bytes=None, operations=None)
    timed = worker.replace(
        files=files, end=end, start_delay_ns=0, ramp_ns=SHORT_NS // 2, verify=None, log=None, cpus=()
    )
    return timed.replace(disk=None)


def from_corpora(seed: int, count: int, lines: list[tuple[str, Group]]) -> Iterator[Drawn]:
    """Loads of the corpus on service levels, both by the seed."""
    rng = random.Random(seed)
    for number in range(count):
        family = FAMILIES[number % len(FAMILIES)]
        dialect, group = rng.choice(lines)
        yield Drawn(family, drawn_limits(family, rng), dialect, group, rng.choice([1, 1, 2, 4]))


# ---- measuring


Measure = Callable[[Drawn, Limits], tuple[Prediction, Point, float]]
"""Gives the prediction, the run, and the share of the time for which threads of load and target were starved."""


def in_simulation(one: Drawn, limits: Limits) -> tuple[Prediction, Point, float]:
    """The prediction, and a run in simulated time."""
    plan = on_export(one, ADDRESS)
    with simulated(case_of(_unlimited(limits)), 1, beside_hogs=False) as server:
        idle = server.run(_one_at_a_time(plan))
    with simulated(case_of(limits), 1, beside_hogs=False) as server:
        point = server.run(plan)
    return forward(plan.groups[0], service_of(limits, idle)), point, 0.0


def _lengthened(worker: Worker) -> Worker:
    """Random arrivals over a time in which chance changes their number little. The simulated server reads one rate."""
    (first, *others) = worker.operations
    rate = worker.rate or first.rate
    if rate is None or (others and first.rate):
        return worker
    count = rate.count / (block_bytes_mean(first.blocks) if rate.unit == "bytes" else 1)
    needed_ns = round(ARRIVALS * rate.per_ns / count) if rate.arrivals == "poisson" else 0
    end = worker.end.replace(runtime_ns=max(worker.end.runtime_ns or 0, needed_ns))
    return worker.replace(rate=rate, operations=(first.replace(rate=None), *others), end=end)


def case_of(limits: Limits) -> Case:
    """The limits as a case of the simulated server."""
    return Case(limits=tuple(_limit_texts(limits)), binding=(), right=frozenset())


def _limit_texts(limits: Limits) -> Iterator[str]:
    """The limits as the simulated server reads them, in the order of a request."""
    for cap in limits.caps:
        per = {"volume": "s", "client": "a", "connection": "c"}[cap.scope]
        counts = f"of={cap.kind[0]},per={per}"
        if cap.quantity == "requests":
            # No drawn job has more in flight on a connection than the simulated server can count.
            if cap.value <= COUNTED_MAX:
                yield f"in_flight,count={cap.value},{counts}"
            continue
        unit = "b" if cap.quantity == "bytes_per_s" else "o"
        if limits.window_ns and cap.scope == "volume":
            yield f"window,unit={unit},rate={cap.value},period_ms={limits.window_ns / MILLISECOND_NS},{counts}"
            continue
        credits = cap.burst.credits if cap.burst else 0
        yield f"bucket,unit={unit},rate={cap.value},burst={credits + max(1, cap.value // SAVED)},{counts}"
        if cap.burst:
            yield f"bucket,rate={cap.burst.value},burst={max(1, cap.burst.value // SAVED)},{counts}"
    if speed := limits.parallelism:
        bytes_text = f",us_per_kib={speed.per_kib_ns / 1000}"
        yield f"stations,count={speed.servers},service=constant:{speed.service_ns / 1000}{bytes_text}"
    of_kinds = (
        (("r", limits.latency), ("w", limits.write_latency)) if limits.write_latency else (("a", limits.latency),)
    )
    for kind, latency in of_kinds:
        if latency.base_ns or latency.per_kib_ns:
            yield f"delay,service=constant:{latency.base_ns / 1000},us_per_kib={latency.per_kib_ns / 1000},of={kind}"
        if isinstance(varying := latency.distribution, Lognormal):
            mean_us = (latency.mean_ns - latency.base_ns) / 1000
            yield f"delay,service=lognormal:{mean_us}:{varying.sigma},of={kind}"


def on_export(one: Drawn, url: str) -> Plan:
    """The plan of a job on an NFS export."""
    engine = NfsEngine(mount=NfsTarget.of(url).mount(one.nconnect))
    workers = [
        worker.replace(engine=engine, files=tuple(_filled(file, number) for file in worker.files))
        for number, worker in enumerate(map(_lengthened, one.group.workers))
    ]
    return Plan(name="drawn", interval_ns=SECOND_NS, groups=(one.group.replace(workers=tuple(workers)),))


def _filled(file: FilePlan, number: int) -> FilePlan:
    return file.replace(path=f"drawn-{number}", layout="fill", keep=True)


def _unlimited(limits: Limits) -> Limits:
    """The same target without its caps, as an operation finds it that none came before."""
    return limits.replace(caps=())


def _one_at_a_time(plan: Plan) -> Plan:
    worker = plan.groups[0].workers[0]
    alone = worker.replace(depth=1, rate=None, ramp_ns=0, end=worker.end.replace(runtime_ns=IDLE_NS))
    return plan.replace(groups=(plan.groups[0].replace(workers=(alone,)),))


def service_of(limits: Limits, idle: Point) -> ModelledTarget:
    """The service level, with the latency that one operation at a time found."""
    servers = limits.parallelism.service_ns if limits.parallelism else 0
    # Half of the operations are faster: one that had to wait for a processor is no matter.
    latency = AddedLatency(base_ns=max(0, round((idle.figures.p50_us or 0) * 1000) - servers))
    return ModelledTarget(name="unlimited", limits=limits.replace(latency=latency))


def profile_of(limits: Limits) -> str:
    """The limits as a profile."""
    lines = ['title = "drawn"']
    for cap in limits.caps:
        key = "base" if cap.scope == "volume" else "value"
        value = cap.value // MIB if cap.quantity == "bytes_per_s" else cap.value
        lines += [f"[{cap.figure}]", f"{key} = {value}"]
    if limits.burst:
        iops = limits.value("iops") or 0
        seconds = max(1, round(limits.burst.credits / (limits.burst.value - iops)))
        lines += ["[burst_iops]", f"base = {limits.burst.value}", f"credits_for_s = {seconds}"]
    if servers := limits.parallelism:
        lines += ["[parallelism]", f"servers = {servers.servers}", f"service_us = {servers.service_ns // 1000}"]
    return "\n".join([*lines, "[latency_us]", f"value = {limits.latency.base_ns // 1000}"])


def served_limits(limits: Limits) -> Limits:
    """The limits that the profile really has: whole MiB/s, whole seconds of credits."""
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
        file.write(profile_of(limits))
        file.flush()
        return profile_limits.resolve(file.name, 1024 * GIB)


@cache
def _volume() -> iocurve.Volume:
    """A volume of this process; it ends with it."""
    return iocurve.Volume(profile="unlimited", quota="1TiB").__enter__()


def live(one: Drawn, limits: Limits) -> tuple[Prediction, Point, float]:
    """The prediction, and a run on the embedded volume, by the limits that the volume really has."""
    limits, plan = served_limits(limits), on_export(one, _volume().url)

    def measured(limits: Limits, plan: Plan) -> Point:
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "drawn.toml"
            path.write_text(profile_of(limits), encoding="utf-8")
            _volume().set(profile=str(path))
            return iocurve.run(plan).points[0]

    idle, point = measured(_unlimited(limits), _one_at_a_time(plan)), measured(limits, plan)
    use = point.machine
    delay = (use.thread_delay_share or 0.0) + (use.target_delay_share or 0.0) if use else math.inf
    return forward(plan.groups[0], service_of(limits, idle)), point, delay


def compared(one: Drawn, measure: Measure) -> Compared:
    """One job, predicted and measured."""
    predicted, point, delay = measure(one, one.limits)
    iops, latency_ns = point.figures.iops or 0, (point.figures.mean_us or 0) * 1000
    asked = (predicted.requested_iops or 0) * 0.95
    if predicted.binds == REQUESTED:
        return Compared(one, predicted, iops, latency_ns, iops >= asked, delay)
    limits = one.limits
    for name in (predicted.binds, *predicted.near):
        limits = _relaxed(limits, name)
    raised, again, later = measure(one, limits)
    found = Compared(one, predicted, iops, latency_ns, None, max(delay, later))
    if REQUESTED in predicted.near:
        return found._replace(is_named_right=(again.figures.iops or 0) >= asked)
    if raised.iops < predicted.iops * ROSE * ROSE:
        return found
    return found._replace(is_named_right=(again.figures.iops or 0) >= iops * ROSE)


def all_compared(jobs: Iterable[Drawn], measure: Measure, at_once: int) -> list[Compared]:
    """All jobs in their order; a job that was starved is repeated with half as many at once, and at last alone."""
    drawn = list(jobs)
    found: dict[int, Compared] = {}
    while starved := [number for number in range(len(drawn)) if number not in found or found[number].is_starved]:
        chosen = [drawn[number] for number in starved]
        for number, one in zip(starved, _compared_at_once(chosen, measure, at_once), strict=True):
            found[number] = min(one, found.get(number, one), key=lambda one: one.delay)
        if at_once == 1:
            break
        at_once //= 2
    return [found[number] for number in range(len(drawn))]


def _compared_at_once(jobs: Sequence[Drawn], measure: Measure, at_once: int) -> list[Compared]:
    if at_once == 1:
        return [compared(one, measure) for one in jobs]
    # Each process has a volume, which ends with it.
    with ProcessPoolExecutor(at_once, get_context("spawn")) as pool:
        return list(pool.map(partial(compared, measure=measure), jobs))


def _relaxed(limits: Limits, name: str) -> Limits:
    """The limits, with the one of a name a quarter higher."""
    servers = limits.parallelism
    faster = servers and servers.replace(service_ns=round(servers.service_ns / RAISED))
    if name == IN_FLIGHT:
        latency = AddedLatency(base_ns=round(limits.latency.base_ns / RAISED))
        return limits.replace(latency=latency, parallelism=faster)
    if name == SERVERS:
        return limits.replace(parallelism=faster)

    def raised(cap: Cap) -> Cap:
        is_it = name.endswith(f"{cap.scope}'s {cap.replace(scope='volume').text}")
        burst = cap.burst and cap.burst.replace(value=round(cap.burst.value * RAISED))
        return cap.replace(value=round(cap.value * RAISED), burst=burst) if is_it else cap

    return limits.replace(caps=tuple(map(raised, limits.caps)))


# ---- lines of public pages


LINES = DATA / "published_lines.tsv"


def published() -> Iterator[str]:
    """The lines of public pages, predicted on the service that they were written for, as Markdown."""
    yield "| page | service | line | published | predicted | ratio | binds | remark |"
    yield "| --- | --- | --- | ---: | ---: | ---: | --- | --- |"
    with LINES.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    for row in rows:
        words = [*row["service"].split(), "--json"]
        command = [sys.executable, "-m", "iocurve", "predict", *shlex.split(row["command"].replace("&", "\\&")), *words]
        ran = subprocess.run(command, cwd=GOLDEN / "fio", capture_output=True, text=True, check=True, timeout=60)
        figures = json.loads(ran.stdout)[0]["figures"]
        value = figures["iops"] if row["unit"] == "IOPS" else figures["bytes_per_s"] / MIB
        bounds = [float(bound) for bound in row["published"].split("-") if bound]
        ratio = value / min(
            max(value, bounds[0]), bounds[-1] if len(bounds) > 1 or "-" not in row["published"] else value
        )
        stated = " to ".join(f"{bound:,.0f}" for bound in bounds) + (
            " or more" if row["published"].endswith("-") else ""
        )
        binds = ", ".join((figures["binds"], *figures["near"]))
        yield (
            f"| {row['page']} | `{row['service']}` | `{row['command']}` | {stated} {row['unit']} | {value:,.0f} | "
            f"{ratio:.2f} | {binds} | {row['remark']} |"
        )


# ---- the table


WORST = 10
"""Jobs that the table shows."""


def counts(found: list[Compared]) -> Iterator[str]:
    """The results by family as Markdown, those of all, and of jobs that were CPU-starved."""
    yield "| service level | jobs | rate within 5 % | latency within 15 % | limit right | wrong | too near to tell |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: | ---: |"
    idle, starved = ([one for one in found if one.is_starved is is_so] for is_so in (False, True))
    rows = {family: [one for one in idle if one.drawn.family == family] for family in FAMILIES}
    for family, ours in {**rows, "all": idle, "CPU-starved": starved}.items():
        if not ours:
            continue
        names = Counter(one.is_named_right for one in ours)
        rates = sum(abs(one.rate_error) <= 0.05 for one in ours)
        latencies = sum(abs(one.latency_error) <= 0.15 for one in ours)
        yield (
            f"| {family} | {len(ours)} | {rates / len(ours):.0%} | {latencies / len(ours):.0%} | {names[True]} | "
            f"{names[False]} | {names[None]} |"
        )


def worst(found: list[Compared]) -> Iterator[str]:
    """The worst results as Markdown."""
    columns = "predicted IOPS | measured | error | predicted latency | measured | error | name"
    yield f"| service level | dialect | binds | {columns} | waited for a processor |"
    yield "| --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | --- | ---: |"
    for one in sorted(found, key=lambda one: -one.error)[:WORST]:
        latency = (one.predicted.latency_ns or 0) / MILLISECOND_NS
        named = {True: "right", False: "wrong", None: "open"}[one.is_named_right]
        yield (
            f"| {one.drawn.family} | {one.drawn.dialect} | {', '.join((one.predicted.binds, *one.predicted.near))} | "
            f"{one.predicted.iops:,.0f} | "
            f"{one.iops:,.0f} | {one.rate_error:+.1%} | {latency:.2f} ms | {one.latency_ns / MILLISECOND_NS:.2f} ms | "
            f"{one.latency_error:+.1%} | {named} | {one.delay:.1%} |"
        )


def tables(jobs: Iterable[Drawn], measure: Measure = in_simulation, at_once: int = 1) -> Iterator[str]:
    """Counts and worst results of jobs, as Markdown."""
    found = all_compared(jobs, measure, at_once)
    yield from counts(found)
    yield f"\nThe worst {min(WORST, len(found))}:\n"
    yield from worst(found)


PAGE = Path("docs/evidence/predictions.md")
INTRODUCTION = """# Predictions, and what was measured

`python -m bench.predict --page` writes this page. Each job is predicted on a service level drawn by a seed, and then
served in simulated time by a program that shares no code with the model, so the load of the machine has no effect. The
binding limit is named right if the rate rises once that limit, with those that the prediction calls within 10 % of it,
is raised by a quarter; it is "too near to tell" where another limit keeps the rate from rising by a tenth. Three
of the ten kinds of service level are published ones.
"""


def write_page(seed: int, count: int) -> None:
    """Writes the page of evidence."""
    lines, reasons = loads()
    why = "; ".join(f"{reason} ({number})" for reason, number in reasons.most_common())
    parts = [
        INTRODUCTION,
        "## Drawn jobs\n",
        f"{count} jobs of five dialects, drawn by a seed.\n",
        *tables(drawn(seed, count)),
        "\n## Lines that were written by others\n",
        f"{count} loads drawn from {len(lines)} of the command lines of `tests/golden`, `tests/data` and docs, on",
        f"files of {FILE_BYTES // MIB} MiB for two seconds. Loads that are not predicted, by reason: {why}.\n",
        *tables(from_corpora(seed, count, lines)),
        "\n## Lines of public pages\n",
        "Predicted without a latency, so rates are upper bounds. Limits of connections, and of operations on a volume,",
        "are fitted to other pages than those of the first ten rows. All pages are of learn.microsoft.com.\n",
        *published(),
    ]
    _write_part("\n".join(parts) + "\n", after=False)


def write_live(seed: int, count: int, at_once: int) -> None:
    """Writes the jobs on the embedded volume at the end of the page of evidence."""
    began, cpus = time.monotonic(), len(os.sched_getaffinity(0))
    made = "\n".join(tables(from_corpora(seed, count, loads()[0]), live, at_once))
    minutes = (time.monotonic() - began) / 60
    text = (
        f"{count} loads of the same command lines (`--live --page --jobs {count} --seed {seed}`), run by iocurve's\n"
        f"engine on the embedded volume, {at_once} at once on {cpus} processors, in {minutes:.0f} minutes. Loads\n"
        f"are CPU-starved if threads of load and volume waited for a processor for {STARVED:.0%} of the time or more,\n"
        "also when the load was repeated alone; the rows of the service levels are without them.\n"
    )
    _write_part(f"{text}\n{made}\n", after=True)


def _write_part(text: str, *, after: bool) -> None:
    """Replaces what is before or after the title of the live jobs."""
    heading = "\n## On the embedded volume\n\n"
    before, title, rest = PAGE.read_text(encoding="utf-8").partition(heading)
    PAGE.write_text(before + heading + text if after else text + title + rest, encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=240)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--live", action="store_true")
    parser.add_argument("--corpora", action="store_true", help="lines that were written by others")
    parser.add_argument("--published", action="store_true", help="lines of public pages")
    parser.add_argument("--page", action="store_true", help="write the tables to docs/evidence; --live: its own")
    parser.add_argument("--at-once", type=int, default=2 * len(os.sched_getaffinity(0)), help="jobs with --live")
    options = parser.parse_args()
    if options.page and options.live:
        write_live(options.seed, options.jobs, options.at_once)
        return
    if options.page:
        write_page(options.seed, options.jobs)
        return
    if options.published:
        print("\n".join(published()))
        return
    jobs = drawn(options.seed, options.jobs)
    if options.corpora:
        jobs = from_corpora(options.seed, options.jobs, loads()[0])
    print("\n".join(tables(jobs, live, options.at_once) if options.live else tables(jobs)))


if __name__ == "__main__":
    main()

"""The limit of a target that says nothing of itself is found by changes of the load, on targets that are computed."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import pytest

from data import synthetic
from data.synthetic import kind, outcome, worker_outcome, worker_plan
from iocurve.analysis.fingerprints import Response, response
from iocurve.cli import main
from iocurve.engine.derived import block_bytes_min
from iocurve.engine.outcome import KindOutcome
from iocurve.engine.plan import FilePlan, FixedBlocks, NfsEngine, Plan, Rate, Worker
from iocurve.measure import variations
from iocurve.measure.confirm import EXPERIMENTS, Experiment, judged, run_experiment
from iocurve.measure.variations import Variation
from iocurve.measure.why import Probes, diagnose
from iocurve.result.document import RESULT_NAME, MachineUse, Point, TargetFacts
from iocurve.units import KIB, MIB, MILLISECOND_NS, SECOND_NS

SILENT = TargetFacts(kind="nfs", address="nfs://server/vol")
QUIET = MachineUse(busy_share=0.1, cpus=2, own_share=0.05, others_share=0.05, steal_share=0.0, thread_delay_share=0.0)


@dataclass
class Computed:
    """A target with a latency and at most one limit; what a load gets is computed."""

    latency_ns: int = 100_000
    throughput: int | None = None
    iops: int | None = None
    only: str | None = None
    """Throughput and IOPS hold for this kind alone."""
    client: int | None = None
    """Bytes per second of each client."""
    client_iops: int | None = None
    """Operations per second of each client."""
    connection: int | None = None
    """Bytes per second of each connection."""
    slots: int | None = None
    """Requests in flight of each connection."""
    servers: int | None = None
    held_up: Callable[[int], float] = lambda _: 1.0
    """By the number of the run: the part of its rate that this machine lets through."""
    runs: int = 0
    changed: list[Plan] = field(default_factory=list)

    def run(self, plan: Plan) -> Point:
        """One second of a load."""
        part = self.held_up(self.runs)
        self.runs += 1
        self.changed.append(plan)
        workers = plan.groups[0].workers
        iops = self._iops(workers) * part
        depth = sum(worker.depth for worker in workers)
        latency_ns = self._burst_latency_ns(workers[0]) or round(depth / iops * SECOND_NS)
        outcomes = []
        for number, worker in enumerate(workers):
            share = worker.depth / depth
            weights = sum(one.share for one in worker.operations)
            shares: dict[str, float] = {one.kind: one.share / weights for one in worker.operations}
            counts = {name: round(iops * share * of_kind) for name, of_kind in shares.items()}
            block = block_bytes_min(worker.operations[0].blocks)
            kinds: dict[str, KindOutcome] = {name: kind({latency_ns: count}, block) for name, count in counts.items()}
            outcomes.append(worker_outcome(kinds, number=number))
        machine = QUIET.replace(others_share=0.3) if part < 1 else QUIET
        return Point(name="p", family="f", axes={}, plan=plan, outcome=outcome(*outcomes), machine=machine)

    def _iops(self, workers: tuple[Worker, ...]) -> float:
        (operation, *others) = workers[0].operations
        block = block_bytes_min(operation.blocks)
        share = 0.5 if others else 1.0 if self.only in (None, operation.kind) else 0.0
        depth = sum(worker.depth for worker in workers)
        connections = sum(one.engine.mount.nconnect for one in workers if isinstance(one.engine, NfsEngine))
        clients = len({one.engine.mount.source for one in workers if isinstance(one.engine, NfsEngine)})
        in_service = min(depth, self.slots * connections if self.slots else depth, self.servers or depth)
        found = [in_service / self.latency_ns * SECOND_NS]
        of_kind = 1.0 if self.only is None else share
        found += [self.throughput / block / of_kind] if self.throughput and of_kind else []
        found += [self.iops / of_kind] if self.iops and of_kind else []
        found += [self.client * clients / block] if self.client else []
        found += [self.client_iops * clients] if self.client_iops else []
        found += [self.connection * connections / block] if self.connection else []
        return min(found)

    def _burst_latency_ns(self, worker: Worker) -> int | None:
        """Half of a burst is done: from saved-up tokens at once, by servers one after another."""
        if worker.think is None:
            return None
        return self.latency_ns if self.servers is None else self.latency_ns * max(1, worker.depth // self.servers // 2)


def load(kind_name: str = "read", block: int = 64 * KIB, depth: int = 32, *, own: bool = True) -> Plan:
    worker = worker_plan([(kind_name, 100)], block_bytes=block, depth=depth, nconnect=1)
    file = FilePlan(path="f", offset_bytes=0, bytes=MIB, layout="fill" if own else "existing", keep=False)
    return synthetic.plan([worker.replace(files=(file,))])


TARGETS: tuple[tuple[Computed, Plan, str, str], ...] = (
    (Computed(throughput=40 * MIB), load(), "volume_throughput", "at a limit of about 40 MiB/s"),
    (
        Computed(throughput=40 * MIB, only="read"),
        load(),
        "volume_read_throughput",
        "at a limit of about 40 MiB/s on reads",
    ),
    (
        Computed(throughput=40 * MIB, only="write"),
        load("write"),
        "volume_write_throughput",
        "at a limit of about 40 MiB/s on writes",
    ),
    (Computed(iops=1500), load(), "volume_iops", "at a limit of about 1,500 IOPS"),
    (Computed(iops=1500, only="read"), load(), "volume_read_iops", "at a limit of about 1,500 IOPS on reads"),
    (
        Computed(iops=1500, only="write"),
        load("write"),
        "volume_write_iops",
        "at a limit of about 1,500 IOPS on writes",
    ),
    (
        Computed(client=30 * MIB),
        load(),
        "client_read",
        "at a limit of about 30 MiB/s that a client has for reads",
    ),
    (
        Computed(client=30 * MIB),
        load("write"),
        "client_egress",
        "at a limit of about 30 MiB/s that a client has for writes",
    ),
    (
        Computed(client_iops=1500),
        load(),
        "client_iops",
        "at a limit of about 1,500 IOPS that a client has for reads",
    ),
    (
        Computed(connection=30 * MIB),
        load(),
        "connection_throughput",
        "at a limit of about 30 MiB/s that a connection has",
    ),
    (
        Computed(latency_ns=2_000_000, slots=4),
        load(),
        "connection_requests",
        "at the operations that the server takes of a connection, at a time or per second",
    ),
    (
        Computed(latency_ns=2_500_000, servers=4),
        load(),
        "server_parallelism",
        "at the server's own speed, about 1,600 IOPS",
    ),
    (
        Computed(latency_ns=2_000_000),
        load(depth=4),
        "depth",
        "at the requested depth, 4 in flight: more gives more",
    ),
)


@pytest.mark.parametrize(("target", "plan", "code", "text"), TARGETS)
def test_each_limit_is_found_by_what_changes_the_rate(target: Computed, plan: Plan, code: str, text: str) -> None:
    found, _ = diagnose(plan, SILENT, target.run)
    assert (found.code, found.text, found.confidence) == (code, text, "likely")
    assert found.evidence


def test_a_limit_that_the_load_itself_states_needs_no_change() -> None:
    rate = Rate(unit="operations", count=500, per_ns=SECOND_NS)
    target = Computed(iops=500)
    paced = load()
    worker = paced.groups[0].workers[0].replace(rate=rate)
    found, _ = diagnose(paced.replace(groups=(paced.groups[0].replace(workers=(worker,)),)), SILENT, target.run)
    assert (found.code, target.runs) == ("rate", 1)


def test_files_of_others_are_never_written() -> None:
    target = Computed(throughput=40 * MIB)
    found, _ = diagnose(load(own=False), SILENT, target.run)
    assert found.code == "volume_throughput"
    assert "reads and writes were not mixed: it may hold for one of them" in found.evidence
    kinds = {one.kind for plan in target.changed for worker in plan.groups[0].workers for one in worker.operations}
    assert kinds == {"read"}


def test_a_load_that_was_held_up_is_repeated() -> None:
    """The first run gets a tenth of its rate: no change explains ten times as much."""
    target = Computed(throughput=40 * MIB, held_up=lambda number: 0.1 if number == 0 else 1.0)
    found, base = diagnose(load(), SILENT, target.run)
    assert found.code == "volume_throughput"
    assert base.summary().mib_per_s == pytest.approx(40, rel=0.01)


def test_changes_that_are_always_held_up_leave_the_verdict_open() -> None:
    target = Computed(throughput=40 * MIB, held_up=lambda number: 0.3 + 0.7 * (number % 3 == 0))
    found, _ = diagnose(load(), SILENT, target.run)
    assert (found.code, found.confidence) == ("unknown", "none")


STARVED = QUIET.replace(busy_share=1.0, others_share=0.9, thread_delay_share=0.6)


def test_others_are_named_where_a_load_without_a_processor_varies() -> None:
    target = Computed(throughput=40 * MIB, held_up=lambda number: 0.5 + 0.1 * (number * 7 % 5))
    found, _ = diagnose(load(), SILENT, lambda plan: target.run(plan).replace(machine=STARVED))
    assert found.code == "foreign_cpu"


def test_a_limit_that_shows_in_spite_of_others_is_named() -> None:
    target = Computed(throughput=40 * MIB)
    found, _ = diagnose(load(), SILENT, lambda plan: target.run(plan).replace(machine=STARVED))
    assert found.code == "volume_throughput"


def test_credits_that_ran_out_stay_gone() -> None:
    """The rate falls and a repetition stays at the lower level; one that does not was held up."""
    target = Computed(iops=1000)
    falls = [
        synthetic.interval(number, number * SECOND_NS, (number + 1) * SECOND_NS, {"read": rate}, 64 * KIB)
        for number, rate in enumerate([3000] * 6 + [2000] + [1000] * 6)
    ]

    def run(plan: Plan) -> Point:
        point = target.run(plan)
        if target.runs > 1:
            return point
        workers = tuple(worker.replace(intervals=tuple(falls)) for worker in point.outcome.workers)
        return point.replace(outcome=point.outcome.replace(workers=workers))

    found, _ = diagnose(load(), SILENT, run)
    assert found.code == "burst_credits"
    assert found.text == "the rate fell 6 s into the measured time, as it does when burst credits run out"
    assert found.evidence == ("level at 3,000 IOPS before, level at 1,000 after",)
    target = Computed(iops=3000)
    found, _ = diagnose(load(), SILENT, run)
    assert found.code == "volume_iops"


# ---- variations


def applied(variation: Variation, plan: Plan) -> tuple[Worker, ...]:
    changed = variation.apply(plan)
    assert changed is not None
    return changed.groups[0].workers


def test_a_variation_changes_one_thing() -> None:
    plan = load(depth=8)
    (worker,) = plan.groups[0].workers
    assert applied(variations.DEEPER, plan) == (worker.replace(depth=16),)
    (halved,) = applied(variations.HALF_BLOCKS, plan)
    assert halved.operations[0].blocks == FixedBlocks(bytes=32 * KIB)
    (mixed,) = applied(variations.MIXED, plan)
    assert [(one.kind, one.share) for one in mixed.operations] == [("read", 50), ("write", 50)]
    (connected,) = applied(variations.MORE_CONNECTIONS, plan)
    assert isinstance(connected.engine, NfsEngine)
    assert (connected.engine.mount.nconnect, connected.depth) == (2, 8)
    clients = applied(variations.MORE_CLIENTS, plan)
    assert [(one.depth, one.engine.mount.source) for one in clients if isinstance(one.engine, NfsEngine)] == [
        (4, "127.0.1.1"),
        (4, "127.0.2.1"),
    ]
    (bursts,) = applied(variations.in_bursts(16, 1600), plan)
    assert bursts.think is not None
    assert (bursts.depth, bursts.think.every, bursts.think.pause_ns) == (16, 16, 25 * MILLISECOND_NS)


def test_a_load_that_cannot_be_varied_is_left_alone() -> None:
    plan = load()
    assert variations.FASTER.apply(plan) is None
    assert variations.THOUGHTLESS.apply(plan) is None
    assert variations.MIXED.apply(load(own=False)) is None
    assert variations.HALF_BLOCKS.apply(load(block=KIB)) is None
    local = synthetic.plan([worker_plan()])
    assert variations.MORE_CONNECTIONS.apply(local) is None
    assert variations.MORE_CLIENTS.apply(local) is None


# ---- confirmation


def ratio(value: float) -> Response:
    target = Computed(iops=1000)
    base = target.run(load())
    target.iops = round(1000 * value)
    return response("twice the depth", base, target.run(load()), SILENT)


@pytest.mark.parametrize(
    ("expects", "value", "outcome"),
    [
        ("more", 1.9, "confirmed"),
        ("more", 1.0, "refuted"),
        ("more", 1.3, "not told"),
        ("same", 1.0, "confirmed"),
        ("same", 1.9, "refuted"),
        ("same", 0.5, "not told"),
    ],
)
def test_an_experiment_confirms_or_refutes(expects: Literal["more", "same"], value: float, outcome: str) -> None:
    experiment = Experiment(variations.DEEPER, expects)
    assert judged(ratio(value), experiment) == outcome


def test_a_refuted_verdict_gives_way_to_the_limit_that_other_probes_find() -> None:
    target = Computed(throughput=40 * MIB)
    found = run_experiment(Probes(load(), SILENT, target.run, target.run(load())), EXPERIMENTS["depth"])
    assert (found.outcome, found.verdict and found.verdict.code) == ("refuted", "volume_throughput")
    assert found.evidence[0].startswith("twice the depth: 1.00 times the IOPS")
    assert found.evidence[1].startswith("half the block size: 2.00 times the IOPS")


def test_every_experiment_is_for_a_known_kind() -> None:
    from iocurve.analysis.limit_kinds import LIMIT_KINDS

    assert EXPERIMENTS.keys() <= LIMIT_KINDS.keys()


def test_why_prints_the_verdict_with_its_evidence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    synthetic.envelope().write(tmp_path / RESULT_NAME)
    with pytest.raises(SystemExit) as ended:
        main(["why", str(tmp_path), "--point", "64 KiB, 100 % reads"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == (
        "64 KiB, 100 % reads: MiB/s limit (certain): at the volume's limit of 512 MiB/s (ultra, 4 TiB)\n"
        "  512 MiB/s measured, 512 allowed (100.0%)\n"
        "  next: For more throughput, raise the quota (each TiB more gives 128 MiB/s at this level) or the service "
        "level. --unlimited shows what this machine itself carries.\n"
    )
    with pytest.raises(SystemExit) as ended:
        main(["why", str(tmp_path), "--json"])
    assert ended.value.code == 0
    rows = json.loads(capsys.readouterr().out)
    assert len(rows) == 26
    assert {"point", "family", "code", "confidence", "evidence", "next_step"} <= rows[0].keys()


def test_an_unknown_point_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    synthetic.fio_run().write(tmp_path / RESULT_NAME)
    with pytest.raises(SystemExit) as ended:
        main(["why", str(tmp_path), "--point", "nowhere"])
    assert ended.value.code == 2
    assert "--point nowhere: there is no such point; points: fioreadwrite.ini" in capsys.readouterr().err


@pytest.mark.slow
def test_a_verdict_is_tested_on_the_target_itself(tmp_path: Path) -> None:
    """A real run of seconds on its own files; the test does not check this machine's speed."""
    job = ["--name=r", "--rw=randread", "--bs=64k", "--size=4m", "--runtime=1", "--time_based", "--ioengine=psync"]
    place, out = tmp_path / "data", tmp_path / "out"
    place.mkdir()
    for command in (
        ["fio", *job, f"--directory={place}", f"--out={out}"],
        ["why", str(out), "--confirm", "--target", str(place), "--json"],
    ):
        ran = subprocess.run(
            [sys.executable, "-m", "iocurve", *command], capture_output=True, text=True, timeout=90, check=False
        )
        assert ran.returncode == 0, ran.stderr
    told = json.loads(ran.stdout)
    assert told["outcome"] in ("confirmed", "refuted", "not told")
    assert told["verdict_now"]["code"]
    assert [path.name for path in place.iterdir() if "why" in path.name] == []


# ---- noise


def noisy(seed: str, spread: float, stalls: float) -> Callable[[int], float]:
    """Each run gets a part of its rate that varies, and now and then a small part only."""
    chance = random.Random(seed)

    def held_up(_: int) -> float:
        part = min(1.02, max(0.05, chance.gauss(1, spread)))
        return part * (chance.uniform(0.2, 0.9) if chance.random() < stalls else 1.0)

    return held_up


@pytest.mark.slow
def test_noise_seldom_misleads() -> None:
    """One probe in ten loses 10 to 80 % of its rate, and nothing tells."""
    found: Counter[str] = Counter()
    for target, plan, code, _ in TARGETS:
        for seed in range(10):
            held_up = noisy(f"{code} {seed}", 0.05, 0.1)
            verdict, _ = diagnose(plan, SILENT, replace(target, held_up=held_up, runs=0, changed=[]).run)
            found["right" if verdict.code == code else "open" if verdict.code == "unknown" else "wrong"] += 1
    assert found.total() == 130
    assert found["right"] >= 124
    assert found["wrong"] <= 2

"""The limit of a target that says nothing of itself is found by changes of the load, on targets that are computed."""

import json
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Any, Literal

import pytest

from bench.limits.case import Case
from bench.limits.simulated import simulated
from data import synthetic
from data.synthetic import kind, worker_outcome, worker_plan
from goldens import cases, present, rows
from iocurve.analysis.fingerprints import Response
from iocurve.analysis.limit_kinds import LIMIT_KINDS, Experiment, Limit, kind_of, limit
from iocurve.analysis.limits import verdict_of
from iocurve.analysis.measured_load import MeasuredLoad
from iocurve.cli.commands import run
from iocurve.cli.dialects import run as run_dialect
from iocurve.engine.outcome import CpuTime
from iocurve.engine.plan import End, FilePlan, FixedBlocks, NfsEngine, Plan, Rate, Think, Worker
from iocurve.foundation.units import KIB, MIB, MILLISECOND_NS, SECOND_NS
from iocurve.measure import confirm, variations
from iocurve.measure.confirm import Confirmation, judged, run_experiment
from iocurve.measure.confirm import confirmation_of as probe_verdict
from iocurve.measure.variations import Variation
from iocurve.measure.why import Probes, diagnose
from iocurve.result.caps import Cap as StatedCap
from iocurve.result.document import MachineUse, Point, TargetFacts
from iocurve.result.document_file import RESULT_NAME
from programs import status_of

SILENT = TargetFacts(kind="nfs", address="nfs://server/vol")
QUIET = MachineUse(busy_share=0.1, cpus=2, own_share=0.05, others_share=0.05, steal_share=0.0, thread_delay_share=0.0)
DISTURBED = QUIET.replace(busy_share=0.4, others_share=0.3)
STARVED = QUIET.replace(busy_share=1.0, others_share=0.9, thread_delay_share=0.6)
RATE = 400
BLOCK = 64 * KIB
BYTES = RATE * BLOCK


def load(kind_name: str = "read", block: int = BLOCK, depth: int = 16, *, own: bool = True) -> Plan:
    worker = worker_plan([(kind_name, 100)], block_bytes=block, depth=depth, nconnect=1)
    file = FilePlan(path="f", offset_bytes=0, bytes=MIB, layout="fill" if own else "existing", keep=False)
    return synthetic.plan([worker.replace(files=(file,))])


def changed(plan: Plan, **fields: Any) -> Plan:
    workers = tuple(worker.replace(**fields) for worker in plan.groups[0].workers)
    return plan.replace(groups=(plan.groups[0].replace(workers=workers),))


LONGER = {"end": End(runtime_ns=2 * SECOND_NS, bytes=None, operations=None)}


DELAY = "delay,service=constant:200"
UNEVEN = "stations,count=4,service=exponential:10000"
ON_BYTES, ON_OPERATIONS = f"bucket,unit=b,rate={BYTES},burst={10 * BLOCK}", f"bucket,rate={RATE},burst=8"
SERVERS = ExitStack()


@pytest.fixture(autouse=True)
def _servers_end() -> Iterator[None]:
    with SERVERS:
        yield


class Target:
    """A server with limits in simulated time, which counts its runs."""

    def __init__(self, *limits: str) -> None:
        case = Case(limits=limits, binding=(), right=frozenset())
        self.server = SERVERS.enter_context(simulated(case, 1, beside_hogs=False))
        self.runs = 0

    def run(self, plan: Plan) -> Point:
        self.runs += 1
        return self.server.run(plan)

    def now(self) -> float:
        return self.server.clock_s


def mixed(percent: int) -> Plan:
    """A load of reads and writes, by the percentage of reads."""
    operations = [load(kind_name).groups[0].workers[0].operations[0] for kind_name in ("read", "write")]
    shares = zip(operations, (percent, 100 - percent), strict=True)
    return changed(load(), operations=tuple(one.replace(share=share) for one, share in shares))


@cases("analysis/limited_targets")
def test_each_limit_is_found_by_what_changes_the_rate(
    limits: list[str], said: dict[str, Any], code: str, text: str
) -> None:
    plan = mixed(**said) if "percent" in said else load(**said)
    found, _ = diagnose(plan, SILENT, Target(*limits).run)
    assert (found.code, found.confidence) == (code, "likely"), found
    assert re.fullmatch(text, found.text)
    assert found.evidence


@cases("analysis/bursts_of_limits")
def test_a_limit_on_operations_is_named_whatever_burst_it_allows(limit: str) -> None:
    found, _ = diagnose(load(), SILENT, Target(limit, DELAY).run)
    assert found.code == "volume_iops", found


def test_a_paced_limit_behind_a_long_latency_is_not_told_from_one_slow_server() -> None:
    """A delay and then one server of 1 / rate does just the same: two series of probes are enough to see it."""
    target = Target(f"bucket,rate={RATE},burst=1", "delay,service=constant:10000")
    found, _ = diagnose(load(), SILENT, target.run)
    assert (found.code, target.runs) == ("unknown", 13)
    assert found.text == "a limit on operations, or the server's own speed: bursts do not tell them apart"


def test_a_server_that_slows_down_under_load_has_no_limit_on_operations() -> None:
    """Four stations, each the slower the more is in flight: a few operations are always done sooner."""
    target = Target("stations,count=4,service=constant:4000,contention=0.2", DELAY)
    found, _ = diagnose(load(), SILENT, target.run)
    assert found.code in ("unknown", "server_parallelism")


def test_the_nearer_of_two_limits_is_named() -> None:
    target = Target(ON_BYTES, f"bucket,rate={1.4 * RATE},burst=8", DELAY)
    found, _ = diagnose(load(), SILENT, target.run)
    assert found.code == "volume_throughput"
    assert any(one.startswith("a quarter of the block size: 1.0") for one in found.evidence)


def test_a_limit_that_the_load_itself_states_needs_no_change() -> None:
    paced = changed(load(), rate=Rate(unit="operations", count=200, per_ns=SECOND_NS))
    target = Target(ON_OPERATIONS, DELAY)
    found, _ = diagnose(paced, SILENT, target.run)
    assert (found.code, target.runs) == ("rate", 1)


def test_files_of_others_are_never_written() -> None:
    target = Target(ON_BYTES, DELAY)
    kinds: set[str] = set()

    def run(plan: Plan) -> Point:
        kinds.update(one.kind for worker in plan.groups[0].workers for one in worker.operations)
        return target.run(plan)

    found, _ = diagnose(load(own=False), SILENT, run)
    assert found.code == "volume_throughput"
    assert "reads and writes were not mixed: it may hold for one of them" in found.evidence
    assert kinds == {"read"}


def held_up(part: Callable[[int], float]) -> Callable[[Plan], Point]:
    """Runs in which this machine lets a part of the rate through, by the number of the run."""
    target, numbers = Target(ON_BYTES, DELAY), count()

    def run(plan: Plan) -> Point:
        most = RATE * part(next(numbers))
        held = target if most >= RATE else Target(f"bucket,rate={most},burst=1", ON_BYTES, DELAY)
        return held.run(plan)

    return run


def test_a_load_that_was_held_up_is_repeated() -> None:
    """The first run gets a tenth of its rate: no change explains ten times as much."""
    found, base = diagnose(load(), SILENT, held_up(lambda number: 0.1 if number == 0 else 1.0))
    assert found.code == "volume_throughput"
    assert base.summary().mib_per_s == pytest.approx(25, rel=0.02)


def test_changes_that_are_always_held_up_leave_the_verdict_open() -> None:
    found, _ = diagnose(load(), SILENT, held_up(lambda number: 0.3 + 0.7 * (number % 3 == 0)))
    assert (found.code, found.confidence) == ("unknown", "none")


def test_others_are_named_where_a_load_without_a_processor_varies() -> None:
    run = held_up(lambda number: 0.5 + 0.1 * (number * 7 % 5))
    found, _ = diagnose(load(), SILENT, lambda plan: run(plan).replace(machine=STARVED))
    assert found.code == "cpu_contention"


@pytest.mark.parametrize(
    ("limits", "workers", "waited", "code", "runs"),
    [
        ([ON_BYTES], 1, 0.6, "volume_throughput", 7),
        # Few in flight are those of one worker, on its connection.
        ([ON_OPERATIONS, f"bucket,per=c,rate={0.7 * RATE},burst=8"], 2, 0.6, "volume_iops", 7),
        # Threads that hardly slept may be why the rate is the same, so two series agree.
        ([ON_OPERATIONS], 1, 0.8, "volume_iops", 15),
    ],
)
def test_a_limit_that_shows_in_spite_of_others_is_named(
    limits: list[str], workers: int, waited: float, code: str, runs: int
) -> None:
    """No run is repeated because others held the processors, as they do at each."""
    plan, target = synthetic.plan(load().groups[0].workers * workers), Target(*limits, DELAY)
    machine = STARVED.replace(thread_delay_share=waited)
    found, _ = diagnose(plan, SILENT, lambda plan: target.run(plan).replace(machine=machine))
    assert (found.code, found.confidence, target.runs) == (code, "likely", runs)


def test_credits_that_ran_out_return_after_a_rest() -> None:
    """The rate falls, a repetition stays at the lower level, and a rest brings the higher one back."""
    target = Target(f"bucket,rate={RATE},burst=600", f"bucket,rate={3 * RATE},burst=10", DELAY)
    found, _ = diagnose(changed(load(), **LONGER), SILENT, target.run)
    assert found.code == "burst_credits"
    assert re.match(r"the rate fell 0\.\d+ s into the measured time", found.text)


def test_a_server_that_slows_down_spends_no_credits() -> None:
    target = Target("stations,count=4,service=constant:5000,after=560,factor=0.5", DELAY)
    found, _ = diagnose(changed(load(), **LONGER), SILENT, target.run)
    assert found.code == "server_parallelism"


def test_little_time_gives_less_confidence_and_then_no_verdict() -> None:
    target = Target(UNEVEN)

    def disturbed(plan: Plan) -> Point:
        return target.run(plan).replace(machine=DISTURBED)

    found, _ = diagnose(load(), SILENT, disturbed, 15, target.now)
    assert (found.code, found.confidence, found.next_step) == ("server_parallelism", "possible", "")
    found, _ = diagnose(load(), SILENT, target.run, 3, target.now)
    assert (found.code, found.text) == ("unknown", "the time for probes was over before they could tell")


@pytest.mark.parametrize(
    ("limit", "code", "series"),
    [
        (UNEVEN, "server_parallelism", 2),
        ("delay,service=constant:5000", "depth", 1),
        (f"{ON_OPERATIONS},per=a", "client_iops", 1),
        (ON_BYTES, "volume_throughput", 1),
        (ON_OPERATIONS, "volume_iops", 1),
        ("stations,count=4,service=constant:10000", "server_parallelism", 1),
    ],
)
def test_two_series_of_probes_agree_unless_nothing_disturbs_one_or_it_shows_the_cause(
    limit: str, code: str, series: int
) -> None:
    """Delays double no rate, make no burst soon, and give its operations no waits in steps."""
    target = Target(limit, DELAY)
    quiet, _ = diagnose(load(), SILENT, target.run)
    runs = target.runs
    disturbed, _ = diagnose(load(), SILENT, lambda plan: target.run(plan).replace(machine=DISTURBED))
    assert quiet.code == disturbed.code == code
    assert (target.runs - runs > 1.5 * runs) is (series == 2)


@pytest.mark.parametrize(
    ("limit", "code", "runs"), [(ON_OPERATIONS, "volume_iops", 7), ("delay,service=constant:5000", "depth", 5)]
)
def test_a_quiet_machine_repeats_nothing(limit: str, code: str, runs: int) -> None:
    """A cap: the load, again without saved-up operations, more of all, half the blocks, a mix, bursts, their depth.

    A latency: the load, more of all, more depth, bursts, the load again.
    """
    target = Target(limit, DELAY)
    found, _ = diagnose(load(), SILENT, target.run)
    assert (found.code, target.runs) == (code, runs)


def test_rates_that_a_target_keeps_in_spite_of_stalls_are_equal() -> None:
    """Depth 16 at 1,000 IOPS, of which most take 13 ms; intervals at that rate, with stalls between them, or none."""

    def load_of(counts: list[int]) -> MeasuredLoad:
        kinds = {"read": kind({13_000_000: 900, 43_000_000: 100}, BLOCK)}
        cells = synthetic.intervals(counts, BLOCK, length_ns=SECOND_NS // 20)
        return MeasuredLoad(synthetic.point(load(), worker_outcome(kinds, intervals=cells), machine=DISTURBED), SILENT)

    made_up, stalled = load_of([50] * 20), load_of([62] * 16 + [2] * 4)
    assert [made_up.held_up, stalled.held_up] == pytest.approx([1, 1.23], abs=0.01)
    assert Response("the same", made_up, stalled).ratio == pytest.approx(1)


# ---- variations


def applied(variation: Variation, plan: Plan) -> tuple[Worker, ...]:
    changed = present(variation.apply(plan))
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
    sources = [(one.depth, one.engine.mount.source) for one in clients if isinstance(one.engine, NfsEngine)]
    assert sources == [(4, "127.0.1.1"), (4, "127.0.2.1")]
    (bursts,) = applied(variations.in_bursts(16, 1600), plan)
    assert bursts.think == Think(pause_ns=25 * MILLISECOND_NS, every=16, counts="issued")
    assert (bursts.depth, bursts.log is not None) == (16, True)


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


def ratio(value: float, spread: float = 0.0) -> Response:
    """A response with intervals of ten values on each side, the changed ones spread around the ratio."""

    def point(rates: list[float]) -> Point:
        counts = [round(rate / 20) for rate in rates]
        kinds = {"read": kind({1_000_000: sum(counts)}, BLOCK)}
        cells = synthetic.intervals(counts, BLOCK, length_ns=SECOND_NS // 20)
        return synthetic.point(load(), worker_outcome(kinds, intervals=cells), machine=QUIET)

    chance = random.Random(3)
    around = [1000 * value * (1 + spread * chance.uniform(-1, 1)) for _ in range(20)]
    base, other = MeasuredLoad(point([1000.0] * 20), SILENT), MeasuredLoad(point(around), SILENT)
    return Response("twice the depth", base, other)


@cases("analysis/experiments")
def test_an_experiment_confirms_or_refutes(
    expects: Literal["more", "same"], value: float, spread: float, outcome: str
) -> None:
    experiment = Experiment("depth", expects)
    assert judged(ratio(value, spread), experiment) == outcome


def confirmed(plan: Plan, target: Target, code: str | None = None) -> Confirmation:
    """The outcome of the experiment for the verdict on a load, or for one of a code."""
    base = target.run(variations.shortened(plan, SECOND_NS))
    said = limit(code, "said before", SILENT, confidence="likely") if code else verdict_of(base, SILENT)
    verdict = present(said)
    experiment = present(kind_of(verdict.code).experiment)
    return run_experiment(Probes(plan, SILENT, target.run, base), verdict, experiment)


def test_a_limit_is_confirmed_when_all_others_are_excluded() -> None:
    found = confirmed(load(), Target(ON_BYTES, DELAY), "volume_throughput")
    assert (found.outcome, found.verdict and found.verdict.text) == ("confirmed", "said before")
    excluded = [evidence.partition(", which excludes ")[2] for evidence in found.evidence]
    assert {name for one in excluded for name in one.split(", ") if name} == {
        "depth", "IOPS limit", "read MiB/s limit", "read IOPS limit",
        "connection's MiB/s", "connection's requests", "client's reads", "client's IOPS", "server's speed",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("limit", "code"),
    [("delay,service=constant:10000", "depth"), (f"{ON_OPERATIONS},per=c", "connection_requests")],
)
def test_a_busy_thread_is_refuted_by_what_more_threads_do_not_explain(limit: str, code: str) -> None:
    """More threads bring connections with them, and an idle latency fills a thread's time as well."""
    target = Target(limit, DELAY)

    def run(plan: Plan) -> Point:
        point = target.run(plan)
        busy = CpuTime(user_ns=0, system_ns=point.outcome.workers[0].window_end_ns, context_switches=0)
        workers = tuple(worker.replace(cpu=busy) for worker in point.outcome.workers)
        return point.replace(outcome=point.outcome.replace(workers=workers))

    before = present(verdict_of(run(load()), SILENT))
    assert (before.code, before.confidence) == ("generator", "likely")
    found = probe_verdict(load(), SILENT, run, before)
    assert (found.outcome, found.verdict and found.verdict.code) == ("refuted", code)


def test_a_stated_limit_is_confirmed_with_the_list_of_the_others() -> None:
    caps = (
        StatedCap(scope="volume", quantity="iops", value=RATE),
        StatedCap(scope="volume", quantity="bytes_per_s", value=2 * BYTES),
    )
    facts = TargetFacts(kind="embedded_volume", address="volume", caps=caps)
    target = Target(ON_OPERATIONS, DELAY)
    found = probe_verdict(load(), facts, target.run, verdict_of(target.run(load()), facts))
    assert found.outcome == "confirmed"
    assert found.evidence[1] == "the target states its limits, which excludes throughput (51% used)"


def test_a_verdict_that_is_only_possible_is_tested_by_all_probes() -> None:
    before = limit("volume_iops", "possibly", SILENT, confidence="possible")
    found = probe_verdict(load(), SILENT, Target("stations,count=4,service=exponential:4000").run, before)
    assert (found.outcome, found.verdict and found.verdict.code) == ("refuted", "server_parallelism")


@pytest.mark.parametrize("before", [None, limit("unknown", "inconclusive", SILENT)])
def test_a_limit_that_was_not_known_before_is_found_and_not_confirmed(before: Limit | None) -> None:
    found = probe_verdict(load(), SILENT, Target(ON_BYTES, DELAY).run, before)
    assert (found.outcome, found.verdict and found.verdict.code) == ("found", "volume_throughput")


PROBED = {
    "bytes": ON_BYTES,
    "bytes read": f"{ON_BYTES},of=r",
    "operations of a connection": f"{ON_OPERATIONS},per=c",
}


@cases("analysis/confirmations")
def test_a_verdict_is_tested_by_a_change_or_by_all_probes(
    said: dict[str, Any], limited: str, code: str, outcome: str, verdict: str, evidence: list[str]
) -> None:
    """``evidence`` are beginnings of what is found."""
    found = confirmed(load(**said), Target(PROBED[limited], DELAY), code)
    assert (found.outcome, found.verdict and found.verdict.code) == (outcome, verdict)
    assert [begin for begin in evidence if not any(one.startswith(begin) for one in found.evidence)] == []


def at_rate(count: int, **fields: Any) -> Plan:
    return changed(load(), rate=Rate(unit="operations", count=count, per_ns=SECOND_NS), **fields)


REQUESTED = {
    "rate": at_rate(380),
    "think_time": changed(load(depth=1), think=Think(pause_ns=4 * MILLISECOND_NS)),
    "group_rate": synthetic.plan(
        [at_rate(rate, report_group=group).groups[0].workers[0] for group, rate in enumerate((180, 200))]
    ),
}


@pytest.mark.parametrize(("code", "plan"), REQUESTED.items(), ids=REQUESTED)
def test_a_requested_load_is_confirmed_although_the_next_limit_is_near(code: str, plan: Plan) -> None:
    found = confirmed(plan, Target(ON_OPERATIONS, DELAY))
    assert (found.outcome, found.verdict and found.verdict.code) == ("confirmed", code)
    assert found.next_limit is not None
    assert (found.next_limit.code, found.next_limit.confidence) == ("volume_iops", "likely")


def test_a_rate_at_the_limit_is_refuted_by_that_limit() -> None:
    found = confirmed(at_rate(RATE), Target(ON_OPERATIONS, DELAY))
    assert (found.outcome, found.verdict and found.verdict.code) == ("refuted", "volume_iops")


def test_a_rate_far_below_all_limits_has_none_next_to_it() -> None:
    found = confirmed(at_rate(100), Target(ON_OPERATIONS, DELAY))
    assert (found.outcome, found.next_limit, found.evidence[1]) == ("confirmed", None, "no other limit up to there")


def test_every_experiment_is_a_known_change() -> None:
    experiments = [kind.experiment for kind in LIMIT_KINDS.values() if kind.experiment]
    changes = {change for one in experiments for change in (one.change, one.without) if change}
    assert changes == variations.NAMED.keys()


def test_why_prints_the_verdict_with_its_evidence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    synthetic.envelope().write(tmp_path / RESULT_NAME)
    assert status_of("why", str(tmp_path), "--point", "64 KiB, 100 % reads") == 0
    verdict, evidence, next_step = capsys.readouterr().out.splitlines()
    assert verdict.startswith("64 KiB, 100 % reads: MiB/s limit (certain): ")
    assert (evidence, next_step[:8]) == ("  512 MiB/s measured, 512 allowed (100.0%)", "  next: ")
    assert status_of("why", str(tmp_path), "--json") == 0
    rows = json.loads(capsys.readouterr().out)
    assert len(rows) == 26
    assert {"point", "series", "code", "confidence", "evidence", "next_step"} <= rows[0].keys()


def test_an_unknown_point_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    synthetic.fio_run().write(tmp_path / RESULT_NAME)
    assert status_of("why", str(tmp_path), "--point", "nowhere") == 2
    assert "--point nowhere: there is no such point; points: fioreadwrite.ini" in capsys.readouterr().err


@pytest.mark.slow
def test_a_verdict_is_tested_on_the_target_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Real runs on separate files; the test does not check this machine's speed."""
    monkeypatch.setattr(confirm, "RUNTIME_NS", SECOND_NS // 10)
    monkeypatch.setattr(confirm, "PATIENCE_S", 4.0)
    monkeypatch.setattr(confirm, "NEXT_S", 1.0)
    job = ["--name=r", "--rw=randread", "--bs=64k", "--size=4m", "--runtime=1", "--time_based", "--ioengine=psync"]
    place, out = tmp_path / "data", tmp_path / "out"
    place.mkdir()
    assert run_dialect("fio", [*job, f"--directory={place}", f"--out={out}"]) == 0
    capsys.readouterr()
    assert run(["why", str(out), "--confirm", "--target", str(place), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["outcome"] in ("confirmed", "refuted", "found", "inconclusive")
    assert told["verdict_now"]["code"]
    assert [path.name for path in place.iterdir() if "why" in path.name] == []


# ---- noise


@pytest.mark.slow
def test_noise_seldom_misleads() -> None:
    """The server stands still for 20 ms three times a second, and nothing tells."""
    found: Counter[str] = Counter()
    for _, limits, said, code, _ in rows("analysis/limited_targets")[::2]:
        plan = mixed(**said) if "percent" in said else load(**said)
        verdict, _ = diagnose(plan, SILENT, Target("pauses,period_ms=333,pause_ms=20", *limits).run)
        found["right" if verdict.code == code else "open" if verdict.code == "unknown" else "wrong"] += 1
    assert found["right"] >= 8
    assert found["wrong"] == 0

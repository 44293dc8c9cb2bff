"""iocurve prove: SLOs of profiles and contracts, and the verdicts on runs that are played."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from data import synthetic
from data.synthetic import VOLUME
from goldens import cases, data, matches
from iocurve.advice import proof_page, slos
from iocurve.advice.prove import JudgedSlo, Proof, ProofRequest, Prover, intervals_held
from iocurve.advice.slos import Agreement, Slo
from iocurve.cli import commands
from iocurve.cli.prove import SloOptions
from iocurve.foundation.errors import DialectError
from iocurve.foundation.units import GIB, KIB, MIB, MILLISECOND_NS, SECOND_NS, TIB, counted, format_duration
from iocurve.result.caps import Burst, Cap
from iocurve.result.document import Point, Result
from iocurve.targets import target as targets

CONTRACT = data("advice/contract.toml")
IOPS = Slo(
    name="IOPS",
    measure="iops",
    bound=10_000,
    workload="rw=randread bs=4k",
    block_bytes=4 * KIB,
    kind="read",
    source="x",
)


def contract(text: str = CONTRACT) -> Agreement:
    """The SLOs of a profile file."""
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
        file.write(text)
        file.flush()
        return slos.of_profile(file.name, TIB)


def run(
    rates: Sequence[float], name: str = "run", depth: int = 32, noise: str | None = None, stall_s: int = 0
) -> Point:
    """A point of random reads with the given rate in each second; one read takes ``stall_s``."""
    seconds = len(rates)
    course = [
        synthetic.interval(index, index * SECOND_NS, (index + 1) * SECOND_NS, {"read": round(rate)}, 4 * KIB)
        for index, rate in enumerate(rates)
    ]
    total = round(sum(rates))
    slow = {stall_s * SECOND_NS: total // 50} if stall_s else {}
    made = synthetic.worker_outcome(
        {"read": synthetic.kind({**synthetic.spread(400_000, total), **slow}, 4 * KIB)},
        window_ns=(0, seconds * SECOND_NS),
        intervals=course,
    )
    plan = synthetic.plan([synthetic.worker_plan(depth=depth, runtime_ns=seconds * SECOND_NS)])
    return Point(
        name=name,
        family="slo",
        axes={"depth": depth},
        plan=plan,
        outcome=synthetic.outcome(made),
        noise=noise,
    )


def level(rate: float, **more: Any) -> Point:
    """A steady run with a little noise."""
    return run([rate * (1 + 0.004 * (-1) ** second) for second in range(12)], **more)


def judged(
    *runs: Point,
    slo: Slo = IOPS,
    carries: float = 1e9,
    own_us: float = 10.0,
    others: Sequence[Slo] = (),
    caps: tuple[Cap, ...] = (),
    lasts: list[float] | None = None,
    elsewhere: float | None = 0.0,
    **request: Any,
) -> JudgedSlo:
    """The verdict on an SLO whose loads give these runs, on a client that carries a rate and has a latency."""
    waiting = list(runs)

    class Played:
        effort: object = None
        family = label = ""

        def closed_point(self, _: int) -> Point:
            return waiting.pop(0)

        def for_time(self, _depth: int, seconds: float) -> Point:
            if lasts is not None:
                lasts.append(seconds)
            return waiting.pop(0)

    class PlayedProver(Prover):
        def _loads_of(self, _: Slo) -> Any:
            return Played()

        def _client_has(self, slo: Slo, _: int) -> float:
            return carries if slo.is_least else own_us

        def _elsewhere(self, _: Slo, _point: Point) -> float | None:
            return elsewhere

    asked = ProofRequest(
        target=targets.parse("volume:unlimited"),
        agreement=Agreement(title="t", slos=(slo, *others)),
        size_bytes=GIB,
        tolerance=0.02,
        burst_s=120.0,
        **request,
    )
    campaign: Any = SimpleNamespace(result=synthetic.result([*runs]).replace(points=()))
    opened: Any = SimpleNamespace(facts=VOLUME.replace(caps=caps))
    return PlayedProver(asked, opened, campaign).judge(slo)


def test_a_promise_that_is_kept_needs_one_run() -> None:
    found = judged(level(9_990))
    assert (found.verdict, found.points) == ("passed", ("run",))
    assert found.value_text == "9.99k IOPS [9.96k, 10k]"


def test_a_promise_is_broken_after_three_runs_that_agree() -> None:
    found = judged(level(9_000), level(9_010), level(9_005, noise="others had the processors"))
    assert found.verdict == "failed"
    assert found.why == "90.1 % of the SLO, beyond the tolerance of 2 %"


def test_the_client_is_no_fault_of_the_volume() -> None:
    found = judged(level(9_000), level(9_010), level(9_005), carries=9_100)
    assert found.verdict == "inconclusive"
    assert found.why.endswith("this client delivers only 9.1k IOPS of this load")


def test_a_network_that_is_too_small_is_no_fault_of_the_volume() -> None:
    writes = IOPS.replace(kind="write")
    small = judged(level(9_000), level(9_000), level(9_000), slo=writes, network_bytes_per_s=30 * MIB)
    matches("advice#network too small", (small.verdict, small.why.rpartition("; ")[2]))
    assert judged(level(9_000), level(9_000), level(9_000), network_bytes_per_s=30 * MIB).verdict == "failed"


@cases("advice/what_only_this_client_lacks")
def test_what_only_this_client_lacks_is_no_fault_of_the_volume(
    elsewhere: float | None, network_mib: int | None, verdict: str
) -> None:
    """Ten thousand operations of 4 KiB take 39 MiB/s, and 1.1 times as much is needed of the client's network."""
    runs = [level(rate) for rate in (9_000, 9_010, 9_005)]
    found = judged(*runs, elsewhere=elsewhere, network_bytes_per_s=network_mib and network_mib * MIB)
    assert found.verdict == verdict
    proof = Proof(target="t", agreement=Agreement(title="t", slos=()), tolerance=0.02, judged=(found,))
    assert (proof.verdict, "missed" in proof_page.sentence(proof)) == (verdict, verdict == "failed")
    assert ("Missed" in proof_page.finding(proof), "this client" in proof_page.finding(proof)) == (
        verdict == "failed", verdict == "not_delivered",
    )  # fmt: skip


def test_disturbed_runs_that_do_not_agree_tell_nothing() -> None:
    runs = [level(rate, noise="others had the processors") for rate in (8_000, 8_200, 8_500)]
    found = judged(*runs)
    assert found.verdict == "inconclusive"
    assert found.why.endswith("others disturbed it: others had the processors")


def test_a_load_that_still_grows_tells_nothing() -> None:
    found = judged(level(3_000), level(6_000, depth=128), level(9_000, depth=512))
    assert found.verdict == "inconclusive"
    assert "still grows with the queue depth" in found.why


def test_a_deeper_load_may_keep_the_promise() -> None:
    found = judged(level(6_000), level(10_000, depth=128))
    assert (found.verdict, found.depth) == ("passed", 128)


def test_a_noisy_run_spans_the_bound() -> None:
    noisy = [run([9_800 * (1 + 0.1 * (-1) ** (second // 2)) for second in range(12)]) for _ in range(3)]
    assert judged(*noisy).verdict == "inconclusive"


def test_a_latency() -> None:
    slo = IOPS.replace(measure="mean", bound=1_000.0, depth=1)
    assert judged(level(1_000), slo=slo).verdict == "passed"
    strict = slo.replace(bound=100.0)
    found = judged(level(1_000), level(1_000), level(1_000), slo=strict)
    assert found.verdict == "failed"
    slow_client = judged(level(1_000), level(1_000), level(1_000), slo=strict, own_us=95.0)
    assert slow_client.verdict == "inconclusive"
    assert slow_client.why.endswith("; this client alone takes 95 µs")


@cases("advice/a_burst_and_its_length")
def test_a_burst_and_its_length(seconds: int, rate: str, length: str, value: float) -> None:
    found = {one.measure: one for one in contract().slos if "burst" in one.measure}
    assert (found["burst_iops"].bound, found["burst_s"].bound) == (6_000, 6)
    longer = found["burst_s"].replace(bound=10.0)
    played = run([6_000.0 + second % 2 for second in range(seconds)] + [2_000.0] * (12 - seconds))
    assert judged(played, slo=found["burst_iops"], others=[longer]).verdict == rate
    last = judged(played, slo=longer)
    assert (last.verdict, last.value) == (length, value)


def test_a_burst_that_is_measured_too_short_cannot_be_told() -> None:
    slo = next(one for one in contract().slos if one.measure == "burst_s")
    found = judged(run([6_000.0] * 10), slo=slo.replace(bound=1800.0))
    assert (found.verdict, found.why) == ("inconclusive", "it held to the end, for 10 s; --burst-time 1800s decides it")


P99 = IOPS.replace(name="p99", measure="p99", bound=2_000.0, depth=4)


def test_a_run_that_breaks_the_promise_is_not_repeated_away() -> None:
    kept = judged(level(10_000), slo=P99)
    assert (kept.verdict, kept.worst_text) == ("passed", "1 run, longest operation 2.8 ms")
    for slo in (P99, IOPS):
        slow = 5_000 if slo is IOPS else 10_000
        found = judged(level(slow, stall_s=3), level(10_000), slo=slo)
        assert (found.verdict, len(found.points)) == ("inconclusive", 2)
        assert "the target stalled for 3 s" in found.why
        assert found.worst_text.endswith("is the worst of 2 runs, longest operation 3 s (a stall)")


def test_a_run_that_others_disturbed_may_be_repeated_and_is_shown() -> None:
    slow = level(10_000).replace(noise="other processes used 40% of the processors")
    kind = slow.outcome.workers[0].operations["read"]
    late = kind.replace(service=synthetic.kind({400_000: 100_000, 90_000_000: 5_000}, 4 * KIB).service)
    (worker,) = slow.outcome.workers
    slow = slow.replace(outcome=synthetic.outcome(worker.replace(operations={"read": late})))
    found = judged(slow, level(10_000), slo=P99)
    assert (found.verdict, found.worst_text) == (
        "passed", "90 ms is the worst of 2 runs, longest operation 90 ms"
    )  # fmt: skip
    quiet = judged(slow.replace(noise=None), level(10_000), slo=P99)
    assert (quiet.verdict, quiet.why) == ("inconclusive", "64.1 % of the SLO; another run had 90 ms")


def test_throughput_that_bursts_is_not_proven_by_a_burst() -> None:
    bursting, steady = (slos.of_profile(name, TIB).slos for name in ("ebs-st1", "ebs-gp3"))
    found = [{one.knows_bursts for one in each if one.measure == "mib_per_s"} for each in (bursting, steady)]
    assert found == [{False}, {True}]


def test_a_burst_hides_the_baseline() -> None:
    burst = next(one for one in contract().slos if one.measure == "burst_iops")
    found = judged(level(30_000), others=[burst])
    assert found.verdict == "inconclusive"
    assert "a burst hides the baseline" in found.why


def bursting(credits_s: float, seconds: int) -> list[float]:
    """3,000 IOPS until the credits are spent, then 1,000, over a long run of one value a second."""
    return [3_000.0 if second < credits_s else 1_000.0 for second in range(seconds)]


CONTRACT_IOPS = IOPS.replace(bound=1_500.0, knows_bursts=False)


def test_a_contract_that_a_burst_could_keep_only_holds_for_the_time_that_was_seen() -> None:
    found = judged(run(bursting(60, 6)), slo=CONTRACT_IOPS)
    assert found.verdict == "inconclusive"
    assert "holds for at least 6 s: a longer burst would look the same; --sustained 60m outlasts one" in found.why


@pytest.mark.parametrize("credits_s", [60, 600, 3_600])
def test_a_sustained_promise_is_proven_over_the_credits(credits_s: int) -> None:
    short, long = run(bursting(credits_s, 6)), run(bursting(credits_s, 2 * credits_s), "long")
    found = judged(short, long, slo=CONTRACT_IOPS, sustained_s=2.0 * credits_s)
    assert (found.verdict, found.value, found.points) == ("failed", 1_000.0, ("run", "long"))
    assert f"it held for {format_duration(credits_s * SECOND_NS)} only, a burst" in found.why


@pytest.mark.parametrize("credits_s", [60, 600, 3_600])
def test_a_kind_that_is_known_to_burst_is_measured_beyond_its_credits(credits_s: int) -> None:
    """Without --sustained: the service level next to the contract, or the target, states how long it bursts."""
    burst = next(one for one in contract().slos if one.measure == "burst_s").replace(bound=float(credits_s))
    lasts: list[float] = []
    short, long = run(bursting(credits_s, 6)), run(bursting(credits_s, 2 * credits_s), "long")
    found = judged(short, long, slo=CONTRACT_IOPS, others=[burst], lasts=lasts)
    assert (found.verdict, found.value, lasts) == ("failed", 1_000.0, [1.75 * credits_s])
    stated = Cap(scope="volume", quantity="iops", value=1_000, burst=Burst(value=3_000, credits=2_000 * credits_s))
    found = judged(short, long, slo=CONTRACT_IOPS, caps=(stated,), lasts=lasts)
    assert (found.verdict, lasts[1]) == ("failed", 1.75 * credits_s)
    never = judged(short, slo=CONTRACT_IOPS, others=[burst], sustained_s=0.0)
    assert "holds for at least 6 s" in never.why


def test_a_rate_that_is_sustained_passes() -> None:
    found = judged(run([1_600.0] * 6), run([1_600.0] * 90, "long"), slo=CONTRACT_IOPS, sustained_s=90.0)
    assert found.verdict == "passed"
    assert found.why.endswith("after 1 min; a burst of up to that length would have ended")
    short = judged(run([1_600.0] * 6), run([1_600.0] * 9, "long"), slo=CONTRACT_IOPS, sustained_s=9.0)
    assert (short.verdict, short.why) == ("inconclusive", "--sustained is too short for a verdict")


def test_a_baseline_is_seen_once_the_credits_are_spent() -> None:
    """1,200 IOPS against a baseline of 1,000: 200 a second are beyond it, of 2,000 x 6 credits."""
    bursts = [one for one in contract().slos if "burst" in one.measure]
    bursts = [one.replace(burst_iops=3_000.0, baseline_iops=1_000.0, bound=6.0) for one in bursts]
    slo = IOPS.replace(bound=1_000.0)
    hidden = judged(run([1_200.0] * 6), slo=slo, others=bursts)
    assert (hidden.verdict, "a burst hides the baseline" in hidden.why) == ("inconclusive", True)
    long = run([1_200.0] * 90, "long")
    assert judged(run([1_200.0] * 6), long, slo=slo, others=bursts, sustained_s=90.0).verdict == "passed"


def test_a_few_slow_intervals_end_no_burst() -> None:
    assert intervals_held([10, 10, 1, 10, 10, 10, 1, 1, 10, 10], 5) == 10
    assert intervals_held([10, 10, 10, 1, 1, 10, 1, 1, 1], 5) == 3
    assert intervals_held([], 5) == 0


def test_the_promises_of_a_service_level() -> None:
    found = slos.of_profile("anf-premium", 2 * TIB)
    assert [(one.name, one.bound) for one in found.slos] == [
        (f"throughput, {kind}s of {block} KiB", 128.0) for kind in ("read", "write") for block in (64, 256)
    ]
    assert {one.source for one in found.slos} == {"azure-netapp-files-service-levels, 2025"}
    assert "iops_read is fitted to results, not published" in found.not_judged
    share = slos.of_profile("azure-files-v1", TIB)
    bounds = {one.name: one.bound for one in share.slos}
    assert bounds["IOPS, random reads of 4 KiB"] == 4_024
    matches(
        "advice#slos service",
        (bounds["burst, IOPS, random reads of 4 KiB"], bounds["burst, length, random reads of 4 KiB"]),
    )
    matches("advice#slos service level", share.not_judged[-1])


def test_the_promises_of_a_contract() -> None:
    options = SloOptions(throughput=64 * MIB, iops=1_000, p99=2 * MILLISECOND_NS, kinds=("read",), source="Annex B")
    found = options.stated()
    matches("advice#slos contract", [one.bound_text for one in found.slos])
    assert {one.kind for one in found.slos} == {"read"}
    with pytest.raises(DialectError, match="no SLO"):
        SloOptions().stated()
    with pytest.raises(DialectError, match="add --quota"):
        SloOptions(profile="anf-premium").stated()


def test_a_limit_that_another_one_hides_is_not_judged() -> None:
    text = CONTRACT.replace("base = 2000", "base = 100").replace("[burst_iops]\nbase = 6000", "[burst_iops]\nbase = 90")
    found = contract(text)
    assert {one.measure for one in found.slos} == {"iops"}
    assert "throughput in reads of 64 KiB: the IOPS limit is reached first in such blocks" in found.not_judged


def test_the_page_for_the_supplier() -> None:
    kept, broken = judged(level(10_000)), judged(level(9_000), level(9_000), level(9_000))
    proof = Proof(target="nfs://10.0.0.4/vol", agreement=Agreement(title="Annex B", slos=(IOPS,)), tolerance=0.02,
                  judged=(kept, broken))  # fmt: skip
    assert (proof.verdict, proof_page.sentence(proof)) == ("failed", "2 SLOs: 1 met, 1 missed")
    page = proof_page.page(proof, synthetic.result([level(10_000)]), GIB)
    assert "agreed: <code>Annex B</code>" in page
    assert f'<div class="finding"><p>{proof_page.finding(proof)}' in page
    matches("report#finding of a proof", proof_page.finding(proof))
    assert "9k IOPS is the worst of 3 runs, longest operation 2.8 ms" in page
    assert "--rw=randread --bs=4k --direct=1 --ioengine=libaio --iodepth=16 --numjobs=2" in page
    document = json.loads(json.dumps(proof_page.document(proof)))
    assert [one["verdict"] for one in document["judged"]] == ["passed", "failed"]


@pytest.mark.slow
def test_a_proof_on_the_embedded_volume(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--throughput", "1MiB/s", "--kinds", "read", "--size", "8MiB", "--out", str(tmp_path / "out"), "--json"]
    assert commands.run(["prove", "volume:unlimited", *words]) == 5
    proved = json.loads(capsys.readouterr().out)
    assert proved["verdict"] == "inconclusive"
    assert all("of the SLO, holds for at least" in one["why"] for one in proved["judged"])
    assert {path.name for path in (tmp_path / "out").iterdir()} >= {"proof.html", "result.json", "report.html"}


@pytest.mark.slow
def test_slos_for_which_no_time_is_left_are_inconclusive_and_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--throughput", "1MiB/s", "--size", "8MiB", "--out", str(tmp_path / "out"), "--search-time", "1us"]
    assert commands.run(["prove", "volume:unlimited", *words, "--json"]) == 5
    first, *others = json.loads(capsys.readouterr().out)["judged"]
    assert "holds for at least" in first["why"]
    ended = ("inconclusive", "the measurement ended before it")
    assert {(one["verdict"], one["why"]) for one in others} == {ended}
    (note,) = [one.text for one in Result.read(tmp_path / "out").notes if one.code == "left_out"]
    assert note.startswith(f"--search-time left out {counted(len(others), 'point')}: {others[0]['slo']['name']}")

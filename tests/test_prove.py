"""iocurve prove: SLOs of profiles and contracts, and the verdicts on runs that are played."""

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from data import synthetic
from data.synthetic import VOLUME
from goldens import Golden, cases, data, matches
from iocurve.advice import proof_page, slos
from iocurve.advice.prove import JudgedSlo, Proof, ProofRequest, Prover, intervals_held
from iocurve.advice.slos import Agreement, Slo
from iocurve.cli.prove import SloOptions
from iocurve.foundation.errors import DialectError
from iocurve.foundation.units import GIB, KIB, MIB, MILLISECOND_NS, SECOND_NS, TIB, counted, format_duration
from iocurve.result.caps import Burst, Cap
from iocurve.result.document import Point, Result
from iocurve.targets import target as targets
from programs import iocurve

CONTRACT = data("advice/contract.toml")
IOPS = Slo.from_builtins(
    {"name": "IOPS", "measure": "iops", "bound": 10_000, "workload": "rw=randread bs=4k"}
    | {"block_bytes": 4 * KIB, "kind": "read", "source": "x"}
)


def contract(text: str = CONTRACT) -> Agreement:
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
        file.write(text)
        file.flush()
        return slos.of_profile(file.name, TIB)


def run(
    rates: Sequence[float], name: str = "run", depth: int = 32, noise: str | None = None, stall_s: int = 0
) -> Point:
    """A point of random reads with the given rate in each second; one read takes ``stall_s``."""
    total = round(sum(rates))
    latencies = {**synthetic.spread(400_000, total), **({stall_s * SECOND_NS: total // 50} if stall_s else {})}
    plan = synthetic.plan([synthetic.worker_plan(depth=depth, runtime_ns=len(rates) * SECOND_NS)])
    counts = [round(rate) for rate in rates]
    return synthetic.reads(counts, latencies, name=name, axes={"depth": depth}, plan=plan, noise=noise)


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


def played(said: int | dict[str, Any]) -> Point:
    """A steady run at a rate, or one of several levels: ``rates`` has each with its seconds."""
    more: dict[str, Any] = {"level": said} if isinstance(said, int) else dict(said)
    if rates := more.pop("rates", None):
        return run([rate for rate, seconds in rates for _ in range(seconds)], **more)
    return level(more.pop("level"), **more)


def agreed(measure: str, **changes: Any) -> Slo:
    """An SLO of the contract with changes."""
    return next(one for one in contract().slos if one.measure == measure).replace(**changes)


@cases("advice/judged")
def test_an_slo_has_the_verdict_that_its_runs_show(
    runs: list[Any], slo: dict[str, Any], others: list[dict[str, Any]], request_: dict[str, Any], golden: Golden
) -> None:
    promised = agreed(**slo) if slo.get("measure") == "burst_s" else IOPS.replace(**slo)
    found = judged(*map(played, runs), slo=promised, others=[agreed(**one) for one in others], **request_)
    golden.check([found.verdict, found.why, found.value_text, found.worst_text, found.depth, len(found.points)])


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
    told = proof_page.finding(proof)
    assert ("Missed" in told, "this client" in told) == (verdict == "failed", verdict == "not_delivered")


@cases("advice/a_burst_and_its_length")
def test_a_burst_and_its_length(seconds: int, rate: str, length: str, value: float) -> None:
    found = {one.measure: one for one in contract().slos if "burst" in one.measure}
    assert (found["burst_iops"].bound, found["burst_s"].bound) == (6_000, 6)
    longer = found["burst_s"].replace(bound=10.0)
    played = run([6_000.0 + second % 2 for second in range(seconds)] + [2_000.0] * (12 - seconds))
    assert judged(played, slo=found["burst_iops"], others=[longer]).verdict == rate
    last = judged(played, slo=longer)
    assert (last.verdict, last.value) == (length, value)


P99 = IOPS.replace(name="p99", measure="p99", bound=2_000.0, depth=4)


def test_a_run_that_others_disturbed_may_be_repeated_and_is_shown() -> None:
    slow = level(10_000).replace(noise="other processes used 40% of the processors")
    (worker,) = slow.outcome.workers
    late = synthetic.latency({400_000: 100_000, 90_000_000: 5_000})
    reads = worker.operations["read"].replace(service=late)
    slow = slow.replace(outcome=synthetic.outcome(worker.replace(operations={"read": reads})))
    found = judged(slow, level(10_000), slo=P99)
    assert (found.verdict, found.worst_text) == ("passed", "90 ms is the worst of 2 runs, longest operation 90 ms")
    quiet = judged(slow.replace(noise=None), level(10_000), slo=P99)
    assert (quiet.verdict, quiet.why) == ("inconclusive", "64.1 % of the SLO; another run had 90 ms")


def test_throughput_that_bursts_is_not_proven_by_a_burst() -> None:
    bursting, steady = (slos.of_profile(name, TIB).slos for name in ("ebs-st1", "ebs-gp3"))
    found = [{one.knows_bursts for one in each if one.measure == "mib_per_s"} for each in (bursting, steady)]
    assert found == [{False}, {True}]


def bursting(credits_s: float, seconds: int, name: str = "run") -> Point:
    """3,000 IOPS until the credits are spent, then 1,000, over a long run of one value a second."""
    return run([3_000.0 if second < credits_s else 1_000.0 for second in range(seconds)], name)


CONTRACT_IOPS = IOPS.replace(bound=1_500.0, knows_bursts=False)


@pytest.mark.parametrize("credits_s", [60, 600, 3_600])
def test_a_sustained_promise_is_proven_over_the_credits(credits_s: int) -> None:
    short, long = bursting(credits_s, 6), bursting(credits_s, 2 * credits_s, "long")
    found = judged(short, long, slo=CONTRACT_IOPS, sustained_s=2.0 * credits_s)
    assert (found.verdict, found.value, found.points) == ("failed", 1_000.0, ("run", "long"))
    assert f"it held for {format_duration(credits_s * SECOND_NS)} only, a burst" in found.why


@pytest.mark.parametrize("credits_s", [60, 600, 3_600])
def test_a_kind_that_is_known_to_burst_is_measured_beyond_its_credits(credits_s: int) -> None:
    """Without --sustained: the service level next to the contract, or the target, states how long it bursts."""
    burst = next(one for one in contract().slos if one.measure == "burst_s").replace(bound=float(credits_s))
    lasts: list[float] = []
    short, long = bursting(credits_s, 6), bursting(credits_s, 2 * credits_s, "long")
    found = judged(short, long, slo=CONTRACT_IOPS, others=[burst], lasts=lasts)
    assert (found.verdict, found.value, lasts) == ("failed", 1_000.0, [1.75 * credits_s])
    stated = Cap(scope="volume", quantity="iops", value=1_000, burst=Burst(value=3_000, credits=2_000 * credits_s))
    found = judged(short, long, slo=CONTRACT_IOPS, caps=(stated,), lasts=lasts)
    assert (found.verdict, lasts[1]) == ("failed", 1.75 * credits_s)
    never = judged(short, slo=CONTRACT_IOPS, others=[burst], sustained_s=0.0)
    assert "holds for at least 6 s" in never.why


def test_a_few_slow_intervals_end_no_burst() -> None:
    assert intervals_held([10, 10, 1, 10, 10, 10, 1, 1, 10, 10], 5) == 10
    assert (intervals_held([10, 10, 10, 1, 1, 10, 1, 1, 1], 5), intervals_held([], 5)) == (3, 0)


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


def proven(out: Path, *options: str) -> Any:
    """The document of an inconclusive proof on the embedded volume."""
    words = ("--throughput", "1MiB/s", "--size", "8MiB", "--out", str(out), "--json")
    ran = iocurve("prove", "volume:anf-standard?quota=1TiB", *words, *options)
    assert ran.returncode == 5, ran.stderr
    return json.loads(ran.stdout)


@pytest.mark.slow
def test_a_proof_on_the_embedded_volume(tmp_path: Path) -> None:
    proved = proven(tmp_path / "out", "--kinds", "read")
    assert proved["verdict"] == "inconclusive"
    assert all("of the SLO, holds for at least" in one["why"] for one in proved["judged"])
    assert {path.name for path in (tmp_path / "out").iterdir()} >= {"proof.html", "result.json", "report.html"}


@pytest.mark.slow
def test_slos_for_which_no_time_is_left_are_inconclusive_and_named(tmp_path: Path) -> None:
    first, *others = proven(tmp_path / "out", "--search-time", "1us")["judged"]
    assert "holds for at least" in first["why"]
    ended = ("inconclusive", "the measurement ended before it")
    assert {(one["verdict"], one["why"]) for one in others} == {ended}
    (note,) = [one.text for one in Result.read(tmp_path / "out").notes if one.code == "left_out"]
    assert note.startswith(f"--search-time left out {counted(len(others), 'point')}: {others[0]['slo']['name']}")

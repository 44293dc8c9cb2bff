"""The limits bench judges fairly, and its server keeps to the limits that it is given."""

import shutil
from typing import Any

import pytest
from msgspec import convert

from bench.limits import held_out, kinds, pages, simulated
from bench.limits.case import HELD_OUT, KINDS, Case, Load, drawn
from bench.limits.examine import binding, final_name, judged_name, stub
from bench.limits.tables import wilson
from bench.truth.instruments import program
from goldens import cases
from iocurve.measure import local
from iocurve.result.caps import Burst, Cap
from iocurve.targets.target import NfsTarget
from programs import completed

assert kinds
assert held_out
ALL_KINDS = (*KINDS, *HELD_OUT)
needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc builds the instruments; it is missing here")
SERVER = frozenset({"volume_iops"})


def test_a_seed_draws_the_same_case_again_and_another_seed_another_one() -> None:
    for name in ALL_KINDS:
        assert drawn(name, 1) == drawn(name, 1)
        assert drawn(name, 1) != drawn(name, 2)


@pytest.mark.parametrize("name", ALL_KINDS)
def test_the_server_reads_the_limits_of_each_kind(name: str) -> None:
    for seed in (1, 2):
        with stub(drawn(name, seed).limits, seed) as server:
            assert server.account()["operations"] == 0


def test_the_server_refuses_a_limit_that_it_does_not_know() -> None:
    for words in ("budget,rate=1", "bucket", "bucket,rate=1,pace=2"):
        ran = completed([program("stub_server"), "--limit", words])
        assert ran.returncode == 2
        assert "is no limit" in ran.stderr


@cases("bench/binding")
def test_a_limit_binds_if_the_server_says_so(case: dict[str, Any], account: dict[str, Any], binds: bool) -> None:
    assert binding(convert(case, Case), {"operations": 1000, "seconds": 1.0, "late_s": 0.1} | account) is binds


def test_the_part_that_gives_more_is_the_limit_of_a_point() -> None:
    load = Load(32, 4)
    cap, slow = "bucket,rate=1000,burst=1", "stations,count=2,service=constant:100"
    assert pages.binding_names({"depth": 0.0, cap: 0.98, slow: 0.02}, load) == {"volume_iops"}
    assert pages.binding_names({"depth": 0.5, cap: 0.6}, load) == {"depth", "volume_iops"}
    assert pages.binding_names({"depth": 0.1, cap: 0.2}, load) == frozenset()
    assert pages.names_of("bucket,unit=b,of=w,per=a,rate=1,burst=0", 4) == {
        "volume_write_throughput", "client_read", "client_egress",
    }  # fmt: skip


@needs_gcc
def test_the_limits_of_points_come_from_relaxing_the_server() -> None:
    found = dict(
        zip(pages.LOADS, pages.truths(("delay,service=constant:500", "bucket,of=w,rate=2000"), 1), strict=True)
    )
    assert found["random-4k 0"] == found["random-4k 50"] == {"volume_write_iops"}
    assert found["random-4k 100"] == found["random-4k nconnect 1 depth 1"] == {"depth"}


def test_half_of_the_families_are_only_scored() -> None:
    assert len(pages.looked_at()) == len(pages.FAMILIES) // 2
    assert pages.looked_at() < set(pages.FAMILIES)


@cases("bench/final_names")
def test_the_last_confident_name_counts(told: dict[str, Any], name: str | None) -> None:
    assert final_name(told) == name


@cases("bench/judged_names")
def test_another_name_is_false_unless_it_is_true_of_every_limit(
    truth: list[str], name: str | None, held_up: float, judged: str
) -> None:
    assert judged_name(frozenset(truth), name, held_up) == judged


def test_intervals_are_those_of_the_literature() -> None:
    # R. G. Newcombe, Statistics in Medicine 17, 1998, table I: 81 of 263, 0 of 20, 1 of 29.
    for count, runs, expected in ((81, 263, (0.2553, 0.3662)), (0, 20, (0.0, 0.1611)), (1, 29, (0.0061, 0.1718))):
        assert wilson(count, runs) == pytest.approx(expected, abs=5e-5)


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["bucket", "window", "sliding", "smooth", "stations"])
def test_the_server_keeps_to_a_rate(policy: str) -> None:
    from bench.truth.measured import load
    from iocurve.engine import plan as planned

    words = {"stations": "count=2,service=constant:2000", "bucket": "rate=1000"}.get(policy, "rate=1000,period_ms=50")
    with stub((f"{policy},{words}",), 1) as server:
        mount = NfsTarget.of(f"nfs://127.0.0.1/stub?nfsport={server.port}&mountport={server.port}").mount(1)
        plan = load(planned.NfsEngine(mount=mount), "data", 600, 16)
        file = plan.groups[0].workers[0].files[0].replace(layout="fill", keep=False)
        [worker] = plan.groups[0].workers
        group = planned.Group(workers=(worker.replace(files=(file,)),))
        local.run(plan.replace(groups=(group,)))
        account = server.account()
    assert account["operations"] == 600
    # The first two windows of 50 operations may pass at once, around the border between them, so that 600 take at
    # least 0.5 s; a busy machine can only make it slower.
    assert 300 <= account["operations"] / account["seconds"] <= 1210


@needs_gcc
@cases("bench/a_simulated_limit_is_named")
def test_a_simulated_limit_is_named(setting: simulated.Setting, name: str, final: str) -> None:
    found = simulated.examined(setting, name, 1)
    assert (found["judged"], found["final"]) == ("right", final)


@needs_gcc
@pytest.mark.parametrize(("seconds", "judged", "took"), [(8.0, "right", 4.2), (2.0, "undecided", 1.8)])
def test_probes_of_a_first_page_keep_their_time(seconds: float, judged: str, took: float) -> None:
    found = simulated.probed(seconds, "byte cap", 7001)
    assert (found["judged"], found["probe_s"]) == (judged, took)


@needs_gcc
def test_a_simulated_load_gets_the_rate_of_the_limit() -> None:
    load = Load(depth=16)
    with simulated.simulated(Case(("bucket,rate=1000,burst=1",), (0,), SERVER, load), 1, beside_hogs=False) as server:
        point = server.run(simulated.planned(load, 1))
    assert point.summary().iops == 1000
    assert point.summary().latency.mean_ns == pytest.approx(16e6, rel=0.01)


def test_a_target_states_its_limits() -> None:
    facts = simulated.stated(
        (
            "delay,service=constant:250.0",
            "bucket,rate=900.0,burst=400",
            "bucket,rate=1800,burst=20",
            "pauses,period_ms=1",
        )
    )
    assert facts.latency_mean_ns == 250_000
    assert facts.caps == (Cap(scope="volume", quantity="iops", value=900, burst=Burst(value=1800, credits=400)),)
    assert simulated.stated(("bucket,unit=b,of=r,per=a,rate=5e6,burst=9",)).caps == (
        Cap(scope="client", quantity="bytes_per_s", kind="read", value=5_000_000),
    )

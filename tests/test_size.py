"""The size that a volume must have, its formulas, and the changes for twice the throughput or half the latency."""

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from bench.sizing.__main__ import TABLE, answers, table
from data import synthetic
from data.synthetic import VOLUME, fio_run
from goldens import DATA, Golden, cases, document, present
from iocurve.advice import facts, sizing, volumes
from iocurve.advice.demand import Demand, measured_demand, parse_mix, read_prices
from iocurve.analysis import read
from iocurve.analysis.limit_groups import Twice
from iocurve.analysis.limit_kinds import LIMIT_KINDS
from iocurve.cli import commands
from iocurve.foundation.errors import DialectError, ResultError
from iocurve.foundation.units import GIB, KIB, MIB, MILLISECOND_NS, TIB
from iocurve.result.caps import caps
from iocurve.result.document import Limit, TargetFacts
from iocurve.targets import disk as disks
from iocurve.volume import profile, profile_limits
from iocurve.volume.profile import Sized


def demanded(**amounts: Any) -> Demand:
    return Demand(**amounts).completed()


def size(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    assert commands.run(["size", *arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.slow
def test_the_questions_of_the_documents() -> None:
    rows = answers()
    assert len(rows) >= 30
    # A remark explains every answer that is not the document's.
    assert [row.asks for row in rows if abs(row.difference_percent) > 2 and not row.remark] == []
    assert table(rows) == TABLE.read_text()


@cases("advice/sized")
def test_a_demand_is_sized(
    demand: dict[str, Any], options: dict[str, Any], prices: str, names: list[str], golden: Golden, tmp_path: Path
) -> None:
    """``names`` are of alternatives with how they are sized, of impossible ones, and of other parts of the answer."""
    (tmp_path / "prices.toml").write_text(prices)
    known: dict[str, Any] = {"prices": read_prices(tmp_path / "prices.toml")} if prices else {}
    found = sizing.sized(demanded(**demand), **options, **known)
    parts: dict[str, Any] = {name: getattr(found, name) for name in ("clients_of", "clients", "in_flight")}
    parts |= {one.name: one for one in found.impossible}
    parts |= {f"{one.name} {one.how}".strip(): one for one in found.alternatives}
    golden.check([document(parts[name]) for name in names])
    order = [(one.month is None, one.month or one.gib) for one in found.alternatives]
    assert order == sorted(order)


def test_credits_last_until_they_are_spent() -> None:
    limits = profile_limits.resolve("azure-files-v1", 10_000 << 30)
    assert volumes.burst_ns(limits, 21_500) == 2 * 3_600_000_000_000
    assert volumes.burst_ns(limits, 13_000) is None


@cases("advice/wrong_prices")
def test_prices_that_cannot_be_read_are_refused(text: str, error: str, tmp_path: Path) -> None:
    (tmp_path / "prices.toml").write_text(text)
    with pytest.raises(DialectError, match=error):
        read_prices(tmp_path / "prices.toml")


@cases("advice/disks")
def test_disks(demand: dict[str, int], name: str, count: int, vm: str) -> None:
    found = sizing.sized(demanded(**demand), kinds=("disk",))
    (one,) = (one for one in found.alternatives if one.name == name)
    assert (one.count, one.vm) == (count, vm)


@cases("advice/chains")
def test_what_a_chain_carries_and_which_link_binds(
    have: str, demand: dict[str, int], clients: int, vm: str, binds: str, mib_per_s: float
) -> None:
    chain = sizing.chain(have, demand=Demand(**demand), clients=clients, vm=f"Standard_{vm}_v5")
    carried = round(present(chain.bytes_per_s) / MIB, 1)
    assert (carried, chain.binds) == (mib_per_s, f"{binds}: {mib_per_s:,.1f}".removesuffix(".0") + " MiB/s")


@cases("advice/errors_of_a_configuration")
def test_errors_of_a_configuration(have: str, error: str) -> None:
    with pytest.raises(DialectError, match=error):
        sizing.chain(have, demand=Demand())


def test_a_configuration_is_judged_by_a_load(capsys: pytest.CaptureFixture[str]) -> None:
    found = size(capsys, "--have", "anf-premium:4TiB", "--iops", "100k", "--bs", "8k")
    assert found["verdict"].startswith("anf-premium:4TiB does not carry 781.25 MiB/s, 100,000 IOPS")
    assert found["verdict"].endswith("305 % of volume's throughput: 256 MiB/s")
    fits = size(capsys, "--have", "filestore-zonal:4TiB", "--iops", "20k", "--mix", "70:30")
    assert fits["verdict"].startswith("filestore-zonal:4TiB carries 20,000 IOPS, 70 % reads: 57.7 % of volume's write")
    assert fits["next_step"] == "1 TiB more gives 260 MiB/s"
    assert size(capsys, "--have", "anf-premium:4TiB")["verdict"] == ""


def test_a_measured_curve(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "result.json"
    fio_run().write(path)
    start = measured_demand(path, iops=0, bytes_per_s=0, block_bytes=None)
    found = size(capsys, "--from", str(path))
    assert (found["demand"]["iops"], found["demand"]["latency_ns"]) == (start.iops, start.latency_ns)
    assert found["in_flight"]["low"] < found["in_flight"]["operations"] < found["in_flight"]["high"]
    more = size(capsys, "--from", str(path), "--iops", "10M")
    assert "the demand was not measured here" in more["warnings"][0]
    with pytest.raises(ResultError, match="no point with blocks"):
        measured_demand(path, iops=0, bytes_per_s=0, block_bytes=64 * MIB)


def test_an_observation(capsys: pytest.CaptureFixture[str]) -> None:
    demand = size(capsys, "--from", str(DATA / "advice/observed.json"))["demand"]
    assert (demand["iops"], demand["block_bytes"], demand["read_percent"]) == (10_000, 8 * KIB, 70.0)
    assert demand["latency_ns"] == 2 * MILLISECOND_NS


def test_text_markdown_and_sources(capsys: pytest.CaptureFixture[str]) -> None:
    assert commands.run(["size", "--throughput", "4500MiB/s", "--bs", "64k", "--latency", "1ms"]) == 0
    text = capsys.readouterr().out
    assert "in flight = IOPS × latency = 72,000/s × 1 ms = 72" in text
    assert "anf-premium: MiB/s = 64 × TiB, at most 4,500 (azure-netapp-files-service-levels, 2025)" in text
    assert commands.run(["size", "--have", "premium:70.31TiB", "--markdown"]) == 0
    assert "| volume's throughput | 4,499.8 MiB/s | published |" in capsys.readouterr().out
    assert commands.run(["size", "--sources", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert {row["subject"] for row in rows} >= {"anf-premium", "premium-ssd-p30", "Standard_D32s_v5", "nfs-client"}
    assert all(row["source"] for row in rows)


def test_errors_of_a_load() -> None:
    with pytest.raises(DialectError, match="nothing to size"):
        demanded()
    for wrong in ("70:40", "70", "a:b"):
        with pytest.raises(ValueError, match="is not a mix"):
            parse_mix(wrong)
    assert parse_mix("70:30") == 70.0
    with pytest.raises(DialectError, match="D99"):
        commands.run(["size", "--iops", "1k", "--vm", "D99"])


def test_machine_names_are_written_short() -> None:
    assert disks.vm_name("d32s_V5") == disks.vm_name("Standard_D32s_v5") == "Standard_D32s_v5"


# ---- formulas


@cases("advice/littles_law")
def test_littles_law(iops: int, latency_us: int, expected: str) -> None:
    assert Demand(iops=iops, latency_ns=latency_us * 1000).in_flight == Fraction(expected)


def test_a_window_is_bandwidth_times_round_trip() -> None:
    assert facts.window_bytes(1_000 * MIB, MILLISECOND_NS) == 1_000 * MIB // 1000
    assert facts.window_bytes(3, 500_000_000) == 2


def test_the_smallest_premium_quota_for_4500_mib_per_s() -> None:
    figure = present(profile.load("anf-premium").throughput_mib_per_s)

    def smallest(mib_per_s: int) -> int | None:
        return facts.smallest_quota(lambda quota: figure.of(Sized(quota_bytes=quota)) >= mib_per_s, 50, 102_400)

    assert list(map(smallest, (4500, 4501, 1))) == [Fraction("70.3125") * TIB, None, 50 * GIB]


def test_every_fact_has_a_page() -> None:
    for name, file in facts.files().items():
        assert all(facts.cite(name, fact) for fact in file.facts)
    assert facts.value("nfs-client", "read_ahead_kib") * KIB == 15 * MIB


# ---- twice the throughput, half the latency


AXES = synthetic.AXES | {"block_bytes": 64 * KIB, "depth": 32, "nconnect": 4}


def twice(code: str, *, confidence: str = "certain", target: TargetFacts = VOLUME, iops: float = 8_000) -> Twice | None:
    """The advice for one point that is held down by a limit: 32 in flight, 64 KiB."""
    point = synthetic.nfs_point("read 64 KiB", "mix", AXES, iops)
    sure: Any = confidence
    limit = Limit(code=code, short_name=LIMIT_KINDS[code].short_name, text="at a limit", confidence=sure)
    return read(synthetic.result([point.replace(limit=limit)], target=target)).twice


@cases("advice/twice")
def test_a_limit_says_what_gives_twice_the_rate_and_half_the_latency(
    code: str,
    confidence: str,
    iops: float,
    service_level: tuple[str, int, int, int] | None,
    facts: dict[str, Any],
    golden: Golden,
) -> None:
    target = VOLUME
    if service_level:
        name, quota_tib, mib_per_s, next_mib = service_level
        own = caps({"throughput_bytes_per_s": mib_per_s * MIB})
        target = target.replace(service_level=name, quota_bytes=quota_tib * TIB, caps=own, latency_mean_ns=None)
        target = target.replace(next_tib_bytes_per_s=next_mib * MIB)
    found = twice(code, confidence=confidence, target=target.replace(**facts), iops=iops)
    golden.check(found and [found.for_rate, found.for_latency])

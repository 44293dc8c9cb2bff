"""Service levels: results of the published formulas, and refusals beyond their bounds."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from goldens import Golden, cases, data, matches
from iocurve.foundation.errors import DialectError
from iocurve.foundation.units import GIB, MIB, TIB, parse_bytes
from iocurve.machine.files import memory_available
from iocurve.result.caps import EGRESS, Burst, caps
from iocurve.targets.target import VolumeTarget
from iocurve.volume import profile
from iocurve.volume.limits import AddedLatency, Exponential, Limits, Lognormal, Parallelism
from iocurve.volume.profile_limits import describe, resolve
from iocurve.volume.spec import memory_limit_bytes


@cases("volume/throughput")
def test_throughput_follows_from_the_quota(name: str, quota: str, mib_per_s: float) -> None:
    assert resolve(name, parse_bytes(quota)).value("throughput_bytes_per_s") == mib_per_s * MIB


@pytest.mark.parametrize(
    ("quota_gib", "iops", "burst_iops", "credits"),
    [(100, 3100, 10_000, 24_840_000), (1024, 4024, 10_000, 21_513_600), (30 * 1024, 33_720, 92_160, 210_384_000)],
)
def test_azure_files_v1_bursts_on_credits(quota_gib: int, iops: int, burst_iops: int, credits: int) -> None:
    found = resolve("azure-files-v1", quota_gib * GIB)
    assert (found.value("iops"), found.burst) == (iops, Burst(value=burst_iops, credits=credits))
    assert found.latency == AddedLatency(base_ns=2_000_000)


def test_a_share_at_the_ceiling_has_nothing_to_burst_to() -> None:
    found = resolve("azure-files-v1", 100 * TIB)
    assert (found.value("iops"), found.burst) == (102_400, None)


def test_azure_files_v2_bursts_from_the_iops_that_are_set() -> None:
    found = resolve("azure-files-v2", 1024 * GIB, iops=5000, throughput_bytes_per_s=300 * MIB)
    assert (found.value("iops"), found.value("throughput_bytes_per_s")) == (5000, 300 * MIB)
    assert found.burst == Burst(value=15_000, credits=36_000_000)


@pytest.mark.parametrize(
    ("quota_gib", "iops", "burst_s", "mib_per_s"),
    [(33, 100, 1862, 128), (100, 300, 2000, 128), (334, 1002, 2703, 250), (750, 2250, 7200, 250)],
)
def test_gp2_as_its_page_has_it(quota_gib: int, iops: int, burst_s: int, mib_per_s: int) -> None:
    found = resolve("ebs-gp2", quota_gib * GIB)
    assert found.burst is not None
    assert (found.value("iops"), found.value("throughput_bytes_per_s")) == (iops, mib_per_s * MIB)
    assert round(found.burst.credits / (found.burst.value - iops)) == burst_s
    assert resolve("ebs-gp2", 5334 * GIB).caps[1].value == 16_000


@pytest.mark.parametrize(("tib", "base", "burst"), [(0.125, 5, 31.25), (1, 40, 250), (3, 120, 500), (12, 480, 500)])
def test_st1_bursts_in_bytes_as_its_page_has_it(tib: float, base: int, burst: float) -> None:
    found = resolve("ebs-st1", round(tib * TIB))
    assert found.value("throughput_bytes_per_s") == base * MIB
    assert found.throughput_burst == Burst(value=round(burst * MIB), credits=round(tib * TIB))
    assert resolve("ebs-st1", 16 * TIB).throughput_burst is None, "at the base nothing is left to burst to"


def test_limits_that_follow_the_stored_data() -> None:
    small, large = (resolve("efs-bursting", TIB, stored_bytes=stored) for stored in (0, 4 * TIB))
    assert (small.value("throughput_bytes_per_s"), large.value("throughput_bytes_per_s")) == (MIB, 200 * MIB)
    assert small.throughput_burst == Burst(value=100 * MIB, credits=2150 * GIB)
    assert large.throughput_burst == Burst(value=400 * MIB, credits=4 * 21504 * GIB // 10)
    fields = large.fields()
    assert (fields["burst"], fields["burst_throughput"]["bytes_per_s"], fields["reads_per_write"]) == (
        None, 400 * MIB, 3,
    )  # fmt: skip
    slow = large.at_speed(Fraction(1, 10)).caps[0]
    assert (slow.reads_per_write, slow.burst and slow.burst.value) == (3, 40 * MIB)


@pytest.mark.parametrize(
    ("name", "tib", "mb_per_s", "iops"),
    [
        ("fsx-openzfs", 2, 512, 6_144),
        ("fsx-openzfs", 40, 512, 20_000),
        ("fsx-ontap", 14, 1_024, 40_000),
        ("fsx-ontap", 4, 2_048, 12_288),
        ("oci-file-storage", 1, 2_500, None),
    ],
)
def test_throughputs_are_set_in_steps(name: str, tib: int, mb_per_s: int, iops: int | None) -> None:
    found = resolve(name, tib * TIB, throughput_bytes_per_s=mb_per_s * 1_000_000)
    assert (found.value("throughput_bytes_per_s"), found.value("iops")) == (mb_per_s * 1_000_000, iops)
    with pytest.raises(DialectError, match=r"a throughput of 300 MB/s cannot be set; there are [\d, ]+ MB/s"):
        resolve(name, tib * TIB, throughput_bytes_per_s=300_000_000)


def test_manual_qos_gives_a_part_of_the_pool() -> None:
    found = resolve("anf-ultra", 1 * TIB, throughput_bytes_per_s=1024 * MIB, pool_bytes=8 * TIB)
    assert found.value("throughput_bytes_per_s") == 1024 * MIB
    flexible = resolve("anf-flexible", 1 * TIB, throughput_bytes_per_s=640 * MIB)
    assert flexible.value("throughput_bytes_per_s") == 640 * MIB


@cases("volume/beyond_bounds")
def test_values_beyond_the_bounds_are_refused(name: str, quota: str, settings: dict[str, int], golden: Golden) -> None:
    with pytest.raises(DialectError) as refused:
        resolve(name, parse_bytes(quota), **settings)
    golden.check(str(refused.value))


OWN = data("volume/own.toml")


def test_a_user_s_profile_can_set_every_limit(tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text(OWN)
    found = resolve(str(path), 2 * TIB)
    latency = AddedLatency(base_ns=250_000, distribution=Lognormal(median_ns=80_500, p99_ns=1_200_000))
    matches("volume_profile/a_user_s_profile_can_set_every_limit", found.fields())
    assert (found.latency, found.parallelism) == (latency, Parallelism(servers=16, service_ns=20_250))
    assert resolve(str(path), 8 * TIB).value("throughput_read_bytes_per_s") == 700 * MIB
    replaced = resolve(str(path), 2 * TIB, latency_ns=5, client_egress_bytes_per_s=9, client_iops_write=8)
    assert replaced.latency == AddedLatency(base_ns=5), "all of it is replaced"
    matches("volume_profile/a_user_s_profile_can_set_every_limit_more", replaced.fields()["client"])
    path.write_text('title = "x"\n[latency_us.distribution]\nkind = "exponential"\nmean_us = 40\n')
    assert resolve(str(path), TIB) == Limits(latency=AddedLatency(distribution=Exponential(mean_ns=40_000)))


def test_a_user_s_profile_is_described(tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text(OWN)
    matches("volume_profile/a_user_s_profile_is_described", describe(str(path)))


def test_a_missing_profile_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DialectError, match=r"^profile .*/none\.toml: No such file or directory$"):
        profile.load(str(tmp_path / "none.toml"))
    (tmp_path / "noise.toml").write_bytes(b"\xff")
    with pytest.raises(DialectError, match=r"noise\.toml: 'utf-8' codec can't decode"):
        profile.load(str(tmp_path / "noise.toml"))


def test_every_profile_is_complete_and_cites_its_figures() -> None:
    assert len(profile.names()) == 31
    for name in profile.names():
        cited = {citation for _, _, citation in describe(name)}
        assert len(cited) == len(profile.load(name).sources), "a page that nothing cites"


@cases("volume/profile_errors")
def test_errors_in_a_profile_have_their_path(text: str, reason: str) -> None:
    with pytest.raises(DialectError, match=f"^{reason}"):
        profile.parse(text, "t")


def test_an_unknown_profile_lists_the_known_ones() -> None:
    with pytest.raises(DialectError, match=r"^there is no profile '\.\./x'; there are anf-flexible, "):
        profile.load("../x")


def test_a_slower_volume_keeps_its_shape() -> None:
    """Rates and credits fall, times grow, and counts stay, so that a load has the same depth of the knee and gains."""
    rates = {"throughput_bytes_per_s": 1000, "iops": 500, EGRESS: 300, "connection.bandwidth_bytes_per_s": 200}
    rates |= {"connection.iops": 40}
    counts = {"connection.requests_in_flight": 128}
    whole = Limits(
        caps=caps(rates | counts, Burst(value=1500, credits=60_000)),
        latency=AddedLatency(base_ns=2000, distribution=Lognormal(median_ns=100, p99_ns=900), seed=7),
        parallelism=Parallelism(servers=4, service_ns=50),
    )
    assert whole.at_speed(Fraction(1, 10)) == Limits(
        caps=caps({name: rate // 10 for name, rate in rates.items()} | counts, Burst(value=150, credits=6_000)),
        latency=AddedLatency(base_ns=20_000, distribution=Lognormal(median_ns=1000, p99_ns=9000), seed=7),
        parallelism=Parallelism(servers=4, service_ns=500),
    )
    assert whole.at_speed(Fraction(1)) == whole
    assert Limits(caps=caps({"iops": 3})).at_speed(Fraction(1, 100)).value("iops") == 1, "a limit does not become none"


def test_limits_of_one_kind_that_the_limit_of_both_keeps_are_left_out() -> None:
    assert resolve("anf-ultra", 4 * TIB).value("throughput_write_bytes_per_s") is None
    assert resolve("anf-ultra", 100 * TIB).value("throughput_write_bytes_per_s") == 2500 * MIB
    facts = VolumeTarget.of("volume:anf-ultra?quota=100TiB&speed=0.1").export.limits()
    assert (facts.value("connection.iops_read"), facts.value("connection.iops_write")) == (6_700, 4_400)
    assert facts.value("throughput_bytes_per_s") == 450 * MIB


@cases("volume/control_groups")
def test_a_control_group_bounds_the_memory_of_files(
    groups: str, files: dict[str, object], available: int, tmp_path: Path
) -> None:
    texts = {f"sys/fs/cgroup/{name}": f"{content}\n" for name, content in files.items()}
    meminfo = f"MemTotal: 9999999 kB\nMemAvailable: {8 * GIB // 1024} kB\n"
    for name, text in {"proc/meminfo": meminfo, "proc/self/cgroup": groups, **texts}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert memory_available(tmp_path) == available


@pytest.mark.parametrize(("available", "limit"), [(GIB, GIB // 2), (2 * GIB, 2 * GIB - 650 * MIB), (8 * GIB, 6 * GIB)])
def test_files_in_memory_leave_room_for_connections_and_state(
    available: int, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("iocurve.volume.spec.memory_available", lambda: available)
    assert (memory_limit_bytes(), memory_limit_bytes(2)) == (limit, limit // 2)

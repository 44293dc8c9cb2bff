"""Service levels: results of the published formulas, and refusals beyond their bounds."""

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
from iocurve.volume.limits import AddedLatency, Exponential, Limits, Lognormal, Parallelism, ServerCache
from iocurve.volume.profile_limits import describe, resolve
from iocurve.volume.spec import Setting, memory_limit_bytes, spec_of


@cases("volume/throughput")
def test_throughput_follows_from_the_quota(name: str, quota: str, mib_per_s: float) -> None:
    assert resolve(name, parse_bytes(quota)).value("throughput_bytes_per_s") == mib_per_s * MIB


@cases("volume/limits")
def test_limits_follow_from_quota_and_settings(name: str, quota: str, settings: dict[str, int], golden: Golden) -> None:
    golden.check(resolve(name, parse_bytes(quota), **settings).fields())


def test_a_slower_volume_counts_reads_for_less_as_well() -> None:
    slow = resolve("efs-bursting", TIB, stored_bytes=4 * TIB).at_speed(Fraction(1, 10)).caps[0]
    assert (slow.reads_per_write, slow.burst and slow.burst.value) == (3, 40 * MIB)


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
    latency = AddedLatency(base_ns=250_000, per_kib_ns=1500, distribution=Lognormal(median_ns=80_500, p99_ns=1_200_000))
    matches("volume_profile/a_user_s_profile_can_set_every_limit", found.fields())
    served = {"per_kib_ns": 500, "write_service_ns": 41_000, "write_per_kib_ns": 1250}
    assert (found.latency, found.parallelism) == (latency, Parallelism(servers=16, service_ns=20_250, **served))
    cache = ServerCache(bytes=64 * MIB, read_iops=843, read_bytes=500, write_iops=1, write_bytes=1000)
    assert (found.server_cache, found.at_speed(Fraction(1, 10)).server_cache) == (cache, cache)
    assert (found.write_latency, found.window_ns) == (AddedLatency(base_ns=900_000, per_kib_ns=3000), 100_000_000)
    assert resolve(str(path), 8 * TIB).value("throughput_read_bytes_per_s") == 700 * MIB
    of_clients: dict[str, Setting] = {"client_ingress": "7B", "client_egress": "9B", "client_iops_write": 8}
    replaced = spec_of({"profile": str(path), "quota": "2TiB", "latency": "5ns", **of_clients}).limits()
    assert replaced.latency == AddedLatency(base_ns=5), "all of it is replaced"
    matches("volume_profile/a_user_s_profile_can_set_every_limit_more", replaced.fields()["client"])
    path.write_text('title = "x"\n[latency_us.distribution]\nkind = "exponential"\nmean_us = 40\n')
    assert resolve(str(path), TIB) == Limits(latency=AddedLatency(distribution=Exponential(mean_ns=40_000)))


def test_a_user_s_profile_is_described(tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text(OWN)
    matches("volume_profile/a_user_s_profile_is_described", describe(str(path)))
    served = "servers = 1\nservice_us = 9\nper_kib_us = 2\nwrite_per_kib_us = 0\n"
    path.write_text(f'title = "x"\n[parallelism]\n{served}')
    assert [text for _, text, _ in describe(str(path))] == ["1 at once, 9 µs + 2 µs × KiB each, writes 9 µs"]


def test_a_missing_profile_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DialectError, match=r"^profile .*/none\.toml: No such file or directory$"):
        profile.load(str(tmp_path / "none.toml"))
    (tmp_path / "noise.toml").write_bytes(b"\xff")
    with pytest.raises(DialectError, match=r"noise\.toml: 'utf-8' codec can't decode"):
        profile.load(str(tmp_path / "noise.toml"))


def test_every_profile_is_complete_and_cites_its_figures() -> None:
    assert len(profile.names()) == 31
    for name in [*profile.names(), "measured-anf-ultra"]:
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

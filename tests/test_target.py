"""Parsing of targets, and removal of everything that was started for a measurement."""

from pathlib import Path

import pytest

from goldens import cases
from iocurve.foundation.errors import DialectError
from iocurve.foundation.units import MIB, TIB
from iocurve.measure.data_set import target_fields
from iocurve.targets import opened_target as place
from iocurve.targets.target import DiskTarget, LocalTarget, NewDiskTarget, NfsTarget, VolumeTarget, facts_of, parse


def test_each_text_is_the_target_that_it_looks_like(tmp_path: Path) -> None:
    assert isinstance(parse("nfs://host/vol"), NfsTarget)
    assert isinstance(parse("volume:anf-ultra"), VolumeTarget)
    assert isinstance(parse("disk:premium-ssd-p30"), NewDiskTarget)
    assert isinstance(parse(f"disk:premium-ssd-p30?path={tmp_path}"), DiskTarget)
    assert isinstance(parse(str(tmp_path)), LocalTarget)


@cases("targets/a_url_names_the_version")
def test_a_url_names_the_version_and_the_slots_of_its_session(
    query: str, version: int, slots: int, sizes: list[int | None]
) -> None:
    target = NfsTarget.of(f"nfs://host/vol{query}")
    mount = target.mount(target.nconnect)
    assert (mount.version, mount.session_slots, [mount.rsize, mount.wsize]) == (version, slots, sizes)


@pytest.mark.slow
def test_an_embedded_volume_is_mounted_as_its_target_says() -> None:
    with place.opened(parse("volume:unlimited?vers=4.1&slots=8&nconnect=2")) as there:
        assert isinstance(there.target, NfsTarget)
        assert (there.target.url.version, there.target.url.slots, there.nconnect) == (4, 8, 2)


def test_the_facts_of_a_volume_follow_from_its_level_and_quota() -> None:
    facts = facts_of(parse("volume:anf-premium?quota=2TiB&latency=500us"))
    assert (facts.kind, facts.service_level, facts.quota_bytes) == ("embedded_volume", "premium", 2 * TIB)
    assert (facts.throughput_bytes_per_s, facts.latency_ns) == (128 * MIB, 500_000)


def test_a_volume_without_a_level_has_no_quota_that_would_limit_it() -> None:
    facts = facts_of(parse("volume:unlimited?iops=5000"))
    assert (facts.service_level, facts.quota_bytes, facts.iops) == (None, None, 5000)


@cases("targets/errors")
def test_errors_in_a_target_are_reported(text: str, error: str) -> None:
    with pytest.raises(DialectError, match=error) as told:
        parse(text)
    assert str(told.value).startswith(f"{text}:") or text.removeprefix("volume:") in str(told.value)


@pytest.mark.slow
def test_a_volume_serves_as_long_as_it_is_open() -> None:
    with place.opened(parse("volume:unlimited?latency=1ms")) as there:
        section = target_fields(there)
        assert section.get("engine") == "nfs"
        with place.opened(parse(section.get("nfs_url"))) as again:
            assert again.facts.kind == "nfs"
    assert there.facts.address == "volume:unlimited?latency=1ms"


def test_a_disk_without_a_path_is_below_the_current_directory_and_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with place.opened(parse("disk:premium-ssd-p30?stripe=3")) as there:
        assert isinstance(there.target, DiskTarget)
        assert (there.target.path.parent, there.facts.address) == (tmp_path, "disk:premium-ssd-p30?stripe=3")
    assert list(tmp_path.iterdir()) == []

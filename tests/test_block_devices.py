"""Bytes that the block devices beneath files move."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from goldens import present
from iocurve.machine.mounts import DeviceMeter, Moved


def stat_of(read: int, written: int) -> str:
    return f"10 0 {read} 5 20 0 {written} 7 0 9 12\n"


def device(root: Path, number: str, name: str, parts: tuple[str, ...] = ()) -> Path:
    """A device in a copy of /sys, made of the parts that are there already."""
    made = root / "sys/devices" / name
    (made / "slaves").mkdir(parents=True)
    (made / "stat").write_text(stat_of(1000, 2000))
    for part in parts:
        (made / "slaves" / part).symlink_to(root / "sys/devices" / part)
    (root / "sys/dev/block").mkdir(parents=True, exist_ok=True)
    (root / "sys/dev/block" / number).symlink_to(made)
    return made


def number_of(path: Path) -> str:
    found = path.stat().st_dev
    return f"{os.major(found)}:{os.minor(found)}"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "data"
    path.write_bytes(b"x")
    if number_of(path).startswith("0:"):
        pytest.skip("the directory for temporary files is on no block device")
    return path


def test_sectors_are_512_bytes(tmp_path: Path, data: Path) -> None:
    made = device(tmp_path, number_of(data), "sda2")
    meter = DeviceMeter([str(data), str(tmp_path / "not/there/yet")], tmp_path)
    (made / "stat").write_text(stat_of(1008, 2001))
    assert meter.moved() == Moved(("sda2",), 8 * 512, 512)


def test_a_mapped_device_is_followed_to_its_parts(tmp_path: Path, data: Path) -> None:
    first, second = device(tmp_path, "8:1", "sda1"), device(tmp_path, "8:17", "sdb1")
    device(tmp_path, "9:0", "md0", ("sda1", "sdb1"))
    mapped = device(tmp_path, number_of(data), "dm-0", ("md0",))
    meter = DeviceMeter([str(data)], tmp_path)
    (first / "stat").write_text(stat_of(1002, 2000))
    (second / "stat").write_text(stat_of(1003, 2000))
    (mapped / "stat").write_text(stat_of(9000, 9000))
    assert meter.moved() == Moved(("sda1", "sdb1"), 5 * 512, 0)


def test_a_device_without_counters_tells_nothing(tmp_path: Path, data: Path) -> None:
    made = device(tmp_path, number_of(data), "sda2")
    (made / "stat").unlink()
    assert DeviceMeter([str(data)], tmp_path).moved() is None
    assert DeviceMeter([str(data)], tmp_path / "empty").moved() is None


def test_files_on_no_device_tell_nothing() -> None:
    assert DeviceMeter(["/proc/self/stat"]).moved() is None


def test_the_device_of_this_machine_writes_what_is_flushed(data: Path) -> None:
    meter = DeviceMeter([str(data)])
    if meter.moved() is None:
        pytest.skip("this system publishes no counters of block devices")
    with data.open("wb") as file:
        file.write(os.urandom(1 << 20))
        file.flush()
        os.fsync(file.fileno())
    found = present(meter.moved())
    # Other processes may add to it.
    assert found.write_bytes >= 1 << 20

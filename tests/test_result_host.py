"""Facts of the machine, read from a synthetic /proc, and bytes that its block devices move."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from goldens import cases, present
from goldens import data as text_of
from iocurve.foundation.units import SECOND_NS
from iocurve.machine.mounts import DeviceMeter
from iocurve.machine.processes import servers_of
from iocurve.result import host
from iocurve.result.document import MachineUse, ProcessorUse
from iocurve.result.stalls import noise


@pytest.fixture
def root(tmp_path: Path) -> Path:
    files = json.loads(text_of("kernel/machine.json")) | {"proc/self/mountinfo": text_of("kernel/mountinfo.txt")}
    for name, text in files.items():
        (path := tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def test_facts_are_those_of_proc(root: Path) -> None:
    facts = host.collect(root)
    assert (facts.cpu_model, facts.memory_bytes, facts.kernel) == ("Imaginary CPU", 16 << 20, "6.1.0-test")
    assert (facts.distribution, facts.tcp_congestion_control) == ("Debian GNU/Linux 12 (bookworm)", "cubic")
    assert facts.cpus >= 1


def test_missing_facts_are_unknown(tmp_path: Path) -> None:
    facts = host.collect(tmp_path)
    assert (facts.kernel, facts.distribution, facts.memory_bytes) == ("unknown", "unknown", 0)
    assert facts.tcp_congestion_control is None
    assert host.mount_of(Path("/somewhere"), tmp_path) is None
    assert host.MachineMeter(tmp_path).use() is None


@cases("result/a_path_is_on_the_nearest")
def test_a_path_is_on_the_nearest_mount(root: Path, path: str, device: str, options: str) -> None:
    mount = present(host.mount_of(Path(path), root))
    assert (mount.device, mount.options) == (device, options)


def test_cpu_use_is_computed_from_the_ticks(root: Path) -> None:
    """Idle time and I/O wait are not busy; user time already includes guest time."""
    meter = host.MachineMeter(root)
    (root / "proc/stat").write_text("cpu  130 0 60 850 60 0 0 0 99 0\ncpu0 31 0 11 61 0 0 0 0\n")
    use = present(meter.use())
    assert use.busy_share == 40 / 100
    assert use.processors == (ProcessorUse(processor=0, user_share=0.3, system_share=0.1),)


def test_no_machine_is_busier_than_it_can_be(root: Path) -> None:
    """The kernel may take back ticks that it had counted as waiting for I/O."""
    meter = host.MachineMeter(root)
    (root / "proc/stat").write_text("cpu  200 0 50 800 40 0 0 0 70 0\ncpu0 2 0 1 1 0 0 0 0\n")
    assert present(meter.use()).busy_share == 1.0


def test_a_thread_that_was_seen_for_a_moment_tells_no_share_of_the_time(root: Path) -> None:
    def thread(number: int, delay_ns: int) -> None:
        (path := root / f"proc/self/task/{number}/schedstat").parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"1000 {delay_ns} 1\n")

    (root / "proc/self/stat").write_text(Path("/proc/self/stat").read_text())
    thread(7, 0)
    meter = host.MachineMeter(root)
    time.sleep(0.05)
    thread(8, 0)
    meter.poll()
    thread(8, 1_000_000)
    (root / "proc/stat").write_text("cpu  130 0 60 850 60 0 0 0 99 0\n")
    assert present(present(meter.use()).thread_delay_share) < 0.1


# ---- servers on this machine


def listening(root: Path, port: int, inode: int) -> None:
    """A machine with a socket that listens on a port."""
    (root / "proc/net").mkdir(parents=True, exist_ok=True)
    (root / "proc/net/tcp").write_text(
        "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
        f"   0: 0100007F:{port:04X} 00000000:0000 0A 00000000:00000000 00:00000000 00000000  0  0 {inode} 1 0 100\n"
        f"   1: 0100007F:{port:04X} 0100007F:9999 01 00000000:00000000 00:00000000 00000000  0  0 77 1 0 100\n"
    )


def process(root: Path, pid: int, name: str, command: str, link: str | None) -> None:
    (directory := root / f"proc/{pid}/fd").mkdir(parents=True)
    (root / f"proc/{pid}/comm").write_text(f"{name}\n")
    (root / f"proc/{pid}/cmdline").write_text(command)
    if link:
        (directory / "3").symlink_to(link)


@cases("result/servers")
def test_the_processes_that_serve_a_target_on_this_machine(
    listens: int, processes: list[list[Any]], address: list[Any], expected: list[int] | None, tmp_path: Path
) -> None:
    listening(tmp_path, listens, 4711)
    for one in processes:
        process(tmp_path, *one)
    assert servers_of([tuple(address)], tmp_path) == (expected if expected is None else frozenset(expected))


def test_servers_that_are_not_known_are_not_told_from_others() -> None:
    use = host.MachineMeter(servers=None).added(MachineUse(busy_share=1.0, cpus=2, steal_share=0.0))
    assert (use.target_share, use.others_share, noise(use, SECOND_NS)) == (None, None, None)


def test_the_work_of_a_server_on_this_machine_is_the_targets() -> None:
    program = "import socket\ns = socket.create_server(('127.0.0.1', 0))\nprint(s.getsockname()[1], flush=True)\n"
    with subprocess.Popen([sys.executable, "-c", f"{program}while True: pass"], stdout=subprocess.PIPE) as server:
        try:
            assert server.stdout is not None
            found = servers_of([("127.0.0.1", int(server.stdout.readline()))])
            assert found == frozenset({server.pid})
            meter, whole = host.MachineMeter(servers=found), MachineUse(busy_share=1.0, cpus=1, steal_share=0.0)
            # The kernel counts in ticks, and other programs may have the processors. Two of them may count as one here.
            while not (use := meter.added(whole)).target_share:
                time.sleep(0.02)
            assert use.others_share == pytest.approx(max(0.0, 1 - use.target_share - (use.own_share or 0.0)))
        finally:
            server.kill()


# ---- block devices


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
    assert meter.moved() == (("sda2",), 8 * 512, 512)


def test_a_mapped_device_is_followed_to_its_parts(tmp_path: Path, data: Path) -> None:
    first, second = device(tmp_path, "8:1", "sda1"), device(tmp_path, "8:17", "sdb1")
    device(tmp_path, "9:0", "md0", ("sda1", "sdb1"))
    mapped = device(tmp_path, number_of(data), "dm-0", ("md0",))
    meter = DeviceMeter([str(data)], tmp_path)
    (first / "stat").write_text(stat_of(1002, 2000))
    (second / "stat").write_text(stat_of(1003, 2000))
    (mapped / "stat").write_text(stat_of(9000, 9000))
    assert meter.moved() == (("sda1", "sdb1"), 5 * 512, 0)


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
    *_, written = present(meter.moved())
    # Other processes may add to it.
    assert written >= 1 << 20

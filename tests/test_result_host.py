"""Facts of the machine, read from a synthetic /proc."""

from __future__ import annotations

from pathlib import Path

import pytest

from iocurve.result import host
from iocurve.result.document import ProcessorUse

MOUNTINFO = r"""
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw,errors=remount-ro
30 22 0:40 / /mnt rw - tmpfs first rw
31 22 0:41 / /mnt rw,nosuid shared:9 master:2 - tmpfs second rw,size=10k
32 31 0:42 / /mnt/my\040vol rw,relatime - nfs4 10.0.0.4:/vol rw,vers=4.1,rsize=262144,nconnect=8
33 22 0:43 / /mntother rw - xfs /dev/vdb rw
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    files = {
        "proc/cpuinfo": "processor\t: 0\nmodel name\t: Imaginary CPU\nprocessor\t: 1\nmodel name\t: Imaginary CPU\n",
        "proc/meminfo": "MemTotal:       16384 kB\nMemFree:        1 kB\n",
        "proc/sys/kernel/osrelease": "6.1.0-test\n",
        "proc/sys/net/ipv4/tcp_congestion_control": "cubic\n",
        "proc/stat": "cpu  100 0 50 800 50 0 0 0 70 0\ncpu0 1 0 1 1 0 0 0 0\n",
        "proc/self/mountinfo": MOUNTINFO.strip() + "\n",
        "etc/os-release": 'NAME="Debian"\nPRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\n',
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
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


@pytest.mark.parametrize(
    ("path", "device", "options"),
    [
        ("/home/x", "/dev/vda", "rw,relatime,errors=remount-ro"),
        ("/mnt/file", "second", "rw,nosuid,size=10k"),
        ("/mnt/my vol/a/b", "10.0.0.4:/vol", "rw,relatime,vers=4.1,rsize=262144,nconnect=8"),
        ("/mntother", "/dev/vdb", "rw"),
    ],
)
def test_a_path_is_on_the_nearest_mount(root: Path, path: str, device: str, options: str) -> None:
    mount = host.mount_of(Path(path), root)
    assert mount is not None
    assert (mount.device, mount.options) == (device, options)


def test_cpu_use_is_computed_from_the_ticks(root: Path) -> None:
    """Idle time and I/O wait are not busy; user time already includes guest time."""
    meter = host.MachineMeter(root)
    (root / "proc/stat").write_text("cpu  130 0 60 850 60 0 0 0 99 0\ncpu0 31 0 11 61 0 0 0 0\n")
    use = meter.use()
    assert use is not None
    assert use.busy_share == 40 / 100
    assert use.processors == (ProcessorUse(processor=0, user_share=0.3, system_share=0.1),)


def test_no_machine_is_busier_than_it_can_be(root: Path) -> None:
    """The kernel may take back ticks that it had counted as waiting for I/O."""
    meter = host.MachineMeter(root)
    (root / "proc/stat").write_text("cpu  200 0 50 800 40 0 0 0 70 0\ncpu0 2 0 1 1 0 0 0 0\n")
    use = meter.use()
    assert use is not None
    assert use.busy_share == 1.0

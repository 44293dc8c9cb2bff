"""Rules of all tests, and their peers: our own volume, nfs-ganesha, the Linux kernel's NFS client."""

import fcntl
import gc
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pytest
from cyclopts import App, ArgumentCollection
from hypothesis import HealthCheck, settings
from xdist.remote import Producer  # type: ignore[import-untyped]
from xdist.scheduler.loadscope import LoadScopeScheduling  # type: ignore[import-untyped]

from bench import servers
from bench.servers import Server
from programs import completed, volume_here

Report = TypeVar("Report", pytest.TestReport, pytest.CollectReport)

# Tests start iocurve hundreds of times: a process that must compile the package needs 0.3 to 0.5 s more of a processor.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
# Thousands of collected tests stay, and the collector would look through them again and again.
gc.set_threshold(20_000, 50, 50)
# Another program may hold the processors while hypothesis draws its examples.
settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")


GROUPS = {
    "test_nfs_client.py": "ganesha",
    "test_cluster.py": "cluster",
    "test_cluster_hosts.py": "cluster",
    "test_kernel_client.py": "kernel",
    "test_fio_plot.py": "fio-plot",
    "test_check.py": "check",
    "test_wording.py": "wording",
}
"""Files whose tests run one after another in one process: what they share takes long to start."""
SERVERS = {"ganesha", "restarting_ganesha", "cluster", "served", "volume", "shared_volume", "slow_volume", "kernel_nfs"}


class Groups(LoadScopeScheduling):  # type: ignore[misc]
    """Distributes single tests, and the groups as a whole.

    The mark ``xdist_group`` has no effect: pytest-xdist 3.8 writes it into an attribute that pytest 9.2 does not read.
    """

    def _split_scope(self, nodeid: str) -> str:
        return GROUPS.get(nodeid.partition("::")[0].rpartition("/")[2], nodeid)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Groups:
    """Uses the groups above."""
    return Groups(config, log)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Marks tests with a server as slow. Parallel runs start long work first."""
    for item in items:
        if "peers" in item.path.parts or SERVERS & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.slow)
    if hasattr(config, "workerinput"):
        items.sort(key=_rank)


def _rank(item: pytest.Item) -> int:
    if item.path.name in GROUPS or item.get_closest_marker("timeout"):
        return 0
    return 1 if item.get_closest_marker("slow") else 2


def pytest_configure() -> None:
    """Processes of tests inherit that nohup ignores hang-ups, and would not end by one."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture(scope="session", autouse=True)
def _own_directories(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keeps control sockets and state apart from the user's and from those of tests that run at the same time."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("XDG_RUNTIME_DIR", "XDG_STATE_HOME"):
            patch.setenv(name, str(tmp_path_factory.mktemp(name.split("_")[1].lower())))
        yield


@pytest.fixture(scope="session", autouse=True)
def _signatures_read_once() -> Iterator[None]:
    """The signature of a command is read once in a process, not for each command line: a fifth of all test time."""
    read = App.assemble_argument_collection
    known: dict[tuple[object, ...], tuple[App, ArgumentCollection]] = {}

    def assembled(app: App, **how: Any) -> ArgumentCollection:
        key = (id(app), app.app_stack.default_parameter, *sorted(how.items()))
        if key not in known:
            known[key] = app, read(app, **how)
        return _unparsed(known[key][1])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(App, "assemble_argument_collection", assembled)
        yield


def _unparsed(arguments: ArgumentCollection) -> ArgumentCollection:
    """A copy that takes the words of one command line; children are those of the copy."""
    copied = arguments.copy(reset_tokens=True)
    twins = {id(original): twin for original, twin in zip(arguments, copied, strict=True)}
    for twin in copied:
        children = twin.children.copy()
        children[:] = [twins[id(child)] for child in children]
        twin.children = children
    return copied


@pytest.fixture
def runtime(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Control sockets, keys and state of a test are its own; the directory of the sockets."""
    directory = tmp_path_factory.mktemp("run")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(directory))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
    return directory


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Under CI a skipped test fails."""
    return _without_skip((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Under CI a module that skips itself fails."""
    return _without_skip((yield))


def _without_skip(report: Report) -> Report:
    """Under CI a missing peer is a failure, so that it cannot pass unnoticed."""
    if os.environ.get("CI") == "true" and report.skipped and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"{report.nodeid} was skipped, which does not pass under CI: {reason}"
    return report


@pytest.fixture(scope="module")
def _ray_addresses() -> Iterator[None]:
    """Reserves the loopback addresses of Ray clusters, which exist once on a machine, against other test runs on it."""
    with (Path(tempfile.gettempdir()) / "iocurve-tests-ray.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@pytest.fixture
def volume() -> Iterator[Server]:
    """An empty embedded volume without a service level, in threads of this process."""
    with volume_here() as server:
        yield server


@pytest.fixture
def slow_volume() -> Iterator[Server]:
    """An empty embedded volume with a latency, so that a load without a rate leaves the processors idle."""
    with volume_here(latency="2ms") as server:
        yield server


@pytest.fixture(scope="session")
def shared_volume() -> Iterator[Server]:
    """An embedded volume for tests that each write below a directory of another name."""
    with servers.volume("--profile=unlimited") as server:
        yield server


@pytest.fixture(scope="module")
def ganesha_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The export of nfs-ganesha."""
    return tmp_path_factory.mktemp("ganesha")


@pytest.fixture(scope="module")
def ganesha(ganesha_directory: Path) -> Iterator[Server]:
    """nfs-ganesha over a directory, on free ports."""
    if shutil.which("ganesha.nfsd") is None:
        pytest.skip("needs Debian's nfs-ganesha and nfs-ganesha-vfs")
    if os.geteuid() != 0:
        pytest.skip("nfs-ganesha needs root")
    with servers.ganesha("vfs", ganesha_directory) as server:
        yield server


RIG_FAILED = 125


class KernelNfs:
    """Mounts a server with the Linux kernel's NFS client at $MNT, and runs a shell command there."""

    def __call__(
        self,
        server: Server,
        command: str,
        *,
        options: str = "vers=3",
        programs: Sequence[str] = (),
        timeout_seconds: float = 90,
    ) -> subprocess.CompletedProcess[str]:
        arguments = servers.guest_command(server, command, options, timeout_seconds, programs)
        for _ in range(2):
            done = completed(arguments, timeout=timeout_seconds + 20)
            # User-mode Linux itself may stand still, which says nothing of the server.
            if done.returncode != RIG_FAILED:
                break
        return done


@pytest.fixture(scope="session")
def kernel_nfs() -> KernelNfs:
    """The rig that boots a Linux kernel as a process."""
    if os.geteuid() != 0:
        pytest.skip("the kernel rig needs root")
    if not Path("/dev/net/tun").exists():
        pytest.skip("the kernel rig needs /dev/net/tun")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kernel-nfs"
    if not any(cache.glob("mount-uml-*.cpio")):
        pytest.skip("the kernel rig is not prepared: run tests/rig/kernel-nfs --prepare")
    return KernelNfs()

"""Agents on a Ray cluster of loopback addresses: from the command line to the result, and losses."""

import json
import os
import secrets
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from ipaddress import IPv4Address
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from iocurve.result.document import ClientOutcome

# Ray reads its mode of authentication when it is loaded: only the fixture loads it.
if find_spec("ray") is None:
    pytest.skip("Ray is not installed: make develop installs it", allow_module_level=True)

from bench import servers
from goldens import data, present
from iocurve._native import VERSION
from iocurve.cli.commands import run
from iocurve.cli.dialects import run as run_dialect
from iocurve.cluster import commands, nodes, session, started
from iocurve.cluster.check import Checked, problems
from iocurve.cluster.ray_options import ENVIRONMENT, cluster_directory, user_environment
from iocurve.engine import plan as planned
from iocurve.foundation.errors import DialectError, PlanError, RunError
from iocurve.foundation.units import MIB, SECOND_NS
from iocurve.machine.files import cache_directory
from iocurve.measure import local
from iocurve.measure.deployment import replicated
from iocurve.measure.group import ClientGroup, barrier
from iocurve.measure.records import Introduction, Survey
from iocurve.result import host
from iocurve.result.document import MountFacts, Result
from load_clients import require_whole_sum
from plans import local_engine, own_file, plan_of, worker
from programs import IOCURVE, awaited, completed, stopped
from programs import started as begun
from published_vdbench import SEED_HOSTS, SEED_VOLUMES, seed_files

pytestmark = pytest.mark.slow

MACHINE_NOTES = {"clients_real", "server_stalled", "target_stalled"}
"""Notes on a machine that other tests use, too."""

NODE = {"object_store_memory": 80 * MIB, "include_log_monitor": False}
PLACES: tuple[commands.Place, ...] = ("ssh", "cloud-init", "slurm", "kuberay")


def outlasted_by(client: int) -> planned.Plan:
    """A plan for three clients, one of which is lost before its end, at a rate that leaves the processors to Ray."""
    rate = planned.Rate(unit="operations", count=1000, per_ns=SECOND_NS)

    def runs(number: int) -> planned.Worker:
        end = planned.End(runtime_ns=(600 if number == client else 1) * SECOND_NS, bytes=None, operations=None)
        return worker(planned.NullEngine(), "nothing", end=end, rate=rate, client=number)

    return plan_of(*map(runs, range(3)))


TOKEN = secrets.token_hex(32)
"""Ray keeps the mode and the token that it is loaded with for the whole process."""


@pytest.fixture(scope="module", autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The home of all tests, made again where tests of other files run between them."""
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        # Ray listens on all addresses of the machine, whatever the address of a node.
        patch.setenv("RAY_AUTH_MODE", "token")
        patch.setenv("RAY_AUTH_TOKEN", TOKEN)
        for name, value in ENVIRONMENT.items():
            patch.setenv(name, value)
        # A page would make its library of charts once more, in seconds.
        patch.setenv("XDG_CACHE_HOME", str(cache_directory().parent))
        patch.setenv("HOME", str(home))
        patch.setenv("XDG_STATE_HOME", str(home / "state"))
        yield home


@pytest.fixture(scope="module")
def cluster(_ray_addresses: None, home: Path) -> Iterator[Any]:
    """A head and three nodes with an agent each."""
    from ray.cluster_utils import Cluster

    # Ray replaces 127.0.0.1 by the address of the machine.
    head = {"node_ip_address": "127.0.0.10", "num_cpus": 0, "include_dashboard": False}
    made = Cluster(initialize_head=True, head_node_args=head | NODE | _ports())
    for number in range(3):
        _add_node(made, f"127.0.0.{11 + number}")
    yield made
    made.shutdown()
    assert not (home / ".ray").exists(), "no token is left in the home"


def _add_node(cluster: Any, address: str) -> None:
    cluster.add_node(node_ip_address=address, num_cpus=1, resources={nodes.RESOURCE: 1}, wait=False, **NODE, **_ports())


def _ports() -> dict[str, int]:
    """Free ports of a node's agents. Ray gives up on a node whose agents are slow to choose theirs."""
    names = ("metrics_agent_port", "metrics_export_port", "dashboard_agent_listen_port", "runtime_env_agent_port")
    first, second = servers.free_ports(), servers.free_ports()
    return dict(zip(names, (first, first + 1, second, second + 1), strict=True))


def opened(cluster: Any, clients: int = 3) -> Any:
    return session.opened(cluster.address, clients)


def test_three_clients_give_exactly_the_sum_of_what_each_measured(cluster: Any, tmp_path: Path) -> None:
    plan = replicated(plan_of(worker(local_engine("sync"), str(tmp_path / "data"))), 3, own_file)
    with opened(cluster) as group:
        assert group.names == ("127.0.0.11", "127.0.0.12", "127.0.0.13")
        point, _ = local.measure(plan, machines=group)
    assert point.outcome.state == "finished"
    assert len(require_whole_sum(point, operations=256, size=MIB)[0]) == 3
    assert [client.state for client in point.clients] == ["finished"] * 3
    assert all(client.clock and client.clock.drift_ns is not None for client in point.clients)


def test_a_scenario_runs_its_clients_on_the_cluster(cluster: Any, tmp_path: Path) -> None:
    (scenario := tmp_path / "grow.toml").write_text(data("scenarios/grow.toml"), encoding="utf-8")
    out = tmp_path / "out"
    words = ["run", str(scenario), "--full", "--retries", "0", "--clients", "3", "--on", cluster.address]
    assert run([*words, "--out", str(out), "--quiet"]) == 0
    result = Result.read(out / "result.json")
    assert [point.axes["clients"] for point in result.points] == [1, 3]
    assert [[client.state for client in point.clients] for point in result.points] == [["finished"], ["finished"] * 3]
    assert [(note.code, note.text) for note in result.notes if note.code not in MACHINE_NOTES] == []
    assert "3 clients instead of 6" in present(result.scenario).shortened
    assert all(one.operations["read"].operations for one in result.points[1].outcome.workers)


def test_a_search_runs_on_the_cluster(cluster: Any, tmp_path: Path) -> None:
    out = tmp_path / "out"
    options = ["--iodepth-max", "2", "--size", "8MiB", "--clients", "2", "--precision", "50%", "--retries", "0"]
    options += ["--workload", "rw=randread bs=4k direct=0", "--on", cluster.address, "--out", str(out), "--quiet"]
    assert run(["knee", str(tmp_path), *options]) == 0
    points = Result.read(out / "result.json").points
    assert {point.axes["clients"] for point in points} == {2}
    assert [len(point.clients) for point in points if point.axes["depth"] == 2] == [2]
    assert [path.name for path in tmp_path.iterdir()] == ["out"], "the clients have removed their files"


def test_the_24_hosts_of_a_published_vdbench_file_run_on_3_nodes(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    data = tmp_path / "data"
    data.mkdir()
    nodes = {"vm[1-8]": "127.0.0.11", "vm9": "127.0.0.12", "vm1[0-6]": "127.0.0.12", "vm*": "127.0.0.13"}
    maps = [f"--map-host={hosts}={node}" for hosts, node in nodes.items()]
    words = ["-f", str(seed_files(tmp_path)), *maps, f"--map-lun=/mnt/vdb*={data}", "--size=64k", "-e2", "-i1", "-w1"]
    assert run_dialect("vdbench", [*words, "--out=report", f"--on={cluster.address}"]) == 0
    assert "Vdbench execution completed successfully" in capsys.readouterr().out
    [point] = Result.read(tmp_path / "report/result.json").points
    assert [client.name for client in point.clients] == ["127.0.0.11", "127.0.0.12", "127.0.0.13"]
    files: dict[int, set[str]] = {}
    for one in point.plan.groups[0].workers:
        files.setdefault(one.client, set()).update(file.path.rpartition("/")[2] for file in one.files)
    assert [len(names) for names in files.values()] == [SEED_HOSTS * SEED_VOLUMES // 3] * 3
    assert {name.split("-")[1] for name in files[1]} == {str(vm) for vm in range(9, 17)}
    assert sum(point.of_client(client).operations for client in range(3)) == point.summary().operations > 0
    assert (tmp_path / "output/127.0.0.12.html").exists(), "each agent has a host report"


def test_the_check_lists_clients_and_problems(cluster: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["cluster", "check", str(tmp_path), "--on", cluster.address, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["problems"] == []
    assert [client["client"] for client in found["clients"]] == [f"127.0.0.{number}" for number in range(11, 14)]
    assert run(["cluster", "check", str(tmp_path / "absent"), "--on", cluster.address, "--clients", "5"]) == 1
    shown = capsys.readouterr().out
    assert "mount the volume there" in shown
    assert "problem: 2 of 5: missing" in shown


def test_too_few_nodes_and_unknown_nodes_are_named(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "NODES_S", 0)
    for count, names, error in (
        (9, (), r"^agents are missing: 6 of 9; the cluster has 3\. iocurve cluster check"),
        (None, ["127.0.0.12", "vm-7"], r"no agent 'vm-7'; it has 127\.0\.0\.11"),
    ):
        with pytest.raises(RunError if count else PlanError, match=error):
            _open(cluster.address, count, names)
    with session.opened(cluster.address, 9, allow_missing=True) as group:
        assert (group.count, group.cluster_facts().missing) == (3, ("6 of 9",))
    with session.opened(cluster.address, None, ["127.0.0.12", "127.0.0.11"]) as group:
        assert group.names == ("127.0.0.12", "127.0.0.11")


def test_another_version_is_refused(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "VERSION", "9.9.9")
    with pytest.raises(PlanError, match=r"127\.0\.0\.11 has iocurve .*, this machine has 9\.9\.9"):
        _open(cluster.address, 2)


def test_an_address_where_no_cluster_is_gets_a_remedy() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    errors = {
        "ray://127.0.0.10:10001": (DialectError, "run iocurve on a node of the cluster"),
        "vm1": (DialectError, "^--on vm1: name auto, or the head as HOST:PORT"),
        f"127.0.0.1:{port}": (
            RunError,
            rf"^there is no cluster at 127\.0\.0\.1:{port} \(.*refused\); iocurve cluster up --hosts",
        ),
    }
    for address, (error, text) in errors.items():
        with pytest.raises(error, match=text):
            _open(address)


def _open(address: str, count: int | None = None, names: Sequence[str] = ()) -> None:
    with session.opened(address, count, names):
        pass


def test_a_second_run_is_told_at_once_what_has_the_cluster(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["iocurve", "knee", "/mnt"])
    with opened(cluster, 2):
        words = ["fio", "--client=127.0.0.13", "--name=read", "--ioengine=null", "--size=1m", "--rw=read"]
        second = completed([*IOCURVE, *words, f"--on={cluster.address}"])
        checked = completed([*IOCURVE, "cluster", "check", "--on", cluster.address])
    assert second.returncode == 1
    assert f"the cluster is busy with 'iocurve knee /mnt' (process {os.getpid()} of " in second.stderr
    assert checked.returncode == 0, "a check needs no agent"
    assert "127.0.0.13" in checked.stdout


def test_a_head_that_does_not_answer_is_told_within_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nodes, "REACH_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(RunError, match=r"the head does not answer for 0\.2 s"):
            nodes.listed(address, 0.2)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_all_clients_and_what_they_measured_is_reported(
    cluster: Any, tmp_path: Path, number: signal.Signals
) -> None:
    job, out = tmp_path / "job.toml", tmp_path / "out"
    job.write_text(data("cluster/long_job.toml"), encoding="utf-8")
    words = ["run", str(job), "--clients", "2", "--on", cluster.address, "--out", str(out), "--quiet"]
    of_lost_clients = _measuring()
    with begun(*words) as process:
        awaited(lambda: process.poll() or len(_measuring()) >= len(of_lost_clients) + 2, "nothing is measured")
        ran = stopped(process, number)
    assert ran.returncode == 128 + number, ran.stderr
    result = Result.read(out / "result.json")
    assert (result.state, [client.state for client in result.points[0].clients]) == ("interrupted", ["interrupted"] * 2)
    assert all(worker.operations["read"].operations for worker in result.points[0].outcome.workers)
    assert (out / "report.html").exists()
    assert _measuring() == of_lost_clients, "the records of all clients have arrived"


def _measuring() -> set[Path]:
    """The local files of clients that have sent an interval: its line follows those of the task and the start."""
    directory = Path(os.environ["XDG_STATE_HOME"]) / "iocurve/clients"
    return {path for path in directory.glob("*.jsonl") if path.read_bytes().count(b"\n") > 2}


def losing(
    cluster: Any, client: int, lose: Callable[[ClientGroup], None]
) -> tuple[list[int], tuple[ClientOutcome, ...]]:
    """The workers of a run that loses a client after three intervals, and what became of the clients."""
    with opened(cluster) as group:
        running = group.start(outlasted_by(client), "point")
        while running.live().intervals < 3:
            assert running.wait(0.05) is None
        lose(group)
        outcome = present(running.wait(60))
        facts = present(running.facts())
    return [one.worker for one in outcome.workers], facts[0]


@pytest.mark.parametrize("how", ["killed", "frozen"])
def test_a_lost_client_is_named_and_the_others_finish(cluster: Any, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(barrier, "SILENT_S_MIN", 2.5)
    monkeypatch.setattr(barrier, "LOST_S_MIN", 5.0)
    number = signal.SIGKILL if how == "killed" else signal.SIGSTOP
    workers, clients = losing(cluster, 1, lambda group: os.kill(_process_of(group, 1), number))
    assert [client.state for client in clients] == ["finished", "lost", "finished"]
    assert ("its process has ended" if how == "killed" else "silent for") in (clients[1].reason or "")
    assert present(clients[1].until_loss).operations["read"].operations > 0
    assert workers == [0, 2]


def test_a_lost_node_is_named_and_the_others_finish(cluster: Any) -> None:
    node = next(one for one in cluster.worker_nodes if one.node_ip_address == "127.0.0.13")
    workers, clients = losing(cluster, 2, lambda _: cluster.remove_node(node, allow_graceful=False))
    _add_node(cluster, "127.0.0.13")
    cluster.wait_for_nodes()
    assert [client.state for client in clients] == ["finished", "finished", "lost"]
    assert workers == [0, 1]


@pytest.mark.usefixtures("_ray_addresses")
def test_nodes_that_start_at_once_join_a_local_cluster_that_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("RAY_AUTH_MODE", "")
    monkeypatch.setattr(started, "FIRST_ADDRESS", IPv4Address("127.0.0.20"))
    monkeypatch.setattr(started, "PORT", _ports()["metrics_agent_port"])
    address = started.up(3)
    known = present(started.StartedCluster.known())
    try:
        assert known.address == address
        assert list(known.hosts) == ["127.0.0.21", "127.0.0.22", "127.0.0.23"]
        assert len(known.alive) == 4
        assert (Path(known.directory) / "token").stat().st_mode & 0o777 == 0o600
    finally:
        assert started.down() == 4
    assert not known.alive
    assert not Path(known.directory).exists(), "the token goes with the cluster"
    assert started.StartedCluster.known() is None


@pytest.mark.usefixtures("_ray_addresses")
def test_a_number_of_clients_without_a_cluster_is_processes_here(tmp_path: Path) -> None:
    words = [str(_ports()["metrics_agent_port"]), "--clients=2", "-c64K", "-b4K", "-d1", "-W0", str(tmp_path / "data")]
    ran = completed(
        [sys.executable, "-c", data("scripts/cluster_of_this_machine.txt"), *words],
        env=os.environ | {"XDG_STATE_HOME": str(tmp_path / "state"), "RAY_AUTH_MODE": ""},
        timeout=180,
    )
    assert ran.returncode == 0, ran.stderr
    assert "computer name: 127.0.0.41, 127.0.0.42" in ran.stdout
    assert not list((tmp_path / "state/iocurve/cluster").glob("started.json")), "the cluster ends with the run"


def test_a_node_that_ends_is_told_with_its_last_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    cluster = started.StartedCluster(str(tmp_path), processes=[started.GroupLeader(os.getpid(), "ray", 0)])
    logs = tmp_path / "0/session_latest/logs"
    logs.mkdir(parents=True)
    cluster_directory().mkdir(parents=True)
    (cluster_directory() / "node-0.log").write_text("starting\nTraceback\nException: timed out\n", encoding="utf-8")
    assert cluster.cause() == f"; the head: Exception: timed out ({cluster_directory()}/node-0.log)"
    (logs / "raylet.out").write_text("started\nStart … bind: Address already in use\n", encoding="utf-8")
    assert cluster.cause().startswith("; the head: Start … bind: Address already in use (")


def _process_of(group: ClientGroup, client: int) -> int:
    """The process of a client's actor."""
    import ray

    link: Any = group._members[client].link

    def process(_actor: object) -> int:
        return os.getpid()

    return int(ray.get(link._actor.__ray_call__.remote(process)))


def test_clients_that_differ_are_problems_with_remedies() -> None:
    def client(name: str, python: str = "3.11.7", options: str = "rw,vers=3,clientaddr=10.0.0.1") -> Checked:
        mount = MountFacts(device="s:/v", mount_point="/mnt", file_system="nfs", options=options)
        survey = Survey(exists=True, mount=mount, free_bytes=1, nic_mbit_per_s=40_000)
        found = Introduction(host=host.collect().replace(python=python), iocurve=VERSION, boot="")
        return Checked(name, found, 0, 20_000, survey)

    alike = [client("a"), client("b", options="rw,vers=3,clientaddr=10.0.0.2"), client("c")]
    assert problems(alike, PurePosixPath("/mnt")) == []
    odd = [*alike, client("d", python="3.12.1"), client("e", options="rw,vers=3,nconnect=8,clientaddr=10.0.0.5")]
    assert [str(problem) for problem in problems(odd, PurePosixPath("/mnt"))] == [
        "d: Python 3.12.1, others 3.11.7 (install the same version on all)",
        "e: mount options of /mnt rw,vers=3,nconnect=8, others rw,vers=3 (mount with the same options on all)",
    ]


def test_printed_commands_ask_for_a_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert user_environment({}) == {"RAY_AUTH_MODE": "disabled"}
    for place in PLACES:
        text = commands.commands(place, "10.0.0.4", ["vm1", "vm2"])
        assert "RAY_AUTH_MODE" in text
        assert "token" in text
    token = tmp_path / "iocurve/cluster/token"
    assert token.stat().st_mode & 0o777 == 0o600
    assert len(token.read_text()) == 64
    assert user_environment({}) == {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(token)}
    assert user_environment({"RAY_AUTH_MODE": "disabled"}) == {}
    assert token.read_text() not in commands.commands("ssh", "10.0.0.4", ["vm1"])


def test_printed_texts_are_shell_and_yaml(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import yaml  # type: ignore[import-untyped]

    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "a state"))
    text = {place: commands.commands(place, "10.0.0.4", ["vm1", "vm2"]) for place in PLACES}
    for place in ("ssh", "slurm"):
        subprocess.run(["bash", "-n"], input=text[place], text=True, check=True)
    cloud = yaml.safe_load(text["cloud-init"])
    assert all(isinstance(line, str) for line in cloud["runcmd"]), "a colon makes no mapping of a command"
    for line in cloud["runcmd"]:
        subprocess.run(["sh", "-n"], input=line, text=True, check=True)
    assert cloud["write_files"][0]["content"] == (tmp_path / "a state/iocurve/cluster/token").read_text()
    spec = yaml.safe_load(text["kuberay"])["spec"]
    [workers] = spec["workerGroupSpecs"]
    assert workers["replicas"] == 2
    assert json.loads(json.loads(workers["rayStartParams"]["resources"])) == {nodes.RESOURCE: 1}
    for group, name in ((spec["headGroupSpec"], "ray-head"), (workers, "ray-worker")):
        [container] = group["template"]["spec"]["containers"]
        assert container["name"] == name
        assert {"RAY_AUTH_MODE", "RAY_AUTH_TOKEN"} <= {one["name"] for one in container["env"]}
        assert all(isinstance(value, str) for value in group["rayStartParams"].values()), "KubeRay takes strings only"
        assert "livenessProbe" in container, "KubeRay adds one that plain ray cannot answer"

"""Clusters on hosts that ssh reaches: lists of hosts, the keeper, and a real sshd."""

import io
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from goldens import cases, data, present
from iocurve.cli.commands import run
from iocurve.cli.dialects import run as run_dialect
from iocurve.cluster import hosts, keeper, session, started
from iocurve.cluster.host_lists import Host, parse_hosts, running_cluster
from iocurve.cluster.hosts import Connection, Greeting, HostError
from iocurve.cluster.started import GroupLeader, StartedCluster
from iocurve.dialects.registry import load
from iocurve.foundation.errors import DialectError, PlanError, RunError, TargetError
from iocurve.machine.processes import Process, start_ticks
from iocurve.measure.group import ClientGroup
from load_clients import LocalLink, group_of
from programs import IOCURVE, awaited, completed

pytestmark = pytest.mark.usefixtures("runtime")

Hosts = list[tuple[str, str | None, int | None]]
READ = ("--name=read", "--rw=read", "--ioengine=null", "--size=1m", "--bs=4k", "--thread")
needs_ray = pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed: make develop installs it")


@cases("cluster/lists_of_hosts")
def test_a_list_of_hosts_is_as_people_and_slurm_write_it(text: str, expected: Hosts) -> None:
    assert list(parse_hosts(text)) == [Host(*one) for one in expected]


def test_a_file_of_hosts_is_as_mpi_has_it(tmp_path: Path) -> None:
    (file := tmp_path / "hosts").write_text("# twelve\nvm1 slots=4 max_slots=8\n\nroot@vm[2-3]  # spare\n")
    expected = (Host("vm1"), Host("vm2", "root"), Host("vm3", "root"))
    assert parse_hosts(str(file)) == parse_hosts(f"@{file}") == expected


def test_a_file_of_hosts_is_an_inventory_of_ansible(tmp_path: Path) -> None:
    (file := tmp_path / "hosts.ini").write_text(data("cluster/ansible.ini"))
    expected = [Host("vm0"), Host("vm08", "ubuntu"), Host("vm09", "ubuntu"), Host("10.0.0.1", "me", 2222)]
    assert sorted(parse_hosts(str(file)), key=str) == sorted(expected, key=str)


@cases("cluster/refused_lists")
def test_a_list_that_is_none_is_refused_with_its_part(text: str, error: str) -> None:
    with pytest.raises(PlanError, match=error.replace("[", r"\[")):
        parse_hosts(text)


# ---- the keeper
def packed(texts: dict[str, str]) -> bytes:
    """An archive of files with these texts."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as archive:
        for name, text in texts.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))
    return content.getvalue()


PACKAGES = packed({"ray/__init__.py": ""})


def unpacked(kept: keeper.Keeper, packages: bytes) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(packages)))
        kept.unpack(len(packages))


def test_a_keeper_unpacks_nothing_outside_of_its_packages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Python before 3.14 would follow such a name."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    kept = keeper.Keeper()
    (tmp_path / "cache").mkdir()
    kept.packages = tmp_path / "cache/packages-1"
    unpacked(kept, packed({"../outside": ""}))
    assert not (tmp_path / "cache/outside").exists()
    assert "outside" in json.loads(capsys.readouterr().out)["error"]
    shutil.rmtree(kept.directory)


class KeeperProcess:
    """A keeper as ssh starts it, with its own cache."""

    def __init__(self, cache: Path) -> None:
        environment = os.environ | {"XDG_CACHE_HOME": str(cache), "SSH_CONNECTION": "a 1 b 2"}
        pipe = subprocess.PIPE
        command = [sys.executable, keeper.__file__]
        self.process = subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe)
        self.input, self.output = present(self.process.stdin), present(self.process.stdout)

    def send(self, *messages: dict[str, Any], content: bytes = b"") -> None:
        self.input.write(b"".join(json.dumps(message).encode() + b"\n" for message in messages) + content)
        self.input.flush()

    def reply(self) -> Any:
        return json.loads(self.output.readline())

    def told(self, message: dict[str, Any], content: bytes = b"") -> Any:
        self.send(message, content=content)
        return self.reply()


@pytest.mark.slow
def test_a_keeper_starts_its_node_again_and_leaves_nothing(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    node = f"import os, time\ndef main():\n    print(os.getpid(), file=open({str(pids)!r}, 'a'))\n    time.sleep(60)\n"
    names = ("ray/__init__.py", "ray/scripts/__init__.py", "ray/_private/__init__.py")
    texts = dict.fromkeys(names, "") | {
        "ray/scripts/scripts.py": node,
        "ray/_raylet.py": "persist_port = None",
        "ray/_private/services.py": "start_ray_process = None",
    }
    running = KeeperProcess(tmp_path)
    with running.process:
        greeting = running.told({"key": "packages-1"})
        assert greeting["memory_bytes"] > 0
        assert (greeting["connection"], greeting["has"]) == (["a", "1", "b", "2"], False)
        packages = packed(texts)
        unpacks = running.told({"carry": len(packages)}, packages)
        assert unpacks == {"unpacked": str(tmp_path / "iocurve/packages-1")}
        assert running.told({"key": "packages-1"})["has"]
        running.send({"start": [], "environment": {"AT": "{directory}/token"}, "files": {"token": "t"}})
        os.kill(_line(pids, 1), signal.SIGKILL)
        assert running.reply()["ended"] == -signal.SIGKILL
        _line(pids, 2)
        assert running.told({"again": True})["ended"] == -signal.SIGKILL
        second = _line(pids, 3)
        (at,) = [one for one in _content(Path(f"/proc/{second}/environ")).split(b"\0") if one.startswith(b"AT=")]
        assert Path(at[3:].decode()).read_text() == "t"
        (kept,) = {one for one in _open_files(second) if one.name == "node.log"}
        running.input.close()
        assert running.process.wait(30) == 0
    assert not Path(f"/proc/{second}").exists()
    assert not kept.exists()


def test_a_connection_that_ends_amid_the_packages_leaves_no_half_of_them(tmp_path: Path) -> None:
    for kept in (1, 40, len(PACKAGES) - 1):
        running = KeeperProcess(tmp_path)
        running.send({"key": "packages-1"}, {"carry": len(PACKAGES)}, content=PACKAGES[:kept])
        lines = running.process.communicate(timeout=60)[0].splitlines()
        assert running.process.returncode == 0
        assert "the packages cannot be unpacked" in json.loads(lines[1])["error"]
        assert list((tmp_path / "iocurve").iterdir()) == []


def test_a_host_keeps_the_packages_that_were_used_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def carried(key: str) -> list[str]:
        one = keeper.Keeper()
        one.greet(key)
        unpacked(one, PACKAGES)
        one.end()
        return sorted(path.name for path in cache.iterdir())

    cache = tmp_path / "iocurve"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for day, name in enumerate(("packages-1", "packages-2", "packages-3", "python3.11", ".unpacked-killed"), 1):
        (cache / name).mkdir(parents=True)
        os.utime(cache / name, (day * 86_400, day * 86_400))
    user = keeper.Keeper()
    user.greet("packages-1")
    user.end()
    assert carried("packages-4") == ["packages-1", "packages-3", "packages-4", "python3.11"]
    assert carried("packages-5") == ["packages-1", "packages-4", "packages-5", "python3.11"]


def _open_files(process: int) -> list[Path]:
    return [one.readlink() for one in Path(f"/proc/{process}/fd").iterdir()]


def _content(path: Path) -> bytes:
    """The content; nothing of a process that has just ended."""
    try:
        return path.read_bytes()
    except OSError:
        return b""


def _line(path: Path, number: int) -> int:
    """The process of a line that is about to be written."""

    def lines() -> list[str]:
        found = path.read_text().splitlines() if path.exists() else []
        return found if len(found) >= number else []

    return int(awaited(lines, f"no line {number} in {path}")[number - 1])


@pytest.fixture
def sshd(tmp_path: Path) -> Iterator[str]:
    """A real sshd at 127.0.0.31 with its own cache directory; gives HOST:PORT."""
    program = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin")
    if program is None or os.getuid() != 0:
        pytest.skip("needs root and sshd: apt-get install openssh-server")
    Path("/run/sshd").mkdir(exist_ok=True)
    for name in ("key", "host_key"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / name], check=True)
    with socket.create_server(("127.0.0.31", 0)) as free:
        port = free.getsockname()[1]
    path = f"{Path(sys.executable).resolve().parent}:/usr/bin:/bin"
    settings = data("cluster/sshd_config").format(port=port, here=tmp_path, path=path)
    (tmp_path / "sshd_config").write_text(settings, encoding="utf-8")

    def answers() -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.31", port)) == 0

    with subprocess.Popen([program, "-D", "-f", tmp_path / "sshd_config"]) as process:
        awaited(answers, "sshd does not answer")
        yield f"127.0.0.31:{port}"
        process.terminate()


@pytest.mark.slow
@pytest.mark.usefixtures("_ray_addresses")
@pytest.mark.timeout(400)
@needs_ray
def test_a_job_runs_on_a_host_that_has_sshd_and_python_alone(
    sshd: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "known").write_text("StrictHostKeyChecking no\nUserKnownHostsFile /dev/null\nLogLevel ERROR\n", "utf-8")
    ssh = f"ssh -F {tmp_path}/known -i {tmp_path}/key -b 127.0.0.30"
    # Ray keeps a cluster's token for the whole process.
    ran = completed([*IOCURVE, "fio", "--hosts", sshd, "--ssh", ssh, *READ], timeout=300)
    assert ran.returncode == 0, ran.stderr
    assert "127.0.0.31: has joined" in ran.stderr
    assert "io=1024KiB" in ran.stdout
    assert StartedCluster.known() is None
    assert not [one for one in Path("/proc").glob("[0-9]*/environ") if str(tmp_path).encode() in _content(one)]


# ---- connections by a stand-in for ssh: the host is this machine, with another home
SSH = data("cluster/ssh.sh")
PYTHON = f"""#!/bin/sh
case $2 in *"sys.exit('3.99'"*) exit 0;; esac
exec {sys.executable} "$@"
"""


def _script(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)
    return path


@contextmanager
def connected(tmp_path: Path, text: str = SSH, *, directory: str = "", status: int | None = 0) -> Iterator[Connection]:
    """A connection by a script; ``status`` is that of the script once its input ends."""
    ssh = _script(tmp_path / "ssh", text.replace("{home}", str(tmp_path / "home")))
    connection = Connection(Host("vm1"), [str(ssh)], tmp_path, *filter(None, [directory]))
    yield connection
    connection.input.close()
    assert status in (None, connection.process.wait(30))


def _greeting(connection: Connection) -> Greeting:
    connection.send({"key": "packages-1"})
    return connection.answer(30, Greeting)


def test_a_dropped_connection_is_told_in_the_words_of_ssh(tmp_path: Path) -> None:
    (tmp_path / "vm1.err").write_text("\nclient_loop: send disconnect: Broken pipe\n", encoding="utf-8")
    own = os.getpid()
    leaders = [GroupLeader(own, "ssh", 0, "vm1"), GroupLeader(own, "ssh", start_ticks(own) or 0, "vm2")]
    cluster = StartedCluster(str(tmp_path), hosts={"vm1": "10.0.0.1", "vm2": "10.0.0.2"}, processes=leaders)
    told = "its ssh connection has ended: client_loop: send disconnect: Broken pipe"
    assert [cluster.ended_connection(f"10.0.0.{number}") for number in (1, 2, 3)] == [told, None, None]


def test_a_cluster_whose_program_was_killed_is_ended_by_the_next(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as daemon:
        kept = StartedCluster(str(tmp_path / "kept"), owner=Process.this())
        kept.adopt(daemon.pid, "ray")
        with pytest.raises(RunError, match="has a cluster with --hosts; one runs at a time"):
            StartedCluster.made()
        kept.owner = Process(os.uname().nodename, os.getpid(), 1)
        kept.keep()
        made = StartedCluster.made()
        assert daemon.wait(10) == -signal.SIGTERM
    assert StartedCluster.known() is None
    shutil.rmtree(made.directory)


@pytest.mark.slow
def test_the_hosts_of_a_program_that_is_killed_get_no_lease_and_its_cluster_ends(tmp_path: Path) -> None:
    (tmp_path / "cluster").mkdir()
    reading, writing = os.pipe()
    pipe = subprocess.PIPE
    script = data("scripts/owner_of_a_cluster.txt")
    words = [sys.executable, "-c", script, str(tmp_path / "cluster"), str(writing)]
    with (
        subprocess.Popen(words, stdin=pipe, stdout=pipe, pass_fds=[writing]) as owner,
        os.fdopen(reading, "rb") as received,
    ):
        os.close(writing)
        daemon, holder = map(int, present(owner.stdout).readline().split())
        assert [json.loads(received.readline()) for _ in range(2)] == [{"lease": started.LEASE_S}] * 2
        assert StartedCluster.known() is not None
        owner.kill()
        assert set(received.read().splitlines()) <= {b'{"lease": 30}'}, "the host sees the end of its input"
    awaited(lambda: {start_ticks(daemon), start_ticks(holder)} == {None}, "the processes of the cluster go on")
    assert StartedCluster.known() is None
    assert not (tmp_path / "cluster").exists()


@pytest.mark.slow
def test_a_keeper_ends_when_its_lease_is_not_renewed(tmp_path: Path) -> None:
    running = KeeperProcess(tmp_path)
    with running.process as process:
        running.send({"key": "packages-1"}, {"lease": 0.1})
        assert running.reply()["has"] is False
        (own,) = [one for one in _open_files(process.pid) if one.name.startswith(keeper.PREFIX)]
        assert process.wait(60) == 128 + signal.SIGTERM
    assert not own.exists()


def test_a_keeper_removes_what_a_killed_one_has_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(keeper, "PLACE_MAX", 1000)
    killed, fresh = (tmp_path / f"{keeper.PREFIX}{name}" for name in ("killed", "fresh"))
    killed.mkdir()
    fresh.mkdir()
    running, late = keeper.Keeper(), keeper.Keeper()
    for old in (killed, running.directory):
        os.utime(old, (0, 0))
    late.remove_left()
    assert set(tmp_path.iterdir()) == {Path(running.directory), Path(late.directory), fresh}


@pytest.mark.parametrize("source", ["archive", "uv"])
def test_a_host_with_another_python_gets_one_from_here_or_by_its_own_uv(
    source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hosts, "own_version", lambda: "3.99")
    python = _script(tmp_path / "root/bin/python3.99", PYTHON)
    archive = None
    if source == "archive":
        archive = tmp_path / "python.tar.gz"
        with tarfile.open(archive, "w:gz") as packed:
            packed.add(tmp_path / "root", ".")
    else:
        _script(tmp_path / "home/.local/bin/uv", data("cluster/uv.sh").format(python=python))
    for lacks in (True, False):
        with connected(tmp_path) as connection:
            greeting = _greeting(connection)
            assert bool(greeting.lacks) is lacks, "it is there from the first time"
            if lacks:
                connection.carry_interpreter(archive)
                greeting = _greeting(connection)
            assert (greeting.lacks, greeting.connection[2], greeting.has) == (None, "198.18.0.2", False)


def test_what_a_host_prints_before_the_keeper_is_skipped(tmp_path: Path) -> None:
    with connected(tmp_path, SSH.replace("exec sh", "printf 'Hi\\nyou'\nexec sh")) as connection:
        assert _greeting(connection).connection[2] == "198.18.0.2"


def test_a_line_that_comes_with_the_end_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with connected(tmp_path, f"#!/bin/sh\necho {hosts.MARK}\nread line\necho warning: disk\n") as connection:
        reads = iter([lambda _: connection.input.close() or connection.process.wait() or None, connection.next_reply])
        monkeypatch.setattr(connection, "next_reply", lambda kind: next(reads)(kind))
        with pytest.raises(HostError, match="warning: disk"):
            connection.answer(30, Greeting)


@cases("cluster/failing_connections")
def test_a_connection_that_fails_is_told_with_what_to_do(
    script: str, status: int, expected: str, tmp_path: Path
) -> None:
    text = f"#!/bin/sh\n{script.replace('MARK', hosts.MARK)}\n"
    with (
        connected(tmp_path, text, status=status) as connection,
        pytest.raises(HostError, match=expected),
    ):
        connection.answer(30, Greeting)


@cases("cluster/room")
def test_room_and_execution_are_checked_before_anything_is_sent(
    mounted: str, options: str, expected: str, tmp_path: Path
) -> None:
    if os.getuid() != 0:
        pytest.skip("needs root: mounts are made in a namespace")
    (home := tmp_path / "home").mkdir()
    mount = f"mount -t tmpfs -o {options} tmpfs {'/tmp' if mounted == 'tmp' else home}"
    run = 'exec sh -c "$command"'
    text = SSH.replace(run, f'exec unshare -m sh -c \'{mount}; exec sh -c "$0"\' "$command"')
    with connected(tmp_path, text) as connection:
        greeting = _greeting(connection)
        greeting.has = mounted == "tmp"
        with pytest.raises(HostError, match=expected):
            hosts._fit(greeting)


def test_another_directory_of_the_host_takes_packages_and_nodes(tmp_path: Path) -> None:
    with (
        tempfile.TemporaryDirectory(prefix="r", dir="/tmp") as directory,
        connected(tmp_path, directory=directory) as connection,
    ):
        greeting = _greeting(connection)
        assert (greeting.cache, greeting.directory) == (directory, directory)
    with (
        connected(tmp_path, directory=str(tmp_path / "a-longer-name"), status=None) as long,
        pytest.raises(HostError, match="paths of sockets need one of at most 16 characters"),
    ):
        _greeting(long)


@needs_ray
def test_one_machine_under_two_names_is_told(tmp_path: Path) -> None:
    ssh = _script(tmp_path / "ssh", SSH.format(home=tmp_path / "home"))
    with pytest.raises(RunError, match="vm1b: it is the machine that vm1a names, too; list it once"):
        hosts.up([Host("vm1a"), Host("vm1b")], str(ssh), lambda *_: None)
    assert StartedCluster.known() is None


def _not_joined(
    monkeypatch: pytest.MonkeyPatch, count: int, joins: Callable[[list[object]], set[str]], seconds: float = 0.2
) -> tuple[dict[Host, HostError], list[str], list[object]]:
    """The hosts that do not join, what is said of each, and what is sent to all; ``joins`` takes what was sent."""
    monkeypatch.setattr(hosts, "JOIN_S", seconds)
    sent: list[object] = []
    told: list[str] = []

    class Waiting:
        process = subprocess.Popen(["sleep", "60"])

        def __init__(self, number: int) -> None:
            self.host = Host(f"vm{number}")

        def next_reply(self, _: object) -> None:
            """The keeper says nothing."""

        def send(self, message: object) -> None:
            sent.append(message)

    class Cluster:
        address = "10.0.0.9:6379"

        def joined(self) -> set[str]:
            return joins(sent)

    waiting = [Waiting(number) for number in range(count)]
    starting = hosts._Starting(StartedCluster("/nowhere"), lambda _, text: told.append(text), False)
    monkeypatch.setattr(starting, "_cluster", Cluster())
    monkeypatch.setattr(starting, "_connections", waiting)
    greetings = {one.host: Greeting("x86_64", ["", "", one.host.name, "22"]) for one in waiting}
    monkeypatch.setattr(starting, "_greetings", greetings)
    try:
        return starting._not_joined(lambda one: sent.append(one.host.name)), told, sent
    finally:
        Waiting.process.kill()
        Waiting.process.wait()


def test_a_host_that_does_not_join_in_time_is_started_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    again = "has not joined within 0.2 s and is started once more"
    failed, told, sent = _not_joined(monkeypatch, 1, lambda _: set())
    assert "started twice" in str(failed[Host("vm0")])
    assert (told, sent) == ([again], ["vm0", {"again": True}])
    failed, told, _ = _not_joined(monkeypatch, 1, lambda sent: {"vm0"} if len(sent) > 1 else set())
    assert (failed, told) == ({}, [again, "has joined"])


def test_hosts_join_in_bounded_number(monkeypatch: pytest.MonkeyPatch) -> None:
    most = 0
    gone: set[str] = set()

    def joins(sent: list[object]) -> set[str]:
        nonlocal most
        there = [str(one) for one in sent if str(one) not in gone]
        most = max(most, len(there))
        gone.update(there[:1])
        return gone

    failed, told, _ = _not_joined(monkeypatch, 20, joins, seconds=60)
    assert (failed, told) == ({}, ["has joined"] * 20)
    assert most == hosts.JOINING_MAX


@needs_ray
def test_a_host_without_python_and_uv_is_named_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosts, "own_version", lambda: "3.99")
    monkeypatch.setattr(hosts, "interpreter", lambda: None)
    ssh = _script(tmp_path / "ssh", SSH.format(home=tmp_path / "home"))
    told: list[str] = []
    with pytest.raises(RunError, match="1 of 1 host cannot take part") as error:
        hosts.up([Host("vm1")], str(ssh), lambda host, text: told.append(f"{host}: {text}"))
    (line,) = re.findall(r"\n  (vm1: .*)", str(error.value))
    assert re.match(r"vm1: it has (Python \S+|no Python) and needs Python 3\.99, as this machine has: install", line)
    assert line.endswith("uv: not found")
    assert len(told) == 1
    assert StartedCluster.known() is None


# ansible-inventory 2.19.14 printed its file; aws-cli 1.46.3 its own, of three instances that moto 5.2.5 simulated (one
# was terminated). A VM scale set is what Azure sent to azure-cli 2.0.65 on 30 May 2019, recorded in its repository
# (Azure/azure-cli, command_modules/vm/tests/latest/recordings/test_vmss_vms.yaml), in the form that az prints: without
# "properties", with the resource group. kubectl-get-raycluster-service.json has the status of a cluster of 5 March 2024
# (project-codeflare/codeflare-sdk, tests/unit_test.py). az-vm-list-d.json and kubectl-get-raycluster.json are composed
# after the documentation, with the fields that the tools print.
INVENTORIES = Path(__file__).parent / "inventories"


@cases("cluster/inventories")
def test_an_inventory_of_a_cloud_is_a_list_of_hosts(name: str, expected: Hosts) -> None:
    assert list(parse_hosts(str(INVENTORIES / name))) == [Host(*one) for one in expected]


@cases("cluster/stopped")
def test_a_machine_of_an_inventory_that_does_not_run_is_named(
    name: str, before: str, after: str, error: str, tmp_path: Path
) -> None:
    changed = tmp_path / name
    changed.write_text((INVENTORIES / name).read_text(encoding="utf-8").replace(before, after, 1), encoding="utf-8")
    with pytest.raises(PlanError, match=re.escape(error)):
        parse_hosts(str(changed))


def test_json_of_an_unknown_kind_is_no_inventory(tmp_path: Path) -> None:
    (unknown := tmp_path / "unknown.json").write_text('{"items": []}', encoding="utf-8")
    with pytest.raises(PlanError, match="JSON of an unknown kind"):
        parse_hosts(str(unknown))


def test_a_raycluster_is_a_cluster_that_runs(tmp_path: Path) -> None:
    file = INVENTORIES / "kubectl-get-raycluster.json"
    assert running_cluster(str(file)) == ("10.244.1.7:6379", 12)
    assert running_cluster(str(INVENTORIES / "kubectl-get-raycluster-service.json")) == ("172.30.179.88:6379", 1)
    assert running_cluster("vm1,vm2") is None
    assert running_cluster(str(INVENTORIES / "az-vm-list-d.json")) is None
    pending = tmp_path / "pending.json"
    status = {"state": "suspended", "head": {"podIP": "", "serviceIP": "None"}}
    pending.write_text(json.dumps({"kind": "RayCluster", "status": status}), encoding="utf-8")
    with pytest.raises(PlanError, match=r"no head yet \(state suspended\)"):
        running_cluster(str(pending))


def test_the_head_of_a_running_cluster_is_asked_for_its_machines_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def addresses(address: str, *_: object, **__: object) -> list[str]:
        asked.append(address)
        return ["10.244.1.8", "10.244.1.9"]

    @contextmanager
    def opened(*_: object, **__: object) -> Iterator[None]:
        raise RunError("the cluster ends here")
        yield

    monkeypatch.setattr(session, "load_client_addresses", addresses)
    monkeypatch.setattr(session, "opened", opened)
    with pytest.raises(RunError, match="ends here"):
        run_dialect("fio", ["--hosts", str(INVENTORIES / "kubectl-get-raycluster.json"), *READ])
    assert asked == ["10.244.1.7:6379"]


def test_hosts_that_cannot_reach_the_target_are_not_started() -> None:
    for words in (["envelope"], ["knee", "volume:anf-premium?quota=4TiB"]):
        with pytest.raises(TargetError, match="the embedded volume listens on this machine only"):
            run([*words, "--hosts", "vm1,vm2", "--ssh", "no-such-program"])
    with pytest.raises(DialectError, match="--tls goes with --hosts"):
        run(["knee", "/tmp", "--tls"])


@pytest.mark.parametrize("name", ["fio", "vdbench", "diskspd", "mdtest", "elbencho"])
def test_every_tool_s_command_line_runs_on_the_hosts(name: str) -> None:
    assert load(name).on_hosts(["vm1", "vm2"], []), "without words of the tool the job would run here"
    for words in (["--on=auto"], ["--clients=2"]):
        with pytest.raises(DialectError, match="--on and --clients do not go with it"):
            run_dialect(name, ["--hosts", "vm1,vm2", *words])
    for option in (["--tls"], ["--allow-missing"], ["--ssh", "ssh -4"]):
        with pytest.raises(DialectError, match=f"{option[0]} goes with --hosts"):
            run_dialect(name, option)
    with pytest.raises(DialectError, match="--tls takes no value"):
        run_dialect(name, ["--hosts=vm1", "--tls=yes"])


@cases("cluster/cannot_run_anywhere")
def test_what_this_machine_can_know_is_refused_before_hosts_start(
    command: str, words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("job.toml").write_text('[[job]]\nname = "a"\nfile = "/nowhere/x"\nreads = true\nsize = "1MiB"\n')
    monkeypatch.setattr(hosts, "started", lambda *_, **__: pytest.fail("hosts were started"))
    with pytest.raises((DialectError, PlanError, TargetError)):
        run(["run", *words, "--hosts=vm1"]) if command == "run" else run_dialect(command, ["--hosts=vm1", *words])


def held_cluster(patch: pytest.MonkeyPatch, at: dict[str, str], *left_out: str) -> list[dict[str, object]]:
    """Replaces a cluster on hosts by agents in this process; gives the options with which it is started."""
    asked: list[dict[str, object]] = []

    @contextmanager
    def started(*_: object, **options: object) -> Iterator[tuple[StartedCluster, tuple[str, ...]]]:
        asked.append(options)
        yield StartedCluster("", "198.18.0.9:6379", at), left_out

    def opened(_address: str, _count: None, names: Sequence[str], **_: object) -> AbstractContextManager[ClientGroup]:
        return group_of([LocalLink(name) for name in names])

    patch.setattr(hosts, "started", started)
    patch.setattr(session, "opened", opened)
    return asked


def test_a_tool_s_job_goes_on_without_hosts_that_take_no_part(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    at = {"vm1": "198.18.0.1", "vm3": "198.18.0.3"}
    asked = held_cluster(monkeypatch, at, "vm2: no route")
    words = [*READ, "--eta=never"]
    assert run_dialect("fio", ["--hosts", "vm[1-3]", "--allow-missing", "--tls", *words]) == 0
    assert asked == [{"allow_missing": True, "tls": True, "remote_dir": ""}]
    assert re.findall(r"^<(.*)> $", capsys.readouterr().out, re.MULTILINE) == list(at)
    # The tool's own words select among the hosts.
    assert run_dialect("fio", ["--hosts", "vm1,vm3", *words, "--client=vm3"]) == 0
    shown = capsys.readouterr()
    assert re.findall(r"^(\w+): \(groupid=0", shown.out, re.MULTILINE) == ["read"]
    assert "info: command line, argument 5: ioengine=null" in shown.err


@cases("cluster/typed")
def test_a_tool_shows_the_command_line_that_was_typed(
    command: str,
    words: list[str],
    shown: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("data").mkdir()
    held_cluster(monkeypatch, {"vm1": "198.18.0.1"})
    assert run_dialect(command, ["--hosts", "vm1", *words]) == 0
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    (line,) = [line for line in lines if line.startswith(shown.format(""))]
    assert line.replace("'", "") == shown.format(" ".join(words))

"""``fio --client``: the same job on several hosts, in fio's client form."""

import json
import re
from pathlib import Path

import pytest

from goldens import cases, data, matches, present
from iocurve.dialects.base import ClusterRequest
from iocurve.dialects.fio.command import DIALECT, read_command
from iocurve.foundation.errors import DialectError
from iocurve.measure import jobs
from load_clients import in_process

pytestmark = pytest.mark.usefixtures("runtime")


def ran(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    result = present(jobs.run(DIALECT, [*words, "--eta=never"], cluster=in_process))
    assert result.state == "finished"
    return capsys.readouterr().out


@pytest.fixture
def job(tmp_path: Path) -> str:
    (path := tmp_path / "job.fio").write_text(data("fio/clients.fio"), encoding="utf-8")
    return str(path)


def test_each_host_and_all_clients_are_printed(job: str, capsys: pytest.CaptureFixture[str]) -> None:
    out = ran(["--client=vm1", "--client=vm2", job], capsys)
    heads = re.findall(r"^(<\w+>.*|\w.*: \(groupid=.*?\)): err", out, re.MULTILINE)
    one = ["a: (groupid=0, jobs=1)", "b: (groupid=0, jobs=1)"]
    assert heads == [*one, *one, "All clients: (groupid=0, jobs=4)"]
    assert re.findall(r"^<(\w+)> $", out, re.MULTILINE) == ["vm1", "vm2"]
    totals = re.findall(r"issued rwts: total=(\d+,\d+)", out)
    assert totals == ["256,0", "0,64", "256,0", "0,64", "512,128"]


def test_the_hosts_may_be_in_a_file_and_json_has_them(
    job: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (hosts := tmp_path / "hosts").write_text("vm1\nvm2\n\nvm3,8765\n", encoding="utf-8")
    document = json.loads(ran([f"--client={hosts}", job, "--output-format=json"], capsys))
    stats = document["client_stats"]
    matches("fio#hosts may be", [(one["jobname"], one["hostname"]) for one in stats])
    assert (stats[-1]["read"]["total_ios"], stats[-1]["write"]["total_ios"]) == (3 * 256, 3 * 64)
    assert "jobs" not in document


def test_each_host_has_files_of_its_own_unless_the_job_names_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    common = ["--size=64k", "--bs=4k", "--rw=write", "--client=vm1", "--client=vm2"]
    ran(["--name=own", f"--directory={tmp_path}", *common], capsys)
    ran(["--name=named", f"--filename={tmp_path}/shared", *common], capsys)
    matches("fio#host files own", sorted(path.name for path in tmp_path.glob("*") if path.is_file()))


def test_a_job_file_runs_on_the_hosts_of_the_client_that_it_follows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in "abc":
        text = f"[{name}]\nioengine=null\nsize=1m\nbs=4k\nrw=read\nnumber_ios={ord(name)}\nnumjobs=2\n"
        (tmp_path / f"{name}.fio").write_text(text, encoding="utf-8")
    a, b, c = (str(tmp_path / f"{name}.fio") for name in "abc")
    (tmp_path / "two").write_text("vm3 vm4\n", encoding="utf-8")

    def places(*words: str) -> list[tuple[str, str, int]]:
        document = json.loads(ran([*words, "--output-format=json"], capsys))
        return [(one["hostname"], one["jobname"], one["read"]["total_ios"]) for one in document["client_stats"]]

    def host(name: str, *jobs: str) -> list[tuple[str, str, int]]:
        return [(name, job, ord(job)) for job in jobs for _ in range(2)]

    assert places("--client=vm1", a, "--client=vm2", b, c) == [
        *host("vm1", "a"),
        *host("vm2", "b", "c"),
        ("", "All clients", 2 * sum(b"abc")),
    ]
    out = ran(["--client=vm1", a, "--client=vm2", b, c], capsys)
    matches(
        "fio_clients/a_job_file_runs_on_the_hosts_of_the_client",
        re.findall(r"^<(vm\d)> (?:(\w): |Starting (\d))", out, re.MULTILINE),
    )
    # A file before the first --client is for the hosts that have no other.
    matches(
        "fio_clients/a_job_file_runs_on_the_hosts_of_the_client_more",
        places(a, "--client=vm1", "--client=vm2", b, f"--client={tmp_path}/two")[:-1],
    )
    for words, text in (
        (["--client=vm1", a, "--client=vm2"], "--client=vm2: no job is for this host"),
        ([a, "--client=vm1", b], "no host is left for job 'a': each has another job file"),
    ):
        with pytest.raises(DialectError, match=text):
            read_command(words)


@pytest.mark.parametrize(("words", "address"), [([], None), (["--on=10.0.0.4:6379"], "10.0.0.4:6379")])
def test_the_cluster_of_the_hosts_can_be_named(words: list[str], address: str | None) -> None:
    prepared = read_command(["--name=a", "--ioengine=null", "--size=1m", "--client=vm1", *words])
    assert prepared.cluster == ClusterRequest(address, ("vm1",))


@cases("fio/client_errors")
def test_errors_are_named(words: list[str], text: str) -> None:
    with pytest.raises(DialectError, match=re.escape(text)):
        read_command(["--name=a", "--ioengine=null", "--size=1m", *words])

"""vdbench's hosts and DiskSpd's command lines on agents."""

import re
from collections import Counter
from pathlib import Path
from textwrap import shorten

import pytest

from bench.servers import Server
from goldens import cases, data, matches, present
from iocurve.dialects.base import ClusterRequest
from iocurve.dialects.diskspd.command import prepare as diskspd
from iocurve.dialects.registry import load
from iocurve.dialects.vdbench.command import prepare as vdbench
from iocurve.foundation.errors import DialectError
from iocurve.measure import jobs
from iocurve.result.document import Point
from iocurve.volume.control import stats_of
from load_clients import in_process
from published_vdbench import SEED_HOSTS, SEED_VOLUMES, seed_files

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("runtime")]


def parameters(directory: Path, text: str) -> tuple[str, str]:
    """The arguments that name a parameter file with a text."""
    (file := directory / "p").write_text(text, encoding="utf-8")
    return ("-f", str(file))


def test_tasks_of_mdtest_are_divided_among_load_clients(volume: Server, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["-n", "4", "-z", "1", "-b", "2", "--np", "4", "-N", "1", "--clients", "2", "-d", volume.url]
    result = present(jobs.run(load("mdtest"), words, cluster=in_process))
    assert result.name == f"mdtest {' '.join(words)}"
    done = {point.name: sum(worker.operations for worker in [point.summary()]) for point in result.points}
    assert done["File creation"] == done["File stat"] == done["File removal"] == 12
    assert "4 total task(s) on 2 node(s)" in capsys.readouterr().out


def test_threads_of_elbencho_have_ranks_over_all_load_clients(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = f"--numhosts=2 -d -w -r -F -D -t 2 -n 2 -N 3 -s 8k -b 4k --csvfile {tmp_path}/csv {tmp_path}".split()
    result = present(jobs.run(load("elbencho"), words, cluster=in_process))
    assert result.name == shorten(f"elbencho {' '.join(words)}", 100, placeholder=" …")
    assert [(point.name, len(point.clients)) for point in result.points] == [
        (name, 2) for name in ("MKDIRS", "WRITE", "READ", "RMFILES", "RMDIRS")
    ]
    text = capsys.readouterr().out
    matches(
        "dialect_clients/threads_of_elbencho_have_ranks_over_all_load", re.findall(r"(\w+) total +: +\d+ +(\d+)", text)
    )
    assert {row.split(",")[4] for row in (tmp_path / "csv").read_text().splitlines()[1:]} == {"2"}
    assert not list(tmp_path.glob("r*"))


def test_the_24_hosts_of_the_published_file_are_load_clients_by_their_system(tmp_path: Path) -> None:
    prepared = vdbench(["-f", str(seed_files(tmp_path)), "--on=auto"])
    systems = tuple(f"vdbench-vnet1-{vm}" for vm in range(1, SEED_HOSTS + 1))
    assert prepared.needs.cluster == ClusterRequest("auto", systems)
    [group] = next(prepared.plans()).groups
    assert [worker.client for worker in group.workers] == [vm for vm in range(SEED_HOSTS) for _ in range(SEED_VOLUMES)]
    assert prepared.obstacles == (), "the directories are those of the agents, not of this machine"


def test_a_host_is_its_system_its_label_or_where_it_is_mapped(tmp_path: Path) -> None:
    file = parameters(tmp_path, data("vdbench/three_hosts.parm"))
    words = [*file, "--on", "10.0.0.4:6379", "--map-host", "c=10.0.0.7"]
    assert vdbench(words).needs.cluster == ClusterRequest("10.0.0.4:6379", ("10.0.0.5", "h2", "10.0.0.7"))
    assert vdbench(words[:2]).needs.cluster is None
    assert "hosts_are_local" in [note.code for note in vdbench(words[:2]).notes]
    assert "hosts_are_local" not in [note.code for note in vdbench(words).notes]


def test_what_a_cluster_cannot_run_is_named(tmp_path: Path) -> None:
    file = parameters(tmp_path, "sd=sd1,lun=/d/a,size=1g\nwd=wd1,sd=*\nrd=rd1,wd=wd1,iorate=max,el=10,in=1\n")
    with pytest.raises(DialectError) as caught:
        vdbench([*file, "--on=auto", "-v"])
    matches("measure#what cluster", [error.text for error in caught.value.errors])


def test_a_skew_between_clients_is_told(tmp_path: Path) -> None:
    file = parameters(tmp_path, data("vdbench/skew.parm"))
    for words, told in ((["--on=auto"], True), ([], False)):
        notes = vdbench([*file, *words]).notes
        assert ("skew_by_client" in [note.code for note in notes]) is told


def test_a_diskspd_command_line_runs_on_each_client(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["-c64K", "-b4K", "-t2", "-o2", "-d1", "-W0", "-g64", "-L", "--clients=3", str(tmp_path / "file")]
    assert diskspd(words).needs.cluster == ClusterRequest(count=3)
    result = present(jobs.run(load("diskspd"), words, cluster=in_process))
    text = capsys.readouterr().out
    assert "computer name: client0, client1, client2" in text
    assert "thread count:\t\t6" in text
    rows = re.findall(r"^ +(\d+) \| +(\d+) \| +(\d+) \|", text.partition("Read IO")[0], re.MULTILINE)
    assert [int(row[0]) for row in rows] == [0, 1, 2, 3, 4, 5]
    total = present(re.search(r"^total: +(\d+) \| +(\d+) \|", text, re.MULTILINE))
    summary = result.points[0].summary()
    assert (int(total[1]), int(total[2])) == (summary.bytes, summary.operations)
    assert int(total[2]) == sum(int(row[2]) for row in rows) > 0
    each = [result.points[0].of_client(client).operations for client in range(3)]
    assert [int(rows[2 * client][2]) + int(rows[2 * client + 1][2]) for client in range(3)] == each


@cases("measure/errors_of_diskspds_cluster_are_named")
def test_errors_of_diskspds_cluster_are_named(word: str, text: str) -> None:
    with pytest.raises(DialectError, match=re.escape(text)):
        diskspd(["-c64K", "-d1", word, "file"])


SHARED = data("vdbench/shared.parm")


@pytest.mark.parametrize("place", ["local", "3", "4.1"])
def test_hosts_have_their_share_of_the_files_of_a_shared_fsd(tmp_path: Path, volume: Server, place: str) -> None:
    anchor = str(tmp_path / "tree") if place == "local" else volume.url_of(place).replace("?", "/tree?")
    file = parameters(tmp_path, SHARED.format(anchor=anchor))
    before = stats_of(volume.port)
    words = [*file, "-o", str(tmp_path / "output"), "--on=auto"]
    result = jobs.run(load("vdbench"), words, tmp_path / "out", cluster=in_process)
    after = stats_of(volume.port)
    assert result is not None
    done = {point.name: operations_by_client(point) for point in result.points}
    # Whichever host comes first makes a directory.
    made = Counter[str]()
    for counts in done["format_for_new"].values():
        made["mkdir"] += counts.pop("mkdir", 0)
    assert made == {"mkdir": 6}
    matches("measure#shares of hosts", done)
    if place != "local":
        assert before is not None
        assert after is not None
        counted = {name: getattr(after, name) - getattr(before, name) for name in ("reads", "writes")}
        assert counted == {"reads": 20, "writes": 20}


def operations_by_client(point: Point) -> dict[int, dict[str, int]]:
    """Operations of each kind on each agent that did any."""
    [group] = point.plan.groups
    done: dict[int, Counter[str]] = {}
    for outcome in point.outcome.workers:
        of_client = done.setdefault(group.workers[outcome.worker].client, Counter())
        of_client.update({name: kind.operations for name, kind in outcome.operations.items() if kind.operations})
    return {client: dict(counts) for client, counts in done.items() if counts}


def test_an_fsd_that_hosts_share_is_not_cleaned_and_made_in_one_run(tmp_path: Path) -> None:
    text = SHARED.format(anchor="/d/a").replace("rd=old,fwd=*,format=(clean,only)\n", "")
    obstacles = vdbench([*parameters(tmp_path, text), "-c"]).obstacles
    matches("measure#fsd hosts share", [obstacle.text for obstacle in obstacles])
    assert vdbench([*parameters(tmp_path, SHARED.format(anchor="/d/a")), "-c"]).obstacles == ()

"""elbencho's command lines: trees, phases, the table, files of results, and what is refused."""

import csv
import io
import json
import re
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.servers import Server
from data import synthetic
from fio_machine import HeldMachine
from goldens import Golden, cases, data, document, matches, picked, present
from iocurve.dialects.base import ClusterRequest
from iocurve.dialects.elbencho import output
from iocurve.dialects.elbencho.command import Phases, parsed, prepare, read_command
from iocurve.dialects.elbencho.options import PHASES, TABLE, expanded, parse
from iocurve.dialects.registry import load
from iocurve.engine.outcome import Live, LiveTotals
from iocurve.engine.plan import AioEngine, Plan
from iocurve.foundation.errors import DialectError, PlanError
from iocurve.foundation.units import MILLISECOND_NS
from iocurve.imports.formats import read_all
from iocurve.measure import jobs, local
from programs import printed


def prepared(text: str, directory: Path) -> Phases:
    return read_command(text.split(), cwd=directory)


def ran(text: str, directory: Path) -> list[output.PhaseRow]:
    """The rows of a command line, run to the end."""
    one = prepared(text, directory)
    jobs.walk(parsed(one), lambda _, plan, enough: local.run(plan, enough=enough))
    for row in one.rows:
        assert [worker.error for worker in row.workers if worker.error] == []
    return one.rows


def below(directory: Path) -> list[str]:
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*"))


def plan_of(text: str, directory: Path) -> Plan:
    """The plan of a command line with one phase."""
    (plan,) = parsed(prepared(text, directory)).plans()
    return plan


def ranges(text: str, directory: Path) -> list[list[tuple[str, int, int]]]:
    """By thread: name, offset and length of each part of a file."""
    return [
        [(Path(file.path).name, file.offset_bytes, file.bytes) for file in worker.files]
        for worker in plan_of(text, directory).groups[0].workers
    ]


@cases("elbencho/runs")
def test_command_lines_run_one_after_another(
    directories: list[str], texts: list[str], golden: Golden, tmp_path: Path
) -> None:
    """After each line: entries and operations of its phases, and what is there with its size."""
    for name in directories:
        (tmp_path / name).mkdir()
    found = []
    for text in texts:
        rows = [(row.phase.name, row.entries, row.values(row.phase.data).operations[1]) for row in ran(text, tmp_path)]
        left = {name: (tmp_path / name).stat().st_size for name in below(tmp_path) if (tmp_path / name).is_file()}
        found.append([rows, below(tmp_path), left])
    golden.check(found)


def test_several_paths_are_explained(tmp_path: Path) -> None:
    for name in "abc":
        (tmp_path / name).mkdir()
    text = prepared("-d -t 2 -n 4 a b c", tmp_path).explanation()
    assert text.startswith(f"{tmp_path}/a {tmp_path}/b {tmp_path}/c: ")


def test_threads_share_the_blocks_of_all_files(tmp_path: Path) -> None:
    # As elbencho's log of operations shows: 5, 5 and 6 of 16 blocks.
    matches("elbencho#threads share blocks", ranges("-w -t 3 -s 1m -b 128k f[1-2]", tmp_path))


def test_the_last_block_of_a_file_is_shorter(tmp_path: Path) -> None:
    # Shares as in elbencho 3.1-10: blocks are counted with the shorter ones.
    kib = 1 << 10
    matches("elbencho#last block file", ranges("-w -t 2 -s 100k -b 64k f[1-3]", tmp_path))
    for row in ran("-w -r -t 2 -s 100k -b 64k f[1-3]", tmp_path):
        moved = row.values(row.phase.data)
        assert (moved.operations[1], moved.mib[1]) == (6, 300 / 1024)
    assert {(tmp_path / name).stat().st_size for name in ("f1", "f2", "f3")} == {100 * kib}
    assert ranges("-w -s 3k -b 64k f", tmp_path) == [[("f", 0, 3 * kib)]]


def test_direct_and_random_transfers_have_whole_blocks(tmp_path: Path) -> None:
    one = prepared("-w -t 3 -s 100k -b 16k --rand f[1-2]", tmp_path)
    matches("elbencho#direct random", [note.text for note in one.notes if note.code == "size_reduced"])
    # 12 blocks; 4 for each of 3 threads.
    for threads, kib in ((3, 64), (5, 32)):
        plan = plan_of(f"-w -t {threads} -s 100k -b 16k --rand f[1-2]", tmp_path)
        assert [worker.end.bytes for worker in plan.groups[0].workers] == [kib << 10] * threads
    ran("-w -s 100k -b 16k --rand --randamount 16k g", tmp_path)
    ran("-w -t 3 -s 160k -b 16k --rand h", tmp_path)
    assert [(tmp_path / name).stat().st_size for name in "gh"] == [100 << 10, 160 << 10]


def test_the_latency_of_a_file_is_from_its_open_to_its_close(tmp_path: Path) -> None:
    for row in ran("-d -w -r -t 2 -N 3 -s 8k -b 4k .", tmp_path)[1:]:
        parts = [row.view((kind,)).service for kind in ("create", "open", *row.phase.data, "close")]
        whole = row.entry_latency
        assert whole.count == 6
        assert whole.mean_ns * 6 >= sum(part.mean_ns * part.count for part in parts)
        assert whole.max_ns < row.last_ns
    (row,) = ran("-w -N 3 .", tmp_path)
    assert (row.entry_latency.count, row.entry_latency.min_ns > row.view(("close",)).service.min_ns) == (3, True)


def test_random_offsets_are_in_the_share_of_each_thread(tmp_path: Path) -> None:
    plan = plan_of("-w -t 2 -s 1m -b 128k --rand --randamount 512k --iodepth 4 --direct f1 f2", tmp_path)
    first, second = plan.groups[0].workers
    assert [Path(worker.files[0].path).name for worker in (first, second)] == ["f1", "f2"]
    assert (first.end.bytes, first.depth, first.access.cover) == (256 << 10, 4, "once")
    (row,) = ran("-w -t 4 -s 1m -b 4k --rand f1 f2", tmp_path)
    assert (row.values(("write",)).operations[1], (tmp_path / "f2").stat().st_size) == (512, 1 << 20)
    assert isinstance(first.engine, AioEngine)


def test_a_write_phase_does_not_shorten_a_file(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(bytes(4096))
    ran("-w -s 2k -b 1k f", tmp_path)
    assert (tmp_path / "f").stat().st_size == 4096
    ran("-w --trunctosize --rand --randamount 1k -s 8k -b 1k f", tmp_path)
    assert (tmp_path / "f").stat().st_size == 8192


@pytest.mark.slow
def test_a_mix_ends_with_the_time_limit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = ran("-w -r -t 2 -s 1m -b 4k --rand --rwmixpct 30 --timelimit 1 --infloop --lat f", tmp_path)
    assert [row.phase.name for row in rows] == ["RWMIX30", "READ"]
    mix = rows[0]
    reads, writes = mix.values(("read",)).operations[1], mix.values(("write",)).operations[1]
    assert 0.25 < reads / (reads + writes) < 0.35
    shown = capsys.readouterr().out
    labels = ["IOPS write", "IOPS read", "IOPS total", "MiB/s write", "MiB/s read", "MiB/s total", "MiB write"]
    assert [label for label in labels if f"            {label:<16} :" in shown] == labels
    assert "IO wr latency    : [ min=" in shown
    assert 0.99e9 < mix.last_ns < 1.5e9


@pytest.mark.slow
@pytest.mark.parametrize("version", ["3", "4.1"])
def test_the_phases_run_over_nfs(volume: Server, version: str, tmp_path: Path) -> None:
    url = volume.url.replace("?", "/tree?") if "?" in volume.url else f"{volume.url}/tree"
    vers = f"{'&' if '?' in url else '?'}vers={version}"
    rows = ran(f"-d -w --stat -r -F -D -t 2 -n 2 -N 2 -s 20k -b 8k {url}{vers}", tmp_path)
    matches("elbencho/the_phases_run_over_nfs", [(row.phase.name, row.entries) for row in rows])
    one, two = (url.replace("/tree", f"/{name}") for name in ("one", "two"))
    rows = ran(f"-d -w -r -F -D -t 2 -n 3 -N 2 -s 20k -b 8k {one}{vers} {two}{vers}", tmp_path)
    assert [row.entries for row in rows] == [6, 12, 12, 12, 6]
    file = url.replace("/tree", "/file")
    rows = ran(f"-w -r -F -t 2 -s 64k -b 8k {file}{vers}", tmp_path)
    assert [row.values(row.phase.data).operations[1] for row in rows] == [8, 8, 0]


def test_the_table_has_elbenchos_form(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ran("-d -w -r -F -D -t 2 -N 2 -s 8k -b 4k --lat --latpercent --lathisto --allelapsed .", tmp_path)
    lines = capsys.readouterr().out.splitlines()
    matches("elbencho#table elbenchos", lines[:2])
    labels = [line[:30].rstrip() for line in lines[2 : lines.index("---") + 15]]
    matches("elbencho/the_table_has_elbenchos_form", labels)


def test_results_are_appended_as_csv_and_json_that_can_be_imported(tmp_path: Path) -> None:
    text = f"-w -r -t 2 -s 64k -b 4k --label lab --csvfile {tmp_path}/c --jsonfile {tmp_path}/j {tmp_path}/f"
    for _ in range(2):
        present(jobs.run(load("elbencho"), text.split(), quiet=True))
    written = (tmp_path / "c").read_text()
    assert written.splitlines()[0] == data("elbencho/columns.txt"), "the columns of elbencho 3.1-10"
    rows = [(row["operation"], row["MiB [last]"], row["label"]) for row in csv.DictReader(io.StringIO(written))]
    assert rows == [("WRITE", "0", "lab"), ("READ", "0", "lab")] * 2
    phases = [json.loads(line) for line in (tmp_path / "j").read_text().splitlines()]
    assert [phase["last_done"]["bytes"] for phase in phases] == ["65536"] * 4
    for name in ("c", "j"):
        assert [one.name for one in read_all([tmp_path / name])[0]] == ["WRITE", "READ"] * 2


def test_options_may_be_joined_shortened_and_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "c").write_text("# a comment\nthreads=3\ndirect=true\nsize=2g\n")
    options = parse(["-wrt4", "-b64k", "--iod=8", "-c", "c", "x"], tmp_path)
    assert sorted(options.phases) == ["read", "write"]
    assert (options.threads, options.block, options.depth) == (3, 64 << 10, 8)
    assert (options.direct, options.size, options.paths) == (True, 2 << 30, (str(tmp_path / "x"),))
    assert expanded("f[01-3]/[a,b]x[7,9]") == [f"f0{i}/[a,b]x{j}" for j in (7, 9) for i in (1, 2, 3)]


@cases("elbencho/refused")
def test_what_cannot_run_is_refused_with_the_way_out(text: str, says: str, tmp_path: Path) -> None:
    with pytest.raises((DialectError, PlanError), match=re.escape(says)):
        parsed(prepared(text, tmp_path)).require_runnable()
    assert below(tmp_path) == []


NAMES = [name for kind in ("sizes", "numbers", "flags") for name in TABLE[kind]]
WORDS = sorted({*(f"--{name}" for name in (*NAMES, *PHASES)), "-d", "-w", "-rt2", "-s", "-n0", "-c"})


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.sampled_from(WORDS) | st.text(max_size=8) | st.sampled_from(["1", "0", "4k", "f", "[1-3]", "nfs://h/e"])
    )
)
def test_any_command_line_is_prepared_or_refused(words: list[str]) -> None:
    # Any other exception is a defect.
    with suppress(DialectError, PlanError):
        prepare(words, cwd=Path("/mnt/nocache"), machine=HeldMachine()).explanation()


@cases("elbencho/commands")
def test_a_command_line_means(text: str, paths: list[str], golden: Golden, tmp_path: Path) -> None:
    made = parsed(prepared(text, tmp_path))
    golden.check([document(picked(made, path)) for path in paths])


def test_on_hosts_ranks_follow_the_hosts(tmp_path: Path) -> None:
    assert load("elbencho").on_hosts(["a", "b"], []) == ["--numhosts=2"]
    words = "--numhosts=2 -d -t 2 -n 3 ."
    placed = [(one.client, Path(one.files[0].path).name) for one in plan_of(words, tmp_path).groups[0].workers]
    assert placed == [(0, "r0"), (0, "r1"), (1, "r2"), (1, "r3")]
    needs = parsed(prepared(words, tmp_path)).needs
    assert (needs.replicas, needs.cluster) == (None, ClusterRequest(count=2))
    apart = plan_of(f"--nosvcshare {words}", tmp_path)
    assert [Path(worker.files[0].path).name for worker in apart.groups[0].workers] == ["r0", "r1", "r0", "r1"]


def test_a_missing_file_ends_the_run_unless_deletion_ignores_it(tmp_path: Path) -> None:
    rows = ran("-d -w -t 2 -N 2 .", tmp_path)
    assert rows[1].entries == 4
    (tmp_path / "r1/d0/r1-f1").unlink()
    with pytest.raises(Exception, match="1 of 4 files were missing"):
        ran("--stat -t 2 -N 2 .", tmp_path)
    assert [row.entries for row in ran("-F -D -t 2 -N 2 --nodelerr .", tmp_path)] == [3, 2]
    assert below(tmp_path) == []


def test_a_path_may_have_the_prefix_of_file_systems(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    one = prepared(f"-d -w -s 4k file://{tmp_path}/d", tmp_path)
    assert (one.options.paths, one.data_set.is_tree) == ((f"{tmp_path}/d",), True)


def test_files_of_directories_are_read_at_random_places(tmp_path: Path) -> None:
    ran("-d -w -t 2 -n 1 -N 2 -s 64k -b 4k .", tmp_path)
    plan = plan_of("-r --rand -t 2 -n 1 -N 2 -s 64k -b 4k .", tmp_path)
    reads = [kind for worker in plan.groups[0].workers for kind in worker.operations if kind.kind == "read"]
    assert [kind.random_percent for kind in reads] == [100, 100]
    outcome = local.run(plan)
    # As many bytes of each file as it has.
    assert sum(worker.operations["read"].operations for worker in outcome.workers) == 2 * 2 * 16
    with pytest.raises(PlanError, match="random writes"):
        prepared("-d -w --rand -s 64k -b 4k .", tmp_path)


def test_throughput_is_in_units_of_1000_with_base10(tmp_path: Path) -> None:
    shown = printed("elbencho", "--base10", "-w", "-s", "1m", "-b", "64k", str(tmp_path / "f"))
    assert ("Throughput MB/s" in shown, "Throughput MiB/s" in shown, "Total MiB" in shown) == (True, False, True)


def test_values_of_a_phase_are_written_while_it_runs(tmp_path: Path) -> None:
    """The rows of --livecsv: one for each kind of a mix, rates since the row before."""

    def at(milliseconds: int, **operations: int) -> Live:
        totals = {
            name: LiveTotals(operations=count, bytes=count * 4096, errors=0) for name, count in operations.items()
        }
        return synthetic.live(milliseconds * MILLISECOND_NS, intervals=1, totals=totals)

    one = prepared("-w -t 2 -s 1m -b 4k --rwmixpct 50 --livecsv live.csv --liveint 200 --label x f", tmp_path)
    (step,) = one.steps()
    write = step.follow(present(step.plan({})))
    for live in (at(100, read=10, write=20), at(200, read=20, write=40), at(300, read=60), at(400, read=60, write=128)):
        write(live)
    header, *rows = csv.reader((tmp_path / "live.csv").read_text().splitlines())
    assert len(header) == len(output.LIVE_HEADER.split(","))
    named = [dict(zip(header, row, strict=True)) for row in rows]
    names = ("RuntimeMS", "MixType", "DoneBytes", "IOPS")
    matches("elbencho#values phase", [[row[name] for name in names] for row in named])
    assert {(row["Label"], row["Phase"], row["Rank"]) for row in named} == {("x", "RWMIX50", "Total")}
    write(at(600, write=256))
    assert (tmp_path / "live.csv").read_text().count("ISO Date") == 1
    assert tmp_path / "live.csv" in parsed(one).needs.output_paths


def test_hosts_work_in_explain(tmp_path: Path) -> None:
    (tmp_path / "hosts").write_text("vm1\nvm2\n")
    for words in (["--hosts", "vm[1-2]"], ["--hostsfile", str(tmp_path / "hosts")], [f"--hostsfile={tmp_path}/hosts"]):
        assert "4 threads" in printed("explain", "elbencho", *words, "-d", "-t", "2", "-n", "3", str(tmp_path))
    words = ["--hosts", "vm1,vm2", "--np", "2", "-n", "4", "-d", str(tmp_path)]
    assert "2 tasks" in printed("explain", "mdtest", *words)


def test_explain_says_what_each_phase_does(tmp_path: Path) -> None:
    text = prepared("-d -w -r -t 2 -n 2 -N 3 -s 60k -b 16k --timelimit 5 .", tmp_path).explanation()
    matches("elbencho#explanation", text.replace(str(tmp_path), "{here}").splitlines())
    assert "write: 16 KiB random writes" in prepared("-w -t 2 -s 1m -b 16k --rand f", tmp_path).explanation()

"""File system workloads (FSD, FWD) as they run: exact counts, trees on disk and over NFS, and vdbench's columns."""

import io
from collections import Counter
from pathlib import Path

import pytest

from data.synthetic import interval, worker_outcome
from goldens import Golden, cases, matches, present
from iocurve.cli.dialects import run as run_dialect
from iocurve.dialects.vdbench.command import read_command
from iocurve.dialects.vdbench.explanation import explain
from iocurve.dialects.vdbench.file_plan import split_anchor
from iocurve.dialects.vdbench.output.table import average, file_systems, rows
from iocurve.dialects.vdbench.parameter_file import ParameterFile
from iocurve.engine.outcome import Outcome
from iocurve.foundation.errors import DialectError, PlanError
from iocurve.foundation.units import SECOND_NS
from iocurve.machine.processes import ProcessorMeter, Processors
from iocurve.measure import local
from vdbench_runs import NOON, Engine, anchor, command_of, flat_rows, read_here, report, run_file

__all__ = ["anchor"]

RD = "rd=rd1,fwd=fwd1,fwdrate=max,elapsed=2,interval=1"
TREE = {"mkdir": 6, "create": 12, "write": 12, "close": 12}
"""Format of 6 directories and 12 files of 10,000 bytes."""


def prepared(
    directory: Path, fwd: str, rd: str, anchor: str, fsd: str = "", options: tuple[str, ...] = ()
) -> ParameterFile:
    """Two levels of two directories, and three files of 10,000 bytes in each of the four lowest."""
    text = f"fsd=fsd1,anchor={anchor},depth=2,width=2,files=3,size=10000{fsd}\nfwd=fwd1,fsd=fsd1,{fwd}\n{RD}{rd}\n"
    return read_here(directory, text, *options)


def counts(outcome: Outcome) -> dict[str, int]:
    """Operations of each kind, all workers together."""
    assert [worker.error for worker in outcome.workers] == [None] * len(outcome.workers)
    found = Counter[str]()
    for worker in outcome.workers:
        found.update({name: done.operations for name, done in worker.operations.items()})
    return {name: count for name, count in found.items() if count}


def formatted(directory: Path, anchor: str, rd: str = ",format=yes") -> dict[str, int]:
    made = prepared(directory, "operation=read", rd, anchor)
    return counts(local.run(made.file_plans.formats(made.runs[0], already=False).plan))


def ran(directory: Path, fwd: str, anchor: str, rd: str = "") -> dict[str, int]:
    """Runs the workload without a format."""
    made = prepared(directory, fwd, rd, anchor)
    return counts(local.run(made.file_plans.run(made.runs[0], None).plan))


def on_disk(anchor: Path) -> tuple[int, int, int]:
    """Directories, files and bytes below a directory."""
    below = list(anchor.rglob("*"))
    files = [path for path in below if path.is_file()]
    return len(below) - len(files), len(files), sum(path.stat().st_size for path in files)


def test_a_format_makes_every_directory_and_file_once_and_removes_what_was_there(tmp_path: Path) -> None:
    anchor = tmp_path / "tree"
    assert (formatted(tmp_path, str(anchor)), on_disk(anchor)) == (TREE, (6, 12, 120_000))
    assert formatted(tmp_path, str(anchor)) == {**TREE, "delete": 12, "rmdir": 6}
    assert formatted(tmp_path, str(anchor), ",format=restart") == {}
    (anchor / "vdb.1_2.dir/vdb.2_1.dir/vdb_f0003.file").unlink()
    (anchor / "vdb.1_2.dir/vdb.2_1.dir/vdb_f0004.file").write_bytes(b"short")
    expected = {"create": 1, "open": 1, "write": 2, "close": 2}
    assert (formatted(tmp_path, str(anchor), ",format=restart"), on_disk(anchor)) == (expected, (6, 12, 120_000))


def test_files_may_be_empty(tmp_path: Path) -> None:
    # As vdbench 5.04.07 makes them for size=0.
    anchor = tmp_path / "tree"
    fsd = f"fsd=fsd1,anchor={anchor},depth=1,width=3,files=10,size=0"
    made = read_here(tmp_path, f"{fsd}\nfwd=fwd1,fsd=fsd1,operation=getattr\n{RD},format=yes\n")
    plan = made.file_plans.formats(made.runs[0], already=False)
    assert (counts(local.run(plan.plan)), on_disk(anchor)) == ({"mkdir": 3, "create": 30, "close": 30}, (3, 30, 0))


def test_a_tree_of_another_shape_stays_or_goes_as_format_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # As with vdbench 5.04.07 once its vdb_control.file, which ends a run on another shape, is gone.
    anchor = tmp_path / "tree"
    other, own = "depth=1,width=2,files=3,size=4k", "depth=2,width=1,files=2,size=8k"

    def ran_with(shape: str, form: str) -> list[str]:
        text = f"fsd=fsd1,anchor={anchor},{shape}\nfwd=fwd1,fsd=fsd1,operation=read,xfersize=4k,fileselect=once\n"
        (tmp_path / "p").write_text(f"{text}{RD},format={form}\n", encoding="utf-8")
        assert run_dialect("vdbench", ["-f", str(tmp_path / "p"), "-o", str(tmp_path / "output")]) == 0
        return listed(anchor)

    leftover = ran_with(other, "(yes,only)")
    assert len(leftover) == 2 + 6
    (anchor / "notes.txt").write_text("not of a tree", encoding="utf-8")
    notes = "notes.txt 13"
    capsys.readouterr()
    assert ran_with(own, "no") == [notes, *leftover]
    assert "fwd=fwd1 found no file or directory that it could use: format=yes creates them" in capsys.readouterr().out
    made = ["vdb.1_1.dir/", "vdb.1_1.dir/vdb.2_1.dir/"]
    made += [f"vdb.1_1.dir/vdb.2_1.dir/vdb_f{number:04}.file 8192" for number in (0, 1)]
    assert ran_with(own, "restart") == sorted(
        {notes, *leftover, *made}, key=lambda line: line.split(" ")[0].rstrip("/")
    )
    assert ran_with(own, "yes") == [notes, *made]


def recorded_trees() -> list[tuple[str, list[str]]]:
    """Parameters of FSDs, with the trees that vdbench 5.04.07 formatted: directories, and files with their sizes."""
    trees: list[tuple[str, list[str]]] = []
    for line in (Path(__file__).parent / "data/vdbench_trees.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith(" "):
            trees[-1][1].append(line.strip())
        else:
            trees.append((line, []))
    return trees


def listed(anchor: Path) -> list[str]:
    """Lists the tree below an anchor, in the form of the recorded trees."""
    found = sorted(anchor.rglob("*"), key=lambda path: str(path.relative_to(anchor)).encode())
    below = [(path.relative_to(anchor), path) for path in found]
    return [f"{name}/" if path.is_dir() else f"{name} {path.stat().st_size}" for name, path in below]


@pytest.mark.parametrize(("parameters", "expected"), recorded_trees(), ids=lambda value: str(value)[:40])
def test_trees_are_those_of_vdbench_and_each_restarts_the_others(
    tmp_path: Path, parameters: str, expected: list[str]
) -> None:
    anchor = tmp_path / "tree"
    text = f"fsd=fsd1,anchor={anchor},{parameters}\nfwd=fwd1,fsd=fsd1\n{RD},format=(restart,only)\n"
    made = read_here(tmp_path, text)
    plan = made.file_plans.formats(made.runs[0], already=False)
    done = counts(local.run(plan.plan))
    assert listed(anchor) == sorted(expected, key=lambda line: line.rstrip("/").split(" ")[0].encode())
    assert done["create"] == sum(" " in line for line in expected)
    assert counts(local.run(plan.plan)) == {}


def test_a_run_that_changes_a_tree_removes_vdbenchs_record_of_it(tmp_path: Path) -> None:
    anchor = tmp_path / "tree"
    record = anchor / "vdb_control.file"
    formatted(tmp_path, str(anchor))
    for fwd, is_kept in (("operation=read", True), ("operation=getattr", True), ("operation=write", False)):
        record.write_text("directory status 6")
        ran(tmp_path, f"{fwd},fileselect=once", str(anchor))
        assert record.exists() == is_kept


def test_a_format_removes_only_names_of_trees(tmp_path: Path) -> None:
    anchor = tmp_path / "tree"
    formatted(tmp_path, str(anchor))
    (anchor / "vdb.1_1.dir/mine").write_text("mine")
    (anchor / "vdb.9_1.dir").mkdir()
    (anchor / "vdb.9_1.dir/vdb_f0099.file").write_text("of another tree")
    (anchor / "vdb_control.file").write_text("vdbench's")
    (anchor / "vdb.2_9.dir").symlink_to(tmp_path)
    removed = formatted(tmp_path, str(anchor), ",format=(clean,only)")
    assert removed == {"delete": 13, "rmdir": 6}
    assert sorted(path.name for path in anchor.rglob("*")) == ["mine", "vdb.1_1.dir", "vdb.2_9.dir"]
    assert (tmp_path / "p").exists()


@pytest.mark.slow
@cases("vdbench/once")
def test_each_operation_is_done_once_for_each_file(
    tmp_path: Path, anchor: str, fwd: str, expected: dict[str, int]
) -> None:
    formatted(tmp_path, anchor)
    assert ran(tmp_path, fwd, anchor) == expected


def test_a_tree_is_made_and_removed_by_operations(tmp_path: Path, anchor: str) -> None:
    formatted(tmp_path, anchor, ",format=(clean,only)")
    done = [ran(tmp_path, f"operation={kind},threads=2", anchor) for kind in ("mkdir", "create", "delete", "rmdir")]
    assert done == [{"mkdir": 6}, {"create": 12, "close": 12}, {"delete": 12}, {"rmdir": 6}]


def test_sequential_transfers_continue_where_stopafter_ended_them(tmp_path: Path) -> None:
    anchor = str(tmp_path / "tree")
    formatted(tmp_path, anchor)
    # 12 files of ten transfers, four at a time: three opens each, again and again.
    made = prepared(tmp_path, "operation=read,xfersize=1000,stopafter=4", "", anchor)
    plan = made.file_plans.run(made.runs[0], None)
    (worker,) = plan.plan.groups[0].workers
    limited = worker.replace(end=worker.end.replace(operations=36 * 2 + 120), ramp_ns=0)
    group = plan.plan.groups[0].replace(workers=(limited,))
    assert counts(local.run(plan.plan.replace(groups=(group,)))) == {"open": 36, "read": 120, "close": 36}


def test_a_rate_counts_transfers_and_no_opens(tmp_path: Path) -> None:
    anchor = str(tmp_path / "tree")
    formatted(tmp_path, anchor)
    made = prepared(tmp_path, "operation=read,xfersize=4k,threads=2", ",distribution=deterministic", anchor)
    plan = made.file_plans.run(made.runs[0], 40.0)
    assert [worker.rate and worker.rate.count for worker in plan.plan.groups[0].workers] == [40_000, 40_000]
    done = counts(local.run(plan.plan))
    # At 40 a second for 2 s, of which the first is the ramp; a busy machine does fewer.
    assert done["read"] <= 42
    assert done["open"] >= 1


def test_a_rate_is_that_of_the_workload_though_it_has_more_threads_than_files(tmp_path: Path) -> None:
    """vdbench: 193.7 a second; a rate for each thread would be kept by the two that have a file, 67 a second."""
    text = (
        f"fsd=fsd1,anchor={tmp_path}/tree,depth=1,width=1,files=2,size=1m\n"
        "fwd=fwd1,fsd=fsd1,operation=read,xfersize=4k,fileio=random,threads=6\n"
        "rd=rd1,fwd=fwd1,fwdrate=200,format=yes,elapsed=2,interval=1,warmup=1,distribution=deterministic\n"
    )
    made = read_here(tmp_path, text)
    local.run(made.file_plans.formats(made.runs[0], already=False).plan)
    plan = made.file_plans.run(made.runs[0], None).plan
    workers = plan.groups[0].workers
    assert [worker.tree and worker.tree.rate_group for worker in workers] == [0] * 6
    done = local.run(plan)
    reads = [worker.operations["read"] for worker in done.workers]
    # 400 were due; a busy machine does some before or after the window.
    assert sum(read.operations + read.missed for read in reads) > 300


def test_threads_are_divided_among_fsds_and_rates_by_skew(tmp_path: Path) -> None:
    text = (
        "fsd=a,anchor=/tmp/a,files=1\nfsd=b,anchor=/tmp/b,files=1\n"
        "fwd=f1,fsd=(a,b),threads=6,skew=75\nfwd=f2,fsd=a,operation=getattr,threads=2\n"
        "rd=rd1,fwd=f*,fwdrate=1000,el=4,in=1,distribution=uniform\n"
    )
    made = read_here(tmp_path, text)
    plan = made.file_plans.run(made.runs[0], None)
    workers = plan.plan.groups[0].workers
    assert Counter(worker.job for worker in workers) == {"f1_a": 3, "f1_b": 3, "f2_a": 2}
    matches("vdbench#threads divided", {worker.job: worker.rate and worker.rate.count for worker in workers})
    groups = {worker.job: worker.tree and worker.tree.rate_group for worker in workers}
    assert groups == {"f1_a": 0, "f1_b": 1, "f2_a": 2}
    assert plan.counted == {"read", "getattr"}


def test_over_nfs_the_threads_are_operations_in_flight_of_one_worker(tmp_path: Path) -> None:
    made = prepared(tmp_path, "operation=getattr,threads=6", "", "nfs://h/vol/tree?nconnect=2")
    plan = made.file_plans.run(made.runs[0], 600.0)
    (worker,) = plan.plan.groups[0].workers
    assert worker.depth == 6
    assert worker.rate
    assert worker.rate.count == 600_000
    assert worker.engine.mount.nconnect == 2  # type: ignore[union-attr]


def test_anchors_are_mapped_as_luns_are(tmp_path: Path) -> None:
    (tmp_path / "p").write_text(f"fsd=f,anchor=/mnt/x,count=(1,2)\nfwd=fwd1,fsd=f*\n{RD}\n", encoding="utf-8")
    arguments = ["-f", str(tmp_path / "p"), "--map-lun"]
    goals = ("/mnt/*=nfs://h/vol/{sd}", "/mnt/*=/data", "/mnt=/data")
    systems = [present(read_command([*arguments, goal], cwd=tmp_path).file_systems) for goal in goals]
    places = ("nfs://h/vol/f", "/data/mnt_x", "/data/x")
    assert [[tree.anchor for tree in one.trees.values()] for one in systems] == [[f"{at}1", f"{at}2"] for at in places]
    assert split_anchor("nfs://h:1/vol/a?uid=0") == ("nfs://h:1/vol?uid=0", "a")
    assert split_anchor("nfs://h/vol") == ("nfs://h/vol", "")


@cases("vdbench/what_cannot_run_is_refused")
def test_what_cannot_run_is_refused_by_name(tmp_path: Path, fwd: str, rd: str, expected: str) -> None:
    trees = "\nfsd=fsd2,anchor=/tmp/y,depth=2,width=2,files=3,size=10000"
    with pytest.raises(PlanError, match=expected):
        command_of(prepared(tmp_path, fwd, rd, "/tmp/x", trees)).require_runnable()


# -- output --------------------------------------------------------------------------------------------------------


def test_an_interval_has_a_rate_and_a_response_time_for_each_operation() -> None:
    table = file_systems(frozenset({"write", "mkdir", "create", "delete"}))
    done = {"read": 10_744, "write": 500, "create": 3, "open": 2, "close": 5}
    workers = [worker_outcome({}, intervals=[interval(0, 0, SECOND_NS, done, 4096)])]
    (only,) = rows(workers, SECOND_NS, frozenset({"read", "write"}), [Processors(3.9, 3.0, 1.0, 92.1)])
    matches("vdbench_file_runs/an_interval_has_a_rate_and_a_response_time", table.header(NOON)[1:])
    matches("vdbench#interval rate", table.line(NOON, only))
    total = average([only, only], 1)
    assert total
    assert (total.label, total.rate) == ("avg_2-2", 11_244)


def engine_of_files() -> Engine:
    return Engine({"read": 8, "open": 2}, formats={"write": 4, "create": 2})


def test_a_run_writes_a_format_and_its_reports(tmp_path: Path) -> None:
    engine = engine_of_files()
    text = engine.printed(prepared(tmp_path, "operation=read", ",format=yes", "/tmp/x"))
    assert [(plan.name, len(plan.groups[0].workers)) for plan in engine.plans] == [("format_for_rd1", 8), ("rd1", 1)]
    starts = [line[13:] for line in text.splitlines() if "Starting" in line]
    assert starts == ["Starting RD=format_for_rd1", "Starting RD=rd1; elapsed=2; fwdrate=max. For loops: None"]
    *_, last = flat_rows(tmp_path)
    matches(
        "vdbench_file_runs/a_run_writes_a_format_and_its_reports",
        {name: last[name] for name in ("Run", "Interval", "Rate", "Read_rate", "Open_rate", "Mkdir_rate")},
    )
    for name in ("fsd1", "fwd1", "format", "anchors"):
        assert (tmp_path / f"output/{name}.html").is_file()
    summary = report(tmp_path, "summary")
    assert "avg_2-2" in summary
    # Each link leads to the announcement of its run.
    for number, run in enumerate(("format_for_rd1", "rd1")):
        assert f'<A HREF="#_{number}">{run} For loops: None</A>' in summary
        assert f'<a name="_{number}"></a><i><b>10:12:43.103 Starting RD={run}' in summary
    log = report(tmp_path, "logfile")
    assert "READ_OPENS          Files opened for read activity:                   4          2/sec" in log
    assert "FILE_CREATES        Files created:                                   32         16/sec" in log


def test_the_report_on_the_only_host_has_the_lines_of_the_summary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ProcessorMeter, "sample", lambda _: Processors(3.9, 3.0, 1.0, 92.1))
    engine_of_files().printed(prepared(tmp_path, "operation=read", "", "/tmp/x"))

    def lines(name: str) -> list[str]:
        text = report(tmp_path, name)
        return [line for line in text.splitlines() if line.split()[1:2] in (["1"], ["2"], ["avg_2-2"])]

    assert lines("localhost") == lines("fsd1") == lines("summary")
    (last,) = [line.split() for line in lines("localhost") if "avg_2-2" in line]
    assert last[4:6] == ["6.9", "3.00"]


def test_stopcurve_leaves_the_other_points_of_a_file_systems_curve_out(tmp_path: Path) -> None:
    text = (
        "fsd=fsd1,anchor=/tmp/x,files=1\nfwd=fwd1,fsd=fsd1\nrd=default,fwd=fwd1,elapsed=2,interval=1\n"
        "rd=rd1,fwdrate=curve,stopcurve=.45\nrd=rd2,fwdrate=9\n"
    )
    engine = engine_of_files()
    engine.printed(read_here(tmp_path, text))
    assert [plan.name for plan in engine.plans] == ["rd1", "rd1_(10%)", "rd2"]
    log = report(tmp_path, "logfile")
    assert "stopcurve=0.45 is reached; the remaining points of the curve are skipped" in log


def test_enough_data_ends_a_run_but_not_its_format(tmp_path: Path) -> None:
    engine = engine_of_files()
    engine.printed(prepared(tmp_path, "operation=read", ",format=yes,maxdata=8k", "/tmp/x"))
    assert ([plan.name for plan in engine.plans], engine.stopped) == (["format_for_rd1", "rd1"], ["rd1"])


def test_the_skew_report_has_file_workloads(tmp_path: Path) -> None:
    text = f"fsd=fsd1,anchor=/tmp/x,files=1\nfwd=fwd1,fsd=fsd1\nfwd=fwd2,fsd=fsd1\n{RD.replace('fwd1', 'fwd*')}\n"
    engine_of_files().printed(read_here(tmp_path, text))
    skew = [line.split() for line in report(tmp_path, "skew").splitlines() if line[:3] == "fwd"]
    assert skew == [["fwd1", "8.00", "50.00", "0.450"], ["fwd2", "8.00", "50.00", "0.450"]]


@cases("vdbench/formats")
def test_options_clean_and_format_file_systems(tmp_path: Path, options: list[str], rd: str, golden: Golden) -> None:
    text = f"fsd=fsd1,anchor=/tmp/x,files=1\nfwd=fwd1,fsd=fsd1\n{RD}{rd}\n"
    engine = engine_of_files()
    made = read_here(tmp_path, text, *options)
    assert made.notes == ()
    engine.printed(made)
    trees = [(plan.name, plan.groups[0].workers[0].tree) for plan in engine.plans]
    golden.check([(name, tree and tree.tasks) for name, tree in trees])


def test_an_anchor_is_cleaned_once(tmp_path: Path) -> None:
    text = f"loop=2\nfsd=fsd1,anchor=/tmp/x,files=1\nfwd=fwd1,fsd=fsd1\n{RD}\n"
    engine = engine_of_files()
    made = read_here(tmp_path, text, "-c")
    engine.printed(made)
    assert [plan.name for plan in engine.plans] == ["format_for_rd1", "rd1", "rd1"]
    assert "-c: deletes the files and directories below an anchor" in explain(made)


def test_a_format_that_is_forced_excludes_files_that_are_complete(tmp_path: Path) -> None:
    with pytest.raises(DialectError, match="exclude each other"):
        prepared(tmp_path, "operation=read", ",format=(no,complete)", "/tmp/x", options=("-cy",))


def test_the_sample_of_file_systems_is_vdbenchs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    made = read_command(["-tf", "-o", str(tmp_path / "output")], cwd=tmp_path)
    assert made.obstacles == ()
    engine = engine_of_files()
    text = engine.printed(made)
    starts = [line[13:] for line in text.splitlines() if "Starting" in line]
    assert starts == ["Starting RD=format_for_rd1", "Starting RD=rd1; elapsed=5; fwdrate=100; For loops: None"]
    workers = engine.plans[1].groups[0].workers
    assert Counter((worker.job, worker.operations[0].kind) for worker in workers) == {
        ("fwd1_fsd1", "read"): 8,
        ("fwd2_fsd1", "write"): 8,
    }
    tree = workers[0].tree
    assert tree
    assert (tree.tree.files, tree.tree.sizes[0].bytes) == (100, 128 << 10)


@cases("vdbench/a_run_that_finds_nothing")
def test_a_run_that_finds_nothing_to_do_says_so(tmp_path: Path, workload: str, run: str, told: str) -> None:
    made = prepared(tmp_path, workload, run, str(tmp_path / "tree"))
    out = io.StringIO()
    run_file(made, lambda _step, plan, _watch: local.run(plan), out, lambda: NOON)
    assert f"fwd=fwd1 {told}" in out.getvalue()


def test_statistics_are_of_all_intervals_of_the_report(tmp_path: Path) -> None:
    """vdbench: 184 opens in rows of 45, 50, 42 and 47; without the first interval there were fewer here."""
    formatted(tmp_path, f"{tmp_path}/tree")
    made = prepared(tmp_path, "operation=read,xfersize=1000", ",distribution=deterministic", f"{tmp_path}/tree")
    out = io.StringIO()
    run_file(made, lambda _, plan, enough: local.run(plan, enough=enough), out)
    opens = sum(float(one["Open_rate"]) for one in flat_rows(tmp_path) if one["Interval"].isdigit())
    (shown,) = (line.split() for line in out.getvalue().splitlines() if "READ_OPENS" in line)
    count = int(shown[-2].replace(",", ""))
    # The rows have the rates of intervals of a second.
    assert abs(opens - count) <= max(2, count * 0.02)

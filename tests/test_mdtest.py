"""mdtest's command lines: names, phases, the table, and what is refused."""

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bench.servers import Server
from goldens import Golden, cases, document, expected, matches, picked
from iocurve.cli.dialects import run as run_dialect
from iocurve.dialects.base import ClusterRequest, ParsedCommand
from iocurve.dialects.mdtest import output
from iocurve.dialects.mdtest.command import prepare
from iocurve.dialects.mdtest.options import parse
from iocurve.dialects.mdtest.phases import Phase, Shape, of_iteration, wear_out
from iocurve.foundation.errors import DialectError, TargetError
from iocurve.job.resolve import Machine
from iocurve.measure import local
from iocurve.measure.jobs import walk


def shape(text: str) -> Shape:
    return Shape.of(parse(text.split()))


def ran(prepared: ParsedCommand) -> dict[str, int]:
    """Operations of each phase, run to the end."""
    done: dict[str, int] = {}

    def run(_step, plan, enough):  # type: ignore[no-untyped-def]
        outcome = local.run(plan, enough=enough)
        assert [worker.error for worker in outcome.workers if worker.error] == []
        kinds = [kind for worker in outcome.workers for kind in worker.operations.values()]
        done[plan.name] = done.get(plan.name, 0) + sum(kind.operations for kind in kinds)
        return outcome

    walk(prepared, run)
    return done


def below(directory: Path) -> list[str]:
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*"))


def test_a_directory_that_agents_lack_ends_the_run(tmp_path: Path) -> None:
    command = prepare(["--clients=2", "--np=2", "-n=2", f"-d={tmp_path}/none"])
    with pytest.raises(TargetError, match=r"/none does not exist on the agents; create it, or"):
        ran(command)


@cases("mdtest/items")
def test_the_number_of_items_follows_from_the_tree(text: str, numbers: list[int]) -> None:
    made = shape(text)
    assert [made.loops, made.directories, made.per_directory, made.items] == numbers


@cases("mdtest/runs")
def test_command_lines_run_one_after_another(texts: list[str], golden: Golden, tmp_path: Path) -> None:
    """After each line: operations of its phases, and what is there."""
    golden.check([[ran(prepare([*text.split(), "-d", str(tmp_path)])), below(tmp_path)] for text in texts])


def test_with_u_each_task_has_a_tree_and_with_n_uses_that_of_another() -> None:
    made = shape("-u -n 1 -F --np 3 -N 1")
    phases = {phase.name: phase.paths for phase in of_iteration(made, 0)}
    assert [names[0] for names in phases["Tree creation"]] == [
        f"./out/test-dir.0-0/mdtest_tree.{rank}.0" for rank in range(3)
    ]
    assert phases["File creation"][0] == ["./out/test-dir.0-0/mdtest_tree.1.0/file.mdtest.0.0"]
    assert phases["File stat"][0] == ["./out/test-dir.0-0/mdtest_tree.2.0/file.mdtest.1.0"]
    assert set(map(tuple, phases["File creation"])) == set(map(tuple, phases["File removal"]))


def test_directories_are_renamed_in_a_chain(tmp_path: Path) -> None:
    text = ["-D", "-n", "4", "-d", str(tmp_path)]
    (renaming,) = [phase for phase in of_iteration(Shape.of(parse(text)), 0) if phase.kind == "rename"]
    assert [name.rpartition(".")[2] for name in renaming.paths[0]] == ["0", "1", "2", "0-XX"]
    assert (renaming.targets, ran(prepare(text))["Directory rename"], below(tmp_path)) == ([3, 0, 1, 2], 4, [])


def golden_tasks() -> list[tuple[str, dict[tuple[str, int], list[str]]]]:
    """Command lines of mdtest with the items that each phase and task uses."""
    found: list[tuple[str, dict[tuple[str, int], list[str]]]] = []
    text = (Path(__file__).parent / "golden/mdtest/tasks.txt").read_text(encoding="utf-8")
    for line in text.splitlines()[1:]:
        first, *items = line.split()
        if first == "$":
            found.append((line[2:], {}))
        else:
            found[-1][1][first, int(items[0])] = items[1:]
    return found


@pytest.mark.parametrize(("text", "expected"), golden_tasks())
def test_each_task_uses_the_items_that_mdtest_uses(text: str, expected: dict[tuple[str, int], list[str]]) -> None:
    made = shape(f"{text.replace('-np', '--np')} -d /d")
    words = {"creation": "create", "stat": "stat", "read": "read", "removal": "remove"}
    found: dict[tuple[str, int], list[str]] = {}
    for iteration in range(made.options.iterations):
        for phase in of_iteration(made, iteration):
            kind, _, what = phase.name.rpartition(" ")
            if kind in ("File", "Directory") and what in words:
                for task, paths in enumerate(phase.paths):
                    found.setdefault((words[what], task), []).extend(path.removeprefix("/d/") for path in paths)
    assert found == expected


def test_files_are_written_and_read_as_a_whole(tmp_path: Path) -> None:
    words = ["-F", "-n", "3", "--np", "2", "-w", "3901", "-e", "3901", "-d", str(tmp_path)]
    done = ran(prepare([*words, "-C", "-E", "-y"]))
    assert (done["File creation"], done["File read"]) == (6, 6)
    files = list(tmp_path.rglob("file.*"))
    assert [path.stat().st_size for path in files] == [3901] * 6
    plans = {phase.name: phase.plan(Machine()) for phase in of_iteration(Shape.of(parse([*words, "-y"])), 0)}
    created, read = (plans[f"File {what}"].groups[0].workers[1] for what in ("creation", "read"))
    assert (created.operations[0].kind, read.operations[0].kind) == ("write_file", "read_file")
    assert (created.engine.open.durability, read.engine.open.durability) == ("file_sync", "none")  # type: ignore[union-attr]


def test_load_clients_have_the_tasks_in_blocks_and_shift_by_those_of_a_node() -> None:
    options = parse(
        ["-F", "-n", "2", "--np", "4", "--clients", "2", "--on", "10.0.0.4:6379", "-N", "1", "-d", "nfs://h/vol"]
    )
    assert (options.cluster, options.shift) == (ClusterRequest("10.0.0.4:6379", count=2), 2)
    phases = {phase.name: phase for phase in of_iteration(Shape.of(options), 0)}
    workers = phases["File stat"].plan(Machine()).groups[0].workers
    assert [(worker.client, worker.depth, len(worker.files)) for worker in workers] == [(0, 2, 4), (1, 2, 4)]
    assert workers[0].files[0].path.endswith("file.mdtest.2.0")
    assert "Nodemap: 1100" in output.started(Shape.of(options), datetime(2026, 1, 1, tzinfo=UTC))


def test_a_directory_that_did_not_exist_is_removed_with_all_that_was_in_it(tmp_path: Path) -> None:
    prepared = prepare(["-F", "-n", "1", "-d", str(tmp_path / "new")])
    prepared.needs.make_directories()
    ran(prepared)
    assert below(tmp_path) == []


@pytest.mark.parametrize("version", ["3", "4.1"])
def test_the_phases_run_over_nfs(volume: Server, version: str) -> None:
    done = ran(prepare(["-n", "6", "-z", "1", "-b", "2", "--np", "3", "-d", f"{volume.url}&vers={version}"]))
    matches("mdtest/the_phases_run_over_nfs", done)


def test_over_nfs_tasks_are_operations_in_flight() -> None:
    phases = {phase.name: phase for phase in of_iteration(shape("-n 2 --np 3 -d nfs://h/vol?nconnect=2"), 0)}
    (worker,) = phases["File stat"].plan(Machine()).groups[0].workers
    assert (worker.depth, worker.files[1].path) == (3, "test-dir.0-0/mdtest_tree.0/file.mdtest.1.0")
    assert len(phases["Directory rename"].plan(Machine()).groups[0].workers) == 3


def test_after_a_stonewall_each_task_catches_up_with_the_fastest() -> None:
    phase = Phase("File creation", "create", lambda: (["a0", "a1", "a2"], ["b0", "b1", "b2"]), 6)
    rest = wear_out(phase, [2, 1])
    assert rest
    assert rest.paths == (["b1"],)
    assert wear_out(phase, [2, 2]) is None
    assert phase.limited(2).paths == (["a0", "a1"], ["b0", "b1"])


def test_the_table_and_the_stonewall_have_mdtests_form() -> None:
    rates = {"File creation": [1000.0, 3000.0], "Tree creation": [2.0, 4.0]}
    expected("mdtest/the_table_has_mdtests_form", output.table(shape("-F -n 1 -i 2"), "rate", rates))
    assert output.stonewall([5, 8]) == "Continue stonewall hit min: 5 max: 8 avg: 6.5 \n"


@cases("mdtest/refused")
def test_what_cannot_run_is_refused_by_name(text: str, expected: str) -> None:
    with pytest.raises(DialectError, match=re.escape(expected)):
        prepare(text.split())


def test_a_refused_option_with_a_value_is_one_error() -> None:
    for text in ("-n 4 -s 2", "-n 4 -B 1", "-n 4 -l 8", "-n 4 --saveRankPerformanceDetails f"):
        with pytest.raises(DialectError) as refusal:
            prepare(text.split())
        assert len(refusal.value.errors) == 1, text


EASY = "-u -L -F -P -G 1027 -N 1 -a POSIX --dataPacketType=timestamp -V 0 -p 0"
HARD = "-t -w 3901 -e 3901 -P -G=27 -N 1 -F -a POSIX"


@pytest.mark.parametrize(
    ("line", "phases"), [(EASY, ("-T", "-r")), (HARD, ("-T -R --random-seed=7", "-E -X -R", "-r"))]
)
def test_the_lines_of_io500_run_one_after_another(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], line: str, phases: tuple[str, ...]
) -> None:
    """Each phase is a command: -x keeps the number of items that the stonewall let through."""
    own = f"-n=40 {line} -d {tmp_path}/data -x {tmp_path}/stonewall --np 2"
    (tmp_path / "data").mkdir()
    assert run_dialect("mdtest", f"{own} -C -Y -W 30".split()) == 0
    assert len([name for name in below(tmp_path / "data") if "file.mdtest" in name]) == 80
    assert (tmp_path / "stonewall").read_text() == "40"
    tables = capsys.readouterr().out
    assert tables.index("SUMMARY rate (in ops/sec)") < tables.index("SUMMARY time (in ms/op)")
    (tmp_path / "stonewall").write_text("30")
    for phase in phases:
        done = ran(prepare(f"{own} {phase}".split()))
        assert [count for name, count in done.items() if name.startswith("File")] == [60]
    assert len([name for name in below(tmp_path / "data") if "file.mdtest" in name]) == 20


@cases("mdtest/commands")
def test_a_command_line_means(text: str, paths: list[str], golden: Golden) -> None:
    golden.check([document(picked(prepare(text.split()), path)) for path in paths])


def test_random_order_is_another_order_of_the_same_items() -> None:
    def items(text: str) -> dict[str, list[str]]:
        phases = of_iteration(shape(f"-F -n 50 --np 2 {text}"), 0)
        return {phase.name: list(phase.paths[1]) for phase in phases if phase.name.startswith("File")}

    plain, mixed = items(""), items("-R --random-seed 3")
    for name in ("File stat", "File read"):
        assert mixed[name] != plain[name]
        assert sorted(mixed[name]) == sorted(plain[name])
    assert (mixed["File creation"], mixed["File removal"]) == (plain["File creation"], plain["File removal"])
    assert items("-R --random-seed 3") == mixed != items("-R --random-seed 4")


def test_flags_may_be_joined_and_values_attached(tmp_path: Path) -> None:
    options = parse(["-FCTvv", "-n4k", "-d", str(tmp_path), "-w", "0", "-y"])
    assert (options.items, options.only, options.verbose) == (4096, frozenset({"create", "stat"}), 2)
    assert not options.tests_directories

"""Vdbench runs and what they leave behind: lines on stdout, the directory, curves, early ends."""

import json
import os
import signal
from pathlib import Path

import pytest

from bench.servers import Server
from data import synthetic
from data.synthetic import worker_outcome
from fio_machine import HeldMachine
from goldens import data, matches, present
from iocurve.dialects.vdbench.command import read_command
from iocurve.dialects.vdbench.output.directory import MARK, choose
from iocurve.dialects.vdbench.output.table import STORAGE, TRANSFERS, average, rows
from iocurve.dialects.vdbench.read.options import Loop
from iocurve.foundation.units import SECOND_NS
from iocurve.machine.processes import Processors
from iocurve.result.document import Result
from programs import iocurve, started, stopped
from vdbench_runs import NOON, Engine, flat_rows, report

MACHINE = HeldMachine(paths={}, directories=frozenset({"/d"}))
FILE = "sd=sd1,lun=/d/a,size=1g\nsd=sd2,lun=/d/b,size=1g\nwd=wd1,sd=*,xf=4k,rdpct=75\n"


MAX = "rd=rd1,wd=wd1,io=max,el=4,in=1\n"


def printed(directory: Path, rd: str, engine: Engine, *arguments: str, text: str = FILE) -> str:
    (directory / "p").write_text(text + rd, encoding="utf-8")
    command = ["-f", str(directory / "p"), "-o", str(directory / "output"), *arguments]
    return engine.printed(read_command(command, cwd=Path("/d"), machine=MACHINE))


def test_an_interval_is_a_line_in_vdbenchs_columns() -> None:
    counts: tuple[dict[str, int], ...] = ({"read": 1500, "write": 500}, {"read": 500})
    workers = [
        worker_outcome({}, intervals=synthetic.intervals([each], 65536), number=number)
        for number, each in enumerate(counts)
    ]
    (only,) = rows(workers, SECOND_NS, TRANSFERS, [Processors(3.9, 3.0, 1.0, 92.1)])
    upper, lower = STORAGE.header(NOON)
    matches("vdbench#interval line", upper)
    matches("vdbench#interval line vdbenchs", lower)
    matches("vdbench#interval line vdbenchs 3", STORAGE.line(NOON, only))


def test_the_average_leaves_the_first_intervals_out() -> None:
    intervals = synthetic.intervals((9000, 100, 300))
    total = present(average(rows([worker_outcome({}, intervals=intervals)], SECOND_NS), 1))
    assert (total.label, total.rate, total.both.operations) == ("avg_2-3", 200, 400)
    assert average(rows([worker_outcome({}, intervals=intervals)], SECOND_NS), 3) is None


def test_a_curve_takes_its_rates_and_its_skew_from_the_maximum(tmp_path: Path) -> None:
    engine = Engine({"read": 600, "write": 200})
    text = printed(tmp_path, "rd=rd1,wd=wd1,io=curve,curve=(10,55,100),el=4,in=1,warmup=2\n", engine)
    starts = [line.partition(" Starting ")[2] for line in text.splitlines() if "Starting" in line]
    matches("vdbench_run/a_curve_takes_its_rates_and_its_skew_from", starts)
    rates = [[worker.rate and worker.rate.count for worker in plan.groups[0].workers] for plan in engine.plans]
    assert rates == [[None, None], [80, 80], [440, 440], [800, 800]]


def test_stopcurve_leaves_the_other_points_out(tmp_path: Path) -> None:
    engine = Engine({"read": 600, "write": 200})
    printed(tmp_path, "rd=rd1,wd=wd1,io=curve,stopcurve=.45,el=4,in=1\nrd=rd2,wd=wd1,io=9,el=4,in=1\n", engine)
    assert [plan.name for plan in engine.plans] == ["rd1", "rd1_(10%)", "rd2"]


def test_all_runs_are_repeated(tmp_path: Path) -> None:
    engine = Engine({"read": 1, "write": 1})
    printed(tmp_path, "", engine, text=f"loop=3\n{FILE}{MAX}")
    assert len(engine.plans) == 3


def test_a_number_after_l_is_seconds(tmp_path: Path) -> None:
    (tmp_path / "p").write_text(f"{FILE}{MAX}", encoding="utf-8")
    said = {
        option: read_command(["-f", str(tmp_path / "p"), option], cwd=Path("/d"), machine=MACHINE).loop
        for option in ("-l9", "-l2m", "-l")
    }
    assert said == {"-l9": Loop(None, 9), "-l2m": Loop(None, 120), "-l": Loop(None, None)}


def test_each_sd_is_formatted_once_before_the_first_run_that_uses_it(tmp_path: Path) -> None:
    engine = Engine({"read": 300, "write": 100})
    runs = "rd=default,wd=wd1,io=max,el=4,in=1\nrd=rd1,sd=sd2\nrd=rd2,sd=sd*\nrd=rd3,sd=sd*\n"
    printed(tmp_path, runs, engine, text=f"formatsds=yes\n{FILE}")
    workers = [plan.groups[0].workers for plan in engine.plans]
    matches("vdbench#sd formatted", [[file.layout for worker in group for file in worker.files] for group in workers])


def test_the_directory_has_the_files_that_scripts_look_for(tmp_path: Path) -> None:
    printed(tmp_path, "rd=rd1,wd=wd1,io=max,forth=(1,2),el=4,in=1\n", Engine({"read": 300, "write": 100}))
    output = tmp_path / "output"
    matches("vdbench#directory files scripts 2", sorted(path.name for path in output.iterdir() if path.name != MARK))
    summary = (output / "summary.html").read_text().splitlines()
    assert summary[0] == "<title>Vdbench output/summary.html</title><pre>"
    matches("vdbench#directory files", summary[1])
    averages = [line.split() for line in summary if "avg" in line]
    assert [words[1:7] for words in averages] == [["avg_2-4", "800.00", "3.12", "4096", "75.00", "0.450"]] * 2
    starts = [line for line in summary if "Starting RD=" in line]
    assert starts[1].endswith("Starting RD=rd1; I/O rate: Uncontrolled MAX; elapsed=4; For loops: threads=2</b></i>")
    matches(
        "vdbench#directory files scripts",
        [line.split()[1] for line in (output / "totals.html").read_text().splitlines() if "avg" in line],
    )
    log = (output / "logfile.html").read_text().splitlines()
    assert [words[1] for words in map(str.split, log) if len(words) == 14] == [*"1234", "avg_2-4"] * 2
    ended = f"10:12:43.103 Vdbench execution completed successfully. Output directory: {output}"
    assert summary[-1] == (output / "logfile.html").read_text().splitlines()[-1] == ended


def test_the_summary_links_to_every_report(tmp_path: Path) -> None:
    text = f"hd=h1\nhd=h2\n{FILE}wd=wd2,sd=sd1\n"
    printed(tmp_path, "rd=rd1,wd=wd*,io=max,el=4,in=1\n", Engine({"read": 3, "write": 1}), text=text)
    summary = report(tmp_path, "summary").splitlines()
    matches("vdbench_run/the_summary_links_to_every_report", [line for line in summary if "HREF" in line])
    files = {path.name: path.read_text() for path in (tmp_path / "output").glob("*.html")}
    linked = {word.split('"')[1] for text in files.values() for word in text.split() if word.startswith("HREF=")}
    assert {file for file in linked if not file.startswith("#")} <= files.keys()


def test_a_host_an_sd_and_a_slave_have_their_reports(tmp_path: Path) -> None:
    printed(tmp_path, "rd=rd1,wd=wd1,io=max,el=2,in=1\n", Engine({"read": 3, "write": 1}))
    text = "10:12:43.103 Starting RD=rd1; I/O rate: Uncontrolled MAX; elapsed=2; For loops: None"
    started = f'<a name="_0"></a><i><b>{text}</b></i>'
    runs = 'Link to Run Definitions:         <A HREF="#_0">rd1 For loops: None</A>'
    heads = json.loads(data("vdbench/heads.json"))
    for name, head in heads.items():
        lines = report(tmp_path, name).splitlines()
        assert lines[:-4] == [
            f"<title>Vdbench output/{name}.html</title><pre>",
            *(*head, "", runs, "", started, ""),
            STORAGE.header(NOON)[0],
        ]
        assert [line.split()[1] for line in lines[-3:]] == ["1", "2", "avg_2-2"]
    console = report(tmp_path, "localhost-0.stdout").splitlines()
    assert console[1:] == [
        *("stdout/stderr for slave=localhost-0", "", runs, "", started, ""),
        "10:12:43.103 10:12:43.103 Opening sd=sd1,lun=/d/a",
        "10:12:43.103 10:12:43.103 Opening sd=sd2,lun=/d/b",
    ]


def statuses(directory: Path) -> list[str]:
    lines = report(directory, "status").splitlines()
    assert all(line.startswith("12/02/2016-10:12:43-UTC \t") for line in lines[3:])
    return [line.partition("\t")[2] for line in lines[3:]]


def test_the_status_says_what_is_going_on(tmp_path: Path) -> None:
    printed(tmp_path, "rd=rd1,wd=wd1,io=max,forth=(1,2),el=4,in=1,warmup=2\n", Engine({"read": 3, "write": 1}))
    process = os.getpid()
    runs = [
        f"{event}\trd=rd1\tFor loops: threads={threads}"
        for threads in (1, 2)
        for event in ("Starting", "Warmup done", "Workload done", "Slaves done")
    ]
    slave = f"Slave localhost-0 (pid {process:>6}) connected to master {process}"
    query = [f"Query host configuration {state}" for state in ("started", "completed")]
    before = ["Starting slaves", slave, "Slaves connected", *query]
    assert statuses(tmp_path) == [*before, *runs, "Shutting down slaves", "Vdbench complete"]


def test_the_status_says_that_a_run_was_cut_short(tmp_path: Path) -> None:
    printed(tmp_path, MAX, Engine({"read": 3, "write": 1}, state="interrupted"), "-l")
    matches("vdbench_run/the_status_says_that_a_run_was_cut_short", statuses(tmp_path)[5:])


def test_the_flat_file_has_a_column_for_each_name(tmp_path: Path) -> None:
    printed(tmp_path, "rd=rd1,wd=wd1,io=(800),el=4,in=1\n", Engine({"read": 300, "write": 100}))
    records = flat_rows(tmp_path)
    assert [record["Interval"] for record in records] == ["1", "2", "3", "4", "avg_2-4"]
    wanted = {"Run": "rd1", "reqrate": "800.0000", "rate": "800.0000", "read%": "75.0000", "xfersize": "4096"}
    assert wanted.items() <= records[-1].items()
    first = {"read_max": "2.8000", "write_max": "2.8000", "compratio": "n/a", "dedupratio": "n/a"}
    first |= {"threads": "8.0000", "rdpct": "75.0000", "seekpct": "100.0000", "lunsize": "2.0000"}
    assert first.items() <= records[0].items()


def test_the_histogram_counts_every_operation(tmp_path: Path) -> None:
    printed(tmp_path, MAX, Engine({"read": 300, "write": 100}))
    assert f"    0.400 <       0.600        3,200 100.0000 100.0000  {'+' * 50}\n" in report(tmp_path, "histogram")


def test_a_run_that_is_cut_short_keeps_its_intervals_and_ends_the_others(tmp_path: Path) -> None:
    engine = Engine({"read": 300, "write": 100}, state="interrupted")
    text = printed(tmp_path, MAX + MAX.replace("rd1", "rd2"), engine)
    assert len(engine.plans) == 1
    assert "avg_2-4" in text
    assert "was ended early" in text.splitlines()[-1]


def test_a_directory_of_another_program_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "output").mkdir()
    (tmp_path / "output" / "summary.html").write_text("theirs")
    printed(tmp_path, MAX, Engine({"read": 1, "write": 1}))
    assert report(tmp_path, "summary") == "theirs"
    assert (tmp_path / "output001" / "summary.html").is_file()


def test_our_own_directory_is_used_again_and_what_is_not_ours_in_it_stays(tmp_path: Path) -> None:
    for _ in range(2):
        printed(tmp_path, MAX, Engine({"read": 1, "write": 1}))
        (tmp_path / "output" / "mine.html").write_text("mine")
    assert not (tmp_path / "output001").exists()
    assert (report(tmp_path, "mine"), report(tmp_path, "totals").count("avg_2-4")) == ("mine", 1)


def test_directories_count_on(tmp_path: Path) -> None:
    assert choose("out+", tmp_path, NOON) == tmp_path / "out"
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / MARK).touch()
    assert (choose("out", tmp_path, NOON), choose("out+", tmp_path, NOON)) == (tmp_path / "out", tmp_path / "out001")
    assert choose("out.tod", tmp_path, NOON) == tmp_path / "out.161202.101243"


def test_names_lead_nowhere(tmp_path: Path) -> None:
    global_file = "sd=../../x,lun=/d/a,size=1g\nsd=summary,lun=/d/b,size=1g\nwd=wd1,sd=*\n"
    (tmp_path / "p").write_text(global_file + "rd=<b>,wd=wd1,io=max,el=4,in=1\n", encoding="utf-8")
    prepared = read_command(
        ["-f", str(tmp_path / "p"), "-o", str(tmp_path / "a" / "output")], cwd=Path("/d"), machine=MACHINE
    )
    Engine({"read": 1, "write": 1}).printed(prepared)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "p"]
    assert {"_.._x.html", "sd_summary.html"} <= {path.name for path in (tmp_path / "a" / "output").iterdir()}
    assert "<b>;" not in (tmp_path / "a" / "output" / "summary.html").read_text()


# -- with the engine ---------------------------------------------------------------------------------------------------


def averages_of(directory: Path) -> list[list[str]]:
    """The columns of the averages that a run in a directory prints."""
    ran = iocurve("vdbench", "-f", "p", cwd=directory)
    assert ran.returncode == 0, ran.stderr
    assert "Vdbench execution completed successfully" in ran.stdout
    return [line.split() for line in ran.stdout.splitlines() if "avg" in line]


@pytest.mark.slow
def test_a_file_is_made_and_read(tmp_path: Path) -> None:
    (tmp_path / "p").write_text("sd=sd1,lun=data,size=4m\nwd=wd1,sd=sd1,xf=8k\nrd=rd1,wd=wd1,io=500,el=2,in=1\n")
    ran = iocurve("vdbench", "-f", "p", "--out", "report", cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert (tmp_path / "data").stat().st_size == 4 << 20
    averages = [line.split() for line in report(tmp_path, "summary").splitlines() if "avg" in line]
    assert [(words[1], words[4], words[5]) for words in averages] == [("avg_2-2", "8192", "100.00")]
    assert float(averages[0][2]) > 0
    result = Result.read(tmp_path / "report" / "result.json")
    assert [point.name for point in result.points] == ["rd1"]


@pytest.mark.slow
def test_a_file_on_the_embedded_volume_is_made_and_written(tmp_path: Path, volume: Server) -> None:
    (tmp_path / "p").write_text(
        f"sd=sd1,lun={volume.url.replace('?', '/data?')},size=4m\n"
        "wd=wd1,sd=sd1,xf=64k,seekpct=0,rdpct=0\nrd=rd1,wd=wd1,io=500,el=2,in=1,th=2\n"
    )
    (total,) = averages_of(tmp_path)
    assert (total[1], total[4], total[5]) == ("avg_2-2", "65536", "0.00")


@pytest.mark.slow
def test_ctrl_c_keeps_what_was_measured(tmp_path: Path) -> None:
    (tmp_path / "p").write_text("sd=sd1,lun=data,size=4m\nwd=wd1,sd=sd1\nrd=rd1,wd=wd1,io=500,el=60,in=1\n")
    with started("vdbench", "-f", "p", cwd=tmp_path) as process:
        assert any(line.split()[1:2] == ["2"] for line in present(process.stdout))
        ended = stopped(process, signal.SIGINT)
    assert ended.returncode == 130, ended.stderr
    assert ("avg_2-" in ended.stdout, "avg_2-" in report(tmp_path, "summary")) == (True, True)


@pytest.mark.slow
def test_enough_data_ends_a_run(tmp_path: Path) -> None:
    (tmp_path / "p").write_text("sd=sd1,lun=data,size=4m\nwd=wd1,sd=sd1\nrd=rd1,wd=wd1,io=max,el=60,in=1,maxdata=1m\n")
    (total,) = averages_of(tmp_path)
    assert int(total[1].partition("-")[2]) < 60


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [("-s", "-f", "p"), ("-f", "p", "-s")])
def test_a_simulation_leaves_nothing_behind(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    (tmp_path / "p").write_text("sd=sd1,lun=data,size=4m\nwd=wd1,sd=sd1\nrd=rd1,wd=wd1,io=(1,2),el=60,in=1\n")
    ran = iocurve("vdbench", *arguments, cwd=tmp_path)
    assert (ran.stdout.splitlines()[-1], [path.name for path in tmp_path.iterdir()]) == ("2 runs, 120 seconds", ["p"])

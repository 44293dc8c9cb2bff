"""Answers in DiskSpd's layout: its own tests' lines, its columns, its XML elements."""

import math
import shlex
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from diskspd_stats import BUSY, ONE_PROCESSOR, START, mixed, row, stats
from goldens import cases, expected, matches, present
from iocurve.dialects.diskspd import command as diskspd
from iocurve.dialects.diskspd.output.profile_text import profile_text
from iocurve.dialects.diskspd.output.text import READS, SpanStats, TargetStats, iops_deviation, results_text
from iocurve.dialects.diskspd.output.xml import results_xml
from iocurve.dialects.diskspd.read.profile import Profile, TargetParameters, TimeSpan
from iocurve.dialects.diskspd.read.values import OffsetZone
from iocurve.engine.derived import block_bytes_max
from iocurve.foundation.errors import DialectError
from iocurve.foundation.units import MIB
from iocurve.machine.processes import Processor, Topology, topology_of
from iocurve.measure import jobs
from iocurve.result.document import MachineUse, ProcessorUse, Result


@pytest.fixture(autouse=True)
def _in_a_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def text_of(span: TimeSpan, *threads: tuple[TargetStats, ...], seconds: float = 120.0, spans: int = 1) -> str:
    return results_text(
        Profile(time_spans=[span] * spans), ONE_PROCESSOR, START, [(SpanStats(seconds, threads), BUSY)] * spans
    )


def ran(*words: str) -> Result:
    return present(jobs.run(diskspd.DIALECT, words))


def section(text: str, title: str) -> list[str]:
    """The lines from a title to the next blank one."""
    return text[text.index(title) :].partition("\n\n")[0].splitlines()


def test_results_have_the_lines_that_diskspd_prints() -> None:
    text = text_of(TimeSpan(measure_iops_deviation=True), (mixed(),))
    expected("diskspd_output/results", text)


def test_latencies_are_in_ms_and_missing_ones_are_not_available() -> None:
    lines = text_of(TimeSpan(measure_latency=True), (mixed(),)).splitlines()
    header = "thread |       bytes     |     I/Os     |    MiB/s   |  I/O per s |  AvgLat  | LatStdDev |  file"
    assert lines.count(header) == 3
    assert lines[lines.index(header) + 1] == "-" * 101
    cells = "         4194304 |            6 |       0.03 |       0.05 |    3.500 |     1.708 | testfile1.dat (10MiB)"
    assert f"     0 |{cells}" in lines
    assert "total:           2097152 |           10 |       0.02 |       0.08 |    0.000 |       N/A" in lines
    chart = lines[lines.index("Total latency distribution:") + 1 :]
    matches("diskspd_output/latencies_are_in_ms_and_missing_ones", chart[:4])
    names = "min 25th 50th 75th 90th 95th 99th 3-nines 4-nines 5-nines 6-nines 7-nines 8-nines 9-nines max"
    assert [line.partition("|")[0].strip() for line in chart[2:]] == names.split()
    assert chart[-1] == "    max |      6.000 |        N/A |      6.000"


def test_scripts_that_cut_the_total_line_find_their_figures() -> None:
    lines = text_of(TimeSpan(measure_latency=True), (mixed("a"), mixed("b")), (mixed("a"), mixed("b"))).splitlines()
    total, reads, writes = (line.split("|") for line in lines if line.startswith("total:"))
    assert [cell.strip() for cell in total[:4]] == ["total:          25165824", "64", "0.20", "0.53"]
    assert (reads[0].split()[1], writes[0].split()[1]) == (str(16 * MIB), str(8 * MIB))
    matches("diskspd#scripts cut total", [line for line in lines if line.startswith("Latency distribution:")])


def test_the_deviation_of_iops_is_that_of_the_intervals() -> None:
    target = stats(row(), {}, [(10, 0), (20, 0), (30, 0)], seconds=0.5)
    assert iops_deviation(target.view(READS)) == pytest.approx(math.sqrt((20**2 + 0 + 20**2) / 3))


def test_effective_distributions_name_the_threads_that_have_them() -> None:
    kib = 1 << 10
    zones = (OffsetZone(10, 0, 8 * kib), OffsetZone(10, 8 * kib, 12 * kib), OffsetZone(80, 28 * kib, 72 * kib))
    threads = [
        (TargetStats(row(name, *zones), ()),)
        for name in ("testfile.dat", "testfile.dat", "testfile.dat", "testfile2.dat", "testfile.dat")
    ]
    text = text_of(TimeSpan(), *threads)
    matches("diskspd#effective distributions", section(text, "Effective IO Distributions"))


def operations(result: Result) -> int:
    workers = result.points[0].outcome.workers
    return sum(kind.operations for worker in workers for kind in worker.operations.values())


def test_a_machine_with_sockets_and_threads_has_columns_for_them() -> None:
    machine = Topology("host", tuple(Processor(n, n // 2, n // 4, n // 4) for n in range(8)), "")
    uses = tuple(ProcessorUse(processor=n, user_share=0.5, system_share=0.25) for n in range(8))
    use = MachineUse(busy_share=0.75, cpus=8, processors=uses)
    text = results_text(Profile(time_spans=[TimeSpan()]), machine, START, [(SpanStats(1.0, ((mixed(),),)), use)])
    matches("diskspd#sockets and threads", section(text, "Socket | Node"))


def test_a_span_that_never_ran_says_so() -> None:
    text = text_of(TimeSpan(), seconds=0.0)
    assert text.endswith("The test was interrupted before the measurements began. No results are displayed.\n")
    xml = results_xml(Profile(time_spans=[TimeSpan()]), ONE_PROCESSOR, START, [(SpanStats(0.0, ()), None)])
    assert "<Error>The test was interrupted" in xml


def test_several_time_spans_are_added_up() -> None:
    text = text_of(TimeSpan(), (mixed(),), seconds=60.0, spans=2)
    matches("diskspd#several time spans", text.splitlines()[-6:])


def test_a_profile_has_the_lines_that_diskspd_prints() -> None:
    text = profile_text(Profile(time_spans=[TimeSpan(targets=[TargetParameters()])]))
    expected("diskspd_output/a_profile_has_the_lines_that_diskspd_prints", text)


@cases("diskspd/described")
def test_targets_are_described_in_diskspds_words(target: dict[str, Any], line: str) -> None:
    assert f"\t\t{line}\n" in profile_text(Profile(time_spans=[TimeSpan(targets=[TargetParameters(**target)])]))


def test_xml_results_have_diskspds_elements() -> None:
    span = TimeSpan(measure_latency=True, measure_iops_deviation=True, targets=[TargetParameters(path="a&b")])
    figures = SpanStats(10.0, ((mixed("a&b"),),))
    xml = results_xml(Profile(time_spans=[span]), ONE_PROCESSOR, START, [(figures, BUSY)])
    assert xml.splitlines()[0] == "<Results>"
    root = ElementTree.fromstring(xml)
    assert [child.tag for child in root] == ["System", "Profile", "TimeSpan"]
    measured = present(root.find("TimeSpan"))
    latency = ("Latency/AverageReadMilliseconds", "Latency/Bucket[1]/WriteMilliseconds")
    named = {name: measured.findtext(name) for name in ("CpuUtilization/Average/UsagePercent", *latency)}
    percentiles = [bucket.findtext("Percentile") for bucket in measured.findall("Latency/Bucket")]
    buckets = [(one.get("SampleMillisecond"), one.get("Total")) for one in measured.findall("Iops/Bucket")]
    matches("diskspd#xml elements", ([child.tag for child in measured], named, percentiles, buckets))
    target = present(measured.find("Thread/Target"))
    figures_of_target = {child.tag: child.text for child in target if child.tag != "Iops"}
    matches("diskspd_output/xml_results_have_diskspds_elements", figures_of_target)


def test_processors_are_where_linux_says(tmp_path: Path) -> None:
    files = {"cpu/online": "0-1,3", "node/online": "0-1", "node/node0/cpulist": "0-1", "node/node1/cpulist": "2-3"}
    for number, (core, socket) in {0: (0, 0), 1: (0, 0), 3: (0, 1)}.items():
        files[f"cpu/cpu{number}/topology/core_id"] = str(core)
        files[f"cpu/cpu{number}/topology/physical_package_id"] = str(socket)
    for name, text in files.items():
        path = tmp_path / "sys/devices/system" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    machine = topology_of("host", tmp_path)
    assert machine.processors == (Processor(0, 0, 0, 0), Processor(1, 0, 0, 0), Processor(3, 1, 1, 1))
    assert machine.has_threads


# -- real runs ---------------------------------------------------------------------------------------------------------


def test_the_command_lines_of_the_documents_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As they are published, but for the sizes and times."""
    for line in (
        "-c2M -w100 -b8K -F4 -r -o128 -W0 -d1 -Sb testfile.dat",
        "-c2M -b4K -F4 -r -o128 -W0 -d1 -Sb testfile.dat",
    ):
        result = ran(*line.split())
        assert (result.state, (tmp_path / "testfile.dat").stat().st_size) == ("finished", 2 * MIB)
        out = capsys.readouterr().out
        assert out.startswith(f"\nCommand Line: diskspd {line}\n")
        total = next(cells.split("|") for cells in out.splitlines() if cells.startswith("total:"))
        block = block_bytes_max(result.points[0].plan.groups[0].workers[0].operations[0].blocks)
        done = operations(result)
        assert (int(total[1]), int(total[0].removeprefix("total:"))) == (done, done * block)
        assert done > 0


@pytest.mark.slow
def test_xml_on_stdout_is_nothing_but_xml(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = ran(*shlex.split("-c1M -w50 -b4K -r -o4 -W0 -d1 -L -D250 -Rxml -t2 --out=report a.dat b.dat"))
    root = ElementTree.fromstring(capsys.readouterr().out)
    counts = [int(element.text or "") for element in root.findall("TimeSpan/Thread/Target/IOCount")]
    assert (len(counts), sum(counts)) == (4, operations(result))
    assert len(root.findall("TimeSpan/Iops/Bucket")) == 4
    assert (tmp_path / "report" / "result.json").exists()


def test_a_profile_is_printed_and_nothing_is_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for option, begins in (
        ("-Rpxml", "<Profile>\n  <Progress>0</Progress>\n  <ResultFormat>xml</ResultFormat>"),
        ("-Rp", "\nCommand Line: diskspd -c1M"),
    ):
        assert jobs.run(diskspd.DIALECT, ["-c1M", "-w50", option, "a.dat"]) is None
        assert capsys.readouterr().out.startswith(begins)
    assert not (tmp_path / "a.dat").exists()


def test_time_spans_run_one_after_another(capsys: pytest.CaptureFixture[str]) -> None:
    target = "<Target><Path>*1</Path><FileSize>1048576</FileSize><WriteRatio>100</WriteRatio></Target>"
    span = f"<TimeSpan><Duration>1</Duration><Warmup>0</Warmup><Targets>{target}</Targets></TimeSpan>"
    Path("p.xml").write_text(f"<Profile><TimeSpans>{span}{span}</TimeSpans></Profile>")
    result = ran("-Xp.xml", "a.dat")
    assert [point.name for point in result.points] == ["a.dat (1)", "a.dat (2)"]
    out = capsys.readouterr().out
    assert out.count("Results for timespan") == 2
    assert "total test time:\t2.00s" in out


def test_a_file_that_is_there_stays_as_long_as_it_is_without_c() -> None:
    Path("a.dat").write_bytes(bytes(1 << 20))
    jobs.run(diskspd.DIALECT, ["-w100", "-f512K", "-b64K", "-W0", "-d1", "a.dat"])
    content = Path("a.dat").read_bytes()
    assert content[: 512 << 10] == bytes(range(256)) * 2048
    assert content[512 << 10 :] == bytes(512 << 10)


def test_errors_reach_the_caller_before_anything_is_made(tmp_path: Path) -> None:
    with pytest.raises(DialectError):
        jobs.run(diskspd.DIALECT, ["-c1M", "-t0", "a.dat"])
    assert list(tmp_path.iterdir()) == []

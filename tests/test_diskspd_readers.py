"""Answers read by the rules of public scripts for DiskSpd: what they look for is there and means what they take it for.

The rules are those of Process-DiskSpd.ps1 and VMFleet (microsoft/diskspd), PerfKitBenchmarker, microsoft/VirtualClient,
Mars.Clouds, and of the loop that Microsoft's tutorials print, which many copy.
"""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from diskspd_stats import BUSY, ONE_PROCESSOR, START, did, row, stats
from goldens import matches, present
from iocurve.dialects.diskspd.output.span_stats import SpanStats, TargetStats
from iocurve.dialects.diskspd.output.text import results_text
from iocurve.dialects.diskspd.output.xml import results_xml
from iocurve.dialects.diskspd.read.profile import Profile, TargetParameters, TimeSpan
from iocurve.foundation.units import MIB

SECONDS = 10.0
SPAN = TimeSpan(
    measure_latency=True,
    measure_iops_deviation=True,
    targets=[TargetParameters(path="a.dat", random_percent=100, block_bytes=8192, requests=4, write_percent=30)],
)


def thread() -> tuple[TargetStats]:
    kinds = {"read": did(512, 4 * MIB, *range(1, 101)), "write": did(256, 2 * MIB, 2, 4)}
    return (stats(row("a.dat"), kinds, [(40, 25), (60, 25)] * 5),)


FIGURES = [(SpanStats(SECONDS, (thread(), thread())), BUSY)]


@pytest.fixture
def lines() -> list[str]:
    return results_text(Profile(time_spans=[SPAN]), ONE_PROCESSOR, START, FIGURES).splitlines()


@pytest.fixture
def results() -> ElementTree.Element:
    return ElementTree.fromstring(results_xml(Profile(time_spans=[SPAN]), ONE_PROCESSOR, START, FIGURES))


def number(element: ElementTree.Element, path: str) -> float:
    return float(element.findtext(path) or "nothing")


def test_the_loop_of_the_tutorials_prints_rates_latency_and_processors(lines: list[str]) -> None:
    total = next(line for line in lines if line.startswith("total:")).split("|")
    average = next(line for line in lines if line.startswith("avg.")).split("|")
    matches(
        "diskspd_readers/the_loop_of_the_tutorials_prints_rates",
        [cell.strip() for cell in (total[3], total[2], total[4], average[1])],
    )


def test_virtual_client_finds_each_section_once_and_its_table(lines: list[str]) -> None:
    text = "\n".join(line for line in lines if not re.search("--", line)).replace("total:", "total|")
    parts = [part.strip().split("\n") for part in re.split(r"\n\s*\n", text) if part.strip()]
    titles = [part[0].strip() for part in parts]
    assert len(titles) == len(set(titles))
    tables = {part[0].strip(): [re.split(r" *\| *", line.strip()) for line in part[1:]] for part in parts}
    processors = tables["CPU |  Usage |  User  | Kernel |  Idle"]
    assert processors == [
        ["0", "55.00%", "30.00%", "25.00%", "45.00%"],
        ["avg.", "55.00%", "30.00%", "25.00%", "45.00%"],
    ]
    columns = ["thread", "bytes", "I/Os", "MiB/s", "I/O per s", "AvgLat", "IopsStdDev", "LatStdDev", "file"]
    for title, total in {
        "Total IO": ["total", "12582912", "1536", "1.20", "153.60", "49.569", "20.00", "29.331"],
        "Read IO": ["total", "8388608", "1024", "0.80", "102.40", "50.500", "20.00", "28.866"],
        "Write IO": ["total", "4194304", "512", "0.40", "51.20", "3.000", "0.00", "1.000"],
    }.items():
        header, *rows = tables[title]
        assert header == columns
        assert [cells[0] for cells in rows[:-1]] == ["0", "1"]
        assert rows[-1] == total
    assert tables["Total latency distribution:"][0] == ["%-ile", "Read (ms)", "Write (ms)", "Total (ms)"]
    names = "min 25th 50th 75th 90th 95th 99th 3-nines 4-nines 5-nines 6-nines 7-nines 8-nines 9-nines max"
    assert [cells[0] for cells in tables["Total latency distribution:"][1:]] == names.split()


def test_process_diskspd_adds_up_threads_and_finds_percentiles_by_name(results: ElementTree.Element) -> None:
    targets = results.findall("TimeSpan/Thread/Target")
    sums = {name: sum(number(target, name) for target in targets) for name in ("ReadCount", "WriteBytes")}
    assert sums == {"ReadCount": 1024, "WriteBytes": 4 * MIB}
    assert number(results, "TimeSpan/TestTimeSeconds") == SECONDS
    assert number(results, "TimeSpan/Iops/ReadIopsStdDev") == 20
    assert max(float(use.text or "") for use in results.findall("TimeSpan/CpuUtilization/CPU/KernelPercent")) == 25
    said = present(results.find("Profile/TimeSpans/TimeSpan/Targets/Target"))
    assert [said.findtext(name) for name in ("Random", "WriteRatio", "RequestCount", "BlockSize", "StrideSize")] == [
        *("8192", "30", "4", "8192", None)
    ]
    by_name = {bucket.findtext("Percentile"): bucket for bucket in results.findall("TimeSpan/Latency/Bucket")}
    wanted = ("25", "50", "75", "90", "95", "99", "99.9", "99.99", "99.999", "100")
    read = [number(by_name[name], "ReadMilliseconds") for name in wanted]
    assert read == pytest.approx([25, 50, 75, 90, 95, 99, 100, 100, 100, 100], rel=1e-3)
    assert number(by_name["100"], "WriteMilliseconds") == 4


def test_vmfleet_takes_the_nth_bucket_for_the_nth_percentile(results: ElementTree.Element) -> None:
    found = results.findall("TimeSpan/Latency/Bucket")
    assert [found[percent].findtext("Percentile") for percent in (0, 50, 90, 99)] == ["0", "50", "90", "99"]
    assert number(results, "TimeSpan/Latency/AverageWriteMilliseconds") == 3


def test_perfkitbenchmarker_adds_every_number_of_a_thread(results: ElementTree.Element) -> None:
    sums: dict[str, int] = {}
    for target in results.findall("TimeSpan/Thread/Target"):
        for child in target:
            # It asks for no intervals (-D) and no distribution.
            if child.tag not in ("Path", "FileSize", "Iops") and "latency" not in child.tag.lower():
                sums[child.tag] = sums.get(child.tag, 0) + int(child.text or "")
    matches("diskspd_readers/perfkitbenchmarker_adds_every_number", sums)
    for use in [*results.findall("TimeSpan/CpuUtilization/CPU"), *results.findall("TimeSpan/CpuUtilization/Average")]:
        assert [number(use, f"{name}Percent") for name in ("Usage", "User", "Kernel", "Idle")] == [55, 30, 25, 45]
    assert all(bucket.findtext("TotalMilliseconds") for bucket in results.findall("TimeSpan/Latency/Bucket"))


def test_mars_clouds_wants_all_attributes_of_an_interval(results: ElementTree.Element) -> None:
    first, second = results.findall("TimeSpan/Iops/Bucket")[:2]
    matches("diskspd_readers/mars_clouds_wants_all_attributes", first.attrib)
    assert (second.attrib["SampleMillisecond"], second.attrib["Read"]) == ("2000", "120")

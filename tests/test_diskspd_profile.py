"""DiskSpd's profiles, distributions, refused command lines, and outputs as public scripts read them."""

import dataclasses
import re
import shlex
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diskspd_stats import BUSY, ONE_PROCESSOR, START, did, row, stats
from fio_machine import HeldMachine
from goldens import Golden, cases, data, document, matches, picked, present
from iocurve.dialects.diskspd.command import DIALECT, ReadProfile, read_command
from iocurve.dialects.diskspd.output.text import SpanStats, TargetStats, results_text
from iocurve.dialects.diskspd.output.xml import results_xml
from iocurve.dialects.diskspd.read import values
from iocurve.dialects.diskspd.read.options import OPTIONS
from iocurve.dialects.diskspd.read.parse import parse
from iocurve.dialects.diskspd.read.profile import Profile, TargetParameters, TimeSpan
from iocurve.dialects.diskspd.read.profile_xml import profile_xml, read_profile
from iocurve.dialects.diskspd.read.values import OffsetZone
from iocurve.dialects.diskspd.targets import aligned_bytes, shares, zones_of
from iocurve.foundation.errors import COMMAND_LINE, Diagnostic, DialectError, PlanError
from iocurve.foundation.units import MIB
from iocurve.job.resolve.machine import PathKind


def written(tmp_path: Path, body: str) -> Path:
    path = tmp_path / "p.xml"
    path.write_text(body, encoding="utf-8")
    return path


def spans(target: str, span: str = "") -> str:
    inside = f"<TimeSpan>{span}<Targets><Target>{target}</Target></Targets></TimeSpan>"
    return f"<Profile><TimeSpans>{inside}</TimeSpans></Profile>"


def from_command_line(line: str) -> Profile:
    parsed = parse(line.split(), Path("/d"), lambda: 7)
    assert not parsed.errors
    return parsed.profile


def test_the_help_has_a_line_for_each_flag() -> None:
    assert sorted(re.findall(r"^  -(\S)  ", DIALECT.information(["--help"]) or "", re.MULTILINE)) == sorted(OPTIONS)


@cases("diskspd/written")
def test_a_profile_that_is_written_is_the_same_when_it_is_read(tmp_path: Path, line: str) -> None:
    profile = from_command_line(line)
    text = profile_xml(profile)
    reading = read_profile(written(tmp_path, text), [])
    assert reading.errors == []
    assert profile_xml(reading.profile) == text
    for before, after in zip(profile.time_spans, reading.profile.time_spans, strict=True):
        assert (before.random_write_data, before.affinity) == (after.random_write_data, after.affinity)


def test_a_profile_reads_back_field_by_field(tmp_path: Path) -> None:
    profile = from_command_line("-rs30 -r8K -w25 -z5 -L -D250 -c1G -Suw -g100i -o7 -t3 -b4K f")
    reading = read_profile(written(tmp_path, profile_xml(profile)), [])
    assert reading.profile.time_spans == profile.time_spans


@cases("diskspd/profile_errors")
def test_errors_in_a_profile_have_their_places(tmp_path: Path, body: str, place: str, text: str) -> None:
    path = written(tmp_path, body)
    found = [str(error) for error in read_profile(path, ["one.dat"]).errors]
    assert any(text in error and error.startswith(f"{path}:{place}:") for error in found), found


def test_rules_hold_for_profiles_too(tmp_path: Path) -> None:
    path = written(tmp_path, spans("<Path>*1</Path><ThreadStride>65536</ThreadStride>"))
    machine = HeldMachine(paths={"/d/f": ("file", 1 << 20)}, directories=frozenset({"/d"}))
    for names, error in ((["f"], "-T has no effect on one thread"), ([], "no target replaces the template")):
        with pytest.raises(DialectError, match=error):
            read_command([f"-X{path}", *names], cwd=Path("/d"), machine=machine)


def test_the_command_line_overrides_durations_seed_and_format(tmp_path: Path) -> None:
    path = written(tmp_path, spans("<Path>f</Path>", "<Duration>3</Duration><RandSeed>4</RandSeed>"))
    parsed = parse([f"-X{path}", "-d7", "-W0", "-C2", "-z9", "-Rxml"], tmp_path, lambda: 7)
    (span,) = parsed.profile.time_spans
    assert (span.duration_s, span.warmup_s, span.cooldown_s, span.seed) == (7, 0, 2, 9)
    assert parsed.profile.result_format == "xml"


def test_one_is_not_true_to_diskspd(tmp_path: Path) -> None:
    path = written(tmp_path, spans("<Path>f</Path><WriteThrough>1</WriteThrough>"))
    reading = read_profile(path, [])
    assert not reading.profile.time_spans[0].targets[0].write_through
    assert [note.code for note in reading.notes] == ["boolean_digit"]


def test_a_printed_profile_keeps_what_makes_trouble_in_xml(tmp_path: Path) -> None:
    profile = from_command_line("f")
    profile.time_spans[0].targets[0].path = 'a<b>&"c'
    reading = read_profile(written(tmp_path, profile_xml(profile)), [])
    assert reading.profile.time_spans[0].targets[0].path == 'a<b>&"c'


@settings(deadline=None)
@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_no_file_breaks_the_reader(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.mktemp("xml") / "p.xml"
    path.write_bytes(content)
    assert read_profile(path, []).errors


def test_a_profile_that_is_missing_is_told(tmp_path: Path) -> None:
    (error,) = read_profile(tmp_path / "none.xml", []).errors
    assert "cannot be read: No such file" in error.text


def changed(one: TimeSpan | TargetParameters, *but: str) -> dict[str, Any]:
    """The fields that have no default value; of the parts of a distribution the operations and the length."""
    fields = [field for field in dataclasses.fields(one) if field.name not in ("positions", *but)]
    found = {field.name: getattr(one, field.name) for field in fields}
    found |= {"spans": [(part.io_percent, part.length) for part in found["spans"]]} if "spans" in found else {}
    return {field.name: found[field.name] for field in fields if found[field.name] != field.default}


def test_every_element_of_the_schema_is_honoured_or_its_lack_of_effect_is_told(tmp_path: Path) -> None:
    path = written(tmp_path, data("diskspd/every_element.xml"))
    file: tuple[PathKind, int] = ("file", 1 << 20)
    files = {f"{tmp_path}/{name}": file for name in ("f", "g", "source")}
    machine = HeldMachine(paths=files, directories=frozenset({str(tmp_path)}))
    prepared = read_command([f"-X{path}"], cwd=tmp_path, machine=machine)
    (span,) = prepared.profile.time_spans
    first, second = span.targets
    matches("diskspd#every element", [changed(span, "targets"), changed(first), changed(second)])
    without_effect = [note.text for note in prepared.notes if note.code in ("no_effect", "windows_only", "progress")]
    matches("diskspd_profile/every_element_of_the_schema_is_honoured", without_effect)
    assert all(note.where is not None for note in prepared.notes if note.text in without_effect)


def test_what_later_versions_of_the_schema_have_is_refused_by_name(tmp_path: Path) -> None:
    path = written(tmp_path, spans("<Path>f</Path>", "<IoRing/>\n<BufferSeparation>None</BufferSeparation>"))
    matches("diskspd#what later versions", [error.text for error in read_profile(path, []).errors])


# ---- distributions


KIB, GIB = 1 << 10, 1 << 30


def zones(text: str, region: int) -> list[tuple[int, int, int]]:
    target = TargetParameters(block_bytes=4 * KIB, random_percent=100)
    target.set_spans(*values.distribution(text, target.block_bytes))
    return [(zone.io_percent, zone.start, zone.length) for zone in zones_of(target, region)]


@cases("diskspd/zones")
def test_percentages_and_sizes_of_a_distribution_are_zones(
    text: str, unit: int, region: int, expected: list[tuple[int, int, int]]
) -> None:
    """Percentages begin where operations can, sizes end with the target."""
    found = zones(text, region * unit)
    assert found == [(share, start * unit, length * unit) for share, start, length in expected]


def test_what_a_small_target_leaves_of_a_distribution_is_scaled_up() -> None:
    target = TargetParameters(block_bytes=4 * KIB, random_percent=100)
    target.set_spans(*values.distribution("abs10/100G:30/100G", 4 * KIB))
    assert shares(zones_of(target, 200 * GIB)) == [25, 75]


def test_parts_too_small_for_an_offset_keep_their_operations() -> None:
    # 1 % of eight sectors holds no offset: three such parts in a row, without operations in the first.
    target = TargetParameters(block_bytes=4 * KIB, alignment_bytes=512, random_percent=100)
    target.set_spans(*values.distribution("pct0/1:1/1:1/1", 4 * KIB))
    assert zones_of(target, 4 * KIB) == [OffsetZone(100, 0, 512)]


@pytest.mark.slow
@given(
    st.lists(st.tuples(st.integers(0, 100), st.integers(1, 100)), min_size=1, max_size=8),
    st.integers(4 * KIB, 2_000 * KIB),
    st.sampled_from([512, 4 * KIB, 8 * KIB, 5000]),
)
def test_all_operations_go_to_zones_inside_the_target(parts: list[tuple[int, int]], region: int, step: int) -> None:
    percent = place = 0
    said = []
    for share, length in parts:
        share, length = min(share, 100 - percent), min(length, 100 - place)
        if not length:
            break
        percent, place = percent + share, place + length
        said.append(f"{share}/{length}")
    if place == 100 and percent < 100:
        said[-1] = f"{int(said[-1].partition('/')[0]) + 100 - percent}/{said[-1].partition('/')[2]}"
    target = TargetParameters(block_bytes=4 * KIB, alignment_bytes=step, random_percent=100)
    target.set_spans(*values.distribution("pct" + ":".join(said), 4 * KIB))
    found = zones_of(target, region)
    assert sum(zone.io_percent for zone in found) == 100
    ends = [0]
    for zone in found:
        assert zone.start >= ends[-1]
        assert zone.start % step == 0
        ends.append(zone.end)
    assert ends[-1] <= aligned_bytes(target, region)


# ---- errors


MACHINE = HeldMachine(
    paths={"/d/f": ("file", 1 << 20), "/d/empty": ("file", 0), "/dev/sdx": ("block", 1 << 30)},
    directories=frozenset({"/d", "/d/directory"}),
)


def attempt(line: str) -> ReadProfile:
    return read_command(shlex.split(line), cwd=Path("/d"), machine=MACHINE)


def errors(line: str) -> list[Diagnostic]:
    with pytest.raises((DialectError, PlanError)) as caught:
        attempt(line)
    return list(caught.value.errors)


@cases("diskspd/refused")
def test_what_diskspd_refuses_is_refused_by_name(line: str, argument: int, part: str) -> None:
    found = errors(line)
    assert any(part in str(error) for error in found), found
    error = next(error for error in found if part in str(error))
    assert error.where is not None
    assert (error.where.source, error.where.line) == (COMMAND_LINE, argument)


@cases("diskspd/mapped")
def test_targets_are_mapped(options: str, targets: str, expected: list[str]) -> None:
    spans = attempt(f"{options} -c1M -w100 -d1 {targets}").spans
    assert [path for section in spans[0].job.sections for path in section.files.paths] == expected


@cases("diskspd/error_lists")
def test_all_errors_of_a_line_are_reported(line: str, golden: Golden) -> None:
    golden.check([[error.where and error.where.line, error.text, error.hint] for error in errors(line)])


@cases("diskspd/commands")
def test_a_command_line_means(line: str, paths: list[str], golden: Golden) -> None:
    golden.check([document(picked(attempt(line), path)) for path in paths])


@pytest.mark.parametrize(("line", "same"), [("-Sds f", "-Suw f"), ("-Zz -w50 f", "-Z -w50 f"), ("-Zs f", "f")])
def test_flags_of_diskspd_for_linux_are_read_as_diskspds(line: str, same: str) -> None:
    ours, theirs = attempt(line), attempt(same)
    assert [span.plan for span in ours.spans] == [span.plan for span in theirs.spans]
    assert "for_linux" in [note.code for note in ours.notes]


@cases("diskspd/taken")
def test_what_diskspd_takes_is_taken(line: str) -> None:
    assert attempt(line).spans


# ---- public scripts


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
    matches("diskspd#virtual client", processors)
    matches("diskspd#tables for virtual client", {name: rows for name, rows in tables.items() if "IO" in name})
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

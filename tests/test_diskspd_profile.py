"""XML profiles: read as DiskSpd reads them, written so that they are the same when they are read again."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fio_machine import HeldMachine
from goldens import cases, data, matches
from iocurve.dialects.diskspd.command import read_command
from iocurve.dialects.diskspd.read.parse import parse
from iocurve.dialects.diskspd.read.profile import Profile
from iocurve.dialects.diskspd.read.profile_xml import profile_xml, read_profile
from iocurve.foundation.errors import DialectError
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
    with pytest.raises(DialectError, match="-T has no effect on one thread"):
        read_command([f"-X{path}", "f"], cwd=Path("/d"), machine=machine)
    with pytest.raises(DialectError, match="no target replaces the template"):
        read_command([f"-X{path}"], cwd=Path("/d"), machine=machine)


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


EVERY_ELEMENT = data("diskspd/every_element.xml")


def test_every_element_of_the_schema_is_honoured_or_its_lack_of_effect_is_told(tmp_path: Path) -> None:
    path = written(tmp_path, EVERY_ELEMENT)
    file: tuple[PathKind, int] = ("file", 1 << 20)
    files = {f"{tmp_path}/{name}": file for name in ("f", "g", "source")}
    machine = HeldMachine(paths=files, directories=frozenset({str(tmp_path)}))
    prepared = read_command([f"-X{path}"], cwd=tmp_path, machine=machine)
    (span,) = prepared.profile.time_spans
    assert (span.duration_s, span.warmup_s, span.cooldown_s, span.seed, span.bucket_ms) == (3, 2, 1, 4, 250)
    assert (span.measure_latency, span.measure_iops_deviation, span.random_write_data) == (True, True, True)
    assert (span.affinity, span.affinity_disabled) == (((0, 0), (0, 1)), False)
    first, second = span.targets
    assert (first.block_bytes, first.base_bytes, first.end_bytes, first.create_bytes) == (8192, 8192, 524288, 1048576)
    assert (first.cache, first.write_through, first.buffer_bytes) == ("disabled", True, 65536)
    assert (first.buffer_path, first.burst, first.think_ms, first.alignment_bytes) == ("source", 8, 5, 4096)
    assert (first.random_percent, [(part.io_percent, part.length) for part in first.spans]) == (
        40,
        [(80, 20), (20, 80)],
    )
    assert (first.requests, first.write_percent, first.threads) == (3, 70, 2)
    assert (second.alignment_bytes, second.interlocked, second.memory_mapped) == (16384, True, True)
    assert (second.flush, second.io_priority) == ("ViewOfFile", 3)
    without_effect = [note.text for note in prepared.notes if note.code in ("no_effect", "windows_only", "progress")]
    matches("diskspd_profile/every_element_of_the_schema_is_honoured", without_effect)
    assert all(note.where is not None for note in prepared.notes if note.text in without_effect)


def test_what_later_versions_of_the_schema_have_is_refused_by_name(tmp_path: Path) -> None:
    path = written(tmp_path, spans("<Path>f</Path>", "<IoRing/>\n<BufferSeparation>None</BufferSeparation>"))
    assert [error.text for error in read_profile(path, []).errors] == [
        "unknown element <IoRing>",
        "unknown element <BufferSeparation>",
    ]

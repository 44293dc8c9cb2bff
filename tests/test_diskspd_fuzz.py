"""Whatever is written, the DiskSpd dialect answers with plans or with its own errors."""

import contextlib
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fio_machine import HeldMachine
from goldens import rows
from iocurve import _native
from iocurve.dialects.diskspd.command import explanation, profile_output, read_command
from iocurve.dialects.diskspd.read.options import OPTIONS
from iocurve.dialects.diskspd.read.parse import parse
from iocurve.dialects.diskspd.read.profile_xml import profile_xml, read_profile
from iocurve.foundation.errors import DialectError, PlanError

pytestmark = pytest.mark.slow

MACHINE = HeldMachine(paths={"/dev/sdx": ("block", 1 << 30), "/d/f": ("file", 1 << 20)}, directories=frozenset({"/d"}))
WORDS: dict[str, list[str]] = dict(rows("diskspd/fuzz"))
VALUES = st.one_of(
    st.sampled_from([*WORDS["values"], "9" * 5000]), st.integers(-5, 2**70).map(str), st.text(max_size=10)
)
FLAGS = st.tuples(st.sampled_from("-/"), st.sampled_from(sorted(OPTIONS)), VALUES).map("".join)
ARGUMENTS = st.one_of(FLAGS, st.sampled_from(WORDS["arguments"]), st.text(max_size=12))

# -- lines as people write them ----------------------------------------------------------------------------------------


def counts(letter: str, largest: int) -> st.SearchStrategy[str]:
    return st.integers(1, largest).map(lambda count: f"-{letter}{count}")


def words(text: str) -> st.SearchStrategy[str]:
    return st.sampled_from(text.split())


SIZES = st.sampled_from([512, 4096, 8192, 65536])
ORDERS = st.one_of(
    st.just(""),
    words("-r -r4K -r8K -rs30 -rs100 -s -s8K -s16b -si -si4K"),
    st.lists(st.integers(1, 40), min_size=1, max_size=3).map(
        lambda parts: "-r -rdpct" + ":".join(f"{part}/{part}" for part in parts if sum(parts) < 100)
    ),
    st.lists(st.integers(1, 30), min_size=1, max_size=3).map(
        lambda parts: "-r -rdabs" + ":".join(f"{part}/{64 * part}K" for part in parts)
    ),
)
CACHES = words("-Sb -Su -Sh -h -Suw -S -Sw -Sr -Sm -Sm\u00a0-Nv").map(lambda flag: flag.replace("\u00a0", " "))
PARTS = st.one_of(
    SIZES.map("-b{}".format),
    words("-B64K -B64K:256K -f512K -c1M -frs -T64K -x -p -n -a0,1 -ag0,2 -L -D -D100 -z -z3 -Z -Zr -Z1M -Z64K,f -l"),
    words("-g1000 -g50i -I1 -v -vs -P -Rxml -Rtext -Rp -C1 -W0 -d3 -i5 -j3 -ePROCESS"),
    counts("o", 64),
    counts("t", 8),
    counts("F", 8),
    counts("O", 16),
    st.integers(0, 100).map("-w{}".format),
)
LINES = st.tuples(
    ORDERS, st.just("") | CACHES, st.lists(PARTS, max_size=6).map(" ".join), words("f /dev/sdx") | st.just("f /dev/sdx")
).map(" ".join)


def changed(line: str, at: int, how: str) -> str:
    """A slip of the hand."""
    at %= len(line) or 1
    flags = line.split()
    return {
        "none": line,
        "left out": line[:at] + line[at + 1 :],
        "twice": line[:at] + line[at : at + 1] + line[at:],
        "other case": line[:at] + line[at : at + 1].swapcase() + line[at + 1 :],
        "a space more": line[:at] + " " + line[at:],
        "a flag twice": " ".join([flags[at % len(flags)], *flags]) if flags else line,
        "a flag last": " ".join([*flags, "-d5"]),
        "a dash": line.replace("-", "–", 1),
    }[how]


HOW = st.sampled_from(["left out", "twice", "other case", "a space more", "a flag twice", "a flag last", "a dash"])
SLIPS = st.builds(changed, LINES, st.integers(0, 99), st.just("none") | HOW)


def answered(arguments: list[str]) -> bool:
    """Returns True if it is read; then its explanation can be written and the engine reads its plans."""
    with contextlib.suppress(DialectError, PlanError):
        prepared = read_command(arguments, cwd=Path("/d"), machine=MACHINE)
        assert explanation(prepared, MACHINE).endswith("\n") or not prepared.spans
        assert profile_output(prepared.profile).endswith("\n")
        for span in prepared.spans:
            text = span.plan.to_json()
            assert type(span.plan).from_json(_native.plan_as_read(text)) == span.plan
        return True
    return False


@settings(max_examples=200, deadline=None)
@given(st.lists(ARGUMENTS, max_size=7), st.sampled_from([[], ["f"], ["-c1M", "g", "h"]]))
def test_no_command_line_breaks_the_dialect(line: list[str], targets: list[str]) -> None:
    answered([*line, *targets])


@settings(max_examples=200, deadline=None)
@given(SLIPS)
def test_no_slip_of_the_hand_breaks_the_dialect(line: str) -> None:
    answered(line.split())


def test_lines_as_people_write_them_are_mostly_understood() -> None:
    """Or the test above would only see refusals."""
    found: list[bool] = []

    @settings(max_examples=100, deadline=None, database=None, derandomize=True)
    @given(LINES)
    def collect(line: str) -> None:
        found.append(answered(line.split()))

    collect()
    assert sum(found) > 0.5 * len(found)


@settings(max_examples=150, deadline=None)
@given(LINES)
def test_a_line_is_the_same_as_a_profile(tmp_path_factory: pytest.TempPathFactory, line: str) -> None:
    parsed = parse(line.split(), Path("/d"), lambda: 7)
    path = tmp_path_factory.mktemp("xml") / "p.xml"
    text = profile_xml(parsed.profile)
    path.write_text(text, encoding="utf-8")
    if not parsed.errors:
        reading = read_profile(path, [])
        assert reading.errors == []
        assert profile_xml(reading.profile) == text
        # The profile writes out the default of a stride or an alignment.
        for target in [target for span in parsed.profile.time_spans for target in span.targets]:
            target.alignment_bytes = target.step_bytes
        assert reading.profile.time_spans == parsed.profile.time_spans


# -- profiles ----------------------------------------------------------------------------------------------------------

TEXTS, NAMES = st.sampled_from(WORDS["texts"]), st.sampled_from(WORDS["names"])
Change = Callable[[ElementTree.Element, ElementTree.Element], None]


CHANGES: st.SearchStrategy[Change] = st.one_of(
    st.just(lambda node, parent: parent.remove(node)),
    st.just(lambda node, parent: parent.append(node)),
    st.just(lambda node, _parent: node.append(ElementTree.Element(node.tag))),
    TEXTS.map(lambda text: lambda node, _parent: setattr(node, "text", text)),
    NAMES.map(lambda name: lambda node, _parent: setattr(node, "tag", name)),
    TEXTS.map(lambda text: lambda node, _parent: node.attrib.update(IO=text, unit=text, Group=text)),
)


@settings(max_examples=200, deadline=None)
@given(LINES, st.lists(st.tuples(st.integers(0, 99), CHANGES), max_size=3))
def test_no_change_of_a_profile_breaks_the_dialect(
    tmp_path_factory: pytest.TempPathFactory, line: str, changes: list[tuple[int, Change]]
) -> None:
    root = ElementTree.fromstring(profile_xml(parse(line.split(), Path("/d"), lambda: 7).profile))
    for at, change in changes:
        pairs = [(node, parent) for parent in root.iter() for node in parent]
        if pairs:
            change(*pairs[at * 7 % len(pairs)])
    path = tmp_path_factory.mktemp("xml") / "p.xml"
    ElementTree.ElementTree(root).write(path)
    answered([f"-X{path}"])
    answered([f"-X{path}", "-d1", "f"])

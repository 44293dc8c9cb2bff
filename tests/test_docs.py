"""The documentation: the tutorial runs, examples parse, links lead somewhere, references are complete."""

import contextlib
import json
import os
import re
import select
import shlex
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import get_args, get_type_hints

import pytest
from cyclopts import CycloptsError

from bench.servers import free_ports
from command_reference import MARKER, reference
from data import synthetic
from fio_machine import HeldMachine
from goldens import cases, data
from iocurve.advice.demand import read_prices
from iocurve.cli.commands import app, run
from iocurve.cli.shared import split
from iocurve.dialects.native import reader as native
from iocurve.dialects.registry import REGISTRY, load
from iocurve.engine.plan import Plan
from iocurve.foundation.structs import Struct
from iocurve.job.resolve import PathKind
from iocurve.measure.scenario import document as scenarios
from iocurve.measure.scenario.cases import Cases
from iocurve.result.document import Result
from iocurve.targets.opened_target import UNOPENED
from iocurve.volume import profile as profiles
from iocurve.volume.spec import read_spec
from programs import completed

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = [*sorted(ROOT.glob("*.md")), *sorted(DOCS.rglob("*.md")), ROOT / "bench" / "README.md"]
FENCE = re.compile(r"^```(?P<info>[^\n]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


# ---- the tutorial

TUTORIAL_PORT = "20490"
BUSY = re.compile(
    r"warning: (the volume (was (CPU-)?starved|had no processor)|.*(the target stalled|itself did not run))"
    r"|info: .*measured again"
)
HELD = re.compile(r"random-.*: (CPU contention .*: others hold the|inconclusive: the time for probes was over)")
"""The verdict on a machine whose processors others hold is another one than the page's."""
STEP_S_MAX = 200
NUMBER = r"(?:\B-)?\d[\d,]*(?:\.\d+)?k?"
"""Negative ones, too: a bucket in debt has a level below 0."""
TIME_UNITS = ("ns", "µs", "ms", "s")
PROGRESS = re.compile(r"^(?:point \d+|probing |\s*\d+(?:/\d+)?  )")
"""Lines that a terminal shows one over the other."""
LINGER_S = 30
"""Commands in the background may still write when their step has ended."""


@dataclass(frozen=True)
class Step:
    """A block of commands, and the pattern of its whole output."""

    commands: str
    expected: re.Pattern[str]


def tutorial(port: int) -> Iterator[Step]:
    """All blocks but the first, which builds iocurve."""
    commands, expected = "", ""
    for fence in FENCE.finditer(text_of(DOCS / "tutorial.md").replace(TUTORIAL_PORT, str(port))):
        if fence["info"].startswith("text"):
            lines = filter(None, fence["body"].splitlines())
            expected += "".join(pattern(line, is_measured="measured" in fence["info"]) for line in lines)
            continue
        if commands:
            yield Step(commands, re.compile(expected))
        commands, expected = "" if "build" in fence["info"] else fence["body"], ""
    yield Step(commands, re.compile(expected))


def pattern(line: str, *, is_measured: bool) -> str:
    """A line of output. ``…`` is any text of the line, or any lines where it is alone; measured numbers may differ."""
    if line == "…":
        return r"(?:.*\n)*"

    def word(text: str) -> str:
        if text.startswith("vers="):
            # Tests of the volume mount with the options that it prints; the tutorial shows those of one release.
            return r"\S+"
        if not is_measured:
            return re.escape(text)
        if text == "confirmed:":
            # On a machine whose processors others hold, the figures stand and the conclusion does not.
            return "(?:confirmed|inconclusive):"
        if text in TIME_UNITS:
            return f"(?:{'|'.join(TIME_UNITS)})"
        return NUMBER.join(map(re.escape, re.split(NUMBER, text))).replace("=", "= *")

    parts = re.sub(r"=\s+", "=", line).split("…")
    return " *" + ".*".join(" +".join(map(word, part.split())) for part in parts) + r" *\n"


class Shell:
    """A bash that runs blocks of commands one after another and ends with the first command that fails."""

    def __init__(self, directory: Path) -> None:
        (directory / "bin").mkdir()
        command = directory / "bin" / "iocurve"
        command.write_text(data("docs/iocurve.sh").format(sys.executable), encoding="utf-8")
        command.chmod(0o755)
        (directory / "results").mkdir()
        path = f"{directory / 'bin'}:{os.environ['PATH']}"
        self.process = subprocess.Popen(
            ["bash", "-e", "-o", "pipefail"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=directory / "results",
            env=os.environ | {"PATH": path, "XDG_RUNTIME_DIR": str(directory), "COLUMNS": "200"},
            start_new_session=True,
        )

    def run(self, step: Step) -> None:
        """Returns when the commands have ended and the whole output is as expected."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        ended = "the-step-has-ended"
        self.process.stdin.write(f"{step.commands}\necho {ended}\n".encode())
        self.process.stdin.flush()
        output, deadline = b"", time.monotonic() + STEP_S_MAX
        expected = step.expected.fullmatch
        while not ((expected(shown := lasting(output, ended)) or HELD.match(shown)) and ended.encode() in output):
            more = b""
            left = deadline - time.monotonic()
            if left > 0 and select.select([self.process.stdout], [], [], left)[0]:
                more = os.read(self.process.stdout.fileno(), 1 << 16)
            assert more, f"$ {step.commands}\nexpected:\n{step.expected.pattern}\nfound:\n{shown}"
            output += more
            if ended.encode() in output:
                deadline = min(deadline, time.monotonic() + LINGER_S)

    def end(self) -> None:
        """Ends the shell with everything that it started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def lasting(output: bytes, marker: str) -> str:
    """The output without progress, empty lines, the marker of a step's end, and the warning of a busy machine."""
    lines = output.decode(errors="replace").splitlines()
    shown = (line for line in lines if line.strip() and line != marker and not PROGRESS.match(line))
    # Tests that run at the same time take processors from the volume, and from the load.
    return "".join(f"{line}\n" for line in shown if not BUSY.match(line))


@cases("docs/outputs")
def test_a_line_more_or_less_is_another_output(output: str, is_the_same: bool) -> None:
    lines = ("IOPS  mean", "16.4k  3.91 ms …", "…", "end")
    shown = re.compile("".join(pattern(line, is_measured=True) for line in lines))
    assert bool(shown.fullmatch(output)) == is_the_same


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_tutorial_runs_as_it_is_written(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    try:
        for step in tutorial(free_ports()):
            shell.run(step)
    finally:
        shell.end()


# ---- examples


SHELL_SYNTAX = re.compile(r"""'[^']*'|"[^"]*"|(?P<syntax>(?:^|\s)(?:\d?>>?|<|\||&&|;|&)(?:\s|$))""")
ASSIGNMENT = re.compile(r"^(\w+)='([^']*)'$", re.MULTILINE)


def examples() -> Iterator[tuple[str, str]]:
    """Each line of a fenced block that starts with ``iocurve``, with its page."""
    for page in PAGES:
        for fence in FENCE.finditer(text_of(page)):
            body = fence["body"].replace("\\\n", " ")
            # A folded line of YAML ends with the line that is not further in.
            body = re.sub(r"\n +(?=--)", " ", body) if fence["info"] == "yaml" else body
            for line in body.splitlines() if fence["info"] in ("", "sh", "sh build", "yaml") else ():
                line = re.sub(r"^(?:- )?(?:run: )?(?:time )?|^.*\| *(?=iocurve )| *$", "", line.strip())
                if line.startswith("iocurve "):
                    yield page.name, command_of(expanded(line.split(" # ")[0], fence["body"]))


def command_of(line: str) -> str:
    """The command before a redirection, a pipe or another command."""
    ends = [found.start() for found in SHELL_SYNTAX.finditer(line) if found["syntax"]]
    return line[: min(ends, default=len(line))].strip()


def expanded(line: str, block: str) -> str:
    """With the values of the variables that the block assigns."""
    for name, value in ASSIGNMENT.findall(block):
        line = line.replace(f"${name}", value)
    return line


@pytest.mark.parametrize(("page", "line"), sorted(set(examples())))
def test_an_example_parses(page: str, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = sample(tmp_path)
    monkeypatch.chdir(tmp_path)
    _, *words = shlex.split(line)
    if words[0] in ("explain", "convert") and (dialects := [word for word in words if word in REGISTRY]):
        words = words[words.index(dialects[0]) :]
    if words[0] in REGISTRY:
        load(words[0]).prepare(split(words[1:])[1], cwd=tmp_path, machine=machine)
        return
    try:
        app.parse_args(words, print_error=False, exit_on_error=False)
    except CycloptsError as error:
        pytest.fail(f"{page}: {line}: {error}")


def sample(directory: Path) -> HeldMachine:
    """The files and devices that examples name."""
    golden = ROOT / "tests" / "golden"
    shutil.copy(golden / "diskspd/spans.xml", directory / "profile.xml")
    for name in ("fioread.ini", "fiowrite.ini", "fioreadwrite.ini"):
        shutil.copy(golden / "fio" / name, directory)
    for name, text in json.loads(data("docs/files_of_examples.json")).items():
        (directory / name).write_text(text, encoding="utf-8")
    disks = [directory / name for name in ("DIR", "DIR1", "DIR2")]
    for disk in disks:
        disk.mkdir()
    paths: dict[str, tuple[PathKind, int]] = {"/dev/nvme1n1": ("block", 1 << 30)}
    paths |= {str(directory / name): ("file", 1 << 30) for name in ("testfile.dat", "one.dat", "old.dat")}
    directories = {"/mnt", "/mnt/data", "/mnt/nocache", "/mnt/readcache", "/data", *map(str, (directory, *disks))}
    return HeldMachine(paths=paths, directories=frozenset(directories))


READERS: dict[str, Callable[[Path], object]] = {
    "series": lambda path: list(scenario_points(path)),
    "job": lambda path: native.read(path),
    "run": lambda path: native.read(path),
    "export": read_spec,
    "currency": read_prices,
    "title": lambda path: profiles.load(str(path)),
}
"""The reader of a TOML file with this key at the top; the first key that a file has counts."""


def scenario_points(path: Path) -> Iterator[str]:
    """The names of all points of a scenario, in both forms."""
    scenario = scenarios.load(str(path))
    opened = {need.name: UNOPENED for need in scenario.targets}
    for form in (scenario.full, scenario.short):
        yield from (case.name for case in Cases(scenario, form, opened, "").all())


def blocks(info: str) -> Iterator[tuple[str, str]]:
    """The blocks of a language, each with its page."""
    for page in PAGES:
        for fence in FENCE.finditer(text_of(page)):
            if fence["info"].split()[:1] == [info]:
                yield page.name, fence["body"]


@pytest.mark.parametrize(("page", "block"), list(blocks("toml")))
def test_a_block_of_toml_loads(page: str, block: str, tmp_path: Path) -> None:
    path = tmp_path / "block.toml"
    path.write_text(block, encoding="utf-8")
    top = tomllib.loads(block)
    kind = next((key for key in READERS if key in top), None)
    assert kind is not None, f"{page}: what reads this? {', '.join(top)}"
    assert READERS[kind](path)


def test_no_block_is_of_a_language_that_no_test_loads() -> None:
    known = {"", "text", "sh", "toml", "python", "yaml"}
    found = {fence["info"].split()[0] for page in PAGES for fence in FENCE.finditer(text_of(page)) if fence["info"]}
    assert found <= known
    # Those of docs/python.md are run by tests/test_api.py.
    assert {page for page, _ in blocks("python")} <= {"python.md"}


@pytest.mark.parametrize(("page", "block"), list(blocks("sh")))
def test_a_block_of_shell_is_a_script(page: str, block: str) -> None:
    checked = completed(["bash", "-n"], input=block)
    assert checked.returncode == 0, f"{page}: {checked.stderr}"


# ---- links


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", FENCE.sub("", text_of(page)), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", FENCE.sub("", text_of(page))):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


# ---- references


@pytest.mark.slow
def test_the_commands_page_has_the_help_of_every_command() -> None:
    page = DOCS / "commands.md"
    written, _, _ = text_of(page).partition(MARKER)
    if os.environ.get("IOCURVE_UPDATE_GOLDEN"):
        page.write_text(written + reference(), encoding="utf-8")
    assert text_of(page) == written + reference()


def structs(root: type[Struct]) -> dict[str, type[Struct]]:
    """A struct and those in its fields; a plan's are described where it is defined."""
    found: dict[str, type[Struct]] = {}

    def add(kind: object) -> None:
        if isinstance(kind, type) and issubclass(kind, Struct):
            if kind is not Plan and kind.__name__ not in found:
                found[kind.__name__] = kind
                for hint in get_type_hints(kind).values():
                    add(hint)
            return
        for part in get_args(kind):
            add(part)

    add(root)
    return found


def section(page: Path, heading: str) -> str:
    found = re.search(rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", text_of(page), re.MULTILINE | re.DOTALL)
    assert found, heading
    return found[1]


@pytest.mark.parametrize(("name", "kind"), list(structs(Result).items()))
def test_the_result_page_names_every_field(name: str, kind: type[Struct]) -> None:
    rows = re.findall(r"^\| (`.*?) \|", section(DOCS / "result.md", name), re.MULTILINE)
    assert [field for row in rows for field in re.findall(r"`(\w+)`", row)] != []
    assert {field for row in rows for field in re.findall(r"`(\w+)`", row)} == set(kind.__struct_encode_fields__)


def test_the_schema_of_results_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["schema", "--result"]) == 0
    definitions = json.loads(capsys.readouterr().out)["$defs"]
    assert {*structs(Result), "Plan"} <= set(definitions)
    assert list(definitions["Result"]["properties"]) == list(Result.__struct_fields__)


def test_the_result_page_names_every_column_of_points_csv() -> None:
    [record, *_] = synthetic.envelope().to_records()
    described = section(DOCS / "result.md", "points.csv") + section(DOCS / "result.md", "Figures")
    axes = set(synthetic.envelope().points[0].axes)
    for column in record:
        name = re.sub(r"^(?:read_|write_)?(?:response_)?", "", column)
        assert column in axes or f"`{name}`" in described, column


def test_all_scenarios_and_profiles_are_described() -> None:
    assert all(f"`{name}`" in text_of(DOCS / "scenarios.md") for name in scenarios.names())
    assert all(f"`{name}`" in text_of(DOCS / "volume.md") for name in profiles.names())

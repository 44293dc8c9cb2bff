"""The command line's promises: examples that parse, quantities with units, whole figures in a pipe, JSON, silence."""

import io
import json
import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from cyclopts import App, ArgumentCollection, CycloptsError
from rich.console import Console

from data import synthetic
from goldens import cases, data, matches
from iocurve.analysis import read
from iocurve.cli.commands import _in_own_words, app, refused, run
from iocurve.cli.common import show
from iocurve.cli.listing import COMMANDS, EXIT_STATUS, GROUPS, overview
from iocurve.cli.measure import EnvelopeOptions, SearchOptions
from iocurve.cluster.nodes import reason_of
from iocurve.dialects.registry import REGISTRY, load
from iocurve.foundation.errors import DialectError, IocurveError
from iocurve.foundation.units import MILLISECOND_NS
from iocurve.measure.scenario.cases import Cases
from iocurve.measure.scenario.command import envelope
from iocurve.measure.search.command import workload_of
from iocurve.report.table import Table, result_table
from iocurve.targets.opened_target import UNOPENED
from programs import completed, iocurve, printed

OPTIONS_IN_A_BOX_MAX = 12
DIALECTS = ("fio", "vdbench", "mdtest", "elbencho", "diskspd")
JOB = data("native/commands.toml")


def helped(application: App, *path: str) -> Iterator[tuple[tuple[str, ...], App]]:
    """All commands with their apps."""
    for name in application:
        if not name.startswith("-"):
            command = application[name]
            yield (*path, name), command
            yield from helped(command, *path, name)


@cache
def help_of(*path: str) -> str:
    return printed(*path, "--help")


def is_leaf(command: App) -> bool:
    return all(name.startswith("-") for name in command)


def parsed(*arguments: str) -> dict[str, Any]:
    return app.parse_args(arguments, print_error=False, exit_on_error=False)[1].arguments


EXAMPLES = [command.example for command in COMMANDS] + [
    line.removeprefix("Example: ")
    for _, command in helped(app)
    for line in str(command.help_epilogue or "").splitlines()
    if line.startswith("Example: ")
]


@pytest.mark.parametrize("example", sorted(set(EXAMPLES)))
def test_an_example_parses(example: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "parameters.txt").write_text("sd=sd1,lun=/dev/zero\nwd=wd1,sd=*\nrd=rd1,wd=wd1,iorate=max,elapsed=5\n")
    monkeypatch.chdir(tmp_path)
    words = shlex.split(example)
    ends = [words.index(redirection) for redirection in (">", ">>") if redirection in words]
    name, command, *arguments = words[: min(ends, default=len(words))]
    assert name == "iocurve"
    if command in DIALECTS:
        load(command).prepare(arguments)
    else:
        parsed(command, *arguments)


def test_each_command_has_an_example() -> None:
    without = [
        path
        for path, command in helped(app)
        if path[0] not in DIALECTS and path[:1] != ("explain",) and is_leaf(command) and not command.help_epilogue
    ]
    assert without == []


@pytest.mark.parametrize("path", [path for path, _ in helped(app) if not {*DIALECTS} & {*path}], ids=" ".join)
def test_help_is_printed_and_fits_a_terminal(path: tuple[str, ...]) -> None:
    out = help_of(*path)
    assert out.startswith("Usage: iocurve")
    assert all(len(line) <= 120 for line in out.splitlines())


PATHS = [path for path, command in helped(app) if not {*DIALECTS, "convert"} & {*path} and is_leaf(command)]


def arguments_of(path: tuple[str, ...]) -> ArgumentCollection:
    command = app
    for name in path:
        command = command[name]
    return command.assemble_argument_collection()


@pytest.mark.parametrize("path", PATHS, ids=" ".join)
def test_the_usage_has_the_names_of_the_arguments(path: tuple[str, ...]) -> None:
    usage = " ".join(help_of(*path).partition("\n\n")[0].split())
    assert "ARGS" not in usage
    for one in arguments_of(path):
        if one.index is not None:
            name = one.names[0]
            assert name in usage
            assert one.required != (f"[{name}" in usage)


@pytest.mark.parametrize("path", PATHS, ids=" ".join)
def test_help_has_its_own_example_and_no_empty_default(path: tuple[str, ...]) -> None:
    out = help_of(*path)
    assert f"Example: iocurve {' '.join(path)}" in " ".join(out.split())
    assert "[default: ()]" not in out
    assert '[default: ""]' not in out


@pytest.mark.parametrize("path", PATHS, ids=" ".join)
def test_options_are_in_groups_that_fit_a_glance(path: tuple[str, ...]) -> None:
    for box in re.split("^╭─ ", help_of(*path), flags=re.MULTILINE)[1:]:
        assert len(re.findall(r"^│ (?:\*  |   )?--", box, re.MULTILINE)) <= OPTIONS_IN_A_BOX_MAX, box.partition(" ")[0]


def test_ab_and_convert_list_the_dialects_that_they_take() -> None:
    assert all(name in printed("ab", "--help") for name in DIALECTS)
    usage = printed("convert", "--help").partition("\n")[0]
    for name, entry in REGISTRY.items():
        assert entry.converts == (name in usage)


@pytest.mark.parametrize("columns", [50, 80, 120])
def test_help_shows_commands_by_purpose_and_the_exit_statuses(columns: int) -> None:
    out = overview(columns, styled=False)
    places = [out.index(f"╭─ {title} ") for title in GROUPS]
    assert places == sorted(places)
    assert " ".join(EXIT_STATUS.split()) in " ".join(out.split())
    assert all(len(line) == columns for line in out.splitlines() if line[:1] in tuple("╭│╰"))
    styled = overview(columns, styled=True)
    assert out == re.sub(r"\x1b\[[0-9;]*m", "", styled) != styled


@pytest.mark.slow
@cases("cli/remedies")
def test_an_error_names_the_remedy(arguments: tuple[str, ...], error: str) -> None:
    ran = iocurve(*arguments)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert error in ran.stderr
    assert "Traceback" not in ran.stderr


LIBRARY_WORDS = re.compile(
    r"Unused Token|multiple times|[Uu]nable to convert|Invalid value|requires an argument|parameter |Must be"
    r"|into (int|float|bool)|Object contains|Expected `|\[Errno|could not be cast|No closing"
)


@pytest.mark.parametrize("path", PATHS, ids=" ".join)
def test_errors_in_the_words_of_a_command_line_are_ours(path: tuple[str, ...]) -> None:
    arguments = list(arguments_of(path))
    lines = [(*path, *("word" for _ in range(9)))]
    if any(one.index is not None and one.required for one in arguments):
        lines.append(path)
    for one in arguments:
        name = one.names[0]
        if name.startswith("--"):
            lines += (
                [(*path, f"{name}=≠")]
                if one.hint is bool
                else [(*path, name), (*path, name, "≠"), (*path, name, "-1"), (*path, *2 * (name, "1"))]
            )
    for line in lines:
        try:
            app.parse_args(line, print_error=False, exit_on_error=False)
        except CycloptsError as error:
            text = str(refused(error))
            assert not LIBRARY_WORDS.search(text), text
            assert text.endswith(" --help)"), text


@cases("cli/our_words")
def test_an_error_says_what_is_wrong_in_our_words(line: str, text: str) -> None:
    with pytest.raises(IocurveError, match=re.escape(text)):
        run(shlex.split(line))


@cases("cli/words_of_earlier_versions")
def test_words_of_earlier_versions_and_of_fio_are_understood(line: str, own: str) -> None:
    assert _in_own_words(line.split()) == own.split()


@cases("cli/envelope_in_words_of_fio")
def test_the_envelope_takes_the_words_of_fio(
    options: str, mixes: list[tuple[str, tuple[int, ...]]], depths: str, first: tuple[int, int, int, int | None]
) -> None:
    load = parsed("envelope", "there", *options.split()).get("options", EnvelopeOptions()).load()
    request = envelope(None, quick=True, load=load)
    found = Cases(request.scenario, request.form, {"target": UNOPENED}, "").all()
    names = [f"{name} {reads}:{100 - reads}" for name, percents in mixes for reads in percents]
    assert [case.name for case in found if "-mix" in case.name] == names
    (series,) = {case.name.split()[0] for case in found if "-depth" in case.name}
    assert series == mixes[0][0].replace("-mix", "-depth")
    assert [str(case.axes["depth"]) for case in found if case.family.name == series] == 2 * depths.split()
    bs, iodepth, runtime_ms, numjobs = first
    section = found[0].job.sections[0]
    assert (section.load.largest_block(), section.pace.depth) == (bs, iodepth)
    assert section.ending.runtime_ns == runtime_ms * MILLISECOND_NS
    assert numjobs in (None, len(found[0].job.sections))


def test_the_envelope_refuses_what_fio_refuses() -> None:
    with pytest.raises(DialectError, match="rw"):
        envelope(None, load=EnvelopeOptions(rw="readrand").load())


def test_a_search_takes_a_workload_as_fio_writes_it() -> None:
    words = SearchOptions(rw="randrw", bs="8k", rwmixread=70).words()
    assert workload_of(words)[0] == workload_of("rw=randrw bs=8k rwmixread=70")[0]
    assert SearchOptions().words() == "rw=randread bs=4k"


def test_advice_for_users_of_ray_is_left_out() -> None:
    assert reason_of(ConnectionError("name the cluster by the `--address` flag")) == "Ray ended with ConnectionError"
    assert reason_of(RuntimeError("Version mismatch: 2.9\nmore")) == "Ray says: Version mismatch: 2.9"


def test_an_error_says_which_help_to_read() -> None:
    with pytest.raises(DialectError, match=r"\(iocurve volume serve --help\)"):
        run(["volume", "serve", "--port", "many"])


def test_an_option_takes_several_values_at_once_or_one_at_a_time() -> None:
    for words in (
        ["--points", "random-4k*", "read_percent=100,0"],
        ["--points", "random-4k*", "--points", "read_percent=100,0"],
    ):
        assert list(parsed("run", "azure-disk", *words)["scenario"].points) == ["random-4k*", "read_percent=100,0"]


def test_a_pipe_gets_whole_figures(capsys: pytest.CaptureFixture[str]) -> None:
    show(result_table(read(synthetic.envelope())))
    lines = capsys.readouterr().out.splitlines()
    matches("commands/a_pipe_gets_whole_figures", lines[0].split())
    assert lines[7].split("  ")[0] == "64 KiB, 100 % reads"
    assert all("…" not in line and line == line.rstrip() for line in lines)


def test_a_table_becomes_a_list_where_a_terminal_is_too_narrow() -> None:
    out = Console(width=18, file=io.StringIO(), force_terminal=False)
    with out.capture() as captured:
        out.print(Table(("point", "IOPS", "MiB/s"), [("random reads, 4 KiB", "12,800", "1,234.5")]))
    matches("commands/a_table_becomes_a_list_where_a_terminal", [line.rstrip() for line in captured.get().splitlines()])


@pytest.mark.slow
def test_json_is_the_result_document_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "job.toml").write_text(JOB)
    out = printed("run", "job.toml", "--json", "--out", "out", cwd=tmp_path)
    assert out == (tmp_path / "out/result.json").read_text()
    assert json.loads(out)["state"] == "finished"


@pytest.mark.slow
def test_quiet_prints_nothing(tmp_path: Path) -> None:
    (tmp_path / "job.toml").write_text(JOB)
    ran = iocurve("run", "job.toml", "--quiet", "--out", "out", cwd=tmp_path)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")
    assert (tmp_path / "out/report.html").exists()


@pytest.mark.slow
@pytest.mark.parametrize("command", ["envelope", "knee", "curve"])
def test_a_path_that_does_not_exist_is_not_made(command: str, tmp_path: Path) -> None:
    path = tmp_path / "typo"
    ran = iocurve(command, str(path), "--out", str(tmp_path / "out"))
    assert ran.returncode == 2
    assert f"{path} does not exist; check the path, or add --create to measure a new file" in ran.stderr
    assert not path.exists()


@pytest.mark.slow
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_completion_script_knows_the_commands(shell: str) -> None:
    script = printed("completion", shell)
    assert all(command.name in script for command in COMMANDS)


@pytest.mark.slow
def test_the_completion_script_of_bash_completes(tmp_path: Path) -> None:
    (script := tmp_path / "iocurve.bash").write_text(printed("completion", "bash"))
    asked = f"source {script}; COMP_WORDS=(iocurve vol); COMP_CWORD=1; COMP_LINE='iocurve vol'; COMP_POINT=11; "
    asked += '_iocurve 2>/dev/null; echo "${COMPREPLY[@]}"'
    ran = completed(["bash", "-c", asked], timeout=30)
    assert ran.stdout.split() == ["volume"], ran.stderr

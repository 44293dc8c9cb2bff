"""Every option that a command takes has an effect there, or is refused: in each of the ways to use the command."""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial, reduce
from operator import getitem
from pathlib import Path
from shlex import split
from typing import Any, cast

import pytest

import iocurve
from data import synthetic
from goldens import cases, rows
from iocurve.advice import differ as differing
from iocurve.advice import proof_page
from iocurve.advice import prove as proofs
from iocurve.advice.slos import Agreement
from iocurve.cli import machines as cli_machines
from iocurve.cli.commands import app, run
from iocurve.foundation.errors import DialectError, IocurveError, TargetError, option, options_written_as, remedies
from iocurve.measure import ab as turns
from iocurve.measure import campaign as campaigns
from iocurve.measure import jobs, programs
from iocurve.measure.machines import THIS_MACHINE
from iocurve.measure.scenario import command as scenarios
from iocurve.measure.scenario.cases import Cases
from iocurve.measure.scenario.runner import Request
from iocurve.measure.search import command as searches
from iocurve.result.document import Result
from programs import iocurve as iocurve_in_process

JOB = '[[job]]\nname = "a"\npaths = ["data"]\nsize = "1MiB"\nwrites = true\nreads = false\ntime_based = false\n'
BUNDLE = Path(__file__).parent / "hosts" / "captured-nfs3-one.json"

MODES: list[str] = [mode.replace("{BUNDLE}", str(BUNDLE)) for (mode,) in rows("cli/modes")]
"""The ways to use the commands that run on files here: ``there`` and ``other`` are directories, ``result`` a result."""

VALUES: dict[str, str] = dict(rows("cli/option_values"))
WITH: dict[str, list[str]] = dict(rows("cli/options_with"))
"""Options that another one goes with."""


@cache
def options_of(line: str) -> dict[str, bool]:
    """The options of the command of a line; True for a flag."""
    words = split(line)
    path = words[: 2 if words[0] in ("result", "cluster", "disk") else 1]
    arguments = reduce(getitem, path, app).assemble_argument_collection()
    return {
        name: one.hint in (bool, bool | None) for one in arguments for name in one.names[:1] if name.startswith("--")
    }


def test_a_way_out_is_left_out_where_its_option_is() -> None:
    ways = ("use {quick}", "add {overwrite}", "make room")
    assert remedies(*ways) == "use --quick, add --overwrite, or make room"
    with options_written_as({"overwrite": "overwrite="}.get):
        assert remedies(*ways) == "add overwrite=, or make room"
        assert (option("overwrite"), option("quick")) == ("overwrite=", "quick")


STATED: dict[str, list[str]] = dict(rows("cli/stated"))
"""Options that allow or state what is so already, and those that take more than the files here."""


RESULT = synthetic.result(synthetic.envelope().points[:2])
Recorded = list[Any]


def plain(value: object) -> str:
    """The text of a value, without addresses."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The files that the command lines name."""
    monkeypatch.chdir(tmp_path)
    for name in ("there", "other", "result"):
        (tmp_path / name).mkdir()
    (tmp_path / "job.toml").write_text(JOB, encoding="utf-8")
    RESULT.write(tmp_path / "result" / "result.json")


@pytest.fixture
def record(monkeypatch: pytest.MonkeyPatch) -> Recorded:
    """The calls of the functions that measure, which return a result instead."""
    recorded: Recorded = []

    def sink(name: str) -> Callable[..., Any]:
        def called(*arguments: object, **named: object) -> Result:
            recorded.append((name, [seen(one) for one in arguments], {key: seen(one) for key, one in named.items()}))
            if name in ("into_directory", "targets"):
                pair = [synthetic.nfs_point(label, "load", synthetic.AXES, 1000) for label in "AB"]
                return synthetic.result(synthetic.in_turns(pair))
            return RESULT

        return called

    def seen(value: object) -> str:
        if isinstance(value, Request):
            cases = Cases.unopened(value.scenario, value.form).all()
            return plain(value) + plain([case.name for case in cases if value.is_wanted(case)])
        if isinstance(value, partial):
            return plain([value.keywords, [seen(one) for one in value.args]])
        return plain(value)

    @contextmanager
    def machines(self: cli_machines.ClusterOptions, *_on: object) -> Iterator[object]:
        recorded.append(repr(self))
        self.require_sense(names_cluster=self.on is not None or self.clients is not None)
        yield THIS_MACHINE

    monkeypatch.setattr(cli_machines.ClusterOptions, "machines", machines)

    def run_job(*arguments: object, before_run: jobs.BeforeRun, **named: object) -> Result:
        before_run([RESULT.points[0].plan])
        return cast(Result, sink("job")(*arguments, **named))

    monkeypatch.setattr(jobs, "run", run_job)
    monkeypatch.setattr(jobs, "needs_machines", lambda *_: True)
    monkeypatch.setattr(programs, "measured_on", sink("measured_on"))
    monkeypatch.setattr(scenarios, "run", sink("scenario"))
    for name in ("knee_search", "max_search", "curve_search"):
        monkeypatch.setattr(searches, name, sink(name))
    monkeypatch.setattr(campaigns, "into_directory", sink("into_directory"))
    monkeypatch.setattr(turns, "of_commands", lambda *given, **named: recorded.append(plain((given, named))))
    monkeypatch.setattr(turns, "run_targets", sink("targets"))
    proved = proofs.Proof(target="there", agreement=Agreement(title="t", slos=()), tolerance=0.02, judged=())
    monkeypatch.setattr(proofs, "prove", lambda *given, **named: (sink("prove")(*given, **named), proved))
    monkeypatch.setattr(differing, "measured", lambda *given, **named: (sink("differ")(*given, **named), None))
    monkeypatch.setattr(proof_page, "write", lambda *arguments: recorded.append(plain(arguments[2:])))
    return recorded


def outcome_of(words: list[str], recorded: Recorded, capsys: pytest.CaptureFixture[str]) -> object:
    """All that a command line does: what it measures, prints and writes, and its exit status; or its error."""
    recorded.clear()
    earlier = {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}
    try:
        command, bound, _ = app.parse_args(words, print_error=False, exit_on_error=False)
        status = command(*bound.args, **bound.kwargs)
    except IocurveError as error:
        return error
    printed = capsys.readouterr()
    files = {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}
    written = {str(path): content for path, content in files.items() if earlier.get(path) != content}
    for path in files.keys() - earlier.keys():
        path.unlink()
    return (status, printed.out, printed.err, written, *recorded)


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_an_option_has_an_effect_or_is_refused(mode: str, record: Recorded, capsys: pytest.CaptureFixture[str]) -> None:
    base = split(mode)
    found = outcome_of(base, record, capsys)
    assert not isinstance(found, IocurveError), found
    ignored, unnamed = [], []
    known = options_of(mode)
    outcomes: dict[tuple[str, ...], object] = {(): found}
    for name in set(known) - {*base, *STATED["any"], *STATED.get(mode, ())}:
        more = tuple(WITH.get(name, ()))
        more = more if more[:1] and more[0] in known else ()
        with_it = [*base, *more]
        if more not in outcomes:
            outcomes[more] = outcome_of(with_it, record, capsys)
        without = outcomes[more]
        changed = outcome_of([*with_it, name, *([] if known[name] else [VALUES[name]])], record, capsys)
        if isinstance(without, IocurveError):
            continue
        if isinstance(changed, IocurveError):
            unnamed += [] if name in str(changed) else [f"{name}: {changed}"]
        elif changed == without:
            ignored.append(name)
    assert (ignored, unnamed) == ([], [])


PATHS = {mode.replace("{BUNDLE}", str(BUNDLE)): options for mode, options in rows("cli/paths")}
"""Options that name files and directories that a command writes."""
PLACES = ("file/below", "/proc/none", "x" * 300)
OPTIONS = [(mode, option) for mode in PATHS for option in PATHS[mode]]


# The places by turns, and all of them with a command that measures: a page takes a second of a processor.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("mode", "option", "place"),
    [(*one, PLACES[index % 3]) for index, one in enumerate(OPTIONS)]
    + [("knee there", "--out", place) for place in PLACES],
)
def test_a_place_that_cannot_be_written_is_named(mode: str, option: str, place: str) -> None:
    name, *more = split(option)
    job = split("fio --name=a --size=1m --directory=/tmp") if mode == "convert" else []
    names_the_place([*split(mode), name, place, *more, *job], place)


INPUTS: list[str] = [mode for (mode,) in rows("cli/inputs")]
"""Commands that read what comes next."""
IN_DIRECTORIES = ("clean", "knee", "envelope", "doctor", "observe", "history")
"""Those that take a directory."""
UNREADABLE = ("file/below.toml", "there", f"{'x' * 300}.toml")


@pytest.mark.parametrize("words", ["envelope ''", "knee '' --size 1MiB", "history ''", "max /mnt --p99=", "clean ''"])
def test_an_empty_argument_is_refused(words: str) -> None:
    with pytest.raises(DialectError, match=r" is empty; is a shell variable not set\?"):
        run(split(words))


def names_the_place(words: list[str], place: str) -> None:
    """A command on a place that cannot be used says so."""
    Path("file").touch()
    ran = iocurve_in_process(*words)
    assert ran.returncode in (1, 2)
    assert "iocurve: " in ran.stderr
    assert place[:50] in ran.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mode", "place"),
    [
        (mode, place)
        for mode in INPUTS
        for place in UNREADABLE
        if place != "there" or mode.split()[0] not in IN_DIRECTORIES
    ],
)
def test_a_place_that_cannot_be_read_is_named(mode: str, place: str) -> None:
    names_the_place([*split(mode), place], place)


@pytest.mark.parametrize("option", ["--quick", "--runs 9", "--resume", "--keep-data", "--no-confirm", "--create"])
def test_a_job_file_refuses_the_options_of_scenarios(option: str) -> None:
    with pytest.raises(DialectError, match=rf"^{option.split()[0]}: "):
        run(["run", "job.toml", *option.split()])


def test_a_job_file_writes_to_an_existing_file_only_if_that_is_allowed(capsys: pytest.CaptureFixture[str]) -> None:
    data = Path("data")
    data.write_bytes(b"mine" * 1024)
    for words in (["run", "job.toml"], ["ab", "run job.toml", "run job.toml"]):
        with pytest.raises(TargetError, match=r"data exists already and will be overwritten; --overwrite allows it"):
            run(words)
    with pytest.raises(TargetError, match="overwrite= allows it"):
        iocurve.run("job.toml")
    assert data.read_bytes() == b"mine" * 1024
    assert run(["run", "job.toml", "--overwrite", "--json"]) == 0
    assert (json.loads(capsys.readouterr().out)["state"], data.stat().st_size) == ("finished", 1 << 20)


def test_a_job_file_runs_on_another_target(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["run", "job.toml", "--target", "there", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["target"]["address"], result["state"]) == (str(Path("there").absolute()), "finished")
    assert not Path("data").exists()


@pytest.mark.slow
@cases("cli/not_run")
def test_the_exit_status_is_2_where_nothing_was_run(line: str) -> None:
    ran = iocurve_in_process(*split(line))
    assert (ran.returncode, ran.stderr != "") == (2, True), ran.stderr


def test_a_fio_command_line_that_is_refused_has_the_exit_status_of_fio() -> None:
    for words in ("--nfs_url=nfs://none.invalid/vol --ioengine=nfs", "--iodpth=2", "--directory=none", "--size=1k"):
        ran = iocurve_in_process(*split(f"fio --name=a --size=1m {words}"))
        assert (ran.returncode, ran.stderr != "") == (1, True), ran.stderr


FAILING = [one for (one,) in rows("cli/failing")]
"""Targets that cannot be measured, with an option that some commands take."""
TARGETED: list[str] = [mode for (mode,) in rows("cli/targeted")]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "target"),
    [
        (command, target)
        for command in TARGETED
        for target in FAILING
        if set(target.split()[1:2]) <= set(options_of(command))
    ],
)
def test_a_remedy_names_options_that_the_command_takes(command: str, target: str) -> None:
    Path("data").write_bytes(bytes(2 << 20))
    place, *more = target.split()
    ran = iocurve_in_process(*(place if word == "{}" else word for word in split(command)), *more)
    if ran.returncode in (1, 2):
        named = set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]+", re.sub(r"\(?iocurve \w+[^;)]*", "", ran.stderr)))
        assert named <= set(options_of(command)), ran.stderr

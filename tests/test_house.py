"""The structure of the package: allowed imports, and the modules that a command loads before it does its work."""

import ast
import json
import sys
from collections import Counter
from pathlib import Path

import grimp
import pytest

from goldens import cases, data
from programs import completed
from rust_modules import circles

ROOT = Path(__file__).parent.parent
LISTING = data("scripts/loaded_modules.txt")
HEAVY = {"altair", "vl_convert", "jinja2", "pydantic", "rich", "cyclopts", "tomllib", "tomli_w", "prometheus_client"}
"""Packages that most commands can do without."""
AT_MOST = {
    "rooms that import a room": 75,
    "files": 310,
    "lines": 75_100,
    "files under 60 lines": 33,
    "classes": 673,
    "class names in two modules": 7,
    "Any": 36,
    "lines of a function": 60,
    "parameters of a function": 10,
}
"""Limits on the size of the package; lower a limit when a change gets below it."""
RUST_FILES_IN_CIRCLES_MAX = 14
"""Files that import each other in circles, in all crates."""
TEST_LINES_MAX = 28_000
"""Lines of Python tests; tables, texts and job files of cases are in ``tests/data``."""
SLIVER_LINES = 60
Function = ast.FunctionDef | ast.AsyncFunctionDef


def loaded(*arguments: str, cwd: Path | None = None) -> set[str]:
    """Modules that a command has loaded when it ends."""
    ran = completed([sys.executable, "-c", LISTING, *arguments], cwd=cwd)
    assert ran.returncode == 0, ran.stderr
    modules: list[str] = json.loads(ran.stderr.splitlines()[-1])
    return set(modules)


def rooms(modules: set[str]) -> set[str]:
    """iocurve's own modules, by package."""
    return {".".join(name.split(".")[:2]) for name in modules if name.startswith("iocurve.")}


def heavy(modules: set[str]) -> set[str]:
    return {name.partition(".")[0] for name in modules} & HEAVY


def test_imports_only_go_down() -> None:
    linter = Path(sys.executable).parent / "lint-imports"
    ran = completed([linter, "--no-cache"], cwd=ROOT)
    assert ran.returncode == 0, ran.stdout


def _room_imports() -> set[tuple[str, str]]:
    """Pairs of rooms (modules and packages directly in the package) of which the first imports the second."""
    graph = grimp.build_graph("iocurve")
    modules = {name: name.split(".")[1] for name in graph.modules if "." in name and name != "iocurve.__main__"}
    pairs = {
        (room, modules[imported])
        for name, room in modules.items()
        for imported in graph.find_modules_directly_imported_by(name)
        if imported in modules
    }
    return {(room, imported) for room, imported in pairs if room != imported}


def _arguments(function: Function) -> list[str]:
    parts = function.args
    return [each.arg for each in (*parts.posonlyargs, *parts.args, *parts.kwonlyargs) if each.arg != "self"]


def _sizes(text: str) -> dict[str, int]:
    """Count one file. Its nodes are freed with it: garbage collection over those of all files would take longer."""
    nodes = list(ast.walk(ast.parse(text)))
    functions = [node for node in nodes if isinstance(node, Function)]
    return {
        "lines": text.count("\n"),
        "files under 60 lines": text.count("\n") < SLIVER_LINES,
        "classes": sum(isinstance(node, ast.ClassDef) for node in nodes),
        "Any": sum(isinstance(node, ast.Name) and node.id == "Any" for node in nodes),
        "lines of a function": max(((node.end_lineno or 0) - node.lineno + 1 for node in functions), default=0),
        "parameters of a function": max((len(_arguments(node)) for node in functions), default=0),
    }


def test_the_package_does_not_grow() -> None:
    texts = [file.read_text() for file in (ROOT / "python/iocurve").rglob("*.py")]
    files = [_sizes(text) for text in texts]
    found = {name: (max if name.endswith("of a function") else sum)(file[name] for file in files) for name in files[0]}
    found["files"] = len(files)
    found["rooms that import a room"] = len(_room_imports())
    classes = ({one.name for one in ast.parse(text).body if isinstance(one, ast.ClassDef)} for text in texts)
    modules_with = Counter(name for names in classes for name in names)
    found["class names in two modules"] = sum(modules > 1 for modules in modules_with.values())
    assert {name: number for name, number in found.items() if number > AT_MOST[name]} == {}


def test_the_tests_do_not_grow() -> None:
    assert sum(file.read_text().count("\n") for file in (ROOT / "tests").rglob("*.py")) <= TEST_LINES_MAX


def test_workers_of_plans_are_made_by_job_resolve_alone() -> None:
    """Dialects, scenarios and measurements say what they want as sections of the job model."""
    package = ROOT / "python/iocurve"
    makers = {
        str(file.relative_to(package))
        for file in package.rglob("*.py")
        if "Worker" in (text := file.read_text())
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == "Worker"
    }
    assert {maker for maker in makers if not maker.startswith("job/resolve/")} == set()
    assert makers, "the test looks for the name by which workers are made"


def test_circles_of_rust_modules_do_not_grow() -> None:
    found = [circle for source in (ROOT / "crates").glob("*/src") for circle in circles(source)]
    assert sum(map(len, found)) <= RUST_FILES_IN_CIRCLES_MAX, found


def test_a_circle_of_rust_modules_is_found(tmp_path: Path) -> None:
    for name, text in json.loads(data("rust_circle.json")).items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert circles(tmp_path) == [{"one", "two"}]


def test_the_version_loads_nothing() -> None:
    modules = loaded("--version")
    assert rooms(modules) == {"iocurve.cli", "iocurve._native"}
    assert heavy(modules) == set()


@cases("cli/modules_of_texts")
def test_versions_and_help_load_no_more_than_they_print(words: list[str], printed: list[str]) -> None:
    modules = loaded(*words)
    always = {"iocurve.cli", "iocurve.cli.exits", "iocurve.dialects", "iocurve.dialects.registry"}
    assert {name for name in modules if name.startswith("iocurve.")} == always | {*printed}
    assert modules & {"msgspec", "inspect", "pathlib", "textwrap", "shutil"} == set()
    assert heavy(modules) == set()


@pytest.mark.slow
def test_explaining_a_job_loads_neither_a_command_parser_nor_what_measures(tmp_path: Path) -> None:
    modules = loaded("explain", "fio", "--name=t", "--size=64k", "--rw=write", cwd=tmp_path)
    assert heavy(modules) == set()
    assert rooms(modules) & {"iocurve.analysis", "iocurve.volume", "iocurve.cluster"} == set()
    assert {name for name in modules if name.startswith("iocurve.measure.")} == {"iocurve.measure.interrupts"}


@pytest.mark.slow
def test_a_fio_job_loads_neither_a_command_parser_nor_reports(tmp_path: Path) -> None:
    modules = loaded("fio", "--name=t", "--size=64k", "--rw=write", cwd=tmp_path)
    assert heavy(modules) == set()
    assert {name for name in modules if name.startswith("iocurve.dialects.")} & {
        "iocurve.dialects.vdbench",
        "iocurve.dialects.diskspd",
        "iocurve.dialects.native",
    } == set()

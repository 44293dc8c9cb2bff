"""The structure of the package: allowed imports, and the modules that a command loads before it does its work."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import iocurve

ROOT = Path(__file__).parent.parent
LISTING = """
import json, sys
from iocurve.cli import main
try:
    main(sys.argv[1:])
finally:
    print(json.dumps(sorted(sys.modules)), file=sys.stderr)
"""
HEAVY = {"altair", "vl_convert", "jinja2", "pydantic", "rich", "cyclopts", "tomllib", "tomli_w", "prometheus_client"}
"""Packages that most commands can do without."""


def loaded(*arguments: str, cwd: Path | None = None) -> set[str]:
    """Modules that a command has loaded when it ends."""
    ran = subprocess.run(
        [sys.executable, "-c", LISTING, *arguments], capture_output=True, text=True, timeout=60, cwd=cwd, check=False
    )
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
    ran = subprocess.run([linter, "--no-cache"], capture_output=True, text=True, timeout=60, cwd=ROOT, check=False)
    assert ran.returncode == 0, ran.stdout


def test_the_version_loads_nothing() -> None:
    modules = loaded("--version")
    assert rooms(modules) == {"iocurve.cli", "iocurve._native"}
    assert heavy(modules) == set()


def test_help_loads_no_command() -> None:
    modules = loaded("--help")
    assert rooms(modules) == {
        "iocurve.cli",
        "iocurve._native",
        "iocurve.errors",
        "iocurve.interrupts",
        "iocurve.units",
        "iocurve.dialects",
        "iocurve.result",
    }
    assert heavy(modules) == {"cyclopts", "rich"}


def test_a_fio_job_loads_neither_a_command_parser_nor_reports(tmp_path: Path) -> None:
    modules = loaded("fio", "--name=t", "--size=64k", "--rw=write", cwd=tmp_path)
    assert heavy(modules) == set()
    assert {name for name in modules if name.startswith("iocurve.dialects.")} & {
        "iocurve.dialects.vdbench",
        "iocurve.dialects.diskspd",
        "iocurve.dialects.native",
    } == set()


def test_public_names_exist() -> None:
    assert all(hasattr(iocurve, name) for name in iocurve.__all__)
    assert not hasattr(iocurve, "surprise")

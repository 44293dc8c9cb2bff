"""Commands about other tools' words and job files that run nothing: explain, convert, schema."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from cyclopts import App

from iocurve.cli import EXIT_MISTAKE
from iocurve.cli.common import Words
from iocurve.dialects.native.command import DIALECT as NATIVE
from iocurve.dialects.registry import REGISTRY, load
from iocurve.errors import TargetError
from iocurve.measure import jobs

CONVERT_HELP = f"""\
Usage: iocurve convert [-o FILE] {"|".join(REGISTRY)} [the tool's own options]

Writes the job as a TOML file that iocurve run takes; the plan stays the same. Without -o it goes to stdout."""

explain = App(name="explain", help="Print what would run, and the traps in it, without running it.")


@explain.default
def explain_job(job: Path, /) -> int:
    """Explain a job file (TOML).

    Parameters
    ----------
    job
        The file; docs/jobs.md describes it.
    """
    print(NATIVE.prepare([str(job)]).explain(), end="")
    return 0


def _explains(name: str) -> Callable[..., int]:
    def explain_words(*arguments: Words) -> int:
        print(load(name).prepare(arguments).explain(), end="")
        return 0

    return explain_words


for _name, _entry in REGISTRY.items():
    explain.command(_explains(_name), name=_name, help=f"Explain {_entry.runs}.", help_flags=[], version_flags=[])


def convert(*arguments: Words) -> int:
    """Write a fio, vdbench or DiskSpd job as a job file (TOML)."""
    words = list(arguments)
    path = None
    if words[:1] == ["-o"] and len(words) > 1:
        path, words = Path(words[1]), words[2:]
    if not words or words[0] not in REGISTRY:
        print(CONVERT_HELP)
        return 0 if words in ([], ["--help"], ["-h"]) else EXIT_MISTAKE
    _write(jobs.convert(load(words[0]).prepare(words[1:])), path)
    return 0


def print_schema() -> int:
    """Print the JSON schema of job files, for editors."""
    from iocurve.dialects.native.output.schema import schema_text

    print(schema_text(), end="")
    return 0


def _write(text: str, path: Path | None) -> None:
    """To a file or to stdout; a file that is there stays as it is. Raises ``TargetError``."""
    if path is None:
        sys.stdout.write(text)
        return
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise TargetError(f"{path} is there already; remove it, or choose another name") from None
    except OSError as error:
        raise TargetError(f"{path} cannot be written: {error.strerror}") from None

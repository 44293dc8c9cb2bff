"""``python -m bench.documents [--out DIRECTORY] [NAME…]``: runs the commands and writes the table of
docs/evidence/published.md.

A command whose directory has its result is not run again, so a run that was interrupted continues, and single commands
can be run by their names while the machine is quiet. Commands that have not run here keep their rows of the page.
"""

from __future__ import annotations

import argparse
import itertools
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from bench.documents.commands import COMMANDS, FILES, SCENARIOS, SERVED
from bench.documents.page import DONE, page
from iocurve import Volume

OUT = Path("target/documents")
PAGE = Path("docs/evidence/published.md")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs what has not run, and writes the page."""
    parser = argparse.ArgumentParser(prog="python -m bench.documents", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"commands to run: {', '.join(COMMANDS)}")
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--page-only", action="store_true", help="run nothing")
    parser.add_argument("--retries", type=int, help="times that scenarios measure disturbed points again")
    parser.add_argument("--seconds", type=float, default=3600, help="start no further command after this time")
    options = parser.parse_args(arguments)
    if unknown := set(options.names) - COMMANDS.keys():
        parser.error(f"there is no command {', '.join(unknown)}")
    end = time.monotonic() + (0 if options.page_only else options.seconds)
    for name in options.names or COMMANDS:
        if time.monotonic() < end:
            carry_out(name, options.out / name, options.retries)
    PAGE.write_text(page(options.out, PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    return 0


def carry_out(name: str, directory: Path, repeats: int | None = None) -> None:
    """Runs a command in a directory, unless it has run there; keeps stdout, the status and the time."""
    if (directory / DONE).is_file():
        return
    directory.mkdir(parents=True, exist_ok=True)
    for file, text in FILES.get(name, {}).items():
        (directory / file).write_text(text, encoding="utf-8")
    with ExitStack() as stack:
        places = {"{root}": str(Path.cwd())}
        if name in SERVED:
            profile, quota, settings = SERVED[name]
            places["{url}"] = stack.enter_context(Volume(profile, quota, **settings)).url
        words = COMMANDS[name] + (["--retries", str(repeats)] if repeats is not None and name in SCENARIOS else [])
        for place, text in places.items():
            words = [word.replace(place, text) for word in words]
        print(" ".join(["iocurve", *words]), flush=True)
        began = time.monotonic()
        parts = [list(part) for is_part, part in itertools.groupby(words, lambda word: word != "&&") if is_part]
        ended = [_run(directory, part) for part in parts]
    (directory / "stdout.txt").write_text(ended[-1].stdout, encoding="utf-8")
    status = ended[-1].returncode
    # The statuses of explain and doctor tell what they found; a measurement that was cut short is repeated.
    if status >= 0 and ("report" not in words or status == 0):
        facts = {"status": status, "seconds": round(time.monotonic() - began, 1), "day": time.strftime("%Y-%m-%d")}
        (directory / DONE).write_text(json.dumps(facts), encoding="utf-8")


def _run(directory: Path, words: list[str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "iocurve", *words]
    return subprocess.run(command, cwd=directory, stdout=subprocess.PIPE, text=True, check=False)


if __name__ == "__main__":
    raise SystemExit(main())

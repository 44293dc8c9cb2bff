"""``python -m bench.documents [--out DIRECTORY] [NAME…]``: runs the commands and writes the table of
docs/evidence/published.md.

A command whose directory has its result is not run again, so a run that was interrupted continues, and single commands
can be run by their names while the machine is quiet. The table has the commands that have run.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from bench.documents.commands import COMMANDS, FILES, SCENARIOS
from bench.documents.page import page

OUT = Path("target/documents")
PAGE = Path("docs/evidence/published.md")
DONE = "command.json"
"""The file in a command's directory that says that the command has ended, and how long it took."""


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
            carry_out(name, options.out / name, options.repeats)
    PAGE.write_text(page(options.out), encoding="utf-8")
    return 0


def carry_out(name: str, directory: Path, repeats: int | None = None) -> None:
    """Runs a command in a directory, unless it has run there; keeps stdout, the status and the time."""
    if (directory / DONE).is_file():
        return
    directory.mkdir(parents=True, exist_ok=True)
    for file, text in FILES.get(name, {}).items():
        (directory / file).write_text(text, encoding="utf-8")
    command = [word.format(root=Path.cwd()) for word in COMMANDS[name]]
    if repeats is not None and name in SCENARIOS:
        command += ["--retries", str(repeats)]
    print(" ".join(["iocurve", *command]), flush=True)
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "iocurve", *command], cwd=directory, stdout=subprocess.PIPE, text=True, check=False
    )
    (directory / "stdout.txt").write_text(done.stdout, encoding="utf-8")
    # The statuses of explain and doctor tell what they found; a measurement that was cut short is repeated.
    if done.returncode >= 0 and ("report" not in command or done.returncode == 0):
        facts = {"status": done.returncode, "seconds": round(time.monotonic() - began, 1)}
        (directory / DONE).write_text(json.dumps(facts), encoding="utf-8")


if __name__ == "__main__":
    raise SystemExit(main())

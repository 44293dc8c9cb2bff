"""``python -m bench.instructions``: instructions per operation of worker loop, volume and client, by callgrind.

Each row of ``crates/engine/examples/null_loop.rs`` and each kind of call of ``crates/volume/src/bin/serve_calls.rs``
and ``crates/engine/src/bin/client_calls.rs`` runs twice, with different numbers of operations. The difference in
instructions, divided by the difference in operations, is the cost of one operation: start-up cancels. Unlike times,
counts hardly depend on the machine's other load, so two builds can be compared to a fraction of a percent.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.machine import environment, save

CHECKOUT = Path(__file__).parents[1]
RESULTS = Path(__file__).parent / "results"
LOOP = ("--package=iocurve-engine", "--example=null_loop")
VOLUME = ("--package=iocurve-py", "--package=iocurve-volume", "--bin=serve_calls")
"""With the features of dependencies that the bindings have, so that their crates are not compiled a second time."""
CLIENT = ("--package=iocurve-py", "--package=iocurve-engine", "--bin=client_calls")
KINDS = ("read", "write", "getattr", "create", "list", "list-plus", "read4", "create4")
CLIENT_KINDS = tuple(f"{kind}{version}" for version in ("", "4") for kind in ("read", "write", "getattr", "create"))
VOLUME_ROWS = {f"volume-{kind}": kind for kind in KINDS}
"""Calls of NFSv3 that the volume serves from memory, 32 at a time: READ and WRITE of 4 KiB, CREATE and
REMOVE by turns, READDIR and READDIRPLUS of 4 KiB out of 1,000 names; and READ and CREATE of NFSv4.1."""
CLIENT_ROWS = {f"client-{kind}": kind for kind in CLIENT_KINDS}
"""The same calls as the NFS client makes them, 32 at a time, and its replies to them; CREATE without REMOVE."""
TIMEOUT_SECONDS = 1800
MEMORY = Path("/dev/shm")
"""Directory of the file of the row ``sync``, if it exists: it is in memory, so no disk is involved."""


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    try:
        document = measure(options)
    except (RuntimeError, OSError, subprocess.SubprocessError) as error:
        print(f"bench.instructions: {error}", file=sys.stderr)
        return 1
    print(f"Saved as {save(document, options.out, 'instructions-')}")
    return 0


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Counts all requested rows, and prints each as it is complete."""
    valgrind = shutil.which("valgrind")
    if valgrind is None:
        raise RuntimeError("valgrind is not installed; on Debian: apt-get install valgrind")
    loop = build(LOOP, options.checkout)
    rows = options.rows or [*_output([loop]).split(), *VOLUME_ROWS, *CLIENT_ROWS]
    programs = {
        row: (build(target, options.checkout), kind)
        for target, kinds in ((VOLUME, VOLUME_ROWS), (CLIENT, CLIENT_ROWS))
        for row, kind in kinds.items()
        if row in rows
    }
    document: dict[str, Any] = {
        **environment(),
        "commit": _commit(options.checkout),
        "operations": [options.operations, 2 * options.operations],
        "rows": [],
    }
    document["versions"]["valgrind"] = _output([valgrind, "--version"]).strip()
    for row in rows:
        with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as directory:
            program, *further = programs.get(row, (loop, row, f"{directory}/file"))
            few, many = (instructions(valgrind, program, times * options.operations, further) for times in (1, 2))
        per_operation = (many - few) / options.operations
        document["rows"].append({"row": row, "instructions": [few, many], "per_operation": per_operation})
        print(f"{row:12}  {per_operation:9.2f} instructions per operation", flush=True)
    return document


def worker_instructions(directory: Path) -> int:
    """Instructions of the last thread with a callgrind file.

    The worker is the last thread to start. Earlier threads calibrate the clock, which takes a number of instructions
    that depends on the machine's speed.
    """
    last = max(directory.glob("*-[0-9]*"), key=lambda path: int(path.name.rpartition("-")[2]))
    total = re.search(r"^totals: (\d+)$", last.read_text(), re.MULTILINE)
    if total is None:
        raise RuntimeError(f"{last} has no total; does this valgrind have callgrind?")
    return int(total[1])


def instructions(valgrind: str, program: str, operations: int, arguments: Sequence[str]) -> int:
    """Instructions that a program's last thread takes for a number of operations of a row, its start included.

    ``arguments`` are the row and what follows the number of operations. Raises ``RuntimeError``, ``OSError``.
    """
    row, *further = arguments
    with tempfile.TemporaryDirectory() as directory:
        counting = ("--tool=callgrind", "--separate-threads=yes", f"--callgrind-out-file={directory}/counts")
        _output([valgrind, "--quiet", *counting, program, row, str(operations), *further])
        return worker_instructions(Path(directory))


def build(target: Sequence[str], checkout: Path = CHECKOUT) -> str:
    """Builds ``LOOP`` or ``VOLUME``, and returns the path of its program. Raises ``RuntimeError``, ``OSError``."""
    command = ("cargo", "build", "--release", "--locked", "--quiet", *target, "--message-format=json")
    messages = _output(command, checkout).splitlines()
    built = [message["executable"] for message in map(json.loads, messages) if message.get("executable")]
    if not built:
        raise RuntimeError(f"cargo built no program in {checkout}: {' '.join(target)}")
    return str(built[-1])


def _commit(checkout: Path) -> str:
    return _output(["git", "describe", "--always", "--dirty"], checkout).strip()


def _output(command: Sequence[str], directory: Path = CHECKOUT) -> str:
    finished = subprocess.run(
        command, cwd=directory, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False
    )
    if finished.returncode != 0:
        raise RuntimeError(f"exit status {finished.returncode} from {command[0]}: {finished.stderr.strip()[-2000:]}")
    return finished.stdout


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.instructions", description=__doc__)
    parser.add_argument(
        "rows", nargs="*", help=f"rows of null_loop.rs, or {', '.join([*VOLUME_ROWS, *CLIENT_ROWS])}; default: all"
    )
    parser.add_argument("--operations", type=int, default=500_000, help="operations of the shorter run")
    parser.add_argument(
        "--checkout", type=Path, default=CHECKOUT, help="build there, e.g. in a worktree of another commit"
    )
    parser.add_argument("--out", type=Path, default=RESULTS, help="directory of the result")
    return parser


if __name__ == "__main__":
    sys.exit(main())
